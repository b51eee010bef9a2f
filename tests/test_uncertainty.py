"""What is printed after ± is true: repetitions of a case lie inside it, over all committed runs."""

import csv
import io
import math
import statistics
from collections import Counter

import pytest
from rich.console import Console

from conftest import ROOT
from gravbench.model.runs import RecordFile
from gravbench.model.work import Work
from gravbench.report import export
from gravbench.report.page import columns
from gravbench.report.reported import report_json
from gravbench.report.sections.content import Content
from gravbench.verdicts.ranking import is_ranked, repetitions, seconds
from gravbench.verdicts.ratios import ALIKE_IN_TIME
from gravbench.verdicts.uncertainty import SAMPLES_ALONE, Uncertainties
from printed_sections import ladder_markdown, render
from test_compare import record

FEWEST = 5
"""Repetitions of an anchor that have a median to lie about."""
ENOUGH = 200
"""Repetitions of which more than 99 % inside would say that intervals are too wide; of fewer, that may be luck."""


def counted(uncertainties, *, as_printed=False):
    """Count the repetitions of anchors in all committed runs, and those whose interval holds their median.

    Runs of one's own are not below a folder of published ones.

    A repetition is left out of the anchors that its own interval includes the scatter of, unless they are counted
    ``as_printed``. What has too few samples for an interval is not counted. The counts are by kind of work and what is
    timed.
    """
    found, held = Counter(), Counter()
    for path in sorted((ROOT / "reports").glob("*/*/**/records.jsonl")):
        records = RecordFile(path.parent).read()
        for same in repetitions(records, is_ranked):
            if len(same) < FEWEST:
                continue
            middle = statistics.median(map(seconds, same))
            anchors = [record for record in records if record.anchor]
            for one in same:
                known = uncertainties([other for other in anchors if as_printed or other is not one])
                if interval := known.interval(one):
                    found[one.work, one.timed] += 1
                    held[one.work, one.timed] += interval[0] <= middle <= interval[1]
    return found, held


@pytest.fixture(scope="module")
def inside():
    """The counts where each repetition is left out of its own interval."""
    return counted(lambda others: Uncertainties([others]))


def percentages(counts):
    """Write which part lies inside for each of ``KINDS``."""
    return [f"{100 * held / found:.1f} %" for found, held in parts(counts)]


KINDS = [
    ([Work.GPU], ["force"], 500),
    ([Work.GPU], ["step"], 97),
    ([Work.BOTH], ["call", "force"], 40),
    ([Work.HOST], ["force", "step"], 35),
]
"""Kinds of work, what is timed, and how many repetitions the committed runs have at least."""


def parts(counts):
    """Return the number of repetitions of each of ``KINDS``, and of those inside."""
    return [
        tuple(sum(own[work, kind] for work in works for kind in timed) for own in counts) for works, timed, _ in KINDS
    ]


@pytest.mark.parametrize("place", range(len(KINDS)))
def test_of_the_repetitions_in_committed_runs_90_to_99_per_cent_lie_within_intervals_by_the_others(inside, place):
    found, held = parts(inside)[place]
    assert found >= KINDS[place][2]
    assert held >= 0.9 * found, (held, found)
    assert held <= 0.99 * found or found < ENOUGH, (held, found)


@pytest.mark.slow
def test_the_document_says_how_many_lie_inside(inside):
    said = " ".join((ROOT / "docs" / "explanation" / "comparing.md").read_text("utf-8").split())
    gpu, step, both, host = percentages(inside)
    assert f"for {gpu} of the forces on the GPU, {step} of the steps on the GPU, {both} of what is on the host" in said
    assert f"and the GPU, and {host} of what is on the host. As printed" in said
    first, second, third, last = percentages(counted(lambda others: Uncertainties([others]), as_printed=True))
    assert (
        f"As printed, with each repetition among its own anchors, it is {first}, {second}, {third} and {last};" in said
    )
    first, second, third, last = percentages(counted(lambda _: SAMPLES_ALONE))
    assert f"by the samples alone, it would be {first}, {second}, {third} and {last}." in said


def test_an_anchor_is_foretold_by_the_anchors_that_take_less_and_more_time():
    """Of the runs with three anchors or more, the repetitions of one between two others, by these others alone."""
    found = held = 0
    for path in sorted((ROOT / "reports").glob("*/*/**/records.jsonl")):
        records = RecordFile(path.parent).read()
        repeated = [
            same for same in repetitions(records, is_ranked) if len(same) >= FEWEST and same[0].work is Work.GPU
        ]
        middles = {id(same): statistics.median(map(seconds, same)) for same in repeated}
        for same in repeated:
            middle = middles[id(same)]
            others = [other for other in repeated if other[0].identity != same[0].identity]
            times = [middles[id(other)] / middle for other in others]
            if not times or not min(times) < 1 / ALIKE_IN_TIME < ALIKE_IN_TIME < max(times):
                continue
            known = Uncertainties([[record for other in others for record in other]])
            for one in same:
                low, high = known.interval(one) or (0.0, 0.0)
                found += 1
                held += low <= middle <= high
    assert found > 100
    assert held >= 0.9 * found, (held, found)


