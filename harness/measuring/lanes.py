"""The devices of a run at work: on a GPU several lanes of processes, which prepare while one measures.

A lane is a thread of the process that runs the sweep; what computes are its worker processes. Its case is prepared
(loaded, compiled, its bodies copied) at any time. It waits for its turn on the device to be verified, beside others,
and for its turn to be measured.
"""

from __future__ import annotations

import datetime
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from gravbench.config.load import Sweep
from gravbench.config.settings import Measure
from gravbench.errors import InputError
from gravbench.measuring.crew import Crew, Process
from gravbench.measuring.forking import STOPPING
from gravbench.measuring.outcome import Outcome
from gravbench.measuring.plan import Task
from gravbench.measuring.process import Worker
from gravbench.measuring.queues import MOST_LOSSES, Queues
from gravbench.measuring.tally import STARTING
from gravbench.measuring.turns import Ended, Turn, Turns
from gravbench.measuring.worker import Job
from gravbench.model.device import Device
from gravbench.toolkits.devices import cores

MOST_LANES = 6
"""Of one GPU: one measures, and to start a process and compile a case takes about as long as to measure five."""
CORES_PER_LANE = 2
"""Of the host, so that what prepares a case leaves the one that is measured its own."""


class LostError(Exception):
    """Who works for a device is gone, with its processes; the message says how that showed."""


class StrandedError(InputError):
    """Cases are left, and nobody is that could measure them."""


class Asked(Process, Protocol):
    """A process that works on jobs, here or on another host."""

    def ask(self, job: Job, begins: Callable[[str], None], turn: Callable[[Turn], bool]) -> Outcome:
        """Have one job done as ``Worker.ask`` does; raises ``LostError`` where the whole device is lost."""

    def end(self) -> None:
        """Have it end, from another thread than the one that asks and stops it."""


class Site(Protocol):
    """Where the processes of devices are."""

    @property
    def losable(self) -> bool:
        """Whether a device can be lost while the run goes on."""

    def start(
        self, device: Device, folders: tuple[Path, ...], log: Path, measure: Measure, *, several: bool = False
    ) -> Asked:
        """Start a process for a device; where ``several`` are asked for, one that sees the others of its kind too."""

    def host(self, device: Device) -> str:
        """Name the host whose cores a device's processes use."""


class Here:
    """This host."""

    losable = False

    def start(
        self, device: Device, folders: tuple[Path, ...], log: Path, measure: Measure, *, several: bool = False
    ) -> Asked:
        """Start a process."""
        return Worker(device, folders, log, measure, several=several)

    def host(self, device: Device) -> str:  # noqa: ARG002
        """Name none: there is no other."""
        return ""


@dataclass(frozen=True, slots=True)
class Began:
    """A lane has taken up a task."""

    lane: int
    task: Task


@dataclass(frozen=True, slots=True)
class Does:
    """A lane's worker has begun a phase."""

    lane: int
    task: Task
    phase: str


@dataclass(frozen=True, slots=True)
class Done:
    """What became of a task, whose turn began at ``started``; ``dropped`` others were given up with it."""

    lane: int
    task: Task
    outcome: Outcome
    started: str
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class Left:
    """A lane's device is lost, and what was left for it is for others; ``dropped`` tasks were given up."""

    lane: int
    task: Task
    dropped: int


@dataclass(frozen=True, slots=True)
class Over:
    """A lane has nothing more to do; ``error`` is what ended it otherwise."""

    lane: int
    error: BaseException | None = None


Event = Began | Does | Done | Left | Over


