"""What a kernel is judged by: an interaction summed directly in float64, for some bodies or for all.

Beside each sum stand the sum of its terms' magnitudes, which says how far rounding errors may reach where terms cancel,
and a plain sum: the same terms computed and added one after another in the kernel's own number type.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from pickle import PickleError
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from gravbench.model.bodies import Bodies
from gravbench.model.interaction import BODY, MATH, Interaction
from gravbench.model.variant import Dtype
from gravbench.toolkits.kept import keep

Array = NDArray[np.float64]

NOT_KEPT = (RuntimeError, OSError, ValueError, EOFError, PickleError)
"""What Numba raises where there is no folder for what it compiled, or no whole file in it."""

ROWS_AT_ONCE = 1 << 18
"""Rows per launch on a GPU: enough to fill it, and few enough not to hold one that also draws a screen for long."""

BLOCK = 128
FEW_ROWS = 1 << 13
"""Rows up to which each has several threads on a GPU, in blocks of a warp, so that they spread over the device."""
WARP = 32
PARTS = 64
"""Threads of such a row, beside the one of its plain sum."""
LEAST_PART = 256
"""Bodies that one of them adds up, at least."""

FEW_TERMS = 1 << 18
"""Terms up to which one thread of a CPU adds them up: to start others takes about as long."""

ROW = """
def {name}(bodies, eps2, i, first, last, row, {results}):
    {own} = {of_i}
    {before}
    for j in range(first, last):
        {other} = {of_j}
        {lines}
    {after}
"""

ON_CPU = """
def sum_rows(bodies, eps2, rounded, small, rows, sums, magnitudes, plain):
    n = bodies.shape[1]
    for row in range(rows.size):
        exact_row(bodies, eps2, rows[row], 0, n, row, sums, magnitudes)
        plain_row(rounded, small, rows[row], 0, n, row, plain)
"""

# The plain sum takes the bodies in their order, so one thread has them all: it starts first. Part by part, the exact
# sums of all rows follow one another.
ON_GPU = """
def {name}(bodies, eps2, rounded, small, rows, sums, magnitudes, plain):
    row = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if row < rows.size:
        n = bodies.shape[1]
        if cuda.blockIdx.y == 0:
            plain_row(rounded, small, rows[row], 0, n, row, plain)
        else:
            part = cuda.blockIdx.y - 1
            parts = cuda.gridDim.y - 1
            first, last = part * n // parts, (part + 1) * n // parts
            exact_row(bodies, eps2, rows[row], first, last, part * rows.size + row, sums, magnitudes)
"""

# Of every sum: the term of a body j is in sums_NAME.
ADD = "total_{name} += sums_{name}\nsize_{name} += abs(sums_{name})"
# Kahan's sum, because a plain one in float64 is what a kernel in float64 computes.
ADD_EXACTLY = """y = sums_{name} - lost_{name}
t = total_{name} + y
lost_{name} = (t - total_{name}) - y
total_{name} = t
size_{name} += abs(sums_{name})"""


@dataclass(frozen=True, slots=True)
class Sums:
    """What all bodies do to some of them, each array of shape (rows, sums of the interaction).

    ``exact`` is summed in float64, ``magnitudes`` are the sums of the absolute values of the same terms, and ``plain``
    is summed in the kernel's number type in the order of the bodies.
    """

    exact: Array
    magnitudes: Array
    plain: NDArray[Any]


def direct_sums(
    interaction: Interaction, bodies: Bodies, rows: NDArray[np.int64], dtype: Dtype, *, on_gpu: bool = False
) -> Sums:
    """Add up what all bodies do to those of ``rows``.

    What the kernels receive is rounded to ``dtype`` first: the numbers of the bodies, the softening length squared and
    the interaction's constants. ``on_gpu`` asks numba.cuda; without it the CPU computes.
    """
    real = np.dtype(dtype).type
    columns = dict(zip(BODY, (*bodies.position.T, bodies.mass, *bodies.velocity.T), strict=True))
    rounded = np.array([columns[name] for name in interaction.body], real)
    eps2 = real(bodies.eps**2)
    shape = rows.size, len(interaction.sums)
    found = np.empty(shape), np.empty(shape), np.empty(shape, real)
    arguments = rounded.astype(np.float64), float(eps2), rounded, eps2
    sum_rows = (_on_gpu if on_gpu else _on_cpu)(*formulas(interaction, dtype), dtype)
    sum_rows(*arguments, rows, *found)
    return Sums(*found)


def formulas(interaction: Interaction, dtype: Dtype) -> tuple[str, str]:
    """Write the functions that add up one row: in float64, and plainly in the kernel's number type."""
    return _exact(interaction, dtype), _plain(interaction)


