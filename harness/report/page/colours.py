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
SMALLEST = 1000
"""Number of bodies below which the time is mostly that of a launch."""
MOST_RIVALS = 4
"""What a win against as many other variants counts, or against more."""
FIELDS = ("variant", "method")
"""Fields of the rows of a figure whose values begin with the name of a variant."""
SEVERAL = "_gpus"
"""Ends the name of a variant that shares an evaluation among GPUs; it has the colour of the variant for one."""
OTHERS = "Grey: the other variants; point at a marker to see its name."
Palette = Mapping[str, str]


def palette(fields: Sequence[Field], order: Sequence[str], parents: Parents) -> Palette:
    """Give a colour to the five variants that win most, and to the first step of their ladder.

    What counts are the winners at each n and error of the device and task with most records, of GPUs before CPUs; the
    next ones count less. ``order`` is that of the ladder, in which variants are added where fewer than five win.
    """
    best: Counter[str] = Counter()
    for field in main_of(fields):
        for win in {id(win.record): win for win in field.wins if win.n >= SMALLEST}.values():
            rivals = min(win.variants - 1, MOST_RIVALS)
            best[_name(win.record.variant)] += rivals if field.cpu else 4 * rivals
            if win.next:
                best[_name(win.next.record.variant)] += 0 if field.cpu else rivals
    names = [name for name, _ in best.most_common(MOST - 1)]
    first = [name_of_root for name in names if (name_of_root := root(name, parents))]
    chosen = list(dict.fromkeys([*names, *first, *order]))[:MOST]
    # In the order of the ladder, so that a variant's colour does not depend on who wins most.
    chosen.sort(key=lambda name: order.index(name) if name in order else len(order))
    return dict(zip(chosen, COLOURS, strict=False))


def main_of(fields: Sequence[Field]) -> list[Field]:
    """Return the field with most records of the GPUs, and that of the CPUs."""
    return [alike[0] for cpu in (False, True) if (alike := [field for field in fields if field.cpu == cpu])]


def coloured(figure: Figure, colours: Palette) -> Figure:
    """Give each series of a figure the colour of its variant; a legend of variants has the highlighted ones alone."""
    if not colours:
        return figure
    spec = _recoloured(figure.spec, colours)
    rows = figure.spec["datasets"][ROWS]
    field = next((name for name in FIELDS if rows and name in rows[0]), None)
    if field and "bar" not in rows[0]:
        # What is drawn last lies on top.
        rows = sorted(rows, key=lambda row: _name(row[field]) in colours)
        spec = {**spec, "datasets": {ROWS: rows}}
        named = {_name(row[field]) in colours for row in rows}
        if field == FIELDS[0] and len(named) > 1:
            figure = replace(figure, caption=f"{figure.caption} {OTHERS}")
    return replace(figure, spec=spec)


def _recoloured(part: Any, colours: Palette) -> Any:
    if isinstance(part, list):
        return [_recoloured(item, colours) for item in part]
    if not isinstance(part, dict):
        return part
    made = {name: value if name == "datasets" else _recoloured(value, colours) for name, value in part.items()}
    if "encoding" in made:
        made["encoding"] = {
            channel: _channel(channel, encoding, colours) if isinstance(encoding, dict) else encoding
            for channel, encoding in made["encoding"].items()
        }
    return made


def _channel(channel: str, encoding: dict[str, Any], colours: Palette) -> dict[str, Any]:
    domain = encoding.get("scale", {}).get("domain") if isinstance(encoding.get("scale"), dict) else None
    if encoding.get("field") not in FIELDS or not domain:
        return encoding
    if channel == "color":
        encoding = {
            **encoding,
            "scale": {**encoding["scale"], "range": [colours.get(_name(value), GREY) for value in domain]},
        }
    shown = [value for value in domain if _name(value) in colours]
    # A legend of the highlighted series; where none is there, of all, as of methods: not each has room for its name.
    if encoding["field"] == FIELDS[0] and shown and len(shown) < len(domain) and "legend" not in encoding:
        encoding = {**encoding, "legend": {"values": shown}}
    return encoding


def _name(series: str) -> str:
    """Return the variant of a series, which may have axes behind it: ``symmetric equal_mass=1``; that for one GPU."""
    return series.partition(" ")[0].removesuffix(SEVERAL)
