"""Numbers as text. What is unknown is None, and is written as nothing."""

from __future__ import annotations

import math


def number(value: float | None, digits: int = 4, *, zeros: bool = True) -> str:
    """Write ``digits`` significant digits with thousands separated; without ``zeros``, none that end a fraction."""
    if value is None:
        return ""
    if not math.isfinite(value):
        return str(value)
    if value and not 1e-3 <= abs(value) < 1e9:
        mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
        return f"{mantissa if zeros else _trimmed(mantissa)}e{exponent}"
    magnitude = math.floor(math.log10(abs(value))) if value else 0
    written = f"{value:,.{max(0, digits - 1 - magnitude)}f}"
    return written if zeros else _trimmed(written)


def _trimmed(written: str) -> str:
    return written.rstrip("0").rstrip(".") if "." in written else written


def relative_error(value: float | None) -> str:
    """Write a relative error with two digits."""
    return "" if value is None else f"{value:.1e}"


def milliseconds(seconds: float | None) -> str:
    """Write a time with three digits."""
    return "" if seconds is None else f"{1e3 * seconds:.3g}"


def percent(fraction: float | None) -> str:
    """Write a part in per cent with two decimals."""
    return "" if fraction is None else f"{100 * fraction:.2f}"


UNBOUNDED = "± n/a"
"""What stands for the interval of a median that too few samples bound."""


PLUS_MINUS = (
    "± is half the 95 % confidence interval of the median; it includes the scatter between processes that the run's "
    "anchors of the same kind of work show."
)
"""What the notes of tables say of it."""


def plus_minus(half_width: float | None) -> str:
    """Write half the width of an interval over its median, in per cent; that it is unbounded where it is unknown."""
    if half_width is None or not math.isfinite(half_width):
        return UNBOUNDED
    return f"± {percent(half_width)} %" if half_width <= 1 else "± over 100 %"


def rough_percent(part: float) -> str:
    """Write a part in per cent with three digits; ``unbounded`` where it is infinite."""
    if math.isinf(part):
        return "unbounded"
    return f"{100 * part:.3g}" if part < 10 else f"{100 * part:,.0f}"


def times(value: float | None, factor: float) -> float | None:
    """Return a number of another unit."""
    return None if value is None else factor * value


def finite(value: float | None) -> float | None:
    """Return what JSON can hold: None for what is unknown, infinite or no number."""
    return value if value is not None and math.isfinite(value) else None


def six_digits(value: float | None) -> float:
    """Keep six digits, which is more than any figure shows and any interval is narrow."""
    return float(f"{value:.6g}")
