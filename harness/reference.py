"""The judge: accelerations by direct summation in float64, and how far others are from them.

A kernel is judged on the bodies as it receives them, rounded to its own number type: the error is that of its
arithmetic, not of storing the initial conditions.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.record import Errors
from harness.variant import Dtype, HostBodies, Tolerance

ALL_ROWS_UP_TO = 4096
SAMPLED_ROWS = 1024

Array = NDArray[np.float64]


def verified_rows(n: int) -> NDArray[np.int64]:
    """Return the bodies whose accelerations are compared: all up to 4,096, a fixed sample of 1,024 above.

    The last body is always among them: a kernel that stops short stops there.
    """
    if n <= ALL_ROWS_UP_TO:
        return np.arange(n)
    sample = np.random.default_rng(n).choice(n - 1, SAMPLED_ROWS - 1, replace=False)
    return np.append(np.sort(sample), n - 1)


@lru_cache(maxsize=1)
def _compiled() -> Any:
    import numba

    @numba.njit(parallel=True)  # type: ignore[untyped-decorator]
    def direct_sum(x: Array, y: Array, z: Array, mass: Array, eps2: float, rows: Any, out: Array) -> None:
        for row in numba.prange(rows.size):
            i = rows[row]
            ax = ay = az = 0.0
            for j in range(x.size):
                dx = x[j] - x[i]
                dy = y[j] - y[i]
                dz = z[j] - z[i]
                r2 = dx * dx + dy * dy + dz * dz + eps2
                strength = mass[j] / (r2 * math.sqrt(r2))
                ax += strength * dx
                ay += strength * dy
                az += strength * dz
            out[row, 0] = ax
            out[row, 1] = ay
            out[row, 2] = az

    return direct_sum


def direct_accelerations(bodies: HostBodies, rows: NDArray[np.int64], dtype: Dtype = "float64") -> Array:
    """Sum the pulls of all bodies on those of ``rows`` in float64; shape (rows, 3).

    Positions, masses and the softening length squared are rounded to ``dtype`` first.
    """
    x, y, z, mass = (
        np.ascontiguousarray(column).astype(dtype).astype(np.float64) for column in (*bodies.position.T, bodies.mass)
    )
    eps2 = float(np.dtype(dtype).type(bodies.eps**2))
    out = np.empty((rows.size, 3))
    _compiled()(x, y, z, mass, eps2, rows, out)
    return out


def compare(accelerations: NDArray[Any], reference: Array) -> Errors:
    """Measure the largest and the rms relative error, one relative error a body; both arrays of shape (rows, 3).

    The relative error of a body is |a - reference| / |reference|. Where the reference is exactly zero (one body
    alone) it is zero if the acceleration is zero too, else infinite. A NaN makes both errors NaN.
    """
    distance = np.linalg.norm(accelerations.astype(np.float64) - reference, axis=1)
    size = np.linalg.norm(reference, axis=1)
    relative = np.where(distance == 0, 0.0, np.inf)
    np.divide(distance, size, out=relative, where=size > 0)
    relative[np.isnan(distance)] = np.nan
    return Errors(
        error_max=float(relative.max()),
        error_rms=float(np.sqrt(np.mean(relative**2))),
        error_rows=int(relative.size),
    )


def objection(errors: Errors, tolerance: Tolerance) -> str | None:
    """Say in a sentence why accelerations with these errors are wrong; None when they are right."""
    assert errors.error_max is not None
    assert errors.error_rms is not None
    if math.isnan(errors.error_max):
        return "some accelerations are NaN"
    # Written so that no comparison with a NaN can pass.
    if not errors.error_max <= tolerance.max:
        return f"largest relative error {errors.error_max:.2g} is above the variant's tolerance {tolerance.max:.2g}"
    if not errors.error_rms <= tolerance.rms:
        return f"rms relative error {errors.error_rms:.2g} is above the variant's tolerance {tolerance.rms:.2g}"
    return None
