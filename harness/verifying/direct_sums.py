"""What a kernel is judged by: an interaction summed directly in float64, for some bodies or for all.

Beside each sum stand the sum of its terms' magnitudes, which says how far rounding errors may reach where terms cancel,
and a plain sum: the same terms computed and added one after another in the kernel's own number type.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from gravbench.model.blocks import cores
from gravbench.model.bodies import Bodies
from gravbench.model.interaction import BODY, Interaction
from gravbench.model.variant import Dtype
from gravbench.toolkits.compile_cache import keep
from gravbench.toolkits.device_sums import DeviceSums, Texts, made

Array = NDArray[np.float64]

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

TERMS = """
def {name}(bodies, eps2, i, j, row, {results}):
    {own} = {of_i}
    {other} = {of_j}
    {lines}
    {after}
"""

# Of every sum: the term of a body j is in sums_NAME.
ADD_PLAINLY = "total_{name} += sums_{name}"
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
    is summed in the kernel's number type in the order of the bodies: each term is rounded before it is added.
    """

    exact: Array
    magnitudes: Array
    plain: NDArray[Any]


def direct_sums(
    interaction: Interaction,
    bodies: Bodies,
    rows: NDArray[np.int64],
    dtype: Dtype,
    *,
    device_sums: DeviceSums | None = None,
) -> Sums:
    """Add up what all bodies do to those of ``rows``.

    What the kernels receive is rounded to ``dtype`` first: the numbers of the bodies, the softening length squared and
    the interaction's constants. ``device_sums`` adds them up, or the CPU.
    """
    real = np.dtype(dtype).type
    columns = dict(zip(BODY, (*bodies.position.T, bodies.mass, *bodies.velocity.T), strict=True))
    rounded = np.array([columns[name] for name in interaction.body], real)
    eps2 = real(bodies.eps**2)
    shape = rows.size, len(interaction.sums)
    results = np.empty(shape), np.empty(shape), np.empty(shape, real)
    arguments = rounded.astype(np.float64), float(eps2), rounded, eps2
    if device_sums:
        sum_rows = _on_device(device_sums, interaction, dtype)
    else:
        sum_rows = _on_cpu(*formulas(interaction, dtype), dtype)
    sum_rows(*arguments, rows, *results)
    return Sums(*results)


@lru_cache(maxsize=16)
def _on_device(device_sums: DeviceSums, interaction: Interaction, dtype: Dtype) -> Callable[..., None]:
    return device_sums.sum_rows(_texts(interaction, dtype), len(interaction.sums), dtype)


def _texts(interaction: Interaction, dtype: Dtype) -> Texts:
    return Texts(*formulas(interaction, dtype), _terms(interaction))


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
        before=[f"total_{name} = real(0.0)" for name in names],
        lines=[*_plain_terms(interaction), *(ADD_PLAINLY.format(name=name) for name in names)],
        after=[f"plain[row, {place}] = total_{name}" for place, name in enumerate(names)],
    )


@lru_cache(maxsize=16)
def _terms(interaction: Interaction) -> str:
    """Write the function that computes the terms of one body in the kernel's number type."""
    return _row(
        "plain_terms",
        interaction,
        results="plain",
        before=[],
        lines=_plain_terms(interaction),
        after=[f"plain[row, {place}] = sums_{name}" for place, name in enumerate(interaction.sums)],
        text=TERMS,
    )


def _plain_terms(interaction: Interaction) -> list[str]:
    lines = interaction.python_lines(lambda value: f"real({value!r})")
    return [*(f"sums_{name} = real(0.0)" for name in interaction.sums), *lines]


def _row(
    name: str,
    interaction: Interaction,
    *,
    results: str,
    before: list[str],
    lines: list[str],
    after: list[str],
    text: str = ROW,
) -> str:
    return text.format(
        name=name,
        results=results,
        own="".join(f"i_{number}, " for number in interaction.body),
        of_i="".join(f"bodies[{place}, i], " for place in range(len(interaction.body))),
        other="".join(f"j_{number}, " for number in interaction.body),
        of_j="".join(f"bodies[{place}, j], " for place in range(len(interaction.body))),
        before="\n    ".join(before),
        lines=("\n        " if text is ROW else "\n    ").join(lines),
        after="\n    ".join(after),
    )


@lru_cache(maxsize=16)
def _on_cpu(exact: str, plain: str, dtype: Dtype) -> Callable[..., None]:
    import numba

    keep()
    real = np.dtype(dtype).type
    unit = real(1)

    @numba.njit(error_model="numpy")  # type: ignore[untyped-decorator]
    def exact_inverse_sqrt(value: float) -> float:
        return 1.0 / math.sqrt(value)

    @numba.njit(error_model="numpy")  # type: ignore[untyped-decorator]
    def plain_inverse_sqrt(value: float) -> Any:
        return unit / math.sqrt(value)

    rows = {
        "exact_row": numba.njit(error_model="numpy")(made(exact, inverse_sqrt=exact_inverse_sqrt)),
        "plain_row": numba.njit(error_model="numpy")(made(plain, inverse_sqrt=plain_inverse_sqrt, real=real)),
    }
    function = made(ON_CPU, **rows)

    @cache
    def compiled(*types: Any) -> Callable[..., None]:
        # Threads of our own: a parallel loop takes Numba three times as long to compile.
        jitted: Any = numba.njit(nogil=True)(function)
        jitted.compile(types)
        return cast("Callable[..., None]", jitted)

    def sum_rows(bodies: Array, eps2: float, rounded: Any, small: Any, rows: Any, *results: NDArray[Any]) -> None:
        sums = compiled(*map(numba.typeof, (bodies, eps2, rounded, small, rows, *results)))
        threads = cores()
        if threads == 1 or rows.size * bodies.shape[1] <= FEW_TERMS:
            sums(bodies, eps2, rounded, small, rows, *results)
            return
        edges = np.linspace(0, rows.size, threads + 1).astype(int)
        parts = [slice(*pair) for pair in pairwise(edges) if pair[0] < pair[1]]
        with ThreadPoolExecutor(threads) as pool:
            futures = [
                pool.submit(sums, bodies, eps2, rounded, small, rows[part], *(array[part] for array in results))
                for part in parts
            ]
        for future in futures:
            future.result()

    return sum_rows


@lru_cache(maxsize=16)
def usable(device_sums: DeviceSums | None, interaction: Interaction, dtype: Dtype) -> DeviceSums | None:
    """Return what a device has to add up these sums, where it can; None where the CPU has to."""
    if device_sums and device_sums.is_usable(_texts(interaction, dtype), len(interaction.sums), dtype):
        return device_sums
    return None
