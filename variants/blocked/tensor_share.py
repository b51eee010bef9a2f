"""What ``tensor`` does on one GPU: the order of the bodies, and the pairs of blocks that are its share."""

import numpy as np

from gravbench.model.variant import Range
from gravbench.variants.blocked import blocks
from gravbench.variants.common import keys
from gravbench.variants.common.kernels import all_compiled, compiled
from gravbench.variants.common.keys import BLOCK

SEPARATION = Range(
    1.05, 10.0, "the kernel has it in hundredths; below 1.05 too few digits of a distance are left", step=0.01
)

DEFAULTS = {
    "p": 64,
    "r": 0,
    "terms": 2,
    "cube": "float32",
    "fma_roots": 0,
    "unroll": 1,
    "together": 2,
    "separation": 1.2,
    "parts": 0,
    "copies": 0,
    "warps": 0,
    "reorder": 1,
}
"""The axes of ``tensor`` where nothing else is asked for."""

LARGE = 50_000
"""Above so many bodies, few are near each other even in larger blocks, which share more loads."""

LONGEST = 8192
"""Most bodies that a block meets in one warp."""

PLACING = {
    "tensor_gather": "P R",
    "tensor_scatter": "P R",
}
ORDERING = keys.KERNELS | {
    "tensor_radii": "P R",
    "tensor_ranks": "P R",
}
"""The kernels beside the one that computes, as in ``common.kernels``: of each evaluation, and of each order."""

BITS = 10
"""Bits of a key for each coordinate. With 16, blocks are hardly more compact, and the sort takes twice as long."""

WAVES = 6
"""How many warps follow each other in one place, at least: some meet more near bodies than others, and take longer."""

FEWEST = 4
"""Fewest pairs of blocks that a warp gets for the sake of that: it prepares its block for all of them once."""

MANY = {"float32": 20_000, "float16": 60_000}
"""From so many equal masses on, the errors of one FP16 number cancel: the largest is 7e-4 / sqrt(masses) of the pulls.

Those of a cube in FP16 are several times as large, and cancel less: it has only 1,024 values for each factor of 2 in
1 / r. By the axis ``cube``.
"""

WARPS = 20
"""Warps per multiprocessor, the fastest of 16, 20 and 24: with 24, two tiles together have too few registers."""

ADDITIONS = 512
"""Most additions to one copy of a body's sums: the rounding error of a sum grows with their number."""


