"""Keep the rounding error of each addition and subtract it from the next (Kahan's compensated sum).

Against tiled: the rounding error of a sum no longer grows with the number of bodies; only that of the single
interactions remains. The cost is three more additions per component: 22 instructions per interaction instead of 13.
"""

import numpy as np

from gravbench.model.variant import variant
from gravbench.variants.common import body, layouts, ranges


def numba_kernel(cuda, real, interaction, *, P, UNROLL):
    """Twin of kahan.cu."""
    act, load = body.interact(cuda, real, interaction), body.load_row(cuda, 4, 4)
    store, alignment = body.store_row(cuda, 4), body.alignment(cuda)
    nothing, nobody = (real(0),) * 3, (real(0),) * 4

    # Without fastmath, which would let the compiler find that nothing is lost.
    @cuda.jit(device=True)
    def compensated(sum_, next_):
        larger = sum_ + next_
        return larger, (larger - sum_) - next_

    @cuda.jit(device=True, fastmath=True)
    def step(tile, k, own, eps2, state):
        (ax, ay, az), (lost_x, lost_y, lost_z) = state
        x, y, z = act((-lost_x, -lost_y, -lost_z), own, load(tile, k), eps2)
        ax, lost_x = compensated(ax, x)
        ay, lost_y = compensated(ay, y)
        az, lost_z = compensated(az, z)
        return (ax, ay, az), (lost_x, lost_y, lost_z)

    several = body.repeated(cuda, step, UNROLL)

    @cuda.jit(fastmath=True)
    def kahan(bodies, accelerations, n, eps2):
        tile = cuda.shared.array((P, 4), real, alignment)
        thread = cuda.threadIdx.x
        i = cuda.blockIdx.x * P + thread
        own = load(bodies, min(i, n - 1))
        state = (nothing, nothing)
        for first in range(0, n, P):
            j = first + thread
            store(tile, thread, load(bodies, j) if j < n else nobody)
            cuda.syncthreads()
            for k in range(np.uint32(0), np.uint32(P), np.uint32(UNROLL)):
                state = several(tile, k, own, eps2, state)
            cuda.syncthreads()
        if i < n:
            store(accelerations, i, state[0])

    return kahan


@variant(
    parent="tiled",
    source="Kahan 1965, Further remarks on reducing truncation errors",
    axes={"p": (32, 64, 128, 256, 512), "unroll": (1, 2, 4, 8, 16, 32)},
    defaults={"p": 256, "unroll": 16},
    ranges={"p": ranges.THREADS, "unroll": ranges.UNROLL},
    when='p % unroll == 0 and (toolkit != "numba" or 128 % unroll == 0)',
    loads="n / p",
)
def prepare(gpu, bodies, *, p, unroll):
    """One thread per body, p threads per block."""
    return layouts.one_thread_per_body(gpu, bodies, gpu.compile("kahan", P=p, UNROLL=unroll), p)
