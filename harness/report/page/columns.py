"""Records as columns of a table in a page: every field but each sample's own, each value once where it repeats."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from gravbench.model.record import Record
from gravbench.verdicts import ranking

DIGITS = 6

# Columns that a page shows; the rest of a record is behind them.
SHOWN: Mapping[str, str] = {
    "variant": "variant",
    "toolkit": "toolkit",
    "configuration": "configuration",
    "n": "n",
    "dtype": "type",
    "timed": "timed",
    "speed": "1e9 interactions/s",
    "ms": "ms",
    "half width": "± %",
    "gflops": "GFLOP/s",
    "occupancy %": "occupancy %",
    "error_max": "max error",
    "status": "status",
    "run": "run",
}

_FIELDS = (
    *("variant", "toolkit", "configuration", "n", "dtype", "timed", "gflops", "error_max", "status"),
    *("reason", "anchor", "interaction", "integrator", "dt", "bodies", "subset", "seed", "eps", "bodies_sha256"),
    *("bodies_file_sha256", "interaction_sha256", "code_sha256"),
    *("device", "device_uuid", "driver", "toolkit_version", "compiler", "compute_capability", "source_sha256"),
    *("commit", "harness_version", "started", "median_seconds", "ci_low", "ci_high", "stop_reason", "batch"),
    *("launch_seconds", "launch_bound", "throttled", "interactions_per_second", "flops_per_interaction"),
    *("error_rms", "error_median", "error_p99", "error_rows", "cycle", "error_cycle_max", "error_cycle_rms"),
    *("registers", "shared_bytes", "local_bytes", "threads_per_block", "grid_blocks", "blocks_per_multiprocessor"),
    *("occupancy_limiter", "waves", "steps_per_second", "energy_drift", "drift_steps", "damping"),
    *("walk_overlap", "start_seconds", "compile_seconds", "joules", "joules_per_interaction"),
    "counters_unavailable",
)

_MADE: Mapping[str, Callable[[Record], Any]] = {
    "speed": lambda record: ranking.speed(record) / 1e9 if record.median_seconds else None,
    "ms": lambda record: None if record.median_seconds is None else 1e3 * record.median_seconds,
    "half width": lambda record: _times_100(ranking.half_width(record)),
    "occupancy %": lambda record: _times_100(record.occupancy),
    "samples": lambda record: len(record.samples_seconds),
    "SM clock, median MHz": lambda record: statistics.median(record.sm_clock_mhz) if record.sm_clock_mhz else None,
    "power, median W": lambda record: statistics.median(record.power_watts) if record.power_watts else None,
    "flags": lambda record: " ".join(record.flags),
    "throttle reasons": lambda record: ", ".join(record.throttle_reasons),
    "errors of each sum": lambda record: _pairs(record.error_max_of),
    "stages, seconds": lambda record: _pairs(record.stages_seconds),
    "stages, bytes": lambda record: _pairs(record.stages_bytes),
    "counters": lambda record: _pairs(record.counters),
    "interactions of a body": lambda record: _pairs(record.computed),
}


def columns(records: Sequence[Record], runs: Sequence[str], commands: Sequence[str]) -> dict[str, Any]:
    """Return the columns that hold anything, by name; ``runs`` and ``commands`` have one word a record.

    A column is {"values": ...} with a value a record, or, where values repeat, those there are and the place of each
    record's in ``at``. Numbers have six digits, which is more than any interval is narrow.
    """
    made: dict[str, list[Any]] = {"run": list(runs), "command": list(commands)}
    made |= {field: list(map(attrgetter(field), records)) for field in _FIELDS}
    made |= {name: list(map(make, records)) for name, make in _MADE.items()}
    packed = {name: _packed(values) for name, values in made.items()}
    return {name: packed[name] for name in [*SHOWN, *made] if name in SHOWN or _holds(packed[name])}


def _packed(values: list[Any]) -> dict[str, Any]:
    distinct = dict.fromkeys(values)
    if 2 * len(distinct) > len(values):
        return {"values": list(map(_plain, values))}
    place = {value: i for i, value in enumerate(distinct)}
    return {"values": list(map(_plain, distinct)), "at": [place[value] for value in values]}


def _holds(column: dict[str, Any]) -> bool:
    return any(value not in (None, "") for value in column["values"])


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        if not math.isfinite(value):
            return str(value)
        return float(f"{value:.{DIGITS}g}")
    return value


def _times_100(fraction: float | None) -> float | None:
    return None if fraction is None else 100 * fraction


def _pairs(numbers: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.4g}" for name, value in numbers.items())
