"""What ``force`` checks a sample by on a GPU: sums over all bodies in float64, of arrays that stay on the device."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gravbench.model.variant import Kernel
from gravbench.toolkits.interface import CudaToolkit

BLOCK = 256
"""Threads per block."""
ROWS = 4
"""Rows that a block adds up together."""
BLOCKS = 1024
"""Blocks that fill a GPU: so many slices of the bodies are summed apart."""
LEAST_SLICE = 4 * BLOCK
"""Bodies of a slice, at least."""


class RowSums:
    """Adds up what all bodies do to some; keeps its arrays from one call to the next."""

    def __init__(self, toolkit: CudaToolkit, most_rows: int, *, beside: bool = False) -> None:
        """Compile, and allocate.

        Args:
            toolkit: opened for the part ``force_on_rows`` in float64; it ``queues_copies``.
            most_rows: as many rows are asked for at most.
            beside: add up in a stream of its own, for which the current one does not wait.
        """
        self._stream = toolkit.stream() if beside else None
        self.count = 0
        """The rows that were queued last."""
        self._toolkit = toolkit
        self._kernel: Kernel = toolkit.compile("force_on_rows", P=BLOCK, ROWS=ROWS)
        self._pulled = toolkit.host_array((most_rows, 3), np.float64, pinned=True)
        self._pulled_there = toolkit.device_array((most_rows, 3), np.float64)
        shape = max(most_rows, BLOCKS * ROWS), 3
        self._result = toolkit.host_array(shape, np.float64, pinned=True)
        self._result_there = toolkit.device_array(shape, np.float64)
        self._queued = self._result

    def queue(self, positions: Any, masses: Any, pulled: Any, eps2: float) -> None:
        """Add up in float64 what all bodies do to some, behind what is queued; ``wait`` returns it.

        Args:
            positions: of all bodies, shape (n, 3), float64 and contiguous on the device.
            masses: of all bodies, shape (n,), likewise.
            pulled: positions of some, shape (rows, 3), on the host or like the others.
            eps2: the softening length squared.
        """
        toolkit, stream, n = self._toolkit, self._stream, len(masses)
        self.count = count = len(pulled)
        if stream is not None:
            toolkit.follow(stream)
        if isinstance(pulled, np.ndarray):
            self._pulled[:count] = pulled
            toolkit.send(self._pulled_there, self._pulled[:count], stream)
            pulled = self._pulled_there
        groups = -(-count // ROWS)
        slices = max(1, min(BLOCKS // groups, n // LEAST_SLICE))
        sizes = np.int32(n), np.int32(count), np.int32(slices)
        arrays = positions, masses, pulled, self._result_there
        self._kernel(groups * slices, BLOCK, *arrays, *sizes, np.float64(eps2), stream=stream)
        self._queued = self._result[: slices * count]
        toolkit.fetch(self._queued, self._result_there, stream)

    def wait(self) -> NDArray[np.float64]:
        """Return the accelerations of the queued rows, shape (rows, 3)."""
        self._toolkit.wait(self._stream)
        sums: NDArray[np.float64] = self._queued.reshape(-1, self.count, 3).sum(axis=0)
        return sums
