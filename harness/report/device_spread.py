"""What is said of the differences between cards that share the cases of a run, in a terminal and on a page."""

from __future__ import annotations

from gravbench.report.numbers import number, percent
from gravbench.verdicts.cards import Difference

HEADERS = ("anchor", "card", "times", "ms", "differs by %", "interval, %")
READING = (
    "The tables above treat cards of one kind that share the cases as one device. This one shows how these cards "
    "differ, by the anchors that each repeated. times: repetitions. ms: the geometric mean of the medians. interval: "
    "of the difference from the first card, with 95 % confidence by Student's t."
)


def unknown(device: str) -> str:
    """Say that nothing tells how the cards of a device differ."""
    return f"{device}: no anchor was repeated on more than one of these cards, so their differences are not known."


def cells(found: Difference) -> list[str]:
    """Write one row under ``HEADERS``."""
    interval = f"{_signed(found.low)} to {_signed(found.high)}" if found.low > 0 else "unbounded"
    apart = ["", ""] if found.first else [_signed(found.ratio), interval]
    return [found.anchor.label, found.card[1], f"{found.repetitions:,}", number(1e3 * found.seconds), *apart]


def _signed(ratio: float) -> str:
    written = percent(ratio - 1)
    return written if written.startswith("-") else f"+{written}"
