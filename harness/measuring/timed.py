"""What is timed of a case: the force, a call, or a step (``step``)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gravbench.measuring.protocol import Clock
from gravbench.measuring.step import Stepper
from gravbench.model.case import Case
from gravbench.model.initial_conditions import Bodies
from gravbench.model.record import Stepping
from gravbench.model.variant import HostBodies, Lap, Prepared
from gravbench.toolkits import buffers
from gravbench.toolkits.interface import DeviceToolkit, Timing, time_on_host


class Timed(Protocol):
    """What the worker does with it: verify the force, ask for the objection, measure ``launch``, finish."""

    @property
    def clock(self) -> Clock:
        """What times it."""

    @property
    def kernels(self) -> int:
        """Kernels one ``launch`` puts in the device's queue, at least."""

    def launch(self) -> None:
        """Do once what is timed."""

    def stages(self, lap: Lap) -> None:
        """Do it once, its stages told apart; only of what is prepared with stages."""

    def objection(self) -> str | None:
        """Say what is wrong with it beside the force; None when it is right.

        Leaves the accelerations of the bodies as they were at first, to be judged.
        """

    def start(self) -> None:
        """Make ready for ``launch`` to be timed."""

    def finish(self, median_seconds: float) -> tuple[Stepping, str | None]:
        """Return what stepping gave, and what the last launches left wrong. Leaves what ``objection`` leaves."""


@dataclass(frozen=True, slots=True)
class Force:
    """The accelerations of all bodies, on the device."""

    clock: DeviceToolkit
    prepared: Prepared

    @property
    def kernels(self) -> int:
        """The kernels of the force."""
        return self.prepared.kernels

    def launch(self) -> None:
        """Evaluate the force."""
        self.prepared.launch()

    def stages(self, lap: Lap) -> None:
        """Evaluate the force, its stages told apart."""
        assert self.prepared.stages is not None
        self.prepared.stages(lap)

    def objection(self) -> str | None:
        """There is nothing beside the force."""
        return None

    def start(self) -> None:
        """Nothing has to be made ready."""

    def finish(self, median_seconds: float) -> tuple[Stepping, str | None]:  # noqa: ARG002
        """Nothing is left."""
        return Stepping(), None


def open_timed(case: Case, toolkit: DeviceToolkit, prepared: Prepared, bodies: Bodies) -> Timed:
    """Make what ``case.timed`` names ready for one prepared variant."""
    match case.timed:
        case "step":
            assert case.integrator is not None
            assert case.dt is not None
            return Stepper(toolkit, prepared, bodies, case.integrator, case.dt)
        case "call":
            return Call(toolkit, prepared, bodies)
        case _:
            return Force(toolkit, prepared)


class HostClock:
    """Times by ``perf_counter`` what has ended when it returns."""

    def time(self, launch: Callable[[], None], count: int, while_busy: Callable[[], None]) -> Timing:
        """Time ``count`` calls in a row."""
        return time_on_host(launch, count, while_busy)


class Call:
    """Bodies from host arrays to the device, the force, accelerations back.

    The host arrays have the kernel's number type and layout already, and the device's arrays are there: what is
    timed is the transfers and the force. On the CPU there is nothing to transfer but the bodies into the variant's
    own arrays.
    """

    def __init__(self, toolkit: DeviceToolkit, prepared: Prepared, bodies: HostBodies) -> None:
        """Lay the bodies out on the host as the variant has them on the device."""
        self.toolkit = toolkit
        self.prepared = prepared
        self.clock = HostClock()
        self.values = buffers.host_bodies(toolkit, prepared, bodies)
        self.returned: NDArray[Any] | tuple[NDArray[Any], ...] = ()

    @property
    def kernels(self) -> int:
        """The kernels of the force."""
        return self.prepared.kernels

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
        """Call once, its stages told apart."""
        assert self.prepared.stages is not None
        buffers.write_bodies(self.toolkit, self.prepared, self.values)
        self.prepared.stages(lap)

    def objection(self) -> str | None:
        """Fill the device's arrays with NaN and call: the bodies have to come in and the accelerations out."""
        spoilt = tuple(np.full_like(array, np.nan) for array in self.values)
        buffers.write_bodies(self.toolkit, self.prepared, spoilt)
        result = self.prepared.accelerations
        for array in result if isinstance(result, tuple) else (result,):
            self.toolkit.copy_in(array, np.full(array.shape, np.nan))
        self.launch()
        return self._wrong()

    def start(self) -> None:
        """Every call brings its own bodies."""

    def finish(self, median_seconds: float) -> tuple[Stepping, str | None]:  # noqa: ARG002
        """Look at what the last call returned."""
        return Stepping(), self._wrong()

    def _wrong(self) -> str | None:
        returned = np.column_stack(self.returned) if isinstance(self.returned, tuple) else self.returned
        # The worker judges the device's sums; those returned have to be the same to the last bit.
        device = buffers.sums(self.toolkit, self.prepared)
        if not np.array_equal(returned[:, : device.shape[1]], device):
            return "the accelerations returned to the host are not those of the device"
        return None
