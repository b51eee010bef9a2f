"""The parts of the walk of ``resident_tree``, with how often they are run.

That is counted from the bodies (``tree_walks``). Where these are not there, or too many, it follows from the cells and
the bodies that a body meets on the average, which a record has. How many nodes were looked at is not among that: an
opened cell has eight children at most, so that there are at least eight for every seven that were not opened, and a
step of the walk takes 32 of them at most. So there may be more steps than are taken into account, and the walks of some
warps are longer than those of others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gravbench.explain.machine_code import Code, Loop, around
from gravbench.explain.paths import following, instructions, outside
from gravbench.explain.schedule import Pass
from gravbench.explain.shape import LANES
from gravbench.explain.tree_walks import Counts, Walks
from gravbench.explain.trip_counts import trips

CHILDREN = 8
"""Most that a cell of an octree has."""
CELLS, BODIES, STEPS, ONCE = "cells", "bodies", "steps", "before and after"
"""Names of the parts."""


@dataclass(frozen=True, slots=True)
class Walked:
    """What a body meets on the average: ``cells`` and ``bodies``, in leaves of at most ``leaf_size``."""

    cells: float
    bodies: float
    leaf_size: int


@dataclass(frozen=True, slots=True)
class Loops:
    """The loops of a walk: the ``step``, the loop over ``cells`` in it, the ``batch`` and that over ``bodies`` in it.

    A turn of the inner loops adds up so many cells, and so many bodies, for each body of a thread.
    """

    step: Loop
    cells: Loop
    batch: Loop
    bodies: Loop
    cells_at_once: int
    bodies_at_once: int


def loops_of(loops: Sequence[Loop], roots: Sequence[int], constants: Mapping[str, int]) -> Loops | None:
    """Return the loops of a walk, None where the code has not those; ``roots`` are the places of the roots."""

    def own(loop: Loop) -> int:
        return sum(loop.first <= at <= loop.last for at in roots) // constants["R"]

    holding = [loop for loop in loops if own(loop)]
    inner = [loop for loop in holding if not any(loop.holds(other) for other in holding)]
    if len(inner) != 2:
        return None
    # Bodies are added in batches, by a loop within the step; cells are added in the step itself.
    ((batch, bodies), (step, cells)) = sorted(
        ((around(loops, loop), loop) for loop in inner), key=lambda pair: pair[0].last - pair[0].first if pair[0] else 0
    )
    if batch is None or step is None or not step.holds(batch):
        return None
    return Loops(step, cells, batch, bodies, own(cells), own(bodies))


def parts(
    code: Code, loops: Sequence[Loop], found: Loops, constants: Mapping[str, int], walked: Walked
) -> list[tuple[str, Pass, float]]:
    """Return parts of the walk, each with its name and how often a warp runs it for each interaction of its threads."""
    own_bodies, warps = constants["R"], constants["WARPS"]
    # Of each group of bodies, by the interactions of a thread of one warp.
    each = own_bodies * (walked.cells + walked.bodies)
    steps = CHILDREN / (CHILDREN - 1) * (walked.cells + walked.bodies / walked.leaf_size) / LANES
    turns = max(1, LANES // found.bodies_at_once)
    inner = _loop(code, found.bodies).inner
    before, after = (instructions(code, part) for part in _staging(loops, found))
    return [
        (CELLS, _loop(code, found.cells), walked.cells / found.cells_at_once / each),
        (BODIES, Pass(inner, turns, before, after), walked.bodies / LANES / each),
        *((STEPS, done, steps * warps / each) for done in _of_step(code, loops, found)),
    ]


def counted(code: Code, loops: Sequence[Loop], found: Loops, walks: Walks) -> list[tuple[str, Pass, Counts]]:
    """Return parts of the walk, each with its name and how often each warp runs it, shape (warps,)."""
    before, after = _staging(loops, found)
    whole = around(loops, found.step) or Loop(0, len(code.instructions) - 1)
    of_cells = _skipped(code, found.cells, range(found.cells.first - 1, found.step.first - 1, -1), found.step)
    of_leaves = _skipped(code, found.batch, range(found.cells.last + 1, found.batch.first), found.step)
    step, *boxes = _of_step(code, loops, found, without={*of_cells, *of_leaves})
    return [
        (CELLS, _loop(code, found.cells), walks.cell_turns),
        (CELLS, _part(code, loops, found.step, of_cells), walks.cell_steps),
        (BODIES, _loop(code, found.bodies), walks.body_turns),
        (BODIES, Pass((), 1, instructions(code, [*before, *after])), walks.batches),
        (BODIES, _part(code, loops, found.step, of_leaves), walks.leaf_steps),
        *((STEPS, done, walks.steps) for done in (step, *boxes)),
        (ONCE, _part(code, loops, whole, range(whole.first, whole.last + 1)), np.ones_like(walks.steps)),
    ]


def _skipped(code: Code, loop: Loop, jumps: Iterable[int], within: Loop) -> range:
    """Return the places that a turn of an outer loop leaves out with another one, by the first of jumps over it."""
    for at in jumps:
        behind = [to for to in following(code, at) if loop.last < to <= within.last + 1]
        if behind:
            return range(at + 1, min(behind))
    return range(0)


def _staging(loops: Sequence[Loop], found: Loops) -> tuple[list[int], list[int]]:
    """Return the places in the loop over batches before that over bodies, and behind it."""
    places = outside(range(found.batch.first, found.batch.last + 1), loops, found.batch)
    return [at for at in places if at < found.bodies.first], [at for at in places if at > found.bodies.last]


def _of_step(code: Code, loops: Sequence[Loop], found: Loops, without: Collection[int] = ()) -> list[Pass]:
    """Return what each step runs: itself, and a loop over the boxes where there are many."""
    own = [loop for loop in loops if around(loops, loop) == found.step and loop not in (found.cells, found.batch)]
    turned = [(loop, trips(code.instructions, loop)) for loop in own if loop.first not in without]
    places = [at for at in range(found.step.first, found.step.last + 1) if at not in without]
    return [
        _part(code, loops, found.step, places),
        *(Pass(_loop(code, loop).inner, turns) for loop, turns in turned if turns),
    ]


def _part(code: Code, loops: Sequence[Loop], within: Loop, places: Iterable[int]) -> Pass:
    """Return a part of a loop without the loops in it."""
    return Pass((), 1, instructions(code, outside(places, loops, within)))


def _loop(code: Code, loop: Loop) -> Pass:
    return Pass(instructions(code, range(loop.first, loop.last + 1)))
