"""Records as tables in a terminal, and the ladder as a Markdown table.

Reads records alone: needs no GPU and no toolkit. Every sign used stands in Latin-1 beside ASCII, and nothing is
said by colour only, so that pipes and old terminals lose nothing.
"""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import get_args

from rich.console import Console

from gravbench.model.bottlenecks import NONE as UNEXPLAINED
from gravbench.model.bottlenecks import Limits
from gravbench.model.record import Record, Status
from gravbench.model.runs import latest
from gravbench.model.toolkits import place_of
from gravbench.report import device_spread
from gravbench.report.chosen import EVERYTHING, Chosen
from gravbench.report.names import (
    DRIFTED,
    Names,
    compact,
    count,
    drift_notes,
    drift_sentence,
    drift_signs,
    escaped,
    joined,
    why_unranked,
)
from gravbench.report.numbers import PLUS_MINUS, UNBOUNDED, number, percent, plus_minus, relative_error, times
from gravbench.report.provenance import NARROW, NARROW_NOTE, NOWHERE, Here, sign_notes, signs
from gravbench.report.terminal.printing import (
    GAP,
    first_rows,
    heading,
    say,
    say_all,
    say_facts,
    say_left_out,
    section,
    subsection,
)
from gravbench.report.terminal.table import LAST_WANTED, Column, left_out, markdown_table, table
from gravbench.report.winning import first_label_of
from gravbench.verdicts import ranking
from gravbench.verdicts.cards import Difference, differences
from gravbench.verdicts.ladder import Ladders, Rung
from gravbench.verdicts.ladder import ladders as ranked
from gravbench.verdicts.ranking import Conditions, Drift, Parents
from gravbench.verdicts.uncertainty import Uncertainties

THROTTLED, UNSETTLED, UNKNOWN = "!", "~", "?"
BUDGET = re.compile(r"budget of (\S+) s spent")
"""The stop reason of a measurement that took all the time it had."""
INTERVAL = "interval"
"""The stop reason of a measurement whose confidence interval became as narrow as was asked."""
MOST_SKIPPED = 8
"""Of so many variants skipped for one reason, the configurations are listed; of more, only the names."""

NOTHING = "There are no records yet; gravbench run writes them."
READING = (
    "Each row is the fastest configuration of a variant in one toolkit; an axis beside its name changes what it "
    "computes or assumes. ms is the time of one evaluation. An interaction is one of the n * n directed pairs. "
    f"{PLUS_MINUS} × parent is the speed-up over the fastest configuration, in the same toolkit, of the variant it is "
    "derived from. The speed-up over the first step of its ladder is over the fastest configuration of that step, in "
    "the same toolkit or else in the first toolkit that has it. Errors are those of the accelerations, relative to "
    "float64 direct sums; errors of pulls are relative to the sum "
    "of the magnitudes of the pulls on a body, which does not become small where pulls cancel."
)
EXPLAINED = (
    "bottleneck: the largest part of the time in the model of `gravbench explain`, and its share; instructions means "
    "issuing them, unexplained is what the model does not account for."
)
NOT_EXPLAINED = "Run `gravbench explain bottleneck RUN` to add a column with what limits each variant."
COMPARING = (
    "compared: the number of configurations that are ok, including the fastest. as fast: how many of the others cannot "
    "be distinguished from it, because the intervals of ± overlap."
)
OUTRACED = (
    "outraced: how many of them a race stopped sampling once it was clear that another case is faster; none of them "
    "counts as equally fast."
)


