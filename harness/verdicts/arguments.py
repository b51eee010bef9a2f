"""The arguments of ``gravbench.force``: arrays, numbers and words, each refused in one sentence that names it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, get_args

import numpy as np

from gravbench.errors import InputError, nearest
from gravbench.model.array_likes import is_cupy, one_line, real_array
from gravbench.model.record import QUANTILES
from gravbench.model.variant import Dtype
from gravbench.verdicts.question import ACCEPTED_QUANTILES

DTYPES: tuple[Dtype, ...] = get_args(Dtype)


def number_type(dtype: Any) -> Any:
    """Return the name of a number type, which may be given as NumPy's; None as it is."""
    if isinstance(dtype, type | np.dtype):
        with suppress(TypeError):
            dtype = np.dtype(dtype).name
    check_word("dtype", dtype, DTYPES)
    return dtype


def softening(eps2: Any) -> float:
    """Return it as a float."""
    if not _is_number(eps2):
        raise InputError(f"eps2 is {one_line(eps2)}; accepted: a number")
    value = real(eps2)
    if not (math.isfinite(value) and value > 0):
        raise InputError(f"eps2 is {value}; accepted: a finite number above 0")
    return value


def accuracy(error: Any, quantile: Any) -> tuple[float, float]:
    """Return an error, a number above zero, and a quantile, one of those that tables have, as floats."""
    if not _is_number(error) or not error > 0:
        raise InputError(f"error is {one_line(error)}; accepted: a number above 0")
    if not _is_number(quantile) or quantile not in QUANTILES:
        raise InputError(f"quantile is {one_line(quantile)}; accepted: {ACCEPTED_QUANTILES}")
    return real(error), real(quantile)


def check_truth(name: str, value: Any) -> None:
    """Check that an argument is True or False."""
    if not isinstance(value, bool):
        raise InputError(f"{name} is {one_line(value)}; accepted: True, False")


def check_word(name: str, word: Any, accepted: Sequence[str]) -> None:
    """Check that an argument is one of some words, or None."""
    # A number type of NumPy equals its name, and an array is neither equal to it nor not.
    if word is not None and not (isinstance(word, str) and word in accepted):
        raise InputError(f"{name} is {one_line(word)}; {nearest(one_line(word), list(accepted))}")


def arrays(xj: Any, mj: Any, xi: Any) -> dict[str, Any]:
    """Return the arrays of numbers by their names; no ``xi`` if it is the same bodies as ``xj``."""
    given = {"xj": xj, "mj": mj} if xi is None or xi is xj else {"xj": xj, "mj": mj, "xi": xi}
    arrays = {name: real_array(name, values) for name, values in given.items()}
    _check_together(arrays)
    return arrays


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


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def real(value: Any) -> float:
    """Return a number as a float, infinite where it is beyond one."""
    try:
        return float(value)
    except OverflowError:
        return math.inf
