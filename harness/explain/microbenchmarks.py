"""The peak rates of a GPU, each by a kernel of ``peaks.cu``: what it is given and has to leave, and what it counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gravbench.explain.peaks import BYTES, CLOCKS, LANES, OPERATIONS, PRODUCTS

CHAINS = 8
"""Independent values of a thread, LANES of ``peaks.cu``."""
IN_A_ROW = 33
"""Instructions of a turn that wait for each other, where latency is measured."""
KNUTH = 2654435761
BLOCK = 256
BLOCKS_EACH = 4
"""Blocks for each multiprocessor: eight warps for each of its schedulers, on every card."""
L2_WORDS = 1 << 20
MEMORY_WORDS = 1 << 26
"""Rows of 16 bytes: 16 MB, which every L2 cache holds, and 1 GB, which none does."""
RING_NEAR, STEP_NEAR = 64, 16
RING_FAR, STEP_FAR = 4096, 160
"""Words of a ring, and words of 8 bytes from one to the next: 8 kB in all, and 5 MB."""

Left = NDArray[Any] | float | None


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A kernel of ``peaks.cu`` and the peak rate that it shows.

    ``takes`` are the arrays that it reads, and ``leaves`` says what each of its threads has to leave after so many
    turns: one value, or one for each lane of a warp; None where it is known of all threads together. ``each`` is what a
    thread does in one turn, operations, or the bytes of one of its ``rows``. ``opcodes`` are those that are counted.
    With ``chain`` one warp runs, and the clocks of an instruction are what is measured; ``ring`` are the words that it
    follows. ``least`` is the compute capability from which on it is there. ``of_rows`` says what all threads together
    leave of so many rows after so many turns.
    """

    name: str
    what: str
    unit: str
    each: float
    opcodes: dict[str, int]
    leaves: Callable[[int], Left]
    takes: tuple[NDArray[Any], ...] = ()
    type_of_result: type[np.generic] = np.float32
    tolerance: float = 0.0
    chain: bool = False
    rows: int = 0
    ring: int = 0
    kernel: str = ""
    least: str = ""
    of_rows: Callable[[int, int], int] | None = None

    @property
    def stem(self) -> str:
        """The name of its kernel."""
        return self.kernel or self.name


FACTORS = np.array([1, 2, 3, 4, 1, 2, 3, 4, 2, 1, 4, 3, 2, 1, 4, 3], np.float32)
OPERANDS = np.array([16, 9, 4, 2, 8, 25, 36, 0.25, 3], np.float32)
LOGIC = np.array([0x5DEECE66, 0x2545F491], np.uint32)
WORDS = (np.arange(256, dtype=np.uint64) * KNUTH % 2**32).astype(np.uint32)
ONES = np.full(8, 0x3C003C00, np.uint32)
"""Two half-precision numbers 1 in each word."""
WEIGHTS = np.arange(1, CHAINS + 1)


def _fma(a: NDArray[Any], b: NDArray[Any]) -> Callable[[int], float]:
    return lambda turns: float(np.sum((np.arange(CHAINS) + 4.0 * turns * a * b) * WEIGHTS))


def _logic(turns: int) -> NDArray[np.uint32]:
    x: NDArray[np.uint32] = np.arange(CHAINS, dtype=np.uint32)
    for _ in range(turns):
        x = (x & LOGIC[0] ^ LOGIC[1]).astype(np.uint32)
    return x


def _logic_and_fma(turns: int) -> float:
    sums = (np.arange(CHAINS) + 2.0 * turns * FACTORS[0] ** 2) * WEIGHTS
    return float(np.sum(sums) + np.sum(_logic(2 * turns) & 0xFF))


def _rsqrts(times: int) -> float:
    return float(np.sum(OPERANDS[:CHAINS].astype(float) ** ((-0.5) ** times)))


def _rotated(turns: int) -> NDArray[np.uint32]:
    lanes = (np.arange(32, dtype=np.uint32) + 4 * turns) % 32
    return np.asarray(CHAINS * lanes + sum(range(CHAINS)), np.uint32)


def _converted(turns: int) -> int:
    x, low = OPERANDS[:CHAINS].copy(), OPERANDS[:1].astype(np.float16).view(np.uint16).astype(np.uint32)
    for _ in range(4 * turns):
        with np.errstate(over="ignore"):
            high = x.astype(np.float16).view(np.uint16).astype(np.uint32)
        x = (high << np.uint32(16) | low).view(np.float32)
    return int(x.view(np.uint32).sum(dtype=np.uint32))


def _loads(width: int) -> Callable[[int], int]:
    def leaves(turns: int) -> int:
        x, y = 0, 0
        for turn in range(turns):
            row = WORDS[turn % 2 * 128 :][:128].astype(object)
            if width == 1:
                groups = row[:64:2].reshape(-1, 2)
                x, y = x + sum(a ^ b for a, b in groups), y ^ int(np.bitwise_xor.reduce(groups[:, 1]))
            else:
                groups = row.reshape(-1, 4)
                x, y = x + sum(a ^ b ^ c for a, b, c, _ in groups), y ^ int(np.bitwise_xor.reduce(groups[:, 3]))
        return (x + y) % 2**32

    return leaves


