"""One function per kind of figure: what it shows of the records that it is given, and the rows behind it."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gravbench.config.published import Figure as SourceFigure
from gravbench.model.record import OUTRACED, Record
from gravbench.model.toolkits import place_of
from gravbench.report.names import DRIFTED, drift_notes, drift_signs
from gravbench.report.numbers import UNBOUNDED, number, percent, six_digits, times
from gravbench.report.page import charts
from gravbench.report.page.charts import Row, Spec
from gravbench.report.page.labels import Room, places
from gravbench.report.provenance import CUT_SHORT, NARROW, NOWHERE, PARTIAL, Here, sign_notes, signs
from gravbench.report.published import compare
from gravbench.report.remarks import every_step, step_names
from gravbench.report.sections.content import Content
from gravbench.verdicts import ranking
from gravbench.verdicts.ladder import Rung
from gravbench.verdicts.question import fastest_of_each
from gravbench.verdicts.ranking import Drift
from gravbench.verdicts.uncertainty import SAMPLES_ALONE, Uncertainties

TUNED = ("p", "q", "unroll")
"""Axes that a heat map is drawn over first; others follow, those with most values first."""
MOST_POINTS = 400
"""Of one figure at one n; of more configurations the fastest are shown."""
INCLUDES = f"It includes the scatter between processes that anchors of such work show, unless {NARROW} marks it."
OPEN_SIGN = "a hollow marker"


@dataclass(frozen=True, slots=True)
class Figure:
    """One chart: a ``name`` for its file, what it is in a ``title``, how to read it in a ``caption``.

    ``about`` says what was measured, on what. ``n`` is what it shows before another is chosen, None without a choice.
    """

    name: str
    title: str
    caption: str
    spec: Spec
    about: str = ""
    n: int | None = None

    @property
    def whole_title(self) -> str:
        """The title of a figure that stands alone, where nothing can be chosen."""
        shown = self.title if self.n is None else f"{self.title}, n = {self.n:,}"
        return f"{shown}: {self.about}" if self.about else shown


def marked(figure: Figure, drifts: Sequence[Drift]) -> Figure:
    """Mark a figure whose device's anchors drifted: a sign in the title; how far, in the caption and in ``about``."""
    if not drifts:
        return figure
    spread = max(drift.spread or 0.0 for drift in drifts)
    about = f"{figure.about}, {DRIFTED} reference case drifted by {percent(spread)} %".removeprefix(", ")
    caption = " ".join([figure.caption, *(f"{note}." for note in drift_notes(drifts))])
    return replace(figure, title=figure.title + drift_signs(drifts), about=about, caption=caption)


def best_n(by_n: Mapping[int, Sequence[Any]]) -> int:
    """Return the n with most entries, and the largest of these."""
    return max(by_n, key=lambda n: (len(by_n[n]), n))


# One kind of figure each


def ladder(
    title: str,
    n: int,
    rungs: list[Rung],
    summaries: Mapping[str, str],
    here: Here = NOWHERE,
    known: Uncertainties = SAMPLES_ALONE,
) -> Figure:
    """Draw the rungs of one n as bars, each with the time of one evaluation and its speed."""
    rows = [
        _bar(name, record, summaries, here, known)
        # Bars of one name stand together.
        for name, records in ranking.grouped((rung.best for rung in rungs), ranking.named).items()
        for record in records
    ]
    shown = [rung.best for rung in rungs]
    prepared = ", ".join(
        dict.fromkeys(f"{ranking.named(best)} {here.untimed(best)}" for best in shown if here.untimed(best))
    )
    caption = (
        "The time of one evaluation by the fastest configuration of each variant in each toolkit, in the order of the "
        "ladder: shorter is faster. In brackets: interactions per second. The thin line at the end of a bar is the "
        f"95 % confidence interval of the median. {INCLUDES}"
    )
    caption += "".join(f" {note}." for note in sign_notes(shown) + here.notes(shown, "bar"))
    caption += f" Preparation that is not timed, in s: {prepared}." if prepared else ""
    caption += said_unbounded(rows, "a dashed line along the bar from edge to edge")
    if max(row["end"] for row in rows) > charts.longest_drawn(rows):
        caption += f" A bar with {charts.CUT} is longer than it is drawn."
    return figure_of("ladder", f"The ladder at n = {n:,}", caption, charts.ladder(rows), title)


