"""The ledger of an interaction: read off small listings written by hand, and off what NVRTC makes of the kernels."""

import json
import re
import resource
import shlex
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from io import StringIO
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from conftest import ROOT, command
from gravbench.errors import InputError
from gravbench.explain import assembling, bars, explained, ledger, page, printed
from gravbench.explain.bounds import bound
from gravbench.explain.dependency_chains import bank_conflicts, longest_chain
from gravbench.explain.machine_code import Instruction, Loop, around, innermost, parse
from gravbench.explain.occupancy import occupancy
from gravbench.explain.pipes import ISSUE, PIPES, WORK, is_rsqrt, lanes, passes_of, pipe_of, work_of
from gravbench.explain.recorded_kernels import asked_of
from gravbench.explain.shape import shape_of
from gravbench.explain.source_lines import places
from gravbench.explain.trip_counts import trips
from gravbench.explain.waterfall import Part
from gravbench.explain.work import work_of as work_of_record
from gravbench.model.interaction_files import find
from gravbench.model.kernel_parts import UnmodelledError
from gravbench.model.runs import RecordFile
from gravbench.model.variant import discover
from gravbench.toolkits import nvrtc
from gravbench.toolkits.interface import cuda_options

GRAVITY = find("gravity")
CUDA_C = [name for name, variant in discover().items() if variant.has_cuda_c]
DOCUMENT = (ROOT / "docs" / "explanation" / "explaining.md").read_text("utf-8")
COMPILER = "NVRTC 13.5"
"""Whose counts are held to the last digit; another version may count an instruction more or less."""


@pytest.fixture(scope="module", autouse=True)
def compiled():
    """Let the tests of this file share what NVRTC and nvdisasm make, which takes them a second for each kernel."""
    kept = {}
    assemble = ledger.assemble

    def again(source, kernel, architecture, options):
        key = source, kernel, architecture, tuple(options)
        if key not in kept:
            kept[key] = assemble(source, kernel, architecture, options)
        return kept[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledger, "assemble", again)
        yield kept


@cache
def ledgers_of(name, architecture="sm_90", dtype="float32", **axes):
    variant = discover()[name]
    asked = asked_of(variant, axes, dtype, GRAVITY)
    return ledger.ledgers(variant, asked, dtype, GRAVITY, [architecture])


def loops_of(name, architecture="sm_90", dtype="float32", **axes):
    return [inner for one in ledgers_of(name, architecture, dtype, **axes) for inner in one.inner]


def instructions(text):
    """Read instructions without their addresses, one in a line; a label stands before a colon."""
    rows, at = ["\t.section\t.text.k", ".text.k:"], 0
    for line in text.strip().splitlines():
        if line.strip().endswith(":"):
            rows.append(line.strip())
        else:
            rows.append(f"        /*{at:04x}*/                   {line.strip()} ;")
            at += 16
    return parse("\n".join(rows), "k")


# Machine code


LISTING = """
\t.section\t.text.other,"ax",@progbits
.text.other:
        /*0000*/                   EXIT ;
\t.section\t.text.k,"ax",@progbits
.text.k:
\t//## File "/a folder/tiled.cu", line 21
        /*0000*/                   MOV R1, c[0x0][0x28] ;
        /*0010*/                   LDC.64 R8, c[0x0][0x210] ;
.L_x_1:
\t//## File "/a folder/gravity", line 9 inlined at "/a folder/tiled.cu", line 30
        /*0020*/              @!P0 FFMA.FTZ R3, R3, R4.reuse, R5 ;
        /*0030*/                   MUFU.RSQ R3, R3 ;
        /*0040*/               @P0 BRA `(.L_x_1) ;
        /*0050*/                   EXIT ;
.L_x_2:
        /*0060*/                   BRA `(.L_x_2);
"""


def test_a_listing_is_read():
    code = parse(LISTING, "k")
    assert [one.opcode for one in code.instructions] == [
        "MOV", "LDC.64", "FFMA.FTZ", "MUFU.RSQ", "BRA", "EXIT", "BRA",
    ]  # fmt: skip
    third = code.instructions[2]
    assert (third.name, third.predicate, third.file, third.line) == ("FFMA", "@!P0", "gravity", 9)
    assert third.operands == "R3, R3, R4.reuse, R5"
    # The jump to itself behind the end is no loop.
    assert code.loops() == [Loop(2, 4)]
    assert len(parse(LISTING, "other").instructions) == 1


def test_a_listing_without_the_kernel_is_refused():
    with pytest.raises(ValueError, match="no kernel nobody"):
        parse(LISTING, "nobody")


NESTED = """
MOV R1, RZ
.L_x_0:
LDS R2, [R1]
.L_x_1:
MUFU.RSQ R3, R2
FADD R4, R4, R3
@P0 BRA `(.L_x_1)
.L_x_2:
MUFU.RSQ R3, R2
MUFU.RSQ R3, R3
@P0 BRA `(.L_x_2)
@P1 BRA `(.L_x_0)
EXIT
"""


