"""Compute distances and sums on tensor cores, for bodies that are far enough from each other.

Against symmetric: five of its 17 instructions per pair remain, because squared distances are a matrix product of
positions, and accelerations one of r^-3 and positions. Positions are relative to the centre of 32 * r bodies that are
near each other, and float32 numbers are split into two of FP16. Bodies nearer than that are computed in float32. With
terms 1, r^-3 is one FP16 number where bodies are far apart, and there are so many that rounding errors cancel; with
terms 2 always the sum of two.

The bodies of a block follow each other along Hilbert's curve. Every ``reorder`` launches they are put into that order
on the GPU, where CuPy sorts; PyCUDA has no sort, and cases for it say so where they are skipped. With ``reorder`` 0 the
host orders them by a k-d tree in preparation, which is not timed. When bodies have moved since, results stay accurate,
because each launch checks whether blocks are far apart. Additions in global memory come in any order, so two launches
differ in their last bits. No Numba kernel, because Numba has no matrix product of a warp.
"""

import numpy as np

from gravbench.model.variant import Prepared, Range, variant
from gravbench.variants.blocked import blocks
from gravbench.variants.common import ranges

LARGE = 50_000
"""Above so many bodies, few are near each other even in larger blocks, which share more loads."""

LONGEST = 8192
"""Most bodies that a block meets in one warp."""

KERNELS = {
    "tree_box": (1, "BLOCK"),
    "tree_keys": (2, "BLOCK BITS HILBERT"),
    "tensor_radii": (6, "P R"),
    "tensor_ranks": (9, "P R"),
    "tensor_gather": (7, "P R"),
    "tensor_scatter": (8, "P R"),
}
"""The kernels beside the one that computes: the numbers by which the source tells them apart, and their constants."""

BLOCK = 256
"""Threads per block of the kernels that find the keys."""

BITS = 10
"""Bits of a key for each coordinate. With 16, blocks are hardly more compact, and the sort takes twice as long."""

SORT_KERNELS = 6
"""Kernels of one sort of the library, at least."""

WAVES = 6
"""How many warps follow each other in one place, at least: some meet more near bodies than others, and take longer."""

FEWEST = 4
"""Fewest pairs of blocks that a warp gets for the sake of that: it prepares its block for all of them once."""

MANY = 20_000
"""Of as many equal masses the errors of one FP16 number cancel: the largest is 7e-4 / sqrt(masses) of the pulls."""

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


