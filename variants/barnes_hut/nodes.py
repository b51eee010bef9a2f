"""The layouts of nodes that are walked: full nodes of 40 bytes in float32, and compact nodes of 32.

Both hold a node's centre of mass, its mass, the node to continue with after it, and its contents. A full node holds the
width of its cell and the distance of the centre of mass from the cell's centre, from which the walk computes the
opening distance at every visit; ``children`` is its first child, -1 in a leaf, whose ``count`` bodies begin at
``first``. A compact node holds the square of the opening distance, and uses one field for the first body and the first
child: ``begin`` is the first of ``count`` bodies or, where ``count`` is 0, the first child. That saves eight of 40
bytes, and the rest is one sector of GPU memory.

The criterion is that of Barnes (1994): open a node unless the distance to its centre of mass is above ``width / theta +
offset``. The offset matters: a cell with its mass in a corner reaches farther than its width suggests, and such cells
cause most of the error of the simple criterion ``width / distance < theta``.

Nodes are in depth-first order, except those of the upper levels that a kernel keeps in shared memory. These come first,
level by level, so that the kernel copies the beginning of the array.
"""

import functools
import math

import numpy as np

LAYOUTS = ("full", "compact")
TOP_NODES = (0, 1, 9, 73)
"""The most nodes in the upper 0, 1, 2 and 3 levels of an octree."""

NEVER = 1e18
"""The reach where no cell may be accepted: finite, because kernels are compiled under the assumption that no number is
infinite, and so small that its square fits into float32 for a cell ten units wide."""

GREATEST = 3e38
"""Upper bound of squared distances in float32."""


def node_type(layout, real):
    """Return the structure of one node; barnes_hut.cu declares the same.

    A compact node compares distances in float32 whatever the type of the rest: 48 bytes in float64, three loads.
    """
    numbers = [(name, real) for name in ("x", "y", "z", "mass")]
    if layout == "full":
        links = [(name, np.int32) for name in ("children", "next", "first", "count")]
        return np.dtype([*numbers, ("width", real), ("offset", real), *links])
    return np.dtype([*numbers, ("open2", np.float32), ("begin", np.int32), ("next", np.int32), ("count", np.int32)])


def reach(theta, dim):
    """Return the distance within which a cell is opened, in widths of the cell.

    It is limited so that no body accepts a cell that contains it, which would include the body itself.
    """
    return max(1 / theta, 0.501 * math.sqrt(dim)) if theta > 0 else NEVER


@functools.cache
def compiled():
    """Compile the loops that write nodes, one per layout."""
    import numba

    @numba.njit(error_model="numpy", inline="always")
    def place(node, by_number, rank):
        """Return the place of a node of the depth-first order; ``by_number``: the nodes that come first, ascending."""
        below, above = 0, by_number.size
        while below < above:
            middle = (below + above) >> 1
            if by_number[middle] < node:
                below = middle + 1
            else:
                above = middle
        if below < by_number.size and by_number[below] == node:
            return rank[below]
        return node + by_number.size - below

    @numba.njit(parallel=True, error_model="numpy")
    def compact(nodes, moments, extents, links, count, reach, by_number, rank):
        for node in numba.prange(count):
            row = nodes[place(node, by_number, rank)]
            row.x, row.y, row.z, row.mass = moments[node, 0], moments[node, 1], moments[node, 2], moments[node, 3]
            nearest = extents[node, 0] * reach + extents[node, 1]
            row.open2 = min(nearest * nearest, GREATEST)
            following = links[node, 0]
            row.next = place(following, by_number, rank) if following >= 0 else -1
            leaf = links[node, 3] != 0
            row.begin = links[node, 1] if leaf else place(node + 1, by_number, rank)
            row.count = links[node, 2] if leaf else 0

    @numba.njit(parallel=True, error_model="numpy")
    def full(nodes, moments, extents, links, count, by_number, rank):
        for node in numba.prange(count):
            row = nodes[place(node, by_number, rank)]
            row.x, row.y, row.z, row.mass = moments[node, 0], moments[node, 1], moments[node, 2], moments[node, 3]
            row.width, row.offset = extents[node, 0], extents[node, 1]
            following = links[node, 0]
            row.next = place(following, by_number, rank) if following >= 0 else -1
            row.children = -1 if links[node, 3] != 0 else place(node + 1, by_number, rank)
            row.first, row.count = links[node, 1], links[node, 2]

    return {"compact": compact, "full": full}


class Nodes:
    """Buffer for the nodes of one tree in one layout, reused in every step; ``write`` fills it.

    Attributes:
        rows: the nodes as structures, shape (2 n - 1,).
        words: the same memory as 32-bit words, for uploading; ``words_a_node`` per node.
        count: number of nodes.
        top: number of nodes of the upper ``top_levels`` levels, which come first.
    """

    def __init__(self, tree, real, *, layout, theta, top_levels, allocate=np.empty):
        """Make room for as many nodes as the tree can have; ``allocate(shape, dtype)`` makes the array."""
        self.tree, self.layout, self.top_levels = tree, layout, top_levels
        kind = node_type(layout, real)
        self.words_a_node = kind.itemsize // 4
        self.words = allocate((2 * tree.n - 1) * self.words_a_node, np.int32)
        self.rows = self.words.view(kind)
        self.reach = reach(theta, tree.dim)
        self.count = self.top = 0

    def write(self):
        """Write the nodes of the present tree."""
        tree = self.tree
        upper = self._upper_levels()
        by_number = np.sort(upper)
        rank = np.empty_like(upper)
        rank[np.searchsorted(by_number, upper)] = np.arange(upper.size)
        constants = (self.reach,) if self.layout == "compact" else ()
        compiled()[self.layout](
            self.rows, tree.moments, tree.extents, tree.links, tree.count, *constants, by_number, rank
        )
        self.count, self.top = tree.count, upper.size

    def _upper_levels(self):
        """Return the nodes of the upper levels, level by level."""
        links = self.tree.links
        found = []
        level = [0] if self.top_levels else []
        for _ in range(self.top_levels):
            found += level
            below = []
            for node in level:
                if links[node, 3]:
                    continue
                child, end = node + 1, links[node, 0]
                while child != end:
                    below.append(child)
                    child = links[child, 0]
                    if child < 0:
                        break
            level = below
        return np.array(found, np.int64)
