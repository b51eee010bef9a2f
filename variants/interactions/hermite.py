"""Acceleration, its rate of change (jerk) and the potential: what Hermite integrators need.

Hamada & Iitaka 2007, appendix A.4; the jerk is the time derivative of the softened acceleration. The pair of a body
with itself adds zero to the vectors and -mass / eps to the potential; subtract it where it is not wanted.
"""

from gravbench.model.interaction import inverse_sqrt


def interact(sums, i, j, eps2):
    """Add the acceleration, jerk and potential of i due to j."""
    dx = j.x - i.x
    dy = j.y - i.y
    dz = j.z - i.z
    dvx = j.vx - i.vx
    dvy = j.vy - i.vy
    dvz = j.vz - i.vz
    r2 = dx * dx + (dy * dy + (dz * dz + eps2))
    rv = dx * dvx + (dy * dvy + dz * dvz)
    inverse = inverse_sqrt(r2)
    inverse2 = inverse * inverse
    depth = j.mass * inverse
    strength = depth * inverse2
    approach = -3 * rv * inverse2
    sums.ax += strength * dx
    sums.ay += strength * dy
    sums.az += strength * dz
    sums.jx += strength * (dvx + approach * dx)
    sums.jy += strength * (dvy + approach * dy)
    sums.jz += strength * (dvz + approach * dz)
    sums.potential -= depth
