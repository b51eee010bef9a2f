"""What each source claims, judged by the records of one card: an H100, or an H200 where no H100 measured them yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from gravbench.config.published import Source, find, load
from gravbench.model.generated_bodies import is_generated
from gravbench.model.record import Record
from gravbench.model.runs import RecordFile
from gravbench.report.names import count
from gravbench.report.published import Decision, beside, decisions
from gravbench.report.remarks import words
from gravbench.verdicts.cards import together

ROOT = Path(__file__).resolve().parents[2]
WAITING = "waiting for a run"
PLURAL = {"holds": "hold", "does not hold": "do not hold"}
RUNS = {name: name for name in ("gems3", "chamomile", "lee2008", "3dgep", "bodin2026_direct", "bodin2026")} | {
    "lee2008_last": "lee2008"
}
"""Runs that follow a source, by the names of their folders; lee2008_last is of the bodies that Lee's program reads."""
CARDS = ("h100", "h200")
"""Folders of runs below reports, each of one card; the first that has a run counts."""
SUBSETS = {"even": "evenly spread bodies", "lee": "first body of each group", "lee_last": "last body of each group"}
"""What a subset of a file of bodies is, in words."""


@cache
def table() -> str:
    """Return a section for each source, in Markdown: its claims, and what the records say of them."""
    return "\n".join(map(section, RUNS))


def measured() -> list[str]:
    """Name the runs that there are."""
    return [name for name in RUNS if folder_of(name)]


def folder_of(name: str) -> Path | None:
    """Return the folder of a run; None before there is such a run."""
    folders = (ROOT / "reports" / card / name for card in CARDS)
    return next(filter(Path.is_dir, folders), None)


def section(name: str) -> str:
    """Return the claims of the source that one run follows; only their number before there is such a run."""
    source = load(find(RUNS[name]))
    folder = folder_of(name)
    (records,) = together([RecordFile(folder).read()]) if folder else [[]]
    judged = _judged(source, folder, records) if folder else [(one, "") for one in decisions(source, records)]
    counts = ", ".join(
        f"{number:,} {PLURAL.get(state, state) if number > 1 else state}"
        for state, number in Counter(_state(decision) for decision, _ in judged).items()
    )
    summary = f"{source.source}. Device of the source: {source.device}. {count(len(judged), 'claim')}: {counts}."
    missing = "" if folder else f" They are those of `{RUNS[name]}`, and wait for a run of `{name}`."
    lines = [f"### {name}", "", summary + _bodies(records) + missing, ""]
    if folder:
        lines += [f"| {_on(folder.parent.name)} | claim | setting | decided by |", "| --- | --- | --- | --- |"]
        lines += [_row(decision, name, "" if card == folder.parent.name else card) for decision, card in judged]
        lines.append("")
    return "\n".join(lines)


def _judged(source: Source, folder: Path, records: Sequence[Record]) -> list[tuple[Decision, str]]:
    """Judge each claim by the card of ``folder``, or by another where that alone has the run that the claim names."""
    own = folder.parent.name
    judged = [(decision, own) for decision in decisions(source, records, beside(folder, source))]
    for card in CARDS:
        for run, others in beside(ROOT / "reports" / card / folder.name, source).items():
            there = decisions(source, others, {run: others})
            for place, (decision, _) in enumerate(judged):
                if decision.claim.run == run and _state(decision) == WAITING:
                    judged[place] = there[place], card
    return judged


def _on(card: str) -> str:
    return f"on an {card.upper()}"


def _bodies(records: Sequence[Record]) -> str:
    """Say which bodies of a file the records are of; nothing where a generator made them."""
    of_files = {(record.bodies, record.subset) for record in records if not is_generated(record.bodies)}
    named = "; ".join(f"{Path(path).name}, {SUBSETS[subset]}" for path, subset in sorted(of_files))
    return f" Bodies: {named}." if named else ""


def _state(decision: Decision) -> str:
    """Return the verdict of a claim, or that it has none yet because a record is missing."""
    missing = decision.verdict == "cannot be tested" and not decision.claim.untestable
    return WAITING if missing else decision.verdict


def _row(decision: Decision, name: str, card: str) -> str:
    """Return the row of one claim, asked of the run of this name; ``card`` is named where it is not the run's."""
    claim = decision.claim
    run = claim.run or name
    waits = _state(decision) == WAITING
    state = f"waits for a run of `{run}`" if waits else f"**{decision.verdict}**"
    where = [f"run {decision.run}", *([_on(card)] if card else [])]
    elsewhere = f" ({', '.join(where)})" if decision.run and not waits else ""
    settings = "; ".join(dict.fromkeys(f"`{words(asked.select)}`" for asked in claim.numbers.values()))
    decided = f"`{claim.holds}`" if claim.holds else f"{claim.untestable}."
    text = " ".join(claim.text.split()).replace("<", "&lt;")
    return f"| {state}{elsewhere} | {text}. | {settings} | {decided} |"
