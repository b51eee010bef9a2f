"""Uses more and more memory in a process that has left it, and never ends."""

import os
import time

import numpy as np
from faulty_direct import direct

from gravbench.model.variant import variant


@variant(parent="numpy_direct", source="a fault planted by the tests")
def prepare(cpu, bodies):
    """Evaluate and spoil."""

    def spoil(accelerations):
        if os.fork() == 0:
            os.setsid()
            if os.fork():
                os._exit(0)
            kept = []
            while sum(array.nbytes for array in kept) < 4e9:
                kept.append(np.ones(1 << 22))
                time.sleep(0.01)
        time.sleep(600)

    return direct(cpu, bodies, spoil)
