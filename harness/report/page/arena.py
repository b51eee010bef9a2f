"""The figures of the arena: time against error of every method."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from gravbench.model.record import Record
from gravbench.report import arenas
from gravbench.report.names import Names
from gravbench.report.numbers import number, relative_error, six_digits
from gravbench.report.page import charts
from gravbench.report.page.charts import Row
from gravbench.report.page.kinds import (
    OPEN_SIGN,
    DriftsOf,
    Figure,
    configuration,
    doubt,
    marked,
    no_drifts,
    said_unbounded,
    slug,
)
from gravbench.verdicts import arena as verdict
from gravbench.verdicts import ranking
from gravbench.verdicts.arena import Arena, Point

SAID = (
    "The time of one evaluation against the 99th percentile of the relative error (all but 1 % of the bodies are more "
    "accurate), both axes logarithmic. Smaller is better both ways: down is faster, left is more accurate. A curve is "
    "a method along its axis of accuracy, at each value its fastest configuration; a sign alone is a direct sum. The "
    "dashed steps, and the larger signs on them, are the Pareto front: no other point is as fast and as accurate."
)


def figures(cases: Sequence[Record], drifts: DriftsOf = no_drifts) -> Iterator[tuple[Figure, Arena]]:
    """Draw each arena of the cases; yield it behind its figure, for the table below."""
    titles = Names(cases)
    for arena in verdict.arenas(cases):
        title = f"n = {arena.n:,}, {titles.title(arena.shared)}"
        errors = [point.record.error_p99 or 0 for point in arena.points]
        middle = math.sqrt(min(errors) * max(errors))
        first = _most_accurate(arena)
        rows = [_row(point, middle, named=first[point.method] is point) for point in arena.points]
        said = " ".join([SAID, *arenas.notes(arena)]) + said_unbounded(rows, OPEN_SIGN)
        made = Figure(f"arena-{slug(title)}", "Time against error", said, charts.arena(rows, arena.methods), title)
        yield marked(made, ranking.affecting(drifts([point.record for point in arena.points]), arena.shared)), arena


def _most_accurate(arena: Arena) -> dict[str, Point]:
    """Return the point of each method that carries its name."""
    by_method = ranking.grouped(arena.points, lambda point: point.method)
    return {method: min(points, key=lambda point: point.record.error_p99 or 0) for method, points in by_method.items()}


def _row(point: Point, middle: float, *, named: bool) -> Row:
    """Write a point, and its name on the side that has more room."""
    right = (point.record.error_p99 or 0) > middle
    record = point.record
    return {
        "method": point.method,
        "accuracy": point.accuracy.replace("theta", "θ"),
        "name before": point.method if named and right else "",
        "name after": point.method if named and not right else "",
        "ms": six_digits(1e3 * ranking.seconds(record)),
        "error": six_digits(record.error_p99),
        "front": point.front,
        "time": f"{number(1e3 * ranking.seconds(record))} ms",
        "99 % error": relative_error(record.error_p99),
        "on the front": "yes" if point.front else "no",
        **doubt(record),
        "configuration": configuration(record),
    }
