"""An entry: one file of device code whose head, a comment, says as data how it is launched.

Kernels in Numba CUDA, whose head is the docstring of the file, are for the course alone. Nothing of an entry is
executed here. The head is YAML; every mistake in it is a sentence with the file and the line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from gravbench.config.document import Document, parsed, shown, text_of
from gravbench.config.settings import ACCEPTED as ACCEPTED_VALUES
from gravbench.config.settings import of_value
from gravbench.errors import InputError, Mistakes, nearest
from gravbench.judging import python_text
from gravbench.judging.calls import Call
from gravbench.judging.expressions import ACCEPTED, Expression
from gravbench.model.variant import Dtype
from gravbench.model.wgsl import SUFFIX

PYTHON = ".py"
"""The ending of kernels in Numba CUDA."""
BEGIN, END = "/* gravbench entry", "*/"
BEGIN_PYTHON, END_PYTHON = '"""gravbench entry', '"""'
MOST_BYTES = 256 * 1024
"""Of the file of an entry."""
MOST_KERNELS, MOST_ARGUMENTS, MOST_CONSTANTS, MOST_ARRAYS = 8, 32, 64, 32
MOST_THREADS = 1024
"""Of a block."""
MOST_BLOCKS = (2**31 - 1, 65535)
"""Along x and y."""
MOST_SHARED = 227 * 1024
"""Bytes of dynamic shared memory of a block, those of sm_90."""
MOST_SCRATCH = 256 * 1024**2
"""Bytes of all scratch arrays together."""

Layout = Literal["bodies", "x", "y", "z", "mass", "accelerations", "ax", "ay", "az", "scratch"]
WIDTH = 4
"""Numbers in a row of bodies (x, y, z, mass) and of accelerations (ax, ay, az and one that is not read)."""
INPUTS = (("bodies",), ("x", "y", "z", "mass"))
OUTPUTS = (("accelerations",), ("ax", "ay", "az"))
EPS2 = "eps2"
"""The argument that is the softening length squared."""
RESERVED = ("n", EPS2, "ceil_div", "min", "max")
NO_NAME = "a name of letters, digits and _ that does not begin with __"
NAME = re.compile(r"(?!__)[A-Za-z_][A-Za-z0-9_]{0,63}")
_BOUNDS = re.compile(r"__launch_bounds__\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)")
_DECLARATION = {False: re.compile(r"\b__global__\b"), True: re.compile(r"\bfn\b")}
"""What stands before the name of a kernel in CUDA C, and of an entry point in WGSL."""
KINDS = {SUFFIX: "@compute entry point", PYTHON: "function with @cuda.jit"}
"""What a kernel is called in another language than CUDA C, by the ending of its file."""


def _name(value: object) -> object:
    if not isinstance(value, str) or not NAME.fullmatch(value):
        raise ValueError(NO_NAME)
    return value


def _written(value: object) -> object:
    if type(value) not in (int, str):
        raise ValueError(f"an expression of {ACCEPTED}")
    return value


def _extents(value: object) -> object:
    return value if isinstance(value, list) else [value]


def _array(value: object) -> object:
    return {"layout": value} if isinstance(value, str) else value


Name = Annotated[str, BeforeValidator(_name)]
Written = Annotated[int | str, BeforeValidator(_written)]
Extents = Annotated[list[Written], BeforeValidator(_extents), Field(min_length=1, max_length=2)]
_COUNT = Field(ge=-(2**31), le=2**31 - 1)


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Kernel(_Part):
    """One launch of an evaluation: ``shared`` are bytes of dynamic shared memory."""

    name: Name
    grid: Extents
    block: Extents
    shared: Written = 0
    arguments: Annotated[list[Written], Field(min_length=1, max_length=MOST_ARGUMENTS)]


class Array(_Part):
    """What an array holds; a scratch array has ``bytes``, and is filled with zeros or with NaN before all launches."""

    layout: Layout
    bytes: Written | None = None
    zeros: bool = False

    @model_validator(mode="after")
    def _scratch_alone_has_a_size(self) -> Array:
        if (self.layout == "scratch") != (self.bytes is not None):
            raise ValueError("bytes with the layout scratch, and with no other")
        if self.zeros and self.layout != "scratch":
            raise ValueError("zeros with the layout scratch only")
        return self


class Head(_Part):
    """The head of an entry, as it is written."""

    kernels: Annotated[list[Kernel], Field(min_length=1, max_length=MOST_KERNELS)]
    arrays: Annotated[
        dict[Name, Annotated[Array, BeforeValidator(_array)]], Field(min_length=1, max_length=MOST_ARRAYS)
    ]
    constants: Annotated[dict[Name, Annotated[int, _COUNT]], Field(max_length=MOST_CONSTANTS)] = {}
    precision: Dtype = "float32"
    rung: str | None = None
    error: Annotated[float | None, Field(gt=0, le=0.1)] = None
    mutual: bool = False


@dataclass(frozen=True)
class _Launch:
    kernel: Kernel
    where: str
    numbers: Mapping[str, Sequence[Expression]]
    arguments: tuple[str | Expression, ...]


@dataclass(frozen=True)
class Entry:
    """An entry that has been read: its file, its whole ``text``, its head, and what the head's expressions are."""

    path: Path
    text: str
    head: Head
    _launches: tuple[_Launch, ...]
    _scratch: Mapping[str, Expression]

    @property
    def defines(self) -> dict[str, int]:
        """The macros that its text is compiled with: its constants, and FLOAT64 where it computes in that."""
        return {**({"FLOAT64": 1} if self.head.precision == "float64" else {}), **self.head.constants}

    @property
    def is_wgsl(self) -> bool:
        """Whether it is WGSL, which a device of WebGPU runs."""
        return self.path.suffix == SUFFIX

    @property
    def toolkit(self) -> str:
        """The toolkit whose devices run it."""
        return "wgpu" if self.is_wgsl else "cupy"

    @property
    def is_python(self) -> bool:
        """Whether it is Numba CUDA, which nothing runs but the simulator of the course; else, or WGSL, it is CUDA C."""
        return self.path.suffix == PYTHON

    @property
    def with_constants(self) -> str:
        """The text of an entry in WGSL behind its constants, for which WGSL has no macros."""
        return "".join(f"const {name}: i32 = {value};\n" for name, value in self.head.constants.items()) + self.text

    @property
    def real(self) -> type[np.float32 | np.float64]:
        """The type of every real number in its arrays and arguments."""
        return np.float32 if self.head.precision == "float32" else np.float64

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the arrays of bodies: one, or those of x, y, z and mass."""
        return self._named(INPUTS)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the arrays of accelerations, in the order of their coordinates."""
        return self._named(OUTPUTS)

    def _named(self, choices: Iterable[Sequence[str]]) -> tuple[str, ...]:
        """Return the names of the arrays of that of several sets of layouts which the entry has."""
        names: dict[str, str] = {array.layout: name for name, array in self.head.arrays.items()}
        return next(tuple(names[layout] for layout in choice) for choice in choices if set(choice) <= names.keys())

    def calls(self, n: int) -> list[Call]:
        """Return the launches of one evaluation of n bodies, in their order.

        Raises:
            InputError: an extent, the shared memory or an argument is beyond its limits for this n.
        """
        return [self._call(launch, n) for launch in self._launches]

    def scratch_bytes(self, n: int) -> dict[str, int]:
        """Return the size of each scratch array for n bodies.

        Raises:
            InputError: one is not positive or no multiple of a number's size, or together they are too large.
        """
        sizes = {name: expression.value(self._values(n)) for name, expression in self._scratch.items()}
        number = self.real().nbytes
        for name, size in sizes.items():
            if size < number or size % number:
                accepted = f"multiples of {number} from {number} on"
                raise InputError(f"{self.path}: array {name} has {size} bytes at n = {n}; accepted: {accepted}")
        if sum(sizes.values()) > MOST_SCRATCH:
            raise InputError(
                f"{self.path}: scratch has {sum(sizes.values())} bytes at n = {n}; accepted: up to {MOST_SCRATCH}"
            )
        return sizes

    def threads(self, n: int) -> int:
        """Return the threads of its largest block for n bodies."""
        return max(prod(call.block) for call in self.calls(n))

    def _values(self, n: int) -> dict[str, int]:
        return {"n": n, **self.head.constants}

    def _call(self, launch: _Launch, n: int) -> Call:
        values = self._values(n)

        def extents(key: str) -> tuple[int, int]:
            first, *rest = (expression.value(values) for expression in launch.numbers[key])
            return first, rest[0] if rest else 1

        grid, block = extents("grid"), extents("block")
        shared, _ = extents("shared")
        begin = f"{launch.where}: {launch.kernel.name} at n = {n} has"
        if not all(1 <= count <= most for count, most in zip(grid, MOST_BLOCKS, strict=True)):
            accepted = f"1 to {MOST_BLOCKS[0]} x 1 to {MOST_BLOCKS[1]}"
            raise InputError(f"{begin} a grid of {grid[0]} x {grid[1]}; accepted: {accepted}")
        if min(block) < 1 or prod(block) > MOST_THREADS:
            raise InputError(f"{begin} blocks of {block[0]} x {block[1]}; accepted: 1 to {MOST_THREADS} threads")
        if not 0 <= shared <= MOST_SHARED:
            raise InputError(f"{begin} {shared} bytes of shared memory; accepted: 0 to {MOST_SHARED}")
        numbers = [argument if isinstance(argument, str) else argument.value(values) for argument in launch.arguments]
        for number in numbers:
            if isinstance(number, int) and not -(2**31) <= number < 2**31:
                raise InputError(f"{begin} the argument {number}; accepted: numbers of 32 bits")
        return Call(launch.kernel.name, grid, block, shared, tuple(numbers))


