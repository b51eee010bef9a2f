"""The public names of ``gravbench`` beside ``force``: what the commands do, for programs and notebooks."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from gravbench.config.load import Sweep, load, words
from gravbench.errors import InputError, shortened
from gravbench.measuring import runner
from gravbench.measuring.plan import plan
from gravbench.model import run_names, runs
from gravbench.model.record import Record
from gravbench.model.runs import RecordFile
from gravbench.search.strategies import of_plan
from gravbench.toolkits.devices import select
from gravbench.verdicts.compare import THRESHOLD, Comparison, Run, checked_threshold, compare_runs

__all__ = ["compare", "load", "run"]


def run(
    sweep: Sweep | str | Path,
    out: Path | str | None = None,
    *,
    devices: Sequence[str] = (),
    resume: bool = False,
    watcher: runner.Watcher = runner.SILENT,
) -> list[Record]:
    """Verify, measure and record every case of a sweep, as ``gravbench run`` does.

    Args:
        sweep: what ``load`` returns, or the name or path of a configuration.
        out: the folder for the records; by default reports/CONFIG-DATE-TIME.
        devices: ``cpu``, ``cuda:0``, ...; by default the CPU and all GPUs of the same kind as the first one.
        resume: measure only the cases that are missing in ``out``.
        watcher: receives the progress of the run.

    Returns:
        The new records, in the order in which they were measured. Each is on disk before the next case starts.

    Raises:
        InputError: an argument is not accepted, no case can run on the devices, ``out`` has records and ``resume`` is
            not set, another process is writing to it, it cannot be written, or this process is daemonic and may start
            no others.
    """
    asked = sweep if isinstance(sweep, Sweep) else load(sweep)
    if isinstance(out, str) and not out.strip():
        raise InputError(f"out {out!r}: accepted: the path of a folder, or None")
    chosen, no_gpu = select(words(devices, "devices"), asked.toolkits)
    existing = [] if out is None else runner.recorded(Path(out), resume=resume)
    # What cannot be planned leaves no folder behind.
    todo = plan(asked, chosen, no_gpu, existing, chosen=bool(devices))
    folder = runs.new_folder(asked.folder_name) if out is None else Path(out)
    opened = runner.open_run(folder, existing, chosen, sys.argv[1:], asked, todo.planned, todo.left_out)
    with opened as (store, _):
        return runner.run(asked, todo, store, watcher, strategies=of_plan(asked, todo))


def compare(
    base: Path | str | Sequence[Record], new: Path | str | Sequence[Record], threshold: float = THRESHOLD
) -> Comparison:
    """Compare every case of two runs with itself, as ``gravbench compare`` does.

    Args:
        base: a run's folder, its name below reports/ (see ``gravbench.model.run_names.find``), or records.
        new: likewise.
        threshold: the smallest relative change of the time that counts.

    Returns:
        A verdict per case, with the interval of the ratio and its reasons; see ``Comparison``.

    Raises:
        InputError: there is no such run, something else is given, or the threshold is not between 0 and 1.
    """
    for name, side in (("base", base), ("new", new)):
        is_run = isinstance(side, str | Path) or (
            isinstance(side, Sequence) and all(isinstance(record, Record) for record in side)
        )
        if not is_run or isinstance(side, bytes):
            raise InputError(f"{name} {shortened(repr(side))}: accepted: the folder or name of a run, or its records")
    threshold = checked_threshold(threshold)
    sides = [
        Run(str(one), RecordFile(run_names.find(str(one))).read())
        if isinstance(one, str | Path)
        else Run(name, list(one))
        for name, one in (("base", base), ("new", new))
    ]
    return compare_runs(sides[0], sides[1], threshold)
