"""What a call of ``gravbench.force`` used, for a program that asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gravbench.model.variant import AxisValue
from gravbench.verdicts.fastest import Choice, Measured


@dataclass(frozen=True, slots=True)
class Used:
    """The variant of a call, with the ``axes`` it ran with.

    ``error`` is the relative error of the ``quantile`` of the bodies, and ``seconds`` the time of one evaluation, at
    this n by the table. Both are None for ``force_between``, the kernel for two sets, which no table has.
    """

    variant: str
    toolkit: str
    dtype: str
    axes: Mapping[str, AxisValue]
    quantile: float
    error: float | None = None
    seconds: float | None = None

    def __str__(self) -> str:
        axes = "".join(f" {axis}={value}" for axis, value in self.axes.items())
        begin = f"{self.variant} {self.toolkit} {self.dtype}{axes}"
        if self.error is None or self.seconds is None:
            return f"{begin}: not in the table"
        of = "largest error" if self.quantile == 1 else f"error at quantile {self.quantile:g}"
        return f"{begin}: {of} {self.error:.1e}, {self.seconds * 1e3:.3g} ms"


def used(known: Measured | None, choice: Choice | None, toolkit: str, dtype: str, n: int, quantile: float) -> Used:
    """Describe a choice for n bodies; without one, the kernel for two sets."""
    if known is None or choice is None:
        return Used("force_between", toolkit, dtype, {}, quantile)
    error, seconds = known.at(choice, n, quantile) or (None, None)
    return Used(choice.variant, toolkit, dtype, dict(choice.axes), quantile, error, seconds)
