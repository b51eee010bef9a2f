"""SPH: the density at each body, by the cubic spline of Monaghan & Lattanzio (1985) with one smoothing length.

The spline is (2 - q)^3 / 4 - (1 - q)^3, each term where it is positive, with q = r / H; a body counts itself. eps has
no effect. Hamada & Iitaka 2007 name SPH among what their scheme computes. This is the first of its two loops.
"""

from math import sqrt

H = 0.1
UNIT = 318.3098861837907
"""1 / (pi H^3), so that the integral over all space is the mass."""


def interact(sums, i, j, eps2):
    """Add the density at i due to j."""
    dx = j.x - i.x
    dy = j.y - i.y
    dz = j.z - i.z
    q = sqrt(dx * dx + (dy * dy + dz * dz)) / H
    to_edge = 2 - q
    to_inner = 1 - q
    outer = 0.25 * to_edge * (to_edge * to_edge) if q < 2 else 0
    inner = to_inner * (to_inner * to_inner) if q < 1 else 0
    sums.density += UNIT * j.mass * (outer - inner)
