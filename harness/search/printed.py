"""What searches of a recorded sweep needed, as tables in a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from gravbench.model.record import Record
from gravbench.report.names import count
from gravbench.report.numbers import finite, number
from gravbench.report.section import Column
from gravbench.report.terminal.printing import heading, say, subsection
from gravbench.report.terminal.table import table
from gravbench.search.replay import RARELY, Effort
from gravbench.search.summary import Searched, shared_title, titles

NEVER = "-"
READING = (
    "An outraced case counts as the fraction of its samples that it took; compiling and verifying are not counted. "
    f"median, {100 * RARELY:g} %: enough for that share of the searches ({NEVER}: too many ended without success). "
    "whole: the median cost of a complete search, unless that is its budget."
)


def render_searches(
    searched: Sequence[Searched], console: Console, left_out: int, repeat: int, within: float, threshold: float
) -> None:
    """Print one table per contest: how many measurements each strategy needs."""
    heading(console, "Searches replayed on records")
    if shared := shared_title(searched):
        say(console, shared)
    many = f"{repeat:,} search{'' if repeat == 1 else 'es'} per strategy"
    goal = f"Measurements until one is within {100 * within:g} % of the fastest; {many}."
    say(console, f"{goal} A race has a threshold of {100 * threshold:g} %. {READING}")
    columns: list[Column[Effort]] = [
        Column("strategy", lambda effort: effort.strategy, 0, text=True),
        Column("median", lambda effort: _many(effort.median), 0),
        Column(f"{100 * RARELY:g} %", lambda effort: _many(effort.rarely), 0),
        Column("whole", lambda effort: "" if effort.whole is None else _many(effort.whole), 1),
        Column("not\nfound", lambda effort: f"{effort.missed:,}" if effort.missed else "", 2),
    ]
    for title, contest in zip(titles(searched), searched, strict=True):
        subsection(console, f"{title}: {count(len(contest.board.records), 'case')}")
        console.print(table(console, columns, contest.efforts))
        say(console, f"fastest: {_name(contest.board.fastest)}")
    if left_out:
        say(console, f"not searched: {count(left_out, 'contest')} with fewer cases")


def _many(value: float) -> str:
    return NEVER if finite(value) is None else number(value, 3, zeros=False)


def _name(record: Record) -> str:
    return " ".join(filter(None, [record.variant, record.toolkit, record.configuration]))
