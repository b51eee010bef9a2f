"""Read the file of an interaction: check every line, put numbers in the place of constants."""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gravbench.errors import InputError, guess, nearest
from gravbench.model import files, interaction_text, python_code
from gravbench.model.interaction import (
    ALWAYS,
    BODY,
    COMPARISONS,
    FUNCTIONS,
    MATH,
    OPERATORS,
    Interaction,
    Line,
    constant,
    value_of_constants,
)
from gravbench.packaged import folder

FOLDER = folder("gravbench.variants.interactions")
TOLERANCE = "TOLERANCE"
SHOWN = 60
"""Characters of an expression that a message shows."""
SMALLEST, LARGEST = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)
"""The magnitudes of what float32 holds with all digits: a number is zero, or is not outside of them."""
ENDING = "_"
"""Ends a file's own names in what is written for compilers, where no other name ends so.

So none of them is a word of C or Python, a name of the text around it, or ``j_mass``, as ``j.mass`` is written. The
names in packaged interactions are known to be free; they stay as they are, because the hashes of records hold them.
"""
_ACCEPTED = f"names, numbers, i.{BODY[0]}, + - * /, A if B < C else D, and {', '.join(FUNCTIONS)}"
_NUMBERS = f"0, and numbers of a magnitude from {SMALLEST:.2g} to {LARGEST:.2g}, which float32 holds"
_PARAMETERS = ("sums", "i", "j", "eps2")
_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_CONSTANT = re.compile(r"[A-Z][A-Z0-9_]*")
_IMPORTS: Mapping[str | None, tuple[str, ...]] = {
    "gravbench.model.interaction": ("inverse_sqrt",),
    "math": tuple(MATH),
}
_IMPORTED = " and ".join(f"from {source} import {', '.join(names)}" for source, names in _IMPORTS.items())
RESERVED = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class co_await
co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype default delete do
double dynamic_cast else enum explicit export extern false filler0 filler1 filler2 float for friend goto if inline int
linux long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public real register
reinterpret_cast requires return short signed sizeof static static_assert static_cast struct switch template this
thread_local throw true try typedef typeid typename typeof union unix unsigned using virtual void volatile wchar_t while
xor xor_eq
""".split()  # noqa: SIM905
"""What no sum is called, for sums are members of a struct in CUDA C: words of C++, of its compilers, of the struct."""


def packaged() -> dict[str, Path]:
    """Name the interactions that gravbench brings along."""
    return {path.stem: path for path in files.listing(FOLDER, "*.py") if path.stem != "__init__"}


@files.remembered
def find(name: str) -> Interaction:
    """Read an interaction by the name of a packaged one, or by its path.

    Raises:
        InputError: there is none, or its file says something that is not accepted.
    """
    paths = packaged()
    path = paths.get(name, Path(name))
    try:
        text = interaction_text.read(path)
    except InputError:
        raise
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        problem = f"interaction {name}: neither a packaged interaction nor a file ({reason})"
        raise InputError(f"{problem}; {nearest(name, list(paths))}") from None
    if name in paths:
        return parse(text, name, str(path), ending="")
    # The name stands in the CUDA C, and tells gravity from others.
    if path.name in paths or not path.name.isprintable() or set('"\\') & set(path.name):
        other = f"another name, such as own.py, without quotation marks and backslashes, and not {', '.join(paths)}"
        raise InputError(f"interaction {name!r}: its file is called {path.name!r}; accepted: {other}")
    return parse(text, path.name, str(path))


@files.remembered
def code_sha256(name: str) -> str | None:
    """Hash the code of the file of an interaction of one's own; None for a packaged one, which its name stands for.

    Raises:
        InputError: as for ``find``.
    """
    if name in packaged():
        return None
    return hashlib.sha256(python_code.normal(find(name).text).encode()).hexdigest()


def parse(text: str, name: str, where: str, *, ending: str = ENDING) -> Interaction:
    """Make an interaction of the text of its file; ``where`` begins the messages about it.

    What the file names is written for compilers with ``ending``.

    Raises:
        InputError: a line of it is not accepted.
    """
    module, comments = interaction_text.parsed(text, where)
    summary = (ast.get_docstring(module) or "").partition("\n")[0]
    if not summary:
        raise InputError(
            f"{where}: no docstring; the file of an interaction begins with a docstring that says what it computes"
        )
    if not summary.isprintable():
        raise InputError(
            f"{where}: the first line of the docstring is {_short(repr(summary))}; accepted: printable characters"
        )
    functions = [node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == "interact"]
    if len(functions) != 1 or not _takes_parameters(functions[0]):
        raise InputError(f"{where}: no function interact({', '.join(_PARAMETERS)}); accepted: one")
    reader = _Reader(text, where, comments, ending)
    tolerance = reader.read_constants(module).pop(TOLERANCE, 1.0)
    if tolerance <= 0:
        raise InputError(f"{where}: {TOLERANCE} is {tolerance:g}; accepted: more than 0")
    lines = tuple(reader.line(node) for node in functions[0].body if not python_code.is_text(node))
    sums = tuple(dict.fromkeys(line.target for line in lines if line.adds))
    if not sums:
        raise InputError(
            f"{where}: interact does not add to any sum; accepted: at least one line such as sums.ax += ..."
        )
    if len(sums) > interaction_text.SUMS:
        raise InputError(f"{where}: {len(sums):,} sums; accepted: at most {interaction_text.SUMS}")
    body = tuple(name for name in BODY if name in ALWAYS or name in reader.read)
    return Interaction(name, summary, text, body, sums, lines, tolerance)


def _takes_parameters(function: ast.FunctionDef) -> bool:
    """Tell whether a function takes the four parameters, and has nothing that reading it would leave out."""
    parameters = function.args
    more = (
        parameters.posonlyargs,
        parameters.vararg,
        parameters.kwonlyargs,
        parameters.kwarg,
        parameters.defaults,
        function.decorator_list,
    )
    return [parameter.arg for parameter in parameters.args] == list(_PARAMETERS) and not any(more)


class _Reader:
    """Checks the lines of one file and puts numbers in the place of constants."""

    def __init__(self, text: str, where: str, comments: Mapping[int, str], ending: str) -> None:
        self.text = text
        self.where = where
        self.comments = comments
        self.ending = ending
        self.constants: dict[str, float] = {}
        self.written = {"eps2": "eps2"}
        self.read: set[str] = set()

    def read_constants(self, module: ast.Module) -> dict[str, float]:
        """Read the lines NAME = NUMBER before the function."""
        for node in module.body:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    if not _CONSTANT.fullmatch(name):
                        raise self._error(node, f"the name {_short(name)} is not accepted; accepted: capital letters")
                    self.constants[name] = self._number(_literal(value), value)
                case ast.ImportFrom(module=source, names=names) if all(
                    alias.name in _IMPORTS.get(source, ()) and alias.asname is None for alias in names
                ):
                    pass
                case ast.Import() | ast.ImportFrom():
                    raise self._error(node, f"{self._shown(node)} is not accepted; accepted: {_IMPORTED}")
                case ast.FunctionDef(name="interact"):
                    pass
                case _ if not python_code.is_text(node):
                    raise self._error(node, "accepted: NAME = NUMBER and the function interact")
        return self.constants

    def line(self, node: ast.stmt) -> Line:
        """Return a line of the function, its value with constants as numbers."""
        match node:
            case ast.AugAssign(ast.Attribute(ast.Name("sums"), name), ast.Add() | ast.Sub() as op, value):
                target, added = self._free(name, node, RESERVED), self._value(value)
                line = Line(target, True, added if isinstance(op, ast.Add) else ast.UnaryOp(ast.USub(), added))
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                target = self._free(name, node, FUNCTIONS) + self.ending
                line = Line(target, False, self._value(value))
                if name in self.written or name in _PARAMETERS:
                    raise self._error(node, f"{_short(name)} already has a value; accepted: each name once")
                self.written[name] = target
            case _:
                raise self._error(node, "not accepted; accepted: name = ..., sums.name += ... and sums.name -= ...")
        # A comment that begins with a number counts the floating-point operations of its line.
        comment = re.match(r"#\s*0*([0-9]+)\b", self.comments.get(node.end_lineno or 0, ""))
        if comment and comment[1] != str(line.flops):
            count = f"its comment says {_short(comment[1])} floating-point operations, but it has {line.flops}"
            raise self._error(node, f"{count}; accepted: {line.flops}, or no number")
        return line

    def _value(self, node: ast.expr) -> ast.expr:
        value = self.expression(node)
        self._check_constants(value)
        return value

    def expression(self, node: ast.expr) -> ast.expr:
        """Return the expression with constants as numbers, and names as they are written."""
        return ast.copy_location(self._read(node), node)

    def _read(self, node: ast.expr) -> ast.expr:
        match node:
            case ast.Constant(value=bool()):
                pass
            case ast.Constant(value=int() | float() as value):
                return ast.Constant(self._number(value, node))
            case ast.Name(id=name) if name in self.written:
                return ast.Name(self.written[name])
            case ast.Name(id=name) if name in self.constants:
                return ast.Constant(self.constants[name])
            case ast.Attribute(value=ast.Name(id="i" | "j" as whose), attr=name) if name in BODY:
                self.read.add(name)
                return ast.Attribute(ast.Name(whose), name)
            case ast.BinOp(left, op, right) if type(op) in OPERATORS:
                return ast.BinOp(self.expression(left), op, self.expression(right))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return ast.UnaryOp(ast.USub(), self.expression(operand))
            case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in FUNCTIONS:
                return ast.Call(ast.Name(name), [self.expression(argument)], [])
            case ast.IfExp(test=ast.Compare(left=left, ops=[op], comparators=[right])) if type(op) in COMPARISONS:
                test = ast.Compare(self.expression(left), [op], [self.expression(right)])
                return ast.IfExp(test, self.expression(node.body), self.expression(node.orelse))
        raise self._error(node, f"{self._shown(node)} is not accepted; {self._meant(node)}accepted: {_ACCEPTED}")

    def _meant(self, node: ast.expr) -> str:
        """Ask whether another name is meant by one that is not known."""
        match node:
            case ast.Name(id=name):
                known = [*self.written, *self.constants]
            case ast.Attribute(value=ast.Name(id="i" | "j"), attr=name):
                known = list(BODY)
            case ast.Call(func=ast.Name(id=name)):
                known = list(FUNCTIONS)
            case _:
                return ""
        return guess(name, [] if name in known else known)

    def _check_constants(self, node: ast.AST, *, divides: bool = False) -> None:
        """Refuse what every compiler would make an infinity of: the largest parts that are made of constants alone."""
        if isinstance(node, ast.expr) and not isinstance(node, ast.Compare) and constant(node):
            try:
                values = [value_of_constants(node, real) for real in (np.float32, np.float64)]
            except FloatingPointError as error:
                problem = f"{self._shown(node)} is not a number in float32 or float64 ({error})"
                raise self._error(node, f"{problem}; accepted: {_NUMBERS}") from None
            if divides and min(map(abs, values)) < SMALLEST:
                raise self._error(node, f"{self._shown(node)} is zero; accepted: a nonzero divisor")
            return
        for part in ast.iter_child_nodes(node):
            divisor = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and part is node.right
            self._check_constants(part, divides=divisor)

    def _number(self, value: Any, node: ast.expr) -> float:
        """Return a number of the file; an integer may be too long for ``float``."""
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or (value and not SMALLEST <= abs(value) <= LARGEST):
            raise self._error(node, f"{self._shown(node)} is not accepted; accepted: {_NUMBERS}")
        return float(value)

    def _free(self, name: str, node: ast.stmt, taken: Sequence[str]) -> str:
        if name in taken or not _NAME.fullmatch(name):
            accepted = (
                "lower-case letters and digits with single underscores between them, but no C++ keyword or function"
            )
            raise self._error(node, f"the name {_short(name)} is not accepted; accepted: {accepted}")
        return name

    def _shown(self, node: ast.AST) -> str:
        return _short(" ".join((ast.get_source_segment(self.text, node) or "").split()))

    def _error(self, node: ast.AST, what: str) -> InputError:
        return InputError(f"{self.where}, line {getattr(node, 'lineno', '?')}: {what}")


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        return None


def _short(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."