def read(path: Path) -> Entry:
    """Read an entry.

    Raises:
        InputError: the file cannot be read, has no head, or its head is not accepted; a sentence for each mistake.
    """
    return entry_of(path, text_of(path, MOST_BYTES))


def entry_of(path: Path, text: str) -> Entry:
    """Read an entry from its text; messages call it ``path``.

    Raises:
        InputError: it has no head, or its head is not accepted; a sentence for each mistake.
    """
    document = _document(path, text)
    head = _validated(document)
    mistakes = Mistakes()
    _check_names(head, document, mistakes)
    if path.suffix in KINDS and head.precision != "float32":
        language = "WGSL" if path.suffix == SUFFIX else "Numba"
        raise InputError(f"{path}: precision is {head.precision}; accepted for {language}: float32")
    kernels = python_text.kernels(path, text) if path.suffix == PYTHON else kernels_of(text, path.suffix == SUFFIX)
    launches = [
        launch
        for number, kernel in enumerate(head.kernels)
        if (launch := _launch(kernel, number, head, document, kernels, mistakes))
    ]
    scratch = {}
    for name, array in head.arrays.items():
        if array.bytes is not None:
            location = ("arrays", name, "bytes")
            with mistakes.noted(document.place(location)):
                scratch[name] = Expression(
                    array.bytes, ["n", *head.constants], f"{document.where(location)}: arrays.{name}.bytes"
                )
    mistakes.check()
    return Entry(path, text, head, tuple(launches), scratch)


