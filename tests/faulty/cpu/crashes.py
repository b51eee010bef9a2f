"""Reads address zero."""

import ctypes

from faulty_direct import direct

from gravbench.model.variant import variant


@variant(parent="numpy_direct", source="a fault planted by the tests")
def prepare(cpu, bodies):
    """Evaluate and spoil."""

    def spoil(accelerations):
        ctypes.string_at(0)

    return direct(cpu, bodies, spoil)
