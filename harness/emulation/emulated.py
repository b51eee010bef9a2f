"""Run CUDA C without a GPU, thread by thread, and find races, missing barriers and accesses out of bounds.

g++ makes a program of the kernels, of what CUDA C names (``device.hpp``), of the threads of a block (``threads.hpp``)
and of the checks (``checked.cpp``). It runs confined, reads arrays and launches from its input and writes arrays or the
first fault to its output: what a stranger wrote is never loaded into this process.

The checks find mistakes. An entry that is made to deceive them shares their memory, and may be able to; what it cannot
leave is the sandbox. That its numbers are right is for a judge who computes with bodies of his own.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gravbench.emulation.programs import Fault, Program, program_of
from gravbench.errors import InputError, nearest
from gravbench.sandbox.confined import Ended, Limits, run_confined

MOST_THREADS = 1024
MOST_SHARED_BYTES = 227 * 1024
NAME = re.compile(r"[A-Za-z_][\w:]*(<[\w\s,:]*>)?")
# What the program writes first. A kernel may have written it: whatever else comes is no answer.
FAULT = re.compile(
    r"fault\t([a-z ]{1,20})\t([^\t]*)\t(-?\d{1,9})\t(\d{1,10})\t([0-9a-f]{1,16})\t([0-9a-f]{1,16})\t([^\t]*)"
)
END = re.compile(r"ended\t(\d{1,9}\.\d{9})\t(\d{1,9})")
KINDS: Mapping[type, str] = {np.int32: "n", np.float32: "f", np.float64: "d"}
"""What ``kernels.hpp`` calls numbers of one type."""
Order = Literal["upwards", "downwards"]


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch of a kernel: blocks and threads per block along x and y, bytes of dynamic shared memory, arguments.

    An argument is the name of an array, an integer or a real number. One of NumPy's types has to be passed as it is: to
    an ``int``, a ``float`` or a ``double``.
    """

    kernel: str
    grid: tuple[int, int]
    threads: tuple[int, int]
    shared_bytes: int
    arguments: tuple[str | int | float | np.int32 | np.float32 | np.float64, ...]


@dataclass(frozen=True, slots=True)
class Emulated:
    """What the arrays hold after all launches, or the first fault; the seconds of the launches; what was printed."""

    arrays: dict[str, NDArray[np.generic]]
    fault: Fault | None
    seconds: float
    printed: str = ""


def emulate(
    source: str,
    defines: Mapping[str, str],
    arrays: Mapping[str, NDArray[np.generic]],
    outputs: Sequence[str],
    launches: Sequence[Launch],
    *,
    limits: Limits,
    order: Order = "upwards",
    poison_outputs: bool = True,
) -> Emulated:
    """Run the launches one after the other; return the arrays named in ``outputs``, or the first fault.

    Outputs begin as NaN, unless ``poison_outputs`` is false, and so does shared memory in every block. The threads of
    a block take turns in the ``order`` of their numbers. ``limits`` are those of the program; its compilation has its
    own. What is compiled is kept for the next call with the same source, defines and kernels.

    Raises:
        InputError: a launch is impossible or names an array that is not there; g++ is missing; the system is not Linux.
    """
    _check(arrays, outputs, launches)
    kernels = tuple(dict.fromkeys(launch.kernel for launch in launches))
    program = program_of(source, tuple(sorted(defines.items())), kernels)
    if isinstance(program, Fault):
        return Emulated({}, program, 0.0)
    contents = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    if poison_outputs:
        contents |= {name: _poisoned(contents[name]) for name in outputs}
    first = struct.pack("=2I", max(1, round(1000 * limits.seconds)), order == "upwards")
    packed = b"".join([first, *_packed(program, contents, outputs, launches)])
    ended = run_confined([program.path], stdin=packed, readable=program.readable, limits=_for_program(limits, contents))
    return _read(ended, program, {name: contents[name] for name in contents if name in outputs})