def moment() -> str:
    """Return the time of day, as records have it: no device begins a case twice in a millisecond."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")


def lanes_of(device: Device, processes: int, gpus: int, tasks: int) -> int:
    """Return how many lanes a device has for so many tasks.

    Each case is measured by so many processes, beside so many GPUs.
    """
    if not device.is_gpu or processes > 1:
        return 1
    return max(1, min(MOST_LANES, tasks, cores() // (CORES_PER_LANE * gpus)))


class Lane:
    """One thread, and the processes by which it works on the tasks of one device."""

    def __init__(
        self,
        number: int,
        place: int,
        device: Device,
        queues: Queues,
        turns: Turns,
        sweep: Sweep,
        log: Path,
        numbers: Iterator[int],
        tell: Callable[[Event], None],
        start_worker: Callable[..., Asked],
        *,
        verify_only: bool,
    ) -> None:
        """Begin when ``start`` is called; ``start_worker`` is a site's, ``numbers`` tells a run's processes apart.

        ``number`` tells it from all others of the run; ``place`` counts those of its device.
        """
        self._number = number
        self._place = place
        self._device = device
        self._queues = queues
        self._turns = turns
        self._settings = None if verify_only else sweep.measure
        self._verify = sweep.measure.verify
        self._tell = tell
        self._workers: list[Asked] = []
        self._ending = False
        self._several = False  # GPUs that its processes see
        self._start_worker = partial(start_worker, device, sweep.variant_folders, log, sweep.measure)
        self._numbers = numbers
        self._processes = sweep.measure.processes_on(gpu=device.is_gpu)
        self._crew = self._new_crew()
        self._leaving: list[Crew[Asked]] = []  # who are replaced, until the device may be left
        self._thread = threading.Thread(target=self._work, name=f"lane {number}", daemon=True)

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def end(self) -> None:
        """End its processes, whatever they do, and return when all of it is over; ``Turns`` have been ended before."""
        self._ending = True
        for worker in tuple(self._workers):
            worker.end()
        self._thread.join()

    def _new_crew(self) -> Crew[Asked]:
        return Crew(self._processes, self._started, self._numbers)

    def _dismiss(self) -> None:
        """End those who have been replaced."""
        while self._leaving:
            self._leaving.pop().dismiss()

    def _dismiss_all(self) -> None:
        self._dismiss()
        self._crew.dismiss()

    def _turn_to_leave(self) -> Turn:
        """Return what processes wait for before they end: those that see several GPUs have opened all of them."""
        return Turn.ALONE if self._several else Turn.OPEN

    def _started(self) -> Asked:
        worker = self._start_worker(several=self._several)
        self._workers.append(worker)
        if self._ending:  # before it was listed
            worker.end()
        return worker

    def _work(self) -> None:
        # Signals are for the thread that runs the sweep; what is started here begins with them held back.
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
        error: BaseException | None = None
        try:
            with suppress(Ended):
                self._turns.join(self._device.selector, self._place)
                while not self._ending and (found := self._queues.next(self._device, self._place)):
                    try:
                        self._tell(self._done(*found))
                    except LostError as lost:
                        self._tell(self._left(*found, lost))
                        break
                self._turns.leave(self._device.selector)
                with self._turns.working() as take:
                    if self._device.is_gpu:
                        take(self._device.selector, self._turn_to_leave())
                    self._dismiss_all()
        except BaseException as one:
            error = one
        finally:
            self._dismiss_all()
            self._tell(Over(self._number, error))

    def _left(self, task: Task, behind: float | None, lost: LostError) -> Event:
        """Leave a task, and what else there is to do, to others; one that was left too often has failed."""
        again, dropped = self._queues.put_back(task, behind)
        if again:
            return Left(self._number, task, dropped)
        reason = f"its worker was lost {MOST_LOSSES + 1} times; the last time: {lost}"
        now = moment()
        return Done(self._number, task, Outcome("failed", reason), now, dropped)

    def _done(self, task: Task, behind: float | None) -> Event:
        several = task.case.gpus > 1
        starts = task.fresh or (self._settings and not self._crew.is_complete)
        if starts and not self._device.is_gpu:
            self._turns.end_row(self._device.selector)
        with self._turns.working("" if self._device.is_gpu else self._device.selector) as take:
            if task.fresh or several != self._several:
                self._leaving.append(self._crew)
                if self._several:
                    take(self._device.selector, self._turn_to_leave())
                if self._several or not self._device.is_gpu:
                    self._dismiss()
                    take(self._device.selector, Turn.NOTHING)
                self._crew = self._new_crew()
                self._workers.clear()
            self._several = several
            return self._measured(task, behind, take)

    def _measured(self, task: Task, behind: float | None, take: Callable[[str, Turn], bool]) -> Event:
        started: list[str] = []
        last = Turn.NOTHING
        self._tell(Began(self._number, task))

        def turn(asked: Turn) -> bool:
            nonlocal last
            warm = take(self._device.selector, asked)
            last = asked
            if asked != Turn.NOTHING:
                self._dismiss()  # nobody else is measured now
            if asked in (Turn.VERIFY, Turn.MEASURE, Turn.ALONE):
                started.append(moment())
            return warm

        def phase(name: str) -> None:
            self._tell(Does(self._number, task, name))

        def asked(worker: Asked, part: Job) -> Outcome:
            # Elsewhere one that is new starts while it is asked.
            phase(STARTING)
            outcome = worker.ask(part, phase, turn)
            if outcome.broken and last == Turn.NOTHING and self._device.is_gpu:
                turn(self._turn_to_leave())  # it ends
            return outcome

        now = moment()
        phase(STARTING)
        job = Job(task.case, self._settings, self._verify, behind, repeated=self._queues.was_right(task))
        outcome = self._crew.work(job, asked)
        if self._ending:  # so that what was broken off by us is no failure of the case
            raise Ended
        if outcome.status == "ok":
            self._queues.found_right(task)
        # It would show no drift.
        dropped = self._queues.give_up(task) if task.anchor and outcome.status != "ok" else 0
        return Done(self._number, task, outcome, started[0] if started else now, dropped)
