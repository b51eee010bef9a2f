"""gravbench entry
kernels:
  - {name: block_size, grid: 'ceil_div(n, P)', block: P, arguments: [bodies, accelerations, n, eps2]}
constants: {P: 64, TILE: 2048}
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


# P threads load tiles of TILE bodies. Your part: the two constants in the head.
@cuda.jit(fastmath=True)
def block_size(bodies, accelerations, n, eps2):
    tile = cuda.shared.array((TILE, 4), np.float32, 16)
    i = cuda.blockIdx.x * P + cuda.threadIdx.x
    self = load4(bodies, min(i, n - 1))
    a = (ZERO, ZERO, ZERO)
    for first in range(0, n, TILE):
        count = np.uint32(min(TILE, n - first))
        k = np.uint32(cuda.threadIdx.x)
        while k < count:
            store4(tile, k, load4(bodies, first + k))
            k += np.uint32(cuda.blockDim.x)
        cuda.syncthreads()
        k = np.uint32(0)
        while k < count:
            a = interact(a, self, load4(tile, k), eps2)
            k += np.uint32(1)
        cuda.syncthreads()
    if i < n:
        store4(accelerations, i, a)
