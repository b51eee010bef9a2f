"""A plan in, records out: isolate, verify, measure, record.

This process uses no CUDA. Every device has worker processes of its own, which measure its anchor once each,
and a worker that faults or hangs becomes a record. What the devices' lanes tell is recorded here, by one thread.
"""

from __future__ import annotations

import itertools
import json
import os
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from pathlib import Path
from queue import SimpleQueue

from gravbench.config.load import Sweep, packaged
from gravbench.errors import InputError
from gravbench.measuring import environment
from gravbench.measuring.lanes import (
    Began,
    Does,
    Done,
    Event,
    Here,
    Lane,
    Left,
    Over,
    Site,
    StrandedError,
    lanes_of,
    moment,
)
from gravbench.measuring.outcome import Outcome, said
from gravbench.measuring.plan import Plan, Task
from gravbench.measuring.queues import Queues
from gravbench.measuring.shards import check_resumed, extent
from gravbench.measuring.tally import Tally
from gravbench.measuring.turns import Turns
from gravbench.model import derived, initial_conditions, runs
from gravbench.model.case import Case
from gravbench.model.device import Device, Kind
from gravbench.model.generators import generated_by
from gravbench.model.record import Fingerprint, Record
from gravbench.model.regular import open_file, saying, write_whole
from gravbench.model.runs import ENVIRONMENT, RecordFile
from gravbench.model.variant import Variant, discover
from gravbench.search.contests import told_apart
from gravbench.search.strategies import start
from gravbench.search.strategy import Strategy
from gravbench.version import VERSION

WORKER_LOG = "worker.log"


class Watcher:
    """Who is told how a run goes on; this one keeps it to itself."""

    def begins(self, label: str, device: str) -> None:
        """Work on a case begins."""

    def phase(self, label: str, device: str, name: str) -> None:
        """A worker has begun to load, compile, verify or measure a case, and none is further on its device."""

    def ends(self, record: Record, progress: Progress) -> None:
        """A case has its record."""

    def over(self, seconds: Mapping[str, float]) -> None:
        """All cases have theirs; ``seconds`` are those that devices spent per phase, in the order of a case."""

    def searched(self, device: str, fastest: Sequence[Sequence[Case]], apart: Sequence[str]) -> None:
        """A search of a kind of device has ended; per contest, the cases that cannot be told from the fastest.

        ``apart`` tells each contest from the others of its n, as ``told_apart`` does.
        """


SILENT = Watcher()


@dataclass(slots=True)
class Progress:
    """How far a run is: tasks done and in all, and the estimated seconds of the rest on the slowest device."""

    done: int
    total: int
    left: float


def run(
    sweep: Sweep,
    todo: Plan,
    out: Path | RecordFile,
    watcher: Watcher,
    site: Site | None = None,
    *,
    verify_only: bool = False,
) -> list[Record]:
    """Work through a plan and return its records, in the order they were made.

    All devices of the plan work at the same time. A record is on the disk, in records.jsonl in the folder ``out``, as
    soon as its case ends, and nobody else writes to it until the run ends; with ``verify_only`` nothing is measured and
    nothing kept. The devices are those of this host unless they are of another ``site``. KeyboardInterrupt passes
    through after the workers are stopped.

    Raises:
        InputError: another process writes to the folder, it cannot be written, or what was written is gone.
        StrandedError: cases are left whose devices are all lost.
    """
    store = out if isinstance(out, RecordFile) else RecordFile(out)
    with store:
        records = list(_run(sweep, todo, store, watcher, site or Here(), verify_only=verify_only))
        store.check()
    return records


