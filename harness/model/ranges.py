"""The numbers that an axis takes beside those that it lists."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gravbench.errors import InputError

AxisValue = int | float | str | bool

_NEAR = 1e-9
"""Relative difference at which two numbers are one: 0.3333333333 stands for 1/3."""


@dataclass(frozen=True, slots=True)
class Range:
    """All numbers from ``least`` to ``most`` that a kernel can be compiled for, and the ``reason`` for these bounds.

    If both bounds are integers, only integers; with ``step``, only its multiples; with ``divides``, only its
    divisors.

    Raises:
        InputError: the range contains no number, or has no reason.
    """

    least: int | float
    most: int | float
    reason: str
    step: int | float | None = None
    divides: int | None = None

    def __post_init__(self) -> None:
        if not self.reason or not (-math.inf < self.least <= self.most < math.inf):
            raise InputError(
                f"a range from {self.least} to {self.most}; accepted: finite bounds in order, and a reason"
            )
        if (self.step is not None and self.step <= 0) or (self.divides is not None and self.least <= 0):
            raise InputError(f"a range from {self.least} with a step or a divisor; accepted: these above 0")

    @property
    def whole(self) -> bool:
        """Whether it holds whole numbers only."""
        return isinstance(self.least, int) and isinstance(self.most, int)

    def find(self, value: object) -> AxisValue | None:
        """Return the number of this range that ``value`` stands for, None where it has none."""
        if isinstance(value, bool) or not isinstance(value, int if self.whole else int | float):
            return None
        if not self.least <= value <= self.most:  # a NaN neither
            return None
        if self.step is not None and not _whole(value / self.step):
            return None
        if self.divides is not None:
            if not _whole(self.divides / value):
                return None
            value = self.divides / round(self.divides / value)
        return int(value) if self.whole else float(value)

    def __str__(self) -> str:
        least, most = f"{self.least:,}", f"{self.most:,}"
        if self.divides == 1:
            return f"1 divided by a whole number up to {round(1 / self.least):,}, such as 1/3"
        if self.divides is not None:
            return f"divisors of {self.divides:,} from {least} to {most}"
        if self.step is not None:
            return f"multiples of {self.step:,} from {least} to {most}"
        return f"{'whole numbers' if self.whole else 'numbers'} from {least} to {most}"


def _whole(value: float) -> bool:
    return math.isclose(value, round(value), rel_tol=_NEAR)
