"""What one body does to another, as a file: read, checked, and written out for every compiler.

An interaction is one Python file that is read and never executed. Its function ``interact(sums, i, j, eps2)`` says in
straight lines of arithmetic what body j adds to the sums of body i. Names in capitals before it are constants;
TOLERANCE is the factor by which the errors of its sums may be larger than those of gravity, because their terms cancel
more. From these lines come the CUDA C, the WGSL and the Python that kernels are compiled from, the float64 that judges
them, and the count of floating-point operations.

The count follows GPU Gems 3, section 31.2, which finds 20 for gravity: each +, -, * and / is one operation, adding to a
sum included, so that an FMA is two; a function costs what ``FLOPS`` says. A change of sign, a comparison and a choice
cost nothing, but both values of a choice are counted, because a warp computes both. What is made of constants alone is
computed by the compiler and costs nothing.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

GRAVITY = "gravity"

BODY = ("x", "y", "z", "mass", "vx", "vy", "vz")
"""What an interaction may read of a body: position, mass and velocity, in the order a row of bodies has them."""
ALWAYS = BODY[:4]
ACCELERATION = ("ax", "ay", "az")
VECTOR_NUMBERS = 4
"""Rows are filled up to a multiple of four numbers: one 16-byte load in float32, two in float64."""

MATH = {"sqrt": math.sqrt, "exp": math.exp, "log": math.log, "fabs": math.fabs}
FLOPS = {"inverse_sqrt": 2, "sqrt": 1, "exp": 1, "log": 1, "fabs": 0}
"""Operations per call: an inverse square root is a root and a division, an absolute value clears a bit."""
FUNCTIONS = ("inverse_sqrt", *MATH)
"""What the arithmetic may call; those of ``MATH`` have the same names in CUDA C."""
OPERATORS: Mapping[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
COMPARISONS: Mapping[type[ast.cmpop], str] = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}

WGSL_RESERVED = """
Self abstract active alias async attribute await become cast coherent compile crate debugger demote diagnostic discard
enable external fallthrough filter final finally fn from fxgroup get groupshared highp impl implements import instanceof
interface layout let loop lowp macro match mediump meta mod module move mut nil noncoherent noperspective null of
override package packoffset partial pass patch pixelfragment precise precision premerge priv pub readonly ref regardless
resource restrict self set shared smooth snorm subroutine super target trait type unless unorm unsafe unsized use using
var varying wgsl where with writeonly yield
""".split()  # noqa: SIM905
"""Words that WGSL keeps for itself, and that a sum may be called in C++."""


def inverse_sqrt(value: Any) -> Any:
    """Return 1 / sqrt(value); on a GPU in float32 this is one instruction."""
    return 1 / math.sqrt(value)


@dataclass(frozen=True, slots=True)
class Line:
    """``target`` = ``value``, or, where it adds to a sum, ``target`` += ``value``."""

    target: str
    adds: bool
    value: ast.expr

    @property
    def flops(self) -> int:
        """Floating-point operations, counted as this module says."""
        return _operations(self.value) + self.adds


@dataclass(frozen=True, slots=True)
class Interaction:
    """A pairwise interaction.

    ``body`` are the numbers of a body that it reads, x, y, z and mass always among them; ``sums`` are the numbers that
    it adds up for each body; ``tolerance`` is the factor on the errors that count as right.
    """

    name: str
    summary: str
    text: str
    body: tuple[str, ...]
    sums: tuple[str, ...]
    lines: tuple[Line, ...]
    tolerance: float = 1.0

    @property
    def flops(self) -> int:
        """Floating-point operations of one interaction."""
        return _flops(self.lines)

    @property
    def body_width(self) -> int:
        """Numbers in a row of bodies."""
        return len(_filled_up(self.body))

    @property
    def sums_width(self) -> int:
        """Numbers in a row of sums."""
        return len(_filled_up(self.sums))

    @property
    def steppable(self) -> bool:
        """Whether an integrator can move its bodies: it reads no velocities, and its first sums are accelerations."""
        return self.body == ALWAYS and self.sums[:3] == ACCELERATION

    def rows(self, position: NDArray[Any], velocity: NDArray[Any], mass: NDArray[Any]) -> NDArray[Any]:
        """Return rows of bodies, shape (n, ``body_width``); what fills a row up is zero."""
        columns = dict(zip(BODY, (*position.T, mass, *velocity.T), strict=True))
        rows: NDArray[Any] = np.zeros((mass.size, self.body_width))
        for place, name in enumerate(self.body):
            rows[:, place] = columns[name]
        return rows

    def vectors(self) -> dict[str, tuple[int, ...]]:
        """Group the sums' places: ax, ay, az make the vector a; a sum on its own keeps its name."""
        places: dict[str, tuple[int, ...]] = {}
        for place, name in enumerate(self.sums):
            whole = name[:-1]
            parts = [f"{whole}{axis}" for axis in "xyz"]
            # Where a sum is called as the vector would be, each number stays on its own.
            free = whole and whole not in self.sums
            vector = whole if free and name in parts and all(part in self.sums for part in parts) else name
            places[vector] = (*places.get(vector, ()), place)
        return places

    def cuda_source(self) -> str:
        """Write the rows of bodies and sums, ``interact`` and ``add`` in CUDA C, in terms of ``real``."""
        sums, body = _filled_up(self.sums), _filled_up(self.body)
        lines = "".join(f"    {_CUDA_C.line(line)};  // {line.flops}\n" for line in self.lines)
        additions = "".join(f"    sums.{name} += others.{name};\n" for name in self.sums)
        return (
            f"// {self.summary} {self.flops} FLOPs per interaction.\n"
            f"struct __align__(16) Body {{ real {', '.join(body)}; }};\n"
            f"struct __align__(16) Sums {{ real {', '.join(sums)}; }};\n\n"
            "__device__ __forceinline__ void interact(Sums& sums, const Body& i, const Body& j, real eps2) {\n"
            f"{lines}}}\n\n"
            f"__device__ __forceinline__ void add(Sums& sums, const Sums& others) {{\n{additions}}}\n"
        )

    def wgsl_source(self) -> str:
        """Write bodies, sums and their rows, ``interact`` and ``add`` in WGSL, in float32.

        A row is what memory holds of a body or of sums: vectors of four numbers, each read and written at once.
        """
        lines = "".join(f"    {_WGSL.line(line)};  // {line.flops}\n" for line in self.lines)
        sums = [_WGSL.name(name) for name in self.sums]
        additions = "".join(f"    total.{name} += others.{name};\n" for name in sums)
        return (
            f"// {self.summary} {self.flops} FLOPs per interaction.\n"
            f"{_wgsl_struct('Body', self.body)}{_wgsl_struct('Sums', sums)}"
            f"alias BodyRow = {_wgsl_row(self.body)};\nalias SumsRow = {_wgsl_row(sums)};\n\n"
            f"fn body_of(row: BodyRow) -> Body {{\n    return Body({_wgsl_numbers(self.body)});\n}}\n\n"
            f"fn sums_of(row: SumsRow) -> Sums {{\n    return Sums({_wgsl_numbers(sums)});\n}}\n\n"
            f"fn row_of(sums: Sums) -> SumsRow {{\n    return {_wgsl_filled(sums)};\n}}\n\n"
            "fn interact(before: Sums, i: Body, j: Body, eps2: f32) -> Sums {\n    var sums = before;\n"
            f"{lines}    return sums;\n}}\n\n"
            f"fn add(sums: Sums, others: Sums) -> Sums {{\n    var total = sums;\n{additions}    return total;\n}}\n"
        )

    def python(self, real: Callable[[Any], Any], inverse_sqrt: Callable[[Any], Any]) -> Callable[..., Any]:
        """Write ``interact(sums, i, j, eps2)``, which takes and returns tuples, in Python for Numba to compile.

        ``real`` is the number type and ``inverse_sqrt`` the function that the compiler has for it.
        """
        namespace: dict[str, Any] = {**MATH, "real": real, "inverse_sqrt": inverse_sqrt}
        exec(compile(self.interact_source(), f"<{self.name}>", "exec"), namespace)
        made: Callable[..., Any] = namespace["interact"]
        return made

    def python_add(self) -> Callable[..., Any]:
        """Write ``add(sums, others)``, which takes and returns tuples, in Python for Numba to compile."""
        namespace: dict[str, Any] = {}
        exec(self.add_source(), namespace)
        made: Callable[..., Any] = namespace["add"]
        return made

    def python_source(self) -> str:
        """Return all that decides what Numba makes of the interaction: its Python, and the widths of rows."""
        widths = f"body_width, sums_width = {self.body_width}, {self.sums_width}"
        return "\n".join([widths, self.interact_source(), self.add_source()])

    def interact_source(self) -> str:
        """Write the text that ``python`` makes a function of."""
        lines = "".join(f"    {_PYTHON.line(line)}\n" for line in self.lines)
        sums = _names("sums", self.sums)
        return (
            f"def interact(sums, i, j, eps2):\n    {sums} = sums\n"
            f"    {_names('i', self.body)} = i\n    {_names('j', self.body)} = j\n{lines}    return {sums}"
        )

    def add_source(self) -> str:
        """Write the text that ``python_add`` makes a function of."""
        total = "".join(f"sums[{place}] + others[{place}], " for place in range(len(self.sums)))
        return f"def add(sums, others):\n    return ({total})"

    def python_lines(self, number: Callable[[float], str]) -> Iterator[str]:
        """Write the lines in Python, ``i.x`` as ``i_x`` and numbers as ``number`` does."""
        return map(replace(_PYTHON, number=number).line, self.lines)


