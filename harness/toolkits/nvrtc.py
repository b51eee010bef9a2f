"""NVRTC: CUDA C compiled to machine code in this process, for any architecture and without a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from typing import Any

DISTRIBUTIONS = tuple(
    f"nvidia-cuda-{name}{of_cuda}" for name in ("nvrtc", "runtime", "cccl") for of_cuda in ("", "-cu12")
)
"""Packages of NVRTC and of CUDA's headers: their versions say more than that which NVRTC has for itself."""


class CompileError(Exception):
    """NVRTC refuses a text; the message is what it says."""


class UnknownOptionError(Exception):
    """NVRTC does not know one of the options, such as an architecture."""


@contextmanager
def program(source: str, options: Sequence[str], *, headers: bool = True) -> Iterator[tuple[Any, str]]:
    """Compile a text, several at the same time where several threads ask; gives the program and NVRTC's remarks.

    With ``headers`` it may include those of CUDA.

    Raises:
        CompileError: NVRTC refuses the text.
        UnknownOptionError: NVRTC does not know an option.
        ImportError: the bindings of NVRTC are missing.
        RuntimeError: the library itself is missing.
    """
    from cuda.bindings import nvrtc

    options = [*options, *(include_options() if headers else ())]
    _, handle = nvrtc.nvrtcCreateProgram(source.encode(), b"kernel.cu", 0, [], [])
    try:
        (error,) = nvrtc.nvrtcCompileProgram(handle, len(options), [option.encode() for option in options])
        log = _text(handle, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog).decode(errors="replace")
        if error == nvrtc.nvrtcResult.NVRTC_ERROR_INVALID_OPTION:
            raise UnknownOptionError(log.replace("\0", "").strip())
        if error != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise CompileError(log.replace("\0", "").strip())
        yield handle, log
    finally:
        nvrtc.nvrtcDestroyProgram(handle)


def cubin(handle: Any) -> bytes:
    """Return the machine code of a program that was compiled for an architecture such as ``sm_90``."""
    from cuda.bindings import nvrtc

    return _text(handle, nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN)


def ptx(handle: Any) -> bytes:
    """Return the PTX of a program."""
    from cuda.bindings import nvrtc

    return _text(handle, nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX)


def _text(handle: Any, ask_size: Callable[[Any], tuple[Any, int]], get: Callable[[Any, bytearray], Any]) -> bytes:
    """Have NVRTC write something of a program into a buffer of the size that it names."""
    _, size = ask_size(handle)
    buffer = bytearray(size)
    get(handle, buffer)
    return bytes(buffer)


@cache
def include_options() -> tuple[str, ...]:
    """Name the folders of CUDA's headers that are installed, which NVRTC does not look for by itself."""
    from cuda import pathfinder

    folders = (pathfinder.find_nvidia_header_directory(name) for name in ("cudart", "cccl"))
    return tuple(f"-I{folder}" for folder in folders if folder)


@cache
def is_usable() -> bool:
    """Tell whether NVRTC and its bindings are there."""
    # The bindings come with packages of other toolkits, which may lack the library itself.
    if not find_spec("cuda") or not find_spec("cuda.bindings"):
        return False
    from cuda.bindings import nvrtc

    try:
        nvrtc.nvrtcVersion()
    except RuntimeError:
        return False
    return True


@cache
def version() -> str:
    """Name NVRTC and its version; what it makes of a text may be another in the next one."""
    from cuda.bindings import nvrtc

    _, major, minor = nvrtc.nvrtcVersion()
    return f"NVRTC {major}.{minor}"


def architectures() -> list[str]:
    """List the architectures that this NVRTC knows."""
    from cuda.bindings import nvrtc

    _, count = nvrtc.nvrtcGetNumSupportedArchs()
    _, numbers = nvrtc.nvrtcGetSupportedArchs()
    return [f"sm_{number}" for number in list(numbers)[:count]]
