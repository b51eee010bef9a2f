"""Read a body, its position and mass together, with one 16-byte load.

Against naive: the four arrays become one array of rows x, y, z, mass, so an interaction issues one load instead of
four, for the same bytes.
"""

import numpy as np

from gravbench.model.variant import Operations, variant
from gravbench.variants.common import body, layouts, mlir, ranges


def numba_kernel(cuda, real, interaction):
    """Twin of float4.cu."""
    interact = body.interact(cuda, real, interaction)
    load, store, zero = body.load_row(cuda, 4, 4), body.store_row(cuda, 4), body.no_sums(real, interaction)

    @cuda.jit(fastmath=True)
    def float4_kernel(bodies, accelerations, n, eps2):
        i = cuda.grid(1)
        if i >= n:
            return
        own = load(bodies, i)
        sums = zero
        j = np.uint64(0)  # unsigned, and no range: see body.repeated
        while j < np.uint64(n):
            sums = interact(sums, own, load(bodies, j), eps2)
            j += np.uint64(1)
        store(accelerations, i, sums)

    return float4_kernel


mlir_kernel = mlir.twin(numba_kernel, tiles=False)


@variant(
    parent="naive",
    source="Lee 2008, float4 version",
    axes={"p": (32, 64, 128, 256, 512, 1024)},
    defaults={"p": 256},
    ranges={"p": ranges.THREADS},
    loads="n",
    operations=Operations(contributions=("interact(sums, self, bodies[j], eps2)",)),
)
def prepare(gpu, bodies, *, p):
    """One thread per body, p threads per block."""
    return layouts.one_thread_per_body(gpu, bodies, gpu.compile("float4_kernel"), p)
