"""Two sets of records -> a verdict per case: FASTER, SLOWER, SAME or UNCLEAR, and the reasons.

The ratio of two medians is bounded by order statistics of the samples themselves, as many as are independent of each
other, and is the same at every call. Samples of one process know nothing of what differs between two: that is seen
where several processes measured the case, or where both runs repeated an anchor of the same kind of work in several,
and widens the interval. Without either nothing is said of two runs.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from gravbench.errors import InputError, nearest, shortened
from gravbench.model.case import PARTS, Value, stated
from gravbench.model.record import Record
from gravbench.model.runs import latest
from gravbench.model.statistics import CONFIDENCE
from gravbench.model.toolkits import catalogue
from gravbench.model.variant import CPU
from gravbench.model.work import Work
from gravbench.verdicts.cards import Shared, card_of, newest, together
from gravbench.verdicts.ranking import grouped, is_ranked
from gravbench.verdicts.ratios import (
    BETWEEN,
    Anchors,
    Interval,
    Place,
    Scatter,
    half_of,
    larger,
    noisiest,
    own_scatter,
    places,
    ratio,
    scatter_of,
    span,
)
from gravbench.verdicts.reasons import NO_ANCHOR, Reason
from gravbench.verdicts.uncertainty import Uncertainties

THRESHOLD = 0.02

Defaults = Mapping[str, Mapping[str, Value]]
"""The default axis values of each known variant."""

Identity = Callable[[Record], tuple[Hashable, str]]

DEVICE = "device"


class Verdict(StrEnum):
    """What can be said of NEW against BASE, the most urgent first."""

    SLOWER = "SLOWER"
    FASTER = "FASTER"
    UNCLEAR = "UNCLEAR"
    SAME = "SAME"


@dataclass(frozen=True, slots=True)
class Pair:
    """A case measured twice: ``verdict`` answers for seconds, ``in_cycles`` for clock cycles.

    ``cycles`` is the ratio of these. Both are None where no clock is known, or another device has another clock.
    ``scatter`` is that of the anchors of such work. The interval is ``narrow`` where it does not include what processes
    differ by in such work.
    """

    base: Record
    new: Record
    interval: Interval
    cycles: float | None
    verdict: Verdict
    in_cycles: Verdict | None
    reasons: tuple[Reason, ...]
    scatter: Scatter
    narrow: bool

    @property
    def is_same(self) -> bool:
        """Whether both verdicts, or the only one, are SAME."""
        return self.verdict is Verdict.SAME and self.in_cycles in (None, Verdict.SAME)


@dataclass(frozen=True, slots=True)
class Comparison:
    """All cases of two runs: those in both, those that are ok in only one, and those that are not ok.

    ``scatters`` has the scatters of anchors that widened intervals, the smallest first, by device and kind of work.
    ``unanchored`` names the runs without an anchor of a kind of work that their cases have. ``elsewhere`` is the
    number of runs from which the scatter of each case itself was observed instead.
    """

    base: str
    new: str
    threshold: float
    pairs: list[Pair]
    only_base: list[Record]
    only_new: list[Record]
    not_ok_base: list[Record]
    not_ok_new: list[Record]
    scatters: dict[tuple[str, Work], list[Scatter]]
    unanchored: dict[tuple[str, Work], list[str]]
    elsewhere: int = 0

    @property
    def counts(self) -> dict[Verdict, int]:
        """How many pairs have each verdict on seconds."""
        verdicts = [pair.verdict for pair in self.pairs]
        return {verdict: verdicts.count(verdict) for verdict in Verdict}

    @property
    def counts_in_cycles(self) -> dict[Verdict, int]:
        """How many pairs have each verdict on clock cycles, of those whose cycles are known."""
        verdicts = [pair.in_cycles for pair in self.pairs]
        return {verdict: verdicts.count(verdict) for verdict in Verdict}

    @property
    def in_full(self) -> list[Pair]:
        """The pairs of what was measured in full on both sides."""
        return [pair for pair in self.pairs if Reason.OUTRACED not in pair.reasons]

    @property
    def mean(self) -> Interval | None:
        """The geometric mean of the ratios of what was measured in full, None without a pair.

        Its bounds are the geometric means of those of the cases. What cases share, such as a clock, moves all of them
        together, so the mean is not taken to be more certain than they are.
        """
        intervals = [pair.interval for pair in self.in_full]
        if not intervals:
            return None
        ratio = statistics.geometric_mean(interval.ratio for interval in intervals)
        if not all(interval.bounded for interval in intervals):
            return Interval(ratio, 0.0, math.inf)
        low, high = (
            statistics.geometric_mean(getattr(interval, end) for interval in intervals) for end in ("low", "high")
        )
        return Interval(ratio, low, high)

    @property
    def verdict(self) -> Verdict:
        """The verdict on the mean; UNCLEAR where that on every case is, for a mean of them knows no more."""
        if self.mean is None or all(pair.verdict is Verdict.UNCLEAR for pair in self.in_full):
            return Verdict.UNCLEAR
        return _beyond(self.mean, 1.0, self.threshold)

    @property
    def outraced(self) -> int:
        """How many pairs have a side that a race stopped."""
        return len(self.pairs) - len(self.in_full)


@dataclass(frozen=True, slots=True)
class Run:
    """A set of records and what a person calls it; ``lengths`` counts those of each run, where they are of several."""

    name: str
    records: list[Record]
    lengths: tuple[int, ...] = ()


def threshold(text: str, option: str = "--threshold") -> float:
    """Read ``2%``, ``2 %`` or ``0.02``, as an option has it.

    Raises:
        InputError: it is none of these, or not between 0 and 100 %.
    """
    word = text.strip()
    try:
        value = float(word.removesuffix("%")) / (100 if word.endswith("%") else 1)
    except ValueError:
        value = math.nan
    if not 0 < value < 1:
        raise InputError(f"{option} {text}: accepted: a part such as 2% or 0.02, above 0 and below 100%")
    return value


def checked_threshold(value: object) -> float:
    """Return the threshold that a program gives.

    Raises:
        InputError: it is no number between 0 and 1.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        raise InputError(f"threshold {shortened(repr(value))}: accepted: a number above 0 and below 1, such as 0.02")
    return float(value)


