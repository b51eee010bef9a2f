"""Compute interactions in float32 and add them up in float64.

Against tiled: the terms of `batch` bodies are added in float32, and each such sum is added to a sum in float64. The
rounding error of the long sum disappears; that of the interactions and of the short sums remains.
"""

import numpy as np

from gravbench.model.variant import variant
from gravbench.variants.common import body, layouts, ranges


def numba_kernel(cuda, real, interaction, *, P, UNROLL, BATCH):
    """Twin of float64_sums.cu."""
    together = body.repeated(cuda, body.step_over_tile(cuda, real, interaction), BATCH)
    load, store, alignment = body.load_row(cuda, 4, 4), body.store_row(cuda, 4), body.alignment(cuda)
    nothing, nobody = (real(0),) * 3, (real(0),) * 4

    @cuda.jit(device=True, fastmath=True)
    def batch(tile, k, own, eps2, total):
        ax, ay, az = together(tile, k * np.uint32(BATCH), own, eps2, nothing)
        return total[0] + np.float64(ax), total[1] + np.float64(ay), total[2] + np.float64(az)

    several = body.repeated(cuda, batch, UNROLL // BATCH)

    @cuda.jit(fastmath=True)
    def float64_sums(bodies, accelerations, n, eps2):
        tile = cuda.shared.array((P, 4), real, alignment)
        thread = cuda.threadIdx.x
        i = cuda.blockIdx.x * P + thread
        own = load(bodies, min(i, n - 1))
        total = (np.float64(0), np.float64(0), np.float64(0))
        for first in range(0, n, P):
            j = first + thread
            store(tile, thread, load(bodies, j) if j < n else nobody)
            cuda.syncthreads()
            for k in range(np.uint32(0), np.uint32(P // BATCH), np.uint32(UNROLL // BATCH)):
                total = several(tile, k, own, eps2, total)
            cuda.syncthreads()
        if i < n:
            store(accelerations, i, (real(total[0]), real(total[1]), real(total[2])))

    return float64_sums


@variant(
    parent="tiled",
    source="mixed precision, common in codes for collisional systems",
    axes={"p": (32, 64, 128, 256, 512), "unroll": (1, 2, 4, 8, 16, 32), "batch": (1, 2, 4, 8, 16, 32)},
    defaults={"p": 256, "unroll": 32, "batch": 1},
    ranges={"p": ranges.THREADS, "unroll": ranges.UNROLL, "batch": ranges.UNROLL},
    when='p % unroll == 0 and unroll % batch == 0 and (toolkit != "numba" or 128 % unroll == 0)',
    loads="n / p",
    dtypes=("float32",),
    mixed=True,
)
def prepare(gpu, bodies, *, p, unroll, batch):
    """One thread per body, p threads per block."""
    return layouts.one_thread_per_body(gpu, bodies, gpu.compile("float64_sums", P=p, UNROLL=unroll, BATCH=batch), p)
