"""Sum over a window of the bodies, a different one in each step, read from global memory.

Against float4: a step sums over a fraction of the bodies and scales the sum up to all of them. The window moves on, and
after 1 / fraction steps every pair has been counted. The error of one step is the difference between its window and the
whole; the mean over a cycle is exact if the bodies do not move meanwhile.
"""

import numpy as np

from gravbench.model.variant import Operations, variant
from gravbench.variants.common import body, layouts, mlir, ranges


def numba_kernel(cuda, real, interaction):
    """Twin of approximate_global.cu."""
    interact = body.interact(cuda, real, interaction)
    load, store, zero = body.load_row(cuda, 4, 4), body.store_row(cuda, 4), body.no_sums(real, interaction)

    @cuda.jit(fastmath=True)
    def approximate_global(bodies, accelerations, n, eps2, first, last, scale):
        i = cuda.grid(1)
        if i >= n:
            return
        own = load(bodies, i)
        sums = zero
        j = np.uint64(first)  # unsigned, and no range: see body.repeated
        while j < np.uint64(last):
            sums = interact(sums, own, load(bodies, j), eps2)
            j += np.uint64(1)
        store(accelerations, i, (scale * sums[0], scale * sums[1], scale * sums[2]))

    return approximate_global


mlir_kernel = mlir.twin(numba_kernel, tiles=False)


@variant(
    parent="float4",
    source="Lee 2008, phase III",
    axes={"p": (64, 128, 256, 512), "fraction": layouts.FRACTIONS},
    defaults={"p": 256, "fraction": 0.5},
    ranges={"p": ranges.THREADS, "fraction": ranges.FRACTION},
    loads="fraction * n",
    approximates="a step counts a fraction of the pairs; a cycle of 1 / fraction steps counts each once",
    operations=Operations(contributions=("interact(sums, self, bodies[j], eps2)",)),
)
def prepare(gpu, bodies, *, p, fraction):
    """One thread per body, p threads per block."""
    return layouts.window_per_step(gpu, bodies, gpu.compile("approximate_global"), p, fraction)
