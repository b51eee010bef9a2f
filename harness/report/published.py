"""What a source published beside what was measured: the records that answer it, conversions, ratios, verdicts.

All cells of a figure, and all numbers of a claim, are answered by one toolkit under one set of conditions, the one
that answers most of them; only a selection that names the CPU has the CPU's. Only records that are ok answer.

A claim that names another sweep is judged by the run of that name beside the reported one, if there is one, and by its
records of the same devices alone.

A claim is judged with its doubt: each number may be anywhere within the interval of its median, widened by the scatter
of the run's anchor. Where that would turn the verdict, the claim is undecided.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from gravbench.config.published import Cell, Claim, Figure, Selection, Source, Unit, condition
from gravbench.model.case import PARTS, PROBLEM_AXES, Case
from gravbench.model.quantities import PublishedName
from gravbench.model.record import Record
from gravbench.model.runs import RecordFile, latest
from gravbench.model.toolkits import place_of
from gravbench.model.variant import CPU
from gravbench.report.claim_uncertainty import CERTAIN, COUNTED, Doubt, Doubts, plus_minus, within
from gravbench.report.loads import declared_per_body
from gravbench.report.names import why_unranked
from gravbench.report.numbers import finite, times
from gravbench.verdicts import ranking
from gravbench.verdicts.cards import card_of, multiprocessors, together
from gravbench.verdicts.question import fastest
from gravbench.verdicts.ranking import Conditions

LANES = 128
"""Threads for which a multiprocessor issues an instruction per clock cycle: four warps, from Volta on."""
SLOPE_FROM = 1000
"""Number of bodies below which a time is mostly that of starting."""
NOT_THERE = "not in this run"
ELSEWHERE = "not in this run with the same toolkit and conditions"
"""Why a selection has no answer, where no record says why."""
NOT_IN_FULL = "outraced: sampling stopped once it was clear that another case is faster"

Verdict = Literal["holds", "does not hold", "undecided", "cannot be tested"]
Others = Mapping[str, Sequence[Record]]
"""Runs beside the one that is reported, by name."""
NO_OTHERS: Others = {}


class Column(NamedTuple):
    """What has to be equal in the answers of one figure."""

    toolkit: str
    conditions: Conditions


@dataclass(frozen=True, slots=True)
class Answer:
    """A selection's record and its value in the unit asked for; both None where ``why`` says why.

    ``doubt`` says how far the value may be from what was measured.
    """

    record: Record | None
    value: float | None
    why: str = ""
    doubt: Doubt = CERTAIN


@dataclass(frozen=True, slots=True)
class Step:
    """One cell of a figure; relative means over the value of the path's first step, None where either is missing."""

    cell: Cell
    answer: Answer
    published_relative: float | None
    measured_relative: float | None


@dataclass(frozen=True, slots=True)
class Other:
    """Another toolkit under the same conditions: cells it answers, and its values over those shown."""

    toolkit: str
    answered: int
    lowest: float
    highest: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """A figure beside what was measured: columns whose answers are ``shown``, ``others`` under the same conditions."""

    figure: Figure
    steps: list[Step]
    shown: list[Column]
    others: list[Other]
    not_shown: list[Column]

    def slope(self, which: Literal["published", "measured"]) -> float | None:
        """Fit the exponent of n; None unless the cells differ by n alone and three of them have a value."""
        selections = [{k: v for k, v in step.cell.select.items() if k != "n"} for step in self.steps]
        if any(selection != selections[0] for selection in selections):
            return None
        points = [
            (n, number)
            for step in self.steps
            if isinstance(n := step.cell.select.get("n"), int) and n >= SLOPE_FROM
            if (number := step.cell.published if which == "published" else step.answer.value)
        ]
        logarithms = np.log(np.array(points, np.float64))
        return float(np.polyfit(logarithms[:, 0], logarithms[:, 1], 1)[0]) if len(points) > 2 else None


