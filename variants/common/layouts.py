"""Lay bodies and accelerations out as a kernel reads and writes them, and prepare its launch.

A row has all numbers of one body, a column one number of all bodies. Each function uploads ``bodies`` in one layout and
returns the arrays together with the launch that is timed.
"""

import itertools

import numpy as np

from gravbench.model.variant import Prepared

FRACTIONS = (1, 0.5, 0.25, 0.125, 0.0625)
"""Parts of the bodies that an approximation may count per step (Lee 2008)."""


def one_thread_per_body(gpu, bodies, kernel, p, block=None):
    """Launch ``kernel(bodies, accelerations, n, eps2)`` over rows of bodies and of sums: ceil(n / p) blocks.

    ``block`` is the extents (x, y) of a block, p threads along x by default.
    """
    own, accelerations = _rows(gpu, bodies)
    grid = -(-bodies.n // p)
    n, eps2 = np.int32(bodies.n), gpu.real(bodies.eps**2)
    return Prepared(lambda: kernel(grid, block or p, own, accelerations, n, eps2), own, accelerations, kernel)


def _rows(gpu, bodies):
    """Upload rows of bodies, ``Body`` in CUDA C, and make as many empty rows of sums, ``Sums``."""
    own = gpu.interaction.rows(bodies.position, bodies.velocity, bodies.mass)
    return gpu.upload(own), gpu.empty(bodies.n, gpu.interaction.sums_width)


def over_columns(gpu, bodies, kernel, p, dim=3):
    """Launch ``kernel(x, y, z, mass, ax, ay, az, n, eps2)`` over arrays of n numbers: ceil(n / p) blocks.

    In the plane (``dim`` 2) the kernel does not write az, which is zero.
    """
    columns = tuple(gpu.upload(column) for column in (*bodies.position.T, bodies.mass))
    along_z = gpu.empty(bodies.n) if dim == 3 else gpu.upload(np.zeros(bodies.n))
    accelerations = (gpu.empty(bodies.n), gpu.empty(bodies.n), along_z)
    grid = -(-bodies.n // p)
    n, eps2 = np.int32(bodies.n), gpu.real(bodies.eps**2)
    return Prepared(lambda: kernel(grid, p, *columns, *accelerations, n, eps2), columns, accelerations, kernel)


def window_per_step(gpu, bodies, kernel, p, fraction):
    """Launch ``kernel(bodies, accelerations, n, eps2, first, last, scale)`` over one window after another.

    A cycle has 1 / fraction windows, at most n, which together hold every body once.
    """
    own, accelerations = _rows(gpu, bodies)
    grid = -(-bodies.n // p)
    n, eps2 = np.int32(bodies.n), gpu.real(bodies.eps**2)
    cycle = min(round(1 / fraction), bodies.n)
    edges = [np.int32(bodies.n * step // cycle) for step in range(cycle + 1)]
    windows = itertools.cycle(list(itertools.pairwise(edges)))
    scale = gpu.real(cycle)

    def launch():
        first, last = next(windows)
        kernel(grid, p, own, accelerations, n, eps2, first, last, scale)

    return Prepared(launch, own, accelerations, kernel, cycle)


def over_arrays(gpu, bodies, kernel, *threads, kernels=1):
    """Call ``kernel(x, y, z, mass, ax, ay, az, n, eps2)`` with arrays of n numbers each.

    ``threads`` are the grid and the block, for a kernel that is written for threads; ``kernels`` are how many one call
    launches.
    """
    columns = tuple(gpu.upload(column) for column in (*bodies.position.T, bodies.mass))
    accelerations = tuple(gpu.empty(bodies.n) for _ in range(3))
    arguments = (*threads, *columns, *accelerations, np.int32(bodies.n), gpu.real(bodies.eps**2))
    return Prepared(lambda: kernel(*arguments), columns, accelerations, kernel, kernels=kernels)


def on_the_host(cpu, bodies, kernel):
    """Call ``kernel(x, y, z, mass, eps2, ax, ay, az)`` with arrays of n numbers each."""
    columns = tuple(cpu.upload(column) for column in (*bodies.position.T, bodies.mass))
    accelerations = tuple(cpu.empty(bodies.n) for _ in range(3))
    eps2 = cpu.real(bodies.eps**2)
    return Prepared(lambda: kernel(*columns, eps2, *accelerations), columns, accelerations)
