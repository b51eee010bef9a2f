"""A section of a report as data: built once from records, and shown in a terminal, in Markdown, on a page, as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """One column; the higher ``rank``, the sooner it gives way in a narrow terminal, and 0 never does.

    ``text`` stands to the left; one that ``breaks`` may be as narrow as its longest word. ``style`` is how the terminal
    shows its cells, or says it of each; what a style says, the words of the cell say too. ``hint`` is what pointing at
    a cell on a page shows.
    """

    header: str
    cell: Callable[[Row], str]
    rank: int = 0
    text: bool = False
    breaks: bool = False
    style: str | Callable[[str], str] = ""
    hint: Callable[[Row], str] | None = None

    @property
    def name(self) -> str:
        """The header in one line."""
        return self.header.replace("-\n", "").replace("/\n", "/").replace("\n", " ")

    def style_of(self, cell: str) -> str:
        """Return how the terminal shows a cell."""
        return self.style(cell) if callable(self.style) else self.style


@dataclass(frozen=True, slots=True)
class Table(Generic[Row]):
    """Rows under columns, of which those that hold nothing are left out."""

    columns: Sequence[Column[Row]]
    rows: Sequence[Row]

    @property
    def useful(self) -> list[Column[Row]]:
        """The columns with a cell, and those of rank 0 that have a header."""
        return [
            column
            for column in self.columns
            if (column.header and column.rank == 0) or any(column.cell(row) for row in self.rows)
        ]


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a section: sentences, a table, and below it further ``lines`` and ``notes``, which warn.

    ``facts`` are names with what is known of each. ``style`` is how a terminal shows a line.
    """

    title: str = ""
    introduction: Sequence[str] = ()
    table: Table[Any] | None = None
    lines: Sequence[str] = ()
    notes: Sequence[str] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    style: Callable[[str], str] = lambda _: ""


@dataclass(frozen=True, slots=True)
class Section:
    """A section: its ``name`` for programs, its title, how to read it, its parts, and notes on all of them."""

    name: str
    title: str
    introduction: str = ""
    parts: Sequence[Part] = ()
    notes: Sequence[str] = ()
