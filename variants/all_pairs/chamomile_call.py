"""Compute the Chamomile Scheme as the source's library is called: from host arrays, for n_i bodies pulled by n_j.

Against chamomile: bodies and accelerations stay on the host, and each call uploads the n_i bodies that are pulled and
the n_j = n that pull, and downloads n_i accelerations. An evaluation has ``calls`` calls, in each of which all bodies
pull n / ``calls`` of them, so that n_j is larger than n_i. ``sums`` is where the sums are kept between bags: in a
register, or in global memory as the source prints the scheme. ``memory`` of the host is pageable or pinned. The stages
are timed.
"""

import itertools

import numpy as np

from gravbench.model.variant import Operations, Prepared, Range, variant
from gravbench.variants.common import body, ranges


def numba_kernel(cuda, real, interaction, *, P, J_BAG, UNROLL, IN_MEMORY):
    """Twin of chamomile_call.cu."""
    step = body.step_over_tile(cuda, real, interaction)
    several = body.repeated(cuda, step, UNROLL)
    add = body.add(cuda, interaction)
    width, zero, alignment = interaction.body_width, body.no_sums(real, interaction), body.alignment(cuda)
    load, store_body = body.load_row(cuda, width, len(interaction.body)), body.store_row(cuda, width)
    load_sums = body.load_row(cuda, interaction.sums_width, len(interaction.sums))
    store_sums = body.store_row(cuda, interaction.sums_width)

    @cuda.jit(fastmath=True)
    def chamomile_call(pulled, bodies, accelerations, ni, nj, eps2):
        bag = cuda.shared.array((J_BAG, width), real, alignment)
        thread = cuda.threadIdx.x
        i = cuda.blockIdx.x * P + thread
        own = load(pulled, min(i, ni - 1))
        backup = zero
        for first in range(0, nj, J_BAG):
            for k in range(thread, J_BAG, P):
                if first + k < nj:
                    store_body(bag, k, load(bodies, first + k))
            cuda.syncthreads()
            current = zero
            if nj - first >= J_BAG:
                for k in range(np.uint32(0), np.uint32(J_BAG), np.uint32(UNROLL)):
                    current = several(bag, k, own, eps2, current)
            else:
                for k in range(np.uint32(nj - first)):
                    current = step(bag, k, own, eps2, current)
            if IN_MEMORY and first > 0 and i < ni:
                backup = load_sums(accelerations, i)
            backup = add(backup, current)
            if IN_MEMORY and i < ni:
                store_sums(accelerations, i, backup)
            cuda.syncthreads()
        if not IN_MEMORY and i < ni:
            store_sums(accelerations, i, backup)

    return chamomile_call


@variant(
    parent="chamomile",
    source="Hamada & Iitaka 2007, force(xj, mj, xi, eps2, a, ni, nj) as printed",
    on_host=True,
    axes={
        "p": (64, 128, 256, 512),
        "j_bag": (64, 128, 256, 512, 1024),
        "unroll": (1, 2, 4, 8, 16, 32),
        "sums": ("register", "memory"),
        "calls": (1, 2, 4, 8, 16),
        "memory": ("pageable", "pinned"),
    },
    defaults={"p": 128, "j_bag": 512, "unroll": 16, "sums": "memory", "calls": 1, "memory": "pageable"},
    ranges={
        "p": ranges.THREADS,
        "j_bag": ranges.BAG,
        "unroll": ranges.UNROLL,
        "calls": Range(1, 1024, "each call uploads all bodies"),
    },
    when='j_bag % unroll == 0 and (toolkit != "numba" or 128 % unroll == 0)',
    operations=Operations(
        staging=("if (first + k < nj) bag[k] = bodies[first + k];",),
        contributions=("interact(current, self, bag[k], eps2)",),
    ),
)
def prepare(gpu, bodies, *, p, j_bag, unroll, sums, calls, memory):
    """One thread per pulled body, p threads per block."""
    n = bodies.n
    edges = [n * call // calls for call in range(calls + 1)]
    parts = [slice(first, last) for first, last in itertools.pairwise(edges) if first < last]
    most = max(part.stop - part.start for part in parts)

    def allocate(shape):
        return gpu.host_array(shape, gpu.real, pinned=memory == "pinned")

    rows, accelerations = allocate((n, 4)), allocate((n, 4))
    rows[:] = np.column_stack([bodies.position, bodies.mass])
    accelerations[:] = np.nan
    kernel = gpu.compile("chamomile_call", P=p, J_BAG=j_bag, UNROLL=unroll, IN_MEMORY=int(sums == "memory"))
    pulled, pulling = gpu.device_array((most, 4), gpu.real), gpu.device_array((n, 4), gpu.real)
    found = gpu.device_array((most, 4), gpu.real)
    stream, eps2 = gpu.stream(), gpu.real(bodies.eps**2)

    def evaluate(lap):
        for part in parts:
            count = part.stop - part.start
            gpu.send(pulled, rows[part], stream)
            gpu.send(pulling, rows, stream)
            lap("upload")
            kernel(-(-count // p), p, pulled, pulling, found, np.int32(count), np.int32(n), eps2, stream=stream)
            lap("force")
            gpu.fetch(accelerations[part], found, stream)
            gpu.wait(stream)
            lap("download")

    sent = sum(rows[part].nbytes + rows.nbytes for part in parts)
    return Prepared(
        lambda: evaluate(no_lap),
        rows,
        accelerations,
        kernel,
        on_host=True,
        stages=evaluate,
        insight=lambda: {"stages_bytes": {"upload": sent, "download": accelerations.nbytes}},
    )


def no_lap(stage):
    """Ignore the end of a stage."""
