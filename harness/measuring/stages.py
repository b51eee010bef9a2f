"""The stages of a case, one after another, as a session goes through them.

A stage takes the state that those before it left and returns it. A result that is wrong ends the case (``WrongError``),
and so does all else that goes wrong; ``run`` makes an outcome of it. Nothing here knows of other processes.
"""

from __future__ import annotations

import gc
import math
import secrets
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter

from gravbench.config.settings import Measure, Verify
from gravbench.errors import InputError
from gravbench.measuring import protocol
from gravbench.measuring.outcome import CaseError, Outcome, Results, counted, text_of, uncounted
from gravbench.measuring.timed import Subject, Timed, timer
from gravbench.model import initial_conditions, interaction_files
from gravbench.model.bodies import Bodies, unfit
from gravbench.model.case import Case
from gravbench.model.device import Reading
from gravbench.model.quantities import FORCE
from gravbench.model.record import Inside, Preparation
from gravbench.model.statistics import median_interval
from gravbench.model.variant import CPU, Prepared, Variant, discover
from gravbench.toolkits.cpu import counting_numba
from gravbench.toolkits.device_sums import DeviceSums
from gravbench.toolkits.interface import DeviceToolkit, ToolkitMissingError
from gravbench.toolkits.opening import open_toolkit
from gravbench.verifying import checks
from gravbench.verifying.direct_sums import usable
from gravbench.verifying.outside import OWN
from gravbench.verifying.verify import ALL_ROWS_ON_GPU, ALL_ROWS_UP_TO, Judge, WrongError, check

LOADING, COMPILING, VERIFYING, RACING = "loading", "compiling", "verifying", "racing"
WARMING_UP, MEASURING, VERIFYING_AGAIN, RELEASING = "warming up", "measuring", "verifying again", "releasing"

MEASURED = (RACING, WARMING_UP, MEASURING)
"""Stages beside which nothing else of the run computes."""
ANSWERED = (COMPILING, *MEASURED)
"""Stages that begin when the run says so: once kernels have been built ahead, and once nothing else computes."""
WARM_SECONDS = 2.0
"""For which a device keeps the clock that it had at work."""
TICKS = 1000
"""What a sample lasts at least, in what its clock tells apart."""
LOOKED_AT = (1, 3, 7)
"""Samples whose results are judged."""
MOST_UNEQUAL = 3
"""Launches for the same bodies with other results, though right, after which no more results are compared."""
AT_LAST = "right at first, but after the last launch: "


@dataclass(frozen=True, slots=True)
class Job:
    """A case to verify and, unless ``settings`` is None, to measure; ``verify`` says how many bodies are compared.

    ``number`` tells it from all other jobs of the run. Where its median is above ``behind``, in seconds, the case
    cannot be the fastest, and its sampling may stop. With ``again`` another process has just found the same kernel
    right: it is judged once before the samples and after them. So is a kernel of one part that is ``repeated``, as an
    anchor is, and was found right in this run. The device has last measured something at ``measured_at``, by
    ``time.time()``, whichever session that was. Other bodies, and rows for the judge outside, are drawn from ``seed``.
    """

    number: int
    case: Case
    settings: Measure | None
    verify: Verify | None = None
    behind: float | None = None
    again: bool = False
    repeated: bool = False
    measured_at: float = -math.inf
    seed: int = field(default_factory=partial(secrets.randbits, 63))

    @property
    def is_raced(self) -> bool:
        """Whether it is looked at, before it is timed, if the case can still be the fastest."""
        return self.settings is not None and self.behind is not None and self.case.timed == FORCE

    def drawings(self, *, outraced: bool) -> tuple[int, ...]:
        """Return the drawings of the launches that the judge outside has to see where the case is right.

        They are one for its own bodies before its samples and one after them, each with one for other bodies; the case
        may have been ``outraced``.
        """
        brief = self.again or self.repeated
        if self.settings is None:
            return (OWN,) if brief else (OWN, 1)
        return (OWN, OWN) if brief or outraced else (OWN, 1, OWN, 2)


@dataclass(slots=True)
class Station:
    """What a session keeps from case to case: its variants' folders, and what reads its devices.

    ``open_seconds`` is how long its process took to its first usable device; None before that.
    """

    folders: tuple[Path, ...] = ()
    read: Callable[[], Reading | None] = lambda: None
    import_seconds: float = 0.0
    open_seconds: float | None = None


