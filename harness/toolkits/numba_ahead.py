"""Compile a kernel of numba.cuda without a GPU: imports nothing of gravbench, so that a confined process can use it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any


def link_time_code(kernel: Any, types: Sequence[Any], capability: tuple[int, int], *, lines: bool = False) -> bytes:
    """Return what numba.cuda makes of a kernel for arguments of these types, for nvJitLink to link (LTO-IR).

    ``lines`` asks for the lines of the source, too.

    Raises:
        numba.core.errors.NumbaError: the kernel cannot be compiled.
    """
    from numba import cuda

    with without_device(capability):
        code: bytes = cuda.compile(
            kernel.py_func,
            tuple(types),
            fastmath=kernel.targetoptions.get("fastmath"),
            device=False,
            abi="numba",
            cc=capability,
            output="ltoir",
            lineinfo=lines,
        )[0]
    return code


@contextmanager
def without_device(capability: tuple[int, int]) -> Iterator[None]:
    """Have numba.cuda compile for a compute capability, where it asks the device in use for its own."""
    from numba.cuda import dispatcher
    from numba.cuda.cudadrv import devices

    device = SimpleNamespace(compute_capability=capability)
    get_device, get_context = dispatcher.get_current_device, devices.get_context
    dispatcher.get_current_device = lambda: device
    devices.get_context = lambda: SimpleNamespace(device=device)
    try:
        yield
    finally:
        dispatcher.get_current_device, devices.get_context = get_device, get_context
