"""Build and walk the tree on the GPU: the bodies never leave it, and the host never waits.

Against barnes_hut: sorting, building and summing up the tree take a fraction of the walk, while the host took longer
than the walk, and nothing crosses the bus. A warp walks for ``group`` bodies that are neighbours along ``curve``,
compares 32 nodes at a time with ``boxes`` around each 32 of them, and sums up what it accepts from shared memory.
Several ``warps`` can share the work of a group: all find the same cells, and each processes its share of them.
``opening`` says when a cell is opened, ``moments`` how an accepted one acts: as a ``monopole``, its centre of mass, or
with a ``quadrupole`` too. With ``opening`` "acceleration", each cell may contribute an error of at most ``part`` of
the acceleration in the previous evaluation. A key has ``bits`` for each coordinate: keys of up to ten bits are sorted
in half the time, but do not tell bodies apart that are closer than a thousandth of the whole. With ``graph``, an
evaluation is one CUDA graph, which the host launches once. What keeps it fast for all bodies is listed in
docs/explanation/trees.md.

CuPy sorts the keys. PyCUDA has no sort on the device, so its cases are skipped with that reason.
"""

import numpy as np

from gravbench.model.variant import Prepared, Range, variant
from gravbench.variants.common.kernels import all_compiled
from gravbench.variants.resident import accuracy, resident_share, tree_buffers, tree_build, walk_parts


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
        "curve": tree_build.CURVES,
        "bits": (10, 16, 21),
        "graph": (0, 1),
    },
    defaults=resident_share.DEFAULTS,
    ranges={
        "theta": accuracy.THETA,
        "part": accuracy.PART,
        "group": Range(32, 128, "whole warps of bodies; a thread holds up to four bodies and their sums", step=32),
        "leaf_size": Range(1, 256, "a block also reads that many keys on each side of its own"),
        "p": Range(32, 128, "whole warps; 48 KB of shared memory hold the stacks of four", step=32),
        "bits": Range(1, 21, "three coordinates must fit into a 64-bit key"),
    },
    when="warps == 1 or p == 32 * warps",
    approximates="a cell far away for its width, or for its part of the acceleration, acts as its moments",
    positive_masses=True,
    divides_crowds=True,
    tolerance=accuracy.of_axes,
    kernel_parts=walk_parts.PARTS,
)
def prepare(gpu, bodies, *, opening, graph, **axes):
    """One thread per body or node in the build; in the walk ``warps`` per ``group`` bodies, p threads per block."""
    n = bodies.n
    own = gpu.upload(np.column_stack([bodies.position, bodies.mass]))
    accelerations = gpu.empty(n, 4)
    whole = resident_share.Share(gpu, bodies, own, accelerations, opening=opening, **axes)

    def insight():
        (counting, _) = all_compiled(gpu, resident_share.KERNELS, whole.constants | {"COUNT": 1})
        met = gpu.empty(n, 4)
        whole.traverse(counting, whole.evaluate(tree_buffers.no_lap), met)
        found = np.empty((n, 4), gpu.real)
        stream = gpu.stream()
        gpu.synchronize()
        gpu.fetch(found, met, stream)
        gpu.wait(stream)
        body_body, body_cell = (float(one) for one in found[:, :2].mean(axis=0, dtype=np.float64))
        return {"computed": {"body_body": body_body, "body_cell": body_cell}}

    def launch():
        whole.evaluate(tree_buffers.no_lap)

    if opening == "acceleration":
        # What is timed and judged has the accelerations of an evaluation before it, as all steps but the first.
        launch()
    return Prepared(
        gpu.captured(launch) if graph else launch,
        own,
        accelerations,
        whole.walk,
        stages=whole.evaluate,
        insight=insight,
        kernels=whole.kernels,
    )
