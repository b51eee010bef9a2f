"""Device memory for the lists of ``pair_lists.cuh``: which cells are far from a cell, and which are near."""

import numpy as np

PER_BODY = 64
LEAST = 1 << 16
"""Entries for which there is room at first: so many for each body, and so many more."""
MARGIN = 3
"""How many times as much room there is as the first evaluations took. A first pass may take half of it."""
MOST = (1 << 31) - 1
"""Entries for which there is room at most, 8 GB; where lists are longer, bodies walk the tree without any."""


class PairLists:
    """The pool of all lists, ``capacity`` words, and where the lists of each cell begin; names are those of kernels."""

    def __init__(self, gpu, nodes, n):
        """Allocate for as many nodes and n bodies."""
        self.gpu = gpu
        self.heads = gpu.device_array((nodes, 4), np.int32)
        # What each of two passes needs of the pool, and the bodies and cells that a walk without lists met.
        self.used = gpu.device_array(4, np.uint64)
        self._used_here = gpu.host_array(4, np.uint64, pinned=True)
        self._used_here[:] = 0
        self._most = MOST
        stream = gpu.stream()
        gpu.send(self.used, np.zeros(4, np.uint64), stream)
        gpu.wait(stream)
        self._allocate(min(PER_BODY * n + LEAST, MOST))

    def _allocate(self, words):
        self.pool = None  # frees what was there
        self.pool = self.gpu.device_array(words, np.int32)
        self.capacity = np.int32(words)

    def _grow(self, used):
        """Make room for lists as long as these, with as much more as the device has memory for."""
        before = int(self.capacity)
        for words in (min(MARGIN * used, self._most), max(min(used + used // 4, self._most), before), before):
            try:
                self._allocate(words)
            except MemoryError:
                continue
            if words < MARGIN * used:
                self._most = words
            return
        raise MemoryError(f"{4 * before:,} bytes for lists of pairs, which were there before")

    def fit(self, evaluate):
        """Evaluate, and make room until the lists fit, also those that were cut off in the last evaluation.

        ``evaluate`` ends with ``copy_used``. Where lists are too long for any room, keep what there is.
        """
        cut_off = self._last_used
        while True:
            evaluate()
            self.gpu.synchronize()
            used = max(cut_off, self._last_used)
            if min(MARGIN * used, self._most) <= self.capacity or used > self._most:
                return
            self._grow(used)

    def copy_used(self):
        """Queue a copy to the host of how much room the lists of an evaluation need."""
        self.gpu.fetch(self._used_here, self.used, None)

    @property
    def _last_used(self):
        """How much the lists of the last evaluation that has ended need, by the longer of its passes."""
        return max(self._used_here[:2].tolist())

    @property
    def lack_room(self):
        """Whether the lists of the last evaluation that has ended were cut off, and longer ones may have room."""
        return self.capacity < self._last_used <= self._most

    def _fetched(self, array):
        found = np.zeros(array.shape, array.dtype)
        stream = self.gpu.stream()
        self.gpu.synchronize()
        self.gpu.fetch(found, array, stream)
        self.gpu.wait(stream)
        return found

    def computed(self, tree, links, n):
        """Count the interactions per body of the last evaluation: of bodies, of cells with bodies and with cells."""
        self.gpu.synchronize()
        used = self._last_used
        if used > self.capacity:
            bodies, cells = self._used_here[2:].tolist()
            return {"body_body": bodies / n, "body_cell": cells / n, "cell_cell": 0.0}
        nodes = int(self._fetched(tree)[0])
        bodies = self._fetched(links)[:nodes, 3].astype(np.int64)
        heads, pool = self._fetched(self.heads)[:nodes], self._fetched(self.pool[:used])
        cell_cell = sum(int(counts.sum()) for _, _, counts in segments(pool, heads[:, 0]))
        body_body = sum(int((bodies[targets] * bodies[sources]).sum()) for targets, sources in pairs(pool, heads[:, 1]))
        body_cell = sum(int((bodies[targets] * counts).sum()) for targets, _, counts in segments(pool, heads[:, 3]))
        return {"body_body": body_body / n, "body_cell": body_cell / n, "cell_cell": cell_cell / n}


def segments(pool, heads):
    """Yield the targets of the first segments of all lists, where these begin and their lengths; then of the second."""
    targets = np.flatnonzero(heads >= 0)
    begins = heads[targets].astype(np.int64)
    while len(targets):
        yield targets, begins, pool[begins].astype(np.int64)
        begins = pool[begins + 1].astype(np.int64)
        targets, begins = targets[begins >= 0], begins[begins >= 0]


def pairs(pool, heads):
    """Yield the targets and sources in the first segments of all lists, then in the second ones, and so on."""
    for targets, begins, counts in segments(pool, heads):
        before = np.cumsum(counts) - counts
        places = np.repeat(begins + 2 - before, counts) + np.arange(counts.sum())
        yield np.repeat(targets, counts), pool[places]
