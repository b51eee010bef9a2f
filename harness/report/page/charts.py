"""Altair charts of rows of plain numbers: marks, scales and signs, and nothing about where the rows come from.

No chart says anything by colour alone: series differ in shape and dash too, bars and cells carry their numbers.
Colours keep a contrast of 3 to 1 on white and on near-black, and ink follows the page's text colour.

Altair would check every part of a chart as it is made (its ``debug_mode``), which takes as long as making it: a test
checks every kind of chart against the schema instead.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import cycle, groupby, islice
from typing import Any

import altair as alt
from altair.utils.schemapi import debug_mode

Row = Mapping[str, Any]
Spec = dict[str, Any]

COLOURS = (
    *("#3f7fb5", "#d55e00", "#2a8f45", "#b0558f", "#9c7a00", "#0093a6"),
    *("#808080", "#8566cc", "#c2566b", "#a0613a", "#6a8420", "#5c74d6"),
)
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left")
DASHES = ([1, 0], [6, 2], [2, 2], [8, 2, 2, 2], [4, 4], [10, 3])
SPEED = "1e9 interactions/s"
MILLISECONDS = "ms of one evaluation (smaller is better)"
WIDTH = 680
"""Of a figure in a file; on a page it is as wide as there is room."""
ARENA_HEIGHT, ACCURACY_HEIGHT, OVER_N_HEIGHT = 420, 340, 420
EVERY_TOOLKIT = "fastest of all"
"""What a figure of several toolkits shows before one is chosen."""
TITLES: Mapping[str, str] = {"ips": "interactions per second"}
"""What tooltips call fields whose names are short, because every row of a figure has them."""
GREY = "#808080"
LETTER, BOLD_LETTER, NARROW_LETTER = 6, 7, 5.2
"""Pixels of a letter of a label, at most; the last where page.js makes letters smaller."""
NARROW = 280
"""Pixels of a view on a phone, at most."""
SHORTEST_BAR = 0.2
"""The longest bar of a narrow ladder, as a part of the width."""
CUT = "»"
"""Behind the label of a bar of the ladder that is longer than it is drawn."""
FAR_LONGER = 5
"""How many times as long as all others a bar is that is cut."""
CUT_OF = 10
"""Of so many variants, one may have bars that are cut."""
MOST_POWERS = 12
"""Powers of two beside one axis."""
ROWS = "rows"
CHART = alt.Chart(alt.NamedData(name=ROWS))
SIGNS: Mapping[str, tuple[Any, Sequence[Any]]] = {
    "color": (alt.Color, COLOURS),
    "shape": (alt.Shape, SHAPES),
    "strokeDash": (alt.StrokeDash, DASHES),
}


def longest_drawn(rows: Sequence[Row]) -> float:
    """Return the time at which bars end: that of the longest one, or a quarter above the rest if few are far longer.

    Otherwise one variant that is a hundred times as slow would leave all others without a visible bar.
    """
    ends: dict[str, float] = {}
    for row in rows:
        ends[row["variant"]] = max(row["end"], ends.get(row["variant"], 0.0))
    longest_first = sorted(ends.values(), reverse=True)
    for count in range(len(longest_first) // CUT_OF, 0, -1):
        if longest_first[count - 1] > FAR_LONGER * longest_first[count]:
            return 1.25 * longest_first[count]
    return longest_first[0]


def _cut(row: Row, most: float) -> Row:
    sign = f" {CUT}" if row["end"] > most else ""
    labels = {name: row[name] + sign for name in ("label", "short label")}
    return {**row, **labels, "drawn": min(row["time"], most), "drawn end": min(row["end"], most)}


@debug_mode(arg=False)
def ladder(rows: Sequence[Row]) -> Spec:
    """Bars of ``time`` (with ``low`` and ``high``): a group per variant, a bar per toolkit, each with a ``label``.

    A narrow view shows the ``short label`` instead. An ``open`` row, whose time nothing bounds, has a dashed line from
    edge to edge, below its label.

    The rows of a variant stand together, and in the order of the toolkits. Bars beyond ``longest_drawn`` are cut.
    """
    most = longest_drawn(rows) or 1.0
    # An axis of one place a bar, so that nobody's place is kept free; the first of a group has the variant's name, the
    # others and the gap behind a group have a tab in theirs, and no label.
    places: list[str] = []
    placed: list[Row] = []
    for variant, rows_of_variant in groupby(rows, lambda row: row["variant"]):
        bars = [
            {**_cut(row, most), "bar": f"{variant}\t{row['toolkit']}" if i else variant}
            for i, row in enumerate(rows_of_variant)
        ]
        placed += bars
        places += [*(bar["bar"] for bar in bars), f"{variant}\tend"]
    names = alt.Axis(labelExpr="indexof(datum.label, '\\t') < 0 ? datum.label : ''", ticks=False)
    base = CHART.encode(
        y=alt.Y("bar:N", title=None, axis=names, scale=alt.Scale(domain=places[:-1], paddingInner=0)),
        tooltip=_tooltip("variant", "toolkit", "configuration", "ips", "ms", "± %", "untimed", "changed"),
    )
    # The longest bar leaves room for its label, however wide the view is.
    letters, narrow_letters = (max(len(row[label]) for row in placed) for label in ("label", "short label"))
    room = f"(width < {NARROW} ? {narrow_letters * NARROW_LETTER} : {letters * LETTER})"
    end = alt.expr(f"{most} * width / max(width - {room}, width * {SHORTEST_BAR})")
    scale = alt.Scale(domainMin=0, domainMax=end, nice=False)
    drawn = base.mark_bar().encode(
        x=alt.X("drawn:Q", title=MILLISECONDS, scale=scale, axis=alt.Axis(tickCount=4)),
        color=_signs("variant", list(dict.fromkeys(row["variant"] for row in rows)), "color")["color"].legend(None),
    )
    intervals = base.mark_rule(strokeWidth=1.5, clip=True).encode(
        x=alt.X("low:Q", title=MILLISECONDS), x2=alt.X2("high:Q")
    )
    text = alt.expr(f"width < {NARROW} ? datum['short label'] : datum.label")
    labels = base.mark_text(align="left", baseline="middle", dx=5, text=text).encode(x=alt.X("drawn end:Q"))
    if any(row.get("open") for row in rows):
        # From edge to edge: without a place on the axis it is as wide as the view.
        edges = base.transform_filter("datum.open").mark_rule(strokeWidth=1, strokeDash=[3, 3], yOffset=9)
        intervals = alt.layer(intervals, edges)
    return _with(placed, _layers(drawn, intervals, labels, height=max(60, 15 * len(places))))


@debug_mode(arg=False)
def over_n(rows: Sequence[Row], variants: list[str], views: list[str]) -> Spec:
    """Lines of ``time`` over ``n``, both logarithmic, with the interval from ``low`` to ``high`` as a band.

    Rows with ``front`` are on the thick line; some have their ``name before`` or ``after`` the point. Of several
    ``views`` a list beside the chart chooses one.
    """
    chart, chosen = _chosen("view", views, views[0], "toolkit: ")
    base = chart.encode(
        x=_log(alt.X, "n", "bodies, n", rows),
        **_signs("variant", variants, "color"),
        tooltip=_tooltip("variant", "toolkit", "n", "configuration", "ms", "± %", "ips"),
    )
    time = _log(alt.Y, "time", MILLISECONDS, rows)
    band = base.mark_area(opacity=0.25, clip=True).encode(y=alt.Y("low:Q"), y2=alt.Y2("high:Q"))
    front = chart.transform_filter("datum.front").mark_line(strokeWidth=7, opacity=0.35, color=GREY)
    fastest = front.encode(x=_log(alt.X, "n", "bodies, n", rows), y=time, order=alt.Order("n:Q"))
    lines = base.mark_line(strokeWidth=1.8).encode(y=time, **_signs("variant", variants, "strokeDash"))
    points = _points(base, rows, area=55, opacity=1, y=time, **_signs("variant", variants, "shape"))
    before = base.mark_text(align="right", dx=-8, dy=-8).encode(y=time, text=alt.Text("name before:N"))
    after = base.mark_text(align="left", dx=8, dy=-8).encode(y=time, text=alt.Text("name after:N"))
    layers = (band, fastest, lines, points, before, after)
    return _with(rows, _layers(*layers, height=OVER_N_HEIGHT, param=chosen))


@debug_mode(arg=False)
def heat_map(rows: Sequence[Row], x: str, y: str, sizes: list[int], shown: int) -> Spec:
    """Cells of ``relative`` speed over two axes at one n of ``sizes``, each with its ``label``; the n can be chosen."""
    across, down = (
        tuple(sorted({row[at] for row in rows}, key=lambda setting: (isinstance(setting, str), setting))) for at in "xy"
    )
    return _with(rows, _heat_map(x, y, across, down, tuple(sizes), shown))


@lru_cache
def _heat_map(x: str, y: str, across: Sequence[Any], down: Sequence[Any], sizes: Sequence[int], shown: int) -> Spec:
    """Draw what most of a page's many heat maps have in common, once."""
    chart, at = _chosen("n", sizes, shown, "n = ")
    base = chart.encode(
        x=alt.X("x:O", title=x, sort=list(across), axis=alt.Axis(labelAngle=0)),
        y=alt.Y("y:O", title=y, sort=list(down)),
        tooltip=_tooltip("n", "configuration", "ips", "± %", "ms", "of the fastest"),
    )
    scale = alt.Scale(scheme="viridis", domain=[0, 1])
    legend = alt.Legend(format="%", orient="bottom", gradientLength=180, values=[0, 0.5, 1])
    cells = base.mark_rect().encode(color=alt.Color("relative:Q", title="of the fastest", scale=scale, legend=legend))
    dark = alt.condition("datum.relative > 0.55", alt.value("black"), alt.value("white"))
    labels = base.mark_text(fontSize=12).encode(text=alt.Text("label:N"), color=dark)
    return _layers(cells, labels, height=max(90, 38 * len(down)), param=at)


