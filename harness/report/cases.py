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
    own = [
        one
        for one in latest(records)
        if ranking.is_ranked(one) and (one.n, one.dtype, one.timed) == (n, "float32", "force")
    ]
    conditions = {ranking.conditions(one) for one in own}
    if len(conditions) != 1:
        raise InputError(f"N = {n:,} in float32 was measured under {len(conditions)} conditions; accepted: one")
    best = fastest_of_each(own, lambda one: (one.variant, one.toolkit))
    return {key: Timed(one, ranking.speed(one), ranking.seconds(one)) for key, one in best.items()}
