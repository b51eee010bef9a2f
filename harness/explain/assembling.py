"""Compile CUDA C for any architecture by NVRTC, and print its machine code by nvdisasm; neither needs a GPU."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from shutil import which

from gravbench.errors import InputError
from gravbench.explain.machine_code import Code, parse

INSTALL = "install it with: pip install 'gravbench[explain]'"
ARCHITECTURE = re.compile(r"sm_\d{2,3}[af]?")


@dataclass(frozen=True, slots=True)
class Assembled:
    """A kernel as machine code: registers per thread, bytes of spills and of shared memory, and its instructions."""

    architecture: str
    registers: int
    spilled: int
    shared: int
    code: Code


def assemble(source: str, kernel: str, architecture: str, options: Sequence[str]) -> Assembled:
    """Compile one kernel of a text for an architecture such as ``sm_90``.

    Raises:
        InputError: NVRTC or nvdisasm is missing, does not know the architecture, or refuses the text.
    """
    image, log = _compiled(source, architecture, options)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(image)
        done = subprocess.run([_disassembler(), "-c", "-g", "-hex", str(path)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise InputError(f"nvdisasm refused the machine code for {architecture}: {done.stderr.strip()[:300]}")
    # The remarks on other kernels of the text stand before or behind those on this one.
    own = log.partition(f"entry function '{kernel}'")[2].partition("Compiling entry function")[0]

    def said(pattern: str) -> int:
        return sum(map(int, re.findall(pattern, own)))

    return Assembled(
        architecture,
        said(r"Used (\d+) registers"),
        said(r"(\d+) bytes spill stores") + said(r"(\d+) bytes spill loads"),
        said(r"(\d+) bytes smem"),
        parse(done.stdout, kernel),
    )


def _compiled(source: str, architecture: str, options: Sequence[str]) -> tuple[bytes, str]:
    """Return the machine code and the compiler's remarks."""
    if not find_spec("cuda") or not find_spec("cuda.bindings"):
        raise InputError(f"explain needs NVRTC and its Python bindings; {INSTALL}")
    from cuda.bindings import nvrtc

    error, program = nvrtc.nvrtcCreateProgram(source.encode(), b"kernel.cu", 0, [], [])
    try:
        flags = [f"-arch={architecture}", "--ptxas-options=-v", "-lineinfo", *options]
        (error,) = nvrtc.nvrtcCompileProgram(program, len(flags), [flag.encode() for flag in flags])
        _, size = nvrtc.nvrtcGetProgramLogSize(program)
        log = bytearray(size)
        nvrtc.nvrtcGetProgramLog(program, log)
        if error == nvrtc.nvrtcResult.NVRTC_ERROR_INVALID_OPTION:
            raise InputError(f"--arch {architecture}: NVRTC knows {', '.join(_known())}")
        if error != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise InputError(f"it does not compile for {architecture}: {log.decode(errors='replace').strip()[:600]}")
        _, size = nvrtc.nvrtcGetCUBINSize(program)
        image = bytearray(size)
        nvrtc.nvrtcGetCUBIN(program, image)
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    return bytes(image), log.decode(errors="replace")


def _known() -> list[str]:
    from cuda.bindings import nvrtc

    _, count = nvrtc.nvrtcGetNumSupportedArchs()
    _, numbers = nvrtc.nvrtcGetSupportedArchs()
    return [f"sm_{number}" for number in list(numbers)[:count]]


@cache
def _disassembler() -> str:
    """Find nvdisasm: that of its wheel, or of a CUDA toolkit on PATH.

    Raises:
        InputError: there is none.
    """
    found = find_spec("nvidia")
    for folder in found.submodule_search_locations or [] if found else []:
        for path in sorted(Path(folder).glob("*/bin/nvdisasm")):
            if path.is_file():
                return str(path)
    if path_of := which("nvdisasm"):
        return path_of
    raise InputError(f"explain needs nvdisasm; {INSTALL}")
