"""The devices of a run at work: on a GPU several lanes of processes, one of which measures while others prepare.

A lane is a thread of the process that runs the sweep; what computes are its worker processes. Its case is prepared
(loaded, compiled, its bodies copied) at any time, and waits for its turn on the device to be verified and measured.
"""

from __future__ import annotations

import datetime
import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from gravbench.config.load import Sweep
from gravbench.config.settings import Measure
from gravbench.errors import InputError
from gravbench.measuring.crew import Crew, Process
from gravbench.measuring.outcome import Outcome
from gravbench.measuring.plan import Task
from gravbench.measuring.process import Worker
from gravbench.measuring.tally import STARTING
from gravbench.measuring.turns import Ended, Turns
from gravbench.measuring.worker import Job
from gravbench.model.device import Device
from gravbench.model.record import Fingerprint

MOST_LANES = 4
"""Of one GPU: one measures, and to compile a case takes about as long as to measure three."""
CORES_PER_LANE = 4
"""Of the host, so that what prepares a case leaves the one that is measured its own."""
MOST_LOSSES = 2
"""Times that a case goes to another worker after its own was lost."""


class LostError(Exception):
    """Who works for a device is gone, with its processes; the message says how that showed."""


class StrandedError(InputError):
    """Cases are left, and nobody is that could measure them."""


class Asked(Process, Protocol):
    """A process that works on jobs, here or on another host."""

    def ask(self, job: Job, begins: Callable[[str], None], turn: Callable[[bool], None]) -> Outcome:
        """Have one job done as ``Worker.ask`` does; raises ``LostError`` where the whole device is lost."""

    def end(self) -> None:
        """Have it end, from another thread than the one that asks and stops it."""


class Site(Protocol):
    """Where the processes of devices are."""

    @property
    def losable(self) -> bool:
        """Whether a device can be lost while the run goes on."""

    def start(self, device: Device, folders: tuple[Path, ...], log: Path, measure: Measure) -> Asked:
        """Start a process for a device."""

    def host(self, device: Device) -> str:
        """Name the host whose cores a device's processes use."""


class Here:
    """This host."""

    losable = False

    def start(self, device: Device, folders: tuple[Path, ...], log: Path, measure: Measure) -> Asked:
        """Start a process."""
        return Worker(device, folders, log, measure)

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


