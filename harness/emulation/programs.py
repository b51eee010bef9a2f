"""The program of emulated kernels: made by g++ in the sandbox, and what its addresses are in the entry's file."""

from __future__ import annotations

import atexit
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from gravbench.errors import shortened
from gravbench.sandbox.compilers import MOST_OF_ERROR, CompilerError, beside, compile_host, run_tool, toolchain

HERE = Path(__file__).resolve().parent
ENTRY = "entry.cu"
"""What the file of the entry is called in sentences; its own ``#line`` may name another."""
OURS = ("device.hpp", "kernels.hpp", "threads.hpp", "checked.cpp")
INLINED = (
    "-finline-functions", "-finline-small-functions", "--param=max-inline-insns-auto=10000",
    "--param=inline-unit-growth=10000", "--param=large-function-growth=10000", "--param=inline-min-speedup=0",
)  # fmt: skip
"""What is passed by value to a function of its own is read without a check."""
HEADERS = "kernels.hpp"
"""What every kernel includes, compiled once."""
KERNEL_OPTIONS = (
    "-std=c++20", "-O1", *INLINED, "-g1", "-w", "-fpermissive", "-c", "-fno-pie", "-fno-exceptions", "-fno-rtti",
    "-fno-threadsafe-statics", "-fno-stack-protector", "-ftls-model=local-exec", "-fmax-errors=3", "-fsanitize=thread",
    "--param=tsan-instrument-func-entry-exit=0",
)  # fmt: skip
"""Permissive as compilers of CUDA C are; no optimization that duplicates barriers or removes what others could see."""
POISONED = ("asm", "__asm", "__asm__", "no_sanitize", "__no_sanitize__", "no_sanitize_thread", "__no_sanitize_thread__")
"""Words that a kernel may not use, beside the name of what checks it: assembly and accesses that nobody would see."""
SEPARATED = [
    *(f"--redefine-sym={name}=emulated_{name}" for name in ("memcpy", "memmove", "memset")),
    "--keep-global-symbol=_ZN8emulated7kernelsE",
]
"""For objcopy: copies of structures are checked, and no name of the entry replaces one that the checks use."""
KEPT_PROGRAMS = 64
CONSTANTS, TABLE = "the constants", "the launches"
"""What the texts before and behind the entry are called."""
MOST_STATIC_SHARED = 48 * 1024
"""Bytes of shared memory that a kernel may declare."""
MARK = 128
"""Bytes of a mark in shared memory."""
MATHEMATICS = (
    "sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh exp exp2 expm1 log log2 log10 log1p pow sqrt "
    "cbrt hypot fabs fmod remainder floor ceil trunc round rint nearbyint lrint llrint lround llround fma fmin fmax "
    "fdim copysign erf erfc tgamma lgamma ldexp frexp modf scalbn ilogb logb nextafter sincos"
)
KNOWN = re.compile(
    rf"emulated::.*|(thread|block)Idx|(block|grid)Dim|mem(cpy|move|set|cmp)|__tsan_\w+|__\w*[dsxt][fi]\d?|"
    rf"_GLOBAL_OFFSET_TABLE_|({'|'.join(MATHEMATICS.split())})f?"
)
"""What kernels may use that they do not define themselves."""
CHECKS = re.compile(r"__tsan_\w+|mem(cpy|move|set|cmp)")
"""What kernels may not define: it would take the place of what checks them."""
SYMBOL = re.compile(r"^[0-9a-f]+ (.{7}) (\S+)\t[0-9a-f]+ +(.*)$", re.MULTILINE)
EARLY = re.compile(r"^ *\d+ \.((?:pre)?init_array|fini_array|[cd]tors|init|fini)(\S*) +(\w+)", re.MULTILINE)
"""Sections of what runs before the kernels or behind them."""
OF_THE_COMPILER = ("init_array", ".00099", "00000008")
"""The one of these that g++ makes for the checks: the priority and the bytes of a single address."""
UNKNOWN = re.compile(r"was not declared|there are no arguments to|has not been declared|no member named")
UNLINKED = re.compile(r"(undefined reference|relocation truncated|multiple definition|cannot find).*")
DYNAMIC = re.compile(
    r"\bextern\s+__shared__\s+(?:__align__\s*\(\s*\d+\s*\)\s*)?([\w:<>]+(?:\s+[\w:<>]+){0,4})\s+(\w+)\s*\[\s*\]\s*;"
)

