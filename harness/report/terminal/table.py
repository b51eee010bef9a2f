"""A table that fits the console: as many columns as there is room for, the least wanted dropped first.

No number is ever cut: columns of words give way, by wrapping, before one that counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gravbench.report.names import escaped
from gravbench.report.terminal.printing import GAP, bare_table

LAST_WANTED = 8
"""Columns move closer together before one of this rank or a lower one is dropped."""

_Row = TypeVar("_Row")


@dataclass(frozen=True, slots=True)
class Column(Generic[_Row]):
    """One column; the higher ``rank``, the sooner it gives way in a narrow terminal, and 0 never does.

    ``text`` stands to the left; one that ``breaks`` may be as narrow as its longest word. ``markdown`` is its header
    in Markdown, where that is another. ``style`` is how the terminal shows its cells, or says it of each; what a style
    says, the words of the cell say too.
    """

    header: str
    cell: Callable[[_Row], str]
    rank: int = 0
    text: bool = False
    breaks: bool = False
    markdown: str = ""
    style: str | Callable[[str], str] = ""

    def style_of(self, cell: str) -> str:
        """Return how the terminal shows a cell."""
        return self.style(cell) if callable(self.style) else self.style


class _Filled(Generic[_Row]):
    """A column's cells as text, and the widths it would like and cannot go below."""

    def __init__(self, column: Column[_Row], rows: Sequence[_Row]) -> None:
        self.column = column
        self.cells = [column.cell(row) for row in rows]
        self.natural = max(map(cell_len, [*column.header.split("\n"), *self.cells]))
        self.broken = any("\n" in cell or "\t" in cell for cell in self.cells)
        words = " ".join([column.header, *self.cells]).split()
        self.least = max(map(cell_len, words)) if column.breaks else self.natural


def table(console: Console, columns: Sequence[Column[_Row]], rows: Sequence[_Row]) -> Table | Text:
    """Lay ``rows`` out in as many of the columns as the console has room for; the empty ones are left out.

    Where every cell fits its column, this is the text that the table would be: laying it out anew takes Rich long.
    """
    _, shown, gap = _chosen(console, columns, rows)
    lines = max(one.column.header.count("\n") for one in shown)
    headers = ["\n" * (lines - one.column.header.count("\n")) + one.column.header for one in shown]
    widths = _widths(shown, console.width, gap)
    whole = sum(widths) + gap * (len(widths) - 1)
    simple = all(one.natural <= width and not one.broken for one, width in zip(shown, widths, strict=True))
    if simple and whole <= console.width and not console.options.ascii_only:
        return _text(shown, headers, widths, gap)
    made = bare_table(gap - 1)
    for one, header, width in zip(shown, headers, widths, strict=True):
        made.add_column(Text(header), justify="left" if one.column.text else "right", width=width, overflow="fold")
    for cells in zip(*(one.cells for one in shown), strict=True):
        made.add_row(*(Text(cell, one.column.style_of(cell)) for one, cell in zip(shown, cells, strict=True)))
    return made


def left_out(console: Console, columns: Sequence[Column[_Row]], rows: Sequence[_Row]) -> list[str]:
    """Name the columns of a table that the console has no room for."""
    useful, shown, _ = _chosen(console, columns, rows)
    headers = [one.column.header for one in useful if one not in shown]
    return [header.replace("-\n", "").replace("\n", " ") for header in headers]


def _chosen(
    console: Console, columns: Sequence[Column[_Row]], rows: Sequence[_Row]
) -> tuple[list[_Filled[_Row]], list[_Filled[_Row]], int]:
    """Return the columns that hold anything, those of them that are shown, and the gap between them."""
    filled = [_Filled(column, rows) for column in columns]
    useful = [one for one in filled if any(one.cells) or (one.column.header and one.column.rank == 0)]
    gap = GAP
    shown = _fitting(useful, console.width, gap)
    if any(one.column.rank <= LAST_WANTED and one not in shown for one in useful):
        gap = 1
        shown = _fitting(useful, console.width, gap)
    return useful, shown, gap


def _text(columns: Sequence[_Filled[_Row]], headers: Sequence[str], widths: Sequence[int], gap: int) -> Text:
    """Write the table that Rich would make, line by line."""
    places = [
        [_padded(cell, width, left=one.column.text) for cell in [*header.split("\n"), *one.cells]]
        for one, header, width in zip(columns, headers, widths, strict=True)
    ]
    lines = [(" " * gap).join(cells) for cells in zip(*places, strict=True)]
    above = headers[0].count("\n") + 1
    rule = "─" * (sum(widths) + gap * (len(widths) - 1))
    made = Text("\n".join(lines[:above]), "table.header", no_wrap=True, overflow="ignore")
    body = Text("\n".join([rule, *lines[above:]]))
    # Styles are put over the text as spans: to join styled cells takes Rich long.
    for place, one in enumerate(columns):
        start = len(rule) + 1
        for row, cell in enumerate(one.cells, above):
            if style := one.column.style_of(cell):
                before = start + sum(len(cells[row]) + gap for cells in places[:place])
                body.stylize(style, before, before + len(places[place][row]))
            start += len(lines[row]) + 1
    return Text("\n", no_wrap=True, overflow="ignore").join([made, body])


def _padded(cell: str, width: int, *, left: bool) -> str:
    blanks = " " * (width - cell_len(cell))
    return cell + blanks if left else blanks + cell


def markdown_table(columns: Sequence[Column[_Row]], rows: Sequence[_Row]) -> list[str]:
    """Return the lines of a table in Markdown, the cells escaped; empty columns of a rank above 0 are left out."""
    shown = [column for column in columns if column.rank == 0 or any(map(column.cell, rows))]
    lines = [
        [column.markdown or column.header for column in shown],
        ["---" if column.text else "---:" for column in shown],
        *([escaped(column.cell(row)) for column in shown] for row in rows),
    ]
    return [f"| {' | '.join(cells)} |" for cells in lines]


def _fitting(columns: list[_Filled[_Row]], width: int, gap: int) -> list[_Filled[_Row]]:
    """Drop the columns of the highest rank until the least widths fit."""
    shown = list(columns)
    while sum(one.least + gap for one in shown) - gap > width:
        droppable = max(shown, key=lambda one: one.column.rank)
        if droppable.column.rank == 0:
            break
        shown.remove(droppable)
    return shown


def _widths(columns: list[_Filled[_Row]], width: int, gap: int) -> list[int]:
    """Take what is missing from the columns of words, the widest first, so that no number is ever cut."""
    widths = [one.natural for one in columns]
    excess = sum(widths) + gap * (len(widths) - 1) - width
    words = sorted((i for i, one in enumerate(columns) if one.column.text), key=lambda i: -widths[i])
    for within_words in (False, True):
        for i in words:
            taken = max(0, min(excess, widths[i] - (1 if within_words else columns[i].least)))
            widths[i] -= taken
            excess -= taken
    return widths
