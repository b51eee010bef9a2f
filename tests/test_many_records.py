"""Many records cost no more each than a few do: what reading, comparing and reporting them takes is counted.

What is counted are calls of Python functions, which are the same on every machine however busy it is.
"""

import io
import json
import sys
import time
from itertools import islice
from pathlib import Path

import pytest
import rich
from rich.console import Console

from conftest import ROOT
from gravbench.model.runs import RECORDS, RecordFile
from gravbench.report.page import charts
from gravbench.report.terminal.comparison import render_comparison
from gravbench.verdicts.cards import Shared, together
from gravbench.verdicts.compare import Run, compare_runs
from gravbench.verdicts.ranking import drifted
from printed_sections import render, render_stages

RICH = str(Path(rich.__file__).parent)
FEW, MANY = 200, 600


def written(folder, count):
    """Write records of the ladder, every time with another seed."""
    lines = (ROOT / "reports" / "h100" / "ladder" / RECORDS).read_text("utf-8").splitlines()
    found = [json.loads(line) for line in lines[::3]]
    folder.mkdir()
    with (folder / RECORDS).open("w") as file:
        for turn in range(count):
            one = found[turn % len(found)]
            file.write(json.dumps(one | {"seed": 1 + turn // len(found)}) + "\n")
    return RecordFile(folder)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    place = tmp_path_factory.mktemp("many")
    return {count: written(place / str(count), count) for count in (FEW, MANY)}


@pytest.fixture(scope="module")
def runs(files):
    return {count: [Run(name, file.read()) for name in ("a", "b")] for count, file in files.items()}


def calls(do, *, beside=None):
    """Count the calls of Python functions that something takes, without those of files below the folder ``beside``."""
    count = 0

    def note(frame, event, _argument):
        nonlocal count
        count += event == "call" and not (beside and frame.f_code.co_filename.startswith(beside))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        do()
    finally:
        sys.setprofile(before)
    return count


def seconds(do):
    """Measure the processor's time, the least of three times."""
    found = []
    for _ in range(3):
        began = time.process_time()
        do()
        found.append(time.process_time() - began)
    return min(found)


def compared(two):
    render_comparison(compare_runs(*two), Console(file=io.StringIO(), width=120))


def reported(run):
    console = Console(file=io.StringIO(), width=120)
    render(run.records, console, {})
    render_stages(run.records, console, drifted(run.records))


def test_a_line_is_read_in_a_few_calls(files):
    files[FEW].read()  # imports what reading needs
    assert calls(lambda: list(files[FEW].records(intervals=False))) < 15 * FEW
    assert calls(files[FEW].read) < 35 * FEW


def test_two_records_are_compared_in_a_few_calls(runs):
    compared(runs[FEW])
    more = calls(lambda: compared(runs[MANY])) - calls(lambda: compared(runs[FEW]))
    assert more < 210 * (MANY - FEW)


@pytest.mark.slow
def test_a_report_looks_at_a_record_in_a_few_calls(runs):
    reported(runs[FEW][0])
    # Rich lays tables out in some 2,000 calls per record, in a second for a thousand rows.
    few, many = (calls(lambda run=runs[count][0]: reported(run), beside=RICH) for count in (FEW, MANY))
    assert many - few < 800 * (MANY - FEW)


def test_reading_and_comparing_costs_little_more_than_parsing(files):
    """Of the time in which Python's own parser of JSON reads the lines."""
    with files[MANY].path.open("rb") as file:
        lines = list(islice(file, FEW))
    parsing = seconds(lambda: list(map(json.loads, lines)))
    assert seconds(files[FEW].read) < 5 * parsing
    two = [Run(name, files[FEW].read()) for name in ("a", "b")]
    assert seconds(lambda: compared(two)) < 20 * parsing


def test_records_of_cards_that_share_cases_are_made_in_a_few_calls_and_share_the_names_of_their_fields(runs):
    records = [one for one in runs[FEW][0].records if one.device_uuid]
    on_two = [one.model_copy(update={"device_uuid": f"GPU-{turn % 2}"}) for turn, one in enumerate(records)]
    (shared,) = together([on_two])
    assert all(isinstance(one, Shared) for one in shared)
    assert len({id(one.model_fields_set) for one in shared}) == 1
    assert calls(lambda: together([on_two])) < 20 * FEW


def test_another_heat_map_of_one_shape_is_drawn_in_a_few_calls():
    def drawn(speed):
        rows = [{"x": x, "y": y, "n": 64, "relative": speed} for x in (1, 2) for y in (1, 2)]
        return charts.heat_map(rows, "p", "unroll", [64], 64)

    one = drawn(0.25)
    assert calls(lambda: drawn(0.5)) < 100
    assert {**drawn(0.5), "datasets": None} == {**one, "datasets": None}
    assert [row["relative"] for row in one["datasets"][charts.ROWS]] == [0.25] * 4
