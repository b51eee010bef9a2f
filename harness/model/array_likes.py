"""Arrays of real numbers, made of what a program passes: arrays, lists, and all else that NumPy makes numbers of."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from gravbench.errors import InputError, shortened

WHAT = {"xj": "positions xj", "mj": "masses mj", "xi": "positions xi"}
"""The arguments that are arrays, as messages name them."""

MOST_LEVELS = 3
"""Of nested sequences that contain numbers: the whole, its rows, their elements."""
PLAIN = (str, bytes, bytearray, range, memoryview)
"""Sequences that contain no arrays."""


def one_line(value: Any) -> str:
    """Show any value in a few characters of one line."""
    return " ".join(reprlib.repr(value).split())


def is_cupy(array: Any) -> bool:
    """Tell whether an array is one of CuPy's."""
    return type(array).__module__.partition(".")[0] == "cupy" and hasattr(array, "dtype")


def is_masked(values: Any) -> bool:
    """Tell whether values are a masked array, or NumPy makes one of them, or they contain some, as rows or as numbers.

    Of a list that contains masked arrays, NumPy makes an array without a mask.
    """
    level = [values]
    for _ in range(MOST_LEVELS):
        kinds = set(map(type, level))
        arrays = {kind for kind in kinds if hasattr(kind, "__array__") and not issubclass(kind, np.generic)}
        if arrays and any(isinstance(np.asanyarray(part), np.ma.MaskedArray) for part in level if type(part) in arrays):
            return True
        sequences = {kind for kind in kinds if issubclass(kind, Sequence) and not issubclass(kind, PLAIN)}
        parts = level if kinds == sequences else [part for part in level if type(part) in sequences]
        level = list(chain.from_iterable(parts))
    return False


def real_array(name: str, values: Any) -> Any:
    """Return real numbers of the right shape: a CuPy array as it is, of anything else what NumPy makes of it.

    Args:
        name: a key of ``WHAT``.
        values: what was passed.

    Raises:
        InputError: NumPy makes something else of it, or values are masked.
    """
    what = WHAT[name]
    array = values
    if type(values) is not np.ndarray and not is_cupy(values):
        try:
            masked = is_masked(values)
            # Of subclasses, which may have operators of their own, only the numbers.
            array = None if masked else np.asarray(values)
        except Exception as error:
            raise InputError(f"{what} are {one_line(values)}; accepted: an array of real numbers") from error
        if masked:
            raise InputError(f"{what} are or contain a masked array; accepted: an array without a mask")
    if array.dtype.kind == "O":
        raise InputError(f"{what} are of type {type(values).__name__}, objects for NumPy; accepted: real numbers")
    if array.dtype.kind not in "fiu":
        raise InputError(f"{what} have dtype {shortened(str(array.dtype))}; accepted: real numbers")
    if array.shape[1:] != (() if name == "mj" else (3,)) or array.ndim == 0 or not array.shape[0]:
        accepted = "(n,)" if name == "mj" else "(n, 3)"
        raise InputError(f"{what} have shape {array.shape}; accepted: {accepted} with n of 1 or more")
    return array
