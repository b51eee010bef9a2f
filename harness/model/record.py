"""Records: what measuring one case gave. One JSON line each, understandable alone."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from gravbench.model.case import Case

Status = Literal["ok", "invalid", "skipped", "failed"]


class Fingerprint(BaseModel, frozen=True):
    """What a result depends on beside its case: while any of it differs, an old result is not reused.

    What a missing toolkit or device leaves unknown is None. ``code_sha256`` is the hash of what ran, as
    ``harness/model/identity.py`` makes it; None marks a record as stale: it is not known which code ran, so that its
    result is never reused and counts as measured with another source.
    """

    code_sha256: str | None = None
    flags: list[str]
    toolkit_version: str | None = None
    driver: str | None = None
    device: str | None = None
    device_uuid: str | None = None


class Preparation(BaseModel, frozen=True):
    """What was found before the first evaluation was judged.

    ``bodies_sha256`` is the hash of the n bodies in float64. ``untimed_seconds`` is what a variant of the positions
    spends once on the bodies before it is timed, by name: their order, its arrays and copies. ``start_seconds`` is the
    time from starting the worker's process to a usable device.
    """

    bodies_sha256: str | None = None
    compute_capability: str | None = None
    compiler: str | None = None
    start_seconds: float | None = None
    compile_seconds: float | None = None
    untimed_seconds: dict[str, float] = {}


class Errors(BaseModel, frozen=True):
    """Relative errors of the accelerations against float64 direct sums, over ``error_rows`` bodies.

    ``error_magnitude_max`` and ``error_magnitude_rms`` are relative to the sum of the magnitudes of the pulls on a
    body: where these cancel, the others are large although the arithmetic is right. A case is judged by these.

    Of an interaction with several sums each vector and each number has errors of its own, and these are the worst;
    ``error_max_of`` has the largest of each by its name (hermite: a, j, potential), and is empty for a single vector.

    An approximation that covers all pairs in ``cycle`` evaluations has the errors of one of them here, and
    those of their mean in ``error_cycle_max`` and ``error_cycle_rms``; it is judged by the latter.
    """

    error_max: float | None = None
    error_rms: float | None = None
    error_median: float | None = None
    error_p99: float | None = None
    error_rows: int | None = None
    error_magnitude_max: float | None = None
    error_magnitude_rms: float | None = None
    error_max_of: dict[str, float] = {}
    cycle: int = 1
    error_cycle_max: float | None = None
    error_cycle_rms: float | None = None


class Measurement(BaseModel, frozen=True):
    """What measuring a verified case gave. Times are seconds per evaluation of all bodies.

    Where a step or a call is timed, it takes the place of the evaluation.
    ``samples_seconds`` holds every sample, each the mean over ``batch`` evaluations in a row; ``ci_low`` and
    ``ci_high`` bound the median with a nominal confidence of 95 % (sampling stops when they are close, which
    makes the true one somewhat smaller). ``launch_seconds`` is the time the host needs to hand over one
    evaluation; it is not part of the samples, unless ``launch_bound`` says that the device waited for the host.
    Clock, power and temperature have one reading per sample, taken once its work is queued; ``throttled``
    is None where the device does not tell. ``joules`` is the energy per evaluation by the device's
    counter, from the first sample to the last, idle time in between included; None where that took under half a second.

    ``processes`` has a number for each sample: the process of the run that took it. Samples of several processes stand
    one process after the other, and ``median_seconds`` is the geometric mean of the medians of these; ``batch`` is then
    that of the first. Records from before processes were noted have none.
    """

    samples_seconds: list[float] = []
    processes: list[int] = []
    batch: int | None = None
    median_seconds: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    stop_reason: str | None = None
    launch_seconds: float | None = None
    sm_clock_mhz: list[int] = []
    power_watts: list[float] = []
    temperature_celsius: list[int] = []
    throttle_reasons: list[str] = []
    throttled: bool | None = None
    launch_bound: bool = False
    joules: float | None = None
    protocol: dict[str, float | str] | None = None


class Stepping(BaseModel, frozen=True):
    """What the stepping of a case with ``timed: step`` gave; None for others.

    ``energy_drift`` is (energy after - energy before) / |energy before| over ``drift_steps`` steps from the first
    bodies on, energies in float64; None above 4,096 bodies. ``damping`` is the damped Euler integrator's factor.
    """

    steps_per_second: float | None = None
    energy_drift: float | None = None
    drift_steps: int | None = None
    damping: float | None = None


class Inside(BaseModel, frozen=True):
    """What an evaluation consists of, for variants that can tell; empty for others.

    ``stages_seconds`` are the medians of a few evaluations in which every stage waits for the one before it, so that
    their sum is above the time of a launch whose stages overlap; ``stages_bytes`` is what those that move data move.
    ``computed`` are the interactions per body of one evaluation, by their kind (body_body, body_cell), from a run that
    is not timed; ``walk_overlap`` says how alike the walks of a warp's bodies are, counted likewise: of the threads of
    a warp, the part that has to visit a node, averaged over all nodes that at least one of them visits.
    """

    stages_seconds: dict[str, float] = {}
    stages_bytes: dict[str, float] = {}
    computed: dict[str, float] = {}
    # The field's old name, from when it was taken for the efficiency of warps.
    walk_overlap: float | None = Field(default=None, validation_alias=AliasChoices("walk_overlap", "warp_efficiency"))


class Counters(BaseModel, frozen=True):
    """What Nsight Compute counted of the case's longest kernel in a second pass; empty where it was not asked for.

    Fractions of the peak: ``achieved_occupancy``, ``issue_slots`` and the pipes. ``instructions`` are those of warps,
    ``threads_an_instruction`` active threads of 32, ``executed_flop`` those of one launch (an FMA is two; square roots
    are not counted), ``stalled_...`` warps that wait for a reason per issued instruction. ``counters_unavailable`` says
    why there are none.
    """

    counters: dict[str, float] = {}
    counters_unavailable: str | None = None


class Resources(BaseModel, frozen=True):
    """What the driver says of a compiled kernel and its launch.

    ``occupancy`` is resident warps over the most warps per multiprocessor, a warp that is not full counted whole;
    ``occupancy_limiter`` names what keeps it there. ``waves`` is blocks of the grid over blocks the device holds at
    once.
    """

    registers: int | None = None
    shared_bytes: int | None = None
    local_bytes: int | None = None
    threads_per_block: int | None = None
    grid_blocks: int | None = None
    blocks_per_multiprocessor: int | None = None
    occupancy: float | None = None
    occupancy_limiter: str | None = None
    waves: float | None = None


class Record(Case, Fingerprint, Preparation, Errors, Measurement, Stepping, Inside, Counters, Resources, frozen=True):
    """What one case gave on one device. Everything not reached because of ``status`` is None or empty.

    ``anchor`` counts the repetitions of the case that is measured again and again so that drift shows:
    0 for an ordinary record, 1, 2, ... for the anchor's. ``source_sha256`` is what stood for ``code_sha256`` once: a
    hash of the bytes of files. From it ``reports/prove_sources.py`` proves which sources a record was made from.
    """

    # JSON has no NaN: an error that is one is written as a string, rather than lost.
    model_config = ConfigDict(extra="ignore", ser_json_inf_nan="strings")

    status: Status
    reason: str | None = None
    anchor: int = 0
    source_sha256: str | None = None
    interactions_per_second: float | None = None
    gflops: float | None = None
    flops_per_interaction: float
    commit: str | None
    started: str
    harness_version: str

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The part of the record that has to match for its result to be reused.

        A stale record has the hash of its files there, which tells it from others and matches no case of today.
        """
        known = self.model_dump(include=set(Fingerprint.model_fields))
        return known | {"code_sha256": self.code_sha256 or self.source_sha256}

    @property
    def groups(self) -> list[list[float]]:
        """The samples of each process; all of them together where it is not known which took them."""
        if not self.processes:
            return [self.samples_seconds] if self.samples_seconds else []
        both = list(zip(self.processes, self.samples_seconds, strict=False))
        return [[sample for own, sample in both if own == number] for number in dict.fromkeys(self.processes)]

    @property
    def joules_per_interaction(self) -> float | None:
        """Energy of one of the interactions that are computed."""
        return None if self.joules is None else self.joules / self.evaluated

    @property
    def evaluated(self) -> float:
        """Interactions that one evaluation computes: those of an approximation are fewer than n * n."""
        if self.computed:
            return self.n * sum(self.computed.values())
        return self.interactions / self.cycle
