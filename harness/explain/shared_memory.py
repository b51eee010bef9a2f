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
    found = _wavefronts(code)
    made = [replace(one, wavefronts=found.get(at, 0)) for at, one in enumerate(code.instructions)]
    return Code(made, code.labels)


def wavefronts(addresses: Lanes, size: int) -> int:
    """Return the clocks for an access of ``size`` bytes of each lane: the words that the fullest bank has of it."""
    words = np.unique(addresses[:, None] // WORD + np.arange(max(1, size // WORD)))
    return int(np.bincount(words % BANKS).max())


def _wavefronts(code: Code) -> dict[int, int]:
    found: dict[int, int] = {}
    seen: set[int] = set()
    todo: list[tuple[int, State]] = [(0, {})]
    while todo:
        place, state = todo.pop()
        while place not in seen and place < len(code.instructions):
            seen.add(place)
            one = code.instructions[place]
            if one.name in ("LDS", "STS"):
                addresses = _address(one, state)
                if addresses is not None:
                    found[place] = wavefronts(addresses, _size(one))
            _run(one, state)
            ahead = [to for to in following(code, place) if to not in seen]
            if not ahead:
                break
            place, *others = sorted(ahead, key=lambda to: to != place + 1)
            todo += [(other, dict(state)) for other in others]
    return found


def _size(one: Instruction) -> int:
    for bits, size in ((".128", 16), (".64", 8), ("16", 2), ("8", 1)):
        if bits in one.opcode:
            return size
    return WORD


def _address(one: Instruction, state: State) -> Lanes | None:
    """Return the addresses of the lanes that take part, shape (lanes,)."""
    inside = _PLACE.search(one.operands)
    if inside is None:
        return None
    total = _NOTHING
    for register, times, number in _TERM.findall(inside[1]):
        own = np.full(LANES, int(number, 16)) if number else _value(register, state)
        if own is None:
            return None
        total = total + own * int(times or 1)
    part = _value(one.predicate.lstrip("@"), state) if one.predicate else None
    # A predicate that all lanes have alike says nothing: where it does not hold there is no access.
    return total if part is None or not part.any() else total[part.astype(bool)]


def _value(text: str, state: State) -> Lanes | None:
    """Return what an operand is for each lane."""
    plain = text.strip().strip("|").replace(".reuse", "")
    if found := _REGISTER.fullmatch(plain):
        name = found[2].lstrip("U") if found[2].endswith(("Z", "T")) else found[2]
        own = _NOTHING + 1 if name == "PT" else _NOTHING if name == "RZ" else state.get(name, _NOTHING)
        if own is None or not found[1]:
            return own
        return {"-": -own, "~": ~own, "!": 1 - own}[found[1]] & (_MASK if found[1] != "!" else 1)
    if _NUMBER.fullmatch(plain):
        return np.full(LANES, int(plain, 0) & _MASK)
    return _NOTHING


def _run(one: Instruction, state: State) -> None:
    """Let an instruction change what registers and predicates hold."""
    fields = [text.strip() for text in _FIELDS.split(one.operands)] if one.operands else []
    written = registers_of(one)[0]
    made = _results(one, fields, written, state)
    part = _value(one.predicate.lstrip("@"), state) if one.predicate else _NOTHING + 1
    for name in written:
        own, before = made.get(name), state.get(name, _NOTHING)
        if part is None or own is None or before is None:
            state[name] = own if part is not None and part.all() else None
        elif part.any():  # one that no lane has may still be one that is not known
            state[name] = np.where(part.astype(bool), own, before)
        else:
            state[name] = own


def _results(one: Instruction, fields: list[str], written: set[str], state: State) -> Mapping[str, Lanes | None]:
    """Return what an instruction leaves in each register and predicate that it writes."""
    if one.name in _SAME_FOR_ALL:
        return dict.fromkeys(written, _NOTHING)
    if one.name == "S2R":
        special = fields[-1]
        own = None if special in _OF_BLOCK else np.arange(LANES) if special in _OF_LANE else _NOTHING
        return dict.fromkeys(written, own)
    inputs = [_value(text, state) for text in fields[1:]]
    if one.opcode.startswith("SHFL.IDX") and len(inputs) > 2 and _same(inputs[-2]):
        return dict.fromkeys(written, _of_one(inputs[-3], inputs[-2]))
    if one.name == "R2UR":
        return dict.fromkeys(written, _of_one(inputs[-1], _NOTHING))
    if one.name in ("ISETP", "UISETP"):
        return dict.fromkeys(written, _compared(one, inputs))
    compute = _OPERATIONS.get(one.name.removeprefix("U"))
    # Carries, and what comparisons are joined with, are of no address.
    operands = [_value(text, state) for text in fields if not _PREDICATE.fullmatch(text)][1:]
    known = [own for own in operands if own is not None]
    if compute is not None and len(known) == len(operands):
        chosen = inputs[-1] if one.name.endswith("SEL") else _NOTHING
        words = set(one.opcode.split("."))
        if chosen is not None and not words & (_OTHER - {"HI"} if one.name.endswith("SHF") else _OTHER):
            result = compute(known, one.opcode, chosen)
            return {name: (result != 0).astype(np.int64) if "P" in name else result & _MASK for name in written}
    read = [state.get(name, _NOTHING) for name in registers_of(one)[1]]
    return dict.fromkeys(written, _NOTHING if all(map(_same, read)) else None)


def _same(own: Lanes | None) -> bool:
    """Tell whether all lanes have the same."""
    return own is not None and bool((own == own[0]).all())


def _of_one(own: Lanes | None, lane: Lanes | None) -> Lanes:
    """Return what one lane has, for all of them; nothing where that is not known, which is the same for all."""
    return _NOTHING if own is None or lane is None else np.full(LANES, own[lane[0] % LANES])


def _compared(one: Instruction, inputs: list[Lanes | None]) -> Lanes | None:
    """Return what a comparison of two whole numbers gives."""
    first, second = inputs[1:3] if len(inputs) > 2 else (None, None)
    if first is None or second is None:
        return None
    if "U32" not in one.opcode:
        first, second = (own - ((own >> 31 & 1) << 32) for own in (first, second))
    test = one.opcode.split(".")[1]
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
    "MOV": lambda own, _, __: own[-1],
    "IADD3": lambda own, _, __: sum(own, _NOTHING),
    "VIADD": lambda own, _, __: sum(own, _NOTHING),
    "IADD": lambda own, _, __: sum(own, _NOTHING),
    "IMAD": lambda own, _, __: own[0] * own[1] + own[2],
    "LEA": lambda own, _, __: (own[0] << own[2]) + own[1],
    "LOP3": lambda own, _, __: _logic(own),
    "SHF": lambda own, opcode, _: _shifted(own, opcode),
    "SEL": lambda own, _, chosen: np.where(chosen.astype(bool), own[0], own[1]),
}
