"""The fast multipole method, entirely on the GPU: distant cells act on cells by Taylor expansions.

Against resident_tree, with the same tree: there each body meets distant cells; here cells do, and pass the field on to
the cells and bodies within them. The work therefore grows only linearly with n. Expansions in Cartesian coordinates
have all terms up to ``order``, of the softened potential itself. Two cells are far from each other if ``theta`` times
their distance exceeds the sum of their sizes. With ``opening`` "acceleration", the error that they cause must also be
less than a ``part`` of the smallest acceleration in the target cell in the previous evaluation, so the errors of
bodies are in proportion to their accelerations. If that turns out to be wrong, as in the first evaluation, the pairs
are found and computed a second time; the device decides, and the host does not wait. If cells are small compared with
a leaf, their errors would all have the same direction, so they act on each of its bodies separately.

CuPy sorts the keys. PyCUDA has no sort on the device, so its cases are skipped with that reason.
"""

import numpy as np

from gravbench.model.variant import DIRECT_SUM, Prepared, Range, Tolerance, variant
from gravbench.variants.common import keys
from gravbench.variants.common.kernels import all_compiled
from gravbench.variants.resident import pair_lists, tree_build
from gravbench.variants.resident.tree_buffers import no_lap

KERNELS = {
    "fast_multipole": "ORDER JUDGED P",
    "fast_multipole_up": "ORDER JUDGED OPENING BLOCK BITS QUADRUPOLE",
    "fast_multipole_pairs": "ORDER JUDGED BITS RANKS P",
    "fast_multipole_far": "ORDER P",
    "fast_multipole_down": "ORDER BITS RANKS P",
    "fast_multipole_least": "BLOCK",
    "fast_multipole_walk": "ORDER JUDGED BITS RANKS P",
}
"""The kernels beside those that build, as in ``common.kernels``."""

OPENINGS = ("geometric", "acceleration")

BLOCKS = 16
"""Blocks per multiprocessor of the kernels that have a warp for a cell, at most."""
WALKING = 4
"""Those of the walk, which mostly ends at once: more would take longer for that."""