def kernels_of(text: str, in_wgsl: bool) -> list[str]:
    """Return the names of the kernels that a text declares, or in WGSL of its functions, in their order."""
    # By pieces, because a pattern that goes on from each word to the end would take hours for a text made for that.
    pieces = re.split(r"([;{}()])", text if in_wgsl else _BOUNDS.sub(" ", text))
    declaration = _DECLARATION[in_wgsl]
    before = (piece for piece, end in zip(pieces[::2], pieces[1::2], strict=False) if end == "(")
    names = [piece.split()[-1] for piece in before if declaration.search(piece)]
    return [name for name in names if NAME.fullmatch(name) and not declaration.fullmatch(name)]


def _document(path: Path, text: str) -> Document:
    """Read the YAML of the head, each line at its place in the file."""
    first, last = (BEGIN_PYTHON, END_PYTHON) if path.suffix == PYTHON else (BEGIN, END)
    accepted = f"a file that begins with {first}, keys and values, and {last}"
    begin = text.lstrip().partition("\n")[0].rstrip()
    if begin != first:
        raise InputError(f"{path}: begins with {shown(begin)}; accepted: {accepted}")
    start = text.index(first) + len(first)
    end = text.find(last, start)
    if end < 0:
        raise InputError(f"{path}: the head has no end; accepted: {accepted}")
    return parsed(path, "\n" * text.count("\n", 0, start) + text[start:end], keys="kernels and arrays")