class Queues:
    """What is left to do for each device, in order; one that has nothing left helps another of its kind."""

    def __init__(
        self, tasks: Iterable[Task], prints: Callable[[Task, Device], Fingerprint], *, losable: bool = False
    ) -> None:
        """``prints`` tells what a task's result depends on when another device works on it.

        Where devices are ``losable``, one that has nothing left waits for those of its kind that still work: it may
        have to take over what they leave.
        """
        self._changed = threading.Condition()
        self._prints = prints
        self._losable = losable
        self._ended = False
        self._busy: set[str] = set()
        self._lost: set[str] = set()
        self._losses = Counter[str]()
        self._devices: dict[str, Device] = {}
        self._left: dict[str, deque[Task]] = {}
        for task in tasks:
            if task.device:
                self._devices[task.device.selector] = task.device
                self._left.setdefault(task.device.selector, deque()).append(task)

    @property
    def devices(self) -> Sequence[Device]:
        """Those that have something to do."""
        return tuple(self._devices.values())

    def next(self, device: Device) -> Task | None:
        """Take what a device does next, None when nothing is left for it; what it took before is done."""
        with self._changed:
            self._busy.discard(device.selector)
            self._changed.notify_all()
            while not self._ended:
                if task := self._next(device):
                    self._busy.add(device.selector)
                    return task
                alike = self._alike(device) if self._losable else []
                if not any(one in self._busy or self._left[one] for one in alike):
                    return None
                self._changed.wait()
            return None

    def _next(self, device: Device) -> Task | None:
        own = self._left[device.selector]
        # The last repetition of its anchor waits until it can no longer help.
        if all(task.anchor for task in own) and (helped := self._taken_over(device)):
            return helped
        return own.popleft() if own else None

    def _alike(self, device: Device) -> list[str]:
        """Return the other devices of a kind that are not lost, by their selectors."""
        return [
            selector
            for selector, other in self._devices.items()
            if selector != device.selector and selector not in self._lost and other.kind == device.kind
        ]

    def _taken_over(self, device: Device) -> Task | None:
        longest = max((self._left[one] for one in self._alike(device)), key=len, default=deque[Task]())
        places = [place for place, task in enumerate(longest) if not task.anchor]
        if len(places) < 2:
            return None
        task = longest[places[-1]]
        del longest[places[-1]]
        return self._moved(task, device)

    def _moved(self, task: Task, device: Device) -> Task:
        return replace(task, device=device, fingerprint=self._prints(task, device))

    def put_back(self, task: Task) -> tuple[bool, int]:
        """Give a task whose device is lost, and all that is left for that device, to others of its kind.

        Of a lost device's anchors, what has not been measured at all becomes a case like others, and the repetitions
        are left out. Where there is no other device, what is left stays.

        Returns:
            Whether the task may be tried again, which it may ``MOST_LOSSES`` times; and how many repetitions were
            left out.
        """
        assert task.device is not None
        with self._changed:
            lost = task.device
            self._lost.add(lost.selector)
            self._busy.discard(lost.selector)
            self._losses[task.case.key] += 1
            again = self._losses[task.case.key] <= MOST_LOSSES
            own = self._left[lost.selector]
            left = [*([task] if again else []), *own]
            own.clear()
            kept = [replace(one, anchor=0, fresh=False) for one in left if one.anchor < 2]
            alike = self._alike(lost)
            for one in kept:
                shortest = min(alike, key=lambda selector: len(self._left[selector]), default=lost.selector)
                others = self._left[shortest]
                last = bool(others) and others[-1].anchor > 0
                others.insert(len(others) - last, self._moved(one, self._devices[shortest]))
            self._changed.notify_all()
        return again, len(left) - len(kept)

    def end(self) -> None:
        """Have nobody wait any longer, or take anything."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    @property
    def stranded(self) -> Sequence[Task]:
        """What is left for devices that are lost, and that nobody took over."""
        with self._changed:
            return [task for selector in self._lost for task in self._left[selector]]

    def give_up(self, anchor: Task) -> int:
        """Leave out what is left of the repetitions of an anchor that cannot be measured; return how many."""
        assert anchor.device is not None
        with self._changed:
            own = self._left[anchor.device.selector]
            kept = [task for task in own if not (task.anchor and task.case == anchor.case)]
            dropped = len(own) - len(kept)
            own.clear()
            own.extend(kept)
        return dropped


def lanes_of(device: Device, processes: int, gpus: int) -> int:
    """Return how many lanes a device has when each case is measured by so many processes, beside so many GPUs."""
    if not device.is_gpu or processes > 1:
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(MOST_LANES, cores // (CORES_PER_LANE * gpus)))


class Lane:
    """One thread, and the processes by which it works on the tasks of one device."""

    def __init__(
        self,
        number: int,
        device: Device,
        queues: Queues,
        turns: Turns,
        sweep: Sweep,
        log: Path,
        numbers: Iterator[int],
        tell: Callable[[Event], None],
        start_worker: Callable[[Device, tuple[Path, ...], Path, Measure], Asked],
        *,
        verify_only: bool,
    ) -> None:
        """Begin when ``start`` is called; ``numbers`` tells the processes of a run apart."""
        self._number = number
        self._device = device
        self._queues = queues
        self._turns = turns
        self._settings = None if verify_only else sweep.measure
        self._verify = sweep.measure.verify
        self._tell = tell
        self._workers: list[Asked] = []
        self._ending = False
        self._start_worker = partial(start_worker, device, sweep.variant_folders, log, sweep.measure)
        self._crew = Crew(sweep.measure.processes_on(gpu=device.is_gpu), self._started, numbers)
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

    def _started(self) -> Asked:
        worker = self._start_worker()
        self._workers.append(worker)
        if self._ending:  # before it was listed
            worker.end()
        return worker

    def _work(self) -> None:
        # Signals are for the thread that runs the sweep; what is started here begins with them held back.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
        error: BaseException | None = None
        try:
            with suppress(Ended):
                while not self._ending and (task := self._queues.next(self._device)):
                    try:
                        self._tell(self._done(task))
                    except LostError as lost:
                        self._tell(self._left(task, lost))
                        break
        except BaseException as one:
            error = one
        finally:
            self._crew.dismiss()
            self._tell(Over(self._number, error))

    def _left(self, task: Task, lost: LostError) -> Event:
        """Leave a task, and what else there is to do, to others; one that was left too often has failed."""
        again, dropped = self._queues.put_back(task)
        if again:
            return Left(self._number, task, dropped)
        reason = f"its worker was lost {MOST_LOSSES + 1} times; the last time: {lost}"
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        return Done(self._number, task, Outcome("failed", reason), now, dropped)

    def _done(self, task: Task) -> Event:
        if task.fresh:
            self._crew.dismiss()
            self._workers.clear()
        started: list[str] = []
        with self._turns.working() as take:
            self._tell(Began(self._number, task))
            self._tell(Does(self._number, task, STARTING))

            def turn(alone: bool) -> None:
                take(self._device.selector, alone)
                started.append(datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"))

            def phase(name: str) -> None:
                self._tell(Does(self._number, task, name))

            now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
            job = Job(task.case, self._settings, self._verify)
            outcome = self._crew.work(job, lambda worker, part: worker.ask(part, phase, turn))
        if self._ending:  # so that what was broken off by us is no failure of the case
            raise Ended
        # It would show no drift.
        dropped = self._queues.give_up(task) if task.anchor and outcome.status != "ok" else 0
        return Done(self._number, task, outcome, started[0] if started else now, dropped)
