"""A case: one point of a sweep, everything that decides what is computed.

Each field says once, beside its declaration, what it is to whoever names, groups, compares or asks for cases: its
``Part``. Reports, verdicts and exports read these and name no field themselves.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field

from gravbench.model.interaction import GRAVITY
from gravbench.model.limits import Hash, Name, Number, Text
from gravbench.model.quantities import FORCE, TimedName
from gravbench.model.variant import Dtype

Value = bool | int | float | str
Setting = bool | Annotated[int, Field(gt=-(2**63), lt=2**63)] | Number | Text
"""The value of an axis."""
MOST_BODIES = 2**31 - 1
"""Kernels count bodies in an int32."""
Kind = Literal["technique", "size", "bodies", "precision", "work"]


@dataclass(frozen=True, slots=True)
class Part:
    """What one field of a case, or one axis, is.

    ``kind`` is ``technique`` (how it is done, which is what one compares), ``size`` (how many bodies), or a condition:
    which ``bodies``, in which ``precision``, and which ``work`` is done and timed.

    ``usual`` needs no saying. ``title`` is the wording in the title of a table, with the fields' names in braces; it
    stands there ``always``, where the value is ``unusual``, or where a report has ``several`` values. A ``bare`` value
    is clear without its name. The command line has an ``option`` of its own for some fields, and ``-p NAME=VALUE`` for
    all others. The folder of a ``file`` is no part of the value; another field is the hash of the ``content_of`` it.
    """

    kind: Kind
    title: str = ""
    said: Literal["always", "unusual", "several"] = "unusual"
    usual: Value | None = None
    bare: bool = False
    option: bool = False
    file: bool = False
    content_of: str = ""


MADE = ("key", "identity", "conditions")
"""What a case makes of its fields, once."""


class Case(BaseModel, frozen=True):
    """One point of a sweep: everything that decides what is computed, and nothing about how it is timed.

    ``bodies`` is a generator's name or the path of a file, ``subset`` how ``n`` bodies are taken from a
    file, ``eps`` the softening length. ``interaction`` is a packaged one's name or the path of a file. ``timed`` is
    one of ``gravbench.model.quantities``; ``integrator`` and its ``dt`` belong to a step and are None otherwise.

    Two files of one name are two cases: ``bodies_file_sha256`` is the hash of the bytes of a file of bodies,
    ``interaction_sha256`` that of the code of an interaction's file. They are None for what gravbench brings along by
    its name, and in records from before they were noted.
    """

    variant: Annotated[Name, Part("technique", bare=True, option=True)]
    toolkit: Annotated[Name, Part("technique", bare=True, option=True)]
    axes: Annotated[dict[Name, Setting], Field(max_length=100), Part("technique")]
    n: Annotated[int, Field(ge=1, le=MOST_BODIES), Part("size")]
    dtype: Annotated[Dtype, Part("precision", "{dtype}", said="always", usual="float32", bare=True)]
    bodies: Annotated[
        Text, Part("bodies", "{bodies}", said="always", usual="plummer", bare=True, option=True, file=True)
    ]
    subset: Annotated[Text, Part("bodies", "subset {subset}", said="several", usual="even", option=True)]
    seed: Annotated[int, Field(ge=0, lt=2**128), Part("bodies", "seed {seed}", said="several", usual=1)]
    eps: Annotated[float, Field(ge=0, allow_inf_nan=False), Part("bodies", "eps {eps}", said="several", usual=0.025)]
    interaction: Annotated[Text, Part("work", "{interaction}", usual=GRAVITY, file=True)] = GRAVITY
    timed: Annotated[TimedName, Part("work", "timed: {timed}", said="always", usual=FORCE)]
    # The title of dt names the integrator too.
    integrator: Annotated[Name | None, Part("work", bare=True)] = None
    dt: Annotated[Number | None, Part("work", "{integrator} dt = {dt:g}")] = None
    bodies_file_sha256: Annotated[
        Hash | None, Part("bodies", "bodies_file_sha256 {bodies_file_sha256:.8}", said="several", content_of="bodies")
    ] = None
    interaction_sha256: Annotated[
        Hash | None,
        Part("work", "interaction_sha256 {interaction_sha256:.8}", said="several", content_of="interaction"),
    ] = None

    @cached_property
    def key(self) -> str:
        """A name for this case that does not depend on the order of its parts or of the sweep."""
        # A field that came later is left out where it is usual: older cases keep the keys they had without it.
        named = [
            name for name in PARTS if name in _FIRST or getattr(self, name, PARTS[name].usual) != PARTS[name].usual
        ]
        values = {name: _named(PARTS[name], getattr(self, name)) for name in named}
        text = _IN_ORDER.encode(values)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @cached_property
    def identity(self) -> tuple[Hashable, ...]:
        """What ``key`` is a short name for, without the work of naming it: equal where that is.

        It has a value for each of ``PARTS``, in their order: files without their folders, the axes as a set.
        """
        state = self.__dict__
        axes = state["axes"]
        # 1, 1.0 and True are equal in Python, and different values of an axis.
        settings = frozenset(zip(axes, axes.values(), map(type, axes.values()), strict=True))
        values = [*map(state.get, PARTS)]
        values[_AXES] = _one_of(settings)
        for place, name in _FILES:
            values[place] = _base(state[name])
        return tuple(values)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Copy as any model is copied, without what was made of its fields: another value of a field makes another."""
        copied = super().model_copy(update=update, deep=deep)
        for name in MADE:
            copied.__dict__.pop(name, None)
        return copied

    def __getstate__(self) -> dict[Any, Any]:
        """Leave out what was made of the fields: another process makes it again."""
        state = super().__getstate__()
        return state | {"__dict__": {name: value for name, value in state["__dict__"].items() if name not in MADE}}

    @property
    def contents(self) -> dict[str, str]:
        """Tell this case's files from others of the same names: the hash of each by its field, empty without any."""
        return {name: value for name, part in PARTS.items() if part.content_of and (value := getattr(self, name))}

    @property
    def label(self) -> str:
        """The case in a few words, for progress and messages."""
        words = [word(name, self.part(name)) for name in ("variant", "toolkit", "n", "dtype")]
        named = [name for name in stated() if PARTS[name].kind == "work" or name in ("bodies", "seed")]
        unusual = [word(name, self.part(name)) for name in named if self.part(name) not in (PARTS[name].usual, None)]
        return " ".join([*words, *filter(None, [self.configuration]), *unusual])

    @property
    def configuration(self) -> str:
        """Axis values in a few words: ``p=256 unroll=32``."""
        return " ".join(f"{name}={value}" for name, value in self.axes.items())

    @property
    def interactions(self) -> int:
        """Directed pairs of one evaluation: every body with every body, itself included."""
        return self.n * self.n

    @property
    def gpus(self) -> int:
        """How many GPUs of one host share an evaluation; 1 without an axis of that name."""
        gpus = self.axes.get("gpus", 1)
        return gpus if type(gpus) is int else 1

    @property
    def planar(self) -> bool:
        """Whether the bodies move in a plane."""
        return self.conditions["dim"] == 2

    @cached_property
    def conditions(self) -> Mapping[str, Value]:
        """What has to be equal, beside n and the device, before the speed of another case is compared with this one's.

        The dtype is among them. What a case does not have, as the dt of a force, is left out.
        """
        return _conditions(*map(self.__dict__.get, CONDITIONS), *map(self.axes.get, PROBLEM_AXES))

    def part(self, name: str) -> Value | None:
        """Return a field or an axis as a person names it: a file without its folder, None for what it has not."""
        part = PARTS.get(name)
        if part is None or name in self.axes:
            return self.axes.get(name)
        return _named(part, getattr(self, name))


