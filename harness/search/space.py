"""The cases of one contest as points of a space, and which case stands for a point that none is at."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from gravbench.model.case import Case

VARIANT, TOOLKIT = "variant", "toolkit"
Point = Mapping[str, Any]
"""A variant, a toolkit, and the value of each of the variant's axes, by name."""


def point_of(case: Case) -> dict[str, Any]:
    """Return the point that a case is."""
    return {VARIANT: case.variant, TOOLKIT: case.toolkit, **case.axes}


def is_ordered(values: Collection[Any]) -> bool:
    """Tell whether these values of an axis are numbers, of which two can be close to each other."""
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


class Space:
    """The product of the axes' values, variant by variant; ``cases`` are those of its points that exist.

    ``parameters`` names, for each variant, its toolkit and its axes, each with the values that its cases have;
    ``columns`` the variant, the toolkit and the axes of all variants together.
    """

    def __init__(self, cases: Sequence[Case]) -> None:
        self.points = list(map(point_of, cases))
        self.parameters: dict[str, dict[str, list[Any]]] = {}
        for variant in dict.fromkeys(point[VARIANT] for point in self.points):
            swept = _swept([point for point in self.points if point[VARIANT] == variant])
            self.parameters[variant] = {name: values for name, values in swept.items() if name != VARIANT}
        self.columns = _swept(self.points)
        self._ordered = {name: is_ordered(values) for name, values in self.columns.items()}
        self._weights = np.array([len(self.columns) + 1.0 if name == VARIANT else 1.0 for name in self.columns])
        self._steps = np.array([max(len(self.columns[name]) - 1, 1) for name in self.columns])
        self._words = np.array([not self._ordered[name] for name in self.columns])
        self._matrix = np.array([self._row(point) for point in self.points])
        self._place = {row.tobytes(): place for place, row in enumerate(self._matrix)}

    def nearest(self, point: Point, taken: Collection[int]) -> int:
        """Return the place of the nearest case that is not among ``taken``; there has to be one.

        Two values of an axis of numbers are as far apart as the steps between them over all of its steps; two words,
        a value and its lack, and two toolkits are one apart. Another variant is farther than anything else. Of several
        that are as near, the first of the cases.
        """
        row = self._row(point)
        here = self._place.get(row.tobytes())
        if here is not None and here not in taken:
            return here
        difference = np.abs(self._matrix - row) / self._steps
        difference[:, self._words] = difference[:, self._words] > 0
        lacking = np.isnan(self._matrix) != np.isnan(row)
        distance = (np.where(lacking, 1.0, np.nan_to_num(difference)) * self._weights).sum(axis=1)
        distance[list(taken)] = np.inf
        return int(np.argmin(distance))

    def _row(self, point: Point) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Return the places of a point's values among those of each column, NaN for an axis that its variant lacks."""
        return np.array(
            [place_in(self.columns[name], point[name]) if name in point else np.nan for name in self.columns]
        )


def place_in(values: Sequence[Any], value: Any) -> int:
    """Find a value among several: 1, 1.0 and True are equal in Python, and different values of an axis."""
    return next(i for i, other in enumerate(values) if other == value and type(other) is type(value))


def _swept(points: Sequence[Point]) -> dict[str, list[Any]]:
    """Return the values of each column that points have, numbers in their order and others by their names."""
    by_name: dict[str, dict[tuple[type, Any], Any]] = {}
    for point in points:
        for name, value in point.items():
            by_name.setdefault(name, {})[type(value), value] = value
    return {
        name: sorted(values.values(), key=None if is_ordered(values.values()) else str)
        for name, values in by_name.items()
    }
