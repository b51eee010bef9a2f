"""Stages, accuracy and counters in a terminal."""

from io import StringIO

import pytest
from rich.console import Console

from conftest import flat
from gravbench.report.terminal.stages import render_accuracy, render_counters, render_stages
from test_record import record


def tree(n, theta=0.7, seconds=1e-3, **changes):
    own = {
        "variant": "barnes_hut",
        "n": n,
        "axes": {"theta": theta, "dim": 3, "sort": "morton"},
        "median_seconds": seconds,
        "stages_seconds": {"build": 4e-4, "upload": 1e-4, "traverse": 9e-4},
        "stages_bytes": {"upload": 5e6},
        "computed": {"body_body": 500.0, "body_cell": 1000.0},
        "error_median": 1e-3,
        "error_p99": 5e-3,
        "error_max": 2e-2,
        "error_rms": 2e-3,
    }
    return record(**(own | changes))


def shown(render, records, width=80):
    console = Console(file=StringIO(), width=width)
    render(records, console)
    text = console.file.getvalue()
    assert [line for line in text.splitlines() if len(line) > width] == []
    text.replace("─", "-").encode("latin-1")
    return text


def row(text, name):
    (found,) = [line for line in text.splitlines() if line.startswith(name)]
    return found.removeprefix(name).split()


@pytest.mark.parametrize("width", [80, 200])
def test_stages_over_n_and_what_bounds_them(width):
    slow = tree(1000, seconds=2e-3, stages_seconds={"build": 1.0})
    text = shown(render_stages, [tree(1000), slow, tree(10**6, stages_seconds={"build": 3e-3, "upload": 1e-3})], width)
    # Of two configurations at one n the faster is shown.
    assert row(text, "build") == ["0.4", "3"]
    assert row(text, "traverse") == ["0.9"]
    assert row(text, "sum") == ["1.4", "4"]
    assert row(text, "together") == ["1", "1"]
    assert row(text, "upload, GB/s") == ["50", "5"]
    assert row(text, "longest  ") == ["traverse", "build"]
    assert row(text, "its share") == ["64", "%", "75", "%"]


def test_many_sizes_are_divided_among_tables():
    text = shown(render_stages, [tree(10**power) for power in range(1, 9)])
    assert text.count("longest  ") == 2


@pytest.mark.parametrize("width", [80, 200])
def test_accuracy_over_theta(width):
    several = [tree(1000, 1.0, seconds=1e-3), tree(1000, 0.3, seconds=4e-3), tree(1000, 0.3, seconds=8e-3)]
    text = shown(render_accuracy, several, width)
    assert row(text, "  0.3")[:7] == ["4", "500", "1,000", "1.0e-03", "5.0e-03", "2.0e-02", "2.0e-03"]
    assert row(text, "  0.3")[-1] == "=" * 12
    assert row(text, "  1.0")[-1] == "=" * 3


@pytest.mark.parametrize("width", [80, 200])
def test_the_90_percent_quantile_of_errors_is_shown_where_a_record_has_it(width):
    several = [tree(10**6, 1.0, error_p90=3e-3, computed={"body_body": 5000.0}), tree(10**6, 0.3, seconds=4e-3)]
    text = shown(render_accuracy, several, width)
    assert row(text, "theta")[3:8] == ["median", "90", "%", "99", "%"]
    assert row(text, "  1.0")[3:8] == ["1.0e-03", "3.0e-03", "5.0e-03", "2.0e-02", "2.0e-03"]
    assert row(text, "  0.3")[3:7] == ["1.0e-03", "5.0e-03", "2.0e-02", "2.0e-03"]
    assert "the 90th percentile" in flat(text)
    old = shown(render_accuracy, [one.model_copy(update={"error_p90": None}) for one in several], width)
    assert "90 %" not in old
    assert "10 %" not in old


def test_one_theta_is_no_sweep_of_it():
    assert shown(render_accuracy, [tree(1000)]) == ""


def test_nothing_is_said_of_records_that_tell_nothing():
    plain = [record()]
    assert shown(render_stages, plain) == shown(render_accuracy, plain) == shown(render_counters, plain) == ""


@pytest.mark.parametrize("width", [80, 200])
def test_counters_an_interaction(width):
    counted = {
        "achieved_occupancy": 0.5, "threads_an_instruction": 32.0, "instructions": 500_000.0, "executed_flop": 2e7,
        "issue_slots": 0.9, "fma_pipe": 0.75, "xu_pipe": 0.3, "lsu_pipe": 0.2, "tensor_pipe": 0.1,
        "stalled_wait": 1.0, "stalled_barrier": 0.1,
    }  # fmt: skip
    text = shown(render_counters, [record(n=1000, median_seconds=1e-3, counters=counted)], width)
    # 500,000 instructions of 32 threads, and 20 million operations, for a million interactions.
    (line,) = (line for line in text.splitlines() if line.split()[-1:] == ["wait"])
    assert line.split()[-11:] == ["1", "50", "32.0", "16", "20", "90", "75", "30", "20", "10", "wait"]


def test_counters_that_are_unavailable_say_why():
    assert "unavailable: ncu: no permission" in shown(
        render_counters, [record(counters_unavailable="ncu: no permission")]
    )
