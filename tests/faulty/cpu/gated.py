"""Is right, and waits as long as the file GRAVBENCH_TEST_GATE says that its number of bodies has to."""

import os
import time
from pathlib import Path

from faulty_direct import direct

from gravbench.model.variant import variant


@variant(parent="numpy_direct", source="a fault planted by the tests")
def prepare(cpu, bodies):
    """Evaluate and wait."""
    gate = Path(os.environ.get("GRAVBENCH_TEST_GATE", "no gate"))

    def closed():
        return gate.exists() and gate.read_text() == str(bodies.n)

    def spoil(accelerations):
        while closed():
            time.sleep(0.02)

    return direct(cpu, bodies, spoil)
