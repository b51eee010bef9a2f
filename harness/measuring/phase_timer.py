"""How the wall time of a run divides: what its devices were doing, moment by moment."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable


class Tally:
    """Seconds per stage, of all devices together; those of a device that does nothing are not counted."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock`` tells seconds."""
        self._clock = clock
        self._now: dict[str, tuple[str, float]] = {}
        self._spent: dict[str, float] = defaultdict(float)

    def does(self, device: str, stage: str | None) -> None:
        """Note which stage a device begins; None: nothing any more."""
        now = self._clock()
        if before := self._now.pop(device, None):
            self._spent[before[0]] += now - before[1]
        if stage is not None:
            self._now[device] = stage, now

    def seconds(self) -> dict[str, float]:
        """Return the seconds of each stage, in the order in which they first ended."""
        return dict(self._spent)
