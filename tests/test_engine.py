"""What always holds while sessions work, on random schedules: the numbered list of ``gravbench.measuring.engine``.

Sessions are pretended here. Each notes when it opens a device, measures and ends, and takes as many rounds of the
engine for a stage as chance wants.
"""

import itertools
import random
from collections import Counter
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gravbench.config.load import load
from gravbench.config.settings import Measure
from gravbench.measuring import engine as engine_module
from gravbench.measuring.engine import DISAGREE, Began, Does, Done, Engine, Setup
from gravbench.measuring.outcome import Outcome, Results
from gravbench.measuring.outside_judge import Answer
from gravbench.measuring.queues import Queue
from gravbench.measuring.stages import (
    ANSWERED,
    COMPILING,
    LOADING,
    MEASURED,
    MEASURING,
    VERIFYING,
    VERIFYING_AGAIN,
    WARMING_UP,
)
from gravbench.measuring.tasks import Task
from gravbench.model.device import Device
from gravbench.model.record import Fingerprint, Measurement
from gravbench.model.variant import CPU

PROCESSOR = Device(CPU, "a processor")
STAGES = (LOADING, COMPILING, VERIFYING, WARMING_UP, MEASURING, VERIFYING_AGAIN)
ENDS = ("ok", "invalid", "failed", "dies", "hangs", "is contradicted")
(CASE,) = load("quick", ["n=64"], variants=["numpy_direct"]).cases
PRINT = Fingerprint(code_sha256=None, flags=[], toolkit_version=None, driver=None, device=None, device_uuid=None)


def gpu(number):
    return Device(f"cuda:{number}", "a card", f"GPU-{number}", "580")


def task_of(number, device, *, gpus=1, anchor=0, toolkit="cupy"):
    """Make a task; those of one ``number`` are of the same case."""
    axes = {"gpus": gpus} if gpus > 1 else {}
    update = {"n": 64 + number, "axes": axes, "toolkit": CPU if device == PROCESSOR else toolkit}
    return Task(CASE.model_copy(update=update), PRINT, device, anchor=anchor, fresh=anchor > 0)


class World:
    """What a pretended host has: sessions, builds, and a clock that goes on when the engine sleeps."""

    def __init__(self, chance, ends=(), needs_host=(), unbuilt=0.5):
        self.chance = chance
        self.unbuilt = unbuilt
        self.ends = dict(ends)
        self.needs_host = set(needs_host)
        self.rounds = 0
        self.early = 0.0
        self.imports_without_end = False
        self.sessions = []
        self.are_suspended = False
        self.are_closed = False
        self.is_building = True

    # What the engine asks of builds

    waits_for = ()

    def want(self, task, upcoming, _):
        """Builds are done at some time."""

    def step(self, _):
        """Builds go on by themselves."""

    def is_done(self, task):  # noqa: ARG002
        return not self.are_suspended and self.chance.random() >= self.unbuilt

    def suspend(self):
        self.are_suspended = True

    def resume(self):
        self.are_suspended = False

    def close(self):
        self.are_closed = True

    # What happens

    def sleep(self, *given):
        for ready in given[:-1]:
            assert len(ready) == len(set(ready)), "the system refuses to wait for one thing twice"
        self.rounds += 1
        assert self.rounds < 3000, "nothing goes on any more"

    @property
    def alive(self):
        return [session for session in self.sessions if not session.has_ended]

    def check(self):
        """Check what holds at every moment, whatever has just happened."""
        opened = [device for session in self.alive if session.is_open for device in session.sees]
        # Those that see all devices are idle in between, and so are the others meanwhile.
        busy = [session for session in self.alive if session.job]
        for device, count in Counter(opened).items():
            users = [session for session in busy if session.is_open and device in session.sees]
            assert len(users) <= 1, f"{device} is used by {len(users)} sessions"
            owners = [session for session in self.alive if session.is_open and session.device == device]
            assert device == PROCESSOR or len(owners) <= 1, f"{count} sessions have {device} open"
        measuring = [session for session in self.alive if session.measures]
        if measuring:
            assert self.judge.is_suspended
            assert self.are_suspended or self.are_closed
            without_device = [session for session in self.alive if session.device != PROCESSOR and not session.started]
            assert all(session.is_suspended for session in without_device)
            assert all(session.is_ready for session in self.alive if session.device == PROCESSOR), "one still imports"
        for session in busy:
            if session.has_host_alone:
                assert busy == [session], "a case has the host alone"
        if any(session.device == PROCESSOR for session in self.alive):
            assert self.are_closed
            assert all(session.device == PROCESSOR for session in self.alive), "a session of a GPU is left"


