"""Takes a fifth of a second, and is right."""

import time

from faulty_direct import direct

from gravbench.model.variant import variant


@variant(parent="numpy_direct", source="a fault planted by the tests")
def prepare(cpu, bodies):
    """Evaluate and spoil."""

    def spoil(accelerations):
        time.sleep(0.2)

    return direct(cpu, bodies, spoil)
