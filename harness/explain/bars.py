"""Where the measured time of a case goes: the record of what was asked for, and its waterfall as one stacked bar."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gravbench.errors import InputError, listed, shortened
from gravbench.explain import peaks
from gravbench.explain.explained import Asked, Explained
from gravbench.explain.model import architecture_of
from gravbench.explain.waterfall import Part, waterfall
from gravbench.model.interaction import GRAVITY
from gravbench.model.kernel_parts import UnmodelledError
from gravbench.model.record import Record
from gravbench.model.runs import latest
from gravbench.model.toolkits import catalogue

KEYS = "#=+:-.~*%@"
"""Of the parts of a bar, in their order."""


@dataclass(frozen=True, slots=True)
class Bar:
    """The parts of a record's picoseconds per interaction; ``why`` there are none, where there are not."""

    record: Record
    picoseconds: float
    parts: tuple[Part, ...] = ()
    why: str = ""

    @property
    def title(self) -> str:
        """Name the variant, and where it was measured."""
        return f"{self.record.variant} on {self.record.device or 'an unknown device'}"

    @property
    def slices(self) -> Iterator[tuple[str, Part, float]]:
        """Give each part with its key and its share of the time; one below zero has a negative share."""
        for key, part in zip(KEYS, self.parts, strict=False):
            yield key, part, part.picoseconds / self.picoseconds

    def drawn(self, width: int) -> str:
        """Draw the parts beside each other, in all as long as they are together; those below zero are left out."""
        shown = [(key, max(0.0, part.picoseconds)) for key, part, _ in self.slices]
        whole, text, end = sum(length for _, length in shown), "", 0.0
        for key, length in shown:
            end += length
            text += key * (round(width * end / whole) - len(text))
        return text


def bars(explained: Explained, records: Sequence[Record], folder: Path, of_peaks: Path | None = None) -> list[Bar]:
    """Divide the time of the record of each case that was asked for; the peak rates are those of ``of_peaks``.

    Raises:
        InputError: a case was not measured, or on an architecture for which it was not compiled.
    """
    device = peaks.read(of_peaks or folder)
    return [
        _bar(explained, side, record_of(case, records, folder), device) for side, case in enumerate(explained.asked)
    ]


def record_of(case: Asked, records: Sequence[Record], folder: Path) -> Record:
    """Return the newest record of a case: of its toolkits with CUDA C the first one's.

    Raises:
        InputError: there is none.
    """
    name = case.variant.name
    measured = [record for record in latest(records) if record.variant == name and _can_be_divided(record)]
    # A record that is older than an axis has what is now its default.
    usual = case.variant.usual()
    same = [record for record in measured if {**usual, **record.axes} == {**usual, **case.axes}]
    exact = [record for record in same if (record.n, record.dtype) == (case.n, case.dtype)]
    if exact:
        return exact[0]
    where = f"--run {shortened(str(folder))}: no record of {name} through CUDA C"
    if not measured:
        raise InputError(where)
    if same:
        sizes = listed(f"--n {record.n} --dtype {record.dtype}" for record in same)
        raise InputError(f"{where} for n={case.n:,} in {case.dtype}; accepted: {sizes}")
    axes = listed(dict.fromkeys(record.configuration for record in measured))
    raise InputError(f"{where} with these axes; accepted: {axes}")


def _can_be_divided(record: Record) -> bool:
    """Tell whether a record is of gravity in CUDA C, and its time can be divided among interactions."""
    toolkit = catalogue().get(record.toolkit)
    in_cuda_c = toolkit is not None and toolkit.cuda_c
    timed = record.status == "ok" and bool(record.median_seconds) and record.timed == "force"
    return in_cuda_c and timed and record.interaction == GRAVITY and not record.uncounted


def _bar(explained: Explained, side: int, record: Record, device: peaks.Peaks) -> Bar:
    assert record.median_seconds  # it was chosen for that
    picoseconds = 1e12 * record.median_seconds / record.evaluated
    architecture = architecture_of(record)
    ledgers = [row.ledger for row in explained.main if row.side == side]
    fitting = [ledger for ledger in ledgers if ledger.architecture == architecture]
    if not fitting:
        raise InputError(f"--run: {record.label} was measured on {architecture}; accepted: --arch {architecture}")
    try:
        return Bar(record, picoseconds, waterfall(record, architecture, device, fitting[0].kernel))
    except UnmodelledError as error:
        return Bar(record, picoseconds, why=str(error))