BYTES = {"float": 4, "int": 4, "uint": 4, "double": 8}
SHARED_ARRAY = re.compile(rf"\b__shared__\s+({'|'.join(BYTES)})([1-4]?)\s+(\w+)\s*\[[^\[\]]*\]\s*;")
"""An array of one dimension, of numbers or vectors."""
BARRIER = re.compile(r"\s*__syncthreads\s*\(")
"""A line that begins with a barrier, which all threads come to."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a kernel, in one sentence, and where: line of the entry, thread and block by their numbers.

    ``kind`` is race, barrier, divergence, bounds, time, memory, compile, crash or unknown function.
    """

    kind: str
    sentence: str
    line: int | None = None
    thread: int | None = None
    block: int | None = None
    kernel: str = ""


@dataclass(frozen=True, slots=True)
class Variable:
    """Shared memory that a kernel declares: its name, where it begins and how long it is, in bytes.

    ``element`` are the bytes of a number or vector of it; 0 where they are not known, or where it has two dimensions.
    """

    name: str
    begin: int
    size: int
    element: int = 0

    @property
    def length(self) -> str:
        """How long it is, in words."""
        if self.element:
            return f"{self.name} has {self.size // self.element} elements"
        return f"{self.name} has {self.size} bytes"

    def place(self, offset: int) -> str:
        """Name the place at an offset in shared memory."""
        behind = offset - self.begin
        return f"{self.name}[{behind // self.element}]" if self.element else f"byte {behind} of {self.name}"


@dataclass(frozen=True, slots=True)
class Program:
    """An executable in a folder of its own; ``readable`` is what it needs to start, ``barriers`` are their lines."""

    folder: Path
    kernels: tuple[str, ...]
    readable: tuple[Path, ...]
    variables: tuple[Variable, ...]
    barriers: tuple[int, ...] = ()

    @property
    def path(self) -> Path:
        """Its file."""
        return self.folder / "program"

    def fault(self, fields: list[str]) -> Fault:
        """Return the fault that the program wrote: kind, kernel, thread, block, two addresses, text."""
        kind, kernel, thread, block, *addresses, text = fields
        places = self._places(addresses)
        if kind in ("time", "crash", "memory") and not places[0][1]:
            # The processor was in a function of the emulator: the last access says where the kernel was.
            places[0] = places[1]
        if kind == "race":
            text = self._with_turn(text, places)
        for number, place in enumerate(places):
            text = _with_line(text, number, place)
        text = re.sub(r"\{shared:(\d+)\}", lambda match: self._variable(int(match[1])).place(int(match[1])), text)
        text = re.sub(r"\{size:(\d+)\}", lambda match: self._variable(int(match[1])).length, text)
        line = next((line for _, line in places if line), None)
        known = int(thread) >= 0
        return Fault(kind, text, line, int(thread) if known else None, int(block) if known else None, kernel)

    def _places(self, addresses: list[str]) -> list[tuple[str, int]]:
        """Return the file and the line of each address; the line is 0 where there is none."""
        # An address is the one behind the call.
        before = [hex(max(int(address, 16) - 1, 0)) for address in addresses]
        ended = run_tool("addr2line", ["-a", "-i", "-e", self.path, *before], self.folder)
        frames: list[list[tuple[str, int]]] = []
        for text in ended.stdout.decode(errors="replace").splitlines():
            if text.startswith("0x"):
                frames.append([])
            elif match := re.match(r"(.*):(\d+)", text):
                # What g++ reads from its input has this name, and lines as the entry counts them.
                frames[-1].append((Path(match[1]).name.replace("<stdin>", ENTRY), int(match[2])))
        frames += [[]] * (len(addresses) - len(frames))
        return [next((frame for frame in inner if frame[0] not in (*OURS, "??")), ("", 0)) for inner in frames]

    def _variable(self, offset: int) -> Variable:
        """Return the variable at an offset in shared memory, or the one before it."""
        before = [variable for variable in self.variables if variable.begin <= offset]
        return max(before, key=lambda variable: variable.begin, default=Variable("shared memory", 0, 0))

    def _with_turn(self, text: str, places: list[tuple[str, int]]) -> str:
        """Say that a write is in the next turn of a loop: it stands above the read, and a barrier between them."""
        if " reads " not in text or " writes " not in text:
            return text
        write = 1 if text.index(" reads ") < text.index(" writes ") else 0
        if any(places[write][1] < line < places[1 - write][1] for line in self.barriers if places[write][1]):
            return text.replace(f"{{{write}}}", f"{{{write}}} in the next turn of the loop")
        return text


