"""Two sets of records -> a verdict per case: FASTER, SLOWER, SAME or UNCLEAR, and the reasons.

The ratio of two medians is bounded by order statistics of the samples themselves: exact for samples that are
independent, whatever their distribution, and the same at every call. Samples of one process know nothing of what
differs between two; where an anchor was repeated, the scatter of its medians widens the interval.
"""

from __future__ import annotations

import json
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

import numpy as np

from gravbench.errors import InputError, nearest
from gravbench.model.case import CONTENTS, Value
from gravbench.model.interaction import GRAVITY
from gravbench.model.record import Record
from gravbench.model.runs import latest
from gravbench.model.variant import TOOLKITS

CONFIDENCE = 0.95
THRESHOLD = 0.02

Defaults = Mapping[str, Mapping[str, Value]]
"""The default axis values of each known variant."""

NEUTRAL: dict[str, Value] = {
    "toolkit": "",
    "variant": "",
    "dtype": "float32",
    "bodies": "",
    "subset": "",
    "seed": 0,
    "eps": 0.0,
    "interaction": GRAVITY,
}
"""Fields of a case whose values can be compared, and what stands for them in what has to be equal."""

DEVICE = "device"


class Verdict(StrEnum):
    """What can be said of NEW against BASE, the most urgent first."""

    SLOWER = "SLOWER"
    FASTER = "FASTER"
    UNCLEAR = "UNCLEAR"
    SAME = "SAME"


class Reason(StrEnum):
    """Why a verdict is UNCLEAR and what to do about it, or what to know about another verdict."""

    FEW = (
        "fewer than 7 samples on one side, which cannot bound a median with enough confidence: "
        "raise measure.budget_seconds"
    )
    CLOCK = "the clock changed: seconds and clock cycles do not say the same; fix the clock, then measure both again"
    THROTTLED = "the device slowed its clock down meanwhile: let it cool, or fix a lower clock"
    LAUNCH = "launch bound: the device waited for the host, so that this is the host's time; take a larger n"
    DRIFT = "the anchor's own medians scatter more than this case's samples: measure again on a quiet machine"
    WIDE = "the interval is wider than the threshold: more samples, by raising measure.budget_seconds"
    NEAR = "the interval lies on both sides of the threshold: more samples, or another --threshold"
    NO_CLOCK = "no clock was recorded: the number of cycles is unknown, judged by seconds alone"
    DEVICES = "two devices: cycles are not compared, judged by seconds alone"


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
    """How far the medians of a repeated anchor scatter: standard deviation of their logarithms, its freedom."""

    deviation: float = 0.0
    freedom: int = 0

    @property
    def of_ratio(self) -> float:
        """Half the interval, in logarithms, of a ratio of two medians that differ by this scatter alone."""
        return _student(self.freedom) * math.sqrt(2) * self.deviation if self.freedom else 0.0


@dataclass(frozen=True, slots=True)
class Pair:
    """A case measured twice. ``cycles`` is the ratio of clock cycles, None where it is unknown."""

    base: Record
    new: Record
    interval: Interval
    cycles: float | None
    verdict: Verdict
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """All cases of two sets: those in both, those that are ok in one alone, and those that are not ok.

    ``scatters`` has that of each device among the pairs whose anchor was repeated, by the device's name.
    """

    base: str
    new: str
    threshold: float
    pairs: list[Pair]
    only_base: list[Record]
    only_new: list[Record]
    not_ok_base: list[Record]
    not_ok_new: list[Record]
    scatters: dict[str, Scatter]

    @property
    def counts(self) -> dict[Verdict, int]:
        """How many pairs have each verdict."""
        found = Counter(pair.verdict for pair in self.pairs)
        return {verdict: found[verdict] for verdict in Verdict}

    @property
    def mean_ratio(self) -> float | None:
        """The geometric mean of the ratios, None without a pair."""
        logs = [math.log(pair.interval.ratio) for pair in self.pairs]
        return math.exp(statistics.fmean(logs)) if logs else None


