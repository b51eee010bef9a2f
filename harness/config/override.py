"""The text of a command-line override: ``n=1024,1M``, ``p=64..512*2``, ``theta=0.2..1+0.2``, ``dtype=float64``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from gravbench.config.document import plain, shown
from gravbench.config.limits import MOST_CASES, MOST_RANGE
from gravbench.config.numbers import WRITTEN, exact, is_whole
from gravbench.errors import BEHIND, InputError, Place, shortened

Scalar = bool | int | float | str | None

_FORM = "accepted: NAME=VALUE,VALUE... where FIRST..LAST*FACTOR and FIRST..LAST+STEP are ranges of values"
_RANGE = re.compile(rf"({WRITTEN.pattern})\.\.({WRITTEN.pattern})([*+])({WRITTEN.pattern})")


@dataclass(frozen=True)
class Override:
    """``values`` in place of what the config says for ``name``.

    ``where`` begins the messages about it, and ``place`` is their place among those about the file.
    """

    name: str
    values: list[Scalar]
    where: str
    place: Place = (BEHIND, 0)


def parse(text: str, place: Place = (BEHIND, 0)) -> Override:
    """Read the text of one ``-p``, whose messages have their ``place``.

    Raises:
        InputError: it has no name or no value, a range is none, or it has too many values.
    """
    where = f"-p {shortened(text)}"
    name, equals, values = text.partition("=")
    words = [word.strip() for word in values.split(",")]
    if not name.strip() or not equals or "" in words:
        raise InputError(f"{where}: a name or a value is missing; {_FORM}")
    scalars: list[Scalar] = []
    for word in words:
        scalars += _values(word, where)
        if len(scalars) > MOST_CASES:
            raise InputError(f"{where}: more than {MOST_CASES} values; accepted: fewer")
    return Override(name.strip(), scalars, where, place)


def _values(word: str, where: str) -> list[Scalar]:
    # A path may hold two dots (../bodies.tab): only what begins like a number is meant to be a range.
    if not re.match(r"[-+.]*[0-9].*\.\.", word):
        return [plain(word)]
    match = _RANGE.fullmatch(word)
    if match is None or len(word) > 100:
        raise InputError(f"{where}: {shown(word)} is not a range; {_FORM}")
    first, last, sign, by = match.groups()
    numbers: list[Decimal] = []
    try:
        # In decimals 0.2 + 0.2 + 0.2 is 0.6. One value more than accepted is enough to refuse.
        value, end, step = exact(first), exact(last), exact(by)
        whole = all(map(is_whole, (first, last, by), (value, end, step)))
        grows = value > 0 and step > 1 if sign == "*" else step > 0
        while grows and value <= end and len(numbers) <= MOST_RANGE:
            numbers.append(value)
            value = value * step if sign == "*" else value + step
    except ArithmeticError as error:
        raise InputError(f"{where}: {shown(word)} exceeds the range of numbers; {_FORM}") from error
    if not numbers:
        rule = "the first value above 0 and the factor above 1" if sign == "*" else "the step above 0"
        raise InputError(
            f"{where}: {shown(word)} never reaches its end; accepted: {rule}, and a last value not below the first"
        )
    if len(numbers) > MOST_RANGE:
        raise InputError(f"{where}: {shown(word)} has more than {MOST_RANGE} values; accepted: fewer")
    return [int(value) if whole else float(value) for value in numbers]
