"""How far the model is off: the times that it predicts for records, beside those that were measured."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TypeVar

from gravbench.errors import InputError
from gravbench.explain.model import architecture_of, costs_of, predict
from gravbench.explain.peaks import Peaks
from gravbench.explain.shape import shape_of
from gravbench.explain.work import work_of
from gravbench.model.interaction_files import find
from gravbench.model.kernel_parts import UnmodelledError
from gravbench.model.record import Record
from gravbench.model.regular import write_whole
from gravbench.model.variant import discover
from gravbench.report.numbers import six_digits
from gravbench.report.page import charts, figures
from gravbench.report.page.kinds import Figure

Result = TypeVar("Result")
NAME = "model"
"""Of the figure, and of the file with its numbers."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A record of ``variant`` on ``device`` with ``n`` bodies: seconds of an evaluation, measured and predicted."""

    variant: str
    device: str
    n: int
    case: str
    measured: float
    predicted: float

    @property
    def error(self) -> float:
        """The relative error of the predicted time, below zero where it is too short."""
        return self.predicted / self.measured - 1


@dataclass(frozen=True, slots=True)
class Errors:
    """How far the model is off for one variant."""

    variant: str
    compared: tuple[Compared, ...]

    @property
    def errors(self) -> list[float]:
        """The relative errors of the predicted times."""
        return [comparison.error for comparison in self.compared]

    @property
    def median(self) -> float:
        """The median of the errors without their signs."""
        return median(map(abs, self.errors))

    @property
    def bias(self) -> float:
        """The median of the errors: below zero where the model predicts too little time."""
        return median(self.errors)

    @property
    def largest(self) -> float:
        """The error that is furthest from zero."""
        return max(self.errors, key=abs)


def modelled(record: Record) -> bool:
    """Tell whether a record is one that the model is for: a direct sum in CUDA C, measured by itself on a GPU."""
    variant = discover().get(record.variant)
    return (
        record.status == "ok"
        and record.timed == "force"
        and record.gpus == 1
        and bool(record.grid_blocks)
        and bool(record.median_seconds)
        and not (record.computed or record.uncounted)
        and variant is not None
        and variant.has_cuda_c
        and record.toolkit in ("cupy", "pycuda")
    )


def of_this_checkout(record: Record) -> bool:
    """Tell whether the kernel of a record is what this checkout has: else its machine code is another."""
    return record.code_sha256 == discover()[record.variant].code_sha256(record.toolkit, find(record.interaction))


def distinct(records: Iterable[Record]) -> Iterable[Record]:
    """Return one record of each measurement: one that got its counters later is written twice."""
    return {(record.key, record.started, record.median_seconds): record for record in records}.values()


def typical(all_errors: Iterable[Errors]) -> float | None:
    """Return the median of the errors of all records without their signs, None where there is none."""
    magnitudes = [abs(error) for errors in all_errors for error in errors.errors]
    return median(magnitudes) if magnitudes else None


def errors_of(records: Iterable[Record], rates: Peaks) -> tuple[list[Errors], dict[str, str]]:
    """Compare predicted with measured times, by variant; return also why records of a variant have no model.

    Records whose kernel is not what this checkout has are left out.
    """
    comparisons, without = of_each(records, lambda record: compared(record, rates))
    return by_variant(comparisons), without


def of_each(records: Iterable[Record], explain: Callable[[Record], Result]) -> tuple[list[Result], dict[str, str]]:
    """Explain each record that is modelled and of this checkout; return also why others have no model, by variant."""
    results: list[Result] = []
    without: dict[str, str] = {}
    for record in distinct(records):
        if modelled(record):
            try:
                if of_this_checkout(record):
                    results.append(explain(record))
            except (UnmodelledError, InputError) as error:
                without.setdefault(record.variant, str(error))
    return results, without


def compared(record: Record, rates: Peaks) -> Compared:
    """Predict the time of a record.

    Raises:
        UnmodelledError: there is no model of it.
        InputError: its kernel cannot be compiled or read here.
    """
    assert record.median_seconds  # it is one that the model is for
    work = work_of(record, architecture_of(record), shape_of(record))
    seconds = predict(record, work, rates, costs_of(rates)).seconds
    device = record.device or "an unknown device"
    times = six_digits(record.median_seconds), six_digits(seconds)
    return Compared(record.variant, device, record.n, record.label, *times)


def by_variant(comparisons: Iterable[Compared]) -> list[Errors]:
    """Put together what was found of each variant, in the order of the registry."""
    by_name: dict[str, list[Compared]] = {}
    for comparison in comparisons:
        by_name.setdefault(comparison.variant, []).append(comparison)
    return [Errors(name, tuple(by_name[name])) for name in discover() if name in by_name]


def figure(all_errors: Sequence[Errors]) -> Figure:
    """Draw the predicted over the measured time of each record, a row for each variant."""
    devices = dict.fromkeys(comparison.device for errors in all_errors for comparison in errors.compared)
    rows = [
        {"variant": comparison.variant, "ratio": six_digits(1 + comparison.error)}
        for errors in all_errors
        for comparison in errors.compared
    ]
    medians = {errors.variant: 1 + errors.bias for errors in all_errors}
    return Figure(
        NAME,
        "Predicted over measured time",
        "A sign for each record, and a line at the median of a variant. At one the prediction is right.",
        charts.predicted(rows, medians),
        f"direct sums on {', '.join(devices)}, one evaluation, predicted from machine code",
    )


def write(all_errors: Sequence[Errors], compiler: str, folder: Path) -> tuple[Path, Path]:
    """Write the figure and its numbers into a folder: ``model.svg`` and ``model.json``."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn, numbers = folder / f"{NAME}.svg", folder / f"{NAME}.json"
    write_whole(drawn, figures.svg(figure(all_errors)).encode())
    lines = [json.dumps(asdict(comparison)) for errors in all_errors for comparison in errors.compared]
    head = json.dumps({"compiler": compiler})[:-1]
    text = f'{head}, "records": [\n' + ",\n".join(lines) + "\n]}\n"
    write_whole(numbers, text.encode())
    return drawn, numbers
