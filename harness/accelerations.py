"""Gravity as one call: of bodies on each other by the fastest variant known, or of one set on another (CUNBODY-1)."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gravbench.errors import InputError
from gravbench.model import units
from gravbench.model.array_likes import is_cupy, one_line
from gravbench.model.bodies import Bodies
from gravbench.model.crowds import Kind, is_for_any
from gravbench.model.device import CardKind
from gravbench.model.fork_lock import ForkLock
from gravbench.model.record import LARGEST, QUANTILES
from gravbench.model.toolkits import catalogue
from gravbench.model.variant import CPU, DIRECT_SUM, NUMBA, AxisValue, Dtype, Kernel, Prepared, Source, discover
from gravbench.toolkits import buffers, forked, parts
from gravbench.toolkits.devices import family
from gravbench.toolkits.host_arrays import Crossing, HostBodies
from gravbench.toolkits.interface import CudaToolkit, DeviceToolkit, ToolkitMissingError
from gravbench.toolkits.opening import keeping_kernels, open_toolkit
from gravbench.toolkits.parts import BLOCK, Part
from gravbench.toolkits.row_sums import RowSums
from gravbench.toolkits.staging import Staging
from gravbench.verdicts import arguments, fastest, promise, used
from gravbench.verdicts.fastest import Choice, Measured
from gravbench.verdicts.promise import Sample
from gravbench.verdicts.question import ERROR
from gravbench.verdicts.used import Checked, Laps, Used, Wanted

CUPY = "cupy"

KEPT = 8
"""Sizes, softenings and variants for which arrays stay allocated, those used last."""

REMEMBERED = 64
"""Sizes, softenings and questions for which it is remembered which choices kept their promise."""

FEW = 4096
"""Bodies up to which the host finds their extent, and if no check needs them as they are, converts them: it takes less
time than kernels and a wait for them."""

PATIENCE = 10
"""How many times the seconds of those choices that were left pass, by the table, before they are tried again."""

PAIRS_PER_SECOND = {"float32": 1e11, "float64": 5e10}
"""What the kernel for two sets, which is in no table, is taken to compute there."""

_one_at_a_time = ForkLock()
_last = threading.local()


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
    checked: bool = True,
    return_choice: bool = False,
) -> Any:
    """Add up what bodies j contribute at bodies i: a_i = sum of m_j (x_j - x_i) / (|x_j - x_i|^2 + eps2)^(3/2), G = 1.

    Lengths and masses may have any unit. Threads wait for one another (with PyCUDA, only the first may call it). A body
    in both sets does not pull itself. Of all that ``np.asarray`` makes real numbers of, the result is a NumPy array.
    CuPy arrays stay on their device, as does the result: NaN where a number is not finite or leaves its type. What is
    not ``checked``, and a direct sum in float64, is queued. docs/how-to/choose.md says what a first call waits for.

    The table's errors are those of Plummer spheres with bodies rounded to float32. So each call checks all but direct
    sums in float64: 128 to 1,024 random accelerations (fewer of more bodies) are compared with direct sums in float64
    of the bodies as they are given. For quantile 1, a GPU compares all of up to 32,768 bodies; of more, half of those
    compared have the least accelerations. A choice is kept if so few exceed ``error`` that this would happen in one of
    a hundred samples of bodies of which a fraction ``quantile`` is just within it (binomial; for 1, if none does, with
    the cube root of the bodies for each compared as a margin). Else it computes again and compares up to eight times as
    many others. If these refute it, the next more accurate one follows, at last float64; calls begin there for a while.

    Args:
        xj: positions of the bodies that pull, shape (n_j, 3).
        mj: their masses, shape (n_j,).
        xi: positions of the bodies that are pulled, shape (n_i, 3). None: the same bodies.
        eps2: softening length squared, more than zero.
        error: the largest acceptable relative error of the acceleration of a body, as rounded to the number type.
        quantile: the fraction of the bodies that ``error`` applies to: 0.5, 0.9, 0.99, or 1, all of them.
        toolkit: cupy, pycuda, numba or cpu; by default cupy or else numba if there is a GPU and it is installed.
        dtype: float32 or float64, as text or NumPy's type; by default the faster that is accurate enough and holds all.
        table: a file that ``gravbench best RUN --save FILE`` wrote; by default that of the card most like this one.
        checked: check a sample of the bodies, and for CuPy arrays wait for it. False trusts the table.
        return_choice: return what was used too, which ``last_force`` also returns.

    Returns:
        Accelerations, shape (n_i, 3), in a new array. With ``return_choice``, a pair of these and a ``Used``.

    Raises:
        InputError: an argument is not accepted, no variant is accurate enough, or no number type holds the numbers.
        ToolkitMissingError: the toolkit cannot be used here.
        ForkedError: the process was forked from one that had started Numba's threads or CUDA, and needs them.
    """
    laps = Laps()
    dtype, eps2 = arguments.number_type(dtype), arguments.softening(eps2)
    accuracy = arguments.accuracy(error, quantile)
    arguments.check_truth("checked", checked)
    arrays = arguments.arrays(xj, mj, xi)
    on_device = is_cupy(arrays["xj"])
    known = _from_table(table, toolkit, on_device=on_device, of_two_sets="xi" in arrays)
    wanted = Wanted(*known, arguments.DTYPES if dtype is None else (dtype,), *accuracy, eps2, checked=checked)
    result, _last.used = (_there if on_device else _here)(arrays, wanted, laps)
    return (result, _last.used) if return_choice else result


def _from_table(
    table: Any, toolkit: Any, *, on_device: bool, of_two_sets: bool
) -> tuple[Measured | None, CardKind | None, str]:
    """Return what the table has of the toolkit, the device, and the toolkit."""
    with _one_at_a_time:  # a first call imports modules, which neither another thread nor a forked process may need
        by = _toolkit(toolkit, on_device=on_device)
        (forked.check_threads if by == CPU else forked.check_cuda)()
        here = family(catalogue()[by].family).card()
        return _measured(table, by, here, of_two_sets=of_two_sets), here, by


def last_force() -> Used:
    """Return what the last call of ``force`` in this thread used; printed, it says so in words.

    Raises:
        InputError: this thread has not called ``force``.
    """
    if not hasattr(_last, "used"):
        raise InputError("last_force: this thread has not called force yet; accepted: a call of force before it")
    latest: Used = _last.used
    return latest


@dataclass(slots=True)
class _Memory:
    """What calls of one size, softening and question remember.

    ``below``: the errors that choices of ``known`` have to be below, since larger ones did not keep their promise.
    ``below_in_float32``: those that choices in float32 have to be below, after a direct sum in float32 did not.
    ``left_seconds``: what it takes to find that out again, ``seconds`` what was computed since took, both by the table.
    """

    known: Measured | None
    below: float = math.inf
    below_in_float32: float = math.inf
    left_seconds: float = 0.0
    seconds: float = 0.0
    fitting: dict[Any, list[tuple[Choice, float, float]]] = field(default_factory=dict)
    generator: np.random.Generator = field(default_factory=lambda: np.random.default_rng(1))

    def below_in(self, dtype: Dtype) -> float:
        return min(self.below, self.below_in_float32) if dtype == "float32" else self.below

    @property
    def is_narrowed(self) -> bool:
        """Whether a choice was left."""
        return math.isfinite(self.below) or math.isfinite(self.below_in_float32)

    def try_again(self) -> None:
        """Take back which choices were left if that takes little time beside that since: bodies may be others now."""
        if self.seconds > PATIENCE * self.left_seconds:
            self.forget()

    def forget(self) -> None:
        """Forget which choices were left."""
        self.below = self.below_in_float32 = math.inf
        self.left_seconds = self.seconds = 0.0

    def leave(self, choice: Choice | None, sample: Sample, wanted: Wanted, n: int) -> None:
        """Leave a choice that a sample refutes, and those that would be, too.

        Where contributions cancel, or positions lose digits, the errors of all direct sums grow by about the same
        factor. So with a direct sum, others in float32 are left unless they are as much more accurate as it has to be.
        """
        its_error = 0.0
        if choice:
            self.below = its_error = wanted.of_table(choice, n)[0]
        if choice is None or _is_direct(choice, choice.dtype):
            self.below_in_float32 = its_error * (wanted.error / max(wanted.error, sample.error))


@lru_cache(maxsize=REMEMBERED)
def _memory(n: int, question: tuple[Any, ...], known: int) -> _Memory:  # noqa: ARG001 - these are what is kept for
    return _Memory(None)


def _remembered(wanted: Wanted, n: int) -> _Memory:
    memory = _memory(n, wanted.question, id(wanted.known))
    if memory.known is not wanted.known:  # which was freed, and another has its place
        memory.known, memory.fitting = wanted.known, {}
        memory.forget()
    return memory


@dataclass(slots=True)
class _Answer:
    """What was computed last, and what checks found, the last one of it."""

    result: Any
    choice: Choice | None
    dtype: Dtype
    checks: list[Checked]


def _answered(
    wanted: Wanted,
    scaled: units.Scaled,
    laps: Laps,
    choose: Callable[[_Memory], tuple[Choice | None, Dtype]],
    compute: Callable[[Choice | None, Dtype, NDArray[np.int64] | None], Any],
    check: Callable[[Choice | None, Dtype, Any, NDArray[np.int64]], Sample | None],
) -> _Answer:
    """Compute by one choice after another, until one keeps its promise."""
    memory, checks = _remembered(wanted, scaled.n), list[Checked]()
    memory.try_again()
    while True:
        try:
            choice, dtype = choose(memory)
        except InputError:
            # What other bodies refuted says nothing of these.
            if checks or not memory.is_narrowed:
                raise
            memory.forget()
            continue
        laps.lap(used.CHOOSING)
        seconds = _seconds_by_table(wanted, scaled, choice, dtype)
        if not _is_checked(wanted, choice, dtype):
            memory.seconds += seconds
            return _Answer(compute(choice, dtype, None), choice, dtype, checks)
        pairs = _pairs(wanted.toolkit, scaled, of_direct=_is_direct(choice, dtype))
        random = promise.at_random(len(scaled.pulled), pairs, wanted.quantile, memory.generator)
        result = compute(choice, dtype, random)
        rows = promise.with_least(
            random, result.there if isinstance(result, Crossing) else result, pairs, wanted.quantile
        )
        sample = check(choice, dtype, result, rows)
        laps.lap(used.CHECK)
        if sample and sample.refutes and choice and not _is_direct(choice, dtype):
            # Some trees open cells by the accelerations of the call before, which may have had other bodies; and few
            # rows refute what holds with little to spare.
            if wanted.quantile < LARGEST:
                slower = _seconds_of_next(wanted, scaled.n, choice, sample, memory, choose) - seconds
                more = slower > promise.seconds_of_more(scaled.n, pairs, wanted.quantile)
                rows = random = promise.at_random(scaled.n, pairs, wanted.quantile, memory.generator, more=more)
            result = compute(choice, dtype, random)
            sample = check(choice, dtype, result, rows)
            laps.lap(used.CHECK)
        if sample:
            checks.append(Checked(used.name_of(choice, wanted.toolkit, dtype), sample))
        if sample is None or not sample.refutes:
            memory.seconds += seconds
            return _Answer(result, choice, dtype, checks)
        memory.left_seconds += 2 * seconds
        memory.leave(choice, sample, wanted, scaled.n)


def _seconds_by_table(wanted: Wanted, scaled: units.Scaled, choice: Choice | None, dtype: Dtype) -> float:
    """Return the seconds of a choice in the table, or those that the kernel for two sets is taken to need."""
    if choice:
        return wanted.of_table(choice, scaled.n)[1]
    return scaled.n * len(scaled.pulled) / PAIRS_PER_SECOND[dtype]


def _seconds_of_next(
    wanted: Wanted,
    n: int,
    choice: Choice,
    sample: Sample,
    memory: _Memory,
    choose: Callable[[_Memory], tuple[Choice | None, Dtype]],
) -> float:
    """Return the seconds of what follows a choice by the table; infinite where that is not known."""
    after = replace(memory)
    after.leave(choice, sample, wanted, n)
    try:
        following, _ = choose(after)
    except InputError:
        return math.inf
    return wanted.of_table(following, n)[1] if following else math.inf


def _pairs(toolkit: str, scaled: units.Scaled, *, of_direct: bool) -> int:
    """Return for how many pairs of bodies i a check has time: on a GPU by a kernel of CuPy's, otherwise on the host.

    The latter takes far longer over a pair in float64 than over one in float32: of a direct sum it has few.
    """
    if toolkit == CUPY:
        pairs = 2 * promise.PAIRS_ON_DEVICE // _part_of_cuda(CUPY, "force_on_rows").float32_to_float64
    else:
        pairs = 0 if of_direct else promise.PAIRS_ON_HOST
    return pairs * len(scaled.pulled) // scaled.n


def _is_direct(choice: Choice | None, dtype: Dtype) -> bool:
    """Tell whether a choice, or without one the kernel for two sets, errs by nothing but rounding to a number type."""
    return choice is None or discover()[choice.variant].accepted(dtype, choice.axes).of_rounding


def _is_checked(wanted: Wanted, choice: Choice | None, dtype: Dtype) -> bool:
    """Tell whether a sample of what a choice computes is compared: of all but direct sums in float64."""
    return wanted.checked and not (dtype == "float64" and _is_direct(choice, dtype))


def _here(arrays: Mapping[str, Any], wanted: Wanted, laps: Laps) -> tuple[Any, Used]:
    """Compute for arrays on the host; say what was used."""
    given = units.native(arrays)
    with _one_at_a_time:
        bodies = _sent(given, wanted, laps)
        scaled = units.scaled_here(given, wanted.eps2, bodies.extent if bodies else None)
        if bodies:
            bodies.scale(scaled)
        held = tuple(dtype for dtype in wanted.dtypes if scaled.is_held(dtype))
        if not held:
            raise InputError(scaled.objection(wanted.dtypes[-1]))
        kind = Kind(given["mj"], given["xj"], scaled.extent)
        answer = _answered(
            wanted,
            scaled,
            laps,
            lambda memory: _choose(wanted, held, scaled.n, kind, memory),
            lambda choice, dtype, random: _computed_here(scaled, bodies, random, wanted.toolkit, choice, dtype, laps),
            lambda choice, dtype, result, rows: _sample(
                scaled, wanted, choice, dtype, rows, result, laps, bodies=bodies
            ),
        )
        result, in_float64 = _restored(answer.result, scaled, wanted, answer.dtype, held[-1])
    laps.lap(used.COPYING_BACK)
    return result, wanted.used(
        answer.choice, answer.dtype, scaled.n, result.dtype.name, in_float64, checks=answer.checks, laps=laps
    )


def _sent(given: Mapping[str, Any], wanted: Wanted, laps: Laps) -> HostBodies | None:
    """Copy bodies to the device as they are; None where the host converts them first."""
    n = len(given["mj"])
    if wanted.toolkit != CUPY or wanted.known is None or (n <= FEW and not wanted.checked):
        return None
    bodies = _host_bodies(n, _part_of_cuda(CUPY, "lay_out_bodies").queue)
    (bodies.copy if n <= FEW else bodies.send)(given["xj"], given["mj"])
    laps.lap(used.COPYING_THERE)
    return bodies


@lru_cache(maxsize=KEPT)
def _host_bodies(n: int, queue: Any) -> HostBodies:  # noqa: ARG001 - two queues must not share arrays
    return HostBodies(_part_of_cuda(CUPY, "lay_out_bodies"), n)


def _restored(computed: Any, scaled: units.Scaled, wanted: Wanted, dtype: Dtype, larger: Dtype) -> tuple[Any, int]:
    """Return accelerations in the caller's units in a new array, and how many were computed in ``larger`` again."""
    if isinstance(computed, Crossing):
        rows = computed.rows()
        if computed.is_in_units:
            return rows, 0
        computed = rows
    faint = scaled.faint(dtype, computed, wanted.error)
    if faint is not None:
        computed = _with_more_digits(computed, faint, scaled, wanted, dtype, larger)
    return scaled.restored(computed, wanted.dtypes), 0 if faint is None else int(faint.sum())


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
    again = _between(scaled, sets.get("xi", sets["xj"])[faint], wanted.toolkit, larger, on_device=False)
    if scaled.faint(larger, again, wanted.error) is not None:
        raise InputError(scaled.objection(larger))
    result = result.astype(again.dtype)
    result[faint] = again
    return result


