"""The process of the judge outside: one per run, which imports no variant and opens no device.

The engine asks it about each case that a session found right. It is suspended while a device measures.
"""

from __future__ import annotations

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
from gravbench.model.interaction import GRAVITY
from gravbench.toolkits.devices import expose
from gravbench.verifying.direct_sums import direct_sums
from gravbench.verifying.outside import Question, objection

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
    with suppress(EOFError, OSError):
        while True:
            connection.send(_answer(connection.recv()))


def _answer(question: Question) -> Answer:
    try:
        return Answer(objection(question))
    except Exception as error:
        return Answer(error=f"{type(error).__name__}: {text_of(error)}")


class OutsideJudge:
    """The judge as the engine sees it. It has one question at a time, and another process after one that died."""

    def __init__(self, place: Workplace, log: Path) -> None:
        """Start its process; what it prints goes to the file ``log``."""
        self._place, self._log = place, log
        self._is_asked = self._is_suspended = False
        self._process = self._started()

    @property
    def waits_for(self) -> list[Connection | int]:
        """What becomes ready when it has answered."""
        return [self._process.connection] if self._is_asked else []

    def answer(self, question: Question) -> Generator[None, None, Answer]:
        """Have a question answered; yields None while it waits for that."""
        # To write to a process that is suspended would block.
        while self._is_asked or self._is_suspended:
            yield None
        self._is_asked = True
        try:
            self._process.connection.send(question)
            while not self._process.connection.poll():
                yield None
            answer: Answer = self._process.connection.recv()
        except (EOFError, OSError):
            answer = Answer(error=f"its process died: {self._process.exit()}")
            self._process.end()
            self._process = self._started()
        self._is_asked = False
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
        return Started(self._place, serve, (self._log,))
