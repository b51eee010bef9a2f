"""Who may use what at the same time.

A GPU is used by one case that is measured, or by several that are verified, and the host's cores by nobody beside a
case that is measured on them.
"""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from threading import Condition

WARM_SECONDS = 0.5
"""For which a device keeps the clock that it had at work."""
MOST_VERIFYING = 4
"""Cases that are verified on one GPU at the same time: while one compares on the host, another computes."""
IN_A_ROW = 8
"""Cases that a processor measures before others go on."""
RETURN_SECONDS = 1.0
"""For which others wait for a processor that has just measured a case to come back with its next."""
FIRST_LANES = 4
"""Who work for a device from the start: one measures, and the others are verified, or prepare what comes next."""
IDLE_SECONDS = 0.2
"""For which a device has had nothing to do before one more works for it: to open a device takes a part of that."""
LOOK_SECONDS = 0.1
"""Between two looks at how long a device has had nothing to do."""


class Turn(StrEnum):
    """What a process waits for."""

    OPEN = "open"
    """The device, while nothing on it is measured: to open or leave it holds up what others compute."""
    NOTHING = "nothing"
    """Nothing: the turn before ends, and so does the row of cases of a processor."""
    VERIFY = "verify"
    """The device, beside others that are verified."""
    MEASURE = "measure"
    """The device, and nobody else on it."""
    ALONE = "alone"
    """All devices and the host's cores."""


class Ended(BaseException):
    """The run ends; nobody gets another turn. Not for ``except Exception``."""


