"""The engine: it has sessions work through the tasks of a run, and says what happens, in the order in which it does.

What each device does is a sequence, written as one: take the next task, have its kernels built, have a session measure
it, say what became of it. ``Engine.events`` goes round the sequences of all devices in one thread, and sleeps when all
of them wait.

What always holds:

1. A device belongs to one session. Nothing else opens it, launches on it, or leaves it: a session has gone, with
   everything that it started, before another opens the device.
2. While a session measures (its stages ``stages.MEASURED``), nothing else compiles or imports: builds, the judge
   outside and sessions that have no device yet are suspended, and resumed when no session measures.
3. A case that uses the host's cores, or several GPUs, has the host alone: the sessions of other devices are idle. The
   cases of the processor come last, when the sessions of all GPUs have ended and nothing is built any more.
4. Every task that is begun gets one outcome, and the outcome is of its own job: messages carry its number.
5. A session that dies, hangs or takes too much costs its own case alone; another session goes on with the next.
6. The repetition of an anchor is measured by a session that has not measured it.
7. What a session found right has been judged by the judge outside, where no variant runs, before it is said.
8. However the run ends, nothing that it started is left, and what has been said has been recorded: the caller records
   one event before it asks for the next.
"""

from __future__ import annotations

import datetime
import itertools
import math
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing.connection import Connection, wait
from pathlib import Path

from gravbench.config.settings import Measure
from gravbench.measuring.builds import BuildPool
from gravbench.measuring.outcome import Outcome
from gravbench.measuring.outside_judge import OutsideJudge
from gravbench.measuring.processes import Workplace, workplace
from gravbench.measuring.protocol import joined, part_of
from gravbench.measuring.queues import Queue
from gravbench.measuring.stages import COMPILING, MEASURED, Job
from gravbench.measuring.supervisor import STARTING, Limits, Session
from gravbench.measuring.tasks import Task
from gravbench.model.blocks import cores
from gravbench.model.device import Device
from gravbench.model.record import Measurement
from gravbench.model.variant import discover
from gravbench.verifying.outside import Question

SLEEP_SECONDS = 0.2
"""For which the engine sleeps at most while sessions work: their limits are looked at after that."""
NAP_SECONDS = 0.02
"""The same while a device waits for something else than a session."""
MOST_STANDBYS = 3
"""Repetitions of an anchor for which sessions stand by: some come sooner than another session has imported all."""
DISAGREE = "the judge in its session found it right, and the judge outside, where no variant runs, does not"
BUILDING, WAITING = "building", "waiting"
"""What a device does beside the stages of a case: its kernels are compiled, or it waits until others are idle."""