@dataclass(slots=True)
class State:
    """A case on its way through the stages; each sets what those after it need.

    ``toolkit`` computes the case, and ``holder`` has its arrays. ``is_over`` once there is nothing left to do.
    """

    job: Job
    station: Station
    results: Results = field(default_factory=Results)
    variant: Variant = field(init=False)
    bodies: Bodies = field(init=False)
    toolkit: DeviceToolkit = field(init=False)
    holder: DeviceToolkit = field(init=False)
    prepared: Prepared = field(init=False)
    device_sums: DeviceSums | None = None
    again: bool = False
    judge: Judge = field(init=False)
    timed: Timed = field(init=False)
    batch: int = 1
    is_over: bool = False

    @property
    def is_warm(self) -> bool:
        """Whether the device has just been used, and has the clock of that still."""
        return time.time() - self.job.measured_at < WARM_SECONDS


def load(state: State) -> State:
    """Load the variant and the bodies, and open the toolkit."""
    median_interval((1.0,))  # imports what samples are judged by, which is not to happen between two of them
    case, results = state.job.case, state.results
    state.variant = discover(state.station.folders)[case.variant]
    state.bodies = initial_conditions.of_case(case)
    results.preparation = Preparation(bodies_sha256=state.bodies.sha256)
    if reason := unfit(state.bodies, case.dtype):
        raise CaseError(f"{case.bodies}: {reason}")
    began = time.monotonic()
    interaction = interaction_files.find(case.interaction)
    state.toolkit = toolkit = open_toolkit(case.toolkit, state.variant, case.dtype, interaction)
    if state.station.open_seconds is None:
        state.station.open_seconds = state.station.import_seconds + time.monotonic() - began
    results.preparation = results.preparation.model_copy(
        update={
            "start_seconds": state.station.open_seconds,
            "compute_capability": toolkit.generation,
            "compiler": toolkit.compiler,
            "adapter": toolkit.adapter,
            "clock_resolution_seconds": toolkit.resolution,
        }
    )
    return state


def prepare(state: State) -> State:
    """Have the variant compile its kernels and lay its bodies out, and make ready what judges and times it."""
    case, toolkit, variant, bodies = state.job.case, state.toolkit, state.variant, state.bodies
    began = perf_counter() - toolkit.compiled_here_seconds
    with counting_numba(toolkit):
        state.prepared = prepared = variant.prepare(toolkit, bodies, **case.axes)
    if prepared.cycle > 1 and variant.approximates is None:
        raise WrongError(
            f"its launches are a cycle of {prepared.cycle}; accepted: 1, because {variant.name} does not say what it "
            "approximates"
        )
    if toolkit.linked_by:
        _note(state, gpus_linked_by=toolkit.linked_by)
    if variant.suits_positions(case.axes):
        _note(state, untimed_seconds={"preparing": perf_counter() - toolkit.compiled_here_seconds - began})
    known = Inside(uncounted=uncounted(variant, prepared, case.dtype, case.axes), on_host=prepared.on_host)
    state.results.inside = known
    of_one_part = prepared.stages is None and prepared.insight is None and case.timed == FORCE
    state.again = state.job.again or (state.job.repeated and of_one_part)
    # Arrays on the host belong to the CPU, whichever toolkit computes.
    state.holder = open_toolkit(CPU, variant, case.dtype, toolkit.interaction) if prepared.on_host else toolkit
    state.device_sums = usable(toolkit.device_sums, toolkit.interaction, case.dtype)
    state.judge = Judge(
        state.holder,
        prepared,
        bodies,
        variant.accepted(case.dtype, case.axes),
        case.dtype,
        most_rows=_most_rows(state.job.verify, bodies.n, on_device=state.device_sums is not None),
        device_sums=state.device_sums,
        seed=state.job.seed,
    )
    state.timed = timer(case.timed).of_case(Subject(case, state.holder, prepared, bodies, state.device_sums))
    return state


