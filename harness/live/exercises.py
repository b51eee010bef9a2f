"""The exercises of the page: the texts of the course, and beside them what each says in WGSL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from markdown_it import MarkdownIt
from markupsafe import Markup

from gravbench.learning.exercises import Exercise, InWgsl, exercises
from gravbench.learning.shown import BEGINNINGS, WORDS
from gravbench.learning.thresholds import thresholds
from gravbench.learning.times import AS_FAST

BEFORE, BEHIND = ("The idea", "Who reads what"), ("Where the source says it",)
"""Sections of a page of the course that are true of CUDA C and of WGSL; the person's part stands between them."""
IN_WGSL = {"__syncthreads()": "workgroupBarrier()"}
"""Words of the course, and what WGSL has for them."""
_MARKDOWN = MarkdownIt("commonmark", {"html": False})


@dataclass(frozen=True)
class Shown:
    """An exercise as the page shows it: ``sections`` are headings and HTML, empty where ``absent`` says why."""

    name: str
    number: int
    title: str
    idea: str
    rung: str
    sections: tuple[tuple[str, Markup], ...]
    absent: str


def shown() -> list[Shown]:
    """Return all exercises of the course, in their order."""
    return [
        Shown(
            each.name, each.number, each.about.title, each.about.idea, each.about.rung, tuple(_sections(each)), absent
        )
        for each in exercises()
        for absent in ["" if isinstance(each.about.wgsl, InWgsl) else each.about.wgsl]
    ]


def content() -> dict[str, Any]:
    """Return what the scripts of the page are given of the exercises, as JSON."""
    return {
        "asFast": AS_FAST,
        "words": {verdict: WORDS[verdict] for verdict in BEGINNINGS},
        "beginnings": BEGINNINGS,
        "all": [_exercise(each, each.in_wgsl) for each in exercises() if each.in_wgsl],
    }


def _sections(of_exercise: Exercise) -> Iterator[tuple[str, Markup]]:
    if of_exercise.in_wgsl:
        parts = {**of_exercise.sections, "Your part": of_exercise.in_wgsl.part}
        for heading in (*BEFORE, "Your part", *BEHIND):
            text = parts[heading]
            for word, other in IN_WGSL.items():
                text = text.replace(word, other)
            yield heading, Markup(_MARKDOWN.render(text))


def _exercise(of_exercise: Exercise, in_wgsl: InWgsl) -> dict[str, Any]:
    limits, about = thresholds().of(of_exercise.name), of_exercise.about
    return {
        "name": of_exercise.name,
        "title": about.title,
        "rung": about.rung,
        "skeleton": of_exercise.skeleton_in_wgsl,
        "solution": of_exercise.solution_in_wgsl,
        "hints": [_MARKDOWN.renderInline(hint) for hint in in_wgsl.hints],
        "limits": {count: limits[count] for count in ("error", "threads_per_body") if count in limits},
        "errorAt": about.error_at,
        "needs": in_wgsl.needs,
        "lacks": in_wgsl.lacks,
        "n": int(next(iter(about.milliseconds)).split()[1]),
    }
