"""What a case costs beside its warm-up and its measurement, counted in calls: on a busy machine seconds say little."""

import importlib.metadata
import sys
import threading

import pytest

from gravbench.config.load import load
from gravbench.measuring import lanes, runner, worker
from gravbench.measuring.outcome import Found, Outcome
from gravbench.measuring.plan import plan
from gravbench.measuring.protocol import part_of
from gravbench.measuring.turns import Turn
from gravbench.model.device import Device
from gravbench.model.record import Measurement
from gravbench.model.runs import RecordFile
from gravbench.model.variant import CPU

TINY = """
measure: {{budget_seconds: 0.01, warm_up_seconds: 0.001, sample_seconds: 0.0005, processes: {processes}}}
variants:
  - variant: numpy_direct
    n: {n}
    dtype: [float32, float64]
"""
IN_WORKER, IN_RUN = 6000, 1000
"""Calls of functions per case that are accepted: about half as many again as there are."""


class Calls:
    """Counts calls of functions, C's and Python's, in this thread."""

    def __init__(self):
        self.number = 0

    def count(self, _, event, __):
        self.number += event in ("call", "c_call")

    def __enter__(self):
        sys.setprofile(self.count)
        return self

    def __exit__(self, *_):
        sys.setprofile(None)


def sweep_of(tmp_path, sizes, processes=1):
    path = tmp_path / "tiny.yaml"
    path.write_text(TINY.format(n=list(sizes), processes=processes))
    return load(str(path))


def outcome_of(sweep, case):
    job = worker.Job(case, part_of(sweep.measure, 4, again=False))
    done = worker.work(job, (), lambda: None, lambda _: None, lambda _: True)
    assert done.status == "ok", done.reason
    return done


@pytest.fixture
def sweep(tmp_path):
    """Make a sweep of tiny cases; this process has imported and compiled what they need."""
    made = sweep_of(tmp_path, range(16, 41))
    for dtype in ("float32", "float64"):
        outcome_of(made, next(case for case in made.cases if case.dtype == dtype))
    return made


def test_a_tiny_case_costs_few_calls_in_its_worker_and_starts_no_thread_and_reads_no_version(sweep, monkeypatch):
    def refused(*_):
        raise AssertionError

    calls = Calls()
    measure = worker.measure

    def uncounted(*arguments, **options):
        sys.setprofile(None)
        try:
            return measure(*arguments, **options)
        finally:
            sys.setprofile(calls.count)

    monkeypatch.setattr(worker, "measure", uncounted)
    monkeypatch.setattr(threading.Thread, "start", refused)
    monkeypatch.setattr(importlib.metadata, "version", refused)
    for case in sweep.cases:
        with calls:
            outcome_of(sweep, case)
    assert len(sweep.cases) == 50
    assert calls.number < IN_WORKER * 50


def test_a_case_costs_few_calls_in_the_process_that_runs_the_sweep(sweep, tmp_path):
    todo = plan(sweep, [Device(CPU, "a processor")], None, anchors=False)
    outcome = outcome_of(sweep, sweep.cases[0])
    with RecordFile(tmp_path / "out") as store:

        def record(task):
            flops = sweep.flops(task.case.interaction)
            store.append(runner._record(task, outcome, flops, lanes.moment()))

        record(todo.tasks[0])
        with Calls() as calls:
            for task in todo.tasks:
                record(task)
    assert calls.number < IN_RUN * 50


def test_while_each_process_of_a_case_starts_the_run_says_starting(tmp_path, monkeypatch):
    class Told:
        def __init__(self, *_, several):
            assert not several

        def ask(self, _, begins, turn):
            begins("loading")
            turn(Turn.ALONE)
            begins("verifying")
            measured = Measurement(samples_seconds=[1e-3] * 3, median_seconds=1e-3, batch=1, stop_reason="interval")
            return Outcome("ok", None, Found(measurement=measured))

        def end(self):
            pass

        stop = begin = ready = end

    class Watcher(runner.Watcher):
        def __init__(self):
            self.phases = []

        def phase(self, _, __, name):
            self.phases.append(name)

    monkeypatch.setattr(lanes, "Worker", Told)
    sweep, watcher = sweep_of(tmp_path, [16], processes=3), Watcher()
    todo = plan(sweep, [Device(CPU, "a processor")], None, anchors=False)
    runner.run(sweep, todo, tmp_path / "out", watcher)
    told = [name for name, last in zip(watcher.phases, [None, *watcher.phases], strict=False) if name != last]
    assert told == ["starting", "loading", "verifying"] * 3 * 2
