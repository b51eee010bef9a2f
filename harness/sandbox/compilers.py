"""Compilers that read a stranger's text: they see their own files and one folder, and reach no network."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from gravbench.errors import InputError, few, shortened
from gravbench.sandbox.confined import Ended, Limits, run_confined

NVRTC = Path(__file__).with_name("nvrtc.py")
COMPILING = Limits(seconds=60, memory_bytes=4 << 30, processes=64, file_bytes=64 << 20)
SYSTEM = ("/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec", "/lib", "/lib64", "/usr/bin", "/bin")
"""Where libraries and compilers lie that came with the system."""
MOST_OF_ERROR = 300
"""Characters of an error that a sentence quotes."""
REASONS = ("error", "undefined", "out of memory")
"""Words of the lines that say why a compiler fails."""
NVRTC_ERROR = re.compile(r"^(.*?)\((\d+)\): (?:catastrophic )?error: (.+)$", re.MULTILINE)
HOST_ERROR = re.compile(r"^(.*?):(\d+):(?:\d+:)? (?:fatal )?error: (.+)$", re.MULTILINE)


class CompilerError(InputError):
    """A compiler refuses a text; ``places`` has the file, the line and what is wrong for each error that names one."""

    def __init__(self, *sentences: str, places: Sequence[tuple[str, int, str]] = ()) -> None:
        super().__init__(*sentences)
        self.places = tuple(places)


def compile_cuda(
    text: str, architecture: str, flags: Sequence[str] = (), *, limits: Limits = COMPILING
) -> tuple[bytes, str]:
    """Return the machine code (a cubin) that NVRTC makes of CUDA C for an architecture such as ``sm_90``.

    With it come NVRTC's remarks, for which flags may ask.

    Raises:
        CompilerError: NVRTC refuses the text; a sentence for each error, with its line in ``kernel.cu``.
        InputError: NVRTC is missing.
    """
    library, headers = nvrtc_files()
    options = [f"-arch={architecture}", *flags, *(f"-I{folder}" for folder in headers)]
    command: list[str | Path] = [sys.executable, "-I", "-S", NVRTC, library, *options]
    ended = run_confined(
        command, stdin=text.encode(), readable=[NVRTC, library.parent, *headers, *python_files()], limits=limits
    )
    if ended.exit_code != 0 or not ended.stdout:
        raise _refusal("NVRTC", ended, NVRTC_ERROR)
    return ended.stdout, ended.stderr.decode(errors="replace")


def compile_host(
    text: str, options: Sequence[str], folder: Path, *, readable: Sequence[Path] = (), limits: Limits = COMPILING
) -> Path:
    """Have g++ compile C++ into ``folder``, which the options may refer to as the current one; return what it made.

    ``readable`` are headers and objects outside of the folder that the options name.

    Raises:
        CompilerError: g++ refuses the text; a sentence for each error, with its line.
        InputError: g++ is missing.
    """
    made = folder.resolve() / "made"
    command: list[str | Path] = [compiler(), beside(), *options, "-o", made, "-x", "c++", "-"]
    ended = run_confined(
        command, stdin=text.encode(), readable=[*toolchain(), *readable], writable=folder, limits=limits
    )
    if ended.exit_code != 0:
        raise _refusal("g++", ended, HOST_ERROR)
    return made


def run_tool(name: str, arguments: Sequence[str | Path], folder: Path) -> Ended:
    """Run a program that comes with g++, such as ``nm`` or g++ itself, in a folder.

    Raises:
        InputError: it is missing.
    """
    return run_confined([compiler(name), *arguments], readable=toolchain(), writable=folder, limits=COMPILING)


def _refusal(program: str, ended: Ended, pattern: re.Pattern[str]) -> CompilerError:
    """Say why a compiler made nothing."""
    if ended.reason:
        return CompilerError(f"{program} was stopped: {ended.reason}")
    output = ended.stderr.decode(errors="replace")
    places = [
        (Path(file).name, int(line), shortened(what.strip(), MOST_OF_ERROR))
        for file, line, what in pattern.findall(output)
    ]
    if places:
        sentences = dict.fromkeys(f"{file}, line {line}: {what}" for file, line, what in places)
        return CompilerError(*few(list(sentences)), places=places)
    lines = [line for line in output.splitlines() if any(word in line.lower() for word in REASONS)]
    return CompilerError(f"{program} fails: {lines[0].strip() if lines else 'it gives no reason'}")


@cache
def compiler(name: str = "g++") -> Path:
    """Return where g++ is, or a program that comes with it.

    Raises:
        InputError: it is not on PATH.
    """
    path = shutil.which(name)
    if path is None:
        raise InputError(f"there is no {name} on PATH; a package such as g++ or build-essential has it")
    return Path(path)


def beside() -> str:
    """Return the option by which g++ finds its assembler and its linker, as it has no PATH."""
    return f"-B{compiler('ld').parent}"


@cache
def toolchain() -> tuple[Path, ...]:
    """Return the folders that g++ reads: those of the system, and those in which it says that it looks."""
    programs = compiler().resolve().parent
    search = subprocess.run(
        [compiler(), "-v", "-E", "-x", "c++", "-"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
    )
    headers = [Path(line.strip()) for line in search.stderr.splitlines() if line.startswith(" /")]
    # One that is installed elsewhere lies in folders beside its programs.
    neighbours = [programs.parent / name for name in ("lib", "libexec")] if programs != Path("/usr/bin") else []
    return existing([*SYSTEM, programs, *headers, *neighbours])


def python_files() -> tuple[Path, ...]:
    """Return what the interpreter reads to start: itself, its libraries and modules, without installed packages."""
    real = Path(sys.executable).resolve()
    libraries = [sysconfig.get_config_var("LIBDIR") or "/usr/lib", *SYSTEM[:6]]
    modules = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib")]
    settings = Path(sys.prefix) / "pyvenv.cfg"
    return existing([sys.executable, real, settings, *libraries, *modules, *SYSTEM[4:6]])


def existing(paths: Sequence[str | Path]) -> tuple[Path, ...]:
    """Keep the paths that exist, each once; a folder's other names are kept."""
    return tuple(dict.fromkeys(path for path in map(Path, paths) if path.exists()))


@cache
def nvrtc_files() -> tuple[Path, tuple[Path, ...]]:
    """Return NVRTC's library and the folders of CUDA's headers.

    Raises:
        InputError: it is not installed.
    """
    try:
        from cuda import pathfinder

        library = pathfinder.load_nvidia_dynamic_lib("nvrtc").abs_path
    except (ImportError, RuntimeError):
        raise InputError("NVRTC is not installed; pip install 'gravbench[explain]' has it") from None
    folders = (pathfinder.find_nvidia_header_directory(name) for name in ("cudart", "cccl"))
    return Path(library), existing([folder for folder in folders if folder])
