"""The ratio of two medians and its bounds: by samples, by processes, and by what anchors of its work scatter.

How far medians scatter between processes depends on the work (the GPU, the host, or both) and on how long it takes: a
launch of a few microseconds scatters by more than one of milliseconds. So the scatter of a record is interpolated, by
its time, between those of the anchors of its run, on its device and of its kind of work.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace

from gravbench.model.record import Record
from gravbench.model.statistics import CONFIDENCE, between, bounds, effective, student
from gravbench.model.work import Work
from gravbench.verdicts.cards import Shared
from gravbench.verdicts.ranking import grouped, is_ranked, namesakes, repetitions, seconds

Place = Callable[[Record], str]

BETWEEN = 0.99
"""The confidence with which the few processes of a case, or repetitions of an anchor, bound what they differ by."""

ALIKE_IN_TIME = 1.1
"""A ratio of times up to which anchors are taken for equally long."""

ALIKE = 0.05
"""The probability that anchors which scatter alike differ as these do, below which the noisiest alone has its say."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A ratio of medians and its bounds; 0 and infinity where the samples are too few to bound it."""

    ratio: float
    low: float
    high: float

    @property
    def bounded(self) -> bool:
        """Whether there are bounds."""
        return self.low > 0 and math.isfinite(self.high)

    @property
    def half_width(self) -> float:
        """Half of the interval, as a part of the ratio."""
        return math.sqrt(self.high / self.low) - 1 if self.bounded else math.inf


@dataclass(frozen=True, slots=True)
class Scatter:
    """How far the medians of a repeated anchor scatter: standard deviation of their logarithms, its freedom.

    They are ``fresh`` where several processes measured the repetitions, each by so many ``processes`` at most. A
    ``substitute`` is of anchors of other work or of other runs, where a run repeated no anchor of the work itself.
    """

    deviation: float = 0.0
    freedom: int = 0
    fresh: bool = False
    processes: int = 1
    substitute: bool = False

    @property
    def shows_processes(self) -> bool:
        """Whether it shows what processes differ by in the work itself."""
        return self.fresh and not self.substitute

    @property
    def of_ratio(self) -> float:
        """Half the interval, in logarithms, of a ratio of two medians that differ by this scatter alone."""
        return self.bound(CONFIDENCE)

    def beside(self, *records: Record) -> Scatter:
        """Return that of medians of as many processes as measured these records, where these are fewer."""
        fewest = min(max(len(set(record.processes)), 1) for record in records)
        if fewest >= self.processes:
            return self
        return replace(self, deviation=self.deviation * math.sqrt(self.processes / fewest), processes=fewest)

    def bound(self, confidence: float) -> float:
        """Return the same with another confidence."""
        return student(self.freedom, confidence) * math.sqrt(2) * self.deviation if self.freedom else 0.0


@dataclass(frozen=True, slots=True)
class Span:
    """A median and what bounds it; where the samples are too few, their range, which is not ``sure``.

    ``dependent`` says that they would have been enough, were they independent of each other.
    """

    median: float
    low: float
    high: float
    sure: bool
    dependent: bool = False


def span(record: Record) -> Span:
    """Bound the median of a record's time by its own samples.

    Each of the two medians of a ratio may be missed with half of the probability that the ratio may. Samples count as
    independent where the record does not tell which process took them, as was assumed when it was made.
    """
    samples = record.samples_seconds
    median = record.median_seconds or math.nan
    if not samples or not min(samples) > 0 or not math.isfinite(sum(samples)):
        return Span(median, 0.0, math.inf, sure=False)
    count = sum(map(effective, record.groups)) if record.processes else len(samples)
    interval = bounds(samples, (1 + CONFIDENCE) / 2, count)
    if interval is None:
        return Span(median, min(samples), max(samples), sure=False)
    low, high = interval
    if low <= 0:
        return Span(median, 0.0, math.inf, sure=False, dependent=True)
    # The mean of several processes may lie outside of what bounds the median of all samples.
    return Span(median, min(low, median), max(high, median), sure=True)


