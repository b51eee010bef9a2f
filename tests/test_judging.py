"""Entries: how they are read, that what is wrong with one is found and explained, and that variants make right ones."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from conftest import ROOT, flat
from gravbench.cli.main import app
from gravbench.errors import InputError
from gravbench.judging import judgement
from gravbench.judging.cost import cost_of
from gravbench.judging.entry import entry_of, read
from gravbench.judging.export import NoEntryError, _recorded, exported
from gravbench.judging.expressions import Expression
from gravbench.model.variant import discover
from launched import InProcess
from typer.testing import CliRunner

ENTRIES = ROOT / "tests" / "entries"
RIGHT = (ENTRIES / "right.cu").read_text("utf-8")
SEED = 5
VARIANTS = discover()
WITHOUT_ENTRY = {
    "symmetric_gpus": "compiles its kernels with several values of P",
    **dict.fromkeys(("tensor", "tensor_gpus", "tensor_half"), "has a library sort the bodies in each launch"),
}
DIRECT = [
    name for name, one in VARIANTS.items() if one.has_cuda_c and not one.approximates and name not in WITHOUT_ENTRY
]
QUICK = ("naive", "tiled", "symmetric")


def changed(*replaced):
    """Return the right entry with some of its text replaced."""
    text = RIGHT
    for old, new in replaced:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def judged(text, sizes=(129,)):
    return judgement.judge(entry_of(Path("kernel.cu"), text), InProcess(), sizes, seed=SEED)


# How an entry is read

HEADS = {
    "no head": (("/* gravbench entry", "/* entry"), "begins with \"/* entry\"; accepted: a file that begins with /* gravbench"),
    "no end": (("*/", ""), "the head has no end; accepted: "),
    "no YAML": (("rung: tiled", "rung: [tiled"), "line 9: invalid YAML: "),
    "unknown key": (("rung: tiled", "rungs: tiled"), 'line 9: unknown key "rungs"; did you mean rung? accepted: kernels'),
    "unknown key of a kernel": (("    block: P", "    blocks: P"), 'line 5: unknown key "blocks"; did you mean block? '),
    "missing key": (("constants: {P: 64}", "precision: float32"), 'line 4: grid is "ceil_div(n, P)", which names "P"; accepted: n'),
    "no arrays": (("arrays: {bodies: bodies, accelerations: accelerations}\n", ""), "line 2: the key arrays is missing"),
    "wrong layout": (("{bodies: bodies,", "{bodies: body,"), 'line 8: arrays.bodies.layout is "body"; did you mean bodies? '),
    "no input": (("{bodies: bodies,", "{bodies: x,"), "line 8: the layouts of what is read are x; accepted: bodies or x, y"),
    "layout twice": (("{bodies: bodies,", "{bodies: bodies, b: bodies,"), "line 8: bodies and b are both bodies; accepted: one"),
    "size of bodies": (("bodies: bodies,", "bodies: {layout: bodies, bytes: 4},"), "accepted: bytes with the layout scratch, and with"),
    "reserved name": (("{P: 64}", "{P: 64, n: 3}"), "line 7: n has another meaning; accepted: another name"),
    "wrong name": (("{P: 64}", "{P: 64, __x: 3}"), "accepted: a name of letters, digits and _ that does not begin with __"),
    "wrong constant": (("{P: 64}", "{P: 64.5}"), "line 7: constants.P is 64.5; accepted: a whole number"),
    "large constant": (("{P: 64}", "{P: 99999999999}"), "line 7: constants.P is 99999999999; accepted: up to 2147483647"),
    "wrong precision": (("rung: tiled", "precision: half"), 'precision is "half"; accepted: float32, float64'),
    "wrong error": (("rung: tiled", "error: 0.5"), "line 9: error is 0.5; accepted: up to 0.1"),
    "no kernel": (("name: pull", "name: pul"), 'no extern "C" __global__ kernel pul; did you mean pull? accepted: pull'),
    "too many extents": (("block: P", "block: [P, 1, 1]"), "line 5: kernels.0.block is ['P', 1, 1]; accepted: up to 2"),
    "no extent": (("block: P", "block: 1.5"), "line 5: kernels.0.block.0 is 1.5; accepted: an expression of whole numbers"),
    "unknown argument": (("[bodies,", "[body,"), 'line 6: argument "body"; did you mean bodies? accepted: bodies, acc'),
    "call": (("ceil_div(n, P)", "exit(n)"), 'line 4: grid is "exit(n)", which is not accepted; accepted: whole numbers, names'),
    "power": (("ceil_div(n, P)", "n ** P"), 'line 4: grid is "n ** P", which is not accepted; accepted: whole numbers, names'),
    "attribute": (("ceil_div(n, P)", "n.real"), 'which is not accepted; accepted: whole numbers, names'),
    "truth": (("ceil_div(n, P)", "'True'"), 'which is not accepted; accepted: whole numbers, names'),
    "no expression": (("ceil_div(n, P)", "n +"), 'line 4: grid is "n +", which is no expression; accepted: '),
    "long expression": (("ceil_div(n, P)", "n" + " + 1" * 99), "accepted: up to 200 characters"),
    "braces": (("  - name: pull\n    grid: ceil_div(n, P)\n", "  - {name: pull, grid: ceil_div(n, P), block: 1}\n  - name: pull\n"),
               "an expression with a comma needs quotes within braces"),
}  # fmt: skip


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
        (("ceil_div(n, P)", "n // P"), 5, "line 3: pull at n = 5 has a grid of 0 x 1; accepted: 1 to 2147483647 x 1 to 65535"),
        (("block: P", "block: [P, n]"), 99, "line 3: pull at n = 99 has blocks of 64 x 99; accepted: 1 to 1024 threads"),
        (("block: P", "block: P\n    shared: 4 * n"), 99999, "has 399996 bytes of shared memory; accepted: 0 to 232448"),
        (("n, eps2", "n * n, eps2"), 99999, "has the argument 9999800001; accepted: numbers of 32 bits"),
        (("ceil_div(n, P)", "n // (P - 64)"), 5, "which cannot be computed for n = 5, P = 64: integer division or modulo by zero"),
        (("ceil_div(n, P)", "*".join(["n"] * 9)), 9999, "the number is too large"),
    ],
)  # fmt: skip
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
    "softening forgotten": ([("+ eps2);", ");")], "are NaN or infinite: without softening"),
    "masses left out": ([("other.w * ", "")], "the masses are left out"),
    "own mass": ([("other.w * ", "self.w * ")], "the mass is that of the body that is pulled"),
    "force": ([("{ax, ay, az, 0}", "{self.w * ax, self.w * ay, self.w * az, 0}")], "it is the force"),
    "sign": ([("{ax, ay, az, 0}", "{-ax, -ay, -az, 0}")], "the sign is wrong"),
    "order": ([("{ax, ay, az, 0}", "{ay, ax, az, 0}")], "ax, ay, az are in the order ay, ax, az"),
    "one coordinate": ([("az += weight * dz", "az += weight * dz * dz")], "only az is wrong"),
    "power": ([(WEIGHT, "other.w * inverse * inverse")], "a pull is the distance times 1 / r^2"),
    "twice": ([("{ax, ay, az, 0}", "{2 * ax, 2 * ay, 2 * az, 0}")], "all accelerations are 2 times as large"),
    "half of the pairs": ([("ax += weight", "if (first + k > i) break;\n ax += weight")], "pulled only by those before it"),
    "rows not written": ([("i < n)", "i < n - 1)")], "rows 128 (1 of 129) were not written"),
    "grid too small": ([("ceil_div(n, P)\n", "n // P\n")], "rows 128 (1 of 129) were not written"),
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
        "are those of half precision",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("replaced", "cause"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_found_and_explained(replaced, cause):
    result = judged(changed(*replaced))
    assert not result.right
    assert cause in result.sizes[0].cause, result.sizes[0]


def test_a_right_entry_is_accepted_at_every_size():
    result = judged(RIGHT, (1, 2, 31, 64, 65, 300))
    assert result.right
    assert [size.n for size in result.sizes] == [1, 2, 31, 64, 65, 300]


def test_bodies_that_are_kept_from_the_launch_before_are_found():
    entry = read(ENTRIES / "cached.cu")
    result = judgement.judge(entry, InProcess(), [100], seed=SEED)
    assert "the bodies are those of the launch before" in result.sizes[0].cause


def test_double_precision_is_held_to_its_own_rounding():
    double = RIGHT.replace("float4", "double4").replace("float ", "double ").replace("rsqrtf", "1 / sqrt")
    right = double.replace("rung: tiled", "precision: float64")
    assert judged(right).right
    rounded = right.replace("double weight =", "float weight =")
    assert "errors" not in judged(rounded).sizes[0].cause
    assert not judged(rounded).right


def test_an_error_that_the_entry_states_is_what_counts():
    rough = changed((WEIGHT, f"1.001f * {WEIGHT}"))
    assert not judged(rough).right
    assert judged(rough.replace("rung: tiled", "error: 0.01")).right


def test_the_bodies_of_each_launch_and_each_judgement_are_new():
    first, second, third = judgement.bodies_of(50, SEED)
    assert len({first.eps, second.eps, third.eps}) == 3
    assert not np.isclose(second.position, third.position).all()
    assert judgement.bodies_of(50, SEED + 1)[0].eps != first.eps
    entry = entry_of(Path("kernel.cu"), RIGHT)
    assert judgement.judge(entry, InProcess(), [1]).seed != judgement.judge(entry, InProcess(), [1]).seed


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


@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in DIRECT if name != "split"],
)
def test_every_direct_variant_is_accepted_as_an_entry(name):
    entry = entry_of(Path(f"{name}.cu"), exported(VARIANTS[name]))
    result = judgement.judge(entry, InProcess(), judgement.usual_sizes(entry), VARIANTS[name], SEED)
    assert result.right, result.sizes


@pytest.mark.parametrize(
    ("name", "why"), [*WITHOUT_ENTRY.items(), ("barnes_hut", "approximates"), ("numpy_direct", "has no CUDA C")]
)
def test_what_cannot_be_an_entry_says_why(name, why):
    with pytest.raises(NoEntryError, match=why):
        exported(VARIANTS[name])
