"""What a Dask worker has of a run: a post, which keeps guarded processes of its device and has them work on jobs.

A client calls these functions in the Dask worker's process. ``answer`` is a task of Dask's, one at a time; the others
are called beside it, on the worker's event loop. A post that its client does not keep ends its processes by itself.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import platform
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from gravbench.config.settings import Measure
from gravbench.errors import InputError
from gravbench.measuring import environment
from gravbench.measuring.outcome import Outcome
from gravbench.measuring.process import Worker
from gravbench.measuring.turns import Turn
from gravbench.measuring.worker import Job
from gravbench.model import initial_conditions, interaction_files
from gravbench.model.case import Case
from gravbench.model.device import Device
from gravbench.model.record import Fingerprint
from gravbench.model.variant import CPU, discover
from gravbench.packaged import folder
from gravbench.toolkits.devices import gpus, processor_name
from gravbench.version import VERSION

LEASE_SECONDS = 120.0
"""For which a post waits for a word of its client."""
MOST_LOG = 1_000_000
"""Bytes of what a process printed during a case that go to the client: the last ones."""
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""Variables by which Dask has libraries use one thread; processes that measure have those of the client.

Those of a GPU are forked from one process: they have the values of the first client that a Dask worker measures for.
"""

Answer = tuple[Outcome, bytes]
"""What became of a job, and what was printed meanwhile."""


@dataclass(frozen=True, slots=True)
class Orders:
    """What a post is opened with: who it is to the client, how it measures, and what it will be asked for.

    ``asked`` has a case of every variant, toolkit and file. ``threads`` are the client's values of ``THREADS``.
    """

    run: str
    device: Device
    folders: tuple[Path, ...]
    measure: Measure
    asked: tuple[tuple[Case, Fingerprint], ...]
    threads: Mapping[str, str]


class Post:
    """The processes of one device that work for one run."""

    def __init__(self, orders: Orders, folder: str | None, tell: Callable[[dict[str, Any]], None]) -> None:
        """Keep a log below ``folder``; ``tell`` sends a message to the client."""
        self._orders = orders
        self._tell = tell
        self._workers: dict[int, Worker] = {}
        # By the ticket of a job, the number of its process, and what says whether the device is warm.
        self._gates: dict[int, tuple[int, SimpleQueue[bool]]] = {}
        self._closed = threading.Event()
        self._until = time.monotonic() + LEASE_SECONDS
        self._folder = Path(tempfile.mkdtemp(prefix="gravbench-", dir=folder))
        self._log = self._folder / "worker.log"
        self._log.touch()
        threading.Thread(target=self._watch, name="gravbench lease", daemon=True).start()

    def keep(self) -> None:
        """Wait for the client's next word for another while."""
        self._until = time.monotonic() + LEASE_SECONDS

    def answer(self, number: int, ticket: int, job: Job) -> Answer:
        """Have the process of this number do a job; one that is not there is started."""
        before = self._log.stat().st_size
        gate = SimpleQueue[bool]()
        self._gates[ticket] = number, gate

        def turn(asked: Turn) -> bool:
            self._tell({"ticket": ticket, "turn": str(asked)})
            return gate.get()

        def begins(phase: str) -> None:
            self._tell({"ticket": ticket, "phase": phase})

        try:
            if number not in self._workers:
                with _threads(self._orders.threads):
                    self._workers[number] = Worker(
                        self._orders.device, self._orders.folders, self._log, self._orders.measure
                    )
            if self._closed.is_set():
                self.stop(number)
            outcome = self._workers[number].ask(job, begins, turn)
        finally:
            del self._gates[ticket]
        with self._log.open("rb") as file:
            file.seek(max(before, self._log.stat().st_size - MOST_LOG))
            return outcome, file.read()

    def go_on(self, ticket: int, warm: bool) -> None:
        """Let a job that waits for its turn go on, on a device that is ``warm`` or not."""
        if found := self._gates.get(ticket):
            found[1].put(warm)

    def stop(self, number: int) -> None:
        """End a process, whatever it does; ``answer`` then returns."""
        if worker := self._workers.get(number):
            worker.end()
            for whose, gate in tuple(self._gates.values()):
                if whose == number:
                    gate.put(False)
            worker.process.join(10)

    def forget(self, number: int) -> None:
        """End a process that is not asked again."""
        self.stop(number)
        self._workers.pop(number, None)

    def close(self) -> None:
        """End all processes."""
        self._closed.set()
        for number in tuple(self._workers):
            self.stop(number)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _watch(self) -> None:
        while not self._closed.wait(5.0):
            if time.monotonic() > self._until:
                _POSTS.pop(self._orders.run, None)
                self.close()


