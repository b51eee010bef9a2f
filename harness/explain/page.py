"""A ledger as a page: one file without a script, which asks the network for nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from gravbench.explain.bars import Bar
from gravbench.explain.explained import Explained
from gravbench.explain.pipes import PIPES
from gravbench.explain.sections import SLOT, conclusion, sections, shares
from gravbench.report.page import html

HERE = Path(__file__).parent
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
COLOURS = ("#8ecae6", "#ffb703", "#f4978e", "#b7e4c7", "#cdb4db", "#90be6d", "#d9d9d9", "#adb5bd", "#e9ecef")
"""Of the pipes, on which dark letters can be read."""
SHADES = (*COLOURS, "#f1f3f5")
"""Of the parts of a measured time."""


def page(found: Explained, bars: Sequence[Bar] = ()) -> str:
    """Return the whole page."""
    template = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    ).get_template("page.html")
    rows = found.rows
    shown = list(sections(found))
    return template.render(
        title=f"gravbench explain: {found.title}",
        conditions=found.conditions,
        policy=POLICY,
        style=(html.HERE / "page.css").read_text("utf-8"),
        slot=SLOT,
        conclusion=conclusion(found),
        rows=rows,
        widest=max(row.inner.slots for row in rows),
        colours={pipe: colour for pipe, colour in zip(PIPES, COLOURS, strict=True) if _used(found, pipe)},
        sections=shown,
        bars=[(bar, shares(bar)) for bar in bars],
        shades=SHADES,
    )


def _used(found: Explained, pipe: str) -> bool:
    return any(pipe in row.inner.pipes for row in found.rows)
