"""Read the file of an interaction: check every line, put numbers in the place of constants."""

from __future__ import annotations

import ast
import hashlib
import io
import math
import re
import tokenize
from collections.abc import Mapping
from pathlib import Path

from gravbench.errors import InputError, nearest
from gravbench.model import files, python_code
from gravbench.model.interaction import ALWAYS, BODY, COMPARISONS, FUNCTIONS, OPERATORS, Interaction, Line
from gravbench.packaged import folder

FOLDER = folder("gravbench.variants.interactions")
TOLERANCE = "TOLERANCE"
_ACCEPTED = f"names, numbers, i.{BODY[0]}, + - * /, A if B < C else D, and {', '.join(FUNCTIONS)}"
_PARAMETERS = ("sums", "i", "j", "eps2")
# What C++ or the kernels' own text already means by a word that Python leaves free.
_RESERVED = """
auto bool case char const constexpr default delete do double enum explicit extern float friend goto inline int
long mutable namespace new operator private protected public real register short signed sizeof static struct
switch template this throw typedef typename union unsigned using virtual void volatile
""".split()  # noqa: SIM905


def packaged() -> dict[str, Path]:
    """Name the interactions that gravbench brings along."""
    return {path.stem: path for path in files.listing(FOLDER, "*.py") if path.stem != "__init__"}


@files.remembered
def find(name: str) -> Interaction:
    """Read an interaction by the name of a packaged one, or by its path.

    Raises:
        InputError: there is none, or its file says something that is not accepted.
    """
    own = packaged()
    path = own.get(name, Path(name))
    try:
        text = files.text(path)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text in UTF-8"
        said = f"interaction {name}: no packaged one, and no file ({reason})"
        raise InputError(f"{said}; {nearest(name, list(own))}") from None
    return parse(text, name if name in own else path.name, str(path))


@files.remembered
def code_sha256(name: str) -> str | None:
    """Hash the code of the file of an interaction of one's own; None for a packaged one, which its name stands for.

    Raises:
        InputError: as for ``find``.
    """
    if name in packaged():
        return None
    return hashlib.sha256(python_code.normal(find(name).text).encode()).hexdigest()


def parse(text: str, name: str, where: str) -> Interaction:
    """Make an interaction of the text of its file; ``where`` begins the messages about it.

    Raises:
        InputError: a line of it is not accepted.
    """
    try:
        module = ast.parse(text)
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        comments = {token.start[0]: token.string for token in tokens if token.type == tokenize.COMMENT}
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
    lines = tuple(reader.line(node) for node in found[0].body if not python_code.is_text(node))
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
            case ast.AugAssign(ast.Attribute(ast.Name("sums"), name), ast.Add() | ast.Sub() as op, value):
                target, added = self._free(name, node), self.expression(value)
                line = Line(target, True, added if isinstance(op, ast.Add) else ast.UnaryOp(ast.USub(), added))
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                line = Line(self._free(name, node), False, self.expression(value))
                if name in self.known or name in (*_PARAMETERS, *self.constants):
                    raise self._error(node, f"{name} has a value already; accepted: each name once")
                self.known.add(name)
            case _:
                raise self._error(node, "not accepted; accepted: name = ..., sums.name += ... and sums.name -= ...")
        # A comment that begins with a number counts the floating-point operations of its line.
        said = re.match(r"#\s*(\d+)\b", self.comments.get(node.end_lineno or 0, ""))
        if said and int(said[1]) != line.flops:
            count = f"its comment counts {said[1]} floating-point operations, and it has {line.flops}"
            raise self._error(node, f"{count}; accepted: {line.flops}, or no number")
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
            case ast.BinOp(left, op, right) if type(op) in OPERATORS:
                return ast.BinOp(self.expression(left), op, self.expression(right))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return ast.UnaryOp(ast.USub(), self.expression(operand))
            case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in FUNCTIONS:
                return ast.Call(ast.Name(name), [self.expression(argument)], [])
            case ast.IfExp(test=ast.Compare(left=left, ops=[op], comparators=[right])) if type(op) in COMPARISONS:
                test = ast.Compare(self.expression(left), [op], [self.expression(right)])
                return ast.IfExp(test, self.expression(node.body), self.expression(node.orelse))
        raise self._error(node, f"{ast.unparse(node)} is not accepted; accepted: {_ACCEPTED}")

    def _free(self, name: str, node: ast.stmt) -> str:
        if name in _RESERVED or not re.fullmatch(r"[a-z][a-z0-9_]*", name):
            raise self._error(node, f"the name {name} is not accepted; accepted: small letters that C++ leaves free")
        return name

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
            case _ if not python_code.is_text(node):
                raise InputError(f"{where}, line {node.lineno}: accepted: NAME = NUMBER and the function interact")
    return found
