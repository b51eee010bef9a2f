"""The sources' numbers beside measured ones: that ours are the sources', conversions, ratios, verdicts, the page."""

from __future__ import annotations

import io
import json
import math
import re
from functools import cache
from typing import Any, get_args

import numpy as np
import pytest
import yaml
from rich.console import Console
from typer.testing import CliRunner

from conftest import ROOT, flat, missing_variants
from gravbench.cli.main import app
from gravbench.config import load as configurations
from gravbench.config import published as sources
from gravbench.config.published import Claim, Figure, Selection, Source
from gravbench.errors import InputError
from gravbench.explain.pipes import lanes
from gravbench.measuring import runner
from gravbench.model import runs
from gravbench.model.case import PARTS
from gravbench.model.interaction import GRAVITY
from gravbench.model.interaction_files import find
from gravbench.model.record import Record
from gravbench.model.runs import RecordFile
from gravbench.model.variant import discover
from gravbench.report import claim_uncertainty, published, remarks
from gravbench.report.numbers import number
from gravbench.report.page import html, kinds
from gravbench.report.sections.content import Content
from gravbench.verdicts.uncertainty import Uncertainties
from printed_sections import ladder_markdown, render_published
from test_report import record

SHARED = ROOT.parent / "shared" / "published"
NAMES = sorted(sources.packaged())
GPU = {"timed": "force", "device": "NVIDIA Imaginary 9000"}


def tiled(seconds: float | None = 1.0, **changes: Any) -> Record:
    """Make a record of tiled up; keywords that are no field of a record are axes."""
    fields = {name: value for name, value in changes.items() if name in Record.model_fields}
    axes = {name: value for name, value in changes.items() if name not in fields}
    return record("tiled", seconds, **({"axes": axes} | GPU | fields))


def figure(**changes: Any) -> Figure:
    """Make a figure up: tiled at n = 1000, p = 64, 128, 256."""
    fields = {
        "id": "1",
        "title": "Figure 1",
        "unit": "seconds",
        "timed": "force",
        "where": {"variant": "tiled", "n": 1000},
        "over": {"p": [64, 128, 256]},
        "values": [8.0, 4.0, 2.0],
    }
    return Figure.model_validate(fields | changes)


def source(*figures: Figure, claims: list[Claim] | None = None, **changes: Any) -> Source:
    """Make a source up."""
    return Source(source="Nobody 1999", device="Abacus", figures=list(figures), claims=claims or [], **changes)


def compared(own: Figure, records: list[Record], **changes: Any) -> published.Comparison:
    return published.compare(source(own, **changes), own, records)


def measured(own: Figure, records: list[Record], **changes: Any) -> list[float | None]:
    return [step.answer.value for step in compared(own, records, **changes).steps]


def shown(own: Source, records: list[Record], width: int = 80) -> str:
    file = io.StringIO()
    render_published(own, records, Console(width=width, file=file))
    return file.getvalue()


# Our copy of the numbers


@pytest.fixture
def original():
    """Return a function that reads what the project was given of one source."""
    if not SHARED.is_dir():
        pytest.skip(f"{SHARED}, which our numbers are compared with, is not here")
    return lambda name: yaml.safe_load((SHARED / f"{name}.yaml").read_text("utf-8"))


def of_id(own: Source, name: str) -> Figure:
    (found,) = [one for one in own.figures if one.id == name]
    return found


def numbers(own: Source, name: str) -> list[float | None]:
    return [cell.published for cell in of_id(own, name).steps()]


def facts(own: Source) -> dict[str, list[float | None]]:
    return {fact.id: fact.values for fact in own.facts}


def stated(own: Source) -> dict[str, list[float]]:
    return {claim.id: claim.published for claim in own.claims}


def test_every_number_of_gems3_is_ours(original):
    theirs, ours = original("gems3"), sources.load(sources.find("gems3"))
    assert (theirs["device"], theirs["flops_per_interaction"]) == (ours.device, ours.flops_per_interaction)
    assert facts(ours) == {name: [value] for name, value in theirs["text"].items()}
    for name, key, second in (("31-5", "figure_31_5_unroll", "unroll"), ("31-7", "figure_31_7_block_size", "p")):
        table = theirs[key]
        assert numbers(ours, name) == table["n1024"] + table["n4096"] + table["n16384"]
        own = [
            (cell.select["n"], cell.select[second]) for cell in next(f for f in ours.figures if f.id == name).steps()
        ]
        assert own == [(n, value) for n in (1024, 4096, 16384) for value in table[second]]
    assert numbers(ours, "31-6") == theirs["figure_31_6_n"]["gflops"]
    assert [cell.select["n"] for cell in ours.figures[1].steps()] == theirs["figure_31_6_n"]["n"]
    stacked = theirs["figure_31_8_threads_per_body"]
    totals = []
    for q1, q2, q4 in zip(stacked["q1"], stacked["q2_adds"], stacked["q4_adds"], strict=True):
        totals += [q1, None if q2 is None else q1 + q2, None if q4 is None else q1 + (q2 or 0) + q4]
    assert numbers(ours, "31-8") == totals
    assert [cell.select["n"] for cell in ours.figures[3].steps()[::3]] == stacked["n"]
    assert numbers(ours, "cpu-portable") == [theirs["cpu"]["core2duo_6300_portable_c_interactions_per_s"]]
    assert numbers(ours, "cpu-sse") == [theirs["cpu"]["tuned_sse_elsen2006_gflops"]]
    assert all(one.timed == "step" for one in ours.figures) == theirs["integrator_in_timing"]


def test_every_number_of_chamomile_is_ours(original):
    theirs, ours = original("chamomile"), sources.load(sources.find("chamomile"))
    assert theirs["flops_per_interaction"] == ours.flops_per_interaction
    errors, speeds = theirs["table_2_max_relative_force_error"], theirs["table_3_performance"]
    assert numbers(ours, "table-2") == errors["direct"] + errors["chamomile"]
    assert numbers(ours, "table-3-seconds") == speeds["seconds"]
    assert numbers(ours, "table-3-speed") == speeds["gflops"]
    assert numbers(ours, "table-2-as-printed") == numbers(ours, "table-2")
    assert numbers(ours, "table-3-as-printed") == speeds["seconds"]
    together = of_id(ours, "force-jerk-potential")
    for own in (one for one in ours.figures if one.id.startswith("table-")):
        assert list(dict.fromkeys(cell.select["n"] for cell in own.steps())) == errors["n"] == speeds["n"]
    assert numbers(ours, together.id) == [theirs["force_jerk_potential_gflops_131072"]]
    assert together.steps()[0].select["n"] == 131072
    assert together.flops_per_interaction == find(together.steps()[0].select["interaction"]).flops


def test_every_number_of_lee2008_is_ours(original):
    theirs, ours = original("lee2008"), sources.load(sources.find("lee2008"))
    assert theirs["device"] == ours.device
    steps = {cell.step: cell.published for cell in ours.figures[0].steps()}
    there = {name: value for name, value in steps.items() if value is not None}
    assert there == {
        "II naive, float": theirs["naive_float_global"],
        "II float4": theirs["float4_global"],
        "NVIDIA's SDK sample": theirs["nvidia_sdk_sample"],
    }
    assert {cell.select["n"] for cell in ours.figures[0].steps()} == {theirs["n"]}
    # What the source lost: four fractions of phase III, shared memory without and with unrolling.
    assert len(theirs["lost"]) == 2
    assert len(steps) - len(there) == 4 + 2
    assert ours.figures[0].blank.startswith("lost")
    claims = stated(ours)
    assert claims["final_relative_to_nvidia_sample"] == [theirs["final_relative_to_nvidia_sample"]]
    assert claims["loop_unroll_8_gain_percent"] == theirs["loop_unroll_8_gain_percent"]
    assert {"block_256x1_vs_16x16", "staggered_first_tile"} <= claims.keys() & theirs.keys()


def test_every_number_of_bodin2026_is_ours(original):
    theirs, ours = original("bodin2026"), sources.load(sources.find("bodin2026_direct"))
    assert {one.unit for one in ours.figures} == {theirs["unit"]}
    assert numbers(ours, "direct-cpu") == numbers(ours, "direct-cpu-plane") == theirs["direct_cpu"]
    assert numbers(ours, "direct-gpu") == theirs["direct_gpu"]
    for own in ours.figures:
        assert [cell.select["n"] for cell in own.steps()] == theirs["n"]
    assert facts(ours) == {
        "theta": [theirs["theta"]],
        "barnes_hut_cpu": theirs["barnes_hut_cpu"],
        "barnes_hut_gpu": theirs["barnes_hut_gpu"],
    }
    # All other claims are about trees, which bodin2026 judges.
    of_figure_2 = {f"figure-2-direct-{where}": theirs[f"direct_{where}"][:4] for where in ("cpu", "gpu")}
    assert stated(ours) == {"slopes": [2.0], "slopes-plane": [2.0]} | of_figure_2


