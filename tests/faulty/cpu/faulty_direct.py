"""A right answer to spoil: NumPy, all pairs at once."""

import numpy as np

from gravbench.model.variant import Prepared


def direct(cpu, bodies, spoil):
    """Evaluate directly, then let ``spoil(accelerations)`` do what it does."""
    own = cpu.upload(np.column_stack([bodies.position, bodies.mass]))
    accelerations = cpu.empty(bodies.n, 3)

    def launch():
        position, mass = own[:, :3].astype(float), own[:, 3].astype(float)
        separation = position[None] - position[:, None]
        r2 = (separation**2).sum(-1) + bodies.eps**2
        accelerations[:] = np.einsum("ij,ijk->ik", mass / r2**1.5, separation)
        spoil(accelerations)

    return Prepared(launch, own, accelerations)