@debug_mode(arg=False)
def occupancy(rows: Sequence[Row], variants: list[str], sizes: list[int], shown: int) -> Spec:
    """Points of ``speed`` over ``occupancy`` in per cent, one per configuration, at one n that can be chosen."""
    chart, at = _chosen("n", sizes, shown, "n = ")
    ticks = alt.Axis(values=[0, 25, 50, 75, 100])
    points = _points(
        chart,
        rows,
        area=60,
        opacity=0.8,
        x=alt.X("occupancy:Q", title="occupancy, %", scale=alt.Scale(domain=[0, 103]), axis=ticks),
        y=alt.Y("speed:Q", title=SPEED, axis=_axis()),
        **_signs("variant", variants, "color", "shape"),
        tooltip=_tooltip("variant", "toolkit", "configuration", "ips", "± %", "ms", "occupancy", "limited by"),
    )
    return _with(rows, _spec(points.properties(height=300), at))


@debug_mode(arg=False)
def accuracy(rows: Sequence[Row], variants: list[str], sizes: list[int], shown: int) -> Spec:
    """Points of evaluations per second (``rate``) over ``error``, both logarithmic, and the line of the Pareto front.

    Rows with ``front`` are on it, and may carry a name before or after their point.
    """
    chart, at = _chosen("n", sizes, shown, "n = ")
    base = chart.encode(
        x=_log(alt.X, "error", "largest relative error", rows),
        y=_log(alt.Y, "rate", "evaluations/s", rows, fine=True),
    )
    on_it = base.transform_filter("datum.front")
    front = on_it.mark_line(interpolate="step-after", strokeDash=[4, 3], strokeWidth=1.3, color=GREY).encode(
        order=alt.Order("error:Q")
    )
    points = _points(
        base,
        rows,
        area=60,
        opacity=0.85,
        **_signs("variant", variants, "color", "shape"),
        tooltip=_tooltip("variant", "toolkit", "configuration", "ms", "± %", "largest error", "on the front"),
    )
    before = on_it.mark_text(align="right", dx=-7, dy=-9).encode(text=alt.Text("name before:N"))
    after = on_it.mark_text(align="left", dx=7, dy=-9).encode(text=alt.Text("name after:N"))
    return _with(rows, _layers(front, points, before, after, height=ACCURACY_HEIGHT, param=at))


