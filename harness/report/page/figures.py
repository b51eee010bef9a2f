"""Which figures records give, and the files they are written to."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from gravbench.report.names import drift_notes, drift_signs
from gravbench.report.page import arena, charts, insides, kinds
from gravbench.report.page.kinds import Figure, best_n
from gravbench.report.section import Part
from gravbench.report.sections.content import Content
from gravbench.verdicts import ranking
from gravbench.verdicts.ladder import Rung
from gravbench.verdicts.ranking import Conditions

MOST_GROUPS = 24
"""Sets of conditions that have figures, and figures of a kind that has one for each variant."""


@dataclass(frozen=True, slots=True)
class Group:
    """The figures of records that may be compared: ``ladder`` is None where a single variant was measured.

    ``notes`` say how far the anchors of their device drifted.
    """

    shared: Conditions
    title: str
    n: int
    rungs: list[Rung]
    ladder: Figure | None
    figures: list[Figure]
    notes: list[str]


def groups(content: Content) -> list[Group]:
    """Make the figures of the ``MOST_GROUPS`` sets of conditions with most variants, these first, GPUs before CPUs.

    Bars of a ladder whose source is not the one that is here are marked. What is chosen alone is drawn; gains are over
    all cases.
    """
    known = content.known
    alike = ranking.grouped(filter(ranking.is_ranked, content.competitors), ranking.conditions)
    drawn_groups = []
    most = sorted(content.ladders, key=lambda shared: -len({record.variant for record in alike[shared]}))[:MOST_GROUPS]
    for shared, by_n in ((shared, by_n) for shared, by_n in content.ladders.items() if shared in most):
        title, records, n = content.names.title(shared), alike[shared], best_n(by_n)
        place = ranking.ladder_order({record.variant for record in records}, content.parents)
        several = len({rung.best.variant for rung in by_n[n]}) > 1
        ladder = kinds.ladder(title, n, by_n[n], content.summaries, content.here, known) if several else None
        others = [
            *kinds.over_n(title, by_n, place, known),
            *kinds.accuracy(title, records, place, known),
            *kinds.heat_maps(title, records, place, known),
            *kinds.occupancy(title, records, place, known),
        ]
        drifted = content.drifted(records, shared)
        drawn_groups.append(
            Group(
                shared,
                title + drift_signs(drifted),
                n,
                by_n[n],
                ladder and kinds.marked(ladder, drifted),
                [kinds.marked(figure, drifted) for figure in others],
                drift_notes(drifted),
            )
        )
    return sorted(drawn_groups, key=lambda group: (group.shared.cpu, -len({rung.best.variant for rung in group.rungs})))


def of_stages(content: Content) -> list[Figure]:
    """Make the first ``MOST_GROUPS`` figures of stages and of errors over theta; none where no record has them."""
    made = insides.stages(content), insides.thetas(content)
    return [figure for figures in made for figure in islice(figures, MOST_GROUPS)]


def of_arenas(content: Content) -> list[tuple[Figure, Part]]:
    """Make the first ``MOST_GROUPS`` figures of the arena, each with its table; none without an approximation."""
    return list(islice(arena.figures(content), MOST_GROUPS))


def of_source(name: str, content: Content) -> list[Figure]:
    """Make the figures of a source beside what was measured, both relative to their own first step."""
    figures = content.source.figures if content.source else []
    return [drawn for figure in figures if (drawn := kinds.published(name, figure, content))]


def write(figures: Iterable[Figure], folder: Path) -> Iterator[Path]:
    """Write every figure as SVG and PNG, named by what it shows, those of one name numbered; yield each file."""
    import vl_convert

    folder.mkdir(parents=True, exist_ok=True)
    seen: Counter[str] = Counter()
    for figure in figures:
        seen[figure.name] += 1
        name = f"{figure.name}-{seen[figure.name]}" if seen[figure.name] > 1 else figure.name
        drawn, png = folder / f"{name}.svg", folder / f"{name}.png"
        drawn.write_text(svg(figure), "utf-8")
        yield drawn
        png.write_bytes(vl_convert.vegalite_to_png(_alone(figure), scale=2))
        yield png


def svg(figure: Figure) -> str:
    """Return a figure as a picture that stands alone, under its title."""
    import vl_convert

    drawn: str = vl_convert.vegalite_to_svg(_alone(figure))
    return drawn


def _alone(figure: Figure) -> str:
    return json.dumps(charts.dressed(figure.spec, title=figure.whole_title, ink="#222222"))
