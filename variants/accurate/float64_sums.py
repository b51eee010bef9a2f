"""Compute interactions in float32 and add them up in float64.

Against tiled: the terms of `batch` bodies are added in float32, and each such sum is added to a sum in float64. This
removes the rounding error of the long sum; that of the interactions and of the short sums remains.
"""

import numpy as np

from gravbench.model.variant import Operations, variant
from gravbench.variants.common import body, layouts, mlir, ranges


def numba_kernel(cuda, real, interaction, *, P, UNROLL, BATCH):
    """Twin of float64_sums.cu."""
    together = body.repeated(cuda, body.step_over_tile(cuda, real, interaction), BATCH)
    nothing = (real(0),) * 3

    @cuda.jit(device=True, fastmath=True)
    def batch(tile, k, own, eps2, total):
        ax, ay, az = together(tile, k * np.uint32(BATCH), own, eps2, nothing)
        return total[0] + np.float64(ax), total[1] + np.float64(ay), total[2] + np.float64(az)

    @cuda.jit(device=True)
    def sums_of(total):
        return real(total[0]), real(total[1]), real(total[2])

    several, begin = body.repeated(cuda, batch, UNROLL // BATCH), (np.float64(0),) * 3
    return body.over_tiles(cuda, real, several, begin, sums_of, threads=P, steps=P // BATCH, each=UNROLL // BATCH)


mlir_kernel = mlir.twin(numba_kernel)


@variant(
    parent="tiled",
    source="mixed precision, common in codes for collisional systems",
    axes={"p": (32, 64, 128, 256, 512), "unroll": (1, 2, 4, 8, 16, 32), "batch": (1, 2, 4, 8, 16, 32)},
    defaults={"p": 256, "unroll": 32, "batch": 1},
    ranges={"p": ranges.THREADS, "unroll": ranges.UNROLL, "batch": ranges.UNROLL},
    when='p % unroll == 0 and unroll % batch == 0 and (toolkit not in ["numba", "mlir"] or 128 % unroll == 0)',
    loads="n / p",
    dtypes=("float32",),
    mixed=True,
    operations=Operations(
        staging=("tile[thread] = first + thread < n ? bodies[first + thread] : Body{};",),
        contributions=("interact(sums, self, tile[batch + step], eps2)",),
    ),
)
def prepare(gpu, bodies, *, p, unroll, batch):
    """One thread per body, p threads per block."""
    return layouts.one_thread_per_body(gpu, bodies, gpu.compile("float64_sums", P=p, UNROLL=unroll, BATCH=batch), p)
