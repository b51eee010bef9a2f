"""Which variant is the fastest for an n and an error: a table made of measured records, and the choice from it.

The table has every configuration that ``gravbench.verdicts.best`` would choose at some n for some error, with its
error and its time at every n that was measured. Between two of these n times are interpolated, and the larger error
counts.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import ROUND_UP, Context
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, get_args

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from gravbench.config import document
from gravbench.config.settings import Number, Positive, validated
from gravbench.errors import InputError, nearest
from gravbench.model.case import CONDITIONS, PARTS, Value, stated
from gravbench.model.record import Record
from gravbench.model.runs import latest
from gravbench.model.toolkits import catalogue, place_of
from gravbench.model.variant import AxisValue, Dtype, Variant, discover
from gravbench.verdicts.best import EQUAL_MASS, is_of, ranked, task, what
from gravbench.verdicts.compare import THRESHOLD, Defaults, Run
from gravbench.verdicts.ranking import grouped, is_ranked, seconds, size
from gravbench.verdicts.ratios import Scatter, scatters

PACKAGED = Path(__file__).with_suffix(".yaml")

ERROR_DIGITS, TIME_DIGITS = 2, 4


def _callable() -> list[str]:
    """Name the toolkits that ``gravbench.force`` uses."""
    return [name for name, entry in catalogue().items() if entry.in_force]


def _known(toolkit: str) -> str:
    if toolkit not in _callable():
        raise PydanticCustomError("literal_error", "no such toolkit", {"expected": str(_callable())})
    return toolkit


class Choice(BaseModel):
    """One configuration: the largest relative error and the seconds of an evaluation at each n of its ``Measured``.

    Both are None where it was not measured.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    variant: str
    dtype: Dtype
    axes: dict[str, AxisValue]
    error_max: list[Annotated[Number, Field(ge=0)] | None]
    seconds: list[Positive | None]


class Measured(BaseModel):
    """What one toolkit was found to do on one device, at these n in rising order."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    toolkit: Annotated[str, AfterValidator(_known)]
    device: str
    n: Annotated[list[Annotated[int, Field(ge=1)]], Field(min_length=1)]
    choices: Annotated[list[Choice], Field(min_length=1)]

    @model_validator(mode="after")
    def _consistent(self) -> Measured:
        if any(first >= second for first, second in itertools.pairwise(self.n)):
            raise ValueError("n in rising order, each once")
        if any(len(values) != len(self.n) for one in self.choices for values in (one.error_max, one.seconds)):
            raise ValueError(f"error_max and seconds with {len(self.n)} values each, one for every n")
        return self

    def at(self, choice: Choice, n: int) -> tuple[float, float] | None:
        """Return error and seconds at any n, by the n at which it was measured itself; None where there is none.

        Beyond the largest of these the error is taken to grow as n does, which is the most that the rounding of a sum
        can, and the time as n squared, which is the most that a force takes: no choice wins where it was not measured.
        """
        own = [
            (size, error, seconds)
            for size, error, seconds in zip(self.n, choice.error_max, choice.seconds, strict=True)
            if error is not None and seconds is not None
        ]
        if not own:
            return None
        above = bisect_left(own, n, key=lambda found: found[0])
        first, error, seconds = own[max(above - 1, 0)]
        second, other_error, other_seconds = own[min(above, len(own) - 1)]
        if above == 0 or second == n:
            return other_error, other_seconds
        if above == len(own):
            return error * (n / first), seconds * (n / first) ** 2
        part = math.log(n / first) / math.log(second / first)
        return max(error, other_error), seconds ** (1 - part) * other_seconds**part

    def fitting(self, n: int, dtypes: Collection[str], *, equal_masses: bool) -> list[tuple[Choice, float, float]]:
        """List the choices that can be made, each with its error and its seconds at n.

        One with ``equal_mass`` is fast where all bodies weigh the same, and left out elsewhere.
        """
        return [
            (choice, *found)
            for choice in self.choices
            if choice.dtype in dtypes and (equal_masses or choice.axes.get(EQUAL_MASS) != 1)
            if (found := self.at(choice, n)) is not None
        ]


class Table(BaseModel):
    """The fastest variants by toolkit. ``runs`` are those it was made of; ``bodies`` what the records share."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    runs: list[str]
    threshold: Positive
    bodies: dict[str, Value]
    measured: list[Measured]

    def of(self, toolkit: str) -> Measured | None:
        """Return what it has of a toolkit."""
        return next((one for one in self.measured if one.toolkit == toolkit), None)


def read(path: Path) -> Table:
    """Read a table, once per process unless the file was written since.

    Raises:
        InputError: one sentence that names the file, the line and what is wrong.
    """
    try:
        resolved = path.resolve()
        found = resolved.stat()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    return _read(resolved, found.st_mtime_ns, found.st_size)


@lru_cache
def _read(path: Path, _written: int, _size: int) -> Table:
    found = document.read(path)
    table = validated(Table, found.data, found.where)
    variants = discover()
    for i, measured in enumerate(table.measured):
        for j, choice in enumerate(measured.choices):
            own = variants.get(choice.variant)
            if own is None:
                objection = f"{choice.variant} is no variant; {nearest(choice.variant, list(variants))}"
            elif measured.toolkit not in own.toolkits or choice.dtype not in own.dtypes:
                objection = f"{choice.variant} has no kernel for {measured.toolkit} in {choice.dtype}"
            elif own.of_positions:
                objection = f"{choice.variant} would have to be prepared for every call; accepted: any other"
            elif set(choice.axes) != set(own.axes):
                objection = f"the axes of {choice.variant} are {', '.join(own.axes) or 'none'}; make the table again"
            else:
                continue
            raise InputError(f"{found.where(('measured', i, 'choices', j))}: {objection}")
    return table


