"""The exercises of the course: their order, their texts and files, and what a rung took on an H100.

Each is a folder below ``exercises/``: ``exercise.yaml``, ``page.md``, ``skeleton.cu`` and ``solution.cu``. Those that
can be done in Numba CUDA have ``numba.md``, ``skeleton.numba`` and ``solution.numba``, too, which are no modules; those
that can be done in a browser have ``skeleton.wgsl`` and ``solution.wgsl``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from gravbench.config.document import read
from gravbench.errors import InputError, nearest
from gravbench.judging.entry import PYTHON
from gravbench.learning.times import Times, measured
from gravbench.model.stem_code import CUDA_C
from gravbench.report.numbers import number

FOLDER = Path(__file__).with_name("exercises")
NAMES = (
    *("threads", "wide_load", "tiles", "unrolling", "block_size"),
    *("q_threads", "r_bodies", "pairs_once", "batched_sums", "tree_walk"),
)
"""In the order in which they are done."""
IN_NUMBA = NAMES[:7]
"""Those that can be done in Numba CUDA, too."""
SLOTS_NUMBA = "slots in Numba"
"""In a text on Numba CUDA, the key of ``About.slots_numba``."""
STORED = {CUDA_C: CUDA_C, PYTHON: ".numba"}
"""The endings of texts as they are stored here, by those of a student's files."""
FIGURE = re.compile(r"\{([^{}\n]+)\}")
"""In a page, a key of ``About.milliseconds``, ``slots of VARIANT``, ``times``, or ``ratio of KERNEL``."""
HEADING = re.compile(r"^## (.*)\n", re.MULTILINE)


class InWgsl(BaseModel):
    """What an exercise says in another way where it is done in WGSL: the person's ``part``, in Markdown, and hints.

    ``needs`` is a pattern that the text of a submission has to have, ``lacks`` what is said of one without: a browser
    does not tell what is counted in machine code.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    part: str
    hints: Annotated[list[str], Field(min_length=3)]
    needs: str = ""
    lacks: str = ""


class About(BaseModel):
    """What ``exercise.yaml`` says.

    ``rung`` is the variant that a submission is set against. ``error_at`` is a number of bodies at which the rms error
    of a right submission is looked at. ``milliseconds`` are times of one evaluation of ``reports/h100/ladder``, each by
    ``VARIANT N AXIS=VALUE``, that of the rung first; ``slots`` are the issue slots per interaction of a variant, and
    ``slots_numba`` those of our solution in Numba CUDA. The tests of the course compare both with the records and the
    machine code. ``wgsl`` is a sentence where WGSL cannot express the exercise.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    title: str
    idea: str
    rung: str
    source: str
    hints: Annotated[list[str], Field(min_length=3)]
    milliseconds: Annotated[dict[str, float], Field(min_length=1)]
    slots: dict[str, float] = {}
    error_at: int | None = None
    wgsl: InWgsl | str
    slots_numba: float | None = None
    hints_numba: list[str] = []