def _run(
    sweep: Sweep, todo: Plan, store: RecordFile, watcher: Watcher, site: Site, *, verify_only: bool
) -> Iterator[Record]:
    variants = discover(sweep.variant_folders)
    log = store.folder / WORKER_LOG
    with saying(log, "cannot be written"):
        os.close(open_file(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT))
    progress = Progress(0, len(todo.tasks), 0.0)
    expected = _Expected(todo)

    def kept(task: Task, outcome: Outcome, started: str, dropped: int = 0) -> Record:
        record = _record(task, outcome, sweep.flops(task.case.interaction), started)
        if not verify_only:
            store.append(record)
        progress.done += 1
        progress.total = max(progress.done, progress.total - dropped)
        progress.left = expected.left(task)
        watcher.ends(record, progress)
        return record

    for task in todo.tasks:
        if task.device is None:
            yield kept(task, Outcome("skipped", task.skip), moment())
    tally = Tally()
    searched = {} if verify_only else _strategies(sweep, todo, variants)
    with _lanes(sweep, todo, log, variants, searched, site, verify_only=verify_only) as (queues, events):
        for event in events:
            device = event.task.device
            assert device is not None
            own = device.selector
            match event:
                case Began():
                    watcher.begins(event.task.case.label, own)
                case Does():
                    tally.does(own, event.lane, event.phase)
                    if tally.leads(own, event.lane):
                        watcher.phase(event.task.case.label, own, event.phase)
                case Left():
                    tally.does(own, event.lane, None)
                    progress.total -= event.dropped
                case Done():
                    tally.does(own, event.lane, None)
                    outcome = event.outcome
                    if what := _edited(event.task, variants[event.task.case.variant]):
                        outcome = Outcome("failed", f"its {what} edited during the run, so it is not known what ran")
                    record = kept(event.task, outcome, event.started, event.dropped)
                    queues.told(record, event.task)
                    yield record
    watcher.over(tally.seconds())
    for kind, strategy in searched.items():
        found = strategy.result()
        watcher.searched(kind[0], found, told_apart([own[0] for own in found], variants))


def _strategies(sweep: Sweep, todo: Plan, variants: Mapping[str, Variant]) -> dict[Kind, Strategy]:
    """Begin a search of the cases of each kind of device; none where every case is measured."""
    if sweep.search.measures_all:
        return {}
    found = {kind: start(cases, sweep.search, variants) for kind, cases in todo.contests.items()}
    for kind, strategy in found.items():
        for record in todo.known:
            if record.device == kind[0]:
                strategy.tell_record(record)
    return found


@contextmanager
def _lanes(
    sweep: Sweep,
    todo: Plan,
    log: Path,
    variants: Mapping[str, Variant],
    searched: Mapping[Kind, Strategy],
    site: Site,
    *,
    verify_only: bool,
) -> Iterator[tuple[Queues, Iterator[Began | Does | Done | Left]]]:
    """Have the lanes of all devices at work within the block; yields what is left, and what they tell until the end."""

    def fingerprint(task: Task, device: Device) -> Fingerprint:
        return environment.fingerprint(task.case, variants[task.case.variant], device)

    queues, told = Queues(todo.tasks, fingerprint, searched, losable=site.losable, each=todo.each), SimpleQueue[Event]()
    turns = {site.host(device): Turns() for device in queues.devices}
    gpus = sum(device.is_gpu for device in queues.devices)
    tasks = Counter(task.device.selector if todo.each else task.device.kind for task in todo.tasks if task.device)
    numbers = itertools.count(todo.processes + 1)
    lanes: list[Lane] = []

    def events() -> Iterator[Began | Does | Done | Left]:
        working = len(lanes)
        while working:
            event = told.get()
            if not isinstance(event, Over):
                yield event
                continue
            working -= 1
            if event.error:
                raise event.error
        if left := queues.stranded:
            raise StrandedError(f"{len(left)} cases are left, because every worker that could measure them is lost")

    # Its start lets Ctrl-C through, also to the worker that would start it.
    resource_tracker.ensure_running()
    try:
        for device in queues.devices:
            own = turns[site.host(device)]
            processes = sweep.measure.processes_on(gpu=device.is_gpu)
            own_tasks = tasks[device.selector if todo.each else device.kind]
            for place in range(1 if site.losable else lanes_of(device, processes, gpus, own_tasks)):
                lane = Lane(
                    len(lanes),
                    place,
                    device,
                    queues,
                    own,
                    sweep,
                    log,
                    numbers,
                    told.put,
                    site.start,
                    verify_only=verify_only,
                )
                lanes.append(lane)
        for lane in lanes:
            lane.start()
        yield queues, events()
    finally:
        queues.end()
        for one in turns.values():
            one.end()
        for lane in lanes:
            lane.end()