class PretendedJudge:
    """A judge outside that takes some rounds, and contradicts a session as the world says."""

    world = None

    def __init__(self, place, log):  # noqa: ARG002
        self.is_asked = self.is_suspended = self.has_ended = False
        self.questions, self.expected = [], []
        self.world.judge = self

    @property
    def waits_for(self):
        return [self] if self.is_asked and not self.is_suspended else []

    def expect(self, case, seed, drawings):
        assert drawings
        self.expected.append((case, seed))

    def answer(self, question):
        assert (question.case, question.seed) in self.expected
        self.is_asked = True
        for _ in range(self.world.chance.randint(0, 3)):
            yield None
        while self.is_suspended:
            yield None
        self.is_asked = False
        self.questions.append(question)
        contradicts = self.world.ends.get(question.case.n) == "is contradicted"
        return Answer("why" if contradicts else None)

    def suspend(self):
        self.is_suspended = True

    def resume(self):
        self.is_suspended = False

    def close(self):
        self.has_ended = True


class Pretended:
    """A session that takes some rounds for each stage, and ends as the world says."""

    world = None

    def __init__(self, place, device, folders, log, limits, *, several=False, threads=None, toolkits=()):  # noqa: ARG002
        self.device = device
        self.toolkits = toolkits
        self.sees = [gpu(number) for number in range(3)] if several else [device]
        self.several = several
        self.is_ready = self.is_lost = self.is_suspended = self.has_ended = False
        self.dies_early = self.world.chance.random() < self.world.early
        self.is_open = self.started = self.measures = self.waits_to_go_on = False
        self.job = None
        self.stood_by = False
        self.left = []
        self.anchors = []
        self.due = self.later()
        self.world.sessions.append(self)

    def later(self):
        return self.world.rounds + self.world.chance.randint(0, 4)

    @property
    def waits_for(self):
        return [self]

    @property
    def is_starting(self):
        return not self.is_ready and not self.is_lost

    @property
    def is_awaited(self):
        return not self.is_lost and (self.job is not None or not self.is_ready)

    @property
    def is_alive(self):
        return not (self.has_ended or self.dies_early)

    @property
    def has_host_alone(self):
        return self.job.case.n in self.world.needs_host or self.job.case.gpus > 1 or self.device == PROCESSOR

    def give(self, job):
        assert self.job is None
        assert not self.has_ended
        assert not self.is_suspended
        assert self.is_alive or not self.stood_by
        self.job, self.started = job, True
        self.left = list(STAGES if job.settings else STAGES[:3])

    def go_on(self):
        assert self.waits_to_go_on
        self.waits_to_go_on = False
        self.measures = self.stage in MEASURED
        self.world.check()

    def look(self):
        if self.is_suspended or self.waits_to_go_on or self.world.rounds < self.due:
            return None
        self.due = self.later()
        if not self.is_ready and self.world.imports_without_end:
            return None if self.job is None else self.timed_out()
        if not self.is_ready:
            self.is_ready = True
            return None
        if self.job is None:
            return None
        if not self.left:
            return self.outcome()
        self.stage = stage = self.left.pop(0)
        self.is_open |= stage == LOADING
        if stage == VERIFYING and (ends_with := self.ends_with) in ("dies", "hangs"):
            self.is_lost, self.job = ends_with == "dies", None
            return Outcome("failed", ends_with, broken=True)
        self.measures &= stage in MEASURED
        self.waits_to_go_on = stage in ANSWERED
        self.world.check()
        return stage

    def timed_out(self):
        self.is_lost, self.job = True, None
        return Outcome("failed", "no result in time", broken=True)

    @property
    def ends_with(self):
        return self.world.ends.get(self.job.case.n, "ok")

    def outcome(self):
        ended, job, self.job = self.ends_with, self.job, None
        ended = "ok" if ended == "is contradicted" else ended
        found = Results()
        if job.settings:
            seconds = job.settings.budget_seconds / 5
            samples = Measurement(
                samples_seconds=[seconds] * 5, median_seconds=seconds, batch=1, stop_reason="interval"
            )
            found = Results(measurement=samples)
        broken = ended == "failed" and self.device != PROCESSOR
        return Outcome(ended, None if ended == "ok" else "why", found, broken)

    def suspend(self):
        self.is_suspended = True

    def resume(self):
        self.is_suspended, self.stood_by = False, True

    def end(self):
        assert not self.has_ended
        self.has_ended = True
        self.is_open = self.measures = False
        self.world.check()


