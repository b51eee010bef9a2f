"""Sections of a report in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from gravbench.report.section import Column, Part, Section, Table

Row = TypeVar("Row")


def markdown(sections: Iterable[Section], *, titles: bool = True) -> str:
    """Return sections as Markdown; without ``titles`` they have no headings."""
    return "\n".join(line for section in sections for line in _section(section, titles=titles))


def markdown_table(columns: Sequence[Column[Row]], rows: Sequence[Row]) -> list[str]:
    """Return the lines of a table in Markdown, the cells escaped; empty columns of a rank above 0 are left out."""
    shown = Table(columns, rows).useful
    lines = [
        [column.name for column in shown],
        ["---" if column.text else "---:" for column in shown],
        *([_cell(column, column.cell(row)) for column in shown] for row in rows),
    ]
    return [f"| {' | '.join(cells)} |" for cells in lines]


def escaped(text: str) -> str:
    """Write text for a cell of a Markdown table."""
    return " ".join(text.replace("|", "\\|").split())


def _section(section: Section, *, titles: bool) -> Iterator[str]:
    yield from (f"## {escaped(section.title)}", "") if titles else ()
    yield from (escaped(section.introduction), "") if section.introduction else ()
    for part in section.parts:
        yield from _part(part)
    for note in section.notes:
        yield from (_note(note), "")


def _part(part: Part) -> Iterator[str]:
    yield from (f"**{escaped(part.title)}**", "") if part.title else ()
    for sentence in part.introduction:
        yield from (escaped(sentence), "")
    yield from (f"- {name}: {escaped(fact)}" for name, fact in part.facts.items() if fact)
    if part.table:
        yield from (*markdown_table(part.table.columns, part.table.rows), "")
    yield from (f"- {escaped(line)}" for line in part.lines)
    yield from [""] * bool(part.lines or part.facts)
    for note in part.notes:
        yield from (_note(note), "")


def _note(note: str) -> str:
    """Write the sign with which a note begins as code: a tilde may begin strikethrough."""
    sign, _, rest = note.partition(" ")
    return f"`{sign}` {escaped(rest)}" if len(sign) == 1 and not sign.isalnum() else escaped(note)


def _cell(column: Column[Row], cell: str) -> str:
    return f"`{cell}`" if cell and not column.header else escaped(cell)