def verify(state: State) -> State:
    """Judge the first launch."""
    with counting_numba(state.toolkit):
        state.judge.launch()
    _note(state, compile_seconds=state.toolkit.compile_seconds, built_ahead=state.toolkit.built_ahead)
    state.results.errors, objection = state.judge.verdict()
    kernel = state.prepared.kernel
    if kernel is not None and not state.toolkit.was_launched(kernel):
        raise WrongError(objection or "the kernel that it names was never launched")
    if kernel is not None:
        state.results.resources = state.toolkit.resources(kernel)
    _refuse(objection)
    state.judge.hand_over()
    return state


def race(state: State) -> State:
    """Look whether a searched case can still be the fastest: what is far behind is never recommended."""
    job = state.job
    assert job.settings is not None
    first = protocol.measure(
        state.timed.clock,
        state.timed.launch,
        job.settings,
        state.station.read,
        state.timed.kernels,
        behind=job.behind,
        look_once=True,
        warm=state.is_warm,
        least_seconds=_resolved_seconds(state),
    )
    if first.outraced:
        state.results.measurement = first
        check(state.judge.verdict(quantiles=False))
        state.judge.hand_over()
        state.is_over = True
    return state


def verify_more(state: State) -> State:
    """Judge launches on other bodies, several in a row, behind a held queue, and as a call or a step."""
    if not state.again:
        judge, timed = state.judge, state.job.case.timed
        judge.check_more()
        # Nothing else may use the device: what it does would hide that a result arrives too early or too late.
        _refuse(checks.queue(state.toolkit, judge.prepared, judge.own))
        if objection := state.timed.objection():
            raise WrongError(f"the force is right, but {objection}")
        if timed != FORCE:
            check(judge.verdict(quantiles=False), f"the force is right at first, but not in a {timed}: ")
    state.is_over = state.job.settings is None
    return state


def warm_up(state: State) -> State:
    """Launch until the device is warm and it is known how many launches one sample needs."""
    assert state.job.settings is not None
    state.timed.start()
    state.batch = protocol.warmed_up(
        state.timed.clock,
        state.timed.launch,
        state.job.settings,
        state.timed.kernels,
        state.station.read if state.is_warm else None,
        least_seconds=_resolved_seconds(state),
    )
    return state


def sample(state: State) -> State:
    """Time samples until the median is known well enough, and judge what some of them leave.

    On a processor what each of them leaves is compared with what was right, of so many bodies that the launches that
    are judged after timing are few. On a GPU that would take time between samples.
    """
    job, judge, timed = state.job, state.judge, state.timed
    assert job.settings is not None
    looks = state.prepared.cycle == 1 and timed.leaves_the_force and not state.again
    all_of_them = looks and state.toolkit.name == CPU and state.bodies.n > ALL_ROWS_UP_TO
    is_spoilt = False

    def look(samples: int) -> bool:
        nonlocal is_spoilt
        if not looks:
            return False
        afresh = samples in LOOKED_AT
        is_judged = afresh or (all_of_them and samples > 0 and judge.unequal < MOST_UNEQUAL)
        if is_judged:
            check(judge.verdict(quantiles=False, afresh=afresh), f"right at first, but after sample {samples}: ")
        if is_spoilt := samples + 1 in LOOKED_AT:
            judge.spoil()
        return is_judged or is_spoilt

    state.results.measurement = protocol.sampled(
        timed.clock, timed.launch, job.settings, state.batch, state.station.read, look, behind=job.behind
    )
    if is_spoilt:  # and no sample followed
        timed.launch()
    state.toolkit.synchronize()
    return state


def look_inside(state: State) -> State:
    """Time the stages of an evaluation, and count what it computes, where the variant tells them apart."""
    prepared, results = state.prepared, state.results
    if state.again:
        return state
    if prepared.stages is not None:
        seconds = protocol.stage_seconds(state.toolkit.synchronize, state.timed.stages)
        results.inside = results.inside.model_copy(update={"stages_seconds": seconds})
    if prepared.insight is not None:
        results.inside = counted(prepared.insight, state.bodies.n, results.inside)
    return state


