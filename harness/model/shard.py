"""A shard: the K-th of N parts of a sweep, which hosts that know nothing of each other measure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gravbench.errors import InputError, shortened

PATTERN = r"^[0-9]{1,9}/[0-9]{1,9}$"


@dataclass(frozen=True, order=True, slots=True)
class Shard:
    """Part ``number`` (from 1 on) of ``count``; written ``3/16``."""

    number: int
    count: int

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"


def parse(text: str, where: str = "--shard") -> Shard:
    """Read ``3/16``; ``where`` begins the message about what is none.

    Raises:
        InputError: it is none, or there is no such part.
    """
    if not re.fullmatch(PATTERN, text):
        raise InputError(f"{where} {shortened(text)!r}: accepted: K/N, the K-th of N parts, such as 3/16")
    number, count = map(int, text.split("/"))
    if not 1 <= number <= count:
        last = f", the last of which is {count}/{count}" if count else ""
        raise InputError(f"{where} {text}: accepted: K/N with K from 1 to N{last}")
    return Shard(number, count)
