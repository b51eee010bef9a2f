"""The fastest configuration of each variant: the rungs of the ladder, and series over n, theta and GPUs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from gravbench.model.record import Record
from gravbench.model.toolkits import place_of
from gravbench.verdicts.question import fastest, fastest_of_each
from gravbench.verdicts.ranking import (
    TOLD,
    Conditions,
    Parents,
    conditions,
    grouped,
    is_ranked,
    ladder_order,
    root,
    row,
    seconds,
    size,
    with_axes,
)


@dataclass(frozen=True, slots=True)
class Rung:
    """The fastest configuration of one variant in one toolkit at one n, and how it compares.

    What presupposes something of the bodies is a rung beside the one that does not.

    ``compared`` counts the configurations it is the fastest of, itself included; ``others`` are the others, without
    the ``outraced``, of which a race measured only that they are behind and which are only counted.
    ``over_slowest`` is its speed over the slowest configuration's, ``over_parent`` over the fastest configuration of
    its parent in the same toolkit, the one that presupposes the same, or else nothing. ``over_first`` is its speed over
    ``first_step``. Each is None where there is none.
    """

    best: Record
    compared: int
    others: tuple[Record, ...]
    outraced: int
    over_slowest: float | None
    over_parent: float | None
    over_first: float | None


Ladders = dict[Conditions, dict[int, list[Rung]]]


def ladders(records: Iterable[Record], parents: Parents) -> Ladders:
    """Rank records under each of their conditions: by n ascending, the rungs in ladder order.

    ``records`` hold one record per case, as ``gravbench.model.runs.latest`` leaves them; those not ok are
    passed over. GPUs come before CPUs.
    """
    alike = grouped(filter(is_ranked, records), conditions)
    return {
        shared: {n: _rungs(same_n, parents) for n, same_n in sorted(grouped(of_conditions, size).items())}
        for shared, of_conditions in sorted(alike.items())
    }


def first_step(record: Record, records: Iterable[Record], parents: Parents) -> Record | None:
    """Return the record that a speed-up over the first step is over: of the first variant of the record's ladder.

    ``records`` compete with this one. It is the fastest configuration with the same number type in the same toolkit;
    without any, in the first toolkit that has one, and then of another number type. It presupposes what the record
    presupposes, or else nothing. None where the first variant was not measured.
    """
    name, presupposed = root(record.variant, parents), _presupposed(record)
    first = [
        candidate for candidate in records if candidate.variant == name and _presupposed(candidate) in (presupposed, "")
    ]
    alike = grouped(
        first,
        lambda candidate: (
            candidate.dtype != record.dtype,
            candidate.toolkit != record.toolkit,
            place_of(candidate.toolkit),
            _presupposed(candidate) != presupposed,
        ),
    )
    return fastest(alike[min(alike)]) if alike else None


def _presupposed(record: Record) -> str:
    return row(record).removeprefix(record.variant)


def _rungs(records: list[Record], parents: Parents) -> list[Rung]:
    tuned = grouped(records, lambda record: (row(record), record.toolkit))
    best = fastest_of_each(records, lambda record: (row(record), record.toolkit))

    def over(other: Record | None, record: Record) -> float | None:
        return seconds(other) / seconds(record) if other and is_known(other) and is_known(record) else None

    def is_known(record: Record) -> bool:
        """Tell whether no race stopped it, nor a faster configuration of its row."""
        same = tuned[row(record), record.toolkit]
        return not record.outraced and not any(one.outraced and seconds(one) < seconds(record) for one in same)

    def over_parent(record: Record) -> float | None:
        if (parent := parents.get(record.variant)) is None:
            return None
        other = best.get((parent + _presupposed(record), record.toolkit)) or best.get((parent, record.toolkit))
        return over(other, record)

    def over_slowest(record: Record) -> float | None:
        slowest = max(map(seconds, tuned[row(record), record.toolkit]))
        return slowest / seconds(record) if is_known(record) else None

    def place(rung: tuple[tuple[str, str], Record]) -> tuple[int, str, tuple[int, str]]:
        (name, toolkit), record = rung
        return order.index(record.variant), name, place_of(toolkit)

    order = ladder_order({record.variant for record in best.values()}, parents)
    return [
        Rung(
            best=record,
            compared=len(tuned[which]),
            others=tuple(other for other in tuned[which] if other is not record and not other.outraced),
            outraced=sum(other.outraced for other in tuned[which] if other is not record),
            over_slowest=over_slowest(record),
            over_parent=over_parent(record),
            over_first=over(first_step(record, records, parents), record),
        )
        for which, record in sorted(best.items(), key=place)
    ]


def fastest_with_stages(records: Iterable[Record]) -> dict[tuple[Conditions, str], list[Record]]:
    """Return, for each variant under each of its conditions, the fastest record with stages at each n."""
    return _series((record for record in records if record.stages_seconds), _technique, size)


def over_theta(records: Iterable[Record]) -> dict[tuple[Conditions, str, int], list[Record]]:
    """Return, for each variant and n with several theta, the fastest record of each theta in their order."""
    with_theta = (record for record in records if isinstance(record.axes.get("theta"), int | float))
    series = _series(with_theta, lambda record: (*_technique(record), record.n), lambda record: record.axes["theta"])
    return {which: alike for which, alike in series.items() if len(alike) > 1}


def over_gpus(records: Iterable[Record]) -> dict[tuple[Conditions, str], list[Record]]:
    """Return, for what was measured on several GPUs of a host, the fastest record of each n and number of GPUs.

    They are in the order of n and then of that number; what presupposes something of the bodies is apart.
    """
    others = {axis: usual for axis, usual in TOLD.items() if axis != "gpus"}
    series = _series(
        (record for record in records if "gpus" in record.axes),
        lambda record: (conditions(record), f"{with_axes(record, others)}, {record.toolkit}"),
        lambda record: (record.n, record.gpus),
    )
    return {which: alike for which, alike in series.items() if any(record.gpus > 1 for record in alike)}


def _series(
    records: Iterable[Record], technique: Callable[[Record], Any], place: Callable[[Record], Any]
) -> dict[Any, list[Record]]:
    """Return for each technique the fastest record at each place, in the order of these."""
    alike = sorted(grouped(filter(is_ranked, records), technique).items())
    return {
        which: [fastest for _, fastest in sorted(fastest_of_each(records_alike, place).items())]
        for which, records_alike in alike
    }


def _technique(record: Record) -> tuple[Conditions, str]:
    return conditions(record), record.variant
