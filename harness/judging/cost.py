"""What an interaction of an entry costs, by its machine code for one architecture; needs no GPU.

The inner loop over interactions is found as ``explain`` finds it, by its reciprocal square root.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from gravbench.emulation.simulated import KernelRefusedError, machine_code
from gravbench.errors import InputError
from gravbench.explain.assembling import Assembled, Compiled, disassembled, disassembler, missing
from gravbench.explain.ledger import Line, inner_loops, over_interactions
from gravbench.explain.machine_code import NoKernelError
from gravbench.explain.occupancy import Occupancy, occupancy
from gravbench.explain.source_lines import places
from gravbench.judging.calls import Call
from gravbench.judging.entry import Entry
from gravbench.sandbox.compilers import CompilerError, compile_cuda
from gravbench.toolkits.interface import cuda_options

ARCHITECTURE = "sm_90"
FILE = "kernel.cu"
"""What compilers call the file of an entry, in whatever language."""
BODIES = 65536
"""For so many bodies the threads of a block are taken."""
ENTRY_FUNCTION = re.compile(r"entry function '([^']+)'")
"""Names a kernel in the remarks of a compiler."""
ROWS = ("bodies", "accelerations")
"""Layouts of two dimensions."""
NO_LOOP = "no loop with a reciprocal square root, such as rsqrtf(x), is there, by which an interaction is known"
REMARKS = ("--ptxas-options=-v", "-lineinfo")


class NoCostError(Exception):
    """The cost cannot be counted; the message says why."""


class RefusedError(NoCostError):
    """The compiler makes no machine code of a kernel of the entry: no GPU could run it."""


@dataclass(frozen=True)
class Cost:
    """What one interaction costs in the inner loop of a kernel: issue slots, loads from global and shared memory.

    Registers are those of a thread, ``spilled`` bytes those that it stores and loads for want of registers, ``shared``
    the bytes of a block. ``pipes`` and ``lines`` divide the slots by pipe and by line of the entry, ``opcodes`` by
    instruction without its suffixes.
    """

    kernel: str
    architecture: str
    slots: float
    global_loads: float
    shared_loads: float
    registers: int
    spilled: int
    shared: int
    occupancy: Occupancy
    pipes: Mapping[str, float]
    lines: tuple[Line, ...]
    opcodes: Mapping[str, float]


def cost_of(entry: Entry) -> Cost:
    """Compile an entry, and count the first of its kernels that has a loop over interactions.

    Raises:
        RefusedError: the compiler refuses it, or makes no kernel of that name.
        NoCostError: it cannot be compiled or read here, or has no such loop.
    """
    if entry.is_wgsl:
        raise NoCostError("a driver compiles WGSL, and tells nobody the machine code")
    try:
        made = None if entry.is_python else _by_nvrtc(entry)
        for call in {call.kernel: call for call in entry.calls(BODIES)}.values():
            built = disassembled(made, call.kernel) if made else _by_numba(entry, call)
            if cost := _counted(entry, call.kernel, built, prod(call.block), call.shared):
                return cost
    except NoKernelError as error:
        accepted = f'extern "C" __global__ void {error.kernel}(...)'
        raise RefusedError(f"the machine code has no kernel {error.kernel}; accepted: {accepted}") from error
    except (CompilerError, KernelRefusedError) as error:
        raise RefusedError(str(error).replace(FILE, entry.path.name)) from error
    except InputError as error:
        raise NoCostError(str(error)) from error
    raise NoCostError(NO_LOOP)


def _by_nvrtc(entry: Entry) -> Compiled:
    """Compile an entry in CUDA C.

    Raises:
        InputError: NVRTC or nvdisasm is missing, or NVRTC refuses the text.
    """
    if reason := missing():
        raise InputError(reason)
    text = f'#line 1 "{FILE}"\n{entry.text}'
    flags = [*REMARKS, *cuda_options(entry.head.constants, entry.head.precision)]
    return Compiled(ARCHITECTURE, *compile_cuda(text, ARCHITECTURE, flags))


def _by_numba(entry: Entry, call: Call) -> Assembled:
    """Compile a kernel in Numba CUDA.

    Raises:
        KernelRefusedError: Numba refuses it.
        InputError: numba-cuda or nvdisasm is missing.
    """
    disassembler()
    dimensions = {name: 2 if array.layout in ROWS else 1 for name, array in entry.head.arrays.items()}
    real = np.dtype(entry.real).name
    types = [
        ("int32", 0) if isinstance(argument, int) else (real, dimensions.get(str(argument), 0))
        for argument in call.arguments
    ]
    image, log = machine_code(FILE, entry.text, entry.defines, call.kernel, types, ARCHITECTURE)
    name = ENTRY_FUNCTION.search(log)
    assert name, log
    return disassembled(Compiled(ARCHITECTURE, image, log), name[1])


def _counted(entry: Entry, kernel: str, built: Assembled, threads: int, dynamic: int) -> Cost | None:
    code, loops = built.code.instructions, built.code.loops()
    inner = inner_loops(built, places(f'#line 1 "{FILE}"\n{entry.text}'), entry.head.mutual)
    if not inner:
        return None
    # Of several, that with the most interactions in a turn does most of the work.
    place = max(range(len(inner)), key=lambda number: inner[number].turn)
    loop = over_interactions(code, loops)[place]
    turn = inner[place].turn
    counts = Counter(instruction.opcode.partition(".")[0] for instruction in code[loop.first : loop.last + 1])
    opcodes = {name: count / turn for name, count in counts.items()}
    shared = built.shared + dynamic
    return Cost(
        kernel,
        built.architecture,
        inner[place].slots,
        opcodes.get("LDG", 0.0),
        opcodes.get("LDS", 0.0),
        built.registers,
        built.spilled,
        shared,
        occupancy(built.architecture, threads, built.registers, shared),
        inner[place].pipes,
        inner[place].lines,
        opcodes,
    )
