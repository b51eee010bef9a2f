"""Compile CUDA C without a GPU."""

import pickle
import re
from collections.abc import Sequence
from functools import lru_cache

from cuda.bindings import nvrtc

from gravbench.toolkits import binaries
from gravbench.toolkits.nvrtc import version

Build = tuple[str, Sequence[tuple[str, object]]]


def compile_cuda(source: str, architecture: str, options: Sequence[str]) -> tuple[bytes, str, str]:
    """Return the machine code, the PTX and the assembler's remarks on ``source`` for an architecture such as ``sm_90``.

    For one such as ``compute_90`` there is no machine code, which takes the most time. What was compiled once, by this
    process or an earlier one, is not compiled again.

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


TOGETHER = 100
"""Builds in one program: what NVRTC does for each program once takes longer than most builds."""


def ptx_of_all(source: str, builds: Sequence[Build], architecture: str, options: Sequence[str]) -> list[str]:
    """Return the PTX of each build of ``source``: a kernel's name and constants. Many are compiled in one program.

    Raises:
        AssertionError: one does not compile; the message is the compiler's log, with a note of which it is.
    """
    found = []
    for first in range(0, len(builds), TOGETHER):
        some = builds[first : first + TOGETHER]
        text = _behind_each_other(source, some)
        try:
            _, ptx, _ = compile_cuda(text, architecture, options)
        except AssertionError:
            for build in some:
                try:
                    compile_cuda(_behind_each_other(source, [build]), architecture, options)
                except AssertionError as error:
                    error.add_note(str(build))
                    raise
            raise
        head, *functions = re.split(r"^(?=[^\n]*\.(?:entry|func)\b)", ptx, flags=re.MULTILINE)
        own: dict[str, list[str]] = {}
        shared = []
        for one in functions:
            name = re.match(r".*?\.(?:entry|func)\b(?:\s*\(.*?\))?\s*(\w+)", one)[1]
            if number := re.search(r"build\d+_", name):
                own.setdefault(number[0], []).append(one)
            else:
                shared.append((f"\t{name}, ", one))
        for number, (stem, _) in enumerate(some):
            text = "".join([head, *own[f"build{number}_"]])
            # What CUDA itself brings along, such as roots, is there once, and belongs to those that call it.
            left = shared
            while called := [(call, one) for call, one in left if call in text]:
                text += "".join(one for _, one in called)
                left = [pair for pair in left if pair not in called]
            found.append(text.replace(f".entry {stem}_build{number}_(", f".entry {stem}("))
    return found


def _behind_each_other(source: str, builds: Sequence[Build]) -> str:
    """Put each build into a namespace, where its kernels, which C names, have its number in their names."""
    kernels = [re.search(r"(\w+)\([^()]*\)\s*$", one.partition("{")[0])[1] for one in source.split('extern "C"')[1:]]
    names = {name for _, constants in builds for name, _ in constants} | set(re.findall(r"#\s*define\s+(\w+)", source))
    forgotten = "".join(f"#undef {name}\n" for name in sorted({*names, *kernels}))
    made = []
    for number, (_, constants) in enumerate(builds):
        renamed = [(kernel, f"{kernel}_build{number}_") for kernel in kernels]
        defined = "".join(f"#define {name} {value}\n" for name, value in [*constants, *renamed])
        made.append(f"{forgotten}{defined}namespace build{number}_ {{\n{source}\n}}\n")
    return "".join(made)


def _room(size: int) -> bytearray:
    """Return bytes for NVRTC to write into; of one byte, all of Python shares the same immutable object."""
    return bytearray(size)


@lru_cache(maxsize=1000)
def _compiled(source: str, architecture: str, options: tuple[str, ...]) -> tuple[bytes, str, str]:
    flags = [
        f"-arch={architecture}",
        *(["--ptxas-options=-v"] if architecture.startswith("sm_") else []),
        "-Werror=all-warnings",
        *options,
    ]
    made, _ = binaries.binary(
        ["image, PTX and log", version(), *flags, source], lambda: (pickle.dumps(_made_of(source, flags)), "")
    )
    return pickle.loads(made.code)


def _made_of(source: str, flags: Sequence[str]) -> tuple[bytes, str, str]:
    error, program = nvrtc.nvrtcCreateProgram(source.encode(), b"kernel.cu", 0, [], [])
    assert error == nvrtc.nvrtcResult.NVRTC_SUCCESS
    (error,) = nvrtc.nvrtcCompileProgram(program, len(flags), [flag.encode() for flag in flags])
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
