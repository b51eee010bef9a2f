"""A table that fits the console: as many columns as there is room for, the least wanted dropped first.

No number is ever cut: columns of words give way, by wrapping, before one that counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gravbench.report.section import Column
from gravbench.report.terminal.printing import GAP, bare_table

LAST_WANTED = 8
"""Columns move closer together before one of this rank or a lower one is dropped."""

_Row = TypeVar("_Row")


class _Filled(Generic[_Row]):
    """A column's cells as text, and the widths it would like and cannot go below."""

    def __init__(self, column: Column[_Row], rows: Sequence[_Row]) -> None:
        self.column = column
        self.cells = [column.cell(row) for row in rows]
        self.natural = max(map(cell_len, [*column.header.split("\n"), *self.cells]))
        words = " ".join([column.header, *self.cells]).split()
        self.least = max(map(cell_len, words)) if column.breaks else self.natural


def table(console: Console, columns: Sequence[Column[_Row]], rows: Sequence[_Row]) -> Table:
    """Lay ``rows`` out in as many of the columns as the console has room for; the empty ones are left out."""
    return fitted(console, columns, rows)[0]


def fitted(console: Console, columns: Sequence[Column[_Row]], rows: Sequence[_Row]) -> tuple[Table, list[str]]:
    """Lay them out likewise, and name the columns that the console has no room for."""
    useful, shown, gap = _chosen(console, columns, rows)
    lines = max(filled.column.header.count("\n") for filled in shown)
    made = bare_table(gap - 1)
    for filled, width in zip(shown, _widths(shown, console.width, gap), strict=True):
        column = filled.column
        header = "\n" * (lines - column.header.count("\n")) + column.header
        made.add_column(Text(header), justify="left" if column.text else "right", width=width, overflow="fold")
    for cells in zip(*(filled.cells for filled in shown), strict=True):
        made.add_row(*(Text(cell, filled.column.style_of(cell)) for filled, cell in zip(shown, cells, strict=True)))
    return made, [filled.column.name for filled in useful if filled not in shown]


def _chosen(
    console: Console, columns: Sequence[Column[_Row]], rows: Sequence[_Row]
) -> tuple[list[_Filled[_Row]], list[_Filled[_Row]], int]:
    """Return the columns that hold anything, those of them that are shown, and the gap between them."""
    filled = [_Filled(column, rows) for column in columns]
    useful = [
        candidate
        for candidate in filled
        if any(candidate.cells) or (candidate.column.header and candidate.column.rank == 0)
    ]
    gap = GAP
    shown = _fitting(useful, console.width, gap)
    if any(candidate.column.rank <= LAST_WANTED and candidate not in shown for candidate in useful):
        gap = 1
        shown = _fitting(useful, console.width, gap)
    return useful, shown, gap


def _fitting(columns: list[_Filled[_Row]], width: int, gap: int) -> list[_Filled[_Row]]:
    """Drop the columns of the highest rank until the least widths fit."""
    shown = list(columns)
    while sum(column.least + gap for column in shown) - gap > width:
        droppable = max(shown, key=lambda column: column.column.rank)
        if droppable.column.rank == 0:
            break
        shown.remove(droppable)
    return shown


def _widths(columns: list[_Filled[_Row]], width: int, gap: int) -> list[int]:
    """Take what is missing from the columns of words, the widest first, so that no number is ever cut."""
    widths = [column.natural for column in columns]
    excess = sum(widths) + gap * (len(widths) - 1) - width
    words = sorted((i for i, column in enumerate(columns) if column.column.text), key=lambda i: -widths[i])
    for within_words in (False, True):
        for i in words:
            taken = max(0, min(excess, widths[i] - (1 if within_words else columns[i].least)))
            widths[i] -= taken
            excess -= taken
    return widths
