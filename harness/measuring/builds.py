"""Build the kernels of cases ahead, in processes that never open a device.

A case is prepared there with a toolkit that only records which kernels it asks for, and those are compiled into the
caches in which the session of a device looks first. Whatever goes wrong here means that a case is not built: its
session compiles it, and says what is wrong with it.
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil

from gravbench.measuring.processes import Started, Workplace
from gravbench.measuring.session import ignore_interrupts, print_to
from gravbench.measuring.tasks import Task
from gravbench.model.blocks import cores
from gravbench.model.case import Case
from gravbench.model.device import Device, Target
from gravbench.model.variant import CPU
from gravbench.toolkits.devices import expose

LIMIT_SECONDS = 120.0
"""Seconds that the build of one case may take, without those in which it is suspended."""
CORES_PER_BUILDER, MOST_BUILDERS = 4, 4
FEW = 256
"""Bodies with which functions for the processor are called: what they are compiled to does not depend on n."""
AHEAD = 4
"""Cases per builder that are looked ahead."""


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
        if target.architecture == CPU:
            _call_once(case, folders)
        else:
            _build(case, target, folders, compiled_now.append)
    except (Exception, SystemExit) as error:
        return Built(compiled_now.count(True), compiled_now.count(False), f"{type(error).__name__}: {error}")
    return Built(compiled_now.count(True), compiled_now.count(False))


def _build(case: Case, target: Target, folders: tuple[Path, ...], count: Callable[[bool], None]) -> None:
    from gravbench.measuring.step import INTEGRATE, integrator_arguments, integrator_constants
    from gravbench.model import initial_conditions
    from gravbench.model.interaction_files import find
    from gravbench.model.quantities import QUANTITIES
    from gravbench.model.toolkits import PACKAGE, catalogue
    from gravbench.model.variant import discover
    from gravbench.toolkits import compile_cache, parts
    from gravbench.toolkits.cpu import when_numba_is_imported
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
    with when_numba_is_imported(compile_cache.keep):
        prepared = variant.prepare(toolkit, bodies, **case.axes)
        if not catalogue()[case.toolkit].cuda_c:  # what it is launched with decides what it is compiled to
            for _ in range(prepared.cycle):
                prepared.launch()
    compile_recorded(toolkit, variant)
    if QUANTITIES[case.timed].steps:
        toolkit = recording()
        kernel = toolkit.compile("integrate", **integrator_constants(prepared))
        velocities = tuple(toolkit.upload(column) for column in bodies.velocity.T)
        numbers = (toolkit.real(0),) * 3
        kernel(1, parts.BLOCK, *integrator_arguments(prepared, velocities, bodies.n), *numbers)
        compile_recorded(toolkit, INTEGRATE)


def _call_once(case: Case, folders: tuple[Path, ...]) -> None:
    """Have Numba compile and keep what a case of the processor calls, by an evaluation of a few bodies."""
    from gravbench.model import initial_conditions
    from gravbench.model.interaction_files import find
    from gravbench.model.variant import discover
    from gravbench.toolkits.cpu import counting_numba
    from gravbench.toolkits.opening import open_toolkit

    variant = discover(folders)[case.variant]
    bodies = initial_conditions.of_case(case.model_copy(update={"n": min(case.n, FEW)}))
    toolkit = open_toolkit(CPU, variant, case.dtype, find(case.interaction))
    with counting_numba(toolkit):
        variant.prepare(toolkit, bodies, **case.axes).launch()


def serve(connection: Connection, folders: tuple[Path, ...], log: Path) -> None:
    """Build one case after another, in a process of its own, until the other side goes away."""
    ignore_interrupts()
    print_to(log)
    expose(())  # no device at all
    os.environ |= {"NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    lower = getattr(psutil, "BELOW_NORMAL_PRIORITY_CLASS", 10)  # the former is Windows'
    psutil.Process().nice(lower)
    with suppress(EOFError, OSError):
        while True:
            case, target = connection.recv()
            connection.send(build(case, target, folders))


class BuildPool:
    """Builds the kernels of cases ahead, in a few processes that are all suspended while a case is measured.

    A build that crashes or takes too long costs the process that it runs in, and its case is built by its session.
    """

    def __init__(
        self,
        folders: tuple[Path, ...],
        log: Path,
        targets: Mapping[Device, Target],
        limit_seconds: float = LIMIT_SECONDS,
    ) -> None:
        """Start nothing yet. The kernels of devices without a target are left to their sessions.

        What compilers print goes to the file ``log``.
        """
        self._arguments = folders, log
        self._limit_seconds = limit_seconds
        self._targets = targets
        self._most = max(1, min(MOST_BUILDERS, cores() // CORES_PER_BUILDER))
        self._builders: list[_Builder] = []
        self._wanted: dict[object, tuple[Case, Target]] = {}
        self._begun: set[object] = set()
        self._suspended_at: float | None = None
        self.built: dict[object, Built] = {}
        """What came of each case, by what identifies it and its device's architecture."""

    @property
    def waits_for(self) -> list[Connection | int]:
        """What becomes ready when a build has ended; nothing while they are suspended."""
        if self._suspended_at is not None:
            return []
        return [builder.connection for builder in self._builders if builder.work is not None]

    def want(self, task: Task, upcoming: Sequence[Task], place: Workplace) -> None:
        """Have the kernels of a task built next, then those of upcoming ones, as far as processes look ahead."""
        if (key := self._key(task)) is not None and (key in self._wanted or key not in self._begun):
            self._begun.add(key)
            self._wanted = {key: (task.case, key[1])} | self._wanted
        for other in upcoming:
            if len(self._wanted) >= AHEAD * self._most:
                break
            if (key := self._key(other)) is not None and key not in self._begun:
                self._begun.add(key)
                self._wanted[key] = other.case, key[1]
        self._hand_out(place)

    def is_done(self, task: Task) -> bool:
        """Tell whether nothing is left to build for a task, or building it ahead has failed."""
        key = self._key(task)
        return key is None or key in self.built

    def step(self, place: Workplace) -> None:
        """Take what builders have done, end those that take too long, and hand out what is wanted."""
        if self._suspended_at is not None:
            return
        for builder in list(self._builders):
            # One without work has no time limit, which a look would apply.
            if builder.work is None or (built := builder.look()) is None:
                continue
            self.built[builder.work] = built
            builder.work = None
            if builder.is_lost:
                self._builders.remove(builder)
                builder.process.end()
        self._hand_out(place)

    def suspend(self) -> None:
        """Build nothing for a while."""
        if self._suspended_at is None:
            self._suspended_at = time.monotonic()
            for builder in self._builders:
                if builder.work is not None:
                    builder.process.suspend()

    def resume(self) -> None:
        """Go on."""
        if self._suspended_at is not None:
            for builder in self._builders:
                builder.process.resume()
                builder.deadline += time.monotonic() - self._suspended_at
            self._suspended_at = None

    def close(self) -> None:
        """End all builders; what they have not built is left to the sessions."""
        while self._builders:
            self._builders.pop().process.end()
        self._targets = {}

    def _key(self, task: Task) -> tuple[object, Target] | None:
        """Identify what is built for a task, and for what; None where nothing is."""
        target = self._targets.get(task.device) if task.device else None
        return None if target is None else (task.case.identity, target)

    def _hand_out(self, place: Workplace) -> None:
        if self._suspended_at is not None:
            return
        while self._wanted:
            builder = next((builder for builder in self._builders if builder.work is None), None)
            if builder is None:
                if len(self._builders) == self._most:
                    return
                builder = _Builder(place, self._arguments, self._limit_seconds)
                self._builders.append(builder)
            key = next(iter(self._wanted))
            builder.give(key, *self._wanted.pop(key))


class _Builder:
    """A process that builds one case at a time: ``work`` identifies it."""

    def __init__(self, place: Workplace, arguments: tuple[object, ...], limit_seconds: float) -> None:
        self.process = Started(place, serve, arguments)
        self._limit_seconds = limit_seconds
        self.connection = self.process.connection
        self.work: object = None
        self.deadline = 0.0
        self.is_lost = False

    def give(self, key: object, case: Case, target: Target) -> None:
        """Have it build a case."""
        self.work, self.deadline = key, time.monotonic() + self._limit_seconds
        with suppress(OSError):  # it has ended, which ``look`` finds
            self.connection.send((case, target))

    def look(self) -> Built | None:
        """Return what came of its case; None where it is still at work."""
        try:
            if self.connection.poll():
                built: Built = self.connection.recv()
                return built
        except (EOFError, OSError):
            self.is_lost = True
            return Built(reason="the process that compiled it has ended")
        self.is_lost = time.monotonic() > self.deadline
        return Built(reason=f"it took longer than {self._limit_seconds:g} s to compile") if self.is_lost else None