def ratio(base: Span, new: Span, wider: float, least: float = 0.0) -> Interval:
    """Bound NEW over BASE: ``wider`` is half the width, in logarithms, of what differs between two measurements.

    The two kinds of variation are independent of each other: the half widths add in quadrature. The half width is
    ``least`` at least.
    """
    middle = new.median / base.median
    if not (base.low > 0 and new.low > 0 and math.isfinite(base.high) and math.isfinite(new.high)):
        return Interval(middle, 0.0, math.inf)
    below = max(math.hypot(math.log(middle / (new.low / base.high)), wider), least)
    above = max(math.hypot(math.log(new.high / base.low / middle), wider), least)
    return Interval(middle, middle * math.exp(-below), middle * math.exp(above))


@dataclass(frozen=True, slots=True)
class Anchor:
    """Anchors that take about ``seconds``, and how far their medians scatter between processes."""

    seconds: float
    scatter: Scatter


class Anchors:
    """The repeated anchors of one run or of several, by device and kind of work."""

    def __init__(self, runs: Iterable[Sequence[Record]], place: Place) -> None:
        """Find them; ``runs`` are whole files of records, because ``latest`` keeps no repetitions.

        Each repeated case scatters around its own mean in each run. The repetitions by cards that share cases have one
        mean. ``place`` names the device of a record.
        """
        self._place = place
        repeated = [same for records in runs for same in _of_all_cards(repetitions(records, is_ranked))]
        several = [same for same in repeated if len(same) > 1]
        self._by_work = {
            which: _by_time(alike)
            for which, alike in grouped(several, lambda same: (place(same[0]), same[0].work)).items()
        }

    def __bool__(self) -> bool:
        """Whether any anchor was repeated."""
        return bool(self._by_work)

    def of(self, record: Record, place: str | None = None) -> Scatter | None:
        """Return how far the medians of such work scatter; None where no anchor of it was repeated on the device.

        Between two anchors it is interpolated, in logarithms, by the record's time; beyond the first and the last it is
        theirs. ``place`` names the record's device where that is known already.
        """
        anchors = self._by_work.get((place or self._place(record), record.work), [])
        if not anchors:
            return None
        record_seconds = seconds(record)
        shorter = [anchor for anchor in anchors if anchor.seconds <= record_seconds]
        longer = [anchor for anchor in anchors if anchor.seconds > record_seconds]
        if not (shorter and longer):
            return (longer[:1] or shorter[-1:])[0].scatter
        return _between(shorter[-1], longer[0], record_seconds)

    def widest(self, record: Record, place: str | None = None) -> Scatter:
        """Return the largest scatter of any anchor on the record's device; of all devices if its work is on both.

        ``place`` names the record's device where that is known already.
        """
        device = place or self._place(record)
        anywhere = record.work is Work.BOTH
        return larger(
            *(
                anchor.scatter
                for (of_anchors, _), anchors in self._by_work.items()
                if anywhere or of_anchors == device
                for anchor in anchors
            )
        )


def larger(*scatters: Scatter) -> Scatter:
    """Return the scatter that makes a ratio most uncertain; none without any."""
    return max(scatters, key=lambda scatter: scatter.of_ratio, default=Scatter())


def _between(shorter: Anchor, longer: Anchor, at: float) -> Scatter:
    """Interpolate the scatter of what takes ``at`` seconds, with the fewer degrees of freedom of the two."""
    ends = shorter.scatter, longer.scatter
    if not min(end.deviation for end in ends):
        return larger(*ends)
    part = math.log(at / shorter.seconds) / math.log(longer.seconds / shorter.seconds)
    deviation = ends[0].deviation ** (1 - part) * ends[1].deviation ** part
    freedom, processes = min(end.freedom for end in ends), max(end.processes for end in ends)
    return Scatter(deviation, freedom, all(end.fresh for end in ends), processes)


def _by_time(repeated: Iterable[Sequence[Record]]) -> list[Anchor]:
    """Return the anchors in the order of their times.

    The runs' repetitions of a case are pooled, and so are cases that take about as long and scatter alike; where they
    do not, the noisiest counts. Where any was repeated in several processes, only those were.
    """
    by_process = grouped(repeated, lambda same: scatter_of(same).fresh)
    cases = grouped(by_process.get(True) or by_process[False], lambda same: same[0].identity).values()
    anchors = sorted(
        (Anchor(_middle(runs), _pooled(list(map(scatter_of, runs)))) for runs in cases),
        key=lambda anchor: anchor.seconds,
    )

    def about(anchor: Anchor) -> float:
        return next(other.seconds for other in anchors if other.seconds * ALIKE_IN_TIME >= anchor.seconds)

    return [
        Anchor(first, noisiest([anchor.scatter for anchor in alike]))
        for first, alike in grouped(anchors, about).items()
    ]


