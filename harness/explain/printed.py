"""A ledger in a terminal, and as one JSON object."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.console import Console

from gravbench.explain.explained import Explained, Row
from gravbench.explain.sections import SLOT, conclusion, sections
from gravbench.report.terminal.printing import GAP, heading, say, say_all, section
from gravbench.report.terminal.table import table


def render(found: Explained, console: Console) -> None:
    """Print the tables, and last what bounds each loop."""
    heading(console, f"gravbench explain: {found.title}")
    say_all(console, found.conditions)
    say(console, SLOT)
    for one in sections(found):
        section(console, one.title, one.reading)
        console.print(table(console, one.columns, one.rows))
    console.print()
    sentence, each = conclusion(found)
    say(console, sentence)
    for one_of_them in each:
        say(console, one_of_them, indent=GAP)


def as_json(found: Explained) -> dict[str, Any]:
    """Return all that is known, for machines."""
    return {
        "asked": [
            {"variant": one.variant.name, "axes": dict(one.axes), "n": one.n, "dtype": one.dtype} for one in found.asked
        ],
        "compiler": found.compiler,
        "multiprocessors": found.multiprocessors,
        "mhz": found.mhz,
        "kernels": [
            {
                **{name: value for name, value in asdict(ledger).items() if name != "inner"},
                "occupancy": asdict(held) | {"part": held.part} if (held := ledger.occupancy) else None,
                "loops": [_loop(found, row) for row in found.rows if row.ledger is ledger],
            }
            for ledger in found.ledgers
        ],
    }


def _loop(found: Explained, row: Row) -> dict[str, Any]:
    bound = found.bound(row)
    return {
        "name": row.name,
        **asdict(row.inner),
        "bound": {
            "interactions_per_second": bound.interactions_per_second,
            "by": list(bound.by),
            "used": dict(bound.used),
        },
    }
