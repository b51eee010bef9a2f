"""The arena in words: what its tables say, in a terminal, in Markdown and on a page."""

from __future__ import annotations

from gravbench.report.names import count
from gravbench.report.numbers import milliseconds, relative_error
from gravbench.report.provenance import CUT_SHORT_NOTE, NOWHERE, Here
from gravbench.verdicts import ranking
from gravbench.verdicts.arena import Arena, Point

READING = (
    "ms is the time of one evaluation; error is the 99th percentile over the bodies of the relative error against "
    "float64 direct sums. Smaller is better for both. Each method is shown in its fastest configuration for each of "
    "its accuracies. Front (*): no other point is at least as fast and as accurate."
)
FRONT = "*"
HEADERS = ("method", "accuracy", "ms", "error", "front", "toolkit", "configuration")
NUMBERS = ("ms", "error")
"""Headers of the columns that are numbers."""


def cells(point: Point, here: Here = NOWHERE) -> list[str]:
    """Return the cells of a point, in the order of ``HEADERS``; its method with the sign of ``here``."""
    record = point.record
    return [
        f"{point.method} {here.sign(record)}".rstrip(),
        point.accuracy or "direct sum",
        milliseconds(ranking.seconds(record)),
        relative_error(record.error_p99),
        FRONT * point.front,
        record.toolkit,
        record.configuration,
    ]


def notes(arena: Arena, here: Here = NOWHERE) -> list[str]:
    """Return the sentences below a table: what it leaves out, what its signs mean, and what a race cut short."""
    said: list[str] = []
    if arena.left_out:
        said.append(f"left out: {count(arena.left_out, 'record')} without a 99th percentile of the error.")
    if arena.dominated:
        said.append(f"left out: {count(arena.dominated, 'direct sum')} no better in time or error than another one.")
    said += here.notes((point.record for point in arena.points), "point")
    return said + [CUT_SHORT_NOTE] * any(point.record.outraced for point in arena.points)
