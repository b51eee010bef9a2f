"""A run on the workers of a Dask cluster: a case is a task of Dask's, and what became of it is the task's result.

A worker names its device, and the kind of it, as resources of Dask's. By these Dask gives it cases, and gives a case to
another worker where its own is lost. See ``dask_worker`` for what happens there.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import distributed

from gravbench.config.load import Sweep
from gravbench.errors import InputError
from gravbench.measuring import environment
from gravbench.measuring.dask_worker import NAME, THREADS, Keeper, kind_of, measure
from gravbench.measuring.engine import Began, Does, Done, Event, Setup, moment
from gravbench.measuring.outcome import Outcome, text_of
from gravbench.measuring.queues import Queue
from gravbench.measuring.runner import LOCAL, StrandedError
from gravbench.measuring.tasks import Task
from gravbench.model.case import Case
from gravbench.model.device import Device
from gravbench.toolkits.devices import gpus

CONNECT_SECONDS, CALL_SECONDS, LOOK_SECONDS, NAP_SECONDS = 10.0, 60.0, 1.0, 0.05
"""To hear from a scheduler, and from workers; between two looks at who is there, and at which cases have ended."""
RUNNING, RETRIES, STRANDED_SECONDS = "running", 2, 10.0
"""What a device does; how often a worker that is not lost may fail to begin a case; and how long the client waits where
no worker of a kind is left."""


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
            address = stack.enter_context(_started_here()) if is_local else where
            options = {"scheduler_file" if is_file else "address": address}
            client = distributed.Client(**options, timeout=CONNECT_SECONDS, set_as_default=False)
        except Exception as error:  # of many types, by the kind of the address and by what a host lacks
            reason = text_of(error) or type(error).__name__
            raise InputError(
                f"--dask {where}: no Dask scheduler answers within {CONNECT_SECONDS:g} s: {reason}"
            ) from None
        stack.callback(client.close, CONNECT_SECONDS)
        cluster = Cluster(client, say)
        stack.callback(cluster.close)
        cluster.meet(sweep, local=is_local)
        yield cluster


def _started_here() -> Any:
    """Start a cluster of this machine; each worker has the GPU that has its number."""
    return distributed.LocalCluster(
        n_workers=len(gpus()[0]) or 1, threads_per_worker=1, host="127.0.0.1", memory_limit=0,
        dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL,
    )  # fmt: skip


class Cluster:
    """The workers of a Dask cluster, as the site of a run."""

    def __init__(self, client: Any, say: Callable[[str], None]) -> None:
        self._client, self._say = client, say
        self._devices: dict[str, Device] = {}  # of all workers that have been there, by their resources
        self._refused: dict[str, str] = {}
        self._there: set[str] = set()
        self._running: dict[Any, Task] = {}
        self._completed = distributed.as_completed(loop=client.loop, with_results=True)
        self._manned = time.monotonic()

    @property
    def devices(self) -> list[Device]:
        """One per worker."""
        return sorted((self._devices[resource] for resource in self._there), key=lambda device: device.selector)

    @property
    def no_gpu(self) -> str | None:
        """Why there is no GPU among them."""
        return None if any(device.is_gpu for device in self.devices) else "no Dask worker sees a GPU"

    def meet(self, sweep: Sweep, *, local: bool) -> None:
        """Get to know the workers, and have those that come during the run introduce themselves too."""
        files = {Path(path) for case in sweep.cases for path in _files(case).values()}
        paths = [path.resolve() for path in (*sweep.variant_folders, *sorted(files))]
        keeper = Keeper(environment.needed(paths), paths, local=local)
        register = self._client._register_worker_plugin  # the public method waits for ever
        try:
            self._client.sync(register, plugin=keeper, name=NAME, idempotent=False, callback_timeout=CALL_SECONDS)
        except Exception as error:
            raise InputError(f"a Dask worker cannot use gravbench: {type(error).__name__}: {text_of(error)}") from None
        self._look()
        if self._refused:
            raise InputError(*self._refused.values())
        if not self._there:
            address = self._client.scheduler.address
            raise InputError(f"the Dask scheduler {address} has no workers; start one per GPU")

    def events(
        self, first_number: int, setup: Setup, queue: Queue, needs_host: Callable[[Task], bool]
    ) -> Generator[Event]:
        """Work through the tasks of a run, as ``Engine.events`` does. Sessions are numbered from a first one on.

        Raises:
            StrandedError: cases are left, and no worker that could measure them; or the scheduler is gone.
        """
        numbers = defaultdict[object, int](itertools.count(first_number).__next__)
        for device in self.devices:
            queue.add_device(device)
        while True:
            yield from self._give(queue, setup, needs_host)
            if not self._stranded(queue) and not self._running:
                return
            until = time.monotonic() + LOOK_SECONDS
            while not self._completed.has_ready() and time.monotonic() < until:
                time.sleep(NAP_SECONDS)
            for future, answer in self._completed.next_batch(block=False):
                # Those of a lost scheduler are cancelled, which the next look finds out.
                if future in self._running and future.status != "cancelled":
                    yield self._done(future, answer, numbers, setup.log)
            self._look(queue)

    def close(self) -> None:
        """End everything at the workers; those that cannot be told find out by themselves."""
        if self._client.status != "running":  # the scheduler is gone, and each call would wait for it
            return
        with suppress(Exception):
            self._client.cancel(list(self._running))
            unregister = self._client._unregister_worker_plugin
            self._client.sync(unregister, name=NAME, callback_timeout=CONNECT_SECONDS)

    def _look(self, queue: Queue | None = None) -> None:
        """See which workers have come and gone; during a run tell its queue."""
        try:
            assert self._client.status == "running"
            known = self._client.sync(self._client.scheduler.identity, callback_timeout=CONNECT_SECONDS)["workers"]
        except Exception as error:
            raise StrandedError(f"the Dask scheduler is gone: {text_of(error) or type(error).__name__}") from None
        named = [item for worker in known.values() for item in worker["resources"].items()]
        there = {name for name, amount in named if amount and name.startswith(f"{NAME} [")}
        for resource in sorted(there - self._devices.keys() - self._refused.keys()):
            self._add(resource, queue)
        former, self._there = self._there, there & self._devices.keys()
        if queue:
            for resource in former - self._there:
                self._lose(self._devices[resource], queue)

    def _add(self, resource: str, queue: Queue | None) -> None:
        """Note what a worker says of itself; name its device by its host and by how many of that were known before."""
        host, _, refusal, *described = json.loads(resource.removeprefix(NAME))
        if refusal:
            self._refused[resource] = refusal
            if queue:
                self._say(refusal)
            return
        device = Device(*described)
        place = f"{host}:{device.selector.partition(':')[0]}"
        number = sum(other.selector.startswith(f"{place}:") for other in self._devices.values())
        self._devices[resource] = replace(device, selector=f"{place}:{number}")
        if queue:
            queue.add_device(self._devices[resource])

    def _lose(self, device: Device, queue: Queue) -> None:
        self._say(f"the Dask worker {device.selector} is lost: it is no longer connected to the scheduler")
        # Any other case goes to another worker by itself.
        anchors = [future for future, task in self._running.items() if task.device == device and task.anchor]
        self._client.cancel(anchors)
        queue.remove_device(device, self._running.pop(anchors[0]) if anchors else None)

    def _stranded(self, queue: Queue) -> bool:
        """Tell whether cases are left of which no worker is there; wait only for a while for one to come."""
        kinds = {device.kind for device in self.devices}
        running = [task for task in self._running.values() if task.device and task.device.kind not in kinds]
        left = len(running) + len(queue.left_behind(kinds))
        self._manned = self._manned if left else time.monotonic()
        if time.monotonic() > self._manned + STRANDED_SECONDS:
            raise StrandedError(f"{left} cases are left, because every worker that could measure them is lost")
        return left > 0

    def _give(self, queue: Queue, setup: Setup, needs_host: Callable[[Task], bool]) -> Iterator[Event]:
        """Submit a case for each device that is idle; a repetition of an anchor is for that device alone."""
        busy = {task.device for task in self._running.values()}
        folders = tuple(path.resolve() for path in setup.folders)
        orders = replace(setup, folders=folders), {name: os.environ[name] for name in THREADS if name in os.environ}
        for resource in sorted(self._there):
            device = self._devices[resource]
            upcoming = None if device in busy else queue.next(device)
            if not upcoming:
                continue
            task, behind = upcoming
            # Whole paths do not depend on the working directory.
            files = {name: str(Path(path).resolve()) for name, path in _files(task.case).items()}
            there = replace(task, case=task.case.model_copy(update=files))
            future = self._client.submit(
                measure,
                orders,
                there,
                behind,
                repeated=queue.was_right(task),
                alone=needs_host(task),
                resources={kind_of(device): 1} | ({resource: 1} if task.anchor else {}),
                retries=RETRIES,
                pure=False,
            )
            self._running[future] = task
            self._completed.add(future)
            yield Began(task)
            yield Does(task, RUNNING)

    def _done(self, future: Any, answer: Any, numbers: dict[object, int], log: Path) -> Done:
        task = self._running.pop(future)
        if future.status == "error":
            error = answer[1]
            lost = isinstance(error, distributed.KilledWorker)
            reason = "its worker was lost too often" if lost else f"{type(error).__name__}: {text_of(error)}"
            return Done(task, Outcome("failed", reason), moment())
        resource, outcome, started, printed = answer
        device = self._devices[resource]
        fingerprint = task.fingerprint.model_copy(update={"device_uuid": device.uuid})
        processes = [numbers[resource, number] for number in outcome.results.measurement.processes]
        outcome.results.measurement = outcome.results.measurement.model_copy(update={"processes": processes})
        with log.open("ab") as file:
            file.write(printed)
        return Done(replace(task, device=device, fingerprint=fingerprint), outcome, started)


def _files(case: Case) -> dict[str, str]:
    """Return the fields of a case that name files, with their paths."""
    digests = {"bodies": case.bodies_file_sha256, "interaction": case.interaction_sha256}
    return {name: getattr(case, name) for name, digest in digests.items() if digest}