@debug_mode(arg=False)
def stages(rows: Sequence[Row], names: list[str], sizes: list[str]) -> Spec:
    """Stacked bars of each stage's ``share`` of the sum, one row per size; the longer stages carry their name."""
    base = CHART.encode(
        y=alt.Y("size:N", sort=sizes, title=None, axis=alt.Axis(labelLimit=160)),
        tooltip=_tooltip("n", "stage", "ms", "share", "configuration"),
    )
    bars = base.mark_bar(stroke="white", strokeWidth=1).encode(
        x=alt.X("from:Q", title="share of the sum", axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1])),
        x2=alt.X2("to:Q"),
        **_signs("stage", names, "color"),
    )
    wide = base.transform_filter(f"datum.share * width > {BOLD_LETTER} * length(datum.stage)")
    labels = wide.mark_text(color="white", fontWeight="bold", fontSize=11).encode(
        x=alt.X("middle:Q"), text=alt.Text("stage:N")
    )
    return _with(rows, _layers(bars, labels, height=max(80, 34 * len(sizes))))


@debug_mode(arg=False)
def thetas(rows: Sequence[Row]) -> Spec:
    """Lines of each ``kind`` of error over milliseconds (``ms``), both logarithmic; points carry their ``name``."""
    kinds = list(dict.fromkeys(row["kind"] for row in rows))
    base = CHART.encode(
        x=_log(alt.X, "ms", "ms per evaluation", rows),
        y=_log(alt.Y, "error", "relative error", rows),
        tooltip=_tooltip("theta", "kind", "relative error", "ms", "± %", "configuration"),
    )
    lines = base.mark_line(strokeWidth=1.8).encode(
        **_signs("kind", kinds, "color", "strokeDash", title="error"), order=alt.Order("theta:Q")
    )
    points = _points(base, rows, area=55, opacity=1, **_signs("kind", kinds, "color", "shape", title="error"))
    labels = base.mark_text(dy=-11).encode(text=alt.Text("name:N"))
    return _with(rows, _layers(lines, points, labels, height=320))


