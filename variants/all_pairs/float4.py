"""Read a body, its position and mass together, with one 16-byte load.

Against naive: four arrays become one of x, y, z, mass, so an interaction issues one load instead of four, for the
same bytes.
"""

import numpy as np

from harness.variant import variant
from variants.all_pairs import body


def numba_kernel(cuda, real):
    """Twin of float4.cu."""
    interact = body.interaction(cuda, real)
    load = body.load_body(cuda)

    @cuda.jit(fastmath=True)
    def float4_kernel(bodies, accelerations, n, eps2):
        i = cuda.grid(1)
        if i >= n:
            return
        xi, yi, zi, _ = load(bodies, i)
        ax = ay = az = real(0)
        j = np.uint64(0)  # unsigned, and no range: see body.repeated
        while j < np.uint64(n):
            xj, yj, zj, mass = load(bodies, j)
            ax, ay, az = interact(ax, ay, az, xi, yi, zi, xj, yj, zj, mass, eps2)
            j += np.uint64(1)
        accelerations[i, 0] = ax
        accelerations[i, 1] = ay
        accelerations[i, 2] = az
        accelerations[i, 3] = real(0)

    return float4_kernel


@variant(
    parent="naive",
    source="Lee 2008, float4 version",
    axes={"p": (32, 64, 128, 256, 512, 1024)},
    defaults={"p": 256},
    loads="n",
)
def prepare(gpu, bodies, *, p):
    """One thread a body, p threads a block."""
    return body.one_thread_a_body(gpu, bodies, gpu.compile("float4_kernel"), p)
