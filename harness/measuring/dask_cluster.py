"""A run on Dask's ``distributed``: the devices of its workers, and what asks the processes there from here.

Each Dask worker is one device. Its cases are tasks of Dask's, restricted to it, and what they tell meanwhile comes as
events. A worker that goes is noticed by asking the scheduler; a worker that comes during a run is not used.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from gravbench.config.load import Sweep
from gravbench.config.settings import Measure
from gravbench.errors import InputError
from gravbench.measuring import dask_post
from gravbench.measuring.dask_members import Member, members
from gravbench.measuring.dask_post import Orders, same_needed
from gravbench.measuring.lanes import Asked, LostError
from gravbench.measuring.outcome import Outcome, said
from gravbench.measuring.plan import Plan
from gravbench.measuring.tally import READY
from gravbench.measuring.turns import Ended, Turn
from gravbench.measuring.worker import Job
from gravbench.model.case import Case
from gravbench.model.device import Device
from gravbench.model.record import Fingerprint
from gravbench.toolkits.devices import gpus

LOCAL = "local"
"""What stands for a cluster of this machine."""
CONNECT_SECONDS = 10.0
CALL_SECONDS = 60.0
"""For which a worker, or the scheduler, may take to answer a short question, the first time with all its imports."""
TRIES = 5
"""To get to know workers that have just come."""
LOOK_SECONDS = 1.0
"""Between two looks at which workers there are."""
KEEP_SECONDS = 15.0
"""Between two words that keep the posts; less than a third of ``LEASE_SECONDS``."""
STARTED_ANEW = "its process was restarted"

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _Gone:
    """A message that a worker is lost."""

    reason: str


@contextmanager
def connected(where: str, say: Say) -> Iterator[Cluster]:
    """Connect to the scheduler at an address or in a scheduler file, or start a cluster of this machine: ``local``.

    ``say`` is given sentences about workers that are lost.

    Raises:
        InputError: distributed is not installed, no scheduler answers, it has no workers, or ``members`` refuses them.
    """
    try:
        import distributed
    except ImportError as error:
        raise InputError(
            f"--dask needs the package distributed ({said(error)}); install it with pip install 'gravbench[dask]'"
        ) from None
    for name in ("distributed", "distributed.client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with ExitStack() as stack:
        address = stack.enter_context(_local(distributed)) if where == LOCAL else _address(where)
        try:
            client = distributed.Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
        except Exception as error:  # of many types, by the kind of the address
            raise InputError(
                f"--dask {where}: no Dask scheduler answers at {address} within {CONNECT_SECONDS:g} s: {said(error)}"
            ) from None
        stack.callback(client.close, CONNECT_SECONDS)
        cluster = Cluster(client, local=where == LOCAL, say=say)
        stack.callback(cluster.close)
        yield cluster


def _address(where: str) -> str:
    """Return the address of a scheduler; that in a scheduler file where it is one."""
    path = Path(where)
    with suppress(OSError):
        if path.is_file():
            try:
                return str(json.loads(path.read_text("utf-8"))["address"])
            except (OSError, ValueError, LookupError, TypeError) as error:
                raise InputError(f"--dask {where}: is not a Dask scheduler file: {said(error)}") from None
    if ":" not in where:
        raise InputError(f"--dask {where}: no such file; accepted: tcp://HOST:PORT, a scheduler file, or {LOCAL}")
    return where


@contextmanager
def _local(distributed: Any) -> Iterator[str]:
    """Start a scheduler and one worker per GPU, or one for the processor, and yield the scheduler's address."""
    found, _ = gpus()
    visible = [device.uuid or "" for device in found] or [""]
    at = {"host": "127.0.0.1", "protocol": "tcp://"}
    scheduler = {"cls": distributed.Scheduler, "options": at | {"port": 0, "dashboard": False}}
    options = at | {"nthreads": 1, "memory_limit": 0, "dashboard": False, "silence_logs": logging.CRITICAL}
    workers = {
        number: {"cls": distributed.Nanny, "options": options | {"env": {"CUDA_VISIBLE_DEVICES": one}}}
        for number, one in enumerate(visible)
    }
    try:
        cluster = distributed.SpecCluster(workers, scheduler, silence_logs=logging.CRITICAL)
    except Exception as error:  # of many types, by what a host or its network lacks
        raise InputError(f"--dask {LOCAL}: its workers do not start: {type(error).__name__}: {said(error)}") from error
    with cluster:
        yield cluster.scheduler_address


