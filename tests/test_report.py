"""The terminal report and the Markdown ladder, from made-up records."""

from __future__ import annotations

import io
import math
import re
import time
from functools import cache
from typing import Any

import pytest
from rich.console import Console

from conftest import ROOT, flat
from gravbench.config.published import find, load
from gravbench.model.record import Record
from gravbench.model.runs import RecordFile
from gravbench.model.variant import CPU, discover
from gravbench.report.markdown import markdown
from gravbench.report.page import html
from gravbench.report.provenance import Here
from gravbench.report.reported import report_json
from gravbench.report.section import Column, Part, Section, Table
from gravbench.report.sections import every
from gravbench.report.sections.content import Content
from gravbench.report.sections.loads import loads_of
from gravbench.report.terminal import sections
from gravbench.report.terminal.sections import render_section
from gravbench.verdicts import ranking
from gravbench.verdicts.ladder import Rung, ladders
from gravbench.verdicts.uncertainty import SAMPLES_ALONE
from printed_sections import ladder_markdown, render, render_accuracy, render_counters, render_published, render_stages

PARENTS = {
    "naive": None,
    "float4": "naive",
    "tiled": "float4",
    "symmetric": "tiled",
    "numpy_direct": None,
    "numba_parallel": "numpy_direct",
}
GPU = "NVIDIA Imaginary 9000"


SPREAD = (1.0, 0.99, 1.01, 1.0, 0.998, 1.01, 0.99, 1.002, 0.995, 1.005)
BY_PROCESS = [1, 1, 1, 2, 1, 2, 2, 1, 2, 2]
"""Which of two processes took each sample: both have the same median."""


def record(variant: str, median: float | None = 1.0, **changes: Any) -> Record:
    """Make a record up: no device ever measured these numbers, they are chosen to be easy to check by hand."""
    n = changes.get("n", 1000)
    gpu = changes.get("toolkit", "cupy") != "cpu"
    measured = median is not None and not changes.get("uncounted")
    fields: dict[str, Any] = {
        "variant": variant,
        "toolkit": "cupy",
        "axes": {"p": 256},
        "n": n,
        "dtype": "float32",
        "bodies": "plummer",
        "subset": "first",
        "seed": 1,
        "eps": 0.01,
        "timed": "force",
        "source_sha256": "0" * 64,
        "flags": ["-ftz=true"],
        "driver": "999.01" if gpu else None,
        "device": GPU if gpu else "Imaginary CPU",
        "device_uuid": "GPU-00000000-1111" if gpu else None,
        "bodies_sha256": "b" * 64,
        "error_max": 1.2e-6,
        "error_rms": 2.5e-7,
        # The second smallest and the second largest of ten samples bound the median.
        "samples_seconds": [part * median for part in SPREAD] if median is not None else [],
        "median_seconds": median,
        "processes": BY_PROCESS if median is not None and "samples_seconds" not in changes else [],
        "ci_low": 0.99 * median if median is not None else None,
        "ci_high": 1.01 * median if median is not None else None,
        "stop_reason": "interval",
        "sm_clock_mhz": [1980, 1980, 1975] if gpu else [],
        "registers": 40 if gpu else None,
        "occupancy": 0.75 if gpu else None,
        "occupancy_limiter": "registers" if gpu else None,
        "status": "ok",
        "interactions_per_second": n * n / median if measured and median else None,
        "gflops": 20 * n * n / median / 1e9 if measured and median else None,
        "flops_per_interaction": 20.0,
        "compile_seconds": 0.4,
        "commit": "c0ffee",
        "started": "2026-01-01T00:00:00+00:00",
        "harness_version": "0.1.0",
    }
    return Record(**(fields | changes))


def ladder() -> list[Record]:
    """A whole made-up run on a GPU and a CPU, in an order that is not the ladder's."""
    return [
        record("symmetric", 0.0001, n=10_000, toolkit="numba", axes={"p": 128, "unroll": 16}, throttled=True),
        record("tiled", 0.0002, n=10_000, axes={"p": 512, "unroll": 8}),
        record("tiled", 0.0001, n=10_000, axes={"p": 256, "unroll": 32}),
        record("tiled", 0.0001005, n=10_000, axes={"p": 256, "unroll": 16}),
        record("tiled", 0.00025, n=10_000, toolkit="pycuda", axes={"p": 256, "unroll": 32}),
        record("numba_parallel", 0.02, n=10_000, toolkit="cpu", axes={"threads": 2}),
        record("float4", 0.0004, n=10_000),
        record("numpy_direct", 1.0, n=10_000, toolkit="cpu", axes={}),
        record("naive", 0.0005, n=10_000),
        record("naive", 0.000005, n=1_000, stop_reason="budget"),
    ]


def shown(records: list[Record], width: int = 200, *, terminal: bool = False) -> str:
    """Render to a file of ``width`` columns."""
    file = io.StringIO()
    render(records, Console(width=width, file=file, force_terminal=terminal), PARENTS)
    return file.getvalue()