def _validated(document: Document) -> Head:
    try:
        return Head.model_validate(document.data)
    except ValidationError as error:
        mistakes = Mistakes()
        for wrong in error.errors(include_url=False):
            location = tuple(part for part in wrong["loc"] if part != "[key]")
            mistakes.note(f"{document.where(location)}: {_sentence(wrong, location)}", document.place(location))
        raise mistakes.error() from error


_ACCEPTED = ACCEPTED_VALUES | {"greater_than_equal": "{ge} or more"}
"""As of a configuration; a bound is written out, for it may have ten digits."""


def _sentence(wrong: ErrorDetails, location: tuple[int | str, ...]) -> str:
    """Say what is wrong with the value at a location of the head."""
    *holder, key = location or ("the head",)
    if wrong["type"] == "extra_forbidden":
        model: type[BaseModel] = Head if not holder else Kernel if holder[0] == "kernels" else Array
        hint = "; an expression with a comma needs quotes within braces" if ")" in str(key) else ""
        return f"unknown key {shown(key)}; {nearest(str(key), list(model.model_fields))}{hint}"
    if wrong["type"] == "missing":
        return f"the key {key} is missing"
    return of_value(wrong, ".".join(map(str, location)) or "the head", _ACCEPTED)


def _check_names(head: Head, document: Document, mistakes: Mistakes) -> None:
    """Collect names that are taken, layouts that occur twice, and inputs or outputs that are incomplete."""
    for key, names in (("constants", head.constants), ("arrays", head.arrays)):
        for name in names:
            if name in RESERVED or (key == "arrays" and name in head.constants):
                location = (key, name)
                sentence = f"{document.where(location)}: {name} has another meaning; accepted: another name"
                mistakes.note(sentence, document.place(location))
    layouts: dict[str, str] = {}
    for name, array in head.arrays.items():
        if array.layout != "scratch" and (other := layouts.setdefault(array.layout, name)) != name:
            location = ("arrays", name)
            sentence = f"{document.where(location)}: {other} and {name} are both {array.layout}; accepted: one of them"
            mistakes.note(sentence, document.place(location))
    where = document.where(("arrays",))
    for what, choices in (("what is read", INPUTS), ("what is written", OUTPUTS)):
        whole = [choice for choice in choices if set(choice) <= layouts.keys()]
        begun = [choice for choice in choices if set(choice) & layouts.keys()]
        if len(whole) != 1 or begun != whole:
            accepted = " or ".join(", ".join(choice) for choice in choices)
            has = ", ".join(part for choice in choices for part in choice if part in layouts) or "none"
            mistakes.note(
                f"{where}: the layouts of {what} are {has}; accepted: {accepted}", document.place(("arrays",))
            )


def _launch(
    kernel: Kernel, number: int, head: Head, document: Document, defined: Sequence[str], mistakes: Mistakes
) -> _Launch | None:
    """Read the expressions of a launch; None after a mistake, which is collected."""
    names = ["n", *head.constants]
    whole: list[_Launch] = []
    location = ("kernels", number)

    def expression(written: int | str, *key: int | str) -> Expression:
        return Expression(written, names, f"{document.where((*location, *key))}: {'.'.join(map(str, key))}")

    def argument(written: int | str, place: int) -> str | Expression:
        if written in (EPS2, *head.arrays):
            return str(written)
        if isinstance(written, str) and NAME.fullmatch(written) and written not in names:
            known = nearest(written, [*head.arrays, EPS2, *names])
            raise InputError(f"{document.where((*location, 'arguments', place))}: argument {shown(written)}; {known}")
        return expression(written, "arguments", place)

    with mistakes.noted(document.place(location)):
        where = document.where(location)
        if kernel.name not in defined:
            accepted = nearest(kernel.name, list(dict.fromkeys(defined)))
            kind = KINDS.get(document.path.suffix, 'extern "C" __global__ kernel')
            raise InputError(f"{where}: the file has no {kind} {kernel.name}; {accepted}")
        numbers = {
            "grid": [expression(written, "grid") for written in kernel.grid],
            "block": [expression(written, "block") for written in kernel.block],
            "shared": [expression(kernel.shared, "shared")],
        }
        arguments = [argument(written, place) for place, written in enumerate(kernel.arguments)]
        whole.append(_Launch(kernel, where, numbers, tuple(arguments)))
    return whole[0] if whole else None
