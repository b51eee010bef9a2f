"""gravbench entry
kernels:
  - {name: tiles, grid: 'ceil_div(n, P)', block: P, arguments: [bodies, accelerations, n, eps2]}
constants: {P: 128}
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


# Each thread reads each body from global memory. Your part: let the block load tiles of P bodies into shared memory.
@cuda.jit(fastmath=True)
def tiles(bodies, accelerations, n, eps2):
    i = cuda.blockIdx.x * P + cuda.threadIdx.x
    if i >= n:
        return
    self = load4(bodies, i)
    a = (ZERO, ZERO, ZERO)
    j, end = np.uint64(0), np.uint64(n)
    while j < end:
        a = interact(a, self, load4(bodies, j), eps2)
        j += np.uint64(1)
    store4(accelerations, i, a)
