"""The model of a scheduler: what delays instructions, one cause at a time."""

from dataclasses import replace

import pytest

from gravbench.explain.machine_code import Instruction, parse
from gravbench.explain.schedule import Costs, Pass, busy_of, clocks, kind_of, operands, unit_of

NONE = 7 << 5 | 7 << 8


def one(opcode, fields="", stall=1, result=7, waits=0):
    return Instruction(opcode, fields, control=stall | result << 5 | 7 << 8 | waits << 11)


def costs(**change):
    given = {
        "busy": {"FMA": 1.0, "ALU": 2.0, "XU": 8.0, "LDS.128": 16.0, "LDG.32": 4.0},
        "latency": {"XU": 20.0, "LDS.128": 30.0, "LDG.32": 40.0},
        "miss": 300.0,
        "operand": 0.0,
    }
    return Costs(**(given | change))


FMA = one("FFMA", "R0, R1, R2, R0")


def test_a_warp_alone_waits_for_the_clocks_that_the_assembler_wrote():
    assert clocks(Pass((one("FFMA", "R0, R1, R2, R0", stall=4),), 8), 1, 1, costs()) == pytest.approx(32)


def test_several_warps_share_the_slots_of_issue():
    turn = (one("FFMA", "R0, R1, R2, R0", stall=4),)
    assert clocks(Pass(turn, 8), 4, 1, costs()) == pytest.approx(8, rel=0.02)
    assert clocks(Pass(turn, 8), 2, 1, costs()) == pytest.approx(16, rel=0.02)


@pytest.mark.parametrize(("opcode", "each"), [("FFMA", 1), ("LOP3.LUT", 2), ("MUFU.RSQ", 8), ("LDS.128", 16)])
def test_a_unit_takes_as_long_as_it_costs(opcode, each):
    assert clocks(Pass((one(opcode, "R0, R4"),) * 8, 4), 4, 1, costs()) == pytest.approx(32 * each, rel=0.03)


def test_units_work_at_the_same_time():
    body = (one("MUFU.RSQ", "R0, R4"), *[FMA] * 7)
    assert clocks(Pass(body, 8), 4, 1, costs()) == pytest.approx(64, rel=0.03)


def test_all_instructions_share_the_slots_of_issue():
    body = (one("MUFU.RSQ", "R0, R4"), *[FMA] * 12)
    assert clocks(Pass(body, 8), 4, 1, costs()) == pytest.approx(8 * 13, rel=0.03)


def test_who_waits_for_a_barrier_waits_for_the_result():
    body = (one("MUFU.RSQ", "R0, R4", result=0), one("FFMA", "R1, R0, R0, R1", waits=1))
    alone = clocks(Pass(body, 8), 1, 1, costs())
    assert alone == pytest.approx(8 * 21, rel=0.02)
    assert clocks(Pass(body, 8), 2, 1, costs()) == pytest.approx(8 * 21 / 2, rel=0.1)


def test_registers_of_one_bank_are_delivered_one_after_the_other():
    slow = one("FFMA", "R0, R2, R4, R0")
    fast = one("FFMA", "R0, R2, R3, R0")
    assert operands([slow]) == [(3, 0)]
    assert operands([fast]) == [(2, 1)]
    banks = costs(operand=1.0)
    assert clocks(Pass((slow,) * 8, 4), 4, 1, banks) == pytest.approx(96, rel=0.03)
    assert clocks(Pass((fast,) * 8, 4), 4, 1, banks) == pytest.approx(64, rel=0.03)


def test_what_is_kept_for_reuse_is_not_read_again():
    body = [one("FMUL", "R1, R4.reuse, R7"), one("FMUL", "R3, R4, R9"), one("FMUL", "R5, R4, R9")]
    assert operands(body) == [(1, 1), (0, 1), (1, 1)]


def test_what_no_register_is_costs_no_operand():
    assert operands([one("FFMA", "R0, R1, UR4, c[0x0][0x210]")]) == [(0, 1)]
    assert operands([one("STS.128", "[R4+0x10], R8")]) == [(2, 0)]
    assert operands([one("FSETP.GT", "P0, PT, R2, R3, PT")]) == [(1, 1)]


def test_a_load_that_the_first_cache_lacks_delays_all_that_read_the_same_sector():
    # Eight floats are one sector: of eight turns of one load, the first brings what all others find.
    body = (one("LDG.E", "R0, desc[UR4][R2.64]", result=0), one("FADD", "R1, R0, R1", waits=1))
    each = clocks(Pass(body, 8), 1, 1, costs())
    assert each == pytest.approx(300 + 7 * 40 + 8, rel=0.03)


def test_the_warps_of_a_block_wait_for_each_other_at_its_barrier():
    body = (one("MUFU.RSQ", "R0, R4", result=0), one("FFMA", "R1, R0, R0, R1", waits=1))
    done = Pass(body, 4, before=(one("BAR.SYNC.DEFER_BLOCKING", "0x0"),))
    together, apart = (clocks(done, 2, block, costs()) for block in (2, 1))
    assert together > apart


def test_what_is_left_out_of_many_turns_counts_all_the_same(monkeypatch):
    done = Pass((FMA,) * 10, 100, before=(one("FADD", "R0, R1, R2", stall=15),))
    whole = clocks(done, 2, 1, costs())
    monkeypatch.setattr("gravbench.explain.schedule.MOST_STEPS", 800)
    assert clocks(done, 2, 1, costs()) == pytest.approx(whole, rel=0.02)


