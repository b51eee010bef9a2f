"""Every section of a report, in its order: one more is a function here."""

from __future__ import annotations

from collections.abc import Callable

from gravbench.report.section import Section
from gravbench.report.sections import arena, fastest, gpus, ladder, loads, published, run, stages
from gravbench.report.sections.content import Content

SECTIONS: tuple[Callable[[Content], Section | None], ...] = (
    run.conditions,
    fastest.fastest,
    ladder.ladder,
    ladder.configurations,
    run.anchors,
    run.cards,
    run.not_ranked,
    arena.arena,
    gpus.gpus,
    stages.stages,
    stages.accuracy,
    stages.counters,
    published.values_and_claims,
    loads.loads,
)


def sections(content: Content) -> list[Section]:
    """Build those that have something to say; without a record the first alone, which says so."""
    built = (build(content) for build in SECTIONS[: None if content.records else 1])
    return [section for section in built if section]
