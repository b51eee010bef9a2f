"""Numbers as people write them: 1024, 0.35, 1e6, 10k, 4M, 2^20, 2**20 and 1/3.

10k is 10,000: k (or K), M and G stand for powers of 1,000.
"""

from __future__ import annotations

import re
from decimal import Decimal

from gravbench.config.limits import MOST_DIGITS

WHOLE = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_POINT = r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]+)?)"
NUMBER = re.compile(rf"{_POINT}(?:[eE][-+]?[0-9]+)?")
WRITTEN = re.compile(rf"[-+]?[1-9][0-9]*(?:\^|\*\*)-?[0-9]{{1,4}}|[0-9]+/[1-9][0-9]*|{_POINT}[kKMG]|{NUMBER.pattern}")
"""Any of them."""

MOST_WHOLE = 10**18
"""Up to it 1e6 and the like are whole numbers."""
_TIMES = {"k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9}


def exact(text: str) -> Decimal:
    """Return what a text that ``WRITTEN`` matches means, without rounding but for a quotient.

    Raises:
        ArithmeticError: it is too large or too small.
    """
    base, power, exponent = text.replace("**", "^").partition("^")
    if power:
        # Beyond a float's range either way; refused before Python makes millions of digits.
        if len(base) * abs(int(exponent)) > MOST_DIGITS:
            raise OverflowError(text)
        whole = Decimal(int(base) ** abs(int(exponent)))
        return 1 / whole if exponent.startswith("-") else whole
    above, over, below = text.partition("/")
    if over:
        return Decimal(above) / Decimal(below)
    return Decimal(text[:-1]) * _TIMES[text[-1]] if text[-1] in _TIMES else Decimal(text)


def is_whole(text: str, value: Decimal) -> bool:
    """Say whether a text stands for a whole number: 1024, 1e6 and 1.5k do, 64.0 and 1e-3 do not."""
    if re.fullmatch(_POINT, text):
        return WHOLE.fullmatch(text) is not None
    return abs(value) <= MOST_WHOLE and value == value.to_integral_value()


def number(text: str) -> int | float | None:
    """Return the number that a text stands for, None where it stands for none."""
    if len(text) > MOST_DIGITS or not WRITTEN.fullmatch(text):
        return None
    try:
        value = exact(text)
        return int(value) if is_whole(text, value) else float(value)
    except ArithmeticError:
        return float(text) if NUMBER.fullmatch(text) else None


def abbreviated(text: str) -> int | float | None:
    """Return the number that a text such as 10k stands for, None for any other, even a quoted "1024"."""
    return None if NUMBER.fullmatch(text) else number(text)
