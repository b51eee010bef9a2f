"""Which figures records give, and the files they are written to."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from gravbench.config.published import Source
from gravbench.model.record import Record
from gravbench.report.chosen import EVERYTHING, Chosen
from gravbench.report.names import Names, drift_notes, drift_signs
from gravbench.report.page import arena, charts, insides, kinds
from gravbench.report.page.kinds import DriftsOf, Figure, best_n, no_drifts
from gravbench.report.provenance import NOWHERE, Here
from gravbench.verdicts import ranking
from gravbench.verdicts.arena import Arena
from gravbench.verdicts.ladder import Rung, ladders
from gravbench.verdicts.ranking import Conditions, Drift, Parents
from gravbench.verdicts.uncertainty import SAMPLES_ALONE, Uncertainties

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


def groups(
    cases: Sequence[Record],
    parents: Parents,
    summaries: Mapping[str, str],
    here: Here = NOWHERE,
    drifts: DriftsOf = no_drifts,
    known: Uncertainties = SAMPLES_ALONE,
    chosen: Chosen = EVERYTHING,
) -> list[Group]:
    """Make the figures of the ``MOST_GROUPS`` sets of conditions with most variants, these first, GPUs before CPUs.

    ``cases`` hold one record per case, as ``gravbench.model.runs.latest`` leaves them. Bars of a ladder whose
    source is not the one that is ``here`` are marked; ``drifts`` finds those of the runs that records are from, and
    ``known`` are the uncertainties of the records. What is ``chosen`` alone is drawn; gains are over all cases.
    """
    names = Names(cases)
    alike = ranking.grouped(filter(ranking.is_ranked, chosen.shown(cases)), ranking.conditions)
    found = []
    ranked = chosen.rungs(ladders(cases, parents))
    most = sorted(ranked, key=lambda shared: -len({record.variant for record in alike[shared]}))[:MOST_GROUPS]
    for shared, by_n in ((shared, by_n) for shared, by_n in ranked.items() if shared in most):
        title, records, n = names.title(shared), alike[shared], best_n(by_n)
        place = ranking.ladder_order({record.variant for record in records}, parents)
        several = len({rung.best.variant for rung in by_n[n]}) > 1
        ladder = kinds.ladder(title, n, by_n[n], summaries, here, known) if several else None
        others = [
            *kinds.over_n(title, by_n, place, known),
            *kinds.accuracy(title, records, place, known),
            *kinds.heat_maps(title, records, place, known),
            *kinds.occupancy(title, records, place, known),
        ]
        own = ranking.affecting(drifts(records), shared)
        found.append(
            Group(
                shared,
                title + drift_signs(own),
                n,
                by_n[n],
                ladder and kinds.marked(ladder, own),
                [kinds.marked(figure, own) for figure in others],
                drift_notes(own),
            )
        )
    return sorted(found, key=lambda group: (group.shared.cpu, -len({rung.best.variant for rung in group.rungs})))


def of_stages(
    cases: Sequence[Record], drifts: DriftsOf = no_drifts, known: Uncertainties = SAMPLES_ALONE
) -> list[Figure]:
    """Make the first ``MOST_GROUPS`` figures of stages and of errors over theta; none where no record has them."""
    made = insides.stages(cases, drifts), insides.thetas(cases, drifts, known)
    return [one for figures in made for one in islice(figures, MOST_GROUPS)]


def of_arenas(
    cases: Sequence[Record],
    drifts: DriftsOf = no_drifts,
    here: Here = NOWHERE,
    known: Uncertainties = SAMPLES_ALONE,
) -> list[tuple[Figure, Arena]]:
    """Make the first ``MOST_GROUPS`` figures of the arena, each with what it shows; none without an approximation."""
    return list(islice(arena.figures(cases, drifts, here, known), MOST_GROUPS))


def of_source(name: str, source: Source, cases: Sequence[Record], drifts: Sequence[Drift] = ()) -> list[Figure]:
    """Make the figures of a source beside what was measured, both relative to their own first step."""
    return [one for figure in source.figures if (one := kinds.published(name, source, figure, cases, drifts))]


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
