"""Sum over a window of the bodies, a different one in each step, staged in tiles of p.

Against tiled: the tiles of a step cover a window instead of all bodies. approximate_global describes the approximation.
"""

import numpy as np

from gravbench.model.variant import Operations, variant
from gravbench.variants.common import body, layouts, mlir, ranges


def numba_kernel(cuda, real, interaction, *, P, UNROLL):
    """Twin of approximate_tiled.cu."""
    several = body.repeated(cuda, body.step_over_tile(cuda, real, interaction), UNROLL)
    load, store = body.load_row(cuda, 4, 4), body.store_row(cuda, 4)
    nobody, zero, alignment = (real(0),) * 4, body.no_sums(real, interaction), body.alignment(cuda)

    @cuda.jit(fastmath=True)
    def approximate_tiled(bodies, accelerations, n, eps2, first, last, scale):
        tile = cuda.shared.array((P, 4), real, alignment)
        thread = cuda.threadIdx.x
        i = cuda.blockIdx.x * P + thread
        own = load(bodies, min(i, n - 1))
        sums = zero
        for begin in range(first, last, P):
            j = begin + thread
            store(tile, thread, load(bodies, j) if j < last else nobody)
            cuda.syncthreads()
            for k in range(np.uint32(0), np.uint32(P), np.uint32(UNROLL)):
                sums = several(tile, k, own, eps2, sums)
            cuda.syncthreads()
        if i < n:
            store(accelerations, i, (scale * sums[0], scale * sums[1], scale * sums[2]))

    return approximate_tiled


mlir_kernel = mlir.twin(numba_kernel)


@variant(
    parent="tiled",
    source="Lee 2008, phase IV with the fractions of phase III",
    axes={
        "p": (64, 128, 256, 512),
        "unroll": (1, 2, 4, 8, 16, 32, 64, 128),
        "fraction": layouts.FRACTIONS,
    },
    defaults={"p": 256, "unroll": 32, "fraction": 0.5},
    ranges={"p": ranges.THREADS, "unroll": ranges.UNROLL, "fraction": ranges.FRACTION},
    when='p % unroll == 0 and (toolkit not in ["numba", "mlir"] or 128 % unroll == 0)',
    loads="fraction * n / p",
    approximates="a step counts a fraction of the pairs; a cycle of 1 / fraction steps counts each once",
    operations=Operations(
        staging=("tile[threadIdx.x] = j < last ? bodies[j] : Body{};",),
        contributions=("interact(sums, self, tile[k], eps2)",),
    ),
)
def prepare(gpu, bodies, *, p, unroll, fraction):
    """One thread per body, p threads per block."""
    return layouts.window_per_step(gpu, bodies, gpu.compile("approximate_tiled", P=p, UNROLL=unroll), p, fraction)
