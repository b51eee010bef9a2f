"""What a variant needs of bodies beside its number type: equal masses, or no crowd at one place."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gravbench.model.units import Extent, extent_of
from gravbench.model.variant import Axes, Variant, discover

CROWD = 4096
"""Bodies in one cell of a tree beside which every direct sum is faster: a single warp adds up their n^2 terms."""
SAMPLE = 4096
"""Positions that are looked at to find a crowd."""
MOST_BITS = 21
"""Bits for each coordinate of a cell where a tree has no such axis."""
FEW_BITS = 10
"""Bits for each coordinate of cells that are looked at first."""


@lru_cache(maxsize=8)
def _sampled(n: int) -> NDArray[np.int64]:
    """Draw the rows of n bodies that are looked at, each once, in ascending order."""
    return np.sort(np.random.default_rng(1).choice(n, min(n, SAMPLE), replace=False))


def is_for_any(variant: Variant) -> bool:
    """Tell whether a variant suits any bodies: any masses, and any number of bodies at one place."""
    return not variant.positive_masses and (variant.approximates is None or variant.divides_crowds)


class Kind:
    """What limits the choice of a variant. Without bodies nothing is known, and all suit but those for equal masses.

    ``extent`` is that of the bodies, where it is known. With ``lasting``, what is found is for later calls too, with
    other values: masses count as unequal, and positions are not kept.
    """

    def __init__(
        self, mass: Any = None, position: Any = None, extent: Extent | None = None, *, lasting: bool = False
    ) -> None:
        self.n = 0 if position is None else len(position)
        if mass is not None and extent is None:
            extent = extent_of(position, mass)
        self._extent = extent
        self.equal_masses = not lasting and extent is not None and extent.smallest == extent.largest
        self.has_negative = extent is not None and not extent.smallest >= 0
        self._position = position
        self._crowded: dict[int, bool] = {}
        if lasting and self.n > CROWD:
            _ = self._cells
            self._position = None

    def suits(self, variant: str, axes: Axes) -> bool:
        """Tell whether a variant suits the bodies: their masses, and for a tree that there is no crowd in any leaf."""
        declared = discover()[variant]
        if declared.positive_masses and self.has_negative:
            return False
        if declared.approximates is None or declared.divides_crowds:
            return True
        bits: Any = axes.get("bits", MOST_BITS)
        # What is no crowd in a large cell is none in a small one.
        return self.n <= CROWD or not self._is_crowded(min(bits, FEW_BITS)) or not self._is_crowded(bits)

    @cached_property
    def _cells(self) -> Any:
        """The smallest cells of a random sample of the bodies, shape (at most SAMPLE, 3)."""
        assert self._extent is not None
        least, most = self._extent.least, self._extent.most
        with np.errstate(over="ignore", invalid="ignore"):  # of numbers on a device that are not finite
            width = (most - least).max()
            scale = (1 << MOST_BITS) / width if width > 1e-300 else 0.0  # which would overflow
            return ((self._position.take(_sampled(self.n), axis=0) - least) * scale).astype(np.int64)

    def _is_crowded(self, bits: Any) -> bool:
        """Tell whether a cell of a tree with so many bits for each coordinate has a ``CROWD``."""
        if bits not in self._crowded:
            x, y, z = (self._cells >> MOST_BITS - bits).T
            keys = np.sort((x << 2 * MOST_BITS) + (y << MOST_BITS) + z)
            # As large a part of the sample as a crowd is of all bodies.
            few = max(1, CROWD * len(keys) // self.n)
            self._crowded[bits] = bool((keys[few:] == keys[:-few]).any())
        return self._crowded[bits]
