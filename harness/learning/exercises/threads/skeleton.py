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
    # Your part: end the threads that have no body, add up what all bodies j contribute, and write ax[i], ay[i], az[i].
    # rsqrtf(v) is 1 / sqrt(v). Begin sums with np.float32(0): 0.0 is a double.