def shown_here(records: list[Record], here: Here, width: int = 200) -> str:
    """Render beside the variants that are here."""
    file = io.StringIO()
    render(records, Console(width=width, file=file), PARENTS, here)
    return file.getvalue()


def indistinct(rung: Rung) -> int:
    """Count the configurations that are as fast as the fastest, without anchors."""
    return SAMPLES_ALONE.indistinct(rung.best, rung.others)


def rungs(records: list[Record]) -> list[Rung]:
    """Return the rungs of the only ladder there is."""
    ((_, by_n),) = ladders(records, PARENTS).items()
    ((_, only),) = by_n.items()
    return only


def row(text: str, *words: str) -> str:
    """Return the first line that begins with these words."""
    return next(line for line in text.splitlines() if line.split()[: len(words)] == list(words))


def test_ladder_stands_in_order_of_parents_whatever_the_order_of_records_and_names() -> None:
    records = [record(name) for name in ("symmetric", "tiled", "naive", "float4")]
    backwards = dict(reversed(PARENTS.items()))
    for parents in (PARENTS, backwards):
        ((_, by_n),) = ladders(records, parents).items()
        assert [rung.best.variant for rung in by_n[1000]] == ["naive", "float4", "tiled", "symmetric"]


def test_gpu_stands_before_cpu_and_the_two_never_share_a_table() -> None:
    found = ladders([record("numpy_direct", toolkit="cpu"), record("naive")], PARENTS)
    assert [shared.cpu for shared in found] == [False, True]
    assert all(len(by_n[1000]) == 1 for by_n in found.values())


def test_best_configuration_has_the_smallest_median_not_the_first_place_or_the_fastest_sample() -> None:
    (rung,) = rungs(
        [
            record("tiled", 3.0, axes={"p": 64}, samples_seconds=[0.1, 3.0, 3.0]),
            record("tiled", 1.0, axes={"p": 128}),
            record("tiled", 2.0, axes={"p": 256}),
        ]
    )
    assert rung.best.axes == {"p": 128}
    assert (rung.compared, indistinct(rung), rung.over_slowest) == (3, 0, 3.0)


def test_no_speed_up_is_over_what_a_race_did_not_measure_in_full() -> None:
    raced = [
        record("naive", 8.0),
        record("tiled", 2.5, axes={"p": 64}),  # the anchor, which no race stops
        record("tiled", 2.0, axes={"p": 128}, stop_reason="outraced"),
        record("symmetric", 1.0, axes={"p": 64}),
        record("symmetric", 4.0, axes={"p": 128}, stop_reason="outraced"),
    ]
    found = {rung.best.variant: (rung.over_parent, rung.over_slowest) for rung in rungs(raced)}
    assert found["tiled"] == (None, None)
    assert found["symmetric"] == (None, 4.0)


def test_energy_that_the_power_could_not_have_spent_is_that_of_waiting() -> None:
    """Between two readings a device that computes for a tenth of the time spends ten times as much per evaluation."""
    computed = record("tiled", 1e-3, joules=0.3, power_watts=[280.0, 310.0])
    assert computed.joules_per_interaction == pytest.approx(0.3 / computed.n**2)
    assert record("tiled", 1e-3, joules=3.0, power_watts=[280.0, 310.0]).joules_per_interaction is None
    assert record("tiled", 1e-3, joules=3.0, power_watts=[]).joules_per_interaction is not None


@pytest.mark.parametrize(("low", "as_fast"), [(0.9999, 1), (1.0001, 0)])
def test_configurations_whose_intervals_just_touch_cannot_be_told_apart(low: float, as_fast: int) -> None:
    fastest = record("tiled", 1.0, axes={"p": 64}, ci_low=1 / 1.0625, ci_high=1.0625)
    ends = {"ci_low": low * 1.0625, "ci_high": 1.2**2 / (low * 1.0625)}
    (rung,) = rungs([fastest, record("tiled", 1.2, axes={"p": 128}, **ends)])
    assert indistinct(rung) == as_fast


def test_configurations_whose_intervals_overlap_count_as_as_fast() -> None:
    (rung,) = rungs(
        [
            record("tiled", 1.0, axes={"p": 64}),
            record("tiled", 1.015, axes={"p": 128}),
            record("tiled", 1.5, axes={"p": 256}),
            record("tiled", 1.6, axes={"p": 512}, ci_low=None, ci_high=None),
            record("tiled", 1.7, axes={"p": 1024}).model_copy(update={"ci_low": math.nan, "ci_high": math.nan}),
        ]
    )
    assert indistinct(rung) == 3


def test_speed_ups_are_over_the_best_of_parent_and_root_in_the_same_toolkit_and_n() -> None:
    found = {
        (rung.best.variant, rung.best.toolkit): (rung.over_parent, rung.over_first)
        for rung in rungs(
            [
                record("naive", 16.0, axes={"p": 64}),
                record("naive", 8.0),
                record("naive", 40.0, toolkit="numba"),
                record("float4", 4.0),
                record("tiled", 1.0),
                record("tiled", 10.0, toolkit="numba"),
                record("tiled", 3.0, toolkit="pycuda"),
            ]
        )
    }
    assert found == {
        ("naive", "cupy"): (None, 1.0),
        ("naive", "numba"): (None, 1.0),
        ("float4", "cupy"): (2.0, 2.0),
        ("tiled", "cupy"): (4.0, 8.0),
        ("tiled", "numba"): (None, 4.0),
        ("tiled", "pycuda"): (None, 8 / 3),  # in the first toolkit that has it
    }