def constant(node: ast.AST) -> bool:
    """Tell whether a part of an expression names no variable, only numbers and functions."""
    functions = {part.func for part in ast.walk(node) if isinstance(part, ast.Call)}
    return not any(isinstance(part, ast.Name) and part not in functions for part in ast.walk(node))


def value_of_constants(node: ast.expr, real: Callable[[float], Any]) -> Any:
    """Compute what is made of constants alone in a number type of NumPy.

    Raises:
        FloatingPointError: a step of it divides by zero, is not a number or leaves the range of the number type.
    """
    functions = {"sqrt": np.sqrt, "exp": np.exp, "log": np.log, "fabs": np.fabs}
    known = {**functions, "real": real, "inverse_sqrt": lambda value: 1 / np.sqrt(value)}
    with np.errstate(all="raise"):
        return eval(_PYTHON.write(node), known)


def _filled_up(names: Sequence[str]) -> list[str]:
    return [*names, *(f"filler{number}" for number in range(-len(names) % VECTOR_NUMBERS))]


def _names(prefix: str, names: Iterable[str]) -> str:
    return "(" + "".join(f"{prefix}_{name}, " for name in names) + ")"


@cache
def _flops(lines: tuple[Line, ...]) -> int:
    """Count once: a run asks for every record."""
    return sum(line.flops for line in lines)