def _check(arrays: Mapping[str, object], outputs: Sequence[str], launches: Sequence[Launch]) -> None:
    """Refuse what no GPU could launch.

    Raises:
        InputError: see above.
    """
    if not launches:
        raise InputError("there is no launch")
    for launch in launches:
        if not NAME.fullmatch(launch.kernel):
            raise InputError(f"{launch.kernel!r} is no name of a kernel, such as tiled or tiled<128>")
        if min(*launch.grid, *launch.threads) < 1 or launch.threads[0] * launch.threads[1] > MOST_THREADS:
            raise InputError(
                f"{launch.kernel}: a grid of {launch.grid} blocks of {launch.threads} threads; accepted: at least one "
                f"of each, and at most {MOST_THREADS:,} threads in a block"
            )
        if not 0 <= launch.shared_bytes <= MOST_SHARED_BYTES:
            raise InputError(
                f"{launch.kernel}: {launch.shared_bytes:,} bytes of dynamic shared memory; "
                f"accepted: 0 to {MOST_SHARED_BYTES:,}"
            )
    named = [argument for launch in launches for argument in launch.arguments if isinstance(argument, str)]
    for name in (*named, *outputs):
        if name not in arrays:
            raise InputError(f"no array {name}; {nearest(name, list(arrays)) if arrays else 'there are no arrays'}")


def _poisoned(array: NDArray[np.generic]) -> NDArray[np.generic]:
    """Return an array of the same shape whose bits are all set: NaN, or -1."""
    return np.frombuffer(b"\xff" * array.nbytes, array.dtype).reshape(array.shape)


def _for_program(limits: Limits, arrays: Mapping[str, NDArray[np.generic]]) -> Limits:
    """Return the limits of the program: one process, an output as large as the arrays, and a second to say why."""
    room = sum(array.nbytes for array in arrays.values()) + (1 << 20)
    return Limits(limits.seconds + 1, limits.memory_bytes, 1, room)


def _packed(
    program: Program,
    arrays: Mapping[str, NDArray[np.generic]],
    outputs: Sequence[str],
    launches: Sequence[Launch],
) -> Iterable[bytes]:
    """Yield what the program reads: shared variables, arrays and launches, as ``checked.cpp`` takes them."""
    yield struct.pack("=3I", len(program.variables), len(arrays), len(launches))
    yield from (struct.pack("=2I", variable.begin, variable.size) for variable in program.variables)
    for name, array in arrays.items():
        row = max(array.nbytes // len(array), 1) if array.ndim and len(array) else array.itemsize
        yield struct.pack("=I", len(name.encode())) + name.encode()
        yield struct.pack("=QQI", array.nbytes, row, name in outputs) + array.tobytes()
    places = list(arrays)
    for launch in launches:
        yield struct.pack(
            "=I4IQ", program.kernels.index(launch.kernel), *launch.grid, *launch.threads, launch.shared_bytes
        )
        yield struct.pack("=I", len(launch.arguments))
        for argument in launch.arguments:
            if isinstance(argument, str):
                yield struct.pack("=Iq", ord("p"), places.index(argument))
            elif isinstance(argument, float | np.float32):
                yield struct.pack("=Id", ord(KINDS.get(type(argument), "r")), argument)
            else:
                yield struct.pack("=Iq", ord(KINDS.get(type(argument), "i")), argument)


def _read(ended: Ended, program: Program, returned: Mapping[str, NDArray[np.generic]]) -> Emulated:
    """Return what the program wrote."""
    line, _, content = ended.stdout.partition(b"\n")
    text = line.decode(errors="replace")
    if fault := FAULT.fullmatch(text):
        return Emulated({}, program.fault(list(fault.groups())), 0.0)
    match = END.fullmatch(text)
    sizes = sum(array.nbytes for array in returned.values())
    if not match or len(content) != int(match[2]) + sizes:
        return Emulated({}, unsaid(ended), 0.0)
    printed, at = content[: int(match[2])].decode(errors="replace"), int(match[2])
    results = {}
    for name, array in returned.items():
        results[name] = np.frombuffer(content, array.dtype, array.size, at).reshape(array.shape).copy()
        at += array.nbytes
    return Emulated(results, None, float(match[1]), printed)


def unsaid(ended: Ended) -> Fault:
    """Return the fault of a program that ended without saying why."""
    if "did not end" in ended.reason:
        return Fault("time", f"the program was ended: {ended.reason}")
    text = ended.stderr.decode(errors="replace")
    if "bad_alloc" in text or "killed" in ended.reason:
        return Fault("memory", "the program needs more memory than the limit")
    how = f"signal {ended.signal}" if ended.signal else f"exit code {ended.exit_code}"
    return Fault("crash", f"the program ended without a result ({ended.reason or how})")
