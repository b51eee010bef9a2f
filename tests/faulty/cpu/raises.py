"""Raises an exception of its own."""

from faulty_direct import direct

from gravbench.model.variant import variant


@variant(parent="numpy_direct", source="a fault planted by the tests")
def prepare(cpu, bodies):
    """Evaluate and spoil."""

    def spoil(accelerations):
        raise RuntimeError("the planted error")

    return direct(cpu, bodies, spoil)
