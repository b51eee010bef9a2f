"""What ``resident_tree`` does on one GPU: it builds the whole tree, and walks for its share of the bodies."""

import numpy as np

from gravbench.variants.common import keys
from gravbench.variants.common.kernels import all_compiled
from gravbench.variants.resident import accuracy, tree_buffers, tree_build

KERNELS = {
    "resident_tree": "BITS RANKS OPENING QUADRUPOLE R P WARPS BOXES COUNT",
    "resident_tree_moments": "BLOCK BITS OPENING QUADRUPOLE",
}
"""The kernels beside those that build, as in ``common.kernels``."""

DEFAULTS = {
    "theta": 0.7,
    "opening": "acceleration",
    "part": 0.01,
    "moments": "quadrupole",
    "group": 32,
    "leaf_size": 16,
    "p": 32,
    "warps": 1,
    "boxes": 4,
    "curve": "hilbert",
    "bits": 21,
    "graph": 1,
}
"""The axes of ``resident_tree`` where nothing else is asked for."""


class Share:
    """A tree over all bodies on one GPU, and the walks for every ``shares``-th group of them from ``share`` on.

    ``own`` are the bodies there, ``accelerations`` gets a row for each body of these groups. ``last`` has the lengths
    of the accelerations of the evaluation before, by which cells are judged where ``opening`` is "acceleration"; a walk
    leaves there those of its bodies.
    """

    def __init__(self, gpu, bodies, own, accelerations, *, share=0, shares=1, **axes):
        """Compile and allocate; ``axes`` are those of ``resident_tree``.

        Raises:
            ToolkitMissingError: the toolkit has no sort on the device.
        """
        n, opening, theta = bodies.n, axes["opening"], axes["theta"]
        p, warps, group = axes["p"], axes["warps"], axes["group"]
        quadrupole = axes["moments"] == "quadrupole"
        self.tree = tree_build.Tree(
            gpu, n, bits=axes["bits"], leaf_size=axes["leaf_size"], curve=axes["curve"], quadrupole=quadrupole
        )
        self.constants = self.tree.constants | {
            "OPENING": accuracy.OPENINGS.index(opening),
            "QUADRUPOLE": int(quadrupole),
            "R": group // 32,
            "P": p,
            "WARPS": warps,
            "BOXES": axes["boxes"],
            "COUNT": 0,
        }
        self.walk, self.sums = all_compiled(gpu, KERNELS, self.constants)
        self.own, self.accelerations = own, accelerations
        self.last = gpu.empty(n if opening == "acceleration" else 1)
        groups = len(range(share, -(-n // group), shares))
        self.walkers = -(-groups // (p // 32 // warps)), p
        with np.errstate(divide="ignore"):
            self.inverse_theta = np.divide(gpu.real(1), gpu.real(theta))
        # No cell is so far away that its part of the acceleration is below zero.
        judged = gpu.real(axes["part"] if theta else 0)
        self.numbers = np.int32(n), gpu.real(bodies.eps**2), self.inverse_theta, judged
        self.share = np.int32(share), np.int32(shares)
        self.walks = np.int32(groups)
        self.met = tree_buffers.zeroed(gpu, 2, np.int64)
        self.kernels = self.tree.launches + len(KERNELS)

    def traverse(self, kernel, places, found):
        """Walk with a kernel for the bodies at these places."""
        has = self.tree.has
        if self.walkers[0]:
            kernel(
                *self.walkers, has.sorted, has.centres, has.rests, has.seconds, has.links, places, self.last, found,
                *self.numbers, has.cube, self.met, *self.share,
            )  # fmt: skip

    def evaluate(self, lap):
        """Queue one evaluation, telling ``lap`` of each stage; return the places of the bodies in the tree's order."""
        has = self.tree.has
        places = self.tree.build(self.own, lap)
        self.sums(
            self.tree.node_blocks, keys.BLOCK, has.sorted, has.bounds, has.tree, has.cube, has.centres,
            has.rests, has.seconds, has.links, has.pending, self.met, self.walks, self.inverse_theta,
        )  # fmt: skip
        lap("moments")
        self.traverse(self.walk, places, self.accelerations)
        lap("traverse")
        return places
