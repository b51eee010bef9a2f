"""Cases in, records out: plan, isolate, verify, measure, record.

No CUDA in this process. Every device has one worker process; what happens to a worker is recorded, never suffered.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

from harness import environment
from harness.config.load import Sweep, estimate_seconds
from harness.config.settings import Measure
from harness.devices import CPU, Device
from harness.errors import InputError
from harness.record import ENVIRONMENT, Case, Record, RecordFile
from harness.toolkits.catalogue import CATALOGUE
from harness.variant import Variant, discover
from harness.version import VERSION
from harness.worker import Job, Outcome, Phase, serve

WORKER_LOG = "worker.log"
NO_DEVICE = Device("none", "")


class Watcher(Protocol):
    """Who is told how a run goes on."""

    def begins(self, label: str, device: Device) -> None:
        """A case is about to be worked on."""

    def phase(self, name: str) -> None:
        """The worker has begun to load, compile, verify or measure."""

    def ends(self, record: Record, done: int, total: int) -> None:
        """A case has its record."""


@dataclass(frozen=True, slots=True)
class Task:
    """One case on one device; with ``skip``, why it will not run; ``anchor`` as in ``Record``."""

    case: Case
    device: Device
    skip: str | None = None
    anchor: int = 0


@dataclass(slots=True)
class Plan:
    """What a run will do, in order, and how much of it an earlier run has done already."""

    tasks: list[Task]
    reused: int = 0


def plan(
    sweep: Sweep,
    devices: Sequence[Device],
    no_gpu: str | None,
    existing: Sequence[Record] = (),
    *,
    chosen: bool = False,
    anchors: bool = True,
) -> Plan:
    """Pair cases with devices, leave out what ``existing`` records have, shuffle, and put the anchors in.

    ``no_gpu`` says why there is no GPU, None where there is one. Where the devices were ``chosen`` by hand, cases
    for other devices are left out instead of being recorded as skipped.

    An existing result is reused when it was ok or invalid and made from the same source, flags, toolkit, driver
    and device; what failed or was skipped is tried again.
    """
    variants = discover(sweep.variant_folders)
    done = {(record.key, json.dumps(record.fingerprint)) for record in existing if record.status in ("ok", "invalid")}
    repeated = {}
    for record in existing:
        if record.anchor:
            repeated[record.key] = record.anchor

    skipped: list[Task] = []
    by_device: dict[str, list[Task]] = {}
    for case in sweep.cases:
        fitting = [device for device in devices if device.is_gpu == (case.toolkit != CPU)]
        if not fitting:
            if not chosen:
                skipped.append(Task(case, NO_DEVICE, no_gpu or "no device for this toolkit"))
            continue
        if missing := CATALOGUE[case.toolkit].missing:
            skipped.append(Task(case, NO_DEVICE, missing))
            continue
        for device in fitting:
            by_device.setdefault(device.selector, []).append(Task(case, device))

    result = Plan(skipped)
    shuffler = random.Random(sweep.measure.order_seed)
    for own in by_device.values():
        shuffler.shuffle(own)
        open_tasks = [task for task in own if _identity(task, variants) not in done]
        result.reused += len(own) - len(open_tasks)
        if anchors and len(open_tasks) > 1:
            typical = sorted(own, key=lambda task: estimate_seconds(task.case, sweep.measure))[len(own) // 2]
            open_tasks = list(_with_anchors(open_tasks, typical, sweep.measure, repeated.get(typical.case.key, 0)))
        result.tasks += open_tasks
    return result


def _identity(task: Task, variants: Any) -> tuple[str, str]:
    own: Variant = variants[task.case.variant]
    return task.case.key, json.dumps(environment.fingerprint(task.case, own, task.device).model_dump())


def _with_anchors(tasks: list[Task], typical: Task, settings: Measure, repeated: int) -> Iterator[Task]:
    """Measure the ``typical`` task first, again after every few others, and last."""
    others = [task for task in tasks if task is not typical]
    for position, task in enumerate(others):
        if position % settings.anchor_every == 0:
            repeated += 1
            yield Task(typical.case, typical.device, anchor=repeated)
        yield task
    yield Task(typical.case, typical.device, anchor=repeated + 1)


class Worker:
    """The process of one device, seen from the parent."""

    def __init__(self, device: Device, folders: tuple[Path, ...], log: Path) -> None:
        """Start it."""
        context = multiprocessing.get_context("spawn")
        self.connection: Connection
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, device, folders, log, os.getpid()), daemon=True)
        self.process.start()
        # Only the worker may hold its end: the pipe then tells when it has gone.
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
        except (EOFError, BrokenPipeError, ConnectionResetError):
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
        """End it, at once: it holds nothing that has to be put away."""
        self.connection.close()
        self.process.kill()
        self.process.join(10)


@dataclass(slots=True)
class Crew:
    """The workers of a run, each started when its device is first needed and replaced when it broke."""

    folders: tuple[Path, ...]
    log: Path
    workers: dict[str, Worker] = field(default_factory=dict)

    def ask(self, job: Job, device: Device, timeout: float, watcher: Watcher) -> Outcome:
        """Have a job done on a device."""
        worker = self.workers.get(device.selector)
        if worker is None:
            worker = self.workers[device.selector] = Worker(device, self.folders, self.log)
        outcome = worker.ask(job, timeout, watcher)
        if outcome.broken:
            self.workers.pop(device.selector).stop()
        return outcome

    def dismiss(self) -> None:
        """Stop every worker."""
        for worker in self.workers.values():
            worker.stop()
        self.workers.clear()


def run(sweep: Sweep, todo: Plan, folder: Path, watcher: Watcher, *, verify_only: bool = False) -> list[Record]:
    """Work through a plan and return its records, in the order they were made.

    Each record is on the disk, in ``folder``/records.jsonl, before the next case starts; with ``verify_only``
    nothing is measured and nothing kept. KeyboardInterrupt passes through after the workers are stopped.
    """
    variants = discover(sweep.variant_folders)
    folder.mkdir(parents=True, exist_ok=True)
    store = None if verify_only else RecordFile(folder)
    crew = Crew(sweep.variant_folders, folder / WORKER_LOG)
    settings = None if verify_only else sweep.measure
    records: list[Record] = []
    useless: set[str] = set()  # anchors that cannot be measured, and so show no drift
    try:
        for done, task in enumerate(todo.tasks, 1):
            if task.anchor and task.case.key in useless:
                continue
            if not task.skip:
                watcher.begins(task.case.label, task.device)
            started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
            outcome = (
                Outcome("skipped", task.skip)
                if task.skip
                else crew.ask(Job(task.case, settings), task.device, sweep.measure.timeout_seconds, watcher)
            )
            record = _record(task, outcome, variants[task.case.variant], sweep.flops_per_interaction, started)
            if store:
                store.append(record)
            records.append(record)
            if task.anchor and record.status != "ok":
                useless.add(record.key)
            watcher.ends(record, done, len(todo.tasks))
    finally:
        crew.dismiss()
    return records


def _record(task: Task, outcome: Outcome, variant: Variant, flops: float, started: str) -> Record:
    fields: dict[str, Any] = {**task.case.model_dump(), "bodies": Path(task.case.bodies).name}
    fields |= environment.fingerprint(task.case, variant, task.device).model_dump()
    if task.device is NO_DEVICE:
        fields["device"] = None
    fields |= outcome.fields
    if outcome.status == "ok" and (median := fields.get("median_seconds")):
        speed = task.case.interactions / median
        fields |= {"interactions_per_second": speed, "gflops": speed * flops / 1e9}
    return Record(
        **fields,
        status=outcome.status,
        reason=outcome.reason,
        anchor=task.anchor,
        flops_per_interaction=flops,
        commit=environment.commit(),
        started=started,
        harness_version=VERSION,
    )


def open_run(folder: Path, *, resume: bool) -> tuple[list[Record], list[str]]:
    """Open a folder for a run; return the records it holds and sentences about what was repaired.

    Raises:
        InputError: it holds records and ``resume`` was not asked for.
    """
    store = RecordFile(folder)
    if not store.path.exists():
        return [], []
    if not resume:
        raise InputError(
            f"{store.path} exists already; add --resume to measure only what is missing from it, or name another --out"
        )
    word = store.repair()
    return store.read(), [word] if word else []


def write_environment(folder: Path, devices: list[Device], command: list[str]) -> None:
    """Add a description of this machine to ``folder``/environment.json, a list with one entry a start of the run."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / ENVIRONMENT
    entries: list[Any] = []
    if path.exists():
        with contextlib.suppress(json.JSONDecodeError):
            entries = json.loads(path.read_text("utf-8"))
    entries.append(environment.describe(devices, command))
    # Written beside and moved into place, so that a kill leaves the old file or the new one.
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(entries, indent=2) + "\n", "utf-8")
    temporary.replace(path)
