"""Morton codes of bodies, and the parallel radix sort that puts bodies in their order.

A Morton code interleaves the bits of a body's coordinates on a grid over the cube around all bodies. In the order of
the codes every cell of a quadtree or octree is one range of bodies, and bodies near each other in space mostly lie
near each other in memory.

Each loop over bodies is divided into one range per worker. A worker's range is the same in every pass, so that two
workers never write to the same place.
"""

import functools
from types import SimpleNamespace

import numpy as np

from gravbench.model.variant import Range

BITS = (10, 21)
"""Bits per coordinate: 10 as in Bodin 2026, or 21, the most of which three fit into 64 bits.

With 10 bits a cell of the finest grid is 1/1024 of the cube wide. At a million bodies the core of a Plummer sphere has
many bodies per such cell, which cannot be distinguished.
"""
RANGE = Range(1, BITS[-1], "three such numbers fit into a 64-bit code")

DIGIT_BITS = 8
"""Bits per pass of the sort: 256 write positions per worker fit into the first-level cache."""

_ONE = np.uint64(1)
_DIGIT = np.uint64((1 << DIGIT_BITS) - 1)
# Masks of the bits while they are spread, one per step (21 bits to every third place, 32 to every second).
_THIRDS = tuple(
    (np.uint64(shift), np.uint64(mask))
    for shift, mask in (
        (32, 0x001F00000000FFFF),
        (16, 0x001F0000FF0000FF),
        (8, 0x100F00F00F00F00F),
        (4, 0x10C30C30C30C30C3),
        (2, 0x1249249249249249),
    )
)
_HALVES = tuple(
    (np.uint64(shift), np.uint64(mask))
    for shift, mask in (
        (16, 0x0000FFFF0000FFFF),
        (8, 0x00FF00FF00FF00FF),
        (4, 0x0F0F0F0F0F0F0F0F),
        (2, 0x3333333333333333),
        (1, 0x5555555555555555),
    )
)


@functools.cache
def compiled():
    """Compile the loops; ``rows`` has one body per row: x, y, z, mass."""
    import numba

    (s0, m0), (s1, m1), (s2, m2), (s3, m3), (s4, m4) = _THIRDS
    (t0, n0), (t1, n1), (t2, n2), (t3, n3), (t4, n4) = _HALVES

    @numba.njit(inline="always")
    def every_third(value):
        value = (value | (value << s0)) & m0
        value = (value | (value << s1)) & m1
        value = (value | (value << s2)) & m2
        value = (value | (value << s3)) & m3
        return (value | (value << s4)) & m4

    @numba.njit(inline="always")
    def every_second(value):
        value = (value | (value << t0)) & n0
        value = (value | (value << t1)) & n1
        value = (value | (value << t2)) & n2
        value = (value | (value << t3)) & n3
        return (value | (value << t4)) & n4

    @numba.njit(inline="always")
    def cell(coordinate, low, scale, most):
        # The far face of the cube belongs to the last cell, not to one beyond it.
        return min(np.int64((coordinate - low) * scale), most)

    @numba.njit(parallel=True, error_model="numpy")
    def extremes(rows, found):
        """Write the least and the greatest x, y, z of each worker's bodies; infinities where it has none."""
        n, workers = rows.shape[0], found.shape[0]
        for worker in numba.prange(workers):
            first, last = n * worker // workers, n * (worker + 1) // workers
            for axis in range(3):
                least = np.inf
                greatest = -np.inf
                for i in range(first, last):
                    value = np.float64(rows[i, axis])
                    least = min(least, value)
                    greatest = max(greatest, value)
                found[worker, axis] = least
                found[worker, 3 + axis] = greatest

    @numba.njit(parallel=True, error_model="numpy")
    def encode(rows, low, scale, most, dim, keys, order):
        """Write the Morton code of each body, x in the highest bit, and the numbers 0 to n - 1."""
        for i in numba.prange(rows.shape[0]):
            x = np.uint64(cell(np.float64(rows[i, 0]), low[0], scale, most))
            y = np.uint64(cell(np.float64(rows[i, 1]), low[1], scale, most))
            if dim == 3:
                z = np.uint64(cell(np.float64(rows[i, 2]), low[2], scale, most))
                keys[i] = (every_third(x) << np.uint64(2)) | (every_third(y) << _ONE) | every_third(z)
            else:
                keys[i] = (every_second(x) << _ONE) | every_second(y)
            order[i] = i

    @numba.njit(parallel=True, error_model="numpy")
    def sort(keys, order, other_keys, other_order, counts, bits):
        """Sort by the lowest ``bits`` bits of the keys, last digit first; bodies of one key stay as they were.

        ``counts`` has one row per worker. Returns whether the result is in the other pair of arrays.
        """
        n, workers = keys.size, counts.shape[0]
        swapped = False
        for digit in range((bits + DIGIT_BITS - 1) // DIGIT_BITS):
            shift = np.uint64(digit * DIGIT_BITS)
            for worker in numba.prange(workers):
                own = counts[worker]
                own[:] = 0
                for i in range(n * worker // workers, n * (worker + 1) // workers):
                    own[np.int64((keys[i] >> shift) & _DIGIT)] += 1
            # The write position per worker and digit: after all lower digits, and after earlier workers.
            position = 0
            alone = False
            for value in range(counts.shape[1]):
                before = position
                for worker in range(workers):
                    count = counts[worker, value]
                    counts[worker, value] = position
                    position += count
                alone = alone or position - before == n
            if alone:
                continue  # all have the same digit
            for worker in numba.prange(workers):
                own = counts[worker]
                for i in range(n * worker // workers, n * (worker + 1) // workers):
                    value = np.int64((keys[i] >> shift) & _DIGIT)
                    other_keys[own[value]] = keys[i]
                    other_order[own[value]] = order[i]
                    own[value] += 1
            keys, other_keys = other_keys, keys
            order, other_order = other_order, order
            swapped = not swapped
        return swapped

    @numba.njit(parallel=True, error_model="numpy")
    def gather(rows, order, gathered):
        """Copy the rows in their new order."""
        for i in numba.prange(order.size):
            for number in range(4):
                gathered[i, number] = rows[order[i], number]

    return SimpleNamespace(cell=cell, extremes=extremes, encode=encode, sort=sort, gather=gather)
