"""What rounding costs a direct sum: the errors that it is held to, relative to the magnitudes of the contributions."""

from __future__ import annotations

import numpy as np

from gravbench.model.variant import Dtype, Tolerance

WORSE = Tolerance(max=4.0, rms=3.0)
"""How many times the errors of the plain sum a direct sum may have: it may add in another order."""
FLOOR = Tolerance(max=24.0, rms=12.0)
"""Roundings that a term itself may be wrong by: an approximate inverse square root, cubed, on a GPU."""
ROUNDINGS_OF_A_PULL = 16
"""At most, of the pull of one body: its distance, the inverse square root, its cube, and the products."""


def unit(dtype: Dtype) -> float:
    """Return the largest relative error of one rounding."""
    return float(np.finfo(dtype).eps) / 2


def largest_accepted(n: int, dtype: Dtype) -> float:
    """Return what the largest accepted error of a body never exceeds, whatever the n bodies are.

    A direct sum is held to the error of a plain one, which has at most a rounding for each pull and those of a pull.
    """
    return (FLOOR.max + WORSE.max * (n + ROUNDINGS_OF_A_PULL)) * unit(dtype)
