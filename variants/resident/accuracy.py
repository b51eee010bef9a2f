"""The tolerances of the accelerations for an opening criterion and the moments that cells act by.

Where a cell is opened by its width, errors grow with theta squared; where by its part of the acceleration, with the
square root of that part, or with its power of 3/4 where the quadrupole is counted. The largest errors over Plummer
spheres, uniform spheres and collisions of 64 to 16,000 bodies, leaves of 1 and 16, groups of 32, eps 0.05 and 0.01,
from a model of the walk in float64:

| opening | moments | measured at | rms | max |
| --- | --- | --- | ---: | ---: |
| geometric | monopole | theta 0.3, 0.7, 1.2 | 2.0e-3, 2.3e-2, 4.4e-2 | 0.06, 0.65, 1.1 |
| geometric | quadrupole | | 9.4e-5, 7.0e-3, 2.3e-2 | 0.003, 0.21, 0.68 |
| barnes_1994 | monopole | | 1.7e-3, 9.8e-3, 3.8e-2 | 0.05, 0.25, 1.1 |
| barnes_1994 | quadrupole | | 7.8e-5, 4.3e-3, 1.2e-2 | 0.002, 0.13, 0.32 |
| acceleration | monopole | part 0.0005, 0.0025, 0.01, 0.1 | 1.2e-3, 3.2e-3, 6.4e-3, 2.1e-2 | 0.004, 0.02, 0.05, 0.2 |
| acceleration | quadrupole | | 1.6e-4, 4.6e-4, 1.3e-3, 8.0e-3 | 0.002, 0.005, 0.03, 0.17 |

The largest are those of bodies whose pulls nearly cancel.
"""

from gravbench.model.variant import DIRECT_SUM, Range, Tolerance

OPENINGS = ("geometric", "barnes_1994", "acceleration")
MOMENTS = ("monopole", "quadrupole")
THETAS = (0, 0.3, 0.5, 0.7, 1.0, 1.2)
"""Opening angles to sweep; 0 opens every cell, which is the direct sum."""
PARTS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02)
"""Parts of the acceleration to sweep."""
_ROUNDING = "below, errors are smaller than those of float32 rounding"
THETA = Range(0.05, 1.2, f"{_ROUNDING}; above, bodies accept cells that contain them")
PART = Range(1e-5, 0.1, f"{_ROUNDING}; above, errors are as large as at theta 1.2")

LIMITS = {
    ("geometric", "monopole"): Tolerance(max=5.5, rms=0.2),
    ("geometric", "quadrupole"): Tolerance(max=2.0, rms=0.065),
    ("barnes_1994", "monopole"): Tolerance(max=3.0, rms=0.11),
    ("barnes_1994", "quadrupole"): Tolerance(max=1.1, rms=0.035),
    ("acceleration", "monopole"): Tolerance(max=2.4, rms=0.26),
    ("acceleration", "quadrupole"): Tolerance(max=3.8, rms=0.19),
}
"""Four times the largest errors, in units of what they grow with."""


def of_axes(axes):
    """Return the tolerance of each number type."""
    opening, moments = axes.get("opening", "acceleration"), axes.get("moments", "quadrupole")
    if axes.get("theta") == 0:
        return DIRECT_SUM
    if opening == "acceleration":
        part = axes.get("part", 0.01)
        unit = part**0.75 if moments == "quadrupole" else part**0.5
    else:
        unit = axes["theta"] ** 2
    limits, least = LIMITS[opening, moments], DIRECT_SUM["float32"]
    found = Tolerance(max=max(unit * limits.max, least.max), rms=max(unit * limits.rms, least.rms))
    return dict.fromkeys(DIRECT_SUM, found)