def render(
    records: list[Record],
    console: Console,
    parents: Parents,
    here: Here = NOWHERE,
    chosen: Chosen = EVERYTHING,
    limits: Limits = UNEXPLAINED,
) -> None:
    """Print the report of a whole run: what was run, the ladders, best configurations, drift, what is not ok.

    ``parents`` maps each known variant to its parent; variants it does not name are shown without one. Records whose
    source is not the one that is ``here`` are marked. What is ``chosen`` alone has rows; gains are over all variants,
    and ± and drifts are those of the whole run. ``limits`` say what most of the time of a record goes to.
    """
    if not records:
        say(console, NOTHING)
        return
    comparable = chosen.comparable(records)
    cases = latest(comparable)
    ladders = chosen.rungs(ranked(cases, parents))
    names = Names(cases)
    cases = chosen.shown(cases)
    found = Counter(case.status for case in cases)
    started = sorted(record.started for record in comparable)
    devices = (" with driver ".join(filter(None, [case.device, case.driver])) for case in cases)
    facts = {
        "devices": joined(devices) or "none recorded",
        "measured": " to ".join(dict.fromkeys([started[0], started[-1]])),
        "bodies": joined(f"{case.part('bodies')} {case.subset}".strip() for case in cases),
        "precision": joined(case.dtype for case in cases),
        "eps": joined(f"{case.eps:g}" for case in cases),
        "cases": ", ".join(f"{found[status]:,} {status}" for status in get_args(Status)) + _outraced(cases),
        "commit": joined(case.commit or "not recorded" for case in cases),
        "harness": joined(case.harness_version for case in cases),
    }
    heading(console, "gravbench")
    say_facts(console, facts)
    drifts, known = chosen.drifts(ranking.drifts(records)), Uncertainties([records])
    _ladder_section(console, ladders, names, parents, drifts, here, known, limits)
    _configuration_section(console, ladders, names, parents, drifts, here, known)
    if drifts:
        section(console, "The anchor")
    for drift in first_rows({"drifts": drifts})["drifts"]:
        say(console, drift_sentence(drift), "bold yellow" if drift.beyond else "")
    say_left_out(console, {"drifts": drifts})
    _cards_section(console, differences(comparable))
    _not_ok_section(console, cases)


def ladder_markdown(
    records: list[Record],
    parents: Parents,
    summaries: Mapping[str, str],
    here: Here = NOWHERE,
    chosen: Chosen = EVERYTHING,
) -> str:
    """Return the ladder of a whole run as Markdown, one table per device, kind of bodies and precision.

    Each is at the n where the most variants and toolkits are ok, and at the largest of these. ``summaries``
    says what each variant changes; records whose source is not the one that is ``here`` are marked. What is ``chosen``
    alone has rows.
    """
    cases = latest(chosen.comparable(records))
    ladders = chosen.rungs(ranked(cases, parents))
    if not ladders:
        return "No record is ok, so there is no ladder to show.\n"
    names, known = Names(cases), Uncertainties([records])
    lines = []
    drifts = ranking.drifts(records)
    for shared, by_n in ladders.items():
        n = max(by_n, key=lambda n: (len(by_n[n]), n))
        drifted = ranking.affecting(drifts, shared)
        title = f"**{escaped(names.device(shared))}**: n = {n:,}, {escaped(names.task(shared))}"
        columns = _markdown_columns(summaries, here, known, first_label_of(by_n[n], parents))
        lines += [title + f" `{DRIFTED}`" * bool(drifted), "", *markdown_table(columns, by_n[n]), ""]
        for footnote in [*_footnotes(by_n[n], here, known), *drift_notes(drifted)]:
            # The sign as code: a tilde may begin strikethrough.
            lines += [f"`{footnote[0]}` {escaped(footnote[1:])}", ""]
    return "\n".join([*lines, PLUS_MINUS, ""])


def _markdown_columns(summaries: Mapping[str, str], here: Here, known: Uncertainties, first: str) -> list[Column[Rung]]:
    """Describe the columns of a ladder in Markdown; ``first`` is the header of the speed-ups over its first step."""

    def speed(rung: Rung) -> str:
        width, signs = plus_minus(known.half_width(rung.best)), _signs(rung.best, here, known)
        return " ".join(filter(None, [_speed(rung.best), width, signs and f"`{signs}`"]))

    return [
        Column("variant", lambda rung: ranking.named(rung.best), text=True),
        Column("toolkit", lambda rung: rung.best.toolkit, text=True),
        Column("what changed", lambda rung: summaries.get(rung.best.variant, ""), text=True),
        Column("ms", lambda rung: _milliseconds(rung.best)),
        Column("untimed, s", lambda rung: here.untimed(rung.best), 1, text=True),
        Column("1e9 interactions/s", speed),
        Column("× parent", lambda rung: number(rung.over_parent, 3)),
        Column(first, lambda rung: number(rung.over_first, 3)),
        Column("max error", lambda rung: relative_error(rung.best.error_max)),
        Column("max error of pulls", lambda rung: relative_error(rung.best.error_magnitude_max), 1),
    ]


