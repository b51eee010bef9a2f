"""What kernels with several bodies per thread share: registers, division of the work, and the Numba functions."""

import numpy as np

from gravbench.variants.common import body

WARPS = (0, 4, 8, 12, 16, 20, 24, 32)
"""Warps per multiprocessor for which the compiler has to leave registers; 0: chosen by the bodies per thread."""


def warps_for(real, r, warps):
    """Return the warps per multiprocessor for threads that keep r bodies and their sums in registers.

    A multiprocessor has 65,536 registers: 64 per thread at 32 warps, 80 at 24, 96 at 20, 128 at 16. A body and its sums
    take seven registers, 14 in float64; an interaction takes about twenty, and several are in flight at once.
    """
    by_r = {1: 32, 2: 32, 4: 24, 8: 20} if real is np.float32 else {1: 32, 2: 16, 4: 12}
    return warps or by_r.get(r, 8)


def resident(p, warps):
    """Return how many blocks of p threads have so many warps: the second argument of ``__launch_bounds__``."""
    return max(1, 32 * warps // max(p, 32))


def parts_for(items, most, at_once):
    """Return into how many parts to divide each of ``items`` equal pieces of work, at most ``most``.

    ``at_once`` parts run at the same time, so the last wave of them should be full. Returns the fewest parts that leave
    at most a fiftieth of the waves empty, or else the number that leaves the least empty.
    """

    def busy(parts):
        return items * parts / (at_once * -(-items * parts // at_once))

    waves = 8
    candidates = range(1, max(1, min(most, waves * -(-at_once // items))) + 1)
    return next((parts for parts in candidates if busy(parts) >= 0.98), max(candidates, key=busy))


def power_of_two(value, most):
    """Return the least power of two that is not less than ``value``, from 1 to ``most``."""
    return next(power for power in (1 << k for k in range(64)) if power >= min(value, most))


def pull_several(cuda, real, interaction, r):
    """Return ``step(tile, k, own, eps2, sums)``, which lets body k of a tile act on r bodies, r a power of two.

    Numba may put an array into memory, so the r bodies are nested tuples of two halves, down to single bodies: every
    index is a constant, and they stay in registers. Rows of the tile begin with the mass.
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
    """Return ``load(bodies, i, n)``, which reads bodies i, i + stride, ... as nested tuples; see ``pull_several``."""
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
    """Return ``store(array, start, i, n, sums)``: bodies i, i + stride, ... below n write to rows start + i, ..."""
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
    """Return the sums of r bodies before the first interaction, as nested tuples; see ``pull_several``."""
    sums = (real(0),) * 3
    for _ in range(r.bit_length() - 1):
        sums = (sums, sums)
    return sums
