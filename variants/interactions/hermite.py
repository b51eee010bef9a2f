"""Acceleration, its rate of change (jerk) and the potential: what Hermite integrators need.

Hamada & Iitaka 2007, appendix A.4; the jerk is the derivative of the softened acceleration by time. The pair of a body
with itself adds nothing to the vectors, and -mass / eps to the potential: take it off where it is not wanted.
"""

from gravbench.model.interaction import inverse_sqrt


def interact(sums, i, j, eps2):
    """Add what j does to i."""
    dx = j.x - i.x  # 1
    dy = j.y - i.y  # 1
    dz = j.z - i.z  # 1
    dvx = j.vx - i.vx  # 1
    dvy = j.vy - i.vy  # 1
    dvz = j.vz - i.vz  # 1
    r2 = dx * dx + (dy * dy + (dz * dz + eps2))  # 6
    rv = dx * dvx + (dy * dvy + dz * dvz)  # 5
    inverse = inverse_sqrt(r2)  # 2
    inverse2 = inverse * inverse  # 1
    depth = j.mass * inverse  # 1
    strength = depth * inverse2  # 1
    approach = -3 * rv * inverse2  # 2
    sums.ax += strength * dx  # 2
    sums.ay += strength * dy  # 2
    sums.az += strength * dz  # 2
    sums.jx += strength * (dvx + approach * dx)  # 4
    sums.jy += strength * (dvy + approach * dy)  # 4
    sums.jz += strength * (dvz + approach * dz)  # 4
    sums.potential -= depth  # 1