def test_every_number_of_bodin2026s_trees_is_ours(original):
    theirs, ours = original("bodin2026"), sources.load(sources.find("bodin2026"))
    assert {one.unit for one in ours.figures} == {theirs["unit"]}
    for name, own in (
        ("direct_cpu", "direct-cpu"), ("direct_gpu", "direct-gpu"), ("direct_gpu", "direct-gpu-process"),
        ("barnes_hut_cpu", "tree-cpu"), ("barnes_hut_gpu", "tree-gpu"), ("barnes_hut_gpu", "tree-gpu-process"),
        ("direct_cpu", "direct-cpu-plane"), ("barnes_hut_cpu", "tree-cpu-as-described"),
    ):  # fmt: skip
        here = dict(zip([cell.select["n"] for cell in of_id(ours, own).steps()], numbers(ours, own), strict=True))
        there = dict(zip(theirs["n"], theirs[name], strict=True))
        assert {n: value for n, value in here.items() if value is not None} == {
            n: value for n, value in there.items() if value is not None
        }
    assert facts(ours) == {"theta": [theirs["theta"]]}
    listed = {claim["id"] for claim in theirs["claims"]} - {"slopes"}
    of_figure_2 = {"slope-direct", "slope-tree", "tree-overtakes", "tree-overtakes-on-the-gpu"}
    of_figure_2 |= {"figure-2-tree-cpu", "figure-2-tree-gpu"}
    of_its_text = {"radix", "naive-port", "transfers"}
    at_other_settings = [
        *(one for one in stated(ours) if one.endswith(("-as-described", "-plane", "-by-processes", "-by-insertion"))),
        *("slope-direct-on-the-gpu", "slope-tree-on-the-gpu"),
    ]
    own = {"naive-port-everything-off", "transfers-pageable", "top-levels-cycles", *at_other_settings}
    assert stated(ours).keys() == listed | of_figure_2 | of_its_text | own
    words = {claim.id: claim.text.replace(",", "") for claim in ours.claims}
    words["slopes"] = words["slope-direct"] + words["slope-tree"]
    for claim in theirs["claims"]:
        for figures in filter(str.isdigit, claim["text"].replace("%", " ").replace("-", " ").split()):
            assert figures in words[claim["id"]], claim["id"]


def test_the_start_of_the_process_is_added_as_often_as_the_source_ran_it():
    """100 steps of 20 are five processes: their start counts five times."""
    own = sources.load(sources.find("bodin2026"))
    asked = of_id(own, "direct-gpu-process")
    records = [
        record("soa_direct", 0.01, axes={"dim": 2}, **GPU, n=n, toolkit="cupy", start_seconds=start)
        for n, start in ((10, 3.0), (100, 3.0), (1000, 3.0), (10000, None))
    ]
    found = published.compare(own, asked, records)
    assert [step.answer.value for step in found.steps] == [1000 + 3000, 1000 + 3000, 1000 + 5 * 3000, None]
    assert "how long its process took" in found.steps[-1].answer.why


def test_3dgep_published_no_number_and_we_invent_none(original):
    theirs, ours = original("3dgep"), sources.load(sources.find("3dgep"))
    assert theirs["numbers"] == "none published"
    assert all(cell.published is None for own in ours.figures for cell in own.steps())
    assert {claim["id"] for claim in theirs["claims"]} <= stated(ours).keys()


@pytest.mark.parametrize("name", NAMES)
def test_every_published_number_is_in_the_report_without_any_measured(name):
    own = sources.load(sources.find(name))
    text = shown(own, [], 200)
    for one in own.figures:
        for cell in one.steps():
            assert cell.published is None or f" {number(cell.published, zeros=False)} " in text
        if one.blank:
            assert one.blank in text
    assert "cannot be tested" in text
    assert "does not hold" not in text


sweep_of = cache(configurations.load)


@pytest.mark.parametrize("name", NAMES)
def test_the_path_measures_what_answers_its_source(name):
    if lacking := missing_variants(name):
        pytest.skip(lacking)
    sweep = sweep_of(name)
    assert sweep.published == name
    own = sources.load(sources.find(name))
    asked = [(name, cell.select) for one in own.figures for cell in one.steps()]
    asked += [(claim.run or name, number.select) for claim in own.claims for number in claim.numbers.values()]
    cases = {run: sweep_of(run).cases for run, _ in asked}
    # A single core would take a minute an evaluation.
    not_needed = {("numba_direct", 100000), ("numba_planar", 100000)}
    for run, select in asked:
        if (select["variant"], select["n"]) not in not_needed:
            assert any(published.fits({**own.where, **select}, case) for case in cases[run]), select
    assert sweep.flops(GRAVITY) == own.flops_per_interaction


# Conversions and ratios, computed by hand


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        ("seconds", 0.002),
        ("frames/s", 500.0),
        ("ms per 100 steps", 200.0),  # 0.2 s
        ("interactions/s", 5e8),  # 1000 * 1000 / 0.002
        ("GFLOP/s", 19.0),  # at the source's 38, not the record's 20
        ("relative error", 1.2e-6),
        ("blocks", 4),
        ("waves", 0.5),
        ("bytes of local memory", 16),
        ("steps/s", 500.0),
        ("multiprocessors", 4),  # 4 blocks are half of what the device holds at once, 2 to a multiprocessor
        ("threads per block", 250),
        ("threads a multiprocessor holds", 2048),  # two blocks of eight warps each fill a quarter
        ("bytes of nodes", 4000),  # of 24,000, 16 a body and 4 for its place are no nodes
        ("% of the stages building the tree", 25.0),
        ("seconds of traverse", 0.004),
        ("seconds of allocate", 0.001),
        ("GB/s of download", 8.0),
        ("% of a warp", 12.5),
        ("loads per body", 4.0),  # tiled: n / p
        ("active threads of a multiprocessor", 409.6),  # a fifth of 2,048
        ("interactions", 1e6),  # 1000 * 1000
        ("instructions per interaction", 14.0),  # of 4 threads an instruction
        ("issue cycles per interaction", 17.5),  # four in five are used
        ("clock cycles per interaction", 1280.0),  # 2.5e6 cycles of 512 lanes for 1e6 interactions
        ("% of the multiprocessors", 3.0),
        ("global loads per body", 5.0),
    ],
)
def test_a_record_in_every_unit(unit, expected):
    assert set(get_args(sources.Unit)) == set(published._VALUES)
    one = tiled(
        0.002,
        p=250,
        grid_blocks=4,
        waves=0.5,
        local_bytes=16,
        blocks_per_multiprocessor=2,
        threads_per_block=250,
        occupancy=0.25,
        sm_clock_mhz=[1000, 1500],
        stages_seconds={"sort": 0.005, "build": 0.003, "compact": 0.001, "allocate": 0.001, "traverse": 0.004}
        | {"download": 0.002},
        stages_bytes={"upload": 24000, "download": 16_000_000},
        counters={"threads_an_instruction": 4.0, "achieved_occupancy": 0.2, "instructions": 3.5e6, "issue_slots": 0.8}
        | {"multiprocessors_active": 0.03, "global_loads": 1250.0},
    )
    assert published.value(one, unit, 38.0) == pytest.approx(expected, rel=1e-12)


def test_both_columns_are_relative_to_their_own_first_step():
    records = [tiled(0.5, p=64), tiled(0.4, p=128), tiled(0.05, p=256)]
    steps = compared(figure(), records).steps
    assert [step.published_relative for step in steps] == [1.0, 0.5, 0.25]
    assert [step.measured_relative for step in steps] == pytest.approx([1.0, 0.8, 0.1])


def test_the_first_step_may_be_another_and_one_a_size():
    last = compared(figure(first={"p": 256}), []).steps
    assert [step.published_relative for step in last] == [4.0, 2.0, 1.0]
    sizes = figure(
        where={"variant": "tiled"}, over={"n": [10, 20], "p": [64, 128]}, values=[[1, 2], [4, 12]], first={"p": 64}
    )
    assert [step.published_relative for step in compared(sizes, []).steps] == [1.0, 2.0, 1.0, 3.0]


def test_a_missing_first_step_leaves_ratios_blank_and_says_so():
    own = figure(values=[None, 4.0, 2.0], blank="the page was cut")
    records = [tiled(0.4, p=128), tiled(0.1, p=256)]
    steps = compared(own, records).steps
    assert [step.published_relative for step in steps] == [None, None, None]
    assert [step.measured_relative for step in steps] == [None, None, None]
    text = flat(shown(source(own), records))
    assert "published is blank in 1 cell (the page was cut)" in text
    assert "is blank where the first step of the path has no value" in text


# Which record answers


def test_only_ok_records_answer_and_the_newest_of_a_case():
    old, new = tiled(0.5, p=64), tiled(0.7, p=64)
    bad = [tiled(0.1, p=128, status=status, reason="made up") for status in ("invalid", "failed")]
    own = figure()
    assert f" {number(0.7, zeros=False)} " in shown(source(own), [old, new, *bad])
    assert measured(own, bad) == [None, None, None]


def test_the_toolkit_with_most_answers_is_shown_and_the_others_by_their_ratio():
    records = [tiled(1.0, p=64), tiled(1.0, p=128)]
    records += [tiled(1.1, p=p, toolkit="numba") for p in (64, 128, 256)]
    found = compared(figure(), records)
    assert [step.answer.value for step in found.steps] == [1.1, 1.1, 1.1]
    (other,) = found.others
    assert (other.toolkit, other.answered) == ("cupy", 2)
    assert (other.lowest, other.highest) == pytest.approx((1 / 1.1, 1 / 1.1))
    assert "cupy also has 2 cells of these; its values are 0.9091 to 0.9091 times" in flat(
        shown(source(figure()), records)
    )


