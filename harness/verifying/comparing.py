"""How far sums are from expected ones, and how far they may be.

Where contributions cancel, rounding errors are large beside what is left of them and no kernel is to blame. So a body's
error is judged relative to the sum of the magnitudes of the contributions to it, and a direct sum is held to what a
plain sum of the same terms, one after another in its number type, reaches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gravbench.model.bodies import Bodies
from gravbench.model.interaction import Interaction
from gravbench.model.record import Errors
from gravbench.model.rounding import FLOOR, WORSE, unit
from gravbench.model.variant import Dtype, Tolerance
from gravbench.toolkits.device_sums import DeviceSums
from gravbench.verifying.direct_sums import Sums, direct_sums

SCALE_FLOOR = 8.0
"""Roundings that all accelerations may be too large or too small by together."""
DEVIATIONS = 6.0
"""Standard deviations of a mean over the compared bodies within which chance alone brings it."""

TINY = float(np.finfo(np.float64).tiny)
SQUARES = 1e-280, 1e300
"""Between these, a sum of squares has lost nothing to underflow or overflow."""
ROWS_AT_ONCE = 1 << 14
"""Rows that are compared at a time: what is computed of them stays in a core's cache."""

Array = NDArray[np.float64]
Vectors = Mapping[str, tuple[int, ...]]
ACCELERATION: Vectors = MappingProxyType({"a": (0, 1, 2)})


class Limits(NamedTuple):
    """Largest accepted errors relative to the sums of magnitudes: of one body, rms, and of all bodies together."""

    max: float
    rms: float
    scale: float


def compare(
    sums: NDArray[Any],
    expected: Array,
    vectors: Vectors = ACCELERATION,
    magnitudes: Array | None = None,
    *,
    quantiles: bool = True,
) -> Errors:
    """Measure errors over bodies; all arrays of shape (rows, sums).

    ``vectors`` are the places of the numbers that belong together; the errors are those of the worst of them. The
    relative error of a body is |a - expected| / |expected|, or over the length of the vector of ``magnitudes``, where
    these are given. Where that is exactly zero (one body alone) it is zero if the found one is right, else infinite. A
    NaN makes all errors NaN. Without ``quantiles`` the median and the 99 % quantile are left out.
    """
    return Reference(expected, magnitudes, vectors).errors(sums, quantiles=quantiles)[0]


def lengths(vectors: Array) -> Array:
    """Return the length of each row, also of one whose squares would underflow or overflow."""
    return _lengths(np.ascontiguousarray(vectors.T))


