"""``timed: call``: host arrays in, host arrays out, the transfers included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness import buffers
from harness.toolkits.interface import DeviceToolkit, Timing, time_on_host
from harness.variant import HostBodies, Lap, Prepared


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
        """Those of the force."""
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

    def finish(self, median_seconds: float) -> tuple[dict[str, Any], str | None]:  # noqa: ARG002
        """Look at what the last call returned."""
        return {}, self._wrong()

    def _wrong(self) -> str | None:
        returned = np.column_stack(self.returned) if isinstance(self.returned, tuple) else self.returned
        # The worker judges the device's sums; those returned have to be the same to the last bit.
        device = buffers.sums(self.toolkit, self.prepared)
        if not np.array_equal(returned[:, : device.shape[1]], device):
            return "the accelerations returned to the host are not those of the device"
        return None
