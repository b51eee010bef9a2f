"""The guard of one worker: it limits what the worker prints and its memory, and ends every process that it started.

The process that a run starts for a device forks. The child is the worker. The parent is the guard: it copies the
worker's output to the log and looks at its memory. Once the worker has ended, or nobody waits for it any more, or it is
beyond a limit, the guard ends all processes below itself, also those that left the worker's group or session: Linux
makes the guard the parent of what lost its own.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NoReturn

from gravbench.config.settings import Measure

LOOK_SECONDS = 0.2
"""Between two looks at a worker's memory, and at whether it is alive."""
LIST_SECONDS = 2.0
"""Between two listings of its processes, which take long where one has many threads."""
SAFE_PART = 0.9
"""Of the machine's memory, or of the container's, where no limit is set."""
CONTAINERS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
CHUNK = 1 << 16
END_OF_PARENT, SUBREAPER = 1, 36  # of prctl
ENDS = (signal.SIGTERM, signal.SIGHUP)
"""Signals that stop a worker."""

Ending = tuple[str, str]
"""What became of the worker, as a verb, and why."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one worker, with all that it starts, may use: memory, and the output of one case that is kept."""

    memory_gigabytes: float
    log_megabytes: float

    @classmethod
    def of(cls, measure: Measure) -> Limits:
        """Take the limits of a configuration; without one of memory it is nine tenths of what the machine has."""
        return cls(measure.memory_gigabytes or SAFE_PART * _machine_bytes() / 1e9, measure.log_megabytes)


def _machine_bytes() -> int:
    found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for path in CONTAINERS:
        with suppress(OSError, ValueError):  # no container, or "max"
            found = min(found, int(path.read_text("ascii")))
    return found


class _Stopped(Exception):  # noqa: N818 - nothing went wrong
    """Whoever waits for the worker stops it, or is gone."""


def guarded(connection: Connection, words: Connection, log: Path, limits: Limits) -> None:
    """Fork, and return in the child, which is the worker; the guard never returns.

    ``connection`` is the worker's to the process that waits for it. ``words`` is the guard's: there goes an ``Ending``
    when the worker ended by itself or was beyond a limit.
    """
    parent = os.getppid()
    with log.open("ab", buffering=0) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    # Ctrl-C reaches the whole group of processes; the parent decides what it means, and blocked it until here.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)
    for number in ENDS:
        signal.signal(number, _stop)
    output = _Output(limits.log_megabytes)
    signal.signal(signal.SIGUSR1, output.begin_case)
    os.setsid()
    _prctl(SUBREAPER, 1)
    _end_with(parent, signal.SIGTERM)
    guard, worker = os.getpid(), os.fork()
    if worker:
        connection.close()
        _guard(worker, output, words, limits.memory_gigabytes)
    os.setpgid(0, 0)
    for number in (*ENDS, signal.SIGUSR1):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDS)
    _end_with(guard, signal.SIGKILL)
    # A worker ends by a signal, after which nothing removes the names of its locks between processes, such as Numba's.
    # Locks of processes that fork have no name. It starts none itself: multiprocessing refuses that to daemons.
    multiprocessing.set_start_method("fork", force=True)
    output.write_here()
    words.close()
    with suppress(OSError):  # where memory runs out, the run itself is the last to be ended
        Path("/proc/self/oom_score_adj").write_text("1000", "ascii")


def begin_case() -> None:
    """Tell the guard, from the worker, that the output which follows is another case's."""
    os.kill(os.getppid(), signal.SIGUSR1)


def _guard(worker: int, output: _Output, words: Connection, memory_gigabytes: float) -> NoReturn:
    try:
        with suppress(OSError):  # the worker does the same; whoever is first
            os.setpgid(worker, worker)
        output.read_here()
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDS)
            ending = _watch(worker, output, memory_gigabytes)
        finally:
            _ignore_further()
            _end_all(worker)
            output.drain()
        words.send(ending)
    except (_Stopped, OSError):
        os._exit(0)
    os._exit(0)


def _watch(worker: int, output: _Output, memory_gigabytes: float) -> Ending:
    """Copy output until the worker has ended or is beyond a limit."""
    processes, looked, listed = [worker], 0.0, time.monotonic()
    while True:
        if output.copy(LOOK_SECONDS):
            said = f"it wrote more than {output.megabytes:g} MB of output (measure.log_megabytes)"
            return "was stopped", said
        for process, status in _ended():
            if process == worker:
                return "died", _said(status)
        now = time.monotonic()
        if now - listed >= LIST_SECONDS:
            processes, listed = _below(os.getpid()), now
        if now - looked >= LOOK_SECONDS:
            looked = now
            if _use_more(processes, memory_gigabytes * 1e9):
                said = f"it used more than {memory_gigabytes:.3g} GB of memory (measure.memory_gigabytes)"
                return "was stopped", said


