"""What the reports compute from records: rungs of the ladder, speed-ups, ties and drift.

Only records whose status is ok take part; two of them are compared only where everything but the variant, the
toolkit and the axes is equal.
"""

from __future__ import annotations

import json
import math
import statistics
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from gravbench.model.case import CONTENTS
from gravbench.model.record import Record
from gravbench.model.variant import TOOLKITS

Parents = Mapping[str, str | None]

DRIFT_LIMIT = 0.01
"""The relative spread of the anchor above which a run is said to have drifted."""


class Conditions(NamedTuple):
    """What has to be equal, beside n, before two speeds may be compared. Unknown devices are empty strings.

    Without a step, ``integrator`` is empty and ``dt`` zero; without files, their hashes are empty.
    """

    cpu: bool
    device: str
    device_uuid: str
    bodies: str
    subset: str
    seed: int
    eps: float
    dtype: str
    timed: str
    interaction: str
    integrator: str
    dt: float
    bodies_file_sha256: str
    interaction_sha256: str


@dataclass(frozen=True, slots=True)
class Rung:
    """The fastest configuration of one variant in one toolkit at one n, and how it compares.

    ``compared`` counts the configurations it is the fastest of, itself included; ``indistinct`` those of the
    others that cannot be told from it because the confidence intervals overlap, or one of the two has none.
    ``over_slowest`` is its speed over the slowest configuration's; ``over_parent`` and ``over_root`` its speed
    over the fastest configuration of its parent and of the ladder's first variant, None where there is none.
    """

    best: Record
    compared: int
    indistinct: int
    over_slowest: float
    over_parent: float | None
    over_root: float | None


Ladders = dict[Conditions, dict[int, list[Rung]]]


@dataclass(frozen=True, slots=True)
class Drift:
    """The repetitions of one anchor. ``spread`` is (largest - smallest) / median of their medians."""

    anchor: Record
    repetitions: int
    not_ok: int
    spread: float | None


def is_ranked(record: Record) -> bool:
    """Tell whether the record may be compared: verified, and with a median that is a positive number."""
    return record.status == "ok" and seconds(record) > 0


def seconds(record: Record) -> float:
    """Return the median time of one evaluation, NaN where it is missing or not finite."""
    median = record.median_seconds
    return median if median is not None and math.isfinite(median) else math.nan


def speed(record: Record) -> float:
    """Return the interactions per second that the median time means: an approximation counts a part of them."""
    return record.evaluated / seconds(record)


def half_width(record: Record) -> float | None:
    """Return half the width of the confidence interval over the median, None without an interval."""
    if record.ci_low is None or record.ci_high is None:
        return None
    return (record.ci_high - record.ci_low) / 2 / seconds(record)


def conditions(record: Record) -> Conditions:
    """Return what another record has to share, beside n, to be compared with this one."""
    return Conditions(
        cpu=record.toolkit == "cpu",
        device=record.device or "",
        device_uuid=record.device_uuid or "",
        # Named as in the key of a case: the folder it was read from changes nothing.
        bodies=Path(record.bodies).name,
        subset=record.subset,
        seed=record.seed,
        eps=record.eps,
        dtype=record.dtype,
        timed=record.timed,
        interaction=record.interaction,
        integrator=record.integrator or "",
        dt=record.dt or 0.0,
        bodies_file_sha256=record.bodies_file_sha256 or "",
        interaction_sha256=record.interaction_sha256 or "",
    )


def told_apart(records: Iterable[Record]) -> set[str]:
    """Name the contents by which records of one file's name differ, so that the name does not say which is meant."""
    found: dict[tuple[str, str], set[str | None]] = defaultdict(set)
    for record in records:
        for name in CONTENTS:
            file = record.bodies if name.startswith("bodies") else record.interaction
            found[name, file].add(getattr(record, name))
    return {name for (name, _), values in found.items() if len(values) > 1}


def ladder_order(names: Collection[str], parents: Parents) -> list[str]:
    """Sort variants: each known one behind its parent and its parent's earlier children, then the unknown ones."""
    children: dict[str | None, list[str]] = defaultdict(list)
    for name, parent in parents.items():
        children[parent if parent in parents else None].append(name)
    ordered: dict[str, None] = {}
    waiting = children[None][::-1]
    while waiting:
        name = waiting.pop()
        ordered[name] = None
        waiting += children[name][::-1]
    present = set(names)
    # A circle of parents has no first variant and is not reached above.
    return [name for name in ordered if name in present] + sorted(present - ordered.keys())


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


def toolkit_order(toolkit: str) -> tuple[int, str]:
    """Sort key: the toolkits in the order the harness names them, then others by name."""
    return (TOOLKITS.index(toolkit) if toolkit in TOOLKITS else len(TOOLKITS), toolkit)