def _there(arrays: Mapping[str, Any], wanted: Wanted, laps: Laps) -> tuple[Any, Used]:
    """Compute for arrays on the device, and wait for it to prepare a variant or to check a sample; say what is used."""
    scaled = units.scaled(arrays, wanted.eps2, on_device=True)

    @cache
    def is_held(dtype: Dtype, *, of_any_mass: bool) -> Any:
        held = scaled.is_held(dtype)
        return held if of_any_mass else held & (scaled.arrays["mj"].min() >= 0)

    def valid(choice: Choice | None, dtype: Dtype) -> Any:
        return is_held(dtype, of_any_mass=choice is None or _is_for_any(choice))

    with _one_at_a_time:
        answer = _answered(
            wanted,
            scaled,
            laps,
            lambda memory: _choose_there(scaled, wanted, memory),
            lambda choice, dtype, _: _computed_there(scaled, wanted, choice, dtype, valid(choice, dtype), laps),
            lambda choice, dtype, result, rows: _sample(
                scaled, wanted, choice, dtype, rows, result, laps, valid=valid(choice, dtype)
            ),
        )
        choice, dtype = answer.choice, answer.dtype
        result = scaled.restored_there(answer.result, dtype, valid(choice, dtype), wanted.error)
    return result, wanted.used(choice, dtype, scaled.n, dtype, checks=answer.checks, laps=laps)


