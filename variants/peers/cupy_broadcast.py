"""All pairs as CuPy array operations, a block of rows at a time.

Against naive: no kernel is written by hand. Each operation is a kernel that reads its operands from global memory and
writes its result there, so an interaction moves 36 numbers that naive keeps in registers. Expected: memory-bound, and
two orders of magnitude slower than a kernel. Working on a block of rows limits the memory to seven arrays of rows x n
numbers.
"""

from gravbench.model.variant import variant
from gravbench.variants.common import layouts, ranges

OPERATIONS = 18
"""Kernels launched per block of rows."""


def cupy_kernel(cupy, real, *, ROWS):
    """Evaluate one block of rows after another, as numpy_direct does."""

    def cupy_broadcast(x, y, z, mass, ax, ay, az, n, eps2):
        for first in range(0, n, ROWS):
            block = slice(first, first + ROWS)
            dx = x - x[block, None]
            dy = y - y[block, None]
            dz = z - z[block, None]
            r2 = dx * dx + dy * dy + dz * dz + eps2
            strength = mass / (r2 * cupy.sqrt(r2))
            (strength * dx).sum(axis=1, out=ax[block])
            (strength * dy).sum(axis=1, out=ay[block])
            (strength * dz).sum(axis=1, out=az[block])

    return cupy_broadcast


@variant(
    parent="naive",
    source="CuPy's documentation: docs.cupy.dev, Basics of CuPy",
    axes={"rows": (256, 512, 1024, 2048, 4096)},
    defaults={"rows": 2048},
    ranges={"rows": ranges.COUNT},
)
def prepare(gpu, bodies, *, rows):
    """Use separate arrays of x, y, z and mass."""
    kernel = gpu.compile("cupy_broadcast", ROWS=rows)
    return layouts.over_arrays(gpu, bodies, kernel, kernels=OPERATIONS * -(-bodies.n // rows))
