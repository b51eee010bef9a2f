"""What is likely wrong with a result: each known mistake is a hypothesis about what was computed instead.

A hypothesis computes in float64 what a kernel with that mistake would. The one that is nearest to the result explains
it, if it is far nearer than what was expected. What can be seen in the result itself is looked at first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gravbench.judging.launching import unwritten
from gravbench.model.bodies import Bodies

Array = NDArray[np.float64]

NEARER = 0.05
"""A hypothesis explains a result if the result is this many times as far from it as from what was expected."""
NEAR = 0.3
"""And at most so far from it, relative to the contributions, which may be far larger by the hypothesis."""
MOST_RANGES = 3
ROWS_AT_ONCE = 256
SHORT = 2.0**-11
"""Half a unit in the last place of half precision, relative."""


class Contributions(NamedTuple):
    """Sums of contributions and of their magnitudes, each of shape (n, 3)."""

    sums: Array
    magnitudes: Array


@dataclass(frozen=True)
class Result:
    """A wrong result and what it was computed from, rounded to the number type of the entry.

    ``wrong`` tells which rows are wrong. ``former`` are the bodies of the launch before, None for the first.
    ``tiles`` are numbers of bodies that the kernel may work on together.
    """

    bodies: Bodies
    computed: NDArray[Any]
    exact: Array
    magnitudes: Array
    wrong: NDArray[np.bool_]
    former: Bodies | None
    tiles: Sequence[int]

    @cached_property
    def rows(self) -> Array:
        """x, y, z and mass of each body, as the entry got them."""
        return rows_of(self.bodies, self.computed.dtype)

    @property
    def eps2(self) -> float:
        """The softening length squared, as the entry got it."""
        return float(self.computed.dtype.type(self.bodies.eps**2))

    def contributions(self, rows: Array, eps2: float | None = None, power: float = 1.5) -> Contributions:
        """Add up what bodies of ``rows`` do to all, with another softening or another power of the squared distance."""
        return contributions(self.rows, rows, self.eps2 if eps2 is None else eps2, power)


def rows_of(bodies: Bodies, dtype: np.dtype[Any]) -> Array:
    """Return x, y, z and mass of each body, rounded to a number type."""
    return np.column_stack([bodies.position, bodies.mass]).astype(dtype).astype(np.float64)


def contributions(targets: Array, sources: Array, eps2: float, power: float = 1.5) -> Contributions:
    """Add up m d / (d^2 + eps2)^power over all sources for each target; a source at the same place adds nothing."""
    sums, magnitudes = np.zeros((len(targets), 3)), np.zeros((len(targets), 3))
    places, mass = np.ascontiguousarray(sources[:, :3].T), sources[:, 3]
    for first in range(0, len(targets), ROWS_AT_ONCE):
        part = slice(first, first + ROWS_AT_ONCE)
        apart = places[:, None] - targets[part, :3].T[:, :, None]
        squared = np.einsum("kij,kij->ij", apart, apart) + eps2
        with np.errstate(divide="ignore", over="ignore"):
            # NumPy's general power takes longer than all the rest.
            raised = 1 / (squared * np.sqrt(squared)) if power == 1.5 else squared**-power
            weight = np.where(squared > 0, mass * raised, 0.0)
        sums[part] = np.einsum("kij,ij->ik", apart, weight)
        magnitudes[part] = np.einsum("kij,ij->ik", np.abs(apart), np.abs(weight))
    return Contributions(sums, magnitudes)


# What a kernel may have computed instead. Each gives sentences and the contributions that they would lead to.

Alternatives = Iterator[tuple[str, Contributions]]


def left_out(result: Result) -> Alternatives:
    """Leave out the bodies at the end or the beginning, such as those of the last tile that is not full."""
    for tile in result.tiles:
        if rest := result.bodies.n % tile:
            yield f"the last tile of {tile}, which has {rest}, is left out", result.contributions(result.rows[:-rest])
    if result.bodies.n > 1:
        yield "the last body is left out", result.contributions(result.rows[:-1])
        yield "the first body is left out", result.contributions(result.rows[1:])


def filled_up(result: Result) -> Alternatives:
    """Count other bodies in the places of the last tile that have none."""
    for tile in result.tiles:
        if rest := result.bodies.n % tile:
            again = np.vstack([result.rows, np.repeat(result.rows[-1:], tile - rest, axis=0)])
            yield f"the last body fills up the last tile of {tile}, which has {rest}", result.contributions(again)
        if rest and tile < result.bodies.n:
            again = np.vstack([result.rows, result.rows[-tile:-rest]])
            yield f"the end of the last tile of {tile} is what the tile before left there", result.contributions(again)


def one_tile(result: Result) -> Alternatives:
    """Read the same tile in each turn, or only the tile of the block itself."""
    n = result.bodies.n
    for tile in result.tiles:
        if tile < n:
            yield f"only the first {tile} bodies pull", result.contributions(result.rows[:tile])
            again = result.rows[np.arange(n) % tile]
            yield f"the first tile of {tile} is read again in the place of the others", result.contributions(again)


def half_of_the_pairs(result: Result) -> Alternatives:
    """Count each pair for one of its bodies alone."""
    for what, step in (("before", 1), ("after", -1)):
        rows = result.rows[::step]
        parts = [contributions(rows[i : i + 1], rows[: i + 1], result.eps2) for i in range(len(rows))]
        sums, magnitudes = (np.vstack([part[k] for part in parts])[::step] for k in range(2))
        yield (
            f"a body is pulled only by those {what} it: pairs count for one of their bodies",
            Contributions(sums, magnitudes),
        )


def softening(result: Result) -> Alternatives:
    """Use another softening length."""
    eps2 = result.eps2
    yield "the softening is left out", result.contributions(result.rows, 0.0)
    yield (
        "the softening is squared twice: eps2 is the softening length squared already",
        result.contributions(result.rows, eps2**2),
    )
    yield (
        "the softening is the root of eps2, which has to be added as it is",
        result.contributions(result.rows, eps2**0.5),
    )
    slope = result.contributions(result.rows, 1.001 * eps2).sums - result.exact
    if (square := float(np.square(slope).sum())) and np.isfinite(result.computed).all():
        factor = 1 + 0.001 * float(((result.computed - result.exact) * slope).sum()) / square
        if 0.5 < factor < 2:
            yield (
                f"eps2 is {factor:.6g} times as large as it should be",
                result.contributions(result.rows, factor * eps2),
            )
    if result.former is not None:
        former = float(result.computed.dtype.type(result.former.eps**2))
        yield "the softening is that of the launch before", result.contributions(result.rows, former)


def masses(result: Result) -> Alternatives:
    """Use other masses."""
    rows, mass = result.rows, result.rows[:, 3:]
    ones = np.column_stack([rows[:, :3], np.ones(len(rows))])
    without = result.contributions(ones)
    yield "the masses are left out", without
    yield "the mass is that of the body that is pulled", Contributions(*(mass * part for part in without))
    yield (
        "it is the force: accelerations times the body's own mass",
        Contributions(mass * result.exact, mass * result.magnitudes),
    )
    first = np.column_stack([rows[:, :3], np.full(len(rows), rows[0, 3])])
    yield "the first mass counts for all bodies", result.contributions(first)


def powers(result: Result) -> Alternatives:
    """Take another power of the distance."""
    for power, what in ((0.5, "1 / r"), (1.0, "1 / r^2"), (2.0, "1 / r^4")):
        yield (
            f"a contribution is the distance times {what} instead of 1 / r^3",
            result.contributions(result.rows, power=power),
        )


def directions(result: Result) -> Alternatives:
    """Turn the accelerations."""
    yield "the sign is wrong: bodies are pushed instead of pulled", Contributions(-result.exact, result.magnitudes)
    for order in permutations(range(3)):
        if order != (0, 1, 2):
            names = ", ".join(f"a{'xyz'[axis]}" for axis in order)
            yield (
                f"ax, ay, az are in the order {names}",
                Contributions(result.exact[:, order], result.magnitudes[:, order]),
            )


def rows_moved(result: Result) -> Alternatives:
    """Write to the row of another body."""
    for step, what in ((1, "behind"), (-1, "before")):
        moved = Contributions(np.roll(result.exact, step, axis=0), np.roll(result.magnitudes, step, axis=0))
        yield f"each acceleration is in the row {what} that of its body", moved


def former_bodies(result: Result) -> Alternatives:
    """Keep what the launch before computed or read."""
    if result.former is not None:
        rows, eps2 = (
            rows_of(result.former, result.computed.dtype),
            float(result.computed.dtype.type(result.former.eps**2)),
        )
        yield "it is the result for the bodies of the launch before", contributions(rows, rows, eps2)
        yield "the bodies are those of the launch before", contributions(rows, rows, result.eps2)
        yield "the bodies that pull are those of the launch before", result.contributions(rows)


def scale(result: Result) -> Alternatives:
    """Multiply all accelerations."""
    finite = np.isfinite(result.computed).all(axis=1)
    exact, computed = result.exact[finite], result.computed[finite].astype(np.float64)
    if (square := float((exact * exact).sum())) and (factor := float((exact * computed).sum()) / square) > 0:
        sentence = f"all accelerations are {factor:.6g} times as large as they should be"
        yield sentence, Contributions(factor * result.exact, factor * result.magnitudes)


def short_numbers(result: Result) -> Alternatives:
    """Round to half precision what is read."""
    with np.errstate(over="ignore"):
        half = result.rows.astype(np.float16).astype(np.float64)
    for sentence, columns in (
        ("the masses are", [3]),
        ("the positions are", [0, 1, 2]),
        ("the bodies are", [0, 1, 2, 3]),
    ):
        rows = result.rows.copy()
        rows[:, columns] = half[:, columns]
        if np.isfinite(rows).all():
            targets = rows if columns != [3] else result.rows
            yield f"{sentence} rounded to half precision", contributions(targets, rows, result.eps2)


HYPOTHESES: tuple[Callable[[Result], Alternatives], ...] = (
    *(left_out, filled_up, one_tile, half_of_the_pairs, softening, masses, powers, directions, rows_moved),
    *(former_bodies, scale, short_numbers),
)


# What can be seen in the result itself.


def not_written(result: Result) -> str | None:
    """Say which rows were not written at all."""
    rows = unwritten(result.computed)
    nowhere = [f"a{'xyz'[axis]}" for axis in range(3) if unwritten(result.computed[:, [axis]]).all()]
    if 0 < len(nowhere) < 3:
        return f"{' and '.join(nowhere)} {'is' if len(nowhere) == 1 else 'are'} not written in any row"
    why = (
        "the kernel writes no accelerations yet, or all threads end before" if nowhere else "does the grid reach them?"
    )
    return _sentence(rows, f"were not written: {why}")


def not_finite(result: Result) -> str | None:
    """Say which rows are NaN or infinite."""
    rows = ~np.isfinite(result.computed).all(axis=1)
    unwritten_or = "are NaN or infinite: something is read that was not written, or"
    rest = "without softening the contribution of a body to itself is 0 / 0" if rows.all() else "overflows"
    return _sentence(rows, f"{unwritten_or} {rest}")


def one_coordinate(result: Result) -> str | None:
    """Say that a coordinate alone is wrong."""
    with np.errstate(invalid="ignore", over="ignore"):
        apart = np.abs(result.computed - result.exact).max(axis=0)
    right = apart < NEARER * NEARER * apart.max()
    names = [f"a{'xyz'[axis]}" for axis in range(3) if not right[axis]]
    return f"only {' and '.join(names)} {'is' if len(names) == 1 else 'are'} wrong" if right.any() and names else None


def imprecise(result: Result) -> str | None:
    """Say that the errors are as large as those of half precision."""
    relative = distances(result.computed, Contributions(result.exact, result.magnitudes))
    size = float(np.sqrt(np.mean(np.square(relative))))
    if SHORT / 64 < size < 2 * SHORT:
        return f"the errors, {size:.1g} rms, are of a size that half precision leads to, which has 11 bits"
    return None


def some_rows(result: Result) -> str | None:
    """Say that other rows are right."""
    return None if result.wrong.all() else _sentence(result.wrong, "are wrong, and the others right")


def cause_of(result: Result) -> str:
    """Return a sentence on what is likely wrong, or that no known mistake explains it."""
    for look in (not_written, not_finite):
        if sentence := look(result):
            return sentence
    expected = _spread(result.computed, Contributions(result.exact, result.magnitudes), result.wrong)
    best, nearest = "", min(NEARER * expected, NEAR)
    for hypothesis in HYPOTHESES:
        for sentence, alternative in hypothesis(result):
            if (apart := _spread(result.computed, alternative, result.wrong)) < nearest:
                best, nearest = sentence, apart
    rest = (one_coordinate, imprecise, some_rows)
    return best or next((sentence for look in rest if (sentence := look(result))), "no known mistake explains it")


def distances(computed: NDArray[Any], expected: Contributions) -> Array:
    """Return how far each row is from what is expected, relative to the magnitudes of the contributions."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        distance: Array = np.linalg.norm(computed - expected.sums, axis=1) / np.linalg.norm(expected.magnitudes, axis=1)
    return np.where(np.isnan(distance), np.where((computed == expected.sums).all(axis=1), 0.0, np.inf), distance)


def _spread(computed: NDArray[Any], expected: Contributions, rows: NDArray[np.bool_]) -> float:
    """Return the distance within which nearly all of the rows are: a few may differ by an accident."""
    return float(np.quantile(distances(computed, expected)[rows], 0.95, method="higher"))


def _sentence(rows: NDArray[np.bool_], what: str) -> str | None:
    return f"rows {ranges(rows)} {what}" if rows.any() else None


def ranges(rows: NDArray[np.bool_]) -> str:
    """Name the rows that are true as ranges: ``0-127, 999 (129 of 1000)``."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], rows, [False]]).astype(np.int8))).reshape(-1, 2)
    named = [f"{first}" if last - first == 1 else f"{first}-{last - 1}" for first, last in edges[:MOST_RANGES]]
    more = [f"and {len(edges) - MOST_RANGES} more ranges"] if len(edges) > MOST_RANGES else []
    return f"{', '.join([*named, *more])} ({int(rows.sum())} of {len(rows)})"