@dataclass(frozen=True)
class Exercise:
    """One exercise; its ``number`` counts from 1.

    Its texts are those of a language, which is named by the ending of its files: ``.cu`` or ``.py``.
    """

    name: str
    number: int
    about: About

    @property
    def page(self) -> str:
        """Its text in Markdown, with figures filled in."""
        times = {key: f"{number(value)} ms" for key, value in self.about.milliseconds.items()}
        slots = {f"slots of {key}": f"{number(value)} issue slots" for key, value in self.about.slots.items()}
        ratios = {f"ratio of {key}": number(value) for key, value in self.times.ratios.items()}
        sentences = {"times": measured().sentences(self.name, self.about.rung)}
        return filled(self._text("page.md"), times | slots | ratios | sentences)

    @property
    def times(self) -> Times:
        """What its kernels in CUDA C took on a GPU."""
        return measured().exercises[self.name]

    @property
    def endings(self) -> tuple[str, ...]:
        """The endings of the files that it can be done in."""
        return (CUDA_C, PYTHON) if self.name in IN_NUMBA else (CUDA_C,)

    @property
    def in_numba(self) -> str:
        """What its text adds for Numba CUDA, a section in Markdown; empty where it is not done in that."""
        if PYTHON not in self.endings:
            return ""
        return filled(self._text("numba.md"), {SLOTS_NUMBA: f"{number(self.about.slots_numba)} issue slots"})

    def skeleton(self, ending: str = CUDA_C) -> str:
        """Return what a student begins with."""
        return self._text(f"skeleton{STORED[self._checked(ending)]}")

    def solution(self, ending: str = CUDA_C) -> str:
        """Return a short solution, in CUDA C one that is as good as the rung."""
        return self._text(f"solution{STORED[self._checked(ending)]}")

    def hints(self, ending: str = CUDA_C) -> list[str]:
        """Return its hints."""
        return self.about.hints_numba if self._checked(ending) == PYTHON else self.about.hints

    def _checked(self, ending: str) -> str:
        """Return an ending.

        Raises:
            InputError: the exercise is not done in such a file.
        """
        if ending not in self.endings:
            accepted = " or ".join(f"{self.name}{each}" for each in self.endings)
            raise InputError(f"{self.name}{ending}: {self.name} is not done in such a file; accepted: {accepted}")
        return ending

    @property
    def in_wgsl(self) -> InWgsl | None:
        """What it says in another way where it is done in WGSL; None where WGSL cannot express it."""
        return self.about.wgsl if isinstance(self.about.wgsl, InWgsl) else None

    @property
    def skeleton_in_wgsl(self) -> str:
        """What a student begins with in a browser."""
        return self._text("skeleton.wgsl")

    @property
    def solution_in_wgsl(self) -> str:
        """A short solution in WGSL that is as good as the rung."""
        return self._text("solution.wgsl")

    @property
    def sections(self) -> dict[str, str]:
        """The sections of its page in Markdown, by their headings."""
        _, *parts = HEADING.split(self.page)
        return dict(zip(parts[::2], parts[1::2], strict=True))

    @property
    def next_name(self) -> str | None:
        """The exercise behind it."""
        return NAMES[self.number] if self.number < len(NAMES) else None

    @property
    def time_of_rung(self) -> str:
        """What the rung took on an H100, in words."""
        key, milliseconds = next(iter(self.about.milliseconds.items()))
        return f"{number(milliseconds)} ms on an H100 for {int(key.split()[1]):,} bodies"

    def _text(self, name: str) -> str:
        return (FOLDER / self.name / name).read_text("utf-8")


def filled(text: str, figures: Mapping[str, str]) -> str:
    """Put figures in the place of their keys in braces.

    Raises:
        KeyError: a key in the text is not known.
    """
    return FIGURE.sub(lambda key: figures[key[1]], text)


@cache
def exercise(name: str) -> Exercise:
    """Return an exercise.

    Raises:
        InputError: there is none of that name.
    """
    if name not in NAMES:
        raise InputError(f"there is no exercise {name!r}; {nearest(name, NAMES)}")
    data = read(FOLDER / name / "exercise.yaml", keys="title and hints").data
    return Exercise(name, NAMES.index(name) + 1, About.model_validate(data))


def ending_of(path: Path) -> str:
    """Return the ending by which the language of a file is named: what is not Python is CUDA C."""
    return PYTHON if path.suffix == PYTHON else CUDA_C


def exercises() -> list[Exercise]:
    """Return all exercises in their order."""
    return [exercise(name) for name in NAMES]


def of_file(path: Path) -> Exercise:
    """Return the exercise that a file is a solution of, by its name without the ending.

    Raises:
        InputError: there is none of that name.
    """
    if path.stem not in NAMES:
        raise InputError(f"{path}: {path.stem} is no exercise; {nearest(path.stem, NAMES)}, or --exercise NAME")
    return exercise(path.stem)
