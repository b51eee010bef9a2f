"""What each source claims, judged by the records of an H200."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

from gravbench.config.published import find, load
from gravbench.model.runs import RecordFile
from gravbench.report.published import decide
from gravbench.verdicts.cards import together

ROOT = Path(__file__).resolve().parents[2]
PLURAL = {"holds": "hold", "does not hold": "do not hold"}
RUNS = ("gems3", "chamomile", "lee2008", "3dgep", "bodin2026_direct", "bodin2026")
"""Runs below reports/h200 that follow the source of the same name."""


@cache
def table() -> str:
    """Return a section for each source, in Markdown: its claims, and what the records say of them."""
    return "\n".join(section(name) for name in RUNS if (ROOT / "reports" / "h200" / name).is_dir())


def section(name: str) -> str:
    """Return the claims of one source."""
    source = load(find(name))
    (records,) = together([RecordFile(ROOT / "reports" / "h200" / name).read()])
    decisions = [decide(source, claim, records) for claim in source.claims]
    counts = ", ".join(
        f"{number} {PLURAL.get(verdict, verdict) if number > 1 else verdict}"
        for verdict, number in Counter(one.verdict for one in decisions).items()
    )
    lines = [
        f"### {name}",
        "",
        f"{source.source}. Device of the source: {source.device}. {len(decisions)} claims: {counts}.",
        "",
    ]
    if decisions:
        lines += ["| on an H200 | claim |", "| --- | --- |"]
        lines += [
            f"| **{one.verdict}** | {' '.join(one.claim.text.split())} |".replace("<", "&lt;") for one in decisions
        ]
        lines.append("")
    return "\n".join(lines)
