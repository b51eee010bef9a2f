"""Lennard-Jones: the force between two neutral molecules, repulsive when near and attractive when far, and its energy.

4 DEPTH ((SIGMA / r)^12 - (SIGMA / r)^6), softened by eps as gravity is; masses have no effect. The pair of a body with
itself adds zero to the force, and the same constant for every body to the energy.
"""

from gravbench.model.interaction import inverse_sqrt

DEPTH = 1.0
SIGMA = 0.04
TOLERANCE = 10  # repulsion and attraction cancel, and the 12th power of a ratio has 12 times its rounding error


def interact(sums, i, j, eps2):
    """Add the force on i and the energy of i due to j."""
    dx = j.x - i.x
    dy = j.y - i.y
    dz = j.z - i.z
    r2 = dx * dx + (dy * dy + (dz * dz + eps2))
    inverse = inverse_sqrt(r2)
    ratio = SIGMA * inverse
    ratio2 = ratio * ratio
    ratio6 = ratio2 * ratio2 * ratio2
    attraction = 4 * DEPTH * ratio6
    repulsion = attraction * ratio6
    strength = (6 * attraction - 12 * repulsion) * (inverse * inverse)
    sums.fx += strength * dx
    sums.fy += strength * dy
    sums.fz += strength * dz
    sums.energy += repulsion - attraction
