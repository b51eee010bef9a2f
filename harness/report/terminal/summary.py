"""The first screen of a report: what was run, what is fastest at each n and by how much, and where the rest is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import get_args

from rich.console import Console
from rich.text import Text

from gravbench.config.published import Source
from gravbench.model.record import Record, Status
from gravbench.model.runs import latest
from gravbench.report import published, winning
from gravbench.report.names import count, joined, why_unranked
from gravbench.report.numbers import UNBOUNDED, number, relative_error, times
from gravbench.report.provenance import Here, sign_notes, signs
from gravbench.report.remarks import counted
from gravbench.report.terminal.comparison import VERDICT_STYLES
from gravbench.report.terminal.printing import heading, say, say_all, subsection
from gravbench.report.terminal.table import Column, table
from gravbench.verdicts import ranking
from gravbench.verdicts.question import USUAL, Question
from gravbench.verdicts.ranking import Parents
from gravbench.verdicts.winners import Field, Win, winners

NO_SUMMARIES: Mapping[str, str] = {}
MOST_STEPS = 6
"""Steps of the ladder on a CPU that the summary names."""
MOST_FIELDS = 2
"""Further devices and tasks that have a sentence each."""


def render_summary(
    records: Sequence[Record],
    console: Console,
    parents: Parents,
    here: Here,
    *,
    name: str,
    source: Source | None = None,
    others: published.Others = published.NO_OTHERS,
    summaries: Mapping[str, str] = NO_SUMMARIES,
    then: str = "",
    again: str = "",
    question: Question = USUAL,
) -> None:
    """Print the summary of ``records``, of one run: what is fastest answers the ``question``.

    ``others`` are the runs beside this one that claims of the ``source`` name. ``again`` is the command that shows the
    rest. Records without a GPU's end with what each step of the ladder brings, with the ``summaries`` of the variants,
    and ``then``, the command to try next.
    """
    cases = latest(records)
    heading(console, name)
    for line in _facts(cases):
        say(console, line)
    fields = winners([records], parents, question)
    if not fields:
        lost = Counter(why_unranked(case) for case in cases if not ranking.is_ranked(case))
        for reason, times in lost.most_common(MOST_FIELDS):
            say(console, f"{count(times, 'case')}: {reason}")
        say(
            console,
            "No case is ok, so there is nothing to rank."
            if cases
            else "There are no records yet; gravbench run writes them.",
        )
    for field in fields[:1]:
        _main(field, console, here)
    further = fields[1:]
    # A line that says that more are left out takes the place of one.
    told = further[: MOST_FIELDS - (len(further) > MOST_FIELDS)]
    for field in told:
        say(console, f"{winning.title(field)}: {winning.sentence(field.headline())}")
    if more := len(further) - len(told):
        say(console, f"and {more} more devices or tasks: --full", "dim")
    if drifted := ranking.drifted(records):
        say(console, f"DRIFT: {count(len(drifted), 'anchor')} drifted; see --full.", "yellow")
    if source and source.claims:
        said = counted(decision.verdict for decision in published.decisions(source, records, others))
        say(console, f"Claims of {source.source}: {', '.join(said.values())}.")
    on_cpu = bool(fields) and fields[0].cpu
    if on_cpu and fields[0].gains:
        _steps(fields[0], console, summaries)
    elif fields:
        console.print()
        say(console, winning.sentence(fields[0].headline()), "bold")
    if on_cpu and then:
        say(console, f"Next, {then}")
    if again:
        console.print(Text(f"Full report: {again}", style="dim"), soft_wrap=True)


def _facts(cases: Sequence[Record]) -> Iterable[str]:
    if not cases:
        return
    found = Counter(case.status for case in cases)
    late = sum(case.outraced for case in cases)
    statuses = ", ".join(f"{found[status]:,} {status}" for status in get_args(Status) if found[status])
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
        said = f"{ranking.named(gain.record)}: {ratio} × {ranking.named(before.record)}{error}"
        idea = summaries.get(gain.record.variant, "").partition(":")[0].removesuffix(".")
        say(console, ". ".join(filter(None, [said, idea])), indent=2)
    leads = [gain.before for gain in shown] + [win.next for win in field.asked() if win.next]
    for note in winning.narrow_notes(gain.before for gain in shown):
        say(console, note, "yellow")
    if not all(one.sure and one.interval.bounded for one in leads):
        say(console, f"{UNBOUNDED}: there are too few samples for an interval")


def _main(field: Field, console: Console, here: Here) -> None:
    rows = field.asked()
    question, largest = rows[-1].question, rows[-1]
    subsection(console, f"Fastest at each n, {winning.within_words(question)}: {winning.title(field)}")
    if question != field.question:
        say(console, f"Nothing has {winning.within_words(field.question)}.", "yellow")
    console.print(table(console, _columns(here, rows), rows))
    others = [
        f"within {winning.limit_words(win.question.error)}: {winning.name_of(win.record)}, {_ms(win)} ms"
        for win in field.at(largest.n)
        if win.record is not largest.record
    ]
    if others:
        bodies = winning.bodies_words(question.quantile)
        say(console, f"n = {largest.n:,}, {bodies} {'; '.join(others)}")
    winners = [win.record for win in rows]
    say_all(console, winning.narrow_notes(behind for win in rows for behind in (win.next, win.first)), "yellow")
    say_all(console, winning.quantile_notes(winners, question.quantile))
    if presupposed := winning.presupposed(one.record for win in rows for one in (win, win.next) if one):
        say(console, presupposed)
    say_all(console, sign_notes(winners) + here.notes(winners), "yellow")


def _columns(here: Here, rows: Sequence[Win]) -> list[Column[Win]]:
    first = winning.first_label(win.first.record.variant for win in rows if win.first)
    return [
        Column("n", lambda win: f"{win.n:,}", 0),
        Column("fastest", lambda win: ranking.named(win.record), 0, text=True, style="bold"),
        Column("", lambda win: signs(win.record) + here.sign(win.record), 0, text=True),
        Column("toolkit", lambda win: win.record.toolkit, 3, text=True),
        Column("ms", _ms, 0),
        Column("1e9 inter-\nactions/s", lambda win: number(times(ranking.speed(win.record), 1e-9)), 6),
        Column(f"{winning.quantile_words(rows[0].question.quantile)}\nerror", winning.error_words, 4),
        Column("speed-up over\nrunner-up", winning.lead_words, 1, style=_verdict),
        Column("runner-up", lambda win: ranking.named(win.next.record) if win.next else "", 2, text=True),
        Column(first.replace(" ", "\n", 1), lambda win: winning.ratio_words(win.first) if win.first else "", 5),
        Column("configuration", lambda win: win.record.configuration, 9, text=True),
    ]


def _ms(win: Win) -> str:
    return number(1e3 * ranking.seconds(win.record), 3)


def _verdict(cell: str) -> str:
    return VERDICT_STYLES["UNCLEAR"] if cell.endswith("UNCLEAR") else ""
