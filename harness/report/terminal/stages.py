"""What an evaluation consists of and what it computes: stages, interactions and errors of the variants that tell."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from gravbench.model.record import Record
from gravbench.report.names import WORST_BUT_TENTH, Names, drift_notes, drift_signs
from gravbench.report.numbers import milliseconds, relative_error
from gravbench.report.provenance import CUT_SHORT, CUT_SHORT_NOTE
from gravbench.report.terminal.printing import (
    add_row,
    first_rows,
    plain_table,
    say,
    say_all,
    say_left_out,
    section,
    subsection,
)
from gravbench.report.terminal.table import Column, table
from gravbench.verdicts import ranking
from gravbench.verdicts.ladder import fastest_with_stages, over_theta
from gravbench.verdicts.ranking import Drift, affecting

STAGES = (
    "Milliseconds of each stage of the fastest configuration at each n, with every stage waiting for the one before "
    "it. together: one evaluation as it was timed, its stages overlapping where possible. GB/s of transfers: from the "
    "bytes of the stage. longest: the longest stage; its share: of the sum."
)
ACCURACY = (
    "Errors of the accelerations, relative to float64 direct sums: the median over the bodies, {}the 99th percentile "
    "and the largest. bodies, cells: the interactions that the walk of one body computes with each. Each row is the "
    "fastest configuration with its theta."
)
COUNTERS = (
    "From a second pass under Nsight Compute; ms is the time of an evaluation without it. In %: achieved occupancy, "
    "issue slots used, and the use of the pipes for FMA, special functions (XU: square roots), loads and stores "
    "(LSU) and matrix products (MMA), relative to their peaks. threads: active threads per instruction, of 32. "
    "instr., FLOP: thread instructions and executed operations per interaction (an FMA counts as two). stalled by: "
    "the most frequent reason why a warp could not issue."
)
BAR = 12
"""Characters of the longest bar."""


def render_stages(records: Sequence[Record], console: Console, drifts: Sequence[Drift] = ()) -> None:
    """Print a table of stages over n for each variant that has them, the fastest toolkit's; nothing where none has."""
    found = fastest_with_stages(records)
    if not found:
        return
    names = Names(records)
    section(console, "The stages", STAGES)
    notes: dict[str, None] = {}
    for (shared, name), chosen in first_rows(found).items():
        drifted = affecting(drifts, shared)
        subsection(console, f"{name}, {names.title(shared)}{drift_signs(drifted)}")
        # So many columns fit into 80 characters.
        for first in range(0, len(chosen), 6):
            console.print(_stage_table(chosen[first : first + 6]))
        for record in chosen:
            say(console, f"n = {record.n:,}: {record.toolkit}, {record.configuration}", "dim")
        notes |= dict.fromkeys([*_cut_short(chosen), *drift_notes(drifted)])
    say_all(console, notes, "yellow")
    say_left_out(console, found)


def _stage_table(records: list[Record]) -> Table:
    table = plain_table(["stage, ms"], [f"{record.n:,}" for record in records])
    stages = [record.stages_seconds for record in records]
    for name in dict.fromkeys(name for own in stages for name in own):
        add_row(table, name, *(milliseconds(own.get(name)) for own in stages))
    table.add_section()
    add_row(table, "sum", *(milliseconds(sum(own.values())) for own in stages))
    add_row(table, "together", *map(_ms, records))
    for name in dict.fromkeys(name for record in records for name in record.stages_bytes):
        add_row(table, f"{name}, GB/s", *(_rate(record, name) for record in records))
    table.add_section()
    add_row(table, "longest", *(max(own, key=own.__getitem__) for own in stages))
    add_row(table, "its share", *(f"{100 * max(own.values()) / (sum(own.values()) or 1):.0f} %" for own in stages))
    return table


def _rate(record: Record, name: str) -> str:
    seconds = record.stages_seconds.get(name)
    return f"{record.stages_bytes[name] / seconds / 1e9:.3g}" if seconds and name in record.stages_bytes else ""


