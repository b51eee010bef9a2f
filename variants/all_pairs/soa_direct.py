"""One thread per body over separate arrays, in two or three dimensions.

Against naive: the same loop, but in the plane (dim 2) it neither loads nor subtracts z, and adds nothing along z. The
bodies are then projected onto z = 0, for the float64 reference too.
"""

import numpy as np

from gravbench.model.variant import Operations, variant
from gravbench.variants.common import body, layouts, mlir, ranges


def numba_kernel(cuda, real, interaction, *, DIM):
    """Twin of soa_direct.cu."""
    interact, zero = body.interact(cuda, real, interaction), body.no_sums(real, interaction)

    @cuda.jit(fastmath=True)
    def soa_direct(x, y, z, mass, ax, ay, az, n, eps2):
        i = cuda.grid(1)
        if i >= n:
            return
        own = (x[i], y[i], z[i] if DIM == 3 else real(0), mass[i])
        sums = zero
        j = np.uint64(0)  # unsigned, and no range: see body.repeated
        while j < np.uint64(n):
            zj = z[j] if DIM == 3 else real(0)
            sums = interact(sums, own, (x[j], y[j], zj, mass[j]), eps2)
            j += np.uint64(1)
        ax[i], ay[i] = sums[0], sums[1]
        if DIM == 3:
            az[i] = sums[2]

    return soa_direct


mlir_kernel = mlir.twin(numba_kernel)


@variant(
    parent="naive",
    source="Bodin 2026, the N^2 kernel",
    axes={"p": (64, 128, 256, 512), "dim": (2, 3)},
    defaults={"p": 256, "dim": 3},
    ranges={"p": ranges.THREADS},
    loads="(dim + 1) * n",
    operations=Operations(
        contributions=("interact(sums, self, Body{x[j], y[j], DIM == 3 ? z[j] : 0, mass[j]}, eps2)",)
    ),
)
def prepare(gpu, bodies, *, p, dim):
    """One thread per body, p threads per block."""
    return layouts.over_columns(gpu, bodies, gpu.compile("soa_direct", DIM=dim), p, dim)
