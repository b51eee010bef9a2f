"""The time of a record as its machine code, the ceilings of the device and the shape of its launch predict it.

One scheduler stands for all: ``schedule`` runs the inner loop of the kernel on as many warps as a multiprocessor holds
of it. Blocks that do not fill the device once more are its tail. What a variant does beside its main kernel counts as
launches alone.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import median

from gravbench.errors import InputError
from gravbench.explain.asking import Asked, Asking
from gravbench.explain.assembling import Assembled, assemble
from gravbench.explain.ceilings import Ceilings
from gravbench.explain.changes import REPLACED
from gravbench.explain.machine_code import Instruction, Loop, around
from gravbench.explain.pipes import is_root
from gravbench.explain.places import places
from gravbench.explain.schedule import SCHEDULERS, Costs, Pass, clocks
from gravbench.explain.trips import trips
from gravbench.model import generators
from gravbench.model.bodies import Bodies
from gravbench.model.case import Case
from gravbench.model.interaction_files import find
from gravbench.model.record import Record, Resources
from gravbench.model.variant import Variant, discover
from gravbench.toolkits.interface import FLAGS

LANES = 32
MOST_BODIES = 1 << 18
"""Bodies for which kernels are asked for: no constant of a kernel depends on more."""
FREE_TURNS = 8
"""Turns of a loop that is run without what is around it: its loads then share what they bring."""


class UnmodelledError(Exception):
    """A record for which there is no model; the message says why."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How a kernel was launched: blocks, warps of a block, and the blocks that a multiprocessor holds at once."""

    blocks: int
    warps: int
    resident: int
    multiprocessors: int

    @property
    def most(self) -> int:
        """Blocks that one multiprocessor has at the same time."""
        return min(self.resident, -(-self.blocks // self.multiprocessors))

    def warps_of(self, blocks: int) -> int:
        """Return the warps of a scheduler whose multiprocessor has so many blocks."""
        return -(-blocks * self.warps // SCHEDULERS)

    @property
    def together(self) -> int:
        """Warps of a block that share a scheduler."""
        return max(1, self.warps // SCHEDULERS)


@dataclass(frozen=True, slots=True)
class Work:
    """The loop that a kernel spends its time in: one pass of it, and the interactions of a thread in that.

    ``launches`` are those of one evaluation, and ``bodies_of_block`` the bodies of a block, where that is known.
    """

    kernel: str
    done: Pass
    interactions: int
    launches: int
    bodies_of_block: int | None

    @property
    def length(self) -> float:
        """Instructions of an interaction."""
        return self.done.length / self.interactions


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


def costs_of(ceilings: Ceilings) -> Costs:
    """Return what instructions cost a scheduler of a device with these ceilings."""

    def busy(name: str) -> float:
        return LANES * SCHEDULERS / ceilings.value(name)

    wide, narrow = busy("lds_128"), busy("lds_32")
    far, near = busy("ldg_128"), busy("ldg_32")
    red = 4 * narrow
    if ceilings.measured("red_distinct") and ceilings.multiprocessors:
        a_clock = ceilings.value("red_distinct") / (ceilings.clock * 1e6 * ceilings.multiprocessors)
        red = LANES * SCHEDULERS / a_clock
    shared = {"LDS.32": narrow, "LDS.64": max(narrow, wide / 2), "LDS.128": wide}
    cached = {"LDG.32": near, "LDG.64": max(near, far / 2), "LDG.128": far}
    latency = {name: ceilings.value("latency_lds") for name in (*shared, "SHFL", "RED", "MOVM")}
    latency |= {name: ceilings.value("latency_l1") for name in cached}
    return Costs(
        busy={
            "FMA": max(1.0, busy("fma_1")),
            "ALU": busy("alu"),
            "XU": busy("mufu"),
            "FP64": busy("fp64"),
            "tensor": SCHEDULERS / ceilings.value("mma_16"),
            "tensor.8": SCHEDULERS / ceilings.value("mma_8"),
            "uniform": 2.0,
            "SHFL": busy("shuffle"),
            "MOVM": busy("transpose"),
            "F2FP": busy("convert"),
            "RED": red,
        }
        | shared
        | cached,
        latency=latency
        | {
            "FMA": ceilings.value("latency_fma"),
            "XU": ceilings.value("latency_mufu"),
            "FP64": 2 * ceilings.value("latency_fma"),
            "tensor": ceilings.value("latency_lds"),
            "tensor.8": ceilings.value("latency_lds"),
        },
        miss=ceilings.value("latency_l2"),
        # Of three operands, two are of one bank.
        operand=busy("fma_3") / 2,
    )


def shape_of(record: Resources) -> Shape:
    """Return how the kernel of a record was launched.

    Raises:
        UnmodelledError: the record does not tell.
    """
    blocks, threads, resident = record.grid_blocks, record.threads_per_block, record.blocks_per_multiprocessor
    if not blocks or not threads or not resident or not record.waves or not math.isfinite(record.waves):
        raise UnmodelledError("its record has no grid and no occupancy")
    return Shape(blocks, -(-threads // LANES), resident, max(1, round(blocks / resident / record.waves)))


def work_of(case: Case, architecture: str, multiprocessors: int, kernel: str | None = None) -> Work:
    """Find the loop in which the kernel of a case spends its time; ``kernel`` is its name, the first that has one.

    Raises:
        UnmodelledError: there is no such loop.
        InputError: it cannot be compiled or read here.
    """
    variant = discover().get(case.variant)
    if variant is None or not variant.has_cuda_c or case.interaction_sha256:
        raise UnmodelledError("its CUDA C is not here")
    interaction = find(case.interaction)
    axes = tuple(sorted(variant.complete(case.axes).items()))
    n = min(case.n, MOST_BODIES)
    asked, launches = _asked(variant.name, axes, case.dtype, interaction.name, n, multiprocessors)
    source = variant.cuda_source(interaction)
    options = ("-DFLOAT64=1",) if case.dtype == "float64" else ()
    for one in asked:
        if kernel is None or one.stem == kernel:
            found = work_of_text(variant, source, one, architecture, options, launches)
            if found is not None:
                return found
    raise UnmodelledError("no kernel of it has a loop over interactions")


def work_of_text(
    variant: Variant, source: str, one: Asked, architecture: str, options: tuple[str, ...], launches: int
) -> Work | None:
    """Find the loop of one kernel of a text that is a variant's, or was made from it; None where it has none.

    Raises:
        InputError: it cannot be compiled or read here.
    """
    return _work(variant, source, one, _assembled(source, one.stem, one.constants, architecture, options), launches)


def clocks_of(work: Work, shape: Shape, blocks: int, costs: Costs) -> float:
    """Return the clocks of a scheduler for an interaction of one warp, with so many blocks on its multiprocessor."""
    return _clocks(work.done, shape.warps_of(blocks), shape.together, _Hashable(costs)) / work.interactions


def predict(record: Record, work: Work, ceilings: Ceilings, costs: Costs | None = None) -> Predicted:
    """Predict the time of a record from the loop of its kernel and the ceilings of its device.

    Raises:
        UnmodelledError: the record does not tell how it was launched.
    """
    case = Problem(record.n, record.evaluated)
    return predict_launch(
        work, shape_of(record), case, clock_of(record, ceilings), ceilings, costs or costs_of(ceilings)
    )


def predict_launch(
    work: Work, shape: Shape, problem: Problem, megahertz: float, ceilings: Ceilings, costs: Costs
) -> Predicted:
    """Predict the time of an evaluation whose kernel was launched in this shape, at this clock."""
    lane = _interactions_of_a_thread(problem, shape, work)
    full, rest = divmod(shape.blocks, shape.resident * shape.multiprocessors)

    def cycles(blocks: int) -> float:
        return shape.warps_of(blocks) * lane * clocks_of(work, shape, blocks, costs)

    total = full * cycles(shape.resident) if full else 0.0
    total += cycles(-(-rest // shape.multiprocessors)) if rest else 0.0
    return Predicted(total / (megahertz * 1e6), work.launches * ceilings.value("launch_stream"))


def clock_of(record: Record, ceilings: Ceilings) -> float:
    """Return the clock of a record in MHz: the median of its readings, the highest where it has none."""
    return float(median(record.sm_clock_mhz)) if record.sm_clock_mhz else ceilings.clock


def architecture_of(record: Record) -> str:
    """Return the architecture of a record's device, such as ``sm_90``.

    Raises:
        UnmodelledError: the record does not tell.
    """
    if not record.compute_capability or not re.fullmatch(r"\d+\.\d", record.compute_capability):
        raise UnmodelledError("its record has no compute capability")
    return f"sm_{record.compute_capability.replace('.', '')}"


def modelled(record: Record) -> bool:
    """Tell whether a record is one that the model is for: a direct sum in CUDA C, measured by itself on a GPU."""
    variant = discover().get(record.variant)
    return (
        record.status == "ok"
        and record.timed == "force"
        and record.gpus == 1
        and bool(record.grid_blocks)
        and not record.computed
        and variant is not None
        and variant.has_cuda_c
        and record.toolkit in ("cupy", "pycuda")
    )


@dataclass(frozen=True, slots=True)
class Errors:
    """How far the model is off for one variant: records, and the relative errors of their predicted times."""

    variant: str
    errors: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median of the errors without their signs."""
        return median(map(abs, self.errors))

    @property
    def bias(self) -> float:
        """The median of the errors: below zero where the model predicts too little time."""
        return median(self.errors)


def errors_of(records: Iterable[Record], ceilings: Ceilings) -> tuple[list[Errors], dict[str, str]]:
    """Compare predicted with measured times, by variant; return also why other variants have no model.

    Records whose kernel is not what this checkout has are left out: their machine code is another.
    """
    costs = costs_of(ceilings)
    found: dict[str, list[float]] = {}
    without: dict[str, str] = {}
    for record in records:
        if not modelled(record) or not record.median_seconds or record.variant in without:
            continue
        variant = discover()[record.variant]
        try:
            if record.code_sha256 != variant.code_sha256(record.toolkit, find(record.interaction)):
                continue
            shape = shape_of(record)
            work = work_of(record, architecture_of(record), shape.multiprocessors)
            predicted = predict(record, work, ceilings, costs).seconds
        except (UnmodelledError, InputError) as error:
            without[record.variant] = str(error)
            continue
        found.setdefault(record.variant, []).append(predicted / record.median_seconds - 1)
    order = [name for name in discover() if name in found]
    return [Errors(name, tuple(found[name])) for name in order], without


def _interactions_of_a_thread(problem: Problem, shape: Shape, work: Work) -> float:
    """Return what each thread computes, also where it stands for a body that is not there."""
    evenly = problem.evaluated / (shape.blocks * shape.warps * LANES)
    if work.bodies_of_block:
        # Where the last block is not full, its threads compute all the same.
        covered = shape.blocks * work.bodies_of_block / problem.n
        evenly *= covered / max(1, math.floor(covered)) if covered < 2 else 1
    return evenly


def _work(variant: Variant, source: str, one: Asked, built: Assembled, launches: int) -> Work | None:
    code, loops = built.code.instructions, built.code.loops()
    constants = dict(one.constants)
    where = places(source)
    centres = {place for place, each in enumerate(code) if is_root(each.opcode)}
    if not centres:  # a text without roots: what stands in their place
        replaced = {at for at, text in where.lines.items() if REPLACED in text}
        centres = {
            place
            for place, each in enumerate(code)
            if each.name in ("FMUL", "DMUL") and (each.file, each.line) in replaced
        }

    def roots(loop: Loop) -> int:
        return sum(loop.first <= place <= loop.last for place in centres)

    def cost(loop: Loop) -> float:
        return (loop.last - loop.first + 1) / roots(loop)

    holding = [loop for loop in loops if roots(loop)]
    candidates = [loop for loop in holding if not any(loop.holds(other) for other in holding)]
    # A tile that is unrolled as a whole: the loop within is what is left at the end of the bodies.
    candidates = [
        outer if (outer := around(loops, loop)) and roots(outer) >= 16 * roots(loop) else loop for loop in candidates
    ]
    most = max(map(roots, candidates), default=0)
    # Of several such loops, such as one for bodies of equal mass, the cheaper is the one made for most of them.
    loop = min((one for one in candidates if 2 * roots(one) >= most), key=cost, default=None)
    if loop is None:
        return None
    inner, outer = _without_inner(code, loop, loops), around(loops, loop)
    mutual = variant.mutual is True or any(
        where.functions.get((each.file, each.line)) == variant.mutual for each in inner
    )
    served = 2 if mutual else 1
    turn = served * roots(loop)
    rows = LANES if mutual else constants.get("P")
    block = constants["P"] * constants.get("R", 1) if "P" in constants and not mutual else None
    if outer is None:
        return Work(one.stem, Pass(inner, FREE_TURNS), FREE_TURNS * turn, launches, block)
    turns = trips(code, loop)
    if turns is None:
        if rows is None:
            return Work(one.stem, Pass(inner, FREE_TURNS), FREE_TURNS * turn, launches, block)
        turns = max(1, round(rows * constants.get("R", 1) * served / turn))
    before = _without(code, outer.first, loop.first - 1, loops, outer)
    after = _without(code, loop.last + 1, outer.last, loops, outer)
    # Turns of the inner loop may stand before it, so that its loads are on their way.
    peeled = served * (roots(outer) - sum(roots(other) for other in _outermost_within(outer, loops))) // turn
    return Work(one.stem, Pass(inner, turns, before, after), turn * (turns + peeled), launches, block)


def _outermost_within(outer: Loop, loops: Sequence[Loop]) -> list[Loop]:
    """Return the loops within a loop that no other one within it holds."""
    within = [loop for loop in loops if outer.holds(loop)]
    return [loop for loop in within if not any(other.holds(loop) for other in within)]


def _without(code: list[Instruction], first: int, last: int, loops: list[Loop], outer: Loop) -> tuple[Instruction, ...]:
    """Return the instructions of a part of a loop that no loop within it holds."""
    held = [loop for loop in loops if outer.holds(loop)]
    return tuple(
        code[place] for place in range(first, last + 1) if not any(loop.first <= place <= loop.last for loop in held)
    )


def _without_inner(code: list[Instruction], loop: Loop, loops: list[Loop]) -> tuple[Instruction, ...]:
    return _without(code, loop.first, loop.last, loops, loop)


@lru_cache(maxsize=64)
def _bodies(n: int) -> Bodies:
    return generators.plummer(n, 1, 0.025)


@lru_cache(maxsize=4096)
def _asked(
    name: str, axes: tuple[tuple[str, object], ...], dtype: str, interaction: str, n: int, multiprocessors: int
) -> tuple[tuple[Asked, ...], int]:
    """Return the kernels that a case asks for, and how many it launches."""
    variant = discover()[name]
    toolkit = Asking(dtype, find(interaction), multiprocessors)  # type: ignore[arg-type]
    prepared = variant.prepare(toolkit, _bodies(n), **dict(axes))
    toolkit.launched.clear()
    with contextlib.suppress(Exception):  # what looks at results that were not computed
        prepared.launch()
    return tuple(toolkit.asked), max(len(toolkit.launched), prepared.kernels)


@lru_cache(maxsize=4096)
def _assembled(
    source: str, stem: str, constants: tuple[tuple[str, int], ...], architecture: str, options: tuple[str, ...]
) -> Assembled:
    defined = [f"-D{name}={value}" for name, value in constants]
    return assemble(source, stem, architecture, [*FLAGS, *options, *defined])


class _Hashable:
    """Costs as a key: those of one set of ceilings are one object."""

    def __init__(self, costs: Costs) -> None:
        self.costs = costs

    def __hash__(self) -> int:
        return hash((self.costs.miss, self.costs.operand, tuple(self.costs.busy.values())))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Hashable) and self.costs == other.costs


@lru_cache(maxsize=4096)
def _clocks(done: Pass, warps: int, together: int, costs: _Hashable) -> float:
    return clocks(done, warps, together, costs.costs)


def freed(costs: Costs, *, operands: bool) -> Costs:
    """Return costs without latencies and, unless ``operands``, with registers that deliver at once."""
    kinds = (*costs.latency, "ALU", "uniform", "control", "other")
    at_once = replace(costs, latency=dict.fromkeys(kinds, 1.0), miss=1.0)
    return at_once if operands else replace(at_once, operand=0.0)
