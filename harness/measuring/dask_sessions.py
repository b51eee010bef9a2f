"""A run on the workers of a Dask cluster: each has one device, and a case is a task of Dask's.

A worker names its device, and the kind of it, as resources of Dask's. By these Dask gives it cases, and gives a case to
another worker where its own is lost. The worker keeps the sessions of its device from case to case, and looks whether
the case is still wanted; what became of it is the result of the task. Nobody waits for a message of ours.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import multiprocessing
import os
import platform
import signal
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import astuple, replace
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import distributed
from filelock import FileLock, ReadWriteLock, Timeout

from gravbench.config.load import Sweep
from gravbench.errors import InputError, listed
from gravbench.measuring import environment
from gravbench.measuring.builds import BuildPool
from gravbench.measuring.engine import Began, DeviceSessions, Does, Done, Event, Quiet, Setup, moment
from gravbench.measuring.outcome import Outcome, said
from gravbench.measuring.plan import Task
from gravbench.measuring.processes import workplace
from gravbench.measuring.queues import Queue
from gravbench.measuring.runner import LOCAL, StrandedError
from gravbench.measuring.stages import Job
from gravbench.measuring.supervisor import STARTING
from gravbench.model.case import Case
from gravbench.model.device import Device
from gravbench.model.variant import CPU, discover
from gravbench.model.work import Work, work_of
from gravbench.toolkits.devices import gpus, processor_name

NAME = "gravbench"
"""Of the plugin, and with which the names of resources begin."""
CONNECT_SECONDS, CALL_SECONDS, LOOK_SECONDS, NAP_SECONDS = 10.0, 60.0, 1.0, 0.05
"""To hear from a scheduler, and from workers; between two looks at who is there, and at which cases have ended."""
RUNNING, RETRIES = "running", 2
"""What a device does; and how often a worker that is not lost may fail to begin a case."""
STRANDED_SECONDS, IDLE_SECONDS = 10.0, 10.0
"""For which the client waits where no worker of a kind is left; and sessions, where they have nothing to do."""
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
        visible = gpus()[0] or [Device(CPU, processor_name())]
        self._device = device = visible[int(worker.name) if self._local else 0]
        self._claim = FileLock(_lock(device.uuid or "none"), timeout=0, thread_local=False)
        host, refusal = platform.node(), await asyncio.to_thread(self._refusal)
        if refusal:
            refusal = f"the Dask worker {worker.address} on {host} {refusal}"
        self.resource = f"{NAME} {json.dumps([host, worker.id, refusal, *astuple(device)])}"
        self._resources = (self.resource,) if refusal else (self.resource, _kind(device))
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
            each = "start one worker per GPU, each with its own CUDA_VISIBLE_DEVICES"
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

    def measure(self, orders: Orders, task: Task, job: Job, is_wanted: Callable[[], bool]) -> Answer:
        """Have sessions measure a case while it ``is_wanted``; one at a time."""
        self._idle.cancel()
        started = moment()
        with self._mutex:
            if orders != self._orders:
                self._begin(orders)
            try:
                outcome = self._driven(task, job, is_wanted)
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
        return self.resource, outcome, started, printed

    def _begin(self, orders: Orders) -> None:
        self._stack.close()
        for name in THREADS:
            os.environ.pop(name, None)
        os.environ.update(orders[1])
        place = self._stack.enter_context(workplace())
        self._log = place.folder / "worker.log"
        self._log.touch()
        setup, jobs = replace(orders[0], log=self._log), itertools.count(1)
        quiet = Quiet(BuildPool(setup.folders, self._log, {}))  # sessions compile what they need
        self._sessions = DeviceSessions(self._device, setup, place, quiet, self._numbers, jobs)
        self._stack.callback(self._sessions.end)
        self._orders = orders

    def _driven(self, task: Task, job: Job, is_wanted: Callable[[], bool]) -> Outcome:
        steps = self._sessions.measured(task, job, lambda: True)
        while is_wanted() and not self._is_over:
            try:
                stage = next(steps)
            except StopIteration as ended:
                return ended.value  # type: ignore[no-any-return]
            if stage == STARTING:
                self._sessions.stand_by([task])
            elif stage is None:
                wait(self._sessions.waits_for, LOOK_SECONDS)
        raise RuntimeError("nobody waits for the case any more")


def _kind(device: Device) -> str:
    return f"{NAME} {json.dumps({'kind': device.kind})}"


def _lock(name: str) -> str:
    return str(Path(tempfile.gettempdir(), f"gravbench-{name}-{os.getuid() if hasattr(os, 'getuid') else 0}.lock"))


def measure(orders: Orders, task: Task, job: Job, *, alone: bool) -> Answer:
    """Have the sessions of a worker measure a case; one that is to be ``alone`` has the host for itself."""
    worker = distributed.get_worker()
    key, keeper = worker.get_current_task(), worker.plugins[NAME]

    def is_wanted() -> bool:
        state = worker.state.tasks.get(key)
        return state is not None and state.state == "executing"

    host = ReadWriteLock(_lock("host"), is_singleton=False)
    with host.write_lock() if alone else host.read_lock():
        return keeper.measure(orders, task, job, is_wanted)  # type: ignore[no-any-return]


@contextmanager
def connected(where: str, sweep: Sweep, say: Callable[[str], None]) -> Iterator[Cluster]:
    """Connect to the scheduler at an address or in a scheduler file, or start a cluster of this machine: ``local``.

    ``say`` is given sentences about workers that are lost or refused during a run.

    Raises:
        InputError: no scheduler answers, it has no workers, or one is refused.
    """
    for name in ("distributed", "distributed.client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    is_local, is_file = where == LOCAL, where != LOCAL and Path(where).is_file()
    if not (is_local or is_file or ":" in where):
        raise InputError(f"--dask {where}: no such file; accepted: tcp://HOST:PORT, a scheduler file, or {LOCAL}")
    with ExitStack() as stack:
        try:
            options: dict[str, Any] = {"scheduler_file" if is_file else "address": where}
            if is_local:  # each worker has the GPU that has its number
                options["address"] = stack.enter_context(
                    distributed.LocalCluster(
                        n_workers=len(gpus()[0]) or 1, threads_per_worker=1, host="127.0.0.1", memory_limit=0,
                        dashboard_address=None, silence_logs=logging.CRITICAL,
                    )
                )  # fmt: skip
            client = distributed.Client(**options, timeout=CONNECT_SECONDS, set_as_default=False)
        except Exception as error:  # of many types, by the kind of the address and by what a host lacks
            reason = said(error) or type(error).__name__
            raise InputError(
                f"--dask {where}: no Dask scheduler answers within {CONNECT_SECONDS:g} s: {reason}"
            ) from None
        stack.callback(client.close, CONNECT_SECONDS)
        cluster = Cluster(client, sweep, say)
        stack.callback(cluster.close)
        cluster.meet(local=is_local)
        yield cluster


class Cluster:
    """The workers of a Dask cluster, as the site of a run."""

    def __init__(self, client: Any, sweep: Sweep, say: Callable[[str], None]) -> None:
        self._client, self._sweep, self._say = client, sweep, say
        self._devices: dict[str, Device] = {}  # of all workers that have been there, by their resources
        self._there: set[str] = set()
        self._refused: dict[str, str] = {}
        self._running: dict[Any, Task] = {}
        self._completed = distributed.as_completed(loop=client.loop, with_results=True)
        self._manned = time.monotonic()

    @property
    def devices(self) -> list[Device]:
        """One per worker."""
        return sorted(map(self._device, sorted(self._there)), key=lambda device: device.selector)

    @property
    def no_gpu(self) -> str | None:
        """Why there is no GPU among them."""
        return None if any(device.is_gpu for device in self.devices) else "no Dask worker sees an NVIDIA GPU"

    def meet(self, *, local: bool) -> None:
        """Get to know the workers, and have those that come during the run introduce themselves too."""
        cases = self._sweep.cases
        files = {case.bodies for case in cases if case.bodies_file_sha256}
        files |= {case.interaction for case in cases if case.interaction_sha256}
        paths = [path.resolve() for path in (*self._sweep.variant_folders, *map(Path, sorted(files)))]
        keeper = Keeper(environment.needed(paths), paths, local=local)
        register = self._client._register_worker_plugin  # the public method waits for ever
        try:
            self._client.sync(register, plugin=keeper, name=NAME, idempotent=False, callback_timeout=CALL_SECONDS)
        except Exception as error:
            raise InputError(f"a Dask worker cannot use gravbench: {type(error).__name__}: {said(error)}") from None
        self._look()
        if self._refused:
            raise InputError(*self._refused.values())
        if not self._there:
            address = self._client.scheduler.address
            raise InputError(f"the Dask scheduler {address} has no workers; start one per GPU")

    def events(self, first_number: int, setup: Setup, queue: Queue, sweep: Sweep) -> Generator[Event]:
        """Work through the tasks of a run, as ``Engine.events`` does. Sessions are numbered from a first one on.

        Raises:
            StrandedError: cases are left, and no worker that could measure them; or the scheduler is gone.
        """
        folders = tuple(path.resolve() for path in setup.folders)
        orders = replace(setup, folders=folders), {name: os.environ[name] for name in THREADS if name in os.environ}
        numbers = defaultdict[object, int](itertools.count(first_number).__next__)
        dropped = 0
        for device in self.devices:
            queue.add_device(device)
        while True:
            yield from self._give(queue, orders, sweep)
            if not self._stranded(queue) and not self._running:
                return
            until = time.monotonic() + LOOK_SECONDS
            while not self._completed.has_ready() and time.monotonic() < until:
                time.sleep(NAP_SECONDS)
            for future, answer in self._completed.next_batch(block=False):
                # Those of a lost scheduler are cancelled, which the next look finds out.
                if future in self._running and future.status != "cancelled":
                    done = self._done(future, answer, numbers, setup.log)
                    if done.task.anchor and done.outcome.status != "ok":
                        dropped += queue.give_up(done.task)
                    yield replace(done, dropped=dropped)
                    dropped = 0
            dropped += self._look(queue)

    def close(self) -> None:
        """End everything at the workers; those that cannot be told find out by themselves."""
        with suppress(Exception):
            self._client.cancel(list(self._running))
            unregister = self._client._unregister_worker_plugin
            self._client.sync(unregister, name=NAME, callback_timeout=CONNECT_SECONDS)

    def _look(self, queue: Queue | None = None) -> int:
        """See which workers have come and gone; return how many repetitions of anchors are left out with them."""
        try:
            assert self._client.status == "running"
            known = self._client.sync(self._client.scheduler.identity, callback_timeout=CONNECT_SECONDS)["workers"]
        except Exception as error:
            raise StrandedError(f"the Dask scheduler is gone: {said(error) or type(error).__name__}") from None
        named = [item for worker in known.values() for item in worker["resources"].items()]
        there = {name for name, amount in named if amount and name.startswith(f"{NAME} [")}
        come, gone = there - self._there, self._there - there
        self._there = there
        for resource in sorted(come):
            if refusal := json.loads(resource.removeprefix(NAME))[2]:
                self._there.remove(resource)
                if resource not in self._refused and queue:
                    self._say(refusal)
                self._refused[resource] = refusal
            elif queue:
                queue.add_device(self._device(resource))
        return sum(self._lose(self._device(resource), queue) for resource in gone if queue)

    def _device(self, resource: str) -> Device:
        """Return the device of a worker, named by its host and by how many of the host were known before."""
        if resource not in self._devices:
            host, _, _, *described = json.loads(resource.removeprefix(NAME))
            device = Device(*described)
            place = f"{host}:{device.selector.partition(':')[0]}"
            number = sum(other.selector.startswith(f"{place}:") for other in self._devices.values())
            self._devices[resource] = replace(device, selector=f"{place}:{number}")
        return self._devices[resource]

    def _lose(self, device: Device, queue: Queue) -> int:
        self._say(f"the Dask worker {device.selector} is lost: it is no longer connected to the scheduler")
        # Any other case goes to another worker by itself.
        anchors = [future for future, task in self._running.items() if task.device == device and task.anchor]
        self._client.cancel(anchors)
        return queue.remove_device(device, self._running.pop(anchors[0]) if anchors else None)

    def _stranded(self, queue: Queue) -> bool:
        """Tell whether cases are left of which no worker is there; wait only for a while for one to come."""
        kinds = {device.kind for device in self.devices}
        running = [task for task in self._running.values() if task.device and task.device.kind not in kinds]
        left = len(running) + len(queue.left_behind(kinds))
        self._manned = self._manned if left else time.monotonic()
        if time.monotonic() > self._manned + STRANDED_SECONDS:
            raise StrandedError(f"{left} cases are left, because every worker that could measure them is lost")
        return left > 0

    def _give(self, queue: Queue, orders: Orders, sweep: Sweep) -> Iterator[Event]:
        """Submit a case for each device that is idle; a repetition of an anchor is for that device alone."""
        variants, setup = discover(sweep.variant_folders), orders[0]
        busy = {task.device for task in self._running.values()}
        for resource in sorted(self._there):
            device = self._device(resource)
            upcoming = None if device in busy else queue.next(device)
            if not upcoming:
                continue
            task, behind = upcoming
            case, repeated = _found_anywhere(task.case), queue.was_right(task)
            job = Job(0, case, setup.settings, setup.verify, behind, repeated=repeated)
            alone = work_of(case, on_host=variants[case.variant].on_host) is not Work.GPU
            resources = {_kind(device): 1} | ({resource: 1} if task.anchor else {})
            future = self._client.submit(
                measure, orders, replace(task, case=case), job, alone=alone, resources=resources, retries=RETRIES,
                pure=False,
            )  # fmt: skip
            self._running[future] = task
            self._completed.add(future)
            yield Began(task)
            yield Does(task, RUNNING)

    def _done(self, future: Any, answer: Any, numbers: dict[object, int], log: Path) -> Done:
        task = self._running.pop(future)
        if future.status == "error":
            error = answer[1]
            lost = isinstance(error, distributed.KilledWorker)
            reason = "its worker was lost too often" if lost else f"{type(error).__name__}: {said(error)}"
            return Done(task, Outcome("failed", reason), moment())
        resource, outcome, started, printed = answer
        device = self._device(resource)
        fingerprint = task.fingerprint.model_copy(update={"device_uuid": device.uuid})
        processes = [numbers[resource, number] for number in outcome.found.measurement.processes]
        outcome.found.measurement = outcome.found.measurement.model_copy(update={"processes": processes})
        with log.open("ab") as file:
            file.write(printed)
        return Done(replace(task, device=device, fingerprint=fingerprint), outcome, started)


def _found_anywhere(case: Case) -> Case:
    """Name the files of a case by their whole paths, which do not depend on the working directory."""
    files = {"bodies": case.bodies_file_sha256, "interaction": case.interaction_sha256}
    return case.model_copy(update={name: str(Path(getattr(case, name)).resolve()) for name in files if files[name]})
