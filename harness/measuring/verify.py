"""The judge: how far accelerations are from direct sums in float64, and whether that is right.

A kernel is judged on the bodies as it receives them, rounded to its own number type: the error is that of its
arithmetic, not of storing the initial conditions. Where pulls cancel, rounding errors are large beside what is left of
them and no kernel is to blame. So a body's error is judged relative to the sum of the magnitudes of the pulls on it,
and a direct sum is held to what a plain sum of the same terms, one after another in its number type, reaches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gravbench.measuring.direct_sums import Sums, direct_sums
from gravbench.measuring.probe import other_bodies
from gravbench.model.bodies import Bodies
from gravbench.model.interaction import GRAVITY, Interaction
from gravbench.model.record import Errors
from gravbench.model.variant import Dtype, Prepared, Tolerance
from gravbench.toolkits import buffers
from gravbench.toolkits.interface import DeviceToolkit

ALL_ROWS_UP_TO = 4096
ALL_ROWS_ON_GPU = 1 << 20
SAMPLED_ROWS = 1024

WORSE = Tolerance(max=4.0, rms=3.0)
"""How many times the errors of the plain sum a direct sum may have: it may add in another order."""
FLOOR = Tolerance(max=24.0, rms=12.0)
"""Roundings that a term itself may be wrong by: an approximate inverse square root, cubed, on a GPU."""
SCALE_FLOOR = 8.0
"""Roundings that all accelerations may be too large or too small by together."""
DEVIATIONS = 6.0
"""Standard deviations of a mean over the compared bodies within which chance alone brings it."""
TOGETHER = 0.2
"""The part of a body's accepted error that may point the same way for all bodies, in the sum of forces."""

TINY = float(np.finfo(np.float64).tiny)

Array = NDArray[np.float64]
Vectors = Mapping[str, tuple[int, ...]]
ACCELERATION: Vectors = MappingProxyType({"a": (0, 1, 2)})


class Limits(NamedTuple):
    """Largest accepted errors relative to the sums of magnitudes: of one body, rms, and of all bodies together."""

    max: float
    rms: float
    scale: float


def verified_rows(n: int, generator: np.random.Generator, *, most: int = ALL_ROWS_UP_TO) -> NDArray[np.int64]:
    """Return the bodies whose accelerations are compared: all up to ``most``, else one of each of 1,024 equal parts.

    The first and the last body are always among a sample: a kernel that stops short stops there.
    """
    if n <= most:
        return np.arange(n)
    edges = np.linspace(0, n, SAMPLED_ROWS + 1).astype(np.int64)
    return np.unique([0, *generator.integers(edges[:-1], edges[1:]), n - 1])


def extreme_bodies(bodies: Bodies) -> NDArray[np.int64]:
    """Return the outermost bodies along each axis, and the heaviest."""
    found = [*bodies.position.argmin(axis=0), *bodies.position.argmax(axis=0), bodies.mass.argmax()]
    return np.unique(np.array(found, np.int64))


def compare(
    found: NDArray[Any], expected: Array, vectors: Vectors = ACCELERATION, magnitudes: Array | None = None
) -> Errors:
    """Measure errors over bodies; all arrays of shape (rows, sums).

    ``vectors`` are the places of the numbers that belong together; the errors are those of the worst of them. The
    relative error of a body is |a - expected| / |expected|, or over the length of the vector of ``magnitudes``, where
    these are given. Where that is exactly zero (one body alone) it is zero if the found one is right, else infinite. A
    NaN makes all errors NaN.
    """
    relative = {name: _relative(found, expected, expected, places) for name, places in vectors.items()}
    largest = {name: float(one.max()) for name, one in relative.items()}
    errors = Errors(
        error_max=float(np.max(list(largest.values()))),
        error_rms=_worst(relative, _rms),
        error_median=_worst(relative, np.median),
        error_p99=_worst(relative, lambda one: np.quantile(one, 0.99, method="higher")),
        error_rows=len(expected),
        error_max_of=largest if len(largest) > 1 else {},
    )
    if magnitudes is None:
        return errors
    weighed = {name: _relative(found, expected, magnitudes, places) for name, places in vectors.items()}
    own = {"error_magnitude_max": _worst(weighed, np.max), "error_magnitude_rms": _worst(weighed, _rms)}
    return errors.model_copy(update=own)


