"""The path of a ladder: from its first kernel to the fastest, one step after the other, and what branches off."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from gravbench.errors import InputError
from gravbench.model.record import LARGEST, Record
from gravbench.model.runs import latest
from gravbench.model.toolkits import place_of
from gravbench.report.names import Names
from gravbench.report.numbers import relative_error
from gravbench.report.provenance import Here
from gravbench.report.winning import first_label_of
from gravbench.verdicts import ranking
from gravbench.verdicts.ladder import Ladders, Rung, ladders
from gravbench.verdicts.question import Question, by_time, error_of, fastest
from gravbench.verdicts.ranking import Conditions, Drift, Parents
from gravbench.verdicts.uncertainty import Uncertainties

MOST_ROWS = 10

ASKED = Question(direct=True)
"""What a step of the path has to be: approximations are ranked by the arena, not by time alone."""


@dataclass(frozen=True, slots=True)
class Step:
    """A point of the picture: the milliseconds of one evaluation, and the gain over the step before it on its way.

    ``before`` is the name of that step, None for the first one. ``over_first`` is the speed-up over the first step of
    the ladder. ``at_defaults`` is the record at the defaults of the variant's axes, where ``record`` has others, and
    ``at_second`` the fastest one at the story's second n.
    """

    name: str
    variant: str
    milliseconds: float
    before: str | None
    gain: float | None
    over_first: float | None
    record: Record
    at_defaults: Record | None = None
    at_second: Record | None = None

    @property
    def records(self) -> list[Record]:
        """All records whose times the step states."""
        return [record for record in (self.record, self.at_defaults, self.at_second) if record]


@dataclass(frozen=True, slots=True)
class Story:
    """What the picture shows: the ``path`` from the first kernel to the fastest, and the branches ``beside`` it.

    The path leads to the fastest kernel whose largest error is no larger than the first one's. ``faster`` are kernels
    with larger errors, the fastest last; the gain of each is over the row above it. ``first_label`` names the speed-ups
    over the first step. ``n`` is that of the path, and ``second`` the other n that has times, None where there is none.

    ``off_scale`` are kernels much slower than the first, too slow to draw. ``others`` are the fastest direct sums by
    other means at the same n, each with what it stands for: a library for people who write no CUDA, the processor.
    ``known`` are the uncertainties of the records.
    """

    title: str
    first_label: str
    n: int
    second: int | None
    path: tuple[Step, ...]
    faster: tuple[Step, ...]
    beside: tuple[Step, ...]
    off_scale: tuple[Step, ...]
    others: tuple[tuple[str, Step], ...]
    known: Uncertainties
    drifts: tuple[Drift, ...]
    drifts_of_others: tuple[Drift, ...] = ()

    @property
    def drawn(self) -> tuple[Step, ...]:
        """The rows of the picture, which are also the first rows of the table."""
        return self.path + self.faster

    def change(self, step: Step, changes: Mapping[str, str]) -> str:
        """Say what a step changes; ``changes`` says it of each variant."""
        if step in self.drawn:
            above = self.drawn[: self.drawn.index(step)]
            if above and above[-1].variant == step.variant:
                return f"{step.variant} again, with {step.name.partition(' ')[2]}."
        return changes.get(step.variant, "")


def story(records: list[Record], known: Parents, here: Here) -> Story:
    """Find the path to the fastest kernel of a GPU, or of a CPU in records without one.

    It is the path at the n where most variants were measured, at the largest of these, and in the toolkit in which most
    were. Only what answers ``ASKED`` and computes everything within what is timed counts. The way to a kernel is that
    of its parents, without those that were not measured.

    Raises:
        InputError: no such record is ok.
    """
    cases = [record for record in latest(records) if ranking.is_ranked(record) and _counts(record, here)]
    ranked = ladders(cases, known)
    shared, n = _place(ranked)
    exact = ranked[shared][n]
    counted = Counter(rung.best.toolkit for rung in exact)
    toolkit = min(counted, key=lambda name: (-counted[name], place_of(name)))
    steps = _steps([rung for rung in exact if rung.best.toolkit == toolkit], known)
    first = _fastest_way(steps)[0].record
    as_accurate = ladders((record for record in cases if record.n == n and no_less_accurate(record, first)), known)
    within = _steps([rung for rung in as_accurate[shared][n] if rung.best.toolkit == toolkit], known)
    path = _fastest_way(within)
    others = _others(ranked, shared, n, toolkit, path[0])
    faster = _faster(path, steps, MOST_ROWS - len(path) - len(others))
    beside, off_scale = _branches((*path, *faster), {**steps, **within})
    rows = (*path, *faster, *(step for _, step in others))
    second = _second_size(rows, cases)
    drifts = ranking.drifts(records)
    elsewhere = [place for _, step in others if (place := ranking.conditions(step.record)) != shared]

    def complete(step: Step) -> Step:
        return _with_other_times(step, second, cases, here)

    return Story(
        # What is timed is said unless it is the force.
        title=f"{Names(cases).title(shared).removesuffix(', timed: force')}, N = {n:,}, {toolkit}",
        first_label=first_label_of(exact, known),
        n=n,
        second=second,
        path=tuple(map(complete, path)),
        faster=tuple(map(complete, faster)),
        beside=beside,
        off_scale=off_scale,
        others=tuple((what, complete(step)) for what, step in others),
        known=Uncertainties([records]),
        drifts=tuple(ranking.affecting(drifts, shared)),
        drifts_of_others=tuple(ranking.affecting(drifts, *elsewhere)),
    )


def no_less_accurate(record: Record, first: Record) -> bool:
    """Tell whether a record has no larger largest error than the first step, in the two digits that are printed."""
    error, limit = (float(relative_error(error_of(candidate, LARGEST))) for candidate in (record, first))
    return error <= limit


def _place(ranked: Ladders) -> tuple[Conditions, int]:
    """Return the conditions and the n of the path."""
    places = [(shared, n) for shared, by_n in ranked.items() for n in by_n]
    if not places:
        raise InputError("no direct sum is ok: there is no path to draw")
    return min(places, key=lambda place: (place[0].cpu, -len(ranked[place[0]][place[1]]), -place[1]))


def _faster(path: Sequence[Step], steps: dict[str, Step], most: int) -> list[Step]:
    """Return the steps that are faster than the path's last one, with larger errors: at most so many, fastest last."""
    last = path[-1]
    beyond = [
        step
        for step in steps.values()
        if step.milliseconds < last.milliseconds and not no_less_accurate(step.record, path[0].record)
    ]
    rows = sorted(beyond, key=lambda step: step.milliseconds)[: max(most, 0)][::-1]
    return [
        replace(step, before=above.name, gain=above.milliseconds / step.milliseconds)
        for above, step in pairwise([last, *rows])
    ]


