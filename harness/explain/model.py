"""The time of a record as its machine code, the peak rates of the device and the shape of its launch predict it.

One scheduler stands for all: ``schedule`` runs the inner loop of the kernel on as many warps as a multiprocessor holds
of it. Blocks that do not fill the device once more are its tail. What a variant does beside its main kernel counts as
launches alone.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from statistics import median

import numpy as np
from numpy.typing import NDArray

from gravbench.explain.multiprocessors import makespan
from gravbench.explain.occupancy import first_cache
from gravbench.explain.peaks import Peaks
from gravbench.explain.pipes import TENSOR, pipe_of
from gravbench.explain.schedule import SCHEDULERS, SMALL_PRODUCT, WIDENED, Costs, clocks
from gravbench.explain.shape import LANES, Shape, shape_of
from gravbench.explain.work import Work
from gravbench.model.kernel_parts import UnmodelledError
from gravbench.model.record import Record

WORD = 4
LOADED = "mma_mufu"
"""The peak rate of a kernel with matrix products and rsqrts, during which a multiprocessor counted its clock."""
PRODUCTS_A_RSQRT = 3 / 4
"""In that kernel."""
MULTIPROCESSORS = 132
"""Of an H200, where the peak rates are of no device."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What an evaluation computes: bodies, and interactions of all of them together."""

    n: int
    evaluated: float


@dataclass(frozen=True, slots=True)
class Predicted:
    """Seconds of an evaluation: of the main kernel at the clock it had, and of launches."""

    kernel: float
    launch: float

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.kernel + self.launch


def costs_of(rates: Peaks) -> Costs:
    """Return what instructions cost a scheduler of a device with these peak rates."""

    def busy(name: str) -> float:
        return LANES * SCHEDULERS / rates.value(name)

    wide, narrow = busy("lds_128"), busy("lds_32")
    far, near = busy("ldg_128"), busy("ldg_32")
    red = 4 * narrow
    if rates.measured("red_distinct") and rates.multiprocessors:
        a_clock = rates.value("red_distinct") / (rates.clock * 1e6 * rates.multiprocessors)
        red = LANES * SCHEDULERS / a_clock
    # A word of each lane, at what a multiprocessor gets of the L2 cache when all of them read or write.
    word = LANES * WORD * SCHEDULERS * rates.clock * 1e6 * (rates.multiprocessors or MULTIPROCESSORS)
    written = rates.value("l2_write" if rates.measured("l2_write") else "l2_read")
    shared = {"LDS.32": narrow, "LDS.64": max(narrow, wide / 2), "LDS.128": wide}
    cached = {"LDG.32": near, "LDG.64": max(near, far / 2), "LDG.128": far}
    latency = {name: rates.value("latency_lds") for name in (*shared, "SHFL", "RED", "MOVM")}
    if rates.measured("latency_transpose"):
        latency["MOVM"] = rates.value("latency_transpose")
    latency |= {name: rates.value("latency_l1") for name in (*cached, "LDL")}
    return Costs(
        busy={
            "FMA": max(1.0, busy("fma_1")),
            "ALU": busy("alu"),
            "XU": busy("mufu"),
            "FP64": busy("fp64"),
            TENSOR: SCHEDULERS / rates.value("mma_16"),
            SMALL_PRODUCT: SCHEDULERS / rates.value("mma_8"),
            "uniform": 2.0,
            "SHFL": busy("shuffle"),
            "MOVM": busy("transpose"),
            "F2FP": busy("convert"),
            WIDENED: busy("widen"),
            "RED": red,
            "STL": word / written,
            "LDL": word / rates.value("l2_read"),
        }
        | shared
        | cached,
        latency=latency
        | {
            "FMA": rates.value("latency_fma"),
            "XU": rates.value("latency_mufu"),
            "FP64": 2 * rates.value("latency_fma"),
            TENSOR: rates.value("latency_lds"),
            SMALL_PRODUCT: rates.value("latency_lds"),
        },
        miss=rates.value("latency_l2"),
        # Of three operands, two are of one bank.
        operand=busy("fma_3") / 2,
        # What four reciprocal square roots with three products take more than without any.
        hindrance=max(0.0, busy(LOADED) - busy("mufu")) / PRODUCTS_A_RSQRT if rates.measured(LOADED) else 0.0,
    )


def clocks_of(work: Work, shape: Shape, blocks: int, costs: Costs) -> float:
    """Return the clocks of a scheduler for an interaction of one warp, with so many blocks on its multiprocessor."""
    warps, kept = shape.warps_of(blocks), _spilling(work, shape, blocks, costs)
    return sum(clocks(part.done, warps, shape.together, kept) * part.times for part in work.parts)


def predict(record: Record, work: Work, rates: Peaks, costs: Costs | None = None) -> Predicted:
    """Predict the time of a record from the loop of its kernel and the peak rates of its device.

    Raises:
        UnmodelledError: the record does not tell how it was launched.
    """
    case = Problem(record.n, record.evaluated)
    return predict_launch(work, shape_of(record), case, reported_clock(record, rates), rates, costs or costs_of(rates))


