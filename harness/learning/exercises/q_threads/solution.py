"""gravbench entry
kernels:
  - {name: q_threads, grid: 'ceil_div(n, P)', block: [P, Q], arguments: [bodies, accelerations, n, eps2]}
constants: {P: 32, Q: 8, UNROLL: 8}
arrays: {bodies: bodies, accelerations: accelerations}
"""

import numpy as np
from numba import cuda
from numba.cuda.libdevice import rsqrtf

from gravbench.variants.common.body import load_row, store_row

# One load, or one store, of 16 bytes for a row of four numbers: load4(array, k) and store4(array, k, numbers).
load4, store4 = load_row(cuda, 4, 4), store_row(cuda, 4)
ZERO = np.float32(0)
TILE = P * Q


@cuda.jit(device=True, fastmath=True)
def interact(a, i, j, eps2):
    """Add to a what body j does to body i, and return it: a body is x, y, z and mass."""
    dx, dy, dz = j[0] - i[0], j[1] - i[1], j[2] - i[2]
    inverse = rsqrtf(dx * dx + (dy * dy + (dz * dz + eps2)))
    strength = j[3] * inverse * inverse * inverse
    return a[0] + strength * dx, a[1] + strength * dy, a[2] + strength * dz


# Q threads share the work on one body: each adds up its part of every tile, and the first joins their Q sums.
@cuda.jit(fastmath=True)
def q_threads(bodies, accelerations, n, eps2):
    tile = cuda.shared.array((TILE, 4), np.float32, 16)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    thread = y * P + x
    part = np.uint32(y * P)
    i = cuda.blockIdx.x * P + x  # the Q threads with the same x have the same body
    self = load4(bodies, min(i, n - 1))
    a = (ZERO, ZERO, ZERO)
    for first in range(0, n, TILE):
        j = first + thread
        store4(tile, thread, load4(bodies, j) if j < n else (ZERO, ZERO, ZERO, ZERO))  # without mass it adds nothing
        cuda.syncthreads()
        for k in range(np.uint32(0), np.uint32(P), np.uint32(UNROLL)):
            for turn in range(np.uint32(UNROLL)):
                a = interact(a, self, load4(tile, part + k + turn), eps2)
        cuda.syncthreads()
    store4(tile, thread, a)
    cuda.syncthreads()
    if y == 0 and i < n:
        for other in range(1, Q):
            b = load4(tile, other * P + x)
            a = (a[0] + b[0], a[1] + b[1], a[2] + b[2])
        store4(accelerations, i, a)
