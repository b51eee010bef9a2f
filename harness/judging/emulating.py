"""The launcher without a GPU: a confined program that runs an entry thread by thread."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from gravbench.emulation.emulated import Launch, emulate
from gravbench.emulation.programs import ENTRY
from gravbench.emulation.simulated import simulate
from gravbench.judging.calls import Call
from gravbench.judging.entry import Entry
from gravbench.judging.launching import Answer, accelerations_of, arrays_of, calls_of, changed, suffixed
from gravbench.model.bodies import Bodies
from gravbench.sandbox.confined import Limits

LIMITS = Limits(seconds=60, memory_bytes=2 << 30, processes=1, file_bytes=1 << 30)
"""Of the launches for one number of bodies."""
SIMULATING = Limits(seconds=60, memory_bytes=4 << 30, processes=1, file_bytes=64 << 20, threads=1100)
"""The same in Numba's simulator, which has a thread of Python for each thread of a block."""
ASSEMBLY = re.compile(r"\basm\b")
NO_INSTRUCTION = re.compile(r'asm\s*(?:volatile\s*)?\(\s*""\s*:[^"]*(?:"[^"]*"[^"]*)*\)\s*')
"""Assembly without an instruction, which only keeps the compiler from moving numbers."""


class EmulatedLauncher:
    """Runs entries by ``gravbench.emulation``: those in Numba CUDA in Numba's simulator."""

    description: ClassVar[str] = "Emulated on the processor, thread by thread"

    def run(self, entry: Entry, bodies: Sequence[Bodies]) -> Answer:
        """Return what was computed, or the fault that the emulator found.

        Raises:
            InputError: g++ or Numba is missing, or the system is not Linux.
        """
        arrays = arrays_of(entry, bodies)
        turns = range(len(bodies))
        inputs, outputs = (
            [suffixed(name, turn) for turn in turns for name in names] for names in (entry.inputs, entry.outputs)
        )
        launches = [Launch(*call[:4], _typed(entry, call)) for call in calls_of(entry, bodies)]
        if entry.is_python:
            name = entry.path.name
            emulated = simulate(name, entry.text, entry.defines, arrays, inputs, launches, limits=SIMULATING)
        else:
            emulated = emulate(
                without_idle_assembly(entry.text),
                {name: str(value) for name, value in entry.defines.items()},
                arrays,
                [*inputs, *outputs],
                launches,
                limits=LIMITS,
                poison_outputs=False,
            )
        if emulated.fault is not None:
            return Answer([], replace(emulated.fault, sentence=emulated.fault.sentence.replace(ENTRY, entry.path.name)))
        if fault := changed(inputs, arrays, emulated.arrays):
            return Answer([], fault)
        return Answer(accelerations_of(entry, emulated.arrays, len(bodies)))


def _typed(entry: Entry, call: Call) -> tuple[str | np.int32 | np.float32 | np.float64, ...]:
    """Return the arguments of a launch, numbers in the types in which a device gets them."""
    types: dict[type, Any] = {str: str, int: np.int32, float: entry.real}
    return tuple(types[type(argument)](argument) for argument in call.arguments)


def without_idle_assembly(text: str) -> str:
    """Return a text whose statements of assembly without an instruction are empty, on as many lines."""
    statements = text.split(";")
    for number, statement in enumerate(statements):
        begin = ASSEMBLY.search(statement)
        if begin and NO_INSTRUCTION.fullmatch(statement, begin.start()):
            statements[number] = statement[: begin.start()] + "\n" * statement.count("\n", begin.start())
    return ";".join(statements)