def _is_for_any(choice: Choice) -> bool:
    return is_for_any(discover()[choice.variant])


def _choose_there(scaled: units.Scaled, wanted: Wanted, memory: _Memory) -> tuple[Choice | None, Dtype]:
    """Choose for arrays on the device: for what does not suit all bodies, look at these unless some did suit it."""
    choice, dtype = _choose(wanted, wanted.dtypes, scaled.n, Kind(), memory)
    if choice is None or _is_for_any(choice):
        return choice, dtype
    opened = _opened(wanted.toolkit, choice.variant, choice.dtype)
    return _choose(wanted, wanted.dtypes, scaled.n, _kind_there(opened, choice, scaled), memory)


@dataclass(slots=True)
class _Seen:
    """What was found of bodies on the device when they were checked last; None before."""

    kind: Kind | None = None


@lru_cache(maxsize=KEPT)
def _seen(n: int, eps2: float, queue: Any) -> _Seen:  # noqa: ARG001 - these are what is kept for
    return _Seen()


def _kind_there(opened: DeviceToolkit, choice: Choice, scaled: units.Scaled) -> Kind:
    """Check bodies on the device before a choice that does not suit all is first used for so many; wait for it."""
    seen, sets = _seen(scaled.n, scaled.eps2, opened.queue), scaled.arrays
    if seen.kind is None or not seen.kind.suits(choice.variant, choice.axes):
        with np.errstate(invalid="ignore"):
            seen.kind = Kind(opened.download(sets["mj"]), opened.download(sets["xj"]), lasting=True)
    return seen.kind