@debug_mode(arg=False)
def arena(rows: Sequence[Row], methods: list[str]) -> Spec:
    """Lines of ``ms`` over ``error``, both logarithmic, one per ``method`` in the order of its rows.

    Points carry their ``setting`` and, one of each method, its ``name before``, ``after`` or ``below`` the point; those
    with ``front`` are larger, and on the steps of the Pareto front. Names are drawn first: of labels that would lie on
    each other the page keeps the first.
    """
    rows = [{**row, "place": place} for place, row in enumerate(rows)]
    base = CHART.encode(
        x=_log(alt.X, "error", ["99th percentile of the relative error", "(smaller is better)"], rows),
        y=_log(alt.Y, "ms", MILLISECONDS, rows),
        tooltip=_tooltip("method", "accuracy", "time", "± %", "99 % error", "on the front", "configuration"),
    )
    colour = _signs("method", methods, "color")
    steps = base.transform_filter("datum.front").mark_line(
        interpolate="step-after", strokeDash=[4, 3], strokeWidth=1.3, color=GREY
    )
    front = steps.encode(order=alt.Order("error:Q"))
    lines = base.mark_line(strokeWidth=1.8).encode(
        order=alt.Order("place:Q"), **colour, **_signs("method", methods, "strokeDash")
    )
    size = alt.condition("datum.front", alt.value(130), alt.value(45))
    points = _points(base, rows, opacity=1, size=size, **colour, **_signs("method", methods, "shape"))
    settings = base.mark_text(align="left", dx=8, dy=-7).encode(text=alt.Text("setting:N"))
    before = base.mark_text(align="right", dx=-9, dy=-7, fontWeight="bold").encode(text=alt.Text("name before:N"))
    after = base.mark_text(align="left", dx=9, dy=-8, fontWeight="bold").encode(text=alt.Text("name after:N"))
    below = base.mark_text(align="right", dx=-9, dy=8, fontWeight="bold").encode(text=alt.Text("name below:N"))
    return _with(rows, _layers(front, lines, points, before, after, below, settings, height=ARENA_HEIGHT))


@debug_mode(arg=False)
def published(rows: Sequence[Row], steps: list[str]) -> Spec:
    """Two signs per step, published and measured, ``relative`` to the first step, and a line between them."""
    kinds = ["published", "measured"]
    base = CHART.encode(y=alt.Y("step:N", sort=steps, title=None, axis=alt.Axis(labelLimit=210)))
    relative = _log(alt.X, "relative", "relative to the first step", rows)
    lines = base.mark_line(color=GREY, strokeWidth=1.5).encode(x=relative, detail=alt.Detail("step:N"))
    points = _points(
        base,
        rows,
        opacity=1,
        x=relative,
        **_signs("kind", kinds, "color", "shape", title=""),
        # Where the two agree, the smaller measured one lies on the published one.
        size=alt.condition("datum.kind == 'published'", alt.value(170), alt.value(45)),
        tooltip=_tooltip("step", "kind", "value", "relative"),
    )
    return _with(rows, _layers(lines, points, height=max(70, 21 * len(steps))))


