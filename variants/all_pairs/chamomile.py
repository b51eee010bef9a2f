"""Sum the bodies of a bag in one register and the bags in another.

Against tiled: bodies come in J-bags of any size; the sum over a bag is kept apart and added to the sum over the bags
when the bag is done. The rounding error then grows with the length of a bag and the number of bags, not with n.
"""

import numpy as np

from harness.variant import variant
from variants.all_pairs import body


def numba_kernel(cuda, real, *, P, J_BAG, UNROLL):
    """Twin of chamomile.cu."""
    several = body.repeated(cuda, body.step_over_tile(cuda, real), UNROLL)
    alignment = body.alignment(cuda)

    @cuda.jit(fastmath=True)
    def chamomile(bodies, accelerations, n, eps2):
        bag = cuda.shared.array((J_BAG, 4), real, alignment)
        thread = cuda.threadIdx.x
        i = cuda.blockIdx.x * P + thread
        own = min(i, n - 1)
        xi, yi, zi = bodies[own, 0], bodies[own, 1], bodies[own, 2]
        backup_x = backup_y = backup_z = real(0)
        for first in range(0, n, J_BAG):
            for k in range(thread, J_BAG, P):
                j = first + k
                for number in range(4):
                    bag[k, number] = bodies[j, number] if j < n else real(0)
            cuda.syncthreads()
            ax = ay = az = real(0)
            for k in range(np.uint32(0), np.uint32(J_BAG), np.uint32(UNROLL)):
                ax, ay, az = several(bag, k, xi, yi, zi, eps2, ax, ay, az)
            backup_x += ax
            backup_y += ay
            backup_z += az
            cuda.syncthreads()
        if i < n:
            accelerations[i, 0] = backup_x
            accelerations[i, 1] = backup_y
            accelerations[i, 2] = backup_z
            accelerations[i, 3] = real(0)

    return chamomile


@variant(
    parent="tiled",
    source="Hamada & Iitaka 2007, the Chamomile Scheme, equation 2",
    axes={
        "p": (32, 64, 128, 256, 512, 1024),
        "j_bag": (32, 64, 128, 256, 512, 1024),
        "unroll": (1, 2, 4, 8, 16, 32, 64, 128),
    },
    defaults={"p": 256, "j_bag": 256, "unroll": 16},
    when="unroll <= j_bag",
    loads="n / p",
)
def prepare(gpu, bodies, *, p, j_bag, unroll):
    """One thread a body, p threads a block."""
    return body.one_thread_a_body(gpu, bodies, gpu.compile("chamomile", P=p, J_BAG=j_bag, UNROLL=unroll), p)
