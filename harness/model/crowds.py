"""What a variant needs of bodies beside its number type: equal masses, or no crowd at one place."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from gravbench.model.variant import Axes, discover

CROWD = 4096
"""Bodies in one cell of a tree beside which every direct sum is faster: a single warp adds up their n^2 pulls."""
SAMPLE = 4096
"""Positions that are looked at to find a crowd."""
MOST_BITS = 21
"""Bits for each coordinate of a cell where a tree has no such axis."""
FEW_BITS = 10
"""Bits for each coordinate of cells that are looked at first."""


class Kind:
    """What limits the choice of a variant; nothing is known of arrays on the device, where ``position`` is None."""

    def __init__(self, mass: Any, position: Any) -> None:
        self.is_known = position is not None
        self.equal_masses = self.is_known and bool((mass == mass[0]).all())
        self.has_negative = self.is_known and not bool((mass >= 0).all())
        self._position = position
        self._crowded: dict[int, bool] = {}

    def suits(self, variant: str, axes: Axes) -> bool:
        """Tell whether a variant suits the bodies: a tree needs masses of zero or more, and no crowd in any leaf."""
        if not self.is_known or not discover()[variant].approximates:
            return True
        if self.has_negative:
            return False
        bits: Any = axes.get("bits", MOST_BITS)
        # What is no crowd in a large cell is none in a small one.
        return len(self._position) <= CROWD or not self._is_crowded(min(bits, FEW_BITS)) or not self._is_crowded(bits)

    @cached_property
    def _cells(self) -> tuple[Any, int]:
        """The smallest cells of a sample of the bodies, shape (sample, 3), and how many bodies one of them is for."""
        step = max(1, len(self._position) // SAMPLE)
        # Column by column, which is several times as fast.
        least = np.array([column.min() for column in self._position.T])
        most = np.array([column.max() for column in self._position.T])
        width = (most - least).max()
        scale = (1 << MOST_BITS) / width if width > 1e-300 else 0.0  # which would overflow
        return ((self._position[::step] - least) * scale).astype(np.int64), step

    def _is_crowded(self, bits: Any) -> bool:
        """Tell whether a cell of a tree with so many bits for each coordinate has a ``CROWD``."""
        if bits not in self._crowded:
            cells, step = self._cells
            keys = (cells >> MOST_BITS - bits) @ [1 << 2 * MOST_BITS, 1 << MOST_BITS, 1]
            self._crowded[bits] = bool(np.unique(keys, return_counts=True)[1].max() * step > CROWD)
        return self._crowded[bits]
