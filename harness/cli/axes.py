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
        said = parse(text)
        if said.name not in axes:
            accepted = nearest(said.name, list(axes)) if axes else "it has no axes"
            raise InputError(f"{said.where}: {variant.name} has no axis {said.name}; {accepted}")
        if len(said.values) != 1:
            raise InputError(f"{said.where}: {len(said.values)} values; accepted: one")
        given = said.values[0]
        number = abbreviated(given) if isinstance(given, str) else None
        value = variant.find_value(said.name, given if number is None else number)
        if value is None:
            known = listed(map(str, variant.axes[said.name]))
            others = variant.other_values(said.name)
            near = nearest_value(variant, said.name, given if number is None else number)
            nearest_is = "" if near is None else f"; the nearest is {shown(near)}"
            accepted = f"accepted: {known}{f'; {others}' if others else ''}{nearest_is}"
            raise InputError(f"{said.where}: {said.name} takes no {shown(given)}; {accepted}")
        axes[said.name] = value
    if why := misfit(variant, toolkit, axes):
        raise InputError(f"{' '.join(f'-p {shortened(text)}' for text in parameters)}: {why}".removeprefix(": "))
    return axes
