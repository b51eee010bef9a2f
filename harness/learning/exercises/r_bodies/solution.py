"""gravbench entry
kernels:
  - {name: r_bodies, grid: 'ceil_div(n, P * R)', block: P, arguments: [bodies, accelerations, n, eps2]}
constants: {P: 64, R: 4, UNROLL: 4}
arrays: {bodies: bodies, accelerations: accelerations}
"""

import numpy as np
from numba import cuda
from numba.cuda.libdevice import rsqrtf

from gravbench.variants.common.body import load_row, store_row

# One load, or one store, of 16 bytes for a row of four numbers: load4(array, k) and store4(array, k, numbers).
load4, store4 = load_row(cuda, 4, 4), store_row(cuda, 4)
ZERO = np.float32(0)


@cuda.jit(device=True, fastmath=True)
def interact(a, i, j, eps2):
    """Add to a what body j does to body i, and return it: a body is x, y, z and mass."""
    dx, dy, dz = j[0] - i[0], j[1] - i[1], j[2] - i[2]
    inverse = rsqrtf(dx * dx + (dy * dy + (dz * dz + eps2)))
    strength = j[3] * inverse * inverse * inverse
    return a[0] + strength * dx, a[1] + strength * dy, a[2] + strength * dz


# A thread has R bodies, here four, so that one body read from shared memory serves R interactions.
@cuda.jit(fastmath=True)
def r_bodies(bodies, accelerations, n, eps2):
    tile = cuda.shared.array((P, 4), np.float32, 16)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * (P * R) + t  # and i + P, i + 2 P, i + 3 P
    self_0, self_1 = load4(bodies, min(i, n - 1)), load4(bodies, min(i + P, n - 1))
    self_2, self_3 = load4(bodies, min(i + 2 * P, n - 1)), load4(bodies, min(i + 3 * P, n - 1))
    a_0 = a_1 = a_2 = a_3 = (ZERO, ZERO, ZERO)
    for first in range(0, n, P):
        store4(tile, t, load4(bodies, first + t) if first + t < n else (ZERO, ZERO, ZERO, ZERO))
        cuda.syncthreads()
        for k in range(np.uint32(0), np.uint32(P), np.uint32(UNROLL)):
            for turn in range(np.uint32(UNROLL)):
                other = load4(tile, k + turn)
                a_0, a_1 = interact(a_0, self_0, other, eps2), interact(a_1, self_1, other, eps2)
                a_2, a_3 = interact(a_2, self_2, other, eps2), interact(a_3, self_3, other, eps2)
        cuda.syncthreads()
    if i < n:
        store4(accelerations, i, a_0)
    if i + P < n:
        store4(accelerations, i + P, a_1)
    if i + 2 * P < n:
        store4(accelerations, i + 2 * P, a_2)
    if i + 3 * P < n:
        store4(accelerations, i + 3 * P, a_3)
