"""The peak rates of the host's processor, measured by loops that Numba compiles for all of its cores."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gravbench.explain.measured_peaks import SAMPLES, WARM_UP_SECONDS, WrongError
from gravbench.explain.peaks import BYTES, OPERATIONS, Peak
from gravbench.model.blocks import cores

NAMES = ("fma", "sqrt", "division", "memory_read")
WIDTH = 256
"""Independent numbers of a core: enough vectors for the latency of an addition."""
IN_A_ROW = 16
"""Multiplications and additions of a number between its load and its store."""
TURNS = 1 << 12
FEW_TURNS = 64
PIECES_A_CORE = 4
BYTES_READ = 1 << 28


def benchmarks() -> dict[str, Callable[[], Peak]]:
    """Return what measures each of ``NAMES``."""
    fma, square_root, division, total = _kernels()
    least_root = 3e38 ** (0.5**FEW_TURNS)
    return {
        "fma": lambda: _arithmetic(
            "fma", "multiply-adds in float32", fma, (1.0, 1.0), 0.0, FEW_TURNS * IN_A_ROW, IN_A_ROW
        ),
        "sqrt": lambda: _arithmetic("sqrt", "square roots in float32", square_root, (0.0, 0.0), 3e38, least_root),
        "division": lambda: _arithmetic("division", "divisions in float32", division, (6.0, 0.0), 2.0, 2.0),
        "memory_read": lambda: _bandwidth(total),
    }  # fmt: skip


def _kernels() -> tuple[Callable[..., Any], ...]:
    """Compile the loops over multiply-adds, square roots, divisions, and additions of what is read from memory."""
    from numba import njit, prange

    # Contraction alone: what is not asked for stays in its order.
    @njit(parallel=True, fastmath={"contract"})  # type: ignore[untyped-decorator]
    def fma(out: NDArray[np.float32], a: np.float32, b: np.float32, turns: int) -> None:
        for piece in prange(len(out)):
            x = np.empty(WIDTH, np.float32)
            x[:] = out[piece]
            for _ in range(turns):
                for k in range(WIDTH):
                    value = x[k]
                    for _ in range(IN_A_ROW):
                        value = value * a + b
                    x[k] = value
            out[piece] = x

    @njit(parallel=True)  # type: ignore[untyped-decorator]
    def square_root(out: NDArray[np.float32], _a: np.float32, _b: np.float32, turns: int) -> None:
        for piece in prange(len(out)):
            x = np.empty(WIDTH, np.float32)
            x[:] = out[piece]
            for _ in range(turns):
                for k in range(WIDTH):
                    x[k] = np.sqrt(x[k])
            out[piece] = x

    @njit(parallel=True, error_model="numpy")  # type: ignore[untyped-decorator]
    def division(out: NDArray[np.float32], a: np.float32, _b: np.float32, turns: int) -> None:
        for piece in prange(len(out)):
            x = np.empty(WIDTH, np.float32)
            x[:] = out[piece]
            for _ in range(turns):
                for k in range(WIDTH):
                    x[k] = a / x[k]
            out[piece] = x

    @njit(parallel=True)  # type: ignore[untyped-decorator]
    def total(values: NDArray[np.int64]) -> int:
        added = 0
        for k in prange(len(values)):
            added += values[k]
        return added

    return fma, square_root, division, total


def _arithmetic(
    name: str,
    what: str,
    kernel: Callable[..., Any],
    factors: tuple[float, float],
    begin: float,
    expected: float,
    each: int = 1,
) -> Peak:
    """Measure a loop that turns ``begin`` into ``expected`` in a few turns; ``each`` are the operations of one turn."""
    a, b = np.float32(factors[0]), np.float32(factors[1])
    pieces = PIECES_A_CORE * cores()
    out = np.full((pieces, WIDTH), begin, np.float32)
    kernel(out, a, b, FEW_TURNS)
    if not np.allclose(out, expected, rtol=1e-6):
        raise WrongError(f"{name} computed {out[0, 0]} instead of {expected}, so it is not measured")

    def once() -> None:
        out[:] = begin
        kernel(out, a, b, TURNS)

    return _sampled(name, what, OPERATIONS, once, float(pieces * WIDTH * TURNS * each))


def _bandwidth(total: Callable[..., Any]) -> Peak:
    """Measure how fast memory is read that no cache holds."""
    values = np.arange(BYTES_READ // 8, dtype=np.int64)
    if (added := total(values)) != len(values) * (len(values) - 1) // 2:
        raise WrongError(f"memory_read added up to {added}, so it is not measured")
    return _sampled("memory_read", "bytes read from memory", BYTES, lambda: total(values), float(values.nbytes))


def _sampled(name: str, what: str, unit: str, once: Callable[[], object], done: float) -> Peak:
    began = perf_counter()
    while perf_counter() - began < WARM_UP_SECONDS:
        once()
    samples = []
    for _ in range(SAMPLES):
        began = perf_counter()
        once()
        samples.append(done / (perf_counter() - began))
    return Peak(name=name, what=what, unit=unit, samples=samples)
