"""Which variant is the fastest for an n and an error: a table made of measured records, and the choice from it.

The table has every configuration that ``gravbench.verdicts.best`` would choose at some n for some error and some
quantile of the errors, with its errors and its time at every n that was measured. Between two of these n times are
interpolated, and the larger error counts.
"""

from __future__ import annotations

import itertools
import math
import shlex
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import ROUND_UP, Context
from functools import cache, lru_cache
from pathlib import Path
from typing import Annotated, Any, get_args

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from gravbench.config import document
from gravbench.config.axes import axis_values
from gravbench.config.document import shown
from gravbench.config.fitting import needed_by
from gravbench.config.settings import Number, Positive, validated
from gravbench.errors import InputError, nearest
from gravbench.model.case import CONDITIONS, PARTS, PROBLEM_AXES, Value, stated
from gravbench.model.device import CardKind
from gravbench.model.record import LARGEST, QUANTILES, Record
from gravbench.model.runs import latest
from gravbench.model.toolkits import catalogue, place_of
from gravbench.model.variant import AxisValue, Dtype, Variant, discover
from gravbench.verdicts.best import ranked
from gravbench.verdicts.cards import card_kind
from gravbench.verdicts.compare import THRESHOLD, Defaults, Run
from gravbench.verdicts.question import EQUAL_MASS, USUAL, considered, error_of, task, what
from gravbench.verdicts.ranking import grouped, is_ranked, seconds, size
from gravbench.verdicts.uncertainty import Uncertainties

Errors = list[Annotated[Number, Field(ge=0)] | None]

TABLES = Path(__file__).with_name("tables")
"""The folder of the tables that come with gravbench: one file per device, written by ``gravbench best --save``."""


ERROR_DIGITS, TIME_DIGITS = 2, 4

WHOLE_FORCE: dict[str, tuple[Value | None, str]] = {
    "dim": (PROBLEM_AXES["dim"].usual, "computes in the plane"),
    "fraction": (1, "computes a part of the pairs in each evaluation"),
    "gpus": (1, "uses several GPUs"),
}
"""For some axes the one value with which an evaluation is the whole force, and what others do."""


def _callable() -> list[str]:
    """Name the toolkits that ``gravbench.force`` uses."""
    return [name for name, entry in catalogue().items() if entry.in_force]


def _known(toolkit: str) -> str:
    if toolkit not in _callable():
        raise PydanticCustomError("literal_error", "no such toolkit", {"expected": str(_callable())})
    return toolkit