def _choose(
    wanted: Wanted, dtypes: Sequence[Dtype], n: int, kind: Kind, memory: _Memory
) -> tuple[Choice | None, Dtype]:
    """Return the fastest choice of the table that is right enough, and the number type.

    What the table does not have is None: the kernel for two sets, which is as right as every direct sum has to be.
    A table that has choices, but not this quantile of their errors, is refused.
    """
    known, quantile = wanted.known, wanted.quantile

    def able(quantile: float) -> list[tuple[Choice, float, float]]:
        key = tuple(dtypes), kind.equal_masses, quantile
        if key not in memory.fitting:
            fitting = known.fitting(n, dtypes, equal_masses=kind.equal_masses, quantile=quantile) if known else []
            memory.fitting[key] = sorted(fitting, key=lambda entry: entry[2])
        return memory.fitting[key]

    fitting = able(quantile)
    if not fitting and (there := [f"{other:g}" for other in QUANTILES if able(other)]):
        raise InputError(
            f"quantile is {quantile:g}: the table does not have it for {wanted.toolkit} in {' or '.join(dtypes)}; "
            f"accepted: {', '.join(there)}, or a table of newer records"
        )
    for choice, its_error, _ in fitting:
        is_below = its_error <= wanted.error and its_error < memory.below_in(choice.dtype)
        if is_below and kind.suits(choice.variant, choice.axes):
            return choice, choice.dtype
    for dtype in dtypes:
        if DIRECT_SUM[dtype].max <= wanted.error and (dtype == "float64" or memory.below_in_float32 == math.inf):
            return None, dtype
    at = "" if quantile == LARGEST else f" at quantile {quantile:g}"
    if memory.below_in("float32") < math.inf:
        raise InputError(
            f"error is {wanted.error:g}{at}: a sample of the {n:,} bodies shows larger errors, and the table has "
            f"no more accurate variant for {wanted.toolkit} in {' or '.join(dtypes)}; accepted: a larger error, or "
            f"another dtype"
        )
    least = min([*(DIRECT_SUM[dtype].max for dtype in dtypes), *(its_error for _, its_error, _ in fitting)])
    raise InputError(
        f"error is {wanted.error:g}{at}: no variant for {wanted.toolkit} in {' or '.join(dtypes)} is known to be this "
        f"accurate for {n:,} bodies; the smallest known error is {least:.1e}"
    )


