"""Convert between a variant's own layout of device arrays and the one layout that the host uses."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gravbench.model.bodies import Bodies
from gravbench.model.units import Scaled
from gravbench.model.variant import Prepared
from gravbench.toolkits.interface import DeviceToolkit


def sums(toolkit: DeviceToolkit, prepared: Prepared) -> NDArray[Any]:
    """Copy the interaction's sums to the host; shape (n, 3) for the accelerations of gravity."""
    return _download(toolkit, prepared.accelerations)[:, : len(toolkit.interaction.sums)]


def bodies(toolkit: DeviceToolkit, prepared: Prepared) -> NDArray[Any]:
    """Copy the bodies to the host; rows x, y, z, mass first."""
    return _download(toolkit, prepared.bodies)


def host_bodies(toolkit: DeviceToolkit, prepared: Prepared, values: Bodies) -> tuple[NDArray[Any], ...]:
    """Make host arrays of ``real`` in the layout of the device's: one of rows, or four of numbers."""
    if isinstance(prepared.bodies, tuple):
        arrays: tuple[NDArray[Any], ...] = (*values.position.T, values.mass)
    else:
        arrays = (toolkit.interaction.rows(values.position, values.velocity, values.mass),)
    return tuple(np.ascontiguousarray(array, dtype=toolkit.real) for array in arrays)


def write_bodies(toolkit: DeviceToolkit, prepared: Prepared, values: tuple[NDArray[Any], ...]) -> None:
    """Copy what ``host_bodies`` made into the device's arrays."""
    _write(toolkit, prepared.bodies, values)


def host_rows(toolkit: DeviceToolkit, prepared: Prepared, scaled: Scaled) -> tuple[NDArray[Any], ...]:
    """Lay scaled bodies of gravity out as ``host_bodies`` does."""
    laid_out = tuple(np.empty(array.shape, toolkit.real) for array in several(prepared.bodies))
    scaled.fill(laid_out if isinstance(prepared.bodies, tuple) else laid_out[0])
    return laid_out


def fill(arrays: Any, position: Any, mass: Any) -> None:
    """Copy positions and masses into arrays of bodies on the same side, the host or CuPy's device; rows or columns."""
    if isinstance(arrays, tuple):
        for array, values in zip(arrays, (*position.T, mass), strict=True):
            array[...] = values
    else:
        arrays[:, :3] = position
        arrays[:, 3] = mass


def sums_there(toolkit: DeviceToolkit, prepared: Prepared) -> Any:
    """Copy the sums as ``sums`` does, but stay on the host or on CuPy's device."""
    accelerations = prepared.accelerations
    if isinstance(accelerations, tuple):
        return np.stack(accelerations, axis=1)
    return accelerations[:, : len(toolkit.interaction.sums)].copy()


def several(arrays: Any) -> tuple[Any, ...]:
    """Return device arrays as a tuple, also where it is one of rows."""
    return arrays if isinstance(arrays, tuple) else (arrays,)


def columns(arrays: Any) -> tuple[Any, ...]:
    """Return x, y, z as views of device arrays, whether these are rows or columns."""
    return tuple(arrays[:3]) if isinstance(arrays, tuple) else tuple(arrays[:, axis] for axis in range(3))


def stride(arrays: Any) -> int:
    """Return the numbers from one body to the next in each of ``columns``."""
    return 1 if isinstance(arrays, tuple) else int(arrays.shape[1])


def spoil(toolkit: DeviceToolkit, prepared: Prepared, values: Bodies) -> None:
    """Fill what a launch has to write with NaN, so that what it leaves out shows."""
    write_sums(toolkit, prepared, unwritten(toolkit, prepared, values))


def unwritten(toolkit: DeviceToolkit, prepared: Prepared, values: Bodies) -> tuple[NDArray[Any], ...]:
    """Make host arrays of NaN in the layout of the device's arrays of sums.

    Where all bodies lie in the plane z = 0, accelerations along z are zero: there is nothing to compute.
    """
    planar = not values.position[:, 2].any()
    arrays = []
    for place, array in enumerate(several(prepared.accelerations)):
        filled = np.full(array.shape, np.nan, toolkit.real)
        if planar and (filled.ndim == 2 or place == 2):
            filled[..., 2 if filled.ndim == 2 else slice(None)] = 0
        arrays.append(filled)
    return tuple(arrays)


def others(toolkit: DeviceToolkit, prepared: Prepared) -> tuple[NDArray[Any], ...]:
    """Make host arrays of what the device's arrays of sums hold, each body's the sums of the one before."""
    return tuple(np.roll(toolkit.download(array), 1, axis=0) for array in several(prepared.accelerations))


def write_sums(toolkit: DeviceToolkit, prepared: Prepared, values: tuple[NDArray[Any], ...]) -> None:
    """Copy host arrays in the layout of the device's arrays of sums into these."""
    _write(toolkit, prepared.accelerations, values)


def _write(toolkit: DeviceToolkit, arrays: Any, values: tuple[NDArray[Any], ...]) -> None:
    for array, column in zip(several(arrays), values, strict=True):
        toolkit.copy_in(array, column)


def _download(toolkit: DeviceToolkit, arrays: Any) -> NDArray[Any]:
    if isinstance(arrays, tuple):
        return np.column_stack([toolkit.download(column) for column in arrays])
    return toolkit.download(arrays)
