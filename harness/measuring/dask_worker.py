"""What runs on the workers of a Dask cluster: each has one device, and keeps the sessions of that from case to case.

While sessions measure, the worker looks whether the case is still wanted. Sessions that have nothing to do end after a
while. So nothing is left of a client that is gone, and nobody waits for a message of ours.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import multiprocessing
import os
import platform
import signal
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import astuple, replace
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import distributed
from filelock import FileLock, ReadWriteLock, Timeout

from gravbench.errors import listed
from gravbench.measuring import environment
from gravbench.measuring.builds import BuildPool
from gravbench.measuring.engine import DeviceSessions, Quiet, Setup, Stages, moment
from gravbench.measuring.outcome import Outcome
from gravbench.measuring.outside_judge import OutsideJudge
from gravbench.measuring.processes import lock_file, workplace
from gravbench.measuring.tasks import Task
from gravbench.model.device import Device
from gravbench.toolkits.devices import family, gpus, processor

NAME = "gravbench"
"""Of the plugin, and with which the names of resources begin."""
LOOK_SECONDS, IDLE_SECONDS = 1.0, 10.0
"""Between two looks at whether a case is wanted; and for which sessions wait for another one."""
MOST_PRINTED = 1_000_000
"""Bytes of what sessions print during a case that go to the client: the last ones."""
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""Variables by which Dask has libraries use one thread; sessions have those of the client."""

Orders = tuple[Setup, dict[str, str]]
"""How a run measures, and the client's values of ``THREADS``."""
Answer = tuple[str, Outcome, str, bytes]
"""Which device measured a case, by its resource; what became of it, when it began, and what was printed."""


class Keeper(distributed.WorkerPlugin):  # type: ignore[misc]
    """What a worker has of a client: it introduces the worker's device, and keeps the sessions of that."""

    def __init__(self, needed: dict[str, str], paths: list[Path], *, local: bool) -> None:
        """``needed`` is what has to be the same as at the client; ``local`` workers end with the client."""
        self._needed, self._paths, self._local = needed, paths, local

    async def setup(self, worker: Any) -> None:
        """Name the device, and its kind, as resources; or why the worker is refused."""
        # A nanny's worker is said to have no children, which it ends by itself: sessions end with their parent.
        multiprocessing.current_process().daemon = False
        if self._local:  # Ctrl-C reaches the whole group of processes; the client decides what it means
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._mutex, self._stack = threading.Lock(), ExitStack()
        self._orders: Orders | None = None
        self._is_over, self._numbers, self._idle = False, itertools.count(1), threading.Timer(0, self._end)
        visible = gpus()[0] or [processor()]
        self._device = device = visible[int(worker.name) if self._local else 0]
        self._claim = FileLock(lock_file(device.uuid or "none"), timeout=0, thread_local=False)
        host, refusal = platform.node(), await asyncio.to_thread(self._refusal)
        if refusal:
            refusal = f"the Dask worker {worker.address} on {host} {refusal}"
        self._resource = f"{NAME} {json.dumps([host, worker.id, refusal, *astuple(device)])}"
        self._resources = (self._resource,) if refusal else (self._resource, kind_of(device))
        await worker.set_resources(**dict.fromkeys(self._resources, 1))
        # Only when a worker begins to run does the scheduler look for cases of which none was left.
        for status in (distributed.Status.paused, distributed.Status.running):
            worker.status = status

    def _refusal(self) -> str | None:
        if differing := environment.differences(environment.needed(self._paths), self._needed):
            return f"has {listed(differing)}; accepted: the same versions and files"
        try:
            if self._device.uuid:
                self._claim.acquire()
        except Timeout:
            each = f"start one worker per GPU, each with its own {family(self._device.family).chooser}"
            return f"would measure on the same GPU as another one, {self._device.uuid}; {each}"
        return None

    async def teardown(self, worker: Any) -> None:
        """End the sessions, also those that measure: the worker closes, or has another client."""
        self._is_over = True
        await asyncio.to_thread(self._end)
        self._claim.release()
        with suppress(Exception):  # the scheduler is gone
            await worker.set_resources(**dict.fromkeys(self._resources, 0))

    def _end(self) -> None:
        with self._mutex:
            self._orders = None
            self._stack.close()

    def measure(
        self, orders: Orders, task: Task, behind: float | None, is_wanted: Callable[[], bool], *, repeated: bool
    ) -> Answer:
        """Have sessions measure a case while it ``is_wanted``; one at a time. The rest is as in ``Job``."""
        self._idle.cancel()
        started = moment()
        with self._mutex:
            try:
                if orders != self._orders:
                    self._begin(orders)
                steps = self._sessions.measured(task, behind, lambda: [task], repeated=repeated)
                outcome = self._driven(steps, is_wanted)
            except BaseException:
                self._orders = None
                self._stack.close()
                raise
            self._idle = threading.Timer(IDLE_SECONDS, self._end)
            self._idle.daemon = True
            self._idle.start()
            with self._log.open("r+b") as file:
                file.seek(max(0, self._log.stat().st_size - MOST_PRINTED))
                printed = file.read()
                file.truncate(0)
        return self._resource, outcome, started, printed

    def _begin(self, orders: Orders) -> None:
        self._stack.close()
        for name in THREADS:
            os.environ.pop(name, None)
        os.environ.update(orders[1])
        place = self._stack.enter_context(workplace())
        self._log = place.folder / "worker.log"
        self._log.touch()
        setup = replace(orders[0], log=self._log)
        judge = OutsideJudge(place, self._log)
        self._stack.callback(judge.close)
        quiet = Quiet(BuildPool(setup.folders, self._log, {}), judge)  # sessions compile what they need
        self._sessions = DeviceSessions(self._device, setup, place, quiet, self._numbers)
        self._stack.callback(self._sessions.end)
        self._orders = orders

    def _driven(self, steps: Stages, is_wanted: Callable[[], bool]) -> Outcome:
        while is_wanted() and not self._is_over:
            try:
                if next(steps) is None:
                    wait(self._sessions.waits_for, LOOK_SECONDS)
            except StopIteration as ended:
                return ended.value  # type: ignore[no-any-return]
        raise RuntimeError("nobody waits for the case any more")


def kind_of(device: Device) -> str:
    """Return the resource that all devices of a kind have."""
    return f"{NAME} {json.dumps({'kind': device.kind})}"


def measure(orders: Orders, task: Task, behind: float | None, *, repeated: bool, alone: bool) -> Answer:
    """Have the sessions of a worker measure a case; one that is to be ``alone`` has the host for itself."""
    worker = distributed.get_worker()
    key, keeper = worker.get_current_task(), worker.plugins[NAME]

    def is_wanted() -> bool:
        state = worker.state.tasks.get(key)
        return state is not None and state.state == "executing"

    host = ReadWriteLock(lock_file("host"), is_singleton=False)
    with host.write_lock() if alone else host.read_lock():
        return keeper.measure(orders, task, behind, is_wanted, repeated=repeated)  # type: ignore[no-any-return]
