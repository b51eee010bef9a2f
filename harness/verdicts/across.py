"""The cards of one kind judged against each other: the same cases on each, two cards at a time."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from gravbench.errors import InputError
from gravbench.model.record import Record
from gravbench.verdicts.cards import Card, card_of
from gravbench.verdicts.compare import Comparison, Run, Verdict, compare_runs
from gravbench.verdicts.ranking import grouped


@dataclass(frozen=True, slots=True)
class Across:
    """The cards of one kind, and each of them against each before it: the comparison of two by their places."""

    name: str
    driver: str | None
    cards: list[Card]
    threshold: float
    comparisons: dict[tuple[int, int], Comparison]

    @property
    def counts(self) -> dict[Verdict, int]:
        """How many pairs, of a case on two cards, have each verdict on seconds."""
        return {
            verdict: sum(comparison.counts[verdict] for comparison in self.comparisons.values()) for verdict in Verdict
        }

    @property
    def differences(self) -> list[float]:
        """How far the medians of each case lie apart on the two cards where they do most, as a part of the smaller."""
        pairs = [pair for comparison in self.comparisons.values() for pair in comparison.pairs]
        by_case = grouped(pairs, lambda pair: pair.base.identity).values()
        return [max(math.expm1(abs(math.log(pair.interval.ratio))) for pair in alike) for alike in by_case]

    @property
    def middle(self) -> float:
        """The difference of the median case; there has to be a pair."""
        return statistics.median(self.differences)


def judge_cards(records: Sequence[Record], threshold: float) -> list[Across]:
    """Compare the cards of each kind, by name and driver, that measured the same cases, by the rules of any two runs.

    Raises:
        InputError: the records are of no two cards of one kind.
    """
    on_cards = [record for record in records if record.device and record.device_uuid]
    judged = []
    for (name, driver), alike in grouped(on_cards, lambda record: (record.device or "", record.driver)).items():
        cards = dict(sorted(grouped(alike, card_of).items()))
        if len(cards) < 2:
            continue
        runs = [Run(uuid, of_card) for (_, uuid), of_card in cards.items()]
        comparisons = {
            (first, second): compare_runs(runs[first], runs[second], threshold)
            for first, second in itertools.combinations(range(len(runs)), 2)
        }
        judged.append(Across(name, driver, list(cards), threshold, comparisons))
    if not judged:
        raise InputError("--across-devices: the records include no two cards of one kind; accepted: records of several")
    return judged
