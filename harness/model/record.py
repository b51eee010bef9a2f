"""Records: what measuring one case gave. One JSON line each, understandable alone."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, model_validator
from pydantic_core import from_json, to_json

from gravbench.model.case import PARTS, PROBLEM_AXES, Case
from gravbench.model.limits import Amount, Count, Duration, Hash, Moment, Name, Number, Prose, Text, without_controls
from gravbench.model.work import Work, work_of

Status = Literal["ok", "invalid", "skipped", "failed"]

QUANTILES: Mapping[float, str] = {0.5: "error_median", 0.9: "error_p90", 0.99: "error_p99", 1.0: "error_max"}
"""The quantiles of the relative errors of the bodies that a record has, by their fields; 1 is the largest error."""
LARGEST = 1.0
"""The quantile that no body's error is above."""

MOST_OVER_POWER = 2.0
"""The largest credible ratio of the mean power over an evaluation to the largest power reading, which lags behind."""
OUTRACED = "outraced"
"""The ``stop_reason`` of a record whose sampling ended because the case cannot be the fastest of its contest."""


Error = float
"""A relative error, 0 or more; NaN or infinite where accelerations are."""
Counts = Annotated[list[Count], Field(max_length=1_000_000)]
Temperature = Annotated[int, Field(ge=-274, lt=2**31)]
Sample = Annotated[Duration, Field(strict=True)]
Words = Annotated[list[Text], Field(max_length=1_000)]


class Fingerprint(BaseModel, frozen=True):
    """What a result depends on besides its case. If any of it differs, an old result is not reused.

    Fields are None if a toolkit or a device is missing. ``code_sha256`` is the hash of the code that ran, as computed
    by ``harness/model/identity.py``. None marks a record as stale: it is not known which code ran, so its result is
    never reused, and counts as measured with different source code. ``method`` is the number of the method that
    timed and judged it (``harness/model/method.py``), None in older records.
    """

    method: Count | None = None
    code_sha256: Hash | None = None
    flags: Words
    toolkit_version: Text | None = None
    driver: Text | None = None
    device: Text | None = None
    device_uuid: Text | None = None


class Preparation(BaseModel, frozen=True):
    """What was found before the first evaluation was judged.

    ``bodies_sha256`` is the hash of the n bodies in float64. ``untimed_seconds`` is the time, by name, that a variant
    spends once on preparation for these positions before it is timed, such as sorting the bodies. ``start_seconds`` is
    the time from the start of the session to a usable device. ``gpus_linked_by`` says how the GPUs that share an
    evaluation are connected (by peer access, or through the host); it is None for a single GPU. ``built_ahead`` says
    whether all kernels were compiled before the session had the case; it is None where none is compiled for a GPU, and
    in older records. Then ``compile_seconds`` is the processor time that compiling took when it was done, because
    builders are suspended while a case is measured.
    """

    bodies_sha256: Hash | None = None
    compute_capability: Text | None = None
    compiler: Text | None = None
    adapter: dict[Text, Text] = Field(default_factory=dict)
    clock_resolution_seconds: Amount | None = None
    start_seconds: Amount | None = None
    gpus_linked_by: Text | None = None
    compile_seconds: Amount | None = None
    built_ahead: bool | None = None
    untimed_seconds: dict[Text, Amount] = Field(default_factory=dict)