@dataclass(frozen=True, slots=True)
class Decision:
    """A claim, what the records say of it, and the numbers behind it; ``run`` is the other run that was asked.

    ``left_out`` names the devices of that run that the reported run does not have.
    """

    claim: Claim
    verdict: Verdict
    answers: dict[str, Answer]
    run: str = ""
    left_out: tuple[str, ...] = ()


# What a unit means of a record; the second argument is the source's convention of FLOPs per interaction.
_VALUES: Mapping[Unit, Callable[[Record, float], float | None]] = {
    "GFLOP/s": lambda record, flops: times(record.interactions_per_second, flops / 1e9),
    "interactions/s": lambda record, _: record.interactions_per_second,
    "seconds": lambda record, _: ranking.seconds(record),
    "ms per 100 steps": lambda record, _: ranking.seconds(record) * 100 * 1000,
    "frames/s": lambda record, _: 1 / ranking.seconds(record),
    "steps/s": lambda record, _: 1 / ranking.seconds(record),
    "relative error": lambda record, _: record.error_max,
    "relative error over a cycle": lambda record, _: record.error_cycle_max,
    "error relative to all contributions": lambda record, _: record.error_magnitude_max,
    "blocks": lambda record, _: record.grid_blocks,
    "waves": lambda record, _: record.waves,
    "multiprocessors": lambda record, _: multiprocessors(record),
    "threads per block": lambda record, _: record.threads_per_block,
    "threads a multiprocessor holds": lambda record, _: _most_threads(record),
    "active threads of a multiprocessor": lambda record, _: _active_threads(record),
    "bytes of local memory": lambda record, _: record.local_bytes,
    "bytes of nodes": lambda record, _: _node_bytes(record),
    "loads per body": lambda record, _: declared_per_body(record),
    "interactions": lambda record, _: record.evaluated,
    "instructions per interaction": lambda record, _: _per(record, "instructions", record.evaluated),
    "issue cycles per interaction": lambda record, _: _issue_cycles(record),
    "clock cycles per interaction": lambda record, _: _clock_cycles(record),
    "% of the multiprocessors": lambda record, _: times(record.counters.get("multiprocessors_active"), 100),
    "global loads per body": lambda record, _: _per(record, "global_loads", record.n),
    "% of a warp": lambda record, _: times(record.counters.get("threads_an_instruction"), 100 / 32),
    "% of the stages building the tree": lambda record, _: times(_building(record), 100),
    "seconds of the stages but building the tree": lambda record, _: _not_building(record),
    "seconds of sort": lambda record, _: record.stages_seconds.get("sort"),
    "seconds of build": lambda record, _: record.stages_seconds.get("build"),
    "seconds of traverse": lambda record, _: record.stages_seconds.get("traverse"),
    "seconds of allocate": lambda record, _: record.stages_seconds.get("allocate"),
    "seconds of transfers": lambda record, _: _transfers(record),
    "GB/s of upload": lambda record, _: _bandwidth(record, "upload"),
    "GB/s of download": lambda record, _: _bandwidth(record, "download"),
    "ms per 100 steps by a process of 20": lambda record, _: _by_a_process(record, 20),
    "ms per 100 steps by a process of 100": lambda record, _: _by_a_process(record, 100),
}

BUILDING = ("build", "compact")
"""The stages that build the tree, of bodies that are in order already."""


def _building(record: Record) -> float | None:
    """Return the part of the stages that builds the tree."""
    whole = sum(record.stages_seconds.values())
    return sum(record.stages_seconds.get(name, 0) for name in BUILDING) / whole if whole else None


def _not_building(record: Record) -> float | None:
    """Return the seconds of the other stages."""
    stages = record.stages_seconds
    return sum(seconds for name, seconds in stages.items() if name not in BUILDING) if stages else None


def _transfers(record: Record) -> float | None:
    """Return the seconds in which an evaluation moves data to the device and back."""
    stages = record.stages_seconds
    return stages["upload"] + stages["download"] if {"upload", "download"} <= stages.keys() else None


def _bandwidth(record: Record, stage: str) -> float | None:
    seconds = record.stages_seconds.get(stage)
    return record.stages_bytes[stage] / seconds / 1e9 if seconds and stage in record.stages_bytes else None