def _operations(node: ast.AST) -> int:
    """Count floating-point operations; see the head of this module."""
    flops = 0
    match node:
        case ast.BinOp() if not constant(node):
            flops = 1
        case ast.Call(func=ast.Name(id=name)) if not constant(node):
            flops = FLOPS[name]
    return flops + sum(map(_operations, ast.iter_child_nodes(node)))


@dataclass(frozen=True, slots=True)
class _Language:
    """How a language spells what Python and C do not spell alike.

    ``number`` writes a number, ``member`` stands between a body and what is read of it, ``choice`` puts a comparison
    and the values for true and false together, and ``declares`` begins a line that names a value. ``functions`` are
    those with another name than in C, ``reserved`` the words of the language that may be names in Python and C++.
    """

    number: Callable[[float], str]
    member: str
    choice: str
    declares: str = ""
    functions: Mapping[str, str] = field(default_factory=dict)
    reserved: Sequence[str] = ()

    def line(self, line: Line) -> str:
        target = f"sums{self.member}{self.name(line.target)} +=" if line.adds else f"{self.declares}{line.target} ="
        return f"{target} {self.write(line.value)}"

    def name(self, name: str) -> str:
        """Return what a sum is called: its name, with ``_`` where that is a word of the language."""
        return f"{name}_" if name in self.reserved else name

    def write(self, node: ast.expr, strength: int = 0) -> str:
        """Write an expression, in parentheses where it binds less strongly than what is around it."""
        binding = _strength(node)
        match node:
            case ast.Constant(value=float(value)):
                written = self.number(value)
            case ast.Name(id=name):
                written = name
            case ast.Attribute(value=ast.Name(id=whose), attr=name):
                written = f"{whose}{self.member}{name}"
            case ast.UnaryOp(operand=operand):
                written = f"-{self.write(operand, 3)}"
            case ast.Call(func=ast.Name(id=name), args=[argument]):
                written = f"{self.functions.get(name, name)}({self.write(argument)})"
            case ast.BinOp(left=left, op=op, right=right):
                written = f"{self.write(left, binding)} {OPERATORS[type(op)]} {self.write(right, binding + 1)}"
            case ast.IfExp(test=ast.Compare(left=left, ops=[op], comparators=[right]), body=body, orelse=orelse):
                test = f"{self.write(left)} {COMPARISONS[type(op)]} {self.write(right)}"
                written = self.choice.format(test, self.write(body), self.write(orelse))
            case _:
                raise AssertionError(ast.dump(node))
        return f"({written})" if binding < strength else written


