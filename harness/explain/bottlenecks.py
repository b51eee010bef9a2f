"""What most of the time of each record of a run goes to: the largest part of its waterfall, in one phrase."""

from __future__ import annotations

from collections.abc import Iterable

from gravbench.explain.model import architecture_of
from gravbench.explain.peaks import Peaks
from gravbench.explain.validation import of_each
from gravbench.explain.waterfall import UNEXPLAINED, Part, waterfall
from gravbench.model.bottlenecks import ISSUE_BOUND, Limit
from gravbench.model.record import Record

ISSUED = ("arithmetic", "other instructions")
"""Parts of the time in which the schedulers issue."""


def limits_of(records: Iterable[Record], rates: Peaks) -> tuple[list[Limit], dict[str, str]]:
    """Find the largest part of the time of each record of a direct sum; return also why others have none, by variant.

    Records whose kernel is not what this checkout has are left out.
    """
    return of_each(records, lambda record: limit_of(record, waterfall(record, architecture_of(record), rates)))


def limit_of(record: Record, parts: Iterable[Part]) -> Limit:
    """Return the largest of the parts of a record's time; the instructions that are issued are one of them.

    Its share is that of the measured time, or of the predicted time if that is longer.
    """
    assert record.median_seconds  # it is one that has parts
    shares: dict[str, float] = {}
    reasons: dict[str, list[str]] = {}
    parts = tuple(parts)
    measured = 1e12 * record.median_seconds / record.evaluated
    whole = max(measured, sum(part.picoseconds for part in parts if part.name != UNEXPLAINED))
    for part in parts:
        name = ISSUE_BOUND if part.name in ISSUED else part.name
        shares[name] = shares.get(name, 0.0) + part.picoseconds / whole
        reasons.setdefault(name, []).append(part.reason)
    largest = max(shares, key=lambda name: shares[name])
    return Limit(
        key=record.key,
        started=record.started,
        seconds=record.median_seconds,
        part=largest,
        share=round(shares[largest], 4),
        reason="; ".join(reasons[largest]),
    )
