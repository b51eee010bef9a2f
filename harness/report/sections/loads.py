"""How often each variant of a run reads global memory, by what it declares of itself."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gravbench.model.record import Record
from gravbench.report.loads import per_body
from gravbench.report.section import Column, Part, Section, Table
from gravbench.report.sections.content import Content

READING = (
    "A load is one load instruction of one thread: four bytes in naive and soa_direct, a whole body elsewhere. Caches "
    "serve most of them. `gravbench list NAME` shows the expression."
)


class Loads(NamedTuple):
    """Loads of one variant at one n; ``axes`` are those they depend on, ``per_body`` counts per evaluation."""

    variant: str
    axes: str
    n: int
    per_body: float

    @property
    def per_evaluation(self) -> float:
        """Loads for all bodies."""
        return self.per_body * self.n


def loads_of(records: Sequence[Record], declared: Mapping[str, str | None]) -> list[Loads]:
    """Work out the loads of every variant that is ok, once for each value of the axes that they depend on.

    ``declared`` maps a variant to its expression over n and its axes; one without has no row.
    """
    order = {name: position for position, name in enumerate(declared)}
    loads_by_case: dict[tuple[str, str, int], Loads] = {}
    for record in records:
        expression = declared.get(record.variant)
        value = per_body(record, expression)
        if record.status != "ok" or expression is None or value is None:
            continue
        names = re.findall(r"\w+", expression)
        axes = " ".join(f"{axis}={setting}" for axis, setting in record.axes.items() if axis in names)
        loads_by_case[record.variant, axes, record.n] = Loads(record.variant, axes, record.n, value)
    return sorted(
        loads_by_case.values(), key=lambda loads: (order[loads.variant], loads.n, -loads.per_body, loads.axes)
    )


def loads(content: Content) -> Section | None:
    """Show the loads of each variant that declares them, where the source of the run counts them too."""
    if content.source is None or not content.source.loads:
        return None
    rows = loads_of(content.chosen.shown(content.records), content.loads)
    columns: list[Column[Loads]] = [
        Column("variant", lambda row: row.variant, text=True),
        Column("axes", lambda row: row.axes, text=True),
        Column("n", lambda row: f"{row.n:,}"),
        Column("loads per body", lambda row: f"{row.per_body:,.0f}"),
        Column("total loads", lambda row: f"{row.per_evaluation:.3e}"),
    ]
    title = "Loads from global memory, as declared by each variant"
    return Section("loads", title, READING, [Part(table=Table(columns, rows))]) if rows else None
