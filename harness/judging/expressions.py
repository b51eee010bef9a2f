"""Whole-number expressions of n and constants, as the head of an entry writes them.

The text is read as Python's, every part of it is checked against the few that are accepted, and simpleeval computes it.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Collection, Mapping

import simpleeval

from gravbench.config.document import shown
from gravbench.errors import InputError, nearest

ACCEPTED = "whole numbers, names, + - * // %, ceil_div(a, b), min(a, b) and max(a, b)"
MOST_CHARACTERS = 200
MOST_VALUE = 2**63 - 1
"""What an expression may give, positive or negative."""


def ceil_div(value: int, by: int) -> int:
    """Return the quotient, rounded up."""
    return -(-value // by)


_OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.USub: operator.neg,
}
_FUNCTIONS = {"ceil_div": ceil_div, "min": min, "max": max}
_SYNTAX = (*_OPERATORS, ast.BinOp, ast.UnaryOp, ast.Call, ast.Name, ast.Load, ast.Constant)


class Expression:
    """A whole number, or a text that gives one for values of ``names``; ``where`` begins the messages about it.

    Raises:
        InputError: it is no expression, is too long, uses an unknown name, or anything but ``ACCEPTED``.
    """

    def __init__(self, written: int | str, names: Collection[str], where: str) -> None:
        text = str(written).strip()
        self._begin = f"{where} is {shown(written)}"
        if len(text) > MOST_CHARACTERS:
            raise InputError(f"{self._begin}; accepted: up to {MOST_CHARACTERS} characters")
        try:
            self._root = ast.parse(text, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise InputError(f"{self._begin}, which is no expression; accepted: {ACCEPTED}") from error
        called = {id(node.func) for node in ast.walk(self._root) if isinstance(node, ast.Call)}
        for node in ast.walk(self._root):
            known = _FUNCTIONS if id(node) in called else names
            if isinstance(node, ast.Name) and node.id not in known:
                raise InputError(f"{self._begin}, which names {shown(node.id)}; {nearest(node.id, sorted(known))}")
            if not isinstance(node, _SYNTAX) or (isinstance(node, ast.Constant) and type(node.value) is not int):
                raise InputError(f"{self._begin}, which is not accepted; accepted: {ACCEPTED}")

    def value(self, values: Mapping[str, int]) -> int:
        """Return the number for values of the names.

        Raises:
            InputError: it divides by zero, gives a function too few numbers, or is beyond ``MOST_VALUE``.
        """
        evaluator = simpleeval.SimpleEval(operators=_OPERATORS, functions=_FUNCTIONS, names=dict(values))
        try:
            result = int(evaluator.eval("", previously_parsed=self._root))
            if abs(result) > MOST_VALUE:
                raise OverflowError("the number is too large")
        except (simpleeval.InvalidExpression, TypeError, ArithmeticError) as error:
            given = ", ".join(f"{name} = {number}" for name, number in values.items())
            raise InputError(f"{self._begin}, which cannot be computed for {given}: {error}") from error
        return result
