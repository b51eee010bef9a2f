"""What several GPUs of one host are worth: speed and efficiency against one."""

from __future__ import annotations

from gravbench.model.record import Record
from gravbench.report.names import seed_notes
from gravbench.report.numbers import number, times
from gravbench.report.provenance import cut_short_notes, milliseconds_of
from gravbench.report.section import Column, Part, Section, Table
from gravbench.report.sections.content import Content
from gravbench.verdicts import ranking
from gravbench.verdicts.ladder import over_gpus

READING = (
    "The fastest configuration for each number of GPUs of one host. × one: its speed relative to one GPU. efficiency: "
    "that divided by the number of GPUs, in %. linked by: how the GPUs reach each other."
)


def gpus(content: Content) -> Section | None:
    """Show n and numbers of GPUs for each variant that was measured on several."""
    groups = over_gpus(content.competitors)
    parts: list[Part] = []
    notes: dict[str, None] = {}
    for (shared, name), chosen in groups.items():
        title, on_drift = content.titled(chosen, shared, name)
        parts.append(Part(title, table=Table(_columns(chosen), chosen)))
        notes |= dict.fromkeys([*cut_short_notes(chosen), *seed_notes(chosen), *on_drift])
    return Section("gpus", "Several GPUs", READING, parts, list(notes)) if groups else None


def _columns(records: list[Record]) -> list[Column[Record]]:
    single = {record.n: ranking.seconds(record) for record in records if record.gpus == 1}

    def gain(record: Record) -> float | None:
        return single[record.n] / ranking.seconds(record) if record.n in single else None

    def efficiency(record: Record) -> str:
        return "" if (speedup := gain(record)) is None else f"{100 * speedup / record.gpus:.1f}"

    return [
        Column("n", lambda record: f"{record.n:,}"),
        Column("GPUs", lambda record: str(record.gpus)),
        Column("ms", milliseconds_of),
        Column("1e9 int./s", lambda record: number(times(ranking.speed(record), 1e-9))),
        Column("× one", lambda record: "" if (times_one := gain(record)) is None else f"{times_one:.2f}"),
        Column("efficiency", efficiency),
        Column("linked by", lambda record: record.gpus_linked_by or "", text=True),
    ]
