"""Let q threads share the work on one body and add up their sums.

Against tiled: a block has p * q threads for p bodies, so a few thousand bodies fill a device that holds a hundred
thousand threads. The q sums of a body are added in shared memory at the end.
"""

import numpy as np

from gravbench.model.variant import Operations, variant
from gravbench.variants.common import body, layouts, mlir, ranges


def numba_kernel(cuda, real, interaction, *, P, Q, UNROLL):
    """Twin of split.cu."""
    several = body.repeated(cuda, body.step_over_tile(cuda, real, interaction), UNROLL)
    add = body.add(cuda, interaction)
    load, load_sums, store = body.load_row(cuda, 4, 4), body.load_row(cuda, 4, 3), body.store_row(cuda, 4)
    nobody, zero, alignment = (real(0),) * 4, body.no_sums(real, interaction), body.alignment(cuda)
    threads = P * Q

    @cuda.jit(fastmath=True)
    def split(bodies, accelerations, n, eps2):
        tile = cuda.shared.array((threads, 4), real, alignment)
        x, y = cuda.threadIdx.x, cuda.threadIdx.y
        thread = y * P + x
        i = cuda.blockIdx.x * P + x
        own = load(bodies, min(i, n - 1))
        part = np.uint32(y * P)
        sums = zero
        for first in range(0, n, threads):
            j = first + thread
            store(tile, thread, load(bodies, j) if j < n else nobody)
            cuda.syncthreads()
            for k in range(np.uint32(0), np.uint32(P), np.uint32(UNROLL)):
                sums = several(tile, part + k, own, eps2, sums)
            cuda.syncthreads()
        store(tile, thread, sums)
        cuda.syncthreads()
        if y == 0 and i < n:
            for other in range(1, Q):
                sums = add(sums, load_sums(tile, other * P + x))
            store(accelerations, i, sums)

    return split


mlir_kernel = mlir.twin(numba_kernel)


@variant(
    parent="tiled",
    source="GPU Gems 3, section 31.4.2 and figure 31-8; 3dgep, the SDK's multithreaded bodies",
    axes={"p": (16, 32, 64, 128, 256), "q": (1, 2, 4, 8, 16), "unroll": (1, 2, 4, 8, 16, 32, 64, 128)},
    defaults={"p": 64, "q": 8, "unroll": 32},
    ranges={"p": ranges.THREADS, "q": ranges.THREADS, "unroll": ranges.UNROLL},
    when='p * q <= 1024 and p % unroll == 0 and (toolkit not in ["numba", "mlir"] or 128 % unroll == 0)',
    loads="n / p",
    operations=Operations(
        staging=("tile[thread] = j < n ? bodies[j] : Body{};",), contributions=("interact(sums, self, part[k], eps2)",)
    ),
)
def prepare(gpu, bodies, *, p, q, unroll):
    """Blocks of p x q threads for p bodies each."""
    kernel = gpu.compile("split", P=p, Q=q, UNROLL=unroll)
    return layouts.one_thread_per_body(gpu, bodies, kernel, p, block=(p, q))
