"""Run or compile kernels in Numba CUDA, confined: ``numba_kernels.py`` does, in a process of its own.

What a stranger wrote is executed there alone. What comes back is parsed as data of a known size.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gravbench.emulation.emulated import Emulated, Launch, unsaid
from gravbench.emulation.programs import Fault
from gravbench.errors import InputError, printable, shortened
from gravbench.sandbox.compilers import MOST_OF_ERROR, existing, python_files
from gravbench.sandbox.confined import Ended, Limits, run_confined

PROGRAM = Path(__file__).with_name("numba_kernels.py")
COMPILING = Limits(seconds=60, memory_bytes=16 << 30, processes=1, file_bytes=64 << 20, threads=64)
"""Libraries of compilers reserve far more addresses than they use."""
ROOM = 1 << 20
"""Bytes of an answer beside the arrays, and of what a kernel prints."""
MODULES = ("gravbench.variants.common.body", "gravbench.toolkits.numba_ahead")
"""What kernels read and write rows by, and what compiles them: the program loads both from their files."""
INSTALL = "install it with: pip install 'gravbench[numba-cuda]'"
FAULTS = ("race", "barrier", "bounds", "crash")
"""Kinds that the program finds."""


class KernelRefusedError(Exception):
    """Numba refuses a kernel; the message says why."""


def simulate(
    file: str,
    text: str,
    constants: Mapping[str, int],
    arrays: Mapping[str, NDArray[np.generic]],
    inputs: Sequence[str],
    launches: Sequence[Launch],
    *,
    limits: Limits,
) -> Emulated:
    """Run the launches one after the other in Numba's simulator; return all arrays, or the first fault.

    ``text`` is executed behind its ``constants``; messages call it ``file``. ``inputs`` are arrays that are only read.

    Raises:
        InputError: Numba is missing, or the system is not Linux.
    """
    facts = {
        "do": "simulate",
        "inputs": list(inputs),
        "outputs": list(arrays),
        "arrays": [(name, array.dtype.name, array.shape) for name, array in arrays.items()],
        "launches": [(each.kernel, each.grid, each.threads, _arguments(each)) for each in launches],
    }
    contents = [np.ascontiguousarray(array).tobytes() for array in arrays.values()]
    ended = _run(file, text, constants, facts, contents, limits)
    answer, content = _answer(ended)
    if answer is None:
        return Emulated({}, unsaid(ended), 0.0)
    if (fault := _fault(answer)) is not None:
        return Emulated({}, fault, 0.0)
    if len(content) != sum(array.nbytes for array in arrays.values()):
        return Emulated({}, Fault("crash", "the program ended without a result", None, None, None, ""), 0.0)
    results, begin = {}, 0
    for name, array in arrays.items():
        results[name] = np.frombuffer(content, array.dtype, array.size, begin).reshape(array.shape).copy()
        begin += array.nbytes
    return Emulated(results, None, 0.0)


def machine_code(
    file: str, text: str, constants: Mapping[str, int], kernel: str, types: Sequence[tuple[str, int]], architecture: str
) -> tuple[bytes, str]:
    """Compile a kernel for an architecture such as ``sm_90``; return the machine code and the linker's remarks.

    ``types`` are those of its arguments: the number type, and how many dimensions an array has, 0 for a number.

    Raises:
        KernelRefusedError: it cannot be compiled.
        InputError: numba-cuda or what it needs is missing, or the system is not Linux.
    """
    if missing := lacking():
        raise InputError(missing)
    capability = (int(architecture[3:-1]), int(architecture[-1]))
    facts = {"do": "compile", "kernel": kernel, "types": list(types), "capability": capability}
    ended = _run(file, text, constants, facts, [], COMPILING)
    answer, content = _answer(ended)
    if answer is None:
        raise KernelRefusedError(unsaid(ended).sentence)
    if "missing" in answer:
        raise InputError(f"compiling it needs more than is installed: {shortened(str(answer['missing']))}; {INSTALL}")
    if not isinstance(log := answer.get("log"), str):
        raise KernelRefusedError(_sentence(file, str(answer.get("refused"))))
    return content, log


def lacking() -> str | None:
    """Say what is not installed of what compiles a kernel; None where all is."""
    for package in ("numba_cuda", "nvidia", "cuda"):
        if find_spec(package) is None:
            return f"compiling kernels in Numba CUDA needs numba-cuda with NVVM and nvJitLink; {INSTALL}"
    return None


def _arguments(launch: Launch) -> list[tuple[str, Any]]:
    return [
        ("", value) if isinstance(value, str) else (type(value).__name__, np.asarray(value).item())
        for value in launch.arguments
    ]


def _run(
    file: str,
    text: str,
    constants: Mapping[str, int],
    facts: Mapping[str, Any],
    contents: Sequence[bytes],
    limits: Limits,
) -> Ended:
    """Run the program with what it has to do."""
    files = [Path(spec.origin) for name in MODULES if (spec := find_spec(name)) and spec.origin]
    modules = dict(zip(("rows", "ahead"), map(str, files), strict=True))
    head = json.dumps({"file": file, "text": text, "constants": dict(constants), **modules, **facts})
    packages = _packages()
    readable = [PROGRAM, *files, *packages, *python_files()]
    room = ROOM + sum(map(len, contents))
    bounds = Limits(limits.seconds, limits.memory_bytes, 1, max(room, limits.file_bytes), limits.threads)
    command: list[str | Path] = [Path(sys.executable), "-I", PROGRAM, *packages]
    return run_confined(command, stdin=head.encode() + b"\n" + b"".join(contents), readable=readable, limits=bounds)


def _answer(ended: Ended) -> tuple[dict[str, Any] | None, bytes]:
    """Return what the program wrote, a line of facts and bytes; None for the facts where it is no answer."""
    line, _, content = ended.stdout.partition(b"\n")
    try:
        answer = json.loads(line)
    except ValueError:
        return None, b""
    return (answer, content) if isinstance(answer, dict) else (None, b"")


def _fault(answer: Mapping[str, Any]) -> Fault | None:
    """Return the fault that an answer names."""
    facts = answer.get("fault")
    if not isinstance(facts, dict):
        return None
    kind, sentence = facts.get("kind"), printable(shortened(str(facts.get("sentence")), MOST_OF_ERROR))

    def number(key: str) -> int | None:
        return value if type(value := facts.get(key)) is int else None

    known = kind if isinstance(kind, str) and kind in FAULTS else "crash"
    return Fault(known, sentence, number("line"), number("thread"), number("block"), "")


def _sentence(file: str, refusal: str) -> str:
    """Return what Numba says of a kernel that it cannot compile: the reason, and the line."""
    refusal = re.sub(r"\x1b\[\d*m", "", refusal)
    lines = [line.strip() for line in refusal.splitlines() if line.strip()]
    reason = next((line for line in lines if not line.startswith("Failed in")), "it gives no reason")
    places = re.findall(rf'File "{re.escape(file)}", line (\d+)|{re.escape(file)} \((\d+)\)', refusal)
    at = f" in line {next(filter(None, places[-1]))}" if places else ""
    return f"Numba refuses it{at}: {printable(shortened(reason, MOST_OF_ERROR))}"


def _packages() -> tuple[Path, ...]:
    """Return the folders of installed packages in which Numba and what it needs lie.

    Raises:
        InputError: Numba is missing.
    """
    specs = [find_spec(name) for name in ("numba", "llvmlite", "numpy", "numba_cuda")]
    if specs[0] is None:
        raise InputError("Numba is not installed; install it with: pip install numba")
    return existing(list(dict.fromkeys(Path(spec.origin).parents[1] for spec in specs if spec and spec.origin)))
