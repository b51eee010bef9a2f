"""A comparison as what JSON can hold."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from gravbench.model.case import PARTS
from gravbench.model.record import Record
from gravbench.model.statistics import CONFIDENCE
from gravbench.report.provenance import NOWHERE, Here
from gravbench.verdicts import ranking
from gravbench.verdicts.compare import Comparison, Pair
from gravbench.verdicts.ratios import BETWEEN


def comparison_json(comparison: Comparison, here: Here = NOWHERE) -> dict[str, Any]:
    """Return the comparison as what JSON can hold; what is unknown or unbounded is None.

    ``base_source`` and ``new_source`` say in words whether the source is the one that is ``here``.
    """
    mean = comparison.mean
    return {
        "base": comparison.base,
        "new": comparison.new,
        "threshold": comparison.threshold,
        "confidence": CONFIDENCE,
        "confidence_between_processes": BETWEEN,
        "counts": comparison.counts,
        "counts_in_cycles": comparison.counts_in_cycles,
        "verdict": comparison.verdict,
        "geometric_mean_ratio": mean.ratio if mean else None,
        "geometric_mean_low": mean.low if mean and mean.bounded else None,
        "geometric_mean_high": mean.high if mean and mean.bounded else None,
        "anchor_scatter": [
            {"device": name, "work": work, "scatters": list(map(asdict, scatters))}
            for (name, work), scatters in comparison.scatters.items()
        ],
        "no_anchor": [
            {"device": name, "work": work, "runs": runs} for (name, work), runs in comparison.unanchored.items()
        ],
        "pairs": [_pair_json(pair, here) for pair in comparison.pairs],
        "only_base": list(map(case_json, comparison.only_base)),
        "only_new": list(map(case_json, comparison.only_new)),
        "not_ok_base": list(map(_not_ok_json, comparison.not_ok_base)),
        "not_ok_new": list(map(_not_ok_json, comparison.not_ok_new)),
    }


def case_json(record: Record) -> dict[str, Any]:
    """Return what a case is."""
    fields = {name: getattr(record, name) for name, part in PARTS.items() if not part.content_of}
    return {"key": record.key} | fields | {"device": record.device} | record.contents


def _not_ok_json(record: Record) -> dict[str, Any]:
    return case_json(record) | {"status": record.status, "reason": record.reason}


def _pair_json(pair: Pair, here: Here) -> dict[str, Any]:
    interval = pair.interval
    base, new = case_json(pair.base), case_json(pair.new)
    return (base if base == new else base | {"new": new}) | {
        "verdict": pair.verdict,
        "verdict_in_cycles": pair.in_cycles,
        "ratio": interval.ratio,
        "low": interval.low if interval.bounded else None,
        "high": interval.high if interval.bounded else None,
        "interval_includes_processes": not pair.narrow,
        "cycles_ratio": pair.cycles,
        "base_seconds": ranking.seconds(pair.base),
        "new_seconds": ranking.seconds(pair.new),
        "base_untimed_seconds": pair.base.untimed_seconds,
        "new_untimed_seconds": pair.new.untimed_seconds,
        "base_source": here.origin(pair.base).words,
        "new_source": here.origin(pair.new).words,
        "base_method": pair.base.method,
        "new_method": pair.new.method,
        "base_outraced": pair.base.outraced,
        "new_outraced": pair.new.outraced,
        "reasons": pair.reasons,
    }
