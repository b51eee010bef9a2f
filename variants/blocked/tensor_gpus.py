"""Divide the pairs of tensor among the GPUs of a host, each of which sorts the bodies itself.

Against tensor: each GPU sorts all bodies into the same order and computes every ``gpus``-th line of pairs of blocks.
The first GPU then reads the sums of all GPUs and adds them up. In every evaluation, its bodies are copied to the
others. Events synchronize the streams, and the host does not wait. GPUs without peer access to each other communicate
through the host, and the record says so. With gpus 1 it computes what tensor computes. Only CuPy supports several GPUs.
"""

import numpy as np

from gravbench.model.variant import Prepared, variant
from gravbench.variants.blocked import tensor_parts, tensor_share
from gravbench.variants.common import collected, several
from gravbench.variants.common.collected import P
from gravbench.variants.common.kernels import compiled


@variant(
    parent="tensor",
    source="Plimpton 1995, atom decomposition with Newton's third law",
    axes={"gpus": several.VALUES, "terms": (1, 2)},
    defaults={"gpus": 1, "terms": 2},
    ranges={"gpus": several.GPUS},
    dtypes=("float32",),
    positive_masses=True,
    mutual="meet",
    operations=tensor_parts.OPERATIONS,
    kernel_parts=tensor_parts.PARTS,
    loads="n / (64 * (4 if n > 50000 else 2))",
)
def prepare(gpu, bodies, *, gpus, terms):
    """On each GPU as tensor does, with its defaults."""
    n = bodies.n
    members = gpu.devices(gpus)
    own = gpu.upload(gpu.interaction.rows(bodies.position, bodies.velocity, bodies.mass))
    accelerations = gpu.empty(n, 4)
    number, none = np.int32(n), np.int32(0)
    grid = -(-n // P)
    axes = tensor_share.DEFAULTS | {"terms": terms}
    kernels = []

    def share_of(member, share):
        with member.current():
            there, update = several.seen(member, gpu, own)
            here = own if member is gpu else member.empty(n, 4)
            sums = accelerations if gpus == 1 else member.empty(n, 4)
            begin = compiled(member, "begin_share", P=P)
            part = tensor_share.Share(member, bodies, here, sums, share=share, shares=gpus, **axes)
            kernels.append(part.kernel)

        def queue():
            update()
            if member is not gpu:
                begin(grid, P, here, there, sums, number, none)
            part.evaluate(tensor_share.no_lap)

        return queue, sums, part.order.kernels + (member is not gpu)

    shares = [share_of(member, share) for share, member in enumerate(members)]
    count = sum(one for _, _, one in shares)
    if gpus == 1:
        return Prepared(shares[0][0], own, accelerations, kernels[0], kernels=count)
    finish = collected.adding(gpu, members, [sums for _, sums, _ in shares], accelerations, SHARES=gpus)
    launch = several.launched(members, [queue for queue, _, _ in shares], finish)
    return Prepared(launch, own, accelerations, kernels[0], kernels=1 + count)
