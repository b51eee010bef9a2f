"""A ledger in a terminal, and as one JSON object."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.text import Text

from gravbench.explain.bars import Bar
from gravbench.explain.explained import Explained, Row
from gravbench.explain.sections import SLOT, conclusion, sections, shares
from gravbench.report.terminal.printing import GAP, heading, say, say_all, section
from gravbench.report.terminal.table import table


def render(explained: Explained, console: Console, bars: Sequence[Bar] = ()) -> None:
    """Print the tables, what bounds each loop, and last where the measured time of the cases goes."""
    heading(console, f"gravbench explain: {explained.title}")
    say_all(console, explained.conditions)
    say(console, SLOT)
    for content in sections(explained):
        section(console, content.title, content.reading)
        console.print(table(console, content.columns, content.rows))
    console.print()
    sentence, each = conclusion(explained)
    say(console, sentence)
    for one_of_them in each:
        say(console, one_of_them, indent=GAP)
    for bar in bars:
        _render_bar(bar, console)


def _render_bar(bar: Bar, console: Console) -> None:
    made = shares(bar)
    section(console, made.title, made.reading)
    if bar.parts:
        console.print(Text(bar.drawn(console.width), no_wrap=True))
        console.print(table(console, made.columns, made.rows))


def as_json(explained: Explained, bars: Sequence[Bar] = ()) -> dict[str, Any]:
    """Return all that is known, for machines."""
    return {
        "measured": [
            {
                "case": bar.record.label,
                "device": bar.record.device,
                "picoseconds": bar.picoseconds,
                "parts": [asdict(part) | {"share": share} for _, part, share in bar.slices],
                "why_none": bar.why or None,
            }
            for bar in bars
        ],
        "asked": [
            {"variant": case.variant.name, "axes": dict(case.axes), "n": case.n, "dtype": case.dtype}
            for case in explained.asked
        ],
        "compiler": explained.compiler,
        "kernels_without_such_a_loop": list(explained.without),
        "multiprocessors": explained.multiprocessors,
        "mhz": explained.mhz,
        "kernels": [
            {
                **{name: value for name, value in asdict(ledger).items() if name != "inner"},
                "occupancy": asdict(held) | {"part": held.part} if (held := ledger.occupancy) else None,
                "side": number,
                "loops": [
                    _loop(explained, row) for row in explained.rows if row.ledger is ledger and row.side == number
                ],
            }
            for number, side in enumerate(explained.sides)
            for ledger in side
        ],
    }


def _loop(explained: Explained, row: Row) -> dict[str, Any]:
    bound = explained.bound(row)
    return {
        "name": row.name,
        **asdict(row.inner),
        "bound": {
            "interactions_per_second": bound.interactions_per_second,
            "by": list(bound.by),
            "used": dict(bound.used),
        },
    }
