"""By how much a submission may differ from the rung and still be as good: one YAML file, and a teacher's over it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gravbench.config.document import Document, read, shown
from gravbench.errors import InputError, nearest
from gravbench.learning.exercises import NAMES

PACKAGED = Path(__file__).with_name("thresholds.yaml")
Count = Literal[
    "slots",
    "global_loads",
    "shared_loads",
    "spilled",
    "warps",
    "threads_per_body",
    "error",
    "votes",
    "local_loads",
    "doubles",
]
"""What is counted of a submission; ``error`` is a limit, the others are factors of what the rung has."""
Limits = Mapping[Count, float]
Values = dict[Count, Annotated[float, Field(gt=0, le=1000)]]


class Thresholds(BaseModel):
    """The limits of all exercises, and those of single ones, which replace or add to them."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    usual: Values = {}
    exercises: dict[str, Values] = {}

    def of(self, name: str) -> Limits:
        """Return the limits of an exercise."""
        return {**self.usual, **self.exercises.get(name, {})}

    def over(self, others: Thresholds) -> Thresholds:
        """Return these limits, and others where these have none."""
        names = {*self.exercises, *others.exercises}
        return Thresholds(
            usual={**others.usual, **self.usual},
            exercises={name: {**others.exercises.get(name, {}), **self.exercises.get(name, {})} for name in names},
        )


def thresholds(path: Path | None = None) -> Thresholds:
    """Return the packaged thresholds, with those of a file over them.

    Raises:
        InputError: the file cannot be read, or has a key or a value that is not accepted.
    """
    packaged = _read(PACKAGED)
    return packaged if path is None else _read(path).over(packaged)


def _read(path: Path) -> Thresholds:
    document = read(path, keys="usual and exercises")
    try:
        thresholds_read = Thresholds.model_validate(document.data)
    except ValidationError as error:
        raise InputError(*(_sentence(document, *_part(wrong)) for wrong in error.errors(include_url=False))) from error
    for name in thresholds_read.exercises:
        if name not in NAMES:
            where = document.where(("exercises", name))
            raise InputError(f"{where}: {name} is no exercise; {nearest(name, NAMES)}")
    return thresholds_read


def _part(wrong: object) -> tuple[tuple[int | str, ...], object, str]:
    assert isinstance(wrong, dict)
    location = tuple(part for part in wrong["loc"] if part != "[key]")
    return location, wrong["input"], wrong["type"]


def _sentence(document: Document, location: tuple[int | str, ...], value: object, kind: str) -> str:
    where, key = document.where(location), str(location[-1]) if location else "the file"
    if kind == "extra_forbidden":
        return f"{where}: unknown key {shown(key)}; {nearest(key, list(Thresholds.model_fields))}"
    if kind == "literal_error":
        return f"{where}: {shown(key)} is not counted; {nearest(key, get_args(Count))}"
    accepted = "keys and values" if kind == "dict_type" else "a number above 0, up to 1000"
    return f"{where}: {key} is {shown(value)}; accepted: {accepted}"
