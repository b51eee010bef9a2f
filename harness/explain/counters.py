"""A second pass over finished cases under Nsight Compute: what the hardware counts, never while timing.

``ncu`` runs every kernel several times with other clocks and flushed caches, so its counters explain a time and never
replace one. Where it is missing, or the driver denies access to counters, the records quote its own message.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from gravbench.config.load import Sweep
from gravbench.model.case import Case
from gravbench.model.runs import RecordFile, latest

HOLD = re.compile(r"(?<![A-Za-z])hold")
"""The holding kernel's name, whole or as one part of a mangled name."""
AT_ONCE = 20
"""Cases that one process under ncu evaluates."""
SECONDS_A_CASE = 60

TIME = "gpu__time_duration.sum"
OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"
INSTRUCTIONS = "smsp__inst_executed.sum"
STALLS = (
    "barrier", "branch_resolving", "dispatch_stall", "lg_throttle", "long_scoreboard", "math_pipe_throttle",
    "mio_throttle", "no_instruction", "not_selected", "short_scoreboard", "wait",
)  # fmt: skip
COUNTERS = {
    "achieved_occupancy": OCCUPANCY,
    "threads_an_instruction": "smsp__thread_inst_executed_per_inst_executed.ratio",
    "instructions": INSTRUCTIONS,
    "global_loads": "smsp__inst_executed_op_global_ld.sum",
    "multiprocessors_active": "sm__cycles_active.avg.pct_of_peak_sustained_elapsed",
    "issue_slots": "sm__inst_issued.avg.pct_of_peak_sustained_active",
    "fma_pipe": "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active",
    "xu_pipe": "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active",
    "lsu_pipe": "sm__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_active",
    "tensor_pipe": "sm__inst_executed_pipe_tensor_op_hmma.avg.pct_of_peak_sustained_active",
    "fp64_pipe": "sm__inst_executed_pipe_fp64.avg.pct_of_peak_sustained_active",
    **{f"stalled_{name}": f"smsp__average_warps_issue_stalled_{name}_per_issue_active.ratio" for name in STALLS},
}
FLOPS = {
    f"smsp__sass_thread_inst_executed_op_{width}{kind}_pred_on.sum": 2 if kind == "fma" else 1
    for width in "fd"
    for kind in ("fma", "add", "mul")
}
METRICS = (TIME, *COUNTERS.values(), *FLOPS)


def add_missing(sweep: Sweep, folder: Path, tell: Callable[[str], None]) -> tuple[int, int]:
    """Append each record of the sweep's cases that has no counters again, with them or the reason why there are none.

    ``tell`` is given a sentence before each process. Returns how many records got counters, and how many lacked them.
    What several GPUs share has none: a process under ncu sees one.

    Raises:
        InputError: another process writes to the folder, or it cannot be written.
    """
    with RecordFile(folder) as store:
        added = _add_missing(sweep, store, tell)
        store.check()
    return added


def _add_missing(sweep: Sweep, store: RecordFile, tell: Callable[[str], None]) -> tuple[int, int]:
    cases = {case.key: case for case in sweep.cases}
    lacking = [
        record
        for record in latest(store.read(lambda _: None))
        if record.status == "ok"
        and record.device_uuid
        and record.key in cases
        and not record.counters
        and record.gpus == 1
    ]
    with_counters = done = 0
    kind = lambda record: (record.device_uuid or "", record.toolkit)  # noqa: E731
    for (uuid, toolkit), group in groupby(sorted(lacking, key=kind), key=kind):
        alike = list(group)
        for some in (alike[first : first + AT_ONCE] for first in range(0, len(alike), AT_ONCE)):
            tell(f"counting under ncu: {toolkit}, cases {done + 1} to {done + len(some)} of {len(lacking)}")
            counted, reason = count([cases[record.key] for record in some], uuid, sweep.variant_folders)
            for position, record in enumerate(some):
                counters = counted[position] if position < len(counted) else {}
                with_counters += bool(counters)
                # Not a repetition of the anchor, whose drift it would otherwise widen.
                update = {"counters": counters, "counters_unavailable": None if counters else reason, "anchor": 0}
                store.append(record.model_copy(update=update))
            done += len(some)
    return with_counters, len(lacking)


def count(cases: Sequence[Case], uuid: str, folders: Iterable[Path]) -> tuple[list[dict[str, float]], str | None]:
    """Run the cases once under ncu; return the counters of each that was reached, and why others have none."""
    ncu = shutil.which("ncu")
    if ncu is None:
        return [], "ncu is not on PATH; it comes with the CUDA toolkit"
    with tempfile.TemporaryDirectory() as folder:
        request, log = Path(folder) / "cases.json", Path(folder) / "ncu.csv"
        content = {"cases": [case.model_dump() for case in cases], "folders": [str(path.resolve()) for path in folders]}
        request.write_text(json.dumps(content), "utf-8")
        command = [
            ncu, "--csv", "--page", "raw", "--print-units", "base", "--metrics", ",".join(METRICS),
            "--target-processes", "all", "--log-file", str(log),
            sys.executable, "-m", "gravbench.explain.ncu_target", str(request),
        ]  # fmt: skip
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": uuid}
        limit = SECONDS_A_CASE * len(cases)
        try:
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=limit, check=False)
        except subprocess.TimeoutExpired:
            return [], f"did not finish within {limit} s under ncu"
        text = log.read_text("utf-8", errors="replace") if log.exists() else ""
        counted = by_case(rows(text))
        return counted, _reason(text, done) if len(counted) < len(cases) or not all(counted) else None


def rows(text: str) -> list[dict[str, str]]:
    """Read what ncu wrote: one row per kernel, by the names of the columns, without its remarks and units."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    return [row for row in csv.DictReader(lines) if row.get("Kernel Name")]


def by_case(kernels: Iterable[Mapping[str, str]]) -> list[dict[str, float]]:
    """Divide kernels at the holding kernels, and name the counters of each case's longest kernel."""
    cases: list[list[Mapping[str, str]]] = []
    for row in kernels:
        if HOLD.search(row["Kernel Name"]):
            cases.append([])
        elif cases:
            cases[-1].append(row)
    return [_named(kernels_of_case) for kernels_of_case in cases]


def _named(kernels: list[Mapping[str, str]]) -> dict[str, float]:
    if not kernels:
        return {}
    row = max(kernels, key=lambda row: _number(row, TIME) or 0.0)
    counters = {name: _number(row, metric) for name, metric in COUNTERS.items()}
    counted = [(weight, number) for metric, weight in FLOPS.items() if (number := _number(row, metric)) is not None]
    if counted:
        counters["executed_flop"] = sum(weight * number for weight, number in counted)
    return {name: number for name, number in counters.items() if number is not None}


def _number(row: Mapping[str, str], metric: str) -> float | None:
    """Read a number, a percentage as a fraction of 1."""
    try:
        return float(row[metric].replace(",", "")) * (0.01 if ".pct_" in metric else 1.0)
    except (KeyError, ValueError):
        return None


def _reason(text: str, done: subprocess.CompletedProcess[str]) -> str:
    """Return the first complaint of ncu, or of the process under it."""
    complaints = re.findall(r"^==(?:ERROR|WARNING)== *(.*)$", text + "\n" + done.stdout, re.MULTILINE)
    last = [line.strip() for line in done.stderr.splitlines() if line.strip()][-1:]
    reason = next(iter([*complaints, *last]), f"it reported no kernel of the case (exit code {done.returncode})")
    return f"ncu: {reason[:300]}"
