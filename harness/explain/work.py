"""The loop that a kernel spends its time in, found in its machine code, with what is around it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from gravbench.errors import InputError
from gravbench.explain.assembling import Assembled, assemble
from gravbench.explain.changes import REPLACED
from gravbench.explain.kernel_code import KernelCode
from gravbench.explain.machine_code import Instruction, Loop, around, outside
from gravbench.explain.pipes import is_rsqrt
from gravbench.explain.recorded_kernels import Launches, launches_of
from gravbench.explain.schedule import Pass
from gravbench.explain.shape import LANES, Shape
from gravbench.explain.shared_memory import with_wavefronts
from gravbench.explain.source_lines import Places, places
from gravbench.explain.trip_counts import trips
from gravbench.model import generators, initial_conditions
from gravbench.model.bodies import Bodies
from gravbench.model.interaction_files import find
from gravbench.model.kernel_parts import Evaluation, UnmodelledError
from gravbench.model.record import Record
from gravbench.model.variant import AxisValue, Dtype, Variant, discover
from gravbench.toolkits.compile_cache import keep
from gravbench.toolkits.interface import cuda_options
from gravbench.toolkits.recording import RecordedKernel

MOST_BODIES = 1 << 18
"""Bodies for which kernels are asked for: no constant of a kernel depends on more."""
FREE_TURNS = 8
"""Turns of a loop that is run without what is around it: its loads then share what they bring."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of what a kernel does: one pass of it, and how many a warp makes for each interaction of its threads."""

    done: Pass
    times: float
    name: str = ""


@dataclass(frozen=True, slots=True)
class Work:
    """What a kernel spends its time in: the loop over its interactions alone, or several parts that were counted.

    ``launches`` are those of one evaluation, and ``bodies_of_block`` the bodies of a block, where that is known.
    ``each`` are the passes of every part that each warp makes, shape (parts, warps), where they differ. ``stage`` is
    what the record calls the kernel's part of an evaluation, where it has times of several. ``frame`` are the bytes of
    local memory of a thread, to which registers are spilled, ``shared`` those of shared memory of a block.
    """

    kernel: str
    parts: tuple[Part, ...]
    launches: int
    bodies_of_block: int | None = None
    each: NDArray[np.int64] | None = field(default=None, compare=False)
    stage: str = ""
    architecture: str = "sm_90"
    frame: int = 0
    shared: int = 0

    @property
    def length(self) -> float:
        """Instructions of an interaction."""
        return sum(part.done.length * part.times for part in self.parts)

    @property
    def weighted(self) -> Iterator[tuple[Instruction, float]]:
        """Give the instructions, and how often a warp runs each for an interaction of its threads."""
        for part in self.parts:
            done = part.done
            for body, turns in ((done.before, 1), (done.inner, done.turns), (done.after, 1)):
                for instruction in body:
                    yield instruction, turns * part.times


def work_of(record: Record, architecture: str, shape: Shape, kernel: str | None = None) -> Work:
    """Find what the kernel of a record spends its time in; ``kernel`` is its name, the first that has a loop.

    Raises:
        UnmodelledError: there is no such loop.
        InputError: it cannot be compiled or read here.
    """
    variant = discover().get(record.variant)
    if variant is None or not variant.has_cuda_c or not variant.computes(record.axes) or record.interaction_sha256:
        raise UnmodelledError("this checkout does not have its CUDA C")
    interaction = find(record.interaction)
    axes = variant.complete(record.axes)
    n = min(record.n, MOST_BODIES)
    named = tuple(sorted(axes.items()))
    dtype: Dtype = "float64" if record.dtype == "float64" else "float32"
    launches = _launches(variant.name, named, dtype, interaction.name, n, shape.multiprocessors)
    source = variant.cuda_source(interaction)
    evaluation = Evaluation(
        axes, record.n, shape.blocks * shape.warps, partial(_bodies_of, record), record.computed,
        record.stages_seconds.keys(),
    )  # fmt: skip
    for recorded in launches.kernels:
        if kernel is None or recorded.stem == kernel:
            work = work_of_text(variant, source, recorded, architecture, dtype, launches.count, evaluation)
            if work is not None:
                return work
    raise UnmodelledError("none of its kernels has a loop over interactions")


def _bodies_of(record: Record) -> Bodies:
    try:
        return initial_conditions.of_case(record)
    except InputError as error:
        raise UnmodelledError(f"it depends on its bodies, which are not available: {error}") from error


def work_of_text(
    variant: Variant,
    source: str,
    recorded: RecordedKernel,
    architecture: str,
    dtype: Dtype,
    launches: int,
    evaluation: Evaluation,
    options: tuple[str, ...] = (),
    rsqrts_each: int = 1,
) -> Work | None:
    """Find the work of one kernel of a text that is a variant's, or was made from it; None where it has no such loop.

    ``options`` are those of the compiler beside a toolkit's, and ``rsqrts_each`` the reciprocal square roots of an
    interaction, of one body or of two.

    Raises:
        UnmodelledError: the variant divides this kernel into parts, and cannot here.
        InputError: it cannot be compiled or read here.
    """
    built = _assembled(source, recorded, architecture, dtype, options)
    work = _divided(variant, source, recorded, built, launches, evaluation, rsqrts_each)
    work = work or _of_one_loop(variant, source, recorded, built, launches, rsqrts_each)
    return work and replace(work, architecture=built.architecture, frame=built.frame, shared=built.shared)