def lengths(vectors: Array) -> Array:
    """Return the length of each row, also of one whose squares would underflow or overflow."""
    _, exponents = np.frexp(np.abs(vectors).max(axis=1, initial=0))
    scaled: Array = np.linalg.norm(np.ldexp(vectors, -exponents[:, None]), axis=1)
    return np.ldexp(scaled, exponents)


def _relative(found: NDArray[Any], expected: Array, size: Array, places: tuple[int, ...]) -> Array:
    distance = lengths(found[:, places].astype(np.float64) - expected[:, places])
    length = lengths(size[:, places])
    relative = np.where(distance == 0, 0.0, np.inf)
    np.divide(distance, length, out=relative, where=length > 0)
    relative[np.isnan(distance)] = np.nan
    return relative


def _rms(relative: Array) -> Any:
    return np.sqrt(np.mean(relative**2))


def _worst(relative: Mapping[str, Array], of: Callable[[Array], Any]) -> float:
    return float(np.max([of(one) for one in relative.values()]))


def scale_error(found: NDArray[Any], sums: Sums, vectors: Vectors) -> float:
    """Return how much too long the vectors are on the whole, relative; that of the worst of ``vectors``."""
    worst = 0.0
    for places in vectors.values():
        exact, length = sums.exact[:, places], lengths(sums.magnitudes[:, places])
        weight = np.divide(1.0, length, out=np.zeros_like(length), where=length >= TINY)[:, None]
        own = float(np.square(exact * weight).sum())
        if own:
            along = float(((found[:, places] - exact) * weight * (exact * weight)).sum())
            worst = max(worst, abs(along / own), key=lambda one: math.inf if math.isnan(one) else one)
    return worst


def limits_of(tolerance: Tolerance, sums: Sums, vectors: Vectors, dtype: Dtype, factor: float = 1.0) -> Limits:
    """Return the errors that are accepted; ``factor`` is that of the interaction."""
    if not tolerance.of_rounding:
        return Limits(factor * tolerance.max, factor * tolerance.rms, math.inf)
    rounding = float(np.finfo(dtype).eps) / 2
    # What is infinite in the kernel's number type widens nothing.
    finite = np.isfinite(sums.plain).all(axis=1)
    plain, exact, magnitudes = sums.plain[finite], sums.exact[finite], sums.magnitudes[finite]
    if not len(plain):
        return Limits(factor * FLOOR.max * rounding, factor * FLOOR.rms * rounding, factor * SCALE_FLOOR * rounding)
    own = compare(plain, exact, vectors, magnitudes)
    assert own.error_magnitude_max is not None
    assert own.error_magnitude_rms is not None
    together = scale_error(plain, Sums(exact, magnitudes, plain), vectors)
    chance = DEVIATIONS * own.error_magnitude_rms / math.sqrt(len(plain))
    return Limits(
        factor * (FLOOR.max * rounding + WORSE.max * own.error_magnitude_max),
        factor * (FLOOR.rms * rounding + WORSE.rms * own.error_magnitude_rms),
        factor * (SCALE_FLOOR * rounding + WORSE.rms * (together + chance)),
    )


def objection_to(errors: Errors, limits: Limits | Tolerance) -> str | None:
    """Say in a sentence why accelerations with these errors are wrong; None when they are right.

    The errors judged are those relative to the sums of magnitudes or, where they are not known, to the accelerations.
    """
    largest, rms, of = errors.error_magnitude_max, errors.error_magnitude_rms, "of the sum of the pulls' magnitudes"
    if largest is None or rms is None:
        largest, rms, of = errors.error_max, errors.error_rms, "relative"
    assert largest is not None
    assert rms is not None
    if math.isnan(largest):
        return "some accelerations are NaN"
    beside = "" if errors.error_max == largest else f" ({errors.error_max:.2g} of the acceleration)"
    # Written so that no comparison with a NaN can pass.
    if not largest <= limits.max:
        return f"largest error {largest:.2g} {of}{beside} is above what is accepted, {limits.max:.2g}"
    if not rms <= limits.rms:
        return f"rms error {rms:.2g} {of} is above what is accepted, {limits.rms:.2g}"
    return None