def events_of(world, tasks, *, processes=None, verify_only=False, queue=None):
    """Have the engine work through tasks in a world; return what it says."""
    measure = Measure(budget_seconds=1.0, processes=processes)
    queue = queue or Queue(tasks, lambda task, device: task.fingerprint)  # noqa: ARG005
    setup = Setup((), None, measure, None if verify_only else measure)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Pretended, "world", world)
        patch.setattr(engine_module, "Session", Pretended)
        patch.setattr(PretendedJudge, "world", world)
        patch.setattr(engine_module, "OutsideJudge", PretendedJudge)
        patch.setattr(engine_module, "wait", world.sleep)
        by_rounds = lambda: float(world.rounds)  # noqa: E731
        clocks = SimpleNamespace(sleep=world.sleep, time=by_rounds, monotonic=by_rounds)
        patch.setattr(engine_module, "time", clocks)
        made = Engine(setup, queue, lambda task: task.case.n in world.needs_host, first_number=1, builds=world)
        for event in made.events():
            world.check()
            if isinstance(event, Done):
                queue.add_record(SimpleNamespace(status=event.outcome.status), event.task)
            yield event


@st.composite
def runs(draw):
    """Draw devices, tasks of theirs with anchors, how each case ends, and which need the host."""
    cards = [gpu(number) for number in range(draw(st.integers(0, 3)))]
    devices = [*cards, *([PROCESSOR] if not cards or draw(st.booleans()) else [])]
    tasks, numbers = [], itertools.count()
    for device in devices:
        anchor = next(numbers)
        times = itertools.count(1)
        for is_anchor in draw(st.lists(st.booleans(), min_size=1, max_size=6)):
            gpus = draw(st.sampled_from([1, 1, 1, 2])) if device != PROCESSOR and len(cards) > 1 else 1
            number = anchor if is_anchor else next(numbers)
            tasks.append(task_of(number, device, gpus=1 if is_anchor else gpus, anchor=next(times) if is_anchor else 0))
    sizes = sorted({task.case.n for task in tasks})
    ends = {n: draw(st.sampled_from(ENDS)) for n in sizes if draw(st.integers(0, 3)) == 0}
    needs_host = [n for n in sizes if draw(st.integers(0, 3)) == 0]
    return World(random.Random(draw(st.integers(0, 1 << 32))), ends, needs_host), tasks, draw(st.integers(1, 3))


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(runs())
def test_on_random_schedules_what_always_holds_does(drawn):
    world, tasks, processes = drawn
    queue = Queue(tasks, lambda task, device: task.fingerprint)  # noqa: ARG005
    events = list(events_of(world, tasks, processes=processes, queue=queue))
    done = [event for event in events if isinstance(event, Done)]
    began = [event.task for event in events if isinstance(event, Began)]
    # Every task gets one outcome, but for the repetitions of anchors that were given up.
    assert [event.task for event in sorted(done, key=lambda event: began.index(event.task))] == began
    assert len(done) + queue.dropped == len(tasks)
    for event in done:
        ended = world.ends.get(event.task.case.n, "ok")
        expected = {"ok": "ok", "invalid": "invalid", "is contradicted": "invalid"}.get(ended, "failed")
        assert event.outcome.status == expected
        assert (event.outcome.reason or "").startswith(DISAGREE) == (ended == "is contradicted")
    # What is right has been judged outside, by launches before and after the samples.
    asked = [question.case.n for question in world.judge.questions]
    assert all(event.task.case.n in asked for event in done if event.outcome.status == "ok")
    assert all(question.drawings in ((0, 1, 0, 2), (0, 0)) for question in world.judge.questions)
    assert world.judge.has_ended
    # A case that dies costs its own alone, and nothing is left.
    assert not world.alive
    check_anchors(done)