@pytest.mark.parametrize(
    "change",
    [
        {"n": 2000},
        {"eps": 0.02},
        {"seed": 2},
        {"dtype": "float64"},
        {"timed": "step"},
        {"integrator": "leapfrog"},
        {"integrator": "leapfrog", "dt": 0.1},
        {"bodies": "galaxies"},
        {"device_uuid": "GPU-2222"},
    ],
)
def test_no_speed_up_between_records_that_differ_in_more_than_the_variant(change: dict[str, Any]) -> None:
    found = ladders([record("naive", 2.0), record("float4", 1.0, **change)], PARENTS)
    every = [rung for by_n in found.values() for rungs in by_n.values() for rung in rungs]
    assert len(every) == 2
    assert all(rung.over_parent is None for rung in every)


def test_a_file_of_bodies_is_the_same_wherever_it_lay() -> None:
    records = [record("naive", 2.0, bodies="/here/disk.tab"), record("float4", 1.0, bodies="there/disk.tab")]
    assert [rung.over_parent for rung in rungs(records)] == [None, 2.0]


@pytest.mark.parametrize("status", ["invalid", "failed", "skipped"])
def test_what_is_not_ok_is_never_ranked_even_when_fastest(status: str) -> None:
    records = [
        record("naive", 2.0),
        record("naive", 0.001, axes={"p": 32}, status=status, reason="made up"),
        record("tiled", 0.001, status=status, reason="made up"),
    ]
    (rung,) = rungs(records)
    assert (rung.best.median_seconds, rung.compared) == (2.0, 1)
    assert "tiled" not in ladder_markdown(records, PARENTS, {})
    before, after = shown(records).split("Not ranked")
    assert "tiled" not in before
    assert f"{status}, 2 cases: made up" in after


def test_what_skips_many_variants_is_told_without_their_configurations() -> None:
    many_names = [f"variant_{number}" for number in range(9)]
    lost = [record(name, None, status="skipped", reason="no GPU", axes={"p": 64}) for name in many_names]
    _, after = shown([record("naive", 2.0), *lost]).split("Not ranked")
    assert f"skipped, 9 cases: no GPU 9 variants: {', '.join(many_names)}" in flat(after)
    assert "p=64" not in after
    _, few = shown([record("naive", 2.0), *lost[:8]]).split("Not ranked")
    assert few.count("p=64") == 8


@pytest.mark.parametrize("median", [None, float("nan"), float("inf")])
def test_ok_without_a_usable_median_is_named_and_not_ranked(median: float | None) -> None:
    text = shown([record("naive", 2.0), record("tiled", None).model_copy(update={"median_seconds": median})])
    before, after = text.split("Not ranked")
    assert "tiled" not in before
    assert "ok, 1 case: no median was recorded" in after


def test_newest_record_of_a_case_counts_alone() -> None:
    text = shown([record("naive", 1.0), record("naive", 0.001)])
    assert "1 ok, 0 invalid" in text
    assert row(text, "naive", "cupy").split()[2] == "1.000"


@pytest.mark.parametrize("width", [80, 200])
def test_every_reason_is_shown_completely_and_grouped(width: int) -> None:
    skipped = "pycuda is not installed; pip install 'gravbench[pycuda]' [needs a compiler] " + "and patience " * 20
    invalid = "largest relative error 0.0042 is above the tolerance 0.001 of this variant in float32"
    records = [
        record("naive", None, toolkit="pycuda", n=1024, status="skipped", reason=skipped),
        record("naive", None, toolkit="pycuda", n=4096, status="skipped", reason=skipped),
        record("tiled", None, n=4096, status="invalid", reason=invalid),
        record("tiled", None, n=8192, status="failed", reason=None),
    ]
    text = flat(shown(records, width))
    assert f"skipped, 2 cases: {skipped.strip()} naive: pycuda; n = 1,024, 4,096; float32; p=256" in text
    assert f"invalid, 1 case: {invalid} tiled: cupy; n = 4,096; float32; p=256" in text
    assert "failed, 1 case: no reason was recorded" in text
    assert "0 ok, 1 invalid, 2 skipped, 1 failed" in text


