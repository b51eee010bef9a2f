"""The supervisor of a session, in the process that runs the sweep: it starts it, limits it, and ends all of it.

A session may take so much time for a case, so much memory with everything that it has started, and print so much. One
that takes more, hangs or dies gives its case a failed outcome, and is replaced.
"""

from __future__ import annotations

import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path

import psutil

from gravbench.config.settings import Measure
from gravbench.measuring.outcome import Outcome
from gravbench.measuring.processes import Started, Workplace
from gravbench.measuring.session import READY, Message, Orders, serve
from gravbench.measuring.stages import ANSWERED, Job
from gravbench.model.device import Device

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
    """A session as its supervisor sees it: ``waits_for`` is ready when ``look`` may say something new."""

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
        toolkits: tuple[str, ...] = (),
    ) -> None:
        """Start it; what it prints goes to ``log`` whenever a case has ended. See ``Orders`` for the rest."""
        self._limits = limits
        self._log = log
        with tempfile.NamedTemporaryFile(prefix="output-", dir=workplace.folder, delete=False) as output:
            self._output = Path(output.name)
        self._copied = 0
        self._job: Job | None = None
        self._stage = STARTING
        self._deadline = self._look_at = self._list_at = 0.0
        self.is_ready = self.is_lost = False
        orders = Orders(device, folders, self._output, workplace.folder, several, threads, toolkits, time.time())
        self.process = Started(workplace, serve, (orders,))
        self.connection = self.process.connection

    @property
    def waits_for(self) -> list[Connection | int]:
        """What becomes ready when there is something to read, or the process has ended."""
        return [self.connection, self.process.sentinel]

    @property
    def is_starting(self) -> bool:
        """Whether it still imports."""
        return not self.is_ready and not self.is_lost

    @property
    def is_awaited(self) -> bool:
        """Whether something is to come from it."""
        return not self.is_lost and (self._job is not None or not self.is_ready)

    @property
    def is_alive(self) -> bool:
        """Whether its process has not ended."""
        return self.process.is_alive

    def give(self, job: Job) -> None:
        """Give it a job; it has none."""
        now = time.monotonic()
        self._job, self._deadline, self._look_at = job, now + self._limits.seconds, now + LOOK_SECONDS
        with suppress(OSError):  # it is gone, which the connection shows
            self.connection.send(job)

    def go_on(self) -> None:
        """Let it begin the stage for which it has asked."""
        with suppress(OSError):
            self.connection.send(None)

    def look(self) -> str | Outcome | None:
        """Return the stage that its job has begun, or the outcome; None where there is nothing new.

        One that died, hangs or has taken too much gives an outcome, too, and is of no further use.
        """
        # What it started may hold its end of the connection, so that this does not show its death.
        if not self.process.is_alive and not self.connection.poll():
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
        return self._failed(f"the session died while {self._stage}: {self.process.exit()}")

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
            self.process.list_others()
        if self._uses_more_memory():
            limit = f"{self._limits.memory_bytes / 1e9:.3g} GB of memory (measure.memory_gigabytes)"
            return self._failed(f"the session was stopped while {self._stage}: it used more than {limit}")
        return None

    def ask(self, job: Job) -> Outcome:
        """Have one job done, and wait for its outcome."""
        self.give(job)
        while True:
            wait(self.waits_for, NAP_SECONDS)
            content = self.look()
            if isinstance(content, Outcome):
                return content
            if content in ANSWERED:
                self.go_on()

    def suspend(self) -> None:
        """Let it compute nothing for a while; one that is ready, and has no job, computes nothing."""
        if not self.is_ready:
            self.look()
        if not self.is_ready or self._job:
            self.process.suspend()

    def resume(self) -> None:
        """Let it go on computing."""
        self.process.resume()

    def end(self) -> None:
        """End it with everything that it started, and return when nothing of that is left."""
        self.process.end()
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

    def _uses_more_memory(self) -> bool:
        """Tell whether it and all that it started use more than they may, without files that are only mapped.

        To add up what each has counts twice what two share, and rules out only.
        """
        tree = [self.process.root, *self.process.others]
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
    size = float(psutil.virtual_memory().total)
    for path in (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes")):
        with suppress(OSError, ValueError):  # no container, or "max"
            size = min(size, int(path.read_text("ascii")))
    return size