def check_anchors(done):
    """Check that processes which measured a repetition of an anchor measured none before."""
    measured = set()
    for event in done:
        processes = set(event.outcome.results.measurement.processes)
        if event.task.anchor and processes:
            assert not measured & {(event.task.case.n, number) for number in processes}
            measured |= {(event.task.case.n, number) for number in processes}


@settings(max_examples=50, deadline=None)
@given(runs(), st.integers(0, 40))
def test_a_run_that_is_stopped_at_any_moment_leaves_nothing(drawn, moment):
    world, tasks, processes = drawn
    events = events_of(world, tasks, processes=processes)
    for _ in itertools.islice(events, moment):
        pass
    events.close()
    assert not world.alive


def test_a_device_does_its_tasks_in_order_by_one_session_and_says_each_stage():
    world, tasks = World(random.Random(1), unbuilt=0), [task_of(number, gpu(0)) for number in range(4)]
    events = list(events_of(world, tasks))
    assert [event.task for event in events if isinstance(event, Done)] == tasks
    opened = [session for session in world.sessions if session.started]
    assert len(opened) == 1
    stages = [event.stage for event in events if isinstance(event, Does) and event.task == tasks[2]]
    assert [stage for stage in stages if stage not in ("building", "starting")] == list(STAGES)


def test_what_is_built_comes_before_what_is_not_up_to_the_next_repetition_of_an_anchor():
    card, anchors = gpu(0), {0: (1, 1), 1: (7, 1), 4: (1, 2), 7: (7, 2)}  # place: the case's n, how often measured
    tasks = [
        task_of(number, card, anchor=anchor)
        for number, anchor in (anchors.get(place, (20 + place, 0)) for place in range(8))
    ]
    several = task_of(9, card, gpus=2)
    queue = Queue([*tasks, several], lambda task, device: task.fingerprint)  # noqa: ARG005
    built = {tasks[3].case.n, tasks[6].case.n, several.case.n}
    order = []
    while taken := queue.next(card, lambda task: task.case.n in built):
        order.append(taken[0])
    assert order == [tasks[place] for place in (0, 3, 1, 2, 4, 6, 5, 7)] + [several]


def test_a_session_stands_by_and_takes_over_where_another_was_lost():
    world = World(random.Random(2), ends={65: "dies"})
    done = [e for e in events_of(world, [task_of(n, gpu(0)) for n in range(4)]) if isinstance(e, Done)]
    assert [event.outcome.status for event in done] == ["ok", "failed", "ok", "ok"]
    opened = [session for session in world.sessions if session.started]
    assert len(opened) == 2
    numbers = [event.outcome.results.measurement.processes for event in done if event.outcome.status == "ok"]
    assert [set(processes) for processes in numbers] == [{1}, {2}, {2}]


@pytest.mark.parametrize(("fresh", "most"), [(0, 1), (1, 1), (2, 1), (3, 2), (5, 3)])
def test_as_many_sessions_stand_by_as_are_soon_needed(fresh, most):
    world = World(random.Random(3))
    tasks = [task_of(n, gpu(0)) for n in range(2)] + [task_of(9, gpu(0), anchor=n + 1) for n in range(fresh)]
    standing = [sum(not session.started for session in world.alive) for _ in events_of(world, [*tasks, *tasks[:1]])]
    assert max(standing) == most


def test_a_session_that_stands_by_imports_what_it_will_measure():
    world = World(random.Random(4))
    tasks = [task_of(9, gpu(0), anchor=1), task_of(8, gpu(0), anchor=1), task_of(1, gpu(0))]
    tasks += [task_of(9, gpu(0), anchor=2), task_of(2, gpu(0), toolkit="numba"), task_of(8, gpu(0), anchor=2)]
    tasks += [task_of(3, gpu(0), toolkit="triton"), task_of(9, gpu(0), anchor=3)]
    list(events_of(world, tasks))
    # The anchor 8 needs no session of its own, because that of the last anchor 9 has not measured it.
    imported = [session.toolkits for session in world.sessions if session.started]
    assert imported == [("cupy",), ("cupy", "numba", "triton"), ("cupy",)]


