"""The best of a sweep for each n: all configurations that cannot be told from the fastest, the simplest first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness import compare
from harness.compare import Defaults, Scatter
from harness.errors import InputError
from harness.record import Record, Value, latest
from harness.variant import TOOLKITS

ERROR = 1e-3
"""The largest relative error that is asked for when nobody says: every direct sum has less."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What to use at one n: the simplest of ``as_good``, which are all that cannot be told from the fastest.

    ``compared`` counts the configurations that are right enough; ``changed`` says that the n before has another.
    """

    n: int
    as_good: list[Record]
    fastest: Record
    compared: int
    changed: bool

    @property
    def chosen(self) -> Record:
        """The record of what to use."""
        return self.as_good[0]

    @property
    def behind(self) -> float:
        """How much longer the chosen one takes than the fastest, by their medians, as a part."""
        return (self.chosen.median_seconds or 0.0) / (self.fastest.median_seconds or 1.0) - 1


@dataclass(frozen=True, slots=True)
class Selection:
    """The choices for one device and task; ``task`` names what all of its records share."""

    device: str
    task: dict[str, Value]
    choices: list[Choice]


def best(
    records: Sequence[Record],
    defaults: Defaults,
    *,
    error: float = ERROR,
    device: str | None = None,
    threshold: float = compare.THRESHOLD,
) -> list[Selection]:
    """Choose, for every device, task and n, among the records whose largest error is at most ``error``.

    A configuration cannot be told from the fastest unless its whole interval lies more than the ``threshold``
    above; where the samples are too few for an interval, unless all of them do. The simplest has the fewest axes away
    from the ``defaults`` of its variant, then comes the order of the variants in ``defaults``, which is the ladder's.
    ``device`` is ``cpu``, ``gpu`` or a part of a device's name or UUID.

    Raises:
        InputError: no record is of such a device, or none is right enough.
    """
    place = compare.places([records])
    scattered = compare.scatters([records], place)
    ok = [record for record in latest(records) if compare.is_ok(record)]
    there = [record for record in ok if device is None or _is_of(record, device)]
    if device is not None and ok and not there:
        names = ", ".join(sorted({place(record) for record in ok}))
        raise InputError(f"--device {device}: no record is of it; accepted: cpu, gpu, or a part of {names}")
    right = [record for record in there if record.error_max is not None and record.error_max <= error]
    if not right:
        least = min((record.error_max for record in there if record.error_max is not None), default=None)
        why = "no record is ok" if least is None else f"the least error of a record is {least:.1e}"
        raise InputError(f"--error {error:g}: no record is right enough; {why}")
    groups: dict[tuple[str, tuple[tuple[str, Value], ...]], dict[int, list[Record]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for record in right:
        groups[place(record), tuple(_task(record).items())][record.n].append(record)
    simplicity = _simplicity(defaults)
    found = []
    for (name, task), by_n in groups.items():
        choices: list[Choice] = []
        for n in sorted(by_n):
            as_good, fastest = _as_good(by_n[n], scattered.get(name, Scatter()), threshold)
            as_good.sort(key=simplicity)
            changed = bool(choices) and _what(choices[-1].chosen) != _what(as_good[0])
            choices.append(Choice(n, as_good, fastest, len(by_n[n]), changed))
        found.append(Selection(name, dict(task), choices))
    # GPUs first.
    return sorted(found, key=lambda one: (one.choices[0].chosen.toolkit == "cpu", one.device, str(one.task)))


def _is_of(record: Record, device: str) -> bool:
    word = device.lower()
    if word in ("cpu", "gpu"):
        return (record.toolkit == "cpu") == (word == "cpu")
    return word in (record.device or "").lower() or word in (record.device_uuid or "").lower()


def _task(record: Record) -> dict[str, Value]:
    """Name what has to be equal beside n: times of other tasks are no competitors."""
    task: dict[str, Value] = {
        "bodies": Path(record.bodies).name,
        "subset": record.subset,
        "seed": record.seed,
        "eps": record.eps,
        "dtype": record.dtype,
        "interaction": record.interaction,
        "timed": record.timed,
    }
    if record.dt is not None:
        task |= {"integrator": record.integrator or "", "dt": record.dt}
    if record.axes.get("dim", 3) != 3:  # in the plane
        task["dim"] = record.axes["dim"]
    return task


def _as_good(records: list[Record], scatter: Scatter, threshold: float) -> tuple[list[Record], Record]:
    fastest = min(records, key=_seconds)
    own = compare.span(fastest)
    limit = 1 + threshold
    as_good = [
        record
        for record in records
        if record is fastest or not compare.ratio(own, compare.span(record), scatter.of_ratio).low > limit
    ]
    return as_good, fastest


def _seconds(record: Record) -> float:
    return record.median_seconds or 0.0


def _what(record: Record) -> tuple[str, str, Mapping[str, Value]]:
    return record.variant, record.toolkit, record.axes


def _simplicity(defaults: Defaults) -> Callable[[Record], tuple[int, int, int, float]]:
    """Return the sort key: axes away from the defaults, place in the ladder, toolkit, time."""
    place = {name: i for i, name in enumerate(defaults)}

    def key(record: Record) -> tuple[int, int, int, float]:
        own = defaults.get(record.variant, {})
        away = sum(name not in own or own[name] != value for name, value in record.axes.items())
        toolkit = TOOLKITS.index(record.toolkit) if record.toolkit in TOOLKITS else len(TOOLKITS)
        return away, place.get(record.variant, len(place)), toolkit, _seconds(record)

    return key
