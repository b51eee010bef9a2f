"""Cards of one kind that share the cases of a run: seen as one device, and how far they differ by their anchors.

A case that was measured on one of several cards alone is compared with what the others measured. Where each card
measured all cases, as runs of several hosts put together may have it, each stays a device of its own.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from gravbench.model.device import CardKind
from gravbench.model.record import Record
from gravbench.model.runs import latest
from gravbench.model.statistics import CONFIDENCE, student
from gravbench.verdicts.ranking import grouped, is_ranked, repetitions, seconds

Card = tuple[str, str]
"""The name and the UUID of a card."""


def multiprocessors(record: Record) -> int | None:
    """Return how many multiprocessors the device has, from the blocks that it holds at once; None where none ran."""
    if not (record.waves and record.grid_blocks and record.blocks_per_multiprocessor):
        return None
    return round(record.grid_blocks / record.waves / record.blocks_per_multiprocessor)


def card_kind(records: Iterable[Record]) -> CardKind:
    """Say what the device of these records is, as far as they tell; of cards that share the cases, what one is."""
    alike = list(records)
    name = alike[0].card[0] if isinstance(alike[0], Shared) else alike[0].device
    capability = next((record.compute_capability for record in alike if record.compute_capability), None)
    return CardKind(name or "", capability, next(filter(None, map(multiprocessors, alike)), None))


class Shared(Record, frozen=True):
    """A record of one of several cards that share the cases: its ``device`` is all of them, ``card`` the one it is of.

    What ran is told apart by the card: the repetitions of an anchor are those of one card.
    """

    card: Card

    @property
    def fingerprint(self) -> dict[str, object]:
        """The part of the record that has to match for its result to be reused."""
        return super().fingerprint | dict(zip(("device", "device_uuid"), self.card, strict=True))


Standing = TypeVar("Standing", bound=Shared)


@dataclass(frozen=True, slots=True)
class Difference:
    """An anchor on one card beside the same on the first: the geometric mean of its medians, in seconds.

    ``low`` and ``high`` bound the ratio of the two with 95 % confidence; they are 0 and infinite where either card
    repeated it once. All three are 1 of the ``first`` card.
    """

    anchor: Record
    card: Card
    repetitions: int
    seconds: float
    ratio: float
    low: float
    high: float
    first: bool


def together(runs: Sequence[Sequence[Record]]) -> list[list[Record]]:
    """Return the runs with the records of cards that share cases as those of one device, ``NAME (one of 2)``.

    Cards share the cases of a run where most of these, anchors aside, were measured on one of them alone.
    """
    named = _named(runs)
    return [[_of(record, named) for record in records] if named else list(records) for records in runs]


def newest(records: Sequence[Record]) -> list[Record]:
    """Keep the newest record of each case on each device, of cards that share cases on one of them."""
    sharing = _named([records])
    kept: dict[Hashable, Record] = {}
    for record in latest(records):
        card = _card(record)
        kept[record.identity, card[0] if card in sharing else card] = record
    return list(kept.values())


def _named(runs: Iterable[Sequence[Record]]) -> dict[Card, tuple[str, str]]:
    """Name each card that shares cases, and the UUIDs of those it shares them with; a later run may add others."""
    groups: list[set[Card]] = []
    for records in runs:
        on_cards = [record for record in records if record.device and record.device_uuid]
        if len({record.device_uuid for record in on_cards}) < 2:
            continue
        for alike in grouped(on_cards, lambda record: (record.device, record.driver)).values():
            if _share(alike):
                alike_cards = set(map(_card, alike))
                groups = [
                    *(group for group in groups if not group & alike_cards),
                    alike_cards.union(*(group for group in groups if group & alike_cards)),
                ]
    return {
        card: (f"{card[0]} (one of {len(group)})", ", ".join(sorted(uuid for _, uuid in group)))
        for group in groups
        for card in group
    }


def _share(alike: Sequence[Record]) -> bool:
    anchors = {record.identity for record in alike if record.anchor}
    measured = {(record.identity, record.device_uuid) for record in alike if record.identity not in anchors}
    cards = Counter(identity for identity, _ in measured)
    return sum(count == 1 for count in cards.values()) > len(cards) / 2 and len(set(map(_card, alike))) > 1


def _card(record: Record) -> Card:
    return record.device or "", record.device_uuid or ""


def _of(record: Record, named: dict[Card, tuple[str, str]]) -> Record:
    if (card := _card(record)) not in named:
        return record
    device, uuids = named[card]
    return standing(Shared, record.__dict__ | {"device": device, "device_uuid": uuids, "card": card})


def standing(kind: type[Standing], fields: dict[str, Any]) -> Standing:
    """Make a record that stands for others, of fields that are all validated."""
    # Pydantic's own ways to make one take a second for 10,000 records.
    made = kind.__new__(kind)
    made.__setstate__({
        "__dict__": fields,
        "__pydantic_fields_set__": _all_fields(kind),
        "__pydantic_extra__": None,
        "__pydantic_private__": None,
    })  # fmt: skip
    return made


@cache
def _all_fields(kind: type[Shared]) -> set[str]:
    """Return the fields of every record of this kind: a set of ninety names each would take more room than that."""
    return set(kind.model_fields)


def card_of(record: Record) -> Card:
    """Return the card that a record was measured on, also where it stands for several."""
    return record.card if isinstance(record, Shared) else _card(record)


def differences(records: Iterable[Record]) -> dict[str, list[Difference]]:
    """Compare the cards that share cases, as ``together`` returns them, by each anchor that several of them repeated.

    The lists are by the name of the device that stands for the cards; one without such an anchor is empty.
    """
    shared = [record for record in records if isinstance(record, Shared)]
    by_name: dict[str, list[Difference]] = {
        name: [] for name in dict.fromkeys(record.device or "" for record in shared)
    }
    repeated = repetitions(shared, is_ranked)
    for alike in grouped(repeated, lambda same: (same[0].identity, same[0].device_uuid)).values():
        # Of another driver or source, the newest.
        by_card = dict(sorted({card_of(same[0]): same for same in alike}.items()))
        if len(by_card) > 1:
            first = next(iter(by_card.values()))
            by_name[first[0].device or ""] += [_difference(card, same, first) for card, same in by_card.items()]
    return by_name


def _difference(card: Card, same: Sequence[Record], first: Sequence[Record]) -> Difference:
    sides = [[math.log(seconds(record)) for record in side] for side in (same, first)]
    means = list(map(statistics.fmean, sides))
    apart = means[0] - means[1]
    reach = 0.0 if same is first else _reach(sides)
    bounds = math.exp(apart - reach), math.exp(apart + reach)
    return Difference(same[0], card, len(same), math.exp(means[0]), math.exp(apart), *bounds, first=same is first)


def _reach(sides: Sequence[Sequence[float]]) -> float:
    """Return half the interval of the difference of two means by Student's t, the two scattering as they may."""
    if min(map(len, sides)) < 2:
        return math.inf
    parts = [statistics.variance(side) / len(side) for side in sides]
    if not sum(parts):
        return 0.0
    # The fewest degrees of freedom that Welch's formula can give.
    freedom = min(len(side) for side in sides) - 1
    return student(freedom, CONFIDENCE) * math.sqrt(sum(parts))