@debug_mode(arg=False)
def efforts(rows: Sequence[Row], contests: list[str], strategies: list[str]) -> Spec:
    """Signs at the ``median`` of each strategy's measurements, and a line to where ``rarely`` more are needed."""
    base = CHART.encode(
        y=alt.Y("contest:N", sort=contests, title=None, axis=alt.Axis(labelLimit=320)),
        yOffset=alt.YOffset("strategy:N", scale=alt.Scale(domain=strategies, paddingOuter=0.4)),
        tooltip=_tooltip("contest", "cases", "strategy", "measurements", "9 of 10", "not found"),
    )
    x = alt.X("median:Q", title="measurements", axis=_axis(), scale=alt.Scale(zero=True))
    lines = base.mark_rule(strokeWidth=1.5, color=GREY).encode(x=x, x2=alt.X2("rarely:Q"))
    points = base.mark_point(size=60, filled=True, opacity=1).encode(
        x=x, **_signs("strategy", strategies, "color", "shape")
    )
    height = max(80, (14 * len(strategies) + 12) * len(contests))
    return _with(rows, _layers(lines, points, height=height))


@debug_mode(arg=False)
def predicted(rows: Sequence[Row], medians: Mapping[str, float]) -> Spec:
    """Signs at the ``ratio`` of each row, a line of places for each variant with a bar at its median."""
    y = alt.Y("variant:N", sort=list(medians), title=None, axis=alt.Axis(labelLimit=210, grid=True))
    scale = alt.Scale(zero=False, nice=True, padding=10)
    x = alt.X("ratio:Q", title="predicted / measured time", axis=_axis(), scale=scale)
    base = CHART.encode(y=y)
    points = base.mark_point(size=26, filled=True, opacity=0.45, color=COLOURS[0], aria=False).encode(x=x)
    bars = base.mark_tick(thickness=3, color=COLOURS[1], height=16, aria=False).encode(x=alt.X("median(ratio):Q"))
    right = alt.Chart(alt.InlineData(values=[{"ratio": 1}])).mark_rule(strokeDash=[4, 3]).encode(x="ratio:Q")
    return _with(rows, _spec(alt.layer(right, points, bars, height=max(80, 22 * len(medians)))))


def dressed(spec: Spec, *, title: str = "", ink: str = "currentColor") -> Spec:
    """Return a chart for a page, or under a ``title`` for a file that has no text around it."""
    words = {"labelColor": ink, "titleColor": ink, "labelFontSize": 12, "titleFontSize": 12}
    axis = {"titleFontWeight": 600, "gridColor": GREY, "gridOpacity": 0.25, "domainColor": GREY, "tickColor": GREY}
    # Where lines are dashed, so would be the edges of signs.
    symbols = {"symbolSize": 80, "symbolStrokeWidth": 0, "symbolOpacity": 1}
    config: Spec = {
        "font": "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif",
        "background": "white" if title else "transparent",
        "view": {"stroke": None},
        "axis": words | axis,
        "legend": words | {"orient": "bottom", "columns": 3 if title else 2, "labelLimit": 280} | symbols,
        "title": {"color": ink, "anchor": "start", "fontSize": 14, "offset": 12},
        "text": {"color": ink, "fontSize": 11},
        "rule": {"color": ink},
    }
    on_page = {"width": "container", "autosize": {"type": "fit-x", "contains": "padding"}}
    return {**spec, "config": config} | ({"width": WIDTH, "title": title, "padding": 12} if title else on_page)


def _spec(chart: Any, param: Any = None) -> Spec:
    whole = chart if param is None else chart.add_params(param)
    made: Spec = whole.to_dict(validate=False)
    made.pop("config", None)
    return made


def _layers(*charts: Any, height: int, param: Any = None) -> Spec:
    """Draw charts of the same rows upon each other; ``alt.layer`` would copy every part of each of them four times."""
    layers = [_spec(chart) for chart in charts]
    schema, data = layers[0]["$schema"], layers[0]["data"]
    for layer in layers:
        del layer["$schema"], layer["data"]
    chosen = {} if param is None else {"params": [param.param.to_dict()]}
    return {"layer": layers, "data": data, "height": height, **chosen, "$schema": schema}


def _with(rows: Sequence[Row], spec: Spec) -> Spec:
    """Put rows into a chart last: Altair would check and copy each of them several times."""
    return {**spec, "datasets": {**spec.get("datasets", {}), ROWS: list(rows)}}


