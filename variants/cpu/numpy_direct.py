"""All pairs as NumPy array operations, a block of bodies at a time.

What a Python program does before any optimization. Working on a block of rows keeps the (rows, n) intermediate arrays
in the cache, instead of allocating n * n numbers at once.
"""

import numpy as np

from gravbench.model.variant import Prepared, variant

BLOCK_NUMBERS = 1 << 17
"""Numbers per intermediate array: half a megabyte in float32, so that the few in use at a time stay in the cache."""


@variant(parent=None, source="the formula of GPU Gems 3, section 31.2, in NumPy")
def prepare(cpu, bodies):
    """Evaluate one block of rows after another."""
    columns = x, y, z, mass = tuple(cpu.upload(column) for column in (*bodies.position.T, bodies.mass))
    eps2 = cpu.real(bodies.eps**2)
    accelerations = cpu.empty(bodies.n, 3)
    rows = max(1, BLOCK_NUMBERS // bodies.n)

    def launch():
        for first in range(0, bodies.n, rows):
            block = slice(first, first + rows)
            dx = x - x[block, None]
            dy = y - y[block, None]
            dz = z - z[block, None]
            r2 = dx * dx + dy * dy + dz * dz + eps2
            # r2 * sqrt(r2) would overflow float32 at distances of 1e13, where the pull itself does not.
            strength = mass / r2 / np.sqrt(r2)
            accelerations[block, 0] = np.einsum("ij,ij->i", strength, dx)
            accelerations[block, 1] = np.einsum("ij,ij->i", strength, dy)
            accelerations[block, 2] = np.einsum("ij,ij->i", strength, dz)

    return Prepared(launch, columns, accelerations)
