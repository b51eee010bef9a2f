"""Gravity as one call: of bodies on each other by the fastest variant known, or of one set on another (CUNBODY-1)."""

from __future__ import annotations

import math
import os
import reprlib
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path
from threading import RLock
from typing import Any, get_args

import numpy as np

from gravbench.errors import InputError, nearest
from gravbench.model.bodies import SMALLEST_EPS, Bodies
from gravbench.model.record import LARGEST, QUANTILES
from gravbench.model.toolkits import catalogue
from gravbench.model.variant import CPU, DIRECT_SUM, NUMBA, AxisValue, Dtype, Kernel, Prepared, discover
from gravbench.toolkits import buffers, forked, parts
from gravbench.toolkits.devices import gpus
from gravbench.toolkits.interface import DeviceToolkit
from gravbench.toolkits.opening import open_toolkit
from gravbench.toolkits.parts import BLOCK, Part
from gravbench.verdicts import fastest
from gravbench.verdicts.best import ACCEPTED_QUANTILES, ERROR
from gravbench.verdicts.fastest import Choice, Measured
from gravbench.verdicts.used import used as describe

CUPY = "cupy"
DTYPES: tuple[Dtype, ...] = get_args(Dtype)

KEPT = 8
"""Sizes, softenings and variants for which arrays stay allocated, those used last."""

_one_at_a_time = RLock()
# A fork waits for the call of another thread: the child could neither finish it nor give the lock back.
os.register_at_fork(
    before=_one_at_a_time.acquire, after_in_parent=_one_at_a_time.release, after_in_child=_one_at_a_time.release
)


def force(
    xj: Any,
    mj: Any,
    xi: Any = None,
    eps2: float | None = None,
    *,
    error: float = ERROR,
    quantile: float = LARGEST,
    toolkit: str | None = None,
    dtype: Dtype | None = None,
    table: Path | str | None = None,
    return_choice: bool = False,
) -> Any:
    """Sum the pulls of bodies j on bodies i: a_i = sum of m_j (x_j - x_i) / (|x_j - x_i|^2 + eps2)^(3/2), G = 1.

    For NumPy arrays the result is a NumPy array. CuPy arrays stay on their device, and the result is a CuPy array,
    returned before it is computed, as by CuPy's own functions. Their values are therefore not checked first: masses
    count as unequal, and the result is NaN where coordinates are not finite or too large for the kernel. A body in both
    sets does not pull itself.

    If j and i are the same bodies (``xi`` is None, or is ``xj``), the fastest variant is chosen from ``table``, which
    has measured times and errors. These errors were measured for the bodies that the table names, after rounding to
    ``dtype``; if the pulls on a body nearly cancel, its error is larger. The first call with a variant, n and
    eps2 compiles its kernels and allocates its arrays; the last ``KEPT`` of these are kept. A tree, which may be chosen
    for large errors, is built on the host, even for CuPy arrays. For two different sets there is a single kernel.

    Several threads may call it and wait for one another (with PyCUDA, only the thread that called first may call it).
    Calls in different CuPy streams use separate arrays. CuPy arrays have to be on the current device.

    Args:
        xj: positions of the bodies that pull, shape (n_j, 3).
        mj: their masses, shape (n_j,).
        xi: positions of the bodies that are pulled, shape (n_i, 3). None: the same bodies.
        eps2: softening length squared; required.
        error: the largest acceptable relative error of the acceleration of a body.
        quantile: the fraction of the bodies that ``error`` applies to: 0.5, 0.9, 0.99, or 1, all of them. The
            errors of a tree have a long tail: with 0.99, the largest may be many times as large as ``error``. A table
            has the quantiles of its records; the packaged one lacks 0.9.
        toolkit: cupy, pycuda, numba or cpu. The default is the first of cupy and numba that is installed if there is a
            GPU, otherwise cpu; for CuPy arrays it is cupy.
        dtype: number type of the computation and the result: float32 or float64. The default is the faster one that is
            accurate enough; for two different sets, float32 if it is accurate enough.
        table: a file that ``gravbench best RUN --save FILE`` wrote; by default one for an H200 and a 16-core host.
        return_choice: return what was used too.

    Returns:
        Accelerations, shape (n_i, 3), in a new array. With ``return_choice``, a pair of these and a ``Used``: the
        variant, its axes, and by the table its error and its seconds at this n.

    Raises:
        InputError: a shape, a type or a value is not accepted, there is no such toolkit, no variant is accurate enough,
            or the table lacks the quantile.
        ToolkitMissingError: the toolkit cannot be used here.
        ForkedError: the process was forked from one that had started Numba's threads or CUDA, and needs them.
    """
    _check_word("dtype", dtype, DTYPES)
    _check_word("toolkit", toolkit, [name for name, entry in catalogue().items() if entry.in_force])
    eps2 = _softening(eps2)
    if not _is_number(error) or not error > 0:
        raise InputError(f"error is {_shown(error)}; accepted: a number above 0")
    if not _is_number(quantile) or quantile not in QUANTILES:
        raise InputError(f"quantile is {_shown(quantile)}; accepted: {ACCEPTED_QUANTILES}")
    if table is not None and not isinstance(table, str | Path):
        raise InputError(f"table is {_shown(table)}; accepted: the path of a file, as text or a Path")
    arrays = {"xj": xj, "mj": mj} if xi is None or xi is xj else {"xj": xj, "mj": mj, "xi": xi}
    for name, array in arrays.items():
        _check(name, array)
    if len(mj) != len(xj):
        raise InputError(f"mj has {len(mj)} masses for {len(xj)} positions xj; accepted: one mass per position")
    of_cupy = [name for name, array in arrays.items() if _is_cupy(array)]
    if of_cupy not in ([], list(arrays)):
        raise InputError(
            f"of {', '.join(arrays)}, only {', '.join(of_cupy)} is on CuPy; accepted: all CuPy arrays, or none"
        )
    on_device = bool(of_cupy)
    by = _toolkit(toolkit, on_device=on_device)
    (forked.check_threads if by == CPU else forked.check_cuda)()
    dtypes = DTYPES if dtype is None else (dtype,)
    known = fastest.read(fastest.PACKAGED if table is None else Path(table)).of(by) if "xi" not in arrays else None
    # Looking at a value would wait for the device: what is said here of every array is looked at there.
    largest = {} if on_device else {name: float(abs(array).max()) for name, array in arrays.items()}
    near = [one for one in dtypes if on_device or largest["xj"] <= _reach(one)]
    equal_masses = not on_device and bool((mj == mj[0]).all())
    choice, used = _choose(known, by, len(xj), dtypes, near, error, float(quantile), equal_masses=equal_masses)
    for name, size in largest.items():
        _check_size(name, size, used)
    with _one_at_a_time:
        if choice:
            result = _among(xj, mj, eps2, by, choice, on_device=on_device)
        else:
            result = _between(xj, mj, arrays.get("xi", xj), eps2, by, used, on_device=on_device)
    if on_device:
        positions = [array for name, array in arrays.items() if name != "mj"]
        result = _spoilt(result, positions, _reach(used) if choice else _overflow(used))
    return (result, describe(known, choice, by, used, len(xj), float(quantile))) if return_choice else result