_CUDA_C = _Language(lambda value: f"real({value!r})", ".", "({0} ? {1} : {2})", "const real ")
_WGSL = _Language(
    # WGSL refuses two minus signs in a row.
    lambda value: f"({value!r}f)" if math.copysign(1, value) < 0 else f"{value!r}f",
    ".", "select({2}, {1}, {0})", "let ",
    {"inverse_sqrt": "inverseSqrt", "fabs": "abs"}, WGSL_RESERVED,
)  # fmt: skip
_PYTHON = _Language(lambda value: f"real({value!r})", "_", "({1} if {0} else {2})")


def _wgsl_struct(name: str, members: Sequence[str]) -> str:
    return f"struct {name} {{\n" + "".join(f"    {member}: f32,\n" for member in members) + "}\n\n"


def _wgsl_row(names: Sequence[str]) -> str:
    vectors = len(_filled_up(names)) // VECTOR_NUMBERS
    return "vec4f" if vectors == 1 else f"array<vec4f, {vectors}>"


def _wgsl_numbers(names: Sequence[str]) -> str:
    """Name the numbers of a row in their order, without what fills it up."""
    several = len(names) > VECTOR_NUMBERS
    places = (divmod(place, VECTOR_NUMBERS) for place in range(len(names)))
    return ", ".join(f"row{f'[{vector}]' if several else ''}.{'xyzw'[lane]}" for vector, lane in places)


def _wgsl_filled(names: Sequence[str]) -> str:
    """Write the row of sums of these names."""
    numbers = [f"sums.{name}" for name in names] + ["0"] * (-len(names) % VECTOR_NUMBERS)
    firsts = range(0, len(numbers), VECTOR_NUMBERS)
    vectors = [f"vec4f({', '.join(numbers[first : first + VECTOR_NUMBERS])})" for first in firsts]
    return vectors[0] if len(vectors) == 1 else f"SumsRow({', '.join(vectors)})"


def _strength(node: ast.expr) -> int:
    """How strongly an operation binds: sums 1, products 2, everything else more."""
    if isinstance(node, ast.BinOp):
        return 1 if isinstance(node.op, ast.Add | ast.Sub) else 2
    return 2 if isinstance(node, ast.UnaryOp) else 3
