"""Gravity summed directly in float64: what tests hold accelerations against."""

from gravbench.model.interaction import GRAVITY
from gravbench.model.interaction_files import find
from gravbench.verifying.direct_sums import direct_sums


def direct_accelerations(bodies, rows, dtype="float64"):
    """Add up the pulls of gravity on the bodies of ``rows``; shape (rows, 3)."""
    return direct_sums(find(GRAVITY), bodies, rows, dtype).exact