def _lengths(vectors: Array) -> Array:
    """Return the length of each column."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        squares = np.einsum("ji,ji->i", vectors, vectors)
        lengths: Array = np.sqrt(squares)
    # A NaN is among the rest.
    rest = np.flatnonzero(~((squares > SQUARES[0]) & (squares < SQUARES[1])))
    if rest.size:
        _, exponents = np.frexp(np.abs(vectors[:, rest]).max(axis=0, initial=0))
        lengths[rest] = np.ldexp(np.linalg.norm(np.ldexp(vectors[:, rest], -exponents), axis=0), exponents)
    return lengths


class Reference:
    """Expected sums, and what follows from them alone: computed once for all that is compared with them."""

    def __init__(self, exact: Array, magnitudes: Array | None, vectors: Vectors) -> None:
        """Take sums and magnitudes of shape (rows, sums); see ``compare``."""
        self.exact = np.ascontiguousarray(exact.T)
        self.magnitudes = None if magnitudes is None else np.ascontiguousarray(magnitudes.T)
        self.places = {name: _places(places) for name, places in vectors.items()}
        self.sizes = {name: _lengths(self.exact[places]) for name, places in self.places.items()}
        self.weights = {}
        if self.magnitudes is not None:
            self.weights = {name: _lengths(self.magnitudes[places]) for name, places in self.places.items()}

    @cached_property
    def largest(self) -> float:
        """The largest number that is expected, positive or negative."""
        return max(float(self.exact.max()), -float(self.exact.min()))

    @cached_property
    def cancellation(self) -> float:
        """How many times as large magnitudes are as the sums themselves, over all rows; zero without any sums."""
        assert self.magnitudes is not None
        exact = float(_lengths(self.exact).sum())
        return float(_lengths(self.magnitudes).sum()) / exact if exact else 0.0

    @cached_property
    def _directions(self) -> dict[str, tuple[Array, Array, float]]:
        """Of each vector: 1 / magnitude, the sums in units of their magnitudes, and the squares of these, summed."""
        directions = {}
        for name, places in self.places.items():
            length = self.weights[name]
            weight = np.divide(1.0, length, out=np.zeros_like(length), where=length >= TINY)
            direction = self.exact[places] * weight
            directions[name] = weight, direction, float(np.einsum("ji,ji->", direction, direction))
        return directions

    def errors(self, sums: NDArray[Any], *, quantiles: bool = True) -> tuple[Errors, float]:
        """Return the errors of what was found, shape (rows, sums), and how much too long vectors are on the whole.

        The latter is relative, that of the worst of the vectors, and zero without magnitudes.
        """
        relative, weighed, scale = {}, {}, 0.0
        for name in self.places:
            distance, along = self._distances(sums, name)
            scale = max(scale, along, key=lambda error: math.inf if math.isnan(error) else error)
            relative[name] = _over(distance, self.sizes[name])
            if self.weights:
                weighed[name] = _over(distance, self.weights[name])
        largest = {name: float(errors.max()) for name, errors in relative.items()}
        values: dict[str, Any] = {
            "error_max": float(np.max(list(largest.values()))),
            "error_rms": _worst(relative, _rms),
            "error_rows": self.exact.shape[1],
            "error_max_of": largest if len(largest) > 1 else {},
        }
        if quantiles:
            values["error_median"] = _worst(relative, np.median)
            values["error_p90"] = _worst(relative, lambda errors: np.quantile(errors, 0.9, method="higher"))
            values["error_p99"] = _worst(relative, lambda errors: np.quantile(errors, 0.99, method="higher"))
        if weighed:
            values["error_magnitude_max"] = _worst(weighed, np.max)
            values["error_magnitude_rms"] = _worst(weighed, _rms)
        return Errors(**values), scale

    def _distances(self, sums: NDArray[Any], name: str) -> tuple[Array, float]:
        """Return how far each vector is from the expected one, and how much too long they are on the whole."""
        places = self.places[name]
        expected = self.exact[places]
        distance = np.empty(expected.shape[1])
        along = length = 0.0
        for first in range(0, len(distance), ROWS_AT_ONCE):
            part = slice(first, first + ROWS_AT_ONCE)
            difference = np.subtract(sums[part].T[places], expected[:, part], dtype=np.float64, order="C")
            distance[part] = _lengths(difference)
            if self.weights:
                weight, direction, length = self._directions[name]
                with np.errstate(invalid="ignore"):
                    along += float(np.einsum("ji,i,ji->", difference, weight[part], direction[:, part]))
        return distance, abs(along / length) if length else 0.0


def _places(places: tuple[int, ...]) -> slice | list[int]:
    """Return what takes these rows of an array: a view where they follow one another."""
    first, last = places[0], places[-1] + 1
    return slice(first, last) if places == tuple(range(first, last)) else list(places)


def _over(distance: Array, length: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        relative: Array = distance / length
    if not length.all():
        relative[(distance == 0) & (length == 0)] = 0.0
    return relative


def _rms(relative: Array) -> float:
    with np.errstate(over="ignore", under="ignore"):
        return math.sqrt(float(np.einsum("i,i->", relative, relative)) / len(relative))


def _worst(relative: Mapping[str, Array], of: Callable[[Array], Any]) -> float:
    return float(np.max([of(errors) for errors in relative.values()]))


def limits_of(tolerance: Tolerance, sums: Sums, vectors: Vectors, dtype: Dtype, factor: float = 1.0) -> Limits:
    """Return the errors that are accepted; ``factor`` is that of the interaction."""
    if not tolerance.of_rounding:
        return Limits(factor * tolerance.max, factor * tolerance.rms, math.inf)
    rounding = unit(dtype)
    # What is infinite in the kernel's number type widens nothing.
    finite = np.isfinite(sums.plain).all(axis=1)
    plain, exact, magnitudes = sums.plain[finite], sums.exact[finite], sums.magnitudes[finite]
    if not len(plain):
        return Limits(factor * FLOOR.max * rounding, factor * FLOOR.rms * rounding, factor * SCALE_FLOOR * rounding)
    errors, together = Reference(exact, magnitudes, vectors).errors(plain, quantiles=False)
    assert errors.error_magnitude_max is not None
    assert errors.error_magnitude_rms is not None
    chance = DEVIATIONS * errors.error_magnitude_rms / math.sqrt(len(plain))
    return Limits(
        factor * (FLOOR.max * rounding + WORSE.max * errors.error_magnitude_max),
        factor * (FLOOR.rms * rounding + WORSE.rms * errors.error_magnitude_rms),
        factor * (SCALE_FLOOR * rounding + WORSE.rms * (together + chance)),
    )


def reference_of(
    interaction: Interaction,
    bodies: Bodies,
    rows: NDArray[np.int64],
    dtype: Dtype,
    tolerance: Tolerance,
    device_sums: DeviceSums | None = None,
) -> tuple[Reference, Limits]:
    """Sum over some rows as ``direct_sums`` does; return what these are compared with, and the accepted errors."""
    sums, vectors = direct_sums(interaction, bodies, rows, dtype, device_sums=device_sums), interaction.vectors()
    limits = limits_of(tolerance, sums, vectors, dtype, interaction.tolerance)
    return Reference(sums.exact, sums.magnitudes, vectors), limits


def objection_to(errors: Errors, limits: Limits | Tolerance) -> str | None:
    """Say in a sentence why accelerations with these errors are wrong; None when they are right.

    The errors judged are those relative to the sums of magnitudes or, where they are not known, to the accelerations.
    """
    largest, rms, of = (
        errors.error_magnitude_max,
        errors.error_magnitude_rms,
        "of the sum of the contributions' magnitudes",
    )
    if largest is None or rms is None:
        largest, rms, of = errors.error_max, errors.error_rms, "relative"
    assert largest is not None
    assert rms is not None
    if math.isnan(largest):
        return "some accelerations are NaN"
    beside = "" if errors.error_max == largest else f" ({errors.error_max:.2g} of the acceleration)"
    # Written so that no comparison with a NaN can pass.
    if not largest <= limits.max:
        return f"largest error {largest:.2g} {of}{beside} exceeds the tolerance of {limits.max:.2g}"
    if not rms <= limits.rms:
        return f"rms error {rms:.2g} {of} exceeds the tolerance of {limits.rms:.2g}"
    return None


def scale_objection(scale: float, limits: Limits) -> str | None:
    """Say that all accelerations together are too large or too small; None where they are right."""
    if not scale <= limits.scale:
        return f"all accelerations together are wrong by {scale:.2g}, accepted: {limits.scale:.2g}"
    return None