def write(table: Table, path: Path) -> None:
    """Write a table that ``read`` reads.

    Raises:
        InputError: the file cannot be written.
    """
    head = f"# Made by: gravbench best {' '.join(table.runs)} --save FILE\n"
    text = yaml.safe_dump(table.model_dump(), default_flow_style=None, sort_keys=False, width=120)
    try:
        path.write_text(head + text, "utf-8")
    except OSError as error:
        raise InputError(f"--save {path}: cannot be written: {error.strerror}") from error


def make(
    runs: Sequence[Run], variants: Mapping[str, Variant], *, device: str | None = None, threshold: float = THRESHOLD
) -> Table:
    """Choose, for every toolkit, n and error that one could ask for, as ``gravbench.verdicts.best`` does.

    Of a case in several runs the last has its say. Approximations that take turns are left out, as are steps, calls,
    bodies in the plane, other interactions, the peers' toolkits, variants that are none of ``variants`` or have other
    axes now, those whose speed needs more than a launch, because they are prepared for the positions they get, and
    what was outraced.

    Raises:
        InputError: there is no such record, or two devices of a toolkit, or two kinds of bodies.
    """
    newest = {
        (record.key, record.device): record
        for run in runs
        for record in latest(run.records)
        if _usable(record, variants.get(record.variant)) and (device is None or is_of(record, device))
    }
    records = list(newest.values())
    if not records:
        raise InputError("--save: no record of these runs is of an exact force that is ok; accepted: a run with some")
    tasks = [dict(found) for found in {tuple((task(record) | record.contents).items()) for record in records}]
    if len(tasks) > 1:
        names = "; ".join(sorted(", ".join(f"{key} {value}" for key, value in found.items()) for found in tasks))
        raise InputError(f"--save: the records are of several kinds of bodies ({names}); accepted: one")
    scattered = scatters([run.records for run in runs], lambda record: record.device or "")
    defaults = {name: one.defaults for name, one in variants.items()}
    measured = []
    by_toolkit = grouped(records, lambda record: record.toolkit)
    for toolkit, own in sorted(by_toolkit.items(), key=lambda item: place_of(item[0])):
        devices = sorted({record.device or "" for record in own})
        if len(devices) > 1:
            raise InputError(f"--save: {toolkit} was measured on {' and '.join(devices)}; accepted: one, by --device")
        measured.append(_measured(own, scattered.get(devices[0], Scatter()), threshold, defaults))
    return Table(
        runs=[run.name for run in runs],
        threshold=threshold,
        bodies={name: tasks[0][name] for name in stated() if PARTS[name].kind == "bodies"},
        measured=measured,
    )


def _usable(record: Record, variant: Variant | None) -> bool:
    return (
        is_ranked(record)
        and not record.outraced
        and record.error_max is not None
        and record.toolkit in _callable()
        and record.cycle == 1
        and all(record.conditions.get(name) == part.usual for name, part in CONDITIONS.items() if part.kind == "work")
        and variant is not None
        and not variant.of_positions
        and set(record.axes) == set(variant.axes)
    )


def _measured(records: list[Record], scatter: Scatter, threshold: float, defaults: Defaults) -> Measured:
    """Keep the configurations that are chosen somewhere, the fastest at the largest n first."""
    at = grouped(records, size)
    alike = grouped(records, what)
    sizes = sorted(at)
    chosen: dict[tuple[Any, ...], list[Record | None]] = {}
    for together, dtype, masses in itertools.product(at.values(), get_args(Dtype), (0, 1)):
        able = [one for one in together if one.dtype == dtype and (masses or one.axes.get(EQUAL_MASS) != 1)]
        for record in _for_every_error(able, scatter, threshold, defaults):
            by_n = {one.n: one for one in alike[what(record)]}
            chosen[what(record)] = [by_n.get(n) for n in sizes]
    by_speed = sorted(chosen.values(), key=lambda found: [seconds(one) if one else math.inf for one in found[::-1]])
    choices = list(map(_choice, by_speed))
    return Measured(toolkit=records[0].toolkit, device=records[0].device or "", n=sizes, choices=choices)


def _for_every_error(records: list[Record], scatter: Scatter, threshold: float, defaults: Defaults) -> Iterator[Record]:
    """Choose without an error limit, then among those that are more accurate than that choice, and so on.

    For any limit the first of these within it is as good as the fastest within it.
    """
    while records:
        chosen = ranked(records, scatter, threshold, defaults).as_good[0]
        yield chosen
        records = [record for record in records if largest_error(record) < largest_error(chosen)]


def largest_error(record: Record) -> float:
    """Return the largest relative error of all n bodies; where a sample was compared, what it is expected to be.

    Relative errors are largest where pulls nearly cancel. Of accelerations that point anywhere the part shorter than x
    grows as x cubed, so that the largest error of k times as many bodies is the cube root of k times as large.
    """
    rows = record.error_rows or record.n
    return (record.error_max or 0.0) * math.cbrt(max(1.0, record.n / rows))


def _choice(found: Sequence[Record | None]) -> Choice:
    """Write what one configuration gave at each n, with as many digits as are significant."""
    first = next(filter(None, found))
    # Up, so that no error is larger than the table says.
    up = Context(prec=ERROR_DIGITS, rounding=ROUND_UP)
    return Choice(
        variant=first.variant,
        dtype=first.dtype,
        axes=first.axes,
        error_max=[float(up.create_decimal(str(largest_error(one)))) if one else None for one in found],
        seconds=[float(f"{one.median_seconds:.{TIME_DIGITS - 1}e}") if one else None for one in found],
    )
