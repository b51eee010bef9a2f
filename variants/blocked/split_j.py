"""Split the source bodies over blocks too, so that few bodies fill a device.

Against register_blocked: the grid is blocks of p * r bodies times parts of the sources. Each block writes its sums to
memory, and the last block to finish for the same bodies adds up the parts in a fixed order, so results are bitwise
reproducible. Expected: at small N, all multiprocessors have work; at large N, the last wave of blocks is shorter.
"""

import numpy as np

from gravbench.model.variant import Operations, Prepared, variant
from gravbench.variants.blocked import blocks, operations
from gravbench.variants.common import body, ranges


def numba_kernel(cuda, real, interaction, *, P, R, UNROLL, RESIDENT):
    """Twin of split_j.cu without RESIDENT: it sets no bound on registers."""
    several = body.repeated(cuda, blocks.pull_several(cuda, real, interaction, R), UNROLL)
    load, load_row, store_row = blocks.load_several(cuda, R, P), body.load_row(cuda, 4, 4), body.store_row(cuda, 4)
    store, add, load_sums = blocks.store_several(cuda, R, P), body.add(cuda, interaction), body.load_row(cuda, 4, 3)
    zero, nothing, nobody = blocks.no_sums(real, R), (real(0),) * 3, (real(0),) * 4
    alignment = body.alignment(cuda)

    @cuda.jit(fastmath=True)
    def split_j(bodies, accelerations, n, eps2, parts, partial, arrived):
        tile = cuda.shared.array((P, 4), real, alignment)
        last = cuda.shared.array(1, np.int32)
        thread = cuda.threadIdx.x
        block = cuda.blockIdx.x // parts
        part = cuda.blockIdx.x - block * parts
        i = block * (P * R) + thread
        units = np.int32((n + UNROLL - 1) // UNROLL)
        each = units // parts
        rest = units - parts * each
        begin = (part * each + part * rest // parts) * UNROLL
        end = ((part + 1) * each + (part + 1) * rest // parts) * UNROLL
        own = load(bodies, i, n)
        sums = zero
        for first in range(begin, end, P):
            j = first + thread
            if j < end:
                x, y, z, mass = load_row(bodies, j) if j < n else nobody
                store_row(tile, thread, (mass, x, y, z))
            cuda.syncthreads()
            for k in range(np.uint32(0), np.uint32(min(P, end - first)), np.uint32(UNROLL)):
                sums = several(tile, k, own, eps2, sums)
            cuda.syncthreads()
        if parts == 1:
            store(accelerations, 0, i, n, sums)
            return
        store(partial, np.int64(part) * n, i, n, sums)
        cuda.threadfence()
        cuda.syncthreads()
        if thread == 0:
            last[0] = cuda.atomic.add(arrived, block, real(1)) == parts - 1
            if last[0]:
                arrived[block] = real(0)
        cuda.syncthreads()
        if last[0]:
            cuda.threadfence()
            for k in range(i, min(n, (block + 1) * (P * R)), P):
                total = nothing
                for other in range(parts):
                    total = add(total, load_sums(partial, np.int64(other) * n + k))
                store_row(accelerations, k, total)

    return split_j


@variant(
    parent="register_blocked",
    source="own; codes for few bodies often divide the pulling bodies along the second dimension of the grid",
    axes={
        "p": (32, 64, 128, 256, 512),
        "r": (1, 2, 4, 8, 16),
        "unroll": (1, 2, 4, 8, 16, 32),
        "parts": (0, 1, 2, 4, 8, 16, 32, 64, 128),
        "warps": blocks.WARPS,
    },
    defaults={"p": 64, "r": 4, "unroll": 8, "parts": 0, "warps": 0},
    ranges={
        "p": ranges.THREADS,
        "r": ranges.BODIES,
        "unroll": ranges.UNROLL,
        "parts": ranges.PARTS,
        "warps": ranges.WARPS,
    },
    # The Numba kernel is made by doubling, and leaves the number of registers to the compiler, as
    # WGSL does.
    when=(
        'p % unroll == 0 and (toolkit != "numba" or (128 % unroll == 0 and 32 % r == 0))'
        ' and (toolkit != "numba" or warps == 0) and (toolkit != "wgpu" or warps == 0)'
    ),
    loads="n / (p * r)",
    operations=Operations(
        staging=(
            "if (first + thread < end) tile[thread] = first + thread < n ? row_of(bodies[first + thread]) : Row{};",
        ),
        contributions=operations.ROWS,
    ),
)
def prepare(gpu, bodies, *, p, r, unroll, parts, warps):
    """Blocks of p threads for p * r bodies and one part of the sources each; 0 parts: as many as fill the device."""
    resident = blocks.resident(p, blocks.warps_for(gpu.real, r, warps))
    kernel = gpu.compile("split_j", P=p, R=r, UNROLL=unroll, RESIDENT=resident)
    n, count = bodies.n, -(-bodies.n // (p * r))
    parts = min(parts, -(-n // unroll)) or blocks.parts_for(count, -(-n // unroll), gpu.multiprocessors * resident)
    own = gpu.upload(gpu.interaction.rows(bodies.position, bodies.velocity, bodies.mass))
    accelerations, partial = gpu.empty(n, 4), gpu.empty(parts * n if parts > 1 else 1, 4)
    arrived = gpu.upload(np.zeros(count))
    numbers = np.int32(n), gpu.real(bodies.eps**2), np.int32(parts)

    def launch():
        kernel(count * parts, p, own, accelerations, *numbers, partial, arrived)

    return Prepared(launch, own, accelerations, kernel)
