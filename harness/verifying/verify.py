"""The judge: how far accelerations are from direct sums in float64, and whether that is right.

A kernel is judged on the bodies as it receives them, rounded to its own number type: the error is that of its
arithmetic, not of storing the initial conditions.
"""

from __future__ import annotations

import math
import secrets
from contextlib import ExitStack
from functools import cached_property, lru_cache
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gravbench.model.bodies import Bodies
from gravbench.model.initial_conditions import SETS_AT_ONCE
from gravbench.model.interaction import GRAVITY, Interaction
from gravbench.model.record import Errors
from gravbench.model.variant import Dtype, Prepared, Tolerance
from gravbench.toolkits import buffers
from gravbench.toolkits.device_sums import DeviceSums
from gravbench.toolkits.interface import DeviceResults, DeviceToolkit
from gravbench.verifying.comparing import (
    DEVIATIONS,
    Array,
    Limits,
    Reference,
    limits_of,
    objection_to,
    reference_of,
    scale_objection,
)
from gravbench.verifying.direct_sums import Sums
from gravbench.verifying.outside import OWN, Launch, handed_rows
from gravbench.verifying.perturbed import drawn
from gravbench.verifying.shared_sums import sums_over_all

ALL_ROWS_UP_TO = 4096
ALL_ROWS_ON_GPU = 1 << 20
SAMPLED_ROWS = 1024

IN_A_ROW = 5
"""Launches that are judged one after another before anything is timed, beside those on other bodies."""
QUICK = 0.1
"""Seconds of a launch up to which there are so many, and seconds after which no more of them follow."""

AFTER_TIMING = "right until it was timed, but not in one of the launches after that: "
MANY = 110
"""Launches in a row that are judged after all samples, so that one wrong in a hundred shows."""
MANY_SECONDS, MANY_SECONDS_OF_FEW = 0.01, 0.3
"""After which no more of them follow; of up to ``ALL_ROWS_UP_TO`` bodies there is more time."""
WORTH_COPYING = 4
"""Launches that have to fit into this time for a copy of what is right on the device to save any."""
GROUP_SECONDS = 0.01
"""For which launches are queued at most before the host waits for them, by the time of the quickest."""
GROWTH = 8
"""Times as many launches are queued as before, where all of those were to the last bit what is right."""

DIFFERING = 8
"""Rows compared beside a sample: those that differ most from what another launch left and was right."""

TOGETHER = 0.2
"""The part of a body's accepted error that may point the same way for all bodies, in the sum of forces."""


class WrongError(Exception):
    """Results are wrong; the message says how, ``errors`` by how much, where that is known."""

    def __init__(self, message: str, errors: Errors | None = None) -> None:
        super().__init__(message)
        self.errors = errors


