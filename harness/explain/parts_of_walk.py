"""The parts of the walk of ``resident_tree``, with how often they are run by what its record counted.

A record has the cells and the bodies that a body meets on the average. From them follow the turns of the loops that add
them up. How many nodes were looked at was not counted: an opened cell has eight children at most, so that there are
at least eight for every seven that were not opened, and a step of the walk takes 32 of them at most. So there may be
more steps than are taken into account here, and the walks of some warps are longer than those of others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gravbench.explain.machine_code import Code, Loop, around
from gravbench.explain.paths import instructions, outside
from gravbench.explain.schedule import Pass
from gravbench.explain.shape import LANES

CHILDREN = 8
"""Most that a cell of an octree has."""


@dataclass(frozen=True, slots=True)
class Walked:
    """What a body meets on the average: ``cells`` and ``bodies``, in leaves of at most ``leaf_size``."""

    cells: float
    bodies: float
    leaf_size: int


def parts(
    code: Code, loops: Sequence[Loop], roots: Sequence[int], constants: Mapping[str, int], walked: Walked
) -> list[tuple[str, Pass, float]] | None:
    """Return parts of the walk, each with its name and how often a warp runs it for each interaction of its threads.

    None where the code has not the loops of such a walk.
    """

    def own(loop: Loop) -> int:
        return sum(loop.first <= at <= loop.last for at in roots)

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
    own_bodies, warps = constants["R"], constants["WARPS"]
    # Of each group of bodies, by the interactions of a thread of one warp.
    each = own_bodies * (walked.cells + walked.bodies)
    steps = CHILDREN / (CHILDREN - 1) * (walked.cells + walked.bodies / walked.leaf_size) / LANES
    before, after = (
        [at for at in outside(range(batch.first, batch.last + 1), loops, batch) if (at < bodies.first) == first]
        for first in (True, False)
    )
    turns = max(1, LANES * own_bodies // own(bodies))
    return [
        ("cells", _loop(code, cells), walked.cells * own_bodies / own(cells) / each),
        (
            "bodies",
            Pass(_loop(code, bodies).inner, turns, instructions(code, before), instructions(code, after)),
            walked.bodies / LANES / each,
        ),
        (
            "steps",
            Pass((), 1, instructions(code, outside(range(step.first, step.last + 1), loops, step))),
            steps * warps / each,
        ),
    ]


def _loop(code: Code, loop: Loop) -> Pass:
    return Pass(instructions(code, range(loop.first, loop.last + 1)))