def _computed_here(
    scaled: units.Scaled,
    bodies: HostBodies | None,
    random: NDArray[np.int64] | None,
    toolkit: str,
    choice: Choice | None,
    dtype: Dtype,
    laps: Laps,
) -> Any:
    """Compute by a choice, or without one by the kernel for two sets; what the next call may write over.

    For ``bodies`` on the device, what ``random`` ones are compared with is added up there afterwards.
    """
    if choice:
        return _among(scaled, toolkit, choice, laps, bodies=bodies, random=random)
    result = _between(scaled, None, toolkit, dtype, on_device=False)
    laps.lap(used.EVALUATION)
    return result


def _computed_there(
    scaled: units.Scaled, wanted: Wanted, choice: Choice | None, dtype: Dtype, valid: Any, laps: Laps
) -> Any:
    """Compute on the device by a choice, or without one by the kernel for two sets."""
    waits = _is_checked(wanted, choice, dtype)
    if choice is None:
        result = _between(scaled, None, wanted.toolkit, dtype, on_device=True)
        if waits:
            _wait(_part(wanted.toolkit, dtype)[0])
        laps.lap(used.EVALUATION if waits else used.QUEUEING)
        return result
    return _among(scaled, wanted.toolkit, choice, laps, valid=valid, on_device=True, waits=waits)


