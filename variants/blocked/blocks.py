"""What the kernels that give a thread several bodies share: room in registers, parts of the work, Numba's twin."""

import numpy as np

from gravbench.variants.common import body

WARPS = (0, 4, 8, 12, 16, 20, 24, 32)
"""Warps for which a multiprocessor has to have registers; 0: as the bodies of a thread ask for."""


def warps_for(real, r, warps):
    """Return the warps that a multiprocessor is to hold where a thread keeps r bodies and their sums.

    65,536 registers in all: 64 a thread at 32 warps, 80 at 24, 96 at 20, 128 at 16. A body and its sums take seven,
    twice that in float64, and an interaction some twenty, of which several are under way at once.
    """
    by_r = {1: 32, 2: 32, 4: 24, 8: 20} if real is np.float32 else {1: 32, 2: 16, 4: 12}
    return warps or by_r.get(r, 8)


def resident(p, warps):
    """Return the blocks of p threads that make up so many warps, the second number of ``__launch_bounds__``."""
    return max(1, 32 * warps // max(p, 32))


def parts_for(items, most, at_once):
    """Into how many parts to cut each of ``items`` equal pieces of work, at most ``most``.

    ``at_once`` parts run at a time, so the last wave of them should be full: the fewest parts that leave a fiftieth
    of the waves empty or less, or, where there are none, those that fill best.
    """

    def busy(parts):
        return items * parts / (at_once * -(-items * parts // at_once))

    waves = 8
    candidates = range(1, max(1, min(most, waves * -(-at_once // items))) + 1)
    return next((parts for parts in candidates if busy(parts) >= 0.98), max(candidates, key=busy))


def power_of_two(value, most):
    """Return the least power of two that is not less, from 1 to ``most``."""
    return next(power for power in (1 << k for k in range(64)) if power >= min(value, most))


def pull_several(cuda, real, interaction, r):
    """Return ``pull(tile, k, own, eps2, sums)`` for r bodies, a power of two, and what makes tuples of r.

    Numba has no array in registers whose elements it could not also put into memory, so bodies are tuples of two
    halves down to one body: every index is a constant. Rows of the tile begin with the mass.
    """
    act, load = body.interact(cuda, real, interaction), body.load_row(cuda, 4, 4)

    @cuda.jit(device=True, fastmath=True)
    def one(own, j, eps2, sums):
        return act(sums, own, j, eps2)

    pull = one
    for _ in range(r.bit_length() - 1):
        pull = _both(cuda, pull)

    @cuda.jit(device=True, fastmath=True)
    def step(tile, k, own, eps2, sums):
        mass, x, y, z = load(tile, k)
        return pull(own, (x, y, z, mass), eps2, sums)

    return step


def _both(cuda, pull):
    @cuda.jit(device=True, fastmath=True)
    def both(own, j, eps2, sums):
        return pull(own[0], j, eps2, sums[0]), pull(own[1], j, eps2, sums[1])

    return both


def load_several(cuda, r, stride):
    """Return ``load(bodies, i, n)``, which reads bodies i, i + stride, ... as the tuples of ``pull_several``."""
    load_row = body.load_row(cuda, 4, 4)

    @cuda.jit(device=True, fastmath=True)
    def load(bodies, i, n):
        return load_row(bodies, min(i, n - 1))

    count = 1
    while count < r:
        load = _both_loads(cuda, load, count * stride)
        count *= 2
    return load


def _both_loads(cuda, load, distance):
    @cuda.jit(device=True, fastmath=True)
    def both(bodies, i, n):
        return load(bodies, i, n), load(bodies, i + distance, n)

    return both


def store_several(cuda, r, stride):
    """Return ``store(array, start, i, n, sums)``: the sums of i, i + stride, ... go to rows start + i, ... if i < n."""
    store_row = body.store_row(cuda, 4)

    @cuda.jit(device=True, fastmath=True)
    def store(array, start, i, n, sums):
        if i < n:
            store_row(array, start + i, sums)

    count = 1
    while count < r:
        store = _both_stores(cuda, store, count * stride)
        count *= 2
    return store


def _both_stores(cuda, store, distance):
    @cuda.jit(device=True, fastmath=True)
    def both(array, start, i, n, sums):
        store(array, start, i, n, sums[0])
        store(array, start, i + distance, n, sums[1])

    return both


def no_sums(real, r):
    """Return the sums of r bodies before any other has pulled, as the tuples of ``pull_several``."""
    sums = (real(0),) * 3
    for _ in range(r.bit_length() - 1):
        sums = (sums, sums)
    return sums
