"""Columns and rows as a page carries them: what repeats is written once, and page.js puts it together again.

A column is {"values": [...]}, or {"texts": [...]} where it holds texts of several words, with the number that each has
in the page. Where values repeat, either has the distinct ones, and ``at`` the place of each row's among them.
"""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

DIGITS = string.digits + string.ascii_lowercase


class Texts:
    """The texts of one page: each has a number, and is written as the numbers of its words."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        """Return the number of a text, a new one for a new text."""
        return self._numbers.setdefault(text, len(self._numbers))

    def content(self) -> dict[str, list[str]]:
        """Return the words, the most frequent first, and every text as the numbers of its words in base 36."""
        count = Counter(word for text in self._numbers for word in text.split(" "))
        number = {word: _base_36(i) for i, (word, _) in enumerate(count.most_common())}
        return {
            "words": list(number),
            "texts": [" ".join(map(number.__getitem__, text.split(" "))) for text in self._numbers],
        }


def _base_36(number: int) -> str:
    higher, digit = divmod(number, 36)
    return (_base_36(higher) if higher else "") + DIGITS[digit]


def column(
    values: Sequence[Any], texts: Texts | None = None, plain: Callable[[Any], Any] = lambda value: value
) -> dict[str, Any]:
    """Pack one value per row, each written as ``plain`` has it; without ``texts`` these stay as they are."""
    # 1, 1.0 and True are equal in Python.
    marks = [(type(value), value) for value in values]
    distinct = dict.fromkeys(marks)
    repeat = 2 * len(distinct) <= len(values)
    kept = [value for _, value in (distinct if repeat else marks)]
    worded = texts is not None and any(isinstance(value, str) and " " in value for value in kept)
    made: dict[str, Any] = {"values": list(map(plain, kept))}
    if texts is not None and worded and all(isinstance(value, str) for value in kept):
        made = {"texts": list(map(texts.number, kept))}
    if repeat:
        place = {mark: i for i, mark in enumerate(distinct)}
        made["at"] = [place[mark] for mark in marks]
    return made


def rows(unpacked: Sequence[Mapping[str, Any]], texts: Texts) -> dict[str, Any]:
    """Pack rows of a figure: their ``count``, and a column per field; a row without a field has null there."""
    fields = dict.fromkeys(field for row in unpacked for field in row)
    return {
        "count": len(unpacked),
        "columns": {field: column([row.get(field) for row in unpacked], texts) for field in fields},
    }
