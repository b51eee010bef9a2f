"""The best of a sweep for each n: all configurations whose medians are as good as the fastest, the simplest first.

What is slower by its median is never as good, however wide its interval: it is UNCLEAR where it cannot be told from
the fastest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gravbench.errors import InputError
from gravbench.model.case import Value
from gravbench.model.record import LARGEST, Record
from gravbench.model.toolkits import place_of
from gravbench.verdicts import compare, ranking
from gravbench.verdicts.cards import together
from gravbench.verdicts.compare import Defaults
from gravbench.verdicts.question import (
    USUAL,
    Behind,
    Contest,
    Question,
    by_time,
    check_quantile,
    considered,
    contests,
    over,
    what,
)
from gravbench.verdicts.ranking import Drift, grouped, seconds, size
from gravbench.verdicts.ratios import places
from gravbench.verdicts.uncertainty import Uncertainties


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
    that are beyond the limit.
    """

    device: str
    task: Mapping[str, Value]
    choices: list[Choice]
    missed: dict[int, float]
    unmeasured: dict[int, int]
    drifts: list[Drift]


def best(
    runs: Sequence[Sequence[Record]],
    defaults: Defaults,
    question: Question = USUAL,
    *,
    device: str | None = None,
    threshold: float = compare.THRESHOLD,
) -> list[Selection]:
    """Choose, for every device, task and n, among the records that answer the ``question``.

    ``runs`` are whole files of records, because each is judged by the anchors that it repeated itself.

    A configuration is as good as the fastest where its median is at most the ``threshold`` above. One further above is
    unclear unless its whole interval is; where the samples are too few for an interval, unless all of them are. The
    simplest has the fewest axes away from the ``defaults`` of its variant, then comes the order of the variants in
    ``defaults``, which is the ladder's. What a race stopped is never chosen, and counted beside.
    ``device`` is ``cpu``, ``gpu`` or a part of a device's name or UUID.

    Raises:
        InputError: no record is of such a device, number type or bodies, or none that was measured in full is right
            enough.
    """
    check_quantile(question.quantile)
    runs = together(runs)
    place, known = places(runs), Uncertainties(runs)
    drifts = [drift for records in runs for drift in ranking.drifted(records)]
    selections = []
    for contest in _asked(contests(runs), question, device):
        selection = Selection(contest.device, contest.task, [], {}, {}, [])
        for n, same_n in sorted(grouped(contest.records, size).items()):
            _choose(selection, n, same_n, question, known, threshold, defaults)
        selection.drifts.extend(drift for drift in drifts if place(drift.anchor) == contest.device)
        if selection.choices or selection.unmeasured:
            selections.append((contest.cpu, selection))
    if not any(selection.choices for _, selection in selections):
        raise InputError(
            f"--error {question.error:g}: every record that is accurate enough was outraced; measure them in full: "
            "gravbench run SWEEP --search all --resume --out FOLDER"
        )
    # GPUs first.
    return [
        selection for _, selection in sorted(selections, key=lambda pair: (pair[0], pair[1].device, str(pair[1].task)))
    ]


def _asked(contests: Sequence[Contest], question: Question, device: str | None) -> list[Contest]:
    """Keep of each contest the records that may answer, whatever their errors are.

    Raises:
        InputError: nothing is left, or nothing that is right enough.
    """
    every = [record for contest in contests for record in contest.records]
    there = considered(every, question, device, (contest.device for contest in contests))
    suitable = {id(record) for record in there if question.suits(record)}
    errors = [question.error_of(record) for record in there if id(record) in suitable]
    if min(errors, default=math.inf) > question.error:
        of = "of all bodies" if question.quantile == LARGEST else f"of {100 * question.quantile:g} % of the bodies"
        why = f"the smallest error {of} is {min(errors):.1e}" if errors else "no record is ok"
        raise InputError(f"--error {question.error:g}: no record is accurate enough; {why}")
    return [
        replace(contest, records=[record for record in contest.records if id(record) in suitable])
        for contest in contests
    ]


def _choose(
    selection: Selection,
    n: int,
    records: Sequence[Record],
    question: Question,
    known: Uncertainties,
    threshold: float,
    defaults: Defaults,
) -> None:
    """Add to a selection what to use at one n, or why there is nothing."""
    right = [record for record in records if question.admits(record)]
    if not right:
        selection.missed[n] = min(map(question.error_of, records))
        return
    late = [record for record in right if record.outraced]
    if len(late) == len(right):
        selection.unmeasured[n] = len(late)
        return
    order = ranked([record for record in right if not record.outraced], known, threshold, defaults)
    chosen, first, before = order.as_good[0], order.fastest, selection.choices[-1:]
    selection.choices.append(
        Choice(
            order.as_good,
            order.unclear,
            first,
            n,
            compared=len(right) - len(late),
            changed=any(what(choice.chosen) != what(chosen) for choice in before),
            behind=None if chosen is first else over(first, chosen, known),
            outraced=len(late),
            less=sum(seconds(record) < seconds(first) for record in late),
        )
    )


def ranked(records: Sequence[Record], known: Uncertainties, threshold: float, defaults: Defaults) -> Ranked:
    """Sort records of one n into those as good as the fastest, itself included, and those that are unclear.

    Simpler is what has fewer axes away from the defaults, then the place in the ladder, the toolkit and time decide.
    """
    first, *others = by_time(records)
    place = {name: i for i, name in enumerate(defaults)}

    def simplicity(record: Record) -> tuple[int, int, int, str, float]:
        away = len(compare.away(record, defaults))
        return away, place.get(record.variant, len(place)), *place_of(record.toolkit), seconds(record)

    within = grouped(others, lambda record: seconds(record) <= (1 + threshold) * seconds(first))
    beyond = [over(first, record, known) for record in within.get(False, [])]
    unclear = [behind for behind in beyond if not behind.interval.low > 1 + threshold]
    return Ranked(sorted([first, *within.get(True, [])], key=simplicity), unclear, first)
