"""Gravity: the acceleration that masses give each other, softened (GPU Gems 3, section 31.2).

20 FLOPs by the sources' count: an FMA is two, the inverse square root is counted as two. The pair of a body with
itself adds exactly nothing, because eps2 is greater than zero, and needs no branch.
"""

from gravbench.model.interaction import inverse_sqrt


def interact(sums, i, j, eps2):
    """Add the pull of j on i."""
    dx = j.x - i.x  # 1
    dy = j.y - i.y  # 1
    dz = j.z - i.z  # 1
    r2 = dx * dx + (dy * dy + (dz * dz + eps2))  # 6
    inverse = inverse_sqrt(r2)  # 2
    strength = j.mass * inverse * (inverse * inverse)  # 3
    sums.ax += strength * dx  # 2
    sums.ay += strength * dy  # 2
    sums.az += strength * dz  # 2
