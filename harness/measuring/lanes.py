"""The devices of a run at work: on a GPU several lanes of processes, one of which measures while others prepare.

A lane is a thread of the process that runs the sweep; what computes are its worker processes. Its case is prepared
(loaded, compiled, its bodies copied) at any time, and waits for its turn on the device to be verified and measured.
"""

from __future__ import annotations

import datetime
import signal
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from gravbench.config.load import Sweep
from gravbench.measuring.crew import Crew
from gravbench.measuring.outcome import Outcome
from gravbench.measuring.plan import Task
from gravbench.measuring.process import STOPPING, Worker
from gravbench.measuring.tally import STARTING
from gravbench.measuring.turns import Ended, Turns
from gravbench.measuring.worker import Job
from gravbench.model.device import Device, Kind
from gravbench.model.record import Fingerprint, Record
from gravbench.search.strategy import Question, Strategy
from gravbench.toolkits.devices import cores

MOST_LANES = 4
"""Of one GPU: one measures, and to compile a case takes about as long as to measure three."""
CORES_PER_LANE = 4
"""Of the host, so that what prepares a case leaves the one that is measured its own."""


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
class Over:
    """A lane has nothing more to do; ``error`` is what ended it otherwise."""

    lane: int
    error: BaseException | None = None


Event = Began | Does | Done | Over


class Queues:
    """What is left to do for each device, in order; one that has nothing left helps another of its kind.

    Where cases are searched, a strategy chooses which of the tasks of its kind of device comes next. The repetitions of
    anchors keep their places.
    """

    def __init__(
        self,
        tasks: Iterable[Task],
        prints: Callable[[Task, Device], Fingerprint],
        strategies: Mapping[Kind, Strategy] | None = None,
    ) -> None:
        """``prints`` tells what a task's result depends on when another device works on it."""
        self._lock = threading.Condition()
        self._strategies = strategies or {}
        self._asked: dict[Kind, int] = defaultdict(int)  # and not told yet
        self._all: dict[tuple[Kind, object], Task] = {}
        self._ended = False
        self._prints = prints
        self._devices: dict[str, Device] = {}
        self._left: dict[str, deque[Task]] = {}
        for task in tasks:
            if task.device:
                self._devices[task.device.selector] = task.device
                self._left.setdefault(task.device.selector, deque()).append(task)
                self._all.setdefault((task.device.kind, task.case.identity), task)

    @property
    def devices(self) -> Sequence[Device]:
        """Those that have something to do."""
        return tuple(self._devices.values())

    def next(self, device: Device) -> tuple[Task, float | None] | None:
        """Take what a device does next, and the seconds above which it is too slow; None where nothing is left."""
        with self._lock:
            if strategy := self._strategies.get(device.kind):
                return self._searched(device, strategy)
            task = self._first(device)
            return (task, None) if task else None

    def told(self, record: Record, task: Task) -> None:
        """Tell the search of a kind of device what became of a task."""
        assert task.device is not None
        with self._lock:
            if strategy := self._strategies.get(task.device.kind):
                strategy.tell_record(record)
                self._asked[task.device.kind] -= 1
                self._lock.notify_all()

    def end(self) -> None:
        """Let nobody wait for an answer any longer, nor do anything more."""
        with self._lock:
            self._ended = True
            self._lock.notify_all()

    def _searched(self, device: Device, strategy: Strategy) -> tuple[Task, float | None] | None:
        own, kind = self._left[device.selector], device.kind
        if own and own[0].anchor and len(own) > 1:
            self._asked[kind] += 1
            return own.popleft(), None
        while not self._ended:
            # What is asked at the end depends on all answers.
            if strategy.at_its_end and self._asked[kind]:
                self._lock.wait()
                continue
            question = strategy.ask()
            if question is None:
                last = next((task for task in reversed(own) if task.anchor), None)
                own.clear()
                self._asked[kind] += last is not None
                return (last, None) if last else None
            if found := self._placed(question, own, kind):
                self._asked[kind] += 1
                return replace(found, device=device, fingerprint=self._prints(found, device)), question.behind
        return None

    def _placed(self, question: Question, own: deque[Task], kind: Kind) -> Task | None:
        """Find the task of a question and take it out of what is left; None of an anchor, which has its own place."""
        task = self._all.get((kind, question.case.identity))
        if task is None:  # measured by an earlier start of the run
            return None
        if question.again:
            return replace(task, anchor=0, fresh=False)
        if task.anchor:
            return None
        for selector, left in self._left.items():
            if self._devices[selector].kind == kind and task in left:
                # Another takes its place, so that anchors stay as far apart as they are.
                if left is not own and own and not own[0].anchor:
                    left[left.index(task)] = own.popleft()
                else:
                    left.remove(task)
                return task
        return None

    def _first(self, device: Device) -> Task | None:
        own = self._left[device.selector]
        # The last repetition of its anchor waits until it can no longer help.
        if all(task.anchor for task in own) and (helped := self._taken_over(device)):
            return helped
        return own.popleft() if own else None

    def _taken_over(self, device: Device) -> Task | None:
        alike = [
            left
            for selector, left in self._left.items()
            if selector != device.selector and self._devices[selector].kind == device.kind
        ]
        longest = max(alike, key=len, default=deque[Task]())
        places = [place for place, task in enumerate(longest) if not task.anchor]
        if len(places) < 2:
            return None
        task = longest[places[-1]]
        del longest[places[-1]]
        return replace(task, device=device, fingerprint=self._prints(task, device))

    def give_up(self, anchor: Task) -> int:
        """Leave out what is left of the repetitions of an anchor that cannot be measured; return how many."""
        assert anchor.device is not None
        with self._lock:
            own = self._left[anchor.device.selector]
            kept = [task for task in own if not (task.anchor and task.case == anchor.case)]
            dropped = len(own) - len(kept)
            own.clear()
            own.extend(kept)
        return dropped


def moment() -> str:
    """Return the time of day, as records have it."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def lanes_of(device: Device, processes: int, gpus: int) -> int:
    """Return how many lanes a device has when each case is measured by so many processes, beside so many GPUs."""
    if not device.is_gpu or processes > 1:
        return 1
    return max(1, min(MOST_LANES, cores() // (CORES_PER_LANE * gpus)))


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
        self._workers: list[Worker] = []
        self._ending = False
        self._start_worker = partial(Worker, device, sweep.variant_folders, log, sweep.measure)
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

    def _started(self) -> Worker:
        worker = self._start_worker()
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
                while not self._ending and (found := self._queues.next(self._device)):
                    self._tell(self._done(*found))
        except BaseException as one:
            error = one
        finally:
            self._crew.dismiss()
            self._tell(Over(self._number, error))

    def _done(self, task: Task, behind: float | None) -> Event:
        if task.fresh:
            self._crew.dismiss()
            self._workers.clear()
        started: list[str] = []
        with self._turns.working() as take:
            self._tell(Began(self._number, task))
            self._tell(Does(self._number, task, STARTING))

            def turn(alone: bool) -> bool:
                warm = take(self._device.selector, alone)
                started.append(moment())
                return warm

            def phase(name: str) -> None:
                self._tell(Does(self._number, task, name))

            now = moment()
            job = Job(task.case, self._settings, self._verify, behind)
            outcome = self._crew.work(job, lambda worker, part: worker.ask(part, phase, turn))
        if self._ending:  # so that what was broken off by us is no failure of the case
            raise Ended
        # It would show no drift.
        dropped = self._queues.give_up(task) if task.anchor and outcome.status != "ok" else 0
        return Done(self._number, task, outcome, started[0] if started else now, dropped)
