"""Everything that a terminal shows of one run, one section after another."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console

from gravbench.config.published import Source
from gravbench.model.record import Record
from gravbench.model.runs import latest
from gravbench.model.variant import Variant, parents
from gravbench.report.terminal.ladder import render
from gravbench.report.terminal.loads import render_loads
from gravbench.report.terminal.published import render_published
from gravbench.report.terminal.stages import render_accuracy, render_counters, render_stages


def render_run(records: list[Record], variants: Mapping[str, Variant], source: Source | None, console: Console) -> None:
    """Print the report of a run, beside the numbers of ``source`` where there is one."""
    render(records, console, parents(variants))
    for section in (render_stages, render_accuracy, render_counters):
        section(latest(records), console)
    if source:
        render_published(source, records, console)
        if source.loads:
            render_loads(records, {name: one.loads for name, one in variants.items()}, console)