class Choice(BaseModel):
    """One configuration: relative errors and the seconds of an evaluation at each n of its ``Measured``.

    Each is None where it was not measured. There are errors of the ``QUANTILES`` up to the largest one for which the
    configuration was chosen, so that what is chosen for larger ones does not depend on it. A table from before has the
    largest errors only.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    variant: str
    dtype: Dtype
    axes: dict[str, AxisValue]
    error_median: Errors | None = None
    error_p90: Errors | None = None
    error_p99: Errors | None = None
    error_max: Errors | None = None
    seconds: list[Positive | None]

    def errors(self, quantile: float) -> Errors | None:
        """Return this quantile of the relative errors at each n; None where it has none."""
        errors: Errors | None = getattr(self, QUANTILES[quantile])
        return errors


class Measured(BaseModel):
    """What one toolkit was found to do on one device, at these n in rising order."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    toolkit: Annotated[str, AfterValidator(_known)]
    device: str
    compute_capability: str | None = None
    multiprocessors: Annotated[int, Field(ge=1)] | None = None
    n: Annotated[list[Annotated[int, Field(ge=1)]], Field(min_length=1)]
    choices: Annotated[list[Choice], Field(min_length=1)]

    @property
    def card(self) -> CardKind:
        """What it was measured on."""
        return CardKind(self.device, self.compute_capability, self.multiprocessors)

    @model_validator(mode="after")
    def _consistent(self) -> Measured:
        if any(first >= second for first, second in itertools.pairwise(self.n)):
            raise ValueError("n in ascending order, each once")
        for choice in self.choices:
            lists = {
                name: quantile_errors
                for name in QUANTILES.values()
                if (quantile_errors := getattr(choice, name)) is not None
            }
            if not lists:
                raise ValueError(f"a choice with one of {', '.join(QUANTILES.values())}")
            if any(len(values) != len(self.n) for values in (*lists.values(), choice.seconds)):
                raise ValueError(f"{', '.join(lists)} and seconds with {len(self.n)} values each, one for every n")
        return self

    def at(self, choice: Choice, n: int, quantile: float = LARGEST) -> tuple[float, float] | None:
        """Return error and seconds at any n, by the n at which it was measured itself; None where there is none.

        Beyond the largest of these the error is taken to grow as n does, which is the most that the rounding of a sum
        can, and the time as n squared, which is the most that a force takes: no choice wins where it was not measured.
        """
        errors = choice.errors(quantile) or [None] * len(self.n)
        points = [
            (size, error, seconds)
            for size, error, seconds in zip(self.n, errors, choice.seconds, strict=True)
            if error is not None and seconds is not None
        ]
        if not points:
            return None
        above = bisect_left(points, n, key=lambda point: point[0])
        first, error, seconds = points[max(above - 1, 0)]
        second, other_error, other_seconds = points[min(above, len(points) - 1)]
        if above == 0 or second == n:
            return other_error, other_seconds
        if above == len(points):
            return error * (n / first), seconds * (n / first) ** 2
        part = math.log(n / first) / math.log(second / first)
        return max(error, other_error), seconds ** (1 - part) * other_seconds**part

    def fitting(
        self, n: int, dtypes: Collection[str], *, equal_masses: bool, quantile: float = LARGEST
    ) -> list[tuple[Choice, float, float]]:
        """List the choices that can be made, each with its error and its seconds at n; none without this quantile.

        One with ``equal_mass`` is fast where all bodies weigh the same, and left out elsewhere.
        """
        return [
            (choice, *error_and_seconds)
            for choice in self.choices
            if choice.dtype in dtypes and (equal_masses or choice.axes.get(EQUAL_MASS) != 1)
            if (error_and_seconds := self.at(choice, n, quantile)) is not None
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
        return next((measured for measured in self.measured if measured.toolkit == toolkit), None)


def of_nearest(toolkit: str, card: CardKind | None) -> Measured | None:
    """Return what the packaged tables have of a toolkit on a device: its own, else what is most like it.

    Of others the nearest by compute capability counts, then by multiprocessors, then the first by the name of the file;
    that too for a device that is not known. None where no table has the toolkit.
    """
    known = [measured for table in packaged() if (measured := table.of(toolkit))]
    if card is None:
        return known[0] if known else None
    return min(known, key=lambda measured: measured.card.distance(card), default=None)


@cache
def packaged() -> list[Table]:
    """Read the tables that come with gravbench, once per process."""
    return [read(path) for path in sorted(TABLES.glob("*.yaml"))]


def read(path: Path) -> Table:
    """Read a table, once per process unless the file was written since.

    Raises:
        InputError: one sentence that names the file, the line and what is wrong.
    """
    try:
        resolved = path.resolve()
        status = resolved.stat()
    except (OSError, ValueError) as error:  # the latter of a name with a null byte
        raise InputError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    return _read(resolved, status.st_mtime_ns, status.st_size)


@lru_cache
def _read(path: Path, _written: int, _size: int) -> Table:
    content = document.read(path, keys="measured")
    table = validated(Table, content.data, content)
    for i, measured in enumerate(table.measured):
        for j, choice in enumerate(measured.choices):
            _check(choice, measured.toolkit, lambda *key, i=i, j=j: content.where(("measured", i, "choices", j, *key)))
    return table


def _check(choice: Choice, toolkit: str, where: Callable[..., str]) -> None:
    """Check that ``gravbench.force`` can use a choice as it is; ``where`` says for a key of it how a message begins.

    Values of axes become those that they stand for.

    Raises:
        InputError: there is no such variant, kernel or axis, an axis takes no such value or not with the others, or
            the variant does not compute what ``force`` returns.
    """
    variants = discover()
    variant = variants.get(choice.variant)
    if variant is None:
        raise InputError(f"{where()}: {choice.variant} is not a variant; {nearest(choice.variant, list(variants))}")
    if toolkit not in variant.toolkits or choice.dtype not in variant.dtypes:
        raise InputError(f"{where()}: {variant.name} has no kernel for {toolkit} in {choice.dtype}")
    if variant.suits_positions(choice.axes):
        raise InputError(f"{where()}: {variant.name} needs preparation for every call; accepted: any other")
    if set(choice.axes) != set(variant.axes):
        axes = ", ".join(variant.axes) or "none"
        raise InputError(f"{where()}: the axes of {variant.name} are {axes}; create the table again")
    for axis, value in choice.axes.items():
        (choice.axes[axis],) = axis_values(variant, axis, [value], where("axes", axis))
        accepted, otherwise = WHOLE_FORCE.get(axis, (choice.axes[axis], ""))
        if choice.axes[axis] != accepted:
            begin = f"{where('axes', axis)}: {variant.name} with {axis} = {shown(value)} {otherwise}"
            raise InputError(f"{begin}; accepted: {axis} = {accepted}")
    if broken := needed_by(variant).broken({"toolkit": toolkit, **choice.axes}):
        given = ", ".join(f"{axis} = {shown(value)}" for axis, value in choice.axes.items())
        raise InputError(f"{where('axes')}: {variant.name} does not run with {given}; accepted: axes with {broken}")


def write(table: Table, path: Path) -> None:
    """Write a table that ``read`` reads.

    Raises:
        InputError: the file cannot be written.
    """
    devices = list({measured.device for measured in table.measured})
    device = f" --device {shlex.quote(devices[0])}" if len(devices) == 1 else ""
    bodies = f" --bodies {shlex.quote(str(name))}" if (name := table.bodies.get("bodies")) else ""
    head = f"# Made by: gravbench best {' '.join(table.runs)}{bodies}{device} --save FILE\n"
    text = yaml.safe_dump(table.model_dump(exclude_defaults=True), default_flow_style=None, sort_keys=False, width=120)
    try:
        path.write_text(head + text, "utf-8")
    except OSError as error:
        raise InputError(f"--save {path}: cannot be written: {error.strerror}") from error


def make(
    runs: Sequence[Run],
    variants: Mapping[str, Variant],
    *,
    device: str | None = None,
    bodies: str | None = None,
    threshold: float = THRESHOLD,
) -> Table:
    """Choose, for every toolkit, n, error and quantile that one could ask for, as ``gravbench.verdicts.best`` does.

    ``device`` and ``bodies`` name the only ones, None any. Of a case in several runs the last has its say. Left out are
    approximations that take turns, steps, calls, bodies in the plane, other interactions, the peers' toolkits, variants
    that are none of ``variants`` or have other axes now, those whose speed needs more than a launch, because they are
    prepared for the positions they get, what several GPUs share and what was outraced.

    Raises:
        InputError: there is no such record, or two devices of a toolkit, or two kinds of bodies.
    """
    newest = {
        (record.key, record.device): record
        for run in runs
        for record in latest(run.records)
        if _usable(record, variants.get(record.variant))
    }
    names = (record.device or "" for record in newest.values())
    question = replace(USUAL, bodies=bodies)
    records = [one for one in considered(list(newest.values()), question, device, names) if question.suits(one)]
    if not records:
        raise InputError("--save: these runs have no ok record of an exact force; accepted: a run with some")
    tasks = [dict(conditions) for conditions in {tuple((task(record) | record.contents).items()) for record in records}]
    if len(tasks) > 1:
        kinds = "; ".join(
            sorted(", ".join(f"{key} {value}" for key, value in conditions.items()) for conditions in tasks)
        )
        by = ", by --bodies" if len({conditions["bodies"] for conditions in tasks}) == len(tasks) else ""
        raise InputError(f"--save: the records have several kinds of bodies ({kinds}); accepted: one{by}")
    known = Uncertainties([run.records for run in runs], lambda record: record.device or "")
    defaults = {name: variant.defaults for name, variant in variants.items()}
    measured = []
    by_toolkit = grouped(records, lambda record: record.toolkit)
    for toolkit, of_toolkit in sorted(by_toolkit.items(), key=lambda item: place_of(item[0])):
        devices = sorted({record.device or "" for record in of_toolkit})
        if len(devices) > 1:
            raise InputError(f"--save: {toolkit} was measured on {' and '.join(devices)}; accepted: one, by --device")
        measured.append(_measured(of_toolkit, known, threshold, defaults))
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
        and record.gpus == 1
        and all(record.conditions.get(name) == part.usual for name, part in CONDITIONS.items() if part.kind == "work")
        and variant is not None
        and not variant.suits_positions(record.axes)
        and set(record.axes) == set(variant.axes)
    )


