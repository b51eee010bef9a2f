"""The session of a device: one process that owns it, and works through the cases that it is given, in order.

The process is begun without opening the device: the first case does that. It writes what is printed to a file of its
own, and ends when the other side of its connection is gone. Every message carries the number of its job, so that
nothing which comes late is taken for another case's. What a variant forks off ends itself at its next message.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

from gravbench.model.device import Device

if TYPE_CHECKING:
    from gravbench.measuring.outcome import Outcome
    from gravbench.measuring.stages import Job

READY = "ready"
"""The first message: everything that cases need is imported, and no device is open."""


@dataclass(frozen=True, slots=True)
class Orders:
    """What a session is begun with.

    It sees its ``device`` alone or, where it is for ``several``, the others of its kind after it. In the folder
    ``shared`` sessions leave each other the sums that kernels are judged by. ``threads`` are its share of the host's
    cores; None is all. It imports the libraries of ``toolkits`` before it is ready. ``begun`` is ``time.time()`` when
    the process was asked for.
    """

    device: Device
    folders: tuple[Path, ...]
    log: Path
    shared: Path
    several: bool = False
    threads: int | None = None
    toolkits: tuple[str, ...] = ()
    begun: float = 0.0


@dataclass(frozen=True, slots=True)
class Message:
    """What a session says of the job with this number: the stage that begins, or its outcome."""

    job: int
    content: str | Outcome


def serve(connection: Connection, orders: Orders) -> None:
    """Do jobs until the other side goes away."""
    ignore_interrupts()
    print_to(orders.log)
    devices = _show_devices(orders)
    from gravbench.measuring import stages
    from gravbench.toolkits.devices import reader, sensor
    from gravbench.verifying.shared_sums import SHARED

    if "fork" in multiprocessing.get_all_start_methods():
        # Locks of processes that fork have no name, which would be left when the session is killed; Numba makes some.
        multiprocessing.set_start_method("fork", force=True)
    SHARED.folder = orders.shared
    _import_what_cases_need(orders)
    process = os.getpid()
    try:
        with ExitStack() as stack:
            opened = [stack.enter_context(sensor(device)) for device in devices]
            sensors = [read for read in opened if read]
            station = stages.Station(orders.folders, import_seconds=time.time() - orders.begun)
            connection.send(READY)
            while True:
                job = connection.recv()
                station.read = reader(sensors[: job.case.gpus])
                outcome = stages.run(job, station, partial(_begin, connection, process, job))
                # After a fault the context of the device refuses all further work; only a new process helps.
                outcome.broken = outcome.status == "failed" and orders.device.is_gpu
                _end_if_forked(process)
                connection.send(Message(job.number, outcome))
    except (EOFError, OSError):
        return


def _import_what_cases_need(orders: Orders) -> None:
    """Import and initialize, without opening the device, what would otherwise take time of the first case."""
    from gravbench.model.statistics import median_interval
    from gravbench.model.toolkits import catalogue
    from gravbench.model.variant import discover
    from gravbench.toolkits.devices import family

    median_interval((1.0,))
    for name in orders.toolkits:
        with suppress(Exception):  # the case says so
            catalogue()[name].preload()
    with suppress(Exception):  # likewise
        discover(orders.folders)
        family(orders.device.family).preload()
    # The first case's garbage is then looked for among its own objects alone.
    gc.collect()
    gc.freeze()


def _begin(connection: Connection, process: int, job: Job, stage: str) -> None:
    """Say which stage begins; some wait for an answer, see ``stages.ANSWERED``."""
    from gravbench.measuring import stages

    _end_if_forked(process)
    connection.send(Message(job.number, stage))
    if stage in stages.ANSWERED:
        connection.recv()


def _end_if_forked(process: int) -> None:
    """End a process that a variant forked off the session: it has the session's connection, and no job."""
    if os.getpid() != process:
        os._exit(1)


def ignore_interrupts() -> None:
    """Leave it to the run what Ctrl-C means, which reaches the whole group of its processes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])


def print_to(log: Path) -> None:
    """Have everything that this process prints appended to a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    with log.open("ab", buffering=0) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)


def _show_devices(orders: Orders) -> list[Device]:
    """Let libraries, and Numba's threads, see what is the session's own; return its devices."""
    from gravbench.toolkits.devices import expose, others_like

    devices = [orders.device, *(others_like(orders.device) if orders.several else ())]
    expose(devices)
    if orders.threads is not None:
        os.environ["NUMBA_NUM_THREADS"] = str(orders.threads)
    return devices
