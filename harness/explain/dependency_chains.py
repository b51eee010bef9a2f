"""What delays the instructions of a loop beside their number: those they wait for, and registers of one bank."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gravbench.explain.machine_code import Instruction
from gravbench.explain.pipes import pipe_of

REGISTER = re.compile(r"(?<![\w.])(U?R\d+|U?P\d+)(?:\.(64|128))?(?!\w)")
WIDTHS = {"64": 2, "128": 4}
MATRICES = {"16816": (4, 2, 4), "1688": (2, 1, 4)}
"""Registers of the two factors and of what is added to their product, by the shape of HMMA."""
WITHOUT_RESULT = ("ST", "BRA", "BAR", "BSSY", "BSYNC", "EXIT", "RED", "WARPSYNC", "NOP", "MEMBAR", "DEPBAR")
"""First letters of opcodes that write no register."""


def longest_chain(body: Sequence[Instruction]) -> int:
    """Return how many instructions of a loop's body wait for one another in a row, within one turn of it."""
    depth: dict[str, int] = {}
    longest = 0
    for instruction in body:
        written, read = registers_of(instruction)
        length = 1 + max((depth.get(register, 0) for register in read), default=0)
        for register in written:
            depth[register] = length
        longest = max(longest, length)
    return longest


def bank_conflicts(body: Sequence[Instruction]) -> int:
    """Count the instructions that read three different registers of one bank, of two, and keep none for reuse."""
    return sum(_conflicts(instruction) for instruction in body)


def registers_of(instruction: Instruction) -> tuple[set[str], set[str]]:
    """Return the registers that an instruction writes and those that it reads; predicates are among them."""
    fields = _fields(instruction.operands)
    read = {instruction.predicate.lstrip("@!")} - {""}
    written: set[str] = set()
    results = 0 if instruction.name.startswith(WITHOUT_RESULT) else 1
    # A comparison writes two predicates, the second often PT, which is none.
    if results and fields and re.fullmatch(r"U?P(T|\d+)", fields[0]):
        results = 2
    shape = widths_of_matrices(instruction)
    for place, text in enumerate(fields):
        for name, width in REGISTER.findall(text):
            if place < results and "[" not in text:
                written |= _group(name, _width(instruction.opcode))
            else:
                read |= _group(name, shape[place - 1] if 0 < place <= len(shape) else WIDTHS.get(width, 1))
    return written, read


def widths_of_matrices(instruction: Instruction) -> tuple[int, ...]:
    """Return the registers of the factors of a matrix product and of what is added to it; none of anything else."""
    return next((MATRICES[part] for part in instruction.opcode.split(".") if part in MATRICES), ())


def _conflicts(instruction: Instruction) -> bool:
    # What reads pairs of registers, or a matrix, takes more than one clock for that in any case.
    if pipe_of(instruction.opcode) not in ("FMA", "ALU") or "WIDE" in instruction.opcode:
        return False
    sources = _fields(instruction.operands)[1:]
    registers = {match[1] for text in sources if (match := re.search(r"(?<!\w)R(\d+)(?!\w)", text))}
    kept = any(".reuse" in text for text in sources)
    return len(registers) == 3 and not kept and len({int(register) % 2 for register in registers}) == 1


def _fields(operands: str) -> list[str]:
    return [text.strip() for text in re.split(r",(?![^\[]*\])", operands)] if operands else []


def _width(opcode: str) -> int:
    """Return how many registers an instruction writes in a row."""
    suffixes = opcode.split(".")[1:]
    if opcode.startswith(("D", "HMMA", "HFMA2.MMA")) or "WIDE" in suffixes:
        return 4 if opcode.startswith("HMMA") else 2 if not opcode.startswith("HFMA2") else 1
    return next((WIDTHS[suffix] for suffix in suffixes if suffix in WIDTHS), 1)


def _group(name: str, width: int) -> set[str]:
    kind, number = name.rstrip("0123456789"), int(name.lstrip("URP"))
    return {f"{kind}{number + k}" for k in range(width)}
