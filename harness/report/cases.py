"""The fastest case of each variant and toolkit in a run, for tables of what was measured under the same conditions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gravbench.errors import InputError
from gravbench.model.record import Record
from gravbench.model.runs import latest
from gravbench.verdicts import ranking
from gravbench.verdicts.question import fastest_of_each


@dataclass(frozen=True, slots=True)
class Timed:
    """A case, its interactions per second where they are counted, and the seconds of one evaluation."""

    record: Record
    speed: float | None
    seconds: float


def fastest_cases(records: Iterable[Record], n: int) -> dict[tuple[str, str], Timed]:
    """Return the fastest float32 evaluation of n bodies of each variant and toolkit.

    Raises:
        InputError: they were not all measured under the same conditions, or there are none.
    """
    float32_cases = [
        record
        for record in latest(records)
        if ranking.is_ranked(record) and (record.n, record.dtype, record.timed) == (n, "float32", "force")
    ]
    conditions = {ranking.conditions(record) for record in float32_cases}
    if len(conditions) != 1:
        raise InputError(f"N = {n:,} in float32 was measured under {len(conditions)} conditions; accepted: one")
    best = fastest_of_each(float32_cases, lambda record: (record.variant, record.toolkit))
    return {key: Timed(record, ranking.speed(record), ranking.seconds(record)) for key, record in best.items()}
