"""Bring positions, masses and a softening length to a scale of about 1, and accelerations back.

Kernels compute r^-3, which leaves float32 in many units: metres and kilograms, parsecs and grams. Lengths and masses
are therefore divided by powers of two, and accelerations multiplied by one. That is exact, so results have the same
bits in any unit in which no number over- or underflows. Positions far from the origin would lose digits in float32:
they are computed relative to the first body where that is exact.

A mass unit and the numbers made of it may be scalars on a device, which nothing here waits for.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, reduce
from itertools import chain
from typing import Any

import numpy as np

from gravbench.errors import InputError
from gravbench.model.array_likes import WHAT
from gravbench.model.blocks import in_blocks
from gravbench.model.variant import DIRECT_SUM, Dtype

LEAST_EPS, MOST_EPS = 2.0**-29, 2.0**10
"""Softening lengths that kernels are given, in units of length; the first is above ``SMALLEST_EPS`` of ``Bodies``."""

USUAL_EPS = 2.0**-10
"""The softening length, but for a factor of two, unless positions ask for another: what is prepared for one softening
length serves all positions that are ``NEAR`` 1 in this unit."""
NEAR = 2.0**-10, 2.0**10

FEW, WIDE = 4096, 256
"""Positions beyond which their columns are slower to compare than rows side by side, and so many of these."""


_numbers = cache(np.finfo)
"""What there is to know of a number type, which NumPy makes anew for each question."""


@dataclass(frozen=True, slots=True)
class Extent:
    """What one pass over positions and masses finds; NaN where one of them is.

    ``least`` and ``most`` are the corners of the positions, shape (3,), and ``smallest`` and ``largest`` masses.
    ``lightest`` is the least absolute value of a mass but zero, infinite if there is none.
    """

    least: Any
    most: Any
    smallest: float
    largest: float
    lightest: float


@dataclass(frozen=True)
class Scaled:
    """Positions and masses, and what brings them to units of about 1: (position - origin) / length, mass / mass unit.

    ``spread`` is the largest coordinate relative to the first body, ``heaviest`` the largest absolute value of a mass
    and ``lightest`` the smallest but zero, in these units, as is ``eps2``. They and ``mass`` are scalars on the device
    for arrays that are there. ``origin`` is None where it is zero. ``extent`` is that of bodies j on the host, as they
    were given.
    """

    given: Mapping[str, Any]
    origin: Any
    eps2: float
    length: float
    mass: Any
    spread: Any
    heaviest: Any
    lightest: Any
    extent: Extent | None = None

    @property
    def n(self) -> int:
        """The bodies that pull."""
        return len(self.given["mj"])

    @property
    def pulled(self) -> Any:
        """The positions of the bodies that are pulled, as they were given."""
        return self.given.get("xi", self.given["xj"])

    def of_pulled(self, rows: Any) -> Any:
        """Return the positions of some bodies that are pulled, in these units, as float64."""
        return self._scaled("xi", self.pulled[rows].astype(np.float64, copy=False))

    @cached_property
    def arrays(self) -> dict[str, Any]:
        """Positions and masses in these units, as float64."""
        with np.errstate(over="ignore", invalid="ignore"):
            return {
                name: self._scaled(name, array.astype(np.float64, copy=False)) for name, array in self.given.items()
            }

    def _scaled(self, name: str, array: Any) -> Any:
        if name == "mj":
            return array / self.mass
        return (array if self.origin is None else array - self.origin) * (1 / self.length)

    def fill(self, arrays: Any) -> None:
        """Write positions xj and masses in these units, in one pass, into host arrays of a variant: rows or columns."""
        columns = arrays if isinstance(arrays, tuple) else tuple(arrays.T)
        positions, masses, factor = self.given["xj"], self.given["mj"], 1 / self.length

        def write(part: slice) -> None:
            with np.errstate(over="ignore", under="ignore", invalid="ignore"):
                for axis in range(3):
                    column = positions[part, axis]
                    if self.origin is not None:
                        column = np.subtract(column, self.origin[axis], dtype=np.float64)
                    np.multiply(column, factor, out=columns[axis][part], dtype=np.float64, casting="same_kind")
                np.divide(masses[part], self.mass, out=columns[3][part], dtype=np.float64, casting="same_kind")

        deque(in_blocks(self.n, write), maxlen=0)

    def is_held(self, dtype: Dtype) -> Any:
        """Tell whether a kernel of this number type can compute with them; on the device for arrays that are there."""
        return (self.spread <= reach(dtype)) & (self.heaviest <= float(_numbers(np.float64).max))

    def lost(self, dtype: Dtype) -> Any:
        """Return the most that the acceleration of a body lacks by underflow in a kernel of this number type."""
        return most_lost(dtype, math.sqrt(self.eps2), self.spread, self.lightest, self.n)

    def faint(self, dtype: Dtype, accelerations: Any, error: float) -> Any:
        """Tell which bodies are pulled so little that what underflow loses is more than ``error``; on the host.

        None where none can be.
        """
        lost = float(self.lost(dtype))
        if lost == 0:
            return None
        faint = is_faint(dtype, accelerations, lost, error)
        return faint if faint.any() else None

    def objection(self, dtype: Dtype) -> str:
        """Say what is too far apart for a number type."""
        eps, spread = math.sqrt(self.eps2) * self.length, self.spread * self.length
        return (
            f"positions that differ by {spread:.2g}, a softening length of {eps:.2g} (eps2 is its square) and masses "
            f"that differ by a factor of {max(1, self.heaviest / self.lightest):.2g} do not fit into {dtype} together; "
            f"accepted: {'dtype float64, or ' if dtype != 'float64' else ''}values that differ less"
        )

    def or_line(self, valid: Any) -> Scaled:
        """Put all bodies, with equal masses, on a line unless they are ``valid``, a truth value on the device.

        Otherwise a variant would be given numbers that are not finite, and may take long over them.
        """
        equal = np.ones_like(self.arrays["mj"])
        line = equal.cumsum()[:, None] / len(equal)
        sets = {"xj": np.where(valid, self.arrays["xj"], line), "mj": np.where(valid, self.arrays["mj"], equal)}
        return replace(self, given=sets, origin=None, length=1.0, mass=1.0)

    def restored(self, accelerations: Any, dtypes: Sequence[Dtype]) -> Any:
        """Bring accelerations to the units of the caller, in the first of the number types that holds them.

        Raises:
            InputError: none does.
        """
        power = exponent(self.mass, self.length)
        for dtype in dtypes:
            if np.can_cast(accelerations.dtype, dtype):
                result, smallest, largest = multiplied(accelerations, dtype, power)
                if _is_normal(dtype, smallest, largest) or holds(dtype, accelerations, power):
                    return result
        raise InputError(
            f"the accelerations are {span(accelerations, power)}, beyond {dtypes[-1]}; accepted: "
            + ("dtype float64, or " if dtypes[-1] != "float64" else "")
            + "positions, masses and eps2 in other units"
        )

    def restored_there(self, accelerations: Any, dtype: Dtype, valid: Any, error: float) -> Any:
        """Bring accelerations on a device to the units of the caller, without waiting for it.

        Those of a body are NaN where the number type does not hold them, or where what underflow loses is more than
        ``error``: the device makes zero of components below the smallest normal number. Without ``valid``, a truth
        value on the device, all of them are.
        """
        unit = self.mass / self.length / self.length
        result = accelerations.astype(np.float64)
        sizes = abs(result).max(axis=1, keepdims=True)
        right = valid & (sizes * accuracy(dtype, error) >= self.lost(dtype))
        result *= unit
        sizes = sizes * unit
        numbers, doubles = _numbers(dtype), _numbers(np.float64)
        least = float(numbers.tiny) / accuracy(dtype, error)
        right = right & ((sizes == 0) | ((sizes >= least) & (sizes <= float(numbers.max))))
        right = right & (unit >= float(doubles.tiny)) & (unit <= float(doubles.max))
        result *= right / right  # 1 or, of zeros, NaN
        return result.astype(dtype)


def scaled(arrays: Mapping[str, Any], eps2: float, *, on_device: bool) -> Scaled:
    """Bring positions and masses to units of about 1; on the device, without waiting for it.

    Raises:
        InputError: on the host, a number is not finite, or no number type holds the differences of positions.
    """
    if not on_device:
        return scaled_here(native(arrays), eps2)
    with np.errstate(over="ignore", invalid="ignore"):
        doubles = {name: array.astype(np.float64, copy=False) for name, array in arrays.items()}
        spread = spread_there([positions for name, positions in doubles.items() if name != "mj"])
        masses = abs(doubles["mj"])
        heaviest, lightest = masses.max(), np.where(masses != 0, masses, np.inf).min()
    origin = origin_of(doubles["xj"][0], spread)
    length, mass = length_unit(math.sqrt(eps2), None), mass_unit(heaviest)
    return Scaled(
        doubles, origin, eps2 / length / length, length, mass, spread / length, heaviest / mass, lightest / mass
    )


def scaled_here(given: Mapping[str, Any], eps2: float, extent: Extent | None = None) -> Scaled:
    """Bring ``native`` arrays of the host to units of about 1; ``extent`` is that of bodies j, where it is known.

    Raises:
        InputError: a number is not finite, or no number type holds the differences of positions.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        extent = extent or extent_of(given["xj"], given["mj"])
        corners = [extent.least, extent.most, *(corners_of(given["xi"]) if "xi" in given else ())]
        first = given["xj"][0].astype(np.float64)
    spread = _spread(first.tolist(), [corner.tolist() for corner in corners])
    heaviest = max(extent.largest, -extent.smallest)
    _check_finite(given, spread, heaviest)
    is_moved = max(map(abs, first.tolist())) >= 2 * spread
    origin = origin_of(first, spread) if is_moved else None
    length, mass = length_unit(math.sqrt(eps2), spread), _power_of_two(heaviest) if heaviest else 1.0
    in_units = spread / length, heaviest / mass, extent.lightest / mass
    return Scaled(given, origin, eps2 / length / length, length, mass, *in_units, extent)


