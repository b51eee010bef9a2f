"""The ladder: the fastest configuration of each variant in each toolkit, and which configurations these are.

Every sign used stands in Latin-1 beside ASCII, and nothing is said by colour only, so that pipes and old terminals lose
nothing.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gravbench.model.record import Record
from gravbench.model.toolkits import place_of
from gravbench.report.names import SLOWEST_SEED, drift_notes, joined, seed_notes, slowest_seed
from gravbench.report.numbers import PLUS_MINUS, UNBOUNDED, number, percent, relative_error, times
from gravbench.report.provenance import NARROW, NARROW_NOTE, sign_notes, signs
from gravbench.report.section import Column, Part, Section, Table
from gravbench.report.sections.content import Content
from gravbench.report.sections.fastest import NOTHING
from gravbench.report.winning import first_label_of
from gravbench.verdicts import ranking
from gravbench.verdicts.ladder import Rung
from gravbench.verdicts.ranking import Conditions

UNSETTLED = "~"
BUDGET = re.compile(r"budget of (\S+) s spent")
"""The stop reason of a measurement that took all the time it had."""
INTERVAL = "interval"
"""The stop reason of a measurement whose confidence interval became as narrow as was asked."""

READING = (
    "Each row is the fastest configuration of a variant in one toolkit; an axis beside its name changes what it "
    "computes or assumes. ms is the time of one evaluation. An interaction is one of the n * n directed pairs. "
    f"{PLUS_MINUS} The speed-up over the previous step is over the fastest configuration, in the same toolkit, of the "
    "variant that this one is derived from. The speed-up over the first step of its ladder is over the fastest "
    "configuration of that step, in the same toolkit or else in the first toolkit that has it. Errors are those of the "
    "accelerations, relative to float64 direct sums; errors of contributions are relative to the sum of the magnitudes "
    "of the contributions to a body, which does not become small where these cancel."
)
EXPLAINED = (
    "bottleneck: the largest part of the time in the model of `gravbench explain`, and its share; unexplained is what "
    "the model does not account for."
)
NOT_EXPLAINED = "Run `gravbench explain bottleneck RUN` to add a column with what limits each variant."
COMPARING = (
    "compared: the number of configurations that are ok, including the fastest. ties: how many of the others cannot "
    "be distinguished from it, because the intervals of ± overlap."
)
OUTRACED = (
    "outraced: how many of them a race stopped sampling once it was clear that another case is faster; none of them "
    "counts as a tie."
)


def ladder(content: Content) -> Section:
    """Show the ladder at each n, for each device, task and kind of bodies."""
    if not content.ladders:
        return Section("ladder", "The ladder", NOTHING)
    rungs = _rungs(content)
    explained = content.limits.any_of(rung.best for rung in rungs)
    parts = [ladder_part(content, shared, n) for shared, by_n in content.ladders.items() for n in by_n]
    if unknown := sorted({rung.best.variant for rung in rungs} - content.parents.keys()):
        parts.append(
            Part(lines=[f"Shown without a parent, because this checkout does not have them: {', '.join(unknown)}."])
        )
    reading = f"{READING} {EXPLAINED if explained else NOT_EXPLAINED}"
    return Section("ladder", "The ladder", reading, parts, notes_of(content, content.ladders, rungs))


def ladder_part(content: Content, shared: Conditions, n: int) -> Part:
    """Show the ladder at one n under some conditions."""
    rungs = content.ladders[shared][n]
    title, _ = content.titled((rung.best for rung in rungs), shared, f"n = {n:,}")
    return Part(title, table=Table(_columns(rungs, content), rungs))


BRIEF = (
    *("variant", "toolkit", "what changed", "ms", "slowest seed, ms", "untimed, s", "1e9 interactions/s", "± %", ""),
    *("occupancy %", "max error", "max error of contributions"),
)
"""Columns of a ladder that is one of a few tables, beside the speed-ups."""


def largest_only(content: Content) -> Section:
    """Show the ladder of each device and task once, briefly: at the n where most variants and toolkits are ok."""
    largest = {shared: max(by_n, key=lambda n: (len(by_n[n]), n)) for shared, by_n in content.ladders.items()}
    if not largest:
        return Section("ladder", "The ladder", NOTHING)
    parts = [_brief(ladder_part(content, shared, n)) for shared, n in largest.items()]
    rungs = [rung for shared, n in largest.items() for rung in content.ladders[shared][n]]
    notes = [*notes_of(content, content.ladders, rungs), PLUS_MINUS]
    return Section("ladder", "The ladder", "", parts, notes)


def _brief(part: Part) -> Part:
    assert part.table
    columns = [
        column for column in part.table.columns if column.name in BRIEF or column.name.startswith(("over", "speed-up"))
    ]
    columns.sort(key=lambda column: BRIEF.index(column.name) if column.name in BRIEF[:3] else len(BRIEF))
    return replace(part, table=Table(columns, part.table.rows))


def _rungs(content: Content) -> list[Rung]:
    return [rung for by_n in content.ladders.values() for rungs in by_n.values() for rung in rungs]


def speed_words(record: Record) -> str:
    """Write interactions per second in units of 1e9."""
    return number(times(ranking.speed(record), 1e-9))


def milliseconds(record: Record) -> str:
    """Write the time of an evaluation."""
    return number(1e3 * ranking.seconds(record))


def _occupancy(record: Record) -> str:
    """Write the theoretical occupancy in per cent, and behind a slash the achieved one where it was counted."""
    if record.occupancy is None:
        return ""
    achieved = record.counters.get("achieved_occupancy")
    return " / ".join(number(100 * part, 3) for part in (record.occupancy, achieved) if part is not None)


def _columns(rungs: Sequence[Rung], content: Content) -> list[Column[Rung]]:
    here, limits = content.here, content.limits
    first = first_label_of(rungs, content.parents)
    conventions = joined(f"{rung.best.flops_per_interaction:g}" for rung in rungs)
    return [
        Column("variant", lambda rung: ranking.named(rung.best), 0, text=True, breaks=True),
        Column("toolkit", lambda rung: rung.best.toolkit, 0, text=True),
        Column("ms", lambda rung: milliseconds(rung.best), 0),
        Column(SLOWEST_SEED, lambda rung: slowest_seed(rung.best), 1),
        Column("untimed,\ns", lambda rung: here.untimed(rung.best), 1, text=True),
        Column("1e9 inter-\nactions/s", lambda rung: speed_words(rung.best), 0),
        Column("± %", lambda rung: _width(rung.best, content), 1),
        # A sign never gives way; without any, its column is left out.
        Column("", lambda rung: _signs(rung.best, content), 0, text=True),
        Column(f"GFLOP/s\nat {conventions}", lambda rung: number(rung.best.gflops), 0),
        Column("steps/s", lambda rung: number(rung.best.steps_per_second), 2),
        Column("energy\ndrift", lambda rung: relative_error(rung.best.energy_drift), 8),
        Column("momentum\ndrift", lambda rung: relative_error(rung.best.momentum_drift), 8),
        Column("over pre-\nvious step", lambda rung: number(rung.over_parent, 3), 3),
        Column(first.replace(" ", "\n", 1), lambda rung: number(rung.over_first, 3), 4),
        Column(
            "bottle-\nneck",
            lambda rung: limits.words(rung.best),
            5,
            text=True,
            hint=lambda rung: limit.reason if (limit := limits.of(rung.best)) else "",
        ),
        Column("occup-\nancy %", lambda rung: _occupancy(rung.best), 6),
        Column("occupancy\nlimited by", lambda rung: rung.best.occupancy_limiter or "", 8, text=True, breaks=True),
        Column("configuration", lambda rung: rung.best.configuration, 9, text=True),
        Column("max\nerror", lambda rung: relative_error(rung.best.error_max), 2),
        Column("max error of\ncontributions", lambda rung: relative_error(rung.best.error_magnitude_max), 10),
        Column("error of\na cycle", lambda rung: relative_error(rung.best.error_cycle_max), 7),
        Column("rms\nerror", lambda rung: relative_error(rung.best.error_rms), 10),
        Column("rms error of\ncontributions", lambda rung: relative_error(rung.best.error_magnitude_rms), 10),
        Column("registers\nper thread", lambda rung: number(rung.best.registers, 1), 11),
        Column("pJ/inter-\naction", lambda rung: number(times(rung.best.joules_per_interaction, 1e12), 3), 9),
        Column("SM clock\nMHz", lambda rung: number(_median(rung.best.sm_clock_mhz), 1), 12),
        Column("compile\ns", lambda rung: number(rung.best.compile_seconds, 3), 13),
        Column("what changed", lambda rung: content.summaries.get(rung.best.variant, ""), 14, text=True),
    ]


def _width(record: Record, content: Content) -> str:
    half = content.known.half_width(record)
    return UNBOUNDED if half is None else percent(half)


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def _signs(record: Record, content: Content) -> str:
    measured = UNSETTLED * _unsettled(record) + NARROW * content.known.may_be_narrow(record)
    return measured + signs(record) + content.here.sign(record)


def _unsettled(record: Record) -> bool:
    return record.stop_reason != INTERVAL and not record.outraced


def notes_of(
    content: Content, places: Iterable[Conditions], rungs: Sequence[Rung], more: Sequence[str] = ()
) -> list[str]:
    """Say what the signs of tables of rungs mean, once for all of them, and which anchors of these places drifted."""
    records = [rung.best for rung in rungs]
    notes = []
    if stops := [record.stop_reason or "not recorded" for record in records if _unsettled(record)]:
        stopped = _stop_words(stops)
        notes.append(f"{UNSETTLED} sampling ended before the interval was as narrow as requested: {stopped}")
    if any(map(ranking.unbounded, records)):
        notes.append(f"unbounded ({UNBOUNDED}): too few samples for a confidence interval of the median")
    notes += [NARROW_NOTE] * any(map(content.known.may_be_narrow, records))
    notes += [*sign_notes(records), *content.here.notes(records), *more]
    return notes + seed_notes(records) + drift_notes(content.drifted(records, *places))


def _stop_words(reasons: Sequence[str]) -> str:
    """Say once each why sampling ended: of budgets the seconds alone, whatever the numbers of samples are."""
    budgets = {float(match[1]) for reason in reasons if (match := BUDGET.match(reason))}
    spent = [f"budget of {' or '.join(f'{seconds:g}' for seconds in sorted(budgets))} s spent"] * bool(budgets)
    return joined([*spent, *(reason for reason in reasons if not BUDGET.match(reason))])


def configurations(content: Content) -> Section | None:
    """Show which configuration is the fastest of each variant that had a choice, at each n."""
    columns: list[Column[Rung]] = [
        Column("variant", lambda rung: ranking.named(rung.best), 0, text=True, breaks=True),
        Column("toolkit", lambda rung: rung.best.toolkit, 0, text=True),
        Column("n", lambda rung: f"{rung.best.n:,}", 0),
        Column("fastest\nconfiguration", lambda rung: rung.best.configuration, 0, text=True, breaks=True),
        Column("ms", lambda rung: milliseconds(rung.best), 0),
        Column(SLOWEST_SEED, lambda rung: slowest_seed(rung.best), 1),
        Column("1e9 inter-\nactions/s", lambda rung: speed_words(rung.best), 0),
        Column("", lambda rung: _signs(rung.best, content), 0, text=True),
        Column("compared", lambda rung: f"{rung.compared:,}", 1),
        Column("ties", lambda rung: f"{content.known.indistinct(rung.best, rung.others):,}", 2),
        Column("out-\nraced", lambda rung: f"{rung.outraced:,}" if rung.outraced else "", 1),
        Column("speed-up\nover slowest", lambda rung: number(rung.over_slowest, 3), 3),
    ]
    tables = {shared: rows for shared, by_n in content.ladders.items() if (rows := _tuned(by_n, content))}
    if not tables:
        return None
    parts = [
        Part(content.titled((rung.best for rung in rows), shared)[0], table=Table(columns, rows))
        for shared, rows in tables.items()
    ]
    every = [rung for rows in tables.values() for rung in rows]
    late = [OUTRACED] * any(rung.outraced for rung in every)
    notes = notes_of(content, tables, every, late)
    return Section("configurations", "The fastest configurations", COMPARING, parts, notes)


def _tuned(by_n: Mapping[int, list[Rung]], content: Content) -> list[Rung]:
    """Sort the rungs that had a choice so that all n of one stand together: a change of configuration shows."""
    rungs = [rung for same_n in by_n.values() for rung in same_n if rung.compared > 1]
    order = ranking.ladder_order({rung.best.variant for rung in rungs}, content.parents)

    def place(rung: Rung) -> tuple[int, str, tuple[int, str], int]:
        record = rung.best
        return order.index(record.variant), ranking.row(record), place_of(record.toolkit), record.n

    return sorted(rungs, key=place)