def test_sessions_of_the_processor_are_started_together_for_several_repetitions_of_an_anchor():
    world = World(random.Random(5))
    tasks = [task_of(9, PROCESSOR, anchor=number) for number in range(1, 4)]
    counts = [len(world.sessions) for _ in events_of(world, tasks, processes=2)]
    assert set(counts) == {0, 6}


def test_a_session_of_the_processor_that_imports_without_end_costs_its_case_and_not_the_run():
    world = World(random.Random(5))
    world.imports_without_end = True
    events = events_of(world, [task_of(9, PROCESSOR), task_of(8, PROCESSOR)], processes=1)
    done = [event for event in events if isinstance(event, Done)]
    assert [event.outcome.reason for event in done] == ["no result in time"] * 2
    assert not world.alive


def test_a_session_that_dies_while_it_stands_by_costs_no_case():
    world = World(random.Random(9), unbuilt=0, ends={65: "dies"})
    world.early = 1.0
    events = events_of(world, [task_of(number, gpu(0)) for number in range(3)])
    done = [event for event in events if isinstance(event, Done)]
    assert [event.outcome.status for event in done] == ["ok", "failed", "ok"]
    assert not world.alive
    assert len(world.sessions) > len([session for session in world.sessions if session.started])


def test_cases_of_several_gpus_come_last_and_see_all_of_them():
    world = World(random.Random(3))
    tasks = [task_of(0, gpu(0), gpus=2), task_of(1, gpu(0)), task_of(2, gpu(1))]
    assert tasks[0].case.gpus == 2
    done = [event.task for event in events_of(world, tasks) if isinstance(event, Done)]
    assert done.index(tasks[0]) > done.index(tasks[1])
    assert [session.several for session in world.sessions if session.started].count(True) == 1


@pytest.mark.parametrize(("processes", "expected"), [(1, [[1], [1]]), (3, [[1, 2, 3], [1, 2, 3]])])
def test_a_processor_measures_each_case_by_as_many_sessions_as_it_has(processes, expected):
    world = World(random.Random(4))
    done = [e for e in events_of(world, [task_of(n, PROCESSOR) for n in range(2)], processes=processes)
            if isinstance(e, Done)]  # fmt: skip
    numbers = [list(dict.fromkeys(event.outcome.results.measurement.processes)) for event in done]
    assert numbers == expected


def test_several_processes_on_a_gpu_have_it_one_after_another():
    world = World(random.Random(5))
    (done,) = [e for e in events_of(world, [task_of(0, gpu(0))], processes=3) if isinstance(e, Done)]
    assert list(dict.fromkeys(done.outcome.results.measurement.processes)) == [1, 2, 3]
    assert sum(session.started for session in world.sessions) == 3


def test_what_is_only_verified_is_done_by_one_process():
    world = World(random.Random(6))
    done = [e for e in events_of(world, [task_of(n, PROCESSOR) for n in range(2)], processes=3, verify_only=True)
            if isinstance(e, Done)]  # fmt: skip
    assert [event.outcome.status for event in done] == ["ok", "ok"]
    assert len(world.sessions) == 1


def test_where_the_first_processes_spend_the_budget_no_other_follows():
    class Slow(Pretended):
        def outcome(self):
            outcome = super().outcome()
            outcome.results.measurement = outcome.results.measurement.model_copy(
                update={"samples_seconds": [0.6] * 3, "median_seconds": 0.6}
            )
            return outcome

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("test_engine.Pretended", Slow)
        world = World(random.Random(7))
        (done,) = [e for e in events_of(world, [task_of(0, PROCESSOR)], processes=4) if isinstance(e, Done)]
    assert done.outcome.results.measurement.processes == [1] * 3


def test_a_device_that_has_nothing_left_helps_one_of_its_kind():
    world = World(random.Random(8))
    tasks = [task_of(number, gpu(0)) for number in range(8)] + [task_of(8, gpu(1))]
    done = [event.task for event in events_of(world, tasks) if isinstance(event, Done)]
    assert Counter(task.device.selector for task in done)["cuda:1"] > 1
    assert sorted(task.case.n for task in done) == [64 + number for number in range(9)]
