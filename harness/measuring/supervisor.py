"""The supervisor of a session, in the process that runs the sweep: it starts it, limits it, and ends all of it.

A session may take so much time for a case, so much memory with everything that it has started, and print so much. One
that takes more, hangs or dies gives its case a failed outcome, and is replaced.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import secrets
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import ModuleType

import psutil
from filelock import FileLock, Timeout

from gravbench.config.settings import Measure
from gravbench.errors import InputError
from gravbench.measuring.outcome import Outcome
from gravbench.measuring.reaper import MARK, end_marked, marked, reaping
from gravbench.measuring.session import READY, Message, Orders, serve
from gravbench.measuring.stages import MEASURED, Job
from gravbench.model.device import Device

CONTEXT = multiprocessing.get_context("spawn")
"""How processes are started: from nothing, so that each has its own layout of memory and no lock of another."""
STARTING = "starting"
NAP_SECONDS = 0.2
"""Between two looks at the limits of a session that says nothing."""
LOOK_SECONDS = 0.5
"""Between two looks at a session's memory and output."""
LIST_SECONDS = 2.0
"""Between two listings of the processes that a session has started, which take some milliseconds."""
SAFE_PART = 0.9
"""Of the host's memory, where no limit is set."""
MOST_LOG = 1 << 20
"""Bytes of a session's output that are copied at a time."""
WORKPLACE, LOCK = "gravbench-run-", "lock"
"""What the names of the temporary folders of runs begin with, and the file in them that a run locks."""


def check_may_start() -> None:
    """Check that this process may start others.

    Raises:
        InputError: it is daemonic, which multiprocessing forbids to start processes.
    """
    if multiprocessing.current_process().daemon:
        raise InputError(
            "a run starts processes, which multiprocessing does not let a daemonic process do, such as a worker of "
            "multiprocessing.Pool; call it from the main process or a thread"
        )


@dataclass(slots=True)
class Workplace:
    """What all sessions of a run share: a temporary folder, and the mark by which its processes are known."""

    folder: Path
    mark: str
    numbers: Iterator[int]


