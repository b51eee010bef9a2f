"""Asks for more memory than there is."""

import numpy as np
from faulty_direct import direct

from gravbench.model.variant import variant


@variant(parent="numpy_direct", source="a fault planted by the tests")
def prepare(cpu, bodies):
    """Evaluate and spoil."""

    def spoil(accelerations):
        np.ones(1 << 46)

    return direct(cpu, bodies, spoil)
