"""Leaves one acceleration NaN."""

from faulty_direct import direct

from gravbench.model.variant import variant


@variant(parent="numpy_direct", source="a fault planted by the tests")
def prepare(cpu, bodies):
    """Evaluate and spoil."""

    def spoil(accelerations):
        accelerations[0, 0] = float("nan")

    return direct(cpu, bodies, spoil)
