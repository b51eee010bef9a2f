"""Give each thread r bodies, so that one body read from shared memory serves r interactions.

Against tiled: a thread keeps r bodies and their sums in registers. One load from shared memory serves r independent
interactions. A row of the tile begins with the mass, so that the two operands of a subtraction are in different
register banks.
"""

import numpy as np

from gravbench.model.variant import Operations, variant
from gravbench.variants.blocked import blocks, operations
from gravbench.variants.common import body, layouts, ranges


def numba_kernel(cuda, real, interaction, *, P, R, UNROLL, RESIDENT, MASS_FIRST):
    """Twin of register_blocked.cu with MASS_FIRST 1 and without RESIDENT: it sets no bound on registers."""
    several = body.repeated(cuda, blocks.pull_several(cuda, real, interaction, R), UNROLL)
    load, load_row, store_row = blocks.load_several(cuda, R, P), body.load_row(cuda, 4, 4), body.store_row(cuda, 4)
    store = blocks.store_several(cuda, R, P)
    zero, nobody, alignment = blocks.no_sums(real, R), (real(0),) * 4, body.alignment(cuda)

    @cuda.jit(fastmath=True)
    def register_blocked(bodies, accelerations, n, eps2):
        tile = cuda.shared.array((P, 4), real, alignment)
        thread = cuda.threadIdx.x
        i = cuda.blockIdx.x * (P * R) + thread
        own = load(bodies, i, n)
        sums = zero
        for first in range(0, n, P):
            j = first + thread
            x, y, z, mass = load_row(bodies, j) if j < n else nobody
            store_row(tile, thread, (mass, x, y, z))
            cuda.syncthreads()
            for k in range(np.uint32(0), np.uint32(P), np.uint32(UNROLL)):
                sums = several(tile, k, own, eps2, sums)
            cuda.syncthreads()
        store(accelerations, 0, i, n, sums)

    return register_blocked


@variant(
    parent="tiled",
    source="register blocking, common in matrix multiplication",
    axes={
        "p": (32, 64, 128, 256, 512),
        "r": (1, 2, 4, 8, 16),
        "unroll": (1, 2, 4, 8, 16, 32),
        "mass_first": (0, 1),
        "warps": blocks.WARPS,
    },
    defaults={"p": 128, "r": 4, "unroll": 8, "mass_first": 1, "warps": 0},
    ranges={"p": ranges.THREADS, "r": ranges.BODIES, "unroll": ranges.UNROLL, "warps": ranges.WARPS},
    # The Numba kernel is made by doubling, puts the mass first and leaves the number of registers to the compiler, as
    # WGSL does.
    when=(
        'p % unroll == 0 and (toolkit != "numba" or (128 % unroll == 0 and 32 % r == 0))'
        ' and (toolkit != "numba" or (mass_first == 1 and warps == 0)) and (toolkit != "wgpu" or warps == 0)'
    ),
    loads="n / (p * r)",
    operations=Operations(
        staging=("tile[thread] = first + thread < n ? row_of(bodies[first + thread]) : Row{};",),
        contributions=operations.ROWS,
    ),
)
def prepare(gpu, bodies, *, p, r, unroll, mass_first, warps):
    """Blocks of p threads for p * r bodies each."""
    resident = blocks.resident(p, blocks.warps_for(gpu.real, r, warps))
    kernel = gpu.compile("register_blocked", P=p, R=r, UNROLL=unroll, RESIDENT=resident, MASS_FIRST=mass_first)
    return layouts.one_thread_per_body(gpu, bodies, kernel, p * r, block=(p, 1))
