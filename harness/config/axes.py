"""Which values the axes of a variant take, and together with which others: for configurations and tables alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gravbench.config.condition import Condition
from gravbench.config.document import shown
from gravbench.config.numbers import abbreviated
from gravbench.errors import InputError, listed, nearest
from gravbench.model.variant import AxisValue, Variant


def needed_by(variant: Variant) -> Condition:
    """Return the condition for the combinations of axes and ``toolkit`` that a variant runs with."""
    return Condition(variant.when or "True", ["toolkit", *variant.axes], str(variant.path))


def axis_values(variant: Variant, axis: str, values: Sequence[Any], where: str) -> list[AxisValue]:
    """Check values of an axis, and make each the one that it stands for; a text may be a number such as 10k.

    ``where`` begins the message about a value.

    Raises:
        InputError: the axis takes no such value.
    """
    found = []
    for value in values:
        one = variant.find_value(axis, value)
        if one is None and isinstance(value, str):
            one = variant.find_value(axis, abbreviated(value))
        if one is None:
            names = [str(one) for one in variant.axes[axis]]
            other = variant.other_values(axis)
            hint = nearest(value, names) if isinstance(value, str) else f"accepted: {listed(names)}"
            if other:
                outside = [str(one) for one in variant.axes[axis] if variant.ranges[axis].find(one) is None]
                hint = f"accepted: {' and '.join([*filter(None, [listed(outside)]), other])}"
            raise InputError(f"{where}: {variant.name} has no {axis} = {shown(value)}; {hint}")
        found.append(one)
    return found
