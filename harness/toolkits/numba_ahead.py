"""Compile a kernel of numba.cuda without a GPU: imports nothing of gravbench, so that a confined process can use it."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any


def link_time_code(kernel: Any, types: Sequence[Any], capability: tuple[int, int], *, lines: bool = False) -> bytes:
    """Return what numba.cuda makes of a kernel for arguments of these types, for nvJitLink to link (LTO-IR).

    ``lines`` asks for the lines of the source, too.

    Raises:
        numba.core.errors.NumbaError: the kernel cannot be compiled.
    """
    from numba import cuda
    from numba.cuda import dispatcher

    asks = dispatcher.get_current_device
    # What a kernel calls is compiled for the device in use, whatever the kernel is compiled for.
    dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=capability)
    try:
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
    finally:
        dispatcher.get_current_device = asks
    return code
