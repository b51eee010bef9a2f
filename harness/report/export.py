"""Records for other programs: a table (CSV, or Parquet where pyarrow is installed), T4, or Thicket's JSON."""

from __future__ import annotations

import csv
import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gravbench.errors import InputError, nearest
from gravbench.model.record import Record
from gravbench.model.regular import replacing
from gravbench.model.runs import latest
from gravbench.report import profiles, tuning_results
from gravbench.report.chosen import EVERYTHING, Chosen
from gravbench.verdicts.uncertainty import Uncertainties

KINDS = (".csv", ".parquet", ".t4.json", ".thicket.json")
"""The endings of the files that are written."""
LEFT_OUT = ("axes", "protocol")
"""Taken apart into columns of their own, or the same for a whole run."""
KEY = "key"
UNCERTAINTY = ("half_width", "half_width_includes_processes")
AXIS = "axis"
"""Begins the names of the columns of axes, as a field that has names begins those of its own."""


def write(runs: Sequence[Sequence[Record]], path: Path, chosen: Chosen = EVERYTHING) -> int:
    """Write the newest record of each case that is ``chosen``, in the format that the name of ``path`` ends in.

    ``runs`` are whole files of records. A table has one row per case and one column per field and axis (``axis_p``).
    ``half_width`` is what reports print after ±, as a part of the median: the interval by the record's own samples and
    the scatter of the run's anchors of such work, which it lacks where ``half_width_includes_processes`` is false.
    Lists stay lists in Parquet and are JSON in CSV. ``.t4.json`` and ``.thicket.json`` are what ``tuning_results`` and
    ``profiles`` say. Written beside and moved into place. Returns the number of records.

    Raises:
        InputError: the ending is none of ``KINDS``, there is nothing to write, or pyarrow is missing for Parquet.
    """
    kind = next((kind for kind in KINDS if path.name.endswith(kind)), None)
    if kind is None:
        accepted = nearest(path.suffix, [*KINDS, ".t1.json of one variant"])
        raise InputError(f"--to {path}: the ending is {path.suffix or 'missing'}; {accepted}")
    records = [record for run in runs for record in chosen.shown(latest(run))]
    lines = rows(runs, chosen)
    if kind == ".thicket.json":
        records, lines = profiles.measured(records, lines)
    if not records:
        raise InputError(f"--to {path}: there are no records to write; accepted: a run that has some")
    with replacing(path) as temporary:
        if kind == ".csv":
            _csv(lines, columns(lines), temporary)
        elif kind == ".parquet":
            _parquet(lines, columns(lines), temporary)
        else:
            content = tuning_results.results(records) if kind == ".t4.json" else profiles.profiles(records, lines)
            temporary.write_text(json.dumps(content, allow_nan=False) + "\n", "utf-8")
    return len(records)


def rows(runs: Sequence[Sequence[Record]], chosen: Chosen = EVERYTHING) -> list[dict[str, Any]]:
    """Return the rows of the table: one for the newest record of each case that is chosen."""
    known = Uncertainties(runs)
    return [_row(record, known) for run in runs for record in chosen.shown(latest(run))]


def columns(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Name the columns that some row has."""
    return list(dict.fromkeys(name for row in rows for name in row))


def _row(record: Record, known: Uncertainties) -> dict[str, Any]:
    row: dict[str, Any] = {KEY: record.key}
    timed = record.median_seconds is not None
    widths = (known.half_width(record), known.includes_processes(record)) if timed else (None, None)
    mappings = {AXIS: record.axes}
    for field, value in record.model_dump(exclude=set(LEFT_OUT)).items():
        if isinstance(value, dict):
            mappings[field] = value
        else:
            row[field] = value
    return (
        row
        | dict(zip(UNCERTAINTY, widths, strict=True))
        | {f"{field}_{name}": value for field, mapping in mappings.items() for name, value in mapping.items()}
    )


def _csv(table: Sequence[dict[str, Any]], names: list[str], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(
            {name: json.dumps(value) if isinstance(value, list) else _no_formula(value) for name, value in row.items()}
            for row in table
        )


def _no_formula(value: Any) -> Any:
    """Put an apostrophe before a text that a spreadsheet would compute; numbers stay numbers."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


def _parquet(table: Sequence[dict[str, Any]], names: list[str], path: Path) -> None:
    if importlib.util.find_spec("pyarrow") is None:
        raise InputError(f"--to {path.stem}: Parquet needs pyarrow; install it with: pip install 'gravbench[parquet]'")
    import pyarrow
    import pyarrow.parquet

    columns = {name: _column([row.get(name) for row in table]) for name in names}
    pyarrow.parquet.write_table(pyarrow.table(columns), path)


def _column(values: list[Any]) -> list[Any]:
    """Make a column of one type: where an axis has words and numbers, all become words."""
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int} and any(value is not None and value.bit_length() > 63 for value in values):
        kinds = {int, str}  # Parquet's integers have 64 bits
    if kinds == {int, float}:
        return [None if value is None else float(value) for value in values]
    return values if len(kinds) <= 1 else [None if v is None else str(v) for v in values]
