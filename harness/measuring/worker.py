"""The process in which kernels run: one per device, spawned, replaceable.

It is given one case at a time, prepares, verifies and measures it, and sends back what it found. A kernel that
faults takes this process with it and nothing else.
"""

from __future__ import annotations

import math
import os
import threading
import traceback
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter

from gravbench.config.settings import Measure, Verify
from gravbench.errors import ForkedError, InputError
from gravbench.measuring import checks, first_use
from gravbench.measuring.direct_sums import gpu_is_usable
from gravbench.measuring.guard import Limits, begin_case, guarded
from gravbench.measuring.launches import as_timed, at_last, launched_again, left
from gravbench.measuring.outcome import CaseError, Found, Outcome, counted, said, uncounted
from gravbench.measuring.protocol import measure, stage_seconds
from gravbench.measuring.shared_sums import SHARED
from gravbench.measuring.step import Stepper
from gravbench.measuring.tally import COMPILING, LOADING, MEASURING, VERIFYING, WARMING_UP, Phases
from gravbench.measuring.timed import Call, Timed
from gravbench.measuring.turns import MOST_VERIFYING, Turn
from gravbench.measuring.verify import ALL_ROWS_ON_GPU, ALL_ROWS_UP_TO, Judge
from gravbench.model import initial_conditions
from gravbench.model.bodies import Bodies, unfit
from gravbench.model.case import Case
from gravbench.model.device import Device, Reading
from gravbench.model.record import (
    Inside,
    Preparation,
)
from gravbench.model.variant import CPU, Prepared, discover
from gravbench.toolkits import forked
from gravbench.toolkits.cpu import counting_numba
from gravbench.toolkits.devices import others_like, reader, sensor
from gravbench.toolkits.driver import Launch
from gravbench.toolkits.interface import DeviceToolkit, ToolkitMissingError
from gravbench.toolkits.opening import open_toolkit

Read = Callable[[], Reading | None]

SHARED_UP_TO = 1 << 18
"""Bodies up to which a case is verified beside others: more take long, and a device's memory."""

LOOKED_AT = (1, 3, 7)
"""Samples whose results are judged."""


@dataclass(frozen=True, slots=True)
class Job:
    """A case to verify and, unless ``settings`` is None, to measure; ``verify`` says how many bodies are compared.

    Where its median is above ``behind``, in seconds, the case cannot be the fastest, and its sampling may stop. With
    ``again`` another process has just found the same kernel right: it is judged once before the samples and after them.
    So is a kernel of one part that is ``repeated``, as an anchor is, and was found right in this run.
    """

    case: Case
    settings: Measure | None
    verify: Verify | None = None
    behind: float | None = None
    again: bool = False
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Phase:
    """A message that names what the worker has begun to do."""

    name: str


@dataclass(frozen=True, slots=True)
class Ready:
    """A message that a case waits for a turn."""

    turn: Turn


BEGIN = "begin"
"""In place of a job: to import what cases need. The answer, when it is done, is the same."""


def serve(
    connection: Connection,
    words: Connection,
    device: Device,
    folders: tuple[Path, ...],
    log: Path,
    limits: Limits,
    asked: float,
    several: bool = False,
    shared: Path | None = None,
) -> None:
    """Work on jobs until the other side goes away; ``asked`` is ``time.monotonic()`` when the process was asked for.

    CUDA sees the device alone or, where ``several`` are asked for, the others of its kind after it. What libraries
    print, and the tracebacks of what went wrong, go to the file ``log``. ``words`` and ``limits`` are those of
    ``guarded``; in the folder ``shared`` processes leave each other the sums that kernels are judged by.
    """
    first_use.START.asked = asked
    SHARED.folder = shared
    guarded(connection, words, log, limits)
    # A UUID does not depend on who counts.
    uuids = [one.uuid for one in (device, *(others_like(device) if several else ())) if one.uuid]
    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(uuids)

    if device.is_gpu:  # while the first case is loaded
        threading.Thread(target=first_use.initialize, daemon=True).start()

    def turn(asked: Turn) -> bool:
        connection.send(Ready(asked))
        return bool(connection.recv())

    try:
        with ExitStack() as stack:
            sensors = [stack.enter_context(sensor(uuid)) for uuid in uuids]
            while True:
                job = connection.recv()
                if job == BEGIN:
                    first_use.begin(on_gpu=device.is_gpu)
                    connection.send(BEGIN)
                    continue
                begin_case()
                own = sensors[: job.case.gpus]
                outcome = work(job, folders, reader(own), lambda name: connection.send(Phase(name)), turn)
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
    turn: Callable[[Turn], bool] = lambda _: False,
) -> Outcome:
    """Do one job; everything that goes wrong in it becomes an outcome.

    ``turn`` waits for a turn, with which the one before ends, and tells whether the device is warm. ``begin`` is told
    what begins.
    """
    found = Found()
    try:
        objection = _work(job, folders, read, begin, turn, found)
    except (ToolkitMissingError, InputError) as error:
        return Outcome("skipped", said(error), found).recordable()
    except CaseError as error:
        return Outcome("failed", said(error), found).recordable()
    except MemoryError as error:
        return Outcome("failed", f"out of memory: {said(error)}", found).recordable()
    except (Exception, SystemExit) as error:
        with suppress(Exception):  # of an error, or an output, that cannot be printed
            traceback.print_exc()
        return Outcome("failed", f"{type(error).__name__}: {said(error)}", found).recordable()
    return Outcome("invalid" if objection else "ok", objection, found).recordable()