def fields(records: Iterable[Record]) -> list[str]:
    """Name what ``--by`` may take: fields of a case, and the axes that the records have."""
    names = [name for name in stated() if name != "n"]
    return [DEVICE, *names, *dict.fromkeys(axis for record in records for axis in record.axes)]


def _beyond(interval: Interval, factor: float, limit: float) -> Verdict:
    """Say where the whole interval lies. Swapping BASE and NEW swaps FASTER and SLOWER: the limits are 1.02, 1/1.02."""
    low, high = interval.low * factor, interval.high * factor
    if low > 1 + limit:
        return Verdict.SLOWER
    if high < 1 / (1 + limit):
        return Verdict.FASTER
    return Verdict.SAME if low >= 1 / (1 + limit) and high <= 1 + limit else Verdict.UNCLEAR


def judge(base: Record, new: Record, scatter: Scatter, limit: float, *, one_run: bool = False) -> Pair:
    """Compare two records of one case.

    ``scatter`` is that of anchors of such work, or a substitute where one of the runs has none although there are
    anchors. ``one_run`` says that both are of one run.
    """
    spans = span(base), span(new)
    variance, freedom = own_scatter(base, new)
    if scatter.substitute and freedom:  # several processes of the case itself show more than other work does
        scatter = Scatter(substitute=True)
    on_host = CPU in (base.toolkit, new.toolkit)
    known = freedom > 0 or (scatter.shows_processes and not on_host)
    # Two records of one process differ by no process.
    known_processes = known or (one_run and set(base.processes) == set(new.processes))
    wider = scatter.beside(base, new).bound(BETWEEN if known else CONFIDENCE)
    least = half_of(variance, freedom, BETWEEN)
    interval = ratio(*spans, wider, least)
    if not (spans[0].sure and spans[1].sure):
        interval = Interval(interval.ratio, 0.0, math.inf)
    factor = None
    if (
        base.device == new.device
        and base.sm_clock_mhz
        and new.sm_clock_mhz
        and min(base.sm_clock_mhz + new.sm_clock_mhz) > 0
    ):
        factor = statistics.median(new.sm_clock_mhz) / statistics.median(base.sm_clock_mhz)
    late = base.outraced or new.outraced
    judged = known_processes and not late
    verdict = _beyond(interval, 1.0, limit) if judged else Verdict.UNCLEAR
    in_cycles = None if factor is None else _beyond(interval, factor, limit) if judged else Verdict.UNCLEAR
    reasons = []
    if late:
        reasons.append(Reason.OUTRACED)
    elif not known_processes:
        without = NO_ANCHOR[new.work] if scatter.substitute else Reason.ALONE
        reasons.append(Reason.HOST if scatter.shows_processes else without)
    elif Verdict.UNCLEAR in (verdict, in_cycles):
        dependent = spans[0].dependent or spans[1].dependent
        why = _width(interval, ratio(*spans, 0.0), wider, least, limit, dependent=dependent)
        reasons.append(NO_ANCHOR[new.work] if scatter.substitute and why is Reason.DRIFT else why)
    if judged and not known:
        reasons.append(Reason.WITHIN)
    if in_cycles not in (None, verdict):
        reasons.append(Reason.CLOCK)
    if base.throttled or new.throttled:
        reasons.append(Reason.THROTTLED)
    if base.launch_bound or new.launch_bound:
        reasons.append(Reason.LAUNCH)
    if factor is None and verdict in (Verdict.SLOWER, Verdict.FASTER):
        reasons.append(Reason.NO_CLOCK if base.device == new.device else Reason.DEVICES)
    cycles = None if factor is None else interval.ratio * factor
    narrow = freedom == 0 and not scatter.shows_processes
    return Pair(base, new, interval, cycles, verdict, in_cycles, tuple(reasons), scatter, narrow)


