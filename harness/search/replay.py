"""Searches run against the records of a full sweep instead of a device: how many measurements each needs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gravbench.config.search import Search
from gravbench.model.record import Record
from gravbench.model.variant import Variant
from gravbench.search.recorded import Recorded
from gravbench.search.strategies import start
from gravbench.verdicts.ranking import seconds

RARELY = 0.9
"""The quantile of the repetitions that stands for how bad it may be."""


@dataclass(frozen=True, slots=True)
class Trail:
    """One search: the ``cost`` in measurements until a close one was measured, infinite where none was.

    ``whole`` is the cost of the search to its end. An outraced case costs the part of its samples that it took.
    """

    cost: float
    whole: float


@dataclass(frozen=True, slots=True)
class Effort:
    """What a strategy needed over several seeds: the median and the ``RARELY`` quantile of its measurements.

    They count until a case within the part asked for of the fastest was measured, and are infinite where that many
    searches ended without one, as ``missed`` did. ``whole`` is the median cost of the search to its end, None of one
    whose end is its budget.
    """

    strategy: str
    median: float
    rarely: float
    whole: float | None
    missed: int
    repeated: int


def effort(strategy: str, trails: Sequence[Trail], *, ends: bool = True) -> Effort:
    """Sum up several searches by a strategy; one that only the budget ``ends`` has no cost to its end."""
    costs = [trail.cost for trail in trails]
    # A quantile that was measured: there is nothing between a number and infinity.
    median, rarely = (float(np.quantile(costs, part, method="higher")) for part in (0.5, RARELY))
    whole = float(np.median([trail.whole for trail in trails])) if ends else None
    return Effort(strategy, median, rarely, whole, sum(map(math.isinf, costs)), len(trails))


def replay(board: Recorded, search: Search, variants: Mapping[str, Variant], *, repeat: int, within: float) -> Effort:
    """Search a recorded contest ``repeat`` times, with the seeds from that of ``search`` on.

    Raises:
        InputError: the strategy needs Optuna, which is not installed.
    """
    seeds = range(search.seed, search.seed + repeat)
    trails = [_searched(board, search.model_copy(update={"seed": seed}), variants, within) for seed in seeds]
    return effort(search.strategy, trails, ends=search.strategy in ("all", "race"))


def _searched(board: Recorded, search: Search, variants: Mapping[str, Variant], within: float) -> Trail:
    spent = 0.0
    reached = math.inf
    for record, cost in answered(board, search, variants):
        spent += cost
        if cost == 1 and board.is_close(record, within):
            reached = min(reached, spent)
            if search.strategy != "race":
                # Nothing but a race ends before the last case, and costs less than all of them.
                return Trail(reached, float(len(board.records)))
    return Trail(reached, spent)


def answered(board: Recorded, search: Search, variants: Mapping[str, Variant]) -> Iterator[tuple[Record, float]]:
    """Search a recorded contest; yield each record that was asked for, and the part of its samples that was taken.

    A repetition gives what was recorded a second time.
    """
    by_identity = {record.identity: record for record in board.records}
    strategy = start(board.records, search, variants)
    while question := strategy.ask():
        record = by_identity[question.case.identity]
        part = board.raced(record, question.behind)
        if part is None:
            strategy.tell_record(record)
        else:
            strategy.tell(record, seconds(record), outraced=True)
        yield record, 1.0 if part is None else part
