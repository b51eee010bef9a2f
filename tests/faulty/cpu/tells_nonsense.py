"""Tells of interactions that nobody can count."""

from dataclasses import replace

from faulty_direct import direct

from gravbench.model.variant import variant


@variant(parent="numpy_direct", source="a fault planted by the tests")
def prepare(cpu, bodies):
    """Evaluate, and tell."""
    return replace(direct(cpu, bodies, lambda _: None), insight=lambda: {"computed": {"half a pair: \ud800": 1.0}})
