"""The process in which kernels run: one per device, spawned, replaceable.

It is given one case at a time, prepares, verifies and measures it, and sends back what it found. A kernel that
faults takes this process with it and nothing else.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, fields
from multiprocessing.connection import Connection
from pathlib import Path

from pydantic import BaseModel

from gravbench.config.settings import Measure
from gravbench.errors import InputError
from gravbench.measuring.step import Stepper
from gravbench.measuring.timed import Call, Timed
from gravbench.measuring.verify import Judge
from gravbench.model import initial_conditions, interaction_files
from gravbench.model.bodies import Bodies
from gravbench.model.case import Case
from gravbench.model.device import Device, Reading
from gravbench.model.record import (
    Errors,
    Inside,
    Measurement,
    Preparation,
    Resources,
    Status,
    Stepping,
)
from gravbench.model.variant import CPU, Prepared, discover
from gravbench.toolkits.devices import sensor
from gravbench.toolkits.interface import DeviceToolkit, ToolkitMissingError
from gravbench.toolkits.opening import open_toolkit

Read = Callable[[], Reading | None]


@dataclass(slots=True)
class Start:
    """How long this process took from being asked for to its first usable device."""

    asked: float = field(default_factory=time.time)
    found: float | None = None

    def seconds(self) -> float:
        """Return it; the first call sets it."""
        if self.found is None:
            self.found = time.time() - self.asked
        return self.found


START = Start()


@dataclass(frozen=True, slots=True)
class Job:
    """A case to verify and, unless ``settings`` is None, to measure."""

    case: Case
    settings: Measure | None


@dataclass(frozen=True, slots=True)
class Phase:
    """A message that names what the worker has begun to do."""

    name: str


@dataclass(slots=True)
class Found:
    """What is known of a case so far: the parts of its record, each whole."""

    preparation: Preparation = field(default_factory=Preparation)
    errors: Errors = field(default_factory=Errors)
    resources: Resources = field(default_factory=Resources)
    measurement: Measurement = field(default_factory=Measurement)
    stepping: Stepping = field(default_factory=Stepping)
    inside: Inside = field(default_factory=Inside)

    def parts(self) -> Iterator[BaseModel]:
        """Return them all."""
        return (getattr(self, part.name) for part in fields(self))


@dataclass(slots=True)
class Outcome:
    """What became of a case, and what was found of it on the way; ``broken`` asks for a new worker."""

    status: Status
    reason: str | None = None
    found: Found = field(default_factory=Found)
    broken: bool = False


def serve(
    connection: Connection, device: Device, folders: tuple[Path, ...], log: Path, parent: int, asked: float
) -> None:
    """Work on jobs until the other side goes away; ``asked`` is the time at which the process was asked for.

    What libraries print, and the tracebacks of what went wrong, go to the file ``log``.
    """
    START.asked = asked
    with log.open("ab", buffering=0) as file:
        os.dup2(file.fileno(), sys.stdout.fileno())
        os.dup2(file.fileno(), sys.stderr.fileno())
    # Ctrl-C reaches the whole group of processes; the parent decides what it means, and blocked it until here.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    _die_with(parent)
    # CUDA then sees this one device; a UUID does not depend on who counts.
    os.environ["CUDA_VISIBLE_DEVICES"] = device.uuid or ""
    try:
        with ExitStack() as stack:
            read: Read = lambda: None  # noqa: E731
            if device.uuid:
                read = stack.enter_context(sensor(device.uuid))
            while True:
                job = connection.recv()
                outcome = work(job, folders, read, lambda name: connection.send(Phase(name)))
                if outcome.status == "failed" and device.is_gpu:
                    # After a fault the CUDA context refuses all further work; only a new process helps.
                    outcome.broken = True
                connection.send(outcome)
    except (EOFError, OSError):
        return


def work(
    job: Job,
    folders: tuple[Path, ...],
    read: Read,
    begin: Callable[[str], None],
) -> Outcome:
    """Do one job; everything that goes wrong in it becomes an outcome."""
    found = Found()
    try:
        objection = _work(job, folders, read, begin, found)
    except (ToolkitMissingError, InputError) as error:
        return Outcome("skipped", str(error), found)
    except MemoryError as error:
        return Outcome("failed", f"out of memory: {error}", found)
    except Exception as error:
        traceback.print_exc()
        return Outcome("failed", f"{type(error).__name__}: {_first_lines(error)}", found)
    return Outcome("invalid" if objection else "ok", objection, found)


def _work(
    job: Job,
    folders: tuple[Path, ...],
    read: Read,
    begin: Callable[[str], None],
    found: Found,
) -> str | None:
    """Fill ``found``; return why the case is invalid, None when it is right."""
    case = job.case
    begin("loading")
    variant = discover(folders)[case.variant]
    bodies = initial_conditions.of_case(case)
    found.preparation = Preparation(bodies_sha256=bodies.sha256)
    begin("compiling")
    toolkit = open_toolkit(case.toolkit, variant, case.dtype, interaction_files.find(case.interaction))
    opened = {
        "start_seconds": START.seconds(),
        "compute_capability": toolkit.compute_capability,
        "compiler": toolkit.compiler,
    }
    found.preparation = found.preparation.model_copy(update=opened)
    prepared = variant.prepare(toolkit, bodies, **case.axes)
    begin("verifying")
    prepared.launch()
    toolkit.synchronize()
    found.preparation = found.preparation.model_copy(update={"compile_seconds": toolkit.compile_seconds})
    # Arrays on the host belong to the CPU, whichever toolkit computes.
    holder = open_toolkit(CPU, variant, case.dtype, toolkit.interaction) if prepared.on_host else toolkit
    judge = Judge(holder, prepared, bodies, variant.accepted(case.dtype, case.axes), case.dtype)
    found.errors, objection = judge.verdict()
    if prepared.kernel is not None:
        found.resources = toolkit.resources(prepared.kernel)
    if objection:
        return objection
    timed = _timed(case, holder, prepared, bodies)
    if objection := timed.objection():
        return f"the force is right, but {objection}"
    if case.timed != "force" and (objection := _again(judge, found)):
        return f"the force is right at first, but not in a {case.timed}: {objection}"
    if job.settings is None:
        return None
    return _measure(job.settings, toolkit, timed, prepared, judge, read, begin, found)


def _timed(case: Case, toolkit: DeviceToolkit, prepared: Prepared, bodies: Bodies) -> Timed:
    """Make what ``case.timed`` names ready for one prepared variant."""
    if case.timed == "call":
        return Call(toolkit, prepared, bodies)
    if case.integrator is not None and case.dt is not None:
        return Stepper(toolkit, prepared, bodies, case.integrator, case.dt)
    return Timed(toolkit, prepared)


def _measure(
    settings: Measure,
    toolkit: DeviceToolkit,
    timed: Timed,
    prepared: Prepared,
    judge: Judge,
    read: Read,
    begin: Callable[[str], None],
    found: Found,
) -> str | None:
    """Measure what was found right, and judge again: return what is wrong after the last launch."""
    # SciPy and what it imports would otherwise load while the first case is measured.
    from gravbench.measuring.protocol import measure, stage_seconds

    begin("measuring")
    timed.start()
    found.measurement = measure(timed.clock, timed.launch, settings, read, timed.kernels)
    toolkit.synchronize()
    if prepared.stages is not None:
        begin("measuring stages")
        found.inside = Inside(stages_seconds=stage_seconds(toolkit, timed.stages))
    if prepared.insight is not None:
        begin("counting")
        found.inside = Inside(**{**found.inside.model_dump(), **prepared.insight()})
    assert found.measurement.median_seconds is not None
    found.stepping, objection = timed.finish(found.measurement.median_seconds)
    if objection:
        return f"right at first, but {objection}"
    # A race or a sum that is not set back may show only after many launches.
    if objection := _again(judge, found):
        return f"right at first, but after the last launch: {objection}"
    return None


def _again(judge: Judge, found: Found) -> str | None:
    """Judge once more; errors that are wrong take the place of those at first."""
    errors, objection = judge.verdict()
    if objection:
        found.errors = errors
    return objection


def _first_lines(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return "; ".join(lines[:4])[:600]


def _die_with(parent: int) -> None:
    """Ask Linux to end this process when its parent is gone, even if that was killed while a kernel runs."""
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