def _spread(first: Sequence[float], corners: Sequence[Sequence[float]]) -> float:
    """Return the largest coordinate of positions in these corners relative to the first; NaN if any is not finite."""
    # Numbers of Python overflow without a warning.
    apart = [abs(at - from_) for corner in corners for at, from_ in zip(corner, first, strict=True)]
    return max(apart) if all(map(math.isfinite, chain(first, *corners))) else math.nan


def native(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return numbers that one pass can scale: float32 or float64 as the processor has them; infinite beyond these.

    Where float64 rounds positions, they are relative to the first body.
    """
    given = {name: array if array.dtype in _NATIVE else _as_float64(array) for name, array in arrays.items()}
    positions = [name for name in arrays if name != "mj"]
    if any(_is_rounded(arrays[name], given[name]) for name in positions):
        first = arrays["xj"][:1].astype(np.longdouble)
        given |= {name: _as_float64(arrays[name].astype(np.longdouble) - first) for name in positions}
    return given


_NATIVE = frozenset({np.dtype(np.float32), np.dtype(np.float64)})
_WHOLE = 2.0**53
"""Up to here, float64 has every whole number."""


def _is_rounded(array: Any, doubles: Any) -> bool:
    """Tell whether an array on the host has more digits than float64, and is finite in it."""
    if array.dtype in _NATIVE or not array.size or not np.isfinite(doubles).all():
        return False
    is_whole = array.dtype.kind in "iu"
    return bool(abs(doubles).max() >= _WHOLE if is_whole else (array != doubles).any())


def _as_float64(array: Any) -> Any:
    with np.errstate(over="ignore", invalid="ignore"):
        return array.astype(np.float64)


def extent_of(positions: Any, masses: Any) -> Extent:
    """Find the extent of bodies on the host in one pass."""

    def of_part(part: slice) -> Extent:
        smallest, largest = float(masses[part].min()), float(masses[part].max())
        lightest = smallest if smallest > 0 else lightest_of(masses[part])
        return Extent(*corners_of(positions[part]), smallest, largest, lightest)

    return reduce(_together, in_blocks(len(masses), of_part))


def lightest_of(masses: Any) -> float:
    """Return the least absolute value of masses on the host but zero, infinite if there is none."""
    sizes = np.abs(masses)
    return float(np.where(sizes != 0, sizes, np.inf).min())


def _together(first: Extent, second: Extent) -> Extent:
    # Of NumPy, for which a NaN is both the least and the largest number.
    return Extent(
        np.minimum(first.least, second.least),
        np.maximum(first.most, second.most),
        float(np.minimum(first.smallest, second.smallest)),
        float(np.maximum(first.largest, second.largest)),
        float(np.minimum(first.lightest, second.lightest)),
    )


def corners_of(positions: Any) -> tuple[Any, Any]:
    """Return the least and the largest coordinates of positions, shape (n, 3), as float64."""
    if len(positions) > FEW and positions.flags.c_contiguous:
        # Rows side by side, which NumPy compares several at a time.
        wide, rest = positions[: len(positions) // WIDE * WIDE].reshape(-1, 3 * WIDE), positions[-WIDE:]
        least = np.minimum(wide.min(axis=0).reshape(-1, 3), rest)
        most = np.maximum(wide.max(axis=0).reshape(-1, 3), rest)
        return _columns(least).min(axis=1), _columns(most).max(axis=1)
    columns = _columns(positions)
    return columns.min(axis=1), columns.max(axis=1)


def _columns(positions: Any) -> Any:
    """Copy the x, y and z of positions side by side, as float64: NumPy compares several at a time."""
    return np.ascontiguousarray(positions.T, np.float64)


def spread_there(sets: Sequence[Any]) -> Any:
    """Return the largest coordinate of all positions on a device relative to the first."""
    spreads = [abs(positions - sets[0][0]).max() for positions in sets]
    return spreads[0] if len(spreads) == 1 else np.maximum(*spreads)


def origin_of(first: Any, spread: Any) -> Any:
    """Return what to subtract from positions, shape (3,): a coordinate of the first body if all are near it, or 0.

    The coordinate is at least twice as far from 0 as from that of any other body. Therefore the difference is exact
    (Sterbenz), and no body loses digits that it had.
    """
    return np.where(abs(first) >= 2 * spread, first, 0.0)


def _check_finite(given: Mapping[str, Any], spread: float, heaviest: float) -> None:
    if math.isfinite(spread) and math.isfinite(heaviest):
        return
    for name, array in given.items():
        if not np.isfinite(array).all():
            raise InputError(f"{WHAT[name]} have values that are not finite; accepted: finite numbers")
    raise InputError("positions differ by more than float64 holds; accepted: values that differ less")


def length_unit(eps: float, spread: float | None) -> float:
    """Return a power of two: a usual multiple of eps, or if positions are far from it, about the ``spread`` of these.

    Args:
        eps: the softening length, more than zero.
        spread: the largest coordinate relative to the first body; None if the host does not know it.
    """
    usual = _power_of_two(eps / USUAL_EPS)
    if not spread or NEAR[0] <= spread / usual <= NEAR[1]:
        return usual
    return _power_of_two(min(max(spread, eps / MOST_EPS), eps / LEAST_EPS))


def mass_unit(largest: Any) -> Any:
    """Return a power of two up to the largest mass, or 1 if that is zero; on the device where the mass is."""
    fraction = np.frexp(largest)[0]
    is_zero = largest == 0
    return largest / (2 * fraction + is_zero) + is_zero


@cache
def reach(dtype: Dtype) -> float:
    """Return the spread within which the inverse cube of a distance stays above zero, on which variants rely."""
    return float(np.cbrt(1 / np.float64(_numbers(dtype).tiny))) / 4


def most_lost(dtype: Dtype, eps: float, spread: Any, lightest: Any, n: int) -> Any:
    """Return the most that the acceleration of a body lacks because numbers underflow; zero if none does.

    What underflows of a pull is less than the smallest number, times the distance where mass / r^3 does. Where a mass
    itself does, or in a tree its product with a length below the rounding of eps, it is that times eps^-3. All in units
    of about 1.

    Args:
        dtype: the number type of the kernel.
        eps: the softening length.
        spread: the largest coordinate relative to the first body. It is within ``reach``.
        lightest: the smallest mass but zero; infinite if there is none.
        n: the bodies that pull.
    """
    numbers = _numbers(dtype)
    tiny, least = float(numbers.tiny), float(numbers.tiny) / float(numbers.eps)  # the latter has all digits
    # Two bodies may be in opposite corners.
    distance2 = 12 * spread * spread + eps * eps
    distance = distance2**0.5
    pull = lightest / (distance2 * distance)
    of_masses = (lightest < least / min(1.0, eps)) * eps**-3
    has_all = (pull >= least) & ((spread == 0) | (pull * spread >= least))
    return np.where(has_all, 0.0, n * tiny * (1 + distance + of_masses))


def accuracy(dtype: Dtype, error: float) -> float:
    """Return the relative error that underflow may cause: the wanted one, but no more than a direct sum may have."""
    return min(error, DIRECT_SUM[dtype].max)


def is_faint(dtype: Dtype, accelerations: Any, lost: float, error: float) -> Any:
    """Tell of which accelerations on the host, shape (n, 3), ``error`` is less than what underflow may lose."""
    sizes = np.abs(accelerations).max(axis=1).astype(np.float64)
    return ~(sizes * accuracy(dtype, error) >= lost)


def exponent(mass: float, length: float) -> int:
    """Return the power of two that a unit of acceleration is, mass / length^2."""
    return math.frexp(mass)[1] - 1 - 2 * (math.frexp(length)[1] - 1)


def multiplied(accelerations: Any, dtype: Dtype, power: int) -> tuple[Any, float, float]:
    """Multiply accelerations, shape (n, 3), by 2^power, in one pass, into a new array of a number type.

    Returns it, and the smallest and the largest size of its numbers; NaN where one of them is.
    """
    real = np.dtype(dtype).type
    result, unit = np.empty(accelerations.shape, dtype), power_of_two(power, dtype)

    def write(part: slice) -> tuple[float, float]:
        with np.errstate(over="ignore", under="ignore"):
            for axis in range(3):
                column = accelerations[part, axis]
                if not math.isnan(unit):
                    np.multiply(column, real(unit), out=result[part, axis])
                else:
                    np.ldexp(column.astype(dtype), power, out=result[part, axis])
            sizes = np.abs(result[part])
            return float(sizes.min()), float(sizes.max())

    smallest, largest = zip(*in_blocks(len(result), write), strict=True)
    return result, float(reduce(np.minimum, smallest)), float(reduce(np.maximum, largest))


def power_of_two(power: int, dtype: Any) -> float:
    """Return 2^power, NaN where that is no normal number of a type."""
    numbers = _numbers(dtype)
    return 2.0**power if numbers.minexp <= power < numbers.maxexp else math.nan


def keeps_digits(dtype: Dtype, power: int, smallest: float, largest: float) -> bool:
    """Tell whether accelerations times 2^power keep their digits on a device, which makes zero of what is not normal.

    Args:
        dtype: the number type of both.
        power: an exponent.
        smallest: the size of the smallest acceleration but zero, by its largest component; NaN where any is.
        largest: that of the largest.
    """
    numbers, unit = _numbers(dtype), power_of_two(power, dtype)
    # What a smaller component of the smallest loses is less than its rounding.
    return bool(smallest * unit >= float(numbers.tiny) / float(numbers.eps) and largest * unit <= float(numbers.max))


def _is_normal(dtype: Dtype, smallest: float, largest: float) -> bool:
    """Tell whether all numbers of these sizes are finite and have all their digits."""
    numbers = _numbers(dtype)
    return bool(smallest >= numbers.tiny and largest <= numbers.max)


def holds(dtype: Dtype, accelerations: Any, power: int) -> bool:
    """Tell whether accelerations, shape (n, 3), times 2^power keep their digits in a number type.

    Of a body, the largest component counts: what others lose is little beside it.
    """
    numbers = _numbers(dtype)
    largest = np.float64(max(accelerations.max(), -accelerations.min()))
    if not largest > 0:
        return True
    sizes = np.abs(accelerations)
    with np.errstate(over="ignore", under="ignore"):
        if np.ldexp(largest, power) > numbers.max:
            return False
        if np.ldexp(np.float64(sizes.min()), power) >= numbers.tiny:
            return True
        of_bodies = sizes.max(axis=1)
        return not np.ldexp(np.float64(of_bodies[of_bodies > 0].min()), power) < numbers.tiny


def span(accelerations: Any, power: int) -> str:
    """Write between which powers of ten accelerations, shape (n, 3), times 2^power are; some are not zero."""
    sizes = np.abs(accelerations).max(axis=1)
    ends = (np.log10(np.float64(size)) + power * math.log10(2) for size in (sizes[sizes > 0].min(), sizes.max()))
    return " to ".join(dict.fromkeys(f"1e{end:.0f}" for end in ends))


def _power_of_two(value: float) -> float:
    return math.ldexp(1.0, math.frexp(value)[1] - 1)
