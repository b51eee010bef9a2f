"""Several seeds of one case: compared by the median over the seeds, with the slowest beside it.

The time of a tree depends on where its bodies are, so that of a single seed may be luck. Cases that differ in nothing
but the seed are one here; without all of its seeds, a case is not compared with one that has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from gravbench.model.case import MADE, PARTS, Value
from gravbench.model.record import ERRORS, OUTRACED, Record
from gravbench.verdicts.cards import Shared, card_of, standing
from gravbench.verdicts.ranking import grouped, is_ranked, seconds

_SEED = list(PARTS).index("seed")


class OverSeeds(Shared, frozen=True):
    """The record ``of_seed`` whose time is the median over the ``seeds``, which stands for all of them.

    Of an even number of seeds it is the slower of the two in the middle. Its errors are the largest of any seed, and it
    is outraced where any seed is. What else it has, such as the samples, is that of this seed. ``slowest`` is the
    record of the slowest seed.
    """

    seeds: str
    of_seed: Record
    slowest: Record

    @cached_property
    def conditions(self) -> Mapping[str, Value]:
        """What has to be equal before the speed of another case is compared with this one's: all the seeds."""
        return {name: value for name, value in self.of_seed.conditions.items() if name != "seed"} | {
            "seeds": self.seeds
        }


def over_seeds(records: Sequence[Record]) -> list[Record]:
    """Let one record stand for the cases that differ in the seed alone, in the place of their first.

    ``records`` hold one record per case, as ``gravbench.model.runs.latest`` leaves them. What was not measured is
    left as it is.
    """
    if len({record.seed for record in records}) < 2:
        return list(records)
    alike = grouped(records, lambda record: _on_one_card(record) if is_ranked(record) else id(record))
    return [_standing_for(same) if len(same) > 1 else same[0] for same in alike.values()]


def measured(record: Record) -> Record:
    """Return the record that was measured, also where one stands for several seeds."""
    return record.of_seed if isinstance(record, OverSeeds) else record


def slowest_seconds(record: Record) -> float | None:
    """Return the time of the slowest seed; None of a record of a single seed."""
    return seconds(record.slowest) if isinstance(record, OverSeeds) else None


def of_several_seeds(records: Iterable[Record]) -> bool:
    """Tell whether any of these records stands for several seeds."""
    return any(isinstance(record, OverSeeds) for record in records)


def but_for_the_seed(record: Record) -> Any:
    """Return what the records of one case with several seeds share: the code that ran is part of it."""
    identity = record.identity
    ran = record.code_sha256, record.method, record.driver, record.toolkit_version, tuple(record.flags)
    return identity[:_SEED], identity[_SEED + 1 :], record.device, ran


def _on_one_card(record: Record) -> Any:
    return but_for_the_seed(record), record.device_uuid


def _standing_for(same: Sequence[Record]) -> OverSeeds:
    ordered = sorted(same, key=seconds)
    middle = ordered[len(ordered) // 2]
    seeds = sorted(record.seed for record in same)
    errors = {name: [getattr(record, name) for record in same] for name in ERRORS}
    changed: dict[str, Any] = {name: None if None in values else max(values) for name, values in errors.items()}
    reason = OUTRACED if any(record.outraced for record in same) else middle.stop_reason
    changed |= {"stop_reason": reason, "card": card_of(middle), "seeds": _named(seeds)}
    changed |= {"of_seed": middle, "slowest": ordered[-1]}
    fields = {name: value for name, value in middle.__dict__.items() if name not in MADE}
    return standing(OverSeeds, fields | changed)


def _named(seeds: Sequence[int]) -> str:
    first, last = seeds[0], seeds[-1]
    in_a_row = len(seeds) > 2 and last - first == len(seeds) - 1
    return f"{first} to {last}" if in_a_row else ", ".join(map(str, seeds))