def _width(
    interval: Interval, sampled: Interval, wider: float, least: float, limit: float, *, dependent: bool
) -> Reason:
    """Say what keeps it from one side of the threshold: ``wider`` is due to the anchor, ``least`` to processes."""
    if not interval.bounded:
        return Reason.DEPENDENT if dependent else Reason.FEW
    if interval.half_width <= limit:
        return Reason.NEAR
    sampled_reach = math.log1p(sampled.half_width)
    if max(wider, least) <= sampled_reach:
        return Reason.WIDE
    return Reason.DRIFT if wider >= least else Reason.PROCESSES


def compare_runs(base: Run, new: Run, limit: float = THRESHOLD, elsewhere: Sequence[Run] = ()) -> Comparison:
    """Compare every case of two runs with itself, on the device of the same name.

    Where a run measured a case on several devices of one name, each is compared with itself. A case that cards shared
    is compared with that of another card only where the other run does not have it of the same one.

    Of records that do not tell their processes, what these differ by is seen in the runs ``elsewhere``, which measured
    the same cases in processes of their own.
    """
    runs = [base.records, new.records]
    shared = together(runs)
    of_shared, of_cards = places(shared), places(runs)
    anchors = [Anchors([records], of_shared) for records in shared]
    standing = {
        card_of(record): of_shared(record) for records in shared for record in records if isinstance(record, Shared)
    }

    def place(record: Record) -> str:
        return standing.get(card_of(record)) or of_cards(record)

    old, young = (Run(run.name, newest(run.records)) for run in (base, new))
    # Of several devices of one name each may have its part of the cases, as in a merged run.
    once = [Counter((record.identity, record.device) for record in run.records) for run in (old, young)]
    measured = [{(record.identity, card_of(record)) for record in run.records} for run in (old, young)]

    def identity(record: Record) -> tuple[Hashable, str]:
        several = any(counted[record.identity, record.device] > 1 for counted in once)
        if several and all((record.identity, card_of(record)) in keys for keys in measured):
            return record.identity, of_cards(record)
        return record.identity, place(record) if several or not record.device else record.device

    seen: dict[tuple[Hashable, str], Scatter] = {}
    if len(elsewhere) > 1 and not any(record.processes for run in (base, new) for record in run.records):
        others = [record for run in elsewhere for record in filter(is_ranked, latest(run.records))]
        seen = {which: scatter_of(same) for which, same in grouped(others, identity).items() if len(same) > 1}

    def wider(base: Record, new: Record) -> Scatter:
        if (which := identity(base)) in seen:
            return replace(seen[which], fresh=True)
        return _scatter(anchors, (base, new), place)

    comparison = _compare(old, young, place, anchors, identity, limit, wider)
    return replace(comparison, elsewhere=len(elsewhere)) if seen else comparison