@dataclass(frozen=True, slots=True)
class Run:
    """A set of records and what a person calls it."""

    name: str
    records: list[Record]


# What a person writes


def threshold(text: str) -> float:
    """Read ``2%``, ``2 %`` or ``0.02``.

    Raises:
        InputError: it is none of these, or not between 0 and 100 %.
    """
    word = text.strip()
    try:
        value = float(word.removesuffix("%")) / (100 if word.endswith("%") else 1)
    except ValueError:
        value = math.nan
    if not 0 < value < 1:
        raise InputError(f"--threshold {text}: accepted: a part such as 2% or 0.02, above 0 and below 100%")
    return value


def fields(records: Iterable[Record]) -> list[str]:
    """Name what ``--by`` may take: fields of a case, and the axes that the records have."""
    return [DEVICE, *NEUTRAL, *dict.fromkeys(axis for record in records for axis in record.axes)]


# Intervals


@lru_cache
def _student(freedom: int) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + CONFIDENCE) / 2))


@lru_cache
def _rank(samples: int) -> int:
    """Which smallest and which largest of so many samples bound the median; 0 where none do.

    Each of the two medians of a ratio may be missed with half of the probability that the ratio may.
    """
    from scipy.special import bdtr

    tail = (1 - CONFIDENCE) / 4
    return int(sum(bdtr(np.arange((samples + 1) // 2), samples, 0.5) <= tail))


@dataclass(frozen=True, slots=True)
class Span:
    """A median and what bounds it; where the samples are too few, their range, which is not ``sure``."""

    median: float
    low: float
    high: float
    sure: bool


def span(record: Record) -> Span:
    """Bound the median of a record's time by its own samples."""
    samples = np.sort(np.asarray(record.samples_seconds, dtype=np.float64))
    median = record.median_seconds or math.nan
    if not samples.size or not samples[0] > 0 or not math.isfinite(samples[-1]):
        return Span(median, 0.0, math.inf, sure=False)
    rank = _rank(samples.size)
    skipped = max(rank - 1, 0)
    return Span(median, float(samples[skipped]), float(samples[-1 - skipped]), sure=rank > 0)


def ratio(base: Span, new: Span, between: float) -> Interval:
    """Bound NEW over BASE: ``between`` is half the width, in logarithms, of what differs between two measurements.

    The two kinds of variation are independent of each other: the half widths add as the sides of a right angle do.
    """
    middle = new.median / base.median
    if not (base.low > 0 and new.low > 0 and math.isfinite(base.high) and math.isfinite(new.high)):
        return Interval(middle, 0.0, math.inf)
    below = math.log(middle / (new.low / base.high))
    above = math.log(new.high / base.low / middle)
    return Interval(
        middle, middle * math.exp(-math.hypot(below, between)), middle * math.exp(math.hypot(above, between))
    )


def is_ok(record: Record) -> bool:
    """Tell whether the record may be compared: verified, and with a median that is a positive number."""
    median = record.median_seconds
    return record.status == "ok" and median is not None and math.isfinite(median) and median > 0


def scatters(runs: Iterable[Sequence[Record]], place: Callable[[Record], str]) -> dict[str, Scatter]:
    """Pool the scatter of every repeated anchor of a device, each around its own mean.

    ``runs`` are whole files of records: ``latest`` keeps no repetitions.
    """
    squares: dict[str, float] = defaultdict(float)
    freedom: dict[str, int] = defaultdict(int)
    for records in runs:
        repeated: dict[str, list[Record]] = defaultdict(list)
        for record in records:
            if record.anchor and is_ok(record):
                # Another driver or source makes another anchor: their difference is no scatter.
                repeated[record.key + json.dumps(record.fingerprint, sort_keys=True)].append(record)
        for same in repeated.values():
            if len(same) > 1:
                logs = [math.log(record.median_seconds or math.nan) for record in same]
                squares[place(same[0])] += statistics.variance(logs) * (len(logs) - 1)
                freedom[place(same[0])] += len(logs) - 1
    return {name: Scatter(math.sqrt(squares[name] / freedom[name]), freedom[name]) for name in freedom}


# Verdicts


def _beyond(interval: Interval, factor: float, limit: float) -> Verdict:
    """Say where the whole interval lies. Swapping BASE and NEW swaps FASTER and SLOWER: the limits are 1.02, 1/1.02."""
    low, high = interval.low * factor, interval.high * factor
    if low > 1 + limit:
        return Verdict.SLOWER
    if high < 1 / (1 + limit):
        return Verdict.FASTER
    return Verdict.SAME if low >= 1 / (1 + limit) and high <= 1 + limit else Verdict.UNCLEAR


def judge(base: Record, new: Record, scatter: Scatter, limit: float) -> Pair:
    """Compare two records of one case."""
    own = span(base), span(new)
    interval = ratio(*own, scatter.of_ratio)
    if not (own[0].sure and own[1].sure):
        interval = Interval(interval.ratio, 0.0, math.inf)
    factor = None
    if base.device == new.device and base.sm_clock_mhz and new.sm_clock_mhz and min(base.sm_clock_mhz) > 0:
        factor = statistics.median(new.sm_clock_mhz) / statistics.median(base.sm_clock_mhz)
    verdict = _beyond(interval, 1.0, limit)
    reasons = []
    agree = factor is None or _beyond(interval, factor, limit) == verdict
    if verdict is not Verdict.UNCLEAR and not agree:
        reasons.append(Reason.CLOCK)
        if verdict is not Verdict.SAME:
            verdict = Verdict.UNCLEAR
    elif verdict is Verdict.UNCLEAR:
        reasons.append(_width(interval, ratio(*own, 0.0), scatter, limit))
    if base.throttled or new.throttled:
        reasons.append(Reason.THROTTLED)
    if base.launch_bound or new.launch_bound:
        reasons.append(Reason.LAUNCH)
    if factor is None and verdict in (Verdict.SLOWER, Verdict.FASTER):
        reasons.append(Reason.NO_CLOCK if base.device == new.device else Reason.DEVICES)
    cycles = None if factor is None else interval.ratio * factor
    return Pair(base, new, interval, cycles, verdict, tuple(reasons))


def _width(interval: Interval, sampled: Interval, scatter: Scatter, limit: float) -> Reason:
    """Say what keeps the interval from one side of the threshold."""
    if not interval.bounded:
        return Reason.FEW
    if interval.half_width <= limit:
        return Reason.NEAR
    return Reason.DRIFT if scatter.of_ratio > math.log1p(sampled.half_width) else Reason.WIDE


# Matching


def places(runs: Iterable[Sequence[Record]]) -> Callable[[Record], str]:
    """Return what names the device of a record: its name, and its UUID where a run has two of one name."""
    ambiguous: set[str | None] = set()
    for records in runs:
        uuids: dict[str | None, set[str | None]] = defaultdict(set)
        for record in records:
            uuids[record.device].add(record.device_uuid)
        ambiguous |= {name for name, found in uuids.items() if len(found) > 1}

    def place(record: Record) -> str:
        name = record.device or "no device"
        return f"{name} ({record.device_uuid})" if record.device in ambiguous else name

    return place


def compare_runs(base: Run, new: Run, limit: float = THRESHOLD) -> Comparison:
    """Compare every case of two runs with itself."""
    runs = [base.records, new.records]
    place = places(runs)

    def identity(record: Record) -> tuple[str, str]:
        return record.key, place(record)

    return _compare(
        Run(base.name, latest(base.records)), Run(new.name, latest(new.records)), runs, place, identity, limit
    )


def compare_values(
    run: Run,
    by: str,
    defaults: Defaults,
    chosen: Sequence[str] = (),
    limit: float = THRESHOLD,
) -> list[Comparison]:
    """Compare the values of a field within one set of records: every other with the first, all else being equal.

    With ``by`` variant the axes away from the variants' ``defaults`` have to be equal. The values are those
    ``chosen``, or all in the harness's order: toolkits as it names them, variants as ``defaults`` does.

    Raises:
        InputError: no such field or value, or fewer than two values.
    """
    known = fields(run.records)
    if by not in known:
        raise InputError(f"--by {by}: no such field or axis in {run.name}; {nearest(by, known)}")
    place = places([run.records])
    selected: dict[Value, list[Record]] = defaultdict(list)
    for record in latest(run.records):
        value = place(record) if by == DEVICE else getattr(record, by) if by in NEUTRAL else record.axes.get(by)
        if value is not None and not (by == DEVICE and record.device is None):
            selected[value].append(record)
    order = sorted(selected, key=lambda value: _order(by, value, selected[value], defaults))
    names = {str(value): value for value in order}
    for word in chosen:
        if word not in names:
            raise InputError(f"--values {word}: {run.name} has no such {by}; {nearest(word, list(names))}")
    values = [names[word] for word in dict.fromkeys(chosen)] or order
    if len(values) < 2:
        there = ", ".join(names)
        asked = "--values names only one" if chosen else "there is only one"
        raise InputError(f"--by {by}: two values are needed and {asked}; {run.name} has {there or 'none'}")

    def identity(record: Record) -> tuple[str, str]:
        return _without(record, by, defaults), "" if by == DEVICE else place(record)

    base = Run(f"{by} {values[0]}", selected[values[0]])
    return [
        _compare(base, Run(f"{by} {value}", selected[value]), [run.records], place, identity, limit)
        for value in values[1:]
    ]


def _order(by: str, value: Value, records: list[Record], defaults: Defaults) -> tuple[float, str]:
    if isinstance(value, int | float):
        return float(value), ""
    known = {"toolkit": list(TOOLKITS), "variant": list(defaults)}.get(by, [])
    place = known.index(value) if value in known else len(known)
    if by == DEVICE:  # GPUs first
        place = int(all(record.toolkit == "cpu" for record in records))
    return place, value


def _without(record: Record, by: str, defaults: Defaults) -> str:
    """Return the key of the case with one field left out."""
    if by == DEVICE:
        return record.key
    axes = {name: value for name, value in record.axes.items() if name != by}
    changed: dict[str, object] = {"axes": axes}
    if by in NEUTRAL:
        changed[by] = NEUTRAL[by]
        # The content of a file is left out with its name.
        changed |= {name: None for name in CONTENTS if name.startswith(f"{by}_")}
    if by == "variant":
        own = defaults.get(record.variant, {})
        changed["axes"] = {name: value for name, value in axes.items() if name not in own or own[name] != value}
    return record.model_copy(update=changed).key


def _compare(
    base: Run,
    new: Run,
    runs: Sequence[Sequence[Record]],
    place: Callable[[Record], str],
    identity: Callable[[Record], tuple[str, str]],
    limit: float,
) -> Comparison:
    scattered = scatters(runs, place)
    old = {identity(record): record for record in base.records}
    young = {identity(record): record for record in new.records}
    pairs = [
        judge(record, young[which], _wider(scattered, place(record), place(young[which])), limit)
        for which, record in old.items()
        if which in young and is_ok(record) and is_ok(young[which])
    ]
    there = {place(record) for pair in pairs for record in (pair.base, pair.new)}
    return Comparison(
        base=base.name,
        new=new.name,
        threshold=limit,
        pairs=pairs,
        only_base=[record for which, record in old.items() if which not in young and is_ok(record)],
        only_new=[record for which, record in young.items() if which not in old and is_ok(record)],
        not_ok_base=[record for record in old.values() if not is_ok(record)],
        not_ok_new=[record for record in young.values() if not is_ok(record)],
        scatters={name: scatter for name, scatter in scattered.items() if name in there},
    )


def _wider(scattered: Mapping[str, Scatter], *devices: str) -> Scatter:
    return max((scattered.get(device, Scatter()) for device in devices), key=lambda scatter: scatter.of_ratio)
