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
    dx = j.x - i.x  # 1
    dy = j.y - i.y  # 1
    dz = j.z - i.z  # 1
    r2 = dx * dx + (dy * dy + (dz * dz + eps2))  # 6
    inverse = inverse_sqrt(r2)  # 2
    ratio = SIGMA * inverse  # 1
    ratio2 = ratio * ratio  # 1
    ratio6 = ratio2 * ratio2 * ratio2  # 2
    attraction = 4 * DEPTH * ratio6  # 1
    repulsion = attraction * ratio6  # 1
    strength = (6 * attraction - 12 * repulsion) * (inverse * inverse)  # 5
    sums.fx += strength * dx  # 2
    sums.fy += strength * dy  # 2
    sums.fz += strength * dz  # 2
    sums.energy += repulsion - attraction  # 2
