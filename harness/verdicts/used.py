"""What a call of ``gravbench.force`` asks for, and what it used, for a program that asks for that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from gravbench.model.device import CardKind
from gravbench.model.variant import AxisValue, Dtype
from gravbench.verdicts.fastest import Choice, Measured
from gravbench.verdicts.promise import Sample

CHOOSING, PREPARING, COPYING_THERE = "choosing", "preparing", "copying the bodies"
EVALUATION, QUEUEING, CHECK, COPYING_BACK = "evaluation", "queueing", "check", "copying back"


TWO_SETS = "force_between"
"""The kernel that computes what no table has a choice for."""


class Laps:
    """The milliseconds that each part of a call took, by the host's clock."""

    def __init__(self) -> None:
        self.milliseconds: dict[str, float] = {}
        self._last = perf_counter()

    def lap(self, part: str) -> None:
        """Count the time since the last lap, or the beginning, as one of this part."""
        now = perf_counter()
        self.milliseconds[part] = self.milliseconds.get(part, 0.0) + (now - self._last) * 1e3
        self._last = now


@dataclass(frozen=True, slots=True)
class Checked:
    """The name of a choice, and what was found of a sample of what it computed."""

    name: str
    sample: Sample


@dataclass(frozen=True, slots=True)
class Used:
    """The variant of a call, with the ``axes`` it ran with.

    ``dtype`` is the number type of its kernel and ``result_dtype`` that of the accelerations, which is float64 if
    float32 does not hold them. ``in_float64`` bodies were pulled too little for float32: a kernel in float64 computed
    theirs again. ``error`` is the relative error of the ``quantile`` of the bodies, and ``seconds`` the time of one
    evaluation, at this n by the table, which was measured on ``card``; this device is ``here``, None where it is
    unknown. No table has ``force_between``, the kernel for two sets: it has neither error nor seconds.

    ``sampled_rows`` accelerations were compared with sums in float64, 0 where none were; ``sampled_error`` is their
    error at the ``quantile``. ``refuted`` names the choices whose samples had larger errors than the call accepts.

    ``milliseconds`` are those of each part of the call, of all its choices together: choosing (with what the host finds
    of the bodies), preparing (at a first call), copying the bodies (of many bodies before they are known, with what
    the device finds of them), evaluation (of few bodies on CuPy with their way back), check (what it takes longer than
    what is done beside it) and copying back. What was launched for CuPy arrays and not waited for is queueing.
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
    card: CardKind | None = None
    here: CardKind | None = None
    sampled_rows: int = 0
    sampled_error: float | None = None
    refuted: Sequence[str] = ()
    milliseconds: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        other = f", given as {self.result_dtype}" if self.result_dtype != self.dtype else ""
        again = f", {self.in_float64:,} bodies again in float64" if self.in_float64 else ""
        begin = f"{_named(self.variant, self.axes, self.toolkit, self.dtype)}{again}{other}"
        words = [f"{begin}: {self._by_table()}"]
        if self.sampled_error is not None:
            words.append(f"{self.sampled_rows:,} compared bodies: {self._which()} {self.sampled_error:.1e}")
        words += [f"more error than accepted: {name}" for name in self.refuted]
        words += [", ".join(f"{part} {milliseconds:.3g} ms" for part, milliseconds in self.milliseconds.items())]
        return "; ".join(filter(None, words))

    def _which(self) -> str:
        return "largest error" if self.quantile == 1 else f"error at quantile {self.quantile:g}"

    def _by_table(self) -> str:
        if self.error is None or self.seconds is None:
            return "not in the table"
        of_other = f" on {self.card}, not this {self.here}" if self.card and self.here not in (None, self.card) else ""
        return f"{self._which()} {self.error:.1e}, {self.seconds * 1e3:.3g} ms by the table{of_other}"


def _named(variant: str, axes: Mapping[str, AxisValue], toolkit: str, dtype: str) -> str:
    return " ".join([variant, toolkit, dtype, *(f"{axis}={value}" for axis, value in axes.items())])


def name_of(choice: Choice | None, toolkit: str, dtype: str) -> str:
    """Name a choice with its axes, or the kernel for two sets."""
    return _named(choice.variant if choice else TWO_SETS, choice.axes if choice else {}, toolkit, dtype)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a call asks for: a toolkit, number types, an error of a quantile of the bodies; and what its table has.

    ``here`` is the device; ``eps2`` is as it was given. Where it is not ``checked``, the table is trusted.
    """

    known: Measured | None
    here: CardKind | None
    toolkit: str
    dtypes: Sequence[Dtype]
    error: float
    quantile: float
    eps2: float
    checked: bool

    @property
    def question(self) -> tuple[Any, ...]:
        """What calls have to share beside their table for one to begin where another ended."""
        return self.toolkit, tuple(self.dtypes), self.error, self.quantile, self.eps2

    def of_table(self, choice: Choice, n: int) -> tuple[float, float]:
        """Return the error and the seconds of a choice of the table."""
        assert self.known is not None
        error_and_seconds = self.known.at(choice, n, self.quantile)
        assert error_and_seconds is not None
        return error_and_seconds

    def used(
        self,
        choice: Choice | None,
        dtype: str,
        n: int,
        result_dtype: str,
        in_float64: int = 0,
        *,
        checks: Sequence[Checked] = (),
        laps: Laps,
    ) -> Used:
        """Describe what was used for n bodies; without a choice, the kernel for two sets."""
        computed = self.toolkit, dtype, result_dtype, in_float64
        refuted = tuple(check.name for check in checks if check.sample.refutes)
        sample = checks[-1].sample if checks and not checks[-1].sample.refutes else None
        error, seconds = self.of_table(choice, n) if choice else (None, None)
        return Used(
            choice.variant if choice else TWO_SETS,
            *computed,
            dict(choice.axes) if choice else {},
            self.quantile,
            error,
            seconds,
            card=self.known.card if choice and self.known else None,
            here=self.here,
            sampled_rows=sample.rows if sample else 0,
            sampled_error=sample.error if sample else None,
            refuted=refuted,
            milliseconds=laps.milliseconds,
        )