def check(verdict: tuple[Errors, str | None], when: str = "") -> None:
    """Check a verdict; the sentence of a wrong one begins with ``when``.

    Raises:
        WrongError: it is wrong.
    """
    errors, objection = verdict
    if objection:
        raise WrongError(f"{when}{objection}", errors)


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
        device_sums: DeviceSums | None = None,
        seed: int | None = None,
    ) -> None:
        """Compute nothing yet.

        Up to ``most_rows`` bodies all are compared. ``device_sums`` adds the reference up,
        or the CPU. Other bodies, and the rows that are handed over, are drawn from ``seed``, by default one of its own.
        """
        self.toolkit = toolkit
        self.prepared = prepared
        self.own = self.bodies = bodies
        self.tolerance = tolerance
        self.dtype: Dtype = dtype
        self.most_rows = most_rows
        self.device_sums = device_sums
        self.generator = np.random.default_rng()
        self.seed = secrets.randbits(63) if seed is None else seed
        self.drawing = OWN
        """The number of the other bodies that were drawn last."""
        self.launches: list[Launch] = []
        """What is handed over to the judge outside."""
        self.unequal = 0
        """Launches that were right, and not to the last bit what another launch for the same bodies had left."""
        self.seconds = self.quickest = math.inf
        """What the last launch, and the quickest, took by the host's clock until everything on the device had ended."""
        self._unwritten: dict[bool, tuple[NDArray[Any], ...]] = {}
        self._right: tuple[NDArray[Any], Errors] | None = None

    def verdict(self, *, quantiles: bool = True, afresh: bool = True) -> tuple[Errors, str | None]:
        """Return the errors of what was launched last, and why that is wrong; None when it is right.

        What is to the last bit as it was when it was right is right, if all bodies were compared then. Of a sample this
        holds unless another is to be compared ``afresh``; what has changed since then is compared with it.

        No acceleration may be NaN or infinite, whether or not it is among the compared ones. Where several
        launches make a cycle, one whole cycle is launched and the mean of its accelerations is judged. Without
        ``quantiles`` the errors of what is right lack their median, 90 % and 99 % quantiles.
        """
        # A copy: on a CPU these are the variant's own arrays, which a thread may still be writing.
        sums = judged = np.array(buffers.sums(self.toolkit, self.prepared))
        cycle = self.prepared.cycle
        if cycle > 1:
            judged = self._mean_of_a_cycle()
        rows = self._rows()
        compared_all = len(rows) == self.bodies.n
        lasting = self.bodies is self.own and cycle == 1
        if lasting and self._right:
            if np.array_equal(sums, self._right[0]):
                if compared_all or not afresh:
                    return self._right[1], None
            elif not compared_all:
                rows = np.union1d(rows, _differing(sums, self._right[0]))
                self.unequal += 1
        reference, limits = self._reference(rows)
        of_rows = sums if compared_all else sums[rows]
        errors, scale = reference.errors(of_rows, quantiles=quantiles)
        whole = errors
        if cycle > 1:
            whole, scale = reference.errors(judged if compared_all else judged[rows], quantiles=False)
        objection = self._nothing_expected(reference) or objection_to(whole, limits)
        if not objection and not np.isfinite(judged).all():
            bad = int(np.count_nonzero(~np.isfinite(judged).all(axis=1)))
            objection = f"{bad} accelerations outside of the sample are NaN or infinite"
        objection = objection or scale_objection(scale, limits)
        if not objection and not compared_all:
            objection = self._sum_of_forces(judged, reference, limits)
        if objection and not quantiles:
            errors, _ = reference.errors(of_rows)
        if cycle > 1:
            of_a_cycle = {"cycle": cycle, "error_cycle_max": whole.error_max, "error_cycle_rms": whole.error_rms}
            errors = errors.model_copy(update=of_a_cycle)
        if lasting and not objection:
            self._right = sums, errors
        return errors, objection

    def spoil(self) -> None:
        """Fill what a launch has to write with NaN."""
        buffers.write_sums(self.toolkit, self.prepared, self._nothing_written())

    def _nothing_written(self) -> tuple[NDArray[Any], ...]:
        planar = not self.bodies.position[:, 2].any()
        if planar not in self._unwritten:
            self._unwritten[planar] = buffers.unwritten(self.toolkit, self.prepared, self.bodies)
        return self._unwritten[planar]

    def launch(self, over: tuple[NDArray[Any], ...] | None = None) -> None:
        """Launch over NaN, or over arrays as of ``buffers.others``, and wait for it."""
        if over is None:
            self.spoil()
        else:
            buffers.write_sums(self.toolkit, self.prepared, over)
        self.toolkit.synchronize()
        began = perf_counter()
        self.prepared.launch()
        self.toolkit.synchronize()
        self.seconds = perf_counter() - began
        self.quickest = min(self.quickest, self.seconds)

    def launched(self) -> tuple[Errors, str | None]:
        """Launch, and judge; errors of what is right lack their quantiles."""
        self.launch()
        return self.verdict(quantiles=False)

    def hand_over(self, *, instead: bool = False) -> None:
        """Hand over to the judge outside what was launched last, ``instead`` of what was handed over before it.

        Where several launches make a cycle, one whole cycle is launched for that.
        """
        sums = buffers.sums(self.toolkit, self.prepared) if self.prepared.cycle == 1 else self._mean_of_a_cycle()
        handed = np.ascontiguousarray(sums[handed_rows(self.own.n, self.seed)], self.toolkit.real)
        drawing = OWN if self.bodies is self.own else self.drawing
        if instead:
            self.launches.pop()
        self.launches.append(Launch(drawing, handed.tobytes()))

    def check_more(self) -> None:
        """Judge more launches of what was right at first: on other bodies, and several in a row.

        Three in a row are judged at least: a fault in every second or third of them shows.

        Raises:
            WrongError: one of them is wrong.
        """
        if objection := self.elsewhere():
            raise WrongError(objection)
        began = perf_counter()
        for _ in range(IN_A_ROW if self.quickest < QUICK else 0):
            check(self.launched(), "right at first, but in one of the next launches: ")
            if perf_counter() - began > QUICK:
                break

    def check_many(self) -> None:
        """Judge launches in a row, each over other numbers than NaN or over NaN: what is left out shows in both.

        Where that saves time, they are queued in groups, whose results the device keeps and compares, and only those
        that differ are downloaded.

        Raises:
            WrongError: one of them is wrong.
        """
        longest = MANY_SECONDS_OF_FEW if self.own.n <= ALL_ROWS_UP_TO else MANY_SECONDS
        fillings = buffers.others(self.toolkit, self.prepared), self._nothing_written()
        there: DeviceResults | None = None
        until = perf_counter() + longest
        turn, size = 0, 1
        with ExitStack() as stack:
            while turn < MANY:
                differing = self._check_group(range(turn, turn + size), fillings, there)
                turn += size
                if turn == 1 and self._right and WORTH_COPYING * self.quickest < longest:
                    arrays = buffers.several(self.prepared.accelerations)
                    there = stack.enter_context(self.toolkit.results_there(arrays, self._right[0], fillings))
                left = until - perf_counter()
                if left < 0 and (turn > 1 or self.quickest > QUICK):
                    break
                if there:
                    # To judge what differs takes more time than to launch it.
                    grown = 1 if differing else GROWTH * size
                    fitting = int(min(GROUP_SECONDS, left) / self.quickest)
                    size = max(1, min(grown, fitting, there.most, MANY - turn))

    def _check_group(
        self, turns: range, fillings: tuple[tuple[NDArray[Any], ...], ...], there: DeviceResults | None
    ) -> bool:
        """Judge launches that follow one another; return whether any left other than right, in any bit.

        Without ``there`` it is one, whose results are downloaded.

        Raises:
            WrongError: one of them is wrong.
        """
        # Two in a row over other numbers, so that what is left out in every other launch shows.
        over = [int(turn % 3 == 2) for turn in turns]
        if there:
            for place, number in enumerate(over):
                there.fill(number)
                self.prepared.launch()
                there.keep(place)
            differing = there.differing(len(turns))
        else:
            self.launch(fillings[over[0]])
            differing = [0]
        # Drawn once they have ended, so that each is as likely to be the one that is handed over.
        chosen = [place for place, turn in enumerate(turns) if not self.generator.integers(turn + 2)][-1:]
        for place in sorted({*differing, *chosen}):
            if there:  # also of a single one: what comes late is not what it left
                there.put_back(place)
            if place in differing:
                check(self.verdict(quantiles=False, afresh=not turns[0]), AFTER_TIMING)
            if place in chosen:
                self.hand_over(instead=True)
        return bool(differing)

    def elsewhere(self, *, and_back: bool = True) -> str | None:
        """Launch on other bodies, drawn anew each time; return what is wrong, None when it is right.

        Leaves the bodies as they were and, where it goes ``and_back``, launches on these again, to be judged too.
        """
        other, values = self._drawn()
        try:
            self._place(other, values)
            _, objection = self.launched()
            self.hand_over()
        finally:
            self._place(self.own, self.values)
        if objection:
            return f"right for its own bodies, but for others: {objection}"
        if not and_back:
            return None
        _, objection = self.launched()
        return objection and f"right at first, but not after a launch on other bodies: {objection}"

    def _drawn(self) -> tuple[Bodies, tuple[NDArray[Any], ...]]:
        self.drawing += 1
        other = drawn(self.own, self.seed, self.drawing, self.toolkit.interaction)
        return other, buffers.host_bodies(self.toolkit, self.prepared, other)

    @cached_property
    def values(self) -> tuple[NDArray[Any], ...]:
        """Its own bodies on the host, laid out as on the device."""
        return buffers.host_bodies(self.toolkit, self.prepared, self.own)

    def _place(self, bodies: Bodies, values: tuple[NDArray[Any], ...]) -> None:
        self.bodies = bodies
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
                _reference_of_all(interaction, identified, self.dtype, self.device_sums),
                _limits_of_all(self.tolerance, interaction, identified, self.dtype, self.device_sums),
            )
        return reference_of(interaction, self.bodies, rows, self.dtype, self.tolerance, self.device_sums)

    def _nothing_expected(self, reference: Reference) -> str | None:
        """Say that there is nothing to judge by: a kernel that computes nothing would be as right as any."""
        # A NaN is not nothing.
        if self.bodies.n == 1 or not reference.largest < np.finfo(self.toolkit.real).tiny:
            return None
        return f"the expected accelerations of these bodies are all zero in {self.dtype}, so nothing can be judged"

    def _sum_of_forces(self, sums: NDArray[Any], reference: Reference, limits: Limits) -> str | None:
        """Judge what no sample of bodies shows: forces that do not sum to zero."""
        if self.toolkit.interaction.name != GRAVITY or not self.tolerance.of_rounding:
            return None
        mass = self.bodies.mass.astype(self.toolkit.real).astype(np.float64)
        # Only ratios of forces count, and their squares have to be finite.
        mass /= mass.max() or 1.0
        accelerations = np.array(sums.T, np.float64, order="C")
        accelerations /= max(float(accelerations.max()), -float(accelerations.min())) or 1.0
        sizes = mass * np.sqrt(np.einsum("ji,ji->i", accelerations, accelerations)) * reference.cancellation
        if not sizes.any():
            return None
        accepted = limits.rms * (
            TOGETHER * sizes.sum() + DEVIATIONS * math.sqrt(float(np.einsum("i,i->", sizes, sizes)))
        )
        total = float(np.linalg.norm(np.einsum("ji,i->j", accelerations, mass)))
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


