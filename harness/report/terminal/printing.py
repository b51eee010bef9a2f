"""What every section that a terminal shows is made of: headings, sentences, facts and plain tables.

All is ``Text``, never markup: a bracket in a reason or a name is only a bracket.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Sized
from typing import Any, TypeVar

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gravbench.report.names import count

Key = TypeVar("Key")
Row = TypeVar("Row")

GAP = 2
MOST_ROWS = 500
"""Rows of one section: more than anybody reads in a terminal."""


def heading(console: Console, title: str) -> None:
    """Begin with a title and a line to its right."""
    console.rule(Text(title, style="bold"), align="left", style="dim")


def section(console: Console, title: str, reading: str = "") -> None:
    """Begin a later section likewise, and say how to read it."""
    console.print()
    heading(console, title)
    if reading:
        say(console, reading)


def subsection(console: Console, title: str) -> None:
    """Begin a part of a section."""
    console.print()
    say(console, title, "bold")


def say(console: Console, text: str, style: str = "", indent: int = 0) -> None:
    """Print a sentence; one with an indent keeps it where it wraps."""
    line = Text(text, style=style)
    console.print(Padding(line, (0, 0, 0, indent), expand=False) if indent else line)


def say_all(console: Console, sentences: Iterable[str], style: str = "") -> None:
    """Print one sentence after the other."""
    for sentence in sentences:
        say(console, sentence, style)


def say_lines(console: Console, title: str, lines: Sequence[str]) -> None:
    """Print a part of a section that is a list of sentences; nothing without any."""
    if lines:
        subsection(console, title)
    for line in lines:
        say(console, line, indent=GAP)


def first_rows(tables: Mapping[Key, list[Row]]) -> dict[Key, list[Row]]:
    """Keep the first ``MOST_ROWS`` rows of a section's tables."""
    kept: dict[Key, list[Row]] = {}
    room = MOST_ROWS
    for key, rows in tables.items():
        if room > 0:
            kept[key] = rows[:room]
            room -= len(rows)
    return kept


def say_left_out(console: Console, tables: Mapping[Any, Sized]) -> None:
    """Say how many rows of a section ``first_rows`` leaves out, and where everything is; nothing where it has all."""
    more = sum(map(len, tables.values())) - MOST_ROWS
    if more > 0:
        say(console, f"not shown: {count(more, 'more row')}; gravbench export writes every record")


def add_row(table: Table, *cells: str) -> None:
    """Add a row of text to a table, whose own way takes brackets for markup."""
    table.add_row(*map(Text, cells))


def say_facts(console: Console, facts: Mapping[str, str]) -> None:
    """Print names and what is known of each, those of which nothing is left out."""
    grid = Table.grid(padding=(0, GAP, 0, 0), pad_edge=False)
    for name, fact in facts.items():
        if fact:
            grid.add_row(Text(name, style="dim"), Text(fact))
    console.print(grid)


def bare_table(gap: int) -> Table:
    """Make a table without columns: no frame, a line below the headers, ``gap`` blanks between columns."""
    return Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, gap, 0, 0))


def plain_table(words: Iterable[str], numbers: Iterable[str], last: Iterable[str] = (), gap: int = 1) -> Table:
    """Make a table of columns of words, of numbers and of words again, by their headers."""
    made = bare_table(gap)
    for header in words:
        made.add_column(Text(header), overflow="fold")
    for header in numbers:
        made.add_column(Text(header), justify="right", overflow="fold")
    for header in last:
        made.add_column(Text(header))
    return made
