"""Is wrong in every launch, in turns, and claims to be a cycle of two that is right on average."""

from dataclasses import replace
from itertools import cycle

from faulty_direct import direct

from gravbench.model.variant import variant


@variant(parent="numpy_direct", source="a fault planted by the tests")
def prepare(cpu, bodies):
    """Evaluate, a quarter too strong and a quarter too weak in turns."""
    factors = cycle((1.25, 0.75))

    def scale(accelerations):
        accelerations *= next(factors)

    return replace(direct(cpu, bodies, scale), cycle=2)
