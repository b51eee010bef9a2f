"""Compile CUDA C by NVRTC, link PTX by nvJitLink and print machine code by nvdisasm, for any architecture.

None of them needs a GPU.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any

from gravbench.errors import InputError, few, listed, shortened
from gravbench.explain.machine_code import Code, NoKernelError, parse
from gravbench.model.compiler_log import sentences
from gravbench.model.stem_code import CUDA_C
from gravbench.toolkits import binaries, nvrtc

INSTALL = "install it with: pip install 'gravbench[explain]'"
NO_NVRTC = f"explain needs NVRTC and its Python bindings; {INSTALL}"
ELF = b"\x7fELF"
"""What a cubin begins with."""
TARGET = re.compile(rb"^\.target (\w+)", re.MULTILINE)
"""The architecture in a text of PTX, which may be the special one of a generation: ``sm_90a`` for ``sm_90``."""
MOST_OF_LOG = 600
"""Characters of the compiler's output that a sentence quotes."""
ARCHITECTURE = re.compile(r"sm_\d{2,3}[af]?")


class CompileError(InputError):
    """NVRTC refuses a text; ``log`` is what it says."""

    def __init__(self, architecture: str, log: str) -> None:
        self.log = log
        lines = [line.strip() for line in self.log.splitlines() if line.strip()]
        # The assembler's errors name no line, and stand behind its remarks.
        lines = [line for line in lines if "error" in line] or lines
        super().__init__(f"it does not compile for {architecture}: {'; '.join(lines)[:MOST_OF_LOG]}")


@dataclass(frozen=True, slots=True)
class Assembled:
    """A kernel as machine code: registers per thread, bytes of spills and of shared memory, and its instructions.

    ``frame`` are the bytes of local memory of a thread, among which the spills are.
    """

    architecture: str
    registers: int
    spilled: int
    shared: int
    code: Code
    frame: int = 0


@dataclass(frozen=True, slots=True)
class Compiled:
    """What NVRTC made of a text: the machine code, and its remarks."""

    architecture: str
    image: bytes
    log: str


def assemble(source: str, kernel: str, architecture: str, options: Sequence[str]) -> Assembled:
    """Compile one kernel of a text for an architecture such as ``sm_90``, and read its machine code.

    Raises:
        InputError: NVRTC or nvdisasm is missing, does not know the architecture, or refuses the text.
    """
    return disassembled(compiled(source, architecture, options), kernel)


def disassembled(made: Compiled, kernel: str) -> Assembled:
    """Read the machine code of one kernel.

    Raises:
        InputError: nvdisasm is missing, or refuses the machine code.
    """
    # What -ndf leaves out is an analysis of the flow of data, which takes a third of the time and prints nothing.
    text = listing(made, "-g", "-hex", "-ndf")
    # The remarks on other kernels of the text stand before or behind those on this one.
    remarks = made.log.partition(f"entry function '{kernel}'")[2].partition("Compiling entry function")[0]

    def total(pattern: str) -> int:
        return sum(map(int, re.findall(pattern, remarks)))

    return Assembled(
        made.architecture,
        total(r"Used (\d+) registers"),
        total(r"(\d+) bytes spill stores") + total(r"(\d+) bytes spill loads"),
        total(r"(\d+) bytes smem"),
        parse(text, kernel),
        total(r"(\d+) bytes stack frame"),
    )


def listing(made: Compiled, *options: str) -> str:
    """Print machine code as nvdisasm does with these options; what it printed once is kept.

    Raises:
        InputError: nvdisasm is missing, or refuses the machine code.
    """
    program = disassembler()
    key = ["listing", _version(program), *options, hashlib.sha256(made.image).hexdigest()]
    kept, _ = binaries.binary(key, lambda: (_listed(program, made, options), ""))
    return kept.code.decode()


@cache
def _version(program: str) -> str:
    """Return what nvdisasm says of itself."""
    return subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout


