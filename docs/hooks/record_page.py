"""The reference of records: every field with its unit."""

from __future__ import annotations

import inspect
import re

from pydantic import BaseModel

from gravbench.model.case import Case
from gravbench.model.record import (
    Counters,
    Errors,
    Fingerprint,
    Inside,
    Measurement,
    Preparation,
    Record,
    Resources,
    Stepping,
)
from gravbench.report import export

HEAD = """# Records

A run is a folder. `records.jsonl` has one JSON object per line, one for each case that was measured, skipped or failed.
Lines are never changed. `environment.json` describes the machine, the packages and the command of each start.
`gravbench export RUN --to FILE` writes the newest record of each case as a [table](#the-table) or in other
[formats](../how-to/export.md).

If `status` explains why a value could not be determined, its field is null or empty. Older records lack newer fields.

"""
PARTS: dict[str, type[BaseModel] | None] = {
    "The case": Case,
    "The result": None,
    "What the result depends on": Fingerprint,
    "Before the first evaluation": Preparation,
    "Errors": Errors,
    "Times": Measurement,
    "Steps": Stepping,
    "Inside an evaluation": Inside,
    "Counters of Nsight Compute": Counters,
    "Resources of the kernel": Resources,
}
UNITS = {
    "_seconds": "s",
    "_bytes": "byte",
    "_mhz": "MHz",
    "_watts": "W",
    "_celsius": "°C",
    "joules": "J",
    "gflops": "GFLOP/s",
    "_per_second": "1/s",
    "ci_low": "s",
    "ci_high": "s",
    "dt": "N-body units of time",
    "eps": "N-body units of length",
}
FIELDS: dict[str, str] = {
    "variant": "the technique",
    "toolkit": "the library that compiled and launched it",
    "axes": "its axis values, by name",
    "n": "bodies",
    "dtype": "number type of the computation",
    "bodies": "name of the initial conditions, or path of a file",
    "subset": "how n bodies were taken from a file",
    "seed": "random seed of the initial conditions",
    "eps": "softening length",
    "interaction": "what one body does to another: a name, or path of a file",
    "timed": "what one evaluation includes: force, step or call",
    "integrator": "integrator, with `timed: step`",
    "dt": "length of a time step",
    "bodies_file_sha256": "hash of the bytes of the file of bodies",
    "interaction_sha256": "hash of the code of the file of the interaction",
    "status": "ok, invalid (wrong result), skipped or failed",
    "reason": "why the status is not ok",
    "anchor": "0, or the number of this repetition of the anchor",
    "source_sha256": "hash of files, in records from before `code_sha256`",
    "interactions_per_second": "the primary figure: interactions divided by the median time",
    "gflops": "interactions per second times `flops_per_interaction`",
    "flops_per_interaction": "the convention for GFLOP/s, in FLOP",
    "commit": "commit of the checkout that measured the case",
    "started": "when the case started, ISO 8601",
    "harness_version": "version of gravbench",
    "method": "number of the method that timed and judged it; null in older records",
    "code_sha256": "hash of the code that ran; null if its sources are unknown",
    "flags": "compiler flags",
    "toolkit_version": "versions of the toolkit and of what it uses",
    "driver": "driver version of the GPU",
    "device": "name of the device",
    "device_uuid": "distinguishes devices with the same name",
    "bodies_sha256": "hash of the n bodies in float64",
    "compute_capability": "compute capability of the GPU",
    "compiler": "name and version of the compiler",
    "adapter": "what a device of WebGPU says of itself: vendor, backend, type, features, limits; empty for others",
    "clock_resolution_seconds": "what the clock of the samples tells apart; null where the toolkit does not say",
    "start_seconds": "from the start of the worker process to a usable device",
    "gpus_linked_by": "how several GPUs are connected; null for one GPU",
    "compile_seconds": "compilation: when the kernels were built ahead, or in the session, including the first launch",
    "built_ahead": "whether all kernels were compiled before the session had the case; null where none was for a GPU",
    "untimed_seconds": "untimed one-off preparation for these positions, by name",
    "error_max": "largest relative error of an acceleration",
    "error_rms": "rms of the relative errors",
    "error_median": "median of the relative errors",
    "error_p90": "90th percentile of the relative errors",
    "error_p99": "99th percentile of the relative errors",
    "error_rows": "bodies that were compared",
    "error_magnitude_max": "largest error relative to the summed magnitudes of contributions; cases are judged by it",
    "error_magnitude_rms": "rms of these errors",
    "error_max_of": "largest relative error of each vector or sum of an interaction that has several",
    "cycle": "evaluations in which an approximation covers all pairs once",
    "error_cycle_max": "largest relative error of the mean over a cycle",
    "error_cycle_rms": "rms of these errors",
    "samples_seconds": "every sample: mean time of an evaluation over a batch",
    "processes": "which process took each sample",
    "batch": "evaluations per sample",
    "median_seconds": "median time of one evaluation; of several processes, the geometric mean of their medians",
    "ci_low": "lower bound of the median, nominal confidence 95 %",
    "ci_high": "upper bound of the median; infinite if the samples are too few",
    "stop_reason": "why sampling stopped: `interval`, `budget of ... s spent`, `outraced`",
    "launch_seconds": "time the host needs to launch one evaluation; not part of the samples unless `launch_bound`",
    "sm_clock_mhz": "clock of the multiprocessors at each sample",
    "power_watts": "power at each sample",
    "temperature_celsius": "temperature at each sample",
    "throttle_reasons": "reasons for which the device lowered its clock",
    "throttled": "whether the device lowered its clock; null if it does not report that",
    "launch_bound": "whether the device waited for the host",
    "joules": "energy per evaluation from the counter of the device; null if sampling took less than half a second",
    "protocol": "the settings of `measure` that were used",
    "steps_per_second": "time steps per second, with `timed: step`",
    "energy_drift": "(energy after - energy before) / |energy before| over `drift_steps` steps",
    "momentum_drift": "magnitude of the change of the momentum, divided by the sum of mass · |velocity|",
    "drift_steps": "number of steps over which drift was measured",
    "damping": "factor of the damped Euler integrator",
    "stages_seconds": "median time of each stage if every stage waits for the one before",
    "stages_bytes": "bytes that each stage moves",
    "computed": "interactions per body in one evaluation, by kind",
    "on_host": "whether bodies and accelerations stay on the host although a GPU computes, so that the host works too; "
    "none in older records",
    "uncounted": "whether this is an approximation that does not count its interactions, so it has a time but no rate",
    "walk_overlap": "fraction of a warp's threads that need to visit a node, averaged over the nodes that any visits",
    "counters": "counters by name; pipes, `issue_slots`, `achieved_occupancy` and `multiprocessors_active` as "
    "fractions of the peak",
    "counters_unavailable": "why there are no counters",
    "registers": "registers per thread",
    "shared_bytes": "shared memory per block",
    "local_bytes": "local memory per thread, into which registers spill",
    "threads_per_block": "threads per block of the launch",
    "grid_blocks": "blocks of the launch",
    "blocks_per_multiprocessor": "blocks that can be resident on a multiprocessor at the same time",
    "occupancy": "resident warps divided by the most that a multiprocessor can hold, 0 to 1",
    "occupancy_limiter": "what limits the occupancy",
    "waves": "blocks of the grid divided by the blocks that the device can hold at once",
}