def compact_order(position, width):
    """Order bodies in blocks of ``width`` that are near each other, the most compact block first; shape (n,).

    A range of bodies is halved along its longest extent until it is one block (Bentley's k-d tree, 1975). Only the last
    block is not full.
    """
    n = len(position)
    order = np.arange(n)
    todo = [(0, n)]
    while todo:
        first, last = todo.pop()
        half = -(-(last - first) // width) // 2 * width
        if half == 0:
            continue
        own = order[first:last]
        there = position[own]
        along = there[:, np.argmax(np.ptp(there, axis=0))]
        order[first:last] = own[np.argpartition(along, half)]
        todo += [(first, first + half), (first + half, last)]
    whole = order[: n // width * width].reshape(-1, width)
    there = position[whole]
    radius = np.linalg.norm(there - there.mean(axis=1, keepdims=True), axis=2).max(axis=1)
    return np.concatenate([whole[np.argsort(radius)].ravel(), order[whole.size :]])


class Order:
    """The order of the bodies along the curve, and that of the blocks by their radius: two arrays of places."""

    def __init__(self, gpu, position, width, reorder, constants):
        """Order positions, shape (n, 3), on the host if ``reorder`` is 0; otherwise ``of`` does every so many times.

        Raises:
            ToolkitMissingError: the toolkit has no sort on the device and ``reorder`` is not 0.
        """
        self.gpu, self.reorder, self.n = gpu, reorder, len(position)
        self.blocks = -(-self.n // width)
        self.p = constants["P"]
        self.grid = -(-self.blocks * 32 // self.p)
        self.turn = 0
        constants = constants | {"BLOCK": BLOCK, "BITS": BITS, "HILBERT": 1}
        if reorder:
            self.boxes = gpu.device_array((BLOCK, 6), gpu.real)
            self.cube = gpu.upload(np.zeros(8))
            self.keys = gpu.device_array(self.n, np.uint32)
            self.radii = gpu.device_array(self.blocks, np.uint32)
            self.ranks = gpu.device_array(self.blocks, np.int32)
            gpu.argsort(self.keys)
            self.ordering = all_compiled(gpu, ORDERING, constants)
        else:
            self.along = self._sent(compact_order(position, width).astype(np.int64))
            self.ranks = self._sent(np.arange(self.blocks, dtype=np.int32))
        self.gather, self.scatter = all_compiled(gpu, PLACING, constants)
        self.kernels = 3 if reorder != 1 else 3 + len(ORDERING) + keys.SORT_KERNELS

    def _sent(self, places):
        array, stream = self.gpu.device_array(len(places), places.dtype), self.gpu.stream()
        self.gpu.send(array, places, stream)
        self.gpu.wait(stream)
        return array

    def of(self, own, lap):
        """Return the places of bodies along the curve and those of the blocks; order them anew where it is time."""
        if self.reorder and self.turn % self.reorder == 0:
            number, blocks = np.int32(self.n), -(-self.n // BLOCK)
            parts = min(BLOCK, blocks)
            box, key, radius, rank = self.ordering
            box(parts, BLOCK, own, self.boxes, number)
            key(blocks, BLOCK, own, self.boxes, self.cube, self.keys, number, np.int32(parts))
            lap("keys")
            self.along = self.gpu.argsort(self.keys)
            lap("sort")
            radius(self.grid, self.p, own, self.along, self.radii, number, np.int32(self.blocks))
            rank(self.grid, self.p, self.radii, self.ranks, np.int32(self.blocks))
            lap("blocks")
        self.turn += 1
        return self.along, self.ranks


class Share:
    """Every ``shares``-th line of pairs of blocks, from number ``share`` on, prepared on one GPU.

    ``own`` are the bodies there, ``accelerations`` gets the sums of these pairs for all of them. Lines next to each
    other have blocks of about the same radius, so that shares take about the same time.
    """

    def __init__(self, gpu, bodies, own, accelerations, *, share=0, shares=1, **axes):
        """Compile and allocate; ``axes`` are those of ``tensor``, of which 0 is chosen for n, device and shares.

        Raises:
            ToolkitMissingError: the toolkit has no sort on the device and ``reorder`` is not 0.
        """
        n, p, terms = bodies.n, axes["p"], axes["terms"]
        r = axes["r"] or (4 if n > LARGE else 2)
        warps = axes["warps"] or WARPS
        width = 32 * r
        count = -(-n // width)
        lines = -(-count // 2)
        at_once = gpu.multiprocessors * warps * shares
        parts = axes["parts"] or max(
            blocks.parts_for(lines, count + 1, at_once),
            -(-(count + 1) * width // LONGEST),
            min(-(-WAVES * at_once // lines), (count + 1) // FEWEST),
        )
        copies = axes["copies"] or blocks.power_of_two(count / shares / ADDITIONS, 32)
        self.p = p
        self.grid = -(-len(range(share, lines, shares)) * parts * 32 // p)
        self.order = Order(gpu, bodies.position, width, axes["reorder"], {"P": p, "R": r})
        self.kernel = compiled(
            gpu,
            "tensor",
            P=p,
            R=r,
            TERMS=terms,
            CUBE={"float32": 32, "float16": 16}[axes["cube"]],
            FMA_ROOTS=axes["fma_roots"],
            UNROLL=axes["unroll"],
            TOGETHER=axes["together"],
            SEPARATION=round(100 * axes["separation"]),
            MANY=MANY[axes["cube"]],
            RESIDENT=blocks.resident(p, warps),
        )
        self.own, self.accelerations = own, accelerations
        self.n, self.places = n, count * width
        self.placed, self.sums = gpu.empty(self.places, 4), gpu.empty(copies * self.places, 4)
        self.rooms = np.int32(self.places), np.int32(copies)
        self.numbers = np.int32(count), gpu.real(bodies.eps**2), np.int32(parts), np.int32(copies)
        self.share = np.int32(share), np.int32(shares)
        self.total = gpu.upload(np.zeros(1))  # the mass of all bodies, which a launch adds up and clears again

    def evaluate(self, lap):
        """Queue one evaluation, telling ``lap`` of each stage."""
        order, number, total = self.order, np.int32(self.n), self.total
        along, ranks = order.of(self.own, lap)
        order.gather(
            -(-self.places // self.p),
            self.p,
            self.own,
            along,
            ranks,
            self.placed,
            self.sums,
            number,
            *self.rooms,
            total,
        )
        lap("gather")
        if self.grid:
            self.kernel(self.grid, self.p, self.placed, self.sums, *self.numbers, total, *self.share)
        lap("pairs")
        order.scatter(
            -(-self.n // self.p), self.p, self.accelerations, along, ranks, self.sums, number, *self.rooms, total
        )
        lap("scatter")


def no_lap(name):
    """Nothing is told of a stage."""
