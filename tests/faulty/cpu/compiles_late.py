"""Compiles a function with Numba in its first launch, beside no kernel of the toolkit."""

import numba
from faulty_direct import direct

from gravbench.model.variant import variant


@variant(parent="numpy_direct", source="a fault planted by the tests")
def prepare(cpu, bodies):
    """Evaluate and compile."""

    @numba.njit
    def half(number):
        return number / 2

    @numba.njit
    def nothing(accelerations):
        return half(accelerations.sum())

    return direct(cpu, bodies, nothing)