def test_of_two_loops_side_by_side_the_one_with_more_roots_is_the_inner_one():
    code = instructions(NESTED)
    loops = code.loops()
    assert loops == [Loop(1, 8), Loop(2, 4), Loop(5, 7)]
    roots = [place for place, one in enumerate(code.instructions) if is_rsqrt(one.opcode)]
    assert innermost(loops, roots) == [Loop(5, 7)]
    assert around(loops, Loop(5, 7)) == Loop(1, 8)
    assert around(loops, Loop(1, 8)) is None
    assert innermost(loops, [3, 5]) == [Loop(2, 4), Loop(5, 7)]  # with as many, either may be taken


def test_code_that_stands_aside_for_divergent_warps_makes_no_loop():
    code = instructions(
        """
        .L_x_0:
        MUFU.RSQ R1, R1
        BRA.DIV UR4, `(.L_x_3)
        .L_x_1:
        @P0 BRA `(.L_x_0)
        EXIT
        .L_x_3:
        WARPSYNC.COLLECTIVE R2, `(.L_x_4)
        .L_x_4:
        BRA `(.L_x_1)
        """
    )
    assert code.loops() == [Loop(0, 2)]


@given(st.integers(1, 5), st.integers(0, 3))
def test_loops_within_each_other_are_found(depth, padding):
    rows = [f".L_x_{level}:\n" + "FADD R1, R1, R2\n" * padding + "MOV R1, R2" for level in range(depth)]
    rows += [f"@P0 BRA `(.L_x_{level})" for level in reversed(range(depth))]
    code = instructions("\n".join([*rows, "EXIT"]))
    loops = code.loops()
    assert len(loops) == depth
    for outer, inner in pairwise(loops):
        assert outer.holds(inner)
        assert around(loops, inner) == outer
    assert innermost(loops, [loops[-1].first]) == [loops[-1]]


# Pipes

OPCODES = [
    ("FFMA.FTZ", "FMA", "arithmetic"), ("IMAD.WIDE.U32", "FMA", "addressing and control"),
    ("MUFU.RSQ", "XU", "arithmetic"), ("F2F.F64.F32", "XU", "arithmetic"), ("FSETP.GT.AND", "ALU", "arithmetic"),
    ("IADD3.X", "ALU", "addressing and control"), ("F2FP.F16.F32.PACK_AB", "ALU", "arithmetic"),
    ("LDS.128", "load-store", "loads and stores"), ("MOVM.16.MT88", "load-store", "loads and stores"),
    ("HMMA.16816.F32", "tensor", "arithmetic"), ("DFMA", "FP64", "arithmetic"),
    ("UIADD3", "uniform", "addressing and control"), ("BAR.SYNC", "control", "addressing and control"),
    ("HFMA2.MMA", "FMA", "arithmetic"), ("NEVER.SEEN", "other", "addressing and control"),
]  # fmt: skip


@pytest.mark.parametrize(("opcode", "pipe", "work"), OPCODES)
def test_an_instruction_has_a_pipe_and_a_purpose(opcode, pipe, work):
    assert pipe_of(opcode) == pipe
    assert work_of(opcode) == work


def test_a_register_that_is_set_by_a_product_of_zeros_is_no_arithmetic():
    assert work_of("HFMA2.MMA", "R3, -RZ, RZ, 0, 1.52587890625e-05") == WORK[2]


@given(st.sampled_from([opcode for opcode, _, _ in OPCODES]), st.lists(st.sampled_from(["FTZ", "E", "128", "SAT"])))
def test_suffixes_do_not_change_the_pipe(opcode, suffixes):
    assert pipe_of(opcode) in PIPES
    assert pipe_of(".".join([opcode.partition(".")[0], "X", *suffixes])) == pipe_of(f"{opcode.partition('.')[0]}.X")


@pytest.mark.parametrize(("opcode", "root"), [("MUFU.RSQ", True), ("MUFU.RSQ.FTZ", True), ("MUFU.RSQ64H", True)])
def test_roots_are_told(opcode, root):
    assert is_rsqrt(opcode) is root
    assert not is_rsqrt(opcode.replace("RSQ", "RCP"))


@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_86", "sm_90", "sm_90a", "sm_100", "sm_120"])
def test_an_xu_has_16_lanes_on_every_architecture(architecture):
    found = lanes(architecture)
    assert (found["XU"], found[ISSUE]) == (16, 128)
    assert found["FMA"] == (64 if architecture in ("sm_75", "sm_80") else 128)
    assert found["FP64"] == {"sm_80": 32, "sm_90": 64, "sm_90a": 64, "sm_100": 64}.get(architecture, 2)
    assert set(found) <= {ISSUE, *PIPES}
    assert passes_of("FFMA2") == 2 * passes_of("FFMA.FTZ")


# Chains and banks


@given(st.lists(st.booleans(), min_size=1, max_size=30))
def test_a_chain_is_as_long_as_the_instructions_that_wait_for_one_another(waits):
    body = [
        Instruction("FADD", "R1, R1, R2" if waiting else f"R{10 + 2 * number}, R4, R5")
        for number, waiting in enumerate(waits)
    ]
    assert longest_chain(body) == max(1, sum(waits))