class _Expected:
    """The estimated seconds of what is left to do."""

    def __init__(self, todo: Plan) -> None:
        self._began = time.monotonic()
        self._seconds = {id(task.case): seconds for task, seconds in zip(todo.tasks, todo.estimates, strict=True)}
        self._left: dict[str, float] = defaultdict(float)
        for task in todo.tasks:
            if task.device:
                self._left[task.device.selector] += self._seconds[id(task.case)]
        self._all = sum(self._left.values())

    def left(self, done: Task) -> float:
        """Count a task off, and return the rest of the device with most: corrected by how estimates were so far."""
        if done.device:
            self._left[done.device.selector] -= self._seconds[id(done.case)]
        left = {selector: max(seconds, 0.0) for selector, seconds in self._left.items()}
        over = self._all - sum(left.values())
        # The first cases also pay for starting the workers; a correction from them alone would mislead.
        pace = (time.monotonic() - self._began) * max(len(left), 1) / over if over > 5 else 1.0
        return pace * max(left.values(), default=0.0)


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
        return _made(task, Outcome("failed", f"its results do not make a valid record: {said(error)}"), flops, started)


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
    return record.model_copy(update=derived.speeds(record))


def recorded(folder: Path, *, resume: bool, say: Callable[[str], object] = warnings.warn) -> list[Record]:
    """Return the records that a folder holds already, and change nothing; ``say`` is told which lines are none.

    Raises:
        InputError: it holds records and ``resume`` was not asked for, or they cannot be read.
    """
    store = RecordFile(folder)
    if not os.path.lexists(store.path):
        return []
    if not resume:
        raise InputError(
            f"{store.path} exists already; add --resume to measure only what is missing from it, or choose another "
            "--out"
        )
    return store.read(say)


@contextmanager
def open_run(
    folder: Path,
    existing: Sequence[Record],
    devices: list[Device],
    arguments: Sequence[str],
    sweep: Sweep,
    planned: int | None = None,
    left_out: Sequence[Case] = (),
) -> Iterator[tuple[RecordFile, str | None]]:
    """Be the only one who writes to a folder, repair its records and note this start of a run in environment.json.

    ``existing`` are the records that ``recorded`` returned and the run was planned on, ``planned`` and ``left_out`` as
    in ``Plan``.
    Yields where to add to them, and a sentence about what was repaired.

    Raises:
        InputError: another process writes to the folder or has just written to it, it cannot be written, or it has
            another shard.
    """
    with RecordFile(folder) as store:
        check_resumed(folder, sweep)
        word = store.repair()
        if len(recorded(folder, resume=True, say=lambda _: None)) != len(existing):
            raise InputError(f"{store.path}: another run has just added to it; try again, with --resume")
        store.environment = write_environment(folder, devices, arguments, sweep, planned, left_out)
        yield store, word


def write_environment(
    folder: Path,
    devices: list[Device],
    arguments: Sequence[str],
    sweep: Sweep,
    planned: int | None = None,
    left_out: Sequence[Case] = (),
) -> bytes:
    """Add a description of this machine to ``folder``/environment.json, a list with one entry per start of the run.

    For the report it names the sweep's configuration and the source that its numbers are set beside; for ``merge`` what
    tells the sweep from others, its cases, the shard, how many results are ``planned``, the search that chooses among
    them, and what the bits of generated bodies depend on. Returns what the file then holds.

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
        | {"sweep": extent(sweep, left_out).model_dump(), "generated_by": generated_by()}
        | {"search": None if sweep.search.measures_all else sweep.search.model_dump()}
    )
    content = (json.dumps(entries, indent=2) + "\n").encode()
    write_whole(path, content)
    return content
