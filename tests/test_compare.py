"""Comparing: verdicts on planted and on null changes, matching, the best as a set, the self-test, the command line."""

import io
import json
import math
import re
import shlex
import time

import numpy as np
import pytest
from rich.console import Console

import test_record
from conftest import ROOT, command, consistent, flat
from gravbench.errors import InputError
from gravbench.model.runs import RecordFile
from gravbench.model.work import Work
from gravbench.report.compared import comparison_json
from gravbench.report.terminal.choices import choices_json, render_choices
from gravbench.report.terminal.comparison import closing_sentence, comparison_markdown, render_comparison
from gravbench.report.terminal.selftest import render_selftest
from gravbench.verdicts import compare, ratios, selftest
from gravbench.verdicts.best import best
from gravbench.verdicts.compare import Run, Verdict
from gravbench.verdicts.question import Question
from gravbench.verdicts.ratios import Scatter
from gravbench.verdicts.reasons import Reason

GPU = "NVIDIA Imaginary 9000"
DEFAULTS = {
    "naive": {"p": 256},
    "tiled": {"p": 256, "unroll": 32},
    "split": {"p": 64, "q": 8},
}
QUIET = Scatter(fresh=True)
"""Of an anchor that was repeated in fresh processes, and scattered by nothing."""


def record(samples=None, **changes):
    """Make a record up; ``samples`` are its times, or their middle, around which ten of them lie by 0.1 %."""
    if samples is None or isinstance(samples, float):
        samples = (1.0 if samples is None else samples) * np.linspace(0.9995, 1.0005, 10)
    gpu = changes.get("toolkit", "cupy") != "cpu"
    fields = {
        "n": 1024,
        "device": GPU if gpu else "Imaginary CPU",
        "device_uuid": "GPU-1" if gpu else None,
        "driver": "600.1" if gpu else None,
        "error_max": 1e-6,
        "samples_seconds": list(map(float, samples)),
        "median_seconds": float(np.median(samples)) if len(samples) else None,
        "sm_clock_mhz": [1980] * len(samples) if gpu else [],
        "commit": "c0ffee",
    }
    return test_record.record(**(fields | changes))


def judged(base, new, scatter=QUIET, limit=0.02):
    return compare.judge(base, new, scatter, limit)


def shared(one):
    """Let two processes have taken the samples of a record in turns."""
    return one.model_copy(update={"processes": [1 + i % 2 for i in range(len(one.samples_seconds))]})


def compared(base, new, limit=0.02):
    return compare.compare_runs(Run("one", [*map(shared, base)]), Run("two", [*map(shared, new)]), limit)


def shown(comparison, width=80, **options):
    file = io.StringIO()
    render_comparison(comparison, Console(width=width, file=file), **options)
    return file.getvalue()


# Verdicts


@pytest.mark.parametrize(
    ("change", "verdict"),
    [(1.05, Verdict.SLOWER), (0.95, Verdict.FASTER), (1.01, Verdict.SAME), (1.02, Verdict.UNCLEAR)],
)
def test_a_planted_change_is_recognized(change, verdict):
    pair = judged(record(1.0), record(change))
    assert pair.verdict is verdict
    assert pair.interval.ratio == pytest.approx(change)
    assert pair.interval.low < change < pair.interval.high
    assert bool(pair.reasons) == (verdict is Verdict.UNCLEAR)


def test_swapping_the_two_swaps_the_verdict():
    generator = np.random.default_rng(5)
    swapped = {Verdict.SLOWER: Verdict.FASTER, Verdict.FASTER: Verdict.SLOWER}
    for change in (0.9, 0.97, 0.99, 1.0, 1.03, 1.2):
        one, two = (record(middle * np.exp(generator.normal(0, 0.004, 12))) for middle in (1.0, change))
        there, back = judged(one, two), judged(two, one)
        assert back.verdict is swapped.get(there.verdict, there.verdict)
        assert back.interval.low == pytest.approx(1 / there.interval.high)


@pytest.mark.parametrize("limit", [1e-6, 0.02])
@pytest.mark.parametrize("deviation", [0.002, 0.03, 0.1])
@pytest.mark.parametrize("samples", [7, 10, 40])
def test_noise_alone_is_called_a_change_in_less_than_one_case_in_a_hundred(limit, deviation, samples):
    generator = np.random.default_rng(12)
    pairs = 1000
    false = 0
    for _ in range(pairs):
        # With a tail, as interruptions make it.
        logs = generator.normal(0, deviation, (2, samples)) + deviation * generator.exponential(1, (2, samples))
        pair = judged(*(record(np.exp(own)) for own in logs), limit=limit)
        false += pair.verdict in (Verdict.SLOWER, Verdict.FASTER)
    assert false < pairs / 100


def test_the_interval_holds_the_true_ratio_as_often_as_it_says():
    generator = np.random.default_rng(3)
    held = 0
    for _ in range(1000):
        base, new = generator.lognormal(0, 0.02, 10), 1.1 * generator.lognormal(0, 0.02, 10)
        interval = judged(record(base), record(new)).interval
        held += interval.low <= 1.1 <= interval.high
    assert held >= 950


def test_a_change_between_runs_that_no_sample_shows_is_held_back_by_the_anchor():
    generator = np.random.default_rng(8)
    verdicts = {"quiet": 0, "anchored": 0, "alone": 0}
    for _ in range(300):
        runs = []
        for _ in range(2):
            middles = np.exp(generator.normal(0, 0.03, 7)).tolist()
            own = [record(middle, n=2048, anchor=i, processes=[i] * 10) for i, middle in enumerate(middles[1:], 1)]
            runs.append(Run("run", [*own, record(middles[0], processes=[1] * 10)]))
        cases = [run.records[-1] for run in runs]
        found = {
            "quiet": judged(*cases),
            "anchored": next(pair for pair in compare.compare_runs(*runs).pairs if pair.base.n == 1024),
            "alone": compare.compare_runs(*(Run("run", [one]) for one in cases)).pairs[0],
        }
        for name, pair in found.items():
            verdicts[name] += pair.verdict is not Verdict.UNCLEAR
    assert verdicts["quiet"] > 200
    assert verdicts["anchored"] <= 3
    assert verdicts["alone"] == 0


def scatter(*runs, of=None):
    """Return what the anchors of runs say of a record."""
    return ratios.Anchors(runs, ratios.places(runs)).of(of or record(1.0))


