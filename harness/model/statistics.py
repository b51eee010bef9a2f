"""What bounds the median of what samples are drawn from: order statistics, whatever the distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

CONFIDENCE = 0.95
"""Nominal, of every interval and verdict that names no other."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A median and the interval that holds it with the confidence that was asked for."""

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


def bounds(samples: Sequence[float], confidence: float) -> tuple[float, float] | None:
    """Return what bounds the median; None where the samples are too few (at 95 %, fewer than six)."""
    place = rank(len(samples), confidence)
    ordered = sorted(samples)
    return (float(ordered[place - 1]), float(ordered[-place])) if place else None


def median_interval(samples: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """Bound the median; the bounds are infinitely far apart where the samples are too few."""
    low, high = bounds(samples, confidence) or (0.0, math.inf)
    return Interval(float(np.median(samples)), low, high)
