"""Lanes of one device and several devices: who works on what, who waits for whom, and where the wall time goes."""

import itertools
import random
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from gravbench.cli.main import app
from gravbench.config.load import load
from gravbench.measuring import rounds, runner
from gravbench.measuring import turns as turns_module
from gravbench.measuring.lanes import Lane, lanes_of
from gravbench.measuring.outcome import Found, Outcome
from gravbench.measuring.plan import plan
from gravbench.measuring.queues import Queues
from gravbench.measuring.tally import Tally
from gravbench.measuring.turns import Ended, Turn, Turns
from gravbench.model.device import Device
from gravbench.model.record import Measurement, Preparation, Record
from gravbench.model.runs import RecordFile
from gravbench.model.toolkits import catalogue
from gravbench.model.variant import CPU, discover
from gravbench.model.work import Work, work_of
from gravbench.toolkits import devices

PROCESSOR = Device(CPU, "a processor")
CARDS = [Device(f"cuda:{place}", "a card", f"GPU-{place}", "600.1") for place in range(3)]
OTHER = Device("cuda:3", "another card", "GPU-3", "600.1")
CONFIG = """
measure: {{anchor_every: {every}, warm_up_seconds: 0.01, budget_seconds: 0.02, sample_seconds: 0.001, processes: 1}}
variants:
  - variant: {variant}
    toolkit: {toolkit}
    n: {n}
"""


@pytest.fixture
def sweep(tmp_path, monkeypatch):
    """Make a sweep of one variant at several n; its toolkit counts as installed."""

    def make(count, variant="tiled", toolkit="cupy", every=10):
        monkeypatch.setattr(type(catalogue()[toolkit]), "missing", None)
        path = tmp_path / "sweep.yaml"
        path.write_text(CONFIG.format(every=every, variant=variant, toolkit=toolkit, n=list(range(40, 40 + count))))
        return load(str(path))

    return make


def made_up(task):
    """Make up the record that a task leaves."""
    fields = task.case.model_dump() | task.fingerprint.model_dump()
    rest = {"bodies_sha256": "0" * 64, "status": "ok", "flops_per_interaction": 20.0, "commit": None}
    times = {"started": "2026-01-01T00:00:00+00:00", "harness_version": "", "anchor": task.anchor}
    return Record(**(fields | rest | times))


def of(todo, device):
    return [task for task in todo.tasks if task.device == device]


def keys(tasks):
    return [task.case.key for task in tasks if task.anchor < 2]


# What has been found right


@pytest.mark.parametrize(("status", "taken"), [("ok", False), ("invalid", False), ("invalid", True)])
def test_a_repetition_is_verified_in_full_unless_this_run_has_found_its_case_right(
    sweep, tmp_path, monkeypatch, status, taken
):
    todo = plan(sweep(3), CARDS[:1], None)
    tasks = todo.tasks
    assert [task.anchor for task in tasks if task.anchor][:2] == [1, 2]
    queues, asked = Queues(tasks, lambda task, _: task.fingerprint), []
    if taken:  # another lane has taken the repetition up already, so that it cannot be given up
        monkeypatch.setattr(queues, "give_up", lambda _: 0)

    class Asked:
        def begin(self):
            pass

        ready = stop = begin

        def ask(self, job, *_):
            asked.append((job.case.n, job.repeated))
            return Outcome(status, None if status == "ok" else "wrong", Found())

    lane = Lane(
        0, 0, CARDS[0], queues, Turns(), sweep(3), tmp_path / "log", itertools.count(1), lambda _: None,
        lambda *_, **__: Asked(), verify_only=False,
    )  # fmt: skip
    lane.start()
    lane._thread.join(20)
    anchor = tasks[0].case.n
    # Nothing is repeated of what is wrong.
    again = [(anchor, status == "ok")] if status == "ok" or taken else []
    assert [one for one in asked if one[0] == anchor] == [(anchor, False), *again]
    assert all(not repeated for n, repeated in asked if n != anchor)
    assert len(asked) == 3 + len(again)
    # What a search asks for once more decides, and is no repetition of an anchor.
    assert not queues.was_right(replace(tasks[0], anchor=0))


# Turns


def test_one_measures_on_a_device_while_others_prepare_and_each_device_has_its_own_turn():
    turns, order = Turns(), []
    first, second = threading.Event(), threading.Event()

    def measure(device, begun, go_on):
        with turns.working() as take:
            take(device, Turn.MEASURE)
            order.append(device)
            begun.set()
            assert go_on.wait(20)

    go_on = threading.Event()
    one = threading.Thread(target=measure, args=("cuda:0", first, go_on))
    one.start()
    assert first.wait(20)
    with turns.working():
        pass  # prepared meanwhile
    other = threading.Thread(target=measure, args=("cuda:1", second, go_on))
    other.start()
    assert second.wait(20)
    third = threading.Event()
    waits = threading.Thread(target=measure, args=("cuda:0", third, go_on))
    waits.start()
    assert not third.wait(0.1)
    go_on.set()
    for thread in (one, other, waits):
        thread.join(20)
    assert order == ["cuda:0", "cuda:1", "cuda:0"]