def test_the_scatter_of_an_anchor_is_pooled_over_its_repetitions_on_one_device_and_of_one_source():
    def anchors(*medians, **changes):
        return [record([median] * 10, anchor=i, **changes) for i, median in enumerate(medians, 1)]

    one = anchors(1.0, math.e, math.e**2)
    # Logarithms 0, 1, 2 about 1, and 0, 2 about 1: squares 2 and 2 over 2 + 1 degrees of freedom.
    assert scatter(one) == Scatter(pytest.approx(1.0), 2)
    assert scatter(one, anchors(1.0, math.e**2)) == Scatter(pytest.approx(math.sqrt(4 / 3)), 3)
    for other in ({"source_sha256": "0" * 64}, {"driver": "other"}, {"n": 64}):
        assert scatter(one + anchors(10.0, **other)) == scatter(one)
    assert scatter([*one, record(100.0)]) == scatter(one)
    assert scatter(one + anchors(100.0, status="invalid")) == scatter(one)
    on_cpu = record(1.0, toolkit="cpu")
    assert scatter(one, of=on_cpu) is None
    assert scatter(one + anchors(1.0, 2.0, toolkit="cpu"), of=on_cpu) is not None
    assert scatter(anchors(1.0)) is None


def test_each_kind_of_work_has_anchors_of_its_own():
    kinds = {
        Work.GPU: {},
        Work.HOST: {"toolkit": "cpu", "device": GPU},
        Work.BOTH: {"variant": "barnes_hut", "on_host": True},
    }
    runs = {
        work: [record([1.0 + i / 100] * 10, anchor=i, processes=[i] * 10, **kind) for i in range(1, 6)]
        for work, kind in kinds.items()
    }
    for work, kind in kinds.items():
        case = record(1.0, **kind)
        assert case.work is work
        assert {other for other, own in runs.items() if scatter(own, of=case)} == {work}
    assert record(1.0, timed="call").work is Work.BOTH
    assert record(1.0, stages_bytes={"upload": 1.0}).work is Work.BOTH, "an older record"
    assert record(1.0, toolkit="cpu", timed="call").work is Work.HOST


def test_the_scatter_between_two_anchors_is_interpolated_by_time_and_beyond_them_is_theirs():
    def anchors(middle, deviation, n):
        medians = [middle * math.exp(deviation * step) for step in (-1, 1, -1, 1, 0)]
        return [record([one] * 10, anchor=i, n=n, processes=[i] * 10) for i, one in enumerate(medians, 1)]

    run = anchors(1e-4, 0.1, 64) + anchors(1.0, 0.001, 128)
    found = [scatter(run, of=record(own)).deviation for own in (1e-6, 1e-4, 1e-2, 1.0, 100.0)]
    assert found == pytest.approx([0.1, 0.1, 0.01, 0.001, 0.001], rel=1e-6)


def numbers_of(records, **options):
    """Count what is as good and what is unclear at each n."""
    (found,) = best([records], DEFAULTS, **options)
    return {choice.n: (len(choice.as_good), len(choice.unclear)) for choice in found.choices}


@pytest.mark.parametrize(
    ("samples", "numbers"),
    [
        (np.linspace(1.00, 1.03, 10), (2, 0)),
        (np.linspace(1.01, 1.05, 10), (1, 1)),
        (np.linspace(1.03, 1.05, 10), (1, 0)),
    ],
)
def test_the_median_says_what_is_as_good_and_the_interval_what_is_unclear(samples, numbers):
    assert numbers_of([record([1.0] * 10), record(samples, variant="naive", axes={"p": 256})])[1024] == numbers


def test_what_the_anchor_scatters_makes_more_configurations_unclear():
    records = [record([1.0] * 10), record([1.1] * 10, variant="naive", axes={"p": 256})]
    assert numbers_of(records) == {1024: (1, 0)}
    anchors = [record([median] * 10, n=64, anchor=i) for i, median in enumerate((1.0, 1.1, 1.0, 1.1), 1)]
    assert numbers_of(records + anchors) == {64: (1, 0), 1024: (1, 1)}


def scattering(**changes):
    """Make up a simple variant six times as slow as the fastest, and an anchor whose two medians bound nothing."""
    own = {"toolkit": "cpu", "axes": {}} | changes
    records = [
        record(1.0, variant="numba_parallel", **own),
        record(1.3, variant="numba_symmetric", **own),
        record(6.0, variant="numpy_direct", **own),
    ]
    return records + [record(i, variant="numpy_direct", n=64, anchor=i, **(own | {"axes": {}})) for i in (1.0, 2.0)]


def printed(selections, width=80, **options):
    file = io.StringIO()
    render_choices(selections, Console(width=width, file=file), 0.02, **options)
    assert max(map(len, file.getvalue().splitlines())) <= width
    return file.getvalue()


def test_what_is_six_times_slower_is_never_recommended_and_unclear_is_said_to_be():
    defaults = {"numpy_direct": {}, "numba_symmetric": {}, "numba_parallel": {}}
    found = best([scattering()], defaults)
    choice = found[0].choices[1]
    assert (choice.chosen.variant, choice.behind) == ("numba_parallel", None)
    assert [(one.record.variant, one.interval.ratio) for one in choice.unclear] == [
        ("numba_symmetric", pytest.approx(1.3)),
        ("numpy_direct", pytest.approx(6.0)),
    ]
    assert all(one.interval.low < 1 < one.interval.high for one in choice.unclear)
    for width in (80, 200):
        text = printed(found, width)
        assert re.search(r"1,024 +\* +numba_parallel +cpu +UNCLEAR 2 +1,000 +1,000", text)
        said = flat(text)
        assert "n = 1,024, UNCLEAR: 2 configurations take 30 % (numba_symmetric cpu float32) to 500 %" in said
        assert "than the fastest, numba_parallel cpu float32 with 1,000 ms, but cannot be distinguished from it" in said
        summary = " ".join(printed(found, width, full=False).split())
        assert "UNCLEAR N: N others are slower by the median, up to 500 %, but cannot be" in summary
        assert "n = 1,024, UNCLEAR" not in summary
    (of_64, of_1024) = choices_json(found, 0.02)["selections"][0]["choices"]
    assert (of_64["unclear"], of_1024["behind"], of_1024["as_good"]) == ([], None, [])
    (near, far) = of_1024["unclear"]
    assert (near["variant"], far["variant"], far["ratio"]) == ("numba_symmetric", "numpy_direct", pytest.approx(6.0))
    assert 0 < far["low"] < 1 < far["high"]


def test_too_few_samples_bound_no_ratio():
    found = best([[record(1.0), record([0.9, 1.1, 1.2], variant="naive", axes={"p": 64})]], DEFAULTS)
    (unclear,) = found[0].choices[0].unclear
    assert not unclear.sure
    assert "there are too few samples to bound the time of it" in " ".join(printed(found).split())
    (one,) = choices_json(found, 0.02)["selections"][0]["choices"][0]["unclear"]
    assert (one["ratio"], one["low"], one["high"]) == (pytest.approx(1.1), None, None)
    found = best([[record(1.0, axes={"p": 64, "unroll": 8}), record([1.0, 1.01, 1.02])]], DEFAULTS)
    assert found[0].choices[0].chosen.axes == {"p": 256, "unroll": 32}
    assert "1.00 ± n/a" in printed(found, 200)
    assert choices_json(found, 0.02)["selections"][0]["choices"][0]["behind"]["low"] is None