def _kind(name: str) -> str:
    written = str(Record.model_json_schema()["properties"][name])
    kinds = re.findall(r"'type': '(\w+)'", written) + re.findall(r"\$defs/(\w+)", written)
    named = [kind for kind in dict.fromkeys(kinds) if kind != "null"]
    if "array" in named:
        return "list"
    if "object" in named:
        return "mapping"
    words = {"string": "text", "integer": "whole number", "boolean": "true or false", "number": "number"}
    return " or ".join(words.get(kind, kind) for kind in named) or "number"


TABLE = """## The table

`gravbench export RUN --to FILE.csv` or `FILE.parquet` writes one row for the newest record of each case. A column is a
field above, with its name and unit; lists are JSON in CSV. A cell is empty where the record lacks the field. `axes` and
`protocol` are no columns, and these are no fields:

| column | type | unit | meaning |
| --- | --- | --- | --- |
"""
COLUMNS = {
    export.KEY: ("text", "", "names the case: equal in every run that has it"),
    export.UNCERTAINTY[0]: (
        "number",
        "",
        "what reports print after ±, as a part of the median: the interval of the samples and the scatter of the run's "
        "anchors; empty where nothing bounds it",
    ),
    export.UNCERTAINTY[1]: ("true or false", "", "whether that includes what processes differ by in such work"),
}
BEGINNINGS = (
    export.AXIS,
    *(name for name in Record.model_fields if name not in export.LEFT_OUT and _kind(name) == "mapping"),
)
"""What begins the columns of a mapping: the name of its field, then one of its names."""


def page() -> str:
    """Return the page in Markdown.

    Raises:
        KeyError: a field is not described in ``FIELDS``.
    """
    shared = {name for part in PARTS.values() if part for name in part.model_fields}
    parts = []
    for title, part in PARTS.items():
        names = [name for name in (part or Record).model_fields if part or name not in shared]
        rows = [f"| `{name}` | {_kind(name)} | {_unit(name)} | {FIELDS[name]} |" for name in names]
        lines = [f"## {title}", "", "| field | type | unit | meaning |", "| --- | --- | --- | --- |", *rows, ""]
        if part and part is not Case and part.__doc__:
            said = inspect.cleandoc(part.__doc__).partition("\n\n")[2]
            lines += [said.replace("``", "`"), ""]
        parts.append("\n".join(lines))
    return HEAD + "\n".join([*parts, table_columns()])


def table_columns() -> str:
    """Return the part of the page that says which columns of an exported table are no fields, and what they are."""
    rows = [f"| `{name}` | {kind} | {unit} | {meaning} |" for name, (kind, unit, meaning) in COLUMNS.items()]
    for field in BEGINNINGS:
        of = "`axes`" if field == export.AXIS else f"`{field}`"
        rows.append(f"| `{field}_NAME` | value of NAME | {_unit(field)} | {of} has NAME with this value |")
    return TABLE + "\n".join(rows) + "\n"


def _unit(name: str) -> str:
    return next((unit for end, unit in UNITS.items() if name == end or (end[0] == "_" and name.endswith(end))), "")