def test_all_cells_are_answered_by_one_device_and_others_are_named():
    records = [tiled(1.0, p=64), tiled(1.0, p=128), tiled(0.1, p=256, device="Other", device_uuid="GPU-2")]
    assert measured(figure(), records) == [1.0, 1.0, None]
    text = flat(shown(source(figure()), records))
    assert "Also measured, but not shown: Other, cupy" in text
    assert "1 not in this run with the same toolkit and conditions" in text


def test_what_is_left_open_is_answered_by_the_fastest():
    records = [tiled(1.0, p=64, unroll=1), tiled(0.5, p=64, unroll=8), tiled(0.7, p=64, unroll=16)]
    assert measured(figure(), records)[0] == 0.5


def test_a_list_means_any_and_an_axis_the_record_lacks_means_none():
    any_of = figure(over={}, values=None, cells=[{"select": {"p": [128, 256]}, "published": 1.0}])
    assert measured(any_of, [tiled(0.1, p=64), tiled(0.3, p=128)]) == [0.3]
    assert measured(figure(where={"variant": "tiled", "q": 1}), [tiled(0.1, p=64)]) == [None] * 3


def test_the_cpu_answers_only_where_it_is_named():
    cpu = {"toolkit": "cpu", "device": "Imaginary CPU"}
    records = [tiled(0.1, p=64, **cpu), tiled(0.2, p=64)]
    cells = [
        {"select": {"p": 64}, "published": 1.0},
        {"select": {"p": 64, "toolkit": "cpu"}, "published": 2.0},
    ]
    assert measured(figure(over={}, values=None, cells=cells), records) == [0.2, 0.1]


def test_blanks_have_their_number_and_their_reasons():
    failed = tiled(None, p=64, status="failed", reason="out of memory [here]")
    text = flat(shown(source(figure()), [failed, tiled(1.0, p=128)]))
    assert "measured is blank in 2 cells (1 failed: out of memory [here]; 1 not in this run)." in text
    assert "measured is blank in 3 cells (3 not in this run)." in flat(shown(source(figure()), []))


def test_a_step_without_any_value_has_no_row():
    own = figure(values=[1.0, None, None], blank="the page was cut")
    text = shown(source(own), [tiled(1.0, p=256)])
    assert [line.split()[0] for line in text.splitlines() if line.startswith("p=")] == ["p=64", "p=256"]
    assert "not shown: 1 step with neither a published nor a measured value" in flat(text)


def test_a_value_that_is_not_known_is_blank():
    error = figure(unit="relative error")
    records = [tiled(p=p, error_max=None) for p in (64, 128, 256)]
    assert measured(error, records) == [None, None, None]
    assert "3 its record has no relative error" in flat(shown(source(error), records))
    assert published._ratio(1.0, 0.0) is None


def test_errors_of_a_sample_are_said_to_be_by_the_records_and_by_no_note():
    own = figure(unit="relative error")
    whole = [tiled(p=p, n=1000, error_rows=1000) for p in (64, 128, 256)]
    assert "sample of" not in shown(source(own), whole)
    part = [*whole[:2], tiled(p=256, n=1000, error_rows=100)]
    assert "The errors of 1 cell are those of a sample of the bodies (100 of 1,000)." in flat(shown(source(own), part))
    for name in NAMES:
        source_read = sources.load(sources.find(name))
        notes = [*source_read.notes, *(one.note for one in source_read.figures)]
        assert not [note for note in notes if re.search(r"sample of \d", note)], name


