"""What the sections of a report are built from: the records of runs, and everything that is said of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from gravbench.config.published import Source
from gravbench.model.bottlenecks import NONE as UNEXPLAINED
from gravbench.model.bottlenecks import Limits
from gravbench.model.record import Record
from gravbench.model.runs import latest
from gravbench.report import published
from gravbench.report.chosen import EVERYTHING, Chosen
from gravbench.report.names import Names, drift_notes, drift_signs
from gravbench.report.provenance import NOWHERE, Here
from gravbench.verdicts import ranking
from gravbench.verdicts.ladder import Ladders, ladders
from gravbench.verdicts.question import USUAL, Question
from gravbench.verdicts.ranking import Conditions, Drift, Parents
from gravbench.verdicts.seeds import measured, over_seeds
from gravbench.verdicts.uncertainty import Uncertainties
from gravbench.verdicts.winners import Field, winners, with_wins


@dataclass(frozen=True)
class Content:
    """The records of whole ``runs`` and what is ``chosen`` of them, which alone has rows.

    Gains are over all variants, and ± and drifts are those of whole runs. ``parents`` maps each known variant to its
    parent, and ``summaries`` to what it changes; ``loads`` has the expressions of those that declare their reads.
    Records whose source is not the one that is ``here`` are marked. ``limits`` say what most of the time of a record
    goes to. ``others`` are the runs beside a single one that claims of its ``source`` name. What is fastest answers the
    ``question``.
    """

    runs: Sequence[Sequence[Record]]
    parents: Parents
    here: Here = NOWHERE
    chosen: Chosen = EVERYTHING
    limits: Limits = UNEXPLAINED
    summaries: Mapping[str, str] = field(default_factory=dict)
    loads: Mapping[str, str | None] = field(default_factory=dict)
    source: Source | None = None
    others: published.Others = field(default_factory=dict)
    question: Question = USUAL

    @cached_property
    def records(self) -> list[Record]:
        """The records of all runs."""
        return [record for run in self.runs for record in run]

    @cached_property
    def comparable(self) -> list[Record]:
        """The records of the chosen n and device, of every variant."""
        return self.chosen.comparable(self.records)

    @cached_property
    def cases(self) -> list[Record]:
        """One record per case that is shown."""
        return self.chosen.shown(latest(self.comparable))

    @cached_property
    def _competitors(self) -> list[Record]:
        return over_seeds(latest(self.comparable))

    @cached_property
    def competitors(self) -> list[Record]:
        """One record for each of the cases that differ in more than the seed, of those that are shown."""
        return self.chosen.shown(self._competitors)

    @cached_property
    def ladders(self) -> Ladders:
        """The ladders of what is shown."""
        return self.chosen.rungs(ladders(self._competitors, self.parents))

    @cached_property
    def names(self) -> Names:
        """Titles, which name what sets apart what can be compared."""
        return Names(self._competitors)

    @cached_property
    def known(self) -> Uncertainties:
        """How uncertain the records are."""
        return Uncertainties(list(map(list, self.runs)))

    @cached_property
    def drifts(self) -> list[Drift]:
        """How far each anchor of the chosen device drifted."""
        return [drift for run in self.runs for drift in self.chosen.drifts(ranking.drifts(run))]

    @cached_property
    def _runs_of(self) -> dict[int, int]:
        """The place of each record's run, by the record itself: equal ones may stand in two runs."""
        return {id(record): place for place, run in enumerate(self.runs) for record in run}

    @cached_property
    def _drifted(self) -> list[list[Drift]]:
        return [ranking.drifted(run) for run in self.runs]

    def drifted(self, records: Iterable[Record], *places: Conditions) -> list[Drift]:
        """Return the drifts beyond the limit of these places' devices, in the runs that these records are from."""
        runs = {self._runs_of[id(measured(record))] for record in records}
        return ranking.affecting((drift for run in sorted(runs) for drift in self._drifted[run]), *places)

    def titled(self, records: Iterable[Record], shared: Conditions, *words: str) -> tuple[str, list[str]]:
        """Return the title of a table of records under some conditions, behind ``words``, and the notes on drift."""
        drifted = self.drifted(records, shared)
        return ", ".join([*words, self.names.title(shared)]) + drift_signs(drifted), drift_notes(drifted)

    @cached_property
    def fields(self) -> list[Field]:
        """What is fastest on each device and for each task, of what is shown."""
        return with_wins(winners(list(map(list, self.runs)), self.parents, self.question), self.chosen.has)
