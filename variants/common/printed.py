"""What variants share that compute as a source printed it: the arithmetic of a pull, blocks of 16 x 16, windows."""

import itertools

import numpy as np

from gravbench.model.variant import Prepared

ARITHMETIC = ("rsqrt", "sqrt_div", "d6")
"""The pull by one inverse square root; by a root and a division; by a root of the distance's sixth power, and one."""

SHAPES = ("1d", "16x16")
COLUMNS = 16
"""Blocks of Lee 2008 along x. A block of 16 x 16 threads has 16 rows of 16 bodies, each row 256 behind the last."""


def entry(stem, arithmetic):
    """Name the kernel of a stem: the one that takes roots and divides has a name of its own."""
    return stem if arithmetic == "rsqrt" else f"{stem}_by_roots"


def blocks(n, p, block_shape):
    """Return how many blocks n bodies take: of 16 x 16 threads, whole rows of 16 of them."""
    return -(-n // (p * COLUMNS)) * COLUMNS if block_shape == "16x16" else -(-n // p)


def _rows(gpu, bodies):
    """Upload rows x, y, z, mass, and make as many empty rows of sums."""
    own = gpu.interaction.rows(bodies.position, bodies.velocity, bodies.mass)
    return gpu.upload(own), gpu.empty(bodies.n, gpu.interaction.sums_width)


def over_windows(gpu, bodies, kernel, grid, p, fraction):
    """Launch ``kernel(bodies, accelerations, n, eps2, first, last, scale)`` over one window after another.

    A cycle has 1 / fraction windows, at most n, which together hold every body once; ``scale`` is their number.
    """
    own, accelerations = _rows(gpu, bodies)
    n, eps2 = np.int32(bodies.n), gpu.real(bodies.eps**2)
    parts = min(round(1 / fraction), bodies.n)
    ends = [np.int32(bodies.n * part // parts) for part in range(parts + 1)]
    windows, scale = itertools.cycle(list(itertools.pairwise(ends))), gpu.real(parts)
    return Prepared(
        lambda: kernel(grid, p, own, accelerations, n, eps2, *next(windows), scale), own, accelerations, kernel, parts
    )


def over_rows(gpu, bodies, kernel, grid, p):
    """Launch ``kernel(bodies, accelerations, n, eps2)``."""
    own, accelerations = _rows(gpu, bodies)
    n, eps2 = np.int32(bodies.n), gpu.real(bodies.eps**2)
    return Prepared(lambda: kernel(grid, p, own, accelerations, n, eps2), own, accelerations, kernel)
