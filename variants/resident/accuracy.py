"""The tolerances of the accelerations for an opening criterion."""

from gravbench.model.variant import DIRECT_SUM, Range, Tolerance

THETAS = (0, 0.3, 0.5, 0.7, 1.0, 1.2)
"""Opening angles to sweep; 0 opens every cell, which is the direct sum."""
THETA = Range(0.05, 1.2, "below, the tolerance is less than rounding in float32; above, cells hold bodies of their own")

RMS, MAX = 0.3, 6.0
"""Tolerance divided by theta^2."""


def of_axes(axes):
    """Return the tolerance of each number type."""
    theta = axes.get("theta", 0.7)
    if theta == 0:
        return DIRECT_SUM
    return dict.fromkeys(DIRECT_SUM, Tolerance(max=MAX * theta**2, rms=RMS * theta**2))
