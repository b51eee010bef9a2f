"""How long a submission takes on a GPU, beside its rung: both as entries, timed in the same way one after the other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gravbench.judging.entry import Entry
from gravbench.judging.judgement import tolerance_of
from gravbench.judging.on_device import OnDevice
from gravbench.judging.timing import Timed, timed
from gravbench.learning.checking import Checked, rung_entry
from gravbench.learning.times import AS_FAST
from gravbench.model.device import Device
from gravbench.report.numbers import number
from gravbench.toolkits.devices import reader, sensor

BODIES = 65536


@dataclass(frozen=True)
class Beside:
    """What a submission and its rung took for n bodies on a device; ``wrong`` says why the submission has no time."""

    device: str
    n: int
    submission: Timed
    rung: Timed
    rung_name: str

    @property
    def wrong(self) -> str:
        """Why the submission was wrong while it was timed; empty where it was right."""
        return self.submission.wrong

    @property
    def ratio(self) -> float | None:
        """How many times as long as the rung it takes; None where one of them has no time."""
        if not self.submission.seconds or not self.rung.seconds:
            return None
        return self.submission.seconds / self.rung.seconds

    @property
    def sentence(self) -> str:
        """What came of it, and whether it is as fast as the rung."""
        if self.ratio is None:
            return f"not timed on {self.device}: {self.submission.wrong or self.rung.wrong}"
        mine, rung = (number(1e3 * (each.seconds or 0.0)) for each in (self.submission, self.rung))
        return (
            f"{mine} ms for {self.n:,} bodies on {self.device}, where {self.rung_name} takes {rung} ms: {self.verdict}"
        )

    @property
    def verdict(self) -> str:
        """Whether it is as fast as the rung, in words; empty where one of them has no time."""
        if self.ratio is None:
            return ""
        return "as fast" if self.ratio <= AS_FAST else f"{number(self.ratio)} times as long"


def times_beside(checked: Checked, device: Device, n: int = BODIES) -> Beside:
    """Time a submission that is right, and its rung, each in a process of its own.

    Raises:
        InputError: the device does not take one of them.
    """
    rung = rung_entry(checked.exercise.name)
    return Beside(device.name, n, _timed(checked.entry, device, n), _timed(rung, device, n), rung.path.stem)


def _timed(entry: Entry, device: Device, n: int) -> Timed:
    tolerance, _ = tolerance_of(entry, None)
    with sensor(device) as read, OnDevice(device) as launcher:
        return timed(
            launcher.loaded(entry), entry, n, tolerance, np.random.default_rng(), reader([read] if read else [])
        )