def verify_again(state: State) -> State:
    """Judge what is there after all samples: a race, or a sum that is not set back, may show only then."""
    if state.again:
        state.timed.start()  # steps moved the bodies
        check(state.judge.launched(), AT_LAST)
        state.judge.hand_over()
        return state
    judge, timed, toolkit = state.judge, state.timed, state.toolkit
    measurement = state.results.measurement
    seconds = measurement.median_seconds
    assert seconds is not None
    # Launches that are judged are those of the force alone, and are timed by the host's clock.
    force_alone = timed.leaves_the_force and timed.clock is toolkit
    if timed.clock is toolkit:
        known = judge.quickest if force_alone else math.inf
        _refuse(checks.wall(toolkit, timed.launch, seconds, measurement.launch_seconds or 0.0, known))
    if objection := timed.finish():
        raise WrongError(f"right at first, but {objection}")
    check(judge.verdict(quantiles=False), AT_LAST)
    judge.hand_over()
    if judge.tolerance.of_rounding and timed.leaves_the_force:
        _refuse(checks.speed(toolkit, judge.own.n**2 / state.prepared.cycle, seconds))
    again = seconds if force_alone and toolkit is judge.toolkit else None
    if state.prepared.cycle == 1 and timed.leaves_the_force:
        judge.check_many()
    _refuse(judge.elsewhere(and_back=False))
    # Those on other bodies were launched for the first time.
    if not (again and state.prepared.cycle == 1 and judge.seconds <= checks.LONGER * again):
        launches = (measurement.batch or 1) * len(measurement.samples_seconds) if again else 0
        _refuse(checks.memory(judge.toolkit, state.prepared, judge.values, seconds, again, launches))
    state.results.stepping = timed.stepping()
    return state


STAGES: tuple[tuple[str, Callable[[State], State]], ...] = (
    (LOADING, load),
    (COMPILING, prepare),
    (VERIFYING, verify),
    (RACING, race),
    (VERIFYING, verify_more),
    (WARMING_UP, warm_up),
    (MEASURING, sample),
    (MEASURING, look_inside),
    (VERIFYING_AGAIN, verify_again),
)


def run(job: Job, station: Station, begin: Callable[[str], None]) -> Outcome:
    """Do one job, stage after stage; everything that goes wrong in it becomes an outcome.

    ``begin`` is told the name of each stage before it begins, and returns when it may.
    """
    state = State(job, station)
    try:
        for name, stage in STAGES:
            if name == RACING and not job.is_raced:  # everybody else would be suspended for that
                continue
            begin(name)
            state = stage(state)
            if state.is_over:
                break
        outcome = Outcome("ok", None, state.results, launches=tuple(state.judge.launches))
    except WrongError as wrong:
        state.results.errors = wrong.errors or state.results.errors
        outcome = Outcome("invalid", str(wrong), state.results)
    except (ToolkitMissingError, InputError) as error:
        outcome = Outcome("skipped", text_of(error), state.results)
    except CaseError as error:
        outcome = Outcome("failed", text_of(error), state.results)
    except MemoryError as error:
        outcome = Outcome("failed", f"out of memory: {text_of(error)}", state.results)
    except (Exception, SystemExit) as error:
        with suppress(Exception):  # of an error, or an output, that cannot be printed
            traceback.print_exc()
        outcome = Outcome("failed", f"{type(error).__name__}: {text_of(error)}", state.results)
    begin(RELEASING)
    toolkit = getattr(state, "toolkit", None)
    del state
    release(toolkit)
    return outcome.recordable()


def release(toolkit: DeviceToolkit | None) -> None:
    """Give the memory of a case back, so that the next finds the device as the first did."""
    gc.collect()
    # What is left now is of libraries, and there is much of it to look through each time.
    gc.freeze()
    if toolkit is not None:
        with suppress(Exception):  # after a fault the device refuses this too, and the session ends
            toolkit.release()


def _refuse(objection: str | None) -> None:
    if objection:
        raise WrongError(objection)


def _resolved_seconds(state: State) -> float:
    """Return how long a sample has to last at least, for the clock that times it."""
    timed_by_device = state.timed.clock is state.toolkit
    return TICKS * (state.toolkit.resolution or 0.0) if timed_by_device else 0.0


def _note(state: State, **changes: object) -> None:
    state.results.preparation = state.results.preparation.model_copy(update=changes)


def _most_rows(verify: Verify | None, n: int, *, on_device: bool) -> int:
    """Return the number of bodies up to which all are compared."""
    if verify == "all":
        return n
    return ALL_ROWS_ON_GPU if on_device and verify is None else ALL_ROWS_UP_TO