def sum_of_rows(words: int, turns: int) -> int:
    """Return what all threads together leave of so many rows, modulo 2^32."""
    total = 0
    for first in range(0, words, 1 << 22):
        values = np.arange(first, min(first + (1 << 22), words), dtype=np.uint64) * KNUTH & 0xFFFFFFFF
        total += int(values.sum() + (values >> np.uint64(7)).sum())
    return turns * total % 2**32


def _sum_of_written(words: int, turns: int) -> int:
    """Return what all threads together leave of so many rows that they have written, modulo 2^32."""
    # Each reads one of its rows, which has the number of the row, that is taken away, and that of the turn.
    return words * (turns - 1) % 2**32


def _widened(turns: int) -> int:
    x = OPERANDS[:CHAINS].copy()
    for _ in range(4 * turns):
        half: NDArray[np.uint16] = (x.view(np.uint32) >> np.uint32(16)).astype(np.uint16)
        x = half.view(np.float16).astype(np.float32)
    return int(x.view(np.uint32).sum(dtype=np.uint32))


def _of_lanes(turns: int) -> NDArray[np.uint32]:
    row, total = WORDS[np.arange(384) % 256], np.zeros(32, np.uint32)
    mixed = np.zeros(32, np.uint32)
    for turn in range(turns):
        for k in range(0, 128, 4):
            a, b, c, d = (row[turn % 2 * 128 + k + 4 * np.arange(32) + word] for word in range(4))
            total, mixed = (total + (a ^ b ^ c)).astype(np.uint32), mixed ^ d
    return (total + mixed).astype(np.uint32)


def _at(ring: int, step: int) -> Callable[[int], int]:
    return lambda turns: IN_A_ROW * turns % ring * step


