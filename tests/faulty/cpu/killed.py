"""Is killed by the system."""

import os
import signal

from faulty_direct import direct

from gravbench.model.variant import variant


@variant(parent="numpy_direct", source="a fault planted by the tests")
def prepare(cpu, bodies):
    """Evaluate and spoil."""

    def spoil(accelerations):
        os.kill(os.getpid(), signal.SIGKILL)

    return direct(cpu, bodies, spoil)