def _measured(records: list[Record], known: Uncertainties, threshold: float, defaults: Defaults) -> Measured:
    """Keep the configurations that are chosen somewhere, the fastest at the largest n first."""
    at = grouped(records, size)
    alike = grouped(records, what)
    sizes = sorted(at)
    # By the largest quantile that it is chosen for.
    chosen: dict[tuple[Any, ...], float] = {}
    largest_first = sorted(QUANTILES, reverse=True)
    for quantile, together, dtype, masses in itertools.product(largest_first, at.values(), get_args(Dtype), (0, 1)):
        able = [
            record
            for record in together
            if record.dtype == dtype
            and (masses or record.axes.get(EQUAL_MASS) != 1)
            and _error(record, quantile) < math.inf
        ]
        for record in _for_every_error(able, quantile, known, threshold, defaults):
            chosen.setdefault(what(record), quantile)
    choices = []
    for configuration, quantile in chosen.items():
        by_n = {record.n: record for record in alike[configuration]}
        choices.append(([by_n.get(n) for n in sizes], quantile))
    choices.sort(key=lambda choice: [seconds(record) if record else math.inf for record in choice[0][::-1]])
    made = [_choice(records_of, quantile) for records_of, quantile in choices]
    card = card_kind(records)
    return Measured(
        toolkit=records[0].toolkit,
        device=card.name,
        compute_capability=card.compute_capability,
        multiprocessors=card.multiprocessors,
        n=sizes,
        choices=made,
    )


