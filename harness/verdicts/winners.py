"""What is fastest at each n within an error, and by how much: the first question that a report answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from gravbench.model.case import Value
from gravbench.model.record import Record
from gravbench.verdicts import ranking
from gravbench.verdicts.cards import together
from gravbench.verdicts.ladder import first_step
from gravbench.verdicts.question import ERROR, USUAL, Behind, Question, contests, fastest, fastest_of_each, over
from gravbench.verdicts.ranking import Parents, grouped, named, size
from gravbench.verdicts.uncertainty import Uncertainties

LIMITS = (1e-2, ERROR, 1e-4, 1e-6, 1e-10)
"""Errors that a reader may accept, the coarsest first: from trees, over single precision, to double precision."""


@dataclass(frozen=True, slots=True)
class Win:
    """The fastest configuration at one n that answers the ``question``.

    ``variants`` counts the variants that were compared. ``next`` is the fastest configuration of any other variant,
    ``first`` that of the first step of the winner's ladder, as ``gravbench.verdicts.ladder.first_step`` has it and
    whatever its error is; both have the interval of their time over the winner's. They are None where there is none.
    """

    n: int
    question: Question
    record: Record
    variants: int
    next: Behind | None
    first: Behind | None

    @property
    def tied(self) -> bool:
        """Whether the interval of the next one's ratio includes 1, so that either of the two may be the faster.

        A race has decided that against what it stopped.
        """
        if self.next is None or self.next.record.outraced:
            return False
        return not (self.next.sure and self.next.interval.low > 1)


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
    question: Question
    wins: list[Win]
    records: int
    gains: list[Gain]

    def asked(self) -> list[Win]:
        """Return the winners within the error that was asked for, or within the next coarser one that any is in."""
        limit = min(error for win in self.wins if (error := win.question.error) >= self.question.error)
        return [win for win in self.wins if win.question.error == limit]

    def headline(self) -> Win:
        """Return the win that stands for the field: of those asked for, at the largest n where it beats something."""
        wins = self.asked()
        return next((win for win in reversed(wins) if win.next or win.first), wins[-1])

    def at(self, n: int) -> list[Win]:
        """Return the winners at one n, each once, with the tightest limit that it satisfies."""
        return list({id(win.record): win for win in self.wins if win.n == n}.values())


def winners(runs: Sequence[Sequence[Record]], parents: Parents, question: Question = USUAL) -> list[Field]:
    """Find the winners of all records of ``runs``, for each device and task: GPUs first, then those with most records.

    They are those within the error of the ``question`` and within each of ``LIMITS``. A record that a race stopped
    does not win: its speed was not measured in full. It is the next one where no other variant has a shorter time.
    """
    runs = together(runs)
    known = Uncertainties(runs)
    questions = [replace(question, error=limit) for limit in sorted({*LIMITS, question.error}, reverse=True)]
    fields = []
    for contest in contests(runs):
        there = [record for record in contest.records if not record.outraced]
        wins = [
            win
            for n, same_n in sorted(grouped(contest.records, size).items())
            for limited in questions
            if (win := _win(n, limited, same_n, parents, known))
        ]
        if wins:
            largest = max(map(size, there))
            gains = _gains([record for record in there if size(record) == largest], parents, known)
            fields.append(Field(contest.device, contest.cpu, contest.task, question, wins, len(there), gains))
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


def _gains(records: Sequence[Record], parents: Parents, known: Uncertainties) -> list[Gain]:
    first = fastest_of_each(records, lambda record: record.variant)
    steps = [(first[name], first.get(parents.get(name) or "")) for name in ranking.ladder_order(first, parents)]
    return [Gain(record, over(record, before, known)) for record, before in steps if before is not None]


def _win(n: int, question: Question, records: Sequence[Record], parents: Parents, known: Uncertainties) -> Win | None:
    right = [record for record in records if question.admits(record)]
    best = fastest(record for record in right if not record.outraced)
    if best is None:
        return None
    others = min((record for record in right if record.variant != best.variant), key=ranking.seconds, default=None)
    first = first_step(best, [record for record in records if not record.outraced], parents)
    return Win(
        n,
        question,
        best,
        variants=len({named(record) for record in right if not record.outraced}),
        next=over(best, others, known) if others else None,
        first=over(best, first, known) if first and first.variant != best.variant else None,
    )
