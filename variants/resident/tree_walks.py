"""How many cells and bodies each warp of the walk of ``resident_tree`` meets, counted from the bodies.

A record has the means over all bodies. Where there are fewer groups of bodies than a device can hold, the last walk to
end decides the time, and walks differ several times over. So the tree is built here from the same bodies, and every
walk is followed on the host, step by step as in ``resident_tree.cu``, but for the contributions. With the opening
criterion "acceleration", the accelerations of the evaluation before are those of a walk with the geometric one.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from gravbench.variants.common import curves
from gravbench.variants.resident.tree_build import ranks

LANES = 32
"""Threads of a warp."""
MOST_BODIES = 1 << 20
"""Bodies whose walks are followed on the host, in some seconds."""
GEOMETRIC, BARNES, ACCELERATION = "geometric", "barnes_1994", "acceleration"
DIGIT = 3
"""Bits of a key for each level of the tree."""
AT_ONCE = 4
"""Bodies that a turn of the loop over bodies adds up."""
LEAST_PART = 1 / 32
"""The part of the contributions of all cells below which no acceleration is taken to be, as in the kernel."""
NO_LIMIT = np.iinfo(np.int64).max

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """The nodes of an octree, level by level, the children of each beside each other.

    ``begin`` is the first child of a node, or the first body of a leaf, and ``count`` how many there are, of children
    below zero. ``centres`` has shape (nodes, 4): centres of mass and masses. ``reach`` is by the opening criterion, and
    ``weight`` is what the acceleration is compared with, in the sense of a squared distance.
    """

    begin: Counts
    count: Counts
    centres: Floats
    reach: Floats
    weight: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Walks:
    """What the warps of a walk do, each array of shape (warps,), in the order of the grid.

    ``steps`` take up to 32 nodes each; in ``cell_steps`` of them cells were accepted, and in ``leaf_steps`` leaves
    opened. ``cell_turns`` and ``body_turns`` are those of the loops over what was found, and ``batches`` are of up to
    32 bodies. ``cells`` and ``bodies``, of shape (groups,), are what the bodies of a group meet.
    """

    steps: Counts
    cell_steps: Counts
    leaf_steps: Counts
    cell_turns: Counts
    batches: Counts
    body_turns: Counts
    cells: Counts
    bodies: Counts


def walks(bodies, axes, cells_at_once):
    """Follow all walks; ``axes`` are those of ``resident_tree``, and a turn adds up so many cells.

    They are those of the second evaluation and later ones, which know how long walks are on the average.
    """
    order, tree, rows = _built(bodies, axes, str(axes["opening"]))
    group, warps, boxes = int(axes["group"]), int(axes["warps"]), int(axes["boxes"])
    accepted, eps2 = np.zeros(len(rows)), 0.0
    if axes["opening"] == ACCELERATION:
        accepted, eps2 = float(axes["part"]) * _lengths(bodies, axes)[order], bodies.eps**2
    power = -2 / (_terms(axes) + 2)
    of_lanes = _boxes(rows, accepted, group, LANES // boxes, float(axes["theta"]), power)
    of_bodies = _boxes(rows, accepted, group, 1, float(axes["theta"]), power)
    of_bodies[..., 6:] = np.repeat(of_lanes[..., 6:], LANES // boxes, axis=1)

    def follow(many):
        return Walks(*_follow()(*_nodes(tree), of_lanes, of_bodies, eps2, many, warps, cells_at_once))

    first = follow(NO_LIMIT)
    return follow(int(2 * (first.cells + first.bodies).mean()))


def _terms(axes):
    """Return the power of a cell's size that its error grows with."""
    return 3 if axes["moments"] == "quadrupole" else 2


def _nodes(tree):
    return tree.begin, tree.count, tree.centres, tree.reach, tree.weight


