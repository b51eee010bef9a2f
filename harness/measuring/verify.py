"""The judge: an interaction summed directly in float64, and how far others are from it.

A kernel is judged on the bodies as it receives them, rounded to its own number type: the error is that of its
arithmetic, not of storing the initial conditions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gravbench.model.bodies import Bodies
from gravbench.model.interaction import MATH, Interaction
from gravbench.model.record import Errors
from gravbench.model.variant import Dtype, Prepared, Tolerance
from gravbench.toolkits import buffers
from gravbench.toolkits.interface import DeviceToolkit

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


LOOP = """
@numba.njit(parallel=True)
def direct_sums(bodies, eps2, rows, out):
    for row in numba.prange(rows.size):
        i = rows[row]
        {own} = {of_i}
        {sums} = {zeros}
        for j in range(bodies.shape[1]):
            {other} = {of_j}
            {lines}
        {out} = {sums}
"""


@lru_cache(maxsize=8)
def _compiled(source: str) -> Any:
    import numba

    @numba.njit  # type: ignore[untyped-decorator]
    def inverse_sqrt(value: float) -> float:
        return 1.0 / math.sqrt(value)

    namespace: dict[str, Any] = {**MATH, "inverse_sqrt": inverse_sqrt, "numba": numba}
    exec(source, namespace)
    return namespace["direct_sums"]


def direct_sums(interaction: Interaction, bodies: Bodies, rows: NDArray[np.int64], dtype: Dtype) -> Array:
    """Add up in float64 what all bodies do to those of ``rows``; shape (rows, sums of the interaction).

    What the kernels receive is rounded to ``dtype`` first: the numbers of the bodies, the softening length squared and
    the interaction's constants.
    """
    real = np.dtype(dtype).type
    numbers = range(len(interaction.body))
    places = range(len(interaction.sums))
    source = LOOP.format(
        own="".join(f"i_{name}, " for name in interaction.body),
        of_i="".join(f"bodies[{number}, i], " for number in numbers),
        other="".join(f"j_{name}, " for name in interaction.body),
        of_j="".join(f"bodies[{number}, j], " for number in numbers),
        sums="".join(f"sums_{name}, " for name in interaction.sums),
        zeros="0.0, " * len(places),
        out="".join(f"out[row, {place}], " for place in places),
        lines="\n            ".join(interaction.python_lines(lambda value: repr(float(real(value))))),
    )
    own = interaction.rows(bodies.position, bodies.velocity, bodies.mass)[:, : len(numbers)]
    rounded = np.ascontiguousarray(own.T.astype(real).astype(np.float64))
    out = np.empty((rows.size, len(places)))
    _compiled(source)(rounded, float(real(bodies.eps**2)), rows, out)
    return out


def compare(
    found: NDArray[Any], expected: Array, vectors: Mapping[str, tuple[int, ...]] = MappingProxyType({"a": (0, 1, 2)})
) -> Errors:
    """Measure the largest and the rms relative error over bodies; both arrays of shape (rows, sums).

    ``vectors`` are the places of the numbers that belong together; the errors are those of the worst of them. The
    relative error of a body is |a - expected| / |expected|. Where the expected vector is exactly zero (one body
    alone) it is zero if the found one is zero too, else infinite. A NaN makes both errors NaN.
    """
    largest, rms, median, p99 = {}, [], [], []
    for name, places in vectors.items():
        distance = np.linalg.norm(found[:, places].astype(np.float64) - expected[:, places], axis=1)
        size = np.linalg.norm(expected[:, places], axis=1)
        relative = np.where(distance == 0, 0.0, np.inf)
        np.divide(distance, size, out=relative, where=size > 0)
        relative[np.isnan(distance)] = np.nan
        largest[name] = float(relative.max())
        rms.append(float(np.sqrt(np.mean(relative**2))))
        median.append(float(np.median(relative)))
        p99.append(float(np.quantile(relative, 0.99, method="higher")))
    return Errors(
        error_max=float(np.max(list(largest.values()))),
        error_rms=float(np.max(rms)),
        error_median=float(np.max(median)),
        error_p99=float(np.max(p99)),
        error_rows=len(expected),
        error_max_of=largest if len(largest) > 1 else {},
    )


def objection_to(errors: Errors, tolerance: Tolerance) -> str | None:
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


class Judge:
    """Compares what a prepared variant has left on its device with direct sums in float64."""

    def __init__(
        self, toolkit: DeviceToolkit, prepared: Prepared, bodies: Bodies, tolerance: Tolerance, dtype: Dtype
    ) -> None:
        """Sum the reference, once for all verdicts."""
        self.toolkit = toolkit
        self.prepared = prepared
        factor = toolkit.interaction.tolerance
        self.tolerance = Tolerance(max=factor * tolerance.max, rms=factor * tolerance.rms)
        self.rows = verified_rows(bodies.n)
        self.expected = direct_sums(toolkit.interaction, bodies, self.rows, dtype)

    def verdict(self) -> tuple[Errors, str | None]:
        """Return the errors of what was launched last, and why that is wrong; None when it is right.

        No acceleration may be NaN or infinite, whether or not it is among the compared ones. Where several
        launches make a cycle, one whole cycle is launched and the mean of its accelerations is judged.
        """
        vectors = self.toolkit.interaction.vectors()
        accelerations = buffers.sums(self.toolkit, self.prepared)
        errors = compare(accelerations[self.rows], self.expected, vectors)
        judged = errors
        if self.prepared.cycle > 1:
            accelerations = self._mean_of_a_cycle()
            judged = compare(accelerations[self.rows], self.expected, vectors)
            errors = errors.model_copy(
                update={
                    "cycle": self.prepared.cycle,
                    "error_cycle_max": judged.error_max,
                    "error_cycle_rms": judged.error_rms,
                }
            )
        objection = objection_to(judged, self.tolerance)
        bad = int(np.count_nonzero(~np.isfinite(accelerations).all(axis=1)))
        if bad and not objection:
            objection = f"{bad} accelerations outside of the sample are NaN or infinite"
        return errors, objection

    def _mean_of_a_cycle(self) -> NDArray[np.float64]:
        total: NDArray[np.float64] = np.zeros(1)
        for _ in range(self.prepared.cycle):
            self.prepared.launch()
            self.toolkit.synchronize()
            total = total + buffers.sums(self.toolkit, self.prepared)
        return total / self.prepared.cycle
