"""The parts of the walk of ``resident_tree``, with how often they are run: what ``gravbench explain`` asks for.

That is counted from the bodies (``tree_walks``). Where these are not there, or too many, it follows from the cells and
the bodies that a body meets on the average, which a record has. How many nodes were looked at is not among that: an
opened cell has eight children at most, so that there are at least eight for every seven that were not opened, and a
step of the walk takes 32 of them at most. So there may be more steps than are taken into account, and the walks of some
warps are longer than those of others.
"""

from dataclasses import dataclass

import numpy as np

from gravbench.model.variant import Divided, KernelPart, KernelParts, Loop, UnmodelledError
from gravbench.variants.resident import tree_walks
from gravbench.variants.resident.tree_walks import LANES

CHILDREN = 8
"""Most that a cell of an octree has."""
CELLS, BODIES, STEPS, ONCE = "cells", "bodies", "steps", "before and after"
"""Names of the parts."""


def divide(code, evaluation):
    """Return the parts of the walk: counted from the bodies, or by what the record says of them; None without one."""
    if not evaluation.computed:
        return None
    loops = loops_of(code)
    if loops is None:
        raise UnmodelledError("its walk does not consist of one loop over cells and one over bodies")
    if walks := _walks(evaluation, loops.cells_at_once):
        return counted(code, loops, walks)
    cells, bodies = (evaluation.computed.get(name, 0.0) for name in ("body_cell", "body_body"))
    return means(code, loops, cells, bodies, int(evaluation.axes["leaf_size"]))


PARTS = KernelParts("resident_tree", "traverse", divide)


def _walks(evaluation, cells_at_once):
    """Count what the warps do; None where the bodies are not there, or too many."""
    if evaluation.n > tree_walks.MOST_BODIES:
        return None
    try:
        return tree_walks.walks(evaluation.bodies(), evaluation.axes, cells_at_once)
    except UnmodelledError:
        return None


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


def loops_of(code):
    """Return the loops of a walk, None where the code has not those."""

    def at_once(loop):
        return sum(at in loop.places for at in code.rsqrts) // code.constants["R"]

    holding = [loop for loop in code.loops if at_once(loop)]
    inner = [loop for loop in holding if not any(loop.holds(other) for other in holding)]
    if len(inner) != 2:
        return None
    # Bodies are added in batches, by a loop within the step; cells are added in the step itself.
    ((batch, bodies), (step, cells)) = sorted(
        ((code.around(loop), loop) for loop in inner), key=lambda pair: pair[0].last - pair[0].first if pair[0] else 0
    )
    if batch is None or step is None or not step.holds(batch):
        return None
    return Loops(step, cells, batch, bodies, at_once(cells), at_once(bodies))


def means(code, loops, cells, bodies, leaf_size):
    """Return the parts of a walk in which a body meets so many cells and bodies, in leaves of at most ``leaf_size``."""
    # Of each group of bodies, by the interactions of a thread of one warp.
    interactions = code.constants["R"] * (cells + bodies)
    steps = CHILDREN / (CHILDREN - 1) * (cells + bodies / leaf_size) / LANES * code.constants["WARPS"] / interactions
    turns = max(1, LANES // loops.bodies_at_once)
    before, after = _staging(code, loops)
    return Divided(
        [
            KernelPart(CELLS, cells / loops.cells_at_once / interactions, loops.cells.places),
            KernelPart(BODIES, bodies / LANES / interactions, loops.bodies.places, turns, before, after),
            *_steps(code, loops, steps),
        ]
    )


def counted(code, loops, walks):
    """Return the parts of walks that were followed."""
    before, after = _staging(code, loops)
    whole = code.around(loops.step) or Loop(0, code.length - 1)
    of_cells = _skipped(code, loops.cells, range(loops.cells.first - 1, loops.step.first - 1, -1), loops.step)
    of_leaves = _skipped(code, loops.batch, range(loops.cells.last + 1, loops.batch.first), loops.step)
    return Divided(
        [
            KernelPart(CELLS, walks.cell_turns, loops.cells.places),
            KernelPart(CELLS, walks.cell_steps, (), before=code.outside(of_cells, loops.step)),
            KernelPart(BODIES, walks.body_turns, loops.bodies.places),
            KernelPart(BODIES, walks.batches, (), before=[*before, *after]),
            KernelPart(BODIES, walks.leaf_steps, (), before=code.outside(of_leaves, loops.step)),
            *_steps(code, loops, walks.steps, without={*of_cells, *of_leaves}),
            KernelPart(ONCE, np.ones_like(walks.steps), (), before=code.outside(whole.places, whole)),
        ],
        code.constants["R"] * float((walks.cells + walks.bodies).sum()),
    )


def _skipped(code, loop, jumps, within):
    """Return the places that a turn of an outer loop leaves out with another one, by the first of jumps over it."""
    for at in jumps:
        behind = [to for to in code.following(at) if loop.last < to <= within.last + 1]
        if behind:
            return range(at + 1, min(behind))
    return range(0)


def _staging(code, loops):
    """Return the places in the loop over batches before that over bodies, and behind it."""
    places = code.outside(loops.batch.places, loops.batch)
    return [at for at in places if at < loops.bodies.first], [at for at in places if at > loops.bodies.last]


def _steps(code, loops, times, without=()):
    """Return what each step runs, so often: itself, and a loop over the boxes where there are many."""
    places = [at for at in loops.step.places if at not in without]
    yield KernelPart(STEPS, times, (), before=code.outside(places, loops.step))
    for loop in code.loops:
        over_boxes = code.around(loop) == loops.step and loop not in (loops.cells, loops.batch)
        # One of as many turns as a warp has bodies is run in long walks alone.
        if over_boxes and loop.first not in without and (turns := code.turns(loop)) and turns != LANES:
            yield KernelPart(STEPS, times, loop.places, turns)