def _built(bodies, axes, opening):
    """Return the order of the bodies along the curve, the tree, and the bodies in that order with their masses."""
    position = bodies.position.astype(np.float32)
    bits = int(axes["bits"])
    low, width = position.min(axis=0), float(np.ptp(position, axis=0).max())
    keys = curves.hilbert_keys(position, bits) if axes["curve"] == "hilbert" else curves.morton_keys(position, bits)
    order = np.argsort(keys, kind="stable")
    rows = np.column_stack([position[order], bodies.mass[order]]).astype(np.float64)
    tree = build(
        rows, keys[order], bits, int(axes["leaf_size"]), opening, float(axes["theta"]), low, width, _terms(axes)
    )
    return order, tree, rows


def build(rows, keys, bits, leaf_size, opening, theta, low, width, terms=3):
    """Build the tree over bodies in the order of their keys, shape (n, 4); ``low`` and ``width`` are of their cube.

    Bodies with the same key are divided by their ranks among each other, as in ``tree_levels.cuh``. The error of a cell
    grows with the power ``terms`` of its size.
    """
    n = len(rows)
    levels = bits + ranks(n, leaf_size)
    begins = np.append(True, keys[1:] != keys[:-1])
    rank = np.arange(n) - np.flatnonzero(begins)[np.cumsum(begins) - 1] >> leaf_size.bit_length() - 1
    first, size, above, level = [np.zeros(1, np.int64)], [np.array([n])], [np.array([-1])], [np.zeros(1, np.int64)]
    begin, divided, nodes = [], [], 0
    for deep in range(levels + 1):
        parents = (size[-1] > leaf_size) & (deep < levels)
        divided.append(parents)
        if not parents.any():
            begin.append(first[-1].copy())
            break
        prefix = keys >> DIGIT * max(bits - deep - 1, 0)
        of_rank = rank >> DIGIT * (levels - deep - 1) if deep >= bits else np.zeros_like(rank)
        another = (prefix[1:] != prefix[:-1]) | (of_rank[1:] != of_rank[:-1])
        inside = np.zeros(n, bool)
        for start, count in zip(first[-1][parents], size[-1][parents], strict=True):
            inside[start : start + count] = True
        starts = np.flatnonzero(inside & np.append(True, another | ~inside[:-1]))
        around = np.flatnonzero(parents)[np.searchsorted(first[-1][parents], starts, side="right") - 1]
        ends = np.append(starts[1:], n)
        sizes = np.minimum(ends, (first[-1] + size[-1])[around]) - starts
        nodes += len(first[-1])
        own = first[-1].copy()
        own[parents] = nodes + np.searchsorted(around, np.flatnonzero(parents))
        begin.append(own)
        first.append(starts)
        size.append(sizes)
        above.append(nodes - len(first[-2]) + around)
        level.append(np.full(len(starts), deep + 1))
    whole = [np.concatenate(one) for one in (first, size, above, level, divided)]
    begin = np.concatenate(begin)
    judged = {"opening": opening, "theta": theta, "terms": terms}
    return _with_moments(rows, begin, *whole, bits=bits, low=low, width=width, **judged)


def _with_moments(rows, begin, first, size, above, level, divided, *, bits, low, width, opening, theta, terms):
    """Add centres of mass, masses and what opens a cell to the nodes of a tree."""
    sums = np.concatenate([np.zeros((1, 4)), np.cumsum(rows[:, 3:] * np.c_[rows[:, :3], np.ones(len(rows))], axis=0)])
    total = sums[first + size] - sums[first]
    mass = total[:, 3]
    centres = np.column_stack([total[:, :3] / np.where(mass > 0, mass, 1)[:, None], mass])
    centres[mass <= 0, :3] = rows[first[mass <= 0], :3]
    children = np.bincount(above[1:], minlength=len(first))
    of_key = np.minimum(level, bits)  # cells of bodies with the same key are as wide as what a key tells apart
    widths = width / 2.0**of_key
    if opening == ACCELERATION:
        reach = _farthest(rows, centres, first, size, above, level, divided)
    else:
        with np.errstate(divide="ignore"):
            reach = widths * np.divide(1.0, theta)
        if opening == BARNES:
            corner = np.floor((rows[first, :3] - low) / np.where(widths > 0, widths, 1)[:, None])
            middle = low + (np.minimum(corner, 2.0 ** of_key[:, None] - 1) + 0.5) * widths[:, None]
            reach += np.linalg.norm(middle - centres[:, :3], axis=1)
    factor = 2 if terms == 3 else 1
    weight = (factor * mass * reach**terms) ** (2 / (terms + 2))
    return Tree(begin, np.where(divided, -children, size), centres, reach, weight)


