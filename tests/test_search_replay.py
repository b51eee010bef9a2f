"""Searches of recorded sweeps: the same numbers every time, what an outraced case costs, and what is printed."""

from __future__ import annotations

import importlib.util
import io
import json
import math
import xml.etree.ElementTree as ET
from functools import cache

import altair
import pytest
from rich.console import Console
from typer.testing import CliRunner

from conftest import ROOT, flat
from gravbench.cli.main import app
from gravbench.config.search import Search
from gravbench.errors import InputError
from gravbench.model.runs import RecordFile
from gravbench.model.variant import discover
from gravbench.report.page import charts
from gravbench.search import kernel_tuner as tuner
from gravbench.search.figure import figure
from gravbench.search.printed import render_searches
from gravbench.search.recorded import FEWEST, Recorded, recorded
from gravbench.search.replay import Effort, Trail, answered, effort, replay
from gravbench.search.summary import Searched
from test_report import record

H100 = ROOT / "reports" / "h100"
needs_optuna = pytest.mark.skipif(not importlib.util.find_spec("optuna"), reason="Optuna is not installed")
needs_tuner = pytest.mark.skipif(tuner.missing() is not None, reason=tuner.missing() or "")


@cache
def boards(run: str) -> list[Recorded]:
    return recorded(RecordFile(ROOT / "reports" / run).read(), discover())[0]


def made(count: int = 12, **changes) -> list:
    """Records of one contest, the fastest with p = 0, each 10 % slower than the one before, of ten samples."""
    return [
        record(
            "tiled",
            1.1**p,
            **{
                "axes": {"p": p},
                "samples_seconds": [1.1**p * (1 + 1e-4 * (i % 3)) for i in range(10)],
                "ci_low": 0.999 * 1.1**p,
                "ci_high": 1.001 * 1.1**p,
                **changes,
            },
        )
        for p in range(count)
    ]


@pytest.mark.parametrize(
    ("name", "median", "rarely", "whole"),
    [("all", 39.0, 71.0, 96.0), ("race", 16.04167, 27.70833, 32.50833)],
)
def test_a_replay_of_committed_records_gives_the_same_numbers(name, median, rarely, whole):
    (board,) = (one for one in boards("h100/gems3") if one.fastest.n == 1024)
    assert (len(board.records), board.fastest.variant, board.fastest.axes["p"]) == (96, "split", 16)
    found = replay(board, Search(strategy=name), {}, repeat=40, within=0.01)
    assert found == replay(board, Search(strategy=name), {}, repeat=40, within=0.01)
    assert (found.missed, found.repeated) == (0, 40)
    assert (found.median, found.rarely, found.whole) == pytest.approx((median, rarely, whole), rel=1e-5)


def test_the_table_of_the_documentation_has_what_all_and_race_need():
    text = (ROOT / "docs" / "explanation" / "searching.md").read_text("utf-8")
    lines = (
        text.partition("<!-- replayed: h100/gems3, 20 searches -->")[2].partition("<!-- end")[0].strip().splitlines()
    )
    cells = {line.split(" | ")[0].strip("| `"): line.strip("| ").split(" | ")[1:] for line in lines}
    for board, title, every, raced in zip(
        boards("h100/gems3"), *(cells[name] for name in ("strategy", "all", "race")), strict=True
    ):
        assert title == f"n = {board.fastest.n:,}, {len(board.records)} cases"
        one, other = (replay(board, Search(strategy=name), {}, repeat=20, within=0.01) for name in ("all", "race"))
        assert every == f"{one.median:.3g}, {one.rarely:.3g}"
        assert raced == f"{other.median:.3g}, {other.rarely:.3g}; whole {other.whole:.3g}"


@needs_optuna
def test_a_replay_of_tpe_gives_the_same_numbers_and_needs_fewer_than_random():
    (board,) = (one for one in boards("h100/gems3") if one.fastest.n == 1024)
    found = [replay(board, Search(strategy=name), {}, repeat=15, within=0.01) for name in ("random", "tpe", "tpe")]
    assert found[1] == found[2]
    assert found[1].rarely < found[0].rarely
    assert [one.whole for one in found] == [None] * 3


@pytest.mark.parametrize("run", ["h100/gems3", "h100/beyond", "h100/ladder"])
def test_a_race_finds_what_is_close_to_the_fastest_in_every_contest_for_less_than_all(run):
    for board in boards(run):
        found = replay(board, Search(strategy="race"), discover(), repeat=10, within=0.01)
        assert found.missed == 0
        assert found.whole is not None
        assert found.whole < len(board.records)


