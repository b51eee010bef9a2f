"""How the wall time of a run divides: what the foremost of a device's cases was doing, moment by moment."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable

STARTING, LOADING, COMPILING, READY = "starting", "loading", "compiling", "waiting"
VERIFYING, WARMING_UP, MEASURING = "verifying", "warming up", "measuring"
"""Names of phases, each nearer to a result than the one before; what else a worker tells counts as verifying."""
PHASES = (READY, STARTING, LOADING, COMPILING, VERIFYING, WARMING_UP, MEASURING)


class Phases:
    """Tells which phase has begun; what is compiled by a launch is a phase of its own within another."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        """``tell`` is given the names of phases."""
        self.tell = tell
        self.name = ""

    def __call__(self, name: str) -> None:
        """Begin a phase."""
        self.name = name
        self.tell(name)

    def compiling(self, begins: bool) -> None:
        """Begin to compile, or go on with what was done before."""
        if self.name != COMPILING:
            self.tell(COMPILING if begins else self.name)


class Tally:
    """Seconds per phase, of all devices together; a device that does several things at once counts the foremost."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock`` tells seconds."""
        self._clock = clock
        self._now: dict[str, dict[object, int]] = defaultdict(dict)  # by device, then by who works for it
        self._since: dict[str, float] = {}
        self._spent: dict[str, float] = defaultdict(float)

    def does(self, device: str, who: object, phase: str | None) -> None:
        """Note what ``who`` begins to do for a device; None: nothing any more."""
        now = self._clock()
        doing = self._now[device]
        self._spent[PHASES[max(doing.values(), default=0)]] += now - self._since.get(device, now)
        self._since[device] = now
        if phase is None:
            doing.pop(who, None)
        else:
            doing[who] = PHASES.index(phase if phase in PHASES else VERIFYING)

    def leads(self, device: str, who: object) -> bool:
        """Tell whether nobody else is further with the device's next result."""
        doing = self._now[device]
        return doing.get(who, 0) >= max(doing.values(), default=0)

    def seconds(self) -> dict[str, float]:
        """Return the seconds of each phase that took any, in the order of a case."""
        order = (STARTING, LOADING, COMPILING, VERIFYING, WARMING_UP, MEASURING, READY)
        return {name: self._spent[name] for name in order if self._spent.get(name)}