_POSTS: dict[str, Post] = {}
"""By the name of the run."""


@contextmanager
def _threads(variables: Mapping[str, str]) -> Iterator[None]:
    """Have what is started within the block find the client's values, or none."""
    before = {name: os.environ.pop(name, None) for name in THREADS}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


@cache
def same_needed() -> dict[str, str]:
    """Name what has to be the same where a run is planned and where it measures: versions, and gravbench's sources."""
    sources = sha256()
    for path in sorted(folder("gravbench").rglob("*.py")):
        sources.update(path.read_bytes())
    own = f"{VERSION}, sources {sources.hexdigest()[:8]}"
    return {"gravbench": own, "python": platform.python_version(), **environment.packages()}


def introduce() -> dict[str, Any]:
    """Say which host this is, the device it measures on, and what has to be the same as the client's."""
    found, _ = gpus()
    device = found[0] if found else Device(CPU, processor_name())
    return {"host": platform.node(), "device": asdict(device), "same": same_needed()}


def objection(asked: Sequence[tuple[Case, Fingerprint]], folders: tuple[Path, ...]) -> str | None:
    """Say why what would run here for cases is not what was planned; None where it is."""
    for path in folders:
        if not path.is_dir():
            return f"cannot read the folder of variants {path}; it has to exist there under the same path"
    try:
        variants = discover(folders)
        for case, planned in asked:
            if initial_conditions.file_sha256(case.bodies) != case.bodies_file_sha256:
                return f"has different content in {case.bodies}"
            if case.interaction_sha256 and interaction_files.code_sha256(case.interaction) != case.interaction_sha256:
                return f"has different content in {case.interaction}"
            own = environment.fingerprint(case, variants[case.variant], None)
            differing = [
                name
                for name in ("code_sha256", "method", "flags", "toolkit_version")
                if getattr(own, name) != getattr(planned, name)
            ]
            if differing:
                return f"would run another {case.variant} with {case.toolkit}: its {' and '.join(differing)} differ"
    except (InputError, OSError, SyntaxError, KeyError) as error:
        return f"cannot prepare the planned cases: {error}"
    return None


async def open_post(all_orders: Mapping[str, Orders], dask_worker: Any = None, *, local: bool = False) -> str | None:
    """Open a post by the orders for this address, unless something speaks against it, which is returned.

    ``local``: this process belongs to the client, and ends with it.
    """
    orders = all_orders[dask_worker.address]
    # A nanny's worker is said to have no children, which it ends by itself: those of a post end with their parent.
    multiprocessing.current_process().daemon = False
    if local:  # Ctrl-C reaches the whole group of processes; the client decides what it means
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    if reason := await asyncio.to_thread(objection, orders.asked, orders.folders):
        return reason

    def tell(message: dict[str, Any]) -> None:
        dask_worker.log_event(orders.run, message)

    _POSTS[orders.run] = Post(orders, dask_worker.local_directory, tell)
    return None


def answer(run: str, number: int, ticket: int, job: Job) -> Answer | None:
    """Have a process of a post do a job; None where there is no such post, because this worker is a new one."""
    post = _POSTS.get(run)
    return post.answer(number, ticket, job) if post else None


async def keep(run: str) -> bool:
    """Keep a post; tell whether it is there."""
    if post := _POSTS.get(run):
        post.keep()
    return post is not None


async def go_on(run: str, ticket: int, warm: bool) -> None:
    """Let a job of a post go on, on a device that is ``warm`` or not."""
    if post := _POSTS.get(run):
        post.go_on(ticket, warm)


async def forget(run: str, number: int) -> None:
    """End a process of a post."""
    if post := _POSTS.get(run):
        await asyncio.to_thread(post.forget, number)


async def close_post(run: str) -> None:
    """End a post with all its processes."""
    if post := _POSTS.pop(run, None):
        await asyncio.to_thread(post.close)