def _with_line(text: str, number: int, place: tuple[str, int]) -> str:
    """Put a line into a text, or take away the words that would name it."""
    file, line = place
    if not line:
        return re.sub(rf" in line \{{{number}\}}", "", text)
    return text.replace(f"{{{number}}}", f"{line}" if file == ENTRY else f"{line} of {file}")


@lru_cache(maxsize=KEPT_PROGRAMS)
def program_of(source: str, defines: tuple[tuple[str, str], ...], kernels: tuple[str, ...]) -> Program | Fault:
    """Return the program of some kernels, or why there is none.

    Raises:
        InputError: g++ is missing.
    """
    runtime = _runtime()
    folder = _new_folder()
    try:
        options = [*KERNEL_OPTIONS, "-include", str(runtime / HEADERS)]
        made = compile_host(_text(source, defines, kernels), options, folder, readable=[runtime])
        made = made.rename(folder / "kernels.o")
        _check_symbols(made, source)
        run_tool("objcopy", [*SEPARATED, made], folder)
    except CompilerError as error:
        shutil.rmtree(folder)
        return _compile_fault(error, source, kernels)
    for path in runtime.glob("*.o"):
        shutil.copy(path, folder)
    return _linked(folder, kernels, source)


def _text(source: str, defines: tuple[tuple[str, str], ...], kernels: tuple[str, ...]) -> str:
    """Return what g++ compiles: macros, which change nothing in headers, the source, and a table of its kernels."""
    table = "".join(f"EMULATED_KERNEL(({name}))\n" for name in kernels)
    macros = "".join(f"#define {name} {value}\n" for name, value in defines)
    return (
        f'#pragma GCC poison emulated {" ".join(POISONED)}\n#line 1 "{CONSTANTS}"\n{macros}'
        f'#line 1 "{ENTRY}"\n{DYNAMIC.sub(_pointer, source)}\n'
        f'#line 1 "{TABLE}"\nEMULATED_KERNELS = {{\n{table}}};\n'
    )


def _pointer(declaration: re.Match[str]) -> str:
    """Write a declaration of dynamic shared memory as a pointer, on as many lines."""
    return f"EMULATED_DYNAMIC({declaration[1]}, {declaration[2]})" + "\n" * declaration[0].count("\n")


def _check_symbols(made: Path, source: str) -> None:
    """Refuse kernels that call what CUDA C does not have, define what checks them, or run something beside them.

    Raises:
        CompilerError: they do.
    """
    listed = run_tool("objdump", ["-h", "-t", "-C", made], made.parent).stdout.decode(errors="replace")
    for flags, section, name in SYMBOL.findall(listed):
        plain = name.partition("(")[0]
        if section == "*UND*" and not KNOWN.fullmatch(name):
            raise _at_its_line(source, plain, f"'{plain}' was not declared in CUDA C")
        if section != "*UND*" and CHECKS.fullmatch(name):
            raise _at_its_line(source, plain, f"no entry may define '{plain}'")
        if "i" in flags:
            raise _at_its_line(source, plain, f"'{plain}' is chosen before the kernels run, which CUDA C does not have")
    if set(EARLY.findall(listed)) - {OF_THE_COMPILER}:
        raise CompilerError(
            "something runs before or behind the kernels, such as a constructor; CUDA C has no such code"
        )


def _at_its_line(source: str, name: str, sentence: str) -> CompilerError:
    """Make an error about a name, with the first line that has it."""
    rows = enumerate(source.splitlines(), 1)
    line = next((number for number, row in rows if re.search(rf"\b{re.escape(name)}\b", row)), 0)
    return CompilerError(sentence, places=[(ENTRY, line, sentence)])


