"""Other bodies than those of a case, on which its kernel has to be right too.

They show what the bodies of a case may hide: masses that count as equal, a softening length slightly off, a body that
is left out, results that are kept from an earlier launch.
"""

from __future__ import annotations

import numpy as np

from gravbench.model.bodies import Bodies

HEAVY = 6
"""Bodies drawn to be heavy, beside the first and the last: together they have about half of the mass."""


def other_bodies(bodies: Bodies, generator: np.random.Generator, *, near: bool) -> Bodies:
    """Return as many bodies in another order, turned by a right angle in their plane x y, with other masses.

    ``near`` shrinks them until their distances are about the softening length, where the force depends on it most.
    """
    n = bodies.n
    order = generator.permutation(n)
    turned = [array[order][:, [1, 0, 2]] * np.array([1.0, -1.0, 1.0]) for array in (bodies.position, bodies.velocity)]
    position, velocity = turned
    if near:
        position = position - position.mean(axis=0)
        size = float(np.sqrt(np.mean(position**2)))
        position = position * (bodies.eps / size if size else 1.0)
    weight = 0.5 + generator.random(n)
    weight[[0, n - 1, *generator.integers(n, size=HEAVY)]] *= max(1.0, n / (2 + HEAVY))
    return Bodies(weight * bodies.mass.sum() / weight.sum(), position, velocity, bodies.eps)