class Cluster:
    """The Dask workers that a client found, as a site of devices."""

    losable = True

    def __init__(self, client: Any, *, local: bool, say: Say) -> None:
        """Get to know the workers."""
        self._client = client
        self._local = local
        self._say = say
        self._run = f"gravbench-{uuid.uuid4().hex[:12]}"
        self._lock = threading.Lock()
        self._tickets = itertools.count(1)
        self._inboxes: dict[int, SimpleQueue[object]] = {}
        self._closed = threading.Event()
        self._watching = threading.Thread(target=self._watch, name="dask workers", daemon=True)
        introductions = self._introductions()
        if not introductions:
            raise InputError(f"the Dask scheduler {client.scheduler.address} has no workers; start one per GPU")
        self._members = {one.device.selector: one for one in members(introductions, same_needed())}

    def _introductions(self) -> dict[str, Any]:
        """Have the workers say what they are; those that go meanwhile are left out."""
        answers: dict[str, Any] = {}
        for _ in range(TRIES):
            answers = self._call(dask_post.introduce, on=self._there())
            # A scheduler may keep a connection to the process that had a worker's address before.
            if not any(isinstance(one, OSError) for one in answers.values()):
                break
            time.sleep(LOOK_SECONDS)
        for address, one in answers.items():
            if isinstance(one, Exception):
                raise InputError(f"the Dask worker {address} cannot use gravbench: {type(one).__name__}: {said(one)}")
        return answers

    @property
    def devices(self) -> list[Device]:
        """One per worker."""
        return [one.device for one in self._members.values()]

    @property
    def no_gpu(self) -> str | None:
        """Why there is no GPU among them."""
        return None if any(one.is_gpu for one in self.devices) else "no Dask worker sees an NVIDIA GPU"

    def prepare(self, sweep: Sweep, todo: Plan) -> None:
        """Open the posts of a run on all workers.

        Raises:
            InputError: what would run there is not what was planned, or a worker does not answer.
        """
        folders = tuple(one.resolve() for one in sweep.variant_folders)
        threads = {name: value for name in dask_post.THREADS if (value := os.environ.get(name)) is not None}
        asked: dict[object, dict[object, tuple[Case, Fingerprint]]] = defaultdict(dict)
        for task in todo.tasks:
            if task.device:
                case = task.case
                same = case.variant, case.toolkit, case.interaction, case.timed, case.bodies
                asked[task.device.kind].setdefault(same, (_found_anywhere(case), task.fingerprint))
        self._client.subscribe_topic(self._run, self._hear)
        orders = {
            one.address: Orders(
                self._run, one.device, folders, sweep.measure, tuple(asked[one.device.kind].values()), threads
            )
            for one in self._members.values()
        }
        hosts = {one.address: one.host for one in self._members.values()}
        for address, answer in self._call(dask_post.open_post, orders, local=self._local, on=list(orders)).items():
            if answer is not None:
                reason = f"does not answer: {said(answer)}" if isinstance(answer, Exception) else answer
                raise InputError(f"the Dask worker {address} on {hosts[address]} {reason}")
        self._watching.start()

    def host(self, device: Device) -> str:
        """Name the host of a device."""
        return self._members[device.selector].host

    def start(
        self,
        device: Device,
        folders: tuple[Path, ...],  # noqa: ARG002
        log: Path,
        measure: Measure,  # noqa: ARG002
        *,
        several: bool = False,  # noqa: ARG002
    ) -> Asked:
        """Start a process at the worker of a device, when it is first asked; its post knows the rest.

        A Dask worker has one GPU: what ``several`` share has been skipped when the run was planned.
        """
        return RemoteWorker(self, self._members[device.selector], next(self._tickets), log)

    def ask(
        self,
        member: Member,
        number: int,
        job: Job,
        log: Path,
        inbox: SimpleQueue[object],
        begins: Callable[[str], None],
        turn: Callable[[Turn], bool],
    ) -> Outcome:
        """Have the process of a number do a job, as ``Worker.ask`` does; what it tells comes through ``inbox``.

        Raises:
            LostError: the worker is lost.
            Ended: None came through ``inbox``.
        """
        ticket = next(self._tickets)
        job = replace(job, case=_found_anywhere(job.case))
        with self._lock:
            member.inboxes[ticket] = self._inboxes[ticket] = inbox
            if member.lost:
                inbox.put(_Gone(member.lost))
        key = f"{job.case.label}-{self._run}-{ticket}"
        future = self._client.submit(
            dask_post.answer, self._run, number, ticket, job, key=key, workers=[member.address], pure=False
        )
        future.add_done_callback(inbox.put)
        try:
            while True:
                match inbox.get():
                    case _Gone(reason):
                        raise LostError(reason)
                    case None:
                        raise Ended
                    case {"phase": str(phase)}:
                        begins(phase)
                    case {"turn": str(asked)}:
                        begins(READY)
                        self._told(member, dask_post.go_on, self._run, ticket, turn(Turn(asked)))
                    case _:
                        return self._result(member, future, log)
        finally:
            with self._lock:
                del member.inboxes[ticket], self._inboxes[ticket]
            with suppress(Exception):  # as where the client is closed
                future.release()

    def _result(self, member: Member, future: Any, log: Path) -> Outcome:
        while True:
            try:
                answer = future.result(timeout=LOOK_SECONDS)
                break
            except Exception as error:
                on_its_way = isinstance(error, TimeoutError) and future.status in ("pending", "finished")
                if member.lost or not on_its_way:
                    raise self._lose(member, f"{type(error).__name__}: {said(error)}") from None
        if answer is None:
            raise self._lose(member, STARTED_ANEW)
        outcome, printed = answer
        if printed:
            with log.open("ab") as file:
                file.write(printed)
        assert isinstance(outcome, Outcome)
        return outcome

    def forget(self, member: Member, number: int) -> None:
        """End a process of a worker; one that is lost has ended its own."""
        if not member.lost and not self._closed.is_set():
            with suppress(LostError):
                self._told(member, dask_post.forget, self._run, number)

    def close(self) -> None:
        """End all that the run has begun at the workers."""
        self._closed.set()
        if self._watching.is_alive():
            self._watching.join(CONNECT_SECONDS)
        living = [one.address for one in self._members.values() if not one.lost]
        with suppress(Exception):  # nobody can be told any more; the posts end by themselves
            self._call(dask_post.close_post, self._run, on=living)

    def _hear(self, event: tuple[float, Any]) -> None:
        message = event[1]
        with self._lock:
            if inbox := self._inboxes.get(message["ticket"]):
                inbox.put(message)

    def _lose(self, member: Member, reason: str) -> LostError:
        """Note that a worker is lost, tell whoever waits for it, and return what to raise."""
        with self._lock:
            known, member.lost = member.lost, member.lost or reason
            for inbox in member.inboxes.values():
                inbox.put(_Gone(member.lost))
        if not known and not self._closed.is_set():
            self._say(f"the Dask worker {member.device.selector} ({member.address}) is lost: {reason}")
        return LostError(member.lost)

    def _watch(self) -> None:
        """Look which workers are there, and keep their posts, until the run ends."""
        for look in itertools.count(1):
            if self._closed.wait(LOOK_SECONDS):
                return
            left = {one.address: one for one in self._members.values() if not one.lost}
            if not left:
                return
            try:
                there = self._there()
            except Exception as error:
                for one in left.values():
                    self._lose(one, f"the scheduler does not answer: {said(error) or type(error).__name__}")
                return
            for address, one in left.items():
                if address not in there:
                    self._lose(one, "it is no longer connected to the scheduler")
            if look % round(KEEP_SECONDS / LOOK_SECONDS):
                continue
            for one in left.values():
                if not one.lost:
                    self._begin(dask_post.keep, self._run, on=one).add_done_callback(partial(self._kept, one))

    def _kept(self, member: Member, answered: Future[Any]) -> None:
        # One that does not answer is one that the scheduler will miss.
        if not answered.cancelled() and not answered.exception() and answered.result() == {member.address: False}:
            self._lose(member, STARTED_ANEW)

    def _there(self) -> list[str]:
        """Return the addresses of all workers that are connected to the scheduler."""
        found = self._client.sync(self._client.scheduler.ncores, workers=None, callback_timeout=CALL_SECONDS)
        return sorted(found)

    def _call(self, function: Callable[..., Any], *arguments: Any, on: list[str], **named: Any) -> dict[str, Any]:
        """Call a function in the processes of workers, beside their tasks; an exception stands for its result."""
        # Client.run, which has no limit of time.
        found: dict[str, Any] = self._client.sync(
            self._client._run,
            function,
            *arguments,
            workers=on,
            on_error="return",
            callback_timeout=CALL_SECONDS,
            **named,
        )
        return found

    def _begin(self, function: Callable[..., Any], *arguments: Any, on: Member) -> Future[Any]:
        """Begin to call a function in the process of one worker, beside its tasks."""
        called = self._client._run(function, *arguments, workers=[on.address])
        return asyncio.run_coroutine_threadsafe(called, self._client.loop.asyncio_loop)

    def _told(self, member: Member, function: Callable[..., Any], *arguments: Any) -> None:
        """Call a function at one worker, and wait until that is done, or the worker is lost: it is if this fails."""
        try:
            done = self._begin(function, *arguments, on=member)
            # To connect to a host that is gone takes longer than to learn that it is.
            while not member.lost and not wait([done], LOOK_SECONDS).done:
                pass
            if not member.lost:
                done.result()
        except Exception as error:
            raise self._lose(member, f"it does not answer: {said(error) or type(error).__name__}") from None
        if member.lost:
            done.cancel()
            raise LostError(member.lost)


