"""Who may use what at the same time: each GPU by one case at once, the host's cores by nobody beside a case on them."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition

WARM_SECONDS = 0.5
"""For which a device keeps the clock that it had at work."""
IN_A_ROW = 8
"""Cases that a processor measures before others go on: these have to end what they do, and begin again, once."""
RETURN_SECONDS = 1.0
"""For which others wait for a processor that has just measured a case to come back with its next."""


class Ended(BaseException):
    """The run ends; nobody gets another turn. Not for ``except Exception``."""


class Turns:
    """Turns on devices and on the host's cores, for the threads of one run.

    Whoever prepares a case, or measures one on a GPU, leaves cores for others. A case that needs the cores itself, or
    several GPUs, is measured ``alone``: nothing else is prepared or measured meanwhile, on any device. A processor,
    whose cases all do, measures several in a row.
    """

    def __init__(self) -> None:
        """Everything is free."""
        self._changed = Condition()
        self._working = 0
        self._alone = False
        self._wait_alone = 0
        self._tickets = 0
        self._waiting: dict[str, list[int]] = defaultdict(list)  # by device, in the order of asking
        self._busy: set[str] = set()
        self._used: dict[str, float] = {}
        self._asked: set[str] = set()
        self._opened: set[str] = set()
        self._ended = False
        self._returns = ""  # who is waited for, and until when
        self._until = -math.inf
        self._in_a_row = 0
        self._others = 0  # who wait to prepare a case

    def end(self) -> None:
        """Raise ``Ended`` in everybody who waits for a turn, or asks for one."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def ask(self, device: str) -> None:
        """Wait until a process has opened the device, unless nobody has asked yet: several at once take longer.

        Raises:
            Ended: the run ends.
        """
        with self._changed:
            if device in self._asked:
                self._wait(lambda: device in self._opened)
            self._asked.add(device)

    def opened(self, device: str) -> None:
        """Say that a process has opened the device, or that it cannot."""
        with self._changed:
            self._opened.add(device)
            self._changed.notify_all()

    @contextmanager
    def working(self, processor: str = "") -> Iterator[Callable[[str, bool], bool]]:
        """Prepare a case; yields what waits for the turn to measure it, ``take(device, alone)``.

        ``processor`` names one whose cases are measured in a row. ``take`` returns whether the device is warm, because
        its last turn has just ended. A turn ends with the block, or when ``take`` is called for the next.

        Raises:
            Ended: the run ends.
        """
        held: list[tuple[str, bool]] = []  # the device of the turn, and whether it is alone

        def give_back() -> None:
            if not held:
                return
            device, alone = held.pop()
            if alone:
                self._alone = False
                self._working += 1
            else:
                self._busy.discard(device)
            self._used[device] = time.monotonic()
            self._changed.notify_all()

        def take(device: str, alone: bool) -> bool:
            with self._changed:
                give_back()
                if alone:
                    self._take_alone()
                else:
                    self._take(device)
                held.append((device, alone))
                return time.monotonic() - self._used.get(device, -math.inf) < WARM_SECONDS

        with self._changed:
            if processor and processor == self._returns:
                self._until = math.inf if time.monotonic() < self._until else -math.inf
            self._others += not processor
            # Nobody notifies when the time of a processor that does not come back is over.
            self._wait(lambda: self._may_work(processor), RETURN_SECONDS)
            self._others -= not processor
            self._changed.notify_all()
            self._working += 1
        try:
            yield take
        finally:
            with self._changed:
                if processor:
                    self._wait_for(processor, measured=bool(held))
                give_back()
                self._working -= 1
                self._changed.notify_all()

    def _wait_for(self, processor: str, *, measured: bool) -> None:
        """Have others wait for the next case of a processor, unless it has measured as many in a row as it may."""
        self._returns = processor
        self._in_a_row = self._in_a_row % IN_A_ROW + measured
        more = measured and self._in_a_row < IN_A_ROW
        self._until = time.monotonic() + RETURN_SECONDS if more else -math.inf

    def _may_work(self, processor: str) -> bool:
        if self._alone:
            return False
        if time.monotonic() < self._until:
            return processor == self._returns
        if processor and self._others:
            return False
        # Those who wait to be alone come first, or with many others they would wait for ever.
        return not self._wait_alone

    def _take(self, device: str) -> None:
        self._tickets += 1
        own, queue = self._tickets, self._waiting[device]
        queue.append(own)
        try:
            self._wait(lambda: device not in self._busy and queue[0] == own)
            self._busy.add(device)
        finally:
            queue.remove(own)

    def _take_alone(self) -> None:
        self._working -= 1
        self._wait_alone += 1
        self._changed.notify_all()
        try:
            self._wait(lambda: not self._alone and not self._working)
        except Ended:
            self._working += 1  # the block that ends counts it off
            raise
        finally:
            self._wait_alone -= 1
        self._alone = True

    def _wait(self, free: Callable[[], bool], seconds: float | None = None) -> None:
        """Wait until something is free, and look again after so many seconds at the latest."""
        while not (self._ended or free()):
            self._changed.wait(seconds)
        if self._ended:
            raise Ended
