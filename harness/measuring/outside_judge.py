"""The process of the judge outside: one per run, which imports no variant and opens no device.

The engine asks it about each case that a session found right. What it compares with, it computes ahead, while the
session prepares the case. It is suspended while a device measures.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from gravbench.measuring.outcome import text_of
from gravbench.measuring.processes import Started, Workplace
from gravbench.measuring.session import ignore_interrupts, print_to
from gravbench.model import interaction_files
from gravbench.model.bodies import Bodies
from gravbench.model.case import Case
from gravbench.model.interaction import GRAVITY
from gravbench.toolkits.devices import expose
from gravbench.verifying.direct_sums import direct_sums
from gravbench.verifying.outside import Question, RowsAhead, objection

TWO_BODIES = Bodies(np.ones(2), np.eye(2, 3), np.zeros((2, 3)), 1.0)


@dataclass(frozen=True, slots=True)
class Answer:
    """What is wrong with the launches of a case, None where nothing is; or why they could not be judged."""

    objection: str | None = None
    error: str | None = None


def serve(connection: Connection, log: Path) -> None:
    """Answer questions until the other side goes away."""
    ignore_interrupts()
    print_to(log)
    expose(())  # no device at all
    # The first question shall not wait for what Numba imports and loads.
    direct_sums(interaction_files.find(GRAVITY), TWO_BODIES, np.arange(2), "float32")
    ahead = RowsAhead()
    with suppress(EOFError, OSError):
        while True:
            number, content = connection.recv()
            if isinstance(content, Question):
                connection.send((number, _answer(content, ahead)))
            else:
                with suppress(Exception):  # the answer says so
                    ahead.add(*content)


def _answer(question: Question, ahead: RowsAhead) -> Answer:
    try:
        return Answer(objection(question, ahead))
    except Exception as error:
        return Answer(error=f"{type(error).__name__}: {text_of(error)}")


class OutsideJudge:
    """The judge as the engine sees it. It has one question at a time, and another process after one that died."""

    def __init__(self, place: Workplace, log: Path) -> None:
        """Start its process; what it prints goes to the file ``log``."""
        self._place, self._log = place, log
        self._is_asked = self._is_suspended = False
        self._numbers = itertools.count(1)
        self._process = self._started()

    @property
    def waits_for(self) -> list[Connection | int]:
        """What becomes ready when it has answered."""
        return [self._process.connection] if self._is_asked and not self._is_suspended else []

    def expect(self, case: Case, seed: int, drawings: tuple[int, ...]) -> None:
        """Have it compute ahead what it needs for a question; it does so when it is asked, where it is suspended now.

        What it is sent then would wait in a pipe that holds little.
        """
        if not self._is_suspended:
            with suppress(OSError):  # it died, which the question shows
                self._process.connection.send((None, (case, seed, drawings)))

    def answer(self, question: Question) -> Generator[None, None, Answer]:
        """Have a question answered; yields None while it waits for that."""
        while self._is_asked:
            yield None
        self._is_asked = True
        try:
            answer = yield from self._answer(question)
            if answer is None:  # whatever killed its process, another one may answer
                answer = yield from self._answer(question)
        finally:
            self._is_asked = False
        return answer or Answer(error="its process died twice")

    def _answer(self, question: Question) -> Generator[None, None, Answer | None]:
        """Ask its process; None where that died, and another one has taken its place."""
        while self._is_suspended:  # to write to it would block
            yield None
        number, answered = next(self._numbers), 0
        try:
            self._process.connection.send((number, question))
            while answered != number:  # the answer to a question that nobody waits for any more may come first
                while not self._process.connection.poll():
                    yield None
                answered, answer = self._process.connection.recv()
        except (EOFError, OSError):
            self._process.end()
            self._process = self._started()
            if self._is_suspended:
                self._process.suspend()
            return None
        assert isinstance(answer, Answer)
        return answer

    def suspend(self) -> None:
        """Have it compute nothing for a while."""
        self._is_suspended = True
        self._process.suspend()

    def resume(self) -> None:
        """Let it go on."""
        self._is_suspended = False
        self._process.resume()

    def close(self) -> None:
        """End its process."""
        self._process.end()

    def _started(self) -> Started:
        return Started(self._place, serve, (self._log,), starts_others=False)
