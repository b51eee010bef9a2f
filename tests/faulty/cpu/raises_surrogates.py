"""Raises an exception whose text no file can hold."""

from faulty_direct import direct

from gravbench.model.variant import variant


@variant(parent="numpy_direct", source="a fault planted by the tests")
def prepare(cpu, bodies):
    """Evaluate and spoil."""

    def spoil(accelerations):
        raise RuntimeError("half a pair: \ud800")

    return direct(cpu, bodies, spoil)
