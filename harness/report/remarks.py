"""What is said of a source's figures and claims, in a terminal and on a page: steps, remarks, evidence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from gravbench.config.published import Cell, Fact, Selected, Selection
from gravbench.model.quantities import BRIEF
from gravbench.report import published
from gravbench.report.names import Names, count, joined
from gravbench.report.numbers import number
from gravbench.report.provenance import NARROW_BRIEF
from gravbench.report.published import Answer, Column, Comparison, Decision

OF_SEVERAL: Mapping[published.Verdict, str] = {
    "holds": "hold",
    "does not hold": "do not hold",
    "undecided": "undecided",
    "cannot be tested": "cannot be tested",
}
"""What is said of several claims with one verdict."""


def counted(verdicts: Iterable[published.Verdict]) -> dict[published.Verdict, str]:
    """Say how many claims have each verdict that one has: ``3 hold``."""
    counts = Counter(verdicts)
    return {
        verdict: f"{counts[verdict]:,} {several if counts[verdict] > 1 else verdict}"
        for verdict, several in OF_SEVERAL.items()
        if counts[verdict]
    }


def words(selection: Selection, leave_out: Iterable[str] = ()) -> str:
    """Name what a selection selects: the variant alone, the rest as ``p=256``."""
    kept = {name: value for name, value in selection.items() if name not in leave_out}
    return " ".join(str(value) if name == "variant" else f"{name}={_any(value)}" for name, value in kept.items())


def _any(value: Selected) -> str:
    return " or ".join(map(str, value)) if isinstance(value, list) else str(value)


def every_step(comparison: Comparison) -> str:
    """Name what all steps of a figure share, their n only where each has one."""
    cells = [step.cell for step in comparison.steps]
    return words(shared_by(cells), ["n"] if any("n" not in cell.select for cell in cells) else [])


def step_names(comparison: Comparison) -> list[str]:
    """Name each step of a figure by what sets it apart from the others, its n included where they have several."""
    cells = [step.cell for step in comparison.steps]
    sizes = [f"n={n}" if "n" not in shared_by(cells) and (n := cell.select.get("n")) else "" for cell in cells]
    named = names_of(cells, shared_by(cells), ["n"])
    if len(set(sizes)) == len(cells) and len(set(named)) == 1:
        return sizes
    return [" ".join(filter(None, pair)) for pair in zip(named, sizes, strict=True)]


def shared_by(cells: Sequence[Cell]) -> dict[str, Selected]:
    """Return the selections that all cells share."""
    return {
        name: value for name, value in cells[0].select.items() if all(cell.select.get(name) == value for cell in cells)
    }


def names_of(cells: Iterable[Cell], shared: Iterable[str], leave_out: Iterable[str]) -> list[str]:
    """Name each cell by what is neither shared nor left out."""
    omitted = [*shared, *leave_out]
    return [cell.step or words(cell.select, omitted) or str(cell.select.get("variant", "")) for cell in cells]


def conditions_of(column: Column) -> str:
    """Name what one column of a figure was measured on."""
    names = Names()
    return f"{names.device(column.conditions)}, {column.toolkit}, {names.task(column.conditions)}"


def remarks(comparison: Comparison) -> Iterable[str]:
    """Say what is blank and why, what was timed otherwise, and what else answers."""
    figure = comparison.figure
    timed = {step.answer.record.timed for step in comparison.steps if step.answer.record}
    if timed - {figure.timed}:
        here = " and ".join(sorted(timed))
        yield f"The timings differ in scope: the source timed {BRIEF[figure.timed]}; here: {here}."
    lost = sum(step.cell.published is None for step in comparison.steps)
    if lost:
        yield f"published is blank in {count(lost, 'cell')} ({figure.blank})."
    reasons = Counter(step.answer.why for step in comparison.steps if step.answer.value is None)
    if reasons:
        why = "; ".join(f"{times:,} {reason}" for reason, times in reasons.most_common())
        yield f"measured is blank in {count(reasons.total(), 'cell')} ({why})."
    if any(step.answer.value is not None and step.measured_relative is None for step in comparison.steps):
        yield "measured relative is blank where the first step of the path has no value."
    if sampled := _sampled(comparison):
        yield f"The errors of {count(len(sampled), 'cell')} are those of a sample of the bodies ({joined(sampled)})."
    if comparison.not_shown:
        yield f"Also measured, but not shown: {'; '.join(map(conditions_of, comparison.not_shown))}."
    for other in comparison.others:
        yield (
            f"{other.toolkit} also has {count(other.answered, 'cell')} of these; "
            f"its values are {number(other.lowest, zeros=False)} to {number(other.highest, zeros=False)} times those "
            "shown."
        )
    slopes = {"published": comparison.slope("published"), "here": comparison.slope("measured")}
    if slopes_in_words := [f"{value:.2f} {name}" for name, value in slopes.items() if value is not None]:
        yield f"Slope on log-log axes, fitted from n = {published.SLOPE_FROM:,} upwards: {', '.join(slopes_in_words)}."
    if figure.note:
        yield f"Note: {figure.note}"


def _sampled(comparison: Comparison) -> list[str]:
    """Name the sizes of samples from which errors come, of the cells that are errors of some of the bodies."""
    answers = [step.answer for step in comparison.steps if comparison.figure.unit == "relative error"]
    records = [answer.record for answer in answers if answer.record and answer.value is not None]
    return [f"{record.error_rows:,} of {record.n:,}" for record in records if 0 < (record.error_rows or 0) < record.n]


def fact_words(fact: Fact) -> str:
    """Say what a source published that no record answers."""
    return f"{fact.text}: {', '.join(number(value, zeros=False) or 'lost' for value in fact.values)}"


def evidence(decision: Decision) -> str:
    """Say what was published with a claim, what it asks for, and the numbers behind the verdict."""
    claim = decision.claim
    published_numbers = ", ".join(number(figure, zeros=False) for figure in claim.published)
    figures = f" Published: {published_numbers}." if claim.published else ""
    numbers = "; ".join(
        f"{name} = {_behind(answer, claim.numbers[name].unit, claim.numbers[name].select)}"
        for name, answer in decision.answers.items()
    )
    reason = f"Condition: {claim.holds}; {numbers}." if claim.holds else f"{claim.untestable}."
    if claim.run:
        reason += f" {_run_words(decision)}"
    reason += published.ratio_words(decision)
    reason += f" {NARROW_BRIEF}." * any(answer.doubt.narrow for answer in decision.answers.values())
    return f"{figures} {reason}"


def _run_words(decision: Decision) -> str:
    """Say which other run was asked, on what devices it was not, or which sweep would measure the numbers."""
    if not decision.run:
        return f"The sweep {decision.claim.run} measures this."
    devices = ", ".join(decision.left_out)
    without = f", without its records on {devices}, which this run was not measured on" if devices else ""
    return f"Asked of the run {decision.run}{without}."


def _behind(answer: Answer, unit: str, selection: Selection) -> str:
    if answer.record is None:
        return f"blank ({words(selection)}: {answer.why})"
    written = " ".join(filter(None, [number(answer.value, zeros=False), unit, answer.doubt.words]))
    return f"{written} ({answer.record.label})"
