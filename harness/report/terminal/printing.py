"""What every section that a terminal shows is made of: headings, sentences, facts and plain tables.

All is ``Text``, never markup: a bracket in a reason or a name is only a bracket.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

GAP = 2


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