def test_at_random_nothing_else_is_prepared_or_measured_beside_what_needs_the_cores_and_all_get_their_turn():
    turns, lock = Turns(), threading.Lock()
    state = {"working": 0, "alone": 0, "measuring": dict.fromkeys("ab", 0), "verifying": dict.fromkeys("ab", 0)}
    wrong, done, most = [], [], []
    names = {Turn.VERIFY: "verifying", Turn.MEASURE: "measuring"}

    def look():
        measuring, verifying = state["measuring"], state["verifying"]
        busy = state["working"] + sum(measuring.values()) + sum(verifying.values())
        too_many = max(measuring.values()) > 1 or max(verifying.values()) > turns_module.MOST_VERIFYING
        if state["alone"] > 1 or (state["alone"] and busy) or too_many:
            wrong.append(str(state))
        if any(measuring[device] and verifying[device] for device in "ab"):
            wrong.append(str(state))
        most.append(max(verifying.values()))

    def change(place, by, among=state):
        with lock:
            among[place] += by
            look()

    def work(seed):
        own = random.Random(seed)
        for _ in range(12):
            device, alone = own.choice("ab"), own.random() < 0.3
            with turns.working("a" if device == "a" and alone else "") as take:
                for _ in range(own.choice((1, 1, 3))):  # several processes, one after the other
                    change("working", 1)
                    time.sleep(own.random() * 1e-3)
                    change("working", -1)
                    verified = not alone and own.random() < 0.7
                    for turn in (Turn.ALONE,) if alone else (Turn.VERIFY, Turn.MEASURE)[not verified :]:
                        take(device, turn)
                        among, place = (state, "alone") if alone else (state[names[turn]], device)
                        change(place, 1, among)
                        time.sleep(own.random() * 1e-3)
                        change(place, -1, among)
            done.append(seed)

    threads = [threading.Thread(target=work, args=(seed,), daemon=True) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong
    assert len(done) == 8 * 12
    assert max(most) > 1, "none were verified at the same time"


class Cases:
    """Cases in threads of their own, each of which goes on when it is told to; ``has`` says what each has done."""

    def __init__(self, turns):
        self.turns, self.has, self.threads, self.steps, self.changed = turns, [], [], {}, threading.Condition()

    def begin(self, name, *wanted, device="cuda:0"):
        self.steps[name] = threading.Semaphore(0)

        def work():
            with suppress(Ended), self.turns.working() as take:
                for turn in wanted:
                    take(device, turn)
                    with self.changed:
                        self.has.append(f"{name} {turn}")
                        self.changed.notify_all()
                    self.steps[name].acquire()

        self.threads.append(threading.Thread(target=work, daemon=True))
        self.threads[-1].start()
        time.sleep(0.05)  # so that they ask in this order

    def goes_on(self, name):
        self.steps[name].release()
        time.sleep(0.05)

    def end(self):
        self.turns.end()
        for step in self.steps.values():
            step.release(5)
        for thread in self.threads:
            thread.join(20)


@pytest.fixture
def cases():
    made = Cases(Turns())
    yield made
    made.end()


BOTH = Turn.VERIFY, Turn.MEASURE


def test_some_cases_are_verified_together_and_one_is_measured_alone(cases, monkeypatch):
    monkeypatch.setattr(turns_module, "MOST_VERIFYING", 3)
    for name in "abcd":
        cases.begin(name, *BOTH)
    assert cases.has == ["a verify", "b verify", "c verify"], "as many as there may be"
    cases.begin("e", *BOTH, device="cuda:1")
    assert cases.has.pop() == "e verify", "another device has turns of its own"
    cases.goes_on("b")
    assert len(cases.has) == 3, "neither is it measured beside two others, nor does the fourth begin"
    cases.goes_on("c")
    cases.goes_on("a")
    assert cases.has[3:] == ["a measure"], "in the order in which they asked first"
    cases.goes_on("a")
    assert cases.has[4:] == ["b measure"]
    cases.goes_on("b")
    cases.goes_on("c")
    assert cases.has[5:] == ["c measure", "d verify"], "who was verified is measured before others begin"


def test_whoever_waits_is_not_overtaken_for_ever(cases):
    cases.begin("a", *BOTH)
    cases.begin("large", Turn.MEASURE)
    cases.begin("b", *BOTH)
    assert cases.has == ["a verify"], "beside a case that is verified, others could be for ever"
    cases.goes_on("a")
    assert cases.has[1:] == ["a measure"], "it asked first"
    cases.goes_on("a")
    assert cases.has[2:] == ["large measure"]
    cases.begin("c", Turn.MEASURE)
    cases.goes_on("large")
    assert cases.has[3:] == ["b verify"], "nor are those who are to be verified by those who are measured at once"


def test_of_several_processes_of_a_case_each_waits_anew(cases):
    cases.begin("a", *BOTH, *BOTH)
    cases.begin("b", *BOTH)
    for name in "aba":
        cases.goes_on(name)
    assert cases.has == ["a verify", "b verify", "a measure", "b measure"]
    cases.goes_on("b")
    assert cases.has[4:] == ["a verify"]


def test_a_device_is_warm_when_it_has_just_measured_and_not_when_it_has_verified():
    turns = Turns()
    with turns.working() as take:
        assert not take("cuda:0", Turn.VERIFY)
        assert not take("cuda:0", Turn.MEASURE)
    with turns.working() as take:
        assert take("cuda:0", Turn.VERIFY)
        assert take("cuda:0", Turn.MEASURE)


def test_a_processor_measures_several_cases_in_a_row_and_then_others_go_on(monkeypatch):
    """Before each row all that others prepare has to end, and after it to begin again."""
    monkeypatch.setattr(turns_module, "IN_A_ROW", 3)
    turns, order = Turns(), []

    def measure(device, alone, times):
        for _ in range(times):
            with turns.working("cpu" if alone else "") as take:
                take(device, Turn.ALONE if alone else Turn.MEASURE)
                order.append(device)
                time.sleep(0.01)

    threads = [threading.Thread(target=measure, args=("cpu", True, 6))]
    with turns.working() as take:  # so that both wait
        take("cuda:1", Turn.VERIFY)
        threads[0].start()
        time.sleep(0.05)
        threads.append(threading.Thread(target=measure, args=("cuda:0", False, 3)))
        threads[1].start()
        time.sleep(0.05)
    for thread in threads:
        thread.join(20)
    assert order[:3] == ["cpu"] * 3
    assert order[3] == "cuda:0"
    assert sorted(order) == ["cpu"] * 6 + ["cuda:0"] * 3
    row = "".join("c" if device == "cpu" else "g" for device in order)
    assert "ccc" in row[3:]


def test_what_is_prepared_waits_for_whoever_is_alone_and_goes_on_at_once_when_it_ends(cases):
    cases.begin("a", Turn.MEASURE)
    cases.begin("b", *BOTH)
    cases.begin("cores", Turn.ALONE, device=CPU)
    assert cases.has == ["a measure"]
    cases.goes_on("a")
    assert cases.has[1:] == ["cores alone"], "nobody else prepares or uses a device"
    cases.goes_on("cores")
    assert cases.has[2:] == ["b verify"]


def test_what_is_prepared_is_measured_while_others_still_prepare_and_somebody_waits_to_be_alone(cases):
    with cases.turns.working():
        cases.begin("a", Turn.MEASURE)
        cases.begin("b", Turn.MEASURE)
        cases.begin("cores", Turn.ALONE, device=CPU)
        cases.goes_on("a")
        assert cases.has == ["a measure", "b measure"]
    cases.goes_on("b")
    assert cases.has[2:] == ["cores alone"]


def test_others_begin_while_somebody_prepares_for_whom_one_waits_to_be_alone(cases):
    with cases.turns.working() as take:
        take("cuda:0", Turn.OPEN)
        take("cuda:0", Turn.NOTHING)  # what has opened its device goes on to prepare
        cases.begin("cores", Turn.ALONE, device=CPU)
        cases.begin("a", Turn.MEASURE)
        assert cases.has == ["a measure"], "whoever waits would have to wait anyway"
        cases.goes_on("a")
    time.sleep(0.05)
    assert cases.has[1:] == ["cores alone"]


def test_nobody_begins_while_those_prepare_who_began_after_one_waited_to_be_alone(cases):
    with cases.turns.working() as before:
        cases.begin("cores", Turn.ALONE, device=CPU)
        with cases.turns.working():
            cases.begin("cores too", Turn.ALONE, device=CPU)
            before("cuda:0", Turn.VERIFY)
            cases.begin("a", Turn.MEASURE, device="cuda:1")
            assert not cases.has
            before("cuda:0", Turn.NOTHING)  # it prepares again
            assert not cases.has
    time.sleep(0.05)
    assert cases.has in (["cores alone"], ["cores too alone"])


@pytest.mark.parametrize("ended_by", ["a start", "what compiles", "the last case"])
def test_no_prepared_case_comes_between_two_of_a_processor_in_a_row_until_the_row_ends(cases, ended_by):
    def row():
        cases.turns.join("cpu", 0)
        for place in "12":
            with cases.turns.working("cpu") as take:
                take(CPU, Turn.ALONE)
                cases.has.append(f"{place} of the row")

    cases.begin("a", Turn.MEASURE)
    cases.begin("b", Turn.MEASURE)
    thread = threading.Thread(target=row)
    thread.start()
    time.sleep(0.05)
    cases.goes_on("a")
    thread.join(20)
    assert cases.has[1:] == ["1 of the row", "2 of the row"]
    cases.turns.end_row("another processor")
    time.sleep(0.05)
    assert len(cases.has) == 3
    if ended_by == "a start":
        cases.turns.end_row("cpu")
    elif ended_by == "what compiles":
        with cases.turns.working("cpu") as take:
            take(CPU, Turn.NOTHING)
            time.sleep(0.05)
            assert cases.has[3:] == ["b measure"]
    else:
        cases.turns.leave("cpu")
    time.sleep(0.05)
    assert cases.has[3:] == ["b measure"]


def test_after_a_row_all_that_waited_are_verified_and_measured_before_the_next_row(cases, monkeypatch):
    monkeypatch.setattr(turns_module, "IN_A_ROW", 2)

    def rows():
        for _ in range(4):
            with cases.turns.working("cpu") as take:
                take(CPU, Turn.ALONE)
                cases.has.append("of a row")

    cases.begin("a", Turn.MEASURE)
    for name in "bc":
        cases.begin(name, *BOTH)
    thread = threading.Thread(target=rows)
    thread.start()
    time.sleep(0.05)
    cases.begin("later", Turn.MEASURE)
    for name in "abcbc":
        cases.goes_on(name)
    measured = ["b measure", "c measure"]
    assert cases.has[:5] == ["a measure", "of a row", "of a row", "b verify", "c verify"]
    assert cases.has[5:7] == measured
    if "later measure" in cases.has:
        cases.goes_on("later")
    thread.join(20)
    assert cases.has.count("of a row") == 4


@pytest.mark.parametrize("measured", [True, False], ids=["measured", "skipped"])
def test_others_wait_only_so_long_for_a_processor_that_does_not_come_back(monkeypatch, measured):
    monkeypatch.setattr(turns_module, "RETURN_SECONDS", 0.2)
    turns = Turns()
    with turns.working("cpu") as take:
        if measured:
            take("cpu", Turn.ALONE)
    began = time.monotonic()
    with turns.working():
        waited = time.monotonic() - began
    assert waited >= 0.19 if measured else waited < 0.15


@pytest.mark.parametrize("turn", [turn for turn in Turn if turn != Turn.NOTHING])
def test_the_end_of_a_run_reaches_everybody_who_waits(turn):
    turns, ended = Turns(), []

    def wait():
        try:
            with turns.working() as take:
                take("cuda:0", turn)
        except Ended:
            ended.append(True)

    with turns.working() as take:
        take("cuda:0", Turn.MEASURE)
        threads = [threading.Thread(target=wait) for _ in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(0.05)
        turns.end()
        for thread in threads:
            thread.join(20)
    assert ended == [True] * 3
    with pytest.raises(Ended), turns.working():
        pass


# Who works on what


def test_devices_of_one_kind_share_the_cases_and_each_has_an_anchor(sweep):
    swept = sweep(31)
    todo = plan(swept, [*CARDS, PROCESSOR], None)
    found = [of(todo, card) for card in CARDS]
    ordinary = [task.case.key for own in found for task in own if not task.anchor]
    (anchor,) = {task.case.key for own in found for task in own if task.anchor}
    assert sorted([*ordinary, anchor]) == sorted(case.key for case in swept.cases), "each on one card, one on all"
    assert all(len(keys(own)) >= 9 for own in found)
    for own in found:
        assert own[0].anchor == 1
        assert own[-1].anchor == max(task.anchor for task in own) >= 4
        assert {task.fingerprint.device_uuid for task in own} == {own[0].device.uuid}


MIXED = """
measure: {{anchor_every: {every}, processes: 1}}
n: [{sizes}]
variants:
  - {{variant: tiled, toolkit: cupy, p: [128, 256], timed: {timed}}}
  - {{variant: barnes_hut, toolkit: cupy, leaf_size: [{leaves}], theta: 0.7}}
  - {{variant: [numba_direct, numba_parallel], toolkit: cpu}}
"""


@pytest.mark.parametrize(
    ("sizes", "timed", "leaves", "every", "expected"),
    [
        ("64, 128, 256, 512, 1024, 2048, 4096, 8192", "force", "8", 4, {Work.GPU: 7, Work.BOTH: 5, Work.HOST: 5}),
        (
            "64, 128, 256, 512, 1024, 2048, 4096, 8192",
            "force",
            "1, 2, 4, 8",
            4,
            {Work.GPU: 5, Work.BOTH: 13, Work.HOST: 5},
        ),
        ("64, 128, 256, 512, 1024, 2048, 4096, 8192", "call", "8", 10, {Work.BOTH: 5, Work.HOST: 5}),
        ("64", "force", "8", 10, {Work.GPU: 2, Work.BOTH: 2, Work.HOST: 2}),
    ],
    ids=["most on the GPU", "most hybrids", "calls alone", "short"],
)
def test_a_plan_repeats_one_anchor_of_each_kind_of_work_on_each_device(
    tmp_path, monkeypatch, sizes, timed, leaves, every, expected
):
    monkeypatch.setattr(type(catalogue()["cupy"]), "missing", None)
    path = tmp_path / "mixed.yaml"
    path.write_text(MIXED.format(sizes=sizes, timed=timed, leaves=leaves, every=every))
    swept = load(str(path))
    todo = plan(swept, [CARDS[0], PROCESSOR], None)
    variants = discover()

    def work(task):
        return work_of(task.case, on_host=variants[task.case.variant].on_host)

    assert {work(task) for task in todo.tasks} == expected.keys()
    assert Counter(work(task) for task in todo.tasks if task.fresh) == expected
    for device in (CARDS[0], PROCESSOR):
        own = of(todo, device)
        repeated = {}
        for place, task in enumerate(own):
            if task.fresh:
                repeated.setdefault(work(task), []).append((place, task))
        for found in repeated.values():
            assert len({task.case.key for _, task in found}) == 1, "one anchor"
            assert [task.anchor for _, task in found] == list(range(1, len(found) + 1))
            # Spread over the run, beside the repetitions of the first.
            assert found[0][0] <= 3
            assert found[-1][0] >= len(own) - 4
        ordinary = [task.case.key for task in own if not task.anchor]
        anchors = {task.case.key for task in own if task.anchor}
        fitting = [case.key for case in swept.cases if (case.toolkit == CPU) == (device is PROCESSOR)]
        assert sorted([*ordinary, *anchors]) == sorted(fitting), "nothing is lost and nothing measured twice"


def planned_by_selftest(path, monkeypatch, words, cards):
    """Return what ``gravbench selftest`` plans for a sweep, instead of measuring it."""
    planned = []
    monkeypatch.setattr(devices, "select", lambda _: ([*cards, PROCESSOR], None))
    for name in ("measure_rounds", "measure_on_each"):
        monkeypatch.setattr(
            rounds, name, lambda found, *_: planned.extend(found if isinstance(found, list) else [found])
        )
    CliRunner().invoke(app, ["selftest", str(path), *words, "--out", str(path.with_suffix(""))])
    return [todo for _, todo in planned]


@pytest.mark.parametrize(
    ("words", "cards", "kinds"),
    [
        (["--pairs", "1"], CARDS[:1], {Work.GPU, Work.BOTH, Work.HOST}),
        (["--across-devices"], CARDS[:2], {Work.GPU, Work.BOTH}),
    ],
    ids=["rounds", "cards"],
)
def test_the_selftest_repeats_an_anchor_of_each_kind_of_work(tmp_path, monkeypatch, words, cards, kinds):
    monkeypatch.setattr(type(catalogue()["cupy"]), "missing", None)
    path = tmp_path / "mixed.yaml"
    path.write_text(MIXED.format(sizes="64, 128, 256, 512", timed="force", leaves="8", every=4))
    found = planned_by_selftest(path, monkeypatch, words, cards)
    assert len(found) == 3 - len(cards), "a pair of rounds, or one run of both cards"
    variants = discover()
    for todo in found:
        repeated = Counter(
            (task.device, work_of(task.case, on_host=variants[task.case.variant].on_host))
            for task in todo.tasks
            if task.anchor
        )
        assert {work for _, work in repeated} == kinds
        assert len(repeated) == sum(len(cards) if work is not Work.HOST else 1 for work in kinds)
        assert min(repeated.values()) >= 2, "one is no repetition"


def test_a_resumed_run_adds_no_anchor_of_work_that_it_has_done(tmp_path, monkeypatch):
    monkeypatch.setattr(type(catalogue()["cupy"]), "missing", None)
    path = tmp_path / "mixed.yaml"
    path.write_text(MIXED.format(sizes="64, 128, 256, 512, 1024, 2048", timed="force", leaves="8", every=4))
    swept = load(str(path))
    first = plan(swept, CARDS[:1], None, chosen=True)
    waiting = [task for task in first.tasks if task.case.variant == "tiled" and not task.anchor][:4]
    left = {task.case.key for task in waiting}
    again = plan(
        swept, CARDS[:1], None, [made_up(task) for task in first.tasks if task.case.key not in left], chosen=True
    )
    assert {task.case.variant for task in again.tasks} == {"tiled"}
    hybrids = [task for task in first.tasks if task.case.variant == "barnes_hut"]
    kept = [made_up(task) for task in first.tasks if task not in hybrids] + [made_up(hybrids[0])]
    numbers = [task.anchor for task in plan(swept, CARDS[:1], None, kept, chosen=True).tasks if task.anchor]
    assert numbers[0] == hybrids[0].anchor + 1, "the repetitions are counted on"


def test_every_kind_measures_all_and_where_asked_every_card_does(sweep):
    swept = sweep(5)
    todo = plan(swept, [CARDS[0], OTHER], None, anchors=False)
    assert {len(of(todo, card)) for card in (CARDS[0], OTHER)} == {5}
    todo = plan(swept, CARDS, None, anchors=False, each=True)
    assert {len(of(todo, card)) for card in CARDS} == {5}


def test_what_one_card_has_measured_no_other_of_its_kind_measures_again(sweep):
    swept = sweep(12)
    first = plan(swept, CARDS[:1], None)
    existing = [made_up(task) for task in first.tasks[:6]]
    again = plan(swept, CARDS, None, existing)
    left = {case.key for case in swept.cases} - {record.key for record in existing}
    assert left <= set(itertools.chain(*(keys(of(again, card)) for card in CARDS)))
    assert {task.case.key for task in again.tasks if not task.anchor} <= left
    assert again.reused == len({record.key for record in existing})


def test_a_card_that_has_nothing_left_helps_one_of_its_kind_before_its_last_anchor(sweep):
    todo = plan(sweep(24), CARDS[:2], None)
    queues = Queues(todo.tasks, lambda task, device: task.fingerprint.model_copy(update={"device_uuid": device.uuid}))
    taken = []
    while found := queues.next(CARDS[0]):
        taken.append(found[0])
    assert taken[-1].anchor == max(task.anchor for task in taken)
    helped = [task for task in taken if not task.anchor][-3:]
    assert all(task.device == CARDS[0] and task.fingerprint.device_uuid == "GPU-0" for task in helped)
    rest = []
    while found := queues.next(CARDS[1]):
        rest.append(found[0])
    assert sorted(keys(taken) + keys(rest)) == sorted(keys(todo.tasks))
    # Nobody takes another's last case, nor its anchors.
    assert sum(not task.anchor for task in rest) == 1
    assert sum(task.anchor > 0 for task in rest) == sum(task.anchor > 0 for task in of(todo, CARDS[1]))


def test_a_gpu_has_lanes_where_there_are_cores_and_a_processor_one(monkeypatch):
    monkeypatch.setattr(devices.os, "sched_getaffinity", lambda _: range(16), raising=False)
    assert [lanes_of(CARDS[0], 1, gpus, 9) for gpus in (1, 2, 4, 8)] == [6, 4, 2, 1]
    assert [lanes_of(CARDS[0], 1, 1, tasks) for tasks in (1, 3, 20)] == [1, 3, 6]
    assert lanes_of(CARDS[0], 3, 1, 9) == lanes_of(PROCESSOR, 1, 1, 9) == 1
    monkeypatch.setattr(devices.os, "sched_getaffinity", lambda _: range(3), raising=False)
    assert lanes_of(CARDS[0], 1, 1, 9) == 1


class Joining:
    """Threads that join a device of their own each; ``joined`` has the places of those that have."""

    def __init__(self, turns):
        self.turns, self.joined, self.threads = turns, [], []

    def begin(self, *places):
        for place in places:
            self.threads.append(threading.Thread(target=self._join, args=(place,), daemon=True))
            self.threads[-1].start()
        time.sleep(0.05)

    def _join(self, place):
        with suppress(Ended):
            self.turns.join("cuda:0", place)
            self.joined.append(place)

    def end(self):
        self.turns.end()
        for thread in self.threads:
            thread.join(20)


@pytest.fixture
def joining(monkeypatch):
    monkeypatch.setattr(turns_module, "LOOK_SECONDS", 0.01)
    made = Joining(Turns())
    yield made
    made.end()


def test_some_join_a_device_at_once_and_nobody_when_the_run_has_ended(joining):
    joining.begin(*range(turns_module.FIRST_LANES + 1))
    assert sorted(joining.joined) == list(range(turns_module.FIRST_LANES))
    joining.turns.end()
    with pytest.raises(Ended):
        joining.turns.join("cuda:1", 0)


def test_one_more_joins_a_device_each_time_it_has_had_nothing_to_do_for_so_long(joining, monkeypatch):
    monkeypatch.setattr(turns_module, "IDLE_SECONDS", 0.2)
    monkeypatch.setattr(turns_module, "FIRST_LANES", 3)
    turns = joining.turns
    joining.begin(0, 3, 4)
    with turns.working() as take:
        take("cuda:0", Turn.MEASURE)
        time.sleep(0.3)
        assert joining.joined == [0], "it was busy"
        take("cuda:0", Turn.NOTHING)
        time.sleep(0.1)
        take("cuda:0", Turn.VERIFY)
        time.sleep(0.2)
        assert joining.joined == [0]
    time.sleep(0.15)
    assert joining.joined == [0, 3], "0.1 and 0.15 s without anything to do"
    with turns.working() as take:
        take("cpu", Turn.ALONE)
        time.sleep(0.3)
    time.sleep(0.05)
    assert joining.joined == [0, 3], "nobody could use it beside what needs the host"
    time.sleep(0.4)
    assert joining.joined == [0, 3, 4]


def test_whoever_has_nothing_left_to_do_waits_for_the_others_of_its_device():
    turns, left = Turns(), []

    def work(place, busy):
        turns.join("cuda:0", place)
        assert busy.wait(20)
        turns.leave("cuda:0")
        left.append(place)

    events = [threading.Event() for _ in range(3)]
    events[2].set()
    threads = [threading.Thread(target=work, args=one, daemon=True) for one in enumerate(events)]
    for thread in threads:
        thread.start()
    time.sleep(0.05)
    events[0].set()
    time.sleep(0.05)
    assert not left, "one is still at work, and a process that ends would disturb it"
    turns.join("cuda:1", 0)
    turns.leave("cuda:1")
    events[1].set()
    for thread in threads:
        thread.join(20)
    assert sorted(left) == [0, 1, 2]
    turns.join("cuda:0", 5)  # too late, so it does not wait until it is needed


def test_a_device_is_opened_beside_others_that_are_verified_or_opened_and_never_while_one_is_measured(cases):
    cases.begin("a", *BOTH)
    cases.begin("new", Turn.OPEN, Turn.NOTHING)
    cases.begin("newer", Turn.OPEN, Turn.VERIFY)
    cases.goes_on("a")
    assert cases.has == ["a verify", "new open", "newer open"]
    cases.goes_on("new")
    assert cases.has[3:] == ["new nothing"]
    cases.goes_on("newer")
    assert cases.has[4:] == ["a measure"]
    cases.begin("late", Turn.OPEN)
    assert cases.has[5:] == []
    cases.goes_on("a")
    assert cases.has[5:] == ["newer verify", "late open"]


def test_each_repetition_of_an_anchor_is_for_processes_that_have_not_measured_it(sweep):
    todo = plan(sweep(31, every=5), CARDS[:1], None)
    queues = Queues(todo.tasks, lambda task, _: task.fingerprint)
    taken = [(lane, queues.next(CARDS[0], lane)[0]) for lane in (0, 1, 2)]
    # The first lane comes whenever an anchor does.
    while task := queues.next(CARDS[0], 0):
        taken.append((0, task[0]))
        if task[0].anchor == 0 and len(taken) % 3:
            continue
        if task := queues.next(CARDS[0], 1 + len(taken) % 2):
            taken.append((1 + (len(taken) + 1) % 2, task[0]))
    assert sorted(task.case.key for _, task in taken) == sorted(task.case.key for task in todo.tasks)
    typical = todo.tasks[0].case
    anchors = [(lane, task) for lane, task in taken if task.case == typical]
    assert [task.anchor for _, task in anchors] == list(range(1, len(anchors) + 1))
    seen = set()
    for lane, task in anchors:
        assert task.fresh == (lane in seen)
        seen.add(lane)
    assert len(seen) == 3, "other lanes come first"


def test_the_last_anchor_begins_while_other_lanes_do_what_else_is_left(sweep):
    todo = plan(sweep(31), CARDS[:1], None)
    queues = Queues(todo.tasks, lambda task, _: task.fingerprint)
    taken = [queues.next(CARDS[0], place % 3)[0] for place in range(len(todo.tasks))]
    anchors = [place for place, task in enumerate(taken) if task.anchor]
    assert anchors[-3:] == list(range(anchors[-1] - 2, anchors[-1] + 1)), "with those of the smallest and the largest n"
    assert len(taken) - 5 <= anchors[-1] < len(taken) - 1
    assert queues.next(CARDS[0]) is None
    alone = Queues(todo.tasks, lambda task, _: task.fingerprint)
    assert [alone.next(CARDS[0])[0].anchor for _ in todo.tasks][-1], "a single lane has nobody to leave the rest to"


def test_processes_that_are_replaced_end_when_the_device_may_be_left(sweep, tmp_path, monkeypatch):
    """They may not disturb what is measured, and what replaces them starts meanwhile."""
    monkeypatch.setattr(runner, "lanes_of", lambda *_: 1)
    told = []

    class Process:
        def __init__(self):
            self.number = sum(one.endswith("starts") for one in told)
            told.append(f"{self.number} starts")

        def ask(self, _, __, turn):
            if f"{self.number} open" not in told:
                turn(Turn.OPEN)
                told.append(f"{self.number} open")
                turn(Turn.NOTHING)
            turn(Turn.MEASURE)
            return Outcome("ok", None, Found(preparation=Preparation(), measurement=measured))

        def end(self):
            pass

        def stop(self):
            told.append(f"{self.number} stops")

    class Site:
        losable = False

        def host(self, _):
            return ""

        def start(self, *_, **__):
            return Process()

    measured = Measurement(median_seconds=1.0, ci_low=0.9, ci_high=1.1)
    swept = sweep(3, every=1)
    todo = plan(swept, CARDS[:1], None)
    runner.run(swept, todo, tmp_path / "out", runner.Watcher(), site=Site())
    first = told.index("0 stops")
    assert told[first - 1 : first + 2] == ["1 starts", "0 stops", "1 open"]
    assert sum(one.endswith("starts") for one in told) == sum(one.endswith("stops") for one in told) > 2


class Watched:
    """Processes on two GPUs, and what each opened or left while another was measured there: ``wrong``."""

    losable = False

    def __init__(self, fails=()):
        self.fails, self.wrong, self.lock, self.measured, self.started = fails, [], threading.Lock(), {}, []

    def host(self, _):
        return ""

    def start(self, device, *_, **__):
        site = self

        class Process:
            opened = frozenset()

            def __init__(self):
                site.started.append(self)

            def look(self, what, places):
                with site.lock:
                    for other, where in site.measured.items():
                        if other is not self and where & places:
                            site.wrong.append(f"{what} {sorted(places)} beside a case on {sorted(where)}")

            def ask(self, job, _, turn):
                places = frozenset(one.selector for one in (CARDS[:2] if job.case.gpus > 1 else [device]))
                if not self.opened:
                    turn(Turn.ALONE if job.case.gpus > 1 else Turn.OPEN)
                    self.look("opens", places)
                    self.opened = places
                    turn(Turn.NOTHING)
                time.sleep(0.005)
                if job.case.n in site.fails:
                    return Outcome("failed", "it does not compile", broken=True)
                turn(Turn.ALONE if job.case.gpus > 1 else Turn.MEASURE)
                self.look("is measured on", places)
                with site.lock:
                    site.measured[self] = places
                time.sleep(0.01)
                with site.lock:
                    del site.measured[self]
                measured = Measurement(median_seconds=1.0, ci_low=0.9, ci_high=1.1)
                return Outcome("ok", None, Found(preparation=Preparation(), measurement=measured))

            def end(self):
                pass

            def stop(self):
                for _ in range(4):  # it takes its time
                    self.look("leaves", self.opened)
                    time.sleep(0.005)
                site.started.remove(self)

        return Process()


@pytest.mark.parametrize("gpus", [[1], [1, 2]])
def test_nobody_opens_or_leaves_a_gpu_on_which_a_case_is_measured(sweep, tmp_path, monkeypatch, gpus):
    monkeypatch.setattr(runner, "lanes_of", lambda *_: 3)
    monkeypatch.setattr(devices, "gpus", lambda: (CARDS[:2], None))
    swept = sweep(18, "tiled_gpus", every=5)
    swept.cases[:] = [
        case.model_copy(update={"axes": {**case.axes, "gpus": one}}) for case in swept.cases for one in gpus
    ]
    site = Watched(fails={43, 49, 52})
    records = runner.run(swept, plan(swept, CARDS[:2], None), tmp_path / "out", runner.Watcher(), site=site)
    assert sum(record.status == "ok" for record in records) >= 15 * len(gpus)
    assert sum(record.status == "failed" for record in records) >= 3
    assert not site.wrong
    assert not site.started, "all have ended"


def test_several_lanes_lose_and_double_no_record_and_tell_where_the_time_went(sweep, tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "lanes_of", lambda *_: 3)

    class Listening(runner.Watcher):
        def over(self, seconds):
            self.seconds = seconds

    swept, watcher = sweep(14, "numpy_direct", "cpu", every=4), Listening()
    todo = plan(swept, [PROCESSOR], None)
    began = time.monotonic()
    records = runner.run(swept, todo, tmp_path / "out", watcher)
    took = time.monotonic() - began
    assert sorted((record.key, record.anchor) for record in records) == sorted(
        (task.case.key, task.anchor) for task in todo.tasks
    )
    assert {record.status for record in records} == {"ok"}
    assert [one.key for one in RecordFile(tmp_path / "out").read()] == [one.key for one in records]
    anchors = [record.processes[0] for record in records if record.anchor]
    assert len(set(anchors)) == len(anchors), "each repetition of the anchor in a process of its own"
    assert 0.5 * took < sum(watcher.seconds.values()) <= took
    assert {"starting", "loading", "verifying", "measuring"} <= set(watcher.seconds)


@pytest.mark.parametrize(
    ("device", "variant", "toolkit", "rows"), [(PROCESSOR, "numba_direct", "cpu", 4), (CARDS[0], "tiled", "cupy", 1)]
)
def test_others_go_on_while_new_processes_of_a_processor_start(
    sweep, tmp_path, monkeypatch, device, variant, toolkit, rows
):
    ended = []
    monkeypatch.setattr(runner, "lanes_of", lambda *_: 1)
    monkeypatch.setattr(Turns, "end_row", lambda _, processor: ended.append(processor))
    swept = sweep(3, variant, toolkit, every=1)
    runner.run(swept, plan(swept, [device], None), tmp_path / "out", runner.Watcher(), site=Watched())
    assert ended == [device.selector] * rows, "the first, the new ones, and at the end"


# Where the time goes


def test_the_wall_time_is_that_of_the_foremost_case_of_each_device():
    now = [0.0]
    tally = Tally(lambda: now[0])

    def at(seconds, *change):
        now[0] = seconds
        tally.does(*change)

    at(0, "cuda:0", 1, "starting")
    at(2, "cuda:0", 1, "compiling")
    at(3, "cuda:0", 2, "starting")
    at(4, "cuda:0", 1, "verifying")
    at(5, "cuda:0", 2, "compiling")
    assert tally.leads("cuda:0", 1)
    assert not tally.leads("cuda:0", 2)
    at(6, "cuda:0", 1, "measuring")
    at(9, "cuda:0", 1, None)
    at(10, "cuda:0", 2, None)
    assert tally.seconds() == {"starting": 2.0, "compiling": 3.0, "verifying": 2.0, "measuring": 3.0}
