"""Bring positions, masses and a softening length to a scale of about 1, and accelerations back.

Kernels compute r^-3, which leaves float32 in many units: metres and kilograms, parsecs and grams. Lengths and masses
are therefore divided by powers of two, and accelerations multiplied by one. That is exact, so results have the same
bits in any unit in which no number over- or underflows.

A mass unit and the numbers made of it may be scalars on a device, which nothing here waits for.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gravbench.model.variant import Dtype

LEAST_EPS, MOST_EPS = 2.0**-29, 2.0**10
"""Softening lengths that kernels are given, in units of length; the first is above ``SMALLEST_EPS`` of ``Bodies``."""

USUAL_EPS = 2.0**-10
"""The softening length, but for a factor of two, unless coordinates ask for another: what is prepared for one softening
length serves all positions that are ``NEAR`` 1 in this unit."""
NEAR = 2.0**-10, 2.0**10


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
