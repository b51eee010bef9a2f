"""Device memory of a tree that is built on the GPU, and how many nodes there is room for."""

import numpy as np

MOST_NODES = 1 << 28
"""A walk keeps the number of a node and of up to eight after it in 32 bits."""


def no_lap(name):
    """Nothing is told of a stage."""


def room_for_nodes(n, leaf_size):
    """Return for how many nodes there is room; where a tree has more, cells of the last level that fits are leaves.

    A tree over bodies without great gaps between them has about 4 n / leaf_size: there is room for six times as many,
    but not for more than two for each body.
    """
    return min(2 * n, 24 * n // leaf_size, MOST_NODES - 1024) + 1024


def zeroed(gpu, length, dtype):
    """Return device memory that holds zeros."""
    array = gpu.device_array(length, dtype)
    stream = gpu.stream()
    gpu.send(array, np.zeros(length, dtype), stream)
    gpu.wait(stream)
    return array


class Buffers:
    """What the kernels of resident_tree.cu hand to each other; the names are those of their parameters."""

    def __init__(self, gpu, n, *, bits, levels, leaf_size, quadrupole, block):
        """Allocate for n bodies in blocks of ``block``."""
        real = gpu.real
        words = np.dtype(real).itemsize // 4
        blocks = -(-n // block)
        self.capacity = room_for_nodes(n, leaf_size)
        self.boxes = gpu.device_array((block, 6), real)
        self.cube = gpu.upload(np.zeros(8))  # its width is 0 before the first evaluation
        self.keys = gpu.device_array(n, np.uint64 if bits > 10 else np.uint32)
        self.sorted = gpu.device_array((n, 4), real)
        self.begun = gpu.device_array((n, 2), np.int32)
        self.counts = gpu.device_array((levels, blocks), np.int32)
        self.totals = gpu.device_array(levels, np.int32)
        self.tree = gpu.device_array(1, np.int32)
        self.bounds = gpu.device_array((self.capacity, 4), np.int32)
        self.centres = gpu.device_array((self.capacity, 4), real)
        self.rests = gpu.device_array((self.capacity, 4), real)
        self.seconds = gpu.device_array((self.capacity if quadrupole else 1, 8 * words), np.int32)
        self.links = gpu.device_array((self.capacity, 4 * words), np.int32)
        # Every evaluation leaves them at zero again.
        self.pending = zeroed(gpu, self.capacity, np.int32)
