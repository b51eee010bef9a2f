"""A ledger as a page: one file without a script, which asks the network for nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gravbench.explain.bars import Bar
from gravbench.explain.explained import Explained
from gravbench.explain.pipes import PIPES
from gravbench.explain.sections import SLOT, conclusion, sections, shares
from gravbench.report.page import html

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
COLOURS = ("#8ecae6", "#ffb703", "#f4978e", "#b7e4c7", "#cdb4db", "#90be6d", "#d9d9d9", "#adb5bd", "#e9ecef")
"""Of the pipes, on which dark letters can be read."""
SHADES = (*COLOURS, "#f1f3f5")
"""Of the parts of a measured time."""
WIDEST = 70.0
"""Percent of the page that the longest bar takes; the rest is for labels beside it."""
NARROW = 64
"""In rem: where the window is narrower, all labels stand beside the bar, or below it."""
LETTER, PADDING = 0.45, 0.6
"""In rem: the width of a letter of a label, and what is beside a label in its slice."""


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of a bar with its label; ``width`` is in percent of the page, and not drawn where it is not above zero."""

    label: str
    title: str
    width: float
    colour: str

    @property
    def fits(self) -> bool:
        """Whether the label has room in it, unless the window is narrow."""
        return self.width / 100 * (NARROW - 2) >= LETTER * len(self.label) + PADDING


def page(explained: Explained, bars: Sequence[Bar] = ()) -> str:
    """Return the whole page."""
    template = html.templates(Path(__file__).parent).get_template("page.html")
    widest = max(row.inner.slots for row in explained.rows)
    return template.render(
        title=f"gravbench explain: {explained.title}",
        conditions=explained.conditions,
        policy=POLICY,
        style=(html.HERE / "page.css").read_text("utf-8"),
        slot=SLOT,
        conclusion=conclusion(explained),
        rows=explained.rows,
        pipes_of=lambda row: pipes_of(row.inner.pipes, WIDEST / widest),
        parts_of=parts_of,
        narrow=NARROW,
        sections=list(sections(explained)),
        bars=[(bar, shares(bar)) for bar in bars],
    )


def pipes_of(pipes: Mapping[str, float], scale: float) -> list[Slice]:
    """Return the slices of a loop, a pipe each, as wide as its slots times ``scale``."""
    colours = dict(zip(PIPES, COLOURS, strict=True))
    labels = {pipe: f"{pipe} {slots:.2f}" for pipe, slots in pipes.items()}
    return [Slice(labels[pipe], labels[pipe], slots * scale, colours[pipe]) for pipe, slots in pipes.items()]


def parts_of(bar: Bar) -> list[Slice]:
    """Return the slices of a measured time; together, those that are drawn are as wide as a bar can be."""
    scale = WIDEST / sum(max(0.0, share) for _, _, share in bar.slices)
    return [
        Slice(
            part.name,
            f"{part.name}: {part.picoseconds:.4f} ps, {100 * share:.1f} %",
            max(0.0, share) * scale,
            colour,
        )
        for (_, part, share), colour in zip(bar.slices, SHADES, strict=False)
    ]
