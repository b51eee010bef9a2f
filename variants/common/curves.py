"""Keys of positions along space-filling curves, on the host: the same as those that ``tree_keys.cuh`` makes."""

import numpy as np


def _cells(position, bits):
    """Return the cells of positions, shape (n, 3), in a grid over the cube around them, shape (3, n)."""
    low = position.min(axis=0)
    width = float(np.ptp(position, axis=0).max())
    scale = (1 << bits) / width if width > 0 else 0.0
    return np.clip(((position - low) * scale).astype(np.int64), 0, (1 << bits) - 1).T.copy()


def _interleaved(cells, bits):
    keys = np.zeros_like(cells[0])
    for place in range(bits):
        for axis in range(3):
            keys |= (cells[axis] >> place & 1) << (3 * place + 2 - axis)
    return keys


def morton_keys(position, bits):
    """Return the keys of positions, shape (n, 3), in Morton's order in the cube around them."""
    return _interleaved(_cells(position, bits), bits)


def hilbert_keys(position, bits):
    """Return the keys of positions, shape (n, 3), along Hilbert's curve in the cube around them (Skilling 2004)."""
    cells = _cells(position, bits)
    bit = 1 << bits - 1
    while bit > 1:
        below = bit - 1
        for axis in range(3):
            set_there = cells[axis] & bit > 0
            differing = np.where(set_there, 0, (cells[0] ^ cells[axis]) & below)
            cells[0] ^= np.where(set_there, below, differing)
            if axis:
                cells[axis] ^= differing
        bit >>= 1
    cells[1] ^= cells[0]
    cells[2] ^= cells[1]
    flipped = np.zeros_like(cells[0])
    bit = 1 << bits - 1
    while bit > 1:
        flipped ^= np.where(cells[2] & bit > 0, bit - 1, 0)
        bit >>= 1
    cells ^= flipped
    return _interleaved(cells, bits)
