"""Returns accelerations that are a tenth too large, very fast."""

from faulty_direct import direct

from gravbench.model.variant import variant


@variant(parent="numpy_direct", source="a fault planted by the tests")
def prepare(cpu, bodies):
    """Evaluate and spoil."""

    def spoil(accelerations):
        accelerations *= 1.1

    return direct(cpu, bodies, spoil)
