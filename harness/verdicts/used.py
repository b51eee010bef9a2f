"""What a call of ``gravbench.force`` used, for a program that asks for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gravbench.model.variant import AxisValue, Dtype
from gravbench.verdicts.fastest import Choice, Measured


@dataclass(frozen=True, slots=True)
class Used:
    """The variant of a call, with the ``axes`` it ran with.

    ``dtype`` is the number type of its kernel and ``result_dtype`` that of the accelerations, which is float64 if
    float32 does not hold them. ``in_float64`` bodies were pulled too little for float32: a kernel in float64 computed
    theirs again. ``error`` is the relative error of the ``quantile`` of the bodies, and ``seconds`` the time of one
    evaluation, at this n by the table. No table has ``force_between``, the kernel for two sets: both are None.
    """

    variant: str
    toolkit: str
    dtype: str
    result_dtype: str
    in_float64: int
    axes: Mapping[str, AxisValue]
    quantile: float
    error: float | None = None
    seconds: float | None = None

    def __str__(self) -> str:
        axes = "".join(f" {axis}={value}" for axis, value in self.axes.items())
        again = f", {self.in_float64:,} bodies again in float64" if self.in_float64 else ""
        other = f", given as {self.result_dtype}" if self.result_dtype != self.dtype else ""
        begin = f"{self.variant} {self.toolkit} {self.dtype}{axes}{again}{other}"
        if self.error is None or self.seconds is None:
            return f"{begin}: not in the table"
        of = "largest error" if self.quantile == 1 else f"error at quantile {self.quantile:g}"
        return f"{begin}: {of} {self.error:.1e}, {self.seconds * 1e3:.3g} ms"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a call asks for: a toolkit, number types, an error of a quantile of the bodies; and what its table has."""

    known: Measured | None
    toolkit: str
    dtypes: Sequence[Dtype]
    error: float
    quantile: float

    def used(self, choice: Choice | None, dtype: str, n: int, result_dtype: str, in_float64: int = 0) -> Used:
        """Describe what was used for n bodies; without a choice, the kernel for two sets."""
        computed = self.toolkit, dtype, result_dtype, in_float64
        if self.known is None or choice is None:
            return Used("force_between", *computed, {}, self.quantile)
        error, seconds = self.known.at(choice, n, self.quantile) or (None, None)
        return Used(choice.variant, *computed, dict(choice.axes), self.quantile, error, seconds)
