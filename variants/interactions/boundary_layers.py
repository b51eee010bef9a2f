"""Boundary elements of Laplace's equation: a single layer, its gradient, and a double layer, one point per element.

An element has its strength times its area as its mass, and its unit normal in the place of a velocity. The potentials
are those of 1 / (4 pi r), softened by eps as gravity is. An element adds zero to its own double layer and gradient, and
mass / (4 pi eps) to its single layer; subtract it where it is not wanted. Hamada & Iitaka 2007 name BEM among what
their scheme computes.
"""

from gravbench.model.interaction import inverse_sqrt

UNIT = 0.07957747154594767
"""1 / (4 pi)."""


def interact(sums, i, j, eps2):
    """Add the potentials at i due to the element j."""
    dx = j.x - i.x
    dy = j.y - i.y
    dz = j.z - i.z
    inverse = inverse_sqrt(dx * dx + (dy * dy + (dz * dz + eps2)))
    depth = UNIT * j.mass * inverse
    slope = depth * (inverse * inverse)
    sums.single_layer += depth
    sums.gx += slope * dx
    sums.gy += slope * dy
    sums.gz += slope * dz
    sums.double_layer -= slope * (dx * j.vx + (dy * j.vy + dz * j.vz))
