"""Sections of a report in a terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console

from gravbench.report.names import count
from gravbench.report.section import Part, Section
from gravbench.report.terminal.printing import GAP, heading, say, say_all, say_facts, subsection
from gravbench.report.terminal.table import fitted

MOST_ROWS = 500
"""Rows of one section: more than anybody reads in a terminal."""


def render_sections(sections: Iterable[Section], console: Console) -> None:
    """Print sections one after another."""
    for place, section in enumerate(sections):
        if place:
            console.print()
        render_section(section, console)


def render_section(section: Section, console: Console) -> None:
    """Print a section: of many rows the first, and then how many there are more."""
    heading(console, section.title)
    if section.introduction:
        say(console, section.introduction)
    room, hidden = MOST_ROWS, dict[str, None]()
    for place, part in enumerate(section.parts):
        if place and not part.title:
            console.print()
        rows = part.table.rows if part.table else part.lines
        if not rows or room > 0:
            hidden |= dict.fromkeys(render_part(part, console, room))
        room -= len(rows)
    if section.notes:
        console.print()
        say_all(console, section.notes, "yellow")
    if room < 0:
        say(console, f"not shown: {count(-room, 'more row')}; gravbench export writes every record")
    if hidden:
        console.print()
        say(console, f"Widen the terminal to show more columns: {', '.join(hidden)}.", "dim")


def render_part(part: Part, console: Console, most_rows: int = MOST_ROWS) -> list[str]:
    """Print a part; return the columns that the console has no room for."""
    hidden: list[str] = []
    if part.title:
        subsection(console, part.title)
    if part.facts:
        say_facts(console, part.facts)
    say_all(console, part.introduction)
    if part.table:
        columns, rows = part.table.columns, part.table.rows[:most_rows]
        made, hidden = fitted(console, columns, rows)
        console.print(made)
    for line in part.lines if part.table else part.lines[:most_rows]:
        say(console, line, part.style(line), indent=GAP * bool(part.title and not part.table))
    say_all(console, part.notes, "yellow")
    return hidden
