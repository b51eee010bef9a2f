"""What the peers share: the layout of bodies and accelerations."""

import numpy as np

from gravbench.model.variant import Prepared


def over_columns(gpu, bodies, kernel, *threads, kernels=1):
    """Call ``kernel(x, y, z, mass, ax, ay, az, n, eps2)`` with arrays of n numbers each.

    ``threads`` are the grid and the block of a kernel that is written for threads.
    """
    columns = tuple(gpu.upload(column) for column in (*bodies.position.T, bodies.mass))
    accelerations = tuple(gpu.empty(bodies.n) for _ in range(3))
    arguments = (*threads, *columns, *accelerations, np.int32(bodies.n), gpu.real(bodies.eps**2))
    return Prepared(lambda: kernel(*arguments), columns, accelerations, kernel, kernels=kernels)