def record_of(*, widened: float = 0.0, **changes):
    """Return a run of one case whose samples bound its median to 1 %, and five anchors that scatter by ``widened``."""
    case = record(1.0, ci_low=0.99, ci_high=1.01, processes=[9] * 10, **changes)
    anchors = [
        record(math.exp(widened * step), n=64, anchor=i, processes=[i] * 10)
        for i, step in enumerate((-1.0, 1.0, 0.0, -1.0, 1.0), 1)
    ]
    return case, [case, *anchors]


def test_an_uncertainty_adds_the_scatter_of_anchors_to_the_samples_in_quadrature():
    quiet, quiet_run = record_of()
    assert Uncertainties([quiet_run]).half_width(quiet) == pytest.approx(0.01, abs=1e-6)
    case, run = record_of(widened=0.01)
    # Steps of -1, 1, 0, -1, 1 deviate by 1, and Student's t of 4 is 2.776.
    known = Uncertainties([run])
    assert known.half_width(case) == pytest.approx(math.sinh(math.hypot(0.01, 0.02776)), rel=1e-3)
    assert known.includes_processes(case)
    alone = SAMPLES_ALONE
    assert alone.half_width(case) == pytest.approx(0.01, abs=1e-6)
    assert not alone.includes_processes(case)
    few = case.model_copy(update={"ci_low": 0.0, "ci_high": math.inf})
    assert (known.half_width(few), known.interval(few)) == (None, None)


def test_a_median_of_fewer_processes_than_the_anchors_scatters_by_more():
    """Medians of four processes scatter by half as much as those of one."""
    case, run = record_of(widened=0.01)
    run = [one.model_copy(update={"processes": [10 * one.anchor + i % 4 for i in range(10)]}) if one.anchor else one
           for one in run]  # fmt: skip
    known = Uncertainties([run])
    assert known.between_processes(case) == pytest.approx(2 * 0.02776, rel=1e-3)
    assert known.half_width(case) == pytest.approx(math.sinh(math.hypot(0.01, 2 * 0.02776)), rel=1e-3)
    as_many = case.model_copy(update={"processes": [50 + i % 4 for i in range(10)]})
    assert Uncertainties([[*run, as_many]]).between_processes(as_many) == pytest.approx(0.02776, rel=1e-3)
    assert known.wider(case, as_many).deviation == pytest.approx(0.02, rel=1e-6)


def test_anchors_of_one_process_do_not_show_what_processes_differ_by():
    run = [one.model_copy(update={"processes": [1] * 10}) for one in record_of(widened=0.01)[1]]
    known = Uncertainties([run])
    assert known.half_width(run[0]) == pytest.approx(math.sinh(math.hypot(0.01, 0.02776)), rel=1e-3), "they drift"
    assert not known.includes_processes(run[0])
    assert known.may_be_narrow(run[0])


def test_without_an_anchor_of_its_work_an_uncertainty_is_marked_and_has_the_widest_scatter_there_is():
    hybrid, run = record_of(widened=0.01, variant="barnes_hut", on_host=True)
    known = Uncertainties([run])
    assert not known.includes_processes(hybrid)
    assert known.half_width(hybrid) == pytest.approx(math.sinh(math.hypot(0.01, 0.02776)), rel=1e-3)
    processor, run = record_of(widened=0.01, toolkit="cpu")
    known = Uncertainties([run])
    assert not known.includes_processes(processor)
    assert known.half_width(processor) == pytest.approx(0.01, abs=1e-6), "a GPU says nothing of a processor"
    assert known.includes_processes(processor.model_copy(update={"processes": [1] * 5 + [2] * 5}))


def test_every_output_prints_the_same_uncertainty_and_marks_one_that_may_be_too_small(tmp_path):
    case, run = record_of(widened=0.01)
    hybrid = record(0.5, ci_low=0.495, ci_high=0.505, variant="barnes_hut", on_host=True, processes=[9] * 10)
    run.append(hybrid)
    half = Uncertainties([run]).half_width(case)
    written = f"{100 * half:.2f}"
    file = io.StringIO()
    render(run, Console(width=200, file=file), {})
    printed = file.getvalue().splitlines()
    lines = {name: [line for line in printed if line.startswith(name)] for name in ("tiled", "barnes_hut")}
    assert any(written in line and "*" not in line for line in lines["tiled"])
    assert all("*" in line for line in lines["barnes_hut"])
    said = " ".join(file.getvalue().split())
    assert "* ± may be too small" in said
    assert "includes the scatter between processes that the run's anchors of the same kind of work show" in said
    markdown = ladder_markdown(run, {}, {})
    assert f"| {written} | `~*` |" in markdown, "of the hybrid"
    (rungs,) = [one["rungs"] for one in report_json(Content([run], {}), "run")["ladders"] if one["n"] == case.n]
    found = {rung["variant"]: (rung["half_width"], rung["half_width_includes_processes"]) for rung in rungs}
    assert found == {"tiled": (half, True), "barnes_hut": (pytest.approx(half), False)}
    export.write([run], tmp_path / "all.csv")
    row = next(csv.DictReader((tmp_path / "all.csv").read_text("utf-8").splitlines()))
    assert (float(row["half_width"]), float(row["ci_low"])) == (half, 0.99)
    made = columns.columns(run, ["a"] * len(run), [""] * len(run), known=Uncertainties([run]))
    assert made["half width"][0] == pytest.approx(100 * half, rel=1e-5)