def test_the_best_of_a_run_that_drifted_says_so():
    defaults = {"numpy_direct": {}, "numba_symmetric": {}, "numba_parallel": {}}
    found = best([[*scattering(), record(1.0)]], defaults)
    assert [len(one.drifts) for one in found] == [0, 1]
    text = printed(found)
    assert re.search(r"^Imaginary CPU,[^^]*\^$", text, re.MULTILINE)
    said = flat(text)
    assert said.count("^") == 2
    assert (
        "^ DRIFT above 1 %: the medians of the anchor of work on the host spread over 66.67 % in 2 measurements;"
        in said
    )
    gpu, cpu = choices_json(found, 0.02)["selections"]
    assert (gpu["drifts"], len(cpu["drifts"])) == ([], 1)
    assert cpu["drifts"][0]["spread"] == pytest.approx(2 / 3)


@pytest.mark.parametrize("between", [0.0, 0.02, 0.5])
def test_the_two_kinds_of_variation_add_as_the_sides_of_a_right_angle(between):
    base, new = (ratios.span(record(samples)) for samples in ([1.0] * 10, np.linspace(1.9, 2.2, 40)))
    own, wider = ratios.ratio(base, new, 0.0), ratios.ratio(base, new, between)
    for side in ("low", "high"):
        alone, both = (abs(math.log(getattr(one, side) / one.ratio)) for one in (own, wider))
        assert both == pytest.approx(math.hypot(alone, between))


def test_few_samples_bound_nothing_and_say_what_to_do():
    pair = judged(record([1.0, 1.0, 1.0]), record([2.0] * 6))
    assert (pair.verdict, pair.reasons) == (Verdict.UNCLEAR, (Reason.FEW,))
    assert not pair.interval.bounded
    assert judged(record([1.0] * 7), record([2.0] * 7)).verdict is Verdict.SLOWER
    assert "measure.budget_seconds" in Reason.FEW
    assert judged(record([]).model_copy(update={"median_seconds": 1.0}), record()).reasons == (Reason.FEW,)


def missed(samples, outside):
    """The probability that a median lies outside of all but ``outside`` - 1 samples on either side."""
    return 2 * sum(math.comb(samples, k) for k in range(outside)) / 2**samples


@pytest.mark.parametrize("samples", [6, 7, 8, 9, 10, 20, 39, 100])
def test_each_of_the_two_medians_is_missed_with_half_of_the_probability_of_the_ratio(samples):
    own = ratios.span(record(np.arange(1.0, samples + 1)))
    if samples < 7:
        assert not own.sure
        assert missed(samples, 1) > 0.025
        assert judged(record([1.0] * samples), record([2.0] * samples)).reasons == (Reason.FEW,)
        return
    assert own.sure
    outside = int(own.low)
    assert own.high == samples + 1 - outside
    assert missed(samples, outside) <= 0.025 < missed(samples, outside + 1)


@pytest.mark.parametrize("limit", [0.5, 0.25])
def test_an_interval_that_just_touches_the_threshold_is_on_this_side_of_it(limit):
    base, new = record([1.0] * 10), record([1 + limit] * 10)
    assert judged(base, new, limit=limit).verdict is Verdict.SAME
    assert judged(new, base, limit=limit).verdict is Verdict.SAME
    assert judged(base, record([1.001 + limit] * 10), limit=limit).verdict is Verdict.SLOWER
    assert judged(record([1.001 + limit] * 10), base, limit=limit).verdict is Verdict.FASTER


def test_what_just_touches_the_threshold_is_as_good_as_the_fastest():
    fastest = record([1.0] * 10)
    for second, as_good in ((1.5, 2), (1.501, 1)):
        other = record([second] * 10, variant="naive", axes={"p": 256})
        (found,) = best([[fastest, other]], DEFAULTS, threshold=0.5)
        assert len(found.choices[0].as_good) == as_good


def test_a_clock_that_fell_is_slower_in_seconds_and_the_same_in_cycles():
    pair = judged(record(1.0), record(1.1, sm_clock_mhz=[1800]))
    assert (pair.verdict, pair.in_cycles, pair.reasons) == (Verdict.SLOWER, Verdict.SAME, (Reason.CLOCK,))
    assert pair.cycles == pytest.approx(1.0)
    assert not pair.is_same
    pair = judged(record(1.0), record(1.1, sm_clock_mhz=[1980]))
    assert (pair.verdict, pair.in_cycles, pair.reasons) == (Verdict.SLOWER, Verdict.SLOWER, ())


def test_ten_per_cent_more_cycles_are_not_hidden_by_a_higher_clock():
    pair = judged(record(1.0, sm_clock_mhz=[1800]), record(1.0, sm_clock_mhz=[1980]))
    assert (pair.verdict, pair.in_cycles, pair.reasons) == (Verdict.SAME, Verdict.SLOWER, (Reason.CLOCK,))
    assert not pair.is_same
    for text in (shown(hidden := compared([record(sm_clock_mhz=[1800])], [record()])), comparison_markdown(hidden)):
        assert "1.100" in text
        assert "known for 1: 1 SLOWER" in flat(text)
        assert "SAME" in text


def test_what_one_process_measured_is_told_of_one_run_and_left_open_of_two():
    base, new = (record(middle, processes=[1] * 10) for middle in (1.0, 2.0))
    of_one = compare.judge(base, new, Scatter(), 0.02, one_run=True)
    assert (of_one.verdict, of_one.in_cycles, of_one.reasons) == (Verdict.SLOWER, Verdict.SLOWER, (Reason.WITHIN,))
    of_two = compare.judge(base, new, Scatter(), 0.02)
    assert (of_two.verdict, of_two.in_cycles, of_two.reasons) == (Verdict.UNCLEAR, Verdict.UNCLEAR, (Reason.ALONE,))
    other = new.model_copy(update={"processes": [2] * 10})
    assert compare.judge(base, other, Scatter(), 0.02, one_run=True).reasons == (Reason.ALONE,)
    # An anchor that one process repeated shows drift, and nothing of what processes differ by.
    assert compare.judge(base, new, Scatter(0.001, 5), 0.02).reasons == (Reason.ALONE,)


def test_on_a_cpu_an_anchor_does_not_stand_for_the_processes_of_other_kernels():
    """Beside seven busy processes, medians of a parallel kernel differed by a factor of 1,000, its anchor's by 2."""
    of_one, of_four = (
        [record(middle, toolkit="cpu", processes=processes) for middle in (1.0, 2.0)]
        for processes in ([1] * 10, [1, 1, 1, 2, 2, 3, 3, 4, 4, 4])
    )
    pair = judged(*of_one)
    assert (pair.verdict, pair.reasons) == (Verdict.UNCLEAR, (Reason.HOST,))
    assert compare.judge(*of_one, Scatter(), 0.02).reasons == (Reason.ALONE,)
    assert compare.judge(*of_one, QUIET, 0.02, one_run=True).verdict is Verdict.SLOWER
    assert judged(*of_four).verdict is Verdict.SLOWER
    assert judged(record(1.0, processes=[1] * 10), record(2.0, processes=[1] * 10)).verdict is Verdict.SLOWER


