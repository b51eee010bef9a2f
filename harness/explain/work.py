"""The loop that a kernel spends its time in, found in its machine code, with what is around it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from gravbench.explain.asking import Asked, Asking
from gravbench.explain.assembling import Assembled, assemble
from gravbench.explain.changes import REPLACED
from gravbench.explain.machine_code import Instruction, Loop, around
from gravbench.explain.pipes import is_root
from gravbench.explain.places import places
from gravbench.explain.schedule import Pass
from gravbench.explain.trips import trips
from gravbench.model import generators
from gravbench.model.bodies import Bodies
from gravbench.model.case import Case
from gravbench.model.interaction_files import find
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
    variant: Variant,
    source: str,
    one: Asked,
    architecture: str,
    options: tuple[str, ...],
    launches: int,
    roots_each: int = 1,
) -> Work | None:
    """Find the loop of one kernel of a text that is a variant's, or was made from it; None where it has none.

    ``roots_each`` are the roots of an interaction, of one body or of two.

    Raises:
        InputError: it cannot be compiled or read here.
    """
    return _work(
        variant, source, one, _assembled(source, one.stem, one.constants, architecture, options), launches, roots_each
    )


def _work(variant: Variant, source: str, one: Asked, built: Assembled, launches: int, roots_each: int) -> Work | None:
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
    turn = max(1, served * roots(loop) // roots_each)
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
    peeled = served * (roots(outer) - sum(roots(other) for other in _outermost_within(outer, loops)))
    peeled = peeled // roots_each // turn
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