def _among(
    scaled: units.Scaled,
    toolkit: str,
    choice: Choice,
    laps: Laps,
    *,
    bodies: HostBodies | None = None,
    random: NDArray[np.int64] | None = None,
    valid: Any = None,
    on_device: bool = False,
    waits: bool = True,
) -> Any:
    """Compute by a variant, and keep what it has prepared; return accelerations, shape (n, 3).

    Those of arrays on the host may be written over by the next call; of ``bodies``, they are still on the device. Of
    arrays on the device, they are all NaN unless ``valid``, a truth value there, and a variant that has not been
    prepared yet sees none.
    """
    opened = _opened(toolkit, choice.variant, choice.dtype)
    if discover()[choice.variant].on_host:
        forked.check_threads()
    kept = _kept_for(opened, choice, scaled)
    if kept.prepared is None:
        if on_device and not opened.download(valid):
            return opened.upload(np.full((scaled.n, 3), np.nan))
        kept.prepared = _prepared(opened, choice, scaled, on_device=on_device)
        laps.lap(used.PREPARING)
    if on_device:
        return _launched_there(opened, kept.prepared, scaled.or_line(valid), laps, waits=waits)
    if bodies and not kept.prepared.on_host:
        return _launched_across(opened, kept, scaled, bodies, random, laps)
    return _launched_here(opened, kept, scaled, laps)


def _prepared(opened: DeviceToolkit, choice: Choice, scaled: units.Scaled, *, on_device: bool) -> Prepared:
    """Prepare a variant with the bodies given: some launch then, and make room for what they find."""
    sets = scaled.arrays
    position, mass = (opened.download(sets[name]) if on_device else sets[name] for name in ("xj", "mj"))
    bodies = Bodies(abs(mass), position, np.zeros_like(position), math.sqrt(scaled.eps2))
    return discover()[choice.variant].prepare(opened, bodies, **choice.axes)


def _launched_across(
    opened: DeviceToolkit,
    kept: _Kept,
    scaled: units.Scaled,
    bodies: HostBodies,
    random: NDArray[np.int64] | None,
    laps: Laps,
) -> Crossing:
    """Launch for bodies that were copied to the device, and return what brings the accelerations back."""
    assert kept.prepared is not None
    part = _part_of_cuda(CUPY, "lay_out_bodies")
    crossing = kept.crossing = kept.crossing or Crossing(part, kept.prepared, opened.real, scaled.n)
    crossing.lay_out(bodies)
    crossing.launch(scaled, opened.dtype)
    if random is not None:  # beside the copies of the result; beside a tree, they would take the room of its blocks
        _row_sums(opened.queue, beside=True).queue(*bodies.there, scaled.of_pulled(random), scaled.eps2)
    crossing.end(scaled, opened.dtype)
    laps.lap(used.EVALUATION)
    return crossing


