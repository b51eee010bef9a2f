"""gravbench entry
kernels:
  - {name: threads, grid: 'ceil_div(n, P)', block: P, arguments: [x, y, z, mass, ax, ay, az, n, eps2]}
constants: {P: 128}
arrays: {x: x, y: y, z: z, mass: mass, ax: ax, ay: ay, az: az}
"""

import numpy as np
from numba import cuda
from numba.cuda.libdevice import rsqrtf


# One thread for each body: thread i adds up what all bodies do to body i.
@cuda.jit(fastmath=True)
def threads(x, y, z, mass, ax, ay, az, n, eps2):
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i >= n:  # the last block has more threads than bodies are left
        return
    x_i, y_i, z_i = x[i], y[i], z[i]
    sum_x = sum_y = sum_z = np.float32(0)
    j, end = np.uint64(0), np.uint64(n)  # without a sign, and no range: each access is one load
    while j < end:
        dx, dy, dz = x[j] - x_i, y[j] - y_i, z[j] - z_i
        inverse = rsqrtf(dx * dx + (dy * dy + (dz * dz + eps2)))
        strength = mass[j] * inverse * inverse * inverse
        sum_x += strength * dx
        sum_y += strength * dy
        sum_z += strength * dz
        j += np.uint64(1)
    ax[i] = sum_x
    ay[i] = sum_y
    az[i] = sum_z