def _said(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"exit code {code}"
    name = next((one.name for one in signal.Signals if one == -code), str(-code))
    return f"signal {name}" + (", which the system sends when memory runs out" if name == "SIGKILL" else "")


class _Output:
    """What a worker prints, on its way through a pipe to the log, which is standard output here."""

    def __init__(self, megabytes: float) -> None:
        self.megabytes = megabytes
        self.most = self.room = round(megabytes * 1e6)
        self.reads, self.writes = os.pipe()
        self.ended = False

    def begin_case(self, *_: object) -> None:
        """Handle the signal that another case begins."""
        self.room = self.most

    def write_here(self) -> None:
        os.dup2(self.writes, 1)
        os.dup2(self.writes, 2)
        os.close(self.reads)
        os.close(self.writes)

    def read_here(self) -> None:
        os.close(self.writes)
        os.set_blocking(self.reads, False)

    def copy(self, seconds: float) -> bool:
        """Copy what comes within some seconds, or the first part of it; return whether there is no room left."""
        if not select.select([] if self.ended else [self.reads], [], [], seconds)[0]:
            return False
        part = os.read(self.reads, CHUNK)
        self.ended = not part
        kept, self.room = part[: max(self.room, 0)], self.room - len(part)
        if full := self.room < 0:
            kept += f"\n[more than {self.megabytes:g} MB (measure.log_megabytes): the rest is cut off]\n".encode()
        with suppress(OSError):  # a disk that is full of other things
            os.write(1, kept)
        return full

    def drain(self) -> None:
        """Copy what is left in the pipe."""
        while not self.ended and self.room >= 0 and select.select([self.reads], [], [], 0)[0]:
            self.copy(0)


def _use_more(processes: list[int], most: float) -> bool:
    """Tell whether processes use more bytes than ``most`` together, without files that are only mapped.

    The resident memory of each is quick to read but counts twice what two share, so that it rules out only.
    """
    quick = sum(_bytes(one, "status", ("RssAnon", "RssShmem", "VmSwap")) for one in processes)
    if quick <= most:
        return False
    return sum(_bytes(one, "smaps_rollup", ("Pss_Anon", "Pss_Shmem", "SwapPss")) for one in processes) > most


def _bytes(process: int, file: str, names: tuple[str, ...]) -> int:
    try:
        lines = Path(f"/proc/{process}/{file}").read_text("ascii", "replace").splitlines()
    except OSError:  # it has just ended
        return 0
    rows = (line.partition(":") for line in lines)
    return sum(int(value.split()[0]) * 1024 for name, _, value in rows if name in names)


def _below(process: int) -> list[int]:
    """List all processes below one."""
    found = _children(process)
    for one in found:  # grows meanwhile
        found += _children(one)
    return found


def _children(process: int) -> list[int]:
    """List the children of a process; of one that ends meanwhile, some or none."""
    found: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{process}/task"):  # noqa: PTH208 - read at once, while threads come and go
            with suppress(OSError):
                text = Path(f"/proc/{process}/task/{thread}/children").read_text("ascii")
                found += map(int, text.split())
    return found


def _ended() -> Iterator[tuple[int, int]]:
    """Take leave of each child that has ended, and return it with its status."""
    with suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            yield found


def _end_all(worker: int) -> None:
    """End the worker's group and everything below this process; return when nothing of it is left."""
    with suppress(OSError):
        os.killpg(worker, signal.SIGKILL)
    while True:
        for process in _children(os.getpid()):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        try:
            # What one of them started is ours once it has ended itself.
            if not os.waitpid(-1, os.WNOHANG)[0]:
                time.sleep(0.005)
        except ChildProcessError:
            return


def _stop(*_: object) -> NoReturn:
    _ignore_further()
    raise _Stopped


def _ignore_further() -> None:
    for number in ENDS:
        signal.signal(number, signal.SIG_IGN)


def _end_with(parent: int, number: signal.Signals) -> None:
    """Ask Linux to send this process a signal when its parent is gone, even if that was killed."""
    _prctl(END_OF_PARENT, number)
    if os.getppid() != parent:
        os._exit(1)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
