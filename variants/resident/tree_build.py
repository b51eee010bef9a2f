"""Build an octree on the GPU: the kernels of ``tree_build.cuh``, between them the library's sort, and their memory."""

import numpy as np

from gravbench.variants.common import keys
from gravbench.variants.common.kernels import all_compiled
from gravbench.variants.common.keys import BLOCK
from gravbench.variants.resident import tree_buffers

KERNELS = keys.KERNELS | {
    "tree_order": "BLOCK BITS RANKS LEAF",
    "tree_scan": "SCAN",
    "tree_nodes": "BLOCK BITS RANKS LEAF",
}
"""All kernels, as in ``common.kernels``; blocks of BLOCK threads, one body or node per thread."""

SCAN = 1024
"""Threads that add up the numbers of cells of one level."""
CURVES = ("morton", "hilbert")


def ranks(n, leaf_size):
    """Return how many octal digits tell bodies with the same key apart, down to leaves of ``leaf_size``."""
    last = (n - 1) >> (leaf_size.bit_length() - 1)
    return max(1, -(-last.bit_length() // 3))


class Tree:
    """The kernels that build a tree over the bodies, compiled, and its memory in ``has``."""

    def __init__(self, gpu, n, *, bits, leaf_size, curve, quadrupole):
        """Allocate for n bodies and compile.

        Raises:
            ToolkitMissingError: the toolkit has no sort on the device; then nothing is compiled.
        """
        self.gpu = gpu
        self.levels = bits + ranks(n, leaf_size)
        self.has = tree_buffers.Buffers(
            gpu, n, bits=bits, levels=self.levels, leaf_size=leaf_size, quadrupole=quadrupole, block=BLOCK
        )
        gpu.argsort(self.has.keys)
        self.constants = {
            "BITS": bits,
            "RANKS": self.levels - bits,
            "HILBERT": int(curve == "hilbert"),
            "LEAF": leaf_size,
            "BLOCK": BLOCK,
            "SCAN": SCAN,
        }
        self.kernels = all_compiled(gpu, KERNELS, self.constants)
        self.blocks = -(-n // BLOCK)
        self.node_blocks = min(-(-self.has.capacity // BLOCK), 8 * gpu.multiprocessors)
        self.launches = len(KERNELS) + keys.SORT_KERNELS
        self.counts = np.int32(n), np.int32(self.blocks), np.int32(self.has.capacity)

    def build(self, own, lap):
        """Build it over rows of bodies, telling ``lap`` of each stage; return the places of the bodies in order."""
        box, key, order, scan, nodes = self.kernels
        has, blocks = self.has, self.blocks
        n, number_of_blocks, capacity = self.counts
        parts = min(BLOCK, blocks)
        box(parts, BLOCK, own, has.boxes, n)
        key(blocks, BLOCK, own, has.boxes, has.cube, has.keys, n, np.int32(parts))
        lap("keys")
        places = self.gpu.argsort(has.keys)
        lap("sort")
        order(blocks, BLOCK, own, has.keys, places, has.sorted, has.begun, has.counts, n)
        scan(self.levels, SCAN, has.counts, has.totals, number_of_blocks)
        nodes(
            blocks, BLOCK, has.begun, has.keys, places, has.counts, has.totals, has.bounds, has.links, has.pending,
            has.tree, n, number_of_blocks, capacity,
        )  # fmt: skip
        lap("build")
        return places
