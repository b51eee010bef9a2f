"""A quadtree or octree that is made by inserting body after body, with one body per leaf, and its walk.

A cell has one place for each of its parts. A place is empty, or has a body, or a smaller cell; a body that arrives
where another one is makes smaller cells until the two lie in different parts. Bodies at one place would make cells
without end, so after ``LEVELS`` levels they share a place. Cells are numbered in the order in which they are made, each
behind the one that contains it.
"""

import functools
from types import SimpleNamespace

import numpy as np

from gravbench.variants.barnes_hut import inserted, nodes, tree

SORTS = ("none", "radix", "quicksort", "stable")
"""The order in which bodies are inserted and walk: of the input, or of Morton codes, sorted by radix or by NumPy's
comparison sorts of these names."""

LEVELS = 64
"""Levels of cells. Cells of the last are narrower than the distance of any two float64 numbers of the same size."""
EMPTY = -1
FIRST_BODY = -2
"""What stands in a place: the number of a cell, ``EMPTY``, or ``FIRST_BODY`` - k for body k."""

WAITING = LEVELS * 7 + 8
"""Most cells and bodies on the stack of a walk: seven per level, and the last eight."""

BLOCK = 64
"""Consecutive bodies per block of work; workers take blocks in turn."""


@functools.cache
def compiled(real, dim):
    """Compile the loops; ``rows`` has one body per row: x, y, z, mass.

    ``parts`` has one row of places per cell, ``following`` the body that shares the place of a body, or -1, and
    ``cells`` one row per cell: x, y, z of its centre of mass, its mass, and the squared distance up to which it is
    opened.
    """
    import numba

    one, half, nothing = real(1), real(0.5), real(0)
    places = 1 << dim
    greatest = nodes.GREATEST

    @numba.njit(error_model="numpy")
    def insert(rows, low, width, parts, widths, following):
        """Insert the bodies in the order of the rows; returns the number of cells, or 0 where there is no room."""
        centre = np.empty(3)
        parts[0] = EMPTY
        widths[0] = width
        count = 1
        for body in range(rows.shape[0]):
            following[body] = -1
            cell, level, size = 0, 0, width
            for axis in range(dim):
                centre[axis] = low[axis] + size / 2
            waiting = body
            while True:
                part = 0
                for axis in range(dim):
                    part |= int(rows[waiting, axis] >= centre[axis]) << axis
                there = parts[cell, part]
                if there >= 0:
                    cell, level, size = there, level + 1, size / 2
                    for axis in range(dim):
                        centre[axis] += size / 2 if (part >> axis) & 1 else -size / 2
                    continue
                if there == EMPTY:
                    parts[cell, part] = FIRST_BODY - waiting
                    break
                if level == LEVELS - 1:
                    following[waiting] = FIRST_BODY - there
                    parts[cell, part] = FIRST_BODY - waiting
                    break
                if count == widths.size:
                    return 0
                # The body that is here moves down into a new cell, and the one that arrives follows.
                parts[count] = EMPTY
                widths[count] = size / 2
                old, old_part = FIRST_BODY - there, 0
                for axis in range(dim):
                    shifted = centre[axis] + (size / 4 if (part >> axis) & 1 else -size / 4)
                    old_part |= int(rows[old, axis] >= shifted) << axis
                parts[count, old_part] = there
                parts[cell, part] = count
                count += 1
        return count

    @numba.njit(error_model="numpy")
    def summarize(rows, parts, widths, following, count, reach, least, sums, cells):
        """Add up masses and centres of mass, small cells before those that contain them."""
        for cell in range(count - 1, -1, -1):
            mass = mx = my = mz = 0.0
            for part in range(places):
                there = parts[cell, part]
                if there >= 0:
                    mass += sums[there, 3]
                    mx += sums[there, 0]
                    my += sums[there, 1]
                    mz += sums[there, 2]
                body = FIRST_BODY - there if there < EMPTY else -1
                while body >= 0:
                    own = np.float64(rows[body, 3])
                    mass += own
                    mx += own * rows[body, 0]
                    my += own * rows[body, 1]
                    mz += own * rows[body, 2]
                    body = following[body]
            sums[cell, 0], sums[cell, 1], sums[cell, 2], sums[cell, 3] = mx, my, mz, mass
            # The place of a cell without mass has no effect.
            inverse = 1.0 / mass if mass > 0 else 0.0
            cells[cell, 0], cells[cell, 1], cells[cell, 2] = mx * inverse, my * inverse, mz * inverse
            cells[cell, 3] = mass
            cells[cell, 4] = min((max(widths[cell], least) * reach) ** 2, greatest)

    @numba.njit(error_model="numpy")
    def of_body(i, rows, parts, following, cells, eps2, waiting, acceleration, met):
        """Walk for one body; ``met`` counts the cells and bodies that act on it."""
        x, y, z = rows[i, 0], rows[i, 1], rows[i, 2]
        ax = ay = az = nothing
        waiting[0] = 0
        depth = 1
        while depth > 0:
            depth -= 1
            cell = waiting[depth]
            if cell >= 0:
                dx, dy = cells[cell, 0] - x, cells[cell, 1] - y
                dz = cells[cell, 2] - z if dim == 3 else nothing
                r2 = dx * dx + dy * dy + dz * dz
                if r2 > cells[cell, 4]:
                    inverse = one / (r2 + eps2) ** half
                    strength = cells[cell, 3] * inverse * inverse * inverse
                    ax += strength * dx
                    ay += strength * dy
                    az += strength * dz
                    met[0] += 1
                    continue
                for part in range(places):
                    if parts[cell, part] != EMPTY:
                        waiting[depth] = parts[cell, part]
                        depth += 1
                continue
            body = FIRST_BODY - cell
            while body >= 0:
                dx, dy = rows[body, 0] - x, rows[body, 1] - y
                dz = rows[body, 2] - z if dim == 3 else nothing
                inverse = one / (dx * dx + dy * dy + dz * dz + eps2) ** half
                strength = rows[body, 3] * inverse * inverse * inverse
                ax += strength * dx
                ay += strength * dy
                az += strength * dz
                met[1] += 1
                body = following[body]
        acceleration[0], acceleration[1], acceleration[2] = ax, ay, az

    @numba.njit(parallel=True, error_model="numpy")
    def walk(rows, order, parts, following, cells, eps2, accelerations, met):
        """Walk for all bodies; the acceleration of row k goes to row ``order[k]``. Each worker counts for itself."""
        n, workers = rows.shape[0], met.shape[0]
        blocks = (n + BLOCK - 1) // BLOCK
        for worker in numba.prange(workers):
            waiting = np.empty(WAITING, np.int32)
            met[worker] = 0
            for block in range(worker, blocks, workers):
                for i in range(block * BLOCK, min(n, (block + 1) * BLOCK)):
                    of_body(
                        i, rows, parts, following, cells, eps2, waiting, accelerations[order[i]], met[worker]
                    )  # fmt: skip

    return SimpleNamespace(insert=insert, summarize=summarize, walk=walk)


