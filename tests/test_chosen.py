"""What a report leaves out by --n, --variant and --device still counts for ±, drifts and winners."""

import json
import math
import re

import pytest
from typer.testing import CliRunner

from conftest import consistent
from gravbench.cli.main import app
from gravbench.model.runs import RecordFile
from gravbench.model.variant import discover
from gravbench.report.chosen import Chosen
from gravbench.report.page import html
from gravbench.verdicts.uncertainty import Uncertainties
from test_compare import GPU, record

STEPS = (-1.0, 1.0, 0.0, -1.0, 1.0)
SELECTIONS = [
    (["--variant", "tiled"], Chosen(variants=("tiled",))),
    (["--n", "1024"], Chosen(sizes=(1024,))),
    (["--variant", "tiled", "--n", "1024", "--device", "gpu"], Chosen((1024,), ("tiled",), "gpu")),
]


def measured(seconds, **changes):
    samples = [seconds * (1 + (i - 5) / 1e4) for i in range(10)]
    return consistent(record(samples, **changes))


@pytest.fixture
def run(tmp_path, monkeypatch):
    """The records of a run: the anchors are of another variant and another n than what is selected."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    store = RecordFile(tmp_path / "reports" / "mine")
    for place, (variant, n) in enumerate([("tiled", 1024), ("tiled", 2048), ("naive", 1024), ("naive", 2048)]):
        seconds = (2.0 if variant == "naive" else 1.0) * n / 1024
        store.append(measured(seconds, variant=variant, n=n, processes=[20 + place] * 10))
    for place, step in enumerate(STEPS, 1):
        store.append(measured(math.exp(0.01 * step), variant="naive", n=64, anchor=place, processes=[place] * 10))
    return store.read()


def printed(*words):
    done = CliRunner().invoke(app, ["report", "mine", *words])
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize(("words", "chosen"), SELECTIONS)
def test_a_selection_changes_no_uncertainty_in_any_output(run, tmp_path, words, chosen):
    half = Uncertainties([run]).half_width(run[0])
    assert half > 0.02, "the scatter of the anchors counts"
    written = f"{100 * half:.2f}"
    rows = [line for line in printed(*words).splitlines() if line.startswith("tiled ") and "cupy" in line]
    assert rows
    assert all(f" {written} " in line for line in rows)
    (row,) = [line for line in printed(*words, "--markdown").splitlines() if line.startswith("| tiled |")]
    assert f"| {written} |" in row
    ladders = json.loads(printed(*words, "--json"))["ladders"]
    rungs = [rung for ladder in ladders for rung in ladder["rungs"] if rung["variant"] == "tiled"]
    assert [rung["half_width"] for rung in rungs] == [pytest.approx(half, rel=1e-9)] * max(len(rungs), 1)
    printed(*words, "--html", "page.html")
    assert re.search(rf"<td[^>]*>{re.escape(written)}</td>", (tmp_path / "page.html").read_text("utf-8"))
    figures = html.Page([html.Run("mine", run, [])], discover(), chosen=chosen).figures()
    points = [point for figure in figures for point in figure.spec["datasets"]["rows"] if point["variant"] == "tiled"]
    assert {point["± %"] for point in points} <= {written}
    assert points or len(chosen.sizes) == len(chosen.variants) == 1  # a single case is no figure


def test_what_is_not_selected_is_not_shown(run, tmp_path):
    text = printed("--variant", "tiled", "--n", "1024", "--markdown")
    assert "| naive |" not in text
    assert "n = 2,048" not in printed("--n", "1024")
    printed("--variant", "tiled", "--html", "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "<h4>tiled</h4>" in page
    assert "<h4>naive</h4>" not in page
    figures = html.Page([html.Run("mine", run, [])], discover(), chosen=Chosen(variants=("tiled",))).figures()
    assert {point["variant"] for figure in figures for point in figure.spec["datasets"]["rows"]} == {"tiled"}


@pytest.mark.usefixtures("run")
def test_winners_and_gains_are_those_of_the_whole_run(tmp_path):
    made = json.loads(printed("--json", "--variant", "tiled", "--n", "1024"))
    assert {(win["n"], win["fastest"]["variant"]) for field in made["winners"] for win in field["wins"]} == {
        (1024, "tiled")
    }
    assert {win["next"]["variant"] for field in made["winners"] for win in field["wins"]} == {"naive"}
    assert {win["next"]["interval_includes_processes"] for field in made["winners"] for win in field["wins"]} == {True}
    (field,) = json.loads(printed("--json", "--variant", "naive"))["winners"]
    assert {win["n"] for win in field["wins"]} == {64}, "at the others it is not the fastest"
    printed("--variant", "tiled", "--html", "page.html")
    text = " ".join((tmp_path / "page.html").read_text("utf-8").split())
    assert "times as fast as naive (cupy)" in text


@pytest.mark.usefixtures("run")
@pytest.mark.parametrize("words", [words for words, _ in SELECTIONS])
def test_drifts_are_those_of_the_whole_run_on_the_device(words):
    (drift,) = json.loads(printed("--json", *words))["drifts"]
    assert drift["beyond"]
    assert "spread over 2.0" in " ".join(printed(*words).split())


@pytest.mark.usefixtures("run")
def test_anchors_of_another_device_are_not_shown(tmp_path):
    for place in (1, 2):
        anchor = measured(3.0, toolkit="cpu", variant="numpy_direct", anchor=place)
        RecordFile(tmp_path / "reports" / "mine").append(anchor)
    assert len(json.loads(printed("--json"))["drifts"]) == 2
    assert len(json.loads(printed("--json", "--device", GPU))["drifts"]) == 1
