"""Gravity as one call: of bodies on each other by the fastest variant known, or of one set on another (CUNBODY-1)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
from gravbench.model.crowds import Kind, is_for_any
from gravbench.model.fork_lock import ForkLock
from gravbench.model.record import LARGEST, QUANTILES
from gravbench.model.toolkits import catalogue
from gravbench.model.variant import CPU, DIRECT_SUM, NUMBA, AxisValue, Dtype, Kernel, Prepared, Source, discover
from gravbench.toolkits import buffers, forked, parts
from gravbench.toolkits.devices import family
from gravbench.toolkits.interface import DeviceToolkit, ToolkitMissingError
from gravbench.toolkits.opening import keeping_kernels, open_toolkit
from gravbench.toolkits.parts import BLOCK, Part
from gravbench.verdicts import fastest
from gravbench.verdicts.fastest import Choice, Measured
from gravbench.verdicts.question import ACCEPTED_QUANTILES, ERROR
from gravbench.verdicts.used import Used, Wanted

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
    """Add up what bodies j contribute at bodies i: a_i = sum of m_j (x_j - x_i) / (|x_j - x_i|^2 + eps2)^(3/2), G = 1.

    Lengths and masses may have any unit. Several threads may call it, and wait for one another (with PyCUDA, only the
    thread that called first may call it). A body in both sets does not pull itself.

    For all that ``np.asarray`` makes real numbers of, the result is a NumPy array. CuPy arrays stay on their device,
    and the result is a CuPy array, returned before it is computed: where a number is not finite or leaves the number
    type, it is NaN. What is checked when, and what a first call waits for, is in docs/how-to/choose.md.

    Args:
        xj: positions of the bodies that pull, shape (n_j, 3).
        mj: their masses, shape (n_j,).
        xi: positions of the bodies that are pulled, shape (n_i, 3). None: the same bodies.
        eps2: softening length squared, more than zero.
        error: the largest acceptable relative error of the acceleration of a body, for the bodies of the table.
        quantile: the fraction of the bodies that ``error`` applies to: 0.5, 0.9, 0.99, or 1, all of them.
        toolkit: cupy, pycuda, numba or cpu. The default is the first of cupy and numba that is installed if there is a
            GPU, otherwise cpu; for CuPy arrays it is cupy.
        dtype: number type of the computation and the result: float32 or float64, as text or NumPy's type. The default
            is the faster one that is accurate enough and holds the numbers.
        table: a file that ``gravbench best RUN --save FILE`` wrote; by default one for an H200 and a 16-core host.
        return_choice: return what was used too.

    Returns:
        Accelerations, shape (n_i, 3), in a new array. With ``return_choice``, a pair of these and a ``Used``.

    Raises:
        InputError: an argument is not accepted, no variant is accurate enough, or no number type holds the numbers.
        ToolkitMissingError: the toolkit cannot be used here.
        ForkedError: the process was forked from one that had started Numba's threads or CUDA, and needs them.
    """
    dtype, eps2 = _number_type(dtype), _softening(eps2)
    _check_accuracy(error, quantile)
    arrays = _arrays(xj, mj, xi)
    on_device = is_cupy(arrays["xj"])
    with _one_at_a_time:  # a first call imports modules, which neither another thread nor a forked process may need
        by = _toolkit(toolkit, on_device=on_device)
        (forked.check_threads if by == CPU else forked.check_cuda)()
        known = _measured(table, by, of_two_sets="xi" in arrays)
    wanted = Wanted(known, by, DTYPES if dtype is None else (dtype,), _real(error), _real(quantile))
    scaled = units.scaled(arrays, eps2, on_device=on_device)
    result, used = _there(scaled, wanted) if on_device else _here(scaled, wanted)
    return (result, used) if return_choice else result


def _check_accuracy(error: Any, quantile: Any) -> None:
    if not _is_number(error) or not error > 0:
        raise InputError(f"error is {one_line(error)}; accepted: a number above 0")
    if not _is_number(quantile) or quantile not in QUANTILES:
        raise InputError(f"quantile is {one_line(quantile)}; accepted: {ACCEPTED_QUANTILES}")


def _arrays(xj: Any, mj: Any, xi: Any) -> dict[str, Any]:
    """Return the arrays of numbers by their names; no ``xi`` if it is the same bodies as ``xj``."""
    given = {"xj": xj, "mj": mj} if xi is None or xi is xj else {"xj": xj, "mj": mj, "xi": xi}
    arrays = {name: real_array(name, values) for name, values in given.items()}
    _check_together(arrays)
    return arrays


def _here(scaled: units.Scaled, wanted: Wanted) -> tuple[Any, Used]:
    """Compute for arrays on the host; say what was used."""
    held = [dtype for dtype in wanted.dtypes if scaled.is_held(dtype)]
    if not held:
        raise InputError(scaled.objection(wanted.dtypes[-1]))
    sets = scaled.arrays
    with _one_at_a_time:
        choice, dtype = _choose(wanted, held, len(sets["mj"]), Kind(sets["mj"], sets["xj"]))
        result = _computed(sets, scaled.eps2, wanted.toolkit, choice, dtype, on_device=False)
        faint = scaled.faint(dtype, result, wanted.error)
        if faint.any():
            result = _with_more_digits(result, faint, scaled, wanted, dtype, held[-1])
    result = scaled.restored(result, wanted.dtypes)
    return result, wanted.used(choice, dtype, len(sets["mj"]), result.dtype.name, int(faint.sum()))


def _with_more_digits(
    result: Any, faint: Any, scaled: units.Scaled, wanted: Wanted, dtype: Dtype, larger: Dtype
) -> Any:
    """Compute those bodies of a result in which numbers underflow again, in a larger number type.

    Raises:
        InputError: there is none, or numbers underflow in that too.
    """
    if larger == dtype:
        raise InputError(scaled.objection(dtype))
    sets = scaled.arrays
    pulled = sets.get("xi", sets["xj"])[faint]
    again = _between(sets["xj"], sets["mj"], pulled, scaled.eps2, wanted.toolkit, larger, on_device=False)
    if scaled.faint(larger, again, wanted.error).any():
        raise InputError(scaled.objection(larger))
    result = result.astype(again.dtype)
    result[faint] = again
    return result


def _there(scaled: units.Scaled, wanted: Wanted) -> tuple[Any, Used]:
    """Compute for arrays on the device, without waiting for it if a variant is prepared; say what is used."""
    sets, n = scaled.arrays, len(scaled.arrays["mj"])
    with _one_at_a_time:
        choice, dtype = _choose(wanted, wanted.dtypes, n, Kind())
        if choice and not is_for_any(discover()[choice.variant]):
            opened = _opened(wanted.toolkit, choice.variant, choice.dtype)
            choice, dtype = _choose(wanted, wanted.dtypes, n, _kind_there(opened, choice, sets, scaled.eps2))
        valid = scaled.is_held(dtype)
        if choice and not is_for_any(discover()[choice.variant]):
            valid = valid & (sets["mj"].min() >= 0)
        if choice:
            sets = scaled.or_line(valid)
        result = _computed(sets, scaled.eps2, wanted.toolkit, choice, dtype, on_device=True)
    return scaled.restored_there(result, dtype, valid, wanted.error), wanted.used(choice, dtype, n, dtype)


@dataclass(slots=True)
class _Seen:
    """What was found of bodies on the device when they were checked last; None before."""

    kind: Kind | None = None


@lru_cache(maxsize=KEPT)
def _seen(n: int, eps2: float, queue: Any) -> _Seen:  # noqa: ARG001 - these are what is kept for
    return _Seen()


def _kind_there(opened: DeviceToolkit, choice: Choice, sets: Mapping[str, Any], eps2: float) -> Kind:
    """Check bodies on the device before a choice that does not suit all is first used for so many; wait for it."""
    seen = _seen(len(sets["mj"]), eps2, opened.queue)
    if seen.kind is None or not seen.kind.suits(choice.variant, choice.axes):
        seen.kind = Kind(opened.download(sets["mj"]), opened.download(sets["xj"]), lasting=True)
    return seen.kind


def _choose(wanted: Wanted, dtypes: Sequence[Dtype], n: int, kind: Kind) -> tuple[Choice | None, Dtype]:
    """Return the fastest choice of the table that is right enough, and the number type.

    What the table does not have is None: the kernel for two sets, which is as right as every direct sum has to be.
    A table that has choices, but not this quantile of their errors, is refused.
    """
    known, quantile = wanted.known, wanted.quantile

    def able(quantile: float) -> list[tuple[Choice, float, float]]:
        return known.fitting(n, dtypes, equal_masses=kind.equal_masses, quantile=quantile) if known else []

    fitting = able(quantile)
    if not fitting and (there := [f"{other:g}" for other in QUANTILES if able(other)]):
        raise InputError(
            f"quantile is {quantile:g}: the table does not have it for {wanted.toolkit} in {' or '.join(dtypes)}; "
            f"accepted: {', '.join(there)}, or a table of newer records"
        )
    right = [
        (seconds, choice)
        for choice, its_error, seconds in fitting
        if its_error <= wanted.error and kind.suits(choice.variant, choice.axes)
    ]
    if right:
        choice = min(right, key=lambda pair: pair[0])[1]
        return choice, choice.dtype
    for dtype in dtypes:
        if DIRECT_SUM[dtype].max <= wanted.error:
            return None, dtype
    at = "" if quantile == LARGEST else f" at quantile {quantile:g}"
    least = min([*(DIRECT_SUM[dtype].max for dtype in dtypes), *(its_error for _, its_error, _ in fitting)])
    raise InputError(
        f"error is {wanted.error:g}{at}: no variant for {wanted.toolkit} in {' or '.join(dtypes)} is known to be this "
        f"accurate for {n:,} bodies; the smallest known error is {least:.1e}"
    )


def _computed(
    sets: Mapping[str, Any], eps2: float, toolkit: str, choice: Choice | None, dtype: Dtype, *, on_device: bool
) -> Any:
    """Compute the accelerations by a choice, or without one by the kernel for two sets."""
    if choice:
        return _among(sets["xj"], sets["mj"], eps2, toolkit, choice, on_device=on_device)
    xi = sets.get("xi", sets["xj"])
    return _between(sets["xj"], sets["mj"], xi, eps2, toolkit, dtype, on_device=on_device)


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
    return keeping_kernels(_open(toolkit, discover()[variant], dtype))


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
    found, _ = family(catalogue()[CUPY].family).devices()
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


def _real(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _number_type(dtype: Any) -> Any:
    """Return the name of a number type, which may be given as NumPy's; None as it is."""
    if isinstance(dtype, type | np.dtype):
        with suppress(TypeError):
            dtype = np.dtype(dtype).name
    _check_word("dtype", dtype, DTYPES)
    return dtype


def _softening(eps2: Any) -> float:
    """Return it as a float."""
    if not _is_number(eps2):
        raise InputError(f"eps2 is {one_line(eps2)}; accepted: a number")
    value = _real(eps2)
    if not (math.isfinite(value) and value > 0):
        raise InputError(f"eps2 is {value}; accepted: a finite number above 0")
    return value


def _check_together(arrays: Mapping[str, Any]) -> None:
    """Check that there is a mass for each position, and that all arrays are CuPy's, or none."""
    masses, bodies = len(arrays["mj"]), len(arrays["xj"])
    if masses != bodies:
        raise InputError(f"mj has {masses} masses for {bodies} positions xj; accepted: one mass per position")
    of_cupy = [name for name, array in arrays.items() if is_cupy(array)]
    if of_cupy not in ([], list(arrays)):
        raise InputError(
            f"of {', '.join(arrays)}, only {', '.join(of_cupy)} is on CuPy; accepted: all CuPy arrays, or none"
        )
