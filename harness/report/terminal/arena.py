"""The arena as tables: time against error of every method, in a terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from gravbench.model.record import Record
from gravbench.report import arenas
from gravbench.report.names import DRIFTED, Names, drift_notes, drift_signs, escaped
from gravbench.report.provenance import NOWHERE, Here
from gravbench.report.terminal.printing import first_rows, say_all, say_left_out, section, subsection
from gravbench.report.terminal.table import Column, markdown_table, table
from gravbench.verdicts import arena as verdict
from gravbench.verdicts.arena import Point
from gravbench.verdicts.ranking import Drift, affecting


def render_arena(
    records: Sequence[Record], console: Console, drifts: Sequence[Drift] = (), here: Here = NOWHERE
) -> None:
    """Print time against error for each n where an approximation has several accuracies; nothing where none has."""
    found = verdict.arenas(records)
    if not found:
        return
    names = Names(records)
    section(console, "The arena", arenas.READING)
    tables = {place: arena.points for place, arena in enumerate(found)}
    drift: dict[str, None] = {}
    for place, points in first_rows(tables).items():
        arena = found[place]
        drifted = affecting(drifts, arena.shared)
        subsection(console, f"n = {arena.n:,}, {names.title(arena.shared)}{drift_signs(drifted)}")
        console.print(table(console, _columns(here), points))
        say_all(console, arenas.notes(arena, here), "yellow")
        drift |= dict.fromkeys(drift_notes(drifted))
    say_all(console, drift, "yellow")
    say_left_out(console, tables)


def arena_markdown(records: Sequence[Record], drifts: Sequence[Drift] = (), here: Here = NOWHERE) -> str:
    """Return the arena as Markdown, one table per device, task and n; empty without any."""
    found = verdict.arenas(records)
    names = Names(records)
    lines = [f"{escaped(arenas.READING)}", ""] if found else []
    for arena in found:
        drifted = affecting(drifts, arena.shared)
        title = (
            f"**Arena, {escaped(names.device(arena.shared))}**: n = {arena.n:,}, {escaped(names.task(arena.shared))}"
        )
        lines += [title + f" `{DRIFTED}`" * bool(drifted), "", *markdown_table(_columns(here), arena.points), ""]
        for note in [*arenas.notes(arena, here), *drift_notes(drifted)]:
            lines += [escaped(note), ""]
    return "\n".join(lines)


def _columns(here: Here) -> list[Column[Point]]:
    return [_column(place, here) for place in range(len(arenas.HEADERS))]


def _column(place: int, here: Here) -> Column[Point]:
    header = arenas.HEADERS[place]
    words = header not in arenas.NUMBERS
    # The configuration gives way in a narrow terminal.
    return Column(header, lambda point: arenas.cells(point, here)[place], 9 * (header == "configuration"), text=words)
