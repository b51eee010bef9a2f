"""What is left to do for the devices of a run: in the order of the plan, or as a search asks for it."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from gravbench.measuring.plan import Task
from gravbench.model.device import Device, Kind
from gravbench.model.record import Fingerprint, Record
from gravbench.search.strategy import Question, Strategy

MOST_LOSSES = 2
"""Times that a case goes to another worker after its own was lost."""

Next = tuple[Task, float | None]
"""A task, and the seconds above which it is too slow."""


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
        *,
        losable: bool = False,
        each: bool = False,
    ) -> None:
        """``prints`` tells what a task's result depends on when another device works on it.

        Where devices are ``losable``, one that has nothing left waits for those of its kind that still work: it may
        have to take over what they leave. Where ``each`` device measures all cases, none helps another.
        """
        self._changed = threading.Condition()
        self._prints = prints
        self._strategies = strategies or {}
        self._losable = losable
        self._each = each
        self._ended = False
        self._asked = Counter[Kind]()  # and not told yet
        self._returned: dict[Kind, deque[Next]] = defaultdict(deque)  # of lost devices; counted as asked
        self._all: dict[tuple[Kind, object], Task] = {}
        self._anchored = Counter[tuple[Kind, object]]()  # devices that will have measured the case as an anchor
        self._lanes: dict[str, set[int]] = defaultdict(set)  # of a device, that have asked
        self._repeated: dict[str, set[int]] = defaultdict(set)  # those whose processes have measured its anchor
        self._passed: dict[str, Task] = {}  # the repetition that it left to another
        self._right: set[tuple[Kind, object]] = set()  # what has been found right in this run
        self._busy: set[str] = set()
        self._lost: set[str] = set()
        self._losses = Counter[str]()
        self._devices: dict[str, Device] = {}
        self._left: dict[str, deque[Task]] = {}
        for task in tasks:
            if task.device:
                self._devices[task.device.selector] = task.device
                self._left.setdefault(task.device.selector, deque()).append(task)
                self._all.setdefault((task.device.kind, task.case.identity), task)
                self._anchored[task.device.kind, task.case.identity] += task.anchor == 1

    @property
    def devices(self) -> Sequence[Device]:
        """Those that have something to do."""
        return tuple(self._devices.values())

    def next(self, device: Device, lane: int = 0) -> Next | None:
        """Take what a lane of a device does next, and the seconds above which it is too slow; None where nothing is.

        What the device took before is done. Each repetition of an anchor is for processes that have not measured it:
        for those of another lane, where there is one that comes in time, or for new ones.
        """
        strategy = self._strategies.get(device.kind)
        with self._changed:
            self._busy.discard(device.selector)
            self._lanes[device.selector].add(lane)
            self._changed.notify_all()
            try:
                while not self._ended:
                    if found := self._searched(device, strategy, lane) if strategy else self._first(device, lane):
                        self._busy.add(device.selector)
                        return found
                    if not self._more_may_come(device):
                        return None
                    self._changed.wait()
            finally:
                # A search that has ended may have emptied the queue for which another device waits.
                self._changed.notify_all()
        return None

    def told(self, record: Record, task: Task) -> None:
        """Tell the search of a kind of device what became of a task."""
        assert task.device is not None
        with self._changed:
            if strategy := self._strategies.get(task.device.kind):
                strategy.tell_record(record)
                self._asked[task.device.kind] -= 1
                self._changed.notify_all()

    def was_right(self, task: Task) -> bool:
        """Tell whether a task repeats what this run has found right, on this device or one like it."""
        assert task.device is not None
        with self._changed:
            return task.anchor > 1 and (task.device.kind, task.case.identity) in self._right

    def found_right(self, task: Task) -> None:
        """Note that a task was found right."""
        assert task.device is not None
        with self._changed:
            self._right.add((task.device.kind, task.case.identity))

    def end(self) -> None:
        """Have nobody wait any longer, or take anything."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _more_may_come(self, device: Device) -> bool:
        """Tell whether a device that has nothing left has to wait: for answers, or for what another may leave."""
        alike = self._alike(device) if self._losable else []
        return self._asked[device.kind] > 0 or any(one in self._busy or self._left[one] for one in alike)

    def _searched(self, device: Device, strategy: Strategy, lane: int) -> Next | None:
        own, kind = self._left[device.selector], device.kind
        if len(own) > 1 and own[0].anchor:
            self._asked[kind] += 1
            return self._taken(own, device, lane), None
        if self._returned[kind]:
            task, behind = self._returned[kind].popleft()
            return self._moved(task, device), behind
        # What is asked at the end depends on all answers.
        while not (strategy.at_its_end and self._asked[kind]):
            question = strategy.ask()
            if question is None:
                last = next((task for task in reversed(own) if task.anchor), None)
                own.clear()
                self._asked[kind] += last is not None
                return (last, None) if last else None
            if found := self._placed(question, own, kind):
                self._asked[kind] += 1
                if self._anchored[kind, found.case.identity]:
                    self._repeated[device.selector].add(lane)
                return self._moved(found, device), question.behind
        return None

    def _placed(self, question: Question, own: deque[Task], kind: Kind) -> Task | None:
        """Find the task of a question and take it out of what is left; None of an anchor, which has its own place."""
        task = self._all.get((kind, question.case.identity))
        if task is None:  # measured by an earlier start of the run
            return None
        if question.again:
            return _ordinary(task)
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

    def _first(self, device: Device, lane: int) -> Next | None:
        own = self._left[device.selector]
        # The last repetition of its anchor waits until it can no longer help.
        if not self._each and all(task.anchor for task in own) and (helped := self._taken_over(device)):
            return helped, None
        own.rotate(self._last_anchors(device))
        return (self._taken(own, device, lane), None) if own else None

    def _last_anchors(self, device: Device) -> int:
        """Return how many anchors at the end to begin now, while other lanes do what else is left: a process starts."""
        few = len(self._lanes[device.selector]) - 1
        own, *others = (self._left[one] for one in (device.selector, *self._alike(device)))
        last = next((place for place, task in enumerate(reversed(own)) if not task.anchor), 0)
        if not last or not own[-last].fresh or len(own) - last > few or any(len(left) > 2 * few for left in others):
            return 0
        return 0 if any(task.anchor for task in [*own][:-last]) else last

    def _taken(self, own: deque[Task], device: Device, lane: int) -> Task:
        """Take the first task of a device; a lane that has measured the anchor leaves it to one that has not, once."""
        task, where = own.popleft(), device.selector
        if not task.fresh:
            return task
        done, searched = self._repeated[where], device.kind in self._strategies
        others = self._lanes[where] - done
        again = lane in done
        if again and others and own and not (own[0].anchor or searched or self._passed.get(where) is task):
            self._passed[where] = task
            other = own.popleft()
            own.appendleft(task)
            return other
        done.add(lane)
        return replace(task, fresh=again)

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

    def put_back(self, task: Task, behind: float | None = None) -> tuple[bool, int]:
        """Give a task whose device is lost, and all that is left for that device, to others of its kind.

        Of a lost device's anchors, what has not been measured at all becomes a case like others, and the repetitions
        are left out, as is an anchor that another device measures too. Where there is no other device, what is left
        stays. A search asks no case twice: the task, with
        the seconds ``behind`` that it was asked with, and such anchors come before what the search asks for next.

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
            left = [*own]
            own.clear()
            spare = again and self._is_spare(task)
            kept = [one for one in left if not self._is_spare(one)]
            dropped = len(left) - len(kept)
            searched = lost.kind in self._strategies
            if spare:
                dropped += 1
                self._asked[lost.kind] -= searched  # nobody will tell of it
            elif again and searched:
                self._returned[lost.kind].append((_ordinary(task), behind))
            elif again:
                kept.insert(0, task)
            for one in kept:
                if searched and one.anchor:
                    self._asked[lost.kind] += 1
                    self._returned[lost.kind].append((_ordinary(one), None))
                else:
                    self._hand_on(one, lost, searched=searched)
            self._changed.notify_all()
        return again, dropped

    def _is_spare(self, task: Task) -> bool:
        """Tell whether a lost device's task is the repetition of an anchor, or one that another device measures too."""
        assert task.device is not None
        if task.anchor != 1:
            return task.anchor > 1
        which = task.device.kind, task.case.identity
        self._anchored[which] -= 1
        return self._anchored[which] > 0

    def _hand_on(self, task: Task, lost: Device, *, searched: bool) -> None:
        """Put a task into the shortest queue of the devices like a lost one, before the last anchor."""
        shortest = min(self._alike(lost), key=lambda selector: len(self._left[selector]), default=lost.selector)
        others = self._left[shortest]
        last = bool(others) and others[-1].anchor > 0
        # A search finds its tasks as they were planned.
        moved = task if searched else self._moved(_ordinary(task), self._devices[shortest])
        others.insert(len(others) - last, moved)

    @property
    def stranded(self) -> Sequence[Task]:
        """What is left for devices that are lost, and that nobody took over; not what a search has no budget for."""
        with self._changed:
            found = [task for returned in self._returned.values() for task, _ in returned]
            for selector in self._lost:
                strategy = self._strategies.get(self._devices[selector].kind)
                if not (strategy and strategy.at_its_end):
                    found += self._left[selector]
            return found

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


def _ordinary(task: Task) -> Task:
    """Make a task one that is no anchor."""
    return replace(task, anchor=0, fresh=False)