def _outraced(cases: list[Record]) -> str:
    late = sum(case.outraced for case in cases)
    return f"; {late:,} of the ok cases were outraced" if late else ""


def _speed(record: Record) -> str:
    return number(times(ranking.speed(record), 1e-9))


def _milliseconds(record: Record) -> str:
    return number(1e3 * ranking.seconds(record))


def _ladder_section(
    console: Console,
    ladders: Ladders,
    names: Names,
    parents: Parents,
    drifts: Sequence[Drift],
    here: Here,
    known: Uncertainties,
    limits: Limits,
) -> None:
    bests = (rung.best for by_n in ladders.values() for rungs in by_n.values() for rung in rungs)
    reading = f"{READING} {EXPLAINED if limits.any_of(bests) else NOT_EXPLAINED}"
    section(console, "The ladder", reading if ladders else "")
    if not ladders:
        say(console, "No case is ok, so there is nothing to rank.")
        return
    tables = {(shared, n): rungs for shared, by_n in ladders.items() for n, rungs in by_n.items()}
    hidden: dict[str, None] = {}
    for (shared, n), rungs in first_rows(tables).items():
        drifted = ranking.affecting(drifts, shared)
        subsection(console, f"n = {n:,}, {names.title(shared)}{drift_signs(drifted)}")
        columns = _ladder_columns(rungs, here, known, limits, first_label_of(rungs, parents))
        console.print(table(console, columns, rungs))
        hidden |= dict.fromkeys(left_out(console, columns, rungs))
    _say_notes(console, ladders, [rung for rungs in tables.values() for rung in rungs], drifts, here, known)
    say_left_out(console, tables)
    if hidden:
        console.print()
        say(console, f"Widen the terminal to show more columns: {', '.join(hidden)}.", "dim")
    used = {rung.best.variant for by_n in ladders.values() for rungs in by_n.values() for rung in rungs}
    if unknown := sorted(used - parents.keys()):
        console.print()
        say(console, f"Shown without a parent, because this checkout does not have them: {', '.join(unknown)}.")


