"""What verdicts and reports look at in records: conditions, names, order in the ladder and drift.

Only records whose status is ok take part; two of them are compared only where everything but the variant, the
toolkit and the axes is equal.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from gravbench.model.case import CONDITIONS, Value, word
from gravbench.model.record import Record
from gravbench.model.variant import CPU

Thing = TypeVar("Thing")
Key = TypeVar("Key")
Parents = Mapping[str, str | None]

DRIFT_LIMIT = 0.01
"""The relative spread of the anchor above which a run is said to have drifted."""

PRESUPPOSED: Mapping[str, Value] = {"equal_mass": 0, "gpus": 1}
"""Axes by which a kernel presupposes something of the bodies or of the host, and the values that presuppose nothing,
their defaults.

With another value a variant has a row of its own in the ladder."""

TOLD: Mapping[str, Value] = {**PRESUPPOSED, "terms": 2, "theta": 0.7}
"""Axes that change what is presupposed or computed, and their defaults: another value stands beside the name."""


class Conditions(NamedTuple):
    """What has to be equal, beside n, before two speeds may be compared. Unknown devices are empty strings.

    ``task`` has the names and values of ``Case.conditions``.
    """

    cpu: bool
    device: str
    device_uuid: str
    task: tuple[tuple[str, Value], ...]


@dataclass(frozen=True, slots=True)
class Drift:
    """The repetitions of one anchor. ``spread`` is (largest - smallest) / median of their medians."""

    anchor: Record
    repetitions: int
    not_ok: int
    spread: float | None

    @property
    def beyond(self) -> bool:
        """Whether the spread is above the limit."""
        return self.spread is not None and self.spread > DRIFT_LIMIT


def is_ranked(record: Record) -> bool:
    """Tell whether the record may be compared: verified, and with a median that is a positive number."""
    return record.status == "ok" and seconds(record) > 0


def seconds(record: Record) -> float:
    """Return the median time of one evaluation, NaN where it is missing or not finite."""
    median = record.median_seconds
    return median if median is not None and math.isfinite(median) else math.nan


def size(record: Record) -> int:
    """Return n."""
    return record.n


def speed(record: Record) -> float | None:
    """Return the interactions per second that the median time means: an approximation counts a part of them.

    None where it does not count them: a time over n * n is not what was computed in it.
    """
    return None if record.uncounted else record.evaluated / seconds(record)


def is_partial(record: Record) -> bool:
    """Tell whether an evaluation computes another number of interactions than n * n: an approximation does."""
    return record.evaluated != record.interactions


def row(record: Record) -> str:
    """Name the row of the ladder that a record belongs to: ``symmetric``, or ``symmetric equal_mass=1``."""
    return with_axes(record, PRESUPPOSED)


def named(record: Record) -> str:
    """Name a variant, with each axis that makes it compute or presuppose something else than by default."""
    return with_axes(record, TOLD)


def with_axes(record: Record, usual: Mapping[str, Value]) -> str:
    """Name a variant, with each of these axes whose value is not the usual one."""
    changed = [word(axis, at) for axis, at in record.axes.items() if axis in usual and at != usual[axis]]
    return " ".join([record.variant, *changed])


def unbounded(record: Record) -> bool:
    """Tell whether nothing bounds the median: the samples are too few."""
    low, high = record.ci_low, record.ci_high
    return low is None or high is None or not 0 < low <= high < math.inf


def conditions(record: Record) -> Conditions:
    """Return what another record has to share, beside n, to be compared with this one."""
    task = tuple(record.conditions.items())
    return Conditions(record.toolkit == CPU, *_device(record), task)


def grouped(things: Iterable[Thing], key: Callable[[Thing], Key]) -> dict[Key, list[Thing]]:
    """Put together what has the same key, in the order of first use."""
    groups: dict[Key, list[Thing]] = {}
    for thing in things:
        groups.setdefault(key(thing), []).append(thing)
    return groups


def told_apart(records: Iterable[Record]) -> set[str]:
    """Name the conditions in which records differ; a file's content where files of one name do."""
    # Records of one task share its conditions: each is looked at once.
    tasks = list({id(task): task for task in (record.conditions for record in records)}.values())
    pairs_of = {
        name: {(task.get(part.content_of), task.get(name)) for task in tasks} for name, part in CONDITIONS.items()
    }
    return {name for name, pairs in pairs_of.items() if len(pairs) > len({owner for owner, _ in pairs})}


def ladder_order(names: Collection[str], parents: Parents) -> list[str]:
    """Sort variants: each known one behind its parent and its parent's earlier children, then the unknown ones."""
    children = grouped(parents, lambda name: parents[name] if parents[name] in parents else None)

    def below(parent: str | None) -> Iterator[str]:
        for name in children.get(parent, []):
            yield name
            yield from below(name)

    # A circle of parents has no first variant and is not reached from above.
    ordered = list(below(None))
    return [name for name in ordered if name in names] + sorted(set(names).difference(ordered))


def root(name: str, parents: Parents) -> str | None:
    """Follow the parents to the first variant of the ladder; None for an unknown variant or a circle."""
    if name not in parents:
        return None
    seen = {name}
    while (parent := parents.get(name)) is not None:
        if parent in seen:
            return None
        seen.add(parent)
        name = parent
    return name


def repetitions(records: Iterable[Record], chosen: Callable[[Record], bool] = bool) -> list[list[Record]]:
    """Return the ``chosen`` repetitions of each anchor, over all records and not only the latest.

    Another driver or source makes another anchor: their difference is neither drift nor scatter.
    """
    anchors = (record for record in records if record.anchor and chosen(record))
    return list(grouped(anchors, lambda record: record.what_ran).values())


def drifts(records: Iterable[Record]) -> list[Drift]:
    """Say how far the repetitions of each anchor lie apart."""
    drifted_anchors = []
    for repeated in repetitions(records):
        medians = [seconds(record) for record in repeated if is_ranked(record)]
        spread = (max(medians) - min(medians)) / statistics.median(medians) if len(medians) > 1 else None
        drifted_anchors.append(Drift(repeated[0], len(medians), len(repeated) - len(medians), spread))
    return drifted_anchors


def drifted(records: Iterable[Record]) -> list[Drift]:
    """Return the drifts beyond the limit."""
    return [drift for drift in drifts(records) if drift.beyond]


def affecting(drifts: Iterable[Drift], *places: Conditions) -> list[Drift]:
    """Return the drifts beyond the limit of the devices that records under these conditions were measured on."""
    devices = {(shared.device, shared.device_uuid) for shared in places}
    return [drift for drift in drifts if drift.beyond and _device(drift.anchor) in devices]


def _device(record: Record) -> tuple[str, str]:
    return record.device or "", record.device_uuid or ""


def namesakes(records: Iterable[Record]) -> set[str]:
    """Return the names that several devices have; one without a UUID is none beside another of its name."""
    known = {(record.device or "", record.device_uuid) for record in records if record.device_uuid}
    by_name = grouped(known, lambda device: device[0])
    return {name for name, devices in by_name.items() if len(devices) > 1}
