"""Conditions that keep or drop points of a sweep: comparisons of names and constants, and nothing else.

The expression is read as Python's, every part of it is checked against the few that are accepted, and
simpleeval, which is given neither functions nor attributes, evaluates it.
"""

from __future__ import annotations

import ast
import operator
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from itertools import product
from typing import Any

import simpleeval

from gravbench.config.document import shown
from gravbench.config.limits import MOST_IN_CONDITION
from gravbench.errors import InputError, nearest

ACCEPTED = "names, numbers, texts, and, or, not, in, comparisons and + - * / // %"
MOST_KEPT = 4096
"""Results that a condition remembers."""

_SYNTAX = (
    *(ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub),
    *(ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod),
    *(ast.Compare, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.In, ast.NotIn),
    *(ast.Name, ast.Load, ast.Constant, ast.Tuple, ast.List),
)


def _of_numbers(compute: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Refuse anything but numbers, for "%999999999d" % n is arithmetic to Python."""

    def checked(left: Any, right: Any) -> Any:
        if not isinstance(left, int | float) or not isinstance(right, int | float):
            raise TypeError(f"arithmetic with {shown(left)} and {shown(right)}")
        return compute(left, right)

    return checked


_OPERATORS = simpleeval.DEFAULT_OPERATORS | {
    ast.Add: _of_numbers(operator.add),
    ast.Sub: _of_numbers(operator.sub),
    ast.Mult: _of_numbers(operator.mul),
    ast.Div: _of_numbers(operator.truediv),
    ast.FloorDiv: _of_numbers(operator.floordiv),
    ast.Mod: _of_numbers(operator.mod),
}


class Condition:
    """An expression over ``names`` that is true or false; ``where`` and its ``key`` begin the messages about it.

    Of an expression ``A and B``, a part that uses a name without a value is ignored: in an entry for several
    variants, ``unroll <= p and n >= p`` says only ``n >= p`` of one without the axis unroll.

    Raises:
        InputError: it is no expression, is too long, uses a name that is none of ``names``, or anything but
            ``ACCEPTED``.
    """

    def __init__(self, text: str, names: Collection[str], where: str, key: str = "when") -> None:
        self.text = text
        self._begin = f"{where}: {key} {shown(text)}"
        if len(text) > MOST_IN_CONDITION:
            raise InputError(f"{self._begin} has {len(text)} characters; accepted: up to {MOST_IN_CONDITION}")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # "\d" and the like: Python's advice on style
                body = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise InputError(f"{self._begin} is not an expression; accepted: {ACCEPTED}") from error
        self._parts: list[tuple[ast.expr, set[str], str]] = []
        for part in body.values if isinstance(body, ast.BoolOp) and isinstance(body.op, ast.And) else [body]:
            used: set[str] = set()
            for node in ast.walk(part):
                if isinstance(node, ast.Name):
                    used.add(node.id)
                    if node.id not in names:
                        raise InputError(f"{self._begin} names {shown(node.id)}; {nearest(node.id, sorted(names))}")
                kind = type(node.value) if isinstance(node, ast.Constant) else type(node)
                if kind not in (*_SYNTAX, bool, int, float, str):
                    raise InputError(f"{self._begin} uses {kind.__name__}; accepted: {ACCEPTED}")
            if not (isinstance(part, ast.Constant) and part.value is True):
                self._parts.append((part, used, ast.get_source_segment(text.strip(), part) or text))
        self._evaluator = simpleeval.EvalWithCompoundTypes(operators=_OPERATORS, functions={})
        # Many points of a sweep share the values of the few names in a part.
        self._is_true = lru_cache(maxsize=MOST_KEPT, typed=True)(self._computed)

    def holds(self, values: Mapping[str, Any]) -> bool:
        """Say whether the condition is true of ``values``.

        Raises:
            InputError: a part is neither true nor false, or cannot be computed.
        """
        return self.broken(values) is None

    def verdicts(self, points: Mapping[str, Sequence[Any]]) -> set[bool]:
        """Say whether the condition is true of all combinations of the values of each name, of none, or of some.

        A part is judged by the combinations of its own names, which are far fewer than those of all.

        Raises:
            InputError: see ``holds``.
        """
        for place, (_, used, _) in enumerate(self._parts):
            if not used <= points.keys():
                continue
            of_part = {self._is_true(place, *values) for values in product(*(points[name] for name in used))}
            if of_part == {False}:
                return of_part
            if len(of_part) > 1:
                break
        else:
            return {True}
        verdicts: set[bool] = set()
        for values in product(*points.values()):
            verdicts.add(self.holds(dict(zip(points, values, strict=True))))
            if len(verdicts) > 1:
                break
        return verdicts

    def broken(self, values: Mapping[str, Any]) -> str | None:
        """Return the first part that is false of ``values``, as it is written; None where the condition holds.

        Raises:
            InputError: a part is neither true nor false, or cannot be computed.
        """
        for place, (_, used, written) in enumerate(self._parts):
            if used <= values.keys() and not self._is_true(place, *(values[name] for name in used)):
                return written
        return None

    def _computed(self, place: int, *values: Any) -> bool:
        """Compute a part of the values of its names.

        Raises:
            InputError: see ``broken``.
        """
        part, used, _ = self._parts[place]
        self._evaluator.names = dict(zip(used, values, strict=True))
        try:
            result = self._evaluator.eval(self.text, previously_parsed=part)
        except (simpleeval.InvalidExpression, TypeError, ValueError, ArithmeticError, RecursionError) as error:
            raise InputError(f"{self._begin} cannot be computed{self._given()}: {error}") from error
        if not isinstance(result, bool):
            raise InputError(f"{self._begin} gives {shown(result)}{self._given()}; accepted: true or false")
        return result

    def names_in(self, written: str) -> set[str]:
        """Return the names in a part that ``broken`` returned."""
        return next((used for _, used, text in self._parts if text == written), set())

    def _given(self) -> str:
        settings = [f"{name} = {shown(value)}" for name, value in sorted(self._evaluator.names.items())]
        return f" (with {', '.join(settings)})" if settings else ""
