"""How a kernel was launched, as a record tells it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gravbench.explain.schedule import SCHEDULERS
from gravbench.model.kernel_parts import UnmodelledError
from gravbench.model.record import Resources

LANES = 32
"""Threads of a warp."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How a kernel was launched: blocks, warps of a block, and the blocks that a multiprocessor holds at once."""

    blocks: int
    warps: int
    resident: int
    multiprocessors: int

    @property
    def most(self) -> int:
        """Blocks that one multiprocessor has at the same time."""
        return min(self.resident, -(-self.blocks // self.multiprocessors))

    def warps_of(self, blocks: int) -> int:
        """Return the warps of a scheduler whose multiprocessor has so many blocks."""
        return -(-blocks * self.warps // SCHEDULERS)

    @property
    def together(self) -> int:
        """Warps of a block that share a scheduler."""
        return max(1, self.warps // SCHEDULERS)


def shape_of(record: Resources) -> Shape:
    """Return how the kernel of a record was launched.

    Raises:
        UnmodelledError: the record does not tell.
    """
    blocks, threads, resident = record.grid_blocks, record.threads_per_block, record.blocks_per_multiprocessor
    if not blocks or not threads or not resident or not record.waves or not math.isfinite(record.waves):
        raise UnmodelledError("its record has no grid size and no occupancy")
    return Shape(blocks, -(-threads // LANES), resident, max(1, round(blocks / resident / record.waves)))