def run_with(anchors, **cases):
    """A run of the ratios ``cases`` to 1 s on a GPU alone (``gpu``) or with the host (``hybrid``), and its anchors.

    ``anchors`` has the scatter of the anchor of each kind of work that the run repeated.
    """
    kinds = {"gpu": {"variant": "naive"}, "hybrid": {"variant": "barnes_hut", "on_host": True}}
    numbers = iter(range(1, 100))
    records = [
        record(1.0 + anchors[kind] * step, n=64, anchor=i, processes=[next(numbers)] * 10, **kinds[kind])
        for kind in anchors
        for i, step in enumerate((-1.0, 1.0, 0.0, -1.0, 1.0), 1)
    ]
    records += [record(seconds, processes=[next(numbers)] * 10, **kinds[kind]) for kind, seconds in cases.items()]
    return Run(f"run with {', '.join(anchors)}", records)


@pytest.mark.parametrize(
    ("base", "new", "hybrid"),
    [
        ({"gpu": 1e-4, "hybrid": 1e-4}, {"gpu": 1e-4, "hybrid": 1e-4}, Verdict.SLOWER),
        ({"gpu": 1e-4, "hybrid": 0.3}, {"gpu": 1e-4, "hybrid": 0.3}, Verdict.UNCLEAR),
        ({"gpu": 1e-4}, {"gpu": 1e-4, "hybrid": 1e-4}, None),
        ({"gpu": 1e-4, "hybrid": 1e-4}, {"gpu": 1e-4}, None),
        ({"gpu": 1e-4}, {"gpu": 1e-4}, None),
    ],
)
def test_work_on_the_host_is_judged_by_anchors_of_such_work_in_both_runs(base, new, hybrid):
    runs = run_with(base, gpu=1.0, hybrid=1.0), run_with(new, gpu=1.2, hybrid=1.2)
    found = compare.compare_runs(*runs)
    pairs = {pair.base.work: pair for pair in found.pairs if pair.base.n == 1024}
    assert pairs[Work.GPU].verdict is Verdict.SLOWER
    text = " ".join(shown(found, 200).split())
    without = [run.name for run in runs if "hybrid" not in run.name]
    if hybrid is None:
        assert (pairs[Work.BOTH].verdict, pairs[Work.BOTH].reasons) == (Verdict.UNCLEAR, (Reason.NO_ANCHOR_OF_BOTH,))
        assert f"no anchor of work on the host and the GPU in {' and '.join(dict.fromkeys(without))}" in text
    else:
        assert pairs[Work.BOTH].verdict is hybrid
        assert "no anchor of" not in text


def both_of_one_process(anchors, ratio):
    """A run of GPU anchors that scatter by so much, and of a hybrid by two toolkits, measured by one process."""
    run = run_with({"gpu": anchors})
    kind = {"variant": "barnes_hut", "on_host": True, "processes": [50] * 10}
    return Run("run", [*run.records, record(1.0, **kind), record(ratio, toolkit="pycuda", **kind)])


@pytest.mark.parametrize(
    ("scatter", "verdict", "reasons"),
    [
        (0.001, Verdict.SLOWER, (Reason.WITHIN,)),
        (0.1, Verdict.UNCLEAR, (Reason.NO_ANCHOR_OF_BOTH, Reason.WITHIN)),
    ],
)
def test_within_one_run_other_anchors_widen_what_has_none_of_its_work(scatter, verdict, reasons):
    (found,) = compare.compare_values(both_of_one_process(scatter, 1.1), "toolkit", DEFAULTS)
    (pair,) = found.pairs
    assert (pair.verdict, pair.reasons, pair.narrow) == (verdict, reasons, True)
    sampled = ratios.ratio(ratios.span(pair.base), ratios.span(pair.new), 0.0)
    own, whole = (math.log(interval.high / interval.ratio) for interval in (sampled, pair.interval))
    # Student's t of four degrees of freedom is 2.776; the steps of -1, 1, 0, -1 and 1 deviate by 1.
    assert whole == pytest.approx(math.hypot(own, 2.776 * math.sqrt(2) * scatter), rel=0.01)
    for text in (shown(found, 200, everything=True), comparison_markdown(found, everything=True)):
        assert re.search(r"to \d\.\d+\* ", text)
        assert "lacks the scatter between processes of such work" in text
    assert comparison_json(found)["pairs"][0]["interval_includes_processes"] is False


def test_a_ratio_that_nothing_founds_is_marked_where_a_comparison_ends():
    found = compare.compare_runs(*(run_with({"gpu": 1e-3}, gpu=1.0, hybrid=ratio) for ratio in (1.0, 1.5)))
    assert re.search(
        r" is 1\.14 ± 0\.01\* times as fast as .* Case by case it is 1\.00 to 1\.50 ", closing_sentence(found)
    )
    lines = [line for line in shown(found, 200, everything=True).splitlines() if re.match("SAME|UNCLEAR", line)]
    assert [(line.split()[0], "*" in line) for line in lines] == [("UNCLEAR", True), ("SAME", False), ("SAME", False)]
    anchored = [run_with({"gpu": 1e-3, "hybrid": 1e-3}, gpu=1.0, hybrid=ratio) for ratio in (1.0, 1.5)]
    assert "*" not in shown(compare.compare_runs(*anchored), 200)


def two_runs(apart):
    """Two runs whose anchors hardly scatter, and lie ``apart`` by a ratio; a case in each, 5 % slower in the second."""
    return [
        [
            *(record(middle * (1 + i / 1e4), n=64, anchor=i, processes=[i] * 10) for i in range(1, 6)),
            record(seconds, axes={"p": p, "unroll": 32}, toolkit=toolkit, processes=[9] * 10),
        ]
        for middle, seconds, p, toolkit in ((1.0, 1.0, 64, "cupy"), (apart, 1.05, 64, "pycuda"))
    ]


def test_the_anchors_of_several_runs_scatter_around_the_mean_of_each():
    first, second = two_runs(apart=1.5)
    (apart,) = best([first, second], DEFAULTS)
    assert [choice.unclear for choice in apart.choices] == [[], []]
    (joined,) = best([[*first, *second]], DEFAULTS)
    assert len(joined.choices[1].unclear) == 1, "with one mean for both, they scatter by 20 %"
    both = Run("both", [*first, *second], (len(first), len(second)))
    (found,) = compare.compare_values(both, "toolkit", DEFAULTS)
    assert [pair.verdict for pair in found.pairs if pair.base.n == 1024] == [Verdict.SLOWER]
    (found,) = compare.compare_values(Run("both", both.records), "toolkit", DEFAULTS)
    assert [pair.verdict for pair in found.pairs if pair.base.n == 1024] == [Verdict.UNCLEAR]