def test_a_chain_goes_through_wide_results_predicates_and_addresses():
    body = instructions(
        """
        LDS.128 R4, [R1]
        FSETP.GT.AND P0, PT, R7, R3, PT
        @P0 IADD3 R8, R8, 0x4, RZ
        LDS R9, [R8+0x10]
        STS [R9], R2
        """
    ).instructions
    assert longest_chain(body) == 5
    # A product of matrices waits for all registers of its factors.
    halves = "F2FP.F16.F32.PACK_AB R10, R1, R2\nHMMA.16816.F32 R4, R8, R12, R4\nFADD R20, R7, R1"
    assert longest_chain(instructions(halves).instructions) == 3
    # A store has no result for which another instruction could wait.
    assert longest_chain([Instruction("STS", "[R1], R2"), Instruction("FADD", "R3, R1, R2")]) == 1


@given(st.tuples(*[st.integers(0, 60)] * 3), st.booleans())
def test_registers_of_one_bank_are_counted(sources, reuse):
    first, *others = (f"R{number}" for number in sources)
    operands = ", ".join(["R99", f"{first}.reuse" if reuse else first, *others])
    alike = len(set(sources)) == 3 and len({number % 2 for number in sources}) == 1
    assert bank_conflicts([Instruction("FFMA.FTZ", operands)]) == (alike and not reuse)
    assert bank_conflicts([Instruction("HMMA.16816.F32", operands)]) == 0


# Turns


@given(
    st.integers(0, 50), st.integers(1, 9), st.integers(1, 40), st.integers(0, 8),
    st.sampled_from(["before", "behind"]), st.sampled_from(["plain", "uniform", "aside", "copied"]),
)  # fmt: skip
def test_the_turns_of_a_loop_are_read(begin, step, turns, slack, place, kind):
    unit = "U" if kind in ("uniform", "copied") else ""
    register, predicate = f"{unit}R3", f"{unit}P0"
    # Behind the comparison a step is seen one turn later.
    end = begin + step * turns - (step if place == "behind" else 0) - slack % step
    grow = {
        "plain": f"IADD3 {register}, {register}, {step:#x}, RZ",
        "uniform": f"UIADD3 {register}, UPT, UPT, {register}, {step:#x}, URZ",
        "copied": f"UIADD3 UR7, UPT, UPT, {register}, {step:#x}, URZ\nUMOV {register}, UR7",
        "aside": f"VIADD {register}, {register}, {step:#x}",
    }[kind]
    if end < 0:
        return
    test = f"{unit}ISETP.GE.AND {predicate}, {unit}PT, {register}, {end:#x}, {unit}PT"
    jump = {
        "plain": "@!P0 BRA `(.L_x_0)",
        "uniform": "BRA.U !UP0, `(.L_x_0)",
        "copied": "BRA.U !UP0, `(.L_x_0)",
        "aside": "@P0 CALL.REL.NOINC `(.L_x_9)\nBRA `(.L_x_0)",
    }[kind]
    body = [grow, "FADD R1, R1, R2", test] if place == "before" else [test, "FADD R1, R1, R2", grow]
    setting = f"{unit}MOV {register}, {begin:#x}"
    code = instructions("\n".join([setting, ".L_x_0:", *body, jump, ".L_x_9:", "EXIT"]))
    value, counted = begin, 0
    while True:
        counted += 1
        seen = value + step if place == "before" else value
        value += step
        if seen >= end:
            break
    assert trips(code.instructions, code.loops()[0]) == counted


def test_turns_that_depend_on_data_are_not_known():
    for setting, test in (("LDG R3, [R6]", "R3, 0x10"), ("MOV R3, RZ", "R3, R9"), ("MOV R3, R5", "R3, 0x10")):
        code = instructions(
            f"{setting}\n.L_x_0:\nIADD3 R3, R3, 0x1, RZ\nISETP.GE.AND P0, PT, {test}, PT\n@!P0 BRA `(.L_x_0)\nEXIT"
        )
        assert trips(code.instructions, code.loops()[0]) is None


def test_a_loop_that_would_never_end_has_no_turns():
    code = instructions(
        "MOV R3, RZ\n.L_x_0:\nIADD3 R3, R3, 0x2, RZ\nISETP.NE.AND P0, PT, R3, 0x7, PT\n@P0 BRA `(.L_x_0)"
    )
    assert trips(code.instructions, code.loops()[0]) is None


# Lines of the source


def test_lines_know_their_function_and_lose_their_comment():
    found = places(
        '#line 1 "a.cuh"\n'
        "struct __align__(16) Body {\n    float x;\n};\n"
        "constexpr int two = 2;\n"
        "__device__ __forceinline__ float root(float value) {\n    return rsqrtf(value);  // {1\n}\n"
        '#line 10 "b.cu"\n'
        'extern "C" __global__ void __launch_bounds__(P, least(P, sizeof(Sums)))\n'
        "    kernel(const Body* bodies) {\n"
        "    for (int k = 0; k < P; ++k) {\n"
        '        asm("{%0}" : : "f"(1));\n'
        "    }\n"
        "}\n"
    )
    assert found.lines["a.cuh", 6] == "return rsqrtf(value);"
    assert {place for place, name in found.functions.items() if name == "root"} == {("a.cuh", k) for k in (5, 6, 7)}
    assert {number for (_, number), name in found.functions.items() if name == "kernel"} == {11, 12, 13, 14, 15}
    assert ("a.cuh", 2) not in found.functions


