"""Whole-number expressions of n and constants, as the head of an entry writes them: read as data, never executed.

The text is parsed as Python's, and the few kinds of parts that are accepted are computed here, one by one.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Collection, Mapping

from gravbench.config.document import shown
from gravbench.errors import InputError, nearest

ACCEPTED = "whole numbers, names, + - * // %, ceil_div(a, b), min(a, b) and max(a, b)"
MOST_CHARACTERS = 200
MOST_VALUE = 2**63 - 1
"""What an expression and its parts may reach, positive or negative."""


def ceil_div(value: int, by: int) -> int:
    """Return the quotient, rounded up."""
    return -(-value // by)


_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_FUNCTIONS: Mapping[str, Callable[[int, int], int]] = {"ceil_div": ceil_div, "min": min, "max": max}


class Expression:
    """A whole number, or a text that gives one for values of ``names``; ``where`` begins the messages about it.

    Raises:
        InputError: it is no expression, is too long, uses an unknown name, or anything but ``ACCEPTED``.
    """

    def __init__(self, written: int | str, names: Collection[str], where: str) -> None:
        self.text = str(written)
        self._begin = f"{where} is {shown(written)}"
        if len(self.text) > MOST_CHARACTERS:
            raise InputError(f"{self._begin}; accepted: up to {MOST_CHARACTERS} characters")
        try:
            self._root = ast.parse(self.text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise InputError(f"{self._begin}, which is no expression; accepted: {ACCEPTED}") from error
        self._check(self._root, names)

    def _check(self, part: ast.expr, names: Collection[str]) -> None:
        match part:
            case ast.Constant(value=int()) if not isinstance(part.value, bool):
                return
            case ast.Name():
                if part.id not in names:
                    raise InputError(f"{self._begin}, which names {shown(part.id)}; {nearest(part.id, sorted(names))}")
                return
            case ast.UnaryOp(op=ast.USub()):
                operands = [part.operand]
            case ast.BinOp() if type(part.op) in _OPERATORS:
                operands = [part.left, part.right]
            case ast.Call(func=ast.Name(id=name), keywords=[]) if name in _FUNCTIONS and len(part.args) == 2:
                operands = part.args
            case _:
                raise InputError(f"{self._begin}, which is not accepted; accepted: {ACCEPTED}")
        for operand in operands:
            self._check(operand, names)

    def value(self, values: Mapping[str, int]) -> int:
        """Return the number for values of the names.

        Raises:
            InputError: it divides by zero, or a part is beyond ``MOST_VALUE``.
        """
        try:
            return self._value(self._root, values)
        except ArithmeticError as error:
            given = ", ".join(f"{name} = {number}" for name, number in values.items())
            raise InputError(f"{self._begin}, which cannot be computed for {given}: {error}") from error

    def _value(self, part: ast.expr, values: Mapping[str, int]) -> int:
        match part:
            case ast.Constant(value=int(number)):
                result = number
            case ast.Name():
                result = values[part.id]
            case ast.UnaryOp():
                result = -self._value(part.operand, values)
            case ast.BinOp():
                result = _OPERATORS[type(part.op)](self._value(part.left, values), self._value(part.right, values))
            case ast.Call(func=ast.Name(id=name), args=[first, second]):
                result = _FUNCTIONS[name](self._value(first, values), self._value(second, values))
            case _:
                raise AssertionError(f"{ast.dump(part)} was not refused")
        if abs(result) > MOST_VALUE:
            raise OverflowError("the number is too large")
        return result