def _choose(
    known: Measured | None,
    toolkit: str,
    n: int,
    dtypes: Sequence[Dtype],
    near: Sequence[Dtype],
    error: float,
    quantile: float,
    *,
    equal_masses: bool,
) -> tuple[Choice | None, Dtype]:
    """Return the fastest choice of a table that is right enough, and the number type; ``near`` can hold the distances.

    What the table does not have is None: the kernel for two sets, which is as right as every direct sum has to be.
    A table that has choices, but not this quantile of their errors, is refused.
    """

    def able(quantile: float) -> list[tuple[Choice, float, float]]:
        return known.fitting(n, near, equal_masses=equal_masses, quantile=quantile) if known else []

    fitting = able(quantile)
    if not fitting and (there := [f"{one:g}" for one in QUANTILES if able(one)]):
        raise InputError(
            f"quantile is {quantile:g}: the table does not have it for {toolkit} in {' or '.join(near)}; "
            f"accepted: {', '.join(there)}, or a table of newer records"
        )
    right = [(seconds, one) for one, own_error, seconds in fitting if own_error <= error]
    if right:
        choice = min(right, key=lambda found: found[0])[1]
        return choice, choice.dtype
    for one in dtypes:
        if DIRECT_SUM[one].max <= error:
            return None, one
    at = "" if quantile == LARGEST else f" at quantile {quantile:g}"
    least = min([*(DIRECT_SUM[one].max for one in dtypes), *(own_error for _, own_error, _ in fitting)])
    raise InputError(
        f"error is {error:g}{at}: no variant for {toolkit} in {' or '.join(dtypes)} is known to be this accurate for "
        f"{n:,} bodies; the smallest known error is {least:.1e}"
    )


def _spoilt(result: Any, positions: Sequence[Any], limit: float) -> Any:
    """Make a result on the device NaN where a coordinate is NaN or beyond the limit of its kernel; wait for nothing."""
    for array in positions:
        right = abs(array).max() <= limit
        result *= right / right  # 1 or, of zeros, NaN
    return result


def _among(xj: Any, mj: Any, eps2: float, toolkit: str, choice: Choice, *, on_device: bool) -> Any:
    opened = _opened(toolkit, choice.variant, choice.dtype)
    prepared = _prepared(opened, choice.variant, tuple(choice.axes.items()), len(xj), eps2, opened.queue)
    if prepared.on_host:
        forked.check_threads()
    if prepared.on_host and on_device:
        return opened.upload(_launched(opened, prepared, opened.download(xj), opened.download(mj), there=True))
    return _launched(opened, prepared, xj, mj, there=prepared.on_host or on_device or toolkit == CPU)


