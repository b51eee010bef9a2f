"""What searches of a recorded sweep needed: their titles, and what JSON can hold of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gravbench.report.names import Names
from gravbench.report.numbers import finite
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
    names = Names([record for contest in searched for record in contest.board.records])
    tasks = [names.title(ranking.conditions(contest.board.fastest)) for contest in searched]
    several = len(set(tasks)) > 1
    return [
        ", ".join([*([task] if several else []), f"n = {contest.board.fastest.n:,}", *contest.board.apart])
        for task, contest in zip(tasks, searched, strict=True)
    ]


def shared_title(searched: Sequence[Searched]) -> str:
    """Name what all contests share, nothing where they share too little."""
    names = Names([record for contest in searched for record in contest.board.records])
    tasks = {names.title(ranking.conditions(contest.board.fastest)) for contest in searched}
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
                "device": contest.board.fastest.device,
                **contest.board.fastest.conditions,
                "n": contest.board.fastest.n,
                "apart": list(contest.board.apart),
                "cases": len(contest.board.records),
                "fastest": {
                    name: getattr(contest.board.fastest, name)
                    for name in ("variant", "toolkit", "axes", "median_seconds")
                },
                "strategies": [
                    {
                        "strategy": effort.strategy,
                        "median": finite(effort.median),
                        "quantile_90": finite(effort.rarely),
                        "whole": effort.whole,
                        "not_found": effort.missed,
                    }
                    for effort in contest.efforts
                ],
            }
            for contest in searched
        ],
    }
