"""Sum the bodies of a bag in one register, and the sums of the bags in another.

Against tiled: bodies come in J-bags of any size. Each bag has a separate sum, which is added to the sum over all bags
when the bag is done. The rounding error then grows with the length of a bag and the number of bags, not with n.
"""

import numpy as np

from gravbench.model.variant import Operations, variant
from gravbench.variants.common import body, layouts, mlir, ranges


def numba_kernel(cuda, real, interaction, *, P, J_BAG, UNROLL):
    """Twin of chamomile.cu."""
    step = body.step_over_tile(cuda, real, interaction)
    several = body.repeated(cuda, step, UNROLL)
    add = body.add(cuda, interaction)
    width, zero, alignment = interaction.body_width, body.no_sums(real, interaction), body.alignment(cuda)
    load, store_body = body.load_row(cuda, width, len(interaction.body)), body.store_row(cuda, width)
    store_sums = body.store_row(cuda, interaction.sums_width)

    @cuda.jit(fastmath=True)
    def chamomile(bodies, accelerations, n, eps2):
        bag = cuda.shared.array((J_BAG, width), real, alignment)
        thread = cuda.threadIdx.x
        i = cuda.blockIdx.x * P + thread
        own = load(bodies, min(i, n - 1))
        backup = zero
        for first in range(0, n, J_BAG):
            for k in range(thread, J_BAG, P):
                if first + k < n:
                    store_body(bag, k, load(bodies, first + k))
            cuda.syncthreads()
            current = zero
            if n - first >= J_BAG:
                for k in range(np.uint32(0), np.uint32(J_BAG), np.uint32(UNROLL)):
                    current = several(bag, k, own, eps2, current)
            else:
                for k in range(np.uint32(n - first)):
                    current = step(bag, k, own, eps2, current)
            backup = add(backup, current)
            cuda.syncthreads()
        if i < n:
            store_sums(accelerations, i, backup)

    return chamomile


mlir_kernel = mlir.twin(numba_kernel)


@variant(
    parent="tiled",
    source="Hamada & Iitaka 2007, the Chamomile Scheme, equation 2",
    axes={
        "p": (32, 64, 128, 256, 512, 1024),
        "j_bag": (32, 64, 128, 256, 512, 1024),
        "unroll": (1, 2, 4, 8, 16, 32, 64, 128),
    },
    defaults={"p": 256, "j_bag": 256, "unroll": 16},
    ranges={"p": ranges.THREADS, "j_bag": ranges.BAG, "unroll": ranges.UNROLL},
    when='j_bag % unroll == 0 and (toolkit not in ["numba", "mlir"] or 128 % unroll == 0)',
    loads="n / p",
    any_interaction=True,
    operations=Operations(
        staging=("if (first + k < n) bag[k] = bodies[first + k];",),
        contributions=("interact(current, self, bag[k], eps2)",),
    ),
)
def prepare(gpu, bodies, *, p, j_bag, unroll):
    """One thread per body, p threads per block."""
    return layouts.one_thread_per_body(gpu, bodies, gpu.compile("chamomile", P=p, J_BAG=j_bag, UNROLL=unroll), p)