def _farthest(rows, centres, first, size, above, level, divided):
    """Return how far from the centre of mass of each cell its bodies may be."""
    found = np.zeros(len(first))
    leaves = np.flatnonzero(~divided)
    leaves = leaves[np.argsort(first[leaves])]
    of_body = np.repeat(leaves, size[leaves])
    apart = np.linalg.norm(rows[:, :3] - centres[of_body, :3], axis=1)
    found[leaves] = np.maximum.reduceat(apart, first[leaves])
    for deep in range(int(level[-1]), 0, -1):
        own = np.flatnonzero(level == deep)
        parents = above[own]
        there = found[own] + np.linalg.norm(centres[own, :3] - centres[parents, :3], axis=1)
        np.maximum.at(found, parents, there)
    return found


def _boxes(rows, accepted, group, lanes, theta, power):
    """Return the boxes of each group, shape (groups, boxes, 8): the middle, half the widths, and what judges a cell.

    ``accepted`` is the error of its acceleration that each body accepts from a cell, shape (n,), 0 where any is; cells
    are judged by this ``power`` of it.
    """
    groups = -(-len(rows) // group)
    every = np.minimum(np.arange(groups * group), len(rows) - 1)
    there = rows[every, :3].reshape(groups, group // lanes, lanes, 3)
    least, most = there.min(axis=2), there.max(axis=2)
    least_accepted = accepted[every].reshape(groups, group // lanes, lanes).min(axis=2)
    known = least_accepted > 0
    with np.errstate(divide="ignore"):
        by_reach = np.where(known, 1.0, max(1.0, 4 * float(np.divide(1.0, theta)) ** 2))
        by_error = np.where(known, np.where(known, least_accepted, 1) ** power, 0.0)
    middle = (least + most) / 2
    return np.concatenate([middle, most - middle, by_reach[..., None], by_error[..., None]], axis=2)


_LENGTHS = {}


def _lengths(bodies, axes):
    """Return what cells are judged by for each body, shape (n,), by a walk for 32 of them at a time.

    That is its acceleration, or a part of the contributions of all cells where that is more.
    """
    key = bodies.sha256, axes["bits"], axes["curve"]
    if key not in _LENGTHS:
        plain = dict(axes) | {"leaf_size": 16, "theta": 0.7}
        order, tree, rows = _built(bodies, plain, GEOMETRIC)
        own = _boxes(rows, np.zeros(len(rows)), LANES, LANES, 0.7, -1.0)
        found = np.empty(len(rows))
        found[order] = _strengths()(*_nodes(tree), own, rows, bodies.eps**2)
        _LENGTHS[key] = found
    return _LENGTHS[key]


@cache
def _near():
    import numba

    def near(centre, reach, weight, boxes, eps2):
        """Tell whether a cell has to be opened for the bodies of any box."""
        for k in range(boxes.shape[0]):
            r2 = 0.0
            for axis in range(3):
                apart = max(abs(centre[axis] - boxes[k, axis]) - boxes[k, 3 + axis], 0.0)
                r2 += apart * apart
            r2 += eps2
            judged = boxes[k, 7] > 0
            if not r2 > (boxes[k, 6] if judged else 1.0) * reach * reach:
                return True
            if judged and not r2 > boxes[k, 7] * weight:
                return True
        return False

    return numba.njit(near)


@cache
def _follow():
    """Compile what follows the walks."""
    import numba

    near = _near()

    def follow(begin, count, centres, reach, weight, boxes, each, eps2, many, warps, cells_at_once):
        groups = boxes.shape[0]
        steps = np.zeros(groups * warps, np.int64)
        cell_steps, leaf_steps = np.zeros_like(steps), np.zeros_like(steps)
        cell_turns, batches, body_turns = np.zeros_like(steps), np.zeros_like(steps), np.zeros_like(steps)
        cells, met = np.zeros(groups, np.int64), np.zeros(groups, np.int64)
        for group in numba.prange(groups):
            stack = np.empty((4096, 2), np.int64)
            stack[0, 0], stack[0, 1] = 0, 1
            top, met_batches = 1, 0
            while top > 0:
                # As many ranges from the top as have 32 nodes at most.
                ranges, nodes = 0, 0
                taken = np.empty(LANES, np.int64)
                while ranges < min(top, LANES) and nodes + stack[top - 1 - ranges, 1] <= LANES:
                    for child in range(stack[top - 1 - ranges, 1]):
                        taken[nodes] = stack[top - 1 - ranges, 0] + child
                        nodes += 1
                    ranges += 1
                top -= ranges
                accepted, leaf_bodies, long_before = 0, 0, cells[group] + met[group]
                for place in range(nodes):
                    node = taken[place]
                    compared = boxes[group] if long_before <= many else each[group]
                    if not near(centres[node], reach[node], weight[node], compared, eps2):
                        accepted += 1
                    elif count[node] > 0:
                        leaf_bodies += count[node]
                    else:
                        stack[top, 0], stack[top, 1] = begin[node], -count[node]
                        top += 1
                added = (leaf_bodies + LANES - 1) // LANES
                for share in range(warps):
                    own = group * warps + share
                    steps[own] += 1
                    leaf_steps[own] += leaf_bodies > 0
                    # Every warp takes the cells and batches whose numbers are its own.
                    before = (cells[group] + warps - 1 - share) // warps
                    ours = (cells[group] + accepted + warps - 1 - share) // warps - before
                    cell_steps[own] += ours > 0
                    cell_turns[own] += (ours + cells_at_once - 1) // cells_at_once
                    for batch in range(added):
                        if (met_batches + batch) % warps == share:
                            batches[own] += 1
                            left = min(LANES, leaf_bodies - LANES * batch)
                            body_turns[own] += (left + AT_ONCE - 1) // AT_ONCE
                cells[group] += accepted
                met[group] += leaf_bodies
                met_batches += added
        return steps, cell_steps, leaf_steps, cell_turns, batches, body_turns, cells, met

    return numba.njit(follow, parallel=True)


@cache
def _strengths():
    """Compile what adds up the contributions of what a walk meets."""
    import numba

    near = _near()

    def strengths(begin, count, centres, reach, weight, boxes, rows, eps2):
        found = np.empty(len(rows))
        for group in numba.prange(boxes.shape[0]):
            first = group * LANES
            last = min(first + LANES, len(rows))
            sums, contributions = np.zeros((LANES, 3)), np.zeros(1)
            stack = np.empty(4096, np.int64)
            stack[0], top = 0, 1
            while top > 0:
                top -= 1
                node = stack[top]
                far = not near(centres[node], reach[node], weight[node], boxes[group], 0.0)
                if not far and count[node] < 0:
                    for child in range(-count[node]):
                        stack[top] = begin[node] + child
                        top += 1
                    continue
                if far:
                    r2 = ((centres[node, :3] - rows[first, :3]) ** 2).sum()
                    contributions[0] += centres[node, 3] * r2 / (r2 + eps2) ** 2
                for other in range(1 if far else count[node]):
                    source = centres[node] if far else rows[begin[node] + other]
                    for k in range(first, last):
                        dx, dy, dz = source[0] - rows[k, 0], source[1] - rows[k, 1], source[2] - rows[k, 2]
                        inverse = 1 / np.sqrt(dx * dx + dy * dy + dz * dz + eps2)
                        factor = source[3] * inverse * inverse * inverse
                        sums[k - first, 0] += factor * dx
                        sums[k - first, 1] += factor * dy
                        sums[k - first, 2] += factor * dz
            for k in range(first, last):
                found[k] = max(np.sqrt((sums[k - first] ** 2).sum()), LEAST_PART * contributions[0])
        return found

    return numba.njit(strengths, parallel=True, fastmath=True)
