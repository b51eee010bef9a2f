"""How often each variant of a run reads global memory, by what it declares of itself."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

from gravbench.model.record import Record
from gravbench.report.loads import per_body
from gravbench.report.terminal.printing import plain_table, say, subsection

TITLE = "Loads from global memory, as declared by each variant"
EXPLANATION = (
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
    found: dict[tuple[str, str, int], Loads] = {}
    for record in records:
        expression = declared.get(record.variant)
        value = per_body(record, expression)
        if record.status != "ok" or expression is None or value is None:
            continue
        names = re.findall(r"\w+", expression)
        axes = " ".join(f"{axis}={setting}" for axis, setting in record.axes.items() if axis in names)
        found[record.variant, axes, record.n] = Loads(record.variant, axes, record.n, value)
    return sorted(found.values(), key=lambda one: (order[one.variant], one.n, -one.per_body, one.axes))


def render_loads(records: Sequence[Record], declared: Mapping[str, str | None], console: Console) -> None:
    """Print the table; nothing where no record's variant declares its loads."""
    rows = loads_of(records, declared)
    if not rows:
        return
    subsection(console, TITLE)
    say(console, EXPLANATION)
    table = plain_table(["variant", "axes"], ["n", "loads per body", "total loads"], gap=2)
    for row in rows:
        numbers = (f"{row.n:,}", f"{row.per_body:,.0f}", f"{row.per_evaluation:.3e}")
        table.add_row(Text(row.variant), Text(row.axes), *numbers)
    console.print(table)
