"""What a search of a sweep is asked and told: the next case, and what measuring it gave."""

from __future__ import annotations

import math
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

from gravbench.config.search import Search
from gravbench.model.case import Case
from gravbench.model.record import Record
from gravbench.model.variant import Variant
from gravbench.search.comparison_groups import contest, told_apart

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Question:
    """A case to be measured next.

    Where ``behind`` is given, a case whose median is above so many seconds cannot be the fastest of its contest:
    its sampling may stop as soon as that is sure. ``again`` marks the repetition of a case that was measured.
    """

    case: Case
    behind: float | None = None
    again: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """What measuring gave: the median in seconds, None of what failed or was invalid, and what bounds it.

    Without an ``interval`` nothing bounds it. One that was ``outraced`` is known to be slower than the fastest.
    """

    seconds: float | None
    interval: tuple[float, float] | None = None
    outraced: bool = False

    @property
    def low(self) -> float:
        """The least that the median may be."""
        return self.interval[0] if self.interval else 0.0

    @property
    def high(self) -> float:
        """The most that the median may be."""
        return self.interval[1] if self.interval else math.inf


class Strategy(ABC):
    """A search of the cases of a sweep on one device: ``ask`` for a case, measure it, ``tell``, and again until None.

    It is given every case that there is, so that it asks for no other, and asks for none twice but to repeat it. What
    an earlier start of the run measured is told first. The same seed, cases and answers give the same questions.
    ``clock`` is that by which ``budget_seconds`` pass.
    """

    def __init__(
        self, cases: Sequence[Case], search: Search, variants: Mapping[str, Variant], clock: Clock = time.monotonic
    ) -> None:
        self.search = search
        self._variants = variants
        self.cases = list(cases)
        random.Random(search.seed).shuffle(self.cases)
        self.answers: dict[int, Answer] = {}
        self.repeated: dict[int, Answer] = {}
        self._place = {case.identity: place for place, case in enumerate(self.cases)}
        self._taken: set[int] = set()
        self._clock = clock
        self._began: float | None = None
        places: dict[Hashable, list[int]] = {}
        for place, case in enumerate(self.cases):
            places.setdefault(contest(case, variants), []).append(place)
        self.contests = list(places.values())
        self._contest_of = {place: number for number, contest in enumerate(self.contests) for place in contest}
        self._fastest: list[Answer | None] = [None] * len(self.contests)

    @property
    def left_out(self) -> int:
        """How many cases are not measured, because the budget is spent."""
        return len(self.cases) - len(self._taken)

    def ask(self) -> Question | None:
        """Return what to measure next; None at the end, by the budget or because nothing is left."""
        self._began = self._clock() if self._began is None else self._began
        place = None if self.at_its_end else self._next()
        if place is None:
            return self._at_the_end()
        self._taken.add(place)
        return Question(self.cases[place], self._behind(place))

    @property
    def at_its_end(self) -> bool:
        """Whether no case is left to be asked for the first time: what is asked then depends on all answers."""
        return self._spent() or len(self._taken) == len(self.cases)

    def tell(
        self,
        case: Case,
        seconds: float | None,
        interval: tuple[float, float] | None = None,
        *,
        outraced: bool = False,
    ) -> None:
        """Say what a case took, whether or not it was asked for; a case of no sweep is passed over.

        Args:
            case: the case, or a record of it.
            seconds: its median, in seconds; None of what failed or was invalid.
            interval: what bounds the median, None where the samples are too few.
            outraced: its sampling was stopped because it was slower than ``Question.behind``.
        """
        place = self._place.get(case.identity)
        if place is None:
            return
        answer = Answer(seconds, interval, outraced)
        if place in self.answers:
            self.repeated[place] = answer
            return
        self._taken.add(place)
        self.answers[place] = answer
        if seconds is not None and not outraced:
            number = self._contest_of[place]
            best = self._fastest[number]
            if best is None or best.seconds is None or seconds < best.seconds:
                self._fastest[number] = answer
        self._learn(place, answer)

    def tell_record(self, record: Record) -> None:
        """Tell what a record says, of this run or of an earlier start of it; what was skipped says nothing.

        Later repetitions of the anchor are passed over, by whatever device.
        """
        is_known = self._place.get(record.identity) in self.answers
        if record.status == "skipped" or record.anchor > (0 if is_known else 1):
            return
        seconds = record.median_seconds if record.status == "ok" else None
        ends = None if record.ci_low is None or record.ci_high is None else (record.ci_low, record.ci_high)
        self.tell(record, seconds, ends, outraced=record.outraced)

    def result(self) -> list[list[Case]]:
        """Return, contest by contest, the cases that cannot be told from the fastest one, by their medians."""
        orders = []
        for number in range(len(self.contests)):
            medians = {place: self._median(place) for place in self._finalists(number)}
            measured = {place: median for place, median in medians.items() if median is not None}
            if measured:
                orders.append([self.cases[place] for place in sorted(measured, key=measured.__getitem__)])
        return orders

    def told_apart(self, fastest: Sequence[Case]) -> list[str]:
        """Name the contest of each case by what sets it apart from the others of the same n."""
        return told_apart(fastest, self._variants)

    @abstractmethod
    def _next(self) -> int | None:
        """Choose the next case, by its place in ``cases``, of those that were not taken: there is one."""

    def _behind(self, place: int) -> float | None:  # noqa: ARG002 - for those that race
        """Bound what a case has to take less than."""
        return None

    def _learn(self, place: int, answer: Answer) -> None:  # noqa: B027 - not every search learns
        """Take note of what the case at ``place`` took."""

    def _at_the_end(self) -> Question | None:
        """Return what to ask when no case is left or the budget is spent."""
        return None

    def _bound(self, number: int) -> float:
        """Return the seconds above which a case of this contest is told from the fastest."""
        best = self._fastest[number]
        return best.high * (1 + self.search.threshold) if best else math.inf

    def _finalists(self, number: int) -> list[int]:
        """Return those of a contest that cannot be told from its fastest."""
        bound = self._bound(number)
        known = [(place, self.answers[place]) for place in self.contests[number] if place in self.answers]
        return [
            place
            for place, measured in known
            if measured.seconds is not None and not measured.outraced and not measured.low > bound
        ]

    def _median(self, place: int) -> float | None:
        """Return the median, of two measurements their geometric mean; None where the second one failed."""
        first, second = self.answers[place], self.repeated.get(place)
        if second is None or first.seconds is None:
            return first.seconds
        return None if second.seconds is None else math.sqrt(first.seconds * second.seconds)

    def _spent(self) -> bool:
        trials, seconds = self.search.budget_trials, self.search.budget_seconds
        over = seconds is not None and self._began is not None and self._clock() - self._began >= seconds
        return over or (trials is not None and len(self._taken) >= trials)