def _launched_here(opened: DeviceToolkit, kept: _Kept, scaled: units.Scaled, laps: Laps) -> Any:
    """Write bodies of the host, launch, and return what was found as rows on the host."""
    prepared = kept.prepared
    assert prepared is not None
    on_host = prepared.on_host or opened.name == CPU
    if on_host:
        scaled.fill(prepared.bodies)
    elif isinstance(opened, CudaToolkit) and opened.queues_copies:
        kept.staging = kept.staging or Staging(opened, prepared)
        kept.staging.send(scaled)
    else:
        buffers.write_bodies(opened, prepared, buffers.host_rows(opened, prepared, scaled))
    laps.lap(used.COPYING_THERE)
    prepared.launch()
    if kept.staging:
        sums = _rows(kept.staging.fetch())
        laps.lap(used.EVALUATION)
        return sums
    if not on_host:
        opened.synchronize()
    laps.lap(used.EVALUATION)
    if on_host:
        return _rows(prepared.accelerations)
    sums = buffers.sums(opened, prepared)
    laps.lap(used.COPYING_BACK)
    return sums


def _launched_there(opened: DeviceToolkit, prepared: Prepared, scaled: units.Scaled, laps: Laps, *, waits: bool) -> Any:
    """Write bodies of the device, launch, and return what was found as rows in a new array on the device."""
    sets = scaled.arrays
    position, mass = (opened.download(sets[name]) if prepared.on_host else sets[name] for name in ("xj", "mj"))
    buffers.fill(prepared.bodies, position, mass)
    prepared.launch()
    sums = buffers.sums_there(opened, prepared)
    if waits:
        _wait(opened)
    laps.lap(used.EVALUATION if waits else used.QUEUEING)
    return opened.upload(sums) if prepared.on_host else sums


def _wait(opened: DeviceToolkit) -> None:
    """Wait for what this call has launched."""
    if isinstance(opened, CudaToolkit) and opened.queues_copies:
        opened.wait(None)
    else:
        opened.synchronize()


def _rows(sums: Any) -> Any:
    """Return accelerations as rows, shape (n, 3), of arrays of the host in the layout of a variant."""
    return np.stack(sums, axis=1) if isinstance(sums, tuple) else sums[:, :3]


def _sample(
    scaled: units.Scaled,
    wanted: Wanted,
    choice: Choice | None,
    dtype: Dtype,
    rows: NDArray[np.int64],
    result: Any,
    laps: Laps,
    *,
    bodies: HostBodies | None = None,
    valid: Any = None,
) -> Sample | None:
    """Compare ``rows`` of what was computed with sums in float64, and wait; None where nothing is right.

    The sums are those of the bodies as they were given, which a kernel in float32 has rounded. ``result`` is on the
    host, or copied there meanwhile, unless there is ``valid``, a truth value on the device. Bodies of which underflow
    may lose more than the error are left out: they are computed again in float64, or NaN.
    """
    opened = _opened(wanted.toolkit, choice.variant, dtype) if choice else _part(wanted.toolkit, dtype)[0]
    on_device = valid is not None
    if on_device and not opened.download(valid):
        return None
    if isinstance(result, Crossing):
        assert bodies is not None
        computed, exact = _sums_across(scaled, opened.queue, bodies, result, rows, laps)
    elif isinstance(opened, CudaToolkit) and opened.queues_copies:
        sums = _queued_sums(scaled, opened.queue, bodies, rows, on_device=on_device)
        computed = opened.download(result[rows]) if on_device else result[rows]
        exact = sums.wait()
    else:
        computed = opened.download(result[rows]) if on_device else result[rows]
        exact = _exact_on_host(scaled, opened, rows, on_device=on_device)
    lost = scaled.lost(dtype)
    if lost := float(opened.download(lost) if on_device else lost):
        is_left = ~units.is_faint(dtype, computed, lost, wanted.error)
        computed, exact = computed[is_left], exact[is_left]
    if not len(computed):
        return None
    return promise.judged(computed, exact, len(scaled.pulled), wanted.error, wanted.quantile)