def _work(
    job: Job,
    folders: tuple[Path, ...],
    read: Read,
    begin: Callable[[str], None],
    turn: Callable[[Turn], bool],
    found: Found,
) -> str | None:
    """Fill ``found``; return why the case is invalid, None when it is right."""
    case = job.case
    begin = Phases(begin)
    begin(LOADING)
    variant = discover(folders)[case.variant]
    bodies = initial_conditions.of_case(case)
    found.preparation = Preparation(bodies_sha256=bodies.sha256)
    if reason := unfit(bodies, case.dtype):
        raise CaseError(f"{case.bodies}: {reason}")
    _check_main_module(on_host=case.toolkit == CPU)
    toolkit = first_use.toolkit(case, variant, turn, begin)
    begin(COMPILING)
    opened = {
        "start_seconds": first_use.START.seconds(),
        "compute_capability": toolkit.compute_capability,
        "compiler": toolkit.compiler,
    }
    found.preparation = found.preparation.model_copy(update=opened)
    began = perf_counter() - toolkit.compile_seconds
    warm: bool | None = None
    with counting_numba(toolkit):
        prepared = variant.prepare(toolkit, bodies, **case.axes)
    of_one_part = prepared.stages is None and prepared.insight is None and case.timed == "force"
    if prepared.on_host:
        _check_main_module(on_host=True)
    job = replace(job, again=job.again or (job.repeated and of_one_part))
    found.inside = Inside(uncounted=uncounted(variant, prepared, case.dtype, case.axes), on_host=prepared.on_host)
    if toolkit.linked_by:
        found.preparation = found.preparation.model_copy(update={"gpus_linked_by": toolkit.linked_by})
    if variant.suits_positions(case.axes):
        spent = perf_counter() - toolkit.compile_seconds - began
        found.preparation = found.preparation.model_copy(update={"untimed_seconds": {"preparing": spent}})
    # Arrays on the host belong to the CPU, whichever toolkit computes.
    holder = open_toolkit(CPU, variant, case.dtype, toolkit.interaction) if prepared.on_host else toolkit
    on_gpu = toolkit.compute_capability is not None and gpu_is_usable(toolkit.interaction, case.dtype)
    first_use.make_ready(toolkit.interaction, case.dtype, on_gpu=on_gpu, turn=turn if warm is None else None)
    judge = Judge(
        holder,
        prepared,
        bodies,
        variant.accepted(case.dtype, case.axes),
        case.dtype,
        most_rows=_most_rows(job.verify, bodies.n, on_gpu=on_gpu),
        on_gpu=on_gpu,
    )
    if on_gpu and bodies.n <= ALL_ROWS_ON_GPU:  # others measure meanwhile
        judge.draw(0 if job.again else 1 if job.settings is None else 2)
        judge.load()
    timed = _timed(case, holder, prepared, bodies, on_gpu=on_gpu)
    alone = prepared.on_host or not toolkit.compute_capability or case.timed == "call" or toolkit.gpus > 1
    shared = warm is None and not alone and bodies.n <= SHARED_UP_TO
    if alone or warm is None:
        warm = turn(Turn.ALONE if alone else Turn.VERIFY if shared else Turn.MEASURE)

    def have_it_alone() -> None:
        """Wait until nobody else uses the device."""
        nonlocal shared, warm
        if shared:
            toolkit.synchronize()
            shared, warm = False, turn(Turn.MEASURE)
            begin(VERIFYING)

    begin(VERIFYING)
    with counting_numba(toolkit):
        judge.launch()
    found.preparation = found.preparation.model_copy(update={"compile_seconds": toolkit.compile_seconds})
    found.errors, objection = judge.verdict()
    launch = getattr(prepared.kernel, "launch", None)
    if isinstance(launch, Launch) and not launch.grid_blocks:
        return objection or "the kernel that it names was never launched"
    if prepared.kernel is not None:
        found.resources = toolkit.resources(prepared.kernel)
    if objection:
        return objection
    if job.settings and job.behind is not None and case.timed == "force":
        # A first look, for which one verdict is enough: what is far behind is never recommended.
        have_it_alone()
        begin(WARMING_UP)
        first = measure(
            timed.clock, timed.launch, job.settings, read, timed.kernels, behind=job.behind, look_once=True, warm=warm
        )
        if first.outraced:
            found.measurement = first
            return left(judge, found)
        begin(VERIFYING)
    if not job.again and (objection := launched_again(judge, found, beside=MOST_VERIFYING if shared else 1)):
        return objection
    have_it_alone()
    if not job.again and (objection := as_timed(case, toolkit, judge, timed, found)):
        return objection
    if job.settings is None:
        return None
    objection = _measure(job, job.settings, toolkit, timed, judge, read, begin, found, warm=warm)
    if case.timed == "step" and not alone:
        turn(Turn.NOTHING)
        begin("verifying again")
    found.stepping = timed.stepping()
    return objection


