"""Let q threads share the work on one body, and add up what each of them found.

Against tiled: a block has p * q threads for p bodies, so that a few thousand bodies fill a device that has room for
a hundred thousand threads; their q sums meet in shared memory at the end.
"""

import numpy as np

from harness.variant import variant
from variants.all_pairs import body


def numba_kernel(cuda, real, *, P, Q, UNROLL):
    """Twin of split.cu."""
    several = body.repeated(cuda, body.step_over_tile(cuda, real), UNROLL)
    alignment = body.alignment(cuda)
    threads = P * Q

    @cuda.jit(fastmath=True)
    def split(bodies, accelerations, n, eps2):
        tile = cuda.shared.array((threads, 4), real, alignment)
        x, y = cuda.threadIdx.x, cuda.threadIdx.y
        thread = y * P + x
        i = cuda.blockIdx.x * P + x
        own = min(i, n - 1)
        xi, yi, zi = bodies[own, 0], bodies[own, 1], bodies[own, 2]
        part = np.uint32(y * P)
        ax = ay = az = real(0)
        for first in range(0, n, threads):
            j = first + thread
            for number in range(4):
                tile[thread, number] = bodies[j, number] if j < n else real(0)
            cuda.syncthreads()
            for k in range(np.uint32(0), np.uint32(P), np.uint32(UNROLL)):
                ax, ay, az = several(tile, part + k, xi, yi, zi, eps2, ax, ay, az)
            cuda.syncthreads()
        tile[thread, 0] = ax
        tile[thread, 1] = ay
        tile[thread, 2] = az
        cuda.syncthreads()
        if y == 0 and i < n:
            for other in range(1, Q):
                ax += tile[other * P + x, 0]
                ay += tile[other * P + x, 1]
                az += tile[other * P + x, 2]
            accelerations[i, 0] = ax
            accelerations[i, 1] = ay
            accelerations[i, 2] = az
            accelerations[i, 3] = real(0)

    return split


@variant(
    parent="tiled",
    source="GPU Gems 3, section 31.4.2 and figure 31-8; 3dgep, the SDK's multi-threaded bodies",
    axes={"p": (16, 32, 64, 128, 256), "q": (1, 2, 4, 8, 16), "unroll": (1, 2, 4, 8, 16, 32, 64, 128)},
    defaults={"p": 64, "q": 8, "unroll": 32},
    when="p * q <= 1024 and unroll <= p",
    loads="n / p",
)
def prepare(gpu, bodies, *, p, q, unroll):
    """Blocks of p x q threads, each block p bodies."""
    kernel = gpu.compile("split", P=p, Q=q, UNROLL=unroll)
    return body.one_thread_a_body(gpu, bodies, kernel, p, block=(p, q))
