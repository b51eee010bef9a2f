"""The first screen of a report: what was run, what is fastest at each n and by how much, and where the rest is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import get_args

from rich.console import Console
from rich.text import Text

from gravbench.model.record import Record, Status
from gravbench.report import published, winning
from gravbench.report.names import DRIFTED, count, joined, why_unranked
from gravbench.report.numbers import UNBOUNDED, relative_error
from gravbench.report.remarks import counted
from gravbench.report.sections.content import Content
from gravbench.report.sections.fastest import fastest_part, nothing
from gravbench.report.sections.run import NOTHING as NO_RECORDS
from gravbench.report.terminal.printing import heading, say
from gravbench.report.terminal.sections import render_part
from gravbench.verdicts import ranking
from gravbench.verdicts.winners import Field

MOST_STEPS = 6
"""Steps of the ladder on a CPU that the summary names."""
MOST_FIELDS = 2
"""Further devices and tasks that have a sentence each."""


def render_summary(content: Content, console: Console, *, name: str, then: str = "", again: str = "") -> None:
    """Print the summary of one run: what is fastest answers the content's question.

    ``again`` is the command that shows the rest. Records without a GPU's end with what each step of the ladder brings,
    and ``then``, the command to try next.
    """
    heading(console, name)
    for line in _facts(content.cases):
        say(console, line)
    _fields(content, console)
    if drifted := [drift for drift in content.drifts if drift.beyond]:
        say(console, f"{DRIFTED} DRIFT: {count(len(drifted), 'anchor')} drifted; see --full.", "yellow")
    source = content.source
    if source and source.claims:
        verdicts = counted(
            decision.verdict for decision in published.decisions(source, content.records, content.others)
        )
        say(console, f"Claims of {source.source}: {', '.join(verdicts.values())}.")
    first = content.fields[0] if content.fields else None
    if first and first.cpu and first.gains:
        _steps(first, console, content.summaries)
    elif first:
        console.print()
        say(console, winning.sentence(first.headline()), "bold")
    if first and first.cpu and then:
        say(console, f"Next, {then}")
    if again:
        console.print(Text(f"Full report: {again}", style="dim"), soft_wrap=True)


def _fields(content: Content, console: Console) -> None:
    """Print the table of the first device and task, and a sentence on some of the others."""
    if not content.fields:
        lost = Counter(why_unranked(case) for case in content.cases if not ranking.is_ranked(case))
        for reason, cases in lost.most_common(MOST_FIELDS):
            say(console, f"{count(cases, 'case')}: {reason}")
        say(console, nothing(content) if content.cases else NO_RECORDS)
        return
    part = fastest_part(content.fields[0], content)
    # What drifted is one line below.
    render_part(replace(part, notes=[note for note in part.notes if not note.startswith(DRIFTED)]), console)
    further = content.fields[1:]
    # A line that says that more are left out takes the place of one.
    shown = further[: MOST_FIELDS - (len(further) > MOST_FIELDS)]
    for field in shown:
        say(console, f"{winning.title(field)}: {winning.sentence(field.headline())}")
    if more := len(further) - len(shown):
        say(console, f"and {more} more devices or tasks: --full", "dim")


def _facts(cases: Sequence[Record]) -> Iterable[str]:
    if not cases:
        return
    counts = Counter(case.status for case in cases)
    late = sum(case.outraced for case in cases)
    statuses = ", ".join(f"{counts[status]:,} {status}" for status in get_args(Status) if counts[status])
    days = sorted({case.started[:10] for case in cases})
    when = " to ".join(dict.fromkeys([days[0], days[-1]]))
    yield joined(" with driver ".join(filter(None, [case.device, case.driver])) for case in cases) or "no device"
    outraced = f" ({late:,} outraced)" if late else ""
    yield f"{when}, {count(len(cases), 'case')}: {statuses}{outraced}"


def _steps(field: Field, console: Console, summaries: Mapping[str, str]) -> None:
    shown, n = field.gains[:MOST_STEPS], field.gains[0].record.n
    say(console, f"What each step brings at n = {n:,}: its speed over that of the step it is derived from", "bold")
    for gain in shown:
        before = gain.before
        ratio = winning.ratio_words(before)
        error = f", error {relative_error(field.question.error_of(gain.record))}" * ranking.is_partial(gain.record)
        sentence = f"{ranking.named(gain.record)}: {ratio} × {ranking.named(before.record)}{error}"
        idea = summaries.get(gain.record.variant, "").partition(":")[0].removesuffix(".")
        say(console, ". ".join(filter(None, [sentence, idea])), indent=2)
    leads = [gain.before for gain in shown] + [win.next for win in field.asked() if win.next]
    for note in winning.narrow_notes(gain.before for gain in shown):
        say(console, note, "yellow")
    if not all(behind.sure and behind.interval.bounded for behind in leads):
        say(console, f"{UNBOUNDED}: there are too few samples for an interval")