def _differing(sums: NDArray[Any], right: NDArray[Any]) -> NDArray[np.int64]:
    """Return the rows that differ most."""
    with np.errstate(invalid="ignore", over="ignore"):
        difference = np.abs(sums - right).max(axis=1)
    first = max(0, len(difference) - DIFFERING)
    return np.argpartition(difference, first)[first:]


class _Identified:
    """Bodies that are equal to others of the same content."""

    def __init__(self, bodies: Bodies) -> None:
        self.bodies = bodies
        self.sha256 = bodies.sha256

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identified) and self.sha256 == other.sha256

    def __hash__(self) -> int:
        return hash(self.sha256)


@lru_cache(maxsize=SETS_AT_ONCE)
def _all_sums(interaction: Interaction, identified: _Identified, dtype: Dtype, device_sums: DeviceSums | None) -> Sums:
    """Sum over all rows, once for all the cases of a process with these bodies."""
    return sums_over_all(interaction, identified.bodies, dtype, device_sums=device_sums)


@lru_cache(maxsize=SETS_AT_ONCE)
def _reference_of_all(
    interaction: Interaction, identified: _Identified, dtype: Dtype, device_sums: DeviceSums | None
) -> Reference:
    sums = _all_sums(interaction, identified, dtype, device_sums)
    return Reference(sums.exact, sums.magnitudes, interaction.vectors())


@lru_cache(maxsize=4 * SETS_AT_ONCE)
def _limits_of_all(
    tolerance: Tolerance,
    interaction: Interaction,
    identified: _Identified,
    dtype: Dtype,
    device_sums: DeviceSums | None,
) -> Limits:
    sums = _all_sums(interaction, identified, dtype, device_sums)
    return limits_of(tolerance, sums, interaction.vectors(), dtype, interaction.tolerance)
