"""Compile CUDA C without a GPU."""

from collections.abc import Sequence
from functools import lru_cache

from cuda.bindings import nvrtc


def compile_cuda(source: str, architecture: str, options: Sequence[str]) -> tuple[bytes, str, str]:
    """Return the machine code, the PTX and the assembler's remarks on ``source`` for an architecture such as ``sm_90``.

    For one such as ``compute_90`` there is no machine code, which takes the most time. What was compiled once by this
    process is not compiled again.

    Raises:
        AssertionError: it does not compile; the message is the compiler's log.
    """
    return _compiled(source, architecture, tuple(options))


ARCHITECTURES = ("sm_75", "compute_80", "sm_90", "compute_100", "sm_120")
"""The oldest that CUDA 13 knows, the measured one and the newest, assembled; those in between as PTX, in half the time.

Warnings and float64 show in PTX; spilled registers show where code is assembled.
"""

QUICK = ("--minimal", "--Ofast-compile=max")
"""Options for PTX that is only looked at: without NVRTC's own headers, which nobody uses, and hardly optimized.

What is warned of and what is computed in float64 does not depend on them. They take a quarter of the time.
"""


def _room(size: int) -> bytearray:
    """Return bytes for NVRTC to write into; of one byte, all of Python shares the same immutable object."""
    return bytearray(size)


@lru_cache(maxsize=1000)
def _compiled(source: str, architecture: str, options: tuple[str, ...]) -> tuple[bytes, str, str]:
    error, program = nvrtc.nvrtcCreateProgram(source.encode(), b"kernel.cu", 0, [], [])
    assert error == nvrtc.nvrtcResult.NVRTC_SUCCESS
    flags = [
        option.encode()
        for option in [
            f"-arch={architecture}",
            *(["--ptxas-options=-v"] if architecture.startswith("sm_") else []),
            "-Werror=all-warnings",
            *options,
        ]
    ]
    (error,) = nvrtc.nvrtcCompileProgram(program, len(flags), flags)
    _, size = nvrtc.nvrtcGetProgramLogSize(program)
    log = _room(size)
    nvrtc.nvrtcGetProgramLog(program, log)
    assert error == nvrtc.nvrtcResult.NVRTC_SUCCESS, log.decode()
    _, size = nvrtc.nvrtcGetCUBINSize(program)
    image = _room(size)
    if size:
        nvrtc.nvrtcGetCUBIN(program, image)
    _, size = nvrtc.nvrtcGetPTXSize(program)
    ptx = _room(size)
    nvrtc.nvrtcGetPTX(program, ptx)
    nvrtc.nvrtcDestroyProgram(program)
    return bytes(image), ptx.decode(), log.decode()