def _bar(name: str, record: Record, summaries: Mapping[str, str], here: Here, known: Uncertainties) -> Row:
    row = _point(record, known)
    label = f"{record.toolkit}  {_with_doubt(record, row['ms'] + ' ms')}{_signs(record, here, known)}"
    return {
        **row,
        "variant": name,
        "end": max(row["time"], row["high"] or 0),
        "label": label + (f" ({number(rate(record))}e9/s)" if rate(record) is not None else ""),
        "short label": label,
        "changed": summaries.get(record.variant, ""),
        "untimed": here.untimed(record),
    }


def over_n(
    title: str, by_n: Mapping[int, list[Rung]], place: list[str], known: Uncertainties = SAMPLES_ALONE
) -> Iterator[Figure]:
    """Draw the time of the fastest configurations over n, in one figure, where there are several n.

    A list beside it chooses the toolkit, where there are several; at first the fastest of all stand there.
    """
    bests = [rung.best for rungs in by_n.values() for rung in rungs]
    if len({best.n for best in bests}) < 2:
        return
    of_all = fastest_of_each(bests, lambda best: (ranking.row(best), best.n))
    views = {charts.EVERY_TOOLKIT: list(of_all.values())}
    by_toolkit = ranking.grouped(bests, lambda best: best.toolkit)
    if len(by_toolkit) > 1:
        views |= {toolkit: by_toolkit[toolkit] for toolkit in sorted(by_toolkit, key=place_of)}
    rows = [row for view, records in views.items() for row in _over_n(view, records, known)]
    spec = charts.over_n(rows, _present(place, rows), list(views))
    caption = (
        "The time of one evaluation by the fastest configuration at each n, both axes logarithmic: lower is faster. "
        f"The thick line is the fastest at each n, whatever its errors. The band is the 95 % confidence interval. "
        f"{INCLUDES}"
    )
    caption += said_unbounded(rows, OPEN_SIGN)
    yield figure_of("time-over-n", "Time over n", caption, spec, title)


def _over_n(view: str, records: Sequence[Record], known: Uncertainties) -> Iterator[Row]:
    """Write the rows of one view: those of a line follow one another, and names stand where they have room.

    The ends of the thick line, which goes through the fastest at each n, are named first; of another line, its end.
    """
    ordered = sorted(records, key=lambda record: (record.n, ranking.seconds(record)))
    fastest = {record.n: place for place, record in reversed(list(enumerate(ordered)))}
    last = {ranking.row(record): place for place, record in enumerate(ordered)}
    points = [{"n": record.n, "time": ranking.seconds(record)} for record in ordered]
    room = Room(places(points, "n", "time", charts.WIDTH, charts.OVER_N_HEIGHT))
    ends = [fastest[min(fastest)], fastest[max(fastest)]]
    names: dict[int, tuple[str, str]] = {}
    for place, left in [(ends[0], False), (ends[-1], True), *((place, True) for place in last.values())]:
        text = ranking.row(ordered[place])
        if place not in names and (room.put(place, text, left=left) or place in ends):
            names[place] = ("name before" if left else "name after"), text
    for place, record in enumerate(ordered):
        field, name = names.get(place, ("name before", ""))
        yield {
            **_point(record, known),
            "variant": ranking.row(record),
            "view": view,
            "front": place in fastest.values(),
            "name before": name if field == "name before" else "",
            "name after": name if field == "name after" else "",
        }


def _point(record: Record, known: Uncertainties) -> Row:
    """Write the time in ms and the ends of its confidence interval, None without one."""
    interval = known.interval(record)
    low, high = interval if interval and not record.outraced else (None, None)
    return {
        **_said(record, known),
        "time": six_digits(1e3 * ranking.seconds(record)),
        "low": None if low is None else six_digits(1e3 * low),
        "high": None if high is None else six_digits(1e3 * high),
    }


