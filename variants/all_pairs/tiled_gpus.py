"""Divide the rows of tiled among the GPUs of a host: each computes the accelerations of its share of the bodies.

Against tiled: a GPU has all bodies and computes 1 / gpus of the rows. In every evaluation, the bodies of the first GPU
are copied to the others and their rows are copied back. Events synchronize the streams, and the host does not wait.
GPUs without peer access to each other communicate through the host, and the record says so. With gpus 1 it computes
what tiled computes. Only CuPy supports several GPUs.
"""

import numpy as np

from gravbench.model.variant import Operations, Prepared, variant
from gravbench.variants.common import ranges, several


@variant(
    parent="tiled",
    source="Plimpton 1995, atom decomposition",
    axes={
        "gpus": several.VALUES,
        "p": (32, 64, 128, 256, 512, 1024),
        "unroll": (1, 2, 4, 8, 16, 32, 64, 128),
    },
    defaults={"gpus": 1, "p": 256, "unroll": 32},
    ranges={"gpus": several.GPUS, "p": ranges.THREADS, "unroll": ranges.UNROLL},
    when="p % unroll == 0",
    loads="n / p",
    any_interaction=True,
    operations=Operations(
        staging=("if (other < n) tile[thread] = bodies[other];",),
        contributions=("interact(sums, self, tile[k], eps2)",),
    ),
)
def prepare(gpu, bodies, *, gpus, p, unroll):
    """One thread per body, p threads per block, on each GPU for its rows."""
    n, width = bodies.n, gpu.interaction.sums_width
    members = gpu.devices(gpus)
    spans = several.spans(several.edges(n, gpus))
    members = members[: len(spans)]
    own = gpu.upload(gpu.interaction.rows(bodies.position, bodies.velocity, bodies.mass))
    accelerations = gpu.empty(n, width)
    number, eps2 = np.int32(n), gpu.real(bodies.eps**2)
    kernels = []

    def share_of(member, first, last):
        with member.current():
            kernel = member.compile("tiled_gpus", P=p, UNROLL=unroll)
            kernels.append(kernel)
            here = own if member is gpu else member.empty(*own.shape)
            rows = accelerations if member is gpu else member.empty(last - first, width)
        grid, span = -(-(last - first) // p), (np.int32(first), np.int32(last))

        def share():
            if member is not gpu:
                member.copy(here, own)
            kernel(grid, p, here, rows, number, eps2, *span)
            if member is not gpu:
                member.copy(accelerations[first:last], rows)

        return share

    shares = [share_of(member, *span) for member, span in zip(members, spans, strict=True)]
    return Prepared(several.launched(members, shares), own, accelerations, kernels[0], kernels=1 + len(members))
