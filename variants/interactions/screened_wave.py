"""The wave equation after a Laplace transform in time: the potential exp(-K r) / (4 pi r) and its gradient.

K is the real parameter of the transform over the speed of the wave. r is softened by eps as gravity is. A source adds
zero to its own gradient, and mass exp(-K eps) / (4 pi eps) to its potential; subtract it where it is not wanted. Hamada
& Iitaka 2007 name the wave equation among what their scheme computes.
"""

from math import exp

from gravbench.model.interaction import inverse_sqrt

K = 1.0
UNIT = 0.07957747154594767
"""1 / (4 pi)."""


def interact(sums, i, j, eps2):
    """Add the potential at i due to the source j, and its gradient."""
    dx = j.x - i.x
    dy = j.y - i.y
    dz = j.z - i.z
    r2 = dx * dx + (dy * dy + (dz * dz + eps2))
    inverse = inverse_sqrt(r2)
    phase = K * (r2 * inverse)
    amplitude = UNIT * j.mass * inverse * exp(-phase)
    slope = amplitude * (1 + phase) * (inverse * inverse)
    sums.gx += slope * dx
    sums.gy += slope * dy
    sums.gz += slope * dz
    sums.potential += amplitude
