"""Convert records to asv results, so that a sweep from any machine appears in the history that asv publishes.

Reads records alone. To asv, bigger is always worse, so speed is exported as time. What asv calls an environment is
GPU, driver and toolkit; a file of results has those of one commit in one environment.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import math
import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gravbench.asv import results
from gravbench.asv.commits import CHANGED, Commits
from gravbench.asv.results import Grid, Where
from gravbench.errors import InputError
from gravbench.model import statistics
from gravbench.model.case import PARTS, brief, word
from gravbench.model.lock import alone
from gravbench.model.record import Record
from gravbench.model.runs import RecordFile, environment

RESULTS = Path(".asv") / "results"
PREFIX = "gravbench."
PARAMETERS = ("n", "axes", "dtype", "setting")
VERSION = "2"
"""Of what is exported: results of another version are not compared by asv."""

CONFIDENCE = 0.99


@dataclass(frozen=True, slots=True)
class Tracked:
    """One figure of a record that asv follows from commit to commit; bigger has to be worse.

    ``scale`` makes one of any time of an evaluation in seconds, for figures that are times.
    """

    name: str
    unit: str
    meaning: str
    of: Callable[[Record], float | None]
    scale: Callable[[Record, float], float] | None = None


def picoseconds(record: Record, seconds: float) -> float:
    """Return the time of an evaluation over the interactions that it computes, as every table counts them.

    A tree that needs fewer interactions has a smaller time of an evaluation, which is tracked too. NaN where they are
    not counted.
    """
    return seconds / record.evaluated * 1e12


def milliseconds(record: Record, seconds: float) -> float:  # noqa: ARG001 - as the others
    """Return the time of an evaluation."""
    return seconds * 1e3


def _timed(name: str, unit: str, meaning: str, scale: Callable[[Record, float], float]) -> Tracked:
    def median(record: Record) -> float | None:
        known = record.median_seconds if record.status == "ok" else None
        value = math.nan if known is None else scale(record, known)
        return None if math.isnan(value) else value

    return Tracked(name, unit, meaning, median, scale)


TRACKED = (
    _timed("picoseconds_per_interaction", "ps", "Time of an evaluation divided by its interactions", picoseconds),
    _timed("milliseconds_per_evaluation", "ms", "Time of an evaluation", milliseconds),
    Tracked("force_error", "relative error", "Largest error against float64", lambda record: record.error_max),
    Tracked("registers", "registers", "Registers per thread", lambda record: record.registers),
    Tracked("spilled_bytes", "bytes", "Local memory per thread", lambda record: record.local_bytes),
)


@dataclass(slots=True)
class Exported:
    """What an export did: the files that were written, the records in them, and why the others are not.

    ``placed`` counts the records of changed sources by the commit that has their code, under which they were exported.
    """

    files: list[Path] = field(default_factory=list)
    records: int = 0
    placed: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)


def export(
    runs: Sequence[Path],
    to: Path = RESULTS,
    machine: str | None = None,
    say: Callable[[str], object] = warnings.warn,
    *,
    repeated: bool = False,
) -> Exported:
    """Add the records of runs to asv's results in ``to``, and list their benchmarks for ``asv publish``.

    ``machine`` is asv's name of the machine, by default that of the run's GPU or else of its processor. Without runs
    only the list is renewed, which ``asv run`` overwrites. Of a case measured twice at one commit the newer stands.
    ``say`` gets a sentence about the lines that are no records. With ``repeated``, only what the runs have at two
    commits or more is exported: asv takes minutes for cases that it then shows as a single point.

    Raises:
        InputError: not one record can be exported, the working directory is in no git repository, or another process
            writes to ``to``.
    """
    if machine is not None and not re.fullmatch(r"[\w.+-]*\w[\w.+-]*", machine):
        raise InputError(f"--machine {machine}: contains a path separator; accepted: letters, digits and . _ + -")
    if not runs and not to.is_dir():
        raise InputError(f"{to}: no such folder of results, and no run is named; name a run to export")
    done = Exported()
    usable_runs: list[tuple[list[Record], dict[str, Any]]] = []
    with Commits() as commits:
        for folder in runs:
            records = [record for record in RecordFile(folder).read(say) if record.anchor <= 1]
            if usable := _placed(records, commits, done):
                usable_runs.append((usable, (environment(folder) or [{}])[-1]))
    if repeated:
        usable_runs = _repeated(usable_runs, done)
    if runs and not usable_runs:
        raise InputError(f"{', '.join(map(str, runs))}: nothing to export: {reasons(done.left_out)}")
    with alone(to):
        for usable, described in usable_runs:
            _export_run(usable, described, to, machine, commits.dates, done)
        _list_benchmarks(to)
    return done


def placements(placed: Counter[str]) -> str:
    """Say how many records of changed sources were exported under which commits."""
    return "; ".join(
        f"{count} of changed sources under {commit[:8]}, whose code is theirs" for commit, count in placed.items()
    )


def reasons(left_out: Counter[str]) -> str:
    """Say how many records were left out, and why."""
    return "; ".join(f"{count} {reason}" for reason, count in left_out.items()) or "no records"


def _placed(records: Sequence[Record], commits: Commits, done: Exported) -> list[Record]:
    """Return the records that can be exported, each with the commit that has its code, and note why the others not."""
    placed = []
    for record in records:
        reason, stated = _unusable(record, commits.dates), record.commit or ""
        if not reason and stated.endswith(CHANGED):
            if commit := commits.with_code_of(record):
                done.placed[commit] += 1
                record = record.model_copy(update={"commit": commit})
            else:
                reason = (
                    f"of changed sources ({stated[:8]}{CHANGED}), whose code neither that commit nor a later "
                    "one has (commit them and measure again)"
                )
        if reason:
            done.left_out[reason] += 1
        else:
            placed.append(record)
    return placed


def _repeated(
    usable_runs: Sequence[tuple[list[Record], dict[str, Any]]], done: Exported
) -> list[tuple[list[Record], dict[str, Any]]]:
    """Return the records whose case another commit has too, on the same machine and by the same software."""

    def point(record: Record, machine: str, described: dict[str, Any]) -> tuple[object, ...]:
        return machine, json.dumps(_parameters(record, described)), record.variant, _where(record)

    commits = defaultdict(set)
    for records, described in usable_runs:
        for record in records:
            commits[point(record, _machine_name(records), described)].add(record.commit)
    kept = []
    for records, described in usable_runs:
        machine = _machine_name(records)
        several = [record for record in records if len(commits[point(record, machine, described)]) > 1]
        if single := len(records) - len(several):
            done.left_out["measured at one commit only"] += single
        if several:
            kept.append((several, described))
    return kept


def _unusable(record: Record, dates: dict[str, int]) -> str:
    if record.status in ("skipped", "failed"):
        return record.status
    if record.outraced:
        return "outraced (sampling stopped once it was clear that another case is faster)"
    if record.commit is None:
        return "without a commit (their sources were not a git checkout)"
    if record.commit.removesuffix(CHANGED) not in dates:
        return f"of commit {record.commit[:8]}, which is on no branch or tag of this repository"
    return ""


def _export_run(
    records: list[Record], environment: dict[str, Any], to: Path, machine: str | None, dates: dict[str, int],
    done: Exported,
) -> None:  # fmt: skip
    folder = to / (machine or _own_machine(records, environment, to) or _machine_name(records))
    described = results.machine(folder, _described(environment))
    files: dict[Path, tuple[dict[str, Any], dict[str, Grid]]] = {}
    for record in sorted(records, key=lambda record: record.started):
        assert record.commit is not None
        parameters = _parameters(record, environment)
        digest = hashlib.sha256(json.dumps(parameters, sort_keys=True).encode()).hexdigest()[:8]
        name = f"gravbench-{_slug(record.toolkit)}-{digest}"
        heading = {
            "commit_hash": record.commit,
            "env_name": name,
            "date": dates[record.commit],
            "params": described | parameters,
            "python": parameters["python"],
            "requirements": {},
            "env_vars": {},
        }
        # asv finds a commit's results by these eight letters.
        path = folder / f"{_slug(record.commit[:8])}-{name}.json"
        _, grids = files.setdefault(path, (heading, defaultdict(Grid)))
        for tracked in TRACKED:
            value = tracked.of(record)
            if value is not None and math.isfinite(value):
                grid = grids[f"{PREFIX}{record.variant}.{tracked.name}"]
                cell = _statistics(record, tracked.scale) if tracked.scale else {}
                grid.cells[_where(record)] = {"result": value, **cell}
                started = datetime.datetime.fromisoformat(record.started)
                grid.whole = {"version": VERSION, "started_at": int(started.timestamp() * 1000)}
        done.records += 1
    for path, (heading, grids) in files.items():
        results.add(path, heading, grids)
    done.files += files


def _parameters(record: Record, environment: dict[str, Any]) -> dict[str, Any]:
    """Return what asv calls an environment, each of which has its own graph."""
    return {
        # Of a record without a driver the device is no GPU.
        "gpu": record.device if record.driver else "none",
        "driver": record.driver or "none",
        "toolkit": record.toolkit,
        "toolkit_version": record.toolkit_version or "",
        "python": ".".join(str(environment.get("python", "")).partition(" ")[0].split(".")[:2]),
    }


def _where(record: Record) -> Where:
    # What was added to a case later stands last, so that the settings of older records keep their names.
    setting = [name for name, part in PARTS.items() if part.kind in ("bodies", "work")]
    setting.sort(key=lambda name: not type(record).model_fields[name].is_required())
    values = [(name, value) for name in setting if (value := record.part(name)) is not None]
    shown_values = " ".join(
        brief(name, value) if isinstance(value, str) else word(name, value) for name, value in values
    )
    return (str(record.n), *map(repr, (record.configuration or "none", record.dtype, shown_values)))


def _statistics(record: Record, scale: Callable[[Record, float], float]) -> dict[str, Any]:
    """Return asv's statistics of the samples; none where they are too few to bound the median at 99 %."""
    samples = record.samples_seconds
    bounds = statistics.bounds(samples, CONFIDENCE)
    if bounds is None:
        return {}
    lower, upper = np.quantile(samples, (0.25, 0.75))
    measured_seconds = {"ci_99_a": bounds[0], "ci_99_b": bounds[1], "q_25": float(lower), "q_75": float(upper)}
    result: dict[str, Any] = {f"stats_{name}": scale(record, seconds) for name, seconds in measured_seconds.items()}
    return result | {"stats_number": record.batch, "stats_repeat": len(samples)}


