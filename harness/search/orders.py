"""Searches that pass over the sweep once, in a shuffled order: all of it, or a race."""

from __future__ import annotations

import math
from collections import deque

from gravbench.search.strategy import Question, Strategy


class All(Strategy):
    """Every case, in a shuffled order."""

    _passed = 0

    def _next(self) -> int | None:
        while self._passed in self._taken:
            self._passed += 1
        return self._passed


class Race(All):
    """Every case once, each stopped as soon as it cannot be the fastest; then once more those that still can.

    A case is asked with the upper end of the fastest one's interval so far, plus the threshold. The finalists of a
    contest are the cases whose intervals do not lie above that at the end; where there are several they are repeated.
    """

    _finals: deque[int] | None = None

    def _behind(self, place: int) -> float | None:
        bound = self._bound(self._contest_of[place])
        return bound if bound < math.inf else None

    def _at_the_end(self) -> Question | None:
        if self._finals is None:
            tied = [places for number in range(len(self.contests)) if len(places := self._finalists(number)) > 1]
            self._finals = deque(place for places in tied for place in places if place not in self.repeated)
        return Question(self.cases[self._finals.popleft()], again=True) if self._finals else None
