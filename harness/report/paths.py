"""A source's figures and claims in a terminal, the measured values beside the published ones.

Every sign used stands in Latin-1 beside ASCII, and nothing is said by colour only.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from harness.config.published import Cell, Selection, Source, Timed
from harness.record import Record, Value, latest
from harness.report import published
from harness.report.published import Answer, Column, Comparison, Decision

READING = (
    "published is the source's value on its device, measured the value here. relative: the value over that of the "
    "path's own first step, so that the shapes of two paths can be compared; of a time or an error, smaller is better. "
    "GFLOP/s count {flops:g} flops an interaction on both sides, unless the figure says otherwise."
)
TIMED: dict[Timed, str] = {
    "force": "the accelerations alone",
    "step": "a step, force and integrator",
    "call": "the library call, transfers included",
    "frame": "a frame: force, step and drawing",
    "process": "the whole process, start-up of the device included",
}
WIDTHS = (9, 12, 12, 9, 9)
"""Of the columns of numbers, from n to the last; the first column has the rest."""
GAP = 1


def render_published(source: Source, records: Sequence[Record], console: Console) -> None:
    """Print each figure of ``source`` beside what ``records`` measured, then its claims and what stays unanswered."""
    cases = latest(records)
    console.print()
    console.rule(Text("Published and measured", style="bold"), align="left", style="dim")
    _print(console, f"{source.source}. Device: {source.device}.")
    if source.figures:
        _print(console, READING.format(flops=source.flops_per_interaction))
    for figure in source.figures:
        _figure(console, source, published.compare(source, figure, cases))
    if source.claims:
        _title(console, "Claims")
        for claim in source.claims:
            _claim(console, published.decide(source, claim, cases))
    if source.facts:
        _title(console, "Published, and answered by no record here")
        for fact in source.facts:
            numbers = ", ".join(number(value) or "lost" for value in fact.values)
            _print(console, f"{fact.text}: {numbers}", indent=2)
    if source.notes:
        _title(console, "Notes")
        for note in source.notes:
            _print(console, note, indent=2)


def number(value: float | None) -> str:
    """Write four significant digits; nothing for None."""
    if value is None:
        return ""
    if math.isfinite(value) and (1e4 <= abs(value) < 1e9 or (value == int(value) and abs(value) < 1e9)):
        return f"{value:,.0f}"
    return f"{value:.4g}"


def words(selection: Selection, leave_out: Iterable[str] = ()) -> str:
    """Name what a selection selects: the variant alone, the rest as ``p=256``."""
    kept = {name: value for name, value in selection.items() if name not in leave_out}
    return " ".join(str(value) if name == "variant" else f"{name}={_any(value)}" for name, value in kept.items())


def _any(value: Value | list[Value]) -> str:
    return " or ".join(map(str, value)) if isinstance(value, list) else str(value)


def _print(console: Console, text: str, style: str = "", indent: int = 0) -> None:
    # Text, not str: a bracket in a reason is no markup.
    line = Text(text, style=style)
    console.print(Padding(line, (0, 0, 0, indent), expand=False) if indent else line)


def _title(console: Console, text: str) -> None:
    console.print()
    _print(console, text, "bold")


def _figure(console: Console, source: Source, found: Comparison) -> None:
    figure = found.figure
    cells = [step.cell for step in found.steps]
    shared = _shared(cells)
    everywhere = words(shared, ["n"] if any("n" not in cell.select for cell in cells) else [])
    _title(console, f"{figure.title}, {figure.unit}" + (f"; every step: {everywhere}" if everywhere else ""))
    if found.shown:
        _print(console, f"measured here: {'; '.join(map(_conditions, found.shown))}")
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, GAP, 0, 0))
    room = max(12, console.width - sum(WIDTHS) - 2 * GAP * len(WIDTHS) - 1)
    named = _named(cells, shared, ["n"])
    table.add_column("step", width=min(room, max(map(len, [*named, "step"]))), overflow="fold")
    headers = (
        "n",
        f"published\n{figure.device or source.device}",
        "measured",
        "published\nrelative",
        "measured\nrelative",
    )
    for header, width in zip(headers, WIDTHS, strict=True):
        table.add_column(Text(header), justify="right", width=width, overflow="fold")
    for step, name in zip(found.steps, named, strict=True):
        n = step.cell.select.get("n")
        numbers = [step.cell.published, step.answer.value, step.published_relative, step.measured_relative]
        table.add_row(Text(name), Text(f"{n:,}" if isinstance(n, int) else ""), *(Text(number(one)) for one in numbers))
    console.print(table)
    for remark in remarks(found):
        _print(console, remark)


def every_step(found: Comparison) -> str:
    """Name what all steps of a figure share, their n only where each has one."""
    cells = [step.cell for step in found.steps]
    return words(_shared(cells), ["n"] if any("n" not in cell.select for cell in cells) else [])


def step_names(found: Comparison) -> list[str]:
    """Name each step of a figure by what sets it apart from the others, its n included where they have several."""
    cells = [step.cell for step in found.steps]
    sizes = [f"n={n}" if "n" not in _shared(cells) and (n := cell.select.get("n")) else "" for cell in cells]
    named = _named(cells, _shared(cells), ["n"])
    if len(set(sizes)) == len(cells) and len(set(named)) == 1:
        return sizes
    return [" ".join(filter(None, pair)) for pair in zip(named, sizes, strict=True)]


def _shared(cells: Sequence[Cell]) -> dict[str, Value | list[Value]]:
    return {name: value for name, value in cells[0].select.items() if all(_has(cell, name, value) for cell in cells)}


def _named(cells: Iterable[Cell], shared: Iterable[str], leave_out: Iterable[str]) -> list[str]:
    omitted = [*shared, *leave_out]
    return [cell.step or words(cell.select, omitted) or str(cell.select.get("variant", "")) for cell in cells]


def _has(cell: Cell, name: str, value: Value | list[Value]) -> bool:
    return name in cell.select and cell.select[name] == value


def _conditions(column: Column) -> str:
    own = column.conditions
    device = own.device or "unknown device"
    return f"{device}, {column.toolkit}, {own.bodies}, {own.dtype}, timed: {own.timed}"


def remarks(found: Comparison) -> Iterable[str]:
    """Say what is blank and why, what was timed otherwise, and what else answers."""
    figure = found.figure
    timed = {step.answer.record.timed for step in found.steps if step.answer.record}
    if timed - {figure.timed}:
        here = " and ".join(sorted(timed))
        yield f"Not the same was timed: by the source {TIMED[figure.timed]}; here: {here}."
    lost = sum(step.cell.published is None for step in found.steps)
    if lost:
        yield f"Blank under published: {_cells(lost)} ({figure.blank})."
    reasons = Counter(step.answer.why for step in found.steps if step.answer.value is None)
    if reasons:
        why = "; ".join(f"{count:,} {reason}" for reason, count in reasons.most_common())
        yield f"Blank under measured: {_cells(reasons.total())} ({why})."
    if any(step.answer.value is not None and step.measured_relative is None for step in found.steps):
        yield "Blank under measured relative beside a value: the first step of the path has none."
    if found.not_shown:
        yield f"Answered too, but not shown: {'; '.join(map(_conditions, found.not_shown))}."
    for other in found.others:
        yield (
            f"{other.toolkit}: {_cells(other.answered)} of these too, "
            f"its values {number(other.lowest)} to {number(other.highest)} times those shown."
        )
    slopes = {"published": found.slope("published"), "here": found.slope("measured")}
    if told := [f"{value:.2f} {name}" for name, value in slopes.items() if value is not None]:
        yield f"Slope on log-log axes, fitted from n = {published.SLOPE_FROM:,} on: {', '.join(told)}."
    if figure.note:
        yield f"Note: {figure.note}"


def _cells(count: int) -> str:
    return "1 cell" if count == 1 else f"{count:,} cells"


def _claim(console: Console, decision: Decision) -> None:
    style = {"holds": "green", "does not hold": "red", "cannot be tested": "yellow"}[decision.verdict]
    _print(console, f"{decision.verdict}: {decision.claim.text}.{evidence(decision)}", style)


def evidence(decision: Decision) -> str:
    """Say what was published with a claim, what it asks for, and the numbers behind the verdict."""
    claim = decision.claim
    figures = f" Published: {', '.join(map(number, claim.published))}." if claim.published else ""
    numbers = "; ".join(
        f"{name} = {_behind(answer, claim.numbers[name].unit, claim.numbers[name].select)}"
        for name, answer in decision.answers.items()
    )
    reason = f"It asks for {claim.holds}; {numbers}." if claim.holds else f"{claim.untestable}."
    return f"{figures} {reason}"


def _behind(answer: Answer, unit: str, selection: Selection) -> str:
    if answer.record is None:
        return f"blank ({words(selection)}: {answer.why})"
    return f"{number(answer.value)} {unit} ({answer.record.label})"