@pytest.mark.slow
def test_every_loop_of_the_registry_is_in_a_function_of_its_source():
    for name in ("naive", "tiled", "symmetric", "tensor", "resident_tree", "fast_multipole"):
        functions = set(places(discover()[name].cuda_source(GRAVITY)).functions.values())
        assert {loop.function for loop in loops_of(name)} <= functions


@pytest.mark.slow
def test_a_loop_is_in_the_function_that_it_is_of_where_a_kernel_has_no_use_for_an_included_header():
    # Near leaves, by a block or a warp; far cells of a body and of a cell; cells and bodies of the walk.
    assert [loop.function for loop in loops_of("fast_multipole")] == [
        "add_ranges",
        "add_ranges",
        "act_on_bodies",
        "fast_multipole_far",
        "add_nodes",
        "add_ranges",
    ]


# What an architecture holds


def test_occupancy_is_what_the_driver_said_of_every_recorded_kernel():
    kernels = {}
    for path in (ROOT / "reports").rglob("records.jsonl"):
        for one in RecordFile(path.parent).read(lambda _: None, ("samples_seconds",)):
            if one.blocks_per_multiprocessor and one.compute_capability == "9.0":
                kernels[one.threads_per_block, one.registers, one.shared_bytes] = one
    assert len(kernels) > 300
    for key, one in kernels.items():
        found = occupancy("sm_90", *key)
        assert found.blocks == one.blocks_per_multiprocessor, one.label


# Counts of kernels


@pytest.mark.slow
@pytest.mark.parametrize("name", CUDA_C)
def test_every_variant_with_cuda_c_has_a_ledger(name):
    found = ledgers_of(name)
    assert found, "a variant without a loop over interactions needs a reason here"
    for one in found:
        assert one.variant == name
        assert 16 <= one.registers <= 255
        assert one.threads % 32 == 0
        assert one.occupancy.blocks >= 1
        for loop in one.inner:
            assert sum(loop.pipes.values()) == pytest.approx(loop.slots)
            assert sum(loop.work.values()) == pytest.approx(loop.slots)
            assert sum(line.slots for line in loop.lines) == pytest.approx(loop.slots)
            assert "other" not in loop.pipes, "an opcode without a pipe"
            assert loop.pipes["XU"] >= 1 / loop.served
            # 12 instructions and a root, or what a cell needs; on tensor cores fewer.
            assert (2 if loop.pipes.get("tensor") else 4) <= loop.slots <= 400
            assert loop.function
            assert all(line.text for line in loop.lines)
            assert loop.staging is None or 0 <= loop.staging < 1
            assert 1 <= loop.chain <= loop.turn * loop.slots
            most = bound(loop, "sm_90", 132, 1980)
            assert 1 <= len(most.by) <= 3
            assert max(most.used.values()) == 1


COUNTS = {
    # function: slots, FMA, XU, load-store, tensor, interactions of a turn
    "naive": {"naive": (20.0, 12.0, 1.0, 4.0, 0, 4)},
    "tiled": {"tiled": (14.09, 12.0, 1.0, 1.0, 0, 32)},
    "symmetric": {"symmetric": (8.80, 8.0, 0.5, 0.25, 0, 128)},
    "tensor": {"pull_near": (14.125, 12.12, 1.0, 0.5, 0, 8), "meet": (4.41, 2.06, 0.5, 0.67, 0.38, 256)},
}


@pytest.mark.parametrize("name", COUNTS)
def test_the_counts_on_an_h200(name):
    exact = nvrtc.version() == COMPILER
    found = {loop.function: loop for loop in loops_of(name)}
    assert found.keys() == COUNTS[name].keys()
    for function, (slots, fma, xu, load_store, tensor, turn) in COUNTS[name].items():
        loop, close = found[function], {"abs": 0.006} if exact else {"rel": 0.05}
        assert loop.turn == turn
        assert loop.slots == pytest.approx(slots, **close)
        assert loop.pipes["FMA"] == pytest.approx(fma, **close)
        assert loop.pipes["XU"] == pytest.approx(xu, abs=1e-9)
        assert loop.pipes["load-store"] == pytest.approx(load_store, **close)
        assert loop.pipes.get("tensor", 0) == pytest.approx(tensor, **close)


def test_a_tile_is_as_long_as_its_axis_says():
    (loop,) = loops_of("tiled")
    assert loop.tile == 256
    assert loop.staging == pytest.approx(loop.per_tile / 256)
    # On sm_120 one turn of the loop stands before it, and is no staging.
    (newest,) = loops_of("tiled", "sm_120")
    assert newest.tile == 256
    assert newest.staging < 0.3
    # How many bodies a warp of symmetric meets depends on n.
    (dynamic,) = loops_of("symmetric")
    assert dynamic.staging is None
    assert dynamic.per_tile > 0


