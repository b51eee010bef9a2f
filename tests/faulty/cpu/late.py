"""Is right when it is verified, and wrong from the fifteenth launch on."""

from faulty_direct import direct

from gravbench.model.variant import variant


@variant(parent="numpy_direct", source="a fault planted by the tests")
def prepare(cpu, bodies):
    """Evaluate and spoil."""
    launches = 0

    def spoil(accelerations):
        nonlocal launches
        launches += 1
        if launches >= 15:
            accelerations *= 1.1

    return direct(cpu, bodies, spoil)
