"""How fast an entry is: batches in which every launch has bodies of its own, timed by the device's clock.

No launch of a batch has the bodies of another, and no batch those of one before, so that results that are kept are of
no use. Of launches that nobody can foresee, the accelerations are read back and judged. What the device's clock says is
compared with the clock of this process, which no kernel can reach.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gravbench.config.settings import Measure
from gravbench.errors import InputError
from gravbench.judging.entry import Entry
from gravbench.judging.judgement import EPS, Judgement, objection
from gravbench.judging.launching import accelerations_of, arrays_of, calls_of, suffixed
from gravbench.judging.on_device import FaultError, Loaded, OnDevice
from gravbench.measuring import protocol
from gravbench.measuring.stages import TICKS
from gravbench.model import generators
from gravbench.model.bodies import Bodies
from gravbench.model.device import Reading
from gravbench.model.record import Measurement
from gravbench.model.variant import Tolerance
from gravbench.toolkits.interface import A_CLOCK, LONGEST_HOLD, Timing
from gravbench.verifying.perturbed import other_bodies

SETTINGS = Measure(budget_seconds=1.0, warm_up_seconds=0.2, sample_seconds=0.005, half_width=0.01)
POOL_BYTES = 16 << 20
"""Of the bodies and accelerations of a batch, about: they fit the cache of a device, as those of one launch do."""
MOST_TIMED = 1 << 22
"""Bodies at most."""
FEWEST_SETS, MOST_SETS = 2, 512
"""Of bodies in a batch."""
JUDGED = 4
"""Launches of a size that are judged while it is timed, beside those at the end."""
SHORTEST_HOLD = 200
"""Microseconds for which the device waits for a batch at first."""
MORE, SLACK = 1.5, 0.01
"""How many times as long a batch may take by the clock of this process as by the device's, and seconds beside that."""
LAUNCH = 1e-4
"""Seconds that the host needs for a launch at most."""
LIES = 3
"""Batches in a row for which the two clocks may differ by more: another program can delay one."""


@dataclass(frozen=True, slots=True)
class Timed:
    """What was measured of an entry for n bodies; ``wrong`` says why it does not count, and is empty where it does."""

    n: int
    measurement: Measurement | None
    wrong: str = ""

    @property
    def seconds(self) -> float | None:
        """The median of one evaluation."""
        return self.measurement.median_seconds if self.measurement else None


USUAL = (1024, 4096, 16384, 65536)
"""Numbers of bodies that an entry is timed at."""
LONGEST = 2.0
"""Seconds of an evaluation above which it is not timed: the next size would take far longer still."""


def all_timed(
    launcher: OnDevice, judgement: Judgement, sizes: Iterable[int], read: Callable[[], Reading | None]
) -> list[Timed]:
    """Measure an entry that was judged right at each of the sizes, in ascending order, until one is wrong or too long.

    Raises:
        InputError: the entry cannot be launched for one of the sizes, or one is above ``MOST_TIMED``.
    """
    entry, generator = judgement.entry, np.random.default_rng()
    timings: list[Timed] = []
    for n in sizes:
        if not 1 <= n <= MOST_TIMED:
            raise InputError(f"--n {n}; accepted: 1 to {MOST_TIMED:,}")
        if timings and (last := timings[-1]).seconds and last.seconds * (n / last.n) ** 2 > LONGEST:
            break
        timings.append(timed(launcher.loaded(entry), entry, n, judgement.tolerance, generator, read))
        if timings[-1].wrong:
            break
    return timings


def timed(
    loaded: Loaded,
    entry: Entry,
    n: int,
    tolerance: Tolerance,
    generator: np.random.Generator,
    read: Callable[[], Reading | None] = lambda: None,
    settings: Measure = SETTINGS,
) -> Timed:
    """Measure an entry for n bodies; ``read`` reads the device while it works.

    Raises:
        InputError: the entry cannot be launched for n bodies.
    """
    batches = Batches(loaded, entry, n, tolerance, generator)
    kernels = math.ceil(protocol.MOST_BATCH / batches.most)
    try:
        measurement = protocol.measure(
            batches, lambda: None, settings, read, kernels, batches.look, least_seconds=batches.least_seconds
        )
        batches.judge_following()
    except FaultError as error:
        return Timed(n, None, error.fault.sentence)
    seconds = measurement.median_seconds or math.inf
    if too_fast := above_ceiling(n, seconds, loaded.facts):
        return Timed(n, None, too_fast)
    return Timed(n, measurement)


def above_ceiling(n: int, seconds: float, facts: Mapping[str, Any]) -> str:
    """Say that it is faster than its device can compute; empty where it is not, or where nobody knows that."""
    if "hertz" not in facts:
        return ""
    most = A_CLOCK * facts["multiprocessors"] * facts["hertz"]
    return f"{n**2 / seconds:.3g} interactions/s are more than this device can compute" if n**2 / seconds > most else ""


