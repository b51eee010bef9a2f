"""Which values the axes of a variant take: for configurations and tables alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gravbench.config.document import shown
from gravbench.config.fitting import nearest_value
from gravbench.config.numbers import abbreviated
from gravbench.errors import InputError, listed, nearest
from gravbench.model.variant import AxisValue, Variant


def axis_values(variant: Variant, axis: str, values: Sequence[Any], where: str) -> list[AxisValue]:
    """Check values of an axis, and make each the one that it stands for; a text may be a number such as 10k.

    ``where`` begins the message about a value.

    Raises:
        InputError: the axis takes no such value.
    """
    checked = []
    for value in values:
        axis_value = variant.find_value(axis, value)
        if axis_value is None and isinstance(value, str):
            axis_value = variant.find_value(axis, abbreviated(value))
        if axis_value is None:
            names = [str(usual) for usual in variant.axes[axis]]
            other = variant.other_values(axis)
            hint = nearest(value, names) if isinstance(value, str) else f"accepted: {listed(names)}"
            if other:
                outside = [str(usual) for usual in variant.axes[axis] if variant.ranges[axis].find(usual) is None]
                hint = f"accepted: {' and '.join([*filter(None, [listed(outside)]), other])}"
            near = nearest_value(variant, axis, value)
            nearest_is = "" if near is None else f"; the nearest is {shown(near)}"
            raise InputError(f"{where}: {variant.name} has no {axis} = {shown(value)}; {hint}{nearest_is}")
        checked.append(axis_value)
    return checked
