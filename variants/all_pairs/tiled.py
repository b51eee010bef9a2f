"""Stage a tile of p bodies in shared memory, from which all p threads of the block read.

Against float4: a block loads each body once for all its threads, so global loads fall by a factor of p. The loop over
the tile now has a constant length and can be unrolled. Two axes change only the order of the work and show whether it
matters: blocks of 16 x 16 threads, and blocks that begin at different tiles.
"""

import numpy as np

from gravbench.model.variant import Operations, variant
from gravbench.variants.common import body, layouts, mlir, ranges


def numba_kernel(cuda, real, interaction, *, P, UNROLL, COLUMNS, STAGGER):
    """Twin of tiled.cu."""
    step = body.step_over_tile(cuda, real, interaction)
    several = body.repeated(cuda, step, UNROLL)
    width, zero, alignment = interaction.body_width, body.no_sums(real, interaction), body.alignment(cuda)
    load, store_body = body.load_row(cuda, width, len(interaction.body)), body.store_row(cuda, width)
    store_sums = body.store_row(cuda, interaction.sums_width)

    @cuda.jit(fastmath=True)
    def tiled(bodies, accelerations, n, eps2):
        tile = cuda.shared.array((P, width), real, alignment)
        thread = cuda.threadIdx.x if COLUMNS == P else cuda.threadIdx.y * COLUMNS + cuda.threadIdx.x
        i = cuda.blockIdx.x * P + thread
        own = load(bodies, min(i, n - 1))
        sums = zero
        for first in range(0, n, P):
            begin = first
            if STAGGER:
                begin += cuda.blockIdx.x * P
                if begin >= cuda.gridDim.x * P:
                    begin -= cuda.gridDim.x * P
            j = begin + thread
            if j < n:
                store_body(tile, thread, load(bodies, j))
            cuda.syncthreads()
            if n - begin >= P:
                for k in range(np.uint32(0), np.uint32(P), np.uint32(UNROLL)):
                    sums = several(tile, k, own, eps2, sums)
            else:
                for k in range(np.uint32(n - begin)):
                    sums = step(tile, k, own, eps2, sums)
            cuda.syncthreads()
        if i < n:
            store_sums(accelerations, i, sums)

    return tiled


mlir_kernel = mlir.twin(numba_kernel)


@variant(
    parent="float4",
    source="GPU Gems 3, section 31.3, listings 31-2 and 31-3; Lee 2008, phase IV and its 16 x 16 blocks",
    axes={
        "p": (16, 32, 64, 128, 256, 512, 1024),
        "unroll": (1, 2, 4, 8, 16, 32, 64, 128),
        "block_shape": ("1d", "16x16"),
        "stagger": (0, 1),
    },
    defaults={"p": 256, "unroll": 32, "block_shape": "1d", "stagger": 0},
    ranges={"p": ranges.THREADS, "unroll": ranges.UNROLL},
    when=(
        'p % unroll == 0 and (block_shape == "1d" or p == 256)'
        ' and (toolkit not in ["numba", "mlir"] or 128 % unroll == 0)'
        # Blocks of WebGPU are numbered in one row.
        ' and (toolkit != "wgpu" or block_shape == "1d")'
    ),
    loads="n / p",
    any_interaction=True,
    operations=Operations(
        staging=("if (begin + thread < n) tile[thread] = bodies[begin + thread];",),
        contributions=("interact(sums, self, tile[k], eps2)",),
    ),
)
def prepare(gpu, bodies, *, p, unroll, block_shape, stagger):
    """One thread per body, p threads per block."""
    columns = 16 if block_shape == "16x16" else p
    kernel = gpu.compile("tiled", P=p, UNROLL=unroll, COLUMNS=columns, STAGGER=stagger)
    return layouts.one_thread_per_body(gpu, bodies, kernel, p, block=(columns, p // columns))
