"""The option ``-p AXIS=VALUE`` of commands that work with one variant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gravbench.errors import InputError, nearest, shortened

if TYPE_CHECKING:
    from gravbench.model.variant import AxisValue, Variant


def axes_of(variant: Variant, parameters: Sequence[str], toolkit: str) -> dict[str, AxisValue]:
    """Read the values of axes, each ``axis=value``, by the rules of ``toolkit``; the others have their defaults.

    Raises:
        InputError: the variant has no such axis, the axis no such value, or the values do not go together.
    """
    from gravbench.config.axes import axis_values
    from gravbench.config.fitting import misfit
    from gravbench.config.override import parse

    axes = variant.complete({})
    for text in parameters:
        override = parse(text)
        if override.name not in axes:
            accepted = nearest(override.name, list(axes)) if axes else "it has no axes"
            problem = variant.lost(override.name) or f"{variant.name} has no axis {override.name}; {accepted}"
            raise InputError(f"{override.where}: {problem}")
        if len(override.values) != 1:
            raise InputError(f"{override.where}: {len(override.values)} values; accepted: one")
        (axes[override.name],) = axis_values(variant, override.name, override.values, override.where)
    if why := misfit(variant, toolkit, axes):
        raise InputError(f"{' '.join(f'-p {shortened(text)}' for text in parameters)}: {why}".removeprefix(": "))
    return axes
