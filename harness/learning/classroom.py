"""A folder of submissions as one table: who is right, what it costs, how many attempts, and what is nearly the same.

``FOLDER/STUDENT/EXERCISE.cu``, or ``EXERCISE.py``, is a submission. ``FOLDER/STUDENT/progress.json``, if it was handed
in, has the attempts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from gravbench.config.document import text_of
from gravbench.errors import InputError
from gravbench.judging.entry import MOST_BYTES, PYTHON
from gravbench.judging.judged import page_of
from gravbench.judging.launching import Launcher
from gravbench.learning.checking import Checked, check
from gravbench.learning.exercises import NAMES, ending_of, exercise
from gravbench.learning.progress import FILE, Progress, Verdict, read
from gravbench.learning.shown import BY_COUNTS, COLOURS, WORDS
from gravbench.learning.similarity import LEAST, Pair, similar
from gravbench.learning.thresholds import Thresholds
from gravbench.model.blocks import cores
from gravbench.model.stem_code import CUDA_C
from gravbench.report.numbers import number
from gravbench.report.section import Column, Part, Section, Table

MOST_AT_ONCE = 4
"""Submissions that are checked at the same time."""


@dataclass(frozen=True)
class Submission:
    """A file of a student, and what came of it; ``unreadable`` is one that is no entry, or not for its exercise."""

    student: str
    exercise: str
    ending: str
    text: str
    verdict: Verdict | Literal["unreadable"]
    sentence: str
    slots: float | None
    attempts: int | None

    @property
    def name(self) -> str:
        """Student and file."""
        return f"{self.student}/{self.exercise}{self.ending}"


@dataclass(frozen=True)
class Class:
    """All submissions of a folder, pairs that are nearly the same, and files that are no submissions."""

    folder: Path
    submissions: tuple[Submission, ...]
    pairs: tuple[Pair, ...]
    ignored: tuple[str, ...]


def read_class(folder: Path, limits: Thresholds, launcher: Launcher, say: Callable[[str], object]) -> Class:
    """Check all submissions of a folder; ``say`` is told which one is next.

    Raises:
        InputError: the folder has none, or cannot be read.
    """
    try:
        files = sorted([*folder.glob(f"*/*{CUDA_C}"), *folder.glob(f"*/*{PYTHON}")])
    except OSError as error:
        raise InputError(f"{folder}: cannot be read: {error.strerror}") from error
    named = [file for file in files if file.stem in NAMES]
    if not named:
        raise InputError(
            f"{folder}: there is no submission; accepted: FOLDER/STUDENT/EXERCISE.cu, such as ann/tiles.cu"
        )

    def submission(file: Path) -> Submission:
        say(f"checking {file.parent.name}/{file.name}")
        return _submission(file, limits, launcher)

    with ThreadPoolExecutor(min(MOST_AT_ONCE, cores())) as pool:
        submissions = tuple(pool.map(submission, named))
    pairs = [pair for name in NAMES for ending in exercise(name).endings for pair in _pairs(name, ending, submissions)]
    return Class(folder, submissions, tuple(pairs), tuple(str(file) for file in files if file not in named))


def _submission(file: Path, limits: Thresholds, launcher: Launcher) -> Submission:
    student, name, ending = file.parent.name, file.stem, ending_of(file)
    text = ""
    attempts: int | None = None
    try:
        text = text_of(file, MOST_BYTES)
        if (file.parent / FILE).exists():
            attempts = len(read(file.parent / FILE).exercises.get(name, Progress().of(name)).attempts)
        checked = check(exercise(name), file, text, limits.of(name), launcher)
    except InputError as error:
        return Submission(student, name, ending, text, "unreadable", str(error), None, attempts)
    return Submission(student, name, ending, text, checked.verdict, checked.sentence, _slots(checked), attempts)


def _slots(checked: Checked) -> float | None:
    return checked.counts.cost.slots if checked.counts else None


def _pairs(name: str, ending: str, submissions: Sequence[Submission]) -> list[Pair]:
    texts = {each.name: each.text for each in submissions if (each.exercise, each.ending) == (name, ending)}
    return similar(texts, [exercise(name).skeleton(ending)])


def sections(result: Class) -> Iterator[Section]:
    """Show a class: all submissions, and pairs that are nearly the same."""
    ignored = [f"{file} is no submission: its name is that of no exercise" for file in result.ignored]
    yield Section(
        "class", f"{result.folder.name}: submissions", BY_COUNTS, [Part(table=Table(_ROWS, _sorted(result)))], ignored
    )
    reading = (
        f"They have at least {LEAST:.0%} of their sequences of tokens in common, apart from those of the skeleton, "
        "whatever names, constants and comments they have. It is a reason to ask, no proof: short solutions are alike."
    )
    if result.pairs:
        yield Section("similar", "Nearly the same", reading, [Part(table=Table(_PAIRS, result.pairs))])


def _sorted(result: Class) -> list[Submission]:
    return sorted(result.submissions, key=lambda row: (row.student, NAMES.index(row.exercise), row.ending))


_SHORT: dict[str, str] = {"wrong": "wrong", "right": "costs more", "good": WORDS["good"], "unreadable": "unreadable"}
"""Words of results, so short that the reason has room."""
_COLOUR_OF = {_SHORT[verdict]: colour for verdict, colour in COLOURS.items()}
_ROWS: Sequence[Column[Submission]] = (
    Column("student", lambda row: row.student, text=True),
    Column("file", lambda row: f"{row.exercise}{row.ending}", text=True),
    Column("result", lambda row: _SHORT[row.verdict], text=True, style=lambda cell: _COLOUR_OF.get(cell, "red")),
    Column("issue\nslots", lambda row: number(row.slots), 1),
    Column("attempts", lambda row: "" if row.attempts is None else str(row.attempts), 2),
    Column("why", lambda row: row.sentence, text=True, breaks=True),
)
_PAIRS: Sequence[Column[Pair]] = (
    Column("submission", lambda pair: pair.first, text=True),
    Column("submission", lambda pair: pair.second, text=True),
    Column("in common", lambda pair: f"{pair.similarity:.0%}"),
)


def page(result: Class) -> str:
    """Return the class as a whole page."""
    return page_of(f"gravbench learn class: {result.folder.name}", sections(result))


def as_json(result: Class) -> dict[str, Any]:
    """Return a class for programs, without the texts."""
    rows = [asdict(row) for row in _sorted(result)]
    for row in rows:
        del row["text"]
    return {
        "folder": str(result.folder),
        "submissions": rows,
        "similar": [pair._asdict() for pair in result.pairs],
        "ignored": list(result.ignored),
    }