@pytest.mark.slow
def test_one_fp16_number_has_a_loop_beside_that_of_two():
    slots = {}
    for name, axes in (("tensor", {"terms": 1}), ("tensor_half", {})):
        two, one = (loop for loop in loops_of(name, **axes) if loop.function == "meet")
        assert (two.pipes["tensor"], one.pipes["tensor"]) == (6 / 16, 4 / 16)
        slots[name] = one.slots
    assert slots["tensor_half"] == pytest.approx(0.8 * slots["tensor"], rel=0.05)


def test_a_root_on_the_fma_pipe_is_one_of_an_interaction_too():
    for loop in loops_of("tensor", terms=1, fma_roots=2):
        if loop.function == "meet":
            assert loop.turn == 256
            assert loop.pipes["XU"] == 0.75 / 2


def test_a_pair_serves_both_bodies_where_the_variant_says_so():
    assert {loop.function: loop.served for loop in loops_of("tensor")} == {"pull_near": 1, "meet": 2}
    assert [loop.served for loop in loops_of("symmetric")] == [2]
    assert [loop.served for loop in loops_of("tiled")] == [1]


COUNTED = (
    "naive",
    "float4",
    "tiled",
    "split",
    "split_j",
    "register_blocked",
    "shuffle",
    "symmetric",
    "kahan",
    "float64_sums",
)


@pytest.mark.parametrize("name", COUNTED)
def test_nsight_compute_counted_the_same_on_an_h100(name):
    records = RecordFile(ROOT / "reports" / "h100" / "counters").read()
    (one,) = [
        record
        for record in records
        if record.counters and (record.variant, record.toolkit, record.n) == (name, "cupy", 65536)
        if not record.axes.get("equal_mass")
    ]
    (loop,) = loops_of(name)
    counted = 32 * one.counters["instructions"] / one.n**2
    # What is around the loop is left out, or counted as if all of it ran.
    assert 0.999 * loop.slots <= counted <= 1.03 * (loop.slots + (loop.staging or 0))
    issued = one.counters["issue_slots"]
    assert one.counters["fma_pipe"] / issued == pytest.approx(loop.pipes["FMA"] / loop.slots, rel=0.05)
    assert one.counters["xu_pipe"] / issued == pytest.approx(8 * loop.pipes["XU"] / loop.slots, rel=0.05)
    assert one.counters["lsu_pipe"] / issued == pytest.approx(4 * loop.pipes["load-store"] / loop.slots, rel=0.15)
    fp64 = 2 * loop.pipes.get("FP64", 0) / loop.slots
    assert one.counters["fp64_pipe"] / issued == pytest.approx(fp64, rel=0.05, abs=1e-3)
    # No kernel is faster than its bound at the clock that was measured.
    most = bound(loop, "sm_90", 132, one.sm_clock_mhz[0])
    assert one.interactions_per_second < most.interactions_per_second


def test_the_xu_packs_no_halves():
    records = RecordFile(ROOT / "reports" / "h100" / "counters").read()
    (one,) = [r for r in records if r.variant == "tensor" and r.axes["terms"] == 2 and r.counters]
    xu = one.counters["xu_pipe"] / one.counters["issue_slots"] / 8 * 32 * one.counters["instructions"] / one.n**2
    # Half a root for each interaction, one where bodies are near; were F2FP among them, twice as many for most.
    assert 0.5 <= xu < 0.6


def test_bounds_follow_the_lanes_of_the_architecture():
    (loop,) = loops_of("naive")
    hopper, ampere = (bound(loop, one, 100, 1000) for one in ("sm_90", "sm_80"))
    assert hopper.by == (ISSUE,)
    assert hopper.interactions_per_second == pytest.approx(100 * 1e9 * 128 / loop.slots)
    assert ampere.by == ("FMA",)
    assert ampere.interactions_per_second == pytest.approx(100 * 1e9 * 64 / loop.pipes["FMA"])
    (double,) = loops_of("naive", dtype="float64")
    assert bound(double, "sm_120", 100, 1000).by == ("FP64",)


def seconds_used():
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


@pytest.mark.slow
def test_a_ledger_takes_less_than_4_seconds_of_a_core_and_five_architectures_less_than_20(compiled):
    variant = discover()["tiled"]
    for key in [key for key in compiled if key[1] == "tiled"]:
        del compiled[key]
    asked = asked_of(variant, {}, "float32", GRAVITY)
    began = seconds_used()
    for architectures, limit in ((["sm_90"], 4), (["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"], 20)):
        found = ledger.ledgers(variant, asked, "float32", GRAVITY, architectures)
        assert [one.architecture for one in found] == architectures
        assert seconds_used() - began < limit


# What is shown


@cache
def of(name, *others, architectures=("sm_90",), axes=()):
    known = [discover()[one] for one in (name, *others)]
    asked = [explained.Asked(variant, variant.complete(dict(axes)), 65536, "float32") for variant in known]
    return explained.explain(asked, architectures)


FOUND = [
    ("tiled", "symmetric"), ("tensor",), ("resident_tree",), ("fast_multipole", "barnes_hut"),
]  # fmt: skip


