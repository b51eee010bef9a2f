"""Stage a tile of p bodies in shared memory, which all p threads of the block then read.

Against float4: a block loads each body once for all its threads, so loads from global memory fall by p, and the
loop over the tile, its length now constant, can be unrolled.
"""

import numpy as np

from harness.variant import variant
from variants.all_pairs import body


def numba_kernel(cuda, real, *, P, UNROLL):
    """Twin of tiled.cu."""
    interact = body.interaction(cuda, real)
    alignment = body.alignment(cuda)

    @cuda.jit(device=True, fastmath=True)
    def one(tile, k, xi, yi, zi, eps2, ax, ay, az):
        return interact(ax, ay, az, xi, yi, zi, tile[k, 0], tile[k, 1], tile[k, 2], tile[k, 3], eps2)

    several = body.repeated(cuda, one, UNROLL)

    @cuda.jit(fastmath=True)
    def tiled(bodies, accelerations, n, eps2):
        tile = cuda.shared.array((P, 4), real, alignment)
        thread = cuda.threadIdx.x
        i = cuda.blockIdx.x * P + thread
        own = min(i, n - 1)
        xi, yi, zi = bodies[own, 0], bodies[own, 1], bodies[own, 2]
        ax = ay = az = real(0)
        for first in range(0, n, P):
            j = first + thread
            for number in range(4):
                tile[thread, number] = bodies[j, number] if j < n else real(0)
            cuda.syncthreads()
            for k in range(np.uint32(0), np.uint32(P), np.uint32(UNROLL)):
                ax, ay, az = several(tile, k, xi, yi, zi, eps2, ax, ay, az)
            cuda.syncthreads()
        if i < n:
            accelerations[i, 0] = ax
            accelerations[i, 1] = ay
            accelerations[i, 2] = az
            accelerations[i, 3] = real(0)

    return tiled


@variant(
    parent="float4",
    source="GPU Gems 3, section 31.3, listings 31-2 and 31-3",
    axes={"p": (32, 64, 128, 256, 512, 1024), "unroll": (1, 2, 4, 8, 16, 32, 64, 128)},
    defaults={"p": 256, "unroll": 32},
    when="unroll <= p",
)
def prepare(gpu, bodies, *, p, unroll):
    """One thread a body, p threads a block."""
    return body.one_thread_a_body(gpu, bodies, gpu.compile("tiled", P=p, UNROLL=unroll), p)
