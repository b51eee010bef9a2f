"""What one body does to another, as a file: read, checked, and written out for every compiler.

An interaction is one Python file that is read and never executed. Its function ``interact(sums, i, j, eps2)`` says in
straight lines of arithmetic what body j adds to the sums of body i; each line ends in a comment with the floating-point
operations it counts (an FMA is two). Names in capitals before it are constants; TOLERANCE is the factor by which its
sums may be further from the truth than those of gravity, because their parts cancel more. From these lines come the
CUDA C and the Python that kernels are compiled from, and the float64 that judges them.
"""

from __future__ import annotations

import ast
import io
import math
import re
import tokenize
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.errors import InputError, nearest

GRAVITY = "gravity"
FOLDER = Path(__file__).resolve().parent.parent / "variants" / "interactions"

BODY = ("x", "y", "z", "mass", "vx", "vy", "vz")
"""What an interaction may read of a body: position, mass and velocity, in the order a row of bodies has them."""
ALWAYS = BODY[:4]
ACCELERATION = ("ax", "ay", "az")
TOLERANCE = "TOLERANCE"
VECTOR_NUMBERS = 4
"""Rows are filled up to a multiple of four numbers: one 16-byte load in float32, two in float64."""

MATH = {"sqrt": math.sqrt, "exp": math.exp, "log": math.log, "fabs": math.fabs}
FUNCTIONS = ("inverse_sqrt", *MATH)
"""What the arithmetic may call; those of ``MATH`` have the same names in CUDA C."""
_OPERATORS: Mapping[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_COMPARISONS: Mapping[type[ast.cmpop], str] = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_ACCEPTED = f"names, numbers, i.{BODY[0]}, + - * /, A if B < C else D, and {', '.join(FUNCTIONS)}"
_PARAMETERS = ("sums", "i", "j", "eps2")
# What C++ or the kernels' own text already means by a word that Python leaves free.
_RESERVED = """
auto bool case char const constexpr default delete do double enum explicit extern float friend goto inline int
long mutable namespace new operator private protected public real register short signed sizeof static struct
switch template this throw typedef typename union unsigned using virtual void volatile
""".split()  # noqa: SIM905


def inverse_sqrt(value: Any) -> Any:
    """Return 1 / sqrt(value); on a GPU in float32 this is one instruction."""
    return 1 / math.sqrt(value)


@dataclass(frozen=True, slots=True)
class Line:
    """``target`` = ``value``, or, where it adds to a sum, ``target`` += ``value``; ``flops`` as its comment counts."""

    target: str
    adds: bool
    value: ast.expr
    flops: int


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
        """Floating-point operations of one interaction, by the counts of its lines."""
        return sum(line.flops for line in self.lines)

    @property
    def body_width(self) -> int:
        """Numbers in a row of bodies."""
        return _filled_up(len(self.body))

    @property
    def sums_width(self) -> int:
        """Numbers in a row of sums."""
        return _filled_up(len(self.sums))

    @property
    def steppable(self) -> bool:
        """Whether an integrator can move its bodies: it reads no velocities, and its first sums are accelerations."""
        return self.body == ALWAYS and self.sums[:3] == ACCELERATION

    def rows(self, position: NDArray[Any], velocity: NDArray[Any], mass: NDArray[Any]) -> NDArray[Any]:
        """Return rows of bodies, shape (n, ``body_width``); what fills a row up is zero."""
        columns = dict(zip(BODY, (*position.T, mass, *velocity.T), strict=True))
        rows: NDArray[Any] = np.zeros((mass.size, self.body_width))
        for number, name in enumerate(self.body):
            rows[:, number] = columns[name]
        return rows

    def vectors(self) -> dict[str, tuple[int, ...]]:
        """Group the sums' places: ax, ay, az make the vector a; a sum on its own keeps its name."""
        found: dict[str, tuple[int, ...]] = {}
        for place, name in enumerate(self.sums):
            parts = [f"{name[:-1]}{axis}" for axis in "xyz"]
            whole = len(name) > 1 and all(part in self.sums for part in parts)
            found.setdefault(name[:-1] if whole else name, ())
            found[name[:-1] if whole else name] += (place,)
        return found

    def cuda_source(self) -> str:
        """Write the rows of bodies and sums, ``interact`` and ``add`` in CUDA C, in terms of ``real``."""
        sums = ", ".join([*self.sums, *_fillers(self.sums_width - len(self.sums))])
        own = ", ".join([*self.body, *_fillers(self.body_width - len(self.body))])
        return "\n".join(
            [
                f"// {self.summary} {self.flops} FLOPs an interaction.",
                f"struct __align__(16) Body {{ real {own}; }};",
                f"struct __align__(16) Sums {{ real {sums}; }};",
                "",
                "__device__ __forceinline__ void interact(Sums& sums, const Body& i, const Body& j, real eps2) {",
                *(f"    {self._cuda_line(line)};  // {line.flops}" for line in self.lines),
                "}",
                "",
                "__device__ __forceinline__ void add(Sums& sums, const Sums& others) {",
                *(f"    sums.{name} += others.{name};" for name in self.sums),
                "}",
                "",
            ]
        )

    def _cuda_line(self, line: Line) -> str:
        if line.adds:
            return f"sums.{line.target} += {_cuda(line.value)}"
        return f"const real {line.target} = {_cuda(line.value)}"

    def python(self, real: Callable[[Any], Any], inverse_sqrt: Callable[[Any], Any]) -> Callable[..., Any]:
        """Write ``interact(sums, i, j, eps2)``, which takes and returns tuples, in Python for Numba to compile.

        ``real`` is the number type and ``inverse_sqrt`` the function that the compiler has for it.
        """
        source = "\n".join(
            [
                "def interact(sums, i, j, eps2):",
                f"    {_names('sums', self.sums)} = sums",
                f"    {_names('i', self.body)} = i",
                f"    {_names('j', self.body)} = j",
                *(f"    {line}" for line in self.python_lines(lambda value: f"real({value!r})")),
                f"    return {_names('sums', self.sums)}",
            ]
        )
        namespace: dict[str, Any] = {**MATH, "real": real, "inverse_sqrt": inverse_sqrt}
        exec(compile(source, f"<{self.name}>", "exec"), namespace)
        made: Callable[..., Any] = namespace["interact"]
        return made

    def python_add(self) -> Callable[..., Any]:
        """Write ``add(sums, others)``, which takes and returns tuples, in Python for Numba to compile."""
        total = "".join(f"sums[{place}] + others[{place}], " for place in range(len(self.sums)))
        namespace: dict[str, Any] = {}
        exec(f"def add(sums, others):\n    return ({total})", namespace)
        made: Callable[..., Any] = namespace["add"]
        return made

    def python_lines(self, number: Callable[[float], str]) -> Iterator[str]:
        """Write the lines in Python, ``i.x`` as ``i_x`` and numbers as ``number`` does."""
        for line in self.lines:
            target = f"sums_{line.target} +=" if line.adds else f"{line.target} ="
            yield f"{target} {_python(line.value, number)}"


def packaged() -> dict[str, Path]:
    """Name the interactions that gravbench brings along."""
    return {path.stem: path for path in sorted(FOLDER.glob("*.py")) if path.stem != "__init__"}


def find(name: str) -> Interaction:
    """Read an interaction by the name of a packaged one, or by its path.

    Raises:
        InputError: there is none, or its file says something that is not accepted.
    """
    own = packaged()
    path = own.get(name, Path(name))
    try:
        text = path.read_text("utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text in UTF-8"
        raise InputError(
            f"interaction {name}: no packaged one, and no file ({reason}); {nearest(name, list(own))}"
        ) from None
    return parse(text, name if name in own else path.name, str(path))


def parse(text: str, name: str, where: str) -> Interaction:
    """Make an interaction of the text of its file; ``where`` begins the messages about it.

    Raises:
        InputError: a line of it is not accepted.
    """
    try:
        module = ast.parse(text)
        comments = _comments(text)
    except (SyntaxError, ValueError, tokenize.TokenError) as error:
        raise InputError(f"{where}: not Python: {error}") from None
    summary = (ast.get_docstring(module) or "").partition("\n")[0]
    if not summary:
        raise InputError(f"{where}: no docstring; an interaction's file begins with one that says what it computes")
    found = [node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == "interact"]
    if len(found) != 1 or [one.arg for one in found[0].args.args] != list(_PARAMETERS):
        raise InputError(f"{where}: no function interact({', '.join(_PARAMETERS)}); accepted: one")
    constants = _constants(module, where)
    tolerance = constants.pop(TOLERANCE, 1.0)
    if tolerance <= 0:
        raise InputError(f"{where}: {TOLERANCE} is {tolerance:g}; accepted: more than 0")
    reader = _Reader(where, constants, comments)
    lines = tuple(reader.line(node) for node in found[0].body if not _is_text(node))
    sums = tuple(dict.fromkeys(line.target for line in lines if line.adds))
    if not sums:
        raise InputError(f"{where}: interact adds to no sum; accepted: at least one line such as sums.ax += ...")
    body = tuple(name for name in BODY if name in ALWAYS or name in reader.read)
    return Interaction(name, summary, text, body, sums, lines, tolerance)


class _Reader:
    """Checks the lines of one function and puts numbers in the place of constants."""

    def __init__(self, where: str, constants: Mapping[str, float], comments: Mapping[int, str]) -> None:
        self.where = where
        self.constants = constants
        self.comments = comments
        self.known = {"eps2"}
        self.read: set[str] = set()

    def line(self, node: ast.stmt) -> Line:
        match node:
            case ast.AugAssign(target=ast.Attribute(value=ast.Name(id="sums"), attr=name), op=ast.Add(), value=value):
                line = Line(self._free(name, node), True, self.expression(value), self._flops(node))
            case ast.AugAssign(target=ast.Attribute(value=ast.Name(id="sums"), attr=name), op=ast.Sub(), value=value):
                negative = ast.UnaryOp(ast.USub(), self.expression(value))
                line = Line(self._free(name, node), True, negative, self._flops(node))
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                line = Line(self._free(name, node), False, self.expression(value), self._flops(node))
                if name in self.known or name in (*_PARAMETERS, *self.constants):
                    raise self._error(node, f"{name} has a value already; accepted: each name once")
                self.known.add(name)
            case _:
                raise self._error(node, "not accepted; accepted: name = ..., sums.name += ... and sums.name -= ...")
        return line

    def expression(self, node: ast.expr) -> ast.expr:
        """Return the expression with constants as numbers."""
        match node:
            case ast.Constant(value=bool()):
                pass
            case ast.Constant(value=int() | float() as value) if math.isfinite(value):
                return ast.Constant(float(value))
            case ast.Name(id=name) if name in self.known:
                return node
            case ast.Name(id=name) if name in self.constants:
                return ast.Constant(self.constants[name])
            case ast.Attribute(value=ast.Name(id="i" | "j"), attr=name) if name in BODY:
                self.read.add(name)
                return node
            case ast.BinOp(left, op, right) if type(op) in _OPERATORS:
                return ast.BinOp(self.expression(left), op, self.expression(right))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return ast.UnaryOp(ast.USub(), self.expression(operand))
            case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in FUNCTIONS:
                return ast.Call(ast.Name(name), [self.expression(argument)], [])
            case ast.IfExp(test=ast.Compare(left=left, ops=[op], comparators=[right])) if type(op) in _COMPARISONS:
                test = ast.Compare(self.expression(left), [op], [self.expression(right)])
                return ast.IfExp(test, self.expression(node.body), self.expression(node.orelse))
        raise self._error(node, f"{ast.unparse(node)} is not accepted; accepted: {_ACCEPTED}")

    def _free(self, name: str, node: ast.stmt) -> str:
        if name in _RESERVED or not re.fullmatch(r"[a-z][a-z0-9_]*", name):
            raise self._error(node, f"the name {name} is not accepted; accepted: small letters that C++ leaves free")
        return name

    def _flops(self, node: ast.stmt) -> int:
        match = re.match(r"#\s*(\d+)\b", self.comments.get(node.end_lineno or 0, ""))
        if match is None:
            raise self._error(node, "it has no count of floating-point operations; end it with a comment such as # 2")
        return int(match[1])

    def _error(self, node: ast.AST, what: str) -> InputError:
        return InputError(f"{self.where}, line {getattr(node, 'lineno', '?')}: {what}")


def _constants(module: ast.Module, where: str) -> dict[str, float]:
    """Read the lines NAME = NUMBER before the function."""
    found = {}
    for node in module.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                try:
                    number = ast.literal_eval(value)
                except (ValueError, TypeError, SyntaxError, RecursionError):
                    number = None
                if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
                    shown = ast.unparse(value)
                    raise InputError(f"{where}, line {node.lineno}: {name} is {shown}; accepted: a finite number")
                found[name] = float(number)
            case ast.FunctionDef(name="interact") | ast.ImportFrom() | ast.Import():
                pass
            case _ if not _is_text(node):
                raise InputError(f"{where}, line {node.lineno}: accepted: NAME = NUMBER and the function interact")
    return found


def _comments(text: str) -> dict[int, str]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return {token.start[0]: token.string for token in tokens if token.type == tokenize.COMMENT}


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _filled_up(numbers: int) -> int:
    return -(-numbers // VECTOR_NUMBERS) * VECTOR_NUMBERS


def _fillers(count: int) -> Iterable[str]:
    return (f"filler{number}" for number in range(count))


def _names(prefix: str, names: Iterable[str]) -> str:
    return "(" + "".join(f"{prefix}_{name}, " for name in names) + ")"


def _cuda(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=value):
            return f"real({value!r})"
        case ast.Attribute(value=ast.Name(id=whose), attr=name):
            return f"{whose}.{name}"
        case ast.IfExp(test=ast.Compare(left=left, ops=[op], comparators=[right]), body=body, orelse=orelse):
            return f"({_cuda(left)} {_COMPARISONS[type(op)]} {_cuda(right)} ? {_cuda(body)} : {_cuda(orelse)})"
    return _written(node, _cuda)


def _python(node: ast.expr, number: Callable[[float], str]) -> str:
    def write(part: ast.expr) -> str:
        return _python(part, number)

    match node:
        case ast.Constant(value=float(value)):
            return number(value)
        case ast.Attribute(value=ast.Name(id=whose), attr=name):
            return f"{whose}_{name}"
        case ast.IfExp(test=ast.Compare(left=left, ops=[op], comparators=[right]), body=body, orelse=orelse):
            return f"({write(body)} if {write(left)} {_COMPARISONS[type(op)]} {write(right)} else {write(orelse)})"
    return _written(node, write)


def _written(node: ast.expr, write: Callable[[ast.expr], str]) -> str:
    """Write what is the same in both languages; parentheses only where the order of operations asks for them."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.UnaryOp(operand=operand):
            return f"-{_inside(operand, write, 3)}"
        case ast.Call(func=ast.Name(id=name), args=[argument]):
            return f"{name}({write(argument)})"
        case ast.BinOp(left=left, op=op, right=right):
            strength = _strength(node)
            return f"{_inside(left, write, strength)} {_OPERATORS[type(op)]} {_inside(right, write, strength + 1)}"
    raise AssertionError(ast.dump(node))


def _inside(node: ast.expr, write: Callable[[ast.expr], str], strength: int) -> str:
    return f"({write(node)})" if _strength(node) < strength else write(node)


def _strength(node: ast.expr) -> int:
    """How strongly an operation binds: sums 1, products 2, everything else more."""
    if isinstance(node, ast.BinOp):
        return 1 if isinstance(node.op, ast.Add | ast.Sub) else 2
    return 2 if isinstance(node, ast.UnaryOp) else 3