def multipole_rows(order):
    """Return in how many rows of four the multipoles of a cell are kept: without those of first order."""
    return -(-(order * (order + 1) * (order + 2) // 6 - 3) // 4)


def local_rows(order):
    """Return in how many rows of four the local coefficients are kept: from the first order on."""
    return -(-((order + 1) * (order + 2) * (order + 3) // 6 - 1) // 4)


def accepted_errors(axes):
    """Return the tolerance of each number type: a few times the errors over a thousand bodies of several kinds."""
    theta, order = axes.get("theta", 0.7), axes.get("order", 4)
    if theta == 0:
        return DIRECT_SUM
    least = DIRECT_SUM["float32"]
    rms = 0.5 * theta**order
    if axes.get("opening") != "geometric":
        rms = min(rms, 6 * axes.get("part", 1e-3))
    return {"float32": Tolerance(max=max(30 * rms, least.max), rms=max(rms, least.rms))}


@variant(
    parent="resident_tree",
    source="Dehnen 2002, a hierarchical O(N) force calculation algorithm; 2014, a fast multipole method for stellar "
    "dynamics",
    axes={
        "theta": (0, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
        "order": (3, 4, 5, 6),
        "opening": OPENINGS,
        "part": (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03),
        "leaf_size": (8, 16, 24, 32, 48, 64),
        "p": (64, 128),
        "curve": tree_build.CURVES,
        "bits": (10, 16, 21),
        "graph": (0, 1),
    },
    defaults={
        "theta": 0.7,
        "order": 4,
        "opening": "acceleration",
        "part": 0.001,
        "leaf_size": 32,
        "p": 128,
        "curve": "hilbert",
        "bits": 16,
        "graph": 1,
    },
    ranges={
        "theta": Range(0.05, 1.0, "below, errors are smaller than those of rounding; above, cells overlap"),
        "order": Range(3, 6, "a thread keeps all coefficients of an expansion in registers"),
        "part": Range(1e-7, 1.0, "below, errors are smaller than those of rounding; above, theta alone decides"),
        "leaf_size": Range(1, 256, "a block also reads that many keys on each side of its own"),
        "p": Range(32, 128, "whole warps; 48 KB of shared memory hold the lists of four", step=32),
        "bits": Range(1, 21, "three coordinates must fit into a 64-bit key"),
    },
    approximates="cells far from each other act by Taylor expansions",
    positive_masses=True,
    divides_crowds=True,
    dtypes=("float32",),
    tolerance=accepted_errors,
)
def prepare(gpu, bodies, *, theta, order, opening, part, leaf_size, p, curve, bits, graph):
    """One thread per body or node in the build and the passes, one warp per cell where pairs are found or computed."""
    n = bodies.n
    tree = tree_build.Tree(gpu, n, bits=bits, leaf_size=leaf_size, curve=curve, quadrupole=False)
    has = tree.has
    judged = opening == "acceleration"
    constants = tree.constants | {"ORDER": order, "JUDGED": int(judged), "OPENING": 2, "QUADRUPOLE": 0, "P": p}
    near, up, pairs, far, down, slowest, walk = all_compiled(gpu, KERNELS, constants)
    own = gpu.upload(np.column_stack([bodies.position, bodies.mass]))
    accelerations = gpu.empty(n, 4)
    last = gpu.empty(n if judged else 1)
    least = gpu.device_array(has.capacity if judged else 1, gpu.real)
    sizes = gpu.device_array(has.capacity if judged else 1, gpu.real)
    found = gpu.device_array(has.capacity if judged else 1, gpu.real)
    again = gpu.device_array(1, np.int32)
    multipoles = gpu.device_array((has.capacity, 4 * multipole_rows(order)), gpu.real)
    expansions = gpu.device_array((has.capacity, 4 * local_rows(order)), gpu.real)
    lists = pair_lists.PairLists(gpu, has.capacity, n)
    most = BLOCKS * gpu.multiprocessors
    warps = p // 32
    cells, threads = min(most, -(-has.capacity // warps)), min(most, -(-has.capacity // p))
    walks = min(WALKING * gpu.multiprocessors, -(-n // p))
    # 8^level cells at most, of which each warp takes one, as long as the device has room for them.
    of_levels = [min(cells, -(-(8**level) // warps)) for level in range(tree.levels + 1)]
    eps2, theta2, judged_part = gpu.real(bodies.eps**2), gpu.real(theta**2), gpu.real(part)

    def act(lap, places, number, by):
        """Find the pairs and compute them; the second time only if the device has found the first to be wrong."""
        passes = again, np.int32(number)
        for level, blocks in enumerate(of_levels):
            pairs(
                blocks, p, has.sorted, has.centres, has.links, has.bounds, has.totals, has.cube, sizes, by,
                lists.heads, lists.pool, lists.used, np.int32(has.capacity), lists.capacity, np.int32(level), eps2,
                theta2, judged_part, *passes,
            )  # fmt: skip
        lap("pairs")
        far(
            cells, p, has.sorted, has.centres, has.rests, has.links, multipoles, has.tree, has.cube, lists.heads,
            lists.pool, lists.used, places, expansions, accelerations, lists.capacity, eps2, *passes,
        )  # fmt: skip
        lap("far")
        down(
            threads, p, has.centres, has.rests, has.bounds, has.tree, has.cube, lists.heads, lists.used, expansions,
            lists.capacity, *passes,
        )  # fmt: skip
        lap("down")
        near(
            cells, p, has.sorted, has.centres, has.rests, has.links, has.bounds, has.tree, has.cube, lists.heads,
            lists.pool, lists.used, expansions, places, last, least, accelerations, lists.capacity, eps2, *passes,
        )  # fmt: skip
        lap("near")

    def evaluate(lap):
        places = tree.build(own, lap)
        up(
            tree.node_blocks, keys.BLOCK, has.sorted, has.bounds, has.tree, has.cube, places, last, has.centres,
            has.rests, multipoles, sizes, least, found, has.links, has.pending, again,
        )  # fmt: skip
        lap("multipoles")
        act(lap, places, 0, least)
        if judged:
            slowest(tree.node_blocks, keys.BLOCK, has.bounds, has.tree, places, last, found, again)
            act(no_lap, places, 1, found)
        walk(
            walks, p, has.sorted, has.centres, has.rests, has.links, multipoles, sizes, has.cube, lists.used, places,
            last, accelerations, lists.capacity, np.int32(n), eps2, theta2, judged_part,
        )  # fmt: skip
        lap("again")

    def evaluate_once():
        evaluate(no_lap)
        lists.copy_used()

    def make_room():
        """Return what queues an evaluation, with room for the lists of the present bodies."""
        lists.fit(evaluate_once)
        return gpu.captured(evaluate_once) if graph else evaluate_once

    # What is timed and judged has the accelerations of an evaluation before it, as all steps but the first, and room
    # for its lists.
    queue_evaluation = make_room()

    def launch():
        nonlocal queue_evaluation
        if lists.lack_room:
            queue_evaluation = make_room()
        queue_evaluation()

    def insight():
        launch()
        return {"computed": lists.computed(has.tree, has.links, n)}

    return Prepared(
        launch,
        own,
        accelerations,
        near,
        stages=evaluate,
        insight=insight,
        kernels=tree.launches + 2 + (2 if judged else 1) * (tree.levels + 4) + judged,
    )
