"""A device that cases run on, what it says of itself at one moment, and what was found of a toolkit on it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gravbench.model.variant import CPU

Kind = tuple[str, str | None, str]
"""What devices have in common on which a case may be measured alike: name, driver, family."""

HARMLESS = {"gpu idle", "clocks chosen by a user", "sync boost", "display clocks"}
"""Reasons for a lower clock that say nothing of the device: it had nothing to do, or somebody chose the clock."""


SOFTWARE = "software adapter"
"""Ends the name of a device that is a driver which computes on the processor."""


def is_software(device: str | None) -> bool:
    """Tell whether a device of this name is a driver that computes on the processor."""
    return device is not None and device.endswith(SOFTWARE)


@dataclass(frozen=True, slots=True)
class Device:
    """A device that cases run on. ``selector`` is what ``--device`` takes: ``cpu``, ``cuda:0``, ``cuda:1``, ...

    One of another host is ``HOST:cuda:0`` or ``HOST:cpu:0``. ``driver`` is the version of the driver, None
    of a processor.
    """

    selector: str
    name: str
    uuid: str | None = None
    driver: str | None = None

    @property
    def family(self) -> str:
        """The word that chooses devices of one driver, as in ``gravbench.toolkits.family``."""
        words = self.selector.split(":")[-2:]
        return CPU if CPU in words else words[0]

    @property
    def is_gpu(self) -> bool:
        """Whether it is a GPU."""
        return self.family != CPU

    @property
    def kind(self) -> Kind:
        """What it has in common with devices on which a case may be measured alike."""
        return self.name, self.driver, self.family


@dataclass(frozen=True, slots=True)
class CardKind:
    """What tables of measured times are chosen by: a name, such as NVIDIA H200, and None for what is not known."""

    name: str
    compute_capability: str | None = None
    multiprocessors: int | None = None

    def __str__(self) -> str:
        known = [
            f"compute capability {self.compute_capability}" if self.compute_capability else "",
            f"{self.multiprocessors} multiprocessors" if self.multiprocessors else "",
        ]
        return f"{self.name} ({', '.join(filter(None, known))})" if any(known) else self.name

    def distance(self, other: CardKind) -> tuple[bool, float, float]:
        """Return how unlike another it is: by name, then by compute capability, then by multiprocessors."""
        return (
            self.name != other.name,
            _apart(self.compute_capability, other.compute_capability),
            _apart(self.multiprocessors, other.multiprocessors),
        )


def _apart(first: str | int | None, second: str | int | None) -> float:
    return math.inf if first is None or second is None else abs(float(first) - float(second))


@dataclass(frozen=True, slots=True)
class Target:
    """What kernels are compiled for: an architecture such as ``sm_90``, or ``cpu``, and how many multiprocessors."""

    architecture: str
    multiprocessors: int


@dataclass(frozen=True, slots=True)
class Reading:
    """What a GPU says of itself at one moment; None for what it does not tell."""

    sm_clock_mhz: int | None
    power_watts: float | None
    temperature_celsius: int | None
    throttle_reasons: tuple[str, ...] | None
    joules: float | None = None
    """The energy counter, counted from an arbitrary start."""


def together(readings: Sequence[Reading]) -> Reading:
    """Make one of what several GPUs say that share an evaluation: the lowest clock, all of their power and energy."""
    reasons = [reading.throttle_reasons for reading in readings if reading.throttle_reasons is not None]
    return Reading(
        sm_clock_mhz=min(
            (reading.sm_clock_mhz for reading in readings if reading.sm_clock_mhz is not None), default=None
        ),
        power_watts=_total([reading.power_watts for reading in readings]),
        temperature_celsius=max(
            (reading.temperature_celsius for reading in readings if reading.temperature_celsius is not None),
            default=None,
        ),
        throttle_reasons=tuple(dict.fromkeys(reason for several in reasons for reason in several)) if reasons else None,
        joules=_total([reading.joules for reading in readings]),
    )


def _total(numbers: Sequence[float | None]) -> float | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found of one toolkit: ``usable`` after it has just run a kernel and the result was right.

    ``reason`` says how that is known, or why not and how to mend it.
    """

    toolkit: str
    version: str | None
    usable: bool
    reason: str
