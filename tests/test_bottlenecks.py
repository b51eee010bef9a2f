"""What limits each record: found by the model, kept in the folder of a run, shown in the report and on the page."""

import io
import shutil

import pytest
from rich.console import Console
from typer.testing import CliRunner

from conftest import ROOT, flat
from gravbench.cli.main import app
from gravbench.errors import InputError
from gravbench.explain import assembling, validation
from gravbench.explain.bottlenecks import limit_of
from gravbench.explain.waterfall import Part
from gravbench.model import bottlenecks
from gravbench.model.bottlenecks import Limit, Limits
from gravbench.model.runs import RecordFile, latest
from gravbench.model.variant import discover, parents
from gravbench.report.page import html
from gravbench.toolkits import nvrtc
from printed_sections import render

LADDER = ROOT / "reports" / "h200" / "ladder"
explained = pytest.mark.skipif(assembling.missing() is not None, reason=str(assembling.missing()))


@pytest.fixture(scope="module")
def records():
    return RecordFile(LADDER).read(str)


@pytest.fixture(scope="module")
def few(records):
    """Two rungs of the ladder at one n."""
    chosen = [one for one in latest(records) if (one.n, one.toolkit) == (65536, "cupy")]
    return [next(one for one in chosen if one.variant == name) for name in ("naive", "float4")]


def limit(record, part="latency", share=0.416):
    return Limit(
        key=record.key, started=record.started, seconds=record.median_seconds, part=part, share=share, reason="why <so>"
    )


def test_the_largest_part_is_named_and_issuing_instructions_is_one(few):
    record = few[0]
    each = 1e12 * record.median_seconds / record.evaluated / 100
    shares = (("arithmetic", 30), ("other instructions", 15), ("latency", 40), ("unexplained", 15))
    found = limit_of(record, [Part(name, share * each, f"of {name}") for name, share in shares])
    assert found.words == "issue-bound 45 %"
    assert found.model_copy(update={"part": "instructions"}).words == found.words, "as earlier versions wrote it"
    assert found.reason == "of arithmetic; of other instructions"
    assert Limits(limits=[found]).of(record) is found
    late = limit_of(record, [Part("arithmetic", 30 * each, "a"), Part("launch", 70 * each, "l")])
    assert late.words == "launch 70 %"


def test_no_part_is_more_than_all_of_the_time(few):
    """A model that is too slow leaves an unexplained rest below zero."""
    record = few[0]
    each = 1e12 * record.median_seconds / record.evaluated / 100
    parts = (("arithmetic", 5), ("tail of the grid", 110), ("unexplained", -15))
    found = limit_of(record, iter([Part(name, share * each, f"of {name}") for name, share in parts]))
    assert found.words == "tail of the grid 96 %"


def test_a_limit_is_of_one_measurement_alone(few):
    record, other = few
    kept = Limits(limits=[limit(record)])
    assert kept.words(record) == "latency 42 %"
    assert kept.words(other) == ""
    assert kept.words(record.model_copy(update={"median_seconds": 2 * record.median_seconds})) == ""
    assert kept.any_of([other, record])
    assert not kept.any_of([other])
    assert Limits().joined([kept]).words(record) == "latency 42 %"


def test_the_file_is_read_as_it_was_written(tmp_path, few):
    kept = Limits(compiler="NVRTC 1.2", limits=[limit(one) for one in few])
    kept.write(tmp_path)
    assert bottlenecks.read(tmp_path) == kept
    assert bottlenecks.read(tmp_path / "none") == Limits()
    (tmp_path / bottlenecks.FILE).write_text('{"limits": [{"key": "a"}]}')
    with pytest.raises(
        InputError, match=r"limits.json: limits.0.started: .*accepted: what `gravbench explain bottleneck`"
    ):
        bottlenecks.read(tmp_path)


def rendered(records, limits, width=200):
    terminal = Console(width=width, color_system=None, file=io.StringIO())
    render(records, terminal, parents(discover()), limits=limits)
    return terminal.file.getvalue()


def test_the_report_shows_them_and_says_where_there_are_none(few):
    told = rendered(few, Limits(limits=[limit(few[1])]))
    (row,) = [line for line in told.splitlines() if line.startswith("float4 ")]
    assert "latency 42 %" in row
    assert "the largest part of the time" in flat(told)
    without = " ".join(rendered(few, Limits()).split())
    assert "`gravbench explain bottleneck RUN` to add a column" in without
    assert "bottleneck:" not in without
    assert all(len(line) <= 80 for line in rendered(few, Limits(limits=[limit(few[1])]), 80).splitlines())


def test_the_page_shows_them(few):
    run = html.Run("ladder", few, [])
    made = html.Page([run], discover(), Limits(limits=[limit(few[1])])).text()
    assert '<th scope="col">bottleneck</th>' in made
    assert '<td class="text" title="why &lt;so&gt;">latency 42 %</td>' in made
    without = html.Page([run], discover()).text()
    assert '<th scope="col">bottleneck</th>' not in without
    assert "gravbench explain bottleneck RUN" in without


@pytest.mark.parametrize("card", ["h100", "h200"])
def test_the_file_of_the_ladder_is_of_its_records(card):
    folder = ROOT / "reports" / card / "ladder"
    known, records = bottlenecks.read(folder), RecordFile(folder).read(str)
    there = {(one.key, one.started, one.median_seconds) for one in records}
    assert {(one.key, one.started, one.seconds) for one in known.limits} <= there
    unexplained = [
        one.label
        for one in records
        if validation.modelled(one) and validation.of_this_checkout(one) and not known.of(one)
    ]
    assert not unexplained, f"run: gravbench explain bottleneck {card}/ladder --peaks reports/h200/ceilings"
    assert known.limits


@explained
def test_the_command_keeps_what_the_report_shows(tmp_path, few):
    shutil.copy(LADDER / "environment.json", tmp_path)
    (tmp_path / "records.jsonl").write_text("".join(f"{one.model_dump_json()}\n" for one in few))
    command = ["explain", "bottleneck", str(tmp_path), "--peaks", str(ROOT / "reports" / "h200" / "ceilings")]
    done = CliRunner().invoke(app, command, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "2 records explained" in done.output
    kept = bottlenecks.read(tmp_path)
    assert kept.compiler == nvrtc.version()
    ladder = bottlenecks.read(LADDER)
    if kept.compiler == ladder.compiler:
        assert [kept.words(one) for one in few] == [ladder.words(one) for one in few]


@explained
def test_a_run_without_such_records_is_said_to_have_none(tmp_path, records):
    other = next(one for one in records if one.toolkit == "numba")
    (tmp_path / "records.jsonl").write_text(f"{other.model_dump_json()}\n")
    done = CliRunner().invoke(app, ["explain", "bottleneck", str(tmp_path)], catch_exceptions=False)
    assert done.exit_code == 1
    assert "no record is of a direct sum" in " ".join(done.output.split())
    assert not (tmp_path / bottlenecks.FILE).exists()
