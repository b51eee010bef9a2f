"""Read what nvdisasm prints: the instructions of a kernel, the lines of the source they come from, and its loops."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from gravbench.model.kernel_parts import Loop as Loop

FILE = re.compile(r'//## File "(?:[^"]*/)?([^"/]+)", line (\d+)')
INSTRUCTION = re.compile(
    r"/\*[0-9a-f]{4,}\*/\s+(?:(?P<predicate>@!?U?P\w+)\s+)?(?P<opcode>[A-Z]\S*)\s*(?P<operands>.*?)\s*;"
)
LABEL = re.compile(r"(\.L_\w+):")
TARGET = re.compile(r"`\((\.L_\w+)\)")
SECTION = re.compile(r"\.text\.(\w+):")
ENCODED = re.compile(r"/\* 0x([0-9a-f]{16}) \*/")
CONTROL = 41
"""The bit of the second half of an instruction's code with which its control begins."""

JUMPS = ("BRA", "BRX", "JMP", "JMX")
ENDS = ("EXIT", "RET")


class NoKernelError(ValueError):
    """Machine code has no ``kernel`` of this name; ``names`` are those that it has, as the assembler writes them."""

    def __init__(self, kernel: str, names: Sequence[str]) -> None:
        super().__init__(f"no kernel {kernel} in this machine code")
        self.kernel, self.names = kernel, names


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: ``opcode`` with its suffixes, such as ``FFMA.FTZ``, and the ``line`` of ``file`` it is of.

    ``control`` are the bits by which the assembler delays the next instructions of the warp, from the lowest: four of
    cycles to wait, one that asks for another warp, three and three for the barriers that its result and its operands
    open, six for the barriers that it waits for. It is 0 where the codes of the instructions were not printed.
    ``wavefronts`` are the clocks that the banks of shared memory take for it, 0 where that is not known.
    """

    opcode: str
    operands: str
    predicate: str = ""
    file: str = ""
    line: int = 0
    target: str = ""
    control: int = 0
    wavefronts: int = 0

    @property
    def name(self) -> str:
        """The opcode without its suffixes."""
        return self.opcode.partition(".")[0]


@dataclass(slots=True)
class Code:
    """The instructions of one kernel in their order, and where its labels are."""

    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)

    def loops(self) -> list[Loop]:
        """Find the loops: one for each place that is jumped back to, up to the last jump to it."""
        ends: dict[int, int] = {}
        aside = self._aside()
        for place, instruction in enumerate(self.instructions):
            begin = self.labels.get(instruction.target, place + 1)
            # After its last instruction a kernel jumps to itself.
            if instruction.name in JUMPS and begin < place and place not in aside:
                ends[begin] = max(place, ends.get(begin, 0))
        return [Loop(first, last) for first, last in sorted(ends.items())]

    def _aside(self) -> set[int]:
        """Return the jumps that end what stands behind the kernel for warps whose threads have gone different ways."""
        jumps = set()
        for instruction in self.instructions:
            if instruction.opcode == "BRA.DIV" and instruction.target in self.labels:
                ahead = range(self.labels[instruction.target], len(self.instructions))
                jumps |= set(islice((at for at in ahead if self._always_jumps(at)), 1))
        return jumps

    def _always_jumps(self, place: int) -> bool:
        instruction = self.instructions[place]
        return instruction.opcode == "BRA" and not instruction.predicate and instruction.operands.startswith("`")


def parse(text: str, kernel: str) -> Code:
    """Read the machine code of one kernel from what ``nvdisasm -c -g`` prints, with ``-hex`` also its control.

    Raises:
        NoKernelError: the text has no kernel of this name.
    """
    code, here, file, line = Code(), False, "", 0
    for row in text.splitlines():
        if section := SECTION.search(row):
            here = section[1] == kernel
        elif not here:
            continue
        elif source := FILE.search(row):
            file, line = source[1], int(source[2])
        elif label := LABEL.match(row.strip()):
            code.labels[label[1]] = len(code.instructions)
        elif match := INSTRUCTION.search(row):
            target = TARGET.search(match["operands"])
            code.instructions.append(
                Instruction(
                    match["opcode"],
                    match["operands"],
                    match["predicate"] or "",
                    file,
                    line,
                    target[1] if target else "",
                )
            )
        elif code.instructions and (encoded := ENCODED.search(row)):
            code.instructions[-1] = replace(code.instructions[-1], control=int(encoded[1], 16) >> CONTROL & 0x1FFFF)
    if not code.instructions:
        raise NoKernelError(kernel, list(dict.fromkeys(SECTION.findall(text))))
    return code


def innermost(loops: Sequence[Loop], holding: Sequence[int]) -> list[Loop]:
    """Return the loops with some of the instructions ``holding`` in which no smaller loop has any, in their order.

    Of those within one loop around them, the ones with the most: the others are what is left at the end of its work.
    Several with as many are ways to do the same, of which the data take one.
    """

    def has(loop: Loop) -> int:
        return sum(loop.first <= place <= loop.last for place in holding)

    candidates = [loop for loop in loops if has(loop)]
    best: dict[Loop | None, list[Loop]] = {}
    for loop in candidates:
        if any(loop.holds(other) for other in candidates):
            continue
        alike = best.setdefault(around(loops, loop), [])
        if not alike or has(loop) > has(alike[0]):
            alike[:] = [loop]
        elif has(loop) == has(alike[0]):
            alike.append(loop)
    return sorted((loop for alike in best.values() for loop in alike), key=lambda loop: loop.first)


def around(loops: Sequence[Loop], inner: Loop) -> Loop | None:
    """Return the smallest loop that holds another; None where none does."""
    return min((loop for loop in loops if loop.holds(inner)), key=lambda loop: loop.last - loop.first, default=None)


def outside(loops: Sequence[Loop], places: Iterable[int], within: Loop) -> list[int]:
    """Return the places that are in no loop within another one."""
    held = [loop for loop in loops if within.holds(loop)]
    return [place for place in places if not any(place in loop.places for loop in held)]


def following(code: Code, place: int) -> list[int]:
    """Return the places of which one is run after a place."""
    instruction = code.instructions[place]
    always = not instruction.predicate
    if instruction.name in ENDS:
        return [] if always else [place + 1]
    if instruction.name not in JUMPS or instruction.opcode == "BRA.DIV":
        return [place + 1]
    target = [code.labels[instruction.target]] if instruction.target in code.labels else []
    # BRA.U UP0, `(label): the predicate is an operand.
    return target if always and instruction.operands.startswith("`") else [*target, place + 1]
