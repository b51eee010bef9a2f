"""How often a warp goes through shared memory for one access, from the addresses of its lanes.

Shared memory has 32 banks of 4 bytes, and each gives or takes one word per clock (CUDA C++ Programming Guide). So an
access takes as many clocks as the fullest bank has different words of it. The addresses are computed here from the
number of the lane, as the machine code does it: for one warp, each instruction once, on the first way that leads to it.
What is the same for all lanes, such as an argument, moves them all alike and counts as zero.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gravbench.explain.dependency_chains import registers_of
from gravbench.explain.machine_code import Code, Instruction, following
from gravbench.explain.shape import LANES

BANKS = 32
WORD = 4

Lanes = NDArray[np.int64]
State = dict[str, Lanes | None]
"""What registers and predicates hold, shape (32,); None where lanes differ and it is not known how."""

_MASK = 0xFFFFFFFF
_FIELDS = re.compile(r",(?![^\[]*\])")
_REGISTER = re.compile(r"([-~!]?)(U?R\d+|U?RZ|U?P\d+|U?PT)(?:\.\w+)*")
_NUMBER = re.compile(r"-?0x[0-9a-f]+|-?\d+")
_PREDICATE = re.compile(r"!?U?P(?:T|\d+)")
_PLACE = re.compile(r"\[([^\]]*)\]")
_TERM = re.compile(r"(U?R(?:\d+|Z))(?:\.X(\d+))?(?:\.\w+)*|(-?0x[0-9a-f]+)")
_OF_LANE = ("SR_TID.X", "SR_LANEID")
_OF_BLOCK = ("SR_TID.Y", "SR_TID.Z")
_SAME_FOR_ALL = ("VOTE", "VOTEU", "REDUX", "CREDUX", "LDC", "ULDC", "LDCU", "S2UR")
_OTHER = {"HI", "X", "WIDE", "U64"}
"""Suffixes of opcodes that compute something else than those without; SHF.R.HI is the usual shift."""
_NOTHING: Lanes = np.zeros(LANES, np.int64)


def with_wavefronts(code: Code) -> Code:
    """Return machine code in which each access to shared memory says how many clocks the banks take for it."""
    by_place = _wavefronts(code)
    made = [replace(instruction, wavefronts=by_place.get(at, 0)) for at, instruction in enumerate(code.instructions)]
    return Code(made, code.labels)


def wavefronts(addresses: Lanes, size: int) -> int:
    """Return the clocks for an access of ``size`` bytes of each lane: the words that the fullest bank has of it."""
    words = np.unique(addresses[:, None] // WORD + np.arange(max(1, size // WORD)))
    return int(np.bincount(words % BANKS).max())


def _wavefronts(code: Code) -> dict[int, int]:
    by_place: dict[int, int] = {}
    seen: set[int] = set()
    todo: list[tuple[int, State]] = [(0, {})]
    while todo:
        place, state = todo.pop()
        while place not in seen and place < len(code.instructions):
            seen.add(place)
            instruction = code.instructions[place]
            if instruction.name in ("LDS", "STS"):
                addresses = _address(instruction, state)
                if addresses is not None:
                    by_place[place] = wavefronts(addresses, _size(instruction))
            _run(instruction, state)
            ahead = [to for to in following(code, place) if to not in seen]
            if not ahead:
                break
            place, *others = sorted(ahead, key=lambda to: to != place + 1)
            todo += [(other, dict(state)) for other in others]
    return by_place


def _size(instruction: Instruction) -> int:
    for bits, size in ((".128", 16), (".64", 8), ("16", 2), ("8", 1)):
        if bits in instruction.opcode:
            return size
    return WORD


def _address(instruction: Instruction, state: State) -> Lanes | None:
    """Return the addresses of the lanes that take part, shape (lanes,)."""
    inside = _PLACE.search(instruction.operands)
    if inside is None:
        return None
    total = _NOTHING
    for register, times, number in _TERM.findall(inside[1]):
        addresses = np.full(LANES, int(number, 16)) if number else _value(register, state)
        if addresses is None:
            return None
        total = total + addresses * int(times or 1)
    part = _value(instruction.predicate.lstrip("@"), state) if instruction.predicate else None
    # A predicate that all lanes have alike says nothing: where it does not hold there is no access.
    return total if part is None or not part.any() else total[part.astype(bool)]


def _value(text: str, state: State) -> Lanes | None:
    """Return what an operand is for each lane."""
    plain = text.strip().strip("|").replace(".reuse", "")
    if match := _REGISTER.fullmatch(plain):
        name = match[2].lstrip("U") if match[2].endswith(("Z", "T")) else match[2]
        values = _NOTHING + 1 if name == "PT" else _NOTHING if name == "RZ" else state.get(name, _NOTHING)
        if values is None or not match[1]:
            return values
        return {"-": -values, "~": ~values, "!": 1 - values}[match[1]] & (_MASK if match[1] != "!" else 1)
    if _NUMBER.fullmatch(plain):
        return np.full(LANES, int(plain, 0) & _MASK)
    return _NOTHING


def _run(instruction: Instruction, state: State) -> None:
    """Let an instruction change what registers and predicates hold."""
    fields = [text.strip() for text in _FIELDS.split(instruction.operands)] if instruction.operands else []
    written = registers_of(instruction)[0]
    made = _results(instruction, fields, written, state)
    part = _value(instruction.predicate.lstrip("@"), state) if instruction.predicate else _NOTHING + 1
    for name in written:
        after, before = made.get(name), state.get(name, _NOTHING)
        if part is None or after is None or before is None:
            state[name] = after if part is not None and part.all() else None
        elif part.any():  # one that no lane has may still be one that is not known
            state[name] = np.where(part.astype(bool), after, before)
        else:
            state[name] = after


def _results(
    instruction: Instruction, fields: list[str], written: set[str], state: State
) -> Mapping[str, Lanes | None]:
    """Return what an instruction leaves in each register and predicate that it writes."""
    if instruction.name in _SAME_FOR_ALL:
        return dict.fromkeys(written, _NOTHING)
    if instruction.name == "S2R":
        special = fields[-1]
        lanes = None if special in _OF_BLOCK else np.arange(LANES) if special in _OF_LANE else _NOTHING
        return dict.fromkeys(written, lanes)
    inputs = [_value(text, state) for text in fields[1:]]
    if instruction.opcode.startswith("SHFL.IDX") and len(inputs) > 2 and _same(inputs[-2]):
        return dict.fromkeys(written, _of_one(inputs[-3], inputs[-2]))
    if instruction.name == "R2UR":
        return dict.fromkeys(written, _of_one(inputs[-1], _NOTHING))
    if instruction.name in ("ISETP", "UISETP"):
        return dict.fromkeys(written, _compared(instruction, inputs))
    compute = _OPERATIONS.get(instruction.name.removeprefix("U"))
    # Carries, and what comparisons are joined with, are of no address.
    operands = [_value(text, state) for text in fields if not _PREDICATE.fullmatch(text)][1:]
    known = [operand for operand in operands if operand is not None]
    if compute is not None and len(known) == len(operands):
        chosen = inputs[-1] if instruction.name.endswith("SEL") else _NOTHING
        words = set(instruction.opcode.split("."))
        if chosen is not None and not words & (_OTHER - {"HI"} if instruction.name.endswith("SHF") else _OTHER):
            result = compute(known, instruction.opcode, chosen)
            return {name: (result != 0).astype(np.int64) if "P" in name else result & _MASK for name in written}
    read = [state.get(name, _NOTHING) for name in registers_of(instruction)[1]]
    return dict.fromkeys(written, _NOTHING if all(map(_same, read)) else None)


def _same(values: Lanes | None) -> bool:
    """Tell whether all lanes have the same."""
    return values is not None and bool((values == values[0]).all())


def _of_one(values: Lanes | None, lane: Lanes | None) -> Lanes:
    """Return what one lane has, for all of them; nothing where that is not known, which is the same for all."""
    return _NOTHING if values is None or lane is None else np.full(LANES, values[lane[0] % LANES])


def _compared(instruction: Instruction, inputs: list[Lanes | None]) -> Lanes | None:
    """Return what a comparison of two whole numbers gives."""
    first, second = inputs[1:3] if len(inputs) > 2 else (None, None)
    if first is None or second is None:
        return None
    if "U32" not in instruction.opcode:
        first, second = (operand - ((operand >> 31 & 1) << 32) for operand in (first, second))
    test = instruction.opcode.split(".")[1]
    compare: dict[str, Callable[[Lanes, Lanes], NDArray[np.bool_]]] = {
        "EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal
    }  # fmt: skip
    return compare[test](first, second).astype(np.int64) if test in compare else None


def _logic(inputs: list[Lanes]) -> Lanes:
    """Return LOP3: the bits of a table, by those of three operands."""
    first, second, third, table = (*inputs[:3], int(inputs[3][0]))
    result = _NOTHING
    for row in range(8):
        if table >> row & 1:
            result = result | (
                (first if row & 4 else ~first) & (second if row & 2 else ~second) & (third if row & 1 else ~third)
            )
    return result & _MASK


def _shifted(inputs: list[Lanes], opcode: str) -> Lanes:
    """Return SHF: of two words, the first shifted to the left or the second to the right."""
    low, by, high = inputs[:3]
    by = np.minimum(by, 63)
    if ".L." in opcode:
        return low << by
    signed = high - ((high >> 31 & 1) << 32) if "S32" in opcode else high
    return signed >> by


_OPERATIONS: Mapping[str, Callable[[list[Lanes], str, Lanes], Lanes]] = {
    "MOV": lambda values, _, __: values[-1],
    "IADD3": lambda values, _, __: sum(values, _NOTHING),
    "VIADD": lambda values, _, __: sum(values, _NOTHING),
    "IADD": lambda values, _, __: sum(values, _NOTHING),
    "IMAD": lambda values, _, __: values[0] * values[1] + values[2],
    "LEA": lambda values, _, __: (values[0] << values[2]) + values[1],
    "LOP3": lambda values, _, __: _logic(values),
    "SHF": lambda values, opcode, _: _shifted(values, opcode),
    "SEL": lambda values, _, chosen: np.where(chosen.astype(bool), values[0], values[1]),
}
