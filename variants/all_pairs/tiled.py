"""Stage a tile of p bodies in shared memory, from which all p threads of the block read.

Against float4: a block loads each body once for all its threads, so global loads fall by a factor of p. The loop over
the tile now has a constant length and can be unrolled.
"""

import numpy as np

from gravbench.model.variant import Operations, variant
from gravbench.variants.common import body, layouts, mlir, ranges


def numba_kernel(cuda, real, interaction, *, P, UNROLL):
    """Twin of tiled.cu."""
    step = body.step_over_tile(cuda, real, interaction)
    several = body.repeated(cuda, step, UNROLL)
    width, zero, alignment = interaction.body_width, body.no_sums(real, interaction), body.alignment(cuda)
    load, store_body = body.load_row(cuda, width, len(interaction.body)), body.store_row(cuda, width)
    store_sums = body.store_row(cuda, interaction.sums_width)

    @cuda.jit(fastmath=True)
    def tiled(bodies, accelerations, n, eps2):
        tile = cuda.shared.array((P, width), real, alignment)
        thread = cuda.threadIdx.x
        i = cuda.blockIdx.x * P + thread
        own = load(bodies, min(i, n - 1))
        sums = zero
        for first in range(0, n, P):
            j = first + thread
            if j < n:
                store_body(tile, thread, load(bodies, j))
            cuda.syncthreads()
            if n - first >= P:
                for k in range(np.uint32(0), np.uint32(P), np.uint32(UNROLL)):
                    sums = several(tile, k, own, eps2, sums)
            else:
                for k in range(np.uint32(n - first)):
                    sums = step(tile, k, own, eps2, sums)
            cuda.syncthreads()
        if i < n:
            store_sums(accelerations, i, sums)

    return tiled


mlir_kernel = mlir.twin(numba_kernel)


@variant(
    parent="float4",
    source="GPU Gems 3, section 31.3, listings 31-2 and 31-3; Lee 2008, phase IV",
    axes={"p": (16, 32, 64, 128, 256, 512, 1024), "unroll": (1, 2, 4, 8, 16, 32, 64, 128)},
    defaults={"p": 256, "unroll": 32},
    former={"block_shape": "1d", "stagger": 0},
    moved={"block_shape": "lee_tiled", "stagger": "staggered"},
    ranges={"p": ranges.THREADS, "unroll": ranges.UNROLL},
    when='p % unroll == 0 and (toolkit not in ["numba", "mlir"] or 128 % unroll == 0)',
    loads="n / p",
    any_interaction=True,
    operations=Operations(
        staging=("if (j < n) tile[threadIdx.x] = bodies[j];",),
        contributions=("interact(sums, self, tile[k], eps2)",),
    ),
)
def prepare(gpu, bodies, *, p, unroll):
    """One thread per body, p threads per block."""
    return layouts.one_thread_per_body(gpu, bodies, gpu.compile("tiled", P=p, UNROLL=unroll), p)
