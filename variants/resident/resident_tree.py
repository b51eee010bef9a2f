"""Build the tree and walk it on the GPU: bodies never leave it, and the host waits for nothing.

Against barnes_hut: sorting, building and summing up the tree take a fraction of the walk, where the host took longer
than it, and nothing crosses the bus. A warp walks for ``group`` bodies that are neighbours along ``curve``, compares 32
nodes at a time with ``boxes`` around each 32 of them, and adds up what it accepts from shared memory. ``warps`` may
share the bodies of a group, and then what they add up: all find the same cells, and each takes its part of them.
``opening`` says when a cell is opened, ``moments`` what an accepted one is taken for: a ``monopole``, its centre of
mass, or a ``quadrupole`` beside it. With ``opening`` "acceleration" the cells are judged by the acceleration of the
evaluation before, of which ``part`` may be wrong by each. A key has ``bits`` for each coordinate: keys of up to ten are
sorted in half the time, and put bodies that are closer than a thousandth of the whole into one leaf.

CuPy sorts the keys. PyCUDA has no sort on the device, and cases for it say so where they are skipped.
"""

import numpy as np

from gravbench.model.variant import Prepared, Range, variant
from gravbench.variants.resident import accuracy, tree_buffers

KERNELS = {
    "resident_tree": (0, "BITS OPENING QUADRUPOLE R P WARPS BOXES COUNT"),
    "resident_tree_box": (1, "BLOCK"),
    "resident_tree_keys": (2, "BLOCK BITS HILBERT"),
    "resident_tree_order": (3, "BLOCK BITS LEAF"),
    "resident_tree_scan": (4, "SCAN"),
    "resident_tree_nodes": (5, "BLOCK BITS"),
    "resident_tree_moments": (6, "BLOCK BITS OPENING QUADRUPOLE"),
}
"""The kernels: the number by which the source tells each apart, and the constants that it depends on."""

BLOCK = 256
"""Threads per block of all kernels but the walk; a body or a node each."""
SCAN = 1024
"""Threads that add up the numbers of cells of one level."""
SORT_KERNELS = 6
"""Kernels of the library's sort, at least."""

CURVES = ("morton", "hilbert")


