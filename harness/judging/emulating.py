"""The launcher without a GPU: a confined program that runs an entry thread by thread."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from gravbench.emulation.emulated import Launch, emulate
from gravbench.judging.entry import Entry
from gravbench.judging.launching import Answer, accelerations_of, arrays_of, calls_of, suffixed
from gravbench.model.bodies import Bodies
from gravbench.sandbox.confined import Limits

LIMITS = Limits(seconds=60, memory_bytes=2 << 30, processes=1, file_bytes=1 << 30)
"""Of the launches for one number of bodies."""
NO_INSTRUCTION = re.compile(r'\basm\s*(?:volatile\s*)?\(\s*""\s*:[^;"]*(?:"[^;"]*"[^;"]*)*\)\s*;')
"""Assembly without an instruction, which only keeps the compiler from moving numbers."""


class EmulatedLauncher:
    """Runs entries by ``gravbench.emulation``."""

    description: ClassVar[str] = "Emulated on the processor, thread by thread"

    def run(self, entry: Entry, bodies: Sequence[Bodies]) -> Answer:
        """Return what was computed, or the fault that the emulator found.

        Raises:
            InputError: g++ is missing, or the system is not Linux.
        """
        turns = range(len(bodies))
        emulated = emulate(
            NO_INSTRUCTION.sub(lambda match: ";" + "\n" * match[0].count("\n"), entry.text),
            {name: str(value) for name, value in entry.defines.items()},
            arrays_of(entry, bodies),
            [suffixed(name, turn) for turn in turns for name in entry.outputs],
            [Launch(*call) for call in calls_of(entry, bodies)],
            limits=LIMITS,
            poison_outputs=False,
        )
        if emulated.fault is not None:
            return Answer([], emulated.fault)
        return Answer(accelerations_of(entry, emulated.arrays, len(bodies)))
