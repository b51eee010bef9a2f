"""What the numbers and words of a record may be, whoever wrote it: bounds, names, and text that a terminal can show."""

from __future__ import annotations

import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, Field

MOST_PROSE = 20_000
"""Characters that are kept of a reason."""


def printable(text: str) -> str:
    """Return text without control characters: each becomes U+FFFD, and every blank but the end of a line a space."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() or character == "\n" else " " if character.isspace() else "\ufffd"
        for character in text
    )


def without_controls(content: Any) -> Any:
    """Return what JSON can hold with all of its text printable."""
    if isinstance(content, str):
        return printable(content)
    if isinstance(content, list):
        return list(map(without_controls, content))
    if isinstance(content, dict):
        return {printable(name): without_controls(value) for name, value in content.items()}
    return content


def _prose(text: str) -> str:
    return printable(text if len(text) <= MOST_PROSE else text[:MOST_PROSE] + " ...")


def _moment(text: str) -> str:
    # Raises ValueError where a month has no such day.
    if not 1970 <= datetime.datetime.fromisoformat(text).year < 9999:
        raise ValueError("accepted: a year from 1970 on")
    return text


Name = Annotated[str, Field(pattern=r"^\w[\w.-]*$", max_length=200)]
"""A name that needs no quoting: of a variant, a toolkit, an axis."""
Hash = Annotated[str, Field(pattern=r"^[0-9a-f]*$", max_length=128)]
Text = Annotated[str, Field(max_length=1_000)]
"""A line of text."""
Prose = Annotated[str, AfterValidator(_prose)]
"""Text that may have several lines, cut where it is long."""
Moment = Annotated[
    str, Field(pattern=r"^\d{4}-\d\d-\d\dT[0-9:.]+(Z|[+-]\d\d:\d\d)$", max_length=40), AfterValidator(_moment)
]
"""A date and time with its zone, in ISO 8601."""

Count = Annotated[int, Field(ge=0, lt=2**63)]
Number = Annotated[float, Field(allow_inf_nan=False)]
LARGEST_AMOUNT = 1e30
Amount = Annotated[float, Field(ge=0, le=LARGEST_AMOUNT, allow_inf_nan=False)]
"""A figure that is not negative."""
Duration = Annotated[float, Field(ge=1e-15, le=1e12, allow_inf_nan=False)]
"""Seconds that passed: speeds and ratios made of them are finite."""
