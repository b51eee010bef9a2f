"""The arena: time against error of every method."""

from __future__ import annotations

from gravbench.report.names import SLOWEST_SEED, count, seed_notes, slowest_seed
from gravbench.report.numbers import milliseconds, relative_error
from gravbench.report.provenance import Here, cut_short_notes
from gravbench.report.section import Column, Part, Section, Table
from gravbench.report.sections.content import Content
from gravbench.verdicts import ranking
from gravbench.verdicts.arena import Arena, Point, arenas

READING = (
    "ms is the time of one evaluation; error is the 99th percentile over the bodies of the relative error against "
    "float64 direct sums. Smaller is better for both. Each method is shown in its fastest configuration for each of "
    "its accuracies; where several axes decide these, only for those that no other one of the method equals in time "
    "and error. Front (*): no other point is at least as fast and as accurate."
)
FRONT = "*"


def arena(content: Content) -> Section | None:
    """Show time against error for each n where an approximation has several accuracies."""
    every = arenas(content.competitors)
    notes: dict[str, None] = {}
    parts = []
    for shown in every:
        records = [point.record for point in shown.points]
        title, on_drift = content.titled(records, shown.shared, f"n = {shown.n:,}")
        parts.append(arena_part(shown, content.here, title))
        notes |= dict.fromkeys(on_drift)
    return Section("arena", "The arena", READING, parts, list(notes)) if every else None


def arena_part(shown: Arena, here: Here, title: str) -> Part:
    """Show one arena: what its table leaves out, and what its signs mean, stands below it."""
    notes = []
    if shown.left_out:
        notes.append(f"left out: {count(shown.left_out, 'record')} without a 99th percentile of the error.")
    if shown.dominated:
        notes.append(f"left out: {count(shown.dominated, 'direct sum')} no better in time or error than another one.")
    if shown.behind:
        verb = "is" if shown.behind == 1 else "are"
        accuracies = "accuracy that" if shown.behind == 1 else "accuracies that"
        notes.append(
            f"left out: {shown.behind:,} {accuracies} {verb} no better in time or error than another of the method."
        )
    notes += here.notes((point.record for point in shown.points), "point")
    notes += cut_short_notes(point.record for point in shown.points)
    notes += seed_notes(point.record for point in shown.points)
    return Part(title, table=Table(_columns(here), shown.points), notes=notes)


def _columns(here: Here) -> list[Column[Point]]:
    return [
        Column("method", lambda point: f"{point.method} {here.sign(point.record)}".rstrip(), text=True),
        Column("accuracy", lambda point: point.accuracy or "direct sum", text=True),
        Column("ms", lambda point: milliseconds(ranking.seconds(point.record))),
        Column(SLOWEST_SEED, lambda point: slowest_seed(point.record), 1),
        Column("error", lambda point: relative_error(point.record.error_p99)),
        Column("front", lambda point: FRONT * point.front, text=True),
        Column("toolkit", lambda point: point.record.toolkit, text=True),
        # The configuration gives way in a narrow terminal.
        Column("configuration", lambda point: point.record.configuration, 9, text=True),
    ]
