"""The option ``-p AXIS=VALUE`` of commands that work with one variant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gravbench.errors import InputError, listed, nearest, shortened

if TYPE_CHECKING:
    from gravbench.model.variant import AxisValue, Variant


def axes_of(variant: Variant, parameters: Sequence[str], toolkit: str) -> dict[str, AxisValue]:
    """Read the values of axes, each ``axis=value``, by the rules of ``toolkit``; the others have their defaults.

    Raises:
        InputError: the variant has no such axis, the axis no such value, or the values do not go together.
    """
    from gravbench.config.document import shown
    from gravbench.config.fitting import misfit, nearest_value
    from gravbench.config.numbers import abbreviated
    from gravbench.config.override import parse

    axes = variant.complete({})
    for text in parameters:
        override = parse(text)
        if override.name not in axes:
            accepted = nearest(override.name, list(axes)) if axes else "it has no axes"
            raise InputError(f"{override.where}: {variant.name} has no axis {override.name}; {accepted}")
        if len(override.values) != 1:
            raise InputError(f"{override.where}: {len(override.values)} values; accepted: one")
        given = override.values[0]
        number = abbreviated(given) if isinstance(given, str) else None
        value = variant.find_value(override.name, given if number is None else number)
        if value is None:
            known = listed(map(str, variant.axes[override.name]))
            others = variant.other_values(override.name)
            near = nearest_value(variant, override.name, given if number is None else number)
            nearest_is = "" if near is None else f"; the nearest is {shown(near)}"
            accepted = f"accepted: {known}{f'; {others}' if others else ''}{nearest_is}"
            raise InputError(f"{override.where}: {override.name} takes no {shown(given)}; {accepted}")
        axes[override.name] = value
    if why := misfit(variant, toolkit, axes):
        raise InputError(f"{' '.join(f'-p {shortened(text)}' for text in parameters)}: {why}".removeprefix(": "))
    return axes