def heat_maps(
    title: str, records: list[Record], place: list[str], known: Uncertainties = SAMPLES_ALONE
) -> Iterator[Figure]:
    """Draw the speed over two axes, one figure per variant and toolkit that has several values of both."""
    tuned = ranking.grouped(_counted(records), lambda record: (record.variant, record.toolkit))
    order = sorted(tuned, key=lambda which: (place.index(which[0]), place_of(which[1])))
    for variant, toolkit in order:
        alike = ranking.grouped(tuned[variant, toolkit], ranking.size)
        by_n = {n: same_n for n, same_n in alike.items() if len(_swept(same_n)) > 1}
        if not by_n:
            continue
        shown = best_n(by_n)
        x, y = _swept(by_n[shown])[:2]
        sizes = sorted(n for n, same_n in by_n.items() if {x, y} <= set(_swept(same_n)))
        rows = [row for n in sizes for row in _cells(by_n[n], x, y, known)]
        rest = [axis for axis in dict.fromkeys(axis for n in sizes for axis in _swept(by_n[n])) if axis not in (x, y)]
        over = f" Each cell has the fastest value of {', '.join(rest)}." if rest else ""
        caption = f"{charts.SPEED} for each pair of {x} and {y}; colour: the shortest time over that of the cell.{over}"
        caption += said_unbounded(rows, f"a cell with {UNBOUNDED}" + f" or {CUT_SHORT}" * any(map(_late, rows)))
        spec = charts.heat_map(rows, x, y, sizes, shown)
        heading = f"{variant} by {toolkit} over {x} and {y}"
        yield figure_of(f"heat-map-{variant}-{toolkit}", heading, caption, spec, title, sizes, shown)


def _swept(records: Iterable[Record]) -> list[str]:
    """Return the axes with more than one value, those named in ``TUNED`` first."""
    values: dict[str, set[Any]] = defaultdict(set)
    for record in records:
        for axis, setting in record.axes.items():
            values[axis].add(setting)
    several = [axis for axis in values if len(values[axis]) > 1]
    rank = {axis: i for i, axis in enumerate(TUNED)}
    return sorted(several, key=lambda axis: (rank.get(axis, len(rank)), -len(values[axis])))


def _cells(records: list[Record], x: str, y: str, known: Uncertainties) -> Iterator[Row]:
    # A record from before an axis was there has no place.
    placed = [record for record in records if {x, y} <= record.axes.keys()]
    fastest = fastest_of_each(placed, lambda record: (record.axes[x], record.axes[y]))
    # By time: an approximation that computes more interactions has a higher rate, and may take longer.
    least = min(map(ranking.seconds, fastest.values()))
    for (at_x, at_y), record in sorted(fastest.items(), key=lambda item: [(isinstance(at, str), at) for at in item[0]]):
        part = least / ranking.seconds(record)
        yield {
            **_said(record, known),
            "x": at_x,
            "y": at_y,
            "relative": six_digits(part),
            "label": _with_doubt(record, number(rate(record) or 0.0)) + f" {CUT_SHORT}" * record.outraced,
            "of the fastest": f"{100 * part:.0f} %",
        }


def occupancy(
    title: str, records: list[Record], place: list[str], known: Uncertainties = SAMPLES_ALONE
) -> Iterator[Figure]:
    """Draw speed over occupancy, where configurations differ in it."""
    alike = ranking.grouped((record for record in _counted(records) if record.occupancy is not None), ranking.size)
    by_n = {n: same_n for n, same_n in sorted(alike.items()) if len({record.occupancy for record in same_n}) > 1}
    if not by_n:
        return
    rows = [
        {
            **_said(record, known),
            "speed": six_digits(rate(record) or 0.0),
            "occupancy": six_digits(100 * (record.occupancy or 0)),
            "limited by": record.occupancy_limiter or "",
        }
        for same_n in by_n.values()
        for record in sorted(same_n, key=ranking.seconds)[:MOST_POINTS]
    ]
    caption = "All configurations at one n. Occupancy is what the driver reports for the compiled kernel."
    caption += said_unbounded(rows, OPEN_SIGN)
    sizes, shown = list(by_n), best_n(by_n)
    spec = charts.occupancy(rows, _present(place, rows), sizes, shown)
    yield figure_of("occupancy", "Occupancy and speed", caption + _left_out(by_n), spec, title, sizes, shown)


