"""What a student has done: one JSON file, in which attempts are only ever added."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from filelock import FileLock
from platformdirs import user_data_path
from pydantic import BaseModel, ConfigDict

from gravbench.errors import InputError
from gravbench.model import json_models
from gravbench.model.stem_code import CUDA_C

FILE = "progress.json"
COMMAND = "gravbench learn"
Verdict = Literal["wrong", "right", "good"]
"""``right`` is a right result that costs more than the rung, ``good`` one that is as good as the rung."""


class Attempt(BaseModel):
    """One check of a submission: when, of which text, in a file with which ending, and what was said of it."""

    model_config = ConfigDict(extra="forbid")

    time: str
    sha256: str
    verdict: Verdict
    sentence: str
    ending: str = CUDA_C


class Work(BaseModel):
    """What was done in one exercise: its attempts, and how many hints were opened."""

    model_config = ConfigDict(extra="forbid")

    attempts: list[Attempt] = []
    hints: int = 0
    solution_shown: bool = False

    @property
    def best(self) -> Verdict | None:
        """The best verdict of all attempts."""
        order: tuple[Verdict, ...] = ("good", "right", "wrong")
        return next((verdict for verdict in order if any(each.verdict == verdict for each in self.attempts)), None)

    def has_attempt(self, ending: str) -> bool:
        """Tell whether a file with an ending was checked."""
        return any(each.ending == ending for each in self.attempts)


class Progress(BaseModel):
    """The file: exercises by their names."""

    model_config = ConfigDict(extra="forbid")

    version: Literal[1] = 1
    exercises: dict[str, Work] = {}

    def of(self, name: str) -> Work:
        """Return what was done in an exercise, to be changed."""
        return self.exercises.setdefault(name, Work())

    @property
    def ending(self) -> str:
        """The ending of the file that was checked last."""
        attempts = (attempt for work in self.exercises.values() for attempt in work.attempts)
        last = max(attempts, key=lambda attempt: attempt.time, default=None)
        return last.ending if last else CUDA_C


def usual_path() -> Path:
    """Return where progress is kept, in the folder of the user's data."""
    return user_data_path("gravbench") / "learn" / FILE


def read(path: Path) -> Progress:
    """Return what a file says; without the file, nothing was done.

    Raises:
        InputError: it is not what the course wrote.
    """
    return json_models.read(Progress, path, COMMAND)


@contextmanager
def changing(path: Path) -> Iterator[Progress]:
    """Give the progress to change, and write it whole at the end; another process waits.

    Raises:
        InputError: the file is not what the course wrote, or cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_suffix(".lock")):
            progress = read(path)
            yield progress
            json_models.write(progress, path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error


def attempt(text: str, verdict: Verdict, sentence: str, ending: str = CUDA_C) -> Attempt:
    """Return an attempt of now."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    return Attempt(time=now, sha256=sha256, verdict=verdict, sentence=sentence, ending=ending)
