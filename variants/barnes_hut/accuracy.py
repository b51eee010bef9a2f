"""How wrong accelerations may be for an opening angle."""

from harness.variant import DIRECT_SUM, Tolerance

THETAS = (0, 0.3, 0.5, 0.7, 1.0)
"""Opening angles that can be swept; 0 accepts no cell, which is the direct sum."""

def tolerance(theta):
    """Return the tolerance of each number type."""
    if theta == 0:
        return DIRECT_SUM
    return dict.fromkeys(DIRECT_SUM, Tolerance(max=1.0, rms=1e-1))
