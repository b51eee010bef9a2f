"""What several GPUs of one host are worth: speed and efficiency against one."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from gravbench.model.record import Record
from gravbench.report.names import Names, drift_notes, drift_signs
from gravbench.report.numbers import milliseconds, number, times
from gravbench.report.provenance import CUT_SHORT, CUT_SHORT_NOTE
from gravbench.report.terminal.printing import (
    add_row,
    first_rows,
    plain_table,
    say_all,
    say_left_out,
    section,
    subsection,
)
from gravbench.verdicts import ranking
from gravbench.verdicts.ladder import over_gpus
from gravbench.verdicts.ranking import Drift, affecting

READING = (
    "The fastest configuration for each number of GPUs of one host. × one: its speed relative to one GPU. efficiency: "
    "that divided by the number of GPUs, in %. linked by: how the GPUs reach each other."
)


def render_gpus(records: Sequence[Record], console: Console, drifts: Sequence[Drift] = ()) -> None:
    """Print a table of n and numbers of GPUs for each variant that was measured on several; nothing where none was."""
    groups = over_gpus(records)
    if not groups:
        return
    names = Names(records)
    section(console, "Several GPUs", READING)
    notes: dict[str, None] = {}
    for (shared, name), chosen in first_rows(groups).items():
        drifted = affecting(drifts, shared)
        subsection(console, f"{name}, {names.title(shared)}{drift_signs(drifted)}")
        one = {record.n: ranking.seconds(record) for record in chosen if record.gpus == 1}
        table = plain_table([], ["n", "GPUs", "ms", "1e9 int./s", "× one", "efficiency"], ["linked by"], gap=2)
        for record in chosen:
            gain = one[record.n] / ranking.seconds(record) if record.n in one else None
            add_row(
                table,
                f"{record.n:,}",
                str(record.gpus),
                milliseconds(ranking.seconds(record)) + f" {CUT_SHORT}" * record.outraced,
                number(times(ranking.speed(record), 1e-9)),
                "" if gain is None else f"{gain:.2f}",
                "" if gain is None else f"{100 * gain / record.gpus:.1f}",
                record.gpus_linked_by or "",
            )
        console.print(table)
        cut_short = [CUT_SHORT_NOTE] * any(record.outraced for record in chosen)
        notes |= dict.fromkeys([*cut_short, *drift_notes(drifted)])
    say_all(console, notes, "yellow")
    say_left_out(console, groups)
