"""Runs whose cases a strategy chooses: what is asked is measured, what is outraced says so, and nothing is lost."""

import math
from collections import Counter
from datetime import datetime

import pytest

from conftest import ROOT
from gravbench.config.load import load
from gravbench.errors import InputError
from gravbench.measuring import runner
from gravbench.measuring.plan import plan
from gravbench.model.device import Device
from gravbench.model.record import OUTRACED
from gravbench.model.runs import RecordFile
from gravbench.model.variant import CPU
from gravbench.search.strategies import of_plan

PROCESSOR = Device(CPU, "a processor")
CONFIG = """
measure: {{warm_up_seconds: 0.01, budget_seconds: {budget}, sample_seconds: 0.002, processes: {processes}}}
search: {search}
variants:
  - variant: numpy_direct
    n: 200
    seed: [1, 2, 3, 4, 5, 6, 7]
  - variant: numba_direct
    n: 200
    seed: [1, 2, 3]
"""


class Watching(runner.Watcher):
    """Keeps what a search ends with."""

    def __init__(self):
        self.found, self.apart, self.cases_left_out = [], [], 0

    def searched(self, device, fastest, apart):
        self.found.append((device, [[case.label for case in cases] for cases in fastest]))
        self.apart = apart

    def left_out(self, device, cases):  # noqa: ARG002
        self.cases_left_out = cases


@pytest.fixture
def searched(tmp_path):
    """Run a search and return its records, what it ended with, and its plan; again and again in the same folder."""

    def run(search, budget=0.2, processes=1, resume=False):
        path = tmp_path / "searched.yaml"
        path.write_text(CONFIG.format(search=search, budget=budget, processes=processes))
        sweep, out, watcher = load(str(path)), tmp_path / "out", Watching()
        existing = runner.recorded(out, resume=resume)
        todo = plan(sweep, [PROCESSOR], None, existing)
        with runner.open_run(out, existing, [PROCESSOR], [], sweep, todo.planned) as (store, _):
            records = runner.run(sweep, todo, store, watcher, strategies=of_plan(sweep, todo))
        assert [one.key for one in RecordFile(out).read()][len(existing) :] == [one.key for one in records]
        run.apart, run.left_out = watcher.apart, watcher.cases_left_out
        return records, watcher.found, todo

    return run


@pytest.mark.slow
def test_a_race_measures_every_case_and_ends_with_those_that_cannot_be_told_from_the_fastest(searched):
    records, found, todo = searched("race")
    assert {record.status for record in records} == {"ok"}
    assert {record.key for record in records} == {task.case.key for task in todo.tasks}
    late = [record for record in records if record.stop_reason == OUTRACED]
    assert all(len(record.samples_seconds) >= 3 and record.error_max is not None for record in late)
    ((device, contests),) = found
    # One contest per seed: other bodies are another task.
    assert (device, len(contests)) == ("a processor", 7)
    assert all(contests)
    assert sorted(searched.apart) == [f"seed={number}" for number in range(1, 8)]


@pytest.mark.slow
def test_a_case_that_is_far_behind_stops_after_three_samples_and_its_results_are_judged(searched, monkeypatch):
    from gravbench.search.orders import Race

    monkeypatch.setattr(Race, "_behind", lambda *_: 1e-9)
    records, _, _ = searched("race", processes=2)
    ordinary = [record for record in records if not record.anchor]
    assert ordinary
    assert {record.stop_reason for record in ordinary} == {OUTRACED}
    # After three, unless these happen to scatter so much that they say nothing until the budget of a process is spent.
    looks = {3, *(7 << times for times in range(12))}
    assert {record.processes.count(record.processes[-1]) for record in ordinary} <= looks
    assert all(record.status == "ok" and record.error_rows for record in ordinary)
    assert all(record.stop_reason != OUTRACED for record in records if record.anchor)


@pytest.mark.slow
def test_a_budget_of_trials_ends_a_search_and_a_resumed_one_goes_on(searched):
    pytest.importorskip("optuna")
    first, _, _ = searched("{strategy: random, budget_trials: 4}")
    assert searched.left_out == 10 - len({record.key for record in first})
    # The anchor's case may be beside them: it is measured whether or not it was chosen.
    assert len({record.key for record in first}) in (4, 5)
    again, _, todo = searched("{strategy: random, budget_trials: 8}", resume=True)
    assert todo.reused == len({record.key for record in first})
    assert not {record.key for record in first} & {record.key for record in again if not record.anchor}
    assert len({record.key for record in [*first, *again]}) in (8, 9)


@pytest.mark.slow
def test_what_was_outraced_is_known_to_a_search_and_measured_by_a_whole_sweep(searched, monkeypatch):
    from gravbench.search.orders import Race

    monkeypatch.setattr(Race, "_behind", lambda *_: 1e-9)
    first, _, _ = searched("race")
    late = {record.key for record in first if record.stop_reason == OUTRACED}
    assert late
    _, _, todo = searched("all", resume=True)
    assert late <= {task.case.key for task in todo.tasks}


@pytest.mark.parametrize(
    ("search", "said"),
    [
        ("rase", 'search.strategy is "rase"; did you mean race?'),
        ("{strategy: race, budget: 3}", 'unknown key "budget"; did you mean budget_trials?'),
        ("{budget_trials: 0}", "search.budget_trials is 0; accepted: 1 or more"),
        ("[race]", "search is "),
    ],
)
def test_a_mistake_in_the_settings_of_a_search_is_one_sentence(search, said, tmp_path):
    path = tmp_path / "searched.yaml"
    path.write_text(CONFIG.format(search=search, budget=1, processes=1))
    with pytest.raises(InputError) as caught:
        load(str(path))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_race_of_an_h200_found_what_the_whole_sweep_found_as_the_document_says():
    race, sweep = (RecordFile(ROOT / "reports" / "search" / name).read() for name in ("race", "all"))
    said = " ".join((ROOT / "docs" / "explanation" / "searching.md").read_text("utf-8").split())
    seconds = {}
    for record in sweep:
        assert record.status == "ok"
        seconds.setdefault(record.key, record.median_seconds)
    assert {record.key for record in race} == set(seconds)
    assert f"which of {len(seconds):,} configurations" in said
    for own, sentence in (
        (race, "On one H200, the last measurement started {} s after the first"),
        (sweep, "In it, the last measurement started after {} s"),
    ):
        began = sorted(datetime.fromisoformat(record.started) for record in own)
        assert sentence.format(round((began[-1] - began[0]).total_seconds())) in said
    outraced = [record.key for record in race if record.stop_reason == OUTRACED]
    assert f"{len(outraced):,} records are outraced" in said
    finalists = Counter(record.key for record in race if not record.anchor and record.stop_reason != OUTRACED)
    twice = [case for case, times in finalists.items() if times == 2]
    assert f"and {len(twice)} configurations cannot be distinguished from the fastest" in said
    best = min(seconds, key=seconds.get)
    assert f"takes {1e3 * seconds[best]:.4g} ms per evaluation and is one of these {len(twice)}." in said
    assert best in twice
    times = {case: [record.median_seconds for record in race if record.key == case] for case in twice}
    winner = min(twice, key=lambda case: math.prod(times[case]))
    assert f"The winner of the race takes {1e3 * seconds[winner]:.4g} ms in the full sweep." in said
    near = [case for case, own in seconds.items() if own <= 1.02 * seconds[best]]
    assert f"The race stopped none of the {len(near)} configurations that are within 2 % of the fastest." in said
    assert not set(near) & set(outraced)
