"""The best of a sweep for each n: all configurations whose medians are as good as the fastest, the simplest first.

What is slower by its median is never as good, however wide its interval: it is UNCLEAR where it cannot be told from
the fastest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gravbench.errors import InputError, nearest
from gravbench.model.case import CONDITIONS, PROBLEM_AXES, Value, brief
from gravbench.model.record import LARGEST, QUANTILES, Record
from gravbench.model.runs import latest
from gravbench.model.statistics import CONFIDENCE
from gravbench.model.toolkits import place_of
from gravbench.model.variant import CPU
from gravbench.verdicts import compare, ranking
from gravbench.verdicts.cards import card_of, together
from gravbench.verdicts.compare import Defaults
from gravbench.verdicts.ranking import Drift, grouped, is_ranked, seconds, size
from gravbench.verdicts.ratios import Interval, half_of, own_scatter, places, ratio, span
from gravbench.verdicts.uncertainty import Uncertainties

ERROR = 1e-3
"""The largest relative error that is asked for when nobody says: every direct sum has less."""

ACCEPTED_QUANTILES = ", ".join(f"{quantile:g}" for quantile in QUANTILES)

EQUAL_MASS = "equal_mass"
"""The axis whose value 1 is fast, or as right as it was found to be, only where all bodies weigh the same."""


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
class Ranked:
    """The records of one n: those ``as_good`` as the ``fastest``, the simplest first, and those that are ``unclear``.

    The median of an unclear one is further behind than the threshold, but not its whole interval, so that it may yet
    be as good. The nearest stands first.
    """

    as_good: list[Record]
    unclear: list[Behind]
    fastest: Record


@dataclass(frozen=True, slots=True)
class Choice(Ranked):
    """What to use at one n: the simplest of ``as_good``.

    ``compared`` counts the configurations that are right enough; ``changed`` says that the n before has another.
    ``behind`` is None where the fastest is chosen. Of the ``outraced``, which are none of these, ``less`` took less
    time than the fastest in what few samples they have.
    """

    n: int
    compared: int
    changed: bool
    behind: Behind | None
    outraced: int = 0
    less: int = 0

    @property
    def chosen(self) -> Record:
        """The record of what to use."""
        return self.as_good[0]


@dataclass(frozen=True, slots=True)
class Selection:
    """The choices for one device and task; ``task`` names what all of its records share.

    ``missed`` has each n at which nothing is right enough, with the least error that a record has there;
    ``unmeasured`` each n at which all that is was outraced, with how many; ``drifts`` those of the device's anchors
    that are beyond the limit. ``unknown`` has each n at which records lack the quantile of the errors that was asked
    for, with how many.
    """

    device: str
    task: Mapping[str, Value]
    choices: list[Choice]
    missed: dict[int, float]
    unmeasured: dict[int, int]
    drifts: list[Drift]
    unknown: dict[int, int] = field(default_factory=dict)


def best(
    runs: Sequence[Sequence[Record]],
    defaults: Defaults,
    *,
    error: float = ERROR,
    quantile: float = LARGEST,
    device: str | None = None,
    dtype: str | None = None,
    threshold: float = compare.THRESHOLD,
    unequal_masses: bool = False,
) -> list[Selection]:
    """Choose, for every device, task and n, among the records whose largest error is at most ``error``.

    ``runs`` are whole files of records, because each is judged by the anchors that it repeated itself. With
    ``unequal_masses`` what is fast only for equal masses is left out.

    With a ``quantile`` below 1, one of ``QUANTILES``, it is that part of the bodies whose errors have to be. What lacks
    the quantile is never chosen, and counted beside.

    The number type is no part of the task: the error that is asked for decides, unless ``dtype`` names one.

    A configuration is as good as the fastest where its median is at most the ``threshold`` above. One further above is
    unclear unless its whole interval is; where the samples are too few for an interval, unless all of them are. The
    simplest has the fewest axes away from the ``defaults`` of its variant, then comes the order of the variants in
    ``defaults``, which is the ladder's. What a race stopped is never chosen, and counted beside.
    ``device`` is ``cpu``, ``gpu`` or a part of a device's name or UUID.

    Raises:
        InputError: no record is of such a device or number type, or has the quantile, or none that was measured in full
            is right enough.
    """
    check_quantile(quantile)
    runs = together(runs)
    place, known = places(runs), Uncertainties(runs)
    drifts = [drift for records in runs for drift in ranking.drifted(records)]
    # Of a case in several runs, the last has its say.
    newest = {(one.identity, place(one)): one for one in latest(one for records in runs for one in records)}
    ok = [one for one in newest.values() if is_ranked(one) and not (unequal_masses and one.axes.get(EQUAL_MASS) == 1)]
    there = [record for record in ok if device is None or is_of(record, device)]
    if ok and not there:
        names = ", ".join(sorted({place(record) for record in ok}))
        raise InputError(f"--device {device}: no record matches; accepted: cpu, gpu, or a part of {names}")
    types: list[str] = sorted({record.dtype for record in there})
    if dtype is not None and there and dtype not in types:
        raise InputError(f"--dtype {dtype}: no record matches; {nearest(dtype, types)}")
    judged = [record for record in there if record.error_max is not None and dtype in (None, record.dtype)]
    errors = [own for record in judged if (own := error_of(record, quantile)) is not None]
    if judged and not errors:
        had = [f"{one:g}" for one in QUANTILES if any(error_of(record, one) is not None for record in judged)]
        raise InputError(f"--quantile {quantile:g}: no record has it; accepted: {', '.join(had)}, or a new run")
    least = min(errors, default=None)
    if least is None or least > error:
        which = "error" if quantile == LARGEST else f"{quantile:g} quantile of the errors"
        why = "no record is ok" if least is None else f"the smallest {which} of a record is {least:.1e}"
        raise InputError(f"--error {error:g}: no record is accurate enough; {why}")
    several = ranking.told_apart(judged)

    def kind(record: Record) -> tuple[str, tuple[tuple[str, Value], ...]]:
        contents = {name: brief(name, value) for name, value in record.contents.items() if name in several}
        return place(record), tuple((task(record) | contents).items())

    found = []
    for (name, shared), alike in grouped(judged, kind).items():
        choices: list[Choice] = []
        missed = {}
        unmeasured = {}
        unknown = {}
        for n, same_n in sorted(grouped(alike, size).items()):
            told = [(record, own) for record in same_n if (own := error_of(record, quantile)) is not None]
            if len(told) < len(same_n):
                unknown[n] = len(same_n) - len(told)
            right = [record for record, own in told if own <= error]
            if not right:
                if told:
                    missed[n] = min(own for _, own in told)
                continue
            late = [record for record in right if record.outraced]
            if len(late) == len(right):
                unmeasured[n] = len(late)
                continue
            order = ranked([record for record in right if not record.outraced], known, threshold, defaults)
            chosen, fastest = order.as_good[0], order.fastest
            changed = bool(choices) and what(choices[-1].chosen) != what(chosen)
            behind = None if chosen is fastest else over(fastest, chosen, known)
            less = sum(seconds(record) < seconds(fastest) for record in late)
            compared = len(right) - len(late)
            choices.append(Choice(order.as_good, order.unclear, fastest, n, compared, changed, behind, len(late), less))
        if choices or unmeasured or unknown:
            drifting = [drift for drift in drifts if place(drift.anchor) == name]
            selection = Selection(name, dict(shared), choices, missed, unmeasured, drifting, unknown)
            found.append((alike[0].toolkit == CPU, selection))
    if not any(one.choices for _, one in found):
        raise InputError(
            f"--error {error:g}: every record that is accurate enough was outraced; measure them in full: "
            "gravbench run SWEEP --search all --resume --out FOLDER"
        )
    # GPUs first.
    return [one for _, one in sorted(found, key=lambda own: (own[0], own[1].device, str(own[1].task)))]


def is_of(record: Record, device: str) -> bool:
    """Tell whether ``device``, ``cpu``, ``gpu`` or a part of a name or UUID, means that of a record."""
    word = device.lower()
    if word in ("cpu", "gpu"):
        return (record.toolkit == CPU) == (word == "cpu")
    return word in (record.device or "").lower() or word in card_of(record)[1].lower()


def task(record: Record) -> dict[str, Value]:
    """Name what has to be equal beside n: times of other tasks are no competitors."""
    return {
        name: value
        for name, value in record.conditions.items()
        if CONDITIONS[name].kind != "precision" and not CONDITIONS[name].content_of
        if not (name in PROBLEM_AXES and value == PROBLEM_AXES[name].usual)
    }


def ranked(records: Sequence[Record], known: Uncertainties, threshold: float, defaults: Defaults) -> Ranked:
    """Sort records of one n into those as good as the fastest, itself included, and those that are unclear.

    Simpler is what has fewer axes away from the defaults, then the place in the ladder, the toolkit and time decide.
    """
    fastest = min(records, key=seconds)
    place = {name: i for i, name in enumerate(defaults)}

    def simplicity(record: Record) -> tuple[int, int, int, str, float]:
        away = len(compare.away(record, defaults))
        return away, place.get(record.variant, len(place)), *place_of(record.toolkit), seconds(record)

    within = grouped(records, lambda record: seconds(record) <= (1 + threshold) * seconds(fastest))
    beyond = [over(fastest, one, known) for one in sorted(within.get(False, []), key=seconds)]
    unclear = [one for one in beyond if not one.interval.low > 1 + threshold]
    return Ranked(sorted(within[True], key=simplicity), unclear, fastest)


def over(fastest: Record, record: Record, known: Uncertainties) -> Behind:
    """Say how far a record is behind the fastest, as a ratio of their medians."""
    own, other = span(fastest), span(record)
    scatter = known.wider(fastest, record)
    found = ratio(own, other, scatter.of_ratio, half_of(*own_scatter(fastest, record), CONFIDENCE))
    narrow = not (known.includes_processes(fastest) and known.includes_processes(record))
    return Behind(record, found, own.sure and other.sure, narrow)


def check_quantile(quantile: float) -> None:
    """Refuse a quantile of the relative errors that no record has.

    Raises:
        InputError: it is none of ``QUANTILES``.
    """
    if quantile not in QUANTILES:
        raise InputError(f"--quantile {quantile:g}: records do not have it; accepted: {ACCEPTED_QUANTILES}")


def error_of(record: Record, quantile: float) -> float | None:
    """Return a quantile of the relative errors of the bodies that were compared; None where the record lacks it."""
    found: float | None = getattr(record, QUANTILES[quantile])
    return found


def what(record: Record) -> tuple[Any, ...]:
    """Return what tells one way to compute from another: variant, toolkit, number type and axes."""
    return record.variant, record.toolkit, record.dtype, *sorted(record.axes.items())