PARTS: dict[str, Part] = {
    name: next(mark for mark in field.metadata if isinstance(mark, Part)) for name, field in Case.model_fields.items()
}
"""What each field of a case is, in their order."""

_FIRST = {name for name, field in Case.model_fields.items() if field.is_required()}
_IN_ORDER = json.JSONEncoder(sort_keys=True)

PROBLEM_AXES: dict[str, Part] = {"dim": Part("work", "dim {dim}", usual=3)}
"""Axes that change what is computed rather than how; a variant without such an axis computes what is usual."""

SEVERAL_SEEDS: dict[str, Part] = {"seeds": Part("bodies", "median of seeds {seeds}", said="always")}
"""What stands for the seed where a time is the median over several; a single case has none."""

CONDITIONS: dict[str, Part] = {
    name: part
    for kind in ("bodies", "precision", "work")
    for name, part in (PARTS | SEVERAL_SEEDS | PROBLEM_AXES).items()
    if part.kind == kind
}
"""What has to be equal before two speeds are compared, in the order of a title."""


_AXES = list(PARTS).index("axes")
_FILES = [(place, name) for place, (name, part) in enumerate(PARTS.items()) if part.file]


@lru_cache(maxsize=10_000, typed=True)
def _conditions(*values: Value | None) -> Mapping[str, Value]:
    """Name the values of ``CONDITIONS``, and then of axes among them: many records share the few that there are."""
    known = dict(zip([*CONDITIONS, *PROBLEM_AXES], values, strict=True))
    usual_values = {name: part.usual if known[name] is None else known[name] for name, part in CONDITIONS.items()}
    named = {name: _named(CONDITIONS[name], value) for name, value in usual_values.items()}
    return MappingProxyType({name: value for name, value in named.items() if value is not None})


@lru_cache(maxsize=10_000)
def _one_of(settings: frozenset[Any]) -> frozenset[Any]:
    """Return the first of equal ones: so many records need no more than a few."""
    return settings


def _base(file: str) -> str:
    """Name a file without its folder."""
    return os.path.basename(file) if "/" in file else file  # noqa: PTH119 - called often


def _named(part: Part, value: Value | None) -> Value | None:
    return _base(value) if part.file and isinstance(value, str) else value


def stated() -> list[str]:
    """Name the fields that a person states one by one: all but the axes and the hashes of files."""
    return [name for name, part in PARTS.items() if name != "axes" and not part.content_of]


def word(name: str, value: object) -> str:
    """Write the value of a field or an axis in a word: ``n=1024``, or what is clear without its name."""
    if name in PARTS and PARTS[name].bare:
        return str(value)
    return f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"


def brief(name: str, value: str) -> str:
    """Shorten a hash to what a person tells it by."""
    return value[:8] if name in PARTS and PARTS[name].content_of else value