@pytest.mark.parametrize("width", [80, 200])
@pytest.mark.parametrize("names", FOUND, ids=" ".join)
def test_tables_fit(names, width):
    console = Console(file=StringIO(), width=width)
    printed.render(of(*names), console)
    text = console.file.getvalue()
    assert [line for line in text.splitlines() if len(line) > width] == []
    assert "limited by" in text
    for row in of(*names).rows:
        assert f"{row.inner.slots:.2f}" in text


def test_a_variant_against_another_and_on_other_architectures():
    text = command("explain", "compare", "tiled", "symmetric", "--arch", "sm_90,sm_120")[1]
    assert "Difference from tiled on sm_90" in text
    rows = [line.split()[:3] for line in text.splitlines() if line.startswith("symmetric  sm_90")]
    assert ["symmetric", "sm_90", "8.80"] in rows
    assert any(float(row[2]) == pytest.approx(8.80 - 14.09, abs=0.02) for row in rows if row[2].startswith("-"))


@pytest.mark.parametrize(("p", "unroll", "expected"), [(64, 64, True), (64, 32, False), (64, 1, False)])
def test_a_loop_that_has_only_the_rest_of_a_tile_bounds_nothing(p, unroll, expected):
    """A run on an H100 was faster than the bound of such a loop."""
    constants = {"P": p, "UNROLL": unroll}
    source = discover()["tiled"].cuda_source(GRAVITY)
    built = ledger.assemble(source, "tiled", "sm_90", cuda_options(constants, "float32"))
    assert ledger.is_unrolled_whole(built) == expected


def test_kernels_without_a_loop_over_interactions_are_named():
    assert of("tiled").without == ()
    assert set(of("resident_tree").without) >= {"tree_box", "tree_keys", "resident_tree_moments"}
    assert "resident_tree" not in of("resident_tree").without


def test_two_values_of_an_axis_are_told_apart():
    text = command("explain", "compare", "tiled", "tiled", "-p", "unroll=8")[1]
    assert re.search(r"^tiled unroll=8 .* 14\.\d\d .* 12\.00", text, re.MULTILINE)
    assert re.search(r"^tiled unroll=32 .* 14\.09 .* 12\.00", text, re.MULTILINE)
    assert "Difference from tiled unroll=8 on sm_90" in text


def test_json_is_one_object_with_all_of_it():
    code, text = command("explain", "ledger", "tensor", "--json")
    found = json.loads(text)
    assert code == 0
    (kernel,) = found["kernels"]
    assert [loop["function"] for loop in kernel["loops"]] == ["pull_near", "pull_near", "meet"]
    assert kernel["occupancy"]["warps"] == 20
    assert found["asked"][0]["axes"]["terms"] == 2
    for loop in kernel["loops"]:
        assert sum(loop["pipes"].values()) == pytest.approx(loop["slots"])
        assert loop["bound"]["by"] == ["issue"]
        assert loop["lines"][0].keys() == {"file", "number", "slots", "pipes", "text"}


def test_the_page_needs_nothing_from_elsewhere(tmp_path):
    path = tmp_path / "new" / "page.html"
    code, text = command("explain", "ledger", "symmetric", "--html", str(path))
    assert code == 0, text
    read = path.read_text("utf-8")
    assert not re.search(r"""(?:src|href)\s*=|url\(|<script|@import""", read)

    class Text(HTMLParser):
        found = ""

        def handle_data(self, data):
            self.found += data

    parser = Text()
    parser.feed(read)
    assert f"{of('symmetric').rows[0].inner.slots:.2f} slots per interaction" in parser.found
    assert "at most" in parser.found
    assert "const real cube = inverse * inverse * inverse;" in parser.found


@pytest.mark.slow
def test_what_the_source_says_is_only_text_on_the_page():
    found = of("fast_multipole", "barnes_hut")
    for row in found.main:
        for line in row.inner.lines:
            assert "<b>" not in line.text
    read = page.page(found)
    assert "&lt;" in read
    assert read.count("<td") == read.count("</td>")


def test_a_label_that_has_no_room_in_its_bar_stands_beside_it():
    slices = page.pipes_of({"FMA": 12.0, "XU": 1.0, "load-store": 2.0, "control": 0.03}, 4.0)
    assert [one.fits for one in slices] == [True, False, False, False]
    wide = page.pipes_of({"FMA": 12.0, "XU": 12.0}, 3.0)
    assert all(one.fits for one in wide)
    found = of("tensor")
    read = page.page(found)
    for row in found.rows:
        for one in page.pipes_of(row.inner.pipes, page.WIDEST / max(row.inner.slots for row in found.rows)):
            in_bar = re.findall(rf">{one.label}</span>", read)
            assert bool(in_bar) == one.fits
            assert f"</span> {one.label}</span>" in read, "beside the bar too, for narrow windows"


def bar_of(*picoseconds):
    parts = tuple(Part(f"part {number}", float(one), "a reason") for number, one in enumerate(picoseconds))
    return bars.Bar(None, sum(picoseconds), parts)