@lru_cache(maxsize=16)
def _exact(interaction: Interaction, dtype: Dtype) -> str:
    """Write the function that adds up one row in float64, of constants rounded to ``dtype``."""
    real = np.dtype(dtype).type
    names = interaction.sums
    lines = [f"sums_{name} = 0.0" for name in names]
    lines += interaction.python_lines(lambda value: repr(float(real(value))))
    add = ADD_EXACTLY if real is np.float64 else ADD
    lines += [line for name in names for line in add.format(name=name).split("\n")]
    return _row(
        "exact_row",
        interaction,
        results="sums, magnitudes",
        before=[f"total_{name} = lost_{name} = size_{name} = 0.0" for name in names],
        lines=lines,
        after=[
            f"sums[row, {place}] = total_{name}; magnitudes[row, {place}] = size_{name}"
            for place, name in enumerate(names)
        ],
    )


@lru_cache(maxsize=16)
def _plain(interaction: Interaction) -> str:
    """Write the function that adds up one row in the kernel's number type, ``real``."""
    names = interaction.sums
    return _row(
        "plain_row",
        interaction,
        results="plain",
        before=[f"sums_{name} = real(0.0)" for name in names],
        lines=list(interaction.python_lines(lambda value: f"real({value!r})")),
        after=[f"plain[row, {place}] = sums_{name}" for place, name in enumerate(names)],
    )


def _row(
    name: str, interaction: Interaction, *, results: str, before: list[str], lines: list[str], after: list[str]
) -> str:
    return ROW.format(
        name=name,
        results=results,
        own="".join(f"i_{number}, " for number in interaction.body),
        of_i="".join(f"bodies[{place}, i], " for place in range(len(interaction.body))),
        other="".join(f"j_{number}, " for number in interaction.body),
        of_j="".join(f"bodies[{place}, j], " for place in range(len(interaction.body))),
        before="\n    ".join(before),
        lines="\n        ".join(lines),
        after="\n    ".join(after),
    )


@lru_cache(maxsize=16)
def _on_cpu(exact: str, plain: str, dtype: Dtype) -> Callable[..., None]:
    import numba

    keep()
    real = np.dtype(dtype).type
    one = real(1)

    @numba.njit(error_model="numpy")  # type: ignore[untyped-decorator]
    def exact_inverse_sqrt(value: float) -> float:
        return 1.0 / math.sqrt(value)

    @numba.njit(error_model="numpy")  # type: ignore[untyped-decorator]
    def plain_inverse_sqrt(value: float) -> Any:
        return one / math.sqrt(value)

    rows = {
        "exact_row": numba.njit(error_model="numpy")(_made(exact, inverse_sqrt=exact_inverse_sqrt)),
        "plain_row": numba.njit(error_model="numpy")(_made(plain, inverse_sqrt=plain_inverse_sqrt, real=real)),
    }
    function = _made(ON_CPU, **rows)

    @cache
    def compiled(*types: Any) -> Callable[..., None]:
        # Threads of our own: a parallel loop takes Numba three times as long to compile.
        made: Any = numba.njit(nogil=True)(function)
        made.compile(types)
        return cast("Callable[..., None]", made)

    def sum_rows(bodies: Array, eps2: float, rounded: Any, small: Any, rows: Any, *found: NDArray[Any]) -> None:
        sums = compiled(*map(numba.typeof, (bodies, eps2, rounded, small, rows, *found)))
        threads = os.cpu_count() or 1
        if threads == 1 or rows.size * bodies.shape[1] <= FEW_TERMS:
            sums(bodies, eps2, rounded, small, rows, *found)
            return
        edges = np.linspace(0, rows.size, threads + 1).astype(int)
        parts = [slice(*pair) for pair in pairwise(edges) if pair[0] < pair[1]]
        with ThreadPoolExecutor(threads) as pool:
            futures = [
                pool.submit(sums, bodies, eps2, rounded, small, rows[part], *(array[part] for array in found))
                for part in parts
            ]
        for future in futures:
            future.result()

    return sum_rows


