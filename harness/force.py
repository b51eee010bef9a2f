"""The force of one set of bodies on another, as one call: the shape of CUNBODY-1's."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, get_args

import numpy as np

from harness import parts
from harness.bodies import SMALLEST_EPS
from harness.devices import gpus
from harness.errors import InputError, nearest
from harness.parts import BLOCK, Part
from harness.toolkits.catalogue import CATALOGUE, open_toolkit
from harness.toolkits.interface import DeviceToolkit
from harness.variant import CPU, CUDA_C_TOOLKITS, NUMBA, Dtype, Kernel

CUPY = "cupy"
TOOLKITS = (*CUDA_C_TOOLKITS, NUMBA, CPU)
"""Those for which ``variants/parts`` has the kernel."""


def force(xj: Any, mj: Any, xi: Any, eps2: float, *, toolkit: str | None = None, dtype: Dtype = "float32") -> Any:
    """Sum the pulls of bodies j on bodies i: a_i = sum of m_j (x_j - x_i) / (|x_j - x_i|^2 + eps2)^(3/2), G = 1.

    NumPy arrays in, a NumPy array out. CuPy arrays stay on their device and the result is one; it may still be
    being computed when this returns, as all of CuPy's are. A body in both sets does not pull itself.

    Args:
        xj: positions that pull, shape (n_j, 3).
        mj: their masses, shape (n_j,).
        xi: positions that are pulled, shape (n_i, 3).
        eps2: softening length squared.
        toolkit: cupy, pycuda, numba or cpu. By default, with a GPU the first of cupy and numba that is installed,
            without one cpu; cupy for CuPy arrays.
        dtype: float32 or float64: what is computed in, and what is returned.

    Returns:
        Accelerations, shape (n_i, 3).

    Raises:
        InputError: a shape, a type or a value is not accepted, or there is no such toolkit.
        ToolkitMissingError: the toolkit cannot be used here.
    """
    if dtype not in get_args(Dtype):
        raise InputError(f"dtype is {dtype!r}; {nearest(str(dtype), list(get_args(Dtype)))}")
    eps2 = _softening(eps2)
    arrays = {"xj": xj, "mj": mj, "xi": xi}
    for name, array in arrays.items():
        _check(name, array, dtype)
    if len(mj) != len(xj):
        raise InputError(f"mj has {len(mj)} masses for {len(xj)} positions xj; accepted: one each")
    on_device = {name: _is_cupy(array) for name, array in arrays.items()}
    if len(set(on_device.values())) > 1:
        there = ", ".join(name for name, value in on_device.items() if value)
        raise InputError(f"of xj, mj and xi only {there} is of CuPy; accepted: all three of CuPy, or none")
    chosen = _chosen(toolkit, on_device=on_device["xj"])
    opened, kernel = _opened(chosen, dtype)
    result = opened.empty(len(xi), 3)
    own = [opened.upload(array) for array in arrays.values()]
    sizes = np.int32(len(xj)), np.int32(len(xi))
    parts.launch(opened, kernel, len(xi), *own, result, *sizes, opened.real(eps2))
    return result if on_device["xj"] else opened.download(result)


@lru_cache
def _opened(toolkit: str, dtype: Dtype) -> tuple[DeviceToolkit, Kernel]:
    """Compile once a process."""
    opened = open_toolkit(toolkit, Part("force_between"), dtype)
    return opened, opened.compile("force_between", P=BLOCK)


@lru_cache
def _default() -> str:
    found, _ = gpus()
    return next((name for name in (CUPY, "numba") if found and CATALOGUE[name].missing is None), "cpu")


def _chosen(toolkit: str | None, *, on_device: bool) -> str:
    if toolkit is not None and toolkit not in TOOLKITS:
        raise InputError(f"toolkit is {toolkit!r}; {nearest(str(toolkit), list(TOOLKITS))}")
    if not on_device:
        return toolkit or _default()
    if toolkit not in (None, CUPY):
        raise InputError(f"toolkit is {toolkit} and the arrays are of CuPy; accepted: cupy, or arrays of NumPy")
    return CUPY


def _is_cupy(array: Any) -> bool:
    return type(array).__module__.partition(".")[0] == "cupy"


def _softening(eps2: Any) -> float:
    """Return it as a float; eps^-3 must be finite in float32, as in ``Bodies``."""
    if not isinstance(eps2, int | float | np.number) or isinstance(eps2, bool):
        raise InputError(f"eps2 is {eps2!r}; accepted: a number")
    value = float(eps2)
    if not (math.isfinite(value) and value >= SMALLEST_EPS**2):
        raise InputError(f"eps2 is {value}; accepted: a finite number of {SMALLEST_EPS**2:g} or more")
    return value


def _check(name: str, array: Any, dtype: Dtype) -> None:
    shape = "(n,)" if name == "mj" else "(n, 3)"
    if not isinstance(array, np.ndarray) and not _is_cupy(array):
        raise InputError(f"{name} is a {type(array).__name__}; accepted: an array of NumPy or CuPy")
    if array.dtype.kind not in "fiu":
        raise InputError(f"{name} has dtype {array.dtype}; accepted: real numbers")
    if array.shape[1:] != (() if name == "mj" else (3,)) or array.ndim == 0 or not array.shape[0]:
        raise InputError(f"{name} has shape {array.shape}; accepted: {shape} with n of 1 or more")
    # A NaN is not <=, and what overflows the number type would be infinite in it.
    if not bool((abs(array) <= np.finfo(dtype).max).all()):
        raise InputError(f"{name} has values that are not finite in {dtype}; accepted: finite numbers")
