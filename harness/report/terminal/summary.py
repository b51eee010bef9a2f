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
from gravbench.report.here import CUT_SHORT, PARTIAL, UNCOUNTED, Here, Origin, signs
from gravbench.report.names import count, joined, why_unranked
from gravbench.report.numbers import UNBOUNDED, number, relative_error, times
from gravbench.report.remarks import counted
from gravbench.report.terminal.comparison import VERDICT_STYLES
from gravbench.report.terminal.printing import heading, say, subsection
from gravbench.report.terminal.table import Column, table
from gravbench.verdicts import ranking
from gravbench.verdicts.best import ERROR
from gravbench.verdicts.ranking import Parents
from gravbench.verdicts.winners import Field, Win, error_of, winners

FEWEST_ROWS = 4
"""Values of n in the summary's table, so that it fits a screen of 24 lines of 80 columns; a larger one has more."""
OTHER_LINES, MORE_LINES, WIDE = 17, 4, 100
"""Lines of the summary that are not rows of its table: so many, and more on less than so many columns."""
SIGNS = {
    PARTIAL: "an approximation: interactions/s count only those it computes",
    UNCOUNTED: "an approximation that does not count its interactions",
    CUT_SHORT: "outraced: sampling stopped once it was clear that another case is faster",
}
ORIGINS = {
    Origin.OTHER: "measured with different source code from this checkout",
    Origin.GONE: "this checkout has no such variant",
}
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
) -> None:
    """Print the summary of ``records``, of one run.

    ``others`` are the runs beside this one that claims of the ``source`` name. ``again`` is the command that shows the
    rest. Records without a GPU's end with what each step of the ladder brings, with the ``summaries`` of the variants,
    and ``then``, the command to try next.
    """
    cases = latest(records)
    heading(console, name)
    for line in _facts(cases):
        say(console, line)
    fields = winners([records], parents)
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
        say(console, f"{winning.title(field)}: {winning.sentence(_within(field)[-1])}")
    more, drifted = len(further) - len(told), ranking.drifted(records)
    hidden = f"and {more} more devices or tasks. " if more else ""
    if drifted:
        say(console, f"{hidden}DRIFT: {count(len(drifted), 'anchor')} drifted; see --full.", "yellow")
    elif hidden:
        say(console, f"{hidden.strip()[:-1]}: --full", "dim")
    if source and source.claims:
        said = counted(decision.verdict for decision in published.decisions(source, records, others))
        say(console, f"Claims of {source.source}: {', '.join(said.values())}.")
    on_cpu = bool(fields) and fields[0].cpu
    if on_cpu and fields[0].gains:
        _steps(fields[0], console, summaries)
    elif fields:
        console.print()
        say(console, winning.sentence(_last(fields[0])), "bold")
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


def _last(field: Field) -> Win:
    """Return the winner at the largest n at which it beats something, within the error that is the default."""
    wins = _within(field)
    return next((win for win in reversed(wins) if win.next or win.root), wins[-1])


def _within(field: Field) -> list[Win]:
    return field.within(ERROR) or field.wins


def _steps(field: Field, console: Console, summaries: Mapping[str, str]) -> None:
    shown, n = field.gains[:MOST_STEPS], field.gains[0].record.n
    say(console, f"What each step brings at n = {n:,}: its speed over that of the step it is derived from", "bold")
    for gain in shown:
        before = gain.before
        ratio = winning.ratio_words(before)
        error = f", error {relative_error(error_of(gain.record))}" * ranking.is_partial(gain.record)
        said = f"{ranking.named(gain.record)}: {ratio} × {ranking.named(before.record)}{error}"
        idea = summaries.get(gain.record.variant, "").partition(":")[0].removesuffix(".")
        say(console, ". ".join(filter(None, [said, idea])), indent=2)
    leads = [gain.before for gain in shown] + [win.next for win in _within(field) if win.next]
    for note in winning.narrow_notes(gain.before for gain in shown):
        say(console, note, "yellow")
    if not all(one.sure and one.interval.bounded for one in leads):
        say(console, f"{UNBOUNDED}: there are too few samples for an interval")


def _main(field: Field, console: Console, here: Here) -> None:
    usual = field.within(ERROR)
    shown = usual or field.within(max(win.limit for win in field.wins))
    limit = f"error ≤ {winning.limit_words(ERROR if usual else max(win.limit for win in shown))}"
    kind = winning.error_kind(win.record for win in shown)
    subsection(console, f"Fastest at each n, {limit} ({kind}): {winning.title(field)}")
    presupposed = winning.presupposed(one.record for win in shown for one in (win, win.next) if one)
    notes = winning.narrow_notes(behind for win in shown for behind in (win.next, win.root))
    of_method = here.method_note([win.record for win in shown])
    lines = -(-len(presupposed) // console.width) - (-len(of_method) // console.width) + len(notes)
    beside = OTHER_LINES + MORE_LINES * (console.width < WIDE) + lines
    most = max(2, FEWEST_ROWS - lines, console.height - beside)
    # A line that says that one row is left out takes the place of that row.
    rows = shown if len(shown) == most + 1 else winning.spread(shown, most)
    console.print(table(console, _columns(here), rows))
    if len(rows) < len(shown):
        say(console, f"not shown: {count(len(shown) - len(rows), 'more value')} of n", "dim")
    largest = rows[-1]
    others = [
        f"{winning.limit_words(win.limit)}: {winning.name_of(win.record)}, {_ms(win)} ms"
        for win in field.at(largest.n)
        if win.record is not largest.record
    ]
    if others:
        say(console, f"n = {largest.n:,}, error ≤ {'; '.join(others)}")
    for sign in dict.fromkeys("".join(signs(win.record) for win in rows)):
        say(console, f"{sign} {SIGNS[sign]}", "yellow")
    for note in notes:
        say(console, note, "yellow")
    if presupposed:
        say(console, presupposed)
    for origin in dict.fromkeys(here.origin(win.record) for win in rows):
        if origin:
            say(console, f"{origin} {ORIGINS[origin]}", "yellow")
    if of_method:
        say(console, here.method_note([win.record for win in rows]), "yellow")


def _columns(here: Here) -> list[Column[Win]]:
    return [
        Column("n", lambda win: f"{win.n:,}", 0),
        Column("fastest", lambda win: ranking.named(win.record), 0, text=True, style="bold"),
        Column("", lambda win: signs(win.record) + here.sign(win.record), 0, text=True),
        Column("toolkit", lambda win: win.record.toolkit, 3, text=True),
        Column("ms", _ms, 0),
        Column("1e9 inter-\nactions/s", lambda win: number(times(ranking.speed(win.record), 1e-9)), 6),
        Column("error", winning.error_words, 4),
        Column("times as fast\nas the next", winning.lead_words, 1, style=_verdict),
        Column("next", lambda win: ranking.named(win.next.record) if win.next else "", 2, text=True),
        Column("times as fast\nas the first", _over_root, 5),
        Column("configuration", lambda win: win.record.configuration, 9, text=True),
    ]


def _ms(win: Win) -> str:
    return number(1e3 * ranking.seconds(win.record), 3)


def _verdict(cell: str) -> str:
    return VERDICT_STYLES["UNCLEAR"] if cell.endswith("UNCLEAR") else ""


def _over_root(win: Win) -> str:
    return "" if win.root is None else winning.ratio_words(win.root)
