"""What each source claims, judged by the records of one H100."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from gravbench.config.published import find, load
from gravbench.model.generated_bodies import is_generated
from gravbench.model.record import Record
from gravbench.model.runs import RecordFile
from gravbench.report.names import count
from gravbench.report.published import Decision, beside, decisions
from gravbench.report.remarks import words
from gravbench.verdicts.cards import together

REPORTS = Path(__file__).resolve().parents[2] / "reports" / "h100"
PLURAL = {"holds": "hold", "does not hold": "do not hold"}
RUNS = {name: name for name in ("gems3", "chamomile", "lee2008", "3dgep", "bodin2026_direct", "bodin2026")} | {
    "lee2008_last": "lee2008"
}
"""Runs that follow a source, by the names of their folders; lee2008_last is of the bodies that Lee's program reads."""
SUBSETS = {"even": "evenly spread bodies", "lee": "first body of each group", "lee_last": "last body of each group"}
"""What a subset of a file of bodies is, in words."""


@cache
def table() -> str:
    """Return a section for each source, in Markdown: its claims, and what the records say of them."""
    return "\n".join(map(section, RUNS))


def section(name: str) -> str:
    """Return the claims of the source that one run follows."""
    source, folder = load(find(RUNS[name])), REPORTS / name
    (records,) = together([RecordFile(folder).read()])
    judged = decisions(source, records, beside(folder, source))
    counts = ", ".join(
        f"{number:,} {PLURAL.get(verdict, verdict) if number > 1 else verdict}"
        for verdict, number in Counter(decision.verdict for decision in judged).items()
    )
    summary = f"{source.source}. Device of the source: {source.device}. {count(len(judged), 'claim')}: {counts}."
    lines = [f"### {name}", "", summary + _bodies(records), ""]
    lines += ["| on an H100 | claim | setting | decided by |", "| --- | --- | --- | --- |"]
    return "\n".join([*lines, *map(_row, judged), ""])


def _bodies(records: Sequence[Record]) -> str:
    """Say which bodies of a file the records are of; nothing where a generator made them."""
    of_files = {(record.bodies, record.subset) for record in records if not is_generated(record.bodies)}
    named = "; ".join(f"{Path(path).name}, {SUBSETS[subset]}" for path, subset in sorted(of_files))
    return f" Bodies: {named}." if named else ""


def _row(decision: Decision) -> str:
    """Return the row of one claim."""
    claim = decision.claim
    elsewhere = f" (run {decision.run})" if decision.run else ""
    settings = "; ".join(dict.fromkeys(f"`{words(asked.select)}`" for asked in claim.numbers.values()))
    decided = f"`{claim.holds}`" if claim.holds else f"{claim.untestable}."
    text = " ".join(claim.text.split()).replace("<", "&lt;")
    return f"| **{decision.verdict}**{elsewhere} | {text}. | {settings} | {decided} |"
