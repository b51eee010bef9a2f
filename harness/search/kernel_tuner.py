"""The strategies of Kernel Tuner on a recorded contest, by its own simulation mode and a cache file of its format."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import math
import random
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gravbench.errors import InputError
from gravbench.report import tuning_results
from gravbench.search.recorded import Recorded
from gravbench.search.replay import Effort, Trail, effort
from gravbench.search.space import Point, Space, is_ordered, place_in
from gravbench.verdicts.ranking import is_ranked, seconds

PREFIX = "kt "
"""Begins the names of its strategies beside those of gravbench."""
STRATEGIES = (
    *("random_sample", "genetic_algorithm", "simulated_annealing", "diff_evo", "greedy_ils", "mls", "bayes_opt"),
)
MOST_POINTS = 100_000
"""Points of the product of all axes up to which it is asked: it lists them all."""
MOST_LOOKS = 50
"""Times that it may look at each case, on average: some of its strategies never end where all are known to them."""
FAILED = 10.0
"""Times the slowest case's time that stand for a case that failed or was invalid."""
KERNEL = "evaluation"


class Tuned:
    """A contest as Kernel Tuner has it: one product of numbers, for all variants together.

    Words are the numbers of their places; an axis that a variant lacks has a number below all others.
    """

    def __init__(self, board: Recorded) -> None:
        self.board = board
        space = Space(board.records)

        def coded(point: Point, name: str) -> float:
            values = space.columns[name]
            if is_ordered(values):
                return float(point[name]) if name in point else min(0.0, values[0]) - 1
            return place_in(values, point[name]) if name in point else -1

        rows = [{name: coded(point, name) for name in space.columns} for point in space.points]
        values = {name: sorted({row[name] for row in rows}) for name in space.columns}
        self.parameters = {name: swept for name, swept in values.items() if len(swept) > 1}
        self.rows = {
            tuple(row[name] for name in self.parameters): record
            for row, record in zip(rows, board.records, strict=True)
        }

    @property
    def points(self) -> int:
        """How many the product of the axes has, whether or not there is a case."""
        return math.prod(map(len, self.parameters.values()))

    def cache(self) -> dict[str, Any]:
        """Return a cache file of Kernel Tuner."""
        fastest = self.board.fastest
        about = {"device_name": fastest.device or "unknown", "kernel_name": KERNEL, "problem_size": fastest.n}
        slowest = max(seconds(record) for record in self.board.records if is_ranked(record))
        return tuning_results.cache(about, self.parameters, self.rows, 1e3 * (FAILED * slowest))


def missing() -> str | None:
    """Say that Kernel Tuner is not installed; None where it is."""
    if importlib.util.find_spec("kernel_tuner") is not None:
        return None
    return "Kernel Tuner is not installed, so its strategies are left out: pip install 'gravbench[kernel-tuner]'"


def simulate(
    board: Recorded, *, seed: int, repeat: int, within: float, strategies: Sequence[str] = STRATEGIES
) -> list[Effort]:
    """Search a recorded contest by its strategies, ``repeat`` times each, with the seeds from ``seed`` on.

    A configuration that one looks at again costs nothing, as in gravbench.

    Raises:
        InputError: the product of the axes has too many points for it.
    """
    tuned = Tuned(board)
    if tuned.points > MOST_POINTS:
        raise InputError(
            f"n = {board.fastest.n}: the product of all axes has {tuned.points:,} points, which Kernel Tuner "
            f"lists; accepted: up to {MOST_POINTS:,}"
        )
    efforts = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cache.json"
        path.write_text(json.dumps(tuned.cache()), "utf-8")
        for strategy in strategies:
            trails = [_searched(tuned, strategy, path, seed + i, within) for i in range(repeat)]
            efforts.append(effort(PREFIX + strategy, trails, ends=False))
    return efforts


def _searched(tuned: Tuned, strategy: str, path: Path, seed: int, within: float) -> Trail:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import kernel_tuner
        from kernel_tuner.util import StopCriterionReached

    visited: set[tuple[float, ...]] = set()
    looks = 0
    reached = math.inf

    def look(result: dict[str, Any]) -> int:
        """See every configuration that is looked up, and end the search at a close one."""
        nonlocal looks, reached
        row = tuple(result[name] for name in tuned.parameters)
        visited.add(row)
        looks += 1
        if tuned.board.is_close(tuned.rows[row], within):
            reached = len(visited)
        if math.isfinite(reached) or looks >= MOST_LOOKS * len(tuned.rows):
            raise StopCriterionReached("close enough, or at an end")
        return looks

    def exists(chosen: dict[str, float]) -> bool:
        return tuple(chosen[name] for name in tuned.parameters) in tuned.rows

    options: dict[str, Any] = {"max_fevals": len(tuned.rows)}
    # Their own populations are too large for a small space: the one fails there, and the other gives up at once.
    if strategy in ("diff_evo", "genetic_algorithm"):
        options["popsize"] = max(4, min(16, len(tuned.rows) // 4))
    if strategy == "diff_evo":
        options["popsize_times_dimensions"] = False
    # It draws from the random numbers that all of Python shares.
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002
    # Not each of its strategies expects the end at its first look.
    with warnings.catch_warnings(), contextlib.suppress(StopCriterionReached):
        warnings.simplefilter("ignore")  # that there is no kernel
        kernel_tuner.tune_kernel(
            KERNEL,
            f"void {KERNEL}() {{}}",
            tuned.board.fastest.n,
            [],
            tuned.parameters,
            # Of a lambda it would read the source; without a point to exclude there is nothing to ask.
            restrictions=[exists] if len(tuned.rows) < tuned.points else [],
            lang="C",
            strategy=strategy,
            strategy_options=options,
            metrics={"looks": look},
            cache=str(path),
            simulation_mode=True,
            quiet=True,
        )
    return Trail(reached, float(len(visited)))
