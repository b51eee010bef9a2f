"""Records as results of autotuning in the T4 format, schema 1.0.0, and as a cache of Kernel Tuner, which reads both.

A result is a record: its configuration is the whole case, because a run varies more than the parameters of one kernel.
Times are in milliseconds, as the file says. Reads records alone.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from gravbench.model.case import PARTS
from gravbench.model.record import Record
from gravbench.verdicts.ranking import is_ranked, seconds

SCHEMA = "1.0.0"
INVALIDITY = {"ok": "correct", "invalid": "correctness", "failed": "runtime", "skipped": "constraints"}
"""What the format calls each status of a record."""


def results(records: Sequence[Record]) -> dict[str, Any]:
    """Return what a T4 file of these records holds; times in milliseconds."""
    return {
        "schema_version": SCHEMA,
        "metadata": {"autotuner": "gravbench", "timeunit": "milliseconds"},
        "results": [
            {
                "timestamp": record.started,
                "configuration": configuration(record),
                "objectives": ["time"],
                "times": _times(record),
                "invalidity": INVALIDITY[record.status],
                "correctness": float(record.status == "ok"),
                "measurements": _measurements(record),
            }
            for record in records
        ],
    }


def configuration(record: Record) -> dict[str, Any]:
    """Return what was measured and on which device: the parts of the case that it has, its axes as ``axis_NAME``."""
    parts = {name: getattr(record, name) for name in PARTS if name != "axes"}
    axes = {f"axis_{name}": value for name, value in record.axes.items()}
    known = {name: value for name, value in parts.items() if value is not None}
    return {"device": record.device or "unknown"} | known | axes


def cache(
    about: Mapping[str, Any],
    parameters: Mapping[str, Sequence[float]],
    rows: Mapping[tuple[float, ...], Record],
    failed: float | str,
) -> dict[str, Any]:
    """Return what a cache file of Kernel Tuner 1.5 holds: times in milliseconds by the values of the parameters.

    ``about`` has device_name, kernel_name and problem_size; ``failed`` stands for the time of what has none.
    """
    return {
        **about,
        "tune_params_keys": list(parameters),
        "tune_params": dict(parameters),
        "objective": "time",
        "cache": {
            ",".join(map(str, row)): dict(zip(parameters, row, strict=True)) | _cached(record, failed)
            for row, record in rows.items()
        },
    }


def _cached(record: Record, failed: float | str) -> dict[str, Any]:
    return {
        "time": 1e3 * seconds(record) if is_ranked(record) else failed,
        "times": [1e3 * sample for sample in record.samples_seconds],
        "compile_time": 1e3 * (record.compile_seconds or 0.0),
        "verification_time": 0.0,
        "benchmark_time": 1e3 * sum(record.samples_seconds) * (record.batch or 1),
        "strategy_time": 0.0,
        "framework_time": 0.0,
        "timestamp": record.started,
    }


def _times(record: Record) -> dict[str, Any]:
    times: dict[str, Any] = {"runtimes": [1e3 * sample for sample in record.samples_seconds]}
    if record.samples_seconds and record.batch:
        times["benchmark"] = 1e3 * record.batch * sum(record.samples_seconds)
    if record.compile_seconds is not None:
        times["compilation"] = 1e3 * record.compile_seconds
    return times


def _measurements(record: Record) -> list[dict[str, Any]]:
    values = {
        ("time", "ms"): None if record.median_seconds is None else 1e3 * record.median_seconds,
        ("interactions_per_second", "1/s"): record.interactions_per_second,
        ("error_max", "relative error"): record.error_max,
        ("power", "W"): statistics.median(record.power_watts) if record.power_watts else None,
        ("energy", "J"): record.joules,
        ("sm_clock", "MHz"): statistics.median(record.sm_clock_mhz) if record.sm_clock_mhz else None,
        ("registers", "registers per thread"): record.registers,
    }
    return [{"name": name, "value": value, "unit": unit} for (name, unit), value in values.items() if value is not None]
