"""Entries: how they are read, that what is wrong with one is found and explained, and that variants make right ones."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from typer.testing import CliRunner

from conftest import ROOT, flat
from gravbench.cli.main import app
from gravbench.emulation import programs
from gravbench.errors import InputError
from gravbench.explain.assembling import missing
from gravbench.explain.ledger import ledger
from gravbench.explain.recorded_kernels import asked_of
from gravbench.judging import cost, emulating, judgement
from gravbench.judging import entry as head
from gravbench.judging.cost import NoCostError, cost_of
from gravbench.judging.emulating import EmulatedLauncher
from gravbench.judging.entry import entry_of, read
from gravbench.judging.export import NoEntryError, _recorded, exported
from gravbench.judging.expressions import MOST_CHARACTERS, Expression
from gravbench.judging.launching import arrays_of
from gravbench.model.interaction import GRAVITY
from gravbench.model.interaction_files import find
from gravbench.model.variant import discover
from gravbench.sandbox import compilers, confined
from gravbench.sandbox.confined import Protections

ENTRIES = ROOT / "tests" / "entries"
RIGHT = (ENTRIES / "right.cu").read_text("utf-8")
SEED = 5
VARIANTS = discover()
WITHOUT_ENTRY = {
    "chamomile_call": "works on the host in each launch",
    "symmetric_gpus": "compiles its kernels with several values of P",
    **dict.fromkeys(("tensor", "tensor_gpus", "tensor_half"), "has a library sort the bodies in each launch"),
}
DIRECT = [
    name for name, one in VARIANTS.items() if one.has_cuda_c and not one.approximates and name not in WITHOUT_ENTRY
]
QUICK = ("naive", "tiled", "symmetric")


emulated = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on PATH")
costed = pytest.mark.skipif(missing() is not None, reason=str(missing()))


def changed(*replaced):
    """Return the right entry with some of its text replaced."""
    text = RIGHT
    for old, new in replaced:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def judged(text, sizes=(129,)):
    return judgement.judge(entry_of(Path("kernel.cu"), text), EmulatedLauncher(), sizes, seed=SEED)


# How an entry is read

HEADS = {
    "no head": (
        ("/* gravbench entry", "/* entry"),
        'begins with "/* entry"; accepted: a file that begins with /* gravbench',
    ),
    "no end": (("*/", ""), "the head has no end; accepted: "),
    "no YAML": (("rung: tiled", "rung: [tiled"), "line 9: invalid YAML: "),
    "unknown key": (
        ("rung: tiled", "rungs: tiled"),
        'line 9: unknown key "rungs"; did you mean rung? accepted: kernels',
    ),
    "unknown key of a kernel": (
        ("    block: P", "    blocks: P"),
        'line 5: unknown key "blocks"; did you mean block? ',
    ),
    "missing key": (
        ("constants: {P: 64}", "precision: float32"),
        'line 4: grid is "ceil_div(n, P)", which names "P"; accepted: n',
    ),
    "no arrays": (
        ("arrays: {bodies: bodies, accelerations: accelerations}\n", ""),
        "line 2: the key arrays is missing",
    ),
    "wrong layout": (
        ("{bodies: bodies,", "{bodies: body,"),
        'line 8: arrays.bodies.layout is "body"; did you mean bodies? ',
    ),
    "no input": (
        ("{bodies: bodies,", "{bodies: x,"),
        "line 8: the layouts of what is read are x; accepted: bodies or x, y",
    ),
    "layout twice": (
        ("{bodies: bodies,", "{bodies: bodies, b: bodies,"),
        "line 8: bodies and b are both bodies; accepted: one",
    ),
    "size of bodies": (
        ("bodies: bodies,", "bodies: {layout: bodies, bytes: 4},"),
        "accepted: bytes with the layout scratch, and with",
    ),
    "reserved name": (("{P: 64}", "{P: 64, n: 3}"), "line 7: n has another meaning; accepted: another name"),
    "wrong name": (
        ("{P: 64}", "{P: 64, __x: 3}"),
        "accepted: a name of letters, digits and _ that does not begin with __",
    ),
    "wrong constant": (("{P: 64}", "{P: 64.5}"), "line 7: constants.P is 64.5; accepted: a whole number"),
    "large constant": (
        ("{P: 64}", "{P: 99999999999}"),
        "line 7: constants.P is 99999999999; accepted: up to 2147483647",
    ),
    "wrong precision": (("rung: tiled", "precision: half"), 'precision is "half"; accepted: float32, float64'),
    "wrong error": (("rung: tiled", "error: 0.5"), "line 9: error is 0.5; accepted: up to 0.1"),
    "no kernel": (
        ("name: pull", "name: pul"),
        'no extern "C" __global__ kernel pul; did you mean pull? accepted: pull',
    ),
    "too many extents": (("block: P", "block: [P, 1, 1]"), "line 5: kernels.0.block is ['P', 1, 1]; accepted: up to 2"),
    "no extent": (
        ("block: P", "block: 1.5"),
        "line 5: kernels.0.block.0 is 1.5; accepted: an expression of whole numbers",
    ),
    "unknown argument": (("[bodies,", "[body,"), 'line 6: argument "body"; did you mean bodies? accepted: bodies, acc'),
    "call": (("ceil_div(n, P)", "exit(n)"), 'line 4: grid is "exit(n)", which names "exit"; accepted: ceil_div'),
    "power": (
        ("ceil_div(n, P)", "n ** P"),
        'line 4: grid is "n ** P", which is not accepted; accepted: whole numbers, names',
    ),
    "attribute": (("ceil_div(n, P)", "n.real"), "which is not accepted; accepted: whole numbers, names"),
    "truth": (("ceil_div(n, P)", "'True'"), "which is not accepted; accepted: whole numbers, names"),
    "no expression": (("ceil_div(n, P)", "n +"), 'line 4: grid is "n +", which is no expression; accepted: '),
    "long expression": (("ceil_div(n, P)", "n" + " + 1" * 99), "accepted: up to 200 characters"),
    "braces": (
        (
            "  - name: pull\n    grid: ceil_div(n, P)\n",
            "  - {name: pull, grid: ceil_div(n, P), block: 1}\n  - name: pull\n",
        ),
        "an expression with a comma needs quotes within braces",
    ),
}


@pytest.mark.parametrize(("replaced", "sentence"), HEADS.values(), ids=HEADS)
def test_a_mistake_in_a_head_is_a_sentence_with_its_line(replaced, sentence):
    with pytest.raises(InputError) as refused:
        entry_of(Path("kernel.cu"), changed(replaced))
    assert str(refused.value).startswith("kernel.cu")
    assert sentence in str(refused.value)


def test_all_mistakes_of_a_head_are_said_at_once():
    with pytest.raises(InputError) as refused:
        entry_of(Path("kernel.cu"), changed(("{P: 64}", "{P: x}"), ("rung: tiled", "rung: 3"), ("block: P", "blok: P")))
    assert len(refused.value.args) == 4  # the key block is missing too


@pytest.mark.parametrize(
    ("replaced", "n", "sentence"),
    [
        (
            ("ceil_div(n, P)", "n // P"),
            5,
            "line 3: pull at n = 5 has a grid of 0 x 1; accepted: 1 to 2147483647 x 1 to 65535",
        ),
        (
            ("block: P", "block: [P, n]"),
            99,
            "line 3: pull at n = 99 has blocks of 64 x 99; accepted: 1 to 1024 threads",
        ),
        (
            ("block: P", "block: P\n    shared: 4 * n"),
            99999,
            "has 399996 bytes of shared memory; accepted: 0 to 232448",
        ),
        (("n, eps2", "n * n, eps2"), 99999, "has the argument 9999800001; accepted: numbers of 32 bits"),
        (
            ("ceil_div(n, P)", "n // (P - 64)"),
            5,
            "which cannot be computed for n = 5, P = 64: integer division or modulo by zero",
        ),
        (("ceil_div(n, P)", "*".join(["n"] * 9)), 9999, "the number is too large"),
    ],
)
def test_what_is_beyond_a_limit_for_an_n_is_a_sentence(replaced, n, sentence):
    entry = entry_of(Path("kernel.cu"), changed(replaced))
    with pytest.raises(InputError, match=re.escape(sentence)):
        entry.calls(n)


@pytest.mark.parametrize(
    ("size", "said"), [("6 * n", "has 6 bytes at n = 1"), ("n - 1", "has 0 bytes"), (2**30, "up to 2684")]
)
def test_scratch_has_whole_numbers_and_a_limit(size, said):
    text = changed(("{bodies: bodies,", f"{{s: {{layout: scratch, bytes: {size}}}, bodies: bodies,"))
    with pytest.raises(InputError, match=said):
        entry_of(Path("kernel.cu"), text).scratch_bytes(1)


def test_a_file_of_more_than_256_kib_is_refused(tmp_path):
    (tmp_path / "kernel.cu").write_text(RIGHT + "/" * 2**18)
    with pytest.raises(InputError, match="too large; accepted: up to 262144 bytes"):
        read(tmp_path / "kernel.cu")


def test_expressions_compute_as_they_say():
    values = {"n": 1000, "P": 128}
    written = "max(1, min(n % P, ceil_div(n, P) - 2) * -3 + n // P) + 40 * (P - 1)"
    assert Expression(written, values, "x").value(values) == max(1, min(104, 6) * -3 + 7) + 40 * 127
    assert Expression(7, values, "x").value(values) == 7


# What is found and said of wrong kernels

WEIGHT = "other.w * inverse * inverse * inverse"
WRONG = {
    "last tile": ([("first < n; first", "first + P <= n; first")], "the last tile of 64, which has 1, is left out"),
    "softening left out": (
        [("+ eps2);", "+ 0 * eps2);"), ("ax += weight", "if (first + k == i) continue;\n ax += weight")],
        "the softening is left out",
    ),
    "softening squared": ([("+ eps2);", "+ eps2 * eps2);")], "the softening is squared twice"),
    "root of the softening": ([("+ eps2);", "+ sqrtf(eps2));")], "the softening is the root of eps2"),
    "softening forgotten": ([("+ eps2);", ");")], "something is read that was not written, or without softening"),
    "softening slightly off": ([("+ eps2);", "+ 1.0002f * eps2);")], "eps2 is 1.0002"),
    "masses left out": ([("other.w * ", "")], "the masses are left out"),
    "own mass": ([("other.w * ", "self.w * ")], "the mass is that of the body that is pulled"),
    "force": ([("{ax, ay, az, 0}", "{self.w * ax, self.w * ay, self.w * az, 0}")], "it is the force"),
    "sign": ([("{ax, ay, az, 0}", "{-ax, -ay, -az, 0}")], "the sign is wrong"),
    "order": ([("{ax, ay, az, 0}", "{ay, ax, az, 0}")], "ax, ay, az are in the order ay, ax, az"),
    "one coordinate": ([("az += weight * dz", "az += weight * dz * dz")], "only az is wrong"),
    "power": ([(WEIGHT, "other.w * inverse * inverse")], "a contribution is the distance times 1 / r^2"),
    "twice": ([("{ax, ay, az, 0}", "{2 * ax, 2 * ay, 2 * az, 0}")], "all accelerations are 2 times as large"),
    "half of the pairs": (
        [("ax += weight", "if (first + k > i) break;\n ax += weight")],
        "pulled only by those before it",
    ),
    "rows not written": ([("i < n)", "i < n - 1)")], "rows 128 (1 of 129) were not written"),
    "grid too small": ([("ceil_div(n, P)\n", "n // P\n")], "rows 128 (1 of 129) were not written"),
    "nothing written": ([("i < n)", "i < 0)")], "rows 0-128 (129 of 129) were not written: the kernel writes no"),
    "a coordinate not written": (
        [("accelerations[i] = {ax, ay, az, 0}", "accelerations[i].x = ax, accelerations[i].z = az")],
        "ay is not written in any row",
    ),
    "next row": ([("accelerations[i] =", "accelerations[(i + 1) % n] =")], "in the row behind that of its body"),
    "some rows": ([("{ax, ay, az, 0}", "{i % 50 ? ax : 0, ay, az, 0}")], "only ax is wrong"),
    "same tile": ([("= bodies[first + thread]", "= bodies[thread]")], "the first tile of 64 is read"),
    "stale tile": ([("min(P, n - first)", "P")], "the end of the last tile of 64 is what the tile before left there"),
    "half masses": (
        [(WEIGHT, "(8193 * other.w - (8193 * other.w - other.w)) * inverse * inverse * inverse")],
        "the masses are rounded to half precision",
    ),
    "half roots": (
        [(WEIGHT, "other.w * inverse * inverse * (8193 * inverse - (8193 * inverse - inverse))")],
        "are of a size that half precision leads to",
    ),
}


OFTEN = (
    *("last tile", "softening squared", "softening forgotten", "masses left out", "sign", "half of the pairs"),
    *("nothing written", "a coordinate not written", "grid too small", "some rows", "stale tile", "half roots"),
)
"""The mistakes that are tried each time; the others take as long, and are tried with the slow tests."""


@emulated
@pytest.mark.parametrize(
    ("replaced", "cause"),
    [pytest.param(*case, id=name, marks=() if name in OFTEN else pytest.mark.slow) for name, case in WRONG.items()],
)
def test_what_is_wrong_is_found_and_explained(replaced, cause):
    result = judged(changed(*replaced))
    assert not result.right
    assert cause in result.sizes[0].cause, result.sizes[0]


@pytest.mark.slow
@emulated
def test_a_right_entry_is_accepted_at_every_size():
    result = judged(RIGHT, (1, 2, 31, 64, 300))
    assert result.right
    assert [size.n for size in result.sizes] == [1, 2, 31, 64, 300]


@emulated
def test_bodies_that_are_kept_from_the_launch_before_are_found():
    entry = read(ENTRIES / "cached.cu")
    result = judgement.judge(entry, EmulatedLauncher(), [100], seed=SEED)
    assert "the bodies are those of the launch before" in result.sizes[0].cause


@emulated
def test_double_precision_is_held_to_its_own_rounding():
    double = RIGHT.replace("float4", "double4").replace("float ", "double ").replace("rsqrtf", "1 / sqrt")
    right = double.replace("rung: tiled", "precision: float64")
    assert judged(right).right
    rounded = right.replace("double weight =", "float weight =")
    assert "errors" not in judged(rounded).sizes[0].cause
    assert not judged(rounded).right


@emulated
def test_an_error_that_the_entry_states_is_what_counts():
    rough = changed((WEIGHT, f"1.001f * {WEIGHT}"))
    assert not judged(rough).right
    assert judged(rough.replace("rung: tiled", "error: 0.01")).right


def test_whose_errors_are_accepted_is_said():
    entry = entry_of(Path("kernel.cu"), RIGHT)
    direct, whose = judgement.tolerance_of(entry, VARIANTS["tiled"])
    assert (direct.of_rounding, whose) == (True, "a direct sum")
    half, whose = judgement.tolerance_of(entry, VARIANTS["tensor_half"])
    assert (half.max, whose) == (2e-4, "tensor_half")
    stated = entry_of(Path("kernel.cu"), changed(("rung: tiled", "error: 0.01")))
    assert judgement.tolerance_of(stated, VARIANTS["tensor_half"])[1] == "the entry itself"
    double = entry_of(Path("kernel.cu"), changed(("rung: tiled", "precision: float64")))
    with pytest.raises(InputError, match="tensor_half does not compute in float64; accepted: another rung"):
        judgement.tolerance_of(double, VARIANTS["tensor_half"])


def test_an_array_of_the_entry_is_never_taken_for_one_of_another_launch():
    text = (ENTRIES / "cached.cu").read_text("utf-8").replace("kept", "bodies_2")
    arrays = arrays_of(entry_of(Path("kernel.cu"), text), judgement.bodies_of(5, SEED))
    assert arrays["bodies_2"].size == 20
    assert not arrays["bodies_2"].any()
    assert {name for name in arrays if "@" in name} == {
        f"{name}@{turn}" for name in ("bodies", "ax", "ay", "az") for turn in (2, 3)
    }


@emulated
def test_the_bodies_of_each_launch_and_each_judgement_are_new():
    first, second, third = judgement.bodies_of(50, SEED)
    assert len({first.eps, second.eps, third.eps}) == 3
    assert np.std(second.position) == pytest.approx(second.eps, rel=0.1)  # where the softening matters most
    assert np.std(first.position) > 5 * first.eps
    assert not np.isclose(second.position, third.position).all()
    assert judgement.bodies_of(50, SEED + 1)[0].eps != first.eps
    entry = entry_of(Path("kernel.cu"), RIGHT)
    assert judgement.judge(entry, EmulatedLauncher(), [1]).seed != judgement.judge(entry, EmulatedLauncher(), [1]).seed


FAULTS = {
    "no barrier before": ([("        __syncthreads();\n", "")], "race", (22, 18), "without a barrier"),
    "no barrier behind": ([("__syncthreads();  // before", "// before")], "race", (18, 22), "without a barrier"),
    "beyond an array": ([("min(i, n - 1)", "i")], "bounds", (15,), " has 129 rows"),
    "row behind the last": ([("i < n)", "i <= n)")], "bounds", (32,), " has 129 rows"),
    "some threads at a barrier": (
        [("    for (int first", "    if (i < n) for (int first")],
        "barrier",
        (19,),
        "waits at __syncthreads",
    ),
    "without an end": ([("first += P", "first += 0")], "time", (), "s"),
    "unknown function": ([("rsqrtf(", "printing(")], "unknown function", (24,), "printing"),
    "a file": ([("rung: tiled\n*/", '*/\n#include "/etc/passwd"')], "compile", (10,), "/etc/passwd"),
}


@emulated
@pytest.mark.parametrize(("replaced", "kind", "lines", "said"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_named_with_its_line_and_thread(replaced, kind, lines, said, monkeypatch):
    monkeypatch.setattr(emulating, "LIMITS", replace(emulating.LIMITS, seconds=2))
    (size,) = judged(changed(*replaced), (129, 200)).sizes  # nothing is launched behind a fault
    assert not size.right
    assert size.fault.kind == kind
    assert said in size.fault.sentence
    assert size.fault.line in (lines or (None, size.fault.line))
    if kind in ("race", "bounds"):
        assert size.fault.thread is not None


# Variants as entries


@pytest.mark.parametrize("name", DIRECT)
def test_the_head_of_an_exported_variant_launches_as_the_variant_does(name):
    variant = VARIANTS[name]
    text = exported(variant)
    entry = entry_of(Path(f"{name}.cu"), text)
    axes = dict(word.split("=") for word in text.splitlines()[1].split()[2:])
    typed = {axis: variant.find_value(axis, int(value) if value.isdigit() else value) for axis, value in axes.items()}
    for n in (1, 77, 6000):  # of which the export knows nothing
        recorded = _recorded(variant, typed, n)
        for call, own in zip(entry.calls(n), recorded.calls, strict=True):
            assert (call.kernel, call.grid[: len(own.grid)], call.block[: len(own.block)], call.arguments) == own
        for array, size in entry.scratch_bytes(n).items():
            assert recorded.scratch[array] <= size <= max(4096, 2 * n * 512)


@emulated
@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in DIRECT],
)
def test_every_direct_variant_is_accepted_as_an_entry(name):
    entry = entry_of(Path(f"{name}.cu"), exported(VARIANTS[name]))
    result = judgement.judge(entry, EmulatedLauncher(), judgement.usual_sizes(entry), VARIANTS[name], SEED)
    assert result.right, result.sizes


@pytest.mark.parametrize(
    ("name", "why"), [*WITHOUT_ENTRY.items(), ("barnes_hut", "approximates"), ("numpy_direct", "has no CUDA C")]
)
def test_what_cannot_be_an_entry_says_why(name, why):
    with pytest.raises(NoEntryError, match=why):
        exported(VARIANTS[name])


# What it costs


@costed
def test_the_cost_of_an_exported_variant_is_that_of_its_ledger():
    entry = entry_of(Path("symmetric.cu"), exported(VARIANTS["symmetric"]))
    axes = VARIANTS["symmetric"].complete({"r": 8})
    kernels = asked_of(VARIANTS["symmetric"], axes, "float32", find(GRAVITY))
    known = ledger(VARIANTS["symmetric"], kernels, "float32", find(GRAVITY), "sm_90")
    cost = cost_of(entry)
    assert (cost.slots, cost.registers, cost.spilled) == (known.inner[0].slots, known.registers, known.spilled)
    assert cost.occupancy == known.occupancy


@costed
def test_loads_are_counted_by_the_memory_that_they_are_from():
    tiled, naive = (cost_of(entry_of(Path("x.cu"), exported(VARIANTS[name]))) for name in ("tiled", "naive"))
    assert (tiled.shared_loads, tiled.global_loads) == (1, 0)
    assert (naive.shared_loads, naive.global_loads) == (0, 4)
    assert (
        cost_of(entry_of(Path("x.cu"), changed(("    block: P", "    block: P\n    shared: 60000")))).occupancy.blocks
        == 3
    )


@costed
@pytest.mark.parametrize(
    ("replaced", "said"),
    [
        (("rsqrtf(", "1 + ("), "no loop with a reciprocal square root"),
        (('extern "C" ', ""), "the machine code has no kernel pull; accepted: extern"),
        (("rsqrtf(", "printing("), 'x.cu, line 24: identifier "printing" is undefined'),
        (("rung: tiled\n*/", '*/\n#include "/etc/passwd"'), "line 10: cannot open source file"),
    ],
)
def test_a_cost_that_is_not_known_has_a_reason(replaced, said):
    with pytest.raises(NoCostError, match=re.escape(said)):
        cost_of(entry_of(Path("x.cu"), changed(replaced)))


@emulated
@costed
def test_that_pairs_count_twice_is_said_to_be_declared(tmp_path):
    (tmp_path / "kernel.cu").write_text(changed(("rung: tiled", "mutual: true")))
    once, twice = (
        command(path, "--emulate", "--n", "1", "--json") for path in (ENTRIES / "right.cu", tmp_path / "kernel.cu")
    )
    slots = [json.loads(done.stdout)["costs"][0]["cost"]["slots"] for done in (once, twice)]
    assert slots[0] == 2 * slots[1]
    done = command(tmp_path / "kernel.cu", "--emulate", "--n", "1")
    assert "kernel.cu declares that it computes each pair once: a pair counts as two" in flat(done.stdout)


@emulated
@costed
def test_what_no_gpu_could_run_is_wrong_although_it_is_emulated(tmp_path):
    (tmp_path / "kernel.cu").write_text(changed(('extern "C" ', "")))
    done = command(tmp_path / "kernel.cu", "--emulate", "--n", "1")
    assert done.exit_code == 1
    assert done.stdout.startswith("kernel.cu: wrong ")
    assert "it does not compile for a GPU: the machine code has no kernel pull" in flat(done.stdout)


# The command


def command(*words, columns=80):
    return CliRunner().invoke(app, ["judge", *map(str, words)], env={"COLUMNS": str(columns)})


@emulated
@costed
def test_a_right_entry_is_one_screen_and_code_0(tmp_path):
    done = command(ENTRIES / "right.cu", "--emulate", "--n", "1,65", "--seed", SEED, "--html", tmp_path / "page.html")
    assert done.exit_code == 0, done.output
    assert "Accepted are those of a direct sum." in flat(done.stdout)
    lines = done.stdout.splitlines()
    assert lines[0].startswith("right.cu: right ")
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert re.search(r"^ *65  right +\d\.\de-07 +\d\.\de-06", done.stdout, re.MULTILINE)
    assert re.search(r"^right.cu +16\.\d+ +0 +1 +32 +0 +64 of 64", done.stdout, re.MULTILINE)
    assert re.search(r"^tiled +14\.\d+ ", done.stdout, re.MULTILINE)
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "<h1>gravbench judge: right.cu</h1>" in page
    assert "<td>right</td>" in page
    assert "<script" not in page


@emulated
@costed
def test_a_wrong_entry_is_code_1_and_says_why_in_every_form(tmp_path):
    (tmp_path / "<b>.cu").write_text(changed(("other.w * ", "")))
    words = tmp_path / "<b>.cu", "--emulate", "--n", "65", "--seed", SEED
    done = command(*words)
    assert done.exit_code == 1
    assert re.search(r"^65 +wrong .* 0-64 \(65 of 65\)$", done.stdout, re.MULTILINE)
    assert "n = 65: the masses are left out. At n = 65: largest error" in flat(done.stdout)
    told = command(*words, "--json", "--rung", "naive", "--html", tmp_path / "page.html")
    assert told.exit_code == 1
    content = json.loads(told.stdout)
    assert (content["verdict"], content["seed"]) == ("wrong", SEED)
    assert content["sizes"][0]["cause"] == "the masses are left out"
    assert content["sizes"][0]["error_max"] > content["sizes"][0]["accepted_max"]
    assert [cost["kernel"] for cost in content["costs"]] == ["<b>.cu", "naive"]
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "&lt;b&gt;.cu: wrong" in page
    assert "<b>" not in page


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([ENTRIES / "right.cu"], "accepted: gravbench judge"),
        (["missing.cu", "--emulate"], "missing.cu: cannot be read: No such file"),
        ([ENTRIES / "right.cu", "--emulate", "--n", "0"], "--n 0; accepted: 1 to 8192"),
        ([ENTRIES / "right.cu", "--emulate", "--n", "1e5"], "--n 100000; accepted: 1 to 8192"),
        ([ENTRIES / "right.cu", "--emulate", "--n", "few"], "--n few: few is not a number of bodies"),
        ([ENTRIES / "right.cu", "--emulate", "--rung", "tilde"], "--rung tilde is not a variant; did you mean tiled?"),
        (
            [ROOT / "variants" / "all_pairs" / "tiled.cu", "--emulate"],
            "accepted: a file that begins with /* gravbench entry",
        ),
    ],
)
def test_what_cannot_be_judged_is_one_sentence(words, said):
    done = command(*words)
    assert isinstance(done.exception, InputError)
    assert said in str(done.exception)


def test_what_the_system_does_not_protect_is_said_before_anything_runs(monkeypatch):
    lacking = Protections("", "namespaces", "namespaces", "limits", "clock")
    monkeypatch.setattr(confined, "protections", lambda: lacking)

    def judge(*_):
        raise InputError("it ran")

    monkeypatch.setattr(judgement, "judge", judge)
    done = command(ENTRIES / "right.cu", "--emulate")
    assert str(done.exception) == "it ran"
    assert "this system does not protect files" in done.stderr


def test_what_is_missing_is_said_in_a_sentence(monkeypatch):
    def compiler(name="g++"):
        raise InputError(f"there is no {name} on PATH")

    monkeypatch.setattr(compilers, "compiler", compiler)
    programs.program_of.cache_clear()
    programs._runtime.cache_clear()
    assert str(command(ENTRIES / "right.cu", "--emulate").exception) == "there is no g++ on PATH"
    monkeypatch.setattr(cost, "missing", lambda: "explain needs nvdisasm")
    with pytest.raises(NoCostError, match="explain needs nvdisasm"):
        cost_of(entry_of(Path("x.cu"), RIGHT))


def test_source_writes_an_entry_for_gravity_alone():
    done = CliRunner().invoke(app, ["source", "tiled", "--entry"])
    assert done.stdout == exported(VARIANTS["tiled"])
    refused = CliRunner().invoke(app, ["source", "tiled", "--entry", "--interaction", "hermite"])
    assert str(refused.exception) == "--entry: an entry computes gravity, not hermite; accepted: gravity"


def test_the_limits_that_are_documented_are_those_that_hold():
    said = (ROOT / "docs" / "how-to" / "judge.md").read_text("utf-8")
    counts = (head.MOST_KERNELS, head.MOST_ARGUMENTS, head.MOST_ARRAYS, head.MOST_CONSTANTS)
    for row in (
        f"| size of its file | {head.MOST_BYTES:,} bytes |",
        f"| {'; '.join(map(str, counts))} |",
        f"| length of an expression | {MOST_CHARACTERS} characters |",
        f"| {head.MOST_THREADS:,}; {head.MOST_SHARED:,} bytes |",
        f"| scratch arrays together | {head.MOST_SCRATCH:,} bytes |",
        f"| bodies that it is judged with | {judgement.MOST_BODIES:,} |",
        f"| {emulating.LIMITS.seconds} seconds, {emulating.LIMITS.memory_bytes >> 30} GiB |",
    ):
        assert row in said


def test_every_key_and_layout_of_a_head_is_described():
    page = (ROOT / "docs" / "how-to" / "judge.md").read_text("utf-8")
    for model in (head.Head, head.Kernel, head.Array):
        for name in model.model_fields:
            assert f"`{name}`" in page or f"{name}: " in page, name
    for layout in get_args(head.Layout):
        assert f"`{layout}`" in page or f"layout: {layout}" in page, layout
    shown = re.search(r"(/\* gravbench entry\n.*?)\n```", page, re.DOTALL)[1]
    assert RIGHT.startswith(shown)