class Errors(BaseModel, frozen=True):
    """Relative errors of the accelerations against float64 direct sums, over ``error_rows`` bodies.

    ``error_p90`` and ``error_p99`` are the 90th and 99th percentiles over the bodies; older records lack ``error_p90``.

    ``error_magnitude_max`` and ``error_magnitude_rms`` are relative to the sum of the magnitudes of the contributions
    to a body, and a case is judged by them: if these cancel, the other errors are large although the arithmetic is
    right.

    If an interaction has several sums, each vector and each scalar has separate errors, and the fields have the largest
    of them; ``error_max_of`` has the largest error of each by name (hermite: a, j, potential), and is empty for a
    single vector.

    For an approximation that covers all pairs in ``cycle`` evaluations, these are the errors of one evaluation; those
    of the mean over a cycle are in ``error_cycle_max`` and ``error_cycle_rms``; the case is judged by the latter.
    """

    error_max: Error | None = None
    error_rms: Error | None = None
    error_median: Error | None = None
    error_p90: Error | None = None
    error_p99: Error | None = None
    error_rows: Count | None = None
    error_magnitude_max: Error | None = None
    error_magnitude_rms: Error | None = None
    error_max_of: dict[Text, Error] = Field(default_factory=dict)
    cycle: Annotated[int, Field(ge=1, lt=2**31)] = 1
    error_cycle_max: Error | None = None
    error_cycle_rms: Error | None = None

    @model_validator(mode="after")
    def _not_negative(self) -> Errors:
        # One function for all of them: a validator each would cost a third of the time in which a record is read.
        for name in ERRORS:
            if (getattr(self, name) or 0.0) < 0:
                raise ValueError(f"{name}: accepted: 0 or more, or NaN")
        if self.error_max_of and min(self.error_max_of.values()) < 0:
            raise ValueError("error_max_of: accepted: 0 or more, or NaN")
        return self


ERRORS = tuple(name for name, field in Errors.model_fields.items() if field.annotation == Error | None)
"""The fields that hold one relative error each."""


class Measurement(BaseModel, frozen=True):
    """What measuring a verified case gave. Times are seconds per evaluation of all bodies.

    If a step or a call is timed, it takes the place of the evaluation. ``samples_seconds`` holds every sample, each the
    mean over ``batch`` evaluations in a row; ``ci_low`` and ``ci_high`` bound the median with a nominal confidence of
    95 % (sampling stops when they are close, which makes the true confidence slightly lower). ``launch_seconds`` is the
    time the host needs to launch one evaluation; it is not part of the samples, unless ``launch_bound`` says that the
    device waited for the host. Clock, power and temperature have one reading per sample, taken once its work is queued;
    ``throttled`` is None if the device does not report it. ``joules`` is the energy per evaluation from the counter of
    the device, from the first sample to the last, including idle time in between; it is None if that took less than
    half a second.

    ``processes`` has a number for each sample: the process of the run that took it. The samples of several processes
    are listed one process after the other; ``median_seconds`` is then the geometric mean of the medians of the
    processes, and ``batch`` that of the first process. It is empty in older records.
    """

    samples_seconds: Annotated[list[Sample], Field(max_length=1_000_000)] = Field(default_factory=list)
    processes: Counts = Field(default_factory=list)
    batch: Count | None = None
    median_seconds: Duration | None = None
    ci_low: Amount | None = None
    # Infinite where the samples are too few to bound the median.
    ci_high: Annotated[float, Field(ge=0)] | None = None
    stop_reason: Text | None = None
    launch_seconds: Amount | None = None
    sm_clock_mhz: Counts = Field(default_factory=list)
    power_watts: Annotated[list[Amount], Field(max_length=1_000_000)] = Field(default_factory=list)
    temperature_celsius: Annotated[list[Temperature], Field(max_length=1_000_000)] = Field(default_factory=list)
    throttle_reasons: Words = Field(default_factory=list)
    throttled: bool | None = None
    launch_bound: bool = False
    joules: Amount | None = None
    protocol: dict[Name, Number | Text] | None = None

    @property
    def outraced(self) -> bool:
        """Whether a race stopped the sampling: what was found is that the case is behind, and not by how much."""
        return self.stop_reason == OUTRACED


class Stepping(BaseModel, frozen=True):
    """What the stepping of a case with ``timed: step`` gave; None for others.

    Over ``drift_steps`` steps from the initial conditions, in float64: ``energy_drift`` is (energy after - energy
    before) / |energy before|, None above 4,096 bodies on a CPU and 65,536 on a GPU; ``momentum_drift`` is the magnitude
    of the change of the momentum divided by the sum of mass |velocity|. Both are None if the steps take longer than
    two seconds.
    ``damping`` is the factor of the damped Euler integrator.
    """

    steps_per_second: Amount | None = None
    energy_drift: float | None = None
    momentum_drift: Amount | None = None
    drift_steps: Count | None = None
    damping: Amount | None = None


