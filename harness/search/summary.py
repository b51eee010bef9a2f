"""What searches of a recorded sweep needed: their titles, and what JSON can hold of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gravbench.report.names import Names
from gravbench.search.recorded import Recorded
from gravbench.search.replay import Effort
from gravbench.verdicts import ranking


@dataclass(frozen=True, slots=True)
class Searched:
    """A recorded contest, and what each strategy needed there."""

    board: Recorded
    efforts: list[Effort]


def titles(searched: Sequence[Searched]) -> list[str]:
    """Name the contests: by n alone what they all share otherwise."""
    names = Names([record for one in searched for record in one.board.records])
    tasks = [names.title(ranking.conditions(one.board.fastest)) for one in searched]
    several = len(set(tasks)) > 1
    return [
        ", ".join([*([task] if several else []), f"n = {one.board.fastest.n:,}", *one.board.apart])
        for task, one in zip(tasks, searched, strict=True)
    ]


def shared_title(searched: Sequence[Searched]) -> str:
    """Name what all contests share, nothing where they share too little."""
    names = Names([record for one in searched for record in one.board.records])
    tasks = {names.title(ranking.conditions(one.board.fastest)) for one in searched}
    return tasks.pop() if len(tasks) == 1 else ""


def searches_json(
    searched: Sequence[Searched], left_out: int, repeat: int, within: float, threshold: float
) -> dict[str, Any]:
    """Return it as what JSON can hold; a number of measurements that is infinite is None."""
    return {
        "repeat": repeat,
        "within": within,
        "threshold": threshold,
        "contests_left_out": left_out,
        "contests": [
            {
                "device": one.board.fastest.device,
                **one.board.fastest.conditions,
                "n": one.board.fastest.n,
                "apart": list(one.board.apart),
                "cases": len(one.board.records),
                "fastest": {
                    name: getattr(one.board.fastest, name) for name in ("variant", "toolkit", "axes", "median_seconds")
                },
                "strategies": [
                    {
                        "strategy": own.strategy,
                        "median": finite(own.median),
                        "quantile_90": finite(own.rarely),
                        "whole": own.whole,
                        "not_found": own.missed,
                    }
                    for own in one.efforts
                ],
            }
            for one in searched
        ],
    }


def finite(value: float) -> float | None:
    """Return a number that JSON has."""
    return value if math.isfinite(value) else None