def _compile_fault(error: CompilerError, source: str, kernels: tuple[str, ...]) -> Fault:
    """Say in one sentence what g++ refuses first."""
    if not error.places:
        return Fault("compile", str(error).splitlines()[0])
    file, line, what = error.places[0]
    if file in (*OURS, TABLE) and source.count("{") > source.count("}"):
        return Fault("compile", f"{ENTRY}: a {{ has no }}, so that the file ends within a block")
    kind = "unknown function" if UNKNOWN.search(what) else "compile"
    if "poisoned" in what:
        sentence = (
            "inline assembly cannot be emulated"
            if "asm" in what
            else what.replace("attempt to use poisoned", "no entry may use")
        )
        return Fault("unknown function", f"{file}, line {line}: {sentence}", line)
    if file == TABLE:
        name = kernels[min(max(line - 2, 0), len(kernels) - 1)]
        return Fault("compile", f"there is no kernel {name} of its own name: {what}", kernel=name)
    return Fault(kind, f"{file}, line {line}: {what}", line or None)


@cache
def _root() -> Path:
    """Return the folder of all programs, which is removed when this process ends."""
    root = Path(tempfile.mkdtemp(prefix="gravbench-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    return root


def _new_folder() -> Path:
    return Path(tempfile.mkdtemp(dir=_root()))


@cache
def _runtime() -> Path:
    """Return a folder with what all kernels include and are linked to, compiled once."""
    folder = _new_folder()
    options = ["-std=c++20", "-O2", "-w", "-c", "-fno-pie", "-ftls-model=local-exec", f"-I{HERE}"]
    for name, text in (
        ("checked", '#include "checked.cpp"\n'),
        ("first", '#define FIRST\n#include "marks.cpp"\n'),
        ("last", '#include "marks.cpp"\n'),
    ):
        compile_host(text, options, folder, readable=[HERE]).rename(folder / f"{name}.o")
    for name in (HEADERS, "device.hpp"):
        shutil.copy(HERE / name, folder)
    run_tool("g++", [beside(), *KERNEL_OPTIONS, "-x", "c++-header", HEADERS], folder)
    return folder


def _linked(folder: Path, kernels: tuple[str, ...], source: str) -> Program | Fault:
    """Link the kernels between the marks; statically where the system has the libraries for it."""
    objects = ["first.o", "kernels.o", "last.o", "checked.o"]
    for kind, readable in (("-static", ()), ("-Wl,-z,now", toolchain())):
        words = [beside(), "-no-pie", kind, *objects, "-o", "program"]
        ended = run_tool("g++", words, folder)
        if ended.exit_code == 0:
            barriers = [number for number, line in enumerate(source.splitlines(), 1) if BARRIER.match(line)]
            variables = _variables(folder, elements_of(source))
            return _within_limits(Program(folder, kernels, readable, variables, tuple(barriers)))
    reason = UNLINKED.search(ended.stderr.decode(errors="replace"))
    sentence = shortened(reason[0], MOST_OF_ERROR) if reason else "no reason given"
    return Fault("compile", f"the kernels cannot be linked: {sentence}")


def _within_limits(program: Program) -> Program | Fault:
    """Return a program, or the fault that its kernels declare more shared memory together than so many can have."""
    size = sum(variable.size for variable in program.variables)
    most = MOST_STATIC_SHARED * len(program.kernels)
    if size <= most:
        return program
    sentence = f"the kernels declare {size:,} bytes of shared memory; accepted: up to {most:,}"
    return Fault("compile", sentence)


def elements_of(source: str) -> dict[str, int]:
    """Return the bytes of an element of each shared array of one dimension; not of names with several types."""
    sizes: dict[str, set[int]] = {}
    for kind, count, name in SHARED_ARRAY.findall(source):
        sizes.setdefault(name, set()).add(BYTES[kind] * int(count or 1))
    return {name: size.pop() for name, size in sizes.items() if len(size) == 1}


def _variables(folder: Path, elements: Mapping[str, int]) -> tuple[Variable, ...]:
    """Return the shared variables of the program in a folder: they lie between the marks."""
    ended = run_tool("nm", ["-C", "-S", "program"], folder)
    listed = re.findall(r"^(\w+) (\w+) [bBdDuvVwW] (.*)$", ended.stdout.decode(errors="replace"), re.MULTILINE)
    places = {name: (int(address, 16), int(size, 16)) for address, size, name in listed}
    first, last = (places[f"emulated_{mark}_shared"][0] for mark in ("first", "last"))
    return tuple(
        Variable(
            name.rpartition("::")[2],
            int(address, 16) - first - MARK,
            int(size, 16),
            elements.get(name.rpartition("::")[2], 0),
        )
        for address, size, name in listed
        if first < int(address, 16) < last
    )