def test_many_skipped_cases_are_named_in_one_line() -> None:
    records = [
        record("tiled", None, n=2**k, axes={"p": p}, status="skipped", reason="too many threads")
        for k in range(10, 20)
        for p in (32, 64, 128, 256, 512)
    ]
    assert "tiled: cupy; 10 values of n from 1,024 to 524,288; float32; 5 configurations from p=32 to p=512" in shown(
        records
    )


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 200])
def test_no_line_is_wider_than_the_console_and_nothing_is_cut(width: int) -> None:
    text = shown(ladder(), width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    assert "..." not in text


def test_at_80_columns_names_and_numbers_are_whole() -> None:
    text = shown(ladder(), 80)
    for name in ("naive", "float4", "tiled", "symmetric", "numpy_direct", "numba_parallel"):
        assert name in text.split()
    # 1e8 interactions in 0.0001 s, 20 operations each; 0.0004 / 0.0001 over float4.
    assert row(text, "tiled", "cupy").split()[2:7] == ["0.1000", "1,000", "1.00", "20,000", "4.00"]
    assert "1.2e-06" in row(text, "tiled", "cupy")


def test_at_200_columns_everything_about_a_rung_is_shown() -> None:
    text = shown(ladder(), 200)
    expected = (
        "tiled cupy 0.1000 1,000 1.00 20,000 4.00 5.00 75.0 registers p=256 unroll=32 1.2e-06 2.5e-07 40 1,980 0.400"
    )
    assert flat(row(text, "tiled", "cupy")) == expected
    assert "GFLOP/s" in text
    assert "at 20" in text


def test_a_name_longer_than_the_console_is_folded_and_not_cut() -> None:
    name = "_".join(f"part{i}" for i in range(20))
    text = shown([record(name)], 80)
    assert max(map(len, text.splitlines())) <= 80
    lines = text.partition("The ladder")[2].splitlines()[1:]
    table = lines[next(i for i, line in enumerate(lines) if set(line.strip()) == {"─"}) + 1 :]
    assert "".join(line.split()[0] for line in table[: table.index("")]) == name


@pytest.mark.parametrize("width", range(80, 100))
def test_a_long_configuration_is_wrapped_so_that_names_and_numbers_stay_whole(width: int) -> None:
    axes = {"p": 256, "unroll": 8, "q": 4, "r": 2}
    records = [
        record("numba_parallel_blocked", 1e-8, n=1_000_000, toolkit="pycuda", axes=axes),
        record("numba_parallel_blocked", 2e-8, n=1_000_000, toolkit="pycuda", axes=axes | {"p": 64}),
    ]
    text = shown(records, width).split("The fastest configurations")[1]
    assert max(map(len, text.splitlines())) <= width
    # 1e12 interactions in 1e-8 s, in units of 1e9 a second. The counts stay: the configuration breaks first.
    assert "1.000e+11" in row(text, "numba_parallel_blocked", "pycuda", "1,000,000")
    assert {"unroll=8", "q=4", "r=2"} <= set(text.split())
    assert " 2 0" in flat(row(text, "numba_parallel_blocked")) or width < 99


def test_variants_no_file_declares_are_shown_without_parent() -> None:
    text = shown([record("naive", 2.0), record("mystery", 1.0)])
    cells = row(text, "mystery", "cupy").split()
    assert cells[2:6] == ["1,000", "0.001000", "1.00", "0.02000"]
    assert "because this checkout does not have them: mystery" in text
    (_, mystery) = rungs([record("mystery", 1.0), record("naive", 2.0)])
    assert (mystery.best.variant, mystery.over_parent, mystery.over_first) == ("mystery", None, None)


def test_a_circle_of_parents_ends() -> None:
    found = ladders([record("a"), record("b")], {"a": "b", "b": "a"})
    ((_, by_n),) = found.items()
    assert [(rung.best.variant, rung.over_first) for rung in by_n[1000]] == [("a", None), ("b", None)]


def test_anchor_that_drifts_is_said_to() -> None:
    records = [record("naive", median, anchor=i) for i, median in enumerate([1.0, 1.01, 1.03], 1)]
    text = flat(shown(records))
    # (1.03 - 1.00) / 1.01
    assert "measured 3 times: the medians spread over 2.97 %" in text
    assert "DRIFT above 1 %" in text


def test_the_ladder_shows_the_theoretical_occupancy_and_the_achieved_one_where_it_was_counted() -> None:
    counted = record("tiled", occupancy=0.75, counters={"achieved_occupancy": 0.2066})
    records = [record("naive", occupancy=0.3125), counted, record("numba_direct", toolkit="cpu", occupancy=None)]
    lines = [line.split(" | ") for line in ladder_markdown(records, PARENTS).splitlines() if line.startswith("| ")]
    place = lines[0].index("occupancy %")
    shown = {line[0].strip("| "): line[place] for line in lines if len(line) > place and line[1] == "cupy"}
    assert shown == {"naive": "31.2", "tiled": "75.0 / 20.7"}
    headers_on_cpu = lines[-3]
    assert "occupancy %" not in headers_on_cpu


def drifting() -> list[Record]:
    """A run with stages, several p and theta, whose GPU drifted and whose CPU did not."""
    inside = {"stages_seconds": {"build": 0.4, "traverse": 0.5}, "counters": {"achieved_occupancy": 0.5}}
    found = [record("naive", 1.0 + i / 100, anchor=i, n=500) for i in range(1, 5)]
    found += [record("naive", 1.0, toolkit="cpu", anchor=i, n=500) for i in range(1, 5)]
    for toolkit in ("cupy", "cpu"):
        found += [record("tiled", 0.5, toolkit=toolkit, axes={"p": p}) for p in (64, 256)]
        found += [
            record("barnes_hut", 0.5 / theta, toolkit=toolkit, axes={"theta": theta}, **inside) for theta in (0.5, 1.0)
        ]
    return found


NOTE = (
    "DRIFT above 1 %: the medians of the anchor of work on the GPU spread over 2.93 % in 4 measurements; smaller "
    "differences are not"
)


@pytest.mark.parametrize("render_section", [render, render_stages, render_accuracy, render_counters])
def test_each_table_of_a_device_that_drifted_has_the_sign_and_the_sentence(render_section) -> None:
    records = drifting()
    file = io.StringIO()
    console = Console(file=file, width=200)
    if render_section is render:
        render(records, console, PARENTS)
    else:
        render_section(records, console)
    titles = [line for line in file.getvalue().splitlines() if GPU in line and "measured" not in line]
    tables = [line for line in titles if "timed" in line or "force" in line]
    assert tables
    assert all(line.endswith(" ^") for line in tables)
    assert not [line for line in file.getvalue().splitlines() if "Imaginary CPU" in line and "^" in line]
    # Once in each section: the ladder, the fastest, the configurations, stages, accuracy and counters.
    assert flat(file.getvalue()).count(f"^ {NOTE}") == (6 if render_section is render else 1)


def test_the_ladder_in_markdown_has_the_sign_of_drift() -> None:
    written = ladder_markdown(drifting(), PARENTS, {})
    gpu, cpu = [line for line in written.splitlines() if line.startswith("**n = 1,000, ")]
    assert GPU in gpu
    assert gpu.endswith(" ^**")
    assert "^" not in cpu
    assert f"`^` {NOTE}" in written


def test_published_values_beside_a_run_that_drifted_have_the_sign() -> None:
    source = load(find("bodin2026_direct"))
    records = RecordFile(ROOT / "reports" / "h100" / "bodin2026_direct").read()
    # The GPU's anchor as if it had been measured once.
    calm = [one for one in records if one.toolkit == CPU or one.anchor < 2]
    anchor = next(one for one in calm if one.anchor and one.toolkit != CPU)
    slow = anchor.model_copy(update={"median_seconds": 2 * anchor.median_seconds, "anchor": 99})
    # Two figures have the processor's records, whose anchor drifted by itself, and one the GPU's.
    assert [figure.id for figure in source.figures] == ["direct-cpu", "direct-cpu-plane", "direct-gpu"]
    for own, drifted in ((calm, 2), ([*calm, slow], 3)):
        file = io.StringIO()
        render_published(source, own, Console(file=file, width=200))
        heads = [line for line in file.getvalue().splitlines() if line.endswith(" ^")]
        notes = [line for line in file.getvalue().splitlines() if line.startswith("^ DRIFT above 1 %")]
        assert len(heads) == len(notes) == drifted


def test_anchor_that_stays_is_said_to_and_bad_repetitions_are_counted() -> None:
    records = [record("naive", median, anchor=i) for i, median in enumerate([1.0, 1.002, 1.004], 1)]
    failed = record("naive", None, anchor=4, status="failed", reason="made up")
    text = flat(shown([*records, failed]))
    assert "measured 3 times (1 repetition more not ok): the medians spread over 0.40 %" in text
    assert "no drift above 1 %" in text
    assert "DRIFT" not in text


def test_one_repetition_shows_no_drift_and_other_drivers_are_other_anchors() -> None:
    records = [record("naive", 1.0, anchor=1), record("naive", 2.0, anchor=2, driver="999.02")]
    assert [drift.spread for drift in ranking.drifts(records)] == [None, None]
    assert flat(shown(records)).count("measured once: no drift can be seen") == 2
    assert "The anchor" not in shown([record("naive")])


@pytest.mark.parametrize("ends", [{"ci_low": None, "ci_high": None}, {"ci_low": 0.0, "ci_high": math.inf}])
def test_what_nothing_bounds_is_not_shown_as_exact(ends) -> None:
    records = [record("naive", 1.0, **ends), record("float4", 0.5)]
    note = "unbounded (± n/a): too few samples for a confidence interval of the median"
    for width in (80, 200):
        text = shown(records, width)
        (line,) = [line for line in text.splitlines() if line.startswith("naive") and "± n/a" in line]
        assert line.count("± n/a") == 1
        assert not [line for line in text.splitlines() if line.startswith("float4") and "± n/a" in line]
        assert flat(text).count(note) == 1
    written = ladder_markdown(records, PARENTS, {})
    assert "| 0.001000 | ± n/a |" in written
    assert "| 0.002000 | 1.00 |" in written
    assert note in written
    assert "± n/a" not in flat(shown([record("float4", 0.5)]))


def test_throttled_and_unsettled_rows_carry_a_sign_and_a_footnote() -> None:
    records = [
        record("naive", 2.0),
        record("float4", 1.0, throttled=True, throttle_reasons=["power cap"]),
        record("tiled", 0.5, stop_reason="budget"),
        record("symmetric", 0.4, throttled=True, stop_reason=None),
    ]
    for width in (80, 200):
        text = shown(records, width)
        assert " ! " in row(text, "float4", "cupy")
        assert " ~ " in row(text, "tiled", "cupy")
        assert " ~! " in row(text, "symmetric", "cupy")
        assert not set("!~") & set(row(text, "naive", "cupy"))
        assert "! throttled: the device lowered its clock during the measurement (power cap)" in flat(text)
        assert "~ sampling ended before the interval was as narrow as requested: budget, not recorded" in flat(text)
    clean = shown([record("naive")])
    assert "throttled" not in clean


def test_two_devices_of_one_name_are_told_apart() -> None:
    text = shown([record("naive"), record("naive", device_uuid="GPU-2222")])
    assert f"{GPU} (GPU-2222)" in text
    assert f"{GPU} (GPU-00000000-1111)" in text
    assert "GPU-" not in shown([record("naive")])


def test_heading_names_what_was_run() -> None:
    text = flat(shown([record("naive"), record("tiled", started="2026-01-02T00:00:00+00:00")]))
    assert f"{GPU} with driver 999.01" in text
    assert "2026-01-01T00:00:00+00:00 to 2026-01-02T00:00:00+00:00" in text
    for fact in ("plummer first", "float32", "eps 0.01", "2 ok, 0 invalid, 0 skipped, 0 failed", "c0ffee", "0.1.0"):
        assert fact in text


def test_a_pipe_gets_no_escape_codes() -> None:
    assert "\x1b" not in shown(ladder())
    assert "\x1b" in shown(ladder(), terminal=True)


def test_missing_numbers_leave_blanks_and_nan_is_said() -> None:
    bare = record("naive", 2.0, ci_low=None, ci_high=None, gflops=None, occupancy=None, error_rms=None, registers=None)
    text = shown([bare, record("tiled").model_copy(update={"error_max": math.nan, "gflops": math.nan})])
    assert "None" not in text
    assert "nan" in row(text, "tiled", "cupy").split()


def test_no_records_give_one_sentence() -> None:
    assert shown([]).splitlines()[1:] == ["There are no records yet; gravbench run writes them."]
    assert ladder_markdown([], PARENTS, {}) == "No case is ok, so there is nothing to rank.\n"


def test_markdown_has_one_table_a_device_with_hand_computed_rows() -> None:
    text = ladder_markdown(ladder(), PARENTS, {"tiled": "Stage a tile | in shared\nmemory."})
    assert text.count("| variant |") == 2
    assert f"**n = 10,000, {GPU}, plummer, float32, timed: force**" in text
    row = "| tiled | cupy | Stage a tile \\| in shared memory. | 0.1000 | 1,000 | 1.00 |  | 4.00 | 5.00 | 75.0 | "
    assert row in text
    assert "| numba_parallel | cpu | 20.00 | 5.000 | 1.00 | 50.0 | 50.0 | 1.2e-06 |" in text
    assert "| symmetric | numba |  | 0.1000 | 1,000 | 1.00 | `!` |" in text
    assert "`!` throttled" in text


def test_markdown_takes_the_largest_n_at_which_the_whole_ladder_is_ok() -> None:
    records = [record(name, 1.0, n=n) for n in (100, 2000, 30_000) for name in ("naive", "float4", "tiled")]
    records.append(record("tiled", None, n=30_000, status="failed", reason="made up"))
    assert "n = 2,000," in ladder_markdown(records, PARENTS, {})


@cache
def many() -> list[Record]:
    return [
        record(variant, 1e-3 * (1 + p / 1000), toolkit=toolkit, n=2**k, axes={"p": p, "unroll": unroll})
        for variant in ("naive", "float4", "tiled", "split")
        for toolkit in ("cupy", "pycuda", "numba")
        for k in range(8, 21)
        for p in (32, 64, 128, 256, 512, 1024, 96, 192)
        for unroll in (1, 2, 4, 8, 16, 32, 64, 128)
    ]


def test_ten_thousand_records_take_seconds() -> None:
    records = many()
    assert len(records) == 9984
    before = time.process_time()
    shown(records, 80)
    # About half a second of computing where this was written; a loop over pairs of records would take minutes.
    assert time.process_time() - before < 30


def test_brackets_in_stages_and_counters_are_no_markup() -> None:
    one = record("tiled", stages_seconds={"[/x]": 0.5, "[bold]": 0.0}, counters={"stalled_[/y]": 1.0})
    file = io.StringIO()
    for section in (render_stages, render_counters):
        section([one], Console(file=file, width=200))
    for word in ("[/x]", "[bold]", "[/y]"):
        assert word in file.getvalue()


def test_a_section_has_room_for_five_hundred_rows_whose_last_table_is_cut_short() -> None:
    columns = [Column("place", str)]
    parts = [Part(f"part {place}", table=Table(columns, range(300 * place, 300 * (place + 1)))) for place in range(3)]
    file = io.StringIO()
    render_section(Section("made-up", "Made up", parts=parts), Console(width=80, file=file))
    assert re.findall(r"^ *(\d+) *$", file.getvalue(), re.M) == list(map(str, range(500)))
    assert "part 1" in file.getvalue()
    assert "part 2" not in file.getvalue()
    assert "not shown: 400 more rows" in file.getvalue()


@pytest.mark.parametrize(
    ("title", "row_of", "count"),
    [
        ("The ladder", r"\w+ theta=\S+ +cupy ", 12),
        ("The fastest configurations", r"\w+ theta=\S+ +cupy ", 12),
        ("The anchor", r"\w+ cupy n=1000 ", 12),
        ("The stages", "(build|sum|measured total|longest|its share) ", 60),
        ("Speed and accuracy", r" *(0\.5|1\.0) .*= *$", 24),
        ("Counters", r"\w+ theta=\S+ cupy 1,000", 48),
    ],
)
def test_each_section_shows_its_first_rows_and_says_how_many_more_there_are(
    monkeypatch: pytest.MonkeyPatch, title: str, row_of: str, count: int
) -> None:
    inside = {"stages_seconds": {"build": 0.4}, "counters": {"achieved_occupancy": 0.5}}
    records = [
        record(variant, p / 100, eps=eps, axes={"theta": theta, "p": p}, anchor=(theta, p) == (0.5, 64), **inside)
        for eps in (0.1, 0.2, 0.3, 0.4)
        for variant in ("naive", "float4", "tiled")
        for theta in (0.5, 1.0)
        for p in (64, 32)
    ]
    for most in (10, 100):
        monkeypatch.setattr(sections, "MOST_ROWS", most)
        file = io.StringIO()
        console = Console(width=200, file=file)
        render(records, console, PARENTS)
        text = next(one for one in re.split("^(?=.* ─+$)", file.getvalue(), flags=re.M) if one.startswith(title))
        rows = re.findall(f"^{row_of}", text, re.M)
        assert len(rows) == min(most, count), text
        said = re.findall(r"not shown: (\d+) more rows; gravbench export writes every record", text)
        assert said == [str(count - most)] * (count > most)


def test_the_first_rows_of_counters_are_of_the_smallest_n_and_the_fastest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sections, "MOST_ROWS", 1)
    slow, fast = (record(name, median, counters={"fma_pipe": 0.5}) for name, median in (("naive", 2.0), ("tiled", 1.0)))
    file = io.StringIO()
    render_counters([slow, fast], Console(width=200, file=file))
    assert "tiled cupy" in file.getvalue()
    assert "naive cupy" not in file.getvalue()
    assert "not shown: 1 more row; gravbench export writes every record" in file.getvalue()