@dataclass
class Batches:
    """A clock for ``protocol.measure``: each batch has new bodies, and of some the accelerations are judged."""

    loaded: Loaded
    entry: Entry
    n: int
    tolerance: Tolerance
    generator: np.random.Generator
    judged: int = 0
    _hold: int = SHORTEST_HOLD
    _lies: int = 0
    _sets: Sequence[Bodies] = ()
    _arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Make the bodies that those of all launches are made from."""
        self._first = generators.plummer(self.n, int(self.generator.integers(2**31)), EPS)

    @property
    def most(self) -> int:
        """Launches of a batch at most: as many as there are sets of bodies at once."""
        each = 8 * self.n * self.entry.real().nbytes
        return min(max(POOL_BYTES // each, FEWEST_SETS), MOST_SETS // len(self.entry.head.kernels))

    @property
    def least_seconds(self) -> float:
        """Seconds that a batch has to last, so that the device's clock can tell it apart."""
        return TICKS * (self.loaded.facts.get("resolution") or 0.0)

    def time(self, launch: Callable[[], None], count: int, while_busy: Callable[[], None]) -> Timing:  # noqa: ARG002
        """Time so many evaluations, each of bodies that no other has."""
        while True:
            self._place(count)
            calls = calls_of(self.entry, self._sets)
            began = perf_counter()
            answer = numbers_of(self.loaded.time(calls, self._hold))
            took = perf_counter() - began
            while_busy()
            launch_bound = not answer["held"] and answer["seconds"] <= 2 * answer["launch_seconds"]
            if not launch_bound or self._hold >= LONGEST_HOLD:
                break
            self._hold *= 2
        self._compare(answer["seconds"], took, 1e-6 * self._hold + min(answer["launch_seconds"], LAUNCH * len(calls)))
        return Timing(answer["seconds"] / count, answer["launch_seconds"] / count, launch_bound)

    def look(self, samples: int) -> bool:
        """Judge a launch of the last batch, for some of them; return whether it was done."""
        if self._arrays and self.judged < JUDGED and self.generator.random() < 1 / (1 + samples / 4):
            self.judge_any()
            return True
        return False

    def judge_following(self) -> None:
        """Judge a launch of the last batch, and one that certainly follows another, which may have left it something.

        Raises:
            FaultError: one is wrong, or wrote where it must not.
        """
        self.judge_any()
        if len(self._sets) < FEWEST_SETS:
            self.time(lambda: None, FEWEST_SETS, lambda: None)
        self._judge(len(self._sets) - 1)

    def judge_any(self) -> None:
        """Judge a launch of the last batch that nobody can foresee, and its bodies.

        Raises:
            FaultError: it is wrong, or wrote where it must not.
        """
        self._judge(int(self.generator.integers(len(self._sets))))

    def _judge(self, turn: int) -> None:
        inputs, outputs = (
            [suffixed(name, turn) for name in names] for names in (self.entry.inputs, self.entry.outputs)
        )
        after = self.loaded.read(self._arrays, [*inputs, *outputs], inputs)
        outputs_read = {name: after[suffixed(name, turn)] for name in self.entry.outputs}
        (computed,) = accelerations_of(self.entry, outputs_read, 1)
        if wrong := objection(self.entry, self._sets[turn], computed, self.tolerance, self.generator):
            raise FaultError("wrong", f"right before it was timed, but wrong while it was: {wrong}")
        self.judged += 1

    def _place(self, count: int) -> None:
        sets = [other_bodies(self._first, self.generator, near=False) for _ in range(count)]
        self._sets = [
            Bodies(each.mass, each.position, each.velocity, EPS * 2 ** self.generator.uniform(-1, 1)) for each in sets
        ]
        self._arrays = arrays_of(self.entry, self._sets)
        self.loaded.place(self._arrays)

    def _compare(self, by_device: float, by_host: float, beside: float) -> None:
        """Compare the two clocks: by the host's, a batch may take ``beside`` longer, and is never shorter."""
        wrong = by_device > by_host + SLACK or by_host > MORE * by_device + beside + SLACK
        self._lies = self._lies + 1 if wrong else 0
        if self._lies >= LIES:
            raise FaultError(
                "clock", f"a batch takes {by_host:.2g} s by the host's clock, and {by_device:.2g} s by the device's"
            )


def numbers_of(answer: Mapping[str, Any]) -> dict[str, float]:
    """Check what the process that launches says of a batch: not negative, finite, and all of it there.

    Raises:
        FaultError: something else came.
    """
    names = ("seconds", "launch_seconds", "held")
    values = {name: answer.get(name) for name in names}
    if not all(isinstance(value, int | float) and math.isfinite(value) and value >= 0 for value in values.values()):
        raise FaultError("crash", "the process that launches answered without times")
    return {name: float(value) for name, value in values.items() if value is not None}
