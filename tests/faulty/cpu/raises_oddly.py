"""Raises an exception that has no text."""

from faulty_direct import direct

from gravbench.model.variant import variant


class OddError(Exception):
    """Cannot be printed."""

    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __str__


@variant(parent="numpy_direct", source="a fault planted by the tests")
def prepare(cpu, bodies):
    """Evaluate and spoil."""

    def spoil(accelerations):
        raise OddError

    return direct(cpu, bodies, spoil)
