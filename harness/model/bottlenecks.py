"""What most of the time of a record goes to, as `gravbench explain bottleneck` found it and keeps it in a run folder.

An entry is of one measurement, by its case, its beginning and its time: it is never that of another source or device.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from gravbench.model import json_models
from gravbench.model.limits import Amount, Moment, Name, Prose, Text
from gravbench.model.record import Record

FILE = "limits.json"
ISSUE_BOUND = "issue-bound"
"""The part of the time in which the schedulers issue instructions."""
NAMES = {"instructions": ISSUE_BOUND}
"""What parts are called in files of earlier versions, and what they are called now."""


class Limit(BaseModel, frozen=True):
    """The largest ``part`` of the time of a measurement, its ``share`` of it, and the sentence that says why."""

    model_config = ConfigDict(extra="ignore")

    key: Name
    started: Moment
    seconds: Amount
    part: Text
    share: float = Field(ge=0, le=1)
    reason: Prose

    @property
    def words(self) -> str:
        """Name it in one phrase with a number."""
        return f"{NAMES.get(self.part, self.part)} {self.share:.0%}".replace("%", " %")


class Limits(BaseModel, frozen=True):
    """Those of the measurements of a run; ``compiler`` made the machine code that they are found by."""

    model_config = ConfigDict(extra="ignore")

    compiler: Text = ""
    limits: list[Limit] = Field(default_factory=list)

    def joined(self, others: Iterable[Limits]) -> Limits:
        """Add those of other runs."""
        return Limits(
            compiler=self.compiler, limits=[*self.limits, *(limit for each in others for limit in each.limits)]
        )

    @cached_property
    def _known(self) -> dict[tuple[str, str, float | None], Limit]:
        return {(limit.key, limit.started, limit.seconds): limit for limit in self.limits}

    def of(self, record: Record) -> Limit | None:
        """Return that of a record; None where it was not explained."""
        return self._known.get((record.key, record.started, record.median_seconds))

    def any_of(self, records: Iterable[Record]) -> bool:
        """Tell whether any of these records was explained."""
        return any(self.of(record) for record in records)

    def words(self, record: Record) -> str:
        """Name that of a record in one phrase; empty where it was not explained."""
        limit = self.of(record)
        return limit.words if limit else ""

    def write(self, folder: Path) -> Path:
        """Write the file of a run folder at once.

        Raises:
            InputError: it cannot be written.
        """
        return json_models.write(self, folder / FILE)


def read(folder: Path) -> Limits:
    """Read those of a run folder; without its file, nothing is explained.

    Raises:
        InputError: the file is not what ``gravbench explain bottleneck`` writes.
    """
    return json_models.read(Limits, folder / FILE, "gravbench explain bottleneck")


NONE = Limits()
"""Nothing is explained."""
