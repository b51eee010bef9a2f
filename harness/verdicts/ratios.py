"""The ratio of two medians and its bounds: by samples, by processes, and by what an anchor scatters."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace

from gravbench.model.record import Record
from gravbench.model.statistics import CONFIDENCE, between, bounds, effective, student
from gravbench.verdicts.cards import Shared
from gravbench.verdicts.ranking import grouped, is_ranked, namesakes, repetitions, seconds

Place = Callable[[Record], str]

BETWEEN = 0.99
"""The confidence with which the few processes of a case, or repetitions of an anchor, bound what they differ by."""

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

    They are ``fresh`` where each repetition was measured by ``processes`` of its own, so many at most.
    """

    deviation: float = 0.0
    freedom: int = 0
    fresh: bool = False
    processes: int = 1

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
    found = bounds(samples, (1 + CONFIDENCE) / 2, count)
    if found is None:
        return Span(median, min(samples), max(samples), sure=False)
    low, high = found
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


def scatters(runs: Iterable[Sequence[Record]], place: Place) -> dict[str, Scatter]:
    """Find how far the repeated anchors of each device scatter, each around its own mean in each run.

    Anchors that scatter alike are pooled; where they do not, the noisiest counts. Where any was repeated in fresh
    processes, only those were. The repetitions by cards that share cases have one mean. ``runs`` are whole files of
    records: ``latest`` keeps no repetitions.
    """
    repeated = [same for records in runs for same in _of_all_cards(repetitions(records, is_ranked)) if len(same) > 1]
    found: dict[str, Scatter] = {}
    for name, alike in grouped(repeated, lambda same: place(same[0])).items():
        by_process = grouped(alike, _fresh)
        fresh = True in by_process
        by_case = grouped(by_process[fresh], lambda same: same[0].identity).values()
        found[name] = _noisiest([_pooled(map(scatter_of, own), fresh=fresh) for own in by_case])
    return found


def _of_all_cards(repeated: Iterable[list[Record]]) -> Iterable[list[Record]]:
    """Put together the repetitions of an anchor by cards that share cases: what cards differ by is scatter of them."""

    def which(same: list[Record]) -> Hashable:
        one = same[0]
        known = one.identity, one.device_uuid, one.driver, one.code_sha256
        return known if isinstance(one, Shared) else id(same)

    return (list(itertools.chain(*alike)) for alike in grouped(repeated, which).values())


def _fresh(same: Sequence[Record]) -> bool:
    """Tell whether no process measured two of these repetitions."""
    processes = [set(record.processes) for record in same]
    return all(processes) and len(set.union(*processes)) == sum(map(len, processes))


def scatter_of(same: Sequence[Record]) -> Scatter:
    """Return how far several records of one case scatter, two at least."""
    processes = max(max(len(set(record.processes)), 1) for record in same)
    return Scatter(statistics.stdev(map(math.log, map(seconds, same))), len(same) - 1, processes=processes)


def _pooled(found: Iterable[Scatter], *, fresh: bool) -> Scatter:
    own = list(found)
    freedom = sum(one.freedom for one in own)
    deviation = math.sqrt(sum(one.deviation**2 * one.freedom for one in own) / freedom)
    return Scatter(deviation, freedom, fresh, max(one.processes for one in own))


def _noisiest(anchors: Sequence[Scatter]) -> Scatter:
    """Pool anchors, unless the noisiest differs from the others: then take it alone."""
    ordered = sorted(anchors, key=lambda one: one.deviation)
    if len(ordered) > 1:
        from scipy.special import fdtrc

        worst, others = ordered[-1], _pooled(ordered[:-1], fresh=True)
        times = (worst.deviation / others.deviation) ** 2 if others.deviation else math.inf
        # The largest of several is larger than one taken at random.
        if worst.deviation and fdtrc(worst.freedom, others.freedom, times) * len(ordered) < ALIKE:
            return worst
    return _pooled(ordered, fresh=ordered[0].fresh)


def own_scatter(base: Record, new: Record) -> tuple[float, int]:
    """Return the variance of the logarithm of the ratio by what the processes of both sides differ by, its freedom.

    The processes of both sides are taken to scatter alike. The freedom is 0 where one process measured each side, and
    where it is not known which did.
    """
    if not (base.processes and new.processes) or min(min(one.samples_seconds) for one in (base, new)) <= 0:
        return 0.0, 0
    sides = [record.groups for record in (base, new)]
    found = list(map(between, sides))
    freedom = sum(own for _, own in found)
    if not freedom:
        return 0.0, 0
    return sum(one * own for one, own in found) / freedom * sum(1 / len(side) for side in sides), freedom


def places(runs: Iterable[Sequence[Record]]) -> Place:
    """Return what names the device of a record: its name, and its UUID where a run has two of one name."""
    ambiguous = {name for records in runs for name in namesakes(records)}

    def place(record: Record) -> str:
        name = record.device or "no device"
        return f"{name} ({record.device_uuid})" if record.device in ambiguous else name

    return place


def half_of(variance: float, freedom: int, confidence: float) -> float:
    """Return half the interval of a logarithm with this variance; 0 without a degree of freedom."""
    return student(freedom, confidence) * math.sqrt(variance) if freedom else 0.0
