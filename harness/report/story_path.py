"""The path of a ladder: from its first kernel to the fastest, one step after the other, and what branches off."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from gravbench.errors import InputError
from gravbench.model.record import Record
from gravbench.model.runs import latest
from gravbench.model.toolkits import place_of
from gravbench.report.names import Names
from gravbench.report.provenance import Here
from gravbench.report.winning import first_label_of
from gravbench.verdicts import ranking
from gravbench.verdicts.ladder import Ladders, Rung, ladders
from gravbench.verdicts.question import Question, by_time
from gravbench.verdicts.ranking import Conditions, Drift, Parents

ASKED = Question(direct=True)
"""What a step of the path has to be: approximations are ranked by the arena, not by time alone."""


@dataclass(frozen=True, slots=True)
class Step:
    """A point of the picture: the milliseconds of one evaluation, and the gain over the step before it on its way.

    ``before`` is the name of that step, None for the first one. ``over_first`` is the speed-up over the first step of
    the ladder.
    """

    name: str
    variant: str
    milliseconds: float
    before: str | None
    gain: float | None
    over_first: float | None
    record: Record


@dataclass(frozen=True, slots=True)
class Story:
    """What the picture shows: the ``path`` from the first kernel to the fastest, and the branches ``beside`` it.

    ``first_label`` names the speed-ups over the first step.

    ``off_scale`` are kernels much slower than the first, too slow to draw. ``others`` are the fastest direct sums by
    other means at the same n, each with what it stands for: a library for people who write no CUDA, the processor.
    """

    title: str
    first_label: str
    path: tuple[Step, ...]
    beside: tuple[Step, ...]
    off_scale: tuple[Step, ...]
    others: tuple[tuple[str, Rung], ...]
    accurate: Step | None
    drifts: tuple[Drift, ...]
    drifts_of_others: tuple[Drift, ...] = ()


def story(records: list[Record], known: Parents, here: Here) -> Story:
    """Find the path to the fastest kernel of a GPU, or of a CPU in records without one.

    It is the path at the n where most variants were measured, at the largest of these, and in the toolkit in which most
    were. Only what answers ``ASKED`` and computes everything within what is timed counts. The way to a kernel is that
    of its parents, without those that were not measured.

    Raises:
        InputError: no such record is ok.
    """
    cases = latest(records)
    ranked = ladders(cases, known)
    steps_shown = {
        (shared, n): exact
        for shared, by_n in ranked.items()
        for n, rungs in by_n.items()
        if (exact := [rung for rung in rungs if _counts(rung.best, here)])
    }
    if not steps_shown:
        raise InputError("no direct sum is ok: there is no path to draw")
    shared, n = min(steps_shown, key=lambda place: (place[0].cpu, -len(steps_shown[place]), -place[1]))
    exact = steps_shown[shared, n]
    counted = Counter(rung.best.toolkit for rung in exact)
    toolkit = min(counted, key=lambda name: (-counted[name], place_of(name)))
    steps = _steps([rung for rung in exact if rung.best.toolkit == toolkit], known)
    by_record = {id(step.record): step for step in steps.values()}
    path = _way(by_record[id(by_time(step.record for step in steps.values())[0])], steps)
    slowest = 2 * path[0].milliseconds
    rest = [step for step in steps.values() if step not in path]
    shown = {step.name: step for step in (*path, *rest) if step.milliseconds <= slowest or step in path}
    beside = tuple(
        replace(step, before=before)
        for step in rest
        if step.name in shown
        and (before := _nearest(step.before, {name: drawn.before for name, drawn in steps.items()}, shown))
    )
    names = Names(cases)
    others = tuple(_others(exact, toolkit, ranked, shared, n, here))
    elsewhere = [place for _, rung in others if (place := ranking.conditions(rung.best)) != shared]
    drifts = ranking.drifts(records)
    return Story(
        # What is timed is said unless it is the force.
        title=f"{names.title(shared).removesuffix(', timed: force')}, N = {n:,}, {toolkit}",
        first_label=first_label_of(exact, known),
        path=path,
        beside=beside,
        off_scale=tuple(step for step in rest if step.name not in {drawn.name for drawn in beside}),
        others=others,
        accurate=min(rest, key=lambda step: step.record.error_max or 1.0, default=None),
        drifts=tuple(ranking.affecting(drifts, shared)),
        drifts_of_others=tuple(ranking.affecting(drifts, *elsewhere)),
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


def _way(top: Step, steps: dict[str, Step]) -> tuple[Step, ...]:
    way = [top]
    while (before := steps.get(way[-1].before or "")) and before not in way:
        way.append(before)
    return tuple(reversed(way))


def _others(
    exact: Sequence[Rung], toolkit: str, ranked: Ladders, shared: Conditions, n: int, here: Here
) -> list[tuple[str, Rung]]:
    variants = {rung.best.variant for rung in exact if rung.best.toolkit == toolkit}
    peers = [rung for rung in exact if rung.best.variant not in variants]
    on_cpu = [
        rung
        for conditions, by_n in ranked.items()
        if conditions.cpu and not shared.cpu and conditions.task == shared.task
        for rung in by_n.get(n, [])
        if _counts(rung.best, here)
    ]
    groups = [("without CUDA C", peers), (on_cpu[0].best.device or "CPU" if on_cpu else "", on_cpu)]
    best = [(what, rungs, by_time(rung.best for rung in rungs)) for what, rungs in groups if rungs]
    return [(what, next(rung for rung in rungs if rung.best is first)) for what, rungs, (first, *_) in best]
