"""A quadtree or octree over bodies, built on all cores as arrays in depth-first order.

In the order of the Morton codes a cell is a range of bodies, so a tree is found without inserting a single body:
split a range where the next digit of the codes changes, and go on until a range has at most ``leaf_size`` bodies.
A cell whose bodies all lie in one of its parts is skipped in favour of that part. Every inner node then has at least
two children, n bodies have at most 2 n - 1 nodes however unevenly they lie, and bodies at one place (in one cell of
the finest grid) end in one leaf with all of them.

The upper part of the tree is split by one worker, down to ranges of bodies that are then divided among all workers.
Depth-first order numbers each of these subtrees consecutively, so a worker can number its nodes by itself, and only
the number at which its subtree begins comes from a sum over the earlier ones.
"""

import contextlib
import functools
import math
from types import SimpleNamespace

import numpy as np

from gravbench.variants.barnes_hut import morton

SUBTREES_A_WORKER = 8
"""Ranges of bodies per worker: enough that each worker gets about the same number of bodies."""

PATH = 24 * 8
"""Most ranges on the stack: 7 for each of the 21 levels, and the last 8."""


BODIES_A_WORKER = 2048
"""With fewer bodies per worker, starting several cores takes longer than sorting on one."""


def workers(n, threads):
    """Return with how many of the threads building is fastest."""
    return min(threads, n // BODIES_A_WORKER + 1)


@contextlib.contextmanager
def threads(number):
    """Run Numba's parallel loops on ``number`` threads."""
    import numba

    before = numba.get_num_threads()
    numba.set_num_threads(number)
    try:
        yield
    finally:
        numba.set_num_threads(before)


def no_lap(stage):
    """Ignore the end of a stage."""


def nothing():
    """Do nothing when the bodies are sorted."""


@functools.cache
def compiled():
    """Compile the loops.

    Nodes are numbered in depth-first order. ``links`` has one row per node: the node to continue with after it (-1
    after the last), its first body in Morton order, its number of bodies, and whether it is a leaf. ``moments`` has the
    centre of mass and the mass, ``extents`` the width of the node's cell and the distance of the centre of mass from
    the cell's centre.
    """
    import numba

    cell = morton.compiled().cell

    @numba.njit(error_model="numpy")
    def split(keys, begin, end, most, dim, bits, first, last, level):
        """Number the nodes over bodies ``begin`` to ``end``; a range of at most ``most`` is not split further.

        Writes the range of bodies and the level of each node's cell; returns the number of nodes.
        """
        waiting = np.empty((PATH, 3), np.int64)
        waiting[0, 0], waiting[0, 1], waiting[0, 2] = begin, end, 0
        depth = 1
        nodes = 0
        digit_bits = np.uint64(dim)
        digit = np.uint64((1 << dim) - 1)
        while depth > 0:
            depth -= 1
            low, high, own = waiting[depth, 0], waiting[depth, 1], waiting[depth, 2]
            differ = keys[low] ^ keys[high - 1]
            while own < bits and (differ >> (digit_bits * np.uint64(bits - 1 - own))) & digit == 0:
                own += 1
            first[nodes] = low
            last[nodes] = high
            level[nodes] = own
            nodes += 1
            if high - low <= most or own == bits:
                continue
            # The last part first, so that the first one is taken from the stack next.
            shift = digit_bits * np.uint64(bits - 1 - own)
            while high > low:
                value = keys[high - 1] >> shift
                below, inside = low - 1, high - 1
                while inside - below > 1:
                    middle = (below + inside) >> 1
                    if keys[middle] >> shift == value:
                        inside = middle
                    else:
                        below = middle
                waiting[depth, 0], waiting[depth, 1], waiting[depth, 2] = inside, high, own + 1
                depth += 1
                high = inside
        return nodes

    @numba.njit(parallel=True, error_model="numpy")
    def split_subtrees(keys, leaf_size, dim, bits, top_first, top_last, subtree_nodes, first, last, level, own):
        """Split the ranges at which the upper part ended; ``subtree_nodes`` is 0 where it did not end.

        Nodes of a subtree whose bodies start at ``begin`` are written from 2 ``begin`` on, where no other subtree
        writes. Worker w splits the subtrees own[w] to own[w + 1] - 1 of the upper part.
        """
        for worker in numba.prange(own.size - 1):
            for top in range(own[worker], own[worker + 1]):
                if subtree_nodes[top] == 0:
                    continue
                begin = top_first[top]
                subtree_nodes[top] = split(
                    keys, begin, top_last[top], leaf_size, dim, bits,
                    first[2 * begin :], last[2 * begin :], level[2 * begin :],
                )  # fmt: skip

    @numba.njit(error_model="numpy", inline="always")
    def geometry(rows, body, level, low, scale, most, width, bits, dim, node, moments, extents):
        """Write the width of the cell around a body, and the distance of the centre of mass from the cell's centre.

        The centre of mass of a node without mass is set to the centre of its cell; it has no effect.
        """
        shift = bits - level
        size = width / (1 << level)
        apart2 = 0.0
        for axis in range(dim):
            index = cell(np.float64(rows[body, axis]), low[axis], scale, most) >> shift
            centre = low[axis] + (index + 0.5) * size
            if moments[node, 3] == 0:
                moments[node, axis] = centre
            apart2 += (moments[node, axis] - centre) ** 2
        extents[node, 0] = size
        extents[node, 1] = math.sqrt(apart2)

    @numba.njit(error_model="numpy", inline="always")
    def collect(node, moments, links):
        """Add up the moments of an inner node's children."""
        mass = mx = my = mz = 0.0
        end = links[node, 0]
        child = node + 1
        while child != end:
            # A node's next is its sibling; the next of the last child is that of its parent.
            own = moments[child, 3]
            mass += own
            mx += own * moments[child, 0]
            my += own * moments[child, 1]
            mz += own * moments[child, 2]
            child = links[child, 0]
        moments[node, 3] = mass
        inverse = 1.0 / mass if mass > 0 else 0.0
        moments[node, 0] = mx * inverse
        moments[node, 1] = my * inverse
        moments[node, 2] = mz * inverse

    @numba.njit(error_model="numpy")
    def finish(
        rows, begin, end, nodes, base, leaf_size, low, scale, most, width, bits, dim, first, last, level, at,
        moments, extents, links,
    ):  # fmt: skip
        """Link a subtree's nodes and compute their moments, children before parents."""
        n = rows.shape[0]
        for k in range(nodes - 1, -1, -1):
            node = base + k
            low_body, high_body = first[k], last[k]
            # Of the nodes that begin with the same body, the last one visited is the topmost. The next of a node is the
            # topmost node that begins with the body after its last.
            at[low_body] = node
            links[node, 0] = -1 if high_body == n else base + nodes if high_body == end else at[high_body]
            links[node, 1] = low_body
            links[node, 2] = high_body - low_body
            leaf = high_body - low_body <= leaf_size or level[k] == bits
            links[node, 3] = leaf
            if not leaf:
                collect(node, moments, links)
            elif high_body - low_body == 1:
                for number in range(4):
                    moments[node, number] = rows[low_body, number]
            else:
                mass = mx = my = mz = 0.0
                for body in range(low_body, high_body):
                    own = np.float64(rows[body, 3])
                    mass += own
                    mx += own * rows[body, 0]
                    my += own * rows[body, 1]
                    mz += own * rows[body, 2]
                inverse = 1.0 / mass if mass > 0 else 0.0
                moments[node, 0] = mx * inverse
                moments[node, 1] = my * inverse
                moments[node, 2] = mz * inverse
                moments[node, 3] = mass
            geometry(rows, low_body, level[k], low, scale, most, width, bits, dim, node, moments, extents)

    @numba.njit(parallel=True, error_model="numpy")
    def finish_subtrees(
        rows, leaf_size, low, scale, most, width, bits, dim, top_first, top_last, subtree_nodes, base,
        first, last, level, at, moments, extents, links, own,
    ):  # fmt: skip
        """Finish every subtree; ``base`` is the number at which each begins."""
        for worker in numba.prange(own.size - 1):
            for top in range(own[worker], own[worker + 1]):
                if subtree_nodes[top] == 0:
                    continue
                begin, end = top_first[top], top_last[top]
                finish(
                    rows, begin, end, subtree_nodes[top], base[top], leaf_size, low, scale, most, width, bits, dim,
                    first[2 * begin :], last[2 * begin :], level[2 * begin :], at, moments, extents, links,
                )  # fmt: skip

    @numba.njit(error_model="numpy")
    def finish_top(
        rows, tops, low, scale, most, width, bits, dim, top_first, top_last, top_level, subtree_nodes, base, at,
        moments, extents, links,
    ):  # fmt: skip
        """Link the nodes above the subtrees and add up their moments."""
        n = rows.shape[0]
        for top in range(tops - 1, -1, -1):
            node, begin, end = base[top], top_first[top], top_last[top]
            at[begin] = node
            if subtree_nodes[top] > 0:
                continue
            links[node, 0] = -1 if end == n else at[end]
            links[node, 1] = begin
            links[node, 2] = end - begin
            links[node, 3] = 0
            collect(node, moments, links)
            geometry(rows, begin, top_level[top], low, scale, most, width, bits, dim, node, moments, extents)

    return SimpleNamespace(
        split=split, split_subtrees=split_subtrees, finish_subtrees=finish_subtrees, finish_top=finish_top
    )


class Tree:
    """Buffers for the tree of n bodies, reused in every step; ``build`` fills them.

    Attributes:
        order: the bodies in Morton order, shape (n,): ``order[k]`` is the body's number in the input.
        sorted_rows: the bodies in that order as x, y, z, mass, shape (n, 4), of the type of the input.
        count: number of nodes; only so many rows of the arrays below are filled.
        moments: centre of mass and mass of each node in float64, shape (2 n - 1, 4).
        extents: width of each node's cell, and distance of the centre of mass from its centre, shape (2 n - 1, 2).
        links: next, first body, number of bodies, 1 for a leaf, shape (2 n - 1, 4). Node 0 is the root; the children
            of an inner node begin right behind it, and each one's next is its sibling.
    """

    def __init__(self, n, real, *, dim, bits, leaf_size, workers, allocate=np.empty):
        """``workers`` is the number of threads that share the work.

        ``allocate(shape, dtype)`` makes the arrays that may be sent to a device: ``order`` and ``sorted_rows``.
        """
        self.n, self.dim, self.bits, self.leaf_size, self.workers = n, dim, bits, leaf_size, workers
        self.loops = compiled()
        self.codes = morton.compiled()
        capacity = 2 * n - 1
        self.order = allocate(n, np.int32)
        self.sorted_rows = allocate((n, 4), real)
        self.count = 0
        self.moments = np.empty((capacity, 4))
        self.extents = np.empty((capacity, 2))
        self.links = np.empty((capacity, 4), np.int32)
        self._keys = np.empty(n, np.uint64)
        self._other_keys, self._other_order = np.empty_like(self._keys), allocate(n, np.int32)
        self._counts = np.empty((workers, 1 << morton.DIGIT_BITS), np.int64)
        self._found = np.empty((workers, 6))
        self._first, self._last = np.empty(2 * n, np.int32), np.empty(2 * n, np.int32)
        self._level = np.empty(2 * n, np.int8)
        self._at = np.empty(n, np.int32)
        self._most = max(leaf_size, n // (SUBTREES_A_WORKER * workers))
        # Each level has at most n / most ranges that are split, each into at most 2^dim.
        tops = min(2 * n, ((n // (self._most + 1)) * bits + 1) * ((1 << dim) + 1))
        self._top_first, self._top_last = np.empty(tops, np.int32), np.empty(tops, np.int32)
        self._top_level = np.empty(tops, np.int8)

    def build(self, rows, lap=no_lap, sorted_bodies=nothing):
        """Build the tree of bodies given as rows x, y, z, mass.

        ``lap`` is called after each stage with its name, and ``sorted_bodies`` when the bodies are sorted.
        """
        self.encode(rows)
        lap("bounding box")
        self.sort()
        lap("sort")
        self.gather(rows)
        lap("reorder")
        sorted_bodies()
        self.subdivide()
        self.summarize()
        lap("build")

    def encode(self, rows):
        """Find the cube around all bodies and the Morton code of each."""
        self.codes.extremes(rows, self._found)
        self.low = self._found[:, :3].min(axis=0)
        self.width = float((self._found[:, 3:].max(axis=0) - self.low)[: self.dim].max())
        # A cube too small to divide is one cell.
        self._scale = (1 << self.bits) / self.width if self.width > np.finfo(np.float32).tiny else 0.0
        self.codes.encode(rows, self.low, self._scale, (1 << self.bits) - 1, self.dim, self._keys, self.order)

    def sort(self):
        """Put the codes in order, and find the order of the bodies."""
        swapped = self.codes.sort(
            self._keys, self.order, self._other_keys, self._other_order, self._counts, self.bits * self.dim
        )
        if swapped:
            self._keys, self._other_keys = self._other_keys, self._keys
            self.order, self._other_order = self._other_order, self.order

    def gather(self, rows):
        """Copy the bodies in their order."""
        self.codes.gather(rows, self.order, self.sorted_rows)

    def subdivide(self):
        """Split the sorted bodies into cells."""
        tops = self.loops.split(
            self._keys, 0, self.n, self._most, self.dim, self.bits, self._top_first, self._top_last, self._top_level
        )
        first, last = self._top_first[:tops], self._top_last[:tops]
        # A range that the upper part has not split is a subtree; so far each has one node, its root.
        self._subtree_nodes = ((last - first <= self._most) | (self._top_level[:tops] == self.bits)).astype(np.int32)
        shares = np.linspace(0, self.n, self.workers + 1).astype(np.int32)
        self._own = np.searchsorted(first, shares, side="left")
        self._own[-1] = tops
        self.loops.split_subtrees(
            self._keys, self.leaf_size, self.dim, self.bits, first, last, self._subtree_nodes,
            self._first, self._last, self._level, self._own,
        )  # fmt: skip
        nodes = np.maximum(self._subtree_nodes, 1)
        ends = np.cumsum(nodes)
        self._base = ends - nodes
        self.count = int(ends[-1])

    def summarize(self):
        """Link the nodes and compute their masses, centres of mass and extents."""
        tops = self._subtree_nodes.size
        geometry = (self.low, self._scale, (1 << self.bits) - 1, self.width, self.bits, self.dim)
        self.loops.finish_subtrees(
            self.sorted_rows, self.leaf_size, *geometry, self._top_first, self._top_last, self._subtree_nodes,
            self._base, self._first, self._last, self._level, self._at,
            self.moments, self.extents, self.links, self._own,
        )  # fmt: skip
        self.loops.finish_top(
            self.sorted_rows, tops, *geometry, self._top_first, self._top_last, self._top_level, self._subtree_nodes,
            self._base, self._at, self.moments, self.extents, self.links,
        )  # fmt: skip
