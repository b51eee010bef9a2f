"""What bounds the median of samples that may depend on each other: order statistics, whatever the distribution."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

CONFIDENCE = 0.95
"""Nominal, of every interval and verdict that names no other."""

DEPENDENT = 1.645
"""Standard errors of the correlation of neighbours above which samples count as dependent: one test in 20 errs."""

NORMAL_MEDIAN = math.sqrt(math.pi / 2)
"""The standard error of a median over that of a mean, of normal samples."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A median and the interval that holds it with ``CONFIDENCE``."""

    median: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half of the interval over the median."""
        return (self.high - self.low) / (2 * self.median) if self.median > 0 else math.inf


@lru_cache
def rank(samples: int, confidence: float) -> int:
    """Return which smallest and which largest of so many samples bound the median; 0 where none do.

    It is chosen by the binomial distribution: how many samples fall below the median.
    """
    from scipy.special import bdtr

    tail = (1 - confidence) / 2
    return int(sum(bdtr(np.arange((samples + 1) // 2), samples, 0.5) <= tail))


@lru_cache(maxsize=10_000)
def student(freedom: float, confidence: float) -> float:
    """Return how many standard errors to either side hold a mean with this confidence (Student's t)."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + confidence) / 2))


def effective(samples: Sequence[float]) -> float:
    """Return how many independent samples say as much of the median as these, in the order they were taken.

    All of them, unless neighbours are alike. Then their ranks' autocorrelations are added up as far as the sums of
    two neighbouring ones stay positive (Geyer's initial monotone sequence), with 1 / n for what a short series hides.
    """
    ranks = _ranks(np.asarray(samples, dtype=float))
    n = len(ranks)
    squares = float(ranks @ ranks)
    if n < 4 or squares == 0 or (float(ranks[1:] @ ranks[:-1]) / squares + 1 / n) * math.sqrt(n) <= DEPENDENT:
        return float(n)
    spectrum = np.fft.rfft(ranks, 2 * n)
    correlations = np.fft.irfft(np.abs(spectrum) ** 2)[: n - n % 2] / squares + 1 / n
    sums = np.minimum.accumulate(correlations.reshape(-1, 2).sum(axis=1))
    return n / min(max(2 * float(sums[sums > 0].sum()) - 1, 1.0), float(n))


def _ranks(samples: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the place of each sample among all, about their middle; equal samples share their mean place."""
    ordered = samples.copy()
    ordered.sort()
    # Methods, which cost half of what NumPy's functions of the same names do: every record that is read comes here.
    places = ordered.searchsorted(samples, "left") + ordered.searchsorted(samples, "right")
    return np.asarray((places - len(samples)) / 2)


def bounds(samples: Sequence[float], confidence: float, count: float | None = None) -> tuple[float, float] | None:
    """Return what bounds the median; None where the samples are too few (at 95 %, fewer than six).

    ``count`` is how many independent samples they are worth, all of them unless it is given. Where so few have no
    order statistics that bound the median, Student's t does, as if the samples were normal.
    """
    n = len(samples)
    if not rank(n, confidence):
        return None
    ordered = sorted(samples)
    independent = n if count is None else int(min(count, n))
    if place := rank(independent, confidence):
        at = max(1, place * n // independent)
        return float(ordered[at - 1]), float(ordered[-at])
    middle = float(np.median(ordered))
    deviation = math.sqrt(float(np.sum((np.asarray(ordered) - middle) ** 2)) / (n - 1))
    worth = max(count or 1.0, 1.0)
    if worth <= 1 and deviation:
        return -math.inf, math.inf
    half = student(worth - 1, confidence) * NORMAL_MEDIAN * deviation / math.sqrt(worth) if deviation else 0.0
    return middle - half, middle + half


def central(groups: Sequence[Sequence[float]]) -> float:
    """Return the geometric mean of the medians of several groups of samples, the median itself of a single group."""
    medians = list(map(statistics.median, groups))
    return statistics.geometric_mean(medians) if len(medians) > 1 and min(medians) > 0 else medians[0]


def ends(interval: Interval) -> tuple[float, float] | tuple[None, None]:
    """Return both ends of an interval of a time in seconds; None twice where it does not bound a time."""
    bounded = math.isfinite(interval.half_width) and interval.low > 0
    return (interval.low, interval.high) if bounded else (None, None)


def between(groups: Sequence[Sequence[float]]) -> tuple[float, int]:
    """Return the variance of the logarithms of the groups' medians, and its degrees of freedom: 0 of one group."""
    logs = [math.log(statistics.median(group)) for group in groups]
    return (statistics.variance(logs), len(logs) - 1) if len(logs) > 1 else (0.0, 0)


def interval_of(groups: Sequence[Sequence[float]]) -> Interval:
    """Bound what several groups of samples, each of one process, have in the middle: within each and between them.

    It is the wider of two intervals: that of all samples' order statistics, and Student's t of the groups' medians.
    """
    samples = [sample for group in groups for sample in group]
    low, high = bounds(samples, CONFIDENCE, sum(map(effective, groups))) or (0.0, math.inf)
    middle = central(groups)
    if len(groups) > 1 and min(samples) > 0:
        variance, freedom = between(groups)
        reach = math.exp(student(freedom, CONFIDENCE) * math.sqrt(variance / len(groups)))
        low, high = min(low, middle / reach), max(high, middle * reach)
    return Interval(middle, low, high)


def median_interval(samples: Sequence[float]) -> Interval:
    """Bound the median of samples in the order in which they were taken, by as many as are independent.

    The bounds are infinitely far apart where the samples are too few.
    """
    low, high = bounds(samples, CONFIDENCE, effective(samples)) or (0.0, math.inf)
    return Interval(float(np.median(samples)), low, high)
