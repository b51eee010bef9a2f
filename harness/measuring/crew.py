"""The processes of one device that measure each case together: each its part of the budget, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Generic, Protocol, TypeVar

from gravbench.measuring.outcome import Outcome
from gravbench.measuring.protocol import joined, part_of
from gravbench.measuring.worker import Job
from gravbench.model.record import Measurement


class Process(Protocol):
    """What can be started together with others, and ended."""

    def begin(self) -> None:
        """Have it import what cases need before it is given one, and do not wait for that."""

    def ready(self) -> None:
        """Wait until it has, or is of no use."""

    def stop(self) -> None:
        """End it."""


Member = TypeVar("Member", bound=Process)


class Crew(Generic[Member]):
    """So many processes, started together when they are first needed; one that breaks is replaced."""

    def __init__(self, size: int, start: Callable[[], Member], numbers: Iterator[int]) -> None:
        """Start processes by ``start``; ``numbers`` tells those of one run apart."""
        self._size = size
        self._start = start
        self._numbers = numbers
        self._members: dict[int, Member] = {}

    def work(self, job: Job, ask: Callable[[Member, Job], Outcome]) -> Outcome:
        """Have one job done by every process in turn, until the budget is spent, and join what they found.

        ``ask`` has a part of the job done by one of them. What goes wrong in one decides. A job that measures nothing
        is for a single process.
        """
        settings = job.settings
        if settings is None:
            return self._ask(0, job, ask)[1]
        self._fill()
        found: dict[int, Measurement] = {}
        first: Outcome | None = None
        spent = 0.0
        for place in range(self._size):
            again = place > 0
            part = replace(job, settings=part_of(settings, self._size, again=again), again=again)
            number, outcome = self._ask(place, part, ask)
            measured = outcome.found.measurement
            if outcome.status != "ok":
                return _with(outcome, joined({number: measured}, settings)) if measured.samples_seconds else outcome
            found[number] = measured
            first = first or outcome
            spent += sum(measured.samples_seconds) * (measured.batch or 1)
            if spent >= settings.budget_seconds or measured.outraced:
                break
        assert first is not None
        return _with(first, joined(found, settings))

    @property
    def is_complete(self) -> bool:
        """Whether no process has to be started for the next job."""
        return len(self._members) >= self._size

    def _fill(self) -> None:
        """Start what is missing, all at once: nothing is measured while one of them still imports."""
        added = [self._add() for _ in range(self._size - len(self._members))]
        if self._size > 1:
            for member in added:
                member.begin()
            for member in added:
                member.ready()

    def _add(self) -> Member:
        member = self._members[next(self._numbers)] = self._start()
        return member

    def _ask(self, place: int, job: Job, ask: Callable[[Member, Job], Outcome]) -> tuple[int, Outcome]:
        if place >= len(self._members):
            self._add()
        number = list(self._members)[place]
        outcome = ask(self._members[number], job)
        if outcome.broken:
            self._members.pop(number).stop()
        return number, outcome

    def dismiss(self) -> None:
        """End all processes; the next job starts others."""
        while self._members:
            self._members.popitem()[1].stop()


def _with(outcome: Outcome, measurement: Measurement) -> Outcome:
    return replace(outcome, found=replace(outcome.found, measurement=measurement))
