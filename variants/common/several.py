"""Divide one evaluation among the GPUs of a host, the first of which has the bodies and gets the accelerations.

``gpu.devices(count)`` returns a toolkit for each GPU (``gravbench.toolkits.several``). A variant has to say what is
whose share and what is done with it: ``edges`` or ``ring_edges`` cut the work, ``launched`` queues it.
"""

from itertools import pairwise

import numpy as np

from gravbench.model.variant import Range

VALUES = (1, 2, 4, 8)
MOST = 8
"""Of which one kernel, ``add_shares``, adds up the sums."""
GPUS = Range(1, MOST, "of one host; more than one only with CuPy")


def edges(units, shares):
    """Return the first unit of each share and the end of the last: they differ by one unit, the first has one."""
    return [-(-units * share // shares) for share in range(shares + 1)]


def ring_edges(blocks, r, shares):
    """Divide the groups of 32 bodies that each block of ``symmetric`` meets: share k begins with number edges[k].

    A block meets its own ``r`` groups and those of half the ring; where ``blocks`` is even, half of the blocks meet
    ``r`` more than the others. So shares differ by less than two groups of each block.
    """
    shorter = r * (1 + (blocks - 1) // 2)
    group = np.arange(shorter + (r if blocks % 2 == 0 else 0) + 1)
    met = blocks * np.minimum(group, shorter) + blocks // 2 * np.maximum(group - shorter, 0)
    wanted = [-(-int(met[-1]) * share // shares) for share in range(shares + 1)]
    return [int(edge) for edge in np.searchsorted(met, wanted)]


def spans(found):
    """Pair the edges of shares; those without work are left out, which are never the first."""
    return [(first, last) for first, last in pairwise(found) if first < last]


def seen(gpu, other, array):
    """Return what kernels on ``gpu`` read in place of an array of another one, and what queues its update.

    Called within ``gpu.current()``. Where there is peer access that is the array itself, with nothing to update.
    """
    if gpu is other or gpu.reaches(other):
        return array, lambda: None
    here = gpu.device_array(array.shape, gpu.real)
    return here, lambda: gpu.copy(here, array)


def launched(gpus, shares, finish=lambda: None):
    """Return what queues one evaluation: ``shares[k]()`` on each GPU at the same time, then ``finish()`` on the first.

    Events order it, and no host waits: the others begin when the stream of the first has come to this evaluation, which
    is after it has read what they computed for the one before, and the first goes on once they have ended.
    """
    first, *others = gpus
    begun, ended = None, []
    if others:
        begun = first.mark()
    for other in others:
        with other.current():
            ended.append(other.mark())

    def launch():
        if others:
            begun.record()
        for other, share, end in zip(others, shares[1:], ended, strict=True):
            with other.current():
                begun.wait()
                share()
                end.record()
        shares[0]()
        for end in ended:
            end.wait()
        finish()

    return launch
