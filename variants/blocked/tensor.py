"""Compute distances and sums on tensor cores, for bodies that are far enough from each other.

Against symmetric: five of its 17 instructions per pair remain, because squared distances are a matrix product of
positions, and accelerations one of r^-3 and positions. Positions are relative to the centre of 32 * r bodies that are
near each other, and float32 numbers are split into TF32 and FP16. Bodies nearer than that are computed in float32. With
terms 1, r^-3 is one FP16 number; with terms 2 the sum of two.

Which bodies form a block is found on the host in preparation and is not timed. When bodies move, results stay accurate,
because each launch checks whether blocks are far apart. Additions in global memory come in any order, so two launches
differ in their last bits. No Numba kernel, because Numba has no matrix product of a warp.
"""

import numpy as np

from gravbench.model.variant import Prepared, Range, variant
from gravbench.variants.blocked import blocks
from gravbench.variants.common import ranges

LARGE = 500_000
"""Above so many bodies, few are near each other even in larger blocks, which share more loads."""

LONGEST = 8192
"""Most bodies that a block meets in one warp."""

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
        "separation": (1.25, 1.5, 2.0, 3.0),
        "parts": (0, 1, 2, 4, 8, 16, 32, 64, 128),
        "copies": (0, 1, 2, 4, 8, 16, 32),
        "warps": (0, 8, 12, 16, 20, 24),
    },
    defaults={"p": 64, "r": 0, "terms": 2, "unroll": 1, "separation": 1.5, "parts": 0, "copies": 0, "warps": 0},
    ranges={
        "p": Range(32, 128, "whole warps; 48 KB of shared memory", step=32),
        "r": Range(2, 20, "64 bodies meet at a time; 48 KB of shared memory", step=2),
        "unroll": Range(1, 4, "the loop has four iterations"),
        "separation": Range(
            1.25, 10.0, "the kernel has it in hundredths; below 1.25 a pull may leave the range of FP16", step=0.01
        ),
        "parts": ranges.PARTS,
        "copies": ranges.COPIES,
        "warps": ranges.WARPS,
    },
    when="p // 32 * (2048 * (r or 4) + 5888) <= 49152",
    dtypes=("float32",),
    of_positions=True,
    loads="n / (64 * (r or (4 if n > 500000 else 2)))",
)
def prepare(gpu, bodies, *, p, r, terms, unroll, separation, parts, copies, warps):
    """One warp per part of each line of pairs of blocks; 0 of an axis: chosen for n and the device."""
    n = bodies.n
    r = r or (4 if n > LARGE else 2)
    warps = warps or 16
    constants = {
        "P": p,
        "R": r,
        "TERMS": terms,
        "UNROLL": unroll,
        "SEPARATION": round(100 * separation),
        "RESIDENT": blocks.resident(p, warps),
    }
    kernel = gpu.compile("tensor", KERNEL=0, **constants)
    gather = gpu.compile("tensor_gather", KERNEL=1, **constants)
    scatter = gpu.compile("tensor_scatter", KERNEL=2, **constants)

    width = 32 * r
    count = -(-n // width)
    lines = -(-count // 2)
    at_once = gpu.multiprocessors * warps
    parts = parts or max(blocks.parts_for(lines, count + 1, at_once), -(-(count + 1) * width // LONGEST))
    copies = copies or blocks.power_of_two(count / ADDITIONS, 32)
    grid = -(-lines * parts * 32 // p)

    order = gpu.device_array(n, np.int32)
    stream = gpu.stream()
    gpu.send(order, compact_order(bodies.position, width).astype(np.int32), stream)
    gpu.wait(stream)
    own = gpu.upload(gpu.interaction.rows(bodies.position, bodies.velocity, bodies.mass))
    places = count * width
    placed, sums, accelerations = gpu.empty(places, 4), gpu.empty(copies * places, 4), gpu.empty(n, 4)
    number, eps2 = np.int32(n), gpu.real(bodies.eps**2)
    rooms = np.int32(places), np.int32(copies)

    def launch():
        gather(-(-places // p), p, own, order, placed, sums, number, *rooms)
        kernel(grid, p, placed, sums, np.int32(count), eps2, np.int32(parts), rooms[1])
        scatter(-(-n // p), p, accelerations, order, sums, number, *rooms)

    return Prepared(launch, own, accelerations, kernel)
