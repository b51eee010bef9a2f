"""Records as an ensemble of profiles in Thicket's JSON: one profile per record, with its evaluation and its stages.

Thicket and Hatchet analyse profiles: trees of regions with times, and metadata of each run. The tree of gravbench has
the root ``evaluation``, and below it the stages of the variants that have any. Times are in seconds, and all are
inclusive: stages are timed one behind the other, so what an evaluation takes beside them is not known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gravbench.model.record import Record
from gravbench.report.numbers import finite

ROOT = "evaluation"
INDEX = "profile"
TIME = "time (inc)"
"""Hatchet's name for the time of a region with everything in it."""
BOUNDS = ("ci_low", "ci_high")


Row = Mapping[str, Any]


def measured(records: Sequence[Record], rows: Sequence[Row]) -> tuple[list[Record], list[dict[str, Any]]]:
    """Keep the records that have a time, and their rows."""
    pairs = [
        (record, dict(row)) for record, row in zip(records, rows, strict=True) if record.median_seconds is not None
    ]
    return [record for record, _ in pairs], [row for _, row in pairs]


def profiles(records: Sequence[Record], rows: Sequence[Row]) -> dict[str, Any]:
    """Return what ``Thicket.from_json`` reads of records that have a time.

    ``rows`` are the rows of the records in a table; what of them is a text, a number or a truth value is metadata.
    """
    stages = list(dict.fromkeys(name for record in records for name in record.stages_seconds))
    numbers = {name: number for number, name in enumerate(stages, start=1)}
    return {
        "graph": [_graph(numbers)],
        "dataframe_indices": ["node", INDEX],
        "dataframe": [line for profile, record in enumerate(records) for line in _lines(profile, record, numbers)],
        "metadata": [{INDEX: profile} | _scalars(row) for profile, row in enumerate(rows)],
        "inclusive_metrics": [TIME],
        "exclusive_metrics": list(BOUNDS),
        INDEX: list(range(len(records))),
        "profile_idx_name": INDEX,
        "profile_mapping": {str(profile): record.key for profile, record in enumerate(records)},
    }


def _graph(numbers: Mapping[str, int]) -> dict[str, Any]:
    def node(name: str, parents: list[int], children: list[int]) -> dict[str, Any]:
        return {"data": {"name": name, "type": "region"}, "children": children, "parents": parents}

    root = node(ROOT, [], list(numbers.values()))
    return {"0": root} | {str(number): node(name, [0], []) for name, number in numbers.items()}


def _lines(profile: int, record: Record, numbers: Mapping[str, int]) -> list[dict[str, Any]]:
    bounds = {name: finite(getattr(record, name)) for name in BOUNDS}
    nothing = dict.fromkeys(BOUNDS)
    root = {"node": 0, INDEX: profile, "name": ROOT, TIME: record.median_seconds} | bounds
    return [root] + [
        {"node": numbers[name], INDEX: profile, "name": name, TIME: seconds} | nothing
        for name, seconds in record.stages_seconds.items()
    ]


def _scalars(row: Row) -> dict[str, Any]:
    return {
        name: finite(value) if isinstance(value, float) else value
        for name, value in row.items()
        if isinstance(value, str | int | float)
    }
