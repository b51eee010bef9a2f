"""How far the numbers of a claim may be from what was measured: intervals of medians, and the scatter of the anchor."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gravbench.config.published import Unit
from gravbench.model.record import Record
from gravbench.model.statistics import CONFIDENCE
from gravbench.report.numbers import rough_percent
from gravbench.verdicts import ranking
from gravbench.verdicts.uncertainty import Uncertainties

COUNTED: frozenset[Unit] = frozenset(
    {
        "relative error",
        "blocks",
        "waves",
        "multiprocessors",
        "threads per block",
        "threads a multiprocessor holds",
        "bytes of local memory",
        "bytes of nodes",
        "loads per body",
        "% of a warp",
        "% of a multiprocessor's warps",
    }
)
"""What another run of the same case would find again; all else follows from a time."""

STEPS = (-1.0, -0.5, 0.0, 0.5, 1.0)
"""Where within its interval a number is put, in half widths from its median."""

WIDEST = 20.0
"""The half width, in logarithms, of a number that nothing bounds: a factor of 10^9 to both sides."""


class Doubts:
    """Half the 95 % intervals, in logarithms, of what the records of one run say."""

    def __init__(self, records: Sequence[Record]) -> None:
        """Find how far the anchors scatter; ``records`` are all of a run, its repetitions included."""
        self._uncertainties = Uncertainties([records])

    def of(self, record: Record, unit: Unit) -> float:
        """Return the doubt of a number: the interval of its median and the scatter of anchors of its work, together.

        What is counted has none. A stage has no interval of its own; that of the evaluation it is part of stands for
        it.
        """
        if unit in COUNTED:
            return 0.0
        return math.hypot(_half_width(record), self._uncertainties.reach(record))


def _half_width(record: Record) -> float:
    """Return half the interval of a record's median, in logarithms; infinite with less than two samples.

    Fewer than six samples do not bound a median by themselves; Student's t of their logarithms does, as if normal.
    """
    if record.ci_low and record.ci_high:
        middle = ranking.seconds(record)
        return max(math.log(record.ci_high / middle), math.log(middle / record.ci_low))
    samples = [sample for sample in record.samples_seconds if sample > 0]
    if len(samples) < 2:
        return math.inf
    from scipy.special import stdtrit

    deviation = float(np.std(np.log(samples), ddof=1))
    return float(stdtrit(len(samples) - 1, (1 + CONFIDENCE) / 2)) * deviation / math.sqrt(len(samples))


def within(value: float, doubt: float) -> list[float]:
    """Return the values that a number may have, from one end of its interval to the other."""
    reach = min(doubt, WIDEST)
    return [value * math.exp(reach * step) for step in STEPS] if reach else [value]


def plus_minus(doubt: float) -> str:
    """Write half an interval in logarithms as a part of the value."""
    return f"± {rough_percent(math.expm1(doubt))} %" if doubt < WIDEST else "give or take any factor"