def ladders(records: Iterable[Record], parents: Parents) -> Ladders:
    """Rank records under each of their conditions: by n ascending, the rungs in ladder order.

    ``records`` hold one record a case, as ``harness.record.latest`` leaves them; those that are not ok are
    passed over. GPUs come before CPUs.
    """
    grouped: dict[Conditions, dict[int, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        if is_ranked(record):
            grouped[conditions(record)][record.n].append(record)
    return {shared: {n: _rungs(by_n[n], parents) for n in sorted(by_n)} for shared, by_n in sorted(grouped.items())}


def _rungs(records: list[Record], parents: Parents) -> list[Rung]:
    tuned: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in records:
        tuned[record.variant, record.toolkit].append(record)
    best = {which: min(configurations, key=seconds) for which, configurations in tuned.items()}

    def gain(record: Record, over: str | None) -> float | None:
        other = best.get((over, record.toolkit)) if over is not None else None
        return seconds(other) / seconds(record) if other is not None else None

    place = {name: i for i, name in enumerate(ladder_order({name for name, _ in best}, parents))}
    return [
        Rung(
            best=best[which],
            compared=len(tuned[which]),
            indistinct=_indistinct(best[which], tuned[which]),
            over_slowest=max(map(seconds, tuned[which])) / seconds(best[which]),
            over_parent=gain(best[which], parents.get(which[0])),
            over_root=gain(best[which], root(which[0], parents)),
        )
        for which in sorted(best, key=lambda which: (place[which[0]], toolkit_order(which[1])))
    ]


def _indistinct(best: Record, configurations: list[Record]) -> int:
    others = (record for record in configurations if record is not best)
    if best.ci_high is None:
        return len(configurations) - 1
    # Not "<=": an interval that is NaN tells nothing apart.
    return sum(other.ci_low is None or not other.ci_low > best.ci_high for other in others)


def drifts(records: Iterable[Record]) -> list[Drift]:
    """Say how far the repetitions of each anchor lie apart, over all records and not only the latest."""
    repeated: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        if record.anchor >= 1:
            # Another driver or source makes another anchor: their difference is no drift.
            repeated[record.key + json.dumps(record.fingerprint, sort_keys=True)].append(record)
    return [_drift(repetitions) for repetitions in repeated.values()]


def _drift(repetitions: list[Record]) -> Drift:
    medians = [seconds(record) for record in repetitions if is_ranked(record)]
    spread = (max(medians) - min(medians)) / statistics.median(medians) if len(medians) > 1 else None
    return Drift(repetitions[0], len(medians), len(repetitions) - len(medians), spread)


def fastest_with_stages(records: Iterable[Record]) -> dict[tuple[Conditions, str], list[Record]]:
    """Return, for each variant under each of its conditions, the fastest record with stages at each n."""
    told = [record for record in records if is_ranked(record) and record.stages_seconds]
    found: dict[tuple[Conditions, str], list[Record]] = {}
    for which, alike in _grouped(told).items():
        fastest: dict[int, Record] = {}
        for record in alike:
            if record.n not in fastest or seconds(record) < seconds(fastest[record.n]):
                fastest[record.n] = record
        found[which] = [fastest[n] for n in sorted(fastest)]
    return found


def over_theta(records: Iterable[Record]) -> dict[tuple[Conditions, str, int], list[Record]]:
    """Return, for each variant and n with several theta, the fastest record of each theta in their order."""
    told = [record for record in records if is_ranked(record) and "theta" in record.axes]
    return {
        (shared, name, n): sorted(by_theta.values(), key=lambda record: float(record.axes["theta"]))
        for (shared, name), alike in _grouped(told).items()
        for n, by_theta in _fastest_of_theta(alike).items()
        if len(by_theta) > 1
    }


def _fastest_of_theta(records: Iterable[Record]) -> dict[int, dict[float, Record]]:
    found: dict[int, dict[float, Record]] = defaultdict(dict)
    for record in records:
        own, theta = found[record.n], float(record.axes["theta"])
        if theta not in own or seconds(record) < seconds(own[theta]):
            own[theta] = record
    return found


def _grouped(records: Iterable[Record]) -> dict[tuple[Conditions, str], list[Record]]:
    groups: dict[tuple[Conditions, str], list[Record]] = defaultdict(list)
    for record in records:
        dim = f" dim={record.axes['dim']}" if "dim" in record.axes else ""
        groups[conditions(record), record.variant + dim].append(record)
    return dict(sorted(groups.items()))


def _by_conditions(records: Iterable[Record]) -> dict[Conditions, list[Record]]:
    groups: dict[Conditions, list[Record]] = defaultdict(list)
    for record in records:
        groups[conditions(record)].append(record)
    return dict(sorted(groups.items()))
