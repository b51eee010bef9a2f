"""Where an entry stands on the ladder of its device: between which rungs of a run, by the time of one evaluation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gravbench.judging.entry import Entry
from gravbench.model.interaction import GRAVITY
from gravbench.model.quantities import FORCE
from gravbench.model.record import Record
from gravbench.model.runs import latest
from gravbench.model.variant import Tolerance
from gravbench.verdicts.ladder import ladders
from gravbench.verdicts.ranking import Parents, seconds


@dataclass(frozen=True)
class Standing:
    """A place among ``of`` with the entry, 1 for the fastest; the next rungs on either side, where there are any."""

    place: int
    of: int
    faster: Record | None
    slower: Record | None


class Ladder:
    """The rungs of a device at each n, of forces by gravity in one number type, with errors that are accepted."""

    def __init__(
        self, records: Iterable[Record], parents: Parents, device: str, entry: Entry, tolerance: Tolerance
    ) -> None:
        """Rank the records of runs; the bodies are those of which most variants were measured."""
        wanted = {"timed": FORCE, "interaction": GRAVITY, "dtype": entry.head.precision}
        fit = [
            record
            for record in latest(records)
            if wanted.items() <= dict(record.conditions).items() and _is_as_right(record, tolerance)
        ]
        of_device = [by_n for shared, by_n in ladders(fit, parents).items() if shared.device == device]
        self._by_n = max(of_device, key=lambda by_n: sum(map(len, by_n.values())), default={})

    def standing(self, n: int, median_seconds: float) -> Standing | None:
        """Return where an evaluation of so many seconds stands; None where the run has no such n."""
        rungs = sorted((rung.best for rung in self._by_n.get(n, [])), key=seconds)
        if not rungs:
            return None
        faster = [record for record in rungs if seconds(record) < median_seconds]
        slower = rungs[len(faster) :]
        return Standing(len(faster) + 1, len(rungs) + 1, faster[-1] if faster else None, slower[0] if slower else None)


def _is_as_right(record: Record, tolerance: Tolerance) -> bool:
    return record.error_magnitude_max is not None and record.error_magnitude_max <= tolerance.max