def _launched(opened: DeviceToolkit, prepared: Prepared, xj: Any, mj: Any, *, there: bool) -> Any:
    """Write the bodies, launch, and copy what was found; ``there``: the arrays are where those of the variant are."""
    if there:
        buffers.fill(prepared.bodies, xj, mj)
        prepared.launch()
        return buffers.sums_there(opened, prepared)
    buffers.write_bodies(opened, prepared, buffers.host_rows(opened, prepared, xj, mj))
    prepared.launch()
    return buffers.sums(opened, prepared).copy()


def _between(xj: Any, mj: Any, xi: Any, eps2: float, toolkit: str, dtype: Dtype, *, on_device: bool) -> Any:
    opened, kernel = _part(toolkit, dtype)
    result = opened.empty(len(xi), 3)
    own = [opened.upload(array) for array in (xj, mj, xi)]
    sizes = np.int32(len(xj)), np.int32(len(xi))
    parts.launch(opened, kernel, len(xi), *own, result, *sizes, opened.real(eps2))
    return result if on_device else opened.download(result)


@cache
def _part(toolkit: str, dtype: Dtype) -> tuple[DeviceToolkit, Kernel]:
    """Compile once per process."""
    opened = open_toolkit(toolkit, Part("force_between"), dtype)
    return opened, opened.compile("force_between", P=BLOCK)


@cache
def _opened(toolkit: str, variant: str, dtype: Dtype) -> DeviceToolkit:
    """Open once per process: its kernels are compiled once for all n and eps2, which are arguments."""
    opened = open_toolkit(toolkit, discover()[variant], dtype)
    opened.keeps_kernels = True
    return opened


@lru_cache(maxsize=KEPT)
def _prepared(
    opened: DeviceToolkit,
    variant: str,
    axes: tuple[tuple[str, AxisValue], ...],
    n: int,
    eps2: float,
    queue: Any,  # noqa: ARG001 - what two queues do at the same time must not share arrays
) -> Prepared:
    nowhere = np.zeros((n, 3))
    return discover()[variant].prepare(opened, Bodies(np.zeros(n), nowhere, nowhere, math.sqrt(eps2)), **dict(axes))


@lru_cache
def _default() -> str:
    found, _ = gpus()
    return next((name for name in (CUPY, NUMBA) if found and catalogue()[name].missing is None), CPU)


def _toolkit(toolkit: str | None, *, on_device: bool) -> str:
    if not on_device:
        return toolkit or _default()
    if toolkit not in (None, CUPY):
        raise InputError(f"toolkit is {toolkit}, but the arrays are CuPy arrays; accepted: cupy, or NumPy arrays")
    return CUPY


def _is_cupy(array: Any) -> bool:
    return type(array).__module__.partition(".")[0] == "cupy"


def _shown(value: Any) -> str:
    """Show any value in a few characters of one line."""
    return " ".join(reprlib.repr(value).split())


def _check_word(name: str, word: Any, accepted: Sequence[str]) -> None:
    # A number type of NumPy equals its name, and an array is neither equal to it nor not.
    if word is not None and not (isinstance(word, str) and word in accepted):
        raise InputError(f"{name} is {_shown(word)}; {nearest(_shown(word), list(accepted))}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _softening(eps2: Any) -> float:
    """Return it as a float; eps^-3 must be finite in float32, as in ``Bodies``."""
    if not _is_number(eps2):
        raise InputError(f"eps2 is {_shown(eps2)}; accepted: a number")
    try:
        value = float(eps2)
    except OverflowError:
        value = math.inf
    if not (math.isfinite(value) and value >= SMALLEST_EPS**2):
        raise InputError(f"eps2 is {value}; accepted: a finite number of {SMALLEST_EPS**2:g} or more")
    return value


def _check(name: str, array: Any) -> None:
    shape = "(n,)" if name == "mj" else "(n, 3)"
    if not isinstance(array, np.ndarray) and not _is_cupy(array):
        raise InputError(f"{name} is a {type(array).__name__}; accepted: a NumPy or CuPy array")
    if array.dtype.kind not in "fiu":
        raise InputError(f"{name} has dtype {array.dtype}; accepted: real numbers")
    if array.shape[1:] != (() if name == "mj" else (3,)) or array.ndim == 0 or not array.shape[0]:
        raise InputError(f"{name} has shape {array.shape}; accepted: {shape} with n of 1 or more")


def _reach(dtype: Dtype) -> float:
    """Return the coordinates within which the inverse cube of a distance stays above zero, on which variants rely."""
    return float(np.cbrt(1 / np.float64(np.finfo(dtype).tiny))) / 4


def _overflow(dtype: Dtype) -> float:
    """Return the coordinates within which the squares of distances are finite."""
    return math.sqrt(float(np.finfo(dtype).max)) / 4


def _check_size(name: str, largest: float, dtype: Dtype) -> None:
    # A NaN is not <=, and what overflows the number type would be infinite in it.
    most = float(np.finfo(dtype).max)
    if not largest <= most:
        raise InputError(f"{name} has values that are not finite in {dtype}; accepted: finite numbers")
    if name != "mj" and largest > _overflow(dtype):
        raise InputError(
            f"{name} has coordinates of {largest:.2g}, whose squared distances may overflow {dtype}; "
            f"accepted: up to {_overflow(dtype):.2g}"
        )
