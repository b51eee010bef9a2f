"""Pull by a window of the bodies only, another window each step, read from global memory.

Against float4: a step sums over a fraction of the bodies and multiplies by what is missing; the window moves on, and
after 1 / fraction steps every pair has been counted. One step is wrong by as much as its window differs from the
whole; the mean over a cycle is exact for bodies that do not move meanwhile.
"""

import numpy as np

from harness.variant import variant
from variants.all_pairs import body


def numba_kernel(cuda, real):
    """Twin of approximate_global.cu."""
    interact = body.interaction(cuda, real)
    load = body.load_body(cuda)

    @cuda.jit(fastmath=True)
    def approximate_global(bodies, accelerations, n, eps2, first, last, scale):
        i = cuda.grid(1)
        if i >= n:
            return
        xi, yi, zi, _ = load(bodies, i)
        ax = ay = az = real(0)
        j = np.uint64(first)  # unsigned, and no range: see body.repeated
        while j < np.uint64(last):
            xj, yj, zj, mass = load(bodies, j)
            ax, ay, az = interact(ax, ay, az, xi, yi, zi, xj, yj, zj, mass, eps2)
            j += np.uint64(1)
        accelerations[i, 0] = scale * ax
        accelerations[i, 1] = scale * ay
        accelerations[i, 2] = scale * az
        accelerations[i, 3] = real(0)

    return approximate_global


@variant(
    parent="float4",
    source="Lee 2008, phase III",
    axes={"p": (64, 128, 256, 512), "fraction": body.FRACTIONS},
    defaults={"p": 256, "fraction": 0.5},
    loads="fraction * n",
    approximates="a step counts a fraction of the pairs; a cycle of 1 / fraction steps counts each once",
)
def prepare(gpu, bodies, *, p, fraction):
    """One thread a body, p threads a block."""
    return body.a_window_a_step(gpu, bodies, gpu.compile("approximate_global"), p, fraction)
