"""A plan in, records out: isolate, verify, measure, record.

This process uses no CUDA. Every device has worker processes of its own, new ones for each repetition of its anchor,
and a worker that faults or hangs becomes a record.
"""

from __future__ import annotations

import datetime
import itertools
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from multiprocessing import resource_tracker
from pathlib import Path

from gravbench.config.load import Sweep, packaged
from gravbench.errors import InputError
from gravbench.measuring import environment
from gravbench.measuring.crew import Crew
from gravbench.measuring.outcome import Outcome, said
from gravbench.measuring.plan import Plan, Task
from gravbench.measuring.process import Worker
from gravbench.measuring.shards import check_resumed
from gravbench.measuring.worker import Job
from gravbench.model import initial_conditions, runs
from gravbench.model.device import Device
from gravbench.model.record import Record
from gravbench.model.regular import open_file, saying, write_all
from gravbench.model.runs import ENVIRONMENT, RecordFile
from gravbench.model.variant import Variant, discover
from gravbench.version import VERSION

WORKER_LOG = "worker.log"


class Watcher:
    """Who is told how a run goes on; this one keeps it to itself."""

    def begins(self, label: str, device: str) -> None:
        """A case is about to be worked on."""

    def phase(self, name: str) -> None:
        """The worker has begun to load, compile, verify or measure."""

    def ends(self, record: Record, done: int, total: int) -> None:
        """A case has its record."""


SILENT = Watcher()


def run(
    sweep: Sweep, todo: Plan, out: Path | RecordFile, watcher: Watcher, *, verify_only: bool = False
) -> list[Record]:
    """Work through a plan and return its records, in the order they were made.

    Each record is on the disk, in records.jsonl in the folder ``out``, before the next case starts, and nobody else
    writes to it until the run ends; with ``verify_only`` nothing is measured and nothing kept. KeyboardInterrupt passes
    through after the workers are stopped.

    Raises:
        InputError: another process writes to the folder, it cannot be written, or what was written is gone.
    """
    store = out if isinstance(out, RecordFile) else RecordFile(out)
    with store:
        records = _run(sweep, todo, store, watcher, verify_only=verify_only)
        store.check()
    return records


def _run(sweep: Sweep, todo: Plan, store: RecordFile, watcher: Watcher, *, verify_only: bool) -> list[Record]:
    variants = discover(sweep.variant_folders)
    log = store.folder / WORKER_LOG
    with saying(log, "cannot be written"):
        os.close(open_file(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT))
    crews: dict[str, Crew[Worker]] = {}  # by device
    numbers = itertools.count(todo.processes + 1)
    settings = None if verify_only else sweep.measure
    records: list[Record] = []
    useless: list[Task] = []  # anchors that cannot be measured, and so show no drift
    # Its start lets Ctrl-C through, also to the worker that would start it.
    resource_tracker.ensure_running()
    try:
        for done, task in enumerate(todo.tasks, 1):
            if task.fresh and task.device and task.device.selector in crews:
                crews[task.device.selector].dismiss()
            if task.anchor and replace(task, anchor=1) in useless:
                continue
            started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
            if task.device is None:
                outcome = Outcome("skipped", task.skip)
            else:
                own, job = task.device.selector, Job(task.case, settings, sweep.measure.verify)
                watcher.begins(task.case.label, own)
                if own not in crews:
                    start = partial(Worker, task.device, sweep.variant_folders, log, sweep.measure)
                    crews[own] = Crew(sweep.measure.processes_on(gpu=task.device.is_gpu), start, numbers)
                outcome = crews[own].work(job, lambda worker, part: worker.ask(part, watcher.phase))
                if what := _edited(task, variants[task.case.variant]):
                    outcome = Outcome("failed", f"its {what} edited during the run, so it is not known what ran")
            record = _record(task, outcome, sweep.flops(task.case.interaction), started)
            if not verify_only:
                store.append(record)
            records.append(record)
            if task.anchor and record.status != "ok":
                useless.append(replace(task, anchor=1))
            watcher.ends(record, done, len(todo.tasks))
    finally:
        for crew in crews.values():
            crew.dismiss()
    return records


