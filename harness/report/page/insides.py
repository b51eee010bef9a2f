"""Figures of what an evaluation consists of: the stages of each variant, and its errors over the opening angle."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from gravbench.model.record import Record
from gravbench.report.names import WORST_BUT_TENTH
from gravbench.report.numbers import number, six_digits
from gravbench.report.page import charts
from gravbench.report.page.charts import Row
from gravbench.report.page.kinds import (
    OPEN_SIGN,
    Figure,
    configuration,
    doubt,
    figure_of,
    marked,
    said_unbounded,
)
from gravbench.report.sections.content import Content
from gravbench.verdicts import ranking
from gravbench.verdicts.ladder import fastest_with_stages, over_theta

ERROR_KINDS = {
    "rms": "error_rms",
    "median": "error_median",
    "90 %": "error_p90",
    "99 %": "error_p99",
    "largest": "error_max",
}


def stages(content: Content) -> Iterator[Figure]:
    """Draw the stages of each variant that has them."""
    fastest = fastest_with_stages(content.competitors)
    variants = Counter(shared for shared, _ in fastest)

    def first(item: tuple[tuple[ranking.Conditions, str], list[Record]]) -> tuple[bool, int, float]:
        """GPUs before CPUs, the conditions with most variants, and the fastest of these."""
        (shared, _), records = item
        return shared.cpu, -variants[shared], ranking.seconds(records[-1]) / records[-1].n

    for (shared, variant), chosen in sorted(fastest.items(), key=first):
        names = list(dict.fromkeys(name for record in chosen for name in record.stages_seconds))
        rows = [row for record in chosen for row in _stage_rows(record, names)]
        sizes = list(dict.fromkeys(row["size"] for row in rows))
        title = f"{variant}, {content.names.title(shared)}"
        caption = (
            "The stages of one evaluation, with every stage waiting for the one before it; if stages normally "
            "overlap, the sum exceeds the time of an evaluation. Each row gives an n and the sum of the stages of "
            "the fastest configuration there."
        )
        made = figure_of("stages", "Stages", caption, charts.stages(rows, names, sizes), title)
        yield marked(made, content.drifted(chosen, shared))


def _stage_rows(record: Record, names: list[str]) -> Iterator[Row]:
    whole = sum(record.stages_seconds.values())
    start = 0.0
    for name in names:
        share = record.stages_seconds.get(name, 0.0) / whole if whole else 0.0
        yield {
            "size": f"{record.n:,}: {number(1e3 * whole, 3)} ms",
            "n": record.n,
            "stage": name,
            "from": start,
            "to": start + share,
            "middle": start + share / 2,
            "share": six_digits(share),
            "ms": number(1e3 * record.stages_seconds.get(name, 0.0)),
            "configuration": configuration(record),
        }
        start += share


def thetas(content: Content) -> Iterator[Figure]:
    """Draw errors over time for each variant that has several theta."""
    for (shared, variant, n), chosen in over_theta(content.competitors).items():
        rows = [
            {
                "theta": record.axes["theta"],
                "kind": kind,
                "name": "",
                "error": six_digits(error),
                "ms": six_digits(1e3 * ranking.seconds(record)),
                **doubt(record, content.known),
                "relative error": f"{error:.2e}",
                "configuration": configuration(record),
            }
            for record in chosen
            for kind, field in ERROR_KINDS.items()
            if (error := getattr(record, field)) and math.isfinite(error)
        ]
        if not rows:
            continue
        # Above the largest of its errors, where no other marker of the same time is.
        for alike in ranking.grouped(rows, lambda row: row["theta"]).values():
            max(alike, key=lambda row: row["error"])["name"] = f"θ {alike[0]['theta']}"
        title = f"{variant}, n = {n:,}, {content.names.title(shared)}"
        caption = (
            "Error against time for each opening angle θ, both axes logarithmic: the rms error, the median over the "
            f"bodies, {WORST_BUT_TENTH * any(row['kind'] == '90 %' for row in rows)}the 99th percentile and the "
            "largest. Each point is the fastest configuration for its θ."
        )
        caption += said_unbounded(rows, OPEN_SIGN)
        made = figure_of("theta", "Error and time for each θ", caption, charts.thetas(rows), title)
        yield marked(made, content.drifted(chosen, shared))