def _middle(runs: Iterable[Sequence[Record]]) -> float:
    return statistics.median(seconds(record) for same in runs for record in same)


def _of_all_cards(repeated: Iterable[list[Record]]) -> Iterable[list[Record]]:
    """Put together the repetitions of an anchor by cards that share cases: what cards differ by is scatter of them."""

    def which(same: list[Record]) -> Hashable:
        first = same[0]
        known = first.identity, first.device_uuid, first.driver, first.code_sha256
        return known if isinstance(first, Shared) else id(same)

    return (list(itertools.chain(*alike)) for alike in grouped(repeated, which).values())


def scatter_of(same: Sequence[Record]) -> Scatter:
    """Return how far the medians of several records of one case scatter, two at least.

    They are ``fresh`` where several processes measured them. A record by processes that have measured the case before
    says nothing more of what processes differ by, so it counts for no degree of freedom.
    """
    measured: set[int] = set()
    fresh = 0
    for record in same:
        processes = set(record.processes)
        fresh += bool(processes) and measured.isdisjoint(processes)
        measured |= processes
    of_several = fresh > 1 and all(record.processes for record in same)
    deviation = statistics.stdev(map(math.log, map(seconds, same)))
    processes_each = max(max(len(set(record.processes)), 1) for record in same)
    return Scatter(deviation, (fresh if of_several else len(same)) - 1, of_several, processes_each)


def _pooled(scatters: Sequence[Scatter]) -> Scatter:
    freedom = sum(scatter.freedom for scatter in scatters)
    deviation = math.sqrt(sum(scatter.deviation**2 * scatter.freedom for scatter in scatters) / freedom)
    return Scatter(
        deviation, freedom, all(scatter.fresh for scatter in scatters), max(scatter.processes for scatter in scatters)
    )


def noisiest(scatters: Sequence[Scatter]) -> Scatter:
    """Pool the scatters of anchors, unless the noisiest differs from the others: then take it alone."""
    ordered = sorted(scatters, key=lambda scatter: scatter.deviation)
    if len(ordered) > 1:
        from scipy.special import fdtrc

        worst, others = ordered[-1], _pooled(ordered[:-1])
        times = (worst.deviation / others.deviation) ** 2 if others.deviation else math.inf
        # The largest of several is larger than one taken at random.
        if worst.deviation and fdtrc(worst.freedom, others.freedom, times) * len(ordered) < ALIKE:
            return worst
    return _pooled(ordered)


def own_scatter(base: Record, new: Record) -> tuple[float, int]:
    """Return the variance of the logarithm of the ratio by what the processes of both sides differ by, its freedom.

    The processes of both sides are taken to scatter alike. The freedom is 0 where one process measured each side, and
    where it is not known which did.
    """
    if not (base.processes and new.processes) or min(min(record.samples_seconds) for record in (base, new)) <= 0:
        return 0.0, 0
    sides = [record.groups for record in (base, new)]
    deviations = list(map(between, sides))
    freedom = sum(degrees for _, degrees in deviations)
    if not freedom:
        return 0.0, 0
    return sum(variance * degrees for variance, degrees in deviations) / freedom * sum(
        1 / len(side) for side in sides
    ), freedom


def places(runs: Iterable[Sequence[Record]]) -> Place:
    """Return what names the device of a record: its name, and its UUID where a run has two of one name."""
    ambiguous = {name for records in runs for name in namesakes(records)}

    def place(record: Record) -> str:
        name = record.device or "no device"
        return f"{name} ({record.device_uuid or 'no UUID'})" if record.device in ambiguous else name

    return place


def half_of(variance: float, freedom: int, confidence: float) -> float:
    """Return half the interval of a logarithm with this variance; 0 without a degree of freedom."""
    return student(freedom, confidence) * math.sqrt(variance) if freedom else 0.0