@contextmanager
def workplace() -> Iterator[Workplace]:
    """Make the temporary folder of a run for the block, and end with it whatever the run has started.

    Those of runs that were killed are removed: nobody holds their locks.
    """
    parent = Path(tempfile.gettempdir())
    for lock in parent.glob(f"{WORKPLACE}*/{LOCK}"):
        with suppress(OSError, Timeout), FileLock(lock, timeout=0):
            shutil.rmtree(lock.parent, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=WORKPLACE))
    mark = f"{secrets.token_hex(8)}."
    if os.name == "posix":  # a process of multiprocessing's own, which is not the run's to end
        resource_tracker.ensure_running()
    try:
        with FileLock(folder / LOCK, timeout=0), reaping(mark):
            yield Workplace(folder, mark, itertools.count(1))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a session, with all that it starts, may take for one case: seconds, memory, and output that is kept."""

    seconds: float
    memory_bytes: float
    log_bytes: float

    @classmethod
    def of(cls, measure: Measure) -> Limits:
        """Take the limits of a configuration; without one of memory it is nine tenths of what the host has."""
        memory = measure.memory_gigabytes * 1e9 if measure.memory_gigabytes else SAFE_PART * _host_bytes()
        return cls(measure.timeout_seconds, memory, measure.log_megabytes * 1e6)


class Session:
    """A session as its supervisor sees it: what is in ``waits_for`` can be waited for, and ``look`` says what is new."""

    def __init__(
        self,
        workplace: Workplace,
        device: Device,
        folders: tuple[Path, ...],
        log: Path,
        limits: Limits,
        *,
        several: bool = False,
        threads: int | None = None,
    ) -> None:
        """Start it; what it prints goes to ``log`` whenever a case has ended. See ``Orders`` for the rest."""
        number = next(workplace.numbers)
        self._mark = f"{workplace.mark}{number}."
        self._limits = limits
        self._log = log
        self._output = workplace.folder / f"output-{number}"
        self._output.touch()
        self._copied = 0
        self._job: Job | None = None
        self._stage = STARTING
        self._deadline = self._look_at = self._list_at = 0.0
        self._started: set[psutil.Process] = set()
        self._others: set[psutil.Process] = set()  # which are no processes of the session
        self.is_ready = self.is_lost = False
        orders = Orders(device, folders, self._output, workplace.folder, several, threads, time.time())
        self.connection, theirs = CONTEXT.Pipe()
        self._process = CONTEXT.Process(target=serve, args=(theirs, orders), daemon=True)
        with _marked(self._mark), interrupts_held_back(), _without_main():
            self._process.start()
        # Nobody but the session may hold its end, so that the connection shows when it is gone.
        theirs.close()
        assert self._process.pid is not None
        self._root = psutil.Process(self._process.pid)

    @property
    def waits_for(self) -> list[Connection | int]:
        """What becomes ready when there is something to read, or the process has ended."""
        return [self.connection, self._process.sentinel]

    @property
    def is_awaited(self) -> bool:
        """Whether something is to come from it."""
        return not self.is_lost and (self._job is not None or not self.is_ready)

    def give(self, job: Job) -> None:
        """Give it a job; it has none."""
        now = time.monotonic()
        self._job, self._deadline, self._look_at = job, now + self._limits.seconds, now + LOOK_SECONDS
        with suppress(OSError):  # it is gone, which the connection shows
            self.connection.send(job)

    def go_on(self) -> None:
        """Let it measure."""
        with suppress(OSError):
            self.connection.send(None)

    def look(self) -> str | Outcome | None:
        """Return the stage that its job has begun, or the outcome; None where there is nothing new.

        One that died, hangs or has taken too much gives an outcome, too, and is of no further use.
        """
        # What it started may hold its end of the connection, so that this does not show its death.
        if not self._process.is_alive() and not self.connection.poll():
            return self._died()
        return self._read() if self.connection.poll() else self._limited()

    def _read(self) -> str | Outcome | None:
        try:
            message = self.connection.recv()
        except (EOFError, OSError):
            return self._died()
        except Exception as error:  # not a message, so that nothing that follows can be trusted
            return self._failed(f"the session sent what cannot be read while {self._stage}: {type(error).__name__}")
        if message == READY:
            self.is_ready = True
            return None
        if not isinstance(message, Message) or self._job is None or message.job != self._job.number:
            return None
        if isinstance(message.content, Outcome):
            self._finish()
        else:
            self._stage = message.content
        return message.content

    def _died(self) -> Outcome:
        self.is_lost = True
        return self._failed(f"the session died while {self._stage}: {self._exit()}")

    def _limited(self) -> Outcome | None:
        """Return the outcome of a job that has taken too much; None where it may go on."""
        now = time.monotonic()
        if self._job is None:
            return None
        if now >= self._deadline:
            limit = f"{self._limits.seconds:g} s (measure.timeout_seconds)"
            return self._failed(f"no result within {limit} while {self._stage}")
        if now < self._look_at:
            return None
        self._look_at = now + LOOK_SECONDS
        if self._output.stat().st_size - self._copied > self._limits.log_bytes:
            limit = f"{self._limits.log_bytes / 1e6:g} MB of output (measure.log_megabytes)"
            return self._failed(f"the session was stopped while {self._stage}: it wrote more than {limit}")
        if now >= self._list_at:
            self._list_at = now + LIST_SECONDS
            self._list()
        if self._uses_more_memory():
            limit = f"{self._limits.memory_bytes / 1e9:.3g} GB of memory (measure.memory_gigabytes)"
            return self._failed(f"the session was stopped while {self._stage}: it used more than {limit}")
        return None

    def ask(self, job: Job, begin: Callable[[str], None] = lambda _: None) -> Outcome:
        """Have one job done, and wait for its outcome; ``begin`` is told each stage."""
        self.give(job)
        while True:
            wait(self.waits_for, NAP_SECONDS)
            content = self.look()
            if isinstance(content, Outcome):
                return content
            if content:
                begin(content)
            if content in MEASURED:
                self.go_on()

    def suspend(self) -> None:
        """Let it compute nothing for a while."""
        with suppress(psutil.Error):
            self._root.suspend()

    def resume(self) -> None:
        """Let it go on computing."""
        with suppress(psutil.Error):
            self._root.resume()

    def end(self) -> None:
        """End it with everything that it started, and return when nothing of that is left."""
        self._list()
        for process in [self._root, *self._started]:
            with suppress(psutil.Error):
                process.kill()
        self._process.join()
        psutil.wait_procs(list(self._started), timeout=10)
        end_marked(self._mark)
        self.connection.close()
        if self._output.exists():
            self._finish()
            self._output.unlink()

    def _failed(self, reason: str) -> Outcome:
        return Outcome("failed", reason, broken=True)

    def _finish(self) -> None:
        """Note that its job has ended, and copy what it printed."""
        self._job, self._stage = None, STARTING
        left = max(0, self._output.stat().st_size - self._copied)
        kept = min(left, int(self._limits.log_bytes))
        with self._output.open("rb") as printed, self._log.open("ab") as log, suppress(OSError):  # a disk that is full
            printed.seek(self._copied)
            for first in range(0, kept, MOST_LOG):
                log.write(printed.read(min(MOST_LOG, kept - first)))
            if left > kept:
                limit = f"{self._limits.log_bytes / 1e6:g} MB (measure.log_megabytes)"
                log.write(f"\n[more than {limit}: the rest is cut off]\n".encode())
        self._copied += left

    def _exit(self) -> str:
        self._process.join(10)
        code = self._process.exitcode
        if code is None or code >= 0:
            return f"exit code {code}"
        name = next((one.name for one in signal.Signals if one == -code), str(-code))
        return f"signal {name}" + (", which the system sends when memory runs out" if name == "SIGKILL" else "")

    def _list(self) -> None:
        """Note which processes it has started, also those whose parents have ended."""
        with suppress(psutil.Error):
            self._started |= {*self._root.children(recursive=True)}
        self._started |= {*marked(self._mark, self._others)} - {self._root}

    def _uses_more_memory(self) -> bool:
        """Tell whether it and all that it started use more than they may, without files that are only mapped.

        To add up what each has counts twice what two share, and rules out only.
        """
        tree = [self._root, *self._started]
        if sum(map(_own_bytes, tree)) <= self._limits.memory_bytes:
            return False
        return sum(map(_shared_out_bytes, tree)) > self._limits.memory_bytes


def _own_bytes(process: psutil.Process) -> int:
    with suppress(psutil.Error):
        memory = process.memory_info()
        return int(memory.rss - getattr(memory, "shared", 0))
    return 0


def _shared_out_bytes(process: psutil.Process) -> int:
    """Return what a process has, its part alone of what it shares, where the system says that."""
    with suppress(psutil.Error):
        memory = process.memory_full_info()
        mapped = getattr(memory, "shared", 0)
        return int(max(0, memory.pss - mapped) if hasattr(memory, "pss") else memory.uss)
    return 0


def _host_bytes() -> float:
    """Return the memory of the host, or of the container."""
    found = float(psutil.virtual_memory().total)
    for path in (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes")):
        with suppress(OSError, ValueError):  # no container, or "max"
            found = min(found, int(path.read_text("ascii")))
    return found


@contextmanager
def _marked(mark: str) -> Iterator[None]:
    """Give the mark to what is started within the block."""
    before = os.environ.get(MARK)
    os.environ[MARK] = mark
    try:
        yield
    finally:
        os.environ.pop(MARK)
        if before is not None:
            os.environ[MARK] = before


@contextmanager
def _without_main() -> Iterator[None]:
    """Start processes within the block without the program's main module.

    A session needs nothing of it, and to import it would run a program that does not expect that once more.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


@contextmanager
def interrupts_held_back() -> Iterator[None]:
    """Hold Ctrl-C back, also from what is started within the block, until that says what it means there."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
