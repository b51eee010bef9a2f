"""Collect on the first GPU of a host what all of them have summed up (``several.cuh``)."""

import numpy as np

from gravbench.variants.common import several
from gravbench.variants.common.kernels import compiled

P = 256
"""Threads per block of the kernels that copy bodies and add up sums."""


def adding(gpu, members, sums, accelerations, *, copies=1, **constants):
    """Return what queues, on the first GPU, the sum of all members' ``sums``: an array of copies times n rows each."""
    n = len(accelerations)
    add = compiled(gpu, "add_shares", P=P, **constants)
    found = [several.seen(gpu, member, own) for member, own in zip(members, sums, strict=True)]
    read = [array for array, _ in found]
    # The kernel has as many parameters as there may be GPUs.
    read += read[:1] * (several.MOST - len(read))

    def queue():
        for _, update in found:
            update()
        add(-(-n // P), P, accelerations, np.int32(n), np.int32(copies), *read)

    return queue