def _branches(drawn: Sequence[Step], steps: dict[str, Step]) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    """Return the steps that branch off what is drawn, and those that are too slow, or behind one that is."""
    slowest = 2 * drawn[0].milliseconds
    drawn_names = {step.name for step in drawn}
    rest = [step for name, step in steps.items() if name not in drawn_names]
    shown = drawn_names | {step.name for step in rest if step.milliseconds <= slowest}
    above = {name: step.before for name, step in steps.items()}
    beside = tuple(
        replace(step, before=before)
        for step in rest
        if step.name in shown and (before := _nearest(step.before, above, shown))
    )
    beside_names = {step.name for step in beside}
    return beside, tuple(step for step in rest if step.name not in beside_names)


def _second_size(rows: Sequence[Step], cases: Sequence[Record]) -> int | None:
    """Return the largest n beside that of the rows which most of them have; None where there is none."""
    counted = Counter(n for step in rows for n in {record.n for record in _alike(step.record, cases)})
    return max((n for n, times in counted.items() if n != rows[0].record.n and 2 * times > len(rows)), default=None)


def _alike(record: Record, cases: Sequence[Record]) -> list[Record]:
    """Return the cases of a record's variant in its toolkit and under its conditions, at any n."""
    which = record.variant, record.toolkit, ranking.conditions(record)
    return [
        other
        for other in cases
        if (other.variant, other.toolkit) == which[:2] and ranking.conditions(other) == which[2]
    ]


