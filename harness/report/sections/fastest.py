"""What is fastest at each n, and by how much: the first question that a report answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gravbench.report import winning
from gravbench.report.names import SLOWEST_SEED, drift_notes, drift_signs, seed_notes, slowest_seed
from gravbench.report.numbers import number, times
from gravbench.report.provenance import Here, sign_notes, signs
from gravbench.report.section import Column, Part, Section, Table
from gravbench.report.sections.content import Content
from gravbench.verdicts import ranking
from gravbench.verdicts.winners import Field, Win

NOTHING = "No case is ok, so there is nothing to rank."
NONE_OF_THESE = "None of the cases shown is the fastest of its run."
UNCLEAR = "yellow"
"""How a terminal shows a speed-up that is UNCLEAR."""


def fastest(content: Content) -> Section:
    """Show what is fastest at each n within the error that is asked for, for each device and task."""
    parts = [fastest_part(field, content) for field in content.fields]
    last = {note: place for place, part in enumerate(parts) for note in part.notes}
    # Each note once, below the last table that it is about.
    parts = [
        replace(part, notes=[note for note in part.notes if last[note] == place]) for place, part in enumerate(parts)
    ]
    return Section("fastest", "What is fastest", "" if parts else nothing(content), parts)


def nothing(content: Content) -> str:
    """Say why nothing is the fastest: no case is ok, or only others, which are not shown, are."""
    return NONE_OF_THESE if content.ladders else NOTHING


def fastest_part(field: Field, content: Content) -> Part:
    """Show it for one device and task, with what is fastest at the largest n within other errors."""
    wins, here = field.asked(), content.here
    question, largest = wins[-1].question, wins[-1]
    others = [
        f"within {winning.limit_words(win.question.error)}: {winning.name_of(win.record)}, {_ms(win)} ms"
        for win in field.at(largest.n)
        if win.record is not largest.record
    ]
    records = [win.record for win in wins]
    drifted = content.drifted(records, *map(ranking.conditions, records))
    lines = [f"n = {largest.n:,}, {winning.bodies_words(question.quantile)} {'; '.join(others)}"] * bool(others)
    lines += winning.quantile_notes(records, question.quantile)
    presupposed = winning.presupposed(beside.record for win in wins for beside in (win, win.next) if beside)
    return Part(
        f"Fastest at each n, {winning.within_words(question)}: {winning.title(field)}{drift_signs(drifted)}",
        [f"Nothing has {winning.within_words(field.question)}."] * (question != field.question),
        Table(_columns(here, wins), wins),
        lines + [presupposed] * bool(presupposed),
        [
            *winning.narrow_notes(behind for win in wins for behind in (win.next, win.first)),
            *sign_notes(records),
            *seed_notes(records),
            *here.notes(records),
            *drift_notes(drifted),
        ],
    )


def _columns(here: Here, wins: Sequence[Win]) -> list[Column[Win]]:
    first = winning.first_label(win.first.record.variant for win in wins if win.first)
    return [
        Column("n", lambda win: f"{win.n:,}", 0),
        Column("fastest", lambda win: ranking.named(win.record), 0, text=True, style="bold"),
        Column("", lambda win: signs(win.record) + here.sign(win.record), 0, text=True),
        Column("toolkit", lambda win: win.record.toolkit, 3, text=True),
        Column("ms", _ms, 0),
        Column(SLOWEST_SEED, lambda win: slowest_seed(win.record, DIGITS), 1),
        Column("1e9 inter-\nactions/s", lambda win: number(times(ranking.speed(win.record), 1e-9)), 6),
        Column(f"{winning.quantile_words(wins[0].question.quantile)}\nerror", winning.error_words, 4),
        Column("speed-up over\nrunner-up", winning.lead_words, 1, style=_verdict),
        Column("runner-up", lambda win: ranking.named(win.next.record) if win.next else "", 2, text=True),
        Column(first.replace(" ", "\n", 1), lambda win: winning.ratio_words(win.first) if win.first else "", 5),
        Column("configuration", lambda win: win.record.configuration, 9, text=True),
    ]


DIGITS = 3
"""Of the times of a summary."""


def _ms(win: Win) -> str:
    return number(1e3 * ranking.seconds(win.record), DIGITS)


def _verdict(cell: str) -> str:
    return UNCLEAR if cell.endswith("UNCLEAR") else ""
