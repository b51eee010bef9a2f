"""What is left to do for the devices of a run: in the order of the plan, or as a search asks for it."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Protocol

from gravbench.measuring.tasks import Task
from gravbench.model.case import Case
from gravbench.model.device import Device, Kind
from gravbench.model.record import Fingerprint, Record


class Question(Protocol):
    """A case that a search asks for; see ``gravbench.search.strategy.Question``."""

    @property
    def case(self) -> Case:
        """The case."""

    @property
    def behind(self) -> float | None:
        """The seconds above which it is too slow."""

    @property
    def again(self) -> bool:
        """Whether it has been measured, and is repeated."""


class Strategy(Protocol):
    """What chooses the next case of a kind of device; see ``gravbench.search.strategy.Strategy``."""

    @property
    def at_its_end(self) -> bool:
        """Whether what it asks from now on depends on all answers."""

    @property
    def left_out(self) -> int:
        """How many cases are not measured, because the budget is spent."""

    def ask(self) -> Question | None:
        """Return what to measure next; None at the end."""

    def tell_record(self, record: Record) -> None:
        """Take note of what a record says."""

    def result(self) -> list[list[Case]]:
        """Return, group by group, the cases that cannot be told from the fastest."""

    def told_apart(self, fastest: Sequence[Case]) -> list[str]:
        """Name the group of each case by what sets it apart from the others of the same n."""


Next = tuple[Task, float | None]
"""A task, and the seconds above which it is too slow."""


class Queue:
    """What is left to do for each device, in order; one that has nothing left helps another of its kind.

    Where cases are searched, a strategy chooses which of the tasks of its kind of device comes next. The repetitions of
    anchors keep their places. Cases of several GPUs come last: a session that sees all of them does these.
    """

    def __init__(
        self,
        tasks: Iterable[Task],
        fingerprint: Callable[[Task, Device], Fingerprint],
        strategies: Mapping[Kind, Strategy] | None = None,
        *,
        each: bool = False,
    ) -> None:
        """``fingerprint`` tells what a task's result depends on when another device works on it.

        Where ``each`` device measures all cases, none helps another.
        """
        self._fingerprint = fingerprint
        self._strategies = strategies or {}
        self._each = each
        self._unanswered = Counter[Kind]()  # questions of a search
        self._all: dict[tuple[Kind, object], Task] = {}
        self._right: set[tuple[Kind, object]] = set()  # what has been found right in this run
        self._anchored = Counter[tuple[Kind, object]]()  # devices that will have measured the case as an anchor
        self._handed_on: dict[Kind, deque[Task]] = defaultdict(deque)  # by devices that are lost
        self.dropped = 0
        """Repetitions of anchors that are left out, because they would tell nothing or nobody is to measure them."""
        self._devices: dict[str, Device] = {}
        self._begun = set[str]()  # devices that have done something
        self._left: dict[str, deque[Task]] = {}
        for task in sorted(tasks, key=lambda task: task.case.gpus > 1):
            if task.device:
                self._devices[task.device.selector] = task.device
                self._left.setdefault(task.device.selector, deque()).append(task)
                self._all.setdefault((task.device.kind, task.case.identity), task)
                self._anchored[task.device.kind, task.case.identity] += task.anchor == 1

    @property
    def devices(self) -> Sequence[Device]:
        """Those that have something to do."""
        return tuple(self._devices.values())

    def upcoming(self, device: Device) -> Sequence[Task]:
        """Return what is left for a device, about in the order in which it comes."""
        return tuple(self._left[device.selector])

    def next(self, device: Device, is_built: Callable[[Task], bool] = lambda _: True) -> Next | None:
        """Take what a device does next, and the seconds above which it is too slow; None where nothing is to be done.

        Up to the next repetition of an anchor, a task that ``is_built`` comes before those that would have to wait.
        While ``more_may_come``, it has to be asked again.
        """
        strategy = self._strategies.get(device.kind)
        if handed_on := self._handed_on[device.kind]:
            self._unanswered[device.kind] += strategy is not None
            return self._moved(handed_on.popleft(), device), None
        return self._searched(device, strategy) if strategy else self._first(device, is_built)

    def more_may_come(self, device: Device) -> bool:
        """Tell whether a search waits for the records of what it has asked for."""
        return self._unanswered[device.kind] > 0

    def add_record(self, record: Record, task: Task) -> None:
        """Note what became of a task, and tell the search of its kind of device.

        Of an anchor that is not right, what is left of its repetitions on the device is left out: it would show no
        drift.
        """
        assert task.device is not None
        if record.status == "ok":
            self._right.add((task.device.kind, task.case.identity))
        elif task.anchor:
            self._give_up(task.device, task)
        if strategy := self._strategies.get(task.device.kind):
            strategy.tell_record(record)
            self._unanswered[task.device.kind] -= 1

    def was_right(self, task: Task) -> bool:
        """Tell whether a task repeats what this run has found right, on this device or one like it."""
        assert task.device is not None
        return task.anchor > 1 and (task.device.kind, task.case.identity) in self._right

    def add_device(self, device: Device) -> None:
        """Have a device that has nothing to do of its own, such as one that has just come, help others of its kind."""
        self._devices[device.selector] = device
        self._left.setdefault(device.selector, deque())

    def remove_device(self, device: Device, begun: Task | None = None) -> None:
        """Hand on to others of its kind what is left for a device that is lost.

        Of its anchors, with the one that it has ``begun``, those that no device measures at all become cases like
        others; the rest is left out. A search finds cases where they are.
        """
        kind, left, is_searched = device.kind, self._left[device.selector], device.kind in self._strategies
        self._unanswered[kind] -= is_searched and begun is not None
        tasks = [*([begun] if begun else []), *left]
        left.clear()
        for task in tasks:
            which = kind, task.case.identity
            self._anchored[which] -= task.anchor == 1
            if task.anchor > 1 or (task.anchor and self._anchored[which]):
                self.dropped += 1
            elif is_searched and not task.anchor:
                left.append(task)
            else:
                self._handed_on[kind].append(replace(task, anchor=0, fresh=False))

    def left_behind(self, kinds: Collection[Kind]) -> list[Task]:
        """Return what is left for devices of other ``kinds`` than these, but not what a search has no budget for."""
        left = [task for kind, tasks in self._handed_on.items() if kind not in kinds for task in tasks]
        for selector, tasks in self._left.items():
            kind = self._devices[selector].kind
            strategy = self._strategies.get(kind)
            if kind not in kinds and not (strategy and strategy.at_its_end):
                left += tasks
        return left

    def _give_up(self, device: Device, anchor: Task) -> None:
        left = self._left[device.selector]
        for task in [task for task in left if task.anchor and task.case == anchor.case]:
            left.remove(task)
            self.dropped += 1

    def _searched(self, device: Device, strategy: Strategy) -> Next | None:
        left, kind = self._left[device.selector], device.kind
        if len(left) > 1 and left[0].anchor:
            self._unanswered[kind] += 1
            return left.popleft(), None
        # What is asked at the end depends on all answers.
        while not (strategy.at_its_end and self._unanswered[kind]):
            question = strategy.ask()
            if question is None:
                last = next((task for task in reversed(left) if task.anchor), None)
                left.clear()
                self._unanswered[kind] += last is not None
                return (last, None) if last else None
            if task := self._placed(question, left, kind):
                self._unanswered[kind] += 1
                return self._moved(task, device), question.behind
        return None

    def _placed(self, question: Question, left: deque[Task], kind: Kind) -> Task | None:
        """Find the task of a question and take it out of what is left; None of an anchor, which has its own place."""
        task = self._all.get((kind, question.case.identity))
        if task is None:  # measured by an earlier start of the run
            return None
        if question.again:
            return replace(task, anchor=0, fresh=False)
        if task.anchor:
            return None
        for selector, tasks in self._left.items():
            if self._devices[selector].kind == kind and task in tasks:
                # Another takes its place, so that anchors stay as far apart as they are.
                if tasks is not left and left and not left[0].anchor:
                    tasks[tasks.index(task)] = left.popleft()
                else:
                    tasks.remove(task)
                return task
        return None

    def _first(self, device: Device, is_built: Callable[[Task], bool]) -> Next | None:
        left = self._left[device.selector]
        # The last repetition of its anchor waits until it can no longer help.
        if not self._each and all(task.anchor for task in left) and (task := self._taken_over(device)):
            return task, None
        if not left:
            return None
        several = left[0].case.gpus > 1
        # The first task of a run is an anchor and stays the first; no repetition of an anchor is passed over.
        in_reach = takewhile(lambda task: task.anchor <= 1 and (task.case.gpus > 1) == several, left)
        task = next(filter(is_built, in_reach), left[0]) if device.selector in self._begun else left[0]
        self._begun.add(device.selector)
        left.remove(task)
        return task, None

    def _taken_over(self, device: Device) -> Task | None:
        """Take the last case of the device of a kind that has most left; its last one stays with it."""
        alike = [name for name, other in self._devices.items() if other != device and other.kind == device.kind]
        longest = max((self._left[name] for name in alike), key=len, default=deque[Task]())
        places = [place for place, task in enumerate(longest) if not task.anchor and task.case.gpus == 1]
        if len(places) < 2:
            return None
        task = longest[places[-1]]
        del longest[places[-1]]
        return self._moved(task, device)

    def _moved(self, task: Task, device: Device) -> Task:
        return replace(task, device=device, fingerprint=self._fingerprint(task, device))
