"""gravbench entry
kernels:
  - {name: wide_load, grid: 'ceil_div(n, P)', block: P, arguments: [bodies, accelerations, n, eps2]}
constants: {P: 128}
arrays: {bodies: bodies, accelerations: accelerations}
"""

import numpy as np
from numba import cuda
from numba.cuda.libdevice import rsqrtf

from gravbench.variants.common.body import load_row, store_row

# One load, or one store, of 16 bytes for a row of four numbers: load4(array, k) and store4(array, k, numbers).
load4, store4 = load_row(cuda, 4, 4), store_row(cuda, 4)


# The rows of bodies are x, y, z and mass. This kernel reads a row with four loads. Your part: read it with one.
@cuda.jit(fastmath=True)
def wide_load(bodies, accelerations, n, eps2):
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i >= n:
        return
    x, y, z = bodies[i, 0], bodies[i, 1], bodies[i, 2]
    ax = ay = az = np.float32(0)
    j, end = np.uint64(0), np.uint64(n)
    while j < end:
        dx, dy, dz, mass = bodies[j, 0] - x, bodies[j, 1] - y, bodies[j, 2] - z, bodies[j, 3]
        inverse = rsqrtf(dx * dx + (dy * dy + (dz * dz + eps2)))
        strength = mass * inverse * inverse * inverse
        ax += strength * dx
        ay += strength * dy
        az += strength * dz
        j += np.uint64(1)
    accelerations[i, 0] = ax
    accelerations[i, 1] = ay
    accelerations[i, 2] = az
