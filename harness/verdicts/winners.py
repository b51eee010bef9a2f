"""What is fastest at each n within an error, and by how much: the first question that a report answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from gravbench.model.case import Value
from gravbench.model.record import Record
from gravbench.model.runs import latest
from gravbench.model.variant import CPU
from gravbench.verdicts import ranking
from gravbench.verdicts.best import ERROR, Behind, over, task
from gravbench.verdicts.cards import together
from gravbench.verdicts.ranking import Parents, grouped, is_ranked, named, seconds, size
from gravbench.verdicts.ratios import places
from gravbench.verdicts.uncertainty import Uncertainties

LIMITS = (1e-2, ERROR, 1e-4, 1e-6, 1e-10)
"""Errors that a reader may accept, the coarsest first: from trees, over single precision, to double precision."""


@dataclass(frozen=True, slots=True)
class Win:
    """The fastest configuration at one n among those whose error is at most ``limit``.

    ``variants`` counts the variants that were compared. ``next`` is the fastest configuration of any other variant,
    ``root`` that of the first variant of the winner's ladder, by any toolkit; both have the interval of their time over
    the winner's. They are None where there is none.
    """

    n: int
    limit: float
    record: Record
    variants: int
    next: Behind | None
    root: Behind | None

    @property
    def tied(self) -> bool:
        """Whether the interval of the next one's ratio includes 1, so that either of the two may be the faster."""
        return self.next is not None and not (self.next.sure and self.next.interval.low > 1)


@dataclass(frozen=True, slots=True)
class Gain:
    """The fastest configuration of a variant, and that of the variant it is derived from, ``before``.

    The interval of ``before`` is that of its time over the record's.
    """

    record: Record
    before: Behind


@dataclass(frozen=True, slots=True)
class Field:
    """The winners for one device and task: ``wins`` by n, then by error, the coarsest first.

    ``task`` has the names and values that all of its records share; the number type is none of them. ``gains`` are
    those of each step of the ladder at the largest n, in the ladder's order, whatever the errors are.
    """

    device: str
    cpu: bool
    task: Mapping[str, Value]
    wins: list[Win]
    records: int
    gains: list[Gain]

    def within(self, limit: float) -> list[Win]:
        """Return the winners for one limit of the error, by n."""
        return [win for win in self.wins if win.limit == limit]

    def at(self, n: int) -> list[Win]:
        """Return the winners at one n, each once, with the tightest limit that it satisfies."""
        found: dict[int, Win] = {}
        for win in self.wins:
            if win.n == n:
                found[id(win.record)] = win
        return list(found.values())


def error_of(record: Record) -> float | None:
    """Return the error that a limit is compared with: that of 99 % of the bodies, or the largest in older records."""
    error = record.error_p99 if record.error_p99 is not None else record.error_max
    return error if error is not None and math.isfinite(error) else None


def winners(runs: Sequence[Sequence[Record]], parents: Parents, limits: Sequence[float] = LIMITS) -> list[Field]:
    """Find the winners of all records of ``runs``, for each device and task: GPUs first, then those with most records.

    A record that a race stopped takes no part: its speed was not measured in full.
    """
    runs = together(runs)
    place = places(runs)
    known = Uncertainties(runs)
    there = [
        record
        for record in latest(record for run in runs for record in run)
        if is_ranked(record) and not record.outraced and error_of(record) is not None
    ]
    fields = []
    for (device, cpu, _), alike in grouped(there, lambda one: (place(one), one.toolkit == CPU, _task(one))).items():
        wins = [
            win
            for n, same_n in sorted(grouped(alike, size).items())
            for limit in limits
            if (win := _win(n, limit, same_n, parents, known))
        ]
        if wins:
            largest = max(map(size, alike))
            gains = _gains([one for one in alike if size(one) == largest], parents, known)
            fields.append(Field(device, cpu, task(alike[0]), wins, len(alike), gains))
    return sorted(fields, key=lambda field: (field.cpu, -field.records))


def with_wins(fields: Sequence[Field], has: Callable[[Record], bool]) -> list[Field]:
    """Keep the wins and the gains of the records that ``has`` accepts, and the fields where any win is left."""
    kept = [
        replace(
            field,
            wins=[win for win in field.wins if has(win.record)],
            gains=[gain for gain in field.gains if has(gain.record)],
        )
        for field in fields
    ]
    return [field for field in kept if field.wins]


def _task(record: Record) -> tuple[tuple[str, Value], ...]:
    return tuple({**task(record), **record.contents}.items())


def _gains(records: Sequence[Record], parents: Parents, known: Uncertainties) -> list[Gain]:
    first = ranking.fastest(records, lambda record: record.variant)
    steps = [(first[name], first.get(parents.get(name) or "")) for name in ranking.ladder_order(first, parents)]
    return [Gain(record, over(record, before, known)) for record, before in steps if before is not None]


def _win(n: int, limit: float, records: Sequence[Record], parents: Parents, known: Uncertainties) -> Win | None:
    right = [record for record in records if (error_of(record) or 0.0) <= limit]
    if not right:
        return None
    first = min(right, key=seconds)
    others = [record for record in right if record.variant != first.variant]
    root = ranking.root(first.variant, parents)
    # What the first step computes is what everything is measured by, whatever its error is.
    roots = [record for record in records if record.variant == root != first.variant]

    def behind(candidates: Sequence[Record]) -> Behind | None:
        best = min(candidates, key=seconds, default=None)
        return over(first, best, known) if best else None

    return Win(n, limit, first, len({named(record) for record in right}), behind(others), behind(roots))
