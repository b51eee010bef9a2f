"""The files that ``gravbench new`` writes. NAME stands for the variant's name, PARENT for its parent's."""

from __future__ import annotations

PYTHON = '''"""Say in one line what this variant changes.

Against PARENT: say what is expected to be faster, and why. As written it stages a tile of p bodies in shared memory:
change NAME.cu, and numba_kernel below, to try your idea.
"""

import numpy as np

from gravbench.model.variant import variant
from gravbench.variants.common import body, layouts, ranges


def numba_kernel(cuda, real, interaction, *, P):
    """The same kernel for Numba; without it, the variant runs only with CuPy and PyCUDA."""
    step = body.step_over_tile(cuda, real, interaction)
    width, zero, alignment = interaction.body_width, body.no_sums(real, interaction), body.alignment(cuda)
    load, store_body = body.load_row(cuda, width, len(interaction.body)), body.store_row(cuda, width)
    store_sums = body.store_row(cuda, interaction.sums_width)

    @cuda.jit(fastmath=True)
    def NAME(bodies, accelerations, n, eps2):
        tile = cuda.shared.array((P, width), real, alignment)
        thread = cuda.threadIdx.x
        i = cuda.blockIdx.x * P + thread
        own = load(bodies, min(i, n - 1))
        sums = zero
        for first in range(0, n, P):
            if first + thread < n:
                store_body(tile, thread, load(bodies, first + thread))
            cuda.syncthreads()
            for k in range(np.uint32(min(P, n - first))):
                sums = step(tile, k, own, eps2, sums)
            cuda.syncthreads()
        if i < n:
            store_sums(accelerations, i, sums)

    return NAME


@variant(
    parent="PARENT",
    source="your own",
    axes={"p": (64, 128, 256, 512)},
    defaults={"p": 256},
    ranges={"p": ranges.THREADS},
    loads="n / p",
    any_interaction=True,
)
def prepare(gpu, bodies, *, p):
    """Compile for p threads per block, and launch one thread per body."""
    return layouts.one_thread_per_body(gpu, bodies, gpu.compile("NAME", P=p), p, block=(p, 1))
'''

CUDA = """// Say in one line what this variant changes.
//
// Against PARENT: what is expected to be faster, and why. As written it stages a tile of P bodies in shared memory.
//
// gravbench puts in front of this text the number type `real`, the rows `Body` (gravity: x, y, z, mass) and `Sums`
// (gravity: the acceleration), and interact(sums, i, j, eps2), which adds the effect of body j on body i to sums.
// bodies[i], accelerations[i]: n rows each. eps2: the softening length squared. P: threads per block.
extern "C" __global__ void __launch_bounds__(P)
    NAME(const Body* __restrict__ bodies, Sums* __restrict__ accelerations, int n, real eps2) {
    __shared__ Body tile[P];
    const int thread = threadIdx.x;
    const int i = blockIdx.x * P + thread;
    const Body self = bodies[min(i, n - 1)];
    Sums sums = {};
    for (int first = 0; first < n; first += P) {
        if (first + thread < n) tile[thread] = bodies[first + thread];
        __syncthreads();
        const int count = min(P, n - first);
        for (int k = 0; k < count; ++k) interact(sums, self, tile[k], eps2);
        __syncthreads();
    }
    if (i < n) accelerations[i] = sums;
}
"""

CPU_PYTHON = '''"""Say in one line what this variant changes.

Against PARENT: say what is expected to be faster, and why. As written it is the double loop over all pairs, with the
outer loop divided among the cores.
"""

from gravbench.model.variant import variant
from gravbench.variants.common import layouts


def cpu_kernel(numba, real):
    """Compile the loop. Positions, masses and accelerations are separate arrays of length n."""

    @numba.njit(parallel=True, error_model="numpy", fastmath={"reassoc", "nsz", "arcp", "contract", "afn"})
    def NAME(x, y, z, mass, eps2, ax, ay, az):
        for i in numba.prange(x.size):
            xi, yi, zi = x[i], y[i], z[i]
            aix = aiy = aiz = real(0)
            for j in range(x.size):
                dx = x[j] - xi
                dy = y[j] - yi
                dz = z[j] - zi
                inverse = real(1) / (dx * dx + dy * dy + dz * dz + eps2) ** real(0.5)
                strength = mass[j] * inverse * inverse * inverse
                aix += strength * dx
                aiy += strength * dy
                aiz += strength * dz
            ax[i] = aix
            ay[i] = aiy
            az[i] = aiz

    return NAME


@variant(parent="PARENT", source="your own")
def prepare(cpu, bodies):
    """Use separate arrays of x, y, z and mass."""
    return layouts.on_the_host(cpu, bodies, cpu.compile("NAME"))
'''

SWEEP = """# A sweep of NAME beside the variant that it is derived from. All settings: gravbench schema
description: NAME beside PARENT
variant_folders: [.]
n: [1024, 4096, 16384]
measure: {budget_seconds: 1}
variants: [NAME, PARENT]
"""
