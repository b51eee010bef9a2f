"""A report as what JSON can hold: winners, ladders, the arena, claims, drift, what is not ok, and every section."""

from __future__ import annotations

from collections import Counter
from typing import Any

from gravbench.model.record import Record
from gravbench.report.names import drift_sentence, why_unranked
from gravbench.report.numbers import finite
from gravbench.report.provenance import Here
from gravbench.report.published import decisions
from gravbench.report.section import Part, Section
from gravbench.report.sections.content import Content
from gravbench.report.sections.every import sections
from gravbench.report.winning import over_seeds_json, winners_json
from gravbench.verdicts import arena, ranking
from gravbench.verdicts.ladder import Rung
from gravbench.verdicts.uncertainty import Uncertainties


def report_json(content: Content, run: str) -> dict[str, Any]:
    """Return what a report of a run says of what is chosen, in numbers, and each of its ``sections`` in words.

    Claims are judged by the whole run, and winners beat all that it has; they answer the content's question and are
    within usual limits. Times are seconds of one evaluation, speeds interactions per second. What is unknown or not
    finite is None.
    """
    cases, names = content.cases, content.names
    source = content.source
    statuses = Counter(case.status for case in cases)
    return {
        "run": run,
        "cases": dict(statuses) | {"outraced": sum(case.outraced for case in cases)},
        "winners": winners_json(content.fields),
        "ladders": [
            {
                "title": names.title(shared),
                "device": shared.device,
                **dict(shared.task),
                "n": n,
                "rungs": [_rung(rung, content.here, content.known) for rung in rungs],
            }
            for shared, by_n in content.ladders.items()
            for n, rungs in by_n.items()
        ],
        "arenas": [
            {
                "title": names.title(shown.shared),
                "n": shown.n,
                "points": [
                    {"method": point.method, "accuracy": point.accuracy, "front": point.front, **_plain(point.record)}
                    for point in shown.points
                ],
            }
            for shown in arena.arenas(content.competitors)
        ],
        "claims": [
            {"id": decision.claim.id, "text": decision.claim.text, "verdict": decision.verdict}
            for decision in (decisions(source, content.records, content.others) if source else [])
        ],
        "drifts": [
            {"spread": drift.spread, "beyond": drift.beyond, "sentence": drift_sentence(drift)}
            for drift in content.drifts
        ],
        "not_ok": [
            {"case": case.label, "status": case.status, "reason": why_unranked(case)}
            for case in cases
            if not ranking.is_ranked(case)
        ],
        "sections": list(map(_section, sections(content))),
    }


def _section(section: Section) -> dict[str, Any]:
    """Return a section as a terminal prints it, its tables as rows of words under their headers."""
    return {
        "name": section.name,
        "title": section.title,
        "introduction": section.introduction,
        "parts": list(map(_part, section.parts)),
        "notes": list(section.notes),
    }


def _part(part: Part) -> dict[str, Any]:
    columns = part.table.useful if part.table else []
    return {
        "title": part.title,
        "introduction": list(part.introduction),
        "facts": dict(part.facts),
        "columns": [column.name for column in columns],
        "rows": [[column.cell(row) for column in columns] for row in (part.table.rows if part.table else [])],
        "lines": list(part.lines),
        "notes": list(part.notes),
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
        | {"seconds": finite(ranking.seconds(record)), "interactions_per_second": finite(ranking.speed(record))}
        | {name: finite(getattr(record, name)) for name in numbers}
        | over_seeds_json(record)
    )