def test_the_reads_that_lee_prints_are_judged_by_the_declared_loads():
    n, threads = 8192, 256
    assert (2 * n * n, 2 * n * n // threads) == (128 * 2**20, 512 * 2**10)  # as the page prints them
    own = sources.load(sources.find("lee2008"))
    judged = published.decisions(own, RecordFile(ROOT / "reports" / "h100" / "lee2008").read())
    (found,) = [one for one in judged if one.claim.id == "memory_accesses"]
    assert found.verdict == "holds"
    assert {name: answer.value for name, answer in found.answers.items()} == {"phase_3": n, "phase_4": n / threads}


def test_records_of_tiled_with_its_former_axes_answer_at_the_values_that_it_kept():
    own = sources.load(sources.find("lee2008"))
    measured = RecordFile(ROOT / "reports" / "h100" / "lee2008").read()
    records = [one for one in measured if one.variant != "tiled"] + [
        one.model_copy(update={"axes": one.axes | {"block_shape": "1d", "stagger": stagger}})
        for stagger in (0, 1)
        for one in measured
        if one.variant == "tiled"
    ]
    judged = published.decisions(own, records)
    answers = [answer.record for one in judged for answer in one.answers.values() if answer.record]
    of_tiled = [record.axes for record in answers if record.variant == "tiled"]
    assert len(of_tiled) >= 3
    assert {(axes["block_shape"], axes["stagger"]) for axes in of_tiled} == {("1d", 0)}


def test_phase_2_of_lee_has_blocks_in_a_line():
    own = sources.load(sources.find("lee2008"))
    cells = [cell for one in own.figures for cell in one.steps() if cell.select["variant"] == "lee_global"]
    assert {cell.select["block_shape"] for cell in cells if cell.step.startswith("II ")} == {"1d"}
    assert len(cells) == 8
    (asked,) = [one for one in own.claims if one.id == "float4-as-printed"]
    assert {number_asked.select["block_shape"] for number_asked in asked.numbers.values()} == {"1d"}


def test_what_was_timed_otherwise_is_said():
    assert "The timings differ in scope" not in shown(source(figure()), [tiled(p=64)])
    text = flat(shown(source(figure(timed="call")), [tiled(p=64)]))
    assert "The timings differ in scope: the source timed the library call, including transfers; here: force." in text


def test_the_toolkit_that_timed_the_same_is_preferred():
    records = [tiled(1.0, p=64), tiled(2.0, p=64, timed="step")]
    assert measured(figure(timed="step"), records)[0] == 2.0
    assert measured(figure(timed="force"), records[::-1])[0] == 1.0


# Claims


def claim(**changes: Any) -> Claim:
    """Make a claim up: p = 128 is faster than p = 64."""
    fields = {
        "id": "faster",
        "text": "more is faster",
        "numbers": {
            "few": {"select": {"variant": "tiled", "p": 64}, "unit": "interactions/s"},
            "many": {"select": {"variant": "tiled", "p": 128}, "unit": "interactions/s"},
        },
        "holds": "many > few",
    }
    return Claim.model_validate(fields | changes)


@pytest.mark.parametrize(
    ("records", "verdict"),
    [
        ([tiled(2.0, p=64), tiled(1.0, p=128)], "holds"),
        ([tiled(1.0, p=64), tiled(2.0, p=128)], "does not hold"),
        ([tiled(1.0, p=64)], "cannot be tested"),
        ([tiled(1.0, p=64), tiled(0.1, p=128, toolkit="numba")], "cannot be tested"),
        ([tiled(1.0, p=64), tiled(0.1, p=128, status="invalid", reason="wrong")], "cannot be tested"),
        ([], "cannot be tested"),
    ],
)
def test_a_claim_holds_or_not_or_cannot_be_tested(records, verdict):
    own = source(claims=[claim()])
    assert published.decide(own, own.claims[0], records).verdict == verdict
    assert flat(shown(own, records)).count(f"{verdict}: more is faster. Condition: many > few;") == 1


def test_a_claim_names_the_figures_behind_it_with_units():
    text = flat(shown(source(claims=[claim(published=[0.86])]), [tiled(0.5, p=64, n=1000)]))
    assert "Published: 0.86." in text
    assert "few = 2,000,000 interactions/s ± 1.00 % (tiled cupy n=1000 float32 p=64)" in text
    assert "may be too small" not in text  # two processes measured it
    assert "many = blank (tiled p=128: not in this run)" in text


def test_what_no_record_can_decide_gives_its_reason():
    own = source(claims=[claim(numbers={}, holds="", untestable="Nobody can know")])
    assert "cannot be tested: more is faster. Nobody can know." in flat(shown(own, [tiled()]))


# How far a claim may be off


def repeated(*seconds: float, **changes: Any) -> list[Record]:
    """Make the repetitions of an anchor up."""
    return [tiled(one, p=32, anchor=place, **changes) for place, one in enumerate(seconds, start=1)]


STEADY = repeated(1.0, 1.0, 1.0)
DRIFTING = repeated(0.9, 1.0, 1.1, 1.2)


def verdict(own: Claim, records: list[Record]) -> str:
    return published.decide(source(claims=[own]), own, records).verdict


@pytest.mark.parametrize(
    ("few", "many", "anchor", "expected"),
    [
        (1.11, 1.0, STEADY, "holds"),
        (1.0, 1.11, STEADY, "does not hold"),
        # Intervals of 1 % each to both sides overlap.
        (1.015, 1.0, STEADY, "undecided"),
        (1.0, 1.015, STEADY, "undecided"),
        (1.11, 1.0, DRIFTING, "undecided"),
        (1.0, 1.11, DRIFTING, "undecided"),
        (9.0, 1.0, DRIFTING, "holds"),
        # Of another device.
        (1.11, 1.0, repeated(0.5, 1.0, 2.0, toolkit="cpu", device="Imaginary CPU"), "holds"),
    ],
)
def test_a_claim_that_intervals_or_drift_would_turn_is_undecided(few, many, anchor, expected):
    records = [*anchor, tiled(few, p=64), tiled(many, p=128)]
    assert verdict(claim(), records) == expected


def test_an_undecided_claim_says_how_far_it_is_from_certain():
    records = [*DRIFTING, tiled(1.11, p=64), tiled(1.0, p=128)]
    found = published.decide(source(claims=[claim()]), claim(), records)
    assert found.verdict == "undecided"
    # By hand: logarithms of 0.9, 1, 1.1 and 1.2 deviate by 0.1238, Student's t of 3 is 3.18, the interval adds 1 %.
    assert [one.doubt.reach for one in found.answers.values()] == pytest.approx([0.3942, 0.3942], abs=1e-4)
    text = flat(shown(source(claims=[claim()]), records))
    assert "undecided: more is faster." in text
    assert "± 40.45 % (tiled" in text  # half of exp(0.3942) - exp(-0.3942)
    assert "Their ratio is 1.11, uncertain by ± 87.27 %." in text
    decided = flat(shown(source(claims=[claim()]), [*STEADY, tiled(2.0, p=64), tiled(1.0, p=128)]))
    assert "Their ratio" not in decided


def test_a_band_is_undecided_when_only_its_middle_is_within_it():
    """Both ends of the interval are outside of the band, on either side."""
    band = claim(holds="0.99 <= many / few <= 1.02")
    assert verdict(band, [*DRIFTING, tiled(1.0, p=64), tiled(1.0, p=128)]) == "undecided"
    assert verdict(band, [*STEADY, tiled(1.5, p=64), tiled(1.0, p=128)]) == "does not hold"


def test_few_samples_bound_a_number_by_their_own_scatter():
    def of(samples: list[float]) -> float:
        few = tiled(1.0, p=64, ci_low=None, ci_high=None, samples_seconds=samples)
        return claim_uncertainty.Doubts([few]).of(few, "seconds").reach

    # Student's t of two is 4.30, the logarithms deviate by 0.1: by hand 4.303 * 0.1 / sqrt(3).
    assert of([math.exp(-0.1), 1.0, math.exp(0.1)]) == pytest.approx(0.2484, abs=1e-4)
    assert of([1.0]) == math.inf
    lone = [tiled(1.0, p=64, ci_low=None, ci_high=None, samples_seconds=[1.0]), tiled(0.5, p=128)]
    assert verdict(claim(), lone) == "undecided"
    assert "give or take any factor" in flat(shown(source(claims=[claim()]), lone))
    few = [lone[0].model_copy(update={"samples_seconds": [math.exp(-0.1), 1.0, math.exp(0.1)]}), lone[1]]
    assert "± 25.10 %* by Student's t of 3 samples (tiled" in flat(shown(source(claims=[claim()]), few))


def test_a_claim_prints_the_uncertainty_that_the_ladder_prints():
    records = [*repeated(1.0, 1.02, 0.97), tiled(2.0, p=64), tiled(1.0, p=128)]
    records = [one.model_copy(update={"processes": [place] * 10}) for place, one in enumerate(records, 1)]
    half = Uncertainties([records]).half_width(records[-1])
    assert half == pytest.approx(math.sinh(math.hypot(0.01, 4.303 * np.std(np.log([1.0, 1.02, 0.97]), ddof=1))), 0.01)
    assert f"| {100 * half:.2f} |" in ladder_markdown(records, {}, {})
    text = flat(shown(source(claims=[claim()]), records))
    assert f"many = 1,000,000 interactions/s ± {100 * half:.2f} % (tiled" in text
    assert "may be too small" not in text
    without = flat(shown(source(claims=[claim()]), records[3:]))
    assert "many = 1,000,000 interactions/s ± 1.00 %* (tiled" in without
    assert "* ± may be too small: the run repeated no anchor of this kind of work in fresh processes." in without


def test_a_part_of_one_evaluation_has_no_uncertainty_of_the_time_of_all():
    asked = {"percent": {"select": {"variant": "tiled", "p": 64}, "unit": "% of the stages building the tree"}}
    own = claim(numbers=asked, holds="percent > 50")
    building = tiled(1.0, p=64, stages_seconds={"build": 0.3, "compact": 0.1, "traverse": 0.6})
    records = [*DRIFTING, building]
    assert verdict(own, records) == "does not hold"
    text = flat(shown(source(claims=[own]), records))
    assert "40 % of the stages building the tree without an interval, because it is a part of one evaluation" in text
    assert "±" not in text


def test_what_is_counted_is_certain():
    asked = {"few": {"select": {"variant": "tiled", "p": 64}, "unit": "bytes of nodes"}}
    own = claim(numbers=asked, holds="few <= 4000")
    one = tiled(1.0, p=64, stages_bytes={"upload": 24000})
    assert verdict(own, [*DRIFTING, one]) == "holds"
    assert {unit for unit in get_args(sources.Unit) if unit not in claim_uncertainty.COUNTED} >= {
        "seconds",
        "GB/s of download",
    }


# What the sources' claims are asked of


def claims_of(name: str) -> dict[str, Claim]:
    return {one.id: one for one in sources.load(sources.find(name)).claims}


def any_of(select: Selection) -> dict[str, Any]:
    """Return a selection with one value of each list."""
    return {name: value[0] if isinstance(value, list) else value for name, value in select.items()}


def decided(name: str, one: str, answers: dict[str, dict[str, Any]]) -> str:
    """Decide a claim of a source by records made up to fit its numbers, each with these fields."""
    own = sources.load(sources.find(name))
    (asked,) = [claim for claim in own.claims if claim.id == one]
    records = []
    for number_name, number_asked in asked.numbers.items():
        select = any_of(number_asked.select)
        variant = str(select.pop("variant"))
        fields = GPU | {"toolkit": "cupy"} | {name: select.pop(name) for name in list(select) if name in PARTS}
        if fields["toolkit"] == "cpu":
            fields["device"] = "Imaginary CPU"
        changes = dict(answers[number_name])
        records.append(record(variant, changes.pop("seconds", 1.0), axes=select, **fields | changes))
    return published.decide(own, asked, records).verdict


@pytest.mark.parametrize(
    ("name", "one"),
    [("bodin2026", "slope-direct"), ("bodin2026_direct", "slopes"), ("bodin2026_direct", "slopes-plane")],
)
def test_the_slope_of_the_direct_sum_is_that_of_the_cpu(name, one):
    numbers = claims_of(name)[one].numbers
    assert {asked.select["toolkit"] for asked in numbers.values()} == {"cpu"}
    assert decided(name, one, {"small": {"seconds": 0.01}, "large": {"seconds": 1.0}}) == "holds"
    assert decided(name, one, {"small": {"seconds": 0.01}, "large": {"seconds": 0.15}}) == "does not hold"


TREES = {"barnes_hut", "barnes_hut_classic", "barnes_hut_cpu", "barnes_hut_insertion"}
DIRECT_SUMS = {"numba_direct", "numba_planar", "soa_direct"}


def test_claims_about_the_tree_are_asked_of_trees_and_once():
    direct, trees = claims_of("bodin2026_direct"), claims_of("bodin2026")
    assert not direct.keys() & trees.keys()
    for claims, meant in ((direct, DIRECT_SUMS), (trees, TREES)):
        for one, asked in claims.items():
            variants = {number.select["variant"] for number in asked.numbers.values()}
            assert one.startswith(("slope-direct", "tree-overtakes")) or variants <= meant, one


def test_claims_are_asked_of_the_tree_that_the_source_describes_where_it_has_the_setting():
    """Its memory, streams and buffers are axes of barnes_hut alone."""
    described = discover()["barnes_hut_classic"].axes.keys()
    source_settings = {"dim": 2, "theta": 1.0, "order": "inserted", "leaf_size": 1, "bits": 10}
    own_of_hybrid = {"pinned", "streams", "persistent", "warp-efficiency", "morton"}
    own_of_hybrid |= {"naive-port-everything-off", "transfers-pageable"}
    on_the_cpu = {"dim": 2, "theta": 1.0, "cores": "one"}
    for one, asked in claims_of("bodin2026").items():
        for number_asked in asked.numbers.values():
            select = number_asked.select
            if select["variant"] in ("barnes_hut_cpu", "barnes_hut_insertion"):
                assert on_the_cpu.items() <= select.items(), one
            if select.get("toolkit") == "cpu" or select["variant"] == "soa_direct":
                continue
            assert (select["variant"] == "barnes_hut") == (one in own_of_hybrid), one
            if select["variant"] == "barnes_hut_classic":
                assert source_settings.items() <= select.items(), one
    assert not {"memory", "streams", "buffers"} & set(described)


@pytest.mark.parametrize(
    ("one", "answers", "expected"),
    [
        # The figures of the source itself, in seconds per step.
        ("slope-direct-plane", {"small": 1.5e-3, "large": 0.1636}, "holds"),
        ("slope-direct-plane", {"small": 1e-3, "large": 0.05}, "does not hold"),
        ("slope-tree-as-described", {"small": 0.01, "large": 0.15}, "holds"),
        ("slope-tree-as-described", {"small": 5.65e-3, "large": 0.201}, "does not hold"),
        (
            "tree-overtakes-as-described",
            {"direct_100": 3e-5, "tree_100": 4e-5, "direct_1000": 1.5e-3, "tree_1000": 3.4e-4},
            "holds",
        ),
        (
            "tree-overtakes-on-the-gpu",
            {"direct_100": 2.08e-3, "tree_100": 2.52e-3, "direct_1000": 1.095e-2, "tree_1000": 2.55e-3},
            "holds",
        ),
        (
            "tree-overtakes-on-the-gpu",
            {"direct_100": 1e-5, "tree_100": 2e-4, "direct_1000": 5e-5, "tree_1000": 3e-4},
            "does not hold",
        ),
        (
            "crossover-as-described",
            {"cpu_5000": 2e-3, "gpu_5000": 4e-3, "cpu_10000": 5.65e-3, "gpu_10000": 5.15e-3},
            "holds",
        ),
        (
            "crossover-as-described",
            {"cpu_5000": 2e-3, "gpu_5000": 1e-3, "cpu_10000": 5.65e-3, "gpu_10000": 5.15e-3},
            "does not hold",
        ),
        ("naive-port", {"cpu": 0.2, "gpu": 0.3}, "holds"),
        ("naive-port", {"cpu": 0.2, "gpu": 0.1}, "does not hold"),
        ("naive-port-everything-off", {"cpu": 0.2, "gpu": 0.3}, "holds"),
    ],
)
def test_the_claims_of_figure_2_are_judged_by_times(one, answers, expected):
    assert decided("bodin2026", one, {name: {"seconds": seconds} for name, seconds in answers.items()}) == expected


def test_the_start_of_a_process_of_20_steps_counts_five_times():
    """0.2 s of start and nothing else make 1,000 ms of 20 steps and 200 ms of 100."""
    fast = {name: {"seconds": 1e-9, "start_seconds": 0.2} for name in ("direct", "tree")}
    assert decided("bodin2026", "tree-overtakes-on-the-gpu-by-processes", fast) == "holds"
    slow = {**fast, "tree": {"seconds": 8.1e-3, "start_seconds": 0.2}}
    assert decided("bodin2026", "tree-overtakes-on-the-gpu-by-processes", slow) == "does not hold"
    never = {name: {"seconds": 1e-9} for name in ("direct", "tree")}
    assert decided("bodin2026", "tree-overtakes-on-the-gpu-by-processes", never) == "cannot be tested"


@pytest.mark.parametrize(
    ("upload", "expected"), [(2e-3, "holds"), (1e-4, "does not hold"), (9e-3, "holds"), (0.02, "does not hold")]
)
@pytest.mark.parametrize("one", ["transfers", "transfers-pageable"])
def test_a_few_milliseconds_are_one_to_ten_of_both_transfers(one, upload, expected):
    stages = {"upload": upload, "download": 5e-4, "traverse": 3e-3}
    assert decided("bodin2026", one, {"both": {"stages_seconds": stages}}) == expected
    assert decided("bodin2026", one, {"both": {"stages_seconds": {"upload": upload}}}) == "cannot be tested"


def test_a_radix_sort_has_to_be_faster_than_both_sorts_of_the_library():
    def sorts(**seconds):
        return {name: {"stages_seconds": {"sort": value, "build": 1.0}} for name, value in seconds.items()}

    assert decided("bodin2026", "radix", sorts(radix=1.0, quicksort=2.0, stable=3.0)) == "holds"
    assert decided("bodin2026", "radix", sorts(radix=1.0, quicksort=0.5, stable=3.0)) == "does not hold"
    assert decided("bodin2026", "radix", sorts(radix=1.0, quicksort=2.0, stable=0.5)) == "does not hold"


def test_insertion_is_compared_with_all_that_the_hybrid_does_besides_building():
    hybrid = {"stages_seconds": {"sort": 1.0, "build": 50.0, "compact": 50.0, "traverse": 2.0, "integrate": 3.0}}
    for seconds, expected in ((7.0, "holds"), (5.0, "does not hold")):
        inserted = {"stages_seconds": {"build": seconds, "traverse": 100.0}}
        answers = {"building": inserted, "others": hybrid}
        assert decided("bodin2026", "cpu-tree-by-insertion", answers) == expected


@pytest.mark.parametrize(
    ("one", "answers", "expected"),
    [
        ("error-as-called", {"called": {"error_max": 1.5e-6}}, "holds"),
        ("error-as-called", {"called": {"error_max": 1.6e-6}}, "does not hold"),
        ("n-j-larger", {"called": {"error_max": 1e-6}}, "holds"),
        ("n-i-larger", {"part": {"error_max": 2.5, "error_cycle_max": 4e-7}}, "holds"),
        ("n-i-larger", {"part": {"error_max": 1e-7, "error_cycle_max": 2e-6}}, "does not hold"),
        ("n-i-larger", {"part": {"error_max": 1e-7}}, "cannot be tested"),
        ("threads", {name: {"seconds": value} for name, value in {"p128": 1, "p256": 1, "p512": 1.1}.items()}, "holds"),
        (
            "threads",
            {name: {"seconds": value} for name, value in {"p128": 1.2, "p256": 1, "p512": 1.3}.items()},
            "does not hold",
        ),
        ("sums-in-memory", {"memory": {"seconds": 1.0}, "register": {"seconds": 1.0}}, "holds"),
        ("sums-in-memory", {"memory": {"seconds": 1.1}, "register": {"seconds": 1.0}}, "does not hold"),
        # Near table 3 itself, at 38 FLOPs per interaction.
        *(
            (
                one,
                {"small": {"interactions_per_second": small}, "large": {"interactions_per_second": 270e9 / 38}},
                found,
            )
            for one, small, found in (
                ("speed", 190e9 / 38, "holds"),
                ("speed-as-called", 150e9 / 38, "does not hold"),
                ("small-n", 182e9 / 38, "holds"),
                ("small-n-as-called", 20e9 / 38, "does not hold"),
            )
        ),
    ],
)
def test_the_claims_of_the_chamomile_scheme_are_judged_by_errors_and_times(one, answers, expected):
    assert decided("chamomile", one, answers) == expected


@pytest.mark.parametrize(
    ("stage", "seconds", "expected"),
    [("upload", 1.2e-4, "holds"), ("upload", 2e-4, "does not hold"), ("download", 2e-4, "does not hold")],
)
def test_short_transfers_are_compared_with_long_ones_by_their_bandwidth(stage, seconds, expected):
    def call(megabytes, **stages):
        return {"stages_seconds": stages, "stages_bytes": {"upload": megabytes * 1e6, "download": megabytes * 1e6}}

    short = call(1, **{"upload": 1e-4, "download": 1e-4, stage: seconds})
    answers = {"upload": short, "download": short}
    answers |= {name: call(8, upload=8e-4, download=8e-4) for name in ("long_upload", "long_download")}
    assert decided("chamomile", "transfers", answers) == expected


@pytest.mark.parametrize("one", ["molecules", "sph", "boundary-elements", "wave"])
def test_another_interaction_is_judged_by_its_error_relative_to_all_contributions(one):
    (name,) = claims_of("chamomile")[one].numbers
    for magnitude, expected in ((1e-6, "holds"), (1e-3, "does not hold")):
        errors = {"error_max": 0.5, "error_magnitude_max": magnitude}
        assert decided("chamomile", one, {name: errors}) == expected


def test_the_bytes_of_nodes_are_not_those_of_bodies_and_their_order():
    """145,000 nodes of 40 and 32 bytes: with the bodies and their order they would differ by 15 %."""
    sent = {
        name: {"stages_bytes": {"upload": 145_000 * a_node + 100_000 * 20}}
        for name, a_node in (("full", 40), ("compact", 32))
    }
    assert decided("bodin2026", "compact-node", sent) == "holds"
    assert not 0.75 <= sent["compact"]["stages_bytes"]["upload"] / sent["full"]["stages_bytes"]["upload"] <= 0.85


def test_sorting_is_not_building():
    stages = {"bounding box": 1.7, "sort": 6.6, "reorder": 0.8, "build": 2.3, "compact": 0.6, "traverse": 2.7}
    stages |= {"upload": 0.4, "download": 0.3, "integrate": 5.7}
    assert decided("bodin2026", "cpu-tree", {"percent": {"stages_seconds": stages}}) == "does not hold"
    assert decided("bodin2026", "cpu-tree", {"percent": {"stages_seconds": stages | {"build": 30.0}}}) == "holds"


def test_counters_are_those_of_the_run_itself():
    """Of two runs on a page, the one that asked for no counters has none."""
    own = sources.load(sources.find("bodin2026"))
    (asked,) = [claim for claim in own.claims if claim.id == "warp-efficiency"]
    select = dict(asked.numbers["percent"].select)
    variant, n = str(select.pop("variant")), select.pop("n")
    without = record(variant, 1.0, axes=select, **GPU | {"n": n})
    counted = without.model_copy(update={"counters": {"threads_an_instruction": 4.0}})
    runs_on_a_page = [
        html.Run("with", [counted], [], "bodin2026", own),
        html.Run("without", [without], [], "bodin2026", own),
    ]
    page = flat(html.Page(runs_on_a_page, {}).text())
    sentence = "without Morton order about 12 % of a warp is active (4 of 32 threads"
    verdicts = [part.rsplit(">", 1)[0].rsplit("<", 1)[0].rsplit(">", 1)[1] for part in page.split(sentence)[:-1]]
    assert verdicts == ["holds", "cannot be tested"]


def test_a_page_knows_of_the_drift_that_a_terminal_knows_of():
    own = source(claims=[claim()])
    records = [*DRIFTING, tiled(1.11, p=64), tiled(1.0, p=128)]
    page = html.Page([html.Run("one", records, [], "nobody", own)], {}).text()
    assert '<span class="verdict undecided">undecided</span>more is faster' in page
    assert "undecided: more is faster" in flat(shown(own, records))


def test_a_figure_that_nothing_was_measured_of_is_not_drawn():
    own = figure()
    nothing, measured = (Content([records], {}, source=source(own)) for records in ([], [tiled(8.0, p=64)]))
    assert kinds.published("nobody", own, nothing) is None
    assert kinds.published("nobody", own, measured) is not None


@pytest.mark.parametrize(
    ("occupancy", "expected"),
    [(0.1225, "holds"), (0.25, "does not hold"), (0.0625, "does not hold")],  # 251, 512 and 128 of 2,048 threads
)
def test_the_threads_that_a_multiprocessor_runs_are_counted(occupancy, expected):
    held = {"occupancy": 0.75, "blocks_per_multiprocessor": 6, "threads_per_block": 256}
    counters = {"counters": {"achieved_occupancy": occupancy}}
    assert decided("3dgep", "active-threads", {"threads": held | counters}) == expected
    assert decided("3dgep", "active-threads", {"threads": held}) == "cannot be tested"


def test_the_blocks_whose_loads_are_compared_have_256_threads():
    of_claim = claims_of("lee2008")["memory_accesses"]
    assert {name: number_asked.select["p"] for name, number_asked in of_claim.numbers.items()} == {
        "phase_3": 256,
        "phase_4": 256,
    }
    assert "counted by running them and not measured on a GPU" in of_claim.text


def test_a_claim_that_names_a_run_is_judged_by_that_run_beside_this_one(tmp_path):
    named = claim(run="elsewhere")
    own = source(claims=[named, claim(id="here")])
    (tmp_path / "this").mkdir()
    assert published.beside(tmp_path / "this", own) == {}
    here = [tiled(1.0, p=64), tiled(2.0, p=128)]
    verdicts = [one.verdict for one in published.decisions(own, here)]
    assert verdicts == ["does not hold", "does not hold"]  # the run itself may have the numbers
    for one in (tiled(2.0, p=64), tiled(1.0, p=128)):
        RecordFile(tmp_path / "elsewhere").append(one)
    others = published.beside(tmp_path / "this", own)
    found = published.decisions(own, here, others)
    assert [(one.verdict, one.run) for one in found] == [("holds", "elsewhere"), ("does not hold", "")]
    file = io.StringIO()
    render_published(own, here, Console(width=200, file=file), others)
    assert "Asked of the run elsewhere." in flat(file.getvalue())
    (asked_of_none, _) = published.decisions(own, here, {"elsewhere": []})
    assert f"blank (tiled p=64: {published.NOT_THERE})" in remarks.evidence(asked_of_none)


def test_a_claim_is_judged_by_another_run_on_the_same_device_alone():
    own = source(claims=[claim(run="elsewhere")])
    here = [tiled(1.0, p=64), tiled(2.0, p=128)]
    there = [tiled(2.0, p=64), tiled(1.0, p=128)]
    on_another = [one.model_copy(update={"device": "Another GPU", "device_uuid": "GPU-9"}) for one in there]
    (judged,) = published.decisions(own, here, {"elsewhere": [*on_another, *there]})
    assert (judged.verdict, judged.left_out) == ("holds", ("Another GPU",))
    assert {answer.record.device for answer in judged.answers.values()} == {GPU["device"]}
    (judged,) = published.decisions(own, here, {"elsewhere": on_another})
    assert judged.verdict == "cannot be tested"
    assert f"blank (tiled p=64: {published.NOT_THERE})" in remarks.evidence(judged)
    said = "Asked of the run elsewhere, without its records on Another GPU, which this run was not measured on."
    assert said in remarks.evidence(judged)
    (judged,) = published.decisions(own, here, {"elsewhere": there})
    assert "without its records" not in remarks.evidence(judged)


@pytest.mark.parametrize(
    ("run", "claim_id", "expected"),
    [
        ("h100/bodin2026", "warp-efficiency", "does not hold"),  # 22.4 of 32 threads
        ("h100/bodin2026", "morton", "does not hold"),  # 25.8 of 32 threads
        ("h100/bodin2026", "crossover", "does not hold"),
        ("h100/gems3", "first-implementation", "holds"),  # 6,636 GFLOP/s
        ("h100/gems3", "unroll-gain", "does not hold"),  # a factor of 2.2
        ("h100/gems3", "unroll-further-16384", "does not hold"),  # 17 % more with 32
        ("h100/gems3", "block-size-16384", "does not hold"),  # 128 threads are faster than 256
        ("h100/gems3", "split-above-four", "does not hold"),  # 8 and 16 gain 25 % and more
        ("h100/gems3", "instructions-65536", "holds"),
        ("h100/gems3", "cycles-by-time", "does not hold"),  # 89.0
        ("h100/gems3", "above-the-peak-by-time", "does not hold"),  # 0.90 FLOP per thread and cycle
        ("h100/gems3", "more-bodies-to-4096", "holds"),
        ("h100/gems3", "split-gain-falls", "does not hold"),  # factors of 2.1, 2.5 and 2.6
        ("h100/gems3", "leaves", "holds"),  # 7.6 ms
        ("h100/gems3", "two-threads-per-body", "undecided"),  # a gain of 46 %
        ("h100/gems3", "split-large-16384", "does not hold"),  # four threads gain 84 %
        ("h100/gems3", "split-blocks", "holds"),  # larger blocks are slower
        ("h100/gems3", "one-thread-reads-lower", "does not hold"),  # both kernels are within 2 %
        ("h100/gems3", "block-size-1024-as-read", "does not hold"),  # 0.91
        ("h100/gems3", "block-size-further-65536", "holds"),  # 3 % more with 512 threads
        ("h100/gems3", "times-tuned", "holds"),
        ("h100/lee2008_last", "block_256x1_vs_16x16", "holds"),
        ("h100/lee2008_last", "staggered_first_tile", "holds"),
        ("h100/lee2008_last", "frames", "holds"),
        ("h100/gems3", "cycles", "does not hold"),
        ("h100/lee2008", "fractions_global", "does not hold"),  # 13.1 for a sixteenth
        ("h100/lee2008", "fractions_global_as_printed", "holds"),
        ("h100/lee2008", "reads_of_phase_3", "does not hold"),  # half of 128M
        ("h100/lee2008", "memory_accesses_counted", "holds"),
        ("h100/lee2008", "sample_relative_to_float4", "does not hold"),  # 4.3
        ("h100/3dgep", "idle", "holds"),
        ("h100/bodin2026", "tree-overtakes-on-the-gpu", "does not hold"),  # at 1,000 bodies, 0.59 ms against 0.05 ms
        ("h100/bodin2026", "tree-overtakes-on-the-gpu-by-processes", "holds"),
        ("h100/bodin2026", "figure-2-tree-cpu", "does not hold"),  # 13 ms at 10 bodies
        ("h100/bodin2026", "figure-2-tree-gpu", "holds"),
        ("h100/bodin2026_direct", "figure-2-direct-cpu", "does not hold"),  # 362 ms at 1,000 bodies
        ("h100/bodin2026_direct", "figure-2-direct-gpu", "holds"),
        ("h100/bodin2026", "slope-direct-on-the-gpu", "does not hold"),  # 1.92
        ("h100/bodin2026", "naive-port", "does not hold"),  # 3.4 ms against 232 ms
        ("h100/bodin2026", "transfers", "does not hold"),  # 0.10 ms
        ("h100/bodin2026", "crossover-by-processes", "cannot be tested"),
        ("h100/bodin2026", "top-levels-cycles", "cannot be tested"),
        ("h100/chamomile", "speed", "holds"),
        ("h100/chamomile", "small-n", "does not hold"),  # 2,344 of 67,584 GFLOP/s
        ("h100/chamomile", "n-i-larger", "holds"),
        ("h100/chamomile", "table-2", "does not hold"),  # 7.3e-7 at 2,048 bodies
        ("h100/chamomile", "batches-table-2", "holds"),
        ("h100/chamomile", "table-3", "holds"),
        ("h100/chamomile", "table-3-as-called", "holds"),
        ("h100/chamomile", "saturation", "does not hold"),  # 46 %
        ("h100/chamomile", "molecules", "holds"),
        ("h100/chamomile", "sph-forces", "cannot be tested"),
    ],
)
def test_the_committed_runs_judge_what_the_sources_say(run, claim_id, expected):
    folder = ROOT / "reports" / run
    own = sources.load(sources.find(folder.name.removesuffix("_last")))
    judged = published.decisions(own, RecordFile(folder).read(), published.beside(folder, own))
    (verdict_of_claim,) = [one.verdict for one in judged if one.claim.id == claim_id]
    assert verdict_of_claim == expected


def test_every_claim_of_the_chapter_has_a_verdict_or_a_reason():
    own = claims_of("gems3")
    assert {"two-threads-per-body", "flat", "steps-and-interactions", "times-portable"} <= own.keys()
    assert [one for one, asked in own.items() if asked.untestable] == ["first-implementation-to-best"]
    fast = {name: {"seconds": 1 / 38, "interactions_per_second": 10.2e9} for name in ("steps", "interactions")}
    assert decided("gems3", "steps-and-interactions", fast) == "undecided"  # the source's own, within 1 %
    fast = {name: {"seconds": 1 / 40, "interactions_per_second": 10.7e9} for name in ("steps", "interactions")}
    assert decided("gems3", "steps-and-interactions", fast) == "holds"
    # GFLOP/s of the source by figure 31-8 and 31-6.
    rates = {"two": {"interactions_per_second": 91e9 / 20}, "one": {"interactions_per_second": 63e9 / 20}}
    assert decided("gems3", "two-threads-per-body", rates) == "holds"
    rates = {"many": {"interactions_per_second": 204e9 / 20}, "fewer": {"interactions_per_second": 182e9 / 20}}
    assert decided("gems3", "flat", rates) == "holds"


def seconds_of(**speeds: float) -> dict[str, dict[str, Any]]:
    """Make answers up from speeds: frames/s, and GFLOP/s of the source's 20 FLOPs."""
    return {name: {"seconds": 1 / speed, "interactions_per_second": speed * 1e9 / 20} for name, speed in speeds.items()}


def counted(**changes: float) -> dict[str, Any]:
    """Make the counters of tiled at n = 16,384 up: 15 instructions per interaction, all issue slots used."""
    usual = {"threads_an_instruction": 32.0, "issue_slots": 1.0, "instructions": 15 * 16384**2 / 32}
    return {"counters": usual | changes}


FRACTIONS = {"whole": 10.0, "half": 20.0, "quarter": 40.0, "eighth": 80.0, "sixteenth": 160.0}
# Of figures 31-6 and 31-8; 18 cycles of an interaction at 1 GHz on 64 of 132 multiprocessors take 0.59 ms.
FEWER = {"n1024": 102, "n1536": 129, "n2048": 158, "n3072": 166, "n4096": 182}
MORE = {"n6144": 182, "n8192": 189, "n12288": 200, "n16384": 210}
GAINS = {"one_1024": 63, "four_1024": 103, "one_2048": 127, "four_2048": 175, "one_3072": 166, "four_3072": 175}
CLOCK = {"grid_blocks": 64, "blocks_per_multiprocessor": 6, "waves": 64 / 6 / 132, "sm_clock_mhz": [1000]}
LEAF = {"seconds": 0.4, "computed": {"body_body": 14000.0, "body_cell": 100.0}}
DOUBLED = [f"n{2**power}" for power in range(11, 18)]
TABLE_2 = {n: {"error_max": error * 1e-7} for n, error in zip(DOUBLED, (5.4, 3.3, 5, 4.3, 6.8, 10, 15), strict=True)}
TABLE_3 = {n: {"seconds": 9e-4 * 3**power} for power, n in enumerate(DOUBLED)}
SIZES = (10, 100, 1000, 10000, 100000)
FIGURE_2 = [
    ("bodin2026_direct", "direct-cpu", list(zip(SIZES, (1, 3, 150, 16360), strict=False))),
    ("bodin2026_direct", "direct-gpu", list(zip(SIZES, (1621, 208, 1095, 7440), strict=False))),
    ("bodin2026", "tree-cpu", list(zip(SIZES, (1, 3, 34, 565, 20117), strict=True))),
    ("bodin2026", "tree-gpu", list(zip(SIZES, (250, 252, 255, 515, 18174), strict=True))),
]


def steps_of(table: list[tuple[int, int]], slower: float = 1.0) -> dict[str, dict[str, float]]:
    """Make steps up that take 0.95 times as long as the source's, by its ms per 100 steps; slower with 1,000 bodies."""
    return {f"n{n}": {"seconds": 0.95e-5 * most * (slower if n == 1000 else 1)} for n, most in table}


RATES = [seconds_of(some=some, most=256) for some in (254, 200)]
ONE_THREAD = {f"{kernel}_{n}": speed for kernel, speed in (("split", 60), ("tiled", 100)) for n in (1024, 1536, 2048)}
BLOCKS_OF_SPLITS = {f"{blocks}_{n}": 100.0 for blocks in ("within", "above") for n in (1024, 2048, 3072)}
BLOCKS_OF_64 = {"p16": 85.0, "p32": 88.0, "p64": 100.0, "p128": 67.0, "p256": 40.0}
SPLITS = {"q1": 63.0, "q2": 91.0, "q4": 103.0, "q8": 104.0, "q16": 90.0}
LARGER_BLOCKS = {"p16": 126.0, "p32": 187.0, "p64": 196.0, "p128": 210.0, "p256": 230.0}
IDLE = {"grid_blocks": 4, "occupancy": 0.75, "blocks_per_multiprocessor": 6, "threads_per_block": 256, "waves": 4 / 48}


@pytest.mark.parametrize(
    ("name", "one", "right", "wrong"),
    [
        ("gems3", "first-implementation", seconds_of(plain=170), seconds_of(plain=150)),
        ("gems3", "best", seconds_of(unrolled=210), seconds_of(unrolled=190)),
        ("gems3", "unroll-1024", seconds_of(by_1=90, by_2=100, by_4=110), seconds_of(by_1=90, by_2=110, by_4=100)),
        ("gems3", "unroll-gain", seconds_of(by_1=184, by_4=204), seconds_of(by_1=184, by_4=230)),
        ("gems3", "unroll-further-4096", seconds_of(by_4=204, more=200), seconds_of(by_4=204, more=230)),
        ("gems3", "block-size-16384", seconds_of(**LARGER_BLOCKS), seconds_of(**LARGER_BLOCKS | {"p256": 190.0})),
        ("gems3", "block-size-1024", seconds_of(**BLOCKS_OF_64), seconds_of(**BLOCKS_OF_64 | {"p128": 110.0})),
        ("gems3", "split-further", seconds_of(**SPLITS), seconds_of(**SPLITS | {"q8": 150.0})),
        (
            *("gems3", "split-above-four"),
            *(seconds_of(four=103, eight=103, sixteen=90), seconds_of(four=103, eight=103, sixteen=120)),
        ),
        ("gems3", "split-large-8192", seconds_of(one=189, four=189), seconds_of(one=189, four=150)),
        ("gems3", "split-blocks", seconds_of(**BLOCKS_OF_SPLITS), seconds_of(**BLOCKS_OF_SPLITS | {"above_3072": 110})),
        ("gems3", "one-thread-reads-lower", seconds_of(**ONE_THREAD), seconds_of(**ONE_THREAD | {"split_2048": 110})),
        ("gems3", "block-size-1024-as-read", seconds_of(p64=91, p256=40), seconds_of(p64=91, p256=102)),
        ("gems3", "block-size-further-65536", seconds_of(p256=100, p512=101), seconds_of(p256=100, p512=110)),
        ("lee2008", "frames", *(seconds_of(naive=2, float4=4, sample=sample) for sample in (26, 25))),
        ("gems3", "times-tuned", seconds_of(gpu=60, cpu=1), seconds_of(gpu=40, cpu=1)),
        ("gems3", "instructions", {"instructions": counted()}, {"instructions": counted(instructions=1.7e8)}),
        (
            *("gems3", "cycles"),
            *({"cycles": counted(), "instructions": counted()},),
            dict.fromkeys(("cycles", "instructions"), counted(issue_slots=0.8)),
        ),
        ("gems3", "above-the-peak", {"cycles": counted()}, {"cycles": counted(issue_slots=0.7)}),
        ("gems3", "cycles-by-time", *({"cycles": CLOCK | {"seconds": 5.9e-4 * more}} for more in (1, 1.2))),
        ("gems3", "above-the-peak-by-time", *({"cycles": CLOCK | {"seconds": 5.9e-4 * more}} for more in (1, 1.2))),
        *(
            ("gems3", one, seconds_of(**speeds), seconds_of(**speeds | turned))
            for one, speeds, turned in (
                ("two-threads-per-body-1536", {"two": 128, "one": 91}, {"two": 140}),
                ("split-gain-falls", GAINS, {"four_3072": 300}),
                ("more-bodies-to-4096", FEWER, {"n3072": 150}),
                ("more-bodies-from-6144", MORE, {"n16384": 190}),
            )
        ),
        ("gems3", "leaves", *(dict.fromkeys(("interactions", "time"), LEAF | more) for more in ({}, {"seconds": 0.6}))),
        (
            *("gems3", "leaves"),
            *(
                dict.fromkeys(("interactions", "time"), LEAF | {"computed": {"body_body": pairs}})
                for pairs in (13900.0, 13700.0)  # 27 * 512 are 13,824
            ),
        ),
        *((name, f"figure-2-{column}", steps_of(table), steps_of(table, 1.1)) for name, column, table in FIGURE_2),
        ("lee2008", "fractions_global", seconds_of(**FRACTIONS), seconds_of(**FRACTIONS | {"sixteenth": 130.0})),
        *(
            ("lee2008", one, seconds_of(**{fast: most, "float4": 3.1}), seconds_of(**{fast: 15.0, "float4": 3.1}))
            for one, fast, most in (
                ("sample_relative_to_float4", "sample", 25.5),
                ("final_relative_to_float4_as_printed", "last", 0.86 * 25.5),
            )
        ),
        *(
            ("bodin2026", one, {"small": {"seconds": 1.0}, "large": {"seconds": high}}, seconds_of(small=1, large=1))
            for one, high in (("slope-direct-on-the-gpu", 100.0), ("slope-tree-on-the-gpu", 13.0))
        ),
        *(
            ("chamomile", one, rows, rows | {"n4096": {field: 1.0}})
            for one, field, rows in (
                *((f"table-2{end}", "error_max", TABLE_2) for end in ("", "-as-called")),
                *((f"table-3{end}", "seconds", TABLE_3) for end in ("", "-as-called")),
            )
        ),
        *(("chamomile", f"saturation{end}", *RATES) for end in ("", "-as-called")),
        (
            *("lee2008", "memory_accesses_counted"),
            *(
                {"phase_3": counted(global_loads=256 * phase_4), "phase_4": counted(global_loads=1000.0)}
                for phase_4 in (990.0, 500.0)
            ),
        ),
        (
            *("3dgep", "idle"),
            *(
                dict.fromkeys(
                    ("active", "count", "multiprocessors"), IDLE | {"counters": {"multiprocessors_active": active}}
                )
                for active in (0.5, 0.6)
            ),
        ),
    ],
)
def test_claims_turn_with_the_numbers_that_they_name(name, one, right, wrong):
    assert decided(name, one, right) == "holds"
    assert decided(name, one, wrong) == "does not hold"


def test_lanes_are_those_of_the_architectures_that_are_explained():
    assert lanes("sm_90")["issue"] == published.LANES


def test_tables_2_and_3_are_judged_at_each_of_their_sizes():
    claims, table = claims_of("chamomile"), {one.id: one for one in sources.load(sources.find("chamomile")).figures}
    for name, of_figure in (("table-2", "table-2-as-called"), ("table-3", "table-3-seconds")):
        for end in ("", "-as-called"):
            asked = claims[name + end]
            steps = table[of_figure].steps()
            assert asked.published == [cell.published for cell in steps]
            assert [one.select["n"] for one in asked.numbers.values()] == [cell.select["n"] for cell in steps]
            limits = re.findall(r"n(\d+) <= ([\d.e-]+)", asked.holds)
            assert [(int(n), float(most)) for n, most in limits] == [
                (cell.select["n"], cell.published) for cell in steps
            ]


def test_claims_about_figure_2_have_its_limits_at_each_of_its_sizes():
    for name, column, table in FIGURE_2:
        asked = claims_of(name)[f"figure-2-{column}"]
        sizes = [number_asked.select["n"] for number_asked in asked.numbers.values()]
        assert list(zip(sizes, asked.published, strict=True)) == table
        assert asked.holds == " and ".join(f"n{n} <= {most}" for n, most in table)


def test_threads_per_body_are_asked_of_blocks_that_the_source_launched():
    own = sources.load(sources.find("gems3"))
    asked = [("", cell.select) for one in own.figures for cell in one.steps()]
    asked += [(name, number_asked.select) for one in own.claims for name, number_asked in one.numbers.items()]
    split = [(name, select) for name, select in asked if select["variant"] == "split"]
    assert len(split) > 20
    for name, select in split:
        threads = [p * select["q"] for p in (select["p"] if isinstance(select["p"], list) else [select["p"]])]
        # Only split-blocks asks whether larger blocks would be faster.
        assert min(threads) > 256 if name.startswith("above_") else max(threads) <= 256, select


def test_the_settings_of_the_sources_are_measured():
    def axes(name: str, variant: str, axis: str) -> set[Any]:
        return {case.part(axis) for case in configurations.load(name).cases if case.variant == variant}

    assert axes("gems3", "tiled", "unroll") >= {1, 2, 4, 8, 16, 32}
    assert axes("gems3", "split", "q") >= {1, 2, 4, 8, 16}
    assert axes("chamomile", "chamomile", "j_bag") >= {512}
    assert axes("chamomile", "chamomile", "eps") >= {0.1}
    assert axes("chamomile", "chamomile_part", "fraction") == {0.5, 0.25, 0.125, 0.0625}
    for variant in ("lee_global", "lee_tiled"):
        assert axes("lee2008", variant, "arithmetic") == {"rsqrt", "sqrt_div", "d6"}
        assert "16x16" in axes("lee2008", variant, "block_shape")
    assert axes("lee2008", "lee_window", "staged") == {0, 1}
    assert axes("bodin2026", "barnes_hut_classic", "bits") == {10, 21}
    assert axes("bodin2026", "barnes_hut_classic", "order") == {"inserted", "depth_first"}
    assert axes("bodin2026", "barnes_hut_cpu", "n") >= {100, 250, 500, 1000}


# Mistakes in a file

WHOLE = """
source: Nobody 1999
device: Abacus
figures:
  - {id: a, title: A, unit: seconds, timed: force, where: {variant: tiled}, over: {p: [64, 128]}, values: [1, 2]}
claims:
  - id: c
    text: c
    numbers: {x: {select: {variant: tiled}, unit: seconds}}
    holds: x > 1
"""


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("unit: seconds, timed", "unit: hours, timed", ", line 5: figures.0.unit: Input should be 'GFLOP/s'"),
        ("values: [1, 2]", "values: [1]", "values needs lists of 2"),
        ("values: [1, 2]", "values: [1, null]", "blank says why"),
        ("values: [1, 2]", "values: [1, 2], first: {p: 3}", "first fits no cell"),
        ("over: {p: [64, 128]}, ", "", "either cells, or over and values"),
        ("x > 1", "y > 1", ', line 10: holds "y > 1" names "y"; accepted: x'),
        ("x > 1", "x.real", 'holds "x.real" uses Attribute'),
        ("    holds: x > 1", "", "either numbers and holds, or untestable"),
        ("device: Abacus", "devise: Abacus", "device"),
    ],
)
def test_a_mistake_in_a_file_is_a_sentence_that_says_where(tmp_path, old, new, words):
    path = tmp_path / "x.yaml"
    path.write_text(WHOLE, "utf-8")
    assert len(sources.load(path).figures[0].steps()) == 2
    assert old in WHOLE
    path.write_text(WHOLE.replace(old, new), "utf-8")
    with pytest.raises(InputError) as caught:
        sources.load(path)
    assert str(caught.value).startswith(str(path))
    assert words in str(caught.value)


