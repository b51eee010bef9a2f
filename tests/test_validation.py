"""The model's own record: the picture, its numbers and the table of the documentation are those of all records."""

import io
import json
import re
import shlex
from collections import Counter

import altair as alt
import pytest
from rich.console import Console
from typer.testing import CliRunner

from conftest import ROOT
from gravbench.cli import explaining
from gravbench.cli.main import app
from gravbench.explain import assembling, peaks, validation
from gravbench.explain.validation import Compared, by_variant
from gravbench.model.runs import RecordFile
from gravbench.toolkits import nvrtc

REPORTS = ROOT / "reports"
CEILINGS = peaks.read(REPORTS / "h200" / "ceilings")
FIGURES = ROOT / "docs" / "figures"
DOCUMENT = (ROOT / "docs" / "explanation" / "explaining.md").read_text("utf-8")
BLOCK = re.compile(
    r"<!-- printed: (gravbench explain validate .*?) -->\n```text\n(.*?)\n```\n<!-- end of printed -->", re.S
)


def read(path):
    """Read the numbers of a figure: the errors, and the compiler whose machine code they are of."""
    content = json.loads(path.read_bytes())
    return by_variant(Compared(**row) for row in content["records"]), content["compiler"]


FOUND, COMPILER = read(FIGURES / "model.json")
AT_MOST = 0.06
"""The median error over all records of direct sums, which it may not exceed."""
AT_MOST_OF = {"tensor": 0.084, "tensor_half": 0.04, "tensor_gpus": 0.05}
"""The same for variants with matrix products. For few bodies, `tensor` takes much longer than predicted."""
explained = pytest.mark.skipif(assembling.missing() is not None, reason=str(assembling.missing()))


@pytest.fixture(scope="module")
def records():
    """All records of the model that are in the reports, by their run, if their kernels are those of this checkout."""
    found = {}
    for path in sorted(REPORTS.glob("h[12]00/*/records.jsonl")):
        own = [one for one in RecordFile(path.parent).read(str) if validation.modelled(one)]
        found[str(path.parent.relative_to(REPORTS))] = [one for one in own if validation.of_this_checkout(one)]
    return {name: own for name, own in found.items() if own}


def to_predict(records):
    """Return all but those of products of matrices whose bodies are in a table, which is no part of the project."""
    everything = [one for own in records.values() for one in own]
    return [one for one in everything if not (one.bodies_file_sha256 and one.variant in ("tensor", "tensor_half"))]


def test_the_median_error_is_small():
    assert validation.typical(FOUND) <= AT_MOST
    of_variants = {one.variant: one.median for one in FOUND}
    # Records of kernels that have changed since are not predicted.
    predicted = AT_MOST_OF.keys() & of_variants.keys()
    assert {name: of_variants[name] for name in predicted if of_variants[name] > AT_MOST_OF[name]} == {}
    assert len(FOUND) >= 10


def test_the_file_is_of_all_records(records):
    ((command, _),) = BLOCK.findall(DOCUMENT)
    words = shlex.split(command)
    named = {*words[3:]}
    refresh = "run: python docs/hooks/refresh.py, with these runs in the block's command"
    assert records.keys() <= named, refresh
    expected = Counter((one.variant, one.n) for one in validation.distinct(to_predict(records)))
    assert Counter((one.variant, one.n) for errors in FOUND for one in errors.compared) == expected, refresh


def test_the_table_of_the_document_is_of_the_file():
    ((_, written),) = BLOCK.findall(DOCUMENT)
    terminal = Console(width=100, color_system=None, file=io.StringIO())
    explaining.print_errors(FOUND, {}, terminal)
    printed = [line.rstrip() for line in terminal.file.getvalue().strip().splitlines()]
    assert written.splitlines()[: len(printed)] == printed


def middle(errors):
    """Return the record whose error is the median of its variant, or next to it."""
    return sorted(errors.compared, key=lambda one: abs(one.error))[len(errors.compared) // 2]


@pytest.mark.slow
@explained
@pytest.mark.parametrize("errors", FOUND, ids=lambda errors: errors.variant)
def test_the_model_predicts_what_the_file_says(errors, records):
    told = middle(errors)
    record = next(
        one
        for one in to_predict(records)
        if (one.label, one.median_seconds) == (told.case, pytest.approx(told.measured, rel=1e-5))
    )
    now = validation.compared(record, CEILINGS)
    # Another NVRTC makes another machine code, for which the model may not be much worse.
    if nvrtc.version() == COMPILER:
        assert now.predicted == pytest.approx(told.predicted, rel=1e-5)
    assert abs(now.error) <= abs(told.error) + 0.05


ONE = Compared("tiled", "card", 1024, "tiled cupy n=1024", 1.0, 1.1)
OTHER = Compared("tiled", "card", 2048, "tiled cupy n=2048", 2.0, 1.0)
THIRD = Compared("naive", "card", 2048, "naive cupy n=2048", 4.0, 5.0)


def test_errors_are_relative_to_the_measured_time():
    naive, tiled = by_variant([ONE, OTHER, THIRD])
    assert (naive.variant, tiled.variant) == ("naive", "tiled")
    assert tiled.errors == pytest.approx([0.1, -0.5])
    assert (tiled.median, tiled.bias, tiled.largest) == pytest.approx((0.3, -0.2, -0.5))
    assert validation.typical([naive, tiled]) == pytest.approx(0.25)
    assert validation.typical([]) is None


def test_a_picture_and_its_numbers_are_written_and_read(tmp_path):
    found = by_variant([ONE, OTHER, THIRD])
    drawn, numbers = validation.write(found, "NVRTC 1.2", tmp_path / "new")
    assert read(numbers) == (found, "NVRTC 1.2")
    svg = drawn.read_text("utf-8")
    assert {"naive", "tiled", "predicted / measured time"} <= set(re.findall(r">([^<>]+)<", svg))
    assert "direct sums on card" in svg
    spec = validation.figure(found).spec
    alt.LayerChart.from_dict(spec, validate=True)
    rows = spec["datasets"]["rows"]
    assert sorted(row["ratio"] for row in rows) == [0.5, 1.1, 1.25]


@explained
def test_the_command_writes_both_files(tmp_path, records):
    one = next(one for one in records["h100/ladder"] if (one.variant, one.n) == ("naive", 1024))
    (tmp_path / "records.jsonl").write_text(f"{one.model_dump_json()}\n")
    command = ["explain", "validate", str(tmp_path), "--figures", str(tmp_path / "drawn")]
    assert CliRunner().invoke(app, command, catch_exceptions=False).exit_code == 0
    content = json.loads((tmp_path / "drawn" / "model.json").read_text())
    assert [row["variant"] for row in content["records"]] == ["naive"]
    assert (tmp_path / "drawn" / "model.svg").stat().st_size > 1000
