"""A source's figures and claims, the measured values beside the published ones."""

from __future__ import annotations

from gravbench.report import published
from gravbench.report.names import count, drift_notes, drift_signs
from gravbench.report.numbers import number
from gravbench.report.published import Comparison
from gravbench.report.remarks import conditions_of, every_step, evidence, fact_words, names_of, remarks, shared_by
from gravbench.report.section import Column, Part, Section, Table
from gravbench.report.sections.content import Content

READING = (
    "published is the source's value on its device, measured is the value here. relative: the value divided by that of "
    "the first step of the same path, to compare the shapes of the two paths; smaller times and errors are better. "
    "GFLOP/s count {flops:g} FLOPs per interaction on both sides, unless the figure says otherwise."
)
STYLES = {"holds": "green", "does not hold": "red"}
"""How a terminal shows verdicts; others are yellow."""

Named = tuple[str, published.Step]
"""A step of a figure, with what sets it apart from the others."""


def values_and_claims(content: Content) -> Section | None:
    """Show each figure of the source beside what was measured, then its claims and what stays unanswered."""
    source = content.source
    if source is None:
        return None
    parts = [_figure(content, published.compare(source, figure, content.cases)) for figure in source.figures]
    parts += [
        Part(
            "Claims",
            lines=[
                f"{decision.verdict}: {decision.claim.text}.{evidence(decision)}"
                for decision in published.decisions(source, content.records, content.others)
            ],
            style=lambda line: STYLES.get(line.partition(":")[0], "yellow"),
        )
    ] * bool(source.claims)
    facts = list(map(fact_words, source.facts))
    parts += [Part("Published values with no record here", lines=facts)] * bool(facts)
    parts += [Part("Notes", lines=source.notes)] * bool(source.notes)
    reading = f" {READING.format(flops=source.flops_per_interaction)}" * bool(source.figures)
    title = "Published and measured values"
    return Section("published", title, f"{source.source}. Device: {source.device}.{reading}", parts)


def _figure(content: Content, comparison: Comparison) -> Part:
    figure, source = comparison.figure, content.source
    assert source is not None
    drifted = content.drifted(content.records, *(column.conditions for column in comparison.shown))
    everywhere = every_step(comparison)
    every = f"; every step: {everywhere}" if everywhere else ""
    cells = [step.cell for step in comparison.steps]
    named = zip(names_of(cells, shared_by(cells), ["n"]), comparison.steps, strict=True)
    rows = [row for row in named if row[1].cell.published is not None or row[1].answer.value is not None]
    empty = len(comparison.steps) - len(rows)
    return Part(
        f"{figure.title}, {figure.unit}{every}{drift_signs(drifted)}",
        [f"measured here: {'; '.join(map(conditions_of, comparison.shown))}"] * bool(comparison.shown),
        Table(_columns(figure.device or source.device), rows),
        [
            *[f"not shown: {count(empty, 'step')} with neither a published nor a measured value"] * bool(empty),
            *drift_notes(drifted),
            *remarks(comparison),
        ],
    )


def _case(row: Named) -> str:
    answer = row[1].answer
    return answer.record.label if answer.record else answer.why or ""


def _columns(device: str) -> list[Column[Named]]:
    def size(row: Named) -> str:
        n = row[1].cell.select.get("n")
        return f"{n:,}" if isinstance(n, int) else ""

    return [
        Column("step", lambda row: row[0], text=True, breaks=True),
        Column("n", size),
        Column("published\n" + device, lambda row: number(row[1].cell.published, zeros=False)),
        Column("measured", lambda row: number(row[1].answer.value, zeros=False)),
        Column("published\nrelative", lambda row: number(row[1].published_relative, zeros=False)),
        Column("measured\nrelative", lambda row: number(row[1].measured_relative, zeros=False)),
        Column("measured case", _case, 9, text=True),
    ]