BENCHMARKS: Sequence[Benchmark] = (
    Benchmark(
        "fma_1", "fused multiply-adds, one varying operand", LANES, 32, {"FFMA": 32},
        _fma(FACTORS[:1], FACTORS[:1]), (FACTORS,)
    ),
    Benchmark(
        "fma_2", "fused multiply-adds, two varying operands", LANES, 32, {"FFMA": 32},
        _fma(FACTORS[:8], FACTORS[:1]), (FACTORS,)
    ),
    Benchmark(
        "fma_3", "fused multiply-adds, three varying operands", LANES, 32, {"FFMA": 32},
        _fma(FACTORS[:8], FACTORS[8:]), (FACTORS,)
    ),
    Benchmark(
        "alu", "integer logic operations", LANES, 32, {"LOP3": 32},
        lambda turns: float(np.sum(_logic(4 * turns) * WEIGHTS.astype(np.uint32), dtype=np.uint32)), (LOGIC,), np.uint32
    ),
    Benchmark(
        "alu_fma", "integer logic operations and as many fused multiply-adds, both counted", LANES, 32,
        {"LOP3": 16, "FFMA": 16}, _logic_and_fma, (FACTORS, LOGIC)
    ),
    Benchmark(
        "mufu", "reciprocal square roots", LANES, 32, {"MUFU.RSQ": 32}, lambda turns: _rsqrts(4 * turns), (OPERANDS,),
        tolerance=1e-5
    ),
    Benchmark(
        "mufu_fma", "reciprocal square roots, each with eight fused multiply-adds, all counted", LANES, 72,
        {"MUFU.RSQ": 8, "FFMA": 64},
        lambda turns: _rsqrts(turns) + float(np.sum(np.arange(CHAINS) + 8.0 * turns * float(OPERANDS[CHAINS]) ** 2)),
        (OPERANDS,),
        tolerance=1e-5
    ),
    Benchmark(
        "fp64", "fused multiply-adds in float64", LANES, 32, {"DFMA": 32},
        lambda turns: float(np.sum(np.arange(CHAINS) + 4.0 * turns * float(FACTORS[1]) ** 2)),
        (FACTORS[1:].astype(np.float64),), type_of_result=np.float64
    ),
    Benchmark(
        "shuffle", "shuffles between the lanes of a warp", LANES, 32, {"SHFL": 32}, _rotated,
        type_of_result=np.uint32
    ),
    Benchmark(
        "transpose", "warp-level transposes of 8 x 8 half-precision matrices, counted by lane", LANES, 32,
        {"MOVM": 32}, lambda _: _rotated(0), type_of_result=np.uint32
    ),
    Benchmark(
        "convert", "conversions of pairs of floats to half precision", LANES, 32, {"F2FP": 32},
        _converted, (OPERANDS,), np.uint32, least="8.0"
    ),
    Benchmark(
        "widen", "conversions of half-precision numbers to floats", LANES, 32, {"HADD2.F32": 32},
        _widened, (OPERANDS,), np.uint32
    ),
    Benchmark(
        "lds_32", "4-byte loads from shared memory, one address per warp", LANES, 32, {"LDS": 32}, _loads(1),
        (WORDS,), np.uint32
    ),
    Benchmark(
        "lds_128", "16-byte loads from shared memory, one address per warp", LANES, 32, {"LDS.128": 32},
        _loads(4), (WORDS,), np.uint32
    ),
    Benchmark(
        "lds_lanes", "16-byte loads from shared memory, contiguous over the lanes", LANES, 32,
        {"LDS.128": 32}, _of_lanes, (WORDS,), np.uint32
    ),
    Benchmark(
        "ldg_32", "4-byte loads from the L1 cache, one address per warp", LANES, 32, {"LDG": 32},
        _loads(1), (WORDS,), np.uint32
    ),
    Benchmark(
        "ldg_128", "16-byte loads from the L1 cache, one address per warp", LANES, 32, {"LDG": 32},
        _loads(4), (WORDS,), np.uint32
    ),
    Benchmark(
        "l2_read", "bytes read from the L2 cache", BYTES, 16, {"LDG": 4}, lambda _: None, type_of_result=np.uint32,
        rows=L2_WORDS, kernel="read_rows"
    ),
    Benchmark(
        "l2_write", "bytes written to the L2 cache", BYTES, 16, {"STG": 4}, lambda _: None, type_of_result=np.uint32,
        rows=L2_WORDS, kernel="write_rows", of_rows=_sum_of_written
    ),
    Benchmark(
        "memory_read", "bytes read from memory", BYTES, 16, {"LDG": 4}, lambda _: None, type_of_result=np.uint32,
        rows=MEMORY_WORDS, kernel="read_rows"
    ),
    Benchmark(
        "mma_8", "warp-level half-precision matrix products m16n8k8", PRODUCTS, 16 / 32, {"HMMA.1688": 16},
        lambda turns: 16.0 * 4 * turns * 8, (ONES,)
    ),
    Benchmark(
        "mma_16", "warp-level half-precision matrix products m16n8k16", PRODUCTS, 16 / 32, {"HMMA.16816": 16},
        lambda turns: 16.0 * 4 * turns * 16, (ONES,), least="8.0"
    ),
    Benchmark(
        "mma_mufu", "reciprocal square roots, with three half-precision matrix products m16n8k16 for four of them",
        LANES, 16, {"MUFU.RSQ": 16, "HMMA.16816": 12},
        lambda turns: _rsqrts(2 * turns) + 12.0 * turns * 4 * 16, (OPERANDS, ONES), tolerance=1e-5, least="8.0"
    ),
    Benchmark(
        "red_distinct", "atomic additions, each thread to a separate address", OPERATIONS, 4, {"RED": 4},
        lambda turns: 4.0 * turns
    ),
    Benchmark(
        "red_one", "atomic additions, all threads to the same address", OPERATIONS, 4, {"RED": 4}, lambda _: None
    ),
    Benchmark(
        "latency_fma", "latency of a dependent fused multiply-add", CLOCKS, IN_A_ROW,
        {"FFMA": IN_A_ROW}, lambda turns: float(IN_A_ROW * turns * FACTORS[0] ** 2), (FACTORS,), chain=True
    ),
    Benchmark(
        "latency_mufu", "latency of a dependent reciprocal square root", CLOCKS, IN_A_ROW,
        {"MUFU.RSQ": IN_A_ROW}, lambda turns: float(OPERANDS[0]) ** ((-0.5) ** (IN_A_ROW * turns)), (OPERANDS,),
        tolerance=1e-5, chain=True
    ),
    Benchmark(
        "latency_lds", "latency of a dependent load from shared memory", CLOCKS, IN_A_ROW,
        {"LDS": IN_A_ROW}, lambda turns: IN_A_ROW * turns * 5 % 32, type_of_result=np.uint32, chain=True
    ),
    Benchmark(
        "latency_transpose", "latency of a dependent 8 x 8 matrix transpose", CLOCKS, 32,
        {"MOVM": 32}, lambda _: np.arange(32), type_of_result=np.uint32, chain=True
    ),
    Benchmark(
        "latency_mma", "latency of a matrix product m16n8k16 that adds to the previous one", CLOCKS, IN_A_ROW,
        {"HMMA.16816": IN_A_ROW}, lambda turns: 4.0 * 16 * IN_A_ROW * turns, (ONES,), chain=True, least="8.0"
    ),
    Benchmark(
        "latency_l1", "latency of a dependent load from the L1 cache", CLOCKS, IN_A_ROW,
        {"LDG": IN_A_ROW}, _at(RING_NEAR, 8 * STEP_NEAR), type_of_result=np.uint64, chain=True, ring=RING_NEAR
    ),
    Benchmark(
        "latency_l2", "latency of a dependent load from the L2 cache", CLOCKS, IN_A_ROW,
        {"LDG": IN_A_ROW}, _at(RING_FAR, 8 * STEP_FAR), type_of_result=np.uint64, chain=True, ring=RING_FAR
    ),
)  # fmt: skip
"""Every peak rate of a GPU but those of launches, in the order in which they are shown."""
