"""What is the fastest? The one question of ``report``, ``best``, pages, pictures and tables, and how it is answered.

1. Competitors are records that are verified and have a positive median (``is_ranked``), the newest of each case. Of
   cases that differ in the seed alone, one competes: the median over the seeds, with the largest error of any.
2. They share the device, n and everything in ``task``; the number type is no part of it, because the error decides.
3. The error is a ``quantile`` of the relative errors of the bodies, that of 99 % of them unless another is asked for,
   and it is at most ``error``. A record without the quantile counts with the next larger one that it has, which is at
   least as large. The largest error of a sample of the bodies counts as what that of all n is expected to be.
4. What presupposes something takes part unless the question leaves it out: ``unequal_masses`` leaves out what is fast
   only where all bodies weigh the same, ``direct`` leaves out approximations. Where an order of the bodies may not be
   made beforehand, whoever asks leaves out what ``report.provenance.Here.untimed`` names.
5. The fastest has the smallest median. What a race stopped was not measured in full: it is behind everything that was.
6. Another is distinguished from the fastest where the whole interval of the ratio of their times (``over``) is above 1;
   it includes what samples, processes and anchors differ by. Elsewhere the two are UNCLEAR, and the smaller median is
   still called the fastest. ``best`` recommends the simplest of those whose medians are as good.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gravbench.errors import InputError, nearest
from gravbench.model.case import CONDITIONS, PROBLEM_AXES, Value, brief
from gravbench.model.record import LARGEST, QUANTILES, Record
from gravbench.model.runs import latest
from gravbench.model.statistics import CONFIDENCE
from gravbench.model.variant import CPU
from gravbench.verdicts import ranking
from gravbench.verdicts.cards import card_of
from gravbench.verdicts.ranking import Key, grouped, is_partial, is_ranked, seconds
from gravbench.verdicts.ratios import Interval, half_of, own_scatter, places, ratio, span
from gravbench.verdicts.seeds import over_seeds
from gravbench.verdicts.uncertainty import Uncertainties

ERROR = 1e-3
"""The relative error that is asked for when nobody says: every direct sum has less."""

QUANTILE = 0.99
"""The fraction of the bodies that an error is asked of when nobody says: a single body decides nothing."""

ACCEPTED_QUANTILES = ", ".join(f"{quantile:g}" for quantile in QUANTILES)

EQUAL_MASS = "equal_mass"
"""The axis whose value 1 is fast, or as right as it was found to be, only where all bodies weigh the same."""


@dataclass(frozen=True, slots=True)
class Question:
    """What the fastest has to be: within ``error`` for the ``quantile`` of the bodies, and as the rules above say.

    ``dtype`` names the only number type and ``bodies`` the only kind of bodies, None any.
    """

    error: float = ERROR
    quantile: float = QUANTILE
    dtype: str | None = None
    bodies: str | None = None
    unequal_masses: bool = False
    direct: bool = False

    def error_of(self, record: Record) -> float:
        """Return the error of a record that is compared with the limit."""
        return error_of(record, self.quantile)

    def suits(self, record: Record) -> bool:
        """Tell whether a record may answer, whatever its error is."""
        return not (
            (self.dtype is not None and record.dtype != self.dtype)
            or (self.bodies is not None and record.bodies != self.bodies)
            or (self.unequal_masses and record.axes.get(EQUAL_MASS) == 1)
            or (self.direct and is_partial(record))
        )

    def admits(self, record: Record) -> bool:
        """Tell whether a record is an answer."""
        return self.suits(record) and self.error_of(record) <= self.error


USUAL = Question()
ANY = Question(error=math.inf)
"""Asks for no error."""


@dataclass(frozen=True, slots=True)
class Behind:
    """A record beside the fastest: ``interval`` bounds its time over the time of that.

    It is ``sure`` where both have samples enough; elsewhere it is the range of those there are, and bounds nothing.
    It is ``narrow`` where it does not include what processes differ by in such work.
    """

    record: Record
    interval: Interval
    sure: bool
    narrow: bool = False


@dataclass(frozen=True, slots=True)
class Contest:
    """The records of one device and task, at every n. ``task`` has the names and values that all of them share."""

    device: str
    cpu: bool
    task: Mapping[str, Value]
    records: list[Record]


def fastest(records: Iterable[Record], question: Question = ANY) -> Record | None:
    """Return the fastest of records that compete with each other, by the rules above; None where nothing answers."""
    return next(iter(by_time(filter(question.admits, records))), None)


def by_time(records: Iterable[Record]) -> list[Record]:
    """Sort records that compete with each other, the fastest first."""
    return sorted(records, key=lambda record: (record.outraced, seconds(record)))


def fastest_of_each(
    records: Iterable[Record], key: Callable[[Record], Key], question: Question = ANY
) -> dict[Key, Record]:
    """Return the fastest record of each key, in the order of first use."""
    alike = grouped(filter(question.admits, records), key)
    return {which: by_time(records_alike)[0] for which, records_alike in alike.items()}


def contests(runs: Sequence[Sequence[Record]]) -> list[Contest]:
    """Put together what competes: of a case in several runs the last has its say, and what has no error takes no part.

    ``runs`` are those that ``gravbench.verdicts.cards.together`` returns.
    """
    place = places(runs)
    newest = {(record.identity, place(record)): record for record in latest(record for run in runs for record in run)}
    there = [record for record in newest.values() if is_ranked(record) and error_of(record, LARGEST) < math.inf]
    there = over_seeds(there)
    several = ranking.told_apart(there)

    def kind(record: Record) -> tuple[str, bool, tuple[tuple[str, Value], ...]]:
        return place(record), record.toolkit == CPU, tuple({**task(record), **record.contents}.items())

    made = []
    for (device, cpu, _), alike in grouped(there, kind).items():
        contents = {name: brief(name, value) for name, value in alike[0].contents.items() if name in several}
        made.append(Contest(device, cpu, task(alike[0]) | contents, alike))
    return made


def over(fastest: Record, record: Record, known: Uncertainties) -> Behind:
    """Say how far a record is behind the fastest, as a ratio of their medians."""
    fastest_span, other = span(fastest), span(record)
    scatter = known.wider(fastest, record)
    interval = ratio(fastest_span, other, scatter.of_ratio, half_of(*own_scatter(fastest, record), CONFIDENCE))
    narrow = not (known.includes_processes(fastest) and known.includes_processes(record))
    return Behind(record, interval, fastest_span.sure and other.sure, narrow)


def error_of(record: Record, quantile: float) -> float:
    """Return a quantile of the relative errors of all n bodies, or the next larger one that the record has.

    It is infinite where no number is known. Below the largest it is what it is of a sample: it does not grow with n.
    """
    if quantile == LARGEST:
        error = largest_error(record)
    else:
        there = (getattr(record, name) for part, name in sorted(QUANTILES.items()) if part >= quantile)
        error = next((error for error in there if error is not None), math.inf)
    return error if math.isfinite(error) else math.inf


def largest_error(record: Record) -> float:
    """Return the largest relative error of all n bodies; where a sample was compared, what it is expected to be.

    Relative errors are largest where contributions cancel. Of accelerations that point anywhere the part shorter than x
    grows as x cubed, so that the largest error of k times as many bodies is the cube root of k times as large.
    """
    if record.error_max is None:
        return math.inf
    return record.error_max * math.cbrt(max(1.0, record.n / (record.error_rows or record.n)))


def check_quantile(quantile: float) -> None:
    """Refuse a quantile of the relative errors that no record has.

    Raises:
        InputError: it is none of ``QUANTILES``.
    """
    if quantile not in QUANTILES:
        raise InputError(f"--quantile {quantile:g}: records do not have it; accepted: {ACCEPTED_QUANTILES}")


def is_of(record: Record, device: str) -> bool:
    """Tell whether ``device``, ``cpu``, ``gpu`` or a part of a name or UUID, means that of a record."""
    word = device.lower()
    if word in ("cpu", "gpu"):
        return (record.toolkit == CPU) == (word == "cpu")
    return word in (record.device or "").lower() or word in card_of(record)[1].lower()


def considered(
    records: Sequence[Record], question: Question, device: str | None, devices: Iterable[str]
) -> list[Record]:
    """Return the records of a device, some of which are of the question's number type, and some of its bodies.

    Raises:
        InputError: there are records, but none of these; the sentence names the ``devices``.
    """
    there = [record for record in records if device is None or is_of(record, device)]
    if records and not there:
        names = ", ".join(sorted(set(devices)))
        raise InputError(f"--device {device}: no record matches; accepted: cpu, gpu, or a part of {names}")
    for name, asked in (("dtype", question.dtype), ("bodies", question.bodies)):
        accepted = sorted({str(getattr(record, name)) for record in there})
        if asked is not None and there and asked not in accepted:
            raise InputError(f"--{name} {asked}: no record matches; {nearest(asked, accepted)}")
    return there


def task(record: Record) -> dict[str, Value]:
    """Name what has to be equal beside n: times of other tasks are no competitors."""
    return {
        name: value
        for name, value in record.conditions.items()
        if CONDITIONS[name].kind != "precision" and not CONDITIONS[name].content_of
        if not (name in PROBLEM_AXES and value == PROBLEM_AXES[name].usual)
    }


def what(record: Record) -> tuple[Any, ...]:
    """Return what tells one way to compute from another: variant, toolkit, number type and axes."""
    return record.variant, record.toolkit, record.dtype, *sorted(record.axes.items())