@given(st.lists(st.floats(0, 1e3), min_size=2, max_size=9).filter(lambda parts: sum(parts) > 1), st.integers(20, 200))
def test_a_bar_is_as_wide_as_the_console_and_its_parts_as_their_share(picoseconds, width):
    drawn = bar_of(*picoseconds).drawn(width)
    assert len(drawn) == width
    for key, one in zip(bars.KEYS, picoseconds, strict=False):
        assert drawn.count(key) == pytest.approx(width * one / sum(picoseconds), abs=1.01)
    assert drawn == "".join(sorted(drawn, key=bars.KEYS.index))


def test_a_part_below_zero_is_told_and_not_drawn():
    bar = bar_of(3, 2, -1)
    assert bar.drawn(50) == "#" * 30 + "=" * 20
    assert [share for _, _, share in bar.slices] == [0.75, 0.5, -0.25]


@pytest.fixture(scope="module")
def counters():
    return RecordFile(ROOT / "reports" / "h100" / "counters").read()


def test_the_record_of_a_case_is_found(counters):
    (tiled,) = of("tiled").asked
    found = bars.record_of(tiled, counters, ROOT)
    assert (found.variant, found.toolkit, found.n, found.axes["p"]) == ("tiled", "cupy", 65536, 256)
    for change, answer in (
        ({"n": 1000}, r"--n 65536 --dtype float32"),
        ({"axes": tiled.axes | {"p": 64}}, r"with these axes; accepted: p=256"),
        ({"variant": discover()["lee_window"], "axes": {}}, r"no record of lee_window through CUDA C$"),
    ):
        with pytest.raises(InputError, match=answer):
            bars.record_of(replace(tiled, **change), counters, ROOT)


@pytest.mark.parametrize(("axes", "known"), [({}, True), ({"stagger": 0}, True), ({"stagger": 1}, False)])
def test_a_record_with_a_former_axis_is_of_the_kernel_where_that_kept_its_value(axes, known, counters):
    (tiled,) = of("tiled").asked
    assert axes.keys() <= discover()["tiled"].former.keys()
    record = bars.record_of(tiled, counters, ROOT).model_copy(update={"axes": {**tiled.axes, **axes}})
    if known:
        assert bars.record_of(tiled, [record], ROOT) is record
        assert work_of_record(record, "sm_90", shape_of(record)).length > 10
    else:
        with pytest.raises(InputError, match="with these axes; accepted: p=256 unroll=32 stagger=1"):
            bars.record_of(tiled, [record], ROOT)
        with pytest.raises(UnmodelledError, match="does not have its CUDA C"):
            work_of_record(record, "sm_90", shape_of(record))


def test_a_measured_time_is_divided_among_its_causes(counters, monkeypatch):
    monkeypatch.chdir(ROOT)
    code, text = command("explain", "ledger", "tiled", "--run", "h100/counters", "--json")
    assert code == 0, text
    (measured,) = json.loads(text)["measured"]
    (tiled,) = of("tiled").asked
    record = bars.record_of(tiled, counters, ROOT)
    assert measured["picoseconds"] == pytest.approx(1e12 / record.interactions_per_second)
    assert sum(part["picoseconds"] for part in measured["parts"]) == pytest.approx(measured["picoseconds"])
    assert sum(part["share"] for part in measured["parts"]) == pytest.approx(1)
    assert measured["parts"][-1]["name"] == "unexplained"
    divided = bars.bars(of("tiled"), counters, ROOT)
    assert "Where the time goes: tiled on NVIDIA H100 80GB HBM3" in page.page(of("tiled"), divided)
    for width in (80, 200):
        console = Console(file=StringIO(), width=width)
        printed.render(of("tiled"), console, divided)
        rows = console.file.getvalue().partition("Where the time goes")[2].splitlines()
        assert [row for row in rows if len(row) > width] == []
        assert [len(row) for row in rows if row.startswith("##")] == [width]
        for part in measured["parts"]:
            assert any(f" {part['name']} " in row for row in rows)


def test_a_record_of_another_architecture_is_refused(counters):
    with pytest.raises(InputError, match="measured on sm_90; accepted: --arch sm_90"):
        bars.bars(of("tiled", architectures=("sm_80",)), counters, ROOT)


WRONG = {
    "ledger numpy_direct": "has no CUDA C, only a kernel for cpu",
    "ledger triton_tiles": "has no CUDA C, only a kernel for triton",
    "ledger tild": "did you mean tiled",
    "compare tiled jax_jit": "OTHER jax_jit has no CUDA C",
    "ledger tiled -p q=3": "has no axis q",
    "ledger tiled -p p=32,64": "2 values; accepted: one",
    "ledger tiled -p p=100": "p % unroll",
    "ledger tiled -p unroll=no": 'tiled has no unroll = "no"',
    "ledger tiled -p p": "a name or a value is missing",
    "ledger tiled --arch sm_35": "--arch sm_35: not known to this NVRTC; accepted: sm_75",
    "ledger tiled --arch hopper": "--arch hopper: no such architecture",
    "ledger tiled --n 0": "accepted: 2 to 16,777,216",
    "ledger tiled --n many": "not a whole number",
    "ledger tensor --dtype float64": "tensor does not support it; accepted: float32",
    "ledger tiled --json --html x.html": "cannot be combined",
    "ledger tiled --mhz 0": "--mhz",
    "ledger tiled --run nowhere/at/all": "no such run",
    "ledger tiled --peaks x": "--peaks needs --run",
}