def _own_machine(records: list[Record], environment: dict[str, Any], to: Path) -> str | None:
    """Return asv's name of the machine that a run was measured on, where asv has results of it; else None.

    Results of one machine then stay together, so that ``asv compare`` need not be told which is meant. It is the same
    machine where processor, number of cores and kernel are.
    """
    described = _described(environment)
    if not (described["cpu"] and described["num_cpu"]):
        return None
    devices = {_machine_name([record]) for record in records}
    for path in sorted(to.glob(f"*/{results.MACHINE}")):
        known = results.read(path, results.MACHINE_FORMAT)
        kernel = str(known.get("os", "")).replace(" ", "-")
        same = (
            path.parent.name not in devices
            and described["cpu"].startswith(f"{known.get('cpu')},")
            and described["num_cpu"] == known.get("num_cpu")
        )
        if same and kernel and str(described["os"]).startswith(kernel):
            return path.parent.name
    return None


def machines(to: Path) -> list[str]:
    """Name the machines that asv finds in its folder of results."""
    return sorted(path.parent.name for path in to.glob(f"*/{results.MACHINE}"))


def _machine_name(records: list[Record]) -> str:
    names = [record.device for record in records if record.driver] or [record.device for record in records]
    return _slug(names[0] or "") or "unknown"


