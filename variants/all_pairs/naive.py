"""One thread per body; each thread reads all bodies from four arrays in global memory.

The plain C loop over all pairs with its outer loop spread over threads: the start of the ladder. All threads of a warp
read the same address at the same time, so the caches serve the loads, but each interaction issues four of them.
"""

import numpy as np

from gravbench.model.variant import Operations, variant
from gravbench.variants.common import body, layouts, mlir, ranges


def numba_kernel(cuda, real, interaction):
    """Twin of naive.cu."""
    interact, zero = body.interact(cuda, real, interaction), body.no_sums(real, interaction)

    @cuda.jit(fastmath=True)
    def naive(x, y, z, mass, ax, ay, az, n, eps2):
        i = cuda.grid(1)
        if i >= n:
            return
        own = (x[i], y[i], z[i], mass[i])
        sums = zero
        j = np.uint64(0)  # unsigned, and no range: see body.repeated
        while j < np.uint64(n):
            sums = interact(sums, own, (x[j], y[j], z[j], mass[j]), eps2)
            j += np.uint64(1)
        ax[i], ay[i], az[i] = sums

    return naive


mlir_kernel = mlir.twin(numba_kernel)


@variant(
    parent=None,
    source="Lee 2008, naive float version",
    axes={"p": (32, 64, 128, 256, 512, 1024)},
    defaults={"p": 256},
    ranges={"p": ranges.THREADS},
    loads="4 * n",
    operations=Operations(contributions=("interact(sums, self, Body{x[j], y[j], z[j], mass[j]}, eps2)",)),
)
def prepare(gpu, bodies, *, p):
    """One thread per body, p threads per block."""
    return layouts.over_columns(gpu, bodies, gpu.compile("naive"), p)