class Judge:
    """Compares what a prepared variant leaves on its device with direct sums in float64.

    The reference for a set of bodies is summed after what is judged by it was downloaded, so that a kernel finds
    nothing to copy. Of a sample, other bodies are compared at each verdict.
    """

    def __init__(
        self,
        toolkit: DeviceToolkit,
        prepared: Prepared,
        bodies: Bodies,
        tolerance: Tolerance,
        dtype: Dtype,
        *,
        most_rows: int = ALL_ROWS_UP_TO,
        on_gpu: bool = False,
    ) -> None:
        """Compute nothing yet.

        Up to ``most_rows`` bodies all are compared. ``on_gpu`` sums the reference there.
        """
        self.toolkit = toolkit
        self.prepared = prepared
        self.own = self.bodies = bodies
        self.tolerance = tolerance
        self.dtype: Dtype = dtype
        self.most_rows = most_rows
        self.on_gpu = on_gpu
        self.generator = np.random.default_rng()

    def verdict(self) -> tuple[Errors, str | None]:
        """Return the errors of what was launched last, and why that is wrong; None when it is right.

        No acceleration may be NaN or infinite, whether or not it is among the compared ones. Where several
        launches make a cycle, one whole cycle is launched and the mean of its accelerations is judged.
        """
        vectors = self.toolkit.interaction.vectors()
        found = buffers.sums(self.toolkit, self.prepared).astype(np.float64)
        judged = self._mean_of_a_cycle() if self.prepared.cycle > 1 else found
        rows = self._rows()
        sums, limits = self._reference(rows)
        errors = whole = compare(found[rows], sums.exact, vectors, sums.magnitudes)
        if self.prepared.cycle > 1:
            whole = compare(judged[rows], sums.exact, vectors, sums.magnitudes)
            errors = errors.model_copy(
                update={
                    "cycle": self.prepared.cycle,
                    "error_cycle_max": whole.error_max,
                    "error_cycle_rms": whole.error_rms,
                }
            )
        objection = self._nothing_expected(sums) or objection_to(whole, limits)
        bad = int(np.count_nonzero(~np.isfinite(judged).all(axis=1)))
        if bad and not objection:
            objection = f"{bad} accelerations outside of the sample are NaN or infinite"
        return errors, objection or self._all_together(judged, sums, rows, limits)

    def launch(self) -> None:
        """Fill what a launch has to write with NaN, launch, and wait for it."""
        buffers.spoil(self.toolkit, self.prepared, self.bodies)
        self.prepared.launch()
        self.toolkit.synchronize()

    def launched(self) -> tuple[Errors, str | None]:
        """Launch, and judge."""
        self.launch()
        return self.verdict()

    def elsewhere(self) -> str | None:
        """Launch on other bodies, drawn anew each time, then on its own again; return what is wrong with either.

        Leaves the bodies as they were, and the accelerations of these. None when both are right.
        """
        interaction = self.toolkit.interaction
        other = other_bodies(self.own, self.generator, near=interaction.name == GRAVITY)
        try:
            self._place(other)
            _, objection = self.launched()
        finally:
            self._place(self.own)
        if objection:
            return f"right on its own bodies, but on others: {objection}"
        _, objection = self.launched()
        return objection and f"right at first, but not after a launch on other bodies: {objection}"

    def _place(self, bodies: Bodies) -> None:
        self.bodies = bodies
        values = buffers.host_bodies(self.toolkit, self.prepared, bodies)
        buffers.write_bodies(self.toolkit, self.prepared, values)

    def _rows(self) -> NDArray[np.int64]:
        # Of other bodies a sample is enough: no kernel knows it.
        most = self.most_rows if self.bodies is self.own else ALL_ROWS_UP_TO
        rows = verified_rows(self.bodies.n, self.generator, most=most)
        return rows if len(rows) == self.bodies.n else np.union1d(rows, extreme_bodies(self.bodies))

    def _reference(self, rows: NDArray[np.int64]) -> tuple[Sums, Limits]:
        if len(rows) == self.own.n and self.bodies is self.own:
            return self._whole
        sums = direct_sums(self.toolkit.interaction, self.bodies, rows, self.dtype, on_gpu=self.on_gpu)
        return sums, self._limits(sums)

    @cached_property
    def _whole(self) -> tuple[Sums, Limits]:
        """Sum over all of its own bodies, once for all verdicts: some fall between two samples."""
        sums = _all_sums(self.toolkit.interaction, _Identified(self.own), self.dtype, self.on_gpu)
        return sums, self._limits(sums)

    def _limits(self, sums: Sums) -> Limits:
        interaction = self.toolkit.interaction
        return limits_of(self.tolerance, sums, interaction.vectors(), self.dtype, interaction.tolerance)

    def _nothing_expected(self, sums: Sums) -> str | None:
        """Say that there is nothing to judge by: a kernel that computes nothing would be as right as any."""
        if self.bodies.n == 1 or np.abs(sums.exact).max() >= np.finfo(self.toolkit.real).tiny:
            return None
        return f"the accelerations expected of these bodies are all zero in {self.dtype}, so that none can be judged"

    def _all_together(self, found: Array, sums: Sums, rows: NDArray[np.int64], limits: Limits) -> str | None:
        """Judge what no single body shows: accelerations that are all too large, forces that do not sum to zero."""
        vectors = self.toolkit.interaction.vectors()
        scale = scale_error(found[rows], sums, vectors)
        if not scale <= limits.scale:
            return f"all accelerations together are wrong by {scale:.2g}, accepted: {limits.scale:.2g}"
        if self.toolkit.interaction.name != GRAVITY or not self.tolerance.of_rounding or len(rows) == len(found):
            return None
        mass = self.bodies.mass.astype(self.toolkit.real).astype(np.float64)
        # Only ratios of forces count, and their squares have to be finite.
        forces = mass[:, None] / (mass.max() or 1.0) * (found / (np.abs(found).max() or 1.0))
        pulled = lengths(sums.exact).sum()
        ratio = lengths(sums.magnitudes).sum() / pulled if pulled else 0.0
        sizes = ratio * np.linalg.norm(forces, axis=1)
        if not sizes.any():
            return None
        accepted = limits.rms * (TOGETHER * sizes.sum() + DEVIATIONS * math.sqrt(float(np.square(sizes).sum())))
        total = float(np.linalg.norm(forces.sum(axis=0)))
        if not total <= accepted:
            relative = total / float(sizes.sum())
            return f"the forces on all bodies sum to {relative:.2g} of their magnitudes, where they have to cancel"
        return None

    def _mean_of_a_cycle(self) -> Array:
        total: Array = np.zeros(1)
        for _ in range(self.prepared.cycle):
            self.launch()
            total = total + buffers.sums(self.toolkit, self.prepared)
        return total / self.prepared.cycle


class _Identified:
    """Bodies that are equal to others of the same content."""

    def __init__(self, bodies: Bodies) -> None:
        self.bodies = bodies
        self.sha256 = bodies.sha256

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identified) and self.sha256 == other.sha256

    def __hash__(self) -> int:
        return hash(self.sha256)


@lru_cache(maxsize=4)
def _all_sums(interaction: Interaction, identified: _Identified, dtype: Dtype, on_gpu: bool) -> Sums:
    """Sum over all rows, once for all the cases of a process with these bodies."""
    bodies = identified.bodies
    return direct_sums(interaction, bodies, np.arange(bodies.n), dtype, on_gpu=on_gpu)
