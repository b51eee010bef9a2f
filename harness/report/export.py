"""Records as a table for other programs: CSV, or Parquet where pyarrow is installed."""

from __future__ import annotations

import csv
import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gravbench.errors import InputError, nearest
from gravbench.model.record import Record
from gravbench.model.runs import latest
from gravbench.verdicts.uncertainty import Uncertainties

KINDS = (".csv", ".parquet")
LEFT_OUT = ("axes", "protocol")
"""Taken apart into columns of their own, or the same for a whole run."""


def write(runs: Sequence[Sequence[Record]], path: Path) -> int:
    """Write one row per case and one column per field and axis (``axis_p``), in the format that ``path`` ends in.

    ``runs`` are whole files of records; of each, the newest record of each case is written. ``half_width`` is what
    reports print after ±, as a part of the median: the interval by the record's own samples and the scatter of the
    run's anchors of such work, which it lacks where ``half_width_includes_processes`` is false. Lists stay lists in
    Parquet and are JSON in CSV. Written beside and moved into place. Returns the number of rows.

    Raises:
        InputError: the ending is none of ``KINDS``, there is nothing to write, or pyarrow is missing for Parquet.
    """
    if path.suffix not in KINDS:
        raise InputError(f"--to {path}: the ending is {path.suffix or 'missing'}; {nearest(path.suffix, list(KINDS))}")
    known = Uncertainties(runs)
    table = [_row(record, known) for records in runs for record in latest(records)]
    if not table:
        raise InputError(f"--to {path}: there are no records to write; accepted: a run that has some")
    names = list(dict.fromkeys(name for row in table for name in row))
    temporary = path.with_name(path.name + ".tmp")
    (_csv if path.suffix == ".csv" else _parquet)(table, names, temporary)
    temporary.replace(path)
    return len(table)


def _row(record: Record, known: Uncertainties) -> dict[str, Any]:
    row: dict[str, Any] = {"key": record.key}
    uncertainty = {
        "half_width": known.half_width(record),
        "half_width_includes_processes": known.includes_processes(record),
    }
    mappings = {"axis": record.axes}
    for field, value in record.model_dump(exclude=set(LEFT_OUT)).items():
        if isinstance(value, dict):
            mappings[field] = value
        else:
            row[field] = value
    return (
        row
        | uncertainty
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