def test_an_approximation_is_credited_with_the_interactions_it_counts() -> None:
    half = record("approximate", 1.0, n=1_000).model_copy(update={"cycle": 2, "error_cycle_max": 3e-7})
    text = shown([half], 200)
    # 1e6 pairs, half of them in the one second that an evaluation takes, in units of 1e9 a second.
    assert "5.000e-04" in row(text, "approximate")
    assert "3.0e-07" in row(text, "approximate")


def test_loads_are_worked_out_from_what_the_variant_declares() -> None:
    records = [
        record("naive", 1.0, n=512),
        record("tiled", 1.0, n=512, axes={"p": 64}),
        record("tiled", 2.0, n=512, axes={"p": 64}, toolkit="pycuda"),
        record("tiled", 1.0, n=512, axes={"p": 128}, status="failed"),
        record("silent", 1.0, n=512),
    ]
    found = loads_of(records, {"naive": "4 * n", "tiled": "n / p", "silent": None})
    assert [(one.variant, one.per_body, one.per_evaluation) for one in found] == [
        ("naive", 2048, 2048 * 512),
        ("tiled", 8, 8 * 512),
    ]


def test_every_declared_expression_can_be_worked_out() -> None:
    for variant in discover().values():
        if variant.loads is not None:
            case = record(variant.name, 1.0, n=1024, axes=variant.complete({}))
            (loads,) = loads_of([case], {variant.name: variant.loads})
            assert 0 < loads.per_body <= 4 * 1024