def _with_other_times(step: Step, second: int | None, cases: Sequence[Record], here: Here) -> Step:
    """Add the record at the defaults, and the fastest one at the second n with the name of the step."""
    record, alike = step.record, _alike(step.record, cases)
    at_defaults = [other for other in alike if other.n == record.n and not here.changed(other)]
    at_second = [other for other in alike if other.n == second and ranking.named(other) == ranking.named(record)]
    return replace(
        step,
        at_defaults=fastest(at_defaults) if here.changed(record) else None,
        at_second=fastest(at_second),
    )


def _counts(record: Record, here: Here) -> bool:
    return ASKED.admits(record) and not here.untimed(record)


def _steps(rungs: Sequence[Rung], known: Parents) -> dict[str, Step]:
    records = [rung.best for rung in rungs]
    times = {ranking.named(record): 1e3 * ranking.seconds(record) for record in records}
    # What stands for a variant: itself, or the fastest of its names where each of them says more.
    stands: dict[str, str] = {}
    for record in sorted(by_time(records), key=lambda candidate: ranking.named(candidate) != candidate.variant):
        stands.setdefault(record.variant, ranking.named(record))
    steps = {}
    for rung in rungs:
        record = rung.best
        name = ranking.named(record)
        # What presupposes more, such as equal masses, is a step behind the variant itself.
        again = name != record.variant and record.variant in times
        parent = record.variant if again else _nearest(known.get(record.variant), known, stands)
        before = stands[parent] if parent else None
        gain = times[before] / times[name] if before else None
        steps[name] = Step(name, record.variant, times[name], before, gain, rung.over_first, record)
    return steps


def _nearest(name: str | None, above: Parents, wanted: Collection[str]) -> str | None:
    """Climb from a name to the first that is wanted; None where there is none, or the way runs in a circle."""
    seen = set()
    while name is not None and name not in wanted and name not in seen:
        seen.add(name)
        name = above.get(name)
    return name if name in wanted else None


def _fastest_way(steps: dict[str, Step]) -> tuple[Step, ...]:
    """Return the way to the fastest step, from the first one."""
    by_record = {id(step.record): step for step in steps.values()}
    way = [by_record[id(by_time(step.record for step in steps.values())[0])]]
    while (before := steps.get(way[-1].before or "")) and before not in way:
        way.append(before)
    return tuple(reversed(way))


def _others(ranked: Ladders, shared: Conditions, n: int, toolkit: str, first: Step) -> list[tuple[str, Step]]:
    exact = ranked[shared][n]
    variants = {rung.best.variant for rung in exact if rung.best.toolkit == toolkit}
    peers = [rung for rung in exact if rung.best.variant not in variants]
    on_cpu = [
        rung
        for conditions, by_n in ranked.items()
        if conditions.cpu and not shared.cpu and conditions.task == shared.task
        for rung in by_n.get(n, [])
    ]
    groups = [("without CUDA C", peers), (on_cpu[0].best.device or "CPU" if on_cpu else "", on_cpu)]
    return [(what, _fastest_step(rungs, shared, first)) for what, rungs in groups if rungs]


def _fastest_step(rungs: Sequence[Rung], shared: Conditions, first: Step) -> Step:
    """Return the fastest of these rungs; another device has a first step of its own, so it is set beside ``first``."""
    best = by_time(rung.best for rung in rungs)[0]
    (rung,) = (rung for rung in rungs if rung.best is best)
    milliseconds = 1e3 * ranking.seconds(best)
    same = ranking.conditions(best) == shared
    over_first = rung.over_first if same else first.milliseconds / milliseconds
    return Step(ranking.named(best), best.variant, milliseconds, None, None, over_first, best)
