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
from time import perf_counter
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
    outermost = [place for column in bodies.position.T for place in (column.argmin(), column.argmax())]
    return np.unique(np.array([*outermost, bodies.mass.argmax()], np.int64))


def compare(
    found: NDArray[Any],
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
    return Reference(expected, magnitudes, vectors).errors(found, quantiles=quantiles)[0]


def lengths(vectors: Array) -> Array:
    """Return the length of each row, also of one whose squares would underflow or overflow."""
    return _lengths(np.ascontiguousarray(vectors.T))


def _lengths(vectors: Array) -> Array:
    """Return the length of each column."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        squares = np.einsum("ji,ji->i", vectors, vectors)
        found: Array = np.sqrt(squares)
    # A NaN is among the rest.
    rest = np.flatnonzero(~((squares > SQUARES[0]) & (squares < SQUARES[1])))
    if rest.size:
        _, exponents = np.frexp(np.abs(vectors[:, rest]).max(axis=0, initial=0))
        found[rest] = np.ldexp(np.linalg.norm(np.ldexp(vectors[:, rest], -exponents), axis=0), exponents)
    return found


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
        pulled = float(_lengths(self.exact).sum())
        return float(_lengths(self.magnitudes).sum()) / pulled if pulled else 0.0

    @cached_property
    def _directions(self) -> dict[str, tuple[Array, Array, float]]:
        """Of each vector: 1 / magnitude, the sums in units of their magnitudes, and the squares of these, summed."""
        found = {}
        for name, places in self.places.items():
            length = self.weights[name]
            weight = np.divide(1.0, length, out=np.zeros_like(length), where=length >= TINY)
            direction = self.exact[places] * weight
            found[name] = weight, direction, float(np.einsum("ji,ji->", direction, direction))
        return found

    def errors(self, found: NDArray[Any], *, quantiles: bool = True) -> tuple[Errors, float]:
        """Return the errors of what was found, shape (rows, sums), and how much too long vectors are on the whole.

        The latter is relative, that of the worst of the vectors, and zero without magnitudes.
        """
        relative, weighed, scale = {}, {}, 0.0
        for name in self.places:
            distance, own = self._distances(found, name)
            scale = max(scale, own, key=lambda one: math.inf if math.isnan(one) else one)
            relative[name] = _over(distance, self.sizes[name])
            if self.weights:
                weighed[name] = _over(distance, self.weights[name])
        largest = {name: float(one.max()) for name, one in relative.items()}
        values: dict[str, Any] = {
            "error_max": float(np.max(list(largest.values()))),
            "error_rms": _worst(relative, _rms),
            "error_rows": self.exact.shape[1],
            "error_max_of": largest if len(largest) > 1 else {},
        }
        if quantiles:
            values["error_median"] = _worst(relative, np.median)
            values["error_p99"] = _worst(relative, lambda one: np.quantile(one, 0.99, method="higher"))
        if weighed:
            values["error_magnitude_max"] = _worst(weighed, np.max)
            values["error_magnitude_rms"] = _worst(weighed, _rms)
        return Errors(**values), scale

    def _distances(self, found: NDArray[Any], name: str) -> tuple[Array, float]:
        """Return how far each vector is from the expected one, and how much too long they are on the whole."""
        places = self.places[name]
        expected = self.exact[places]
        distance = np.empty(expected.shape[1])
        along = own = 0.0
        for first in range(0, len(distance), ROWS_AT_ONCE):
            part = slice(first, first + ROWS_AT_ONCE)
            difference = np.subtract(found[part].T[places], expected[:, part], dtype=np.float64, order="C")
            distance[part] = _lengths(difference)
            if self.weights:
                weight, direction, own = self._directions[name]
                with np.errstate(invalid="ignore"):
                    along += float(np.einsum("ji,i,ji->", difference, weight[part], direction[:, part]))
        return distance, abs(along / own) if own else 0.0


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
    return float(np.max([of(one) for one in relative.values()]))


def scale_error(found: NDArray[Any], sums: Sums, vectors: Vectors) -> float:
    """Return how much too long the vectors are on the whole, relative; that of the worst of ``vectors``."""
    return Reference(sums.exact, sums.magnitudes, vectors).errors(found, quantiles=False)[1]


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
    own, together = Reference(exact, magnitudes, vectors).errors(plain, quantiles=False)
    assert own.error_magnitude_max is not None
    assert own.error_magnitude_rms is not None
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
        self.seconds = math.inf
        """What the last launch took by the host's clock, until everything on the device had ended."""
        self._unwritten: dict[bool, tuple[NDArray[Any], ...]] = {}
        self._right: tuple[NDArray[Any], Errors] | None = None

    def verdict(self, *, quantiles: bool = True) -> tuple[Errors, str | None]:
        """Return the errors of what was launched last, and why that is wrong; None when it is right.

        No acceleration may be NaN or infinite, whether or not it is among the compared ones. Where several
        launches make a cycle, one whole cycle is launched and the mean of its accelerations is judged. Without
        ``quantiles`` the errors of what is right lack their median and 99 % quantile.
        """
        # A copy: on a CPU these are the variant's own arrays, which a thread may still be writing.
        found = judged = np.array(buffers.sums(self.toolkit, self.prepared))
        cycle = self.prepared.cycle
        if cycle > 1:
            judged = self._mean_of_a_cycle()
        rows = self._rows()
        compared_all = len(rows) == self.bodies.n
        lasting = compared_all and self.bodies is self.own and cycle == 1
        if lasting and self._right and np.array_equal(found, self._right[0]):
            return self._right[1], None
        reference, limits = self._reference(rows)
        of_rows = found if compared_all else found[rows]
        errors, scale = reference.errors(of_rows, quantiles=quantiles)
        whole = errors
        if cycle > 1:
            whole, scale = reference.errors(judged if compared_all else judged[rows], quantiles=False)
        objection = self._nothing_expected(reference) or objection_to(whole, limits)
        if not objection and not np.isfinite(judged).all():
            bad = int(np.count_nonzero(~np.isfinite(judged).all(axis=1)))
            objection = f"{bad} accelerations outside of the sample are NaN or infinite"
        if not objection and not scale <= limits.scale:
            objection = f"all accelerations together are wrong by {scale:.2g}, accepted: {limits.scale:.2g}"
        if not objection and not compared_all:
            objection = self._sum_of_forces(judged, reference, limits)
        if objection and not quantiles:
            errors, _ = reference.errors(of_rows)
        if cycle > 1:
            own = {"cycle": cycle, "error_cycle_max": whole.error_max, "error_cycle_rms": whole.error_rms}
            errors = errors.model_copy(update=own)
        if lasting and not objection:
            self._right = found, errors
        return errors, objection

    def spoil(self) -> None:
        """Fill what a launch has to write with NaN."""
        planar = not self.bodies.position[:, 2].any()
        if planar not in self._unwritten:
            self._unwritten[planar] = buffers.unwritten(self.toolkit, self.prepared, self.bodies)
        buffers.write_sums(self.toolkit, self.prepared, self._unwritten[planar])

    def launch(self) -> None:
        """Fill what a launch has to write with NaN, launch, and wait for it."""
        self.spoil()
        self.toolkit.synchronize()
        began = perf_counter()
        self.prepared.launch()
        self.toolkit.synchronize()
        self.seconds = perf_counter() - began

    def launched(self) -> tuple[Errors, str | None]:
        """Launch, and judge; errors of what is right lack their quantiles."""
        self.launch()
        return self.verdict(quantiles=False)

    def elsewhere(self, *, and_back: bool = True) -> str | None:
        """Launch on other bodies, drawn anew each time; return what is wrong, None when it is right.

        Leaves the bodies as they were and, where it goes ``and_back``, launches on these again, to be judged too.
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
        if not and_back:
            return None
        _, objection = self.launched()
        return objection and f"right at first, but not after a launch on other bodies: {objection}"

    @cached_property
    def values(self) -> tuple[NDArray[Any], ...]:
        """Its own bodies on the host, laid out as on the device."""
        return buffers.host_bodies(self.toolkit, self.prepared, self.own)

    def _place(self, bodies: Bodies) -> None:
        self.bodies = bodies
        own = bodies is self.own
        values = self.values if own else buffers.host_bodies(self.toolkit, self.prepared, bodies)
        buffers.write_bodies(self.toolkit, self.prepared, values)

    def _rows(self) -> NDArray[np.int64]:
        # Of other bodies a sample is enough: no kernel knows it.
        most = self.most_rows if self.bodies is self.own else ALL_ROWS_UP_TO
        rows = verified_rows(self.bodies.n, self.generator, most=most)
        return rows if len(rows) == self.bodies.n else np.union1d(rows, extreme_bodies(self.bodies))

    def _reference(self, rows: NDArray[np.int64]) -> tuple[Reference, Limits]:
        interaction = self.toolkit.interaction
        if len(rows) == self.own.n and self.bodies is self.own:
            # Once for all verdicts: some fall between two samples.
            identified = _Identified(self.own)
            return (
                _reference_of_all(interaction, identified, self.dtype, self.on_gpu),
                _limits_of_all(self.tolerance, interaction, identified, self.dtype, self.on_gpu),
            )
        sums = direct_sums(interaction, self.bodies, rows, self.dtype, on_gpu=self.on_gpu)
        vectors = interaction.vectors()
        limits = limits_of(self.tolerance, sums, vectors, self.dtype, interaction.tolerance)
        return Reference(sums.exact, sums.magnitudes, vectors), limits

    def _nothing_expected(self, reference: Reference) -> str | None:
        """Say that there is nothing to judge by: a kernel that computes nothing would be as right as any."""
        # A NaN is not nothing.
        if self.bodies.n == 1 or not reference.largest < np.finfo(self.toolkit.real).tiny:
            return None
        return f"the accelerations expected of these bodies are all zero in {self.dtype}, so that none can be judged"

    def _sum_of_forces(self, found: NDArray[Any], reference: Reference, limits: Limits) -> str | None:
        """Judge what no sample of bodies shows: forces that do not sum to zero."""
        if self.toolkit.interaction.name != GRAVITY or not self.tolerance.of_rounding:
            return None
        mass = self.bodies.mass.astype(self.toolkit.real).astype(np.float64)
        # Only ratios of forces count, and their squares have to be finite.
        mass /= mass.max() or 1.0
        pulls = np.array(found.T, np.float64, order="C")
        pulls /= max(float(pulls.max()), -float(pulls.min())) or 1.0
        sizes = mass * np.sqrt(np.einsum("ji,ji->i", pulls, pulls)) * reference.cancellation
        if not sizes.any():
            return None
        accepted = limits.rms * (
            TOGETHER * sizes.sum() + DEVIATIONS * math.sqrt(float(np.einsum("i,i->", sizes, sizes)))
        )
        total = float(np.linalg.norm(np.einsum("ji,i->j", pulls, mass)))
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


@lru_cache(maxsize=4)
def _reference_of_all(interaction: Interaction, identified: _Identified, dtype: Dtype, on_gpu: bool) -> Reference:
    sums = _all_sums(interaction, identified, dtype, on_gpu)
    return Reference(sums.exact, sums.magnitudes, interaction.vectors())


@lru_cache(maxsize=16)
def _limits_of_all(
    tolerance: Tolerance, interaction: Interaction, identified: _Identified, dtype: Dtype, on_gpu: bool
) -> Limits:
    sums = _all_sums(interaction, identified, dtype, on_gpu)
    return limits_of(tolerance, sums, interaction.vectors(), dtype, interaction.tolerance)
