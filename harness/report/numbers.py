"""Numbers as text."""

from __future__ import annotations

import math


def number(value: float | None, digits: int = 4) -> str:
    """Write ``digits`` significant digits with thousands separated; nothing for None."""
    if value is None:
        return ""
    if not math.isfinite(value):
        return str(value)
    if value and not 1e-3 <= abs(value) < 1e9:
        return f"{value:.{digits - 1}e}"
    magnitude = math.floor(math.log10(abs(value))) if value else 0
    return f"{value:,.{max(0, digits - 1 - magnitude)}f}"


def four_digits(value: float | None) -> str:
    """Write four significant digits; nothing for None."""
    if value is None:
        return ""
    if math.isfinite(value) and (1e4 <= abs(value) < 1e9 or (value == int(value) and abs(value) < 1e9)):
        return f"{value:,.0f}"
    return f"{value:.4g}"


def percent(fraction: float | None) -> str:
    """Write a part in per cent with two decimals; nothing for None."""
    return "" if fraction is None else f"{100 * fraction:.2f}"