def compare_values(
    run: Run, by: str, defaults: Defaults, chosen: Sequence[str] = (), limit: float = THRESHOLD
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
    (records,) = [run.records] if by == DEVICE else together([run.records])
    place = places([records])

    def value_of(record: Record) -> Value | None:
        return record.part(by) if by != DEVICE else place(record) if record.device else None

    selected = grouped(latest(records), value_of)
    there = [value for value in selected if value is not None]
    order = sorted(there, key=lambda value: _order(by, value, selected[value], defaults))
    names = {str(value): value for value in order}
    for word in chosen:
        if word not in names:
            raise InputError(f"--values {word}: {run.name} has no such {by}; {nearest(word, list(names))}")
    values = [names[word] for word in dict.fromkeys(chosen)] or order
    if len(values) < 2:
        offered = ", ".join(names)
        given = "--values names only one" if chosen else "there is only one"
        raise InputError(f"--by {by}: two values are needed and {given}; {run.name} has {offered or 'none'}")

    def identity(record: Record) -> tuple[str, str]:
        return _without(record, by, values[0], defaults), "" if by == DEVICE else place(record)

    base, *others = (Run(f"{by} {value}", selected[value]) for value in values)
    ends = list(itertools.accumulate(run.lengths or [len(records)], initial=0))
    runs = [records[start:end] for start, end in itertools.pairwise(ends)]
    anchors, wider, one_run = [Anchors(runs, place)] * 2, Uncertainties(runs, place).wider, len(runs) == 1
    return [_compare(base, other, place, anchors, identity, limit, wider, one_run=one_run) for other in others]


def _order(by: str, value: Value, records: list[Record], defaults: Defaults) -> tuple[float, str]:
    if isinstance(value, int | float):
        return float(value), ""
    known = {"toolkit": list(catalogue()), "variant": list(defaults)}.get(by, [])
    place = known.index(value) if value in known else len(known)
    if by == DEVICE:  # GPUs first
        place = int(all(record.toolkit == CPU for record in records))
    return place, value


def _without(record: Record, by: str, stand_in: Value, defaults: Defaults) -> str:
    """Return the key of the case as if it had ``stand_in`` for one of its fields, or lacked one of its axes."""
    axes = away(record, defaults) if by == "variant" else record.axes
    changed: dict[str, object] = {"axes": {name: value for name, value in axes.items() if name != by}}
    if by in PARTS:
        # The content of a file is left out with its name.
        changed |= {by: stand_in} | {name: None for name, part in PARTS.items() if part.content_of == by}
    return record.model_copy(update=changed).key


def away(record: Record, defaults: Defaults) -> dict[str, Value]:
    """Return the axes whose values are not the defaults of the record's variant."""
    usual = defaults.get(record.variant, {})
    return {name: value for name, value in record.axes.items() if name not in usual or usual[name] != value}


def _compare(
    base: Run,
    new: Run,
    place: Place,
    anchors: Sequence[Anchors],
    identity: Identity,
    limit: float,
    wider: Callable[[Record, Record], Scatter],
    *,
    one_run: bool = False,
) -> Comparison:
    """Compare the cases of two runs; ``anchors`` are those of BASE and of NEW, ``wider`` the scatter beside a pair."""
    old, young = ({identity(record): record for record in run.records} for run in (base, new))
    both = [(record, young[which]) for which, record in old.items() if which in young]
    pairs = [judge(*two, wider(*two), limit, one_run=one_run) for two in both if all(map(is_ranked, two))]
    by_work = grouped(pairs, lambda pair: (place(pair.new), pair.new.work))
    used = {which: {pair.scatter for pair in alike if _is_known(pair.scatter)} for which, alike in by_work.items()}
    return Comparison(
        base=base.name,
        new=new.name,
        threshold=limit,
        pairs=pairs,
        only_base=[record for which, record in old.items() if which not in young and is_ranked(record)],
        only_new=[record for which, record in young.items() if which not in old and is_ranked(record)],
        not_ok_base=[record for record in old.values() if not is_ranked(record)],
        not_ok_new=[record for record in young.values() if not is_ranked(record)],
        scatters={
            which: sorted(scatters, key=lambda scatter: scatter.of_ratio)
            for which, scatters in used.items()
            if scatters
        },
        unanchored=_unanchored(by_work, (base, new), anchors, place) if any(anchors) else {},
    )


def _scatter(anchors: Sequence[Anchors], records: Sequence[Record], place: Place) -> Scatter:
    """Return the scatter of anchors of BASE's and NEW's work; where either run has none, the widest that there is."""
    sides = list(zip(anchors, records, strict=True))
    scatters = [repeated.of(record, place(record)) for repeated, record in sides]
    known = [scatter for scatter in scatters if scatter is not None]
    if len(known) == len(sides):
        return noisiest(known)
    widest = larger(*known, *(repeated.widest(record, place(record)) for repeated, record in sides))
    return replace(widest, substitute=any(anchors))


def _is_known(scatter: Scatter) -> bool:
    return scatter.freedom > 0 and not scatter.substitute


def _unanchored(
    by_work: Mapping[tuple[str, Work], Sequence[Pair]], runs: Sequence[Run], anchors: Sequence[Anchors], place: Place
) -> dict[tuple[str, Work], list[str]]:
    """Name the runs that have no anchor of a kind of work that is compared."""
    by_kind = {}
    for which, (pair, *_) in by_work.items():
        sides = zip(runs, anchors, (pair.base, pair.new), strict=True)
        names = [run.name for run, anchors_of_run, record in sides if anchors_of_run.of(record, place(record)) is None]
        if names:
            by_kind[which] = list(dict.fromkeys(names))
    return by_kind
