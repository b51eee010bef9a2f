"""What searches of a recorded sweep needed, as a figure in a file of its own."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

from gravbench.errors import InputError, nearest
from gravbench.report.numbers import number
from gravbench.report.page import charts
from gravbench.search.summary import Searched, titles

KINDS = (".svg", ".html")


def check(path: Path) -> None:
    """See that a figure can have this name.

    Raises:
        InputError: the ending is none of ``KINDS``.
    """
    if path.suffix not in KINDS:
        end = path.suffix or "missing"
        raise InputError(f"--figure {path}: the ending is {end}; {nearest(path.suffix, list(KINDS))}")


def write(searched: Sequence[Searched], path: Path, within: float) -> None:
    """Draw the measurements of each strategy, contest by contest: one SVG, or one page that works offline."""
    import vl_convert

    title = f"Measurements until one is within {100 * within:g} % of the fastest: median and 9 out of 10 searches"
    spec = charts.dressed(figure(searched), title=title, ink="#222222")
    text = json.dumps(spec)
    made = (
        vl_convert.vegalite_to_html(text, bundle=True) if path.suffix == ".html" else vl_convert.vegalite_to_svg(text)
    )
    path.write_text(made, "utf-8")


def figure(searched: Sequence[Searched]) -> charts.Spec:
    """Make the chart; a line whose end is not known ends at the number of cases, a median that is not has no sign."""
    named = dict(zip(titles(searched), searched, strict=True))
    rows = [
        {
            "contest": title,
            "cases": len(contest.board.records),
            "strategy": effort.strategy,
            "median": effort.median,
            "rarely": min(effort.rarely, float(len(contest.board.records))),
            "measurements": number(effort.median, 3, zeros=False),
            "9 of 10": number(effort.rarely, 3, zeros=False)
            if math.isfinite(effort.rarely)
            else "more than there are cases",
            "not found": f"{effort.missed} of {effort.repeated}",
        }
        for title, contest in named.items()
        for effort in contest.efforts
        if math.isfinite(effort.median)
    ]
    strategies = list(dict.fromkeys(effort.strategy for contest in searched for effort in contest.efforts))
    return charts.efforts(rows, list(named), strategies)