def test_the_time_of_an_evaluation_and_gflops_stand_in_every_ladder_however_narrow() -> None:
    records = [record("barnes_hut_on_the_host", 0.00132, n=65_536, ci_low=None, axes={"theta": 0.7, "p": 128})]
    for width in (60, 80, 120, 200):
        text = shown(records, width)
        assert "GFLOP/s" in text
        assert "1.320" in row(text, "barnes_hut_on_the_host").split()
    assert "| 1.320 |" in ladder_markdown(records, PARENTS, {})


def test_an_approximation_carries_a_sign_that_says_which_interactions_count() -> None:
    tree = record("tiled", 0.001, n=1_000, computed={"body_body": 50.0, "body_cell": 10.0})
    for text in (shown([record("naive"), tree], 80), ladder_markdown([record("naive"), tree], PARENTS, {})):
        assert "interactions/s and GFLOP/s count only the interactions it computes, not all n * n" in flat(text)
        (line,) = (line for line in text.splitlines() if line.strip("| ").startswith("tiled "))
        assert "<" in line
    assert "<" not in shown([record("naive")], 80)


def test_an_approximation_that_does_not_count_has_a_time_and_no_rate() -> None:
    tree = record("jzfmm_multipoles", 0.001, n=1_000, toolkit="jzfmm", axes={"order": 5, "theta": 0.8}, uncounted=True)
    records = [record("naive", 0.004, n=1_000), tree]
    for text in (shown(records, 200), ladder_markdown(records, PARENTS, {})):
        assert "‡ an approximation that does not count its interactions" in flat(text).replace("`", "")
        (line,) = (line for line in text.splitlines() if line.strip("| ").startswith("jzfmm_multipoles theta=0.8"))
        assert "‡" in line
        assert " 1.000 " in line
        assert "nan" not in line
    assert "‡" not in shown([record("naive")], 80)