def test_an_unknown_source_is_refused_with_those_there_are(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text("n: 64\npublished: gems\nvariants: naive\n", "utf-8")
    with pytest.raises(InputError) as caught:
        configurations.load(str(path))
    assert f"{path}, line 2: published is gems" in str(caught.value)
    assert "did you mean gems3? accepted: 3dgep, bodin2026, bodin2026_direct, chamomile, gems3, lee2008" in str(
        caught.value
    )


# The page, and the command line


@pytest.mark.parametrize("width", [80, 200])
@pytest.mark.parametrize("name", NAMES)
def test_every_source_fits_the_terminal_and_is_latin_1_with_all_cells_measured(name, width):
    own = sources.load(sources.find(name))
    records = []
    for one in own.figures:
        for cell in one.steps():
            select = any_of(cell.select)
            variant, n = select.pop("variant"), select.pop("n")
            where = GPU | {"n": n, "toolkit": select.pop("toolkit", "numba"), "start_seconds": 1.0}
            where |= {name: select.pop(name) for name in list(select) if name in PARTS}
            where |= {"stages_seconds": {"upload": 1e-3, "download": 1e-3}}
            where |= {"stages_bytes": {"upload": 1e6, "download": 1e6}}
            records.append(record(str(variant), 1e-9 * n**2, axes=select, **where))
    text = shown(own, records, width)
    assert [line for line in text.splitlines() if len(line) > width] == []
    text.replace("─", "-").encode("latin-1")
    assert "\x1b" not in text
    assert "measured is blank" not in text
    assert "None" not in text


def test_the_run_keeps_its_source_and_the_report_shows_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    folder = tmp_path / "reports" / "some"
    RecordFile(folder).append(tiled(p=64))
    assert runs.published(folder) is None
    report = ["report", "some"]
    assert "Published and measured values" not in CliRunner().invoke(app, report).output
    runner.write_environment(folder, [], [], configurations.load("gems3", ["n=1536"]))
    assert json.loads((folder / "environment.json").read_text("utf-8"))[-1]["published"] == "gems3"
    assert "GPU Gems 3, chapter 31" in flat(CliRunner().invoke(app, report).output)
    assert "3dgep.com" in CliRunner().invoke(app, [*report, "--published", "3dgep"]).output
    wrong = CliRunner().invoke(app, [*report, "--published", "gems4"])
    assert isinstance(wrong.exception, InputError)
    assert "did you mean gems3?" in str(wrong.exception)
    for spoilt in ("{", "[]", "[1]", '[{"published": 3}]'):
        (folder / "environment.json").write_text(spoilt, "utf-8")
        assert runs.published(folder) is None
