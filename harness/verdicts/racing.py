"""When a case has shown that it cannot be the fastest: looked for after a few samples, and then ever more seldom."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from gravbench.model.statistics import CONFIDENCE, NORMAL_MEDIAN, bounds, effective, rank, student

FIRST_LOOK = 3
"""Samples after which a case is looked at first, as if they were normal: order statistics say nothing of so few."""
SECOND_LOOK = 7
"""Samples of the second look; each further one has twice as many."""


def outraced(samples: Sequence[float], behind: float | None, confidence: float = CONFIDENCE) -> bool:
    """Tell whether the median of a case, of which these are the first samples, is above ``behind`` (both in seconds).

    It is called after each sample, looks after 3, 7, 14, 28, ... of them, and says no at all others. All looks together
    drop a case whose median is ``behind`` or less with a probability of at most (1 - ``confidence``) / 2, of which the
    first look has a half, and each later one half of what the one before it has.
    """
    look = _look(len(samples))
    return behind is not None and look is not None and _lower_end(samples, look, confidence) > behind


def looks(samples: Sequence[float], confidence: float = CONFIDENCE) -> list[tuple[int, float]]:
    """Return how many samples each look has that samples allow, and what it finds the median to be above."""
    counts = ((count, _look(count)) for count in range(len(samples) + 1))
    return [(count, _lower_end(samples[:count], look, confidence)) for count, look in counts if look is not None]


def _look(samples: int) -> int | None:
    """Number the look that is due after so many samples, from 0; None where none is."""
    if samples == FIRST_LOOK:
        return 0
    doublings = math.log2(samples / SECOND_LOOK) if samples else math.nan
    return int(doublings) + 1 if doublings >= 0 and doublings.is_integer() else None


def _lower_end(samples: Sequence[float], look: int, confidence: float) -> float:
    """Return what the median is below with the probability that a look may err; dependent samples count for fewer.

    By order statistics where the samples are enough for them, else by Student's t, as if they were normal.
    """
    count, confidence = effective(samples), 1 - (1 - confidence) / 2 ** (look + 1)
    if rank(len(samples), confidence):
        interval = bounds(samples, confidence, count)
        return interval[0] if interval else 0.0
    if count <= 1:
        return 0.0
    deviation = statistics.stdev(samples) / math.sqrt(count)
    return statistics.median(samples) - student(count - 1, confidence) * NORMAL_MEDIAN * deviation