def test_a_kernel_that_presupposes_equal_masses_has_a_row_of_its_own() -> None:
    records = [
        record("tiled", 4.0),
        record("symmetric", 2.0, axes={"equal_mass": 0}),
        record("symmetric", 1.0, axes={"equal_mass": 1}),
        record("below", 0.5, axes={"equal_mass": 1}),
        record("beside", 0.5),
    ]
    ((_, by_n),) = ladders(records, PARENTS | {"below": "symmetric", "beside": "symmetric"}).items()
    found = {ranking.named(rung.best): rung.over_parent for rung in by_n[1000]}
    # Over the parent that presupposes the same, or else the one that presupposes nothing.
    expected = {"symmetric": 2.0, "symmetric equal_mass=1": 4.0, "below equal_mass=1": 2.0, "beside": 4.0}
    assert found == {"tiled": None} | expected
    for width in (80, 200):
        assert "equal_mass=1" in shown(records, width).partition("1,000,")[2]
    assert "| symmetric equal_mass=1 | cupy |" in ladder_markdown(records, PARENTS, {})


def test_what_is_computed_otherwise_than_by_default_stands_beside_the_name() -> None:
    records = [record("tensor", 1.0, axes={"terms": 1, "p": 64}), record("tensor", 2.0, axes={"terms": 2, "p": 64})]
    assert ranking.named(records[0]) == "tensor terms=1"
    assert "| tensor terms=1 | cupy |" in ladder_markdown(records, PARENTS, {})
    assert "| tensor | cupy |" in ladder_markdown(records[1:], PARENTS, {})