def render_accuracy(records: Sequence[Record], console: Console, drifts: Sequence[Drift] = ()) -> None:
    """Print errors, interactions and time over theta for each variant that has it; nothing where none has."""
    groups = over_theta(records)
    if not groups:
        return
    names = Names(records)
    has_p90 = any(record.error_p90 is not None for chosen in groups.values() for record in chosen)
    section(console, "Speed and accuracy", ACCURACY.format(WORST_BUT_TENTH * has_p90))
    notes: dict[str, None] = {}
    for (shared, name, n), chosen in first_rows(groups).items():
        drifted = affecting(drifts, shared)
        subsection(console, f"{name}, n = {n:,}, {names.title(shared)}{drift_signs(drifted)}")
        console.print(table(console, _accuracy(max(map(ranking.seconds, chosen))), chosen))
        notes |= dict.fromkeys([*_cut_short(chosen), *drift_notes(drifted)])
    say_all(console, notes, "yellow")
    say_left_out(console, groups)


def _accuracy(slowest: float) -> list[Column[Record]]:
    return [
        Column("theta", lambda record: str(record.axes["theta"])),
        Column("ms", _ms),
        Column("bodies", lambda record: f"{record.computed.get('body_body', 0):,.0f}"),
        Column("cells", lambda record: f"{_cells(record):,.0f}"),
        Column("median", lambda record: relative_error(record.error_median)),
        Column("90 %", lambda record: relative_error(record.error_p90), 1),
        Column("99 %", lambda record: relative_error(record.error_p99)),
        Column("max", lambda record: relative_error(record.error_max)),
        Column("rms", lambda record: relative_error(record.error_rms)),
        Column("time", lambda record: "=" * max(1, round(BAR * ranking.seconds(record) / slowest)), 2, text=True),
    ]


def _cells(record: Record) -> float:
    """Return the interactions per body in which a cell acts, on a body or on a cell."""
    return record.computed.get("body_cell", 0) + record.computed.get("cell_cell", 0)


def render_counters(records: Sequence[Record], console: Console, drifts: Sequence[Drift] = ()) -> None:
    """Print what Nsight Compute counted, the records' fastest configurations first; nothing where nobody asked."""
    counted = [record for record in records if ranking.is_ranked(record) and record.counters]
    reasons = sorted({record.counters_unavailable for record in records if record.counters_unavailable})
    if not counted and not reasons:
        return
    names = Names(records)
    section(console, "Counters", COUNTERS)
    for reason in reasons:
        say(console, f"unavailable: {reason}", "yellow")
    counted.sort(key=lambda record: (record.n, ranking.seconds(record)))
    groups = dict(sorted(ranking.grouped(counted, ranking.conditions).items()))
    notes: dict[str, None] = {}
    for shared, alike in first_rows(groups).items():
        drifted = affecting(drifts, shared)
        subsection(console, names.title(shared) + drift_signs(drifted))
        numbers = ["ms", "occu-\npancy", "thre-\nads", "instr.", "FLOP", "is-\nsue", "FMA", "XU", "LSU", "MMA"]
        table = plain_table(["variant, toolkit, n"], numbers, ["stalled by"])
        for record in alike:
            add_row(table, f"{ranking.named(record)} {record.toolkit} {record.n:,}", *_counted(record))
        console.print(table)
        notes |= dict.fromkeys([*_cut_short(alike), *drift_notes(drifted)])
    say_all(console, notes, "yellow")
    say_left_out(console, groups)


def _ms(record: Record) -> str:
    return milliseconds(ranking.seconds(record)) + f" {CUT_SHORT}" * record.outraced


def _cut_short(records: Sequence[Record]) -> list[str]:
    return [CUT_SHORT_NOTE] * any(record.outraced for record in records)


def _counted(record: Record) -> list[str]:
    own = record.counters

    def percent(name: str) -> str:
        return f"{100 * own[name]:.0f}" if name in own else ""

    def each(name: str, threads: float) -> str:
        return f"{own[name] * threads / record.evaluated:.3g}" if name in own and not record.uncounted else ""

    stalls = [name for name in own if name.startswith("stalled_")]
    longest = max(stalls, key=own.__getitem__, default="")
    return [
        _ms(record),
        percent("achieved_occupancy"),
        f"{own['threads_an_instruction']:.1f}" if "threads_an_instruction" in own else "",
        each("instructions", own.get("threads_an_instruction", 32)),
        each("executed_flop", 1),
        *map(percent, ("issue_slots", "fma_pipe", "xu_pipe", "lsu_pipe", "tensor_pipe")),
        longest.removeprefix("stalled_").replace("_", " "),
    ]
