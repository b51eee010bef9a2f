"""Lennard-Jones: the force between two neutral molecules, repulsive when near and attractive when far, and its energy.

4 DEPTH ((SIGMA / r)^12 - (SIGMA / r)^6), softened by eps as gravity is; masses do not matter. The pair of a body with
itself adds nothing to the force, and the same number for every body to the energy.
"""

from gravbench.model.interaction import inverse_sqrt

DEPTH = 1.0
SIGMA = 0.04
TOLERANCE = 10  # repulsion and attraction cancel, and the twelfth power of a ratio has twelve times its rounding


def interact(sums, i, j, eps2):
    """Add what j does to i."""
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