def _check_main_module(*, on_host: bool) -> None:
    """Check that the guard, which imported the main module of the program, could fork this worker.

    Raises:
        CaseError: by then it used what the case needs and no fork brings along.
    """
    try:
        (forked.check_threads if on_host else forked.check_cuda)()
    except ForkedError as error:
        used = "Numba's threads" if on_host else "CUDA"
        why = f"the main module of this program uses {used} as soon as it is imported"
        raise CaseError(f'{why}; accepted: under if __name__ == "__main__"') from error


def _most_rows(verify: Verify | None, n: int, *, on_gpu: bool) -> int:
    """Return the number of bodies up to which all are compared."""
    if verify == "all":
        return n
    return ALL_ROWS_ON_GPU if on_gpu and verify is None else ALL_ROWS_UP_TO


def _timed(case: Case, toolkit: DeviceToolkit, prepared: Prepared, bodies: Bodies, *, on_gpu: bool) -> Timed:
    """Make what ``case.timed`` names ready for one prepared variant."""
    if case.timed == "call":
        return Call(toolkit, prepared, bodies)
    if case.integrator is not None and case.dt is not None:
        return Stepper(toolkit, prepared, bodies, case.integrator, case.dt, on_gpu=on_gpu)
    return Timed(toolkit, prepared)


class _WrongError(Exception):
    """A look at the results between samples found them wrong."""


def _measure(
    job: Job,
    settings: Measure,
    toolkit: DeviceToolkit,
    timed: Timed,
    judge: Judge,
    read: Read,
    begin: Callable[[str], None],
    found: Found,
    *,
    warm: bool,
) -> str | None:
    """Measure what was found right, and judge again: return what is wrong after the last launch.

    Of a job that is done ``again`` only one more launch is judged.
    """
    prepared = judge.prepared
    spoilt = False

    def look(samples: int) -> bool:
        """Judge what some of the samples left."""
        nonlocal spoilt
        if not samples:
            begin(MEASURING)
        spoilt = False
        if prepared.cycle > 1 or not timed.leaves_the_force or job.again:
            return False
        if samples in LOOKED_AT and (objection := left(judge, found)):
            raise _WrongError(f"right at first, but after sample {samples}: {objection}")
        if spoilt := samples + 1 in LOOKED_AT:
            judge.spoil()
        return samples in LOOKED_AT or samples + 1 in LOOKED_AT

    begin(WARMING_UP)
    timed.start()
    try:
        found.measurement = measure(
            timed.clock, timed.launch, settings, read, timed.kernels, look, behind=job.behind, warm=warm
        )
    except _WrongError as wrong:
        return str(wrong)
    if spoilt:  # and no sample followed
        timed.launch()
    toolkit.synchronize()
    if job.again:
        timed.start()  # steps moved the bodies
        return at_last(judge.launched(), found)
    seconds = found.measurement.median_seconds
    assert seconds is not None
    if prepared.stages is not None:
        begin("measuring stages")
        found.inside = found.inside.model_copy(update={"stages_seconds": stage_seconds(toolkit, timed.stages)})
    if prepared.insight is not None:
        begin("counting")
        found.inside = counted(prepared.insight, judge.own.n, found.inside)
    begin("verifying again")
    # Launches that are judged are those of the force alone, and are timed by the host's clock.
    force_alone = timed.leaves_the_force and timed.clock is toolkit
    if timed.clock is toolkit:
        known = judge.quickest if force_alone else math.inf
        slow = checks.wall(toolkit, timed.launch, seconds, found.measurement.launch_seconds or 0.0, known)
        if slow:
            return slow
    if objection := timed.finish():
        return f"right at first, but {objection}"
    # A race or a sum that is not set back may show only after many launches.
    if objection := at_last(judge.verdict(quantiles=False), found):
        return objection
    if judge.tolerance.of_rounding and timed.leaves_the_force:
        interactions = judge.own.n**2 / prepared.cycle
        if objection := checks.speed(judge.toolkit, interactions, seconds):
            return objection
    again = seconds if force_alone and toolkit is judge.toolkit else None
    if objection := judge.elsewhere(and_back=False):
        return objection
    # Those on other bodies were launched for the first time.
    if again and prepared.cycle == 1 and judge.seconds <= checks.LONGER * again:
        return None
    return checks.memory(judge.toolkit, prepared, judge.values, seconds, again)
