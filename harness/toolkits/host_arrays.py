"""NumPy arrays on a GPU and back at the speed of the bus: copied as they are, and converted on the device.

The host reads the caller's arrays once, large ones on four threads, on their way into page-locked memory. Kernels find
their extent, write the bodies of a variant in its units and layout, and its accelerations in the caller's.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gravbench.model import units
from gravbench.model.blocks import in_blocks
from gravbench.model.units import Extent, Scaled
from gravbench.model.variant import Dtype, Kernel, Prepared
from gravbench.toolkits import buffers
from gravbench.toolkits.interface import CudaToolkit

BLOCK = 256
"""Threads per block."""
MOST_BLOCKS = 256
"""Of a kernel that finds something: each writes a row of numbers, of which the host takes the least."""
ALONE = 1 << 17
"""Rows that one thread copies in less time than others take to begin."""
COPIES = 4
"""Blocks of more rows, a thread each: more threads copy no faster, and each block wakes this one."""
NONE = np.float64(np.inf)
"""What is the least of nothing."""


class HostBodies:
    """Positions and masses of the host as float64 on the device, ``there``, and their ``extent``; keeps its arrays."""

    def __init__(self, toolkit: CudaToolkit, n: int) -> None:
        """Allocate for n bodies; the toolkit is opened for the part ``lay_out_bodies``, and ``queues_copies``."""
        self._toolkit, self.n = toolkit, n
        shapes = (n, 3), (n,)
        self._here = [toolkit.host_array(shape, np.float64, pinned=True) for shape in shapes]
        positions, masses = (toolkit.device_array(shape, np.float64) for shape in shapes)
        self.there = positions, masses
        self._extents = _Least(toolkit, n, 9)
        self._kernel = _compiled(toolkit, "extent_of_bodies", np.float64)
        self._scale = _compiled(toolkit, "scale_bodies", np.float64)
        self.extent: Extent | None = None

    def copy(self, positions: NDArray[Any], masses: NDArray[Any]) -> None:
        """Queue copies to the device, of each block of rows as soon as it is read; their ``extent`` is not known then.

        The copies before have ended: who queued them waited for a result.
        """
        self.extent = None
        pairs = list(zip((positions, masses), self._here, strict=True))

        def read(part: slice) -> slice:
            with np.errstate(invalid="ignore"):
                for values, here in pairs:
                    here[part] = values[part]
            return part

        for part in in_blocks(self.n, read, alone=ALONE, blocks=COPIES):
            for here, there in zip(self._here, self.there, strict=True):
                self._toolkit.send(there[part], here[part], None)

    def send(self, positions: NDArray[Any], masses: NDArray[Any]) -> None:
        """Copy to the device, and wait for the ``extent`` that is found there."""
        self.copy(positions, masses)
        extents = self._extents
        self._kernel(extents.blocks, BLOCK, *self.there, extents.there, np.int32(self.n), NONE)
        extents.queue()
        self._toolkit.wait(None)
        least = extents.least()
        smallest, largest, lightest = least[6:].tolist()
        self.extent = Extent(least[:3], -least[3:6], smallest, -largest, lightest)

    def scale(self, scaled: Scaled) -> None:
        """Queue a kernel that brings what was copied to units of about 1."""
        origin = np.zeros(3) if scaled.origin is None else scaled.origin
        scale = map(np.float64, (*origin, 1 / scaled.length, scaled.mass))
        self._scale(-(-self.n // BLOCK), BLOCK, *self.there, np.int32(self.n), *scale)


class Crossing:
    """Between ``HostBodies`` and what a variant has prepared, with which it is kept.

    ``there`` are the accelerations of the last launch on the device, shape (n, 3).
    """

    def __init__(self, toolkit: CudaToolkit, prepared: Prepared, dtype: Any, n: int) -> None:
        """Allocate for the n bodies of a variant in a number type; the toolkit is that of ``HostBodies``."""
        self._toolkit, self._prepared, self.n = toolkit, prepared, n
        bodies = prepared.bodies
        mass = bodies[3] if isinstance(bodies, tuple) else bodies[:, 3]
        self._bodies = *buffers.columns(bodies), mass, np.int32(buffers.stride(bodies)), np.int32(n)
        pulls = prepared.accelerations
        self._pulls = *buffers.columns(pulls), np.int32(buffers.stride(pulls))
        self._lay_out = _compiled(toolkit, "lay_out_bodies", dtype)
        self._as_rows = _compiled(toolkit, "accelerations_as_rows", dtype)
        self._here = toolkit.host_array((n, 3), dtype, pinned=True)
        self.there = toolkit.device_array((n, 3), dtype)
        self._ends = _Least(toolkit, n, 2)
        self.is_in_units, self._power = False, 0
        self._copied: NDArray[Any] | None = None

    def lay_out(self, bodies: HostBodies) -> None:
        """Queue a kernel that writes the bodies of the variant, which are scaled."""
        self._lay_out(-(-self.n // BLOCK), BLOCK, *bodies.there, *self._bodies)

    def launch(self, scaled: Scaled, dtype: Dtype) -> None:
        """Launch the variant, and what writes its accelerations as rows in the caller's units; ``end`` copies them."""
        self._prepared.launch()
        self._copied = None
        self._power = units.exponent(scaled.mass, scaled.length)
        self._write(units.power_of_two(self._power, dtype))

    def end(self, scaled: Scaled, dtype: Dtype) -> None:
        """Copy the rows to the host, and wait.

        The rows are in the caller's units, and ``is_in_units`` tells that, if the device has all their digits: it makes
        zero of what is not normal. Otherwise they are as the variant has them.
        """
        self._fetch()
        smallest, largest = self._ends.least().tolist()
        self.is_in_units = not scaled.lost(dtype) and units.keeps_digits(dtype, self._power, smallest, -largest)
        if not self.is_in_units:
            self._power = 0
            self._write(1.0)
            self._fetch()

    def _fetch(self) -> None:
        self._ends.queue()
        self._toolkit.fetch(self._here, self.there, None)
        self._toolkit.wait(None)

    def _write(self, unit: float) -> None:
        """Write accelerations times a unit, and find the sizes without it of the smallest but zero and the largest."""
        ends = self._ends
        self._as_rows(
            ends.blocks, BLOCK, *self._pulls, self.there, ends.there, np.int32(self.n), np.float64(unit), NONE
        )

    def copy(self) -> None:
        """Copy the accelerations into a new array, while the device does what is queued."""
        self._copied = copied = np.empty(self._here.shape, self._here.dtype)

        def write(part: slice) -> None:
            copied[part] = self._here[part]

        deque(in_blocks(self.n, write, alone=ALONE, blocks=COPIES), maxlen=0)

    def sample(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return some of the accelerations that ``copy`` has copied, as the variant has them."""
        assert self._copied is not None
        sample: NDArray[np.float64] = np.ldexp(self._copied[rows].astype(np.float64), -self._power)
        return sample

    def rows(self) -> NDArray[Any]:
        """Return the accelerations in an array that nothing here uses again; a copy, unless there is one of them."""
        if self._copied is None:
            self.copy()
        rows, self._copied = self._copied, None
        assert rows is not None
        return rows


class _Least:
    """Rows of numbers that the blocks of a kernel write, the least of each column of which is looked for."""

    def __init__(self, toolkit: CudaToolkit, n: int, columns: int) -> None:
        self._toolkit = toolkit
        self.blocks = min(-(-n // BLOCK), MOST_BLOCKS)
        self._here = toolkit.host_array((self.blocks, columns), np.float64, pinned=True)
        self.there = toolkit.device_array((self.blocks, columns), np.float64)

    def queue(self) -> None:
        """Queue the copy of what the kernel writes."""
        self._toolkit.fetch(self._here, self.there, None)

    def least(self) -> NDArray[np.float64]:
        """Return the least of each column, NaN where one of it is, once the copy has ended."""
        least: NDArray[np.float64] = self._here.min(axis=0)
        return least


def _compiled(toolkit: CudaToolkit, kernel: str, dtype: Any) -> Kernel:
    return toolkit.compile(kernel, P=BLOCK, SINGLE=int(np.dtype(dtype) == np.float32))