def _by_a_process(record: Record, steps: int) -> float | None:
    """Return milliseconds of a process that starts and does so many steps, scaled up to 100."""
    start = record.start_seconds
    return None if start is None else (ranking.seconds(record) + start / steps) * 100 * 1000


def _node_bytes(record: Record) -> float | None:
    """Return the bytes of a tree's nodes: of what is uploaded, all but the rows x, y, z, mass and the bodies' order."""
    sent = record.stages_bytes.get("upload")
    return (
        None if sent is None else sent - record.n * (4 * np.dtype(record.dtype).itemsize + np.dtype(np.int32).itemsize)
    )


def _most_threads(record: Record) -> float | None:
    """Return how many threads a multiprocessor of the device holds, from the occupancy, which counts whole warps."""
    if not (record.occupancy and record.blocks_per_multiprocessor and record.threads_per_block):
        return None
    return round(record.blocks_per_multiprocessor * -(-record.threads_per_block // 32) * 32 / record.occupancy)


def _active_threads(record: Record) -> float | None:
    """Return how many threads a multiprocessor runs at a time, of those that have a block, as counters say."""
    active, most = record.counters.get("achieved_occupancy"), _most_threads(record)
    return None if active is None or most is None else active * most


def _per(record: Record, counter: str, number: float) -> float | None:
    """Return what a counter of warp instructions says of each thread, for each of a number of things."""
    warps, threads = record.counters.get(counter), record.counters.get("threads_an_instruction")
    return warps * threads / number if warps is not None and threads is not None else None


def _issue_cycles(record: Record) -> float | None:
    """Return the issue slots of a thread for an interaction, used or not, on the multiprocessors that have a block."""
    slots = record.counters.get("issue_slots")
    return times(_per(record, "instructions", record.evaluated), 1 / slots) if slots else None


def _clock_cycles(record: Record) -> float | None:
    """Return the clock cycles of a lane for an interaction, by the time, on the multiprocessors that have a block."""
    all_of_them = multiprocessors(record)
    if not (record.sm_clock_mhz and record.grid_blocks and all_of_them):
        return None
    lanes = LANES * min(record.grid_blocks, all_of_them)
    return ranking.seconds(record) * float(np.mean(record.sm_clock_mhz)) * 1e6 * lanes / record.evaluated


def value(record: Record, unit: Unit, flops_per_interaction: float) -> float | None:
    """Convert what a record measured to a unit of a source; None where it is missing or not finite."""
    return finite(_VALUES[unit](record, flops_per_interaction))


def compare(source: Source, figure: Figure, records: Sequence[Record]) -> Comparison:
    """Answer every cell of a figure from ``records``, one per case, as ``gravbench.model.runs.latest`` leaves them."""
    cells = figure.steps()
    flops = figure.flops_per_interaction or source.flops_per_interaction
    search = _Search([{**source.where, **cell.select} for cell in cells], records, figure.timed)
    answers = [_in_a_process(search.answer(place, figure.unit, flops), figure) for place in range(len(cells))]
    steps = [
        Step(
            cell=cell,
            answer=answer,
            published_relative=_ratio(cell.published, cells[figure.first_of(place)].published),
            measured_relative=_ratio(answer.value, answers[figure.first_of(place)].value),
        )
        for place, (cell, answer) in enumerate(zip(cells, answers, strict=True))
    ]
    shown = list(dict.fromkeys(_column(answer.record) for answer in answers if answer.record))
    conditions = {column.conditions for column in shown}
    return Comparison(
        figure=figure,
        steps=steps,
        shown=shown,
        others=list(_others(search.candidates, search.best[False], figure.unit, flops)),
        not_shown=[column for column in search.candidates if column.conditions not in conditions],
    )


def _in_a_process(answer: Answer, figure: Figure) -> Answer:
    """Add the start of the process to the time of 100 steps, scaled as the source scaled it."""
    if not figure.process_steps or answer.record is None or answer.value is None:
        return answer
    if answer.record.start_seconds is None:
        return Answer(None, None, "its record does not say how long its process took to start")
    _, steps = max(pair for pair in figure.process_steps if pair[0] <= answer.record.n)
    return Answer(answer.record, _by_a_process(answer.record, steps))


def beside(folder: Path, source: Source) -> dict[str, list[Record]]:
    """Read the runs beside ``folder`` that claims of its source name; one that is not there is left out.

    Raises:
        InputError: the records of one cannot be read.
    """
    named = dict.fromkeys(claim.run for claim in source.claims if claim.run)
    stores = {name: RecordFile(folder.resolve().parent / name) for name in named}
    return {name: together([store.read()])[0] for name, store in stores.items() if store.path.is_file()}


def decisions(source: Source, records: Sequence[Record], others: Others = NO_OTHERS) -> list[Decision]:
    """Judge every claim of a source by ``records``, or by the one of the ``others`` that it names."""
    devices = set(map(_device, records))
    evidence = _Evidence(records)
    return [
        _decide_elsewhere(source, claim, others[claim.run], devices)
        if claim.run in others
        else _decide_by(source, claim, evidence)
        for claim in source.claims
    ]


def _decide_elsewhere(source: Source, claim: Claim, records: Sequence[Record], devices: Collection[str]) -> Decision:
    """Judge a claim by another run's ``records`` on these devices: another device says nothing of the reported run."""
    there = [record for record in records if _device(record) in devices]
    left_out = sorted({_device(record) for record in records if record.device} - set(devices))
    return replace(decide(source, claim, there), run=claim.run, left_out=tuple(left_out))


def _device(record: Record) -> str:
    return card_of(record)[0]


def decide(source: Source, claim: Claim, records: Sequence[Record]) -> Decision:
    """Say whether a claim holds of ``records``, all of one run with the repetitions of its anchor.

    It is undecided where it would hold with some of its numbers within their intervals, and with others not.
    """
    return _decide_by(source, claim, _Evidence(records))


class _Evidence:
    """What is found once in the records of one run, its repetitions included, for all claims."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.cases = latest(records)
        self.columns = _columns(self.cases)
        self.doubts = Doubts(records)


def _decide_by(source: Source, claim: Claim, evidence: _Evidence) -> Decision:
    """See ``decide``."""
    selections = [{**source.where, **wanted.select} for wanted in claim.numbers.values()]
    search = _Search(selections, evidence.cases, columns=evidence.columns)
    answers = {}
    for place, (name, wanted) in enumerate(claim.numbers.items()):
        answer = search.answer(place, wanted.unit, source.flops_per_interaction)
        doubt = evidence.doubts.of(answer.record, wanted.unit) if answer.record else CERTAIN
        answers[name] = replace(answer, doubt=doubt)
    points = [within(answer.value, answer.doubt.reach) for answer in answers.values() if answer.value is not None]
    if not claim.holds or len(points) < len(answers):
        return Decision(claim, "cannot be tested", answers)
    verdicts = condition(claim, f"claim {claim.id}").verdicts(dict(zip(answers, points, strict=True)))
    return Decision(
        claim, "undecided" if len(verdicts) > 1 else "holds" if verdicts == {True} else "does not hold", answers
    )


def ratio_words(decision: Decision) -> str:
    """Say how far an undecided claim is from certain by the ratio of its numbers; empty unless it is about two."""
    units = {wanted.unit for wanted in decision.claim.numbers.values()}
    values = [answer.value for answer in decision.answers.values() if answer.value]
    if decision.verdict != "undecided" or len(values) != 2 or len(units) != 1:
        return ""
    doubts = [answer.doubt for answer in decision.answers.values()]
    width = plus_minus(sum(doubt.reach for doubt in doubts), narrow=any(doubt.narrow for doubt in doubts))
    return f" Their ratio is {max(values) / min(values):.2f}, uncertain by {width}."


def fits(selection: Selection, case: Case) -> bool:
    """Tell whether a case or its record is one that a selection means: gravity's, where it names no interaction."""
    if _on_cpu(selection) != (case.toolkit == CPU):
        return False
    for name, wanted in selection.items():
        part = case.part(name)
        if part not in wanted if isinstance(wanted, list) else part != wanted:
            return False
    return "interaction" in selection or case.part("interaction") == PARTS["interaction"].usual


def _column(record: Record) -> Column:
    """Return the column that a record belongs to; what an axis computes is named by each selection itself."""
    shared = ranking.conditions(record)
    task = tuple((name, value) for name, value in shared.task if name not in PROBLEM_AXES)
    return Column(record.toolkit, shared._replace(task=task))


def _columns(records: Iterable[Record]) -> dict[Column, list[Record]]:
    """Return the records of each column that are ranked."""
    return ranking.grouped(filter(ranking.is_ranked, records), _column)


class _Search:
    """The records that answer ``selections``, which are known by their places; ``columns`` are those of the records.

    ``candidates`` has the fastest answers of each column; ``best`` the column that is shown, of GPUs and of CPUs: the
    one with most answers, then one that timed what the source ``timed``, then by the toolkit's place.
    """

    def __init__(
        self,
        selections: Sequence[Selection],
        records: Sequence[Record],
        timed: PublishedName | None = None,
        columns: Mapping[Column, Sequence[Record]] | None = None,
    ) -> None:
        self._selections = selections
        self._records = records
        self.candidates: dict[Column, dict[int, Record]] = {}
        for column, alike in (_columns(records) if columns is None else columns).items():
            answers = {
                place: [candidate for candidate in alike if fits(wanted, candidate)]
                for place, wanted in enumerate(selections)
            }
            if any(answers.values()):
                self.candidates[column] = {
                    place: fastest_fitting
                    for place, fitting in answers.items()
                    if (fastest_fitting := fastest(fitting))
                }
        order = sorted(
            self.candidates,
            key=lambda column: (
                -len(self.candidates[column]),
                ("timed", timed) not in column.conditions.task,
                place_of(column.toolkit),
            ),
        )
        self.best = {
            cpu: next((candidate for candidate in order if candidate.conditions.cpu == cpu), None)
            for cpu in (False, True)
        }

    def answer(self, place: int, unit: Unit, flops: float) -> Answer:
        """Answer one selection by the column that is shown."""
        column = self.best[_on_cpu(self._selections[place])]
        record = self.candidates[column].get(place) if column else None
        if record and record.outraced and unit not in COUNTED:
            return Answer(None, None, NOT_IN_FULL)
        if record is None:
            return Answer(None, None, self._why(self._selections[place]))
        number = value(record, unit, flops)
        return Answer(record, number) if number is not None else Answer(None, None, f"its record has no {unit}")

    def _why(self, selection: Selection) -> str:
        """Say why no record answers a selection, in the words of one that was to."""
        alike = [record for record in self._records if fits(selection, record)]
        column = self.best[False]
        if column and not _on_cpu(selection):
            alike.sort(key=lambda record: record.toolkit != column.toolkit)
        for record in alike:
            if not ranking.is_ranked(record):
                return f"{record.status}: {why_unranked(record)}"
        return ELSEWHERE if alike else NOT_THERE


def _on_cpu(selection: Selection) -> bool:
    return selection.get("toolkit") == CPU


def _ratio(number: float | None, first: float | None) -> float | None:
    return None if number is None or not first else number / first


def _others(
    candidates: Mapping[Column, Mapping[int, Record]], column: Column | None, unit: Unit, flops: float
) -> Iterable[Other]:
    if column is None:
        return
    shown = _values(candidates[column], unit, flops)
    for other in sorted(candidates, key=lambda other: place_of(other.toolkit)):
        if other == column or other.conditions != column.conditions:
            continue
        values = _values(candidates[other], unit, flops)
        ratios = [values[place] / shown[place] for place in values if shown.get(place)]
        if ratios:
            yield Other(other.toolkit, len(ratios), min(ratios), max(ratios))


def _values(records: Mapping[int, Record], unit: Unit, flops: float) -> dict[int, float]:
    known = {place: record for place, record in records.items() if unit in COUNTED or not record.outraced}
    values = {place: value(record, unit, flops) for place, record in known.items()}
    return {place: number for place, number in values.items() if number is not None}
