"""How often a warp goes through shared memory: the addresses of its lanes, computed as the machine code does it."""

import numpy as np
import pytest

from gravbench.explain.assembling import assemble, missing
from gravbench.explain.machine_code import Code, Instruction
from gravbench.explain.recorded_kernels import asked_of
from gravbench.explain.shared_memory import wavefronts, with_wavefronts
from gravbench.model.interaction_files import find
from gravbench.model.variant import discover
from gravbench.toolkits.interface import FLAGS

LANE = np.arange(32)
explained = pytest.mark.skipif(missing() is not None, reason=str(missing()))


@pytest.mark.parametrize(
    ("addresses", "size", "expected"),
    [
        (0 * LANE, 4, 1),  # one address for all
        (0 * LANE, 16, 1),
        (4 * LANE, 4, 1),
        (8 * LANE, 8, 2),
        (16 * LANE, 16, 4),  # 512 bytes, 128 in a clock
        (8 * LANE, 4, 2),
        (128 * LANE, 4, 32),  # all in one bank
        (64 * LANE, 16, 16),
        (12 * LANE, 4, 1),  # three words apart: no two lanes in one bank
        (LANE // 4 * 4, 1, 1),
    ],
)
def test_an_access_takes_the_words_of_the_fullest_bank(addresses, size, expected):
    assert wavefronts(addresses, size) == expected


def found(*body, labels=None):
    code = Code([one if isinstance(one, Instruction) else Instruction(*one) for one in body], labels or {})
    return [one.wavefronts for one in with_wavefronts(code).instructions if one.name in ("LDS", "STS")]


TID = ("S2R", "R1, SR_TID.X")


@pytest.mark.parametrize(
    ("computing", "address", "opcode", "expected"),
    [
        ([("SHF.L.U32", "R2, R1, 0x7, RZ")], "[R2]", "LDS", 32),
        ([("IMAD.SHL.U32", "R2, R1, 0x8, RZ")], "[R2+0x400]", "LDS.64", 2),
        ([("LOP3.LUT", "R2, R1, 0x1c, RZ, 0xc0, !PT")], "[R2]", "STS", 1),
        ([("LEA", "R2, R1, R9, 0x4")], "[R2]", "LDS.128", 4),
        ([("IADD3", "R2, R1, R1, R1")], "[R2.X4+UR4]", "LDS", 1),
        ([("SHF.R.U32.HI", "R2, RZ, 0x5, R1")], "[R2]", "LDS.128", 1),  # the number of the warp
        ([("MOV", "R2, c[0x0][0x210]")], "[R2]", "LDS", 1),
        ([("ISETP.GE.AND", "P0, PT, R1, 0x10, PT"), ("SEL", "R2, R1, RZ, P0")], "[R2.X8]", "STS", 2),
        ([("ISETP.GE.AND", "P0, PT, R1, 0x10, PT"), ("SEL", "R2, RZ, R1, P0")], "[R2.X8]", "STS", 1),
        ([("S2R", "R3, SR_CTAID.X"), ("IMAD", "R2, R3, 0x100, R1")], "[R2.X4]", "LDS", 1),
        # What lanes read from memory is not known, and what all read from one place is the same.
        ([("LDG.E", "R2, desc[UR4][R6.64]")], "[R2]", "LDS", 1),
        ([("IMAD.WIDE", "R6, R1, 0x4, R8"), ("LDG.E", "R2, desc[UR4][R6.64]")], "[R2]", "LDS", 0),
        ([("S2R", "R2, SR_TID.Y")], "[R2]", "LDS", 0),
        ([("SHFL.IDX", "PT, R2, R1, RZ, 0x1f")], "[R2]", "LDS.128", 1),
        ([("SHFL.BFLY", "PT, R2, R1, 0x10, 0x1f")], "[R2]", "LDS", 0),
    ],
)
def test_addresses_are_those_of_the_lanes(computing, address, opcode, expected):
    operands = f"{address}, R20" if opcode.startswith("STS") else f"R20, {address}"
    assert found(TID, *computing, (opcode, operands)) == [expected]


def test_lanes_that_take_no_part_have_no_words():
    compared, address = ("ISETP.EQ.AND", "P0, PT, R1, 0x3, PT"), ("SHF.L.U32", "R2, R1, 0x7, RZ")
    assert found(TID, compared, address, ("STS", "[R2], R20", "@P0")) == [1]
    assert found(TID, compared, address, ("STS", "[R2], R20", "@!P0")) == [31]


def test_an_instruction_has_what_is_known_on_the_first_way_to_it():
    back = Instruction("BRA", "`(L)", "@P1", target="L")
    body = (TID, ("SHF.L.U32", "R2, R1, 0x3, RZ"), ("LDS", "R20, [R2]"), ("IADD3", "R2, R2, 0x100, RZ"), back)
    assert found(*body, labels={"L": 2}) == [2]
    over = Instruction("BRA", "`(E)", target="E")
    assert found(over, *body, labels={"L": 3, "E": 6}) == [0]  # it is never run


@explained
def test_tensor_stages_words_without_bank_conflicts_and_its_own_block_with():
    variant, gravity = discover()["tensor"], find("gravity")
    asked = asked_of(variant, variant.complete({"r": 4, "terms": 2}), "float32", gravity)
    one = next(one for one in asked if one.stem == "tensor")
    defined = [f"-D{name}={value}" for name, value in one.constants]
    code = assemble(variant.cuda_source(gravity), one.stem, "sm_90", [*FLAGS, *defined]).code
    made = [one for one in with_wavefronts(code).instructions if one.name in ("LDS", "STS")]
    least = {"LDS": {1, 2}, "LDS.64": {2}, "LDS.128": {4}, "STS.64": {2}, "STS.128": {0, 4}}  # 0: not known
    for opcode, passes in least.items():
        assert {one.wavefronts for one in made if one.opcode == opcode} == passes, opcode
    # Its own block is written once for all that it meets.
    assert {one.wavefronts for one in made if one.opcode == "STS"} == {1, 8, 16}
