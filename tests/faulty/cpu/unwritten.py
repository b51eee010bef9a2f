"""Forgets the last body."""

import numpy as np
from faulty_direct import direct

from gravbench.model.variant import variant


@variant(parent="numpy_direct", source="a fault planted by the tests")
def prepare(cpu, bodies):
    """Evaluate and spoil."""

    def spoil(accelerations):
        accelerations[-1] = np.nan

    return direct(cpu, bodies, spoil)
