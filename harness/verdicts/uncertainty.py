"""What is printed after ±: how far a median may be from that of other processes that measure the same case.

It is half the 95 % confidence interval of the median by the record's own samples and processes, and the scatter of the
medians of anchors of the same run, device and kind of work, in quadrature. This is the only definition of it: ``reach``
returns it in logarithms, ``half_width`` as a part of the median.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from gravbench.model.record import Record
from gravbench.verdicts.ranking import seconds, unbounded
from gravbench.verdicts.ratios import Anchors, Place, Scatter, larger, places
from gravbench.verdicts.seeds import measured


class Uncertainties:
    """The uncertainty of each record of some runs, each run with the anchors that it repeated itself."""

    def __init__(self, runs: Sequence[Sequence[Record]] = (), place: Place | None = None) -> None:
        """``runs`` are whole files of records: ``latest`` keeps no repetitions. ``place`` names a record's device."""
        place = place or places(runs)
        self._everywhere = Anchors(runs, place)
        anchors_of = [Anchors([records], place) for records in runs]
        # By the records themselves: equal ones may stand in two runs.
        self._of_run = {
            id(record): anchors for anchors, records in zip(anchors_of, runs, strict=True) for record in records
        }

    def scatter(self, record: Record) -> Scatter:
        """Return the scatter of medians of as many processes as measured the record, by the run's anchors of such work.

        Where its run has none, those of all runs stand for them, and then the widest scatter of the run's anchors of
        other work.
        """
        scatter = self._known(record)
        if scatter is None:
            others = self._everywhere.of(record) or self._run_of(record).widest(record)
            scatter = replace(others, substitute=bool(self._everywhere))
        return scatter.beside(record)

    def _run_of(self, record: Record) -> Anchors:
        return self._of_run.get(id(measured(record)), self._everywhere)

    def _known(self, record: Record) -> Scatter | None:
        return self._run_of(record).of(record)

    def wider(self, *records: Record) -> Scatter:
        """Return the larger scatter of the records' anchors, a substitute where that of any record is one."""
        scatters = list(map(self.scatter, records))
        return replace(larger(*scatters), substitute=any(scatter.substitute for scatter in scatters))

    def includes_processes(self, record: Record) -> bool:
        """Tell whether the uncertainty includes what processes differ by in such work.

        An anchor of it that the same run repeated in several processes shows that, and so do several processes of the
        record itself.
        """
        return self.scatter(record).shows_processes or len(record.groups) > 1

    def may_be_narrow(self, record: Record) -> bool:
        """Tell whether there is an uncertainty, and it does not include what processes differ by."""
        return not (unbounded(record) or self.includes_processes(record))

    def between_processes(self, record: Record) -> float:
        """Return half the interval, in logarithms, of a median that differs from others by the scatter alone."""
        # ``of_ratio`` is that of the ratio of two medians.
        return self.scatter(record).of_ratio / math.sqrt(2)

    def reach(self, record: Record) -> float | None:
        """Return half the interval in logarithms; None where nothing bounds the median: its samples are too few."""
        if record.ci_low is None or record.ci_high is None or unbounded(record):
            return None
        return math.hypot(math.log(record.ci_high / record.ci_low) / 2, self.between_processes(record))

    def half_width(self, record: Record) -> float | None:
        """Return half the interval as a part of the median; None where nothing bounds it."""
        reach = self.reach(record)
        return None if reach is None else math.sinh(reach)

    def interval(self, record: Record) -> tuple[float, float] | None:
        """Return the seconds that bound the median, None where nothing does."""
        reach = self.reach(record)
        return None if reach is None else (seconds(record) * math.exp(-reach), seconds(record) * math.exp(reach))

    def indistinct(self, best: Record, others: Iterable[Record]) -> int:
        """Count those of the others that cannot be told from the best: the intervals overlap, or one has none."""
        of_best = self.interval(best)
        intervals = [self.interval(record) for record in others]
        return sum(of_best is None or interval is None or interval[0] <= of_best[1] for interval in intervals)


SAMPLES_ALONE = Uncertainties()
"""Where no anchors are known: an uncertainty by the record's own samples, which says that it includes no processes."""
