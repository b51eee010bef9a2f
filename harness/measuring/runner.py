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
from gravbench.measuring.outcome import Outcome, text_of
from gravbench.measuring.phase_timer import Tally
from gravbench.measuring.plan import Plan
from gravbench.measuring.processes import check_may_start
from gravbench.measuring.queues import Queue, Strategy
from gravbench.measuring.shards import check_resumed, extent
from gravbench.measuring.tasks import Task
from gravbench.model import derived, initial_conditions, runs
from gravbench.model.case import Case
from gravbench.model.device import Device, Kind
from gravbench.model.generated_bodies import generated_by
from gravbench.model.record import Fingerprint, Record
from gravbench.model.regular import open_file, saying, write_whole
from gravbench.model.runs import ENVIRONMENT, RecordFile
from gravbench.model.variant import Variant, discover
from gravbench.model.work import Work, work_of
from gravbench.toolkits.devices import family, target_of
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

    def left_out(self, device: str, cases: int) -> None:
        """A search of a kind of device has ended, and its budget left so many cases out."""


SILENT = Watcher()


def needs_host(task: Task, variant: Variant) -> bool:
    """Tell whether nothing else of a run may compute beside a task.

    It uses the host's cores, or a device that may be one of another family or the processor.
    """
    assert task.device is not None
    return family(task.device.family).shared or work_of(task.case, on_host=variant.on_host) is not Work.GPU


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is: tasks done and in all, and the estimated seconds of the rest on the slowest device."""

    done: int
    total: int
    seconds_left: float


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
        begun = _Run(sweep, todo, store, watcher, strategies or {}, verify_only=verify_only)
        records = list(begun.records(site))
        store.check()
    return records


class _Run:
    """A run under way: the engine, or another site, works through a plan, and what becomes of the tasks is recorded."""

    def __init__(
        self,
        sweep: Sweep,
        todo: Plan,
        store: RecordFile,
        watcher: Watcher,
        strategies: Mapping[Kind, Strategy],
        *,
        verify_only: bool,
    ) -> None:
        """Begin nothing yet.

        Raises:
            InputError: the file for what sessions print cannot be written.
        """
        self._sweep, self._todo, self._store, self._watcher = sweep, todo, store, watcher
        self._strategies, self._verify_only = strategies, verify_only
        self._variants = discover(sweep.variant_folders)
        self._log = store.folder / WORKER_LOG
        with saying(self._log, "cannot be written"):
            os.close(open_file(self._log, os.O_WRONLY | os.O_APPEND | os.O_CREAT))
        self._progress = _Progress(todo)
        self._queue = Queue(todo.tasks, self._fingerprint, strategies, each=todo.each)
        self._tally = Tally()

    def records(self, site: Site | None) -> Iterator[Record]:
        """Yield a record for each task once it is on the disk."""
        for task in self._todo.tasks:
            if task.device is None:
                yield self._recorded(task, Outcome("skipped", task.skip), moment())
        # Closed however this ends, which ends what was started.
        with closing(self._events(site)) as events:
            for event in events:
                self._show(event)
                if isinstance(event, Done):
                    yield self._recorded(event.task, self._outcome(event), event.started)
        self._watcher.over(self._tally.seconds())
        for kind, strategy in self._strategies.items():
            fastest = strategy.result()
            self._watcher.searched(kind[0], fastest, strategy.told_apart([cases[0] for cases in fastest]))
            if strategy.left_out:
                self._watcher.left_out(kind[0], strategy.left_out)

    def _events(self, site: Site | None) -> Generator[Event]:
        folders, measure = self._sweep.variant_folders, self._sweep.measure
        setup = Setup(folders, self._log, measure, None if self._verify_only else measure)
        if site:
            return site(setup, self._queue, self._needs_host)
        targets = {device: target for device in self._queue.devices if (target := target_of(device))}
        builds = BuildPool(folders, self._log, targets)
        first = self._todo.processes + 1
        return Engine(setup, self._queue, self._needs_host, first_number=first, builds=builds).events()

    def _fingerprint(self, task: Task, device: Device) -> Fingerprint:
        return environment.fingerprint(task.case, self._variants[task.case.variant], device)

    def _needs_host(self, task: Task) -> bool:
        return needs_host(task, self._variants[task.case.variant])

    def _show(self, event: Event) -> None:
        """Tell the watcher what a device does, and count its time."""
        assert event.task.device is not None
        label, selector = event.task.case.label, event.task.device.selector
        match event:
            case Began():
                self._watcher.begins(label, selector)
            case Does():
                self._tally.does(selector, event.stage)
                self._watcher.phase(label, selector, event.stage)
            case Done():
                self._tally.does(selector, None)

    def _outcome(self, done: Done) -> Outcome:
        """Return what became of a task; it has failed where its files were edited meanwhile."""
        if what := _edited(done.task, self._variants[done.task.case.variant]):
            return Outcome("failed", f"its {what} edited during the run, so it is not known what ran")
        return done.outcome

    def _recorded(self, task: Task, outcome: Outcome, started: str) -> Record:
        """Write the record of an outcome, and tell the queue and the watcher of it."""
        record = _record(task, outcome, self._sweep.flops(task.case.interaction), started)
        if not self._verify_only:
            self._store.append(record)
        if task.device:
            self._queue.add_record(record, task)
        self._watcher.ends(record, self._progress.after(task, self._queue.dropped))
        return record


class _Progress:
    """How far a run is, with the estimated seconds of what is left to do."""

    def __init__(self, todo: Plan) -> None:
        self._began = time.monotonic()
        self._done, self._planned = 0, len(todo.tasks)
        self._seconds = {id(task.case): seconds for task, seconds in zip(todo.tasks, todo.estimates, strict=True)}
        self._seconds_left: dict[Device, float] = defaultdict(float)
        for task in todo.tasks:
            if task.device:
                self._seconds_left[task.device] += self._seconds[id(task.case)]
        self._expected = self._rest()

    def after(self, done: Task, dropped: int) -> Progress:
        """Count a task off, where so many are left out so far; return how far the run is then."""
        self._done += 1
        if done.device:
            self._seconds_left[done.device] -= self._seconds[id(done.case)]
        rest = self._rest()
        spent = self._expected - rest
        # The first cases also pay for starting the sessions; a correction from them alone would mislead.
        pace = (time.monotonic() - self._began) / spent if spent > 5 else 1.0
        return Progress(self._done, max(self._done, self._planned - dropped), pace * rest)

    def _rest(self) -> float:
        """Return the estimated seconds of what is left: GPUs work side by side, and the processor after them."""
        on_gpus = [seconds for device, seconds in self._seconds_left.items() if device.is_gpu]
        on_host = [seconds for device, seconds in self._seconds_left.items() if not device.is_gpu]
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
        reason = f"its results do not make a valid record: {text_of(error)}"
        return _made(task, Outcome("failed", reason), flops, started)


def _made(task: Task, outcome: Outcome, flops: float, started: str) -> Record:
    described = {
        **task.case.model_dump(),
        "bodies": Path(task.case.bodies).name,
        "interaction": Path(task.case.interaction).name,
    }
    for part in (task.fingerprint, *outcome.results.parts()):
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