def test_the_commands_that_read_several_runs_keep_them_apart(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, records in zip(("first", "second"), two_runs(apart=1.5), strict=True):
        for one in records:
            RecordFile(tmp_path / name).append(consistent(one))
    code, text = command("best", "first", "second", "--json")
    assert code == 0, text
    (choice,) = [choice for choice in json.loads(text)["selections"][0]["choices"] if choice["n"] == 1024]
    assert choice["unclear"] == []
    _, text = command("compare", "first", "second", "--by", "toolkit", "--json")
    assert [pair["verdict"] for pair in json.loads(text)["comparisons"][0]["pairs"]] == ["SLOWER"]


@pytest.mark.parametrize(("anchors", "included"), [({"gpu": 0.01}, False), ({"gpu": 0.01, "hybrid": 0.1}, True)])
def test_the_best_says_to_programs_whether_a_bound_includes_processes(anchors, included):
    run = run_with(anchors, hybrid=1.0)
    run.records.append(record(1.05, variant="barnes_hut", on_host=True, axes={"p": 64}, processes=[60] * 10))
    made = choices_json(best([run.records], DEFAULTS), 0.02)
    (choice,) = [choice for choice in made["selections"][0]["choices"] if choice["n"] == 1024]
    (unclear,) = choice["unclear"]
    assert unclear["interval_includes_processes"] is included


def test_several_processes_of_a_case_say_what_no_anchor_says():
    runs = run_with({"gpu": 1e-4}, gpu=1.0), run_with({"gpu": 1e-4}, gpu=1.0)
    samples = np.concatenate([np.linspace(0.9995, 1.0005, 5) for _ in range(4)])
    for run, seconds in zip(runs, (1.0, 1.2), strict=True):
        processes = np.repeat(range(50, 54), 5).tolist()
        run.records.append(record(seconds * samples, variant="barnes_hut", on_host=True, processes=processes))
    pairs = {pair.base.work: pair for pair in compare.compare_runs(*runs).pairs}
    assert pairs[Work.BOTH].verdict is Verdict.SLOWER


def test_unchanged_code_is_not_called_slower_or_faster_between_two_cards():
    """The comparison that README gives: two H100s ran the same kernels; very short launches differ by card."""
    runs = [Run(name, RecordFile(ROOT / "reports" / "h100" / name).read()) for name in ("fastest", "ladder")]
    found = compare.compare_runs(*runs)
    changed = [pair.base for pair in found.pairs if pair.verdict in (Verdict.SLOWER, Verdict.FASTER)]
    assert {(one.variant, one.n) for one in changed} == {("symmetric", 1024), ("tensor", 1024)}
    assert len(changed) == 2
    assert all(one.median_seconds < 5e-5 for one in changed)
    assert found.counts[Verdict.SAME] > 10
    hybrids = [pair for pair in found.pairs if pair.base.work is Work.BOTH]
    assert hybrids
    assert all(pair.verdict is Verdict.UNCLEAR for pair in hybrids)


def test_two_runs_put_together_are_not_taken_for_one():
    both = [record(toolkit=toolkit, processes=[1] * 10) for toolkit in ("cupy", "pycuda")]
    for lengths, verdict in (((2,), Verdict.SAME), ((1, 1), Verdict.UNCLEAR)):
        (found,) = compare.compare_values(Run("run", both, lengths), "toolkit", DEFAULTS)
        assert found.pairs[0].verdict is verdict


def test_processes_that_differ_hold_a_verdict_back_and_are_named():
    def of(*middles):
        samples = np.concatenate([middle * np.linspace(0.9995, 1.0005, 5) for middle in middles])
        return record(samples, processes=np.repeat(range(1, 5), 5).tolist())

    near, far = of(1.0, 1.001, 0.999, 1.0), of(0.9, 1.1, 0.95, 1.05)
    changed = of(1.1, 1.101, 1.099, 1.1)
    assert judged(near, changed, Scatter()).verdict is Verdict.SLOWER
    assert judged(near, near, Scatter()).verdict is Verdict.SAME
    pair = judged(near, far, Scatter())
    assert (pair.verdict, pair.reasons) == (Verdict.UNCLEAR, (Reason.PROCESSES,))


def test_samples_that_depend_on_each_other_count_for_fewer():
    generator = np.random.default_rng(2)
    walk = np.exp(0.01 * np.cumsum(generator.normal(0, 1, 60)))
    shuffled = generator.permutation(walk)
    spans = [ratios.span(record(samples, processes=[1] * 60)) for samples in (walk, shuffled)]
    assert spans[0].high - spans[0].low > 2 * (spans[1].high - spans[1].low)
    # A record of before, which does not tell the process, is judged as it was then.
    assert ratios.span(record(walk)) == ratios.span(record(shuffled))
    steps = record([1.0] * 6 + [1.1] * 6, processes=[1] * 12)
    assert not ratios.span(steps).sure or ratios.span(steps).low < 0.9


def test_the_noisiest_anchor_counts_where_anchors_differ_and_all_where_they_do_not():
    def anchors(first, *medians, n):
        return [record([one] * 10, anchor=i, n=n, processes=[first + i]) for i, one in enumerate(medians, 1)]

    alike = anchors(0, 1.0, 1.01, 0.99, 1.0, n=64) + anchors(0, 1.01, 1.0, 1.0, 0.99, n=128)
    noisy = alike + anchors(0, 1.0, 1.5, 0.7, 1.0, 1.2, n=256)
    pooled, worst = scatter(alike), scatter(noisy)
    assert (pooled.freedom, pooled.fresh) == (6, True)
    assert (worst.freedom, worst.fresh) == (4, True)
    assert worst.deviation > 10 * pooled.deviation
    # Repeated in one process they are no evidence.
    assert not scatter([one.model_copy(update={"processes": [1] * 10}) for one in alike]).fresh
    # A second repetition by one process adds nothing to what is known of others.
    twice = [one.model_copy(update={"processes": [one.anchor % 2] * 10}) for one in alike]
    assert (scatter(twice).freedom, scatter(twice).fresh) == (2, True)


def test_an_unknown_clock_is_told_and_seconds_decide():
    pair = judged(record(1.0, sm_clock_mhz=[]), record(1.1, sm_clock_mhz=[]))
    assert (pair.verdict, pair.reasons, pair.cycles) == (Verdict.SLOWER, (Reason.NO_CLOCK,), None)


def test_throttling_launches_and_drift_are_named():
    wide = 1.0 + 0.06 * np.linspace(-1, 1, 10)
    assert judged(record(wide), record(wide)).reasons == (Reason.WIDE,)
    assert judged(record(wide, throttled=True), record(wide)).reasons == (Reason.WIDE, Reason.THROTTLED)
    assert judged(record(wide), record(wide, launch_bound=True)).reasons == (Reason.WIDE, Reason.LAUNCH)
    assert judged(record(), record(), Scatter(0.05, 5, fresh=True)).reasons == (Reason.DRIFT,)


# Matching


def test_cases_are_matched_by_what_they_are_and_not_by_their_order():
    base = [record(float(n), n=n) for n in (1, 2, 3)]
    new = [record(1.1 * n, n=n) for n in (3, 1, 2)]
    pairs = compared(base, new).pairs
    assert [pair.base.n for pair in pairs] == [pair.new.n for pair in pairs] == [1, 2, 3]
    assert [pair.interval.ratio for pair in pairs] == pytest.approx([1.1] * 3)


def test_two_cards_of_one_model_are_compared_unless_a_run_has_both():
    other = record(1.1, device_uuid="GPU-2")
    assert len(compared([record()], [other]).pairs) == 1
    (pair,) = compared([record()], [record(), other]).pairs
    assert pair.new.device_uuid == "GPU-1"


def test_what_has_no_partner_and_what_is_not_ok_is_listed_and_never_compared():
    failed = record([], n=16, status="failed", reason="made up")
    found = compared([record(), record(n=8), record(n=16)], [record(), record(n=4), failed])
    assert [pair.base.n for pair in found.pairs] == [1024]
    assert [one.n for one in found.only_base] == [8]
    assert [one.n for one in found.only_new] == [4]
    assert [one.n for one in found.not_ok_new] == [16]
    for text in (shown(found), comparison_markdown(found)):
        for words in ("only in BASE (one), 1 case", "only in NEW (two), 1 case", "not ok in NEW, failed: made up"):
            assert words in text


def test_values_of_a_field_are_compared_with_the_first_in_the_order_of_the_harness():
    records = [
        record(middle, toolkit=toolkit, n=n)
        for toolkit, middle in (("numba", 3.0), ("pycuda", 2.0), ("cupy", 1.0))
        for n in (1, 2)
    ]
    found = compare.compare_values(Run("run", records), "toolkit", DEFAULTS)
    assert [(one.base, one.new) for one in found] == [
        ("toolkit cupy", "toolkit pycuda"),
        ("toolkit cupy", "toolkit numba"),
    ]
    assert [round(one.mean.ratio, 6) for one in found] == [2.0, 3.0]
    (chosen,) = compare.compare_values(Run("run", records), "toolkit", DEFAULTS, ["numba", "pycuda"])
    assert (chosen.base, chosen.new) == ("toolkit numba", "toolkit pycuda")


def test_an_axis_a_number_type_a_device_and_a_variant_can_be_compared():
    axes = [record(float(p), axes={"p": p, "unroll": u}) for p in (128, 64) for u in (1, 8)]
    (by_axis,) = compare.compare_values(Run("run", axes), "p", DEFAULTS)
    assert (by_axis.base, len(by_axis.pairs), by_axis.mean.ratio) == ("p 64", 2, pytest.approx(2))
    types = [record(), record(2.0, dtype="float64")]
    assert compare.compare_values(Run("run", types), "dtype", DEFAULTS)[0].mean.ratio == pytest.approx(2)
    devices = [record(), record(2.0, device="Other", device_uuid="GPU-7")]
    (by_device,) = compare.compare_values(Run("run", devices), "device", DEFAULTS)
    assert by_device.pairs[0].reasons == (Reason.WITHIN, Reason.DEVICES)
    # split's default is p = 64: at their defaults, and both at p = 128.
    variants = [
        record(middle, variant=name, axes=axes)
        for name, middle, axes in (
            ("naive", 4.0, {"p": 256}), ("naive", 8.0, {"p": 128}),
            ("split", 1.0, {"p": 64, "q": 8}), ("split", 2.0, {"p": 128, "q": 8}), ("split", 1.0, {"p": 64, "q": 4}),
        )
    ]  # fmt: skip
    (by_variant,) = compare.compare_values(Run("run", variants), "variant", DEFAULTS)
    assert (by_variant.base, len(by_variant.pairs), by_variant.mean.ratio) == ("variant naive", 2, pytest.approx(0.25))


@pytest.mark.parametrize(
    ("by", "values", "words"),
    [
        ("tolkit", [], "did you mean toolkit?"),
        ("toolkit", [], "there is only one"),
        ("unroll", ["8"], "has no such unroll"),
        ("unroll", ["32"], "--values names only one"),
    ],
)
def test_a_field_or_value_that_is_not_there_is_answered(by, values, words):
    with pytest.raises(InputError, match=re.escape(words)):
        compare.compare_values(Run("run", [record()]), by, DEFAULTS, values)


@pytest.mark.parametrize("text", ["2%", "2 %", "0.02", " 2.0 % "])
def test_a_threshold_is_a_part_or_a_per_cent(text):
    assert compare.threshold(text) == pytest.approx(0.02)


@pytest.mark.parametrize("text", ["", "%", "two", "2", "-1%", "0", "nan", "inf%", "100%"])
def test_another_threshold_is_an_error(text):
    with pytest.raises(InputError, match="accepted: a part such as"):
        compare.threshold(text)


# Output


@pytest.mark.parametrize("width", [80, 200])
def test_the_table_fits_and_is_latin_1(width):
    base = [record(n=2**k, axes={"p": 256, "unroll": u}, variant=v) for k in range(4, 9) for u in (1, 8)
            for v in ("tiled", "approximate_global")]  # fmt: skip
    new = [one.model_copy(update={"samples_seconds": [1.3 * s for s in one.samples_seconds], "median_seconds": 1.3,
           "sm_clock_mhz": []}) for one in base]  # fmt: skip
    text = shown(compared(base, new), width)
    assert max(map(len, text.splitlines())) <= width
    # Rich itself draws the rules, as in every report.
    text.replace("─", "-").encode("latin-1")
    assert "…" not in text
    assert "20 cases: 20 SLOWER, 0 FASTER, 0 UNCLEAR, 0 SAME; geometric mean of NEW/BASE 1.300" in " ".join(
        text.split()
    )
    assert f"a: {Reason.NO_CLOCK}" in flat(text)


def test_of_many_alike_the_first_are_shown_and_the_rest_is_counted():
    base, new = ([record(middle, n=n) for n in range(1, 101)] for middle in (1.0, 1.5))
    text = shown(compared(base, new))
    assert text.splitlines()[1].startswith("In the geometric mean of 100 cases, ")
    assert "not shown: 60 more SLOWER; --all shows them" in text
    assert len(re.findall(r"^SLOWER ", text, re.M)) == 40
    text = shown(compared(base, new), everything=True)
    assert "not shown" not in text
    assert len(re.findall(r"^SLOWER ", text, re.M)) == 100


def test_markdown_has_a_row_for_each_case_that_changed():
    found = compared([record(n=n) for n in (1, 2)], [record(n=1), record(1.5, n=2)])
    text = comparison_markdown(found)
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert rows[2:] == ["| SLOWER | tiled n=2 | 1.500 | 1.499 to 1.501 | 1.500 | SLOWER | 1,000 | 1,500 |"]
    assert (
        len({line.count("|") for line in rows + [line for line in text.splitlines() if line.startswith("| ---")]}) == 1
    )
    assert len([line for line in comparison_markdown(found, everything=True).splitlines() if "| tiled" in line]) == 2


# The best


def test_the_best_is_all_that_cannot_be_told_from_the_fastest_the_simplest_first():
    records = [
        record(1.0, axes={"p": 64, "unroll": 8}),
        record(1.01, axes={"p": 64, "unroll": 32}),
        record(1.015, axes={"p": 256, "unroll": 32}),
        record(1.012, toolkit="pycuda"),
        record(1.5, variant="naive", axes={"p": 256}),
    ]
    for order in (records, records[::-1]):
        ((choice,),) = (one.choices for one in best([order], DEFAULTS))
        assert [(one.toolkit, *one.axes.values()) for one in choice.as_good] == [
            ("cupy", 256, 32), ("pycuda", 256, 32), ("cupy", 64, 32), ("cupy", 64, 8),
        ]  # fmt: skip
        assert (choice.fastest.axes, choice.compared) == ({"p": 64, "unroll": 8}, 5)
        assert choice.behind.interval.ratio == pytest.approx(1.015)


def test_the_best_does_not_flicker_with_noise():
    generator = np.random.default_rng(4)
    chosen = set()
    for _ in range(50):
        records = [
            record(np.exp(generator.normal(0, 0.003, 10)), axes={"p": p, "unroll": 32}) for p in (64, 128, 256, 512)
        ]
        chosen.add(best([records], DEFAULTS)[0].choices[0].chosen.axes["p"])
    assert chosen == {256}


def test_the_best_is_right_enough_for_its_device_and_changes_are_marked():
    records = [
        record(1.0, variant="split", axes={"p": 64, "q": 8}, n=64),
        record(2.0, n=64),
        record(2.0, variant="split", axes={"p": 64, "q": 8}, n=128),
        record(1.0, n=128),
        record(1.0, n=256),
        record(0.1, variant="rough", axes={}, n=256, error_max=0.1),
        record(0.1, variant="blind", axes={}, n=256, error_max=None),
        record(3.0, toolkit="cpu", variant="numba_parallel", axes={}, n=64),
    ]
    gpu, cpu = best([records], DEFAULTS)
    assert [(one.n, one.chosen.variant, one.changed) for one in gpu.choices] == [
        (64, "split", False),
        (128, "tiled", True),
        (256, "tiled", False),
    ]
    assert cpu.device == "Imaginary CPU"
    assert best([records], DEFAULTS, Question(error=1.0))[0].choices[2].chosen.variant == "rough"
    assert [one.device for one in best([records], DEFAULTS, device="cpu")] == ["Imaginary CPU"]
    assert [one.device for one in best([records], DEFAULTS, device="imaginary 9")] == [GPU]
    with pytest.raises(InputError, match="--device tpu"):
        best([records], DEFAULTS, device="tpu")
    with pytest.raises(InputError, match="the smallest error of 99 % of the bodies is 1"):
        best([records], DEFAULTS, Question(error=1e-9))
    for width in (80, 200):
        file = io.StringIO()
        render_choices([gpu, cpu], Console(width=width, file=file), 0.02, everything=True)
        assert max(map(len, file.getvalue().splitlines())) <= width
        assert re.search(r"128 +\* +tiled +cupy", file.getvalue())
        file = io.StringIO()
        render_choices([cpu], Console(width=width, file=file), 0.02)
        assert re.search(r"ties +of$", file.getvalue(), re.MULTILINE), file.getvalue()
    assert json.loads(json.dumps(choices_json([gpu, cpu], 0.02)))["selections"][0]["choices"][1]["changed"]


def test_few_samples_that_all_lie_above_are_not_even_unclear():
    records = [record(1.0), record([100.0] * 3, variant="naive", axes={"p": 256})]
    assert numbers_of(records) == {1024: (1, 0)}
    records.append(record([0.99, 1.1, 1.2], variant="naive", axes={"p": 64}))
    assert numbers_of(records) == {1024: (1, 1)}


# The self-test


def test_rounds_are_judged_in_pairs_that_share_no_round():
    rounds = [Run(f"round-{i}", [shared(record(middle))]) for i, middle in enumerate((1.0, 1.0, 1.0, 1.1, 5.0), 1)]
    found = selftest.judge_rounds(rounds, 0.02)
    assert [(one.base, one.new) for one in found.comparisons] == [("round-1", "round-2"), ("round-3", "round-4")]
    assert (found.false, found.rate, len(found.cases)) == (1, 0.5, 1)
    assert 0.5 < found.rate_bound < 1
    assert found.cases[0].difference == pytest.approx(0.1)
    assert 0.09 < found.quiet_threshold < 0.1
    assert selftest.judge_rounds(rounds, found.quiet_threshold).false == 0
    assert 0 < found.half_widths[0] < 0.002
    file = io.StringIO()
    render_selftest(found, Console(width=80, file=file))
    assert max(map(len, file.getvalue().splitlines())) <= 80
    assert "False alarms, in seconds or in clock cycles: 1 of 2, 50 %" in file.getvalue()
    assert re.search(r"shows if it exceeds the threshold by 0\.\d+ % in", " ".join(file.getvalue().split()))
    assert "round 5 has no partner" in file.getvalue()


def test_of_many_cases_of_a_self_test_those_with_the_widest_intervals_are_shown():
    cases = [record(n=n) for n in range(1, 51)]
    found = selftest.judge_rounds([Run(name, [*map(shared, cases)]) for name in ("one", "two")], 0.02)
    for everything, rows in ((False, 40), (True, 50)):
        file = io.StringIO()
        render_selftest(found, Console(width=80, file=file), everything=everything)
        assert len(re.findall(r"^.*\bn=\d+ ", file.getvalue(), re.M)) == rows
        assert ("not shown: 10 with narrower intervals" in file.getvalue()) is not everything


# The command line


@pytest.fixture
def runs(tmp_path):
    """Folders of made-up runs: one, the same 5 % slower, and one that shares nothing."""
    for name, middle, n in (("one", 1.0, 64), ("same", 1.0, 64), ("slow", 1.05, 64), ("other", 1.0, 32),
                            ("faster-clock", 1.0, 64), ("no-clock", 1.0, 64)):  # fmt: skip
        clock = {"faster-clock": {"sm_clock_mhz": [2178]}, "no-clock": {"sm_clock_mhz": []}}.get(name, {})
        store = RecordFile(tmp_path / name)
        for toolkit in ("cupy", "pycuda"):
            own = record(middle * (1 + (toolkit == "pycuda")), n=n, toolkit=toolkit, commit=name, **clock)
            store.append(consistent(shared(own)))
    return tmp_path


@pytest.mark.parametrize(
    ("new", "options", "code"),
    [
        ("slow", ["--fail-on", "slower"], 1),
        ("slow", [], 0),
        ("slow", ["--fail-on", "slower", "--threshold", "10 %"], 0),
        ("same", ["--fail-on", "slower"], 0),
        ("other", ["--fail-on", "slower"], 1),
        ("other", [], 0),
        ("slow", ["--fail-on", "slower", "--json"], 1),
        ("slow", ["--fail-on", "slower-cycles"], 1),
        ("same", ["--fail-on", "slower-cycles", "--fail-on", "slower"], 0),
        ("faster-clock", ["--fail-on", "slower"], 0),
        ("faster-clock", ["--fail-on", "slower-cycles"], 1),
        ("faster-clock", ["--fail-on", "slower", "--fail-on", "slower-cycles"], 1),
        ("no-clock", ["--fail-on", "slower"], 0),
        ("no-clock", ["--fail-on", "slower-cycles"], 1),
    ],
)
def test_fail_on_decides_the_exit_code(runs, new, options, code):
    assert command("compare", str(runs / "one"), str(runs / new), *options)[0] == code


def test_json_and_markdown_of_the_command(runs):
    code, text = command("compare", str(runs / "one"), str(runs / "slow"), "--json")
    (found,) = json.loads(text)["comparisons"]
    assert (code, found["counts"]["SLOWER"], len(found["pairs"])) == (0, 2, 2)
    assert found["pairs"][0]["low"] > 1.02
    assert found["pairs"][0]["verdict_in_cycles"] == "SLOWER"
    assert found["counts_in_cycles"]["SLOWER"] == 2
    assert json.loads(command("compare", str(runs / "one"), "--by", "toolkit", "--json")[1])["comparisons"]
    code, text = command("compare", str(runs / "one"), str(runs / "slow"), "--markdown")
    assert text.count("\n| SLOWER |") == 2
    code, text = command("best", str(runs / "one"), "--json")
    assert json.loads(text)["selections"][0]["choices"][0]["use"]["toolkit"] == "cupy"


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["one"], "needs two runs"),
        (["one", "missing"], "no such run"),
        (["one", "same", "--threshold", "much"], "--threshold much"),
        (["one", "same", "--values", "cupy"], "--values needs --by"),
        (["one", "same", "--json", "--markdown"], "cannot be combined"),
        (["one", "--by", "color"], "--by color: no such field"),
        (["one", "one"], "compare one one: both have the same records; accepted: two runs, or one and --by FIELD"),
        (["one", "one", "--by", "variant"], "compare one one: both have the same records; accepted: two runs"),
    ],
)
def test_what_a_person_does_wrong_is_one_sentence(runs, words, answer, monkeypatch):
    monkeypatch.chdir(runs)
    code, text = command("compare", *words)
    assert code == 2
    assert answer in text
    assert "\n" not in text


