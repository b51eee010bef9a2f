"""The figures of the arena: time against error of every method."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gravbench.report.numbers import number, relative_error, six_digits
from gravbench.report.page import charts
from gravbench.report.page.kinds import (
    OPEN_SIGN,
    Figure,
    configuration,
    doubt,
    marked,
    said_unbounded,
    slug,
)
from gravbench.report.page.labels import Room, places
from gravbench.report.section import Part
from gravbench.report.sections.arena import arena_part
from gravbench.report.sections.content import Content
from gravbench.verdicts import arena as verdict
from gravbench.verdicts import ranking
from gravbench.verdicts.arena import Arena, Point
from gravbench.verdicts.uncertainty import Uncertainties

SAID = (
    "The time of one evaluation against the 99th percentile of the relative error, both axes logarithmic. Smaller is "
    "better for both: lower is faster, further left is more accurate. A curve is one method along its accuracy axis, "
    "in its fastest configuration at each value; single markers are direct sums. The dashed steps and the larger "
    "markers on them are the Pareto front: no other point is at least as fast and as accurate. Labels that would "
    "overlap another label or a marker are left out."
)


def figures(content: Content) -> Iterator[tuple[Figure, Part]]:
    """Draw each arena of the cases; yield behind its figure the table below it."""
    # GPUs before CPUs, and first what has most methods: one alone shows no contest.
    for arena in sorted(
        verdict.arenas(content.competitors), key=lambda placed: (placed.shared.cpu, -len(placed.methods), -placed.n)
    ):
        title = f"n = {arena.n:,}, {content.names.title(arena.shared)}"
        rows = _rows(arena, content.known)
        part = arena_part(arena, content.here, title)
        notes = [note[:1].upper() + note[1:].removesuffix(".") + "." for note in part.notes]
        caption = " ".join([SAID, *notes]) + said_unbounded(rows, OPEN_SIGN)
        made = Figure(f"arena-{slug(title)}", "Time against error", caption, charts.arena(rows, arena.methods), title)
        yield marked(made, content.drifted((point.record for point in arena.points), arena.shared)), part


def _rows(arena: Arena, known: Uncertainties) -> list[dict[str, Any]]:
    """Write the points; a method's name stands at its most accurate one that has room, and no value overlaps."""
    rows = [_row(point, known) for point in arena.points]
    room = Room(places(rows, "error", "ms", charts.WIDTH, charts.ARENA_HEIGHT))

    def put(place: int, field: str, text: str, *, left: bool) -> bool:
        free = room.put(place, text, left=left, under=field == "name below")
        if free:
            rows[place][field] = text
        return free

    # A method with few points has few places for its name.
    by_method = ranking.grouped(range(len(rows)), lambda place: str(rows[place]["method"])).values()
    for places_of_method in sorted(by_method, key=len):
        places_of_method.sort(key=lambda place: rows[place]["error"])
        name = rows[places_of_method[0]]["method"]
        sides = [("name before", True), ("name after", False)]
        tries = [
            (place, *side)
            for place in places_of_method
            for side in (sides if room.places[place][0] > charts.WIDTH / 2 else sides[::-1])
        ]
        tries += [(place, "name below", True) for place in places_of_method]
        # Where no place is free, the legend alone names it.
        for place, field, left in tries:
            if put(place, field, name, left=left):
                break
    for place, row in enumerate(rows):
        put(place, "setting", row["accuracy"], left=False)
    return rows


def _row(point: Point, known: Uncertainties) -> dict[str, Any]:
    record = point.record
    return {
        "method": point.method,
        "accuracy": point.accuracy.replace("theta", "θ"),
        "setting": "",
        "name before": "",
        "name after": "",
        "name below": "",
        "ms": six_digits(1e3 * ranking.seconds(record)),
        "error": six_digits(record.error_p99),
        "front": point.front,
        "time": f"{number(1e3 * ranking.seconds(record))} ms",
        "99 % error": relative_error(record.error_p99),
        "on the front": "yes" if point.front else "no",
        **doubt(record, known),
        "configuration": configuration(record),
    }
