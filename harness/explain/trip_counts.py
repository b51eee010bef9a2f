"""How often a loop of machine code turns, where that is a constant of the kernel.

Its last jump depends on a comparison of a register with a number; the register is set before the loop, and grows by the
same amounts in each turn. The compiler counts as it likes, such as in bytes from the second quarter of a tile, and the
turns come out all the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from gravbench.explain.dependency_chains import registers_of
from gravbench.explain.machine_code import Instruction, Loop

_NUMBER = r"-?(?:0x[0-9a-f]+|\d+(?:\.\d+)?(?:e[-+]?\d+)?)"
_WHOLE = r"-?0x[0-9a-f]+|U?RZ"
_COMPARED = re.compile(rf"U?P\w+, U?PT, (U?R\d+), ({_WHOLE}), U?PT")
_GROWN = re.compile(rf"(U?R\d+), (?:U?PT, U?PT, )?(U?R\d+), ({_WHOLE})(?:, U?RZ)?")
_COPIED = re.compile(r"(U?R\d+), (?:RZ, RZ, )?(U?R\d+)")
_ADDING = ("IADD3", "UIADD3", "VIADD", "IADD")
_SET = re.compile(rf"U?R\d+, (?:RZ, RZ, )?({_NUMBER})")
_SET_BY_HALVES = re.compile(rf"R\d+, -RZ, RZ, ({_NUMBER}), ({_NUMBER})")
_SET_TO_ZERO = re.compile(r"U?R\d+, (?:S?U?RZ|RZ, RZ, U?RZ)")
_SETTING = ("MOV", "UMOV", "IMAD.MOV.U32", "IMAD.MOV", "CS2R", "HFMA2", "MOV32I")
MOST = 1 << 20


def trips(code: Sequence[Instruction], loop: Loop) -> int | None:
    """Return the turns of a loop; None where they are not a constant, or cannot be read."""
    condition = _condition(code, loop)
    if condition is None:
        return None
    predicate, going_on = condition
    body = code[loop.first : loop.last]
    place = _last_writing(body, predicate)
    compared = None if place is None else _COMPARED.fullmatch(body[place].operands.replace(".reuse", ""))
    if place is None or compared is None or "ISETP" not in body[place].opcode or body[place].predicate:
        return None
    register, end = compared[1], _number(compared[2])
    value = _value_before(code[: loop.first], register)
    steps = {
        at: _step(body, at, register) for at, instruction in enumerate(body) if register in registers_of(instruction)[0]
    }
    if value is None or not steps:
        return None
    total = 0
    for at, step in steps.items():
        if step is None:
            return None
        total += step
        # Those behind the comparison count from the next turn on.
        value += step if at < place else 0
    test = body[place].opcode.split(".")[1]
    for turns in range(1, MOST):
        if _holds(test, value, end) != going_on:
            return turns
        value += total
    return None


def _condition(code: Sequence[Instruction], loop: Loop) -> tuple[str, bool] | None:
    """Return the predicate by which a loop goes on, and what it has to be for that."""
    last, before = code[loop.last], code[loop.last - 1]
    if last.predicate:
        return last.predicate.lstrip("@!"), not last.predicate.startswith("@!")
    # BRA.U UP0, `(label): the predicate of a warp.
    if match := re.match(r"(!?)(UP\d+), ", last.operands):
        return match[2], not match[1]
    # One jumps out of the loop, and the next back.
    if before.predicate and before.name in ("BRA", "CALL", "EXIT"):
        return before.predicate.lstrip("@!"), before.predicate.startswith("@!")
    return None


def _step(body: Sequence[Instruction], place: int, register: str) -> int | None:
    """Return by how much an instruction lets a register grow; None where it does anything else to it."""
    instruction = body[place]
    copied = _COPIED.fullmatch(instruction.operands)
    if instruction.opcode.startswith(_SETTING) and copied and not instruction.predicate:
        # The sum was kept in another register until the old value was of no more use.
        made = _last_writing(body[:place], copied[2])
        return None if made is None else _sum(body[made], copied[2], register)
    return _sum(instruction, register, register)


def _sum(instruction: Instruction, to: str, register: str) -> int | None:
    """Return the number that is added to a register in another one; None where anything else is done."""
    grown = _GROWN.fullmatch(instruction.operands.replace(".reuse", ""))
    if (
        grown is None
        or instruction.predicate
        or (grown[1], grown[2]) != (to, register)
        or instruction.name not in _ADDING
    ):
        return None
    return _number(grown[3])


def _holds(test: str, value: int, end: int) -> bool:
    return {
        "NE": value != end, "EQ": value == end, "LT": value < end, "LE": value <= end, "GT": value > end,
        "GE": value >= end,
    }[test]  # fmt: skip


def _last_writing(body: Sequence[Instruction], register: str) -> int | None:
    return next((at for at in range(len(body) - 1, -1, -1) if register in registers_of(body[at])[0]), None)


def _value_before(code: Sequence[Instruction], register: str) -> int | None:
    """Return the number that a register is set to last; None where it is none."""
    place = _last_writing(code, register)
    if place is None or code[place].predicate or not code[place].opcode.startswith(_SETTING):
        return None
    operands = code[place].operands
    if _SET_TO_ZERO.fullmatch(operands):
        return 0
    if halves := _SET_BY_HALVES.fullmatch(operands):
        high, low = (int(np.float16(float(half)).view(np.uint16)) for half in halves.groups())
        return high << 16 | low
    number = _SET.fullmatch(operands)
    return _number(number[1]) if number and "." not in number[1] else None


def _number(text: str) -> int:
    return 0 if text.endswith("RZ") else int(text, 0)