def _edited(task: Task, variant: Variant) -> str | None:
    """Name what is not as it was planned: what ran may then be the old, the new, or something in between."""
    what = "source was"
    try:
        if environment.fingerprint(task.case, variant, task.device) != task.fingerprint:
            return what
        what = "bodies were"
        same = initial_conditions.file_sha256(task.case.bodies) == task.case.bodies_file_sha256
    except (InputError, OSError, SyntaxError):  # a file that is gone, or no longer what it was
        return what
    return None if same else what


def _record(task: Task, outcome: Outcome, flops: float, started: str) -> Record:
    """Make the record of an outcome; where no record can hold what was found, that of a failed case."""
    try:
        return _made(task, outcome, flops, started)
    except (ValueError, ArithmeticError) as error:
        return _made(task, Outcome("failed", f"what was found of it makes no record: {said(error)}"), flops, started)


def _made(task: Task, outcome: Outcome, flops: float, started: str) -> Record:
    described = {
        **task.case.model_dump(),
        "bodies": Path(task.case.bodies).name,
        "interaction": Path(task.case.interaction).name,
    }
    for part in (task.fingerprint, *outcome.found.parts()):
        described |= part.model_dump(warnings=False)
    record = Record(
        **described,
        status=outcome.status,
        reason=outcome.reason,
        anchor=task.anchor,
        flops_per_interaction=flops,
        commit=environment.commit(),
        started=started,
        harness_version=VERSION,
    )
    if record.status != "ok" or not record.median_seconds:
        return record
    speed = record.evaluated / record.median_seconds
    steps = 1 / record.median_seconds if record.timed == "step" else None
    speeds = {"interactions_per_second": speed, "gflops": speed * flops / 1e9, "steps_per_second": steps}
    return record.model_copy(update=speeds)


def recorded(folder: Path, *, resume: bool) -> list[Record]:
    """Return the records that a folder holds already, and change nothing.

    Raises:
        InputError: it holds records and ``resume`` was not asked for, or they cannot be read.
    """
    store = RecordFile(folder)
    if not os.path.lexists(store.path):
        return []
    if not resume:
        raise InputError(
            f"{store.path} exists already; add --resume to measure only what is missing from it, or name another --out"
        )
    return store.read()


@contextmanager
def open_run(
    folder: Path,
    existing: Sequence[Record],
    devices: list[Device],
    arguments: Sequence[str],
    sweep: Sweep,
    planned: int | None = None,
) -> Iterator[tuple[RecordFile, str | None]]:
    """Be the only one who writes to a folder, repair its records and note this start of a run in environment.json.

    ``existing`` are the records that ``recorded`` returned and the run was planned on, ``planned`` as in ``Plan``.
    Yields where to add to them, and a sentence about what was repaired.

    Raises:
        InputError: another process writes to the folder or has just written to it, it cannot be written, or it has
            another shard.
    """
    with RecordFile(folder) as store:
        check_resumed(folder, sweep)
        word = store.repair()
        if len(recorded(folder, resume=True)) != len(existing):
            raise InputError(f"{store.path}: another run has just added to it; try again, with --resume")
        store.environment = write_environment(folder, devices, arguments, sweep, planned)
        yield store, word


def write_environment(
    folder: Path, devices: list[Device], arguments: Sequence[str], sweep: Sweep, planned: int | None = None
) -> bytes:
    """Add a description of this machine to ``folder``/environment.json, a list with one entry per start of the run.

    For the report it names the sweep's configuration and the source that its numbers are set beside; for ``merge`` what
    tells the sweep from others, the shard, and how many results are ``planned``. Returns what the file then holds.

    Raises:
        InputError: the file is not what ``gravbench run`` writes, or cannot be written.
    """
    path = folder / ENVIRONMENT
    entries = runs.starts(folder)
    config = sweep.name if packaged().get(sweep.name) == sweep.path else str(sweep.path)
    entries.append(
        environment.describe(devices, arguments)
        | {"config": config, "published": sweep.published, "sweep_sha256": sweep.sha256}
        | {"shard": str(sweep.shard) if sweep.shard else None, "planned": planned}
    )
    content = (json.dumps(entries, indent=2) + "\n").encode()
    # Written beside and moved into place, so that a kill leaves the old file or the new one.
    temporary = path.with_suffix(".tmp")
    with saying(temporary, "cannot be written"):
        temporary.unlink(missing_ok=True)
        try:
            with temporary.open("xb", buffering=0) as file:
                write_all(file.fileno(), content)
            temporary.replace(path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
    return content