def _ladder_columns(
    rungs: list[Rung], here: Here, known: Uncertainties, limits: Limits, first: str
) -> list[Column[Rung]]:
    """Describe the columns of a ladder; ``first`` is the header of the speed-ups over its first step."""
    conventions = joined(f"{rung.best.flops_per_interaction:g}" for rung in rungs)
    return [
        Column("variant", lambda rung: ranking.named(rung.best), 0, text=True, breaks=True),
        Column("toolkit", lambda rung: rung.best.toolkit, 0, text=True),
        Column("configuration", lambda rung: rung.best.configuration, 9, text=True),
        Column("ms", lambda rung: _milliseconds(rung.best), 0),
        Column("untimed\ns", lambda rung: here.untimed(rung.best), 1, text=True),
        Column("1e9 inter-\nactions/s", lambda rung: _speed(rung.best), 0),
        Column("± %", lambda rung: _width(rung.best, known), 1),
        # A sign never gives way; without any, its column is left out.
        Column("", lambda rung: _signs(rung.best, here, known), 0, text=True),
        Column(f"GFLOP/s\nat {conventions}", lambda rung: number(rung.best.gflops), 0),
        Column("steps/s", lambda rung: number(rung.best.steps_per_second), 2),
        Column("energy\ndrift", lambda rung: relative_error(rung.best.energy_drift), LAST_WANTED),
        Column("momentum\ndrift", lambda rung: relative_error(rung.best.momentum_drift), LAST_WANTED),
        Column("×\nparent", lambda rung: number(rung.over_parent, 3), 3),
        Column(first.replace(" ", "\n", 1), lambda rung: number(rung.over_first, 3), 4),
        Column("time\ngoes to", lambda rung: limits.words(rung.best), 5, text=True),
        Column("occup-\nancy %", lambda rung: number(times(rung.best.occupancy, 100), 3), 6),
        Column(
            "occupancy\nlimited by", lambda rung: rung.best.occupancy_limiter or "", LAST_WANTED, text=True, breaks=True
        ),
        Column("max\nerror", lambda rung: relative_error(rung.best.error_max), 2),
        Column("max error\nof pulls", lambda rung: relative_error(rung.best.error_magnitude_max), 10),
        Column("error of\na cycle", lambda rung: relative_error(rung.best.error_cycle_max), 7),
        Column("rms\nerror", lambda rung: relative_error(rung.best.error_rms), 10),
        Column("rms error\nof pulls", lambda rung: relative_error(rung.best.error_magnitude_rms), 10),
        Column("registers\nper thread", lambda rung: number(rung.best.registers, 1), 11),
        Column("pJ/inter-\naction", lambda rung: number(times(rung.best.joules_per_interaction, 1e12), 3), 9),
        Column("SM clock\nMHz", lambda rung: number(_median(rung.best.sm_clock_mhz), 1), 12),
        Column("compile\ns", lambda rung: number(rung.best.compile_seconds, 3), 13),
    ]


def _width(record: Record, known: Uncertainties) -> str:
    half = known.half_width(record)
    return UNBOUNDED if half is None else percent(half)


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def _signs(record: Record, here: Here, known: Uncertainties) -> str:
    own = THROTTLED * bool(record.throttled) + UNSETTLED * _unsettled(record) + NARROW * known.may_be_narrow(record)
    return own + signs(record) + here.sign(record)


def _unsettled(record: Record) -> bool:
    return record.stop_reason != INTERVAL and not record.outraced


def _footnotes(rungs: list[Rung], here: Here, known: Uncertainties) -> list[str]:
    notes = []
    throttled = [rung.best for rung in rungs if rung.best.throttled]
    if throttled:
        reasons = joined(reason for record in throttled for reason in record.throttle_reasons)
        why = f" ({reasons})" if reasons else ""
        notes.append(f"{THROTTLED} throttled: the device lowered its clock during the measurement{why}")
    if stops := [one.best.stop_reason or "not recorded" for one in rungs if _unsettled(one.best)]:
        stopped = _stop_words(stops)
        notes.append(f"{UNSETTLED} sampling ended before the interval was as narrow as requested: {stopped}")
    if any(ranking.unbounded(rung.best) for rung in rungs):
        notes.append(f"{UNKNOWN} unbounded: too few samples for a confidence interval of the median")
    notes += [NARROW_NOTE] * any(known.may_be_narrow(rung.best) for rung in rungs)
    return notes + sign_notes(rung.best for rung in rungs) + here.notes(rung.best for rung in rungs)


def _say_notes(
    console: Console,
    places: Iterable[Conditions],
    rungs: list[Rung],
    drifts: Sequence[Drift],
    here: Here,
    known: Uncertainties,
    more: Sequence[str] = (),
) -> None:
    """Say below the tables of a section what their signs mean, once for all of them."""
    notes = [*_footnotes(rungs, here, known), *more, *drift_notes(ranking.affecting(drifts, *places))]
    if notes:
        console.print()
    say_all(console, notes, "yellow")


def _stop_words(reasons: Sequence[str]) -> str:
    """Say once each why sampling ended: of budgets the seconds alone, whatever the numbers of samples are."""
    budgets = {float(found[1]) for reason in reasons if (found := BUDGET.match(reason))}
    spent = [f"budget of {' or '.join(f'{seconds:g}' for seconds in sorted(budgets))} s spent"] * bool(budgets)
    return joined([*spent, *(reason for reason in reasons if not BUDGET.match(reason))])