def accuracy(
    title: str, records: list[Record], place: list[str], known: Uncertainties = SAMPLES_ALONE
) -> Iterator[Figure]:
    """Draw speed over error, where there are several configurations."""
    known_errors = (record for record in records if record.error_max and math.isfinite(record.error_max))
    by_n = {n: same_n for n, same_n in sorted(ranking.grouped(known_errors, ranking.size).items()) if len(same_n) > 1}
    if not by_n:
        return
    # The n with most variants; then that with most configurations.
    shown = max(by_n, key=lambda n: (len({record.variant for record in by_n[n]}), len(by_n[n]), n))
    rows = [row for same_n in by_n.values() for row in _front(same_n, known)]
    caption = (
        "All configurations at one n: higher is faster, further left is more accurate. The dashed line is the Pareto "
        "front: no other configuration is better in both. Speed is in evaluations per second, so an approximation "
        "gains from what it leaves out; its error is that of one evaluation."
    )
    caption += said_unbounded(rows, OPEN_SIGN)
    spec = charts.accuracy(rows, _present(place, rows), list(by_n), shown)
    yield figure_of("speed-and-error", "Speed and error", caption + _left_out(by_n), spec, title, list(by_n), shown)


def _front(records: list[Record], known: Uncertainties) -> Iterator[Row]:
    """Write rows whose ``front`` is true where no other record is both faster and at least as accurate."""
    least = math.inf
    front = set()
    for record in sorted(records, key=lambda candidate: (ranking.seconds(candidate), candidate.error_max or 0)):
        if (record.error_max or 0) < least:
            least = record.error_max or 0
            front.add(id(record))
    ordered = sorted(records, key=ranking.seconds)
    chosen = ordered[:MOST_POINTS] + [record for record in ordered[MOST_POINTS:] if id(record) in front]
    points = [{"error": record.error_max or 0, "rate": 1 / ranking.seconds(record)} for record in chosen]
    room = Room(places(points, "error", "rate", charts.WIDTH, charts.ACCURACY_HEIGHT))
    named: set[str] = set()
    for place, record in enumerate(chosen):
        on_it = id(record) in front
        # On the side that has more room; where another label lies on both, tooltips have the name.
        near = room.places[place][0] > charts.WIDTH / 2
        sides = [left for left in (near, not near) if on_it and record.variant not in named]
        left = next((left for left in sides if room.put(place, record.variant, left=left)), None)
        if left is not None:
            named.add(record.variant)
        yield {
            **_said(record, known),
            "front": on_it,
            "name before": record.variant if left else "",
            "name after": record.variant if left is False else "",
            "error": six_digits(record.error_max),
            "rate": six_digits(1 / ranking.seconds(record)),
            "largest error": f"{record.error_max:.2e}",
            "on the front": "yes" if on_it else "no",
        }


def published(name: str, figure: SourceFigure, content: Content) -> Figure | None:
    """Draw what a source published beside what was measured; None without two steps, or without any measured."""
    source = content.source
    assert source is not None
    comparison = compare(source, figure, content.cases)
    rows: list[Row] = []
    for step, title in zip(comparison.steps, step_names(comparison), strict=True):
        pair = {
            "published": (step.cell.published, step.published_relative),
            "measured": (step.answer.value, step.measured_relative),
        }
        for kind, (value, relative) in pair.items():
            if relative is not None and relative > 0:
                written = f"{number(value, zeros=False)} {figure.unit}"
                row = {"step": title, "kind": kind, "relative": six_digits(relative), "value": written}
                if kind == "measured" and step.answer.record and ranking.unbounded(step.answer.record):
                    row |= {"value": f"{written} {UNBOUNDED}", "open": True}
                rows.append(row)
    steps = list(dict.fromkeys(row["step"] for row in rows))
    if len(steps) < 2 or all(row["kind"] == "published" for row in rows):
        return None
    caption = (
        f"{figure.unit}, relative to the first step of the same path: published for {figure.device or source.device}, "
        "measured here. A step with only one of the two values has one marker."
    )
    caption += f" Missing published values: {figure.blank}." if figure.blank else ""
    caption += said_unbounded(rows, OPEN_SIGN)
    name = f"published-{slug(name)}-{slug(figure.id)}"
    made = Figure(name, figure.title, caption, charts.published(rows, steps), every_step(comparison))
    return marked(made, content.drifted(content.records, *(column.conditions for column in comparison.shown)))


