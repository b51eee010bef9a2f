"""Nodes with the criterion of Barnes & Hut (1986), in depth-first order or in the order in which insertion makes them.

A cell acts as its centre of mass where its width over the distance to that centre is below theta, wherever in the cell
the centre lies. With theta above 1 / sqrt(dim) a body may so accept a cell that contains it, and itself with it.

A tree that is built by inserting body after body makes a cell when its first body arrives, or when its parent gets a
second one; several at once from the topmost down. Memory has its nodes in this order, which follows the order of the
input. Here the tree is made of sorted codes and its nodes are then numbered so; cells with a single child, of which
insertion makes some, do not exist.
"""

import functools
from types import SimpleNamespace

import numpy as np

from gravbench.model.variant import DIRECT_SUM, Tolerance
from gravbench.variants.barnes_hut import nodes

ORDERS = ("depth_first", "inserted")

RMS = {2: 1.2, 3: 0.3}
MAX = {2: 35.0, 3: 6.0}
"""Tolerance divided by theta^2, in the plane and in space: about three times the largest error.

These are 0.44 rms and 12 in the plane, 0.11 and 2.0 in space, over Plummer spheres, uniform spheres and collisions of
50 to 50,000 bodies (in space 10,000), theta 0.3 to 1.2, eps 0.05 and 0.01, codes of 10 and 21 bits, leaves of 1 and 16.
"""


def tolerance(axes):
    """Return the tolerance of each number type."""
    if axes["theta"] == 0:
        return DIRECT_SUM
    dim, squared = axes.get("dim", 3), axes["theta"] ** 2
    return dict.fromkeys(DIRECT_SUM, Tolerance(max=MAX[dim] * squared, rms=RMS[dim] * squared))


def top_nodes(levels, dim):
    """Return the most nodes in the upper ``levels`` levels: 85 in four levels of the plane."""
    return sum((1 << dim) ** level for level in range(levels))


def reach(theta):
    """Return the distance within which a cell is opened, in widths of the cell."""
    return 1 / theta if theta > 0 else nodes.NEVER


@functools.cache
def compiled():
    """Compile the loops; nodes come numbered in depth-first order, and ``place`` is where each is written.

    No cell counts as narrower than ``least``.
    """
    import numba

    greatest = nodes.GREATEST

    @numba.njit(error_model="numpy")
    def arrivals(order, links, count, earliest, made):
        """Write of each node the numbers of its first two bodies in the input, and the body that makes the node.

        ``earliest`` has shape (nodes, 2); the second is n where there is one body alone.
        """
        n = order.size
        for node in range(count - 1, -1, -1):
            first = second = n
            if links[node, 3]:
                for body in range(links[node, 1], links[node, 1] + links[node, 2]):
                    own = order[body]
                    second = min(second, max(first, own))
                    first = min(first, own)
            else:
                child, end = node + 1, links[node, 0]
                while child != end and child >= 0:
                    second = min(second, max(first, earliest[child, 0]))
                    first = min(first, earliest[child, 0])
                    second = min(second, earliest[child, 1])
                    child = links[child, 0]
            earliest[node, 0], earliest[node, 1] = first, second
        made[0] = 0
        for node in range(count):
            if links[node, 3]:
                continue
            child, end = node + 1, links[node, 0]
            while child != end and child >= 0:
                made[child] = max(earliest[child, 0], earliest[node, 1])
                child = links[child, 0]

    @numba.njit(error_model="numpy")
    def by_arrival(made, count, upper, begins, place):
        """Write the places of the nodes: those of ``upper`` first, then by the body that makes them."""
        begins[:] = 0
        place[:count] = -1
        for rank in range(upper.size):
            place[upper[rank]] = rank
        for node in range(count):
            if place[node] < 0:
                begins[made[node]] += 1
        at = upper.size
        for body in range(begins.size):
            begins[body], at = at, at + begins[body]
        for node in range(count):
            if place[node] < 0:
                place[node] = begins[made[node]]
                begins[made[node]] += 1

    @numba.njit(parallel=True, error_model="numpy")
    def compact(written, moments, extents, links, count, reach, least, place):
        for node in numba.prange(count):
            row = written[place[node]]
            row.x, row.y, row.z, row.mass = moments[node, 0], moments[node, 1], moments[node, 2], moments[node, 3]
            row.open2 = min((max(extents[node, 0], least) * reach) ** 2, greatest)
            following = links[node, 0]
            row.next = place[following] if following >= 0 else -1
            leaf = links[node, 3] != 0
            row.begin = links[node, 1] if leaf else place[node + 1]
            row.count = links[node, 2] if leaf else 0

    @numba.njit(parallel=True, error_model="numpy")
    def full(written, moments, extents, links, count, reach, least, place):
        for node in numba.prange(count):
            row = written[place[node]]
            row.x, row.y, row.z, row.mass = moments[node, 0], moments[node, 1], moments[node, 2], moments[node, 3]
            row.width, row.offset = max(extents[node, 0], least), 0.0
            following = links[node, 0]
            row.next = place[following] if following >= 0 else -1
            row.children = -1 if links[node, 3] != 0 else place[node + 1]
            row.first, row.count = links[node, 1], links[node, 2]

    return SimpleNamespace(arrivals=arrivals, by_arrival=by_arrival, compact=compact, full=full)


class Nodes(nodes.Nodes):
    """As the nodes of ``nodes``, with the criterion above, in one of ``ORDERS``."""

    def __init__(self, tree, real, *, layout, theta, top_levels, order, allocate=np.empty):
        """Make room for as many nodes as the tree can have; ``allocate(shape, dtype)`` makes the array."""
        super().__init__(tree, real, layout=layout, theta=theta, top_levels=top_levels, allocate=allocate)
        self.reach = reach(theta)
        # With theta 0 a cell is opened that has no width either.
        self._least = 0.0 if theta > 0 else 1.0
        self.order = order
        capacity = 2 * tree.n - 1
        self.place = np.empty(capacity, np.int32)
        self._made = np.zeros(capacity, np.int32)
        self._earliest = np.empty((capacity, 2), np.int32)
        self._begins = np.empty(tree.n, np.int32)

    def write(self):
        """Write the nodes of the present tree."""
        tree, loops = self.tree, compiled()
        upper = self._upper_levels()
        if self.order == "inserted":
            loops.arrivals(tree.order, tree.links, tree.count, self._earliest, self._made)
        loops.by_arrival(self._made, tree.count, upper, self._begins, self.place)
        write = getattr(loops, self.layout)
        write(self.rows, tree.moments, tree.extents, tree.links, tree.count, self.reach, self._least, self.place)
        self.count, self.top = tree.count, upper.size