def _for_every_error(
    records: list[Record], quantile: float, known: Uncertainties, threshold: float, defaults: Defaults
) -> Iterator[Record]:
    """Choose without an error limit, then among those that are more accurate than that choice, and so on.

    For any limit the first of these within it is as good as the fastest within it.
    """
    while records:
        chosen = ranked(records, known, threshold, defaults).as_good[0]
        yield chosen
        records = [record for record in records if _error(record, quantile) < _error(chosen, quantile)]


def _error(record: Record, quantile: float) -> float:
    """Return a quantile of the errors of all n bodies, infinite where the record lacks it: a table states no other."""
    return math.inf if getattr(record, QUANTILES[quantile]) is None else error_of(record, quantile)


def _choice(records: Sequence[Record | None], largest: float) -> Choice:
    """Write what one configuration gave at each n, with as many digits as are significant.

    There are errors of the quantiles up to ``largest``.
    """
    first = next(filter(None, records))
    # Up, so that no error is larger than the table says.
    up = Context(prec=ERROR_DIGITS, rounding=ROUND_UP)
    errors: dict[str, Errors] = {}
    for quantile, name in QUANTILES.items():
        values = [_error(record, quantile) if record and quantile <= largest else math.inf for record in records]
        if min(values) < math.inf:
            errors[name] = [float(up.create_decimal(str(value))) if value < math.inf else None for value in values]
    return Choice(
        variant=first.variant,
        dtype=first.dtype,
        axes=first.axes,
        seconds=[float(f"{record.median_seconds:.{TIME_DIGITS - 1}e}") if record else None for record in records],
        **errors,
    )
