"""The bundles of a site: each is checked first, and what contradicts itself is refused with the reason.

A result of a consistent bundle has a level, which says how much of it was checked here, and may have repetitions: the
same case on a card of the same kind in another bundle.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from gravbench.errors import InputError
from gravbench.model.record import Record
from gravbench.sharing import bundle, checks
from gravbench.sharing.bundle import ENDING, Bundle
from gravbench.sharing.checks import Answer
from gravbench.verdicts.cards import card_of, together
from gravbench.verdicts.ranking import is_ranked, seconds
from gravbench.verdicts.uncertainty import Uncertainties

RECOMPUTED, RECOMPILED, SIGNED = "recomputed", "recompiled", "signed"
MACHINE_CODE = "machine code"
MOST_REASONS = 3
"""Contradictions of a refused bundle that the site shows."""


@dataclass(frozen=True)
class Checked:
    """A consistent bundle and what was checked of it."""

    bundle: Bundle
    answer: Answer

    @property
    def name(self) -> str:
        """The name of its file, without the ending."""
        return self.bundle.name.removesuffix(ENDING)

    @cached_property
    def records(self) -> list[Record]:
        """Its records in their order, in which cards that share cases are one device."""
        (records,) = together([list(self.bundle.records.values())])
        return records

    @cached_property
    def known(self) -> Uncertainties:
        """How uncertain its records are."""
        return Uncertainties([self.records])

    @cached_property
    def _recompiled(self) -> set[int]:
        lines = self.answer.outcomes[MACHINE_CODE].recompiled
        return {id(record) for line, record in zip(self.bundle.records, self.records, strict=True) if line in lines}

    def level(self, record: Record) -> str:
        """Say how much of a record was checked here."""
        level = RECOMPILED if id(record) in self._recompiled else RECOMPUTED
        return f"{level}, {SIGNED}" if self.answer.signer else level

    @cached_property
    def unchecked(self) -> list[str]:
        """What could not be checked, and why."""
        return [f"{name}: {why}" for name, outcome in self.answer.outcomes.items() for why in outcome.unchecked]


@dataclass(frozen=True, slots=True)
class Repetition:
    """The same case in another bundle, on a card of the same kind: the ratio of its time to this one's.

    ``within``: the intervals of both overlap; None where one of them is not bounded.
    """

    of: Checked
    ratio: float
    within: bool | None


@dataclass(frozen=True)
class Gathered:
    """Consistent bundles, and the names of the others with the reasons for which they were refused."""

    bundles: Sequence[Checked]
    refused: Sequence[tuple[str, Sequence[str]]] = field(default_factory=list)

    @cached_property
    def _measured(self) -> dict[tuple[object, ...], list[tuple[Checked, Record]]]:
        cases = defaultdict(list)
        for checked in self.bundles:
            for record in filter(is_ranked, checked.records):
                cases[_case(record)].append((checked, record))
        return cases

    def repetitions(self, checked: Checked, record: Record) -> list[Repetition]:
        """Return the newest record of the same case in each other bundle; the same samples are no repetition."""
        newest: dict[str, Repetition] = {}
        for other, measured in self._measured[_case(record)]:
            if other is not checked and measured.samples_seconds != record.samples_seconds:
                newest[other.answer.root] = Repetition(
                    other, seconds(measured) / seconds(record), _overlap(checked, record, other, measured)
                )
        return list(newest.values())


def device_of(record: Record) -> str:
    """Name the kind of card, or the processor, that measured a record."""
    return card_of(record)[0] or "unknown"


def _case(record: Record) -> tuple[object, ...]:
    return record.identity, device_of(record), record.compute_capability


def _overlap(checked: Checked, record: Record, other: Checked, measured: Record) -> bool | None:
    mine, theirs = checked.known.interval(record), other.known.interval(measured)
    return None if mine is None or theirs is None else mine[0] <= theirs[1] and theirs[0] <= mine[1]


def files_of(paths: Iterable[Path]) -> list[Path]:
    """Return bundles: the files that are named, and those in folders that are named.

    Raises:
        InputError: a folder has none.
    """
    files: list[Path] = []
    for path in paths:
        there = sorted(path.glob(f"*{ENDING}")) if path.is_dir() else [path]
        if not there:
            raise InputError(f"{path}: no bundle in this folder; accepted: files whose names end in {ENDING}")
        files += there
    return list(dict.fromkeys(files))


def gather(
    files: Sequence[Path], *, all_kernels: bool = False, say: Callable[[str], None] = lambda _: None
) -> Gathered:
    """Check every bundle; one that is there twice counts once.

    Raises:
        InputError: not one of them is consistent.
    """
    bundles: dict[str, Checked] = {}
    refused: list[tuple[str, Sequence[str]]] = []
    for file in files:
        say(f"checking {file.name}")
        try:
            read = bundle.read(file)
        except InputError as error:
            refused.append((file.name, [str(error).removeprefix(f"{file}: ")]))
            continue
        answer = checks.verify(read, all_kernels=all_kernels)
        if answer.consistent:
            bundles.setdefault(answer.root, Checked(read, answer))
        else:
            refused.append((file.name, _reasons(answer)))
    if not bundles:
        why = "; ".join(f"{name}: {reasons[0]}" for name, reasons in refused)
        raise InputError(f"no consistent bundle for the site: {why}; gravbench verify FILE says more")
    return Gathered(list(bundles.values()), refused)


def _reasons(answer: Answer) -> list[str]:
    findings = [f"{name}: {why}" for name, outcome in answer.outcomes.items() for why in outcome.findings]
    more = len(findings) - MOST_REASONS
    return findings[:MOST_REASONS] + [f"and {more:,} more"] * (more > 0)