@pytest.mark.parametrize("words", WRONG)
def test_what_is_wrong_is_said_in_a_sentence(words):
    code, text = command("explain", *shlex.split(words))
    assert code == 2
    assert WRONG[words] in text
    assert "\n" not in text


def test_what_is_not_installed_is_said_in_a_sentence(monkeypatch):
    monkeypatch.setattr(assembling, "find_spec", lambda _: None)
    monkeypatch.setattr(assembling, "which", lambda _: None)
    assembling.disassembler.cache_clear()
    try:
        code, text = command("explain", "ledger", "naive")
        assert (code, text) == (2, "explain needs nvdisasm; install it with: pip install 'gravbench[explain]'")
        monkeypatch.setattr(nvrtc, "is_usable", lambda: False)
        code, text = command("explain", "ledger", "naive")
        assert code == 2
        assert text.startswith("explain needs NVRTC")
    finally:
        assembling.disassembler.cache_clear()


# The document

EXAMPLES = re.findall(r"^(gravbench explain (?:(?!--run|validate|bottleneck).)*?)\s*(?:#.*)?$", DOCUMENT, re.MULTILINE)


@pytest.mark.parametrize("line", EXAMPLES)
def test_the_examples_of_the_document_are_understood(line, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    known, said = of("tiled"), []

    def explain(asked, *others):
        said.append((asked, *others))
        return known

    monkeypatch.setattr(explained, "explain", explain)
    code, text = command(*shlex.split(line)[1:])
    assert code == 0, text
    ((asked, *_),) = said
    assert asked[0].variant.name == shlex.split(line)[3]


REFERENCE = re.compile(r"(?P<number>[\d,.]+)(?P<unit> billion| %)? <!-- explain (?P<what>[^:]*?) -->")
QUANTITIES = {
    **{name: lambda row, name=name: row.inner.pipes[name] for name in PIPES},
    **{name: lambda row, name=name: row.inner.work[name] for name in WORK},
    **{f"{name} used": lambda row, name=name: 100 * of(row.ledger.variant).bound(row).used[name] for name in PIPES},
    **{name: lambda row, name=name: getattr(row.inner, name) for name in ("slots", "staging", "tile", "chain")},
    "registers": lambda row: row.ledger.registers,
    "warps": lambda row: row.ledger.occupancy.warps,
    "bound": lambda row: of(row.ledger.variant).bound(row).interactions_per_second / 1e9,
}


def quantity(what):
    """Compute what a comment of a document names.

    It is ``explain VARIANT [AXIS=VALUE] [FUNCTION] QUANTITY`` or ``explain lanes PIPE``.
    """
    name, _, rest = what.partition(" ")
    if name == "lanes":
        return lanes("sm_90")[rest]
    axes = re.findall(r"(\w+)=(\d+) ", rest)
    rest = re.sub(r"\w+=\d+ ", "", rest)
    functions = {row.inner.function: row for row in of(name, axes=tuple((axis, int(v)) for axis, v in axes)).rows}
    function = next((one for one in functions if rest.startswith(f"{one} ")), "")
    row = functions[function] if function else next(iter(functions.values()))
    return QUANTITIES[rest.removeprefix(function).strip()](row)


REFERENCES = [match.groupdict() for match in REFERENCE.finditer(" ".join(DOCUMENT.split()))]
ELSEWHERE = [
    match.groupdict()
    for path in (ROOT / "docs").rglob("*.md")
    if (text := path.read_text("utf-8")) != DOCUMENT
    for match in REFERENCE.finditer(" ".join(text.split()))
]
"""Numbers of the command in other documents."""


def test_every_number_of_the_document_is_of_the_command():
    prose = re.sub(r"<!-- printed.*?<!-- end of printed -->|```.*?```", "", DOCUMENT, flags=re.DOTALL)
    prose = " ".join(prose.split())
    # Beside those with a comment there are names: of cards, architectures, types and files.
    prose = REFERENCE.sub("", prose)
    prose = re.sub(
        r"[\d,.]+(?:e-?\d+| %)? <!-- h[12]00/.*?-->|`[^`]*`|\]\([^)]*\)"
        r"|\b(?:H200|h200|sm_90|H100|h100|float32|float64|FP16|FP64|L[12])\b",
        "",
        prose,
    )
    assert re.findall(r"\S*\d\S*", prose) == []
    assert len(REFERENCES) >= 25
    assert ELSEWHERE


@pytest.mark.parametrize("told", [*REFERENCES, *ELSEWHERE], ids=lambda told: told["what"])
def test_the_document_says_what_the_command_finds(told):
    if nvrtc.version() != COMPILER:
        pytest.skip(f"the document was made by {COMPILER}; this is {nvrtc.version()}")
    digits = len(told["number"].partition(".")[2])
    assert f"{quantity(told['what']):,.{digits}f}" == told["number"]
