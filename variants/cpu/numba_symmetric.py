"""Count each pair once: what body j does to i, i does to j with the other sign.

Against numba_parallel: half the distances and inverse square roots. Each core keeps sums of its own for all bodies,
because two cores must not add to one number; they are added up at the end. The inner loop now stores as well as
loads, so it is bound by the memory close to the core rather than by arithmetic.
"""

import os

import numpy as np

from harness.variant import Prepared, variant


def cpu_kernel(numba, real):
    """Compile the loop over pairs for all cores; ``sums`` has shape (cores, 3, n)."""

    @numba.njit(parallel=True, error_model="numpy", fastmath={"reassoc", "nsz", "arcp", "contract", "afn"})
    def numba_symmetric(x, y, z, mass, eps2, sums, accelerations):
        n = x.size
        cores = sums.shape[0]
        for core in numba.prange(cores):
            sx, sy, sz = sums[core, 0], sums[core, 1], sums[core, 2]
            sx[:] = real(0)
            sy[:] = real(0)
            sz[:] = real(0)
            # Every cores-th row, so that each core has short and long ones.
            for i in range(core, n, cores):
                xi, yi, zi, mi = x[i], y[i], z[i], mass[i]
                aix = aiy = aiz = real(0)
                for j in range(i + 1, n):
                    dx = x[j] - xi
                    dy = y[j] - yi
                    dz = z[j] - zi
                    inverse = real(1) / (dx * dx + dy * dy + dz * dz + eps2) ** real(0.5)
                    cube = inverse * inverse * inverse
                    on_i = mass[j] * cube
                    on_j = mi * cube
                    aix += on_i * dx
                    aiy += on_i * dy
                    aiz += on_i * dz
                    sx[j] -= on_j * dx
                    sy[j] -= on_j * dy
                    sz[j] -= on_j * dz
                sx[i] += aix
                sy[i] += aiy
                sz[i] += aiz
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
    """Give each core its own sums."""
    kernel = cpu.compile("numba_symmetric")
    columns = tuple(cpu.upload(column) for column in (*bodies.position.T, bodies.mass))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    sums = cpu.upload(np.zeros((cores, 3, bodies.n)))
    accelerations = cpu.empty(bodies.n, 3)
    eps2 = cpu.real(bodies.eps**2)
    return Prepared(lambda: kernel(*columns, eps2, sums, accelerations), columns, accelerations)
