"""How often ``tensor`` computes pairs of blocks on tensor cores and how often in float32, counted from the bodies.

The kernel decides that where two blocks meet, so its machine code does not say it. Here the same rule is applied to the
same positions on the host: the order of the bodies, the blocks by their radius, and which 64 bodies of another block
are far enough from the centre of a block. Most pairs are decided by the spheres around both; only for the others are
the distances of bodies computed.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gravbench.variants.blocked import tensor_share
from gravbench.variants.common import curves

MEET = 64
"""Bodies of the other block that a warp takes at a time."""
FURTHEST = 1024.0
"""Squares of distances on tensor cores are within this factor of the least one."""
ONE_TERM = 4.0
"""One FP16 number is enough from twice the radius on, the square of it being this."""
MOST_DISTANCES = 1 << 24
"""Squared distances that are in memory at the same time."""

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Meetings:
    """Meetings of a block of ``width`` bodies with 64 others in one evaluation, by how they are computed.

    Each array has shape (warps,) and says how many are those of each warp. ``one_term`` and ``two_terms`` are on tensor
    cores, with r^-3 as one FP16 number or as two. ``near`` are in float32, and so are those ``within`` a block, where
    each pair is met from both sides. ``rows`` are the blocks that a warp prepares.
    """

    width: int
    one_term: Counts
    two_terms: Counts
    near: Counts
    within: Counts
    rows: Counts

    @property
    def interactions(self):
        """Directed pairs of all bodies, those that only fill a block included: a meeting has two of each pair."""
        both = self.one_term.sum() + self.two_terms.sum() + self.near.sum()
        return int(MEET * self.width * (2 * both + self.within.sum()))


def ordered(position, width, *, along_curve):
    """Return positions, shape (n, 3), in the order of the kernel, in whole blocks of ``width``, shape (b, width, 3).

    The last body is repeated where the last block is not full.
    """
    n = len(position)
    count = -(-n // width)
    if along_curve:
        order = np.argsort(curves.hilbert_keys(position, tensor_share.BITS), kind="stable")
    else:
        order = tensor_share.compact_order(position, width)
    blocks = position[np.append(order, np.repeat(order[-1], count * width - n))].reshape(count, width, 3)
    if not along_curve:
        return blocks  # in the order of their radii already
    radii = _radii(blocks)
    if n % width:
        radii[-1] = np.inf
    return blocks[np.argsort(radii, kind="stable")]


def meetings(bodies, *, width, separation, many, along_curve, warps):
    """Count the meetings of each warp in one evaluation; ``many`` as in ``tensor.cu``, None where it takes two terms.

    ``warps`` are those of the grid, which share the lines of pairs of blocks as ``tensor.cu`` says. Its rule is applied
    here: far are 64 bodies no nearer to the centre of a block than ``separation`` times its radius, none of them much
    further away than another.
    """
    blocks = ordered(bodies.position.astype(np.float32), width, along_curve=along_curve)
    count, each = len(blocks), width // MEET
    lines = -(-count // 2)
    parts = warps // lines
    rule = _Rule(
        np.float32(bodies.eps**2),
        separation,
        many is not None and many * float(bodies.mass.max()) <= float(bodies.mass.sum()),
    )
    centres, radii2 = blocks.mean(axis=1), _radii(blocks)
    others = blocks.reshape(count * each, MEET, 3)
    middles = others.mean(axis=1)
    reach = np.sqrt(np.square(others - middles[:, None]).sum(axis=2).max(axis=1))
    counts = np.zeros((5, lines, parts), np.int64)
    for block in range(count):
        first = (block + 1) * each  # those before met it themselves, and its own are near
        kinds_of_others = rule.kinds_of(centres[block], radii2[block], others[first:], middles[first:], reach[first:])
        kinds = np.concatenate([np.full(each, WITHIN), kinds_of_others])
        line = min(block, count - 1 - block)
        ends = _ends(block, count, parts) * each
        sums = np.zeros((4, len(kinds) + 1), np.int64)
        for kind in range(4):
            np.cumsum(kinds == kind, out=sums[kind, 1:])
        counts[:4, line] += np.diff(sums[:, ends], axis=1)
        counts[4, line] += np.diff(ends) > 0
    near, two_terms, one_term, within, rows = counts.reshape(5, lines * parts)
    return Meetings(width, one_term, two_terms, near, within, rows)


def _ends(block, count, parts):
    """Return where in the row of a block the parts of its line end, shape (parts + 1,), in blocks from its own on.

    A line is the row of one block and that of its partner from the other end; of an odd number of blocks the middle one
    has no partner.
    """
    line = min(block, count - 1 - block)
    in_first = count - line
    units = in_first if 2 * line == count - 1 else count + 1
    ends = units * np.arange(parts + 1) // parts
    return np.clip(ends, 0, in_first) if block == line else np.clip(ends - in_first, 0, units - in_first)


NEAR, TWO_TERMS, SINGLE_TERM, WITHIN = range(4)


@dataclass(frozen=True, slots=True)
class _Rule:
    """What decides how a meeting is computed."""

    eps2: np.float32
    separation: float
    one_term: bool

    def kinds(self, nearest2, furthest2, radius2):
        """Return how bodies are met whose squared distances from the centre of a block are between these."""
        least = np.square(np.maximum(np.sqrt(nearest2) - np.sqrt(radius2), 0)) + self.eps2
        far = (nearest2 > self.separation**2 * radius2) & (furthest2 + self.eps2 < FURTHEST * least)
        single = far & (nearest2 > ONE_TERM * radius2) if self.one_term else np.zeros_like(far)
        return far.astype(np.int64) + single

    def kinds_of(self, centre, radius2, others, middles, reach):
        """Return how groups of bodies, shape (g, 64, 3), are met; spheres of ``reach`` hold them about ``middles``."""
        apart2 = np.square(middles - centre).sum(axis=1)
        apart = np.sqrt(apart2)
        # What is met alike at both ends of what the spheres leave open needs no distances.
        worst = self.kinds(np.square(np.maximum(apart - reach, 0)), np.square(apart + reach), radius2)
        best = self.kinds(apart2 + np.square(reach), apart2, radius2)
        open_still = np.flatnonzero(worst != best)
        for start in range(0, len(open_still), MOST_DISTANCES // MEET):
            chosen = open_still[start : start + MOST_DISTANCES // MEET]
            squares = np.square(others[chosen] - centre).sum(axis=2)
            worst[chosen] = self.kinds(squares.min(axis=1), squares.max(axis=1), radius2)
        return worst


def _radii(blocks):
    """Return the squares of the radii of blocks about the means of their positions."""
    return np.square(blocks - blocks.mean(axis=1, keepdims=True)).sum(axis=2).max(axis=1)