# Parts of rows


def _said(record: Record, known: Uncertainties) -> dict[str, Any]:
    """Write what the tooltip of every figure says."""
    return {
        "variant": record.variant,
        "toolkit": record.toolkit,
        "n": record.n,
        "configuration": record.configuration,
        "ips": _interactions(record),
        "ms": number(1e3 * ranking.seconds(record)),
        **doubt(record, known),
    }


def _interactions(record: Record) -> str:
    speed = ranking.speed(record)
    return "not counted" if speed is None else f"{speed:.4g}{PARTIAL * ranking.is_partial(record)}"


def _signs(record: Record, here: Here, known: Uncertainties) -> str:
    marks = NARROW * known.may_be_narrow(record) + signs(record) + here.sign(record)
    return f" {marks}" if marks else ""


def doubt(record: Record, known: Uncertainties = SAMPLES_ALONE) -> dict[str, Any]:
    """Write the interval for a tooltip; ``open`` only where nothing bounds the median, for its sign."""
    if record.outraced:
        return {"± %": OUTRACED, "open": True}
    if ranking.unbounded(record):
        return {"± %": "unbounded: too few samples", "open": True}
    return {"± %": percent(known.half_width(record)) + NARROW * known.may_be_narrow(record)}


def _with_doubt(record: Record, written: str) -> str:
    return f"{written} {UNBOUNDED}" if ranking.unbounded(record) else written


def said_unbounded(rows: Sequence[Row], sign: str) -> str:
    """Say for a caption what the sign of unbounded rows is; nothing without any."""
    shown = [row for row in rows if row.get("open")]
    if not shown:
        return ""
    late = " or because a race stopped them (outraced)" if any(map(_late, shown)) else ""
    return f" Cases without a confidence interval, because they have too few samples{late}: {sign}."


def _late(row: Row) -> bool:
    return row.get("± %") == OUTRACED


def configuration(record: Record) -> str:
    """Write the toolkit, n and the axes for a tooltip."""
    return f"{record.toolkit} n={record.n} {record.configuration}".strip()


def rate(record: Record) -> float | None:
    """Return 1e9 interactions per second, None where they are not counted."""
    return times(ranking.speed(record), 1e-9)


def _counted(records: Iterable[Record]) -> list[Record]:
    """Keep those that have a rate."""
    return [record for record in records if not record.uncounted]


def _present(place: list[str], rows: Sequence[Row]) -> list[str]:
    """Name the rows that there are, those of a variant together, in the order of the variants."""
    there = sorted({row["variant"] for row in rows})
    return [name for variant in place for name in there if name.partition(" ")[0] == variant]


def _left_out(by_n: Mapping[int, Sequence[Record]]) -> str:
    most = max(map(len, by_n.values()))
    return f" At each n, at most the {MOST_POINTS} fastest are shown." if most > MOST_POINTS else ""


def figure_of(
    kind: str, heading: str, caption: str, spec: Spec, about: str, sizes: Sequence[int] = (), shown: int | None = None
) -> Figure:
    """Name a figure by its kind and by what was measured; of a single n the heading says it."""
    at = f" at n = {sizes[0]:,}" if len(sizes) == 1 else ""
    return Figure(f"{slug(kind)}-{slug(about)}", heading + at, caption, spec, about, shown if len(sizes) > 1 else None)


def slug(text: str) -> str:
    """Write a text as a part of a file's name."""
    return re.sub(r"[^a-z0-9_]+", "-", text.lower()).strip("-")[:90]