def test_ten_thousand_records_take_seconds(tmp_path):
    generator = np.random.default_rng(1)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        with (tmp_path / name / "records.jsonl").open("w") as file:
            for n in range(1, 5001):
                samples = np.exp(generator.normal(0, 0.02, 10)).tolist()
                file.write(record(samples, n=n).model_dump_json() + "\n")
    began = time.process_time()
    code, text = command("compare", str(tmp_path / "one"), str(tmp_path / "two"))
    assert code == 0
    assert "5,000 cases" in text
    # Under two seconds where this was written; a loop over pairs of records would take minutes.
    assert time.process_time() - began < 30


TINY = """
n: [16, 20]
measure: {budget_seconds: 0.05, warm_up_seconds: 0.01, min_samples: 8, timeout_seconds: 600, processes: 2}
variants: numpy_direct
"""


@pytest.mark.slow
def test_the_selftest_measures_on_the_cpu_and_can_be_judged_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.yaml").write_text(TINY, "utf-8")
    code, text = command("selftest", "tiny.yaml", "--device", "cpu", "--pairs", "1", "--out", "rounds")
    assert code == 0, text
    assert "2 pairs of 2 cases compared with themselves" in text
    assert sorted(path.name for path in (tmp_path / "rounds").iterdir()) == ["round-1", "round-2"]
    code, again = command("selftest", "--from", "rounds", "--json")
    found = json.loads(again)
    assert (code, found["pairs"], found["rounds"], sum(found["counts"].values())) == (0, 2, 2, 2)
    assert command("compare", "rounds/round-1", "rounds/round-2")[0] == 0
    for words, answer in (
        (["tiny.yaml", "--out", "rounds"], "it already has rounds"),
        (["tiny.yaml", "--from", "rounds"], "cannot be combined with CONFIG"),
        (["--from", "nowhere"], "--from nowhere: no such folder"),
        (["--from", "."], "it has 0 rounds"),
    ):
        code, text = command("selftest", *words)
        assert code == 2
        assert answer in text