def _points(base: Any, rows: Sequence[Row], *, area: int = 60, opacity: float, **encoding: Any) -> Any:
    """Draw filled signs, and open ones for the rows whose speed nothing bounds."""
    whole = base.mark_point(size=area, filled=True, opacity=opacity).encode(**encoding)
    if not any(row.get("open") for row in rows):
        return whole
    # Both layers share one encoding, which is most of a chart's text, and have all rows: of none there is no scale.
    filled = alt.Chart(alt.Undefined).mark_point(size=area, filled=True)
    hollow = alt.Chart(alt.Undefined).mark_point(size=area, filled=False, strokeWidth=1.5)
    filled.encoding = alt.FacetedEncoding(opacity=alt.condition("datum.open", alt.value(0), alt.value(opacity)))
    hollow.encoding = alt.FacetedEncoding(opacity=alt.condition("datum.open", alt.value(1), alt.value(0)))
    return alt.LayerChart(layer=[filled, hollow], encoding=whole.encoding, **_inherited(whole))


def _inherited(chart: Any) -> dict[str, Any]:
    """Return the data and the filters of a chart, for the layers that take its place."""
    return {name: value for name in ("data", "transform") if (value := getattr(chart, name)) is not alt.Undefined}


def _chosen(field: str, options: Sequence[int | str], shown: int | str, title: str) -> tuple[Any, Any]:
    """Keep the rows with one value of a field, which a list beside the chart chooses where there are several."""
    if len(options) < 2:
        return CHART.transform_filter(f"datum.{field} == {json.dumps(shown)}"), None
    at = alt.param(name="chosen", value=shown, bind=alt.binding_select(options=list(options), name=title))
    return CHART.transform_filter(f"datum.{field} == chosen"), at


def _signs(field: str, domain: list[str], *channels: str, title: str | None = None) -> dict[str, Any]:
    """Encode a field in each of ``channels``, the keys of ``SIGNS``, by a sign of its own for each value."""
    made = {}
    for name in channels:
        channel, signs = SIGNS[name]
        scale = alt.Scale(domain=domain, range=list(islice(cycle(signs), len(domain))))
        made[name] = channel(f"{field}:N", title=field if title is None else title, scale=scale)
    return made


def _log(axis: Any, field: str, title: str | list[str], rows: Sequence[Row], *, fine: bool = False) -> Any:
    """Encode a field on a logarithmic ``axis``, which is ``alt.X`` or ``alt.Y``."""
    values = [row[field] for row in rows]
    ticks = _powers_of_two(values) if field == "n" else _decades(values, fine=fine)
    return axis(f"{field}:Q", title=title, scale=alt.Scale(type="log", nice=False, padding=14), axis=_axis(ticks))


def _axis(ticks: list[float] | None = None) -> Any:
    label = "abs(datum.value) >= 1e-3 && abs(datum.value) < 1e7 || datum.value == 0 ? format(datum.value, ',.8~g')"
    at = {"values": ticks} if ticks else {"tickCount": 5}
    return alt.Axis(labelExpr=f"{label} : format(datum.value, '.0e')", labelOverlap="greedy", labelSeparation=8, **at)


def _powers_of_two(values: Sequence[float]) -> list[float]:
    """Choose ticks of an axis of n: every power of two, or every second, fourth, ... where there are many."""
    low, high = math.ceil(math.log2(min(values))), math.floor(math.log2(max(values)))
    step = 1 + (high - low) // MOST_POWERS
    # Counted from the top: the largest n is what most figures are looked at for.
    return [float(2**power) for power in range(high, low - 1, -step)][::-1]


def _decades(values: Iterable[float], *, fine: bool = False) -> list[float]:
    """Choose ticks of a logarithmic axis: powers of ten where they span it, else 1, 2 and 5 times them, else closer.

    ``fine`` passes the first over: of all the values a part is shown.
    """
    there = list(values)
    low, high = min(there), max(there)
    powers = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    for steps in ((1,), (1, 2, 5), (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9))[fine:]:
        ticks = [float(f"{step}e{power}") for power in powers for step in steps]
        inside = [tick for tick in ticks if low * 0.95 <= tick <= high * 1.05]
        if len(inside) >= 3:
            return inside
    return []


def _tooltip(*fields: str) -> list[Any]:
    return [alt.Tooltip(f"{field}:N", title=TITLES.get(field, field)) for field in fields]