def _divided(
    variant: Variant,
    source: str,
    recorded: RecordedKernel,
    built: Assembled,
    launches: int,
    evaluation: Evaluation,
    rsqrts_each: int,
) -> Work | None:
    """Return the parts into which a variant divides a kernel; None where it does not."""
    declared = variant.kernel_parts
    if declared is None or declared.kernel != recorded.stem:
        return None
    keep()
    code = KernelCode(built.code, sorted(_rsqrts_of(built, places(source))), dict(recorded.constants), rsqrts_each)
    divided = declared.divide(code, evaluation)
    if divided is None:
        return None
    parts = tuple(
        Part(code.pass_of(part), float(np.sum(part.times)) / divided.interactions, part.name) for part in divided.parts
    )
    counted = all(np.ndim(part.times) for part in divided.parts)
    each = np.stack([part.times for part in divided.parts]) if counted else None
    return Work(
        recorded.stem, parts, launches, each=each, stage=declared.stage if declared.stage in evaluation.stages else ""
    )


def shared_of(
    source: str, recorded: RecordedKernel, architecture: str, dtype: Dtype, options: tuple[str, ...]
) -> tuple[int, int]:
    """Return the bytes of shared memory of a block of a kernel, and the registers of a thread.

    Raises:
        InputError: it cannot be compiled or read here.
    """
    built = _assembled(source, recorded, architecture, dtype, options)
    return built.shared, built.registers


def _of_one_loop(
    variant: Variant, source: str, recorded: RecordedKernel, built: Assembled, launches: int, rsqrts_each: int
) -> Work | None:
    """Return the loop over interactions of a kernel with what is around it; None where it has none."""
    code, loops = built.code.instructions, built.code.loops()
    constants, where = dict(recorded.constants), places(source)
    rsqrts = _rsqrts_of(built, where)
    loop = _main_loop(loops, rsqrts)
    if loop is None:
        return None

    def instructions(first: int, last: int, within: Loop) -> tuple[Instruction, ...]:
        return tuple(code[place] for place in outside(loops, range(first, last + 1), within))

    inner, outer = instructions(loop.first, loop.last, loop), around(loops, loop)
    mutual = variant.mutual is True or any(
        where.functions.get((each.file, each.line)) == variant.mutual for each in inner
    )
    served = 2 if mutual else 1
    turn = max(1, served * _count(loop, rsqrts) // rsqrts_each)
    rows = LANES if mutual else constants.get("P")
    block = constants["P"] * constants.get("R", 1) if "P" in constants and not mutual else None

    def alone(done: Pass, interactions: int) -> Work:
        return Work(recorded.stem, (Part(done, 1 / interactions),), launches, block)

    turns = None if outer is None else trips(code, loop)
    if outer is None or (turns is None and rows is None):
        return alone(Pass(inner, FREE_TURNS), FREE_TURNS * turn)
    if turns is None:
        assert rows is not None
        turns = max(1, round(rows * constants.get("R", 1) * served / turn))
    before = instructions(outer.first, loop.first - 1, outer)
    after = instructions(loop.last + 1, outer.last, outer)
    # Turns of the inner loop may stand before it, so that its loads are on their way.
    peeled = served * len([at for at in outside(loops, outer.places, outer) if at in rsqrts]) // rsqrts_each // turn
    return alone(Pass(inner, turns, before, after), turn * (turns + peeled))


def _main_loop(loops: Sequence[Loop], rsqrts: set[int]) -> Loop | None:
    """Return the loop in which most interactions are computed; None where none has a rsqrt."""
    holding = [loop for loop in loops if _count(loop, rsqrts)]
    candidates = [loop for loop in holding if not any(loop.holds(other) for other in holding)]
    # A tile that is unrolled as a whole: the loop within is what is left at the end of the bodies.
    candidates = [
        outer if (outer := around(loops, loop)) and _count(outer, rsqrts) >= 16 * _count(loop, rsqrts) else loop
        for loop in candidates
    ]
    most = max((_count(loop, rsqrts) for loop in candidates), default=0)
    # Of several such loops, such as one for bodies of equal mass, the cheaper is the one made for most of them.
    return min(
        (loop for loop in candidates if 2 * _count(loop, rsqrts) >= most),
        key=lambda loop: len(loop.places) / _count(loop, rsqrts),
        default=None,
    )


def _count(loop: Loop, rsqrts: set[int]) -> int:
    return sum(place in rsqrts for place in loop.places)


def _rsqrts_of(built: Assembled, where: Places) -> set[int]:
    """Return the places of the rsqrts, and of what stands for them in a text from which they were taken."""
    replaced = {at for at, text in where.lines.items() if REPLACED in text}

    def stands_for_one(instruction: Instruction) -> bool:
        return instruction.name in ("FMUL", "DMUL") and (instruction.file, instruction.line) in replaced

    code = built.code.instructions
    return {
        place
        for place, instruction in enumerate(code)
        if is_rsqrt(instruction.opcode, instruction.operands) or stands_for_one(instruction)
    }


@lru_cache(maxsize=4096)
def _launches(
    name: str, axes: tuple[tuple[str, AxisValue], ...], dtype: Dtype, interaction: str, n: int, multiprocessors: int
) -> Launches:
    """Return what a case launches."""
    return launches_of(
        discover()[name], dict(axes), dtype, find(interaction), generators.plummer(n, 1, 0.025), multiprocessors
    )


@lru_cache(maxsize=4096)
def _assembled(
    source: str, recorded: RecordedKernel, architecture: str, dtype: Dtype, options: tuple[str, ...]
) -> Assembled:
    every = [*cuda_options(dict(recorded.constants), dtype), *options]
    built = assemble(source, recorded.stem, architecture, every)
    return replace(built, code=with_wavefronts(built.code))
