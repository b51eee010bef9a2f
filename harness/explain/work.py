"""The loop that a kernel spends its time in, found in its machine code, with what is around it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from gravbench.errors import InputError
from gravbench.explain import parts_of_tensor, parts_of_walk
from gravbench.explain.assembling import Assembled, assemble
from gravbench.explain.changes import REPLACED
from gravbench.explain.machine_code import Instruction, Loop, around
from gravbench.explain.near_pairs import Met, met
from gravbench.explain.parts_of_walk import Walked
from gravbench.explain.pipes import is_root
from gravbench.explain.schedule import Pass
from gravbench.explain.shape import LANES, Shape, UnmodelledError
from gravbench.explain.shared_memory import with_wavefronts
from gravbench.explain.source_lines import Places, places
from gravbench.explain.tree_walks import Walks, walks
from gravbench.explain.trip_counts import trips
from gravbench.model import generators, initial_conditions
from gravbench.model.bodies import Bodies
from gravbench.model.interaction_files import find
from gravbench.model.record import Record
from gravbench.model.variant import Axes, Variant, discover
from gravbench.toolkits.interface import FLAGS
from gravbench.toolkits.recording import RecordedKernel, RecordingToolkit

TENSOR = "tensor"
"""The kernel whose work depends on the bodies."""
WALK, STAGE = "resident_tree", "traverse"
"""The kernel that walks a tree, and its stage of an evaluation."""
PAIRS = "pairs"
"""The stage of ``tensor`` that is its kernel; in the others bodies are put into their order, and sums out of it."""
MOST_BODIES = 1 << 18
"""Bodies for which kernels are asked for: no constant of a kernel depends on more."""
MOST_FOLLOWED = 1 << 20
"""Bodies whose walks are followed on the host, in some seconds."""
FREE_TURNS = 8
"""Turns of a loop that is run without what is around it: its loads then share what they bring."""


Count = Callable[[], Met]


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
                for one in body:
                    yield one, turns * part.times


def work_of(record: Record, architecture: str, shape: Shape, kernel: str | None = None) -> Work:
    """Find what the kernel of a record spends its time in; ``kernel`` is its name, the first that has a loop.

    Raises:
        UnmodelledError: there is no such loop.
        InputError: it cannot be compiled or read here.
    """
    variant = discover().get(record.variant)
    if variant is None or not variant.has_cuda_c or record.interaction_sha256:
        raise UnmodelledError("this checkout does not have its CUDA C")
    interaction = find(record.interaction)
    axes = variant.complete(record.axes)
    n = min(record.n, MOST_BODIES)
    named = tuple(sorted(axes.items()))
    asked, launches = _asked(variant.name, named, record.dtype, interaction.name, n, shape.multiprocessors)
    source = variant.cuda_source(interaction)
    options = ("-DFLOAT64=1",) if record.dtype == "float64" else ()
    for one in asked:
        if kernel is None or one.stem == kernel:
            if one.stem == WALK and record.computed:
                return _walk(variant, source, one, architecture, options, record, launches)
            count = counting(one, partial(_bodies_of, record), axes, shape)
            found = work_of_text(variant, source, one, architecture, options, launches, count=count)
            if found is not None:
                alone = found.each is not None and PAIRS in record.stages_seconds
                return replace(found, stage=PAIRS) if alone else found
    raise UnmodelledError("none of its kernels has a loop over interactions")


def _walk(
    variant: Variant,
    source: str,
    one: RecordedKernel,
    architecture: str,
    options: tuple[str, ...],
    record: Record,
    launches: int,
) -> Work:
    """Return the parts of the walk of a tree: counted from its bodies, or by what the record says of them."""
    built = _assembled(source, one.stem, one.constants, architecture, options)
    loops, constants = built.code.loops(), dict(one.constants)
    found = parts_of_walk.loops_of(loops, sorted(_centres(built, places(source))), constants)
    if found is None:
        raise UnmodelledError("its walk does not consist of one loop over cells and one over bodies")
    stage = STAGE if STAGE in record.stages_seconds else ""
    launches = 1 if stage else launches
    axes = variant.complete(record.axes)
    if walks := _walks(record, axes, found.cells_at_once):
        counted = parts_of_walk.counted(built.code, loops, found, walks)
        whole = constants["R"] * float((walks.cells + walks.bodies).sum())
        parts = tuple(Part(done, float(each.sum()) / whole, name) for name, done, each in counted)
        work = Work(one.stem, parts, launches, each=np.stack([each for *_, each in counted]), stage=stage)
        return _placed(work, built)
    walked = Walked(
        record.computed.get("body_cell", 0.0), record.computed.get("body_body", 0.0), int(axes["leaf_size"])
    )
    means = parts_of_walk.parts(built.code, loops, found, constants, walked)
    parts = tuple(Part(done, times, name) for name, done, times in means)
    return _placed(Work(one.stem, parts, launches, stage=stage), built)


def _walks(record: Record, axes: Axes, cells_at_once: int) -> Walks | None:
    """Count what the warps of a walk do; None where the bodies are not there, or too many."""
    if record.n > MOST_FOLLOWED:
        return None
    with contextlib.suppress(UnmodelledError):
        return walks(_bodies_of(record), axes, cells_at_once)
    return None


def _bodies_of(record: Record) -> Bodies:
    try:
        return initial_conditions.of_case(record)
    except InputError as error:
        raise UnmodelledError(f"it depends on its bodies, which are not available: {error}") from error


def counting(one: RecordedKernel, bodies: Callable[[], Bodies], axes: Axes, shape: Shape) -> Count | None:
    """Return what counts the work of a kernel launched in this shape; None where its text says all of it."""
    if one.stem != TENSOR:
        return None
    return lambda: met_of(bodies(), dict(one.constants), axes, shape.blocks * shape.warps)


def met_of(bodies: Bodies, constants: Mapping[str, int], axes: Axes, warps: int) -> Met:
    """Count what the warps of ``tensor`` meet, for a kernel with these constants and a grid of so many warps."""
    along_curve = bool(axes.get("reorder", True))  # always, where it is no axis
    many = constants["MANY"] if constants["TERMS"] == 1 else None
    key = bodies.sha256, constants["R"], constants["SEPARATION"], many, along_curve, warps
    if key not in _MET:
        _MET[key] = met(
            bodies,
            width=LANES * constants["R"],
            separation=constants["SEPARATION"] / 100,
            many=many,
            along_curve=along_curve,
            warps=warps,
        )
    return _MET[key]


_MET: dict[tuple[object, ...], Met] = {}


def work_of_text(
    variant: Variant,
    source: str,
    one: RecordedKernel,
    architecture: str,
    options: tuple[str, ...],
    launches: int,
    roots_each: int = 1,
    count: Count | None = None,
) -> Work | None:
    """Find the work of one kernel of a text that is a variant's, or was made from it; None where it has no such loop.

    ``roots_each`` are the roots of an interaction, of one body or of two. ``count`` counts what the kernel does where
    it depends on the bodies.

    Raises:
        InputError: it cannot be compiled or read here.
    """
    built = _assembled(source, one.stem, one.constants, architecture, options)
    if count is not None:
        found = count()
        centres = sorted(_centres(built, places(source)))
        counted = parts_of_tensor.parts(built.code, built.code.loops(), found, centres, roots_each)
        if counted is not None:
            each = np.stack([part.times for part in counted])
            whole = found.interactions / LANES
            parts = tuple(Part(part.done, float(part.times.sum()) / whole, part.name) for part in counted)
            return _placed(Work(one.stem, parts, launches, each=each), built)
    work = _work(variant, source, one, built, launches, roots_each)
    return None if work is None else _placed(work, built)


def _placed(work: Work, built: Assembled) -> Work:
    """Say what memory of a multiprocessor the threads and blocks of a kernel take."""
    return replace(work, architecture=built.architecture, frame=built.frame, shared=built.shared)


def shared_of(
    source: str, one: RecordedKernel, architecture: str, dtype: str, options: tuple[str, ...]
) -> tuple[int, int]:
    """Return the bytes of shared memory of a block of a kernel, and the registers of a thread.

    Raises:
        InputError: it cannot be compiled or read here.
    """
    given = (*(("-DFLOAT64=1",) if dtype == "float64" else ()), *options)
    built = _assembled(source, one.stem, one.constants, architecture, given)
    return built.shared, built.registers


def _work(
    variant: Variant, source: str, one: RecordedKernel, built: Assembled, launches: int, roots_each: int
) -> Work | None:
    code, loops = built.code.instructions, built.code.loops()
    constants = dict(one.constants)
    where = places(source)
    centres = _centres(built, where)

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
    turn = max(1, served * roots(loop) // roots_each)
    rows = LANES if mutual else constants.get("P")
    block = constants["P"] * constants.get("R", 1) if "P" in constants and not mutual else None

    def alone(done: Pass, interactions: int) -> Work:
        return Work(one.stem, (Part(done, 1 / interactions),), launches, block)

    if outer is None:
        return alone(Pass(inner, FREE_TURNS), FREE_TURNS * turn)
    turns = trips(code, loop)
    if turns is None:
        if rows is None:
            return alone(Pass(inner, FREE_TURNS), FREE_TURNS * turn)
        turns = max(1, round(rows * constants.get("R", 1) * served / turn))
    before = _without(code, outer.first, loop.first - 1, loops, outer)
    after = _without(code, loop.last + 1, outer.last, loops, outer)
    # Turns of the inner loop may stand before it, so that its loads are on their way.
    peeled = served * (roots(outer) - sum(roots(other) for other in _outermost_within(outer, loops)))
    peeled = peeled // roots_each // turn
    return alone(Pass(inner, turns, before, after), turn * (turns + peeled))


def _centres(built: Assembled, where: Places) -> set[int]:
    """Return the places of the roots, and of what stands for them in a text from which they were taken."""
    replaced = {at for at, text in where.lines.items() if REPLACED in text}

    def stands_for_one(one: Instruction) -> bool:
        return one.name in ("FMUL", "DMUL") and (one.file, one.line) in replaced

    code = built.code.instructions
    return {place for place, one in enumerate(code) if is_root(one.opcode, one.operands) or stands_for_one(one)}


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
) -> tuple[tuple[RecordedKernel, ...], int]:
    """Return the kernels that a case asks for, and how many it launches."""
    variant = discover()[name]
    toolkit = RecordingToolkit(dtype, find(interaction), multiprocessors)  # type: ignore[arg-type]
    prepared = variant.prepare(toolkit, _bodies(n), **dict(axes))
    toolkit.launched.clear()
    with contextlib.suppress(Exception):  # what looks at results that were not computed
        prepared.launch()
    return tuple(toolkit.kernels), max(len(toolkit.launched), prepared.kernels)


@lru_cache(maxsize=4096)
def _assembled(
    source: str, stem: str, constants: tuple[tuple[str, int], ...], architecture: str, options: tuple[str, ...]
) -> Assembled:
    defined = [f"-D{name}={value}" for name, value in constants]
    built = assemble(source, stem, architecture, [*FLAGS, *options, *defined])
    return replace(built, code=with_wavefronts(built.code))