class Turns:
    """Turns on devices and on the host's cores, for the threads of one run.

    On a device, cases have their turns in the order in which they ask. One that was verified and asks to be measured
    keeps its place: it comes before those that have not begun. Whoever prepares a case, or measures one on a GPU,
    leaves cores for others. A case that needs the cores itself, or several GPUs, is measured ``alone``: nothing else is
    prepared, verified or measured meanwhile, on any device. Cases that are prepared wait for it, with their arrays on
    the device, so that a GPU goes on at once when it has ended. A processor, whose cases all do, measures several in a
    row; then those that have waited have their turns.
    """

    def __init__(self) -> None:
        """Everything is free."""
        self._changed = Condition()
        self._preparing: set[object] = set()  # not counting those who wait for a turn
        self._prepared_before: set[object] = set()  # and still do, since somebody began to wait to be alone
        self._alone = False
        self._wait_alone = 0
        self._tickets = 0
        self._waiting: dict[str, set[int]] = defaultdict(set)  # by device, the tickets of those who wait for it
        self._using = Counter[tuple[str, Turn]]()
        self._used: dict[str, float] = {}
        self._lanes = Counter[str]()  # that work for a device
        self._left: set[str] = set()  # devices that some of them have left
        self._idle = defaultdict[str, float](float)  # seconds, and since when
        self._idle_since: dict[str, float] = {}
        self._ended = False
        self._returns = ""  # who is waited for, and until when
        self._until = -math.inf
        self._in_a_row = 0
        self._others = 0  # who wait to prepare a case
        self._owed = 0  # the last ticket of those who had asked when a row ended

    def end(self) -> None:
        """Raise ``Ended`` in everybody who waits for a turn, or asks for one."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def join(self, device: str, place: int) -> None:
        """Wait until a device needs one more who works for it, of whom ``place`` others came before.

        It needs ``FIRST_LANES`` at once, and one more for each ``IDLE_SECONDS`` that it has been idle in all: the more
        processes open a device, the longer that takes.

        Raises:
            Ended: the run ends.
        """
        with self._changed:
            self._wait(lambda: device in self._left or self._needs(device, place), LOOK_SECONDS)
            self._lanes[device] += 1

    def leave(self, device: str) -> None:
        """Wait until all who work for a device have done all there is to do: a process that ends slows others down.

        Raises:
            Ended: the run ends.
        """
        self.end_row(device)
        with self._changed:
            self._lanes[device] -= 1
            self._left.add(device)
            self._changed.notify_all()
            self._wait(lambda: not self._lanes[device])

    def _needs(self, device: str, place: int) -> bool:
        if place < FIRST_LANES:
            return True
        if self._alone or self._wait_alone or time.monotonic() < self._until:
            return False
        now = time.monotonic()
        idle = self._idle[device] + now - self._idle_since.get(device, now)
        return idle >= (place - FIRST_LANES + 1) * IDLE_SECONDS

    def end_row(self, processor: str) -> None:
        """Let others go on before the next case of a processor: its processes have to start first, or there is none."""
        with self._changed:
            self._end_row(processor)

    def _end_row(self, processor: str) -> None:
        if processor and processor == self._returns:
            self._until, self._in_a_row, self._owed = -math.inf, 0, self._tickets
            self._changed.notify_all()

    @contextmanager
    def working(self, processor: str = "") -> Iterator[Callable[[str, Turn], bool]]:
        """Prepare a case; yields what waits for its turn, ``take(device, turn)``.

        ``processor`` names one whose cases are measured in a row. ``take`` returns whether the device is warm, because
        it has just measured another case. A turn ends with the block, or when ``take`` is called for the next.

        Raises:
            Ended: the run ends.
        """
        held: list[tuple[str, Turn, int]] = []  # the device, the turn, and its ticket
        who = object()

        def give_back() -> int | None:
            if not held:
                return None
            device, turn, ticket = held.pop()
            now = time.monotonic()
            if turn in (Turn.MEASURE, Turn.ALONE):
                self._used[device] = now
            if turn == Turn.ALONE:
                self._alone = False
                self._idle_since = dict.fromkeys(self._idle_since, now)  # others could not do anything
            else:
                self._using[device, turn] -= 1
                if not any(self._using[device, one] for one in Turn):
                    self._idle_since[device] = now
            self._changed.notify_all()
            return ticket if turn == Turn.VERIFY else None

        def take(device: str, turn: Turn) -> bool:
            with self._changed:
                own = give_back()
                if turn == Turn.NOTHING:
                    self._preparing.add(who)
                    self._end_row(processor)
                    return False
                self._has_prepared(who)
                if own is None or turn != Turn.MEASURE:
                    self._tickets += 1
                    own = self._tickets
                if turn == Turn.ALONE:
                    self._take_alone()
                else:
                    self._take(device, turn, own)
                held.append((device, turn, own))
                return time.monotonic() - self._used.get(device, -math.inf) < WARM_SECONDS

        with self._changed:
            if processor and processor == self._returns:
                self._until = math.inf if time.monotonic() < self._until else -math.inf
            self._others += not processor
            # Nobody notifies when the time of a processor that does not come back is over.
            self._wait(lambda: self._may_work(processor), RETURN_SECONDS)
            self._others -= not processor
            self._changed.notify_all()
            self._preparing.add(who)
        try:
            yield take
        finally:
            with self._changed:
                if processor:
                    self._wait_for(processor, measured=bool(held))
                give_back()
                self._has_prepared(who)
                self._changed.notify_all()

    def _has_prepared(self, who: object) -> None:
        self._preparing.discard(who)
        self._prepared_before.discard(who)

    def _wait_for(self, processor: str, *, measured: bool) -> None:
        """Have others wait for the next case of a processor, unless it has measured as many in a row as it may."""
        self._returns = processor
        self._in_a_row = self._in_a_row % IN_A_ROW + measured
        more = measured and self._in_a_row < IN_A_ROW
        self._until = time.monotonic() + RETURN_SECONDS if more else -math.inf
        if not more:
            self._owed = self._tickets

    def _may_work(self, processor: str) -> bool:
        if self._alone:
            return False
        if time.monotonic() < self._until:
            return processor == self._returns
        if processor and self._others:
            return False
        # Those who wait to be alone come first, or with many others they would wait for ever. But they have to wait
        # anyway for whoever prepared before, who may take seconds.
        return not self._wait_alone or self._owes() or bool(self._prepared_before)

    def _owes(self) -> bool:
        """Tell whether somebody still waits who waited when a row ended."""
        return any(min(waiting) <= self._owed for waiting in self._waiting.values() if waiting)

    def _take(self, device: str, turn: Turn, own: int) -> None:
        waiting = self._waiting[device]
        waiting.add(own)

        def is_free() -> bool:
            in_a_row = time.monotonic() < self._until and device != self._returns
            # Whoever waits to be alone has to wait anyway while others prepare.
            if self._alone or in_a_row or (self._wait_alone and not self._preparing and own > self._owed):
                return False
            opening, verifying, measuring = (self._using[device, one] for one in (Turn.OPEN, Turn.VERIFY, Turn.MEASURE))
            if turn == Turn.MEASURE:
                return not (opening or verifying or measuring)
            return not measuring and (turn == Turn.OPEN or verifying < MOST_VERIFYING)

        self._changed.notify_all()
        try:
            # Nobody begins while somebody waits who came before, or those would go on for ever.
            self._wait(lambda: own == min(waiting) and is_free(), RETURN_SECONDS)
        finally:
            waiting.remove(own)
        now = time.monotonic()
        self._idle[device] += now - self._idle_since.pop(device, now)
        self._using[device, turn] += 1
        self._changed.notify_all()

    def _take_alone(self) -> None:
        if not self._wait_alone:
            self._prepared_before = self._preparing.copy()
        self._wait_alone += 1
        self._changed.notify_all()
        try:
            self._wait(lambda: not (self._alone or self._preparing or self._using.total() or self._owes()))
        finally:
            self._wait_alone -= 1
        self._alone = True

    def _wait(self, free: Callable[[], bool], seconds: float | None = None) -> None:
        """Wait until something is free, and look again after so many seconds at the latest."""
        while not (self._ended or free()):
            self._changed.wait(seconds)
        if self._ended:
            raise Ended
