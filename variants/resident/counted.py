"""What the walks of an evaluation meet, counted by kernels of their own beside what is timed."""

import numpy as np

from gravbench.variants.common.kernels import all_compiled
from gravbench.variants.resident import resident_share, tree_buffers


def met(gpu, share):
    """Count the bodies and the cells that the walk of one share meets, over all its bodies; waits for the GPU."""
    n = int(share.numbers[0])
    (counting, _) = all_compiled(gpu, resident_share.KERNELS, share.constants | {"COUNT": 1})
    counts, found = gpu.upload(np.zeros((n, 4))), np.empty((n, 4), gpu.real)
    share.traverse(counting, share.evaluate(tree_buffers.no_lap), counts)
    stream = gpu.stream()
    gpu.synchronize()
    gpu.fetch(found, counts, stream)
    gpu.wait(stream)
    return found[:, :2].sum(axis=0, dtype=np.float64)


def insight(members, shares, n):
    """Return what all shares, one on each member, compute of an evaluation of n bodies, per body."""
    total = np.zeros(2)
    for member, share in zip(members, shares, strict=True):
        with member.current():
            total += met(member, share)
    body_body, body_cell = (float(one) / n for one in total)
    return {"computed": {"body_body": body_body, "body_cell": body_cell}}