@pytest.mark.parametrize(
    ("opcode", "kind", "unit"),
    [
        ("LDS.128", "LDS.128", "load-store"),
        ("LDG.E.64.CONSTANT", "LDG.64", "load-store"),
        ("SHFL.IDX", "SHFL", "load-store"),
        ("HMMA.1688.F32", "tensor.8", "tensor"),
        ("HMMA.16816.F32", "tensor", "tensor"),
        ("REDG.E.ADD.F32", "RED", "L2"),
        ("STL", "STL", "L2"),
        ("LDL.LU", "LDL", "from L2"),
        ("HADD2.F32", "widened", "FMA"),
        ("HADD2", "FMA", "FMA"),
        ("FFMA.FTZ", "FMA", "FMA"),
    ],
)
def test_instructions_have_a_kind_and_a_unit(opcode, kind, unit):
    assert kind_of(one(opcode)) == kind
    assert unit_of(kind) == unit


def test_roots_and_loads_leave_one_queue_in_their_order():
    root, load = one("MUFU.RSQ", "R0, R4"), one("LDS.128", "R8, [R4]")
    alternating = clocks(Pass((root, load), 16), 4, 1, costs())
    assert alternating == pytest.approx(16 * 16, rel=0.05)
    # Of several roots the last ones keep the loads behind them waiting, and of several loads the roots.
    in_rows = clocks(Pass((root,) * 8 + (load,) * 8, 2), 1, 1, costs())
    assert in_rows > 1.3 * alternating


def test_loads_from_global_memory_wait_in_a_queue_of_their_own():
    root, load = one("MUFU.RSQ", "R0, R4"), one("LDG.E", "R8, desc[UR4][R4.64]")
    given = costs(busy={"XU": 8.0, "LDG.32": 8.0}, latency={"LDG.32": 1.0}, miss=1.0)
    # While four roots wait, the loads behind them begin.
    assert clocks(Pass((root,) * 4 + (load,) * 4, 4), 1, 1, given) == pytest.approx(4 * 32, rel=0.1)
    shared = one("LDS", "R8, [R4]")
    given = costs(busy={"XU": 8.0, "LDS.32": 8.0})
    assert clocks(Pass((root,) * 4 + (shared,) * 4, 4), 1, 1, given) > 1.3 * 4 * 32


def test_a_matrix_product_begins_when_it_is_issued():
    """A warp waits for the unit before it issues: its code says after how many clocks the results are read."""
    product = one("HMMA.16816.F32", "R0, R8, R12, RZ", stall=2)
    done = Pass((product, product, *[FMA] * 20), 8)
    # Ten clocks until the second product begins, which is issued then, and two until the additions.
    assert clocks(done, 1, 1, costs(busy={"tensor": 10.0})) == pytest.approx(8 * 32, rel=0.05)


def test_a_matrix_product_delays_the_roots_behind_it():
    root, product = one("MUFU.RSQ", "R0, R4"), one("HMMA.16816.F32", "R8, R12, R16, RZ")
    body = (root, product, root, product, root, product, root)
    alone, together = (clocks(Pass(body, 8), 8, 1, costs(hindrance=extra)) / 8 for extra in (0.0, 1.0))
    assert alone == pytest.approx(4 * 8, rel=0.02)
    assert together == pytest.approx(4 * 8 + 3, rel=0.02)
    # What has no roots is not delayed.
    products = Pass((product,) * 4, 8)
    assert clocks(products, 8, 1, costs(hindrance=1.0)) == clocks(products, 8, 1, costs())


def test_spilled_registers_are_stored_while_others_are_loaded():
    store, load = one("STL", "[R1], R0"), one("LDL", "R2, [R1]")
    given = costs(busy={"STL": 32.0, "LDL": 16.0})
    assert clocks(Pass((store, load), 16), 4, 1, given) == pytest.approx(16 * 32, rel=0.05)


def test_a_matrix_product_reads_all_registers_of_its_factors():
    assert operands([one("HMMA.16816.F32", "R0, R8, R12, R16")]) == [(5, 5)]
    assert operands([one("HMMA.1688.F32", "R0, R8, R12, RZ")]) == [(2, 1)]
    kept = [one("HMMA.16816.F32", "R0, R8.reuse, R12, RZ"), one("HMMA.16816.F32", "R4, R8, R14, RZ")]
    assert operands(kept) == [(3, 3), (1, 1)]


def test_an_access_takes_as_long_as_the_fullest_bank():
    load = one("LDS.128", "R8, [R4]")
    given = {"LDS.128": 8.0, "LDS.32": 4.0}
    assert busy_of(load, given) == 8
    assert busy_of(replace(load, wavefronts=1), given) == 8
    assert busy_of(replace(load, wavefronts=16), given) == 64
    slow = Pass((replace(load, wavefronts=16),), 16)
    assert clocks(slow, 4, 1, costs(busy=given)) == pytest.approx(16 * 64, rel=0.03)


def test_the_control_of_an_instruction_is_read_from_its_code():
    text = """.text.k:
        /*0000*/                   MUFU.RSQ R16, R16 ;      /* 0x0000001000107308 */
                                                            /* 0x000e220000001400 */
        /*0010*/                   FMUL R19, R19, R16 ;     /* 0x0000001013137220 */
                                                            /* 0x001fc80000410000 */
"""
    first, second = parse(text, "k").instructions
    assert (first.control & 15, first.control >> 5 & 7, first.control >> 11 & 63) == (1, 0, 0)
    assert (second.control & 15, second.control >> 5 & 7, second.control >> 11 & 63) == (4, 7, 1)