DOCUMENT = "\n".join(
    (ROOT / "docs" / name).read_text("utf-8")
    for name in ("explanation/comparing.md", "how-to/compare.md", "how-to/choose.md")
)


@pytest.mark.parametrize("name", ["selftest", "selftest-2"])
def test_the_selftest_of_an_h200_has_no_more_false_alarms_than_the_document_says(name):
    found = selftest.judge_rounds(selftest.read_rounds(ROOT / "reports" / "h200" / name), compare.THRESHOLD)
    assert len(found.pairs) >= 200
    assert found.rate <= 0.01
    said = flat(DOCUMENT)
    assert f"one of {len(found.pairs)} pairs of {len(found.cases)} cases was a false alarm" in said
    assert "both times SLOWER, of `symmetric` at N = 4,096" in said
    counts = found.counts
    assert (counts[Verdict.SLOWER], counts[Verdict.FASTER]) == (1, 0)
    (alarm,) = (pair for pair in found.pairs if pair.verdict == Verdict.SLOWER)
    assert (alarm.base.variant, alarm.base.n) == ("symmetric", 4096)
    spread = max(case.difference for case in found.cases)
    shares = " | ".join(f"{100 * share:.3g} %" for share in (found.rate_bound, *found.half_widths, spread))
    assert f"/{name}) | {counts[Verdict.SAME]} | {counts[Verdict.UNCLEAR]} | 1 | {shares} |" in said


EXAMPLES = re.findall(r"^gravbench (?:compare|best) h[12]00.*?(?=\s*(?:#|$))", DOCUMENT, re.MULTILINE)


def test_the_document_has_examples():
    assert len(EXAMPLES) >= 6


@pytest.mark.parametrize("line", EXAMPLES)
def test_the_examples_of_the_document_work(line, monkeypatch):
    monkeypatch.chdir(ROOT)
    code, text = command(*shlex.split(line)[1:])
    assert code == 0, text


def test_the_document_explains_the_letters_of_reasons_that_its_table_has():
    text = flat(DOCUMENT)
    printed = re.search(r"<!-- printed: .*? -->\n(.*?)<!-- end of printed -->", DOCUMENT, re.DOTALL).group(1)
    reasons = dict(re.findall(r"^- ([a-z]): (.*)$", printed, re.MULTILINE))
    explained = re.findall(r'reason ([a-z]), "([^"]+)"', text)
    assert {letter for letter, _ in explained} == set(reasons)
    assert len(explained) == len(re.findall(r"reason [a-z]\b", text))  # none without the words of the table
    for letter, words in explained:
        assert reasons[letter].startswith(words)