class RemoteWorker:
    """A process at a Dask worker, as a lane sees it."""

    def __init__(self, cluster: Cluster, member: Member, number: int, log: Path) -> None:
        """Its number tells it apart; what it prints goes to the file ``log``."""
        self._cluster = cluster
        self._member = member
        self._number = number
        self._log = log
        self._inbox = SimpleQueue[object]()

    def ask(self, job: Job, begins: Callable[[str], None], turn: Callable[[Turn], bool]) -> Outcome:
        """Have one job done as ``Worker.ask`` does.

        Raises:
            LostError: the Dask worker is lost.
            Ended: ``end`` was called.
        """
        return self._cluster.ask(self._member, self._number, job, self._log, self._inbox, begins, turn)

    def begin(self) -> None:
        """Nothing: a Dask worker starts a process when it is given a case."""

    def ready(self) -> None:
        """Nothing was begun."""

    def end(self) -> None:
        """Wait no longer for an answer; ``Cluster.close`` ends the process."""
        self._inbox.put(None)

    def stop(self) -> None:
        """End the process."""
        self._cluster.forget(self._member, self._number)


def _found_anywhere(case: Case) -> Case:
    """Name the files of a case by their whole paths, which do not depend on the working directory."""
    files = {
        name: str(Path(getattr(case, name)).resolve())
        for name, content in (("bodies", case.bodies_file_sha256), ("interaction", case.interaction_sha256))
        if content
    }
    return case.model_copy(update=files) if files else case
