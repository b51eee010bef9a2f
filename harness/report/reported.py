"""A report as what JSON can hold: winners, ladders, the arena, claims, drift, and what is not ok."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from gravbench.config.published import Source
from gravbench.model.record import Record
from gravbench.model.runs import latest
from gravbench.report.chosen import EVERYTHING, Chosen
from gravbench.report.names import Names, drift_sentence, why_unranked
from gravbench.report.provenance import Here
from gravbench.report.published import NO_OTHERS, Others, decisions
from gravbench.report.winning import winners_json
from gravbench.verdicts import arena, ranking
from gravbench.verdicts.ladder import Rung, ladders
from gravbench.verdicts.question import USUAL, Question
from gravbench.verdicts.ranking import Parents
from gravbench.verdicts.uncertainty import Uncertainties
from gravbench.verdicts.winners import winners, with_wins


def report_json(
    records: Sequence[Record],
    parents: Parents,
    here: Here,
    *,
    run: str,
    source: Source | None = None,
    others: Others = NO_OTHERS,
    chosen: Chosen = EVERYTHING,
    question: Question = USUAL,
) -> dict[str, Any]:
    """Return what a report of ``records``, of a whole run, says of what is ``chosen``.

    Claims are judged by the whole run, and winners beat all that it has;
    they answer the ``question`` and are within usual limits. Times are seconds of one evaluation, speeds
    interactions per second. What is unknown or not finite is None.
    """
    cases = latest(chosen.comparable(records))
    shown = chosen.shown(cases)
    names = Names(cases)
    found, known = Counter(case.status for case in shown), Uncertainties([records])
    return {
        "run": run,
        "cases": dict(found) | {"outraced": sum(case.outraced for case in shown)},
        "winners": winners_json(with_wins(winners([records], parents, question), chosen.has)),
        "ladders": [
            {
                "title": names.title(shared),
                "device": shared.device,
                **dict(shared.task),
                "n": n,
                "rungs": [_rung(rung, here, known) for rung in rungs],
            }
            for shared, by_n in chosen.rungs(ladders(cases, parents)).items()
            for n, rungs in by_n.items()
        ],
        "arenas": [
            {
                "title": names.title(one.shared),
                "n": one.n,
                "points": [
                    {"method": point.method, "accuracy": point.accuracy, "front": point.front, **_plain(point.record)}
                    for point in one.points
                ],
            }
            for one in arena.arenas(shown)
        ],
        "claims": [
            {"id": one.claim.id, "text": one.claim.text, "verdict": one.verdict}
            for one in (decisions(source, records, others) if source else [])
        ],
        "drifts": [
            {"spread": drift.spread, "beyond": drift.beyond, "sentence": drift_sentence(drift)}
            for drift in chosen.drifts(ranking.drifts(records))
        ],
        "not_ok": [
            {"case": case.label, "status": case.status, "reason": why_unranked(case)}
            for case in shown
            if not ranking.is_ranked(case)
        ],
    }


def _rung(rung: Rung, here: Here, known: Uncertainties) -> dict[str, Any]:
    return _plain(rung.best) | {
        "half_width": known.half_width(rung.best),
        "half_width_includes_processes": known.includes_processes(rung.best),
        "over_parent": rung.over_parent,
        "over_first": rung.over_first,
        "compared": rung.compared,
        "as_fast": known.indistinct(rung.best, rung.others),
        "source": here.origin(rung.best).words,
        "method": rung.best.method,
    }


def _plain(record: Record) -> dict[str, Any]:
    names = ("variant", "toolkit", "axes", "dtype", "occupancy", "registers", "outraced")
    numbers = ("error_max", "error_p99", "error_rms", "gflops", "steps_per_second", "joules_per_interaction")
    return (
        {name: getattr(record, name) for name in names}
        | {"seconds": _finite(ranking.seconds(record)), "interactions_per_second": _finite(ranking.speed(record))}
        | {name: _finite(getattr(record, name)) for name in numbers}
    )


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