def _configuration_section(
    console: Console,
    ladders: Ladders,
    names: Names,
    parents: Parents,
    drifts: Sequence[Drift],
    here: Here,
    known: Uncertainties,
) -> None:
    columns: list[Column[Rung]] = [
        Column("variant", lambda rung: ranking.named(rung.best), 0, text=True, breaks=True),
        Column("toolkit", lambda rung: rung.best.toolkit, 0, text=True),
        Column("n", lambda rung: f"{rung.best.n:,}", 0),
        Column("fastest\nconfiguration", lambda rung: rung.best.configuration, 0, text=True, breaks=True),
        Column("ms", lambda rung: _milliseconds(rung.best), 0),
        Column("1e9 inter-\nactions/s", lambda rung: _speed(rung.best), 0),
        Column("", lambda rung: _signs(rung.best, here, known), 0, text=True),
        Column("compared", lambda rung: f"{rung.compared:,}", 1),
        Column("as\nfast", lambda rung: f"{known.indistinct(rung.best, rung.others):,}", 2),
        Column("out-\nraced", lambda rung: f"{rung.outraced:,}" if rung.outraced else "", 1),
        Column("×\nslowest", lambda rung: number(rung.over_slowest, 3), 3),
    ]
    tables = {shared: rows for shared, by_n in ladders.items() if (rows := _tuned(by_n, parents))}
    if tables:
        section(console, "The fastest configurations", COMPARING)
    for shared, rows in first_rows(tables).items():
        drifted = ranking.affecting(drifts, shared)
        subsection(console, names.title(shared) + drift_signs(drifted))
        console.print(table(console, columns, rows))
    every = [rung for rows in tables.values() for rung in rows]
    _say_notes(console, tables, every, drifts, here, known, [OUTRACED] * any(rung.outraced for rung in every))
    say_left_out(console, tables)


def _tuned(by_n: Mapping[int, list[Rung]], parents: Parents) -> list[Rung]:
    """Sort the rungs that had a choice so that all n of one stand together: a change of configuration shows."""
    rungs = [rung for same_n in by_n.values() for rung in same_n if rung.compared > 1]
    order = ranking.ladder_order({rung.best.variant for rung in rungs}, parents)

    def place(rung: Rung) -> tuple[int, str, tuple[int, str], int]:
        record = rung.best
        return order.index(record.variant), ranking.row(record), place_of(record.toolkit), record.n

    return sorted(rungs, key=place)


def _cards_section(console: Console, found: Mapping[str, Sequence[Difference]]) -> None:
    if found:
        section(console, "The cards", device_spread.READING)
    for device, rows in found.items():
        if not rows:
            say(console, device_spread.unknown(device))
            continue
        subsection(console, device)
        console.print(table(console, list(map(_cards_column, range(len(device_spread.HEADERS)))), rows))


def _cards_column(place: int) -> Column[Difference]:
    header = device_spread.HEADERS[place].replace(" by", "\nby").replace(" interval", "\ninterval")
    return Column(header, lambda row: device_spread.cells(row)[place], text=place < 2, breaks=place < 2)


def _not_ok_section(console: Console, cases: list[Record]) -> None:
    lost = [case for case in cases if not ranking.is_ranked(case)]
    if lost:
        section(console, "Not ranked")
    for status in ("failed", "invalid", "skipped", "ok"):
        reasons = ranking.grouped((case for case in lost if case.status == status), why_unranked)
        for reason, alike in sorted(reasons.items(), key=lambda item: -len(item[1])):
            say(console, f"{status}, {count(len(alike), 'case')}: {reason}", "bold")
            lines = compact(alike)
            # What skips everything on a device depends on no configuration.
            if status == "skipped" and len(lines) > MOST_SKIPPED:
                lines = [f"{count(len(lines), 'variant')}: {joined(case.variant for case in alike)}"]
            for line in lines:
                say(console, line, indent=GAP)