def _listed(program: str, made: Compiled, options: Sequence[str]) -> bytes:
    """Call nvdisasm, which takes a quarter of a second before it reads a file.

    Raises:
        InputError: it refuses the machine code.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(made.image)
        done = subprocess.run([program, "-c", *options, str(path)], capture_output=True, check=False)
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip()[:300]
        raise InputError(f"nvdisasm refused the machine code for {made.architecture}: {reason}")
    return done.stdout


def linked(code: bytes, architecture: str) -> bytes:
    """Make machine code of a text of PTX, for the target that it names; machine code stays as it is.

    Raises:
        InputError: nvJitLink is missing, or refuses the text.
    """
    if code.startswith(ELF):
        return code
    target = TARGET.search(code)
    try:
        from cuda.bindings import nvjitlink

        handle = nvjitlink.create(1, [f"-arch={target[1].decode() if target else architecture}"])
    except (ImportError, RuntimeError) as error:
        raise InputError(f"compiling PTX needs nvJitLink, which is not usable here: {error}; {INSTALL}") from error
    try:
        nvjitlink.add_data(handle, nvjitlink.InputType.PTX, code, len(code), "kernel.ptx")
        nvjitlink.complete(handle)
        image = bytearray(nvjitlink.get_linked_cubin_size(handle))
        nvjitlink.get_linked_cubin(handle, image)
    except nvjitlink.nvJitLinkError as error:
        raise InputError(f"nvJitLink rejects the PTX for {architecture}: {error}") from error
    finally:
        nvjitlink.destroy(handle)
    return bytes(image)


def compiled(source: str, architecture: str, options: Sequence[str]) -> Compiled:
    """Compile a text, several at the same time where several threads ask.

    Raises:
        InputError: NVRTC is missing, does not know the architecture, or refuses the text.
    """
    flags = [f"-arch={architecture}", "--ptxas-options=-v", "-lineinfo", *options]
    with _program(source, architecture, flags) as (program, log):
        return Compiled(architecture, nvrtc.cubin(program), log)


def hasty_ptx(source: str, architecture: str, options: Sequence[str]) -> str:
    """Return PTX that is hardly optimized, in a tenth of the time: what it computes with is all there.

    Raises:
        InputError: as ``compiled``.
    """
    flags = [f"-arch={architecture.replace('sm', 'compute')}", "--minimal", "--Ofast-compile=max", *options]
    with _program(source, architecture, flags) as (program, _):
        return nvrtc.ptx(program).decode(errors="replace")


@contextmanager
def naming(stem: Path) -> Iterator[None]:
    """Name the file of CUDA C of a variant, and its lines, in what is said of a text that does not compile.

    Raises:
        InputError: a text does not compile, or has no kernel of the name that is asked for.
    """
    try:
        yield
    except CompileError as error:
        cuda_c = stem.with_suffix(CUDA_C)
        raise InputError(*few(sentences(error.log, stem) or [f"{cuda_c}: {error}"])) from error
    except NoKernelError as error:
        has = f"; it has {listed(error.names)}" if error.names else ""
        raise InputError(
            f"{stem.with_suffix(CUDA_C)}: no kernel {error.kernel}{has}; "
            f'accepted: extern "C" __global__ void {error.kernel}(...)'
        ) from error


@contextmanager
def _program(source: str, architecture: str, flags: Sequence[str]) -> Iterator[tuple[Any, str]]:
    """Compile a text; gives the program and the compiler's remarks."""
    if not nvrtc.is_usable():
        raise InputError(NO_NVRTC)
    if not ARCHITECTURE.fullmatch(architecture):
        accepted = ", ".join(nvrtc.architectures())
        raise InputError(f"--arch {shortened(architecture)}: no such architecture; accepted: {accepted}")
    try:
        with nvrtc.program(source, flags) as program_and_log:
            yield program_and_log
    except nvrtc.UnknownOptionError as error:
        accepted = ", ".join(nvrtc.architectures())
        raise InputError(f"--arch {architecture}: not known to this NVRTC; accepted: {accepted}") from error
    except nvrtc.CompileError as error:
        raise CompileError(architecture, str(error)) from error


def missing() -> str | None:
    """Say what is not installed of what the ledger needs; None where all is."""
    if not nvrtc.is_usable():
        return NO_NVRTC
    try:
        disassembler()
    except InputError as error:
        return str(error)
    return None


@cache
def disassembler() -> str:
    """Find nvdisasm: that of its wheel, or of a CUDA toolkit on PATH.

    Raises:
        InputError: there is none.
    """
    package = find_spec("nvidia")
    for folder in package.submodule_search_locations or [] if package else []:
        for path in sorted(Path(folder).glob("*/bin/nvdisasm")):
            if path.is_file():
                return str(path)
    if path_of := which("nvdisasm"):
        return path_of
    raise InputError(f"explain needs nvdisasm; {INSTALL}")