class Inside(BaseModel, frozen=True):
    """What an evaluation consists of, for variants that can tell; empty for others.

    ``stages_seconds`` are medians over a few evaluations in which every stage waits for the one before it, so that
    their sum exceeds the time of a launch whose stages overlap; ``stages_bytes`` are the bytes moved by the stages that
    move data. ``computed`` are the interactions per body of one evaluation, by kind (body_body, body_cell), counted in
    a launch that is not timed. ``uncounted`` marks an approximation that does not count its interactions: how much an
    evaluation computes is not known, so the record has a time but no rate. ``on_host`` says that bodies and
    accelerations stay on the host although a GPU computes; older records lack it. ``walk_overlap`` says how similar the
    walks of a warp's bodies are, counted in the same way: the fraction of the threads of a warp that need to visit a
    node, averaged over all nodes that any visits.
    """

    stages_seconds: dict[Text, Amount] = Field(default_factory=dict)
    stages_bytes: dict[Text, Amount] = Field(default_factory=dict)
    computed: dict[Text, Amount] = Field(default_factory=dict)
    uncounted: bool = False
    on_host: bool | None = None
    # The field's old name, from when it was taken for the efficiency of warps.
    walk_overlap: Amount | None = Field(default=None, validation_alias=AliasChoices("walk_overlap", "warp_efficiency"))


class Counters(BaseModel, frozen=True):
    """What Nsight Compute counted of the case's longest kernel in a second pass; empty where it was not asked for.

    ``achieved_occupancy``, ``issue_slots`` and the pipes are fractions of the peak; ``multiprocessors_active`` is the
    fraction of the multiprocessors that have a block, averaged over the kernel. ``instructions`` are warp instructions,
    ``global_loads`` those that load from global memory, ``threads_an_instruction`` the active threads per instruction,
    of 32. ``executed_flop`` are those of one launch (an FMA is two; square roots are not counted). ``stalled_...`` are
    the waiting warps, by reason, per issued instruction. Older records lack ``multiprocessors_active`` and
    ``global_loads``. ``counters_unavailable`` says why there are no counters.
    """

    counters: dict[Text, Amount] = Field(default_factory=dict)
    counters_unavailable: Prose | None = None


class Resources(BaseModel, frozen=True):
    """What the driver reports for a compiled kernel and its launch.

    ``occupancy`` is the number of resident warps divided by the most that a multiprocessor can hold; a partly filled
    warp counts as a whole one. ``occupancy_limiter`` names what limits it. ``waves`` is the number of blocks in the
    grid divided by the number of blocks that the device can hold at once.
    """

    registers: Count | None = None
    shared_bytes: Count | None = None
    local_bytes: Count | None = None
    threads_per_block: Count | None = None
    grid_blocks: Count | None = None
    blocks_per_multiprocessor: Count | None = None
    occupancy: Amount | None = None
    occupancy_limiter: Text | None = None
    # Infinite where no block fits.
    waves: Annotated[float, Field(ge=0)] | None = None