def _slug(text: str) -> str:
    """Make a name of a folder or a file of any text: no path, and never empty or dots alone unless the text is."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-.")[:90]


def _described(environment: dict[str, Any]) -> dict[str, Any]:
    processor = str(environment.get("processor", ""))
    cores = re.search(r"(\d+) cores$", processor)
    return {
        "os": environment.get("operating_system", ""),
        "arch": "",
        "cpu": processor,
        "num_cpu": cores.group(1) if cores else "",
        "ram": "",
    }


def _list_benchmarks(to: Path) -> None:
    """Describe every benchmark that was ever exported to ``to``; what others have listed there stays."""
    path = to / results.BENCHMARKS
    known = results.read(path) or {"version": results.FORMAT}
    listed = {name: value for name, value in known.items() if not name.startswith(PREFIX)}
    cells: dict[str, list[Where]] = defaultdict(list)
    for name, grid in results.grids(to, PREFIX):
        # Results of another version have other figures or parameters; asv passes over them too.
        if grid.whole.get("version") == VERSION:
            cells[name] += grid.cells
    by_name = {tracked.name: tracked for tracked in TRACKED}
    for name, rows in cells.items():
        variant, _, figure = name.removeprefix(PREFIX).rpartition(".")
        tracked = by_name[figure]
        listed[name] = {
            "code": f"{tracked.meaning}, of {variant}; measured by gravbench, added by gravbench history export",
            "name": name,
            "param_names": list(PARAMETERS),
            "params": [_offered(values) for values in zip(*rows, strict=True)],
            "timeout": 60.0,
            "type": "track",
            "unit": tracked.unit,
            "version": VERSION,
        }
    results.write(path, listed)


def _offered(values: Sequence[str]) -> list[str]:
    """Sort numbers by value and words by frequency, because asv shows the first of each at the start."""
    count = Counter(values)
    numbers = all(value.isdecimal() for value in count)
    return sorted(count, key=lambda value: (0 if numbers else -count[value], results.natural(value)))
