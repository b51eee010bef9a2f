"""The tolerances of the accelerations for an opening angle.

A centre of mass omits the quadrupole, (width / distance)^2 of the acceleration, so errors grow with theta^2. Measured
in float32 with leaves of 1 and 16 bodies, eps 0.05 and 0.01, each body walking by itself: the largest errors over
Plummer spheres, uniform spheres and collisions of 50 to 100,000 bodies, with up to three seeds each:

| theta | rms in space | max in space | rms in the plane | max in the plane |
| ---: | ---: | ---: | ---: | ---: |
| 0.3 | 5.8e-3 | 0.17 | 1.7e-2 | 0.5 |
| 0.5 | 1.3e-2 | 0.32 | 5.9e-2 | 1.8 |
| 0.7 | 2.9e-2 | 0.71 | 1.0e-1 | 3.0 |
| 1.0 | 5.6e-2 | 1.8 | 2.7e-1 | 7.8 |

The largest errors are those of bodies whose contributions nearly cancel: bodies in the middle of a uniform sphere,
above all when it is flattened to a disk. A Plummer sphere of 100,000 bodies with eps 0.025 and theta 0.7 has an rms
error of 2.6e-3, and of 1.7e-3 where 32 bodies walk together.
"""

from gravbench.model.variant import DIRECT_SUM, Range, Tolerance

THETAS = (0, 0.3, 0.5, 0.7, 1.0, 1.2)
"""Opening angles to sweep; 0 opens every cell, which is the direct sum."""
_ROUNDING = "below, the tolerance, proportional to theta squared, is smaller than float32 rounding"
THETA = Range(0.05, 1.4, f"{_ROUNDING}; above, no more cells are accepted than at 1.4, as they may contain the body")
"""In space that is so from 1.2 on, which declarations say in ``when``."""
THETA_OF_WIDTH = Range(0.05, 2.0, f"{_ROUNDING}; above, bodies accept most cells that contain them")
"""Where the width of a cell over the distance of its centre of mass decides alone."""

RMS = {2: 0.45, 3: 0.08}
MAX = {2: 15.0, 3: 2.5}
"""Tolerance divided by theta^2, in the plane and in space: up to four times the largest error measured."""


def tolerance(theta, dim=3):
    """Return the tolerance of each number type."""
    if theta == 0:
        return DIRECT_SUM
    return dict.fromkeys(DIRECT_SUM, Tolerance(max=MAX[dim] * theta**2, rms=RMS[dim] * theta**2))


def of_axes(axes):
    """Return the tolerance of a variant with the axes theta and dim."""
    return tolerance(axes["theta"], axes["dim"])
