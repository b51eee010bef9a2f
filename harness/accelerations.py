"""Gravity as one call: of bodies on each other by the fastest variant known, or of one set on another (CUNBODY-1)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, get_args

import numpy as np

from gravbench.errors import InputError, nearest
from gravbench.model import units
from gravbench.model.array_likes import is_cupy, one_line, real_array
from gravbench.model.bodies import Bodies
from gravbench.model.crowds import Kind
from gravbench.model.fork_lock import ForkLock
from gravbench.model.record import LARGEST, QUANTILES
from gravbench.model.toolkits import catalogue
from gravbench.model.variant import CPU, DIRECT_SUM, NUMBA, AxisValue, Dtype, Kernel, Prepared, Source, discover
from gravbench.toolkits import buffers, forked, parts
from gravbench.toolkits.devices import gpus
from gravbench.toolkits.interface import DeviceToolkit, ToolkitMissingError
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

_one_at_a_time = ForkLock()


def force(
    xj: Any,
    mj: Any,
    xi: Any = None,
    *,
    eps2: float,
    error: float = ERROR,
    quantile: float = LARGEST,
    toolkit: str | None = None,
    dtype: Any = None,
    table: Path | str | None = None,
    return_choice: bool = False,
) -> Any:
    """Sum the pulls of bodies j on bodies i: a_i = sum of m_j (x_j - x_i) / (|x_j - x_i|^2 + eps2)^(3/2), G = 1.

    Lengths and masses may have any unit, in which the accelerations are then given: they are computed in units of
    about 1, and scaled back.

    For NumPy arrays, and for all else that ``np.asarray`` makes real numbers of, the result is a NumPy array. CuPy
    arrays stay on their device, and the result is a CuPy array, returned before it is computed, as by CuPy's own
    functions. Their values are therefore not checked first: masses count as unequal, and the result is NaN where
    numbers are not finite or the number type, which accuracy alone decides there, cannot hold them. A body in both sets
    does not pull itself.

    If j and i are the same bodies (``xi`` is None, or is ``xj``), the fastest variant is chosen from ``table``, which
    has measured times and errors. These errors were measured for the bodies that the table names, after rounding to
    ``dtype``; if the pulls on a body nearly cancel, its error is larger. The first call with a variant, n and
    softening, in units of about 1, compiles its kernels and allocates its arrays, and waits for the device; the last
    ``KEPT`` of these are kept. A tree, which may be chosen for large errors, is built on the host, even for CuPy
    arrays. For two different sets there is a single kernel.

    Several threads may call it and wait for one another (with PyCUDA, only the thread that called first may call it).
    Calls in different CuPy streams use separate arrays. CuPy arrays have to be on the current device.

    Args:
        xj: positions of the bodies that pull, shape (n_j, 3).
        mj: their masses, shape (n_j,). Where one is negative, no tree is used.
        xi: positions of the bodies that are pulled, shape (n_i, 3). None: the same bodies.
        eps2: softening length squared, more than zero.
        error: the largest acceptable relative error of the acceleration of a body.
        quantile: the fraction of the bodies that ``error`` applies to: 0.5, 0.9, 0.99, or 1, all of them. The
            errors of a tree have a long tail: with 0.99, the largest may be many times as large as ``error``. A table
            has the quantiles of its records; the packaged one lacks 0.9.
        toolkit: cupy, pycuda, numba or cpu. The default is the first of cupy and numba that is installed if there is a
            GPU, otherwise cpu; for CuPy arrays it is cupy.
        dtype: number type of the computation and the result: float32 or float64, as text or NumPy's type. The default
            is the faster one that is accurate enough and holds the numbers; for two different sets, float32 if it is
            accurate enough. A result of float32 that leaves its range is given as float64.
        table: a file that ``gravbench best RUN --save FILE`` wrote; by default one for an H200 and a 16-core host.
        return_choice: return what was used too.

    Returns:
        Accelerations, shape (n_i, 3), in a new array. With ``return_choice``, a pair of these and a ``Used``: the
        variant, its axes, and by the table its error and its seconds at this n.

    Raises:
        InputError: a shape, a type or a value is not accepted, there is no such toolkit, no variant is accurate enough,
            the number type cannot hold the numbers, or the table cannot be read or lacks the quantile.
        ToolkitMissingError: the toolkit cannot be used here.
        ForkedError: the process was forked from one that had started Numba's threads or CUDA, and needs them.
    """
    dtype = _number_type(dtype)
    _check_word("dtype", dtype, DTYPES)
    eps2 = _softening(eps2)
    if not _is_number(error) or not error > 0:
        raise InputError(f"error is {one_line(error)}; accepted: a number above 0")
    if not _is_number(quantile) or quantile not in QUANTILES:
        raise InputError(f"quantile is {one_line(quantile)}; accepted: {ACCEPTED_QUANTILES}")
    given = {"xj": xj, "mj": mj} if xi is None or xi is xj else {"xj": xj, "mj": mj, "xi": xi}
    arrays = {name: real_array(name, values) for name, values in given.items()}
    if len(arrays["mj"]) != len(arrays["xj"]):
        count, bodies = len(arrays["mj"]), len(arrays["xj"])
        raise InputError(f"mj has {count} masses for {bodies} positions xj; accepted: one mass per position")
    of_cupy = [name for name, array in arrays.items() if is_cupy(array)]
    if of_cupy not in ([], list(arrays)):
        raise InputError(
            f"of {', '.join(arrays)}, only {', '.join(of_cupy)} is on CuPy; accepted: all CuPy arrays, or none"
        )
    on_device = bool(of_cupy)
    dtypes = DTYPES if dtype is None else (dtype,)
    with _one_at_a_time:  # a first call imports modules, which neither another thread nor a forked process may need
        by = _toolkit(toolkit, on_device=on_device)
        (forked.check_threads if by == CPU else forked.check_cuda)()
        known = _measured(table, by, of_two_sets="xi" in arrays)
    scaled = units.scaled(arrays, eps2, on_device=on_device)
    held = [one for one in dtypes if on_device or scaled.is_held(one)]
    if not held:
        raise InputError(scaled.objection(dtypes[-1]))
    mass = scaled.arrays["mj"]
    # Looking at a value would wait for the device.
    kind = Kind(mass, None if on_device else scaled.arrays["xj"])
    choice, used = _choose(known, by, len(mass), held, error, float(quantile), kind)
    sets = scaled.without_invalid(used) if on_device else scaled.arrays
    with _one_at_a_time:
        if choice:
            result = _among(sets["xj"], sets["mj"], scaled.eps2, by, choice, on_device=on_device)
        else:
            xi = sets.get("xi", sets["xj"])
            result = _between(sets["xj"], sets["mj"], xi, scaled.eps2, by, used, on_device=on_device)
    if on_device:
        valid = scaled.is_held(used)
        if choice and discover()[choice.variant].approximates:
            valid = valid & (mass.min() >= 0)
        result = units.held_or_nan(used, result, scaled.mass, scaled.length, valid)
    else:
        result = scaled.restored(result, dtypes)
    return (result, describe(known, choice, by, used, len(mass), float(quantile))) if return_choice else result


def _choose(
    known: Measured | None,
    toolkit: str,
    n: int,
    dtypes: Sequence[Dtype],
    error: float,
    quantile: float,
    kind: Kind,
) -> tuple[Choice | None, Dtype]:
    """Return the fastest choice of a table that is right enough, and the number type.

    What the table does not have is None: the kernel for two sets, which is as right as every direct sum has to be.
    A table that has choices, but not this quantile of their errors, is refused.
    """

    def able(quantile: float) -> list[tuple[Choice, float, float]]:
        return known.fitting(n, dtypes, equal_masses=kind.equal_masses, quantile=quantile) if known else []

    fitting = able(quantile)
    if not fitting and (there := [f"{one:g}" for one in QUANTILES if able(one)]):
        raise InputError(
            f"quantile is {quantile:g}: the table does not have it for {toolkit} in {' or '.join(dtypes)}; "
            f"accepted: {', '.join(there)}, or a table of newer records"
        )
    right = [
        (seconds, one)
        for one, own_error, seconds in fitting
        if own_error <= error and kind.suits(one.variant, one.axes)
    ]
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


def _among(xj: Any, mj: Any, eps2: float, toolkit: str, choice: Choice, *, on_device: bool) -> Any:
    opened = _opened(toolkit, choice.variant, choice.dtype)
    variant = discover()[choice.variant]
    if variant.on_host:
        forked.check_threads()
    kept = _kept(opened, choice.variant, tuple(choice.axes.items()), len(xj), eps2, opened.queue)
    if kept.prepared is None:
        position, mass = (opened.download(array) if on_device else array for array in (xj, mj))
        # Some variants launch when they are prepared, and make room for what they find: with no other bodies.
        bodies = Bodies(abs(mass), position, np.zeros_like(position), math.sqrt(eps2))
        kept.prepared = variant.prepare(opened, bodies, **choice.axes)
    prepared = kept.prepared
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
    opened = _open(toolkit, Part("force_between"), dtype)
    return opened, opened.compile("force_between", P=BLOCK)


@cache
def _opened(toolkit: str, variant: str, dtype: Dtype) -> DeviceToolkit:
    """Open once per process: its kernels are compiled once for all n and eps2, which are arguments."""
    opened = _open(toolkit, discover()[variant], dtype)
    opened.keeps_kernels = True
    return opened


def _open(toolkit: str, source: Source, dtype: Dtype) -> DeviceToolkit:
    """Open a toolkit, or say how to install it."""
    try:
        return open_toolkit(toolkit, source, dtype)
    except ToolkitMissingError as error:
        raise ToolkitMissingError(catalogue()[toolkit].missing or str(error)) from error


@dataclass(slots=True)
class _Kept:
    """What a variant has prepared, None before its first bodies."""

    prepared: Prepared | None = None


@lru_cache(maxsize=KEPT)
def _kept(
    opened: DeviceToolkit,  # noqa: ARG001 - these are what arrays are kept for
    variant: str,  # noqa: ARG001
    axes: tuple[tuple[str, AxisValue], ...],  # noqa: ARG001
    n: int,  # noqa: ARG001
    eps2: float,  # noqa: ARG001
    queue: Any,  # noqa: ARG001 - what two queues do at the same time must not share arrays
) -> _Kept:
    return _Kept()


@lru_cache
def _default() -> str:
    found, _ = gpus()
    return next((name for name in (CUPY, NUMBA) if found and catalogue()[name].missing is None), CPU)


def _toolkit(toolkit: Any, *, on_device: bool) -> str:
    _check_word("toolkit", toolkit, [name for name, entry in catalogue().items() if entry.in_force])
    if not on_device:
        return toolkit or _default()
    if toolkit not in (None, CUPY):
        raise InputError(f"toolkit is {toolkit}, but the arrays are CuPy arrays; accepted: cupy, or NumPy arrays")
    return CUPY


def _measured(table: Any, toolkit: str, *, of_two_sets: bool) -> Measured | None:
    """Return what the table has of a toolkit; nothing for two sets, for which a table is only checked."""
    if table is not None and not isinstance(table, str | Path):
        raise InputError(f"table is {one_line(table)}; accepted: the path of a file, as text or a Path")
    if of_two_sets and table is None:
        return None
    known = fastest.read(fastest.PACKAGED if table is None else Path(table)).of(toolkit)
    return None if of_two_sets else known


def _check_word(name: str, word: Any, accepted: Sequence[str]) -> None:
    # A number type of NumPy equals its name, and an array is neither equal to it nor not.
    if word is not None and not (isinstance(word, str) and word in accepted):
        raise InputError(f"{name} is {one_line(word)}; {nearest(one_line(word), list(accepted))}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _number_type(dtype: Any) -> Any:
    """Return the name of a number type that is given as NumPy's; anything else as it is."""
    if isinstance(dtype, type | np.dtype):
        with suppress(TypeError):
            return np.dtype(dtype).name
    return dtype


def _softening(eps2: Any) -> float:
    """Return it as a float."""
    if not _is_number(eps2):
        raise InputError(f"eps2 is {one_line(eps2)}; accepted: a number")
    try:
        value = float(eps2)
    except OverflowError:
        value = math.inf
    if not (math.isfinite(value) and value > 0):
        raise InputError(f"eps2 is {value}; accepted: a finite number above 0")
    return value
