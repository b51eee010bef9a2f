"""One colour for each variant in all figures of a page: six are highlighted, the others are grey.

Grey series keep signs and dashes of their own, and tooltips name them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gravbench.report.page.charts import COLOURS, GREY, ROWS
from gravbench.report.page.kinds import Figure
from gravbench.verdicts.ranking import Parents, root
from gravbench.verdicts.winners import Field

MOST = 6
"""Variants with a colour of their own."""
FIELDS = ("variant", "method")
"""Fields of the rows of a figure whose values begin with the name of a variant."""
Palette = Mapping[str, str]


def palette(fields: Sequence[Field], order: Sequence[str], parents: Parents) -> Palette:
    """Give the six variants that win most a colour each, on GPUs first; then the first steps of their ladders.

    A variant counts once for each n and error that it wins, and twice where it leads by half. ``order`` is that of the
    ladder, in which variants are added where fewer than six win.
    """
    wins: Counter[str] = Counter()
    for field in fields:
        for win in field.wins:
            lead = win.next.interval.ratio if win.next else 1.0
            wins[win.record.variant] += (1 if field.cpu else 3) * (2 if lead > 1.5 else 1)
    best = [name for name, _ in wins.most_common(MOST - 1)]
    first = [one for name in best if (one := root(name, parents))]
    chosen = list(dict.fromkeys([*best, *first, *order]))[:MOST]
    # In the order of the ladder, so that a variant's colour does not depend on who wins most.
    chosen.sort(key=lambda name: order.index(name) if name in order else len(order))
    return dict(zip(chosen, COLOURS, strict=False))


def coloured(figure: Figure, colours: Palette) -> Figure:
    """Give each series of a figure the colour of its variant; the highlighted ones alone have a place in the legend."""
    if not colours:
        return figure
    spec = _recoloured(figure.spec, colours)
    rows = figure.spec["datasets"][ROWS]
    field = next((name for name in FIELDS if rows and name in rows[0]), None)
    if field and "bar" not in rows[0]:
        # What is drawn last lies on top.
        rows = sorted(rows, key=lambda row: _name(row[field]) in colours)
        spec = {**spec, "datasets": {ROWS: rows}}
    return replace(figure, spec=spec)


def _recoloured(part: Any, colours: Palette) -> Any:
    if isinstance(part, list):
        return [_recoloured(one, colours) for one in part]
    if not isinstance(part, dict):
        return part
    made = {name: value if name == "datasets" else _recoloured(value, colours) for name, value in part.items()}
    if "encoding" in made:
        made["encoding"] = {
            channel: _channel(channel, own, colours) if isinstance(own, dict) else own
            for channel, own in made["encoding"].items()
        }
    return made


def _channel(channel: str, own: dict[str, Any], colours: Palette) -> dict[str, Any]:
    domain = own.get("scale", {}).get("domain") if isinstance(own.get("scale"), dict) else None
    if own.get("field") not in FIELDS or not domain:
        return own
    if channel == "color":
        own = {**own, "scale": {**own["scale"], "range": [colours.get(_name(value), GREY) for value in domain]}}
    shown = [value for value in domain if _name(value) in colours]
    # A legend of one series for each highlighted name; where none is there, of all.
    if shown and len(shown) < len(domain) and "legend" not in own:
        own = {**own, "legend": {"values": shown}}
    return own


def _name(series: str) -> str:
    """Return the variant of a series, which may have axes behind it: ``symmetric equal_mass=1``."""
    return series.partition(" ")[0]