@cache
def gpu_is_usable() -> bool:
    """Tell whether numba.cuda is there, and a GPU for it."""
    try:
        from numba import cuda
    except ImportError:
        return False
    return bool(cuda.is_available())


@lru_cache(maxsize=16)
def _on_gpu(exact: str, plain: str, dtype: Dtype) -> Callable[..., None]:
    from numba import cuda
    from numba.cuda import libdevice

    inverse_sqrt = libdevice.rsqrtf if dtype == "float32" else libdevice.rsqrt
    rows = {
        "exact_row": cuda.jit(device=True)(_made(exact, inverse_sqrt=libdevice.rsqrt)),
        "plain_row": cuda.jit(device=True)(_made(plain, inverse_sqrt=inverse_sqrt, real=np.dtype(dtype).type)),
    }
    function = _made(ON_GPU.format(name=_name(exact, plain, dtype)), file=__file__, cuda=cuda, **rows)

    def launched(cache: bool, grid: tuple[int, int], block: int, *arguments: Any) -> Any:
        kernel = cuda.jit(function, cache=cache)
        kernel[grid, block](*arguments)
        return kernel

    kept: list[Any] = []

    def launch(*arguments: Any) -> None:
        with warnings.catch_warnings():
            # Numba warns of grids that do not fill the device, as those of a few rows do not.
            warnings.simplefilter("ignore")
            if kept:
                kept[0][arguments[:2]](*arguments[2:])
                return
            try:
                kept.append(launched(True, *arguments))
            except NOT_KEPT:
                kept.append(launched(False, *arguments))

    def sum_rows(bodies: Array, eps2: float, rounded: Any, small: Any, rows: Any, *found: NDArray[Any]) -> None:
        there = cuda.to_device(bodies), eps2, cuda.to_device(rounded), small
        parts = _parts(rows.size, bodies.shape[1])
        block = BLOCK if parts == 1 else WARP
        for first in range(0, rows.size, ROWS_AT_ONCE):
            part = slice(first, first + ROWS_AT_ONCE)
            size = rows[part].size
            copies = parts, parts, 1
            results = [
                cuda.device_array((count * size, array.shape[1]), array.dtype)
                for count, array in zip(copies, found, strict=True)
            ]
            launch((-(-size // block), 1 + parts), block, *there, cuda.to_device(rows[part]), *results)
            for array, count, result in zip(found, copies, results, strict=True):
                # In more digits than float64 has: a kernel's sum in float64 is judged by this one.
                terms = result.copy_to_host().reshape(count, size, -1)
                array[part] = terms[0] if count == 1 else terms.sum(axis=0, dtype=np.longdouble)

    return sum_rows


def _parts(rows: int, n: int) -> int:
    """Return the number of threads that share the exact sum of a row: 1 where the rows alone fill a GPU."""
    return 1 if rows > FEW_ROWS else max(1, min(PARTS, n // LEAST_PART))


def _name(*texts: str) -> str:
    """Name what is compiled: numba.cuda finds it on the disk by its name, and would not see another text."""
    return f"sum_rows_{hashlib.sha256(chr(10).join(texts).encode()).hexdigest()}"


def _made(text: str, file: str = "<made>", **known: Any) -> Callable[..., None]:
    """Make the one function that a text defines, as if it stood in ``file``; it sees what is ``known``."""
    namespace: dict[str, Any] = {"__name__": __name__, **MATH, **known}
    exec(compile(text, file, "exec"), namespace)
    made: Callable[..., None] = namespace[re.findall(r"def (\w+)", text)[0]]
    return made
