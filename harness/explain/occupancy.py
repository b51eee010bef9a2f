"""How many warps of a kernel a multiprocessor holds, by the limits of its architecture; needs no GPU.

The limits are those of the CUDA C++ Programming Guide, table of technical specifications per compute capability.
"""

from __future__ import annotations

from dataclasses import dataclass

REGISTERS = 65536
"""Of a multiprocessor, since sm_50."""
_REGISTERS_OF_WARP = 256
"""Warps get registers in multiples of it."""
_SHARED_UNIT = 128
_WARPS = {"sm_75": 32, "sm_80": 64, "sm_90": 64, "sm_100": 64, "sm_103": 64}
"""Of a multiprocessor; others hold 48."""
_BLOCKS = {"sm_75": 16, "sm_80": 32, "sm_86": 16, "sm_87": 16, "sm_90": 32, "sm_100": 32, "sm_103": 32}
"""Others hold 24."""
_SHARED = {"sm_75": 64, "sm_80": 164, "sm_87": 164, "sm_90": 228, "sm_100": 228, "sm_103": 228, "sm_110": 228}
"""KiB of shared memory of a multiprocessor; others have 100."""
_UNIFIED = {"sm_75": 96, "sm_80": 192, "sm_87": 192, "sm_90": 256, "sm_100": 256, "sm_103": 256, "sm_110": 256}
"""KiB that shared memory and the first cache have together, by the tuning guides; others have 128."""
_RESERVED = 1024
"""Bytes of it that each block takes beside its own, from sm_80 on."""


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Blocks and warps that a multiprocessor holds at once, the most warps that it could, and what keeps it from more.

    ``limiter`` is ``registers``, ``shared memory``, ``blocks`` or ``warps``, or several of them.
    """

    blocks: int
    warps: int
    most_warps: int
    limiter: str

    @property
    def part(self) -> float:
        """The warps that are there of those that could be."""
        return self.warps / self.most_warps


def occupancy(architecture: str, threads: int, registers: int, shared: int) -> Occupancy:
    """Return what a multiprocessor holds of blocks of so many threads, registers per thread and bytes per block."""
    base = architecture.rstrip("af")
    most = _WARPS.get(base, 48)
    warps = -(-threads // 32)
    of_warp = -(-registers * 32 // _REGISTERS_OF_WARP) * _REGISTERS_OF_WARP
    reserved = 0 if base == "sm_75" else _RESERVED
    of_block = -(-(shared + reserved) // _SHARED_UNIT) * _SHARED_UNIT
    # Each of the four schedulers has its own registers, and a warp stays with one.
    by = {
        "warps": most // warps,
        "blocks": _BLOCKS.get(base, 24),
        "registers": REGISTERS // 4 // max(of_warp, 1) * 4 // warps,
        "shared memory": _SHARED.get(base, 100) * 1024 // of_block if of_block else most,
    }
    blocks = min(by.values())
    return Occupancy(blocks, blocks * warps, most, ", ".join(name for name, count in by.items() if count == blocks))


def first_cache(architecture: str, shared: int, blocks: int) -> int:
    """Return the bytes that so many blocks, with so many bytes of shared memory each, leave to the first cache."""
    base = architecture.rstrip("af")
    reserved = 0 if base == "sm_75" else _RESERVED
    return max(0, _UNIFIED.get(base, 128) * 1024 - blocks * (shared + reserved))
