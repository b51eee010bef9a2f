"""Is right over two launches: the errors of one are those of the other, turned round."""

from dataclasses import replace

from faulty_direct import direct

from gravbench.model.variant import variant


@variant(parent="numpy_direct", source="a fault planted by the tests", approximates="half in each launch")
def prepare(cpu, bodies):
    """Evaluate and spoil."""
    turn = 0

    def spoil(accelerations):
        nonlocal turn
        turn += 1
        accelerations *= 1.5 if turn % 2 else 0.5

    return replace(direct(cpu, bodies, spoil), cycle=2)