@variant(
    parent="symmetric",
    source="own; none is known for gravity, squared distances as matrix products are common elsewhere",
    axes={
        "p": (32, 64),
        "r": (0, 2, 4),
        "terms": (1, 2),
        "unroll": (1, 2, 4),
        "together": (1, 2),
        "separation": (1.1, 1.2, 1.35, 1.5, 2.0, 3.0),
        "parts": (0, 1, 2, 4, 8, 16, 32, 64, 128),
        "copies": (0, 1, 2, 4, 8, 16, 32),
        "warps": (0, 8, 12, 16, 20, 24),
        "reorder": (0, 1, 4, 16),
    },
    defaults={
        "p": 64,
        "r": 0,
        "terms": 2,
        "unroll": 1,
        "together": 2,
        "separation": 1.5,
        "parts": 0,
        "copies": 0,
        "warps": 0,
        "reorder": 1,
    },
    ranges={
        "p": Range(32, 128, "whole warps; 48 KB of shared memory", step=32),
        "r": Range(2, 20, "64 bodies meet at a time; 48 KB of shared memory", step=2),
        "unroll": Range(1, 4, "the loop has four iterations"),
        "together": Range(1, 2, "more would not fit into the registers"),
        "separation": Range(
            1.05, 10.0, "the kernel has it in hundredths; below 1.05 too few digits of a distance are left", step=0.01
        ),
        "parts": ranges.PARTS,
        "copies": ranges.COPIES,
        "warps": ranges.WARPS,
        "reorder": Range(1, 1_000_000, "launches from one ordering to the next"),
    },
    when="p // 32 * (2048 * (r or 4) + 4192) <= 49152",
    dtypes=("float32",),
    of_positions=lambda axes: axes.get("reorder") != 1,
    loads="n / (64 * (r or (4 if n > 50000 else 2)))",
    mutual="meet",
)
def prepare(gpu, bodies, *, p, r, terms, unroll, together, separation, parts, copies, warps, reorder):
    """One warp per part of each line of pairs of blocks; 0 of r, parts, copies or warps: chosen for n and device."""
    n = bodies.n
    r = r or (4 if n > LARGE else 2)
    warps = warps or {1: 18 if r > 2 else 20, 2: 16}[terms]
    width = 32 * r
    count = -(-n // width)
    lines = -(-count // 2)
    at_once = gpu.multiprocessors * warps
    parts = parts or max(
        blocks.parts_for(lines, count + 1, at_once),
        -(-(count + 1) * width // LONGEST),
        min(-(-WAVES * at_once // lines), (count + 1) // FEWEST),
    )
    copies = copies or blocks.power_of_two(count / ADDITIONS, 32)
    grid = -(-lines * parts * 32 // p)

    order = _Order(gpu, bodies.position, width, reorder, {"P": p, "R": r})
    kernel = gpu.compile(
        "tensor",
        KERNEL=0,
        P=p,
        R=r,
        TERMS=terms,
        UNROLL=unroll,
        TOGETHER=together,
        SEPARATION=round(100 * separation),
        MANY=MANY,
        RESIDENT=blocks.resident(p, warps),
    )
    own = gpu.upload(gpu.interaction.rows(bodies.position, bodies.velocity, bodies.mass))
    places = count * width
    placed, sums, accelerations = gpu.empty(places, 4), gpu.empty(copies * places, 4), gpu.empty(n, 4)
    number, eps2 = np.int32(n), gpu.real(bodies.eps**2)
    rooms = np.int32(places), np.int32(copies)
    total = gpu.upload(np.zeros(1))  # the mass of all bodies, which a launch adds up and clears again

    def evaluate(lap):
        along, ranks = order.of(own, lap)
        order.gather(-(-places // p), p, own, along, ranks, placed, sums, number, *rooms, total)
        lap("gather")
        kernel(grid, p, placed, sums, np.int32(count), eps2, np.int32(parts), rooms[1], total)
        lap("pairs")
        order.scatter(-(-n // p), p, accelerations, along, ranks, sums, number, *rooms, total)
        lap("scatter")

    return Prepared(lambda: evaluate(_no_lap), own, accelerations, kernel, stages=evaluate, kernels=order.kernels)


def _no_lap(name):
    """Nothing is told of a stage."""


class _Order:
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
            self.cube = gpu.device_array(4, gpu.real)
            self.keys = gpu.device_array(self.n, np.uint32)
            self.radii = gpu.device_array(self.blocks, np.uint32)
            self.ranks = gpu.device_array(self.blocks, np.int32)
            gpu.argsort(self.keys)
        else:
            self.along = self._sent(compact_order(position, width).astype(np.int64))
            self.ranks = self._sent(np.arange(self.blocks, dtype=np.int32))
        (self.box, self.key, self.radius, self.rank, self.gather, self.scatter) = (
            gpu.compile(stem, KERNEL=number, **{name: constants[name] for name in names.split()})
            if reorder or stem in ("tensor_gather", "tensor_scatter")
            else None
            for stem, (number, names) in KERNELS.items()
        )
        self.kernels = 3 if reorder != 1 else 3 + 4 + SORT_KERNELS

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
            self.box(parts, BLOCK, own, self.boxes, number)
            self.key(blocks, BLOCK, own, self.boxes, self.cube, self.keys, number, np.int32(parts))
            lap("keys")
            self.along = self.gpu.argsort(self.keys)
            lap("sort")
            self.radius(self.grid, self.p, own, self.along, self.radii, number, np.int32(self.blocks))
            self.rank(self.grid, self.p, self.radii, self.ranks, np.int32(self.blocks))
            lap("blocks")
        self.turn += 1
        return self.along, self.ranks
