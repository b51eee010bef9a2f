"""Other bodies than those of a case, on which its kernel has to be right too.

They show what the bodies of a case may hide: masses that count as equal, a softening length slightly off, a body that
is left out, results that are kept from an earlier launch.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from gravbench.model.bodies import Bodies
from gravbench.model.interaction import GRAVITY, Interaction

HEAVY = 6
"""Bodies drawn to be heavy, beside the first and the last: together they have about half of the mass."""


def drawn(bodies: Bodies, seed: int, drawing: int, interaction: Interaction) -> Bodies:
    """Return the other bodies that the number of a drawing stands for: the same in every process that has the seed."""
    return other_bodies(bodies, np.random.default_rng([seed, drawing]), near=interaction.name == GRAVITY)


def other_bodies(bodies: Bodies, generator: np.random.Generator, *, near: bool) -> Bodies:
    """Return as many bodies in another order, turned by a right angle in their plane x y, with other masses.

    ``near`` shrinks them until their distances are about the softening length, where the force depends on it most, and
    leaves the velocities as they are: it is for gravity, which reads none.
    """
    n = bodies.n
    order = generator.permutation(n)

    def turned(array: NDArray[np.float64]) -> NDArray[np.float64]:
        moved = array.take(order, axis=0)
        x, y = moved.T[:2]
        x[:], y[:] = y.copy(), -x
        return moved

    position = turned(bodies.position)
    velocity = bodies.velocity if near else turned(bodies.velocity)  # gravity reads none
    if near:
        position -= np.einsum("ij->j", position) / n
        size = math.sqrt(float(np.einsum("ij,ij->", position, position)) / position.size)
        position *= bodies.eps / size if size else 1.0
    weight = 0.5 + generator.random(n)
    weight[[0, n - 1, *generator.integers(n, size=HEAVY)]] *= max(1.0, n / (2 + HEAVY))
    return Bodies(weight * bodies.mass.sum() / weight.sum(), position, velocity, bodies.eps)