def _sums_across(
    scaled: units.Scaled, queue: Any, bodies: HostBodies, result: Crossing, rows: NDArray[np.int64], laps: Laps
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Copy a result to the host; return ``rows`` of it, and in float64, of which the first are being added up."""
    sums = [_row_sums(queue, beside=True)]
    rest = rows[sums[0].count :]
    if len(rest):
        sums.append(_queued_sums(scaled, queue, bodies, rest, on_device=False))
    result.copy()
    laps.lap(used.COPYING_BACK)
    return result.sample(rows), np.concatenate([these.wait() for these in sums])


def _queued_sums(
    scaled: units.Scaled, queue: Any, bodies: HostBodies | None, rows: NDArray[np.int64], *, on_device: bool
) -> RowSums:
    """Queue sums in float64 for some bodies on a GPU, and before them a copy of the bodies where none is there."""
    sums, pulled = _row_sums(queue, beside=False), scaled.of_pulled(rows)
    if on_device:
        upload, sets = _part_of_cuda(CUPY, "force_on_rows").upload, scaled.arrays
        sums.queue(upload(sets["xj"]), upload(sets["mj"]), upload(pulled), scaled.eps2)
        return sums
    if bodies is None:
        bodies = _host_bodies(scaled.n, queue)
        bodies.copy(scaled.given["xj"], scaled.given["mj"])
        bodies.scale(scaled)
    sums.queue(*bodies.there, pulled, scaled.eps2)
    return sums


@lru_cache(maxsize=2 * KEPT)
def _row_sums(queue: Any, *, beside: bool) -> RowSums:  # noqa: ARG001 - two queues must not share arrays
    return RowSums(_part_of_cuda(CUPY, "force_on_rows"), promise.ROWS_ON_DEVICE, beside=beside)


def _exact_on_host(
    scaled: units.Scaled, opened: DeviceToolkit, rows: NDArray[np.int64], *, on_device: bool
) -> NDArray[np.float64]:
    """Return sums in float64 for some bodies by the host's kernel for two sets."""
    forked.check_threads()
    host, kernel = _part(CPU, "float64")
    given = scaled.arrays["xj"], scaled.arrays["mj"], scaled.of_pulled(rows)
    xj, mj, xi = (np.ascontiguousarray(opened.download(array) if on_device else array) for array in given)
    result = np.empty((len(xi), 3))
    parts.launch(
        host, kernel, len(xi), xj, mj, xi, result, np.int32(len(xj)), np.int32(len(xi)), np.float64(scaled.eps2)
    )
    return result


def _between(scaled: units.Scaled, pulled: Any, toolkit: str, dtype: Dtype, *, on_device: bool) -> Any:
    """Compute by the kernel for two sets: on ``pulled``, or on all bodies that are to be pulled."""
    opened, kernel = _part(toolkit, dtype)
    sets = scaled.arrays
    xj, mj, xi = sets["xj"], sets["mj"], sets.get("xi", sets["xj"]) if pulled is None else pulled
    result = opened.empty(len(xi), 3)
    own = [opened.upload(array) for array in (xj, mj, xi)]
    sizes = np.int32(len(xj)), np.int32(len(xi))
    parts.launch(opened, kernel, len(xi), *own, result, *sizes, opened.real(scaled.eps2))
    return result if on_device else opened.download(result)


@cache
def _part(toolkit: str, dtype: Dtype) -> tuple[DeviceToolkit, Kernel]:
    """Compile once per process."""
    opened = _open(toolkit, Part("force_between"), dtype)
    return opened, opened.compile("force_between", P=BLOCK)


@cache
def _part_of_cuda(toolkit: str, stem: str) -> CudaToolkit:
    """Open once per process a part that computes in float64, with CUDA's own primitives."""
    opened = _open(toolkit, Part(stem), "float64")
    assert isinstance(opened, CudaToolkit)
    keeping_kernels(opened)
    return opened


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
    """What a variant has prepared, None before its first bodies, and arrays beside it that were needed for it."""

    prepared: Prepared | None = None
    staging: Staging | None = None
    crossing: Crossing | None = None


def _kept_for(opened: DeviceToolkit, choice: Choice, scaled: units.Scaled) -> _Kept:
    return _kept(opened, choice.variant, tuple(choice.axes.items()), scaled.n, scaled.eps2, opened.queue)


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
    arguments.check_word("toolkit", toolkit, [name for name, entry in catalogue().items() if entry.in_force])
    if not on_device:
        return toolkit or _default()
    if toolkit not in (None, CUPY):
        raise InputError(f"toolkit is {toolkit}, but the arrays are CuPy arrays; accepted: cupy, or NumPy arrays")
    return CUPY


def _measured(table: Any, toolkit: str, here: CardKind | None, *, of_two_sets: bool) -> Measured | None:
    """Return what the table has of a toolkit; nothing for two sets, for which a table is only checked."""
    if table is not None and not isinstance(table, str | Path):
        raise InputError(f"table is {one_line(table)}; accepted: the path of a file, as text or a Path")
    if of_two_sets and table is None:
        return None
    known = fastest.of_nearest(toolkit, here) if table is None else fastest.read(Path(table)).of(toolkit)
    return None if of_two_sets else known
