"""How far the numbers of a claim may be from what was measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gravbench.config.published import Unit
from gravbench.model.record import Record
from gravbench.model.statistics import CONFIDENCE, student
from gravbench.report import numbers
from gravbench.report.provenance import NARROW
from gravbench.verdicts.uncertainty import Uncertainties

COUNTED: frozenset[Unit] = frozenset(
    {
        "relative error",
        "relative error over a cycle",
        "error relative to all contributions",
        "blocks",
        "waves",
        "multiprocessors",
        "threads per block",
        "threads a multiprocessor holds",
        "active threads of a multiprocessor",
        "bytes of local memory",
        "bytes of nodes",
        "loads per body",
        "interactions",
        "instructions per interaction",
        "issue cycles per interaction",
        "% of the multiprocessors",
        "global loads per body",
        "% of a warp",
    }
)
"""What another run of the same case would find again; all else follows from a time."""

SHARES: frozenset[Unit] = frozenset({"% of the stages building the tree"})
"""Parts of one evaluation: what lengthens all of its stages changes none, and no record has samples of a stage."""

STARTED: frozenset[Unit] = frozenset({"ms per 100 steps by a process of 20", "ms per 100 steps by a process of 100"})
"""Times that include the start of a process, which a record has once."""

STEPS = (-1.0, -0.5, 0.0, 0.5, 1.0)
"""Where within its interval a number is put, in half widths from its median."""

WIDEST = 20.0
"""The half width, in logarithms, of a number that nothing bounds: a factor of 10^9 to both sides."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """Half the 95 % interval of a number, in logarithms: ``reach``, 0 without an interval.

    It is ``narrow`` where it does not include what processes differ by in such work; ``remark`` says what else it is.
    """

    reach: float = 0.0
    narrow: bool = False
    remark: str = ""

    @property
    def words(self) -> str:
        """Write it behind the number; empty of what is certain."""
        width = plus_minus(self.reach, narrow=self.narrow) if self.reach else ""
        return " ".join(filter(None, [width, self.remark]))


CERTAIN = Doubt()
"""That of what is counted."""


class Doubts:
    """The doubts of what the records of one run say."""

    def __init__(self, records: Sequence[Record]) -> None:
        """Find how far the anchors scatter; ``records`` are all of a run, its repetitions included."""
        self._uncertainties = Uncertainties([records])

    def of(self, record: Record, unit: Unit) -> Doubt:
        """Return the doubt of a number: what is printed after ± for the record.

        What is counted has none. A stage has no interval of its own; that of the evaluation it is part of stands for
        it. Where the samples are too few for an interval, Student's t of their logarithms stands for one, as if they
        were normal.
        """
        if unit in COUNTED:
            return CERTAIN
        if unit in SHARES:
            return Doubt(remark="without an interval, because it is a part of one evaluation")
        if unit in STARTED:
            return Doubt(remark="without an interval, because a process starts once")
        narrow, reach = not self._uncertainties.includes_processes(record), self._uncertainties.reach(record)
        if reach is not None:
            return Doubt(reach, narrow)
        few = _by_student(record)
        if math.isinf(few):
            return Doubt(few)
        remark = f"by Student's t of {len(record.samples_seconds)} samples"
        return Doubt(math.hypot(few, self._uncertainties.between_processes(record)), narrow, remark)


def _by_student(record: Record) -> float:
    """Return half an interval by few samples, in logarithms; infinite with less than two."""
    samples = [sample for sample in record.samples_seconds if sample > 0]
    if len(samples) < 2:
        return math.inf
    deviation = float(np.std(np.log(samples), ddof=1))
    return student(len(samples) - 1, CONFIDENCE) * deviation / math.sqrt(len(samples))


def within(value: float, reach: float) -> list[float]:
    """Return the values that a number may have, from one end of its interval to the other."""
    bounded = min(reach, WIDEST)
    return [value * math.exp(bounded * step) for step in STEPS] if bounded else [value]


def plus_minus(reach: float, *, narrow: bool = False) -> str:
    """Write half an interval in logarithms as a part of the value, with a sign where it may be too narrow."""
    if reach >= WIDEST:
        return "give or take any factor"
    return numbers.plus_minus(math.sinh(reach)) + NARROW * narrow
