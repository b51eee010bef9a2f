"""Build the kernels of cases ahead, in processes that never open a device.

A case is prepared there with a toolkit that only records which kernels it asks for, and those are compiled into the
caches in which the session of a device looks first. Whatever goes wrong here means that a case is not built: its
session compiles it, and says what is wrong with it.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import psutil

from gravbench.measuring import orphans
from gravbench.model.case import Case

LIMIT_SECONDS = 120.0
"""Seconds that the build of one case may take, without those in which it is suspended."""
CLOSE_SECONDS = 5.0
"""Seconds in which the process that watches has ended."""


@dataclass(frozen=True, slots=True)
class Target:
    """What kernels are built for: an architecture such as ``sm_90``, and the multiprocessors of the device."""

    architecture: str
    multiprocessors: int


@dataclass(frozen=True, slots=True)
class Built:
    """What came of a build: how many kernels were compiled, and how many were there already.

    ``reason`` says why kernels are missing; None where all of the case are built.
    """

    compiled: int = 0
    present: int = 0
    reason: str | None = None


def build(case: Case, target: Target, folders: tuple[Path, ...]) -> Built:
    """Compile every kernel of a case; for a process that never opens a device. Raises nothing."""
    compiled_now: list[bool] = []
    try:
        _build(case, target, folders, compiled_now.append)
    except (Exception, SystemExit) as error:
        return Built(compiled_now.count(True), compiled_now.count(False), f"{type(error).__name__}: {error}")
    return Built(compiled_now.count(True), compiled_now.count(False))


def _build(case: Case, target: Target, folders: tuple[Path, ...], count: Callable[[bool], None]) -> None:
    from gravbench.measuring.step import INTEGRATE, integrator_arguments, integrator_constants
    from gravbench.model import initial_conditions
    from gravbench.model.interaction_files import find
    from gravbench.model.toolkits import PACKAGE, catalogue
    from gravbench.model.variant import discover
    from gravbench.toolkits import parts
    from gravbench.toolkits.recording import RecordingToolkit

    build_ahead = getattr(importlib.import_module(f"{PACKAGE}.{case.toolkit}"), "build_ahead", None)
    if build_ahead is None:
        raise NotImplementedError(f"{catalogue()[case.toolkit].title} compiles in the session")
    variant, bodies = discover(folders)[case.variant], initial_conditions.of_case(case)
    interaction = find(case.interaction)

    def recording() -> RecordingToolkit:
        return RecordingToolkit(case.dtype, interaction, target.multiprocessors)

    def compile_recorded(toolkit: RecordingToolkit, source: Any) -> None:
        for kernel in toolkit.kernels:
            count(build_ahead(kernel.job(source, toolkit.real, interaction), target.architecture))

    toolkit = recording()
    prepared = variant.prepare(toolkit, bodies, **case.axes)
    if not catalogue()[case.toolkit].cuda_c:  # what it is launched with decides what it is compiled to
        for _ in range(prepared.cycle):
            prepared.launch()
    compile_recorded(toolkit, variant)
    if case.timed == "step":
        toolkit = recording()
        kernel = toolkit.compile("integrate", **integrator_constants(prepared))
        velocities = tuple(toolkit.upload(column) for column in bodies.velocity.T)
        numbers = (toolkit.real(0),) * 3
        kernel(1, parts.BLOCK, *integrator_arguments(prepared, velocities, bodies.n), *numbers)
        compile_recorded(toolkit, INTEGRATE)


def serve(connection: Connection, folders: tuple[Path, ...], log: Path) -> None:
    """Build one case after another, in a process of its own, until the other side goes away."""
    os.environ |= {"CUDA_VISIBLE_DEVICES": "", "NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    if sys.platform == "win32":
        psutil.Process().nice(psutil.BELOW_NORMAL_PRIORITY_CLASS)
    else:
        psutil.Process().nice(10)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(output, stream)
    with suppress(EOFError, OSError, KeyboardInterrupt):
        while True:
            case, target = connection.recv()
            connection.send(build(case, target, folders))


class BuildPool:
    """Builds cases in so many processes, which all stand still between ``suspend`` and ``resume``.

    A build that crashes or takes longer than ``limit_seconds`` costs the process that it runs in, and no other build.
    What compilers print goes to the file ``log``. A pool has to be closed.
    """

    def __init__(
        self,
        workers: int,
        folders: tuple[Path, ...],
        log: Path = Path(os.devnull),
        limit_seconds: float = LIMIT_SECONDS,
    ) -> None:
        self._start = partial(_Builder, folders, log, self._watch)
        self._limit_seconds = limit_seconds
        self._threads = ThreadPoolExecutor(workers, "build")
        self._own = threading.local()
        self._changed = threading.Condition()
        # Guarded by it:
        self._builders: set[_Builder] = set()
        self._is_closed = False
        self._suspended_since: float | None = None
        self._suspended_seconds = 0.0
        self._orphans: subprocess.Popen[bytes] | None = None

    def submit(self, case: Case, target: Target) -> Future[Built]:
        """Build a case when a process is free. The result is there whatever happens, unless it is cancelled."""
        return self._threads.submit(self._build, case, target)

    def suspend(self) -> None:
        """Have all processes stand still; when this returns, none of them runs."""
        with self._changed:
            if self._suspended_since is None:
                self._suspended_since = time.monotonic()
                for builder in self._builders:
                    builder.suspend()

    def resume(self) -> None:
        """Have all processes go on."""
        with self._changed:
            if self._suspended_since is not None:
                self._suspended_seconds += time.monotonic() - self._suspended_since
                self._suspended_since = None
                for builder in self._builders:
                    builder.resume()
                self._changed.notify_all()

    def close(self) -> None:
        """End all processes, and all builds that have not ended, as not built."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        with self._changed:
            self._is_closed = True
            for builder in self._builders:
                builder.end()
            self._changed.notify_all()
        self._threads.shutdown()
        for builder in self._builders:
            builder.end_and_wait()
        if self._orphans and self._orphans.stdin:
            self._orphans.stdin.close()
            self._orphans.wait(CLOSE_SECONDS)

    def __enter__(self) -> BuildPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _build(self, case: Case, target: Target) -> Built:
        """Build a case in this thread's process, and replace that where it is of no use any more."""
        try:
            with self._changed:
                self._changed.wait_for(lambda: self._suspended_since is None or self._is_closed)
                if self._is_closed:
                    return Built(reason="the run has ended")
                builder = getattr(self._own, "builder", None)
                if builder is None:
                    builder = self._own.builder = self._start()
                    self._builders.add(builder)
                builder.connection.send((case, target))
            built = self._answer(builder)
        except (EOFError, OSError):
            built = Built(reason="the process that compiled it has ended")
        else:
            if built is not None:
                return built
            built = Built(reason=f"it took longer than {self._limit_seconds:g} s to compile")
        self._drop()
        return built

    def _answer(self, builder: _Builder) -> Built | None:
        """Wait for what a process sends; None where that takes too long.

        Raises:
            EOFError: the process has ended.
        """
        began = self._running_seconds()
        while (left := self._limit_seconds - (self._running_seconds() - began)) > 0:
            if wait([builder.connection], left):
                built: Built = builder.connection.recv()
                return built
        return None

    def _running_seconds(self) -> float:
        """Return the seconds of a clock that stands still while the pool is suspended."""
        with self._changed:
            return (self._suspended_since or time.monotonic()) - self._suspended_seconds

    def _drop(self) -> None:
        """End this thread's process; the next build starts another."""
        with self._changed:
            builder = self._own.__dict__.pop("builder", None)
            self._builders.discard(builder)
        if builder is not None:
            builder.end_and_wait()

    def _watch(self, pid: int) -> None:
        """Have a process ended when this one is gone; the one that does so is started with the first."""
        if self._orphans is None:
            command = [sys.executable, "-m", orphans.__name__]
            self._orphans = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
        assert self._orphans.stdin
        self._orphans.stdin.write(f"{pid}\n".encode())
        self._orphans.stdin.flush()


class _Builder:
    """A process that builds."""

    def __init__(self, folders: tuple[Path, ...], log: Path, watch: Callable[[int], None]) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self._process = context.Process(target=serve, args=(other, folders, log), daemon=True)
        self._process.start()
        other.close()  # or the end of the process would not be noticed
        assert self._process.pid
        self.process = psutil.Process(self._process.pid)
        watch(self._process.pid)

    def suspend(self) -> None:
        """Have it and all that it has started stand still, itself first, so that it starts nothing more meanwhile."""
        with suppress(psutil.Error):
            self.process.suspend()
        for each in orphans.tree(self.process)[1:]:
            with suppress(psutil.Error):
                each.suspend()

    def resume(self) -> None:
        """Have them go on."""
        for each in orphans.tree(self.process):
            with suppress(psutil.Error):
                each.resume()

    def end(self) -> None:
        """End it and all that it has started; whoever waits for it notices."""
        orphans.end(self.process)

    def end_and_wait(self) -> None:
        """End it, and wait until it is gone; for the one that waits for its answers."""
        self.end()
        self._process.join()
        self.connection.close()