@variant(
    parent="barnes_hut",
    source="Bedorf, Gaburov & Portegies Zwart 2012, a sparse octree code that runs entirely on the GPU",
    axes={
        "theta": accuracy.THETAS,
        "opening": accuracy.OPENINGS,
        "part": accuracy.PARTS,
        "moments": accuracy.MOMENTS,
        "group": (32, 64, 96, 128),
        "leaf_size": (4, 8, 16, 24, 32, 48, 64),
        "p": (32, 64, 128),
        "warps": (1, 2, 4),
        "boxes": (1, 2, 4, 8, 16),
        "curve": CURVES,
        "bits": (10, 16, 21),
    },
    defaults={
        "theta": 0.7,
        "opening": "acceleration",
        "part": 0.01,
        "moments": "quadrupole",
        "group": 32,
        "leaf_size": 16,
        "p": 64,
        "warps": 1,
        "boxes": 4,
        "curve": "hilbert",
        "bits": 21,
    },
    ranges={
        "theta": accuracy.THETA,
        "part": accuracy.PART,
        "group": Range(32, 128, "whole warps of bodies; up to four of them and their sums in a thread", step=32),
        "leaf_size": Range(1, 256, "a block reads so many keys on both sides beside its own"),
        "p": Range(32, 128, "whole warps; 48 KB of shared memory hold the stacks of four", step=32),
        "bits": Range(1, 21, "three coordinates of so many bits in a key of 64"),
    },
    when="warps == 1 or p == 32 * warps",
    approximates="a cell far away for its width, or for its part of the acceleration, acts as its moments",
    tolerance=accuracy.of_axes,
)
def prepare(gpu, bodies, *, theta, opening, part, moments, group, leaf_size, p, warps, boxes, curve, bits):
    """One thread per body or node in the build; in the walk ``warps`` per ``group`` bodies, p threads per block."""
    n = bodies.n
    has = tree_buffers.Buffers(gpu, n, bits=bits, leaf_size=leaf_size, quadrupole=moments == "quadrupole", block=BLOCK)
    # A toolkit without a sort says so here, before anything is compiled.
    gpu.argsort(has.keys)
    constants = {
        "BITS": bits,
        "HILBERT": int(curve == "hilbert"),
        "LEAF": leaf_size,
        "OPENING": accuracy.OPENINGS.index(opening),
        "QUADRUPOLE": int(moments == "quadrupole"),
        "R": group // 32,
        "P": p,
        "WARPS": warps,
        "BOXES": boxes,
        "BLOCK": BLOCK,
        "SCAN": SCAN,
        "COUNT": 0,
    }

    def compiled(stem, **other):
        number, names = KERNELS[stem]
        return gpu.compile(stem, KERNEL=number, **{name: (constants | other)[name] for name in names.split()})

    walk, box, keys, order, scan, nodes, sums = map(compiled, KERNELS)
    own = gpu.upload(np.column_stack([bodies.position, bodies.mass]))
    accelerations = gpu.empty(n, 4)
    last = gpu.empty(n if opening == "acceleration" else 1)
    blocks = -(-n // BLOCK)
    parts = min(BLOCK, blocks)
    of_nodes = min(-(-has.capacity // BLOCK), 8 * gpu.multiprocessors)
    walkers = -(-n // (group * (p // 32 // warps)))
    count, number_of_blocks, capacity = np.int32(n), np.int32(blocks), np.int32(has.capacity)
    with np.errstate(divide="ignore"):
        inverse_theta = np.divide(gpu.real(1), gpu.real(theta))
    # No cell is so far away that its part of the acceleration is below zero.
    eps2, judged = gpu.real(bodies.eps**2), gpu.real(part if theta else 0)

    def traverse(kernel, places, found):
        kernel(
            walkers, p, has.sorted, has.centres, has.seconds, has.links, places, last, found, count, eps2,
            inverse_theta, judged,
        )  # fmt: skip

    def evaluate(lap):
        box(parts, BLOCK, own, has.boxes, count)
        keys(blocks, BLOCK, own, has.boxes, has.cube, has.keys, count, np.int32(parts))
        lap("keys")
        places = gpu.argsort(has.keys)
        lap("sort")
        order(blocks, BLOCK, own, has.keys, places, has.sorted, has.begun, has.counts, count)
        scan(bits, SCAN, has.counts, has.totals, number_of_blocks)
        nodes(
            blocks, BLOCK, has.begun, has.keys, places, has.counts, has.totals, has.bounds, has.links, has.pending,
            has.tree, count, number_of_blocks, capacity,
        )  # fmt: skip
        lap("build")
        sums(
            of_nodes, BLOCK, has.sorted, has.bounds, has.tree, has.cube, has.centres, has.seconds, has.links,
            has.pending, inverse_theta,
        )  # fmt: skip
        lap("moments")
        traverse(walk, places, accelerations)
        lap("traverse")
        return places

    def insight():
        counting = compiled("resident_tree", COUNT=1)
        met = gpu.empty(n, 4)
        traverse(counting, evaluate(tree_buffers.no_lap), met)
        found = np.empty((n, 4), gpu.real)
        stream = gpu.stream()
        gpu.synchronize()
        gpu.fetch(found, met, stream)
        gpu.wait(stream)
        body_body, body_cell = (float(one) for one in found[:, :2].mean(axis=0, dtype=np.float64))
        return {"computed": {"body_body": body_body, "body_cell": body_cell}}

    if opening == "acceleration":
        # What is timed and judged has the accelerations of an evaluation before it, as all steps but the first.
        evaluate(tree_buffers.no_lap)
    return Prepared(
        lambda: evaluate(tree_buffers.no_lap),
        own,
        accelerations,
        walk,
        stages=evaluate,
        insight=insight,
        kernels=len(KERNELS) + SORT_KERNELS,
    )
