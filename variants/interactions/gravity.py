"""Gravity: the softened acceleration of a body due to the mass of another (GPU Gems 3, section 31.2).

20 FLOPs, as the source counts: 3 for the differences, 6 for the squared distance, 2 for the inverse square root, 3 for
the strength and 2 for each of the three sums. The pair of a body with itself adds exactly zero, because eps2 is greater
than zero, and needs no branch.
"""

from gravbench.model.interaction import inverse_sqrt


def interact(sums, i, j, eps2):
    """Add the acceleration of i due to j."""
    dx = j.x - i.x
    dy = j.y - i.y
    dz = j.z - i.z
    r2 = dx * dx + (dy * dy + (dz * dz + eps2))
    inverse = inverse_sqrt(r2)
    strength = j.mass * inverse * (inverse * inverse)
    sums.ax += strength * dx
    sums.ay += strength * dy
    sums.az += strength * dz
