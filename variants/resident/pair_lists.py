"""Device memory for the lists of ``pair_lists.cuh``: which cells are far from a cell, and which are near."""

import numpy as np

PER_BODY = 48
LEAST = 1 << 16
"""Entries for which there is room at first: so many for each body, and so many more."""
MARGIN = 1.5
"""How much more room there is than what the first evaluations took."""
MOST = 1 << 30
"""Entries for which there is room at most, 4 GB; where lists are longer, all pairs of bodies are computed."""


class PairLists:
    """The pool of all lists, ``capacity`` words, and where the lists of each cell begin; names are those of kernels."""

    def __init__(self, gpu, nodes, n):
        """Allocate for as many nodes and n bodies."""
        self.gpu = gpu
        self.heads = gpu.device_array((nodes, 4), np.int32)
        # Of each of two passes.
        self.used = gpu.device_array(2, np.uint64)
        stream = gpu.stream()
        gpu.send(self.used, np.zeros(2, np.uint64), stream)
        gpu.wait(stream)
        self._allocate(min(PER_BODY * n + LEAST, MOST))

    def _allocate(self, words):
        self.pool = None  # frees what was there
        self.pool = self.gpu.device_array(words, np.int32)
        self.capacity = np.int32(words)

    def fit(self, evaluate):
        """Evaluate, and make room until the lists fit; where they are too long for any room, keep what there is."""
        while True:
            evaluate()
            wanted = int(MARGIN * int(self._fetched(self.used).max()))
            if wanted <= MARGIN * self.capacity or wanted > MOST:
                return
            self._allocate(wanted)

    def _fetched(self, array):
        found = np.zeros(array.shape, array.dtype)
        stream = self.gpu.stream()
        self.gpu.synchronize()
        self.gpu.fetch(found, array, stream)
        self.gpu.wait(stream)
        return found

    def computed(self, tree, links, n):
        """Count the interactions per body of the last evaluation: of bodies, of cells with bodies and with cells."""
        if int(self._fetched(self.used).max()) > self.capacity:
            return {"body_body": float(n), "body_cell": 0.0, "cell_cell": 0.0}
        nodes = int(self._fetched(tree)[0])
        bodies = self._fetched(links)[:nodes, 3].astype(np.int64)
        heads, pool = self._fetched(self.heads)[:nodes], self._fetched(self.pool)
        cell_cell = sum(len(targets) for targets, _ in pairs(pool, heads[:, 0]))
        body_body = sum(int((bodies[targets] * bodies[sources]).sum()) for targets, sources in pairs(pool, heads[:, 1]))
        body_cell = sum(int(bodies[targets].sum()) for targets, _ in pairs(pool, heads[:, 3]))
        return {"body_body": body_body / n, "body_cell": body_cell / n, "cell_cell": cell_cell / n}


def pairs(pool, heads):
    """Yield the targets and sources in the first segments of all lists, then in the second ones, and so on."""
    targets = np.flatnonzero(heads >= 0)
    segments = heads[targets]
    while len(targets):
        counts = pool[segments]
        before = np.cumsum(counts) - counts
        places = np.repeat(segments + 2 - before, counts) + np.arange(counts.sum())
        yield np.repeat(targets, counts), pool[places]
        segments = pool[segments + 1]
        targets, segments = targets[segments >= 0], segments[segments >= 0]
