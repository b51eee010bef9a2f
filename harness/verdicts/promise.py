"""Whether a promised error holds: some bodies' accelerations beside sums over all bodies in float64.

The promise is that at least a fraction ``quantile`` of all bodies has a relative error within ``error``. If it were
broken, more rows of a random sample would exceed the error than of independent rows each of which does so with the
chance 1 - quantile, which is binomial. A sample passes only with so few rows beyond the error that a broken promise
would show no more than that in one of ``1 / CHANCE`` samples: what holds just so is refuted, too, and a more accurate
choice follows. Too few rows to tell pass if none exceeds it.

Quantile 1 promises something of every body, so all of them are compared if there is time. Of more bodies, those of the
least accelerations are compared beside random ones, because relative errors are largest where contributions cancel, and
the errors need a margin: the cube root of the number of bodies for each that is compared. Of random accelerations near
zero, those below a threshold grow with its cube, so the largest of n relative errors grows with the cube root of n.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gravbench.model.array_likes import is_cupy
from gravbench.model.record import LARGEST

MOST_ROWS, LEAST_ROWS = 1024, 128
"""The most rows that are compared, but for quantile 1, and the fewest, if there are as many bodies."""
PAIRS_ON_DEVICE, PAIRS_ON_HOST = 1 << 30, 1 << 23
"""Pairs of bodies up to which more rows are compared than ``LEAST_ROWS``: a GPU that computes in float32 twice as fast
as in float64, or a host, takes about ``SECONDS``."""
SECONDS = 1e-3
"""What so many pairs take there, by which the comparison of more rows is weighed against a slower choice."""
MORE = 8
"""How many times as many rows are compared of what a sample refutes, before a choice is taken that is far slower."""
ROWS_ON_DEVICE = math.isqrt(PAIRS_ON_DEVICE)
"""The most rows that are compared for quantile 1: a GPU has room for no more."""
CHANCE = 0.01
"""How often a promise that does not hold passes, at most, where there are rows enough to tell."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What a sample shows: ``error`` is that at the quantile, ``exceeding`` the rows beyond the promised one.

    At most ``accepted`` of the ``rows`` may exceed it.
    """

    rows: int
    error: float
    exceeding: int
    accepted: int

    @property
    def refutes(self) -> bool:
        """Whether the promise does not hold."""
        return self.exceeding > self.accepted


def at_random(
    n: int, pairs: int, quantile: float, generator: np.random.Generator, *, more: bool = False
) -> NDArray[np.int64]:
    """Draw those of n bodies that are compared whatever their accelerations are, for so many pairs of bodies.

    They are all that are compared, but of many bodies and for quantile 1 half of these.
    """
    rows = rows_of(n, pairs, quantile, more=more)
    return drawn(n, rows if quantile < LARGEST or rows == n else rows - rows // 2, generator)


def with_least(random: NDArray[np.int64], computed: Any, pairs: int, quantile: float) -> NDArray[np.int64]:
    """Add to bodies that were drawn those of the least accelerations, up to as many as are compared of them.

    Args:
        random: what ``at_random`` returned.
        computed: the accelerations of all bodies, shape (n, 3), of NumPy or CuPy.
        pairs: for so many pairs of bodies.
        quantile: of the bodies whose errors are promised.
    """
    missing = rows_of(len(computed), pairs, quantile) - len(random)
    return np.append(random, least(computed, missing)) if missing else random


def rows_of(n: int, pairs: int, quantile: float, *, more: bool = False) -> int:
    """Return how many of n bodies are compared: fewer of more bodies, so that there are about so many ``pairs``.

    For quantile 1 there are never ``more`` of them.
    """
    if quantile == LARGEST:
        return min(n, max(LEAST_ROWS, min(ROWS_ON_DEVICE, pairs // n)))
    return min(n, (MORE if more else 1) * max(LEAST_ROWS, min(MOST_ROWS, pairs // n)))


def seconds_of_more(n: int, pairs: int, quantile: float) -> float:
    """Return about how long it takes to compare ``more`` rows, for so many pairs in ``SECONDS``."""
    return SECONDS * n * rows_of(n, pairs, quantile, more=True) / pairs


def drawn(n: int, rows: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Draw a random body out of each of so many equal parts of n bodies."""
    edges = _edges(n, rows)
    return generator.integers(edges[:-1], edges[1:])


@lru_cache(maxsize=64)
def _edges(n: int, parts: int) -> NDArray[np.int64]:
    return np.linspace(0, n, parts + 1).astype(np.int64)


def least(computed: Any, count: int) -> NDArray[np.int64]:
    """Return the places of the ``count`` least accelerations, shape (n, 3), of NumPy or CuPy."""
    x, y, z = abs(computed).T
    places = np.maximum(np.maximum(x, y), z).argpartition(count - 1)[:count]
    return np.asarray(places.get() if is_cupy(places) else places, np.int64)


@lru_cache(maxsize=1024)
def accepted(n: int, rows: int, quantile: float) -> int:
    """Return how many rows of a sample of n bodies may exceed the promised error of this quantile of the bodies.

    Of all bodies it is the fraction itself. For quantile 1 it is none, whatever the sample.
    """
    from scipy.special import bdtr

    share = 1 - quantile
    if rows == n or share == 0:
        return math.floor(round(share * n, 6))
    return max(int(sum(bdtr(np.arange(rows + 1), rows, share) <= CHANCE)) - 1, 0)


def judged(computed: Any, exact: NDArray[np.float64], n: int, error: float, quantile: float) -> Sample:
    """Compare accelerations of a sample of n bodies with exact ones, each of shape (rows, 3), and judge the promise.

    A relative error is |computed - exact| / |exact|; of what is exactly zero it is zero or infinite. A NaN exceeds all.
    For quantile 1, the largest error of all n bodies may exceed that of the sample by the cube root of n / rows.
    """
    if quantile == LARGEST:
        error /= math.cbrt(n / len(computed))
    distances, sizes = _lengths(np.subtract(computed, exact, dtype=np.float64)), _lengths(exact)
    with np.errstate(divide="ignore", invalid="ignore"):
        errors = np.where((distances == 0) & (sizes == 0), 0.0, distances / sizes)
    exceeding = int(np.count_nonzero(~(errors <= error)))
    place = math.ceil((len(errors) - 1) * quantile)
    at = float(np.partition(np.where(np.isnan(errors), np.inf, errors), place)[place])
    return Sample(len(errors), at, exceeding, accepted(n, len(errors), quantile))


def _lengths(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return those of vectors, shape (rows, 3)."""
    lengths: NDArray[np.float64] = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    return lengths
