"""What ``force`` checks a sample by on a GPU: sums over all bodies in float64, of arrays that stay on the device."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gravbench.model.variant import Kernel, Prepared
from gravbench.toolkits import buffers
from gravbench.toolkits.interface import CudaToolkit

BLOCK = 256
"""Threads per block."""
ROWS = 4
"""Rows that a block adds up together."""
BLOCKS = 1024
"""Blocks that fill a GPU: so many slices of the bodies are summed apart."""
BESIDE = 2
"""Blocks per multiprocessor beside other kernels: two keep its units for float64 busy."""
LEAST_SLICE = 4 * BLOCK
"""Bodies of a slice, at least."""


class RowSums:
    """Adds up what all bodies of a prepared variant do to some of them; keeps its arrays from one call to the next."""

    def __init__(
        self, toolkit: CudaToolkit, prepared: Prepared, dtype: Any, n: int, most_rows: int, *, beside: bool = False
    ) -> None:
        """Compile for a layout, and allocate.

        Args:
            toolkit: opened for the part ``force_on_rows`` in float64; it ``queues_copies``.
            prepared: has n bodies on the device, and their accelerations.
            dtype: the number type of both.
            n: the bodies.
            most_rows: as many rows are asked for at most.
            beside: add up in a stream beside the current one, in so few blocks that other kernels have room.
        """
        self._stream = toolkit.stream() if beside else None
        self.count = 0
        """The rows that were queued last."""
        self._toolkit, self._prepared, self._n = toolkit, prepared, n
        arrays = prepared.bodies
        mass = arrays[3] if isinstance(arrays, tuple) else arrays[:, 3]
        self._columns = (*buffers.columns(arrays), mass, *buffers.columns(prepared.accelerations))
        self._kernel: Kernel = toolkit.compile(
            "force_on_rows",
            P=BLOCK,
            ROWS=ROWS,
            SINGLE=int(np.dtype(dtype) == np.float32),
            BODY_STRIDE=buffers.stride(arrays),
            PULL_STRIDE=buffers.stride(prepared.accelerations),
        )
        self._blocks = BESIDE * toolkit.multiprocessors if beside else BLOCKS
        self._slices = 1
        self._rows = toolkit.host_array(most_rows, np.int32, pinned=True)
        self._rows_there = toolkit.device_array(most_rows, np.int32)
        shape = most_rows + max(most_rows, self._blocks * ROWS), 3
        self._result = toolkit.host_array(shape, np.float64, pinned=True)
        self._result_there = toolkit.device_array(shape, np.float64)
        self._queued = self._result

    def queue(self, rows: NDArray[np.int64], eps2: float) -> None:
        """Add up what all bodies do to ``rows``, in float64, behind what is queued; ``wait`` returns it.

        Bodies and ``eps2`` are those that the variant has, rounded to its number type.
        """
        toolkit, stream = self._toolkit, self._stream
        self.count = count = len(rows)
        if stream is not None:
            toolkit.follow(stream)
        self._rows[:count] = rows
        toolkit.send(self._rows_there, self._rows[:count], stream)
        groups = -(-count // ROWS)
        self._slices = max(1, min(self._blocks // groups, self._n // LEAST_SLICE))
        sizes = np.int32(self._n), np.int32(count), np.int32(self._slices)
        arrays = *self._columns, self._rows_there, self._result_there
        self._kernel(groups * self._slices, BLOCK, *arrays, *sizes, np.float64(eps2), stream=stream)
        self._queued = self._result[: (1 + self._slices) * count]
        toolkit.fetch(self._queued, self._result_there, stream)

    def wait(self) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """Return the accelerations of the queued rows by the variant, and in float64, each of shape (rows, 3).

        Those of the variant are what it had computed by then.
        """
        self._toolkit.wait(self._stream)
        computed, *slices = self._queued.reshape(1 + self._slices, -1, 3)
        return computed.copy(), sum(slices[1:], slices[0].copy())
