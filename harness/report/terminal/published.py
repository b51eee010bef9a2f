"""A source's figures and claims in a terminal, the measured values beside the published ones.

Every sign used stands in Latin-1 beside ASCII, and nothing is said by colour only.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from gravbench.config.published import Source
from gravbench.model.record import Record
from gravbench.model.runs import latest
from gravbench.report import published
from gravbench.report.names import count, drift_notes, drift_signs
from gravbench.report.numbers import number
from gravbench.report.published import NO_OTHERS, Comparison, Others
from gravbench.report.remarks import conditions_of, every_step, evidence, fact_words, names_of, remarks, shared_by
from gravbench.report.terminal.printing import bare_table, say, say_lines, section, subsection
from gravbench.verdicts import ranking
from gravbench.verdicts.ranking import Drift

READING = (
    "published is the source's value on its device, measured is the value here. relative: the value divided by that of "
    "the first step of the same path, to compare the shapes of the two paths; smaller times and errors are better. "
    "GFLOP/s count {flops:g} FLOPs per interaction on both sides, unless the figure says otherwise."
)
WIDTHS = (9, 12, 12, 9, 9)
"""Of the columns of numbers, from n to the last; the first column has the rest."""
GAP = 1


def render_published(source: Source, records: Sequence[Record], console: Console, others: Others = NO_OTHERS) -> None:
    """Print each figure of ``source`` beside what ``records`` measured, then its claims and what stays unanswered.

    ``others`` are the runs beside this one that claims name.
    """
    cases = latest(records)
    section(console, "Published and measured values", f"{source.source}. Device: {source.device}.")
    if source.figures:
        say(console, READING.format(flops=source.flops_per_interaction))
    for figure in source.figures:
        _figure(console, source, published.compare(source, figure, cases), ranking.drifted(records))
    if source.claims:
        subsection(console, "Claims")
    for decision in published.decisions(source, records, others):
        style = {"holds": "green", "does not hold": "red"}.get(decision.verdict, "yellow")
        say(console, f"{decision.verdict}: {decision.claim.text}.{evidence(decision)}", style)
    say_lines(console, "Published values with no record here", list(map(fact_words, source.facts)))
    say_lines(console, "Notes", source.notes)


def _figure(console: Console, source: Source, found: Comparison, drifts: Sequence[Drift]) -> None:
    figure = found.figure
    drifted = ranking.affecting(drifts, *(column.conditions for column in found.shown))
    cells = [step.cell for step in found.steps]
    everywhere = every_step(found)
    every = f"; every step: {everywhere}" if everywhere else ""
    subsection(console, f"{figure.title}, {figure.unit}{every}{drift_signs(drifted)}")
    if found.shown:
        say(console, f"measured here: {'; '.join(map(conditions_of, found.shown))}")
    table = bare_table(GAP)
    room = max(12, console.width - sum(WIDTHS) - 2 * GAP * len(WIDTHS) - 1)
    named = names_of(cells, shared_by(cells), ["n"])
    table.add_column("step", width=min(room, max(map(len, [*named, "step"]))), overflow="fold")
    relative = ["published\nrelative", "measured\nrelative"]
    headers = ["n", f"published\n{figure.device or source.device}", "measured", *relative]
    for header, width in zip(headers, WIDTHS, strict=True):
        table.add_column(Text(header), justify="right", width=width, overflow="fold")
    for step, name in zip(found.steps, named, strict=True):
        if step.cell.published is None and step.answer.value is None:
            continue
        n = step.cell.select.get("n")
        numbers = [step.cell.published, step.answer.value, step.published_relative, step.measured_relative]
        written = [f"{n:,}" if isinstance(n, int) else "", *(number(one, zeros=False) for one in numbers)]
        table.add_row(*map(Text, [name, *written]))
    console.print(table)
    if empty := len(found.steps) - table.row_count:
        say(console, f"not shown: {count(empty, 'step')} with neither a published nor a measured value")
    for remark in [*drift_notes(drifted), *remarks(found)]:
        say(console, remark)
