"""What is timed of a case: a class for each of ``gravbench.model.quantities``, here or beside (``step``)."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from gravbench.measuring.protocol import Clock
from gravbench.model.bodies import Bodies
from gravbench.model.case import Case
from gravbench.model.quantities import QUANTITIES
from gravbench.model.record import Stepping
from gravbench.model.variant import Lap, Prepared
from gravbench.toolkits import buffers
from gravbench.toolkits.device_sums import DeviceSums
from gravbench.toolkits.interface import DeviceToolkit, Timing, time_on_host


@dataclass(frozen=True, slots=True)
class Subject:
    """A case whose variant is prepared for its bodies. ``device_sums`` adds up energies; where it is None, the CPU."""

    case: Case
    toolkit: DeviceToolkit
    prepared: Prepared
    bodies: Bodies
    device_sums: DeviceSums | None


class Timed:
    """The force, on the device, and what a session does with everything that is timed.

    The stages make it ``of_case``, verify the force, ask for the ``objection``, call ``start``, measure ``launch``, and
    call ``finish`` and ``stepping``.
    """

    def __init__(self, toolkit: DeviceToolkit, prepared: Prepared) -> None:
        """Take over what ``prepare`` returned."""
        self.toolkit = toolkit
        self.prepared = prepared
        self.clock: Clock = toolkit

    @classmethod
    def of_case(cls, subject: Subject) -> Timed:
        """Make what times a case ready for its prepared variant."""
        return cls(subject.toolkit, subject.prepared)

    @property
    def kernels(self) -> int:
        """Kernels one ``launch`` puts in the device's queue, at least."""
        return self.prepared.kernels

    def launch(self) -> None:
        """Do once what is timed."""
        self.prepared.launch()

    def stages(self, lap: Lap) -> None:
        """Do it once, its stages told apart; only of what is prepared with stages."""
        assert self.prepared.stages is not None
        self.prepared.stages(lap)

    @property
    def leaves_the_force(self) -> bool:
        """Whether each ``launch`` leaves the accelerations of the case's own bodies."""
        return True

    def objection(self) -> str | None:
        """Say what is wrong with it beside the force; None when it is right.

        The force has been launched last for the bodies as they were at first, which are on the device. Leaves the
        accelerations of these, to be judged.
        """
        return None

    def start(self) -> None:
        """Make ready for ``launch`` to be timed."""

    def finish(self) -> str | None:
        """Say what the last launches left wrong; None when it is right. Leaves what ``objection`` leaves."""
        return None

    def stepping(self) -> Stepping:
        """Return what stepping gave, after ``finish``; this uses no device."""
        return Stepping()


class HostClock:
    """Times by ``perf_counter`` what has ended when it returns."""

    def time(self, launch: Callable[[], None], count: int, while_busy: Callable[[], None]) -> Timing:
        """Time ``count`` calls in a row."""
        return time_on_host(launch, count, while_busy)


class Call(Timed):
    """Bodies from host arrays to the device, the force, accelerations back.

    The host arrays have the kernel's number type and layout already, and the device's arrays are there: what is
    timed is the transfers and the force. On the CPU there is nothing to transfer but the bodies into the variant's
    own arrays.
    """

    def __init__(self, toolkit: DeviceToolkit, prepared: Prepared, bodies: Bodies) -> None:
        """Lay the bodies out on the host as the variant has them on the device."""
        super().__init__(toolkit, prepared)
        self.bodies = bodies
        self.clock = HostClock()
        self.values = buffers.host_bodies(toolkit, prepared, bodies)
        self.returned: NDArray[Any] | tuple[NDArray[Any], ...] = ()

    @classmethod
    def of_case(cls, subject: Subject) -> Timed:
        return cls(subject.toolkit, subject.prepared, subject.bodies)

    def launch(self) -> None:
        """Call once; ``returned`` are the accelerations, in the layout they have on the device."""
        buffers.write_bodies(self.toolkit, self.prepared, self.values)
        self.prepared.launch()
        result = self.prepared.accelerations
        if isinstance(result, tuple):
            self.returned = tuple(self.toolkit.download(column) for column in result)
        else:
            self.returned = self.toolkit.download(result)

    def stages(self, lap: Lap) -> None:
        buffers.write_bodies(self.toolkit, self.prepared, self.values)
        super().stages(lap)

    def objection(self) -> str | None:
        # With NaN in the device's arrays, the bodies have to come in and the accelerations out.
        spoilt = tuple(np.full_like(array, np.nan) for array in self.values)
        buffers.write_bodies(self.toolkit, self.prepared, spoilt)
        buffers.spoil(self.toolkit, self.prepared, self.bodies)
        self.launch()
        return self._wrong()

    def finish(self) -> str | None:
        return self._wrong()

    def _wrong(self) -> str | None:
        returned = np.column_stack(self.returned) if isinstance(self.returned, tuple) else self.returned
        # The session judges the device's sums; those returned have to be the same to the last bit.
        device = buffers.sums(self.toolkit, self.prepared)
        if not np.array_equal(returned[:, : device.shape[1]], device):
            return "the accelerations returned to the host are not those on the device"
        return None


def timer(name: str) -> type[Timed]:
    """Return the class that times a quantity; its module is imported only where it is timed."""
    module, _, kind = QUANTITIES[name].timer.partition(".")
    return cast("type[Timed]", getattr(importlib.import_module(f"gravbench.measuring.{module}"), kind))
