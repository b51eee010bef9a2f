"""Prints without an end."""

import os

from faulty_direct import direct

from gravbench.model.variant import variant


@variant(parent="numpy_direct", source="a fault planted by the tests")
def prepare(cpu, bodies):
    """Evaluate and spoil."""

    def spoil(accelerations):
        while True:
            os.write(1, b"once more\n" * 1000)

    return direct(cpu, bodies, spoil)