def predict_launch(
    work: Work, shape: Shape, problem: Problem, megahertz: float, rates: Peaks, costs: Costs
) -> Predicted:
    """Predict the time of an evaluation whose kernel was launched in this shape, at this reported clock in MHz."""
    hertz = clock_under(work, megahertz, rates) * 1e6
    launch = rates.value("launch_stream") + (work.launches - 1) * small_launch(rates)
    if work.each is not None:
        return Predicted(_unevenly(work, work.each, shape, costs) / hertz, launch)
    lane = _interactions_of_a_thread(problem, shape, work)
    full, rest = divmod(shape.blocks, shape.resident * shape.multiprocessors)

    def cycles(blocks: int) -> float:
        return shape.warps_of(blocks) * lane * clocks_of(work, shape, blocks, costs)

    total = full * cycles(shape.resident) if full else 0.0
    total += cycles(-(-rest // shape.multiprocessors)) if rest else 0.0
    return Predicted(total / hertz, launch)


def small_launch(rates: Peaks) -> float:
    """Return the seconds of each kernel beside the main one: it reads what the one before it wrote."""
    return rates.value("launch_small" if rates.measured("launch_small") else "launch_stream")


def _unevenly(work: Work, each: NDArray[np.int64], shape: Shape, costs: Costs) -> float:
    """Return the clocks until the last warp ends, where each makes its own number of passes."""
    kept, most = _spilling(work, shape, shape.most, costs), shape.warps_of(shape.most)

    def alone(warps: int) -> NDArray[np.float64]:
        """Return how long a pass of each part takes one of so many warps of a scheduler."""
        return np.array([warps * clocks(part.done, warps, shape.together, kept) for part in work.parts])

    # Rounded, because which warp of two that are equal ends first changes the end of the last, and BLAS adds up
    # differently on every processor.
    work_of_warps = np.rint(alone(most) @ each)
    whole = work_of_warps.sum()
    known = [round(float(alone(warps) @ each.sum(axis=1)) / whole, 9) for warps in range(1, most + 1)]
    share = np.arange(shape.resident * shape.warps + 1) / SCHEDULERS
    slowness = np.interp(share, np.arange(1, most + 1), known)
    return makespan(work_of_warps, shape.warps, shape.resident, shape.multiprocessors, slowness.tolist())


def _spilling(work: Work, shape: Shape, blocks: int, costs: Costs) -> Costs:
    """Return costs where so many blocks share the first cache: of registers that are spilled, what it does not hold.

    Stores go through it to the L2 cache, as Khairy et al. 2020 (Accel-Sim) found for Volta. Loads find there what the
    first cache has no room for.
    """
    if not work.frame:
        return costs
    held = first_cache(work.architecture, work.shared, blocks) / (work.frame * blocks * shape.warps * LANES)
    missing = max(0.0, 1 - held)
    near, far = costs.busy["LDG.32"], costs.busy["LDL"]
    hit, miss = costs.latency["LDL"], costs.miss
    return replace(
        costs,
        busy=costs.busy | {"LDL": near + missing * (far - near)},
        latency=costs.latency | {"LDL": hit + missing * (miss - hit)},
    )


def reported_clock(record: Record, rates: Peaks) -> float:
    """Return the clock that a driver reported in MHz: the median of a record's readings, the highest without any."""
    return float(median(record.sm_clock_mhz)) if record.sm_clock_mhz else rates.clock


def clock_under(work: Work, reported: float, rates: Peaks) -> float:
    """Return the clock of multiprocessors in MHz that run this kernel while the driver reports another.

    They are slower where tensor cores are in use (NVIDIA, H100 whitepaper, table 3), by a single product at a time as
    by many, and the driver does not say so.
    """
    products = any(pipe_of(instruction.opcode) == TENSOR for instruction, _ in work.weighted)
    return reported * rates.share_of_clock(LOADED) if products else reported


def architecture_of(record: Record) -> str:
    """Return the architecture of a record's device, such as ``sm_90``.

    Raises:
        UnmodelledError: the record does not tell.
    """
    if not record.compute_capability or not re.fullmatch(r"\d+\.\d", record.compute_capability):
        raise UnmodelledError("its record has no compute capability")
    return f"sm_{record.compute_capability.replace('.', '')}"


def _interactions_of_a_thread(problem: Problem, shape: Shape, work: Work) -> float:
    """Return what each thread computes, also where it stands for a body that is not there."""
    evenly = problem.evaluated / (shape.blocks * shape.warps * LANES)
    if work.bodies_of_block:
        # Where the last block is not full, its threads compute all the same.
        covered = shape.blocks * work.bodies_of_block / problem.n
        evenly *= covered / max(1, math.floor(covered)) if covered < 2 else 1
    return evenly


def freed(costs: Costs, *, operands: bool) -> Costs:
    """Return costs without latencies and, unless ``operands``, with registers that deliver at once."""
    kinds = (*costs.latency, "ALU", "uniform", "control", "other")
    at_once = replace(costs, latency=dict.fromkeys(kinds, 1.0), miss=1.0)
    return at_once if operands else replace(at_once, operand=0.0)
