"""A plan in, records out: what the engine says of its tasks becomes records, in one thread that uses no device."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from gravbench.config.load import Sweep, packaged
from gravbench.errors import InputError
from gravbench.measuring import environment
from gravbench.measuring.builds import BuildPool
from gravbench.measuring.engine import Began, Does, Done, Engine, Event, Setup, moment
from gravbench.measuring.outcome import Outcome, said
from gravbench.measuring.phase_timer import Tally
from gravbench.measuring.plan import Plan
from gravbench.measuring.processes import check_may_start
from gravbench.measuring.queues import Queue, Strategy
from gravbench.measuring.shards import check_resumed, extent
from gravbench.measuring.tasks import Task
from gravbench.model import derived, initial_conditions, runs
from gravbench.model.case import Case
from gravbench.model.device import Device, Kind
from gravbench.model.generators import generated_by
from gravbench.model.record import Fingerprint, Record
from gravbench.model.regular import open_file, saying, write_whole
from gravbench.model.runs import ENVIRONMENT, RecordFile
from gravbench.model.variant import Variant, discover
from gravbench.model.work import Work, work_of
from gravbench.toolkits.devices import target_of
from gravbench.version import VERSION

WORKER_LOG = "worker.log"
LOCAL = "local"
"""What stands for a cluster on this machine where devices of others may be meant."""


class StrandedError(InputError):
    """Cases are left, and nobody is that could measure them."""


class Watcher:
    """Who is told how a run goes on; this one keeps it to itself."""

    def begins(self, label: str, device: str) -> None:
        """Work on a case begins."""

    def phase(self, label: str, device: str, name: str) -> None:
        """A stage of a case has begun."""

    def ends(self, record: Record, progress: Progress) -> None:
        """A case has its record."""

    def over(self, seconds: Mapping[str, float]) -> None:
        """All cases have theirs; ``seconds`` are those that devices spent per phase, in the order of a case."""

    def searched(self, device: str, fastest: Sequence[Sequence[Case]], apart: Sequence[str]) -> None:
        """A search of a kind of device has ended; per contest, the cases that cannot be told from the fastest.

        ``apart`` tells each contest from the others of its n, as ``Strategy.told_apart`` does.
        """


SILENT = Watcher()


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is: tasks done and in all, and the estimated seconds of the rest on the slowest device."""

    done: int
    total: int
    left: float


Site = Callable[[Setup, Queue, Callable[[Task], bool]], Generator[Event]]
"""What works through the tasks of a run elsewhere, as ``Engine.events`` does here; told which need the host's cores."""


def run(
    sweep: Sweep,
    todo: Plan,
    out: Path | RecordFile,
    watcher: Watcher,
    site: Site | None = None,
    strategies: Mapping[Kind, Strategy] | None = None,
    *,
    verify_only: bool = False,
) -> list[Record]:
    """Work through a plan and return its records, in the order they were made.

    All devices of the plan work at the same time. A record is on the disk, in records.jsonl in the folder ``out``, as
    soon as its case ends, and nobody else writes to it until the run ends; with ``verify_only`` nothing is measured and
    nothing kept. The devices are those of this host unless they are of another ``site``. Of a search, ``strategies``
    choose the cases; ``search.strategies.of_plan`` begins them. KeyboardInterrupt passes through after the sessions
    have ended.

    Raises:
        InputError: another process writes to the folder, it cannot be written, or what was written is gone; or this
            process may start no others.
        StrandedError: cases are left whose devices are all lost.
    """
    check_may_start()
    store = out if isinstance(out, RecordFile) else RecordFile(out)
    with store:
        records = list(_run(sweep, todo, store, watcher, site, strategies, verify_only=verify_only))
        store.check()
    return records


def _run(
    sweep: Sweep,
    todo: Plan,
    store: RecordFile,
    watcher: Watcher,
    site: Site | None,
    strategies: Mapping[Kind, Strategy] | None,
    *,
    verify_only: bool,
) -> Iterator[Record]:
    variants = discover(sweep.variant_folders)
    log = store.folder / WORKER_LOG
    with saying(log, "cannot be written"):
        os.close(open_file(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT))
    progress = _Progress(todo)

    def fingerprint(task: Task, device: Device) -> Fingerprint:
        return environment.fingerprint(task.case, variants[task.case.variant], device)

    def needs_host(task: Task) -> bool:
        return work_of(task.case, on_host=variants[task.case.variant].on_host) is not Work.GPU

    queue = Queue(todo.tasks, fingerprint, strategies, each=todo.each)

    def recorded_as(task: Task, outcome: Outcome, started: str) -> Record:
        record = _record(task, outcome, sweep.flops(task.case.interaction), started)
        if not verify_only:
            store.append(record)
        if task.device:
            queue.add_record(record, task)
        watcher.ends(record, progress.after(task, queue.dropped))
        return record

    for task in todo.tasks:
        if task.device is None:
            yield recorded_as(task, Outcome("skipped", task.skip), moment())
    setup = Setup(sweep.variant_folders, log, sweep.measure, None if verify_only else sweep.measure)
    targets = {device: target for device in queue.devices if (target := target_of(device))}
    builds = BuildPool(sweep.variant_folders, log, targets)
    engine = Engine(setup, queue, needs_host, first_number=todo.processes + 1, builds=builds)
    tally = Tally()
    # Closed however this ends, which ends what was started.
    with closing(site(setup, queue, needs_host) if site else engine.events()) as events:
        for event in events:
            assert event.task.device is not None
            selector = event.task.device.selector
            match event:
                case Began():
                    watcher.begins(event.task.case.label, selector)
                case Does():
                    tally.does(selector, event.stage)
                    watcher.phase(event.task.case.label, selector, event.stage)
                case Done():
                    tally.does(selector, None)
                    outcome = event.outcome
                    if what := _edited(event.task, variants[event.task.case.variant]):
                        outcome = Outcome("failed", f"its {what} edited during the run, so it is not known what ran")
                    yield recorded_as(event.task, outcome, event.started)
    watcher.over(tally.seconds())
    for kind, strategy in (strategies or {}).items():
        fastest = strategy.result()
        watcher.searched(kind[0], fastest, strategy.told_apart([cases[0] for cases in fastest]))


class _Progress:
    """How far a run is, with the estimated seconds of what is left to do."""

    def __init__(self, todo: Plan) -> None:
        self._began = time.monotonic()
        self._done, self._planned = 0, len(todo.tasks)
        self._seconds = {id(task.case): seconds for task, seconds in zip(todo.tasks, todo.estimates, strict=True)}
        self._left: dict[Device, float] = defaultdict(float)
        for task in todo.tasks:
            if task.device:
                self._left[task.device] += self._seconds[id(task.case)]
        self._expected = self._rest()

    def after(self, done: Task, dropped: int) -> Progress:
        """Count a task off, where so many are left out so far; return how far the run is then."""
        self._done += 1
        if done.device:
            self._left[done.device] -= self._seconds[id(done.case)]
        rest = self._rest()
        spent = self._expected - rest
        # The first cases also pay for starting the sessions; a correction from them alone would mislead.
        pace = (time.monotonic() - self._began) / spent if spent > 5 else 1.0
        return Progress(self._done, max(self._done, self._planned - dropped), pace * rest)

    def _rest(self) -> float:
        """Return the estimated seconds of what is left: GPUs work side by side, and the processor after them."""
        on_gpus = [seconds for device, seconds in self._left.items() if device.is_gpu]
        on_host = [seconds for device, seconds in self._left.items() if not device.is_gpu]
        return max(0.0, max(on_gpus, default=0.0)) + max(0.0, sum(on_host))


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
