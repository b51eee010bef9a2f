"""Bring positions, masses and a softening length to a scale of about 1, and accelerations back.

Kernels compute r^-3, which leaves float32 in many units: metres and kilograms, parsecs and grams. Lengths and masses
are therefore divided by powers of two, and accelerations multiplied by one. That is exact, so results have the same
bits in any unit in which no number over- or underflows.

A mass unit and the numbers made of it may be scalars on a device, which nothing here waits for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gravbench.errors import InputError
from gravbench.model.array_likes import WHAT
from gravbench.model.variant import Dtype

LEAST_EPS, MOST_EPS = 2.0**-29, 2.0**10
"""Softening lengths that kernels are given, in units of length; the first is above ``SMALLEST_EPS`` of ``Bodies``."""

USUAL_EPS = 2.0**-10
"""The softening length, but for a factor of two, unless coordinates ask for another: what is prepared for one softening
length serves all positions that are ``NEAR`` 1 in this unit."""
NEAR = 2.0**-10, 2.0**10


@dataclass(frozen=True, slots=True)
class Scaled:
    """Positions and masses in units of about 1, as float64, and the softening.

    ``largest`` is the largest coordinate and ``lightest`` the smallest mass but zero, in these units. They and ``mass``
    are scalars on the device for arrays that are there.
    """

    arrays: Mapping[str, Any]
    eps2: float
    length: float
    mass: Any
    largest: Any
    lightest: Any

    def is_held(self, dtype: Dtype) -> Any:
        """Tell whether a kernel of this number type can compute with them; on the device for arrays that are there."""
        return are_held(dtype, math.sqrt(self.eps2), self.largest, self.lightest)

    def objection(self, dtype: Dtype) -> str:
        """Say what is too far apart for a number type."""
        eps, largest = math.sqrt(self.eps2) * self.length, self.largest * self.length
        return (
            f"positions of up to {largest:.2g}, a softening length of {eps:.2g} (eps2 is its square) and masses that "
            f"differ by a factor of {max(1, 1 / self.lightest):.2g} do not fit into {dtype} together; accepted: "
            + ("dtype float64, or " if dtype != "float64" else "")
            + "values that differ less"
        )

    def without_invalid(self, dtype: Dtype) -> dict[str, Any]:
        """Put zeros where a number on the device is none, or too large: a tree could be one leaf of all bodies."""
        most = reach(dtype)
        return {name: np.where(abs(array) <= most, array, 0.0) for name, array in self.arrays.items()}

    def restored(self, accelerations: Any, dtypes: Sequence[Dtype]) -> Any:
        """Bring accelerations to the units of the caller, in the first of the number types that holds them.

        Raises:
            InputError: none does.
        """
        power = exponent(self.mass, self.length)
        for dtype in dtypes:
            if np.can_cast(accelerations.dtype, dtype) and holds(dtype, accelerations, power):
                with np.errstate(under="ignore"):
                    return np.ldexp(accelerations.astype(dtype, copy=False), power)
        raise InputError(
            f"the accelerations are {span(accelerations, power)}, beyond {dtypes[-1]}; accepted: "
            + ("dtype float64, or " if dtypes[-1] != "float64" else "")
            + "positions, masses and eps2 in other units"
        )


def scaled(arrays: Mapping[str, Any], eps2: float, *, on_device: bool) -> Scaled:
    """Bring positions and masses to units of about 1; on the device, without waiting for it.

    Raises:
        InputError: on the host, a number is not finite.
    """
    with np.errstate(over="ignore"):
        doubles = {name: array.astype(np.float64, copy=False) for name, array in arrays.items()}
    # Without a temporary array of absolute values.
    sizes = {name: np.maximum(array.max(), -array.min()) for name, array in doubles.items()}
    lightest = doubles["mj"].min()
    if on_device or not lightest > 0:
        masses = abs(doubles["mj"])
        lightest = np.where(masses != 0, masses, np.inf).min()
    if not on_device:
        # Unlike NumPy's, these overflow without a warning.
        lightest, sizes = float(lightest), {name: float(size) for name, size in sizes.items()}
        for name, size in sizes.items():
            if not math.isfinite(size):
                raise InputError(f"{WHAT[name]} have values that are not finite; accepted: finite numbers")
    largest = sizes["xj"] if "xi" not in sizes else np.maximum(sizes["xj"], sizes["xi"])
    length = length_unit(math.sqrt(eps2), None if on_device else float(largest))
    mass = mass_unit(sizes["mj"])
    with np.errstate(over="ignore"):
        in_units = {name: array / mass if name == "mj" else array * (1 / length) for name, array in doubles.items()}
    return Scaled(in_units, eps2 / length / length, length, mass, largest / length, lightest / mass)


def length_unit(eps: float, largest: float | None) -> float:
    """Return a power of two: a usual multiple of eps, or where coordinates are far from it, about the largest of these.

    Args:
        eps: the softening length, more than zero.
        largest: the largest coordinate; None if the host does not know it.
    """
    usual = _power_of_two(eps / USUAL_EPS)
    if largest is None or NEAR[0] <= largest / usual <= NEAR[1]:
        return usual
    return _power_of_two(min(max(largest, eps / MOST_EPS), eps / LEAST_EPS))


def mass_unit(largest: Any) -> Any:
    """Return a power of two up to the largest mass, or 1 if that is zero; on the device where the mass is."""
    fraction = np.frexp(largest)[0]
    is_zero = largest == 0
    return largest / (2 * fraction + is_zero) + is_zero


def reach(dtype: Dtype) -> float:
    """Return the coordinates within which the inverse cube of a distance stays above zero, on which variants rely."""
    return float(np.cbrt(1 / np.float64(np.finfo(dtype).tiny))) / 4


def are_held(dtype: Dtype, eps: float, largest: Any, lightest: Any) -> Any:
    """Tell whether no pull of a body is lost below the smallest numbers of the type; all in units of about 1.

    Args:
        dtype: the number type of the kernel.
        eps: the softening length.
        largest: the largest coordinate. It is within ``reach``.
        lightest: the smallest mass but zero; infinite if there is none. Its farthest pull has digits left.
    """
    numbers = np.finfo(dtype)
    least = float(numbers.tiny) / float(numbers.eps)
    # Two bodies may be in opposite corners.
    distance2 = 12 * largest * largest + eps * eps
    pull = lightest / (distance2 * distance2**0.5)
    return (largest <= reach(dtype)) & (pull >= least) & ((largest == 0) | (pull * largest >= least))


def exponent(mass: float, length: float) -> int:
    """Return the power of two that a unit of acceleration is, mass / length^2."""
    return math.frexp(mass)[1] - 1 - 2 * (math.frexp(length)[1] - 1)


def holds(dtype: Dtype, accelerations: Any, power: int) -> bool:
    """Tell whether accelerations, shape (n, 3), times 2^power keep their digits in a number type.

    Of a body, the largest component counts: what others lose is little beside it.
    """
    numbers = np.finfo(dtype)
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


def held_or_nan(dtype: Dtype, accelerations: Any, mass: Any, length: float, valid: Any) -> Any:
    """Bring accelerations on a device, shape (n, 3), to their own units, NaN where the number type does not hold them.

    Args:
        dtype: the number type of the result.
        accelerations: in units of mass / length^2.
        mass: the unit of mass, a scalar on the device.
        length: the unit of length.
        valid: a truth value on the device; the whole result is NaN without it.
    """
    unit = mass / length / length
    found = accelerations.astype(np.float64) * unit
    numbers, doubles = np.finfo(dtype), np.finfo(np.float64)
    sizes = abs(found).max(axis=1, keepdims=True)
    is_held = (sizes == 0) | ((sizes >= float(numbers.tiny)) & (sizes <= float(numbers.max)))
    right = is_held & valid & (unit >= float(doubles.tiny)) & (unit <= float(doubles.max))
    found *= right / right  # 1 or, of zeros, NaN
    return found.astype(dtype)


def _power_of_two(value: float) -> float:
    return math.ldexp(1.0, math.frexp(value)[1] - 1)