def moment() -> str:
    """Return the time of day, as records have it: no two cases of a device begin in the same."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True, slots=True)
class Began:
    """A device has taken up a task."""

    task: Task


@dataclass(frozen=True, slots=True)
class Does:
    """A stage of a task begins."""

    task: Task
    stage: str


@dataclass(frozen=True, slots=True)
class Done:
    """What became of a task that was begun at ``started``."""

    task: Task
    outcome: Outcome
    started: str


Event = Began | Does | Done
Steps = Generator[Event | None, None, None]
"""What a device does, step by step; None while it waits."""
Stages = Generator[Does | None, None, Outcome]
"""What a session does of a task, and what became of it; None while it says nothing new."""


@dataclass(frozen=True, slots=True)
class Setup:
    """How cases are measured, by all sessions; ``settings`` is None where they are verified alone."""

    folders: tuple[Path, ...]
    log: Path
    measure: Measure
    settings: Measure | None

    def processes(self, device: Device) -> int:
        """Return how many processes measure each case, one after another; one alone where nothing is measured."""
        return self.measure.processes_on(gpu=device.is_gpu) if self.settings else 1


@dataclass(slots=True)
class Quiet:
    """Who measures at this moment; while somebody does, the others that compute are suspended."""

    builds: BuildPool
    judge: OutsideJudge
    standbys: set[Session] = field(default_factory=set)
    measuring: set[Device] = field(default_factory=set)

    def begin(self, device: Device) -> None:
        """Suspend what else computes: a device measures."""
        if not self.measuring:
            self.builds.suspend()
            self.judge.suspend()
            for standby in self.standbys:
                standby.suspend()
        self.measuring.add(device)

    def end(self, device: Device) -> None:
        """Let the others go on where no device measures any more."""
        if device in self.measuring:
            self.measuring.remove(device)
            if not self.measuring:
                self.builds.resume()
                self.judge.resume()
                for standby in self.standbys:
                    standby.resume()


class DeviceSessions:
    """The sessions of one device, and others that stand by without having opened it.

    A GPU has one at a time. The processor has as many as measure each case, one after another; those that stand by for
    it are started together with them, because nothing is imported while it measures.
    """

    def __init__(
        self,
        device: Device,
        setup: Setup,
        place: Workplace,
        quiet: Quiet,
        numbers: Iterator[int],
        threads: int | None = None,
    ) -> None:
        """Start nothing yet; ``numbers`` tells the run's processes apart."""
        self.device = device
        self._setup = setup
        self._place = place
        self._quiet = quiet
        self._numbers = numbers
        self._jobs = itertools.count(1)
        self._threads = threads
        self._several = False
        self._sessions: dict[Session, int] = {}  # with the numbers of their processes
        self._standbys: list[Session] = []
        self._measured: set[object] = set()  # the cases that its sessions have measured
        self._measured_at = -math.inf

    @property
    def waits_for(self) -> list[Connection | int]:
        """What becomes ready when one of them has something to say."""
        sessions = [ready for session in self._sessions if session.is_awaited for ready in session.waits_for]
        return [*sessions, *self._quiet.judge.waits_for]

    def measured(
        self, task: Task, behind: float | None, left: Callable[[], Sequence[Task]], *, repeated: bool
    ) -> Stages:
        """Have a case measured by every process in turn, until the budget is spent, and join what they found.

        ``behind`` and ``repeated`` are as in ``Job``, ``left`` tells what the device will do after it. Yields each
        stage that begins, and None while there is nothing to say. What goes wrong in one process decides.
        """
        size, settings = self._setup.processes(self.device), self._setup.settings
        yield Does(task, STARTING)
        yield from self._made_ready(task, size, left())
        measurements: dict[int, Measurement] = {}
        first: Outcome | None = None
        spent = 0.0
        for place in range(size):
            if place and self.device.is_gpu:  # which has one session at a time
                self._end(next(iter(self._sessions)))
            session = self._session(place, task)
            number = self._sessions[session]
            self._measured.add(task.case.identity)
            job = Job(
                next(self._jobs),
                task.case,
                settings and part_of(settings, size, again=place > 0),
                self._setup.measure.verify,
                behind,
                again=place > 0,
                repeated=repeated,
                measured_at=self._measured_at,
            )
            outcome = yield from self._ask(session, task, job, left)
            measurement = outcome.results.measurement
            if settings is None or not measurement.samples_seconds:
                return outcome
            measurements[number] = measurement
            if outcome.status != "ok":  # its own samples alone, whatever others found
                first, measurements = outcome, {number: measurement}
                break
            first = first or outcome
            spent += sum(measurement.samples_seconds) * (measurement.batch or 1)
            if spent >= settings.budget_seconds or measurement.outraced:
                break
        assert first is not None
        assert settings is not None
        return replace(first, results=replace(first.results, measurement=joined(measurements, settings)))

    def stand_by(self, left: Sequence[Task]) -> None:
        """Have sessions of a GPU import what the tasks that are left need, which takes seconds; they do not open it."""
        if left:  # one is there for a fault, where no other begins
            self._add_standbys(_stretches(left, self._measured)[1:] or [list(left)])

    def end(self) -> None:
        """End all sessions."""
        self._end_all()
        self._end_standbys()
        self._quiet.end(self.device)

    def _made_ready(self, task: Task, size: int, left: Sequence[Task]) -> Generator[None, None, None]:
        """Replace sessions that may not do a task, and start those that are missing; ``left`` comes after it."""
        several = task.case.gpus > 1
        if several != self._several or (task.fresh and task.case.identity in self._measured):
            self._end_all()
            if several != self._several:
                self._end_standbys()
        self._several = several
        if not self.device.is_gpu:
            if len(self._sessions) < size and not self._standbys:
                self._add_standbys(_stretches([task, *left], self._measured), size)
            while len(self._sessions) < size:
                self._begin_session(task)
            # Nothing is measured while a session still imports. The next job of one that never ends importing fails.
            until = time.monotonic() + self._setup.measure.timeout_seconds
            while time.monotonic() < until and (
                starting := [session for session in (*self._sessions, *self._standbys) if session.is_starting]
            ):
                for session in starting:
                    session.look()
                yield None

    def _session(self, place: int, task: Task) -> Session:
        if self.device.is_gpu and not self._sessions:
            self._begin_session(task)
        return list(self._sessions)[0 if self.device.is_gpu else place]

    def _begin_session(self, task: Task) -> None:
        while self._standbys and not self._standbys[0].is_alive:  # which is no fault of the case that comes next
            self._take_standby().end()
        session = self._take_standby() if self._standbys else self._start((task.case.toolkit,))
        self._sessions[session] = next(self._numbers)

    def _add_standbys(self, stretches: Sequence[Sequence[Task]], size: int = 1) -> None:
        """Start those that are missing, ``size`` for each stretch of tasks: they import what these need."""
        for stretch in stretches[len(self._standbys) // size : MOST_STANDBYS]:
            for _ in range(size):
                standby = self._start(tuple(dict.fromkeys(task.case.toolkit for task in stretch)))
                self._standbys.append(standby)
                self._quiet.standbys.add(standby)
                if self._quiet.measuring:
                    standby.suspend()

    def _start(self, toolkits: tuple[str, ...]) -> Session:
        return Session(
            self._place,
            self.device,
            self._setup.folders,
            self._setup.log,
            Limits.of(self._setup.measure),
            several=self._several,
            threads=self._threads,
            toolkits=toolkits,
        )

    def _take_standby(self) -> Session:
        session = self._standbys.pop(0)
        self._quiet.standbys.discard(session)
        session.resume()
        return session

    def _end_standbys(self) -> None:
        while self._standbys:
            self._take_standby().end()

    def _end_all(self) -> None:
        while self._sessions:
            self._end(next(reversed(self._sessions)))

    def _end(self, session: Session) -> None:
        del self._sessions[session]
        session.end()
        if not self._sessions:
            self._measured.clear()

    def _ask(self, session: Session, task: Task, job: Job, left: Callable[[], Sequence[Task]]) -> Stages:
        """Have a session do a job; one that is of no further use afterwards is ended."""
        session.give(job)
        self._quiet.judge.expect(job.case, job.seed, job.drawings(outraced=False))
        yield Does(task, STARTING)
        if self.device.is_gpu:
            self.stand_by(left())
        while not isinstance(content := session.look(), Outcome):
            if content in MEASURED:
                self._quiet.begin(self.device)
                session.go_on()
            elif content:
                self._quiet.end(self.device)
            yield Does(task, content) if content else None
            if content == COMPILING:
                yield from self._wait_for_builds(task)
                session.go_on()
        self._quiet.end(self.device)
        if content.results.measurement.samples_seconds:
            self._measured_at = time.time()
        content = yield from self._judged(job, content)
        if content.broken:
            self._end(session)
        return content

    def _judged(self, job: Job, outcome: Outcome) -> Stages:
        """Have the judge outside judge what a session found right; one that it contradicts is of no further use."""
        launches, outcome = outcome.launches, replace(outcome, launches=())
        if outcome.status != "ok":
            return outcome
        case = job.case
        tolerance = discover(self._setup.folders)[case.variant].accepted(case.dtype, case.axes)
        drawings = job.drawings(outraced=outcome.results.measurement.outraced)
        answer = yield from self._quiet.judge.answer(Question(case, tolerance, job.seed, drawings, launches))
        if answer.error:
            return replace(outcome, status="failed", reason=f"the judge outside its session failed: {answer.error}")
        if answer.objection:
            return replace(outcome, status="invalid", reason=f"{DISAGREE}: {answer.objection}", broken=True)
        return outcome

    def _wait_for_builds(self, task: Task) -> Iterator[Does | None]:
        if not self._quiet.builds.is_done(task):
            yield Does(task, BUILDING)
        while not self._quiet.builds.is_done(task):
            yield None


def _stretches(tasks: Sequence[Task], measured: set[object]) -> list[list[Task]]:
    """Divide tasks where another session begins; what comes before, the one that has ``measured`` some cases does."""
    stretches: list[list[Task]] = [[]]
    measured = set(measured)
    for task in tasks:
        if task.fresh and task.case.identity in measured:
            stretches.append([])
            measured.clear()
        measured.add(task.case.identity)
        stretches[-1].append(task)
    return stretches


class Engine:
    """Works through what is left to do on the devices of this host."""

    def __init__(
        self, setup: Setup, queue: Queue, needs_host: Callable[[Task], bool], *, first_number: int, builds: BuildPool
    ) -> None:
        """``needs_host`` tells which tasks need the host's cores. Processes are numbered from ``first_number`` on."""
        self._setup = setup
        self._queue = queue
        self._needs_host = needs_host
        self._builds = builds
        self._numbers = itertools.count(first_number)
        self._busy: dict[Device, Task] = {}
        others = [device for device in queue.devices if not device.is_gpu]
        self._later = [task for device in others for task in queue.upcoming(device)]
        """Tasks of the processor, which are built behind those of the GPUs."""
        self._alone: Device | None = None
        """The device whose task has the host for itself, or waits for that."""

    def events(self) -> Generator[Event]:
        """Yield what happens until nothing is left to do. However that ends, nothing that was started is left."""
        gpus = [device for device in self._queue.devices if device.is_gpu]
        others = [device for device in self._queue.devices if not device.is_gpu]
        with workplace() as place, closing(OutsideJudge(place, self._setup.log)) as judge:
            quiet = Quiet(self._builds, judge)
            with closing(self._builds):
                yield from self._phase(gpus, place, quiet)
            yield from self._phase(others, place, quiet)

    def _phase(self, devices: Sequence[Device], place: Workplace, quiet: Quiet) -> Iterator[Event]:
        """Have these devices work side by side until none has anything left to do."""
        threads = max(1, cores() // len(devices)) if len(devices) > 1 else None
        with ExitStack() as stack:
            sequences: dict[DeviceSessions, Steps] = {}
            for device in devices:
                sessions = DeviceSessions(device, self._setup, place, quiet, self._numbers, threads)
                stack.callback(sessions.end)
                sequences[sessions] = self._work(sessions, place)
            while sequences:
                self._builds.step(place)
                for sessions, steps in list(sequences.items()):
                    try:
                        while (event := next(steps)) is not None:
                            yield event
                    except StopIteration:
                        del sequences[sessions]
                self._sleep(sequences)

    def _work(self, sessions: DeviceSessions, place: Workplace) -> Steps:
        """What a device does, from its first task to its last."""
        device = sessions.device
        while True:
            taken = self._queue.next(device, self._builds.is_done)
            if taken is None:
                if not self._queue.more_may_come(device):
                    sessions.end()
                    return
                yield None
                continue
            task, behind = taken
            yield Began(task)
            upcoming = (*self._queue.upcoming(device), *self._later)
            self._builds.want(task, upcoming, place)
            yield from self._free(task, device)
            started = moment()
            left = partial(self._queue.upcoming, device)
            outcome = yield from sessions.measured(task, behind, left, repeated=self._queue.was_right(task))
            del self._busy[device]
            if self._alone == device:
                self._alone = None
            yield Done(task, outcome, started)

    def _free(self, task: Task, device: Device) -> Steps:
        """Wait until a task may begin: beside others, or alone."""
        alone = task.case.gpus > 1 or self._needs_host(task)
        if self._alone or (alone and self._busy):
            yield Does(task, WAITING)
        while self._alone:
            yield None
        if alone:
            self._alone = device
            while self._busy:
                yield None
        self._busy[device] = task

    def _sleep(self, sequences: dict[DeviceSessions, Steps]) -> None:
        """Sleep until a session says something, or for a while."""
        # Sessions of several devices wait for the one judge outside.
        ready = {ready for sessions in sequences for ready in sessions.waits_for} | {*self._builds.waits_for}
        seconds = SLEEP_SECONDS if len(self._busy) == len(sequences) else NAP_SECONDS
        if ready:
            wait(list(ready), seconds)
        elif sequences:
            time.sleep(seconds)
