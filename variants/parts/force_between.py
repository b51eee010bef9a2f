"""Accelerate bodies i by bodies j, two separate sets: the kernel that ``gravbench.force`` launches."""

import math

import numpy as np


def numba_kernel(cuda, real, interaction, *, P):
    """Twin of force_between.cu."""

    @cuda.jit(fastmath=True)
    def force_between(xj, mj, xi, a, nj, ni, eps2):
        tile = cuda.shared.array((P, 4), real)
        thread = cuda.threadIdx.x
        i = cuda.blockIdx.x * P + thread
        own = min(i, ni - 1)
        x, y, z = xi[own, 0], xi[own, 1], xi[own, 2]
        ax = ay = az = real(0)
        for first in range(0, nj, P):
            j = first + thread
            for axis in range(3):
                tile[thread, axis] = xj[j, axis] if j < nj else real(0)
            tile[thread, 3] = mj[j] if j < nj else real(0)
            cuda.syncthreads()
            # Unsigned, because Numba tests at every access whether a signed index counts from the end.
            for k in range(np.uint32(P)):
                dx = tile[k, 0] - x
                dy = tile[k, 1] - y
                dz = tile[k, 2] - z
                inverse = real(1) / real(math.sqrt(dx * dx + (dy * dy + (dz * dz + eps2))))
                strength = tile[k, 3] * inverse * (inverse * inverse)
                ax += strength * dx
                ay += strength * dy
                az += strength * dz
            cuda.syncthreads()
        if i < ni:
            a[i, 0] = ax
            a[i, 1] = ay
            a[i, 2] = az

    return force_between


def cpu_kernel(numba, real, *, P):
    """Loop on every core; no tiles, so P has no effect."""

    @numba.njit(parallel=True, error_model="numpy", fastmath={"reassoc", "nsz", "arcp", "contract", "afn"})
    def force_between(xj, mj, xi, a, nj, ni, eps2):
        for i in numba.prange(ni):
            x, y, z = xi[i, 0], xi[i, 1], xi[i, 2]
            ax = ay = az = real(0)
            for j in range(nj):
                dx = xj[j, 0] - x
                dy = xj[j, 1] - y
                dz = xj[j, 2] - z
                inverse = real(1) / (dx * dx + dy * dy + dz * dz + eps2) ** real(0.5)
                strength = mj[j] * inverse * inverse * inverse
                ax += strength * dx
                ay += strength * dy
                az += strength * dz
            a[i, 0] = ax
            a[i, 1] = ay
            a[i, 2] = az

    return force_between