def test_the_values_that_need_no_telling_are_the_defaults_of_every_variant() -> None:
    for axis, usual in ranking.TOLD.items():
        declared = {one.defaults[axis] for one in discover().values() if axis in one.axes}
        assert declared == {usual}


def test_both_errors_are_shown_where_records_have_them() -> None:
    both = record("tiled", error_magnitude_max=3.3e-7, error_magnitude_rms=4.4e-8)
    line = row(shown([record("naive"), both], 220), "tiled")
    assert {"1.2e-06", "2.5e-07", "3.3e-07", "4.4e-08"} <= set(line.split())
    assert "of contributions" not in ladder_markdown([record("naive")], PARENTS, {})
    assert "max error of contributions" in ladder_markdown([both], PARENTS, {})
    assert "| 3.3e-07 |" in ladder_markdown([both], PARENTS, {})


def test_a_new_section_is_shown_in_a_terminal_markdown_page_and_json(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = Table([Column("name", str, text=True), Column("empty", lambda _: "", 1)], ["x|y"])
    mine = Section("mine", "My section", "How to read it.", [Part("A part", table=table, lines=["A line."])], ["~ why"])
    extended = (*every.SECTIONS, lambda _: mine)
    monkeypatch.setattr(every, "SECTIONS", extended)
    monkeypatch.setattr(html, "SECTIONS", extended)
    content = Content([[record("naive")]], PARENTS)
    file = io.StringIO()
    sections.render_sections(every.sections(content), Console(file=file, width=80))
    printed = file.getvalue().partition("My section")[2].splitlines()[1:]
    assert [line.strip() for line in printed if line] == [
        *("How to read it.", "A part", "name", "────", "x|y", "A line.", "~ why")
    ]
    assert markdown([mine]).split("\n\n") == [
        *("## My section", "How to read it.", "**A part**", "| name |\n| --- |\n| x\\|y |", "- A line.", "`~` why\n")
    ]
    assert report_json(content, "run")["sections"][-1] == {
        "name": "mine",
        "title": "My section",
        "introduction": "How to read it.",
        "parts": [
            {"title": "A part", "introduction": [], "facts": {}, "columns": ["name"], "rows": [["x|y"]],
             "lines": ["A line."], "notes": []}
        ],
        "notes": ["~ why"],
    }  # fmt: skip
    page = html.Page([html.Run("run", [record("naive")], [])], discover()).text()
    shown_there = page.partition("<summary>My section</summary>")[2].partition("</section>")[0]
    for words in ("How to read it.", "Numbers: A part", '<th scope="row">x|y</th>', "A line.", "~ why"):
        assert words in shown_there
