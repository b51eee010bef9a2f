"""What a source published: its figures, claims and facts, each cell with the record that answers it.

The files are ``configs/published/*.yaml``. A value that the source lost or never gave is null, and ``blank`` says why.
A selection names a variant, n, axes or settings; a list means any of its values, null in it a record without that axis,
and what is left open is answered by the fastest configuration. Without a toolkit it means any that runs on a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from gravbench.config.condition import Condition
from gravbench.config.document import Document, read
from gravbench.errors import InputError, nearest, shortened
from gravbench.model.case import Value
from gravbench.model.quantities import PublishedName
from gravbench.packaged import folder

Unit = Literal[
    "GFLOP/s",
    "interactions/s",
    "seconds",
    "ms per 100 steps",
    "frames/s",
    "steps/s",
    "relative error",
    "relative error over a cycle",
    "error relative to all contributions",
    "blocks",
    "waves",
    "multiprocessors",
    "threads per block",
    "threads a multiprocessor holds",
    "active threads of a multiprocessor",
    "bytes of local memory",
    "bytes of nodes",
    "loads per body",
    "interactions",
    "instructions per interaction",
    "issue cycles per interaction",
    "clock cycles per interaction",
    "% of the multiprocessors",
    "global loads per body",
    "% of a warp",
    "% of the stages building the tree",
    "seconds of the stages but building the tree",
    "seconds of sort",
    "seconds of build",
    "seconds of traverse",
    "seconds of allocate",
    "seconds of transfers",
    "GB/s of upload",
    "GB/s of download",
    "ms per 100 steps by a process of 20",
    "ms per 100 steps by a process of 100",
]
Selected = Value | list[Value | None]
Selection = Mapping[str, Selected]
Number = Annotated[float, Field(allow_inf_nan=False)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Cell(_Part):
    """One published value, None where it is lost; ``step`` names it where its selection does not read well."""

    select: Selection
    published: Number | None
    step: str = ""


class Figure(_Part):
    """A figure or table of the source: its ``cells``, or a matrix ``values`` over the product of ``over``.

    ``where`` is part of every selection. ``timed`` is what the source timed; ``device`` and ``flops_per_interaction``
    stand where they are not the source's. A cell is compared with the first step of the path: the cell that differs
    from it by the values in ``first``, or else the first cell that has these values. With ``process_steps``, pairs of
    an n and the steps that a source ran in one process from there on, times include the start of the process.
    """

    id: str
    title: str
    unit: Unit
    timed: PublishedName
    device: str = ""
    flops_per_interaction: Annotated[Number, Field(gt=0)] | None = None
    where: Selection = {}
    over: dict[str, Annotated[list[Value], Field(min_length=1)]] = {}
    values: Any = None
    cells: list[Cell] = []
    first: Selection = {}
    process_steps: list[Annotated[list[int], Field(min_length=2, max_length=2)]] = []
    note: str = ""
    blank: str = ""

    @model_validator(mode="after")
    def _consistent(self) -> Figure:
        if bool(self.cells) == bool(self.over):
            raise ValueError("either cells, or over and values")
        steps = self.steps()
        for place in range(len(steps)):
            self.first_of(place)
        if bool(self.blank) != any(cell.published is None for cell in steps):
            raise ValueError("blank says why a value is null: it goes with at least one that is")
        return self

    def steps(self) -> list[Cell]:
        """Write every cell out, with its whole selection."""
        cells = self.cells or list(_matrix(self.over, self.values))
        return [cell.model_copy(update={"select": {**self.where, **cell.select}}) for cell in cells]

    def first_of(self, place: int) -> int:
        """Return the place of the step that the cell at ``place`` is compared with."""
        selections = [cell.select for cell in self.steps()]
        same = {**selections[place], **self.first}
        fitting = [i for i, select in enumerate(selections) if self.first.items() <= select.items()]
        if not fitting:
            raise ValueError("first fits no cell")
        return next((i for i in fitting if self.first and selections[i] == same), fitting[0])


class Asked(_Part):
    """A number that a claim is about."""

    select: Selection
    unit: Unit


class Claim(_Part):
    """A sentence of the source, and the condition ``holds`` over its ``numbers`` that decides it here.

    ``untestable`` says instead why nothing here can decide it. ``published`` are the figures in the sentence. ``run``
    names the sweep that measures its numbers where the path itself does not, such as ``counters``.
    """

    id: str
    text: str
    published: list[Number] = []
    numbers: dict[str, Asked] = {}
    holds: str = ""
    untestable: str = ""
    run: str = ""

    @model_validator(mode="after")
    def _decided(self) -> Claim:
        if bool(self.holds) == bool(self.untestable) or bool(self.holds) != bool(self.numbers):
            raise ValueError("either numbers and holds, or untestable")
        return self


class Fact(_Part):
    """Published numbers that no record here answers; ``text`` says what they are, in words and units."""

    id: str
    text: str
    values: list[Number | None]


class Source(_Part):
    """All that one source published. ``where`` is part of every selection, ``flops_per_interaction`` its convention.

    With ``loads`` the source counts accesses to memory, and the report does too.
    """

    source: str
    device: str
    flops_per_interaction: Annotated[Number, Field(gt=0)] = 20.0
    where: Selection = {}
    figures: list[Figure] = []
    claims: list[Claim] = []
    facts: list[Fact] = []
    notes: list[str] = []
    loads: bool = False


def packaged() -> dict[str, Path]:
    """Name the sources whose numbers are packaged."""
    return {path.stem: path for path in sorted(folder("gravbench.configs.published").glob("*.yaml"))}


def find(name: str) -> Path:
    """Find the file of a source by its name.

    Raises:
        InputError: there is none; the sentence names those there are.
    """
    paths = packaged()
    if name not in paths:
        raise InputError(
            f"published is {shortened(name)}, which is not a source with published numbers; "
            f"{nearest(name, list(paths))}"
        )
    return paths[name]


def load(path: Path) -> Source:
    """Read the file of a source and check all of it.

    Raises:
        InputError: one sentence that names the file, the line and what is wrong.
    """
    document = read(path, keys="source and device")
    try:
        source = Source.model_validate(document.data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(str(part) for part in first["loc"])
        raise InputError(f"{document.where(first['loc'])}: {name or 'the file'}: {first['msg']}") from None
    _check_claims(source, document)
    return source


def condition(claim: Claim, where: str) -> Condition:
    """Make the condition that decides a claim.

    Raises:
        InputError: it is none over the claim's numbers.
    """
    return Condition(claim.holds, list(claim.numbers), where, "holds")


def _check_claims(source: Source, document: Document) -> None:
    for index, claim in enumerate(source.claims):
        if claim.holds:
            condition(claim, document.where(("claims", index, "holds")))


def _matrix(over: Mapping[str, Sequence[Value]], values: Any) -> Iterator[Cell]:
    flat = list(_flat(values, [len(swept) for swept in over.values()]))
    for chosen, value in zip(product(*over.values()), flat, strict=True):
        yield Cell(select=dict(zip(over, chosen, strict=True)), published=value)


def _flat(values: Any, lengths: Sequence[int]) -> Iterator[Any]:
    if not lengths:
        yield values
        return
    if not isinstance(values, list) or len(values) != lengths[0]:
        raise ValueError(f"values needs lists of {lengths[0]} where it is as deep as this key of over")
    for element in values:
        yield from _flat(element, lengths[1:])
