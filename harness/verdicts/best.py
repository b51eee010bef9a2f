"""The best of a sweep for each n: all configurations that cannot be told from the fastest, the simplest first."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gravbench.errors import InputError, nearest
from gravbench.model.case import CONDITIONS, PROBLEM_AXES, Value, brief
from gravbench.model.record import Record
from gravbench.model.runs import latest
from gravbench.model.toolkits import place_of
from gravbench.model.variant import CPU
from gravbench.verdicts import compare, ranking
from gravbench.verdicts.compare import Defaults, Scatter
from gravbench.verdicts.ranking import grouped, is_ranked, seconds, size

ERROR = 1e-3
"""The largest relative error that is asked for when nobody says: every direct sum has less."""

EQUAL_MASS = "equal_mass"
"""The axis whose value 1 is fast, or as right as it was found to be, only where all bodies weigh the same."""


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
        return seconds(self.chosen) / seconds(self.fastest) - 1


@dataclass(frozen=True, slots=True)
class Selection:
    """The choices for one device and task; ``task`` names what all of its records share.

    ``missed`` has each n at which nothing is right enough, with the least error that a record has there.
    """

    device: str
    task: Mapping[str, Value]
    choices: list[Choice]
    missed: dict[int, float]


def best(
    records: Sequence[Record],
    defaults: Defaults,
    *,
    error: float = ERROR,
    device: str | None = None,
    dtype: str | None = None,
    threshold: float = compare.THRESHOLD,
) -> list[Selection]:
    """Choose, for every device, task and n, among the records whose largest error is at most ``error``.

    The number type is no part of the task: the error that is asked for decides, unless ``dtype`` names one.

    A configuration cannot be told from the fastest unless its whole interval lies more than the ``threshold``
    above; where the samples are too few for an interval, unless all of them do. The simplest has the fewest axes away
    from the ``defaults`` of its variant, then comes the order of the variants in ``defaults``, which is the ladder's.
    ``device`` is ``cpu``, ``gpu`` or a part of a device's name or UUID.

    Raises:
        InputError: no record is of such a device or number type, or none is right enough.
    """
    place = compare.places([records])
    scattered = compare.scatters([records], place)
    ok = list(filter(is_ranked, latest(records)))
    there = [record for record in ok if device is None or is_of(record, device)]
    if ok and not there:
        names = ", ".join(sorted({place(record) for record in ok}))
        raise InputError(f"--device {device}: no record is of it; accepted: cpu, gpu, or a part of {names}")
    types: list[str] = sorted({record.dtype for record in there})
    if dtype is not None and there and dtype not in types:
        raise InputError(f"--dtype {dtype}: no record is of it; {nearest(dtype, types)}")
    judged = [record for record in there if record.error_max is not None and dtype in (None, record.dtype)]
    least = min(map(_error, judged), default=None)
    if least is None or least > error:
        why = "no record is ok" if least is None else f"the least error of a record is {least:.1e}"
        raise InputError(f"--error {error:g}: no record is right enough; {why}")
    several = ranking.told_apart(judged)

    def kind(record: Record) -> tuple[str, tuple[tuple[str, Value], ...]]:
        contents = {name: brief(name, value) for name, value in record.contents.items() if name in several}
        return place(record), tuple((task(record) | contents).items())

    found = []
    for (name, shared), alike in grouped(judged, kind).items():
        choices: list[Choice] = []
        missed = {}
        for n, together in sorted(grouped(alike, size).items()):
            right = [record for record in together if _error(record) <= error]
            if not right:
                missed[n] = min(map(_error, together))
                continue
            good, fastest = as_good(right, scattered.get(name, Scatter()), threshold, defaults)
            changed = bool(choices) and what(choices[-1].chosen) != what(good[0])
            choices.append(Choice(n, good, fastest, len(right), changed))
        if choices:
            found.append(Selection(name, dict(shared), choices, missed))
    # GPUs first.
    return sorted(found, key=lambda one: (one.choices[0].chosen.toolkit == CPU, one.device, str(one.task)))


def is_of(record: Record, device: str) -> bool:
    """Tell whether ``device``, ``cpu``, ``gpu`` or a part of a name or UUID, means that of a record."""
    word = device.lower()
    if word in ("cpu", "gpu"):
        return (record.toolkit == CPU) == (word == "cpu")
    return word in (record.device or "").lower() or word in (record.device_uuid or "").lower()


def task(record: Record) -> dict[str, Value]:
    """Name what has to be equal beside n: times of other tasks are no competitors."""
    return {
        name: value
        for name, value in record.conditions.items()
        if CONDITIONS[name].kind != "precision" and not CONDITIONS[name].content_of
        if not (name in PROBLEM_AXES and value == PROBLEM_AXES[name].usual)
    }


def as_good(
    records: Sequence[Record], scatter: Scatter, threshold: float, defaults: Defaults
) -> tuple[list[Record], Record]:
    """Return those that cannot be told from the fastest, itself included, the simplest first; and the fastest.

    Simpler is what has fewer axes away from the defaults, then the place in the ladder, the toolkit and time decide.
    """
    fastest = min(records, key=seconds)
    own = compare.span(fastest)
    place = {name: i for i, name in enumerate(defaults)}

    def slower(record: Record) -> bool:
        return compare.ratio(own, compare.span(record), scatter.of_ratio).low > 1 + threshold

    def simplicity(record: Record) -> tuple[int, int, int, str, float]:
        away = len(compare.away(record, defaults))
        return away, place.get(record.variant, len(place)), *place_of(record.toolkit), seconds(record)

    return sorted((one for one in records if one is fastest or not slower(one)), key=simplicity), fastest


def _error(record: Record) -> float:
    return math.inf if record.error_max is None else record.error_max


def what(record: Record) -> tuple[Any, ...]:
    """Return what tells one way to compute from another: variant, toolkit, number type and axes."""
    return record.variant, record.toolkit, record.dtype, *sorted(record.axes.items())
