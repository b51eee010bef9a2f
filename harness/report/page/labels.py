"""Labels of points on logarithmic axes, placed so that none lies on another in a figure of its usual size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

LETTER, GAP, SIGN = 6.3, 8, 5
"""Pixels: of a letter, from a point to its text, and from its middle to its edge."""
ABOVE, BELOW = 14, 1
"""Pixels from a point up to the upper and to the lower edge of its text."""


class Room:
    """What is taken of a figure: first by its points, at ``places`` in pixels from the upper left."""

    def __init__(self, places: Sequence[tuple[float, float]]) -> None:
        """Take the room of the points' signs."""
        self.places = places
        self._taken = [(x - SIGN, y - SIGN, x + SIGN, y + SIGN) for x, y in places]

    def put(self, place: int, text: str, *, left: bool, under: bool = False) -> bool:
        """Take the room of a text beside a point where it is free; tell whether it was.

        It stands a little above the point, or ``under`` it.
        """
        x, y = self.places[place]
        width = LETTER * len(text)
        low, high = (x - GAP - width, x - GAP) if left else (x + GAP, x + GAP + width)
        above, below = (y + BELOW, y + ABOVE) if under else (y - ABOVE, y - BELOW)
        # Beyond the left edge stand the numbers of the axis.
        free = low > -SIGN and not any(low < c and a < high and above < d and b < below for a, b, c, d in self._taken)
        if free:
            self._taken.append((low, above, high, below))
        return free


def places(rows: Sequence[Any], x: str, y: str, width: float, height: float) -> list[tuple[float, float]]:
    """Return where points lie in a figure, in pixels from its upper left: ``x`` grows to the right, ``y`` upwards."""
    columns = []
    for field, length in ((x, width), (y, -height)):
        logs = [math.log(row[field]) for row in rows]
        span = (max(logs) - min(logs)) or 1.0
        columns.append([length * (log - min(logs)) / span for log in logs])
    return list(zip(*columns, strict=True))
