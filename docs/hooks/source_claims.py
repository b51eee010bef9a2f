"""What each source claims, judged by the records of an H200."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

from gravbench.config.published import find, load
from gravbench.model.runs import RecordFile
from gravbench.report.names import count
from gravbench.report.published import Decision, beside, decisions
from gravbench.report.remarks import lacking
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
    folder = ROOT / "reports" / "h200" / name
    (records,) = together([RecordFile(folder).read()])
    judged = decisions(source, records, beside(folder, source))
    counts = ", ".join(
        f"{number} {PLURAL.get(verdict, verdict) if number > 1 else verdict}"
        for verdict, number in Counter(decision.verdict for decision in judged).items()
    )
    lines = [
        f"### {name}",
        "",
        f"{source.source}. Device of the source: {source.device}. {count(len(judged), 'claim')}: {counts}.",
        "",
    ]
    if judged:
        lines += ["| on an H200 | claim |", "| --- | --- |"]
        lines += [_row(decision) for decision in judged]
        lines.append("")
    return "\n".join(lines)


def _row(decision: Decision) -> str:
    why = f" Not tested: {lacking(decision)}." if lacking(decision) else ""
    run = f" (run {decision.run})" if decision.run else ""
    return f"| **{decision.verdict}**{run} | {' '.join(decision.claim.text.split())}.{why} |".replace("<", "&lt;")
