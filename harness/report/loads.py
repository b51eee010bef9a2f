"""How often a variant reads global memory, by the expression that it declares and ``tests/test_loads.py`` counts."""

from __future__ import annotations

import simpleeval

from gravbench.model.record import Record
from gravbench.model.variant import discover


def per_body(record: Record, expression: str | None) -> float | None:
    """Return the loads per body and evaluation by an expression over n and axes; None where it does not fit them."""
    if expression is None:
        return None
    try:
        return float(simpleeval.simple_eval(expression, names={"n": record.n, **record.axes}))
    except (simpleeval.InvalidExpression, ArithmeticError, TypeError, ValueError):
        return None  # axes that are not those which the variant has here


def declared_per_body(record: Record) -> float | None:
    """Return the loads per body that the packaged variant of a record declares; None without a declaration."""
    variant = discover().get(record.variant)
    return per_body(record, variant.loads) if variant else None
