"""The files that asv keeps its results in (format 2): read, added to, and written back without losing what they had.

A benchmark's results are a grid, one cell for every combination of its parameters' values. Parameters are kept as
Python would print them. Knows nothing of records.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gravbench.errors import InputError
from gravbench.model.regular import write_whole

FORMAT = 2
MACHINE_FORMAT = 1
MACHINE = "machine.json"
BENCHMARKS = "benchmarks.json"
COLUMNS = (
    "result", "params", "version", "started_at", "duration", "stats_ci_99_a", "stats_ci_99_b", "stats_q_25",
    "stats_q_75", "stats_number", "stats_repeat", "samples", "profile",
)  # fmt: skip
OF_A_CELL = {name for name in COLUMNS if name in ("result", "samples") or name.startswith("stats_")}

Content = dict[str, Any]
Where = tuple[str, ...]
"""A cell of a grid: one value of each parameter."""


@dataclass(slots=True)
class Grid:
    """The results of one benchmark: what each cell has in each of the columns ``OF_A_CELL``, and the other columns."""

    cells: dict[Where, Content] = field(default_factory=dict)
    whole: Content = field(default_factory=dict)

    @classmethod
    def of_row(cls, columns: list[str], row: list[Any]) -> Grid:
        """Read what a file has; its row ends with its last column that is not empty."""
        content = dict(zip(columns, row, strict=False))
        grid = cls(whole={name: value for name, value in content.items() if name not in OF_A_CELL | {"params"}})
        for position, where in enumerate(itertools.product(*content["params"])):
            cell = {name: content[name][position] for name in OF_A_CELL & content.keys() if content[name] is not None}
            if any(value is not None for value in cell.values()):
                grid.cells[where] = cell
        return grid

    def row(self, columns: list[str]) -> list[Any]:
        """Return the row of the file; cells without a result are empty."""
        # Every value that each parameter has in some cell, small numbers before large ones.
        params = [sorted(set(values), key=natural) for values in zip(*self.cells, strict=True)]
        content: Content = {"params": params, **self.whole}
        for name in OF_A_CELL:
            values = [self.cells.get(where, {}).get(name) for where in itertools.product(*params)]
            content[name] = None if all(value is None for value in values) else values
        return [content.get(name) for name in columns]


def natural(text: str) -> list[tuple[int, float | str]]:
    """Sort by this to have 64 before 512, and 0.001 before 0.01; only equal texts are alike."""
    parts = re.split(r"(\d+(?:\.\d+)?)", text)
    return [(0, float(part)) if part[0].isdecimal() else (1, part) for part in parts if part] + [(1, text)]


def read(path: Path, version: int = FORMAT) -> Content:
    """Read one of asv's files; empty where there is none.

    Raises:
        InputError: it is none of asv's, or of another format.
    """
    if not path.exists():
        return {}
    try:
        content: Content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as JSON: {error}; repair it or move it away") from None
    stated = content.get("version") if isinstance(content, dict) else None
    if stated != version:
        raise InputError(f"{path}: version {stated} of asv's format; accepted: {version}. `asv update` brings it there")
    return content


def write(path: Path, content: Content) -> None:
    """Write beside and move into place, so that a kill leaves the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(content).encode() + b"\n")


def machine(folder: Path, described: Content) -> Content:
    """Return what is known of the machine with this folder: what asv was told earlier, or else ``described``."""
    path = folder / MACHINE
    known = read(path, MACHINE_FORMAT)
    if not known:
        known = described | {"machine": folder.name, "version": MACHINE_FORMAT}
        write(path, known)
    return {name: value for name, value in known.items() if name != "version"}


def add(path: Path, heading: Content, grids: dict[str, Grid]) -> None:
    """Put grids into a file of results: cells that it has already are replaced, everything else stays.

    ``heading`` says what the file is of: commit_hash, env_name, date, params, python, requirements, env_vars.
    """
    content = read(path) or {"result_columns": list(COLUMNS), "results": {}, "durations": {}}
    columns = content["result_columns"]
    columns += [name for name in COLUMNS if name not in columns]
    for name, grid in grids.items():
        old = content["results"].get(name)
        before = Grid.of_row(columns, old) if old else Grid()
        # Another version of a benchmark, or other parameters, cannot share a grid with this one.
        comparable = before.whole.get("version") == grid.whole.get("version")
        merged = Grid(before.cells | grid.cells if comparable else grid.cells, grid.whole)
        content["results"][name] = merged.row(columns)
    write(path, content | heading | {"version": FORMAT})


def grids(results: Path, prefix: str) -> Iterator[tuple[str, Grid]]:
    """Read every benchmark with this prefix that some file below ``results`` has."""
    for path in sorted(results.glob("*/*.json")):
        if path.name == MACHINE:
            continue
        content = read(path)
        for name, row in content["results"].items():
            if name.startswith(prefix):
                yield name, Grid.of_row(content["result_columns"], row)
