"""A full sweep as what a search can be run against: its contests, and what each of their cases took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gravbench.errors import InputError
from gravbench.model.record import Record
from gravbench.model.runs import latest
from gravbench.model.variant import Variant
from gravbench.search.comparison_groups import alike, contest
from gravbench.verdicts.cards import together
from gravbench.verdicts.question import by_time
from gravbench.verdicts.racing import looks
from gravbench.verdicts.ranking import grouped, is_ranked, seconds

FEWEST = 10
"""Cases of a contest below which there is nothing to search."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """The records of one contest on one device, the fastest of them, and what sets it apart beside n and the task.

    ``looks`` has, for each case, what racing would have found of its first samples: how many, and what the median is
    above by them.
    """

    records: list[Record]
    fastest: Record
    apart: tuple[str, ...]
    looks: Mapping[object, list[tuple[int, float]]] = field(repr=False)

    def is_close(self, record: Record, within: float) -> bool:
        """Tell whether a record is as fast as the fastest, ``within`` being the part by which it may be slower."""
        return is_ranked(record) and seconds(record) <= (1 + within) * seconds(self.fastest)

    def raced(self, record: Record, behind: float | None) -> float | None:
        """Return which part of its samples a case would have taken until it was behind; None where it never was."""
        if behind is None:
            return None
        count = next((count for count, low in self.looks[record.identity] if low > behind), None)
        return None if count is None else count / len(record.samples_seconds)


def recorded(records: Sequence[Record], variants: Mapping[str, Variant]) -> tuple[list[Recorded], int]:
    """Find the contests of a sweep that have enough cases to search, and count the others.

    What is invalid or failed is a case that a search would try in vain.

    Raises:
        InputError: no contest has enough, or cases of one were outraced: what they take is not known.
    """
    (records,) = together([records])
    tried = [record for record in latest(records) if record.status in ("invalid", "failed") or is_ranked(record)]
    places = grouped(tried, lambda record: (record.device, record.device_uuid, contest(record, variants)))
    known = [contest for contest in places.values() if any(map(is_ranked, contest))]
    enough = [contest for contest in known if len(contest) >= FEWEST]
    if not enough:
        most = max(map(len, known), default=0)
        raise InputError(f"at most {most} cases compete at one n; accepted: records of a sweep with {FEWEST} or more")
    if late := sum(record.outraced for contest in enough for record in contest):
        raise InputError(
            f"{late:,} records were outraced, sampled only until it was clear that another case is faster; accepted: "
            "records of a sweep that was measured in full (gravbench run SWEEP --search all --resume --out FOLDER)"
        )
    boards = [
        Recorded(
            contest,
            by_time(filter(is_ranked, contest))[0],
            alike(contest[0], variants),
            {record.identity: looks(record.samples_seconds) for record in contest},
        )
        for contest in enough
    ]
    return sorted(boards, key=lambda board: (board.fastest.n, -len(board.records))), len(known) - len(enough)
