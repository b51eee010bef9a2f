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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from gravbench.config.load import Sweep
from gravbench.model.case import Case
from gravbench.model.record import Record
from gravbench.model.runs import RecordFile, latest

HOLD = re.compile(r"(?<![A-Za-z])hold")
"""The holding kernel's name: the whole name in CUDA C, one part of a mangled name in Numba."""
AT_ONCE = 20
"""Cases that one process under ncu evaluates."""
SECONDS_A_CASE = 60

TIME = "gpu__time_duration.sum"
OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"
THREADS = "smsp__thread_inst_executed_per_inst_executed.ratio"
INSTRUCTIONS = "smsp__inst_executed.sum"
PIPES = {
    "issue_slots": "sm__inst_issued.avg.pct_of_peak_sustained_active",
    "fma_pipe": "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active",
    "xu_pipe": "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active",
    "lsu_pipe": "sm__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_active",
    "tensor_pipe": "sm__inst_executed_pipe_tensor_op_hmma.avg.pct_of_peak_sustained_active",
    "fp64_pipe": "sm__inst_executed_pipe_fp64.avg.pct_of_peak_sustained_active",
}
FLOPS = {
    f"smsp__sass_thread_inst_executed_op_{width}{kind}_pred_on.sum": 2 if kind == "fma" else 1
    for width in "fd"
    for kind in ("fma", "add", "mul")
}
STALLS = (
    "barrier", "branch_resolving", "dispatch_stall", "lg_throttle", "long_scoreboard", "math_pipe_throttle",
    "mio_throttle", "no_instruction", "not_selected", "short_scoreboard", "wait",
)  # fmt: skip
STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
METRICS = (TIME, OCCUPANCY, THREADS, INSTRUCTIONS, *PIPES.values(), *FLOPS, *map(STALL.format, STALLS))


@dataclass(frozen=True, slots=True)
class Finished:
    """A case on a GPU and the record that measuring it gave."""

    case: Case
    record: Record


def add_missing(sweep: Sweep, folder: Path, tell: Callable[[str], None]) -> tuple[int, int]:
    """Add counters to the records of the sweep's cases that have none yet.

    Returns how many records got some, and how many lacked them.
    """
    store = RecordFile(folder)
    cases = {case.key: case for case in sweep.cases}
    finished = [
        Finished(cases[record.key], record)
        for record in latest(store.read())
        if record.status == "ok" and record.device_uuid and record.key in cases and not record.counters
    ]
    return add(finished, sweep.variant_folders, store, tell), len(finished)


def add(finished: Sequence[Finished], folders: Iterable[Path], store: RecordFile, tell: Callable[[str], None]) -> int:
    """Append each record to ``store`` again, with its counters or with the reason why there are none.

    ``tell`` is given a sentence before each process. Returns how many records got counters.
    """
    found = 0
    kind = lambda one: (one.record.device_uuid or "", one.case.toolkit)  # noqa: E731
    done = 0
    for (uuid, toolkit), group in groupby(sorted(finished, key=kind), key=kind):
        alike = list(group)
        for some in (alike[first : first + AT_ONCE] for first in range(0, len(alike), AT_ONCE)):
            tell(f"counting under ncu: {toolkit}, cases {done + 1} to {done + len(some)} of {len(finished)}")
            counted, reason = count([one.case for one in some], uuid, folders)
            for position, one in enumerate(some):
                own = counted[position] if position < len(counted) else {}
                found += bool(own)
                # Not a repetition of the anchor, whose drift it would otherwise widen.
                update = {"counters": own, "counters_unavailable": None if own else reason, "anchor": 0}
                store.append(one.record.model_copy(update=update))
            done += len(some)
    return found


def count(cases: Sequence[Case], uuid: str, folders: Iterable[Path]) -> tuple[list[dict[str, float]], str | None]:
    """Run the cases once under ncu; return the counters of each that was reached, and why others have none."""
    ncu = shutil.which("ncu")
    if ncu is None:
        return [], "ncu is not on PATH; it comes with the CUDA toolkit"
    with tempfile.TemporaryDirectory() as folder:
        asked, log = Path(folder) / "cases.json", Path(folder) / "ncu.csv"
        own = {"cases": [case.model_dump() for case in cases], "folders": [str(path.resolve()) for path in folders]}
        asked.write_text(json.dumps(own), "utf-8")
        command = [
            ncu, "--csv", "--page", "raw", "--print-units", "base", "--metrics", ",".join(METRICS),
            "--target-processes", "all", "--log-file", str(log),
            sys.executable, "-m", "gravbench.measuring.once", str(asked),
        ]  # fmt: skip
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": uuid}
        limit = SECONDS_A_CASE * len(cases)
        try:
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=limit, check=False)
        except subprocess.TimeoutExpired:
            return [], f"no end after {limit} s under ncu"
        text = log.read_text("utf-8", errors="replace") if log.exists() else ""
        found = list(by_case(rows(text)))
        return found, _reason(text, done) if len(found) < len(cases) or not all(found) else None


def rows(text: str) -> list[dict[str, str]]:
    """Read what ncu wrote: one row per kernel, by the names of the columns, without its remarks and units."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    found = list(csv.DictReader(lines))
    return [row for row in found if row.get("Kernel Name")]


def by_case(kernels: Iterable[Mapping[str, str]]) -> Iterator[dict[str, float]]:
    """Divide kernels at the holding kernels, and name the counters of each case's longest kernel."""
    own: list[Mapping[str, str]] | None = None
    for row in kernels:
        if HOLD.search(row["Kernel Name"]):
            if own is not None:
                yield _named(own)
            own = []
        elif own is not None:
            own.append(row)
    if own is not None:
        yield _named(own)


def _named(kernels: list[Mapping[str, str]]) -> dict[str, float]:
    if not kernels:
        return {}
    row = max(kernels, key=lambda row: _number(row, TIME) or 0.0)
    found = {
        "achieved_occupancy": _number(row, OCCUPANCY, 0.01),
        "threads_an_instruction": _number(row, THREADS),
        "instructions": _number(row, INSTRUCTIONS),
        **{name: _number(row, metric, 0.01) for name, metric in PIPES.items()},
        **{f"stalled_{name}": _number(row, STALL.format(name)) for name in STALLS},
    }
    counted = [(weight, number) for metric, weight in FLOPS.items() if (number := _number(row, metric)) is not None]
    if counted:
        found["executed_flop"] = sum(weight * number for weight, number in counted)
    return {name: number for name, number in found.items() if number is not None}


def _number(row: Mapping[str, str], metric: str, factor: float = 1.0) -> float | None:
    try:
        return float(row[metric].replace(",", "")) * factor
    except (KeyError, ValueError):
        return None


def _reason(text: str, done: subprocess.CompletedProcess[str]) -> str:
    """Return the first complaint of ncu, or of the process under it."""
    complaints = re.findall(r"^==(?:ERROR|WARNING)== *(.*)$", text + "\n" + done.stdout, re.MULTILINE)
    last = [line.strip() for line in done.stderr.splitlines() if line.strip()][-1:]
    said = next(iter([*complaints, *last]), f"it listed no kernel of the case (exit code {done.returncode})")
    return f"ncu: {said[:300]}"
