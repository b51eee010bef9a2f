"""The first screen of a page: what is fastest at each n and error, and by how much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from gravbench.report import winning
from gravbench.report.names import drift_notes, drift_signs, seed_notes
from gravbench.report.page.colours import Palette
from gravbench.report.sections.content import Content
from gravbench.verdicts import ranking
from gravbench.verdicts.winners import Field, Win

MOST_ROWS = 10
"""Values of n of one table."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A winner, None where there is none, in so many columns; ``limit`` is that of the last, the closest it is within.

    ``colour`` is that of its variant, empty where none is.
    """

    limit: str
    span: int
    win: Win | None
    colour: str


@dataclass(frozen=True, slots=True)
class Answer:
    """A table of winners for one device and task: a row for each n, a column for each limit of the error.

    ``bodies`` says for which of the bodies the limits are, ``notes`` what its times presuppose, and how far the anchors
    of its device drifted.
    """

    device: str
    title: str
    sentence: str
    limits: list[str]
    rows: list[tuple[str, list[Cell]]]
    bodies: str
    notes: list[str]


def answers(content: Content, colours: Palette) -> list[Answer]:
    """Make a table for each device and task, in the order of the devices."""
    by_device = ranking.grouped(content.fields, lambda field: field.device)
    return [_answer(field, colours, content) for fields in by_device.values() for field in fields]


def _answer(field: Field, colours: Palette, content: Content) -> Answer:
    here = content.here
    by_place = {(win.n, win.question.error): win for win in field.wins}
    sizes = sorted({win.n for win in field.wins})
    powers = [n for n in sizes if n & (n - 1) == 0]
    sizes = powers if len(powers) > 2 else sizes
    sizes = winning.spread(sizes, MOST_ROWS)
    limits = sorted({limit for n, limit in by_place if n in sizes}, reverse=True)
    # A limit whose winners are those of the next closer one says nothing new.
    shown_limits = [
        limit
        for limit, closer in zip(limits, [*limits[1:], None], strict=True)
        if closer is None or any(_record(by_place, n, limit) != _record(by_place, n, closer) for n in sizes)
    ]
    rows = [(f"{n:,}", _cells([(limit, by_place.get((n, limit))) for limit in shown_limits], colours)) for n in sizes]
    shown_wins = [win for win in field.wins if win.n in sizes and win.question.error in shown_limits]
    shown = [win.record for win in shown_wins]
    drifted = content.drifted(shown, *map(ranking.conditions, shown))
    beaten = [win.next.record for win in shown_wins if win.next]
    notes = [
        winning.presupposed([*shown, *beaten], here),
        *here.notes({id(record): record for record in shown}.values(), "winner"),
        *seed_notes(shown),
        *winning.quantile_notes(shown, field.question.quantile),
        *winning.narrow_notes(behind for win in shown_wins for behind in (win.next, win.first)),
        *drift_notes(drifted),
    ]
    return Answer(
        field.device,
        winning.title(field) + drift_signs(drifted),
        winning.sentence(field.headline()),
        list(map(winning.limit_words, shown_limits)),
        rows,
        winning.bodies_words(field.question.quantile),
        list(filter(None, notes)),
    )


def _record(by_place: dict[tuple[int, float], Win], n: int, limit: float) -> int | None:
    win = by_place.get((n, limit))
    return id(win.record) if win else None


def _cells(wins: Sequence[tuple[float, Win | None]], colours: Palette) -> list[Cell]:
    """Make one cell of neighbours that have the same winner and the same next one."""
    made = []
    for _, alike in groupby(wins, key=lambda neighbours: _same(neighbours[1])):
        neighbours = list(alike)
        limit, win = neighbours[-1]
        colour = colours.get(win.record.variant, "") if win else ""
        made.append(Cell(winning.limit_words(limit), len(neighbours), win, colour))
    return made


def _same(win: Win | None) -> tuple[int, int] | None:
    return (id(win.record), id(win.next.record) if win.next else 0) if win else None
