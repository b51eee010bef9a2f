"""Values of axes that do not go together, and the nearest that do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeGuard

from gravbench.config.condition import Condition
from gravbench.config.document import shown
from gravbench.model.variant import Axes, AxisValue, Variant

TRIED = 2048
"""Values of a range on each side of a wrong one that are tried."""


def needed_by(variant: Variant) -> Condition:
    """Return the condition for the values of axes and the toolkit with which a variant can run."""
    return Condition(variant.when or "True", ["toolkit", *variant.axes], str(variant.path))


def nearest_value(variant: Variant, axis: str, value: object) -> AxisValue | None:
    """Return the value of an axis that is nearest to a number; None for what is no number, or an axis without any."""
    return next(_others(variant, axis, value), None) if _is_number(value) else None


def misfit(variant: Variant, toolkit: str, axes: Axes) -> str | None:
    """Say which values of ``axes`` do not go together, and the nearest value that goes with the others.

    The value to change is one that is not the default, where there is one. None where the variant can run.

    Raises:
        InputError: the condition of the variant cannot be computed.
    """
    condition = needed_by(variant)
    values: Mapping[str, AxisValue] = {"toolkit": toolkit, **axes}
    needed = condition.broken(values)
    if needed is None:
        return None
    names = [name for name in values if name in condition.names_in(needed)]
    movable = sorted((name for name in names if name in axes), key=lambda name: axes[name] == variant.defaults[name])
    fitting = (
        (axis, other)
        for axis in movable
        for other in _others(variant, axis, axes[axis])
        if condition.holds({**values, axis: other})
    )
    axis, other = next(fitting, (next(iter(movable), None), None))
    if axis is None:
        return f"{variant.name} needs {needed}"
    beside = " and ".join(f"{name} = {shown(values[name])}" for name in names if name != axis)
    wrong = f"{axis} = {shown(axes[axis])} does not {f'go with {beside}' if beside else 'fit'}"
    hint = "" if other is None else f"; the nearest {axis} that does is {shown(other)}"
    return f"{wrong}, because {variant.name} needs {needed}{hint}"


def _others(variant: Variant, axis: str, value: object) -> Iterator[AxisValue]:
    """Give the other values of an axis, the nearest first; those that are no numbers in the order of the axis."""
    candidates = dict.fromkeys([*variant.axes[axis], *_in_range(variant, axis, value)])
    others = [other for other in candidates if other != value or type(other) is not type(value)]
    if _is_number(value):
        numbers = [other for other in others if _is_number(other)]
        # Seen from far beyond them, all are equally far.
        near = min(max(value, min(numbers, default=value)), max(numbers, default=value))
        others = [
            *sorted(numbers, key=lambda other: abs(other - near)),
            *(other for other in others if not _is_number(other)),
        ]
    yield from others


def _in_range(variant: Variant, axis: str, value: object) -> Iterator[AxisValue]:
    numbers = variant.ranges.get(axis)
    if numbers is None or not isinstance(value, int | float):
        return
    bounded = min(max(value, numbers.least), numbers.most)
    unit = numbers.step or (1 if numbers.whole else None)
    if unit is not None:
        middle = round(bounded / unit)
        tried = [unit * k for k in range(middle - TRIED, middle + TRIED + 1)]
    elif numbers.divides is not None:
        tried = [numbers.divides / k for k in range(1, TRIED)]
    else:
        tried = [bounded]
    yield from (value_in_range for value_in_range in map(numbers.find, tried) if value_in_range is not None)


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
