"""Prepares for the positions it is given, with a kernel that took an hour to compile in another process."""

import time

from faulty_direct import direct

from gravbench.model.variant import variant


@variant(parent="numpy_direct", source="a fault planted by the tests", of_positions=True)
def prepare(cpu, bodies):
    """Evaluate, after preparing for a while."""
    cpu.count(3600.0, compiled_now=False)
    cpu.count(0.05, compiled_now=True)
    time.sleep(0.15)
    return direct(cpu, bodies, lambda _: None)
