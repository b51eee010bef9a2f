"""The tables of a site that set bundles and cards side by side, as sections like those of a report."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from gravbench.model.record import Record
from gravbench.model.variant import Variant, parents, summaries
from gravbench.report.names import Names, joined
from gravbench.report.numbers import milliseconds, number, percent, relative_error
from gravbench.report.provenance import Here, sign_notes, signs
from gravbench.report.section import Column, Part, Section, Table
from gravbench.report.sections.content import Content
from gravbench.report.sections.ladder import speed_words
from gravbench.sharing.signing import PROVES
from gravbench.site.gathered import RECOMPILED, RECOMPUTED, SIGNED, Checked, Gathered, Repetition, device_of
from gravbench.verdicts import ranking
from gravbench.verdicts.cards import multiprocessors
from gravbench.verdicts.ladder import Rung
from gravbench.verdicts.question import fastest_of_each
from gravbench.verdicts.ranking import Conditions, grouped, is_partial, named, seconds

ERRORS = (1e-2, 1e-3, 1e-4, 1e-5)
"""The accepted 99th percentiles of the error at which methods are compared."""
DIRECT, TREE, MULTIPOLE = "direct sum", "tree", "multipole method"
ABOUT = "≈"
"""The sign of an energy that is the median power times the time."""
LEVELS = {
    RECOMPUTED: "every number follows from the samples, and no check found a contradiction",
    RECOMPILED: "also, its code compiles here to the machine code that the bundle states",
    SIGNED: f"also, its bundle has a valid signature; the table above says by whom: {PROVES}",
    "reproduced": "also, another bundle has the same case on a card of the same kind, and the intervals of ± overlap",
    "not reproduced": "another bundle has the same case on a card of the same kind, and the intervals do not overlap",
}
READING = (
    "Each row is the fastest configuration of a variant in one toolkit, in one bundle. ± is half the 95 % interval of "
    "the time. The energy is that of the card's counter; with ≈ it is the median power times the time. Interactions "
    "per clock are those of one multiprocessor at the median clock that was read. The first page of the site says what "
    "the words under checked mean."
)


@dataclass(frozen=True)
class Row:
    """The fastest configuration of a variant in a toolkit, at one n and for one task, in one bundle."""

    checked: Checked
    task: str
    shared: Conditions
    rung: Rung
    repetitions: Sequence[Repetition]

    @property
    def record(self) -> Record:
        """The record of that configuration."""
        return self.rung.best

    @property
    def device(self) -> str:
        """The name of the card or processor."""
        return device_of(self.record)

    @property
    def level(self) -> str:
        """How much of it was checked, and whether others reproduced it."""
        level = self.checked.level(self.record)
        decided = [repetition for repetition in self.repetitions if repetition.within is not None]
        if not decided:
            return level
        agree = [repetition for repetition in decided if repetition.within]
        if agree:
            return f"{level}, reproduced by {len(agree)}"
        ratio = min((repetition.ratio for repetition in decided), key=lambda ratio: abs(ratio - 1))
        return f"{level}, not reproduced: {number(ratio, 3)} of the time in {decided[0].of.name}"

    @property
    def per_joule(self) -> str:
        """Interactions per joule, in units of 1e9."""
        if self.record.joules_per_interaction:
            return number(1e-9 / self.record.joules_per_interaction, 3)
        speed = ranking.speed(self.record)
        if not (speed and self.record.power_watts and self.record.driver):
            return ""
        return f"{ABOUT} {number(1e-9 * speed / statistics.median(self.record.power_watts), 3)}"

    @cached_property
    def per_clock(self) -> float | None:
        """Interactions per clock of one multiprocessor; None where its launch or its clock is not recorded."""
        speed, there = ranking.speed(self.record), multiprocessors(self.record)
        if not (speed and there and self.record.sm_clock_mhz):
            return None
        return speed / (1e6 * statistics.median(self.record.sm_clock_mhz) * there * self.record.gpus)


class Tables:
    """The rows of all bundles, and the sections that are made of them."""

    def __init__(self, gathered: Gathered, variants: Mapping[str, Variant]) -> None:
        """Find the fastest configurations of each bundle."""
        self.gathered = gathered
        self._variants = variants
        self.parents = parents(variants)
        self._names = Names([record for checked in gathered.bundles for record in checked.records])
        self.rows = [row for checked in gathered.bundles for row in self._rows_of(checked)]

    def content(self, checked: Checked, device: str | None = None) -> Content:
        """Return what a report of a bundle is built from, or of what one device of it measured."""
        records = [record for record in checked.records if device in (None, device_of(record))]
        here = Here(self._variants, records)
        loads = {name: variant.loads for name, variant in self._variants.items()}
        return Content([records], self.parents, here, summaries=summaries(self._variants), loads=loads)

    def _rows_of(self, checked: Checked) -> Iterable[Row]:
        content = self.content(checked)
        for shared, by_n in content.ladders.items():
            task = self._names.task(shared)
            for rungs in by_n.values():
                for rung in rungs:
                    yield Row(checked, task, shared, rung, self.gathered.repetitions(checked, rung.best))

    @property
    def devices(self) -> list[str]:
        """The cards and processors, cards first."""
        return list(
            dict.fromkeys(row.device for row in sorted(self.rows, key=lambda row: (row.shared.cpu, row.device)))
        )

    def side_by_side(self, chosen: Callable[[Row], bool] = lambda _: True) -> Section:
        """Show rows beside each other: those of a variant at one n stand together, the fastest first."""
        rows = list(filter(chosen, self.rows))
        order = ranking.ladder_order({row.record.variant for row in rows}, self.parents)
        rows.sort(key=lambda row: (row.task, -row.record.n, order.index(row.record.variant), seconds(row.record)))
        several_tasks = len({row.task for row in rows}) > 1
        columns: list[Column[Row]] = [
            Column("variant", lambda row: named(row.record), text=True),
            Column("card", lambda row: row.device, text=True),
            Column("n", lambda row: f"{row.record.n:,}"),
            Column("ms", lambda row: milliseconds(seconds(row.record))),
            Column("± %", lambda row: percent(row.checked.known.half_width(row.record)), 1),
            Column("1e9 interactions/s", lambda row: speed_words(row.record)),
            Column("", lambda row: signs(row.record), text=True),
            Column("1e9 interactions/J", lambda row: row.per_joule, 1),
            Column("interactions per clock", lambda row: number(row.per_clock, 3), 1),
            Column("max error", lambda row: relative_error(row.record.error_max), 1),
            Column("toolkit", lambda row: row.record.toolkit, text=True),
            Column("checked", lambda row: row.level, text=True),
            Column("bundle", lambda row: row.checked.name, text=True),
            Column("task", lambda row: row.task if several_tasks else "", 1, text=True),
            Column("configuration", lambda row: row.record.configuration, 1, text=True),
        ]
        notes = sign_notes(row.record for row in rows)
        return Section("rows", "Cards side by side", READING, [Part(table=Table(columns, rows), notes=notes)])

    def steps(self) -> Section:
        """Show the speed-up of each step over the one before, for each card: a table for each task, at one n."""
        parts = []
        for task, alike in grouped(self.rows, lambda row: row.task).items():
            by_n = grouped(alike, lambda row: row.record.n)
            n = max(by_n, key=lambda n: (len({row.device for row in by_n[n]}), len(by_n[n]), n))
            if part := self._steps_part(f"{task}, n = {n:,}", by_n[n]):
                parts.append(part)
        reading = (
            "The speed of the fastest configuration of a variant over that of the variant it is derived from, in the "
            "same toolkit and the same bundle; of several toolkits and bundles, where the variant is fastest. Above 1 "
            "the step pays on that card."
        )
        return Section("steps", "Which step pays on which card", reading, parts)

    def _steps_part(self, title: str, rows: Sequence[Row]) -> Part | None:
        gains: dict[str, dict[str, float]] = {}
        for row in sorted(rows, key=lambda row: seconds(row.record)):
            if row.rung.over_parent is not None:
                gains.setdefault(row.record.variant, {}).setdefault(row.device, row.rung.over_parent)
        if not gains:
            return None
        names = ranking.ladder_order(gains, self.parents)
        devices = [device for device in self.devices if any(device in of_variant for of_variant in gains.values())]
        columns: list[Column[str]] = [
            Column("variant", lambda name: name, text=True),
            Column("over", lambda name: self.parents.get(name) or "", text=True),
            *(Column(_with_architecture(device, rows), _gain_on(gains, device)) for device in devices),
        ]
        return Part(title, table=Table(columns, names))

    def crossover(self) -> Section | None:
        """Show from how many bodies on trees and multipole methods are faster than direct sums, on each card."""
        measured = [
            record
            for checked in self.gathered.bundles
            for record in self.content(checked).competitors
            if ranking.is_ranked(record) and record.error_p99
        ]
        parts = []
        for (device, _), alike in grouped(measured, _place).items():
            by_n = sorted(grouped(alike, ranking.size).items())
            table = sorted(
                (line for n, same in by_n for line in _lines(n, same)), key=lambda line: (-line.error, line.n)
            )
            if table:
                title = f"{device}, {self._names.task(ranking.conditions(alike[0]))}"
                parts.append(Part(title, table=Table(_CROSSOVER, table), lines=_conclusions(table)))
        reading = (
            "The fastest of each kind of method whose error is accepted, in ms, in all bundles of a card; the error is "
            "the 99th percentile over the bodies. An n where only one kind was measured with this error is left out."
        )
        return Section("crossover", "Direct sums, trees and multipole methods", reading, parts) if parts else None


def _with_architecture(device: str, rows: Sequence[Row]) -> str:
    """Name a card with its compute capability, and a processor by its name alone."""
    capability = next((row.record.compute_capability for row in rows if row.device == device), None)
    return f"{device} (compute capability {capability})" if capability else device


def _gain_on(gains: Mapping[str, Mapping[str, float]], device: str) -> Callable[[str], str]:
    return lambda name: number(gains[name].get(device), 3)


def _place(record: Record) -> tuple[str, object]:
    return device_of(record), ranking.conditions(record).task


@dataclass(frozen=True, slots=True)
class Line:
    """What is fastest of each kind of method at one n with an accepted error; there are several kinds."""

    error: float
    n: int
    best: Mapping[str, Record]

    @property
    def fastest(self) -> str:
        """The kind of the fastest method."""
        return min(self.best, key=lambda kind: seconds(self.best[kind]))


def _kind(record: Record) -> str:
    if "order" in record.axes:
        return MULTIPOLE
    return TREE if "theta" in record.axes else "" if is_partial(record) else DIRECT


def _lines(n: int, records: Sequence[Record]) -> Iterable[Line]:
    for error in ERRORS:
        accepted = [record for record in records if record.error_p99 and record.error_p99 <= error and _kind(record)]
        best = fastest_of_each(accepted, _kind)
        if len(best) > 1:
            yield Line(error, n, best)


def _time_of(kind: str) -> Callable[[Line], str]:
    def cell(line: Line) -> str:
        record = line.best.get(kind)
        return f"{milliseconds(seconds(record))} {named(record)}" if record else ""

    return cell


_CROSSOVER: list[Column[Line]] = [
    Column("error", lambda line: f"{line.error:.0e}"),
    Column("n", lambda line: f"{line.n:,}"),
    *(Column(kind, _time_of(kind), 1, text=True) for kind in (DIRECT, TREE, MULTIPOLE)),
    Column("fastest", lambda line: line.fastest, text=True),
]


def _conclusions(lines: Sequence[Line]) -> list[str]:
    """Say for each error at which n which kind of method is the fastest."""
    sentences = []
    for error, alike in grouped(lines, lambda line: line.error).items():
        kinds = grouped(alike, lambda line: line.fastest)
        words = [f"{kind} at n = {joined(f'{line.n:,}' for line in of_kind)}" for kind, of_kind in kinds.items()]
        sentences.append(f"Error {error:.0e}: fastest is the {'; the '.join(words)}.")
    return sentences