class Inserted(tree.Tree):
    """The tree of n bodies by insertion; ``build`` makes it anew.

    Attributes, beside those of bodies and their order:
        parts: the places of each cell, shape (cells, 2 ** dim).
        following: the body that shares the place of a body, -1 after the last, shape (n,).
        cells: centre of mass, mass and squared opening distance of each cell, shape (cells, 5).
    """

    def __init__(self, n, real, *, dim, bits, theta, sort, workers):
        """``workers`` share the sort by radix; bodies are inserted by one."""
        super().__init__(n, real, dim=dim, bits=bits, leaf_size=1, workers=workers)
        self.sort_by = sort
        self.reach = inserted.reach(theta)
        # With theta 0 a cell is opened that has no width either.
        self._least = 0.0 if theta > 0 else 1.0
        self.by_insertion = compiled(real, dim)
        self.real = real
        self.following = np.empty(n, np.int32)
        self._make_room(2 * n)

    def _make_room(self, capacity):
        self.parts = np.empty((capacity, 1 << self.dim), np.int32)
        self.cells = np.empty((capacity, 5), self.real)
        self._widths, self._sums = np.empty(capacity), np.empty((capacity, 4))

    def build(self, rows, lap=tree.no_lap):
        """Build the tree of bodies given as rows x, y, z, mass; ``lap`` is called after each stage with its name."""
        self.encode(rows)
        lap("bounding box")
        if self.sort_by == "none":
            self.walked = rows
        else:
            self.sort()
            lap("sort")
            self.gather(rows)
            self.walked = self.sorted_rows
            lap("reorder")
        loops = self.by_insertion
        while not (count := loops.insert(self.walked, self.low, self.width, self.parts, self._widths, self.following)):
            self._make_room(2 * self._widths.size)
        self.count = count
        cells = self.parts, self._widths, self.following, count
        loops.summarize(self.walked, *cells, self.reach, self._least, self._sums, self.cells)
        lap("build")

    def sort(self):
        """Put the codes in order, and find the order of the bodies."""
        if self.sort_by == "radix":
            super().sort()
            return
        self.order[:] = np.argsort(self._keys, kind=self.sort_by)
        self._keys[:] = self._keys[self.order]
