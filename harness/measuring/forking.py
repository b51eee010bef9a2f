"""The process that workers of GPUs are forked from: it has imported what all of them need, and has no CUDA context.

To import it takes seconds, several times as long as to open a device. So it is begun before anything is planned, and
this module imports little.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import forkserver, resource_tracker
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

from gravbench.errors import InputError

PRELOADED = ("__main__", "gravbench.measuring.worker", "gravbench.measuring.preloading")
"""What most workers of GPUs import. None of it opens a device when imported: a CUDA context does not survive a fork."""
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
NVIDIA = Path("/proc/driver/nvidia")
"""Is there where the driver is; not under WSL, where the process is begun by the first worker."""


def _forget() -> None:
    """Have a forked process begin a fork server of its own: it may not wait for that of its parent."""
    server: Any = forkserver._forkserver
    if server._forkserver_pid is not None:
        os.close(server._forkserver_alive_fd)
        server.__init__()  # there is no other way to set it back


os.register_at_fork(after_in_child=_forget)


def check_may_start() -> None:
    """Check that this process may start others.

    Raises:
        InputError: it is daemonic, which multiprocessing forbids to start processes.
    """
    if multiprocessing.current_process().daemon:
        raise InputError(
            "a run starts processes, which multiprocessing does not let a daemonic process do, such as a worker of "
            "multiprocessing.Pool; accepted: the main process, a Process with daemon=False, or a worker of "
            "concurrent.futures.ProcessPoolExecutor"
        )


@contextmanager
def held_back() -> Iterator[None]:
    """Let the signals that stop a run wait: a worker starts whole, and is known before it has to be stopped."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def context() -> ForkServerContext:
    """Return what forks from that process."""
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(list(PRELOADED))
    return found


def begin() -> None:
    """Begin that process on a host with a GPU, and do not wait for it."""
    if NVIDIA.exists():
        context()
        # Its start lets Ctrl-C through, also to what is started with it.
        resource_tracker.ensure_running()
        with held_back():
            forkserver.ensure_running()