def test_a_case_that_is_outraced_costs_the_part_of_its_samples_up_to_the_look_that_saw_it():
    (board,), _ = recorded(made(), {})
    costs = {one.axes["p"]: cost for one, cost in answered(board, Search(strategy="race", seed=3), {})}
    assert set(costs.values()) == {0.3, 1.0}
    assert costs[0] == 1.0
    seen = [one.axes["p"] for one, _ in answered(board, Search(strategy="race", seed=3), {})]
    assert all(costs[p] == (1.0 if p == min(seen[: seen.index(p) + 1]) else 0.3) for p in costs)


def test_a_case_that_failed_costs_a_measurement_and_one_that_was_skipped_is_no_case():
    records = [*made(), record("tiled", None, axes={"p": 90}, status="invalid"), *made(1, status="skipped", n=7)]
    records.append(record("tiled", None, axes={"p": 91}, status="skipped"))
    (board,), left_out = recorded(records, {})
    assert (len(board.records), left_out) == (13, 0)
    assert sum(cost for _, cost in answered(board, Search(), {})) == 13


def test_a_median_that_most_searches_never_reach_is_infinite():
    found = effort("x", [Trail(3.0, 9.0), Trail(5.0, 7.0), Trail(math.inf, 8.0)])
    assert found == Effort("x", 5.0, math.inf, 8.0, 1, 3)
    assert effort("x", [Trail(math.inf, 1.0)] * 2, ends=False) == Effort("x", math.inf, math.inf, None, 2, 2)


def test_too_few_cases_in_a_contest_are_one_sentence():
    with pytest.raises(InputError, match=rf"^at most 9 cases compete at one n; accepted: .* {FEWEST} or more$"):
        recorded(made(9), {})
    with pytest.raises(InputError, match="at most 0 cases compete at one n"):
        recorded([], {})
    found, left_out = recorded([*made(), *made(5, n=2000)], {})
    assert (len(found), left_out) == (1, 1)


def shown(width: int) -> str:
    file = io.StringIO()
    efforts = [Effort("all", 48.0, 93.0, 96.0, 0, 100), Effort("kt genetic_algorithm", 7.25, math.inf, None, 12, 100)]
    render_searches([Searched(boards("h100/gems3")[0], efforts)], Console(width=width, file=file), 2, 100, 0.01, 0.02)
    return file.getvalue()


@pytest.mark.parametrize("width", [80, 200])
def test_the_table_fits_the_terminal_and_says_what_it_is(width):
    text = shown(width)
    assert max(map(len, text.splitlines())) <= width
    rows = [line.split() for line in text.splitlines()]
    assert ["all", "48", "93", "96"] in rows
    assert ["kt", "genetic_algorithm", "7.25", "-", "12"] in rows
    words = flat(text)
    assert "within 1 % of the fastest; 100 searches per strategy" in words
    assert "n = 1,024: 96 cases" in words
    assert "fastest: split pycuda p=16 q=16 unroll=4" in words
    assert "not searched: 2 contests with fewer cases" in words


def command(*words: str):
    return CliRunner().invoke(app, ["replay", *words])


def test_the_command_prints_json_whose_numbers_are_those_of_the_table():
    words = [str(H100 / "beyond"), "--strategy", "all", "--strategy", "race", "--repeat", "5", "--within", "2%"]
    done = command(*words, "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["repeat"], found["within"], found["threshold"]) == (5, 0.02, 0.02)
    assert [one["cases"] for one in found["contests"]] == [23, 25, 25]
    assert [own["strategy"] for own in found["contests"][0]["strategies"]] == ["all", "race"]
    table = [line.split() for line in command(*words).stdout.splitlines()]
    for one in found["contests"]:
        own = one["strategies"][0]
        assert ["all", f"{own['median']:g}", f"{own['quantile_90']:g}", str(one["cases"])] in table


@pytest.mark.parametrize("ending", ["svg", "html"])
def test_the_figure_is_a_file_that_needs_nothing_else(ending, tmp_path):
    path = tmp_path / "below" / f"a.{ending}"
    done = command(str(H100 / "beyond"), "--strategy", "race", "--repeat", "2", "--figure", str(path))
    assert done.exit_code == 0, done.output
    text = path.read_text("utf-8")
    assert "n = 65,536" in text
    if ending == "svg":
        assert ET.fromstring(text).tag.endswith("svg")
    assert 'src="http' not in text


def test_the_figure_leaves_out_a_median_that_is_infinite_and_ends_such_a_line_at_all_cases():
    efforts = [Effort("a", 3.0, math.inf, None, 1, 5), Effort("b", math.inf, math.inf, None, 5, 5)]
    spec = figure([Searched(boards("h100/gems3")[0], efforts)])
    altair.Chart.from_dict(charts.dressed(spec, title="alone"))
    rows = spec["datasets"]["rows"]
    assert [(row["strategy"], row["median"], row["rarely"]) for row in rows] == [("a", 3.0, 96.0)]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--figure", "a.png"], "--figure a.png: the ending is .png; accepted: .svg, .html"),
        (["--within", "0"], "--within 0: accepted: a part"),
        (["--threshold", "x"], "--threshold x: accepted: a part"),
    ],
)
def test_a_wrong_option_of_replay_is_one_sentence(words, sentence):
    done = command(str(H100 / "beyond"), *words)
    assert isinstance(done.exception, InputError)
    assert sentence in str(done.exception)


