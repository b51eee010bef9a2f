"""A plan in, records out: isolate, verify, measure, record.

This process uses no CUDA. Every device has worker processes of its own, new ones for each repetition of its anchor,
and a worker that faults or hangs becomes a record.
"""

from __future__ import annotations

import datetime
import itertools
import json
import multiprocessing
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from gravbench.config.load import Sweep, packaged
from gravbench.errors import InputError
from gravbench.measuring import environment
from gravbench.measuring.crew import Crew
from gravbench.measuring.plan import Plan, Task
from gravbench.measuring.worker import Job, Outcome, Phase, serve
from gravbench.model import initial_conditions, runs
from gravbench.model.device import Device
from gravbench.model.record import Record
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


class Worker:
    """The process of one device, seen from the parent."""

    def __init__(self, device: Device, folders: tuple[Path, ...], log: Path) -> None:
        """Start it."""
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(
            target=serve, args=(theirs, device, folders, log, os.getpid(), time.time()), daemon=True
        )
        # A Ctrl-C now would end the worker before it could say that it leaves them to us.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
        # Only the worker may hold its end, so that the pipe shows when the worker is gone.
        theirs.close()

    def ask(self, job: Job, timeout: float, watcher: Watcher) -> Outcome:
        """Have one job done. A worker that hangs or dies gives a failed outcome and is of no further use."""
        deadline = time.monotonic() + timeout
        phase = "starting"
        try:
            self.connection.send(job)
            while self.connection.poll(max(0.0, deadline - time.monotonic())):
                message = self.connection.recv()
                if isinstance(message, Outcome):
                    return message
                assert isinstance(message, Phase)
                phase = message.name
                watcher.phase(phase)
        except (EOFError, OSError):
            return Outcome("failed", f"the worker died while {phase}: {self._epitaph()}", broken=True)
        return Outcome("failed", f"no end after {timeout:g} s (measure.timeout_seconds) while {phase}", broken=True)

    def _epitaph(self) -> str:
        self.process.join(10)
        code = self.process.exitcode
        if code is not None and code < 0:
            name = signal.Signals(-code).name
            hint = ", which the system sends when memory runs out" if name == "SIGKILL" else ""
            return f"signal {name}{hint}"
        return f"exit code {code}"

    def stop(self) -> None:
        """End it at once; it holds nothing that needs cleaning up."""
        self.connection.close()
        self.process.kill()
        self.process.join(10)


def run(sweep: Sweep, todo: Plan, folder: Path, watcher: Watcher, *, verify_only: bool = False) -> list[Record]:
    """Work through a plan and return its records, in the order they were made.

    Each record is on the disk, in ``folder``/records.jsonl, before the next case starts; with ``verify_only``
    nothing is measured and nothing kept. KeyboardInterrupt passes through after the workers are stopped.
    """
    variants = discover(sweep.variant_folders)
    folder.mkdir(parents=True, exist_ok=True)
    store = None if verify_only else RecordFile(folder)
    crews: dict[str, Crew[Worker]] = {}  # by device
    numbers = itertools.count(todo.processes + 1)
    settings = None if verify_only else sweep.measure
    records: list[Record] = []
    useless: list[Task] = []  # anchors that cannot be measured, and so show no drift
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
                    start = partial(Worker, task.device, sweep.variant_folders, folder / WORKER_LOG)
                    crews[own] = Crew(sweep.measure.processes_on(gpu=task.device.is_gpu), start, numbers)
                outcome = crews[own].work(
                    job, lambda worker, part: worker.ask(part, sweep.measure.timeout_seconds, watcher)
                )
                if what := _edited(task, variants[task.case.variant]):
                    outcome = Outcome("failed", f"its {what} edited during the run, so it is not known what ran")
            record = _record(task, outcome, sweep.flops(task.case.interaction), started)
            if store:
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
    described = {
        **task.case.model_dump(),
        "bodies": Path(task.case.bodies).name,
        "interaction": Path(task.case.interaction).name,
    }
    for part in (task.fingerprint, *outcome.found.parts()):
        described |= part.model_dump()
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
    return record.model_copy(update={"interactions_per_second": speed, "gflops": speed * flops / 1e9})


def open_run(folder: Path, *, resume: bool, change: bool = True) -> tuple[list[Record], list[str]]:
    """Open a folder for a run; return the records it holds and sentences about what was repaired.

    With ``change`` false nothing is repaired.

    Raises:
        InputError: it holds records and ``resume`` was not asked for.
    """
    store = RecordFile(folder)
    if not store.path.exists():
        if change:
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InputError(f"--out {folder}: cannot be made: {error.strerror}; name a folder") from None
        return [], []
    if not resume:
        raise InputError(
            f"{store.path} exists already; add --resume to measure only what is missing from it, or name another --out"
        )
    word = store.repair() if change else None
    return store.read(), [word] if word else []


def write_environment(folder: Path, devices: list[Device], arguments: Sequence[str], sweep: Sweep) -> None:
    """Add a description of this machine to ``folder``/environment.json, a list with one entry per start of the run.

    For the report it names the sweep's configuration and the source that its numbers are set beside.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / ENVIRONMENT
    entries = runs.environment(folder)
    config = sweep.name if packaged().get(sweep.name) == sweep.path else str(sweep.path)
    entries.append(environment.describe(devices, arguments) | {"config": config, "published": sweep.published})
    # Written beside and moved into place, so that a kill leaves the old file or the new one.
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(entries, indent=2) + "\n", "utf-8")
    temporary.replace(path)