class Record(Case, Fingerprint, Preparation, Errors, Measurement, Stepping, Inside, Counters, Resources, frozen=True):
    """What one case gave on one device. Everything not reached because of ``status`` is None or empty.

    ``anchor`` counts the repetitions of the case that is measured again and again so that drift shows:
    0 for an ordinary record, 1, 2, ... for the anchor's. ``source_sha256`` is what stood for ``code_sha256`` once: a
    hash of the bytes of files.
    """

    # JSON has no NaN: an error that is one is written as a string, rather than lost.
    model_config = ConfigDict(extra="ignore", ser_json_inf_nan="strings")

    status: Status
    reason: Prose | None = None
    anchor: Count = 0
    source_sha256: Hash | None = None
    interactions_per_second: Amount | None = None
    gflops: Amount | None = None
    flops_per_interaction: Amount
    commit: Annotated[str, Field(pattern=r"^\w[\w.+-]*$", max_length=100)] | None
    started: Moment
    harness_version: Text

    @model_validator(mode="after")
    def _consistent(self) -> Record:
        """Refuse what each field may be by itself and no record can be: reports divide by it, sort it or name it."""
        axes = self.axes
        if not PARTS.keys().isdisjoint(axes):
            raise ValueError(f"axes: {' and '.join(axes.keys() & PARTS.keys())} is a field of a case, not an axis")
        if not PROBLEM_AXES.keys().isdisjoint(axes) and any(isinstance(axes.get(name), str) for name in PROBLEM_AXES):
            raise ValueError(f"axes: {' and '.join(PROBLEM_AXES)}: accepted: a number")
        if self.dt is not None and self.integrator is None:
            raise ValueError("dt without an integrator")
        if self.computed and not sum(self.computed.values()):
            raise ValueError("computed: not one interaction")
        if self.uncounted and (self.computed or self.interactions_per_second is not None or self.gflops is not None):
            raise ValueError("uncounted, and yet a number of interactions")
        if self.status == "ok":
            for name in QUANTILES.values():
                if math.isnan(getattr(self, name) or 0.0):
                    raise ValueError(f"{name} is not a number, but the status is ok")
        return self

    @classmethod
    def of_line(cls, line: bytes) -> Record:
        """Read a line of a file of records, whoever wrote it; text that no terminal should get is made printable.

        Raises:
            ValueError: it is no record. Pydantic's ValidationError is one too.
        """
        # Of ASCII without an escape all can be shown: what JSON allows to stand in a line by itself.
        if b"\\" in line or not line.isascii():
            line = to_json(without_controls(from_json(line)))
        record = cls.model_validate_json(line)
        # A set of eighty names for each record would take more room than the record.
        object.__setattr__(record, "__pydantic_fields_set__", _ALL_FIELDS)
        return record

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The part of the record that has to match for its result to be reused.

        A stale record has the hash of its files there, which tells it from others and matches no case of today.
        """
        known = {name: getattr(self, name) for name in Fingerprint.model_fields}
        return known | {"code_sha256": self.code_sha256 or self.source_sha256}

    @property
    def what_ran(self) -> Hashable:
        """The case and its fingerprint: equal for the repetitions of one anchor."""
        known = self.fingerprint
        return self.identity, tuple(known.pop("flags")), tuple(known.values())

    @property
    def work(self) -> Work:
        """The kind of work that was timed."""
        # Older records do not say where the bodies are, but the bytes that a stage moves to the GPU and back do.
        return work_of(self, on_host=bool(self.on_host if self.on_host is not None else self.stages_bytes))

    @property
    def groups(self) -> list[list[float]]:
        """The samples of each process; all of them together where it is not known which took them."""
        if not self.processes:
            return [self.samples_seconds] if self.samples_seconds else []
        by_process: dict[int, list[float]] = {}
        for number, sample in zip(self.processes, self.samples_seconds, strict=False):
            by_process.setdefault(number, []).append(sample)
        return list(by_process.values())

    @property
    def joules_per_interaction(self) -> float | None:
        """Energy of one of the interactions that are computed; None where the samples were too short to say.

        Energy is read less often than samples end, so that it includes what the device spends while it waits.
        """
        if self.joules is None or self.uncounted:
            return None
        most = MOST_OVER_POWER * max(self.power_watts, default=math.inf) * (self.median_seconds or math.inf)
        return None if self.joules > most else self.joules / self.evaluated

    @property
    def evaluated(self) -> float:
        """Interactions that one evaluation computes, those of an approximation fewer than n * n; NaN if not known."""
        if self.uncounted:
            return math.nan
        if self.computed:
            return self.n * sum(self.computed.values())
        return self.interactions / self.cycle


_ALL_FIELDS = set(Record.model_fields)