def test_what_is_not_installed_is_stated_and_the_rest_is_searched(monkeypatch):
    found = importlib.util.find_spec
    absent = ("optuna", "kernel_tuner")
    monkeypatch.setattr(importlib.util, "find_spec", lambda word, *more: None if word in absent else found(word, *more))
    done = command(str(H100 / "beyond"), "--repeat", "1", "--kernel-tuner", "--json")
    assert done.exit_code == 0, done.output
    said = " ".join(done.stderr.split())
    assert "Optuna is not installed, so random and tpe are left out: pip install 'gravbench[search]'" in said
    assert "Kernel Tuner is not installed, so its strategies are left out" in said
    strategies = [own["strategy"] for own in json.loads(done.stdout)["contests"][0]["strategies"]]
    assert strategies == ["all", "race"]
    done = command(str(H100 / "beyond"), "--strategy", "tpe")
    assert isinstance(done.exception, InputError)
    assert "the strategy tpe needs Optuna" in str(done.exception)


def test_the_cache_file_has_every_case_once_with_its_time_in_milliseconds():
    for run in ("h100/gems3", "h100/beyond", "h100/ladder"):
        for board in boards(run):
            tuned = tuner.Tuned(board)
            cache = json.loads(json.dumps(tuned.cache()))
            assert len(tuned.rows) == len(board.records) == len(cache["cache"])
            assert cache["tune_params_keys"] == list(cache["tune_params"])
            times = sorted(entry["time"] for entry in cache["cache"].values())
            assert times == pytest.approx(sorted(1e3 * one.median_seconds for one in board.records))
            for key, entry in cache["cache"].items():
                assert key == ",".join(str(entry[name]) for name in cache["tune_params_keys"])


@needs_tuner
@pytest.mark.parametrize("strategy", tuner.STRATEGIES)
def test_each_strategy_of_kernel_tuner_searches_a_recorded_contest(strategy):
    (board,) = (one for one in boards("h100/gems3") if one.fastest.n == 16384)
    (one,) = tuner.simulate(board, seed=1, repeat=2, within=0.01, strategies=[strategy])
    assert one.strategy == f"kt {strategy}"
    assert 1 <= one.median <= len(board.records) or one.missed
    # The others draw from random numbers that nobody can seed.
    if strategy not in ("diff_evo", "bayes_opt"):
        assert tuner.simulate(board, seed=1, repeat=2, within=0.01, strategies=[strategy]) == [one]


@needs_tuner
def test_kernel_tuner_searches_one_axis_in_whose_cases_one_failed():
    records = [*made(), record("tiled", None, axes={"p": 90}, status="invalid")]
    (board,), _ = recorded(records, {})
    (found,) = tuner.simulate(board, seed=1, repeat=3, within=0.01, strategies=["random_sample"])
    assert 1 <= found.median <= 13
    assert found.missed == 0


def test_a_product_of_too_many_points_for_kernel_tuner_is_one_sentence(monkeypatch):
    monkeypatch.setattr(tuner, "MOST_POINTS", 11)
    (board,), _ = recorded(made(), {})
    with pytest.raises(
        InputError, match="the product of all axes has 12 points, which Kernel Tuner lists; accepted: up"
    ):
        tuner.simulate(board, seed=1, repeat=1, within=0.01)
