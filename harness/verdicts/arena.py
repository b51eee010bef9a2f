"""Which method gives which accuracy in which time: approximations along their axis of accuracy, beside direct sums."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from gravbench.model.record import Record
from gravbench.verdicts import ranking
from gravbench.verdicts.question import fastest_of_each
from gravbench.verdicts.ranking import Conditions, grouped, is_partial, named, seconds

ACCURACY = ("theta", "part", "order")
"""Axes that set how accurate an approximation is."""
KINDS = ("opening", "moments")
"""Axes that make another approximation of a method: each of their values has a curve of its own."""


@dataclass(frozen=True, slots=True)
class Point:
    """One configuration of a method. ``front``: no other of the arena is at least as fast and at least as accurate.

    ``accuracy`` has the values that set it, empty for a direct sum.
    """

    method: str
    accuracy: str
    record: Record
    front: bool


@dataclass(frozen=True, slots=True)
class Arena:
    """The points of one device, task and n, those of a method together: along its axis of accuracy.

    ``left_out`` counts the records whose 99th percentile of the error is not known, ``dominated`` the direct sums that
    are neither faster nor more accurate than another one, ``behind`` the accuracies of a method that are neither
    faster nor more accurate than another of the same method.
    """

    shared: Conditions
    n: int
    points: list[Point]
    left_out: int
    dominated: int
    behind: int = 0

    @property
    def methods(self) -> list[str]:
        """The methods in the order of their first points."""
        return list(dict.fromkeys(point.method for point in self.points))


def arenas(records: Iterable[Record]) -> list[Arena]:
    """Return an arena for each device, task and n where an approximation has been measured at several accuracies.

    ``records`` hold one record per case, as ``gravbench.model.runs.latest`` leaves them.
    """
    fields = []
    for shared, alike in sorted(grouped(filter(ranking.is_ranked, records), ranking.conditions).items()):
        for n, same_n in sorted(grouped(alike, ranking.size).items()):
            with_errors = [record for record in same_n if record.error_p99 and math.isfinite(record.error_p99)]
            direct = [record for record in with_errors if not _setting(record) and not is_partial(record)]
            drawn = _curves([record for record in with_errors if _setting(record)])
            if not any(len(curve.records) > 1 for curve in drawn.values()):
                continue
            sums = fastest_of_each(direct, named)
            best = front(sums.values())
            chosen = [(method, record) for method, curve in drawn.items() for record in curve.records]
            chosen += [(method, record) for method, record in sums.items() if record in best]
            on_it = front(record for _, record in chosen)
            points = [
                Point(method, _written(record, drawn[method].axes if method in drawn else ()), record, record in on_it)
                for method, record in chosen
            ]
            behind = sum(curve.behind for curve in drawn.values())
            fields.append(Arena(shared, n, points, len(same_n) - len(with_errors), len(sums) - len(best), behind))
    return fields


def front(records: Iterable[Record]) -> list[Record]:
    """Return those that no other one equals or beats in both time and error, the fastest first."""
    kept: list[Record] = []
    for record in sorted(records, key=lambda record: (seconds(record), _error(record))):
        if not kept or _error(record) < _error(kept[-1]):
            kept.append(record)
    return kept


@dataclass(frozen=True, slots=True)
class _Curve:
    """A method along the axes of accuracy along which it was measured, without the accuracies that are ``behind``."""

    records: list[Record]
    axes: tuple[str, ...]
    behind: int


def _curves(records: list[Record]) -> dict[str, _Curve]:
    """Return the curve of each method, and of each of its kinds of approximation where there are several."""
    curves = {}
    for method, of_method in sorted(grouped(records, ranking.row).items()):
        several = [axis for axis in KINDS if len({record.axes.get(axis) for record in of_method}) > 1]
        kinds = grouped(of_method, lambda record: tuple(str(record.axes.get(axis)) for axis in several))  # noqa: B023
        curves.update({" ".join([method, *kind]): _curve(alike) for kind, alike in sorted(kinds.items())})
    return curves


def _curve(records: list[Record]) -> _Curve:
    """Return the fastest at each accuracy, in their order; of several axes of accuracy, what is on its own front."""
    best = fastest_of_each(records, _setting)
    settings = [dict(setting) for setting in best]
    axes = tuple(axis for axis in ACCURACY if any(axis in setting for setting in settings))
    varied = tuple(axis for axis in axes if len({setting.get(axis) for setting in settings}) > 1)
    curve = front(best.values())[::-1] if len(varied) > 1 else [best[setting] for setting in sorted(best)]
    return _Curve(curve, varied or axes, len(best) - len(curve))


def _setting(record: Record) -> tuple[tuple[str, int | float], ...]:
    """Return the axes of accuracy that a record has and their values; nothing where it has none."""
    values = ((axis, record.axes.get(axis)) for axis in ACCURACY)
    return tuple((axis, value) for axis, value in values if isinstance(value, int | float))


def _written(record: Record, axes: Iterable[str]) -> str:
    values = dict(_setting(record))
    return " ".join(f"{axis} {_short(values[axis])}" for axis in axes if axis in values)


def _short(value: float) -> str:
    return str(round(value, 6))


def _error(record: Record) -> float:
    return record.error_p99 or math.nan
