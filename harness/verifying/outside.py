"""The judge outside: what some launches of a case left is judged once more, by a process that runs no code of variants.

A variant is Python in the process of its session, and can replace whatever judges it there. So the session hands over
what launches left, as bytes, and this judge forms the bodies itself, draws the rows that it compares, which no other
process sees, and goes by the tolerances of the other.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gravbench.model import initial_conditions, interaction_files
from gravbench.model.bodies import Bodies
from gravbench.model.case import Case
from gravbench.model.variant import Tolerance
from gravbench.verifying.comparing import DEVIATIONS, Limits, Reference, limits_of, objection_to, scale_objection
from gravbench.verifying.direct_sums import Sums, direct_sums
from gravbench.verifying.perturbed import drawn

OWN = 0
"""The drawing that stands for a case's own bodies."""
MOST_LAUNCHES = 4
MOST_ROWS = 1 << 16
"""Rows of a launch that are handed over: all of so many bodies, of more one of each of so many equal parts."""
TERMS, LEAST_ROWS = 1 << 17, 16
"""Contributions that are summed for a launch, and rows that are compared at least."""
MOST_AHEAD = 64
"""Drawings whose rows are kept ahead."""


@dataclass(frozen=True, slots=True)
class Launch:
    """What a launch left: the bytes of the sums of its ``handed_rows``, in the number type of the case.

    Its bodies are those of the case, or others: the ``drawing`` is the number by which ``perturbed.drawn`` makes them.
    """

    drawing: int
    sums: bytes


@dataclass(frozen=True, slots=True)
class Question:
    """A case that its session found right: what has to be judged of it, and what the session has handed over.

    ``drawings`` are those of the launches that have to be there, ``seed`` is that of the bodies and the rows.
    """

    case: Case
    tolerance: Tolerance
    seed: int
    drawings: tuple[int, ...]
    launches: tuple[Launch, ...]


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a case that are compared: their ``places`` among those handed over, and their sums."""

    places: NDArray[np.int64]
    sums: Sums


class RowsAhead:
    """Rows that are drawn and summed before a case is judged, each for one judgement."""

    def __init__(self) -> None:
        """Begin with none."""
        self._kept: dict[tuple[int, int, str], Rows] = {}

    def add(self, case: Case, seed: int, drawings: tuple[int, ...]) -> None:
        """Draw and sum rows for each drawing; see ``Question``.

        Raises:
            InputError: the bodies of the case, or its interaction, can no longer be read.
        """
        for drawing in sorted({*drawings}):
            self._kept[_key(case, seed, drawing)] = _drawn_rows(case, seed, drawing)
        while len(self._kept) > MOST_AHEAD:  # of cases that nobody asked about
            self._kept.pop(next(iter(self._kept)))

    def take(self, case: Case, seed: int, drawing: int) -> Rows:
        """Return the rows for a drawing, now drawn and summed if they were not before."""
        return self._kept.pop(_key(case, seed, drawing), None) or _drawn_rows(case, seed, drawing)


def _key(case: Case, seed: int, drawing: int) -> tuple[int, int, str]:
    return seed, drawing, case.model_dump_json()


def _drawn_rows(case: Case, seed: int, drawing: int) -> Rows:
    interaction = interaction_files.find(case.interaction)
    handed = handed_rows(case.n, seed)
    own = initial_conditions.of_case(case)
    bodies: Bodies = own if drawing == OWN else drawn(own, seed, drawing, interaction)
    count = min(len(handed), max(LEAST_ROWS, TERMS // case.n))
    places = np.sort(np.random.default_rng().choice(len(handed), count, replace=False))
    return Rows(places, direct_sums(interaction, bodies, handed[places], case.dtype))


def handed_rows(n: int, seed: int) -> NDArray[np.int64]:
    """Return the rows of n that are handed over of each launch, in ascending order."""
    if n <= MOST_ROWS:
        return np.arange(n)
    edges = np.linspace(0, n, MOST_ROWS + 1).astype(np.int64)
    return np.random.default_rng(seed).integers(edges[:-1], edges[1:])


def objection(question: Question, ahead: RowsAhead) -> str | None:
    """Say what is wrong with the launches of a case; None where nothing is.

    Rows that are not there ``ahead`` are drawn and summed now.

    Raises:
        InputError: its bodies or its interaction can no longer be read.
    """
    launches = question.launches
    if len(launches) > MOST_LAUNCHES or Counter(question.drawings) - Counter(each.drawing for each in launches):
        return "its session did not hand over what all launches left that have to be judged"
    for drawing in sorted({launch.drawing for launch in launches}):
        same = [launch.sums for launch in launches if launch.drawing == drawing]
        if wrong := _objection_to_same(question, drawing, same, ahead):
            return wrong
    return None


def for_few(limits: Limits, rows: int) -> Limits:
    """Widen limits by what chance alone makes of errors where so few rows are compared.

    The variance of the square of an error that is at most ``max``, and ``rms`` on the mean, is at most (max rms)^2.
    """
    chance = DEVIATIONS / math.sqrt(rows)
    rms = math.sqrt(limits.rms**2 + chance * limits.max * limits.rms)
    return Limits((1 + chance) * limits.max, rms, (1 + chance) * limits.scale)


def _objection_to_same(question: Question, drawing: int, launches: list[bytes], ahead: RowsAhead) -> str | None:
    """Judge launches for the same bodies, by the same rows."""
    case = question.case
    interaction = interaction_files.find(case.interaction)
    shape, real = (min(case.n, MOST_ROWS), len(interaction.sums)), np.dtype(case.dtype)
    if any(len(sums) != shape[0] * shape[1] * real.itemsize for sums in launches):
        return "its session handed over another number of accelerations"
    rows, vectors = ahead.take(case, question.seed, drawing), interaction.vectors()
    reference = Reference(rows.sums.exact, rows.sums.magnitudes, vectors)
    limits = limits_of(question.tolerance, rows.sums, vectors, case.dtype, interaction.tolerance)
    if len(rows.places) < case.n:
        limits = for_few(limits, len(rows.places))
    for sums in launches:
        computed = np.frombuffer(sums, real).reshape(shape)
        if not np.isfinite(computed).all():
            return "some accelerations are NaN or infinite"
        errors, scale = reference.errors(computed[rows.places], quantiles=False)
        if wrong := objection_to(errors, limits) or scale_objection(scale, limits):
            return wrong
    return None
