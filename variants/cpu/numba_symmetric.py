"""Compute each pair once and add it to both bodies with opposite signs.

Against numba_parallel: half the distances and inverse square roots. Each core has separate sums for all bodies,
because two cores must not add to the same number; these are added up at the end. The inner loops now store as well as
load, three times per pair, and SIMD does not make that cheaper.
"""

import os

import numpy as np

from gravbench.model.variant import Prepared, variant

CHUNK = 2048
"""Partners per pass: their intermediate numbers stay in the first-level cache."""


def cpu_kernel(numba, real):
    """Compile the loop over pairs for all cores; ``sums`` has shape (cores, 3, n), ``cubes`` (cores, CHUNK).

    Three short loops, one per coordinate, instead of one that stores to three arrays: with so many arrays LLVM does not
    check whether they overlap, and then uses no SIMD.
    """
    fast = {"reassoc", "nsz", "arcp", "contract", "afn"}

    @numba.njit(error_model="numpy", fastmath=fast)
    def inverse_cubes(xi, yi, zi, x, y, z, eps2, cubes):
        for k in range(x.size):
            dx = x[k] - xi
            dy = y[k] - yi
            dz = z[k] - zi
            inverse = real(1) / (dx * dx + dy * dy + dz * dz + eps2) ** real(0.5)
            cubes[k] = inverse * inverse * inverse

    @numba.njit(error_model="numpy", fastmath=fast)
    def along_one_axis(xi, mi, x, mass, cubes, sums):
        total = real(0)
        for k in range(x.size):
            pull = cubes[k] * (x[k] - xi)
            total += mass[k] * pull
            sums[k] -= mi * pull
        return total

    @numba.njit(parallel=True, error_model="numpy", fastmath=fast)
    def numba_symmetric(x, y, z, mass, eps2, sums, cubes, accelerations):
        n = x.size
        cores = sums.shape[0]
        for core in numba.prange(cores):
            sx, sy, sz, cube = sums[core, 0], sums[core, 1], sums[core, 2], cubes[core]
            sx[:] = real(0)
            sy[:] = real(0)
            sz[:] = real(0)
            # Every ``cores``-th row, so that each core has short and long ones.
            for i in range(core, n, cores):
                xi, yi, zi, mi = x[i], y[i], z[i], mass[i]
                for first in range(i + 1, n, CHUNK):
                    last = min(first + CHUNK, n)
                    inverse_cubes(xi, yi, zi, x[first:last], y[first:last], z[first:last], eps2, cube)
                    sx[i] += along_one_axis(xi, mi, x[first:last], mass[first:last], cube, sx[first:last])
                    sy[i] += along_one_axis(yi, mi, y[first:last], mass[first:last], cube, sy[first:last])
                    sz[i] += along_one_axis(zi, mi, z[first:last], mass[first:last], cube, sz[first:last])
        for i in numba.prange(n):
            for number in range(3):
                total = real(0)
                for core in range(cores):
                    total += sums[core, number, i]
                accelerations[i, number] = total

    return numba_symmetric


@variant(
    parent="numba_parallel",
    source="Newton's third law: Elsen et al. 2006, as quoted by GPU Gems 3, section 31.5",
)
def prepare(cpu, bodies):
    """Allocate separate sums for each core."""
    kernel = cpu.compile("numba_symmetric")
    columns = tuple(cpu.upload(column) for column in (*bodies.position.T, bodies.mass))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    sums = cpu.upload(np.zeros((cores, 3, bodies.n)))
    cubes = cpu.upload(np.zeros((cores, CHUNK)))
    accelerations = cpu.empty(bodies.n, 3)
    eps2 = cpu.real(bodies.eps**2)
    return Prepared(lambda: kernel(*columns, eps2, sums, cubes, accelerations), columns, accelerations)
