"""Copies between NumPy arrays and those of a variant on a GPU through page-locked memory, which the device reads."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from gravbench.model.units import Scaled
from gravbench.model.variant import Prepared
from gravbench.toolkits.buffers import several
from gravbench.toolkits.interface import CudaToolkit


class Staging:
    """Page-locked arrays in the layout of what a variant has prepared, kept with it."""

    def __init__(self, toolkit: CudaToolkit, prepared: Prepared) -> None:
        """Allocate for a toolkit that ``queues_copies``, and contiguous arrays."""
        self._toolkit, self._prepared = toolkit, prepared
        self._bodies = self._like(prepared.bodies)
        self._sums = self._like(prepared.accelerations)

    def _like(self, arrays: Any) -> Any:
        if isinstance(arrays, tuple):
            return tuple(self._like(array) for array in arrays)
        return self._toolkit.host_array(arrays.shape, arrays.dtype, pinned=True)

    def send(self, scaled: Scaled) -> None:
        """Write the bodies and queue their copies.

        What the call before queued has ended: it waited for its result.
        """
        scaled.fill(self._bodies)
        for array, values in zip(several(self._prepared.bodies), several(self._bodies), strict=True):
            self._toolkit.send(array, values, None)

    def fetch(self) -> tuple[NDArray[Any], ...] | NDArray[Any]:
        """Copy the sums in the variant's layout, and wait; valid until the next call."""
        for values, array in zip(several(self._sums), several(self._prepared.accelerations), strict=True):
            self._toolkit.fetch(values, array, None)
        self._toolkit.wait(None)
        sums: tuple[NDArray[Any], ...] | NDArray[Any] = self._sums
        return sums
