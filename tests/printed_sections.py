"""Sections of a report of one run as a terminal and Markdown show them, for tests."""

from gravbench.report.markdown import markdown
from gravbench.report.sections import arena, gpus, published, stages
from gravbench.report.sections.content import Content
from gravbench.report.sections.every import sections
from gravbench.report.sections.ladder import largest_only
from gravbench.report.terminal.sections import render_section, render_sections


def render(records, console, parents, *more, **content):
    """Print every section."""
    render_sections(sections(Content([records], parents, *more, **content)), console)


def ladder_markdown(records, parents, summaries=None, *more, **content):
    """Return the ladder in Markdown."""
    return markdown(
        [largest_only(Content([records], parents, *more, summaries=summaries or {}, **content))], titles=False
    )


def _shown(build):
    def render_it(records, console, *more, **content):
        section = build(Content([records], {}, *more, **content))
        if section:
            render_section(section, console)

    return render_it


render_arena = _shown(arena.arena)
render_gpus = _shown(gpus.gpus)
render_stages = _shown(stages.stages)
render_accuracy = _shown(stages.accuracy)
render_counters = _shown(stages.counters)


def arena_markdown(records, *more):
    """Return the arena in Markdown; empty without any."""
    section = arena.arena(Content([records], {}, *more))
    return markdown([section]) if section else ""


def render_published(source, records, console, others=None):
    """Print a source beside what was measured."""
    section = published.values_and_claims(Content([records], {}, source=source, others=others or {}))
    assert section
    render_section(section, console)
