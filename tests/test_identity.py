"""What identifies a measurement is what ran: which edits change the hash, and which do not."""

import ast
import builtins
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from conftest import ROOT, save
from gravbench.config.load import load
from gravbench.measuring import environment
from gravbench.measuring.plan import plan
from gravbench.model import (
    files,
    generators,
    identity,
    interaction,
    interaction_files,
    python_code,
    stem_code,
)
from gravbench.model.device import Device
from gravbench.model.record import Record
from gravbench.model.runs import RecordFile
from gravbench.model.stem_code import BUILT_IN, code_sha256
from gravbench.model.toolkits import catalogue
from gravbench.model.variant import CPU, NUMBA, discover
from gravbench.report.names import Names
from gravbench.report.terminal.comparison import render_comparison
from gravbench.toolkits.interface import FLAGS
from gravbench.verdicts import compare, ranking
from gravbench.verdicts.best import best

VARIANTS = discover()
GRAVITY = interaction_files.find("gravity")
PROCESSOR = Device(CPU, "a processor")
COMMITTED = sorted((ROOT / "reports").rglob("records.jsonl"))

# CUDA C

CUDA = """#line 1 "body.cuh"
// What it is.
#define SQUARE(x)  ((x) * (x))
/* and
   more */ __device__ float half_of(float x) { return x / 2; }
#line 1 "stem.cu"
#pragma unroll 4
const char* said = "no // comment";  const int many = 1'000;  // don't
float f(float a) { return a - SQUARE(a); }
const char* raw = R"of(" /*)of"; float g(float a) { return a + 3; }  /* " */
"""


def tokens(text):
    return list(identity.cuda_tokens(text))


@pytest.mark.parametrize(
    "edit",
    [
        ("// What it is.", "// Another word, and \"more 'of them"),
        ("/* and\n   more */", ""),
        ("  // don't", " /* do */"),
        ("return a - SQUARE(a);", "return a\n        -  SQUARE( a ) ;"),
        ('#line 1 "stem.cu"', '#line 7 "renamed.cu"'),
        ("#define SQUARE(x)  ((x)", "#define   SQUARE(x) \\\n ((x)"),
    ],
    ids=str,
)
def test_what_the_compiler_does_not_see_of_cuda_c_changes_nothing(edit):
    assert CUDA.count(edit[0]) == 1
    assert tokens(CUDA.replace(*edit)) == tokens(CUDA)


@pytest.mark.parametrize(
    "edit",
    [
        ("a - SQUARE", "a + SQUARE"),
        ("x / 2", "x / 20"),
        ("#pragma unroll 4", "#pragma unroll 8"),
        ("#pragma unroll 4", "// #pragma unroll 4"),
        ("no // comment", "no // comments"),
        ("1'000", "1'001"),
        ("#define SQUARE(x)  ", "#define SQUARE (x)  "),
        ("a + 3", "a + 4"),
        ("float f(", "float __attribute__((noinline)) f("),
    ],
    ids=str,
)
def test_what_the_compiler_sees_of_cuda_c_changes_the_tokens(edit):
    assert CUDA.count(edit[0]) == 1
    assert tokens(CUDA.replace(*edit)) != tokens(CUDA)


def test_text_that_moves_from_the_stem_to_the_end_of_the_header_changes_nothing():
    header, stem = CUDA.split("/* and")[0], "/* and" + CUDA.split("/* and")[1]
    assert tokens(f'{header}\n#line 1 "other.cu"\n{stem}') == tokens(CUDA)


# A toolkit's own language

MOJO = """# What it is.
comptime P = 4

def f(a: Float32) -> Float32:
    # Why.
    if a > 0:
        a += 1
    return a
"""


def hash_of_mojo(tmp_path, text):
    path = tmp_path / "own.py"
    path.write_text("from gravbench.model.variant import variant\n", "utf-8")
    path.with_suffix(".mojo").write_text(text, "utf-8")
    return code_sha256(path, "mojo", GRAVITY)


@pytest.mark.parametrize("edit", [("# What it is.\n", ""), ("    # Why.\n", "\n\n"), ("P = 4\n", "P = 4  \n")], ids=str)
def test_comments_and_empty_lines_of_another_language_change_nothing(tmp_path, edit):
    assert MOJO.count(edit[0]) == 1
    assert hash_of_mojo(tmp_path, MOJO.replace(*edit)) == hash_of_mojo(tmp_path, MOJO)


@pytest.mark.parametrize(
    "edit", [("P = 4", "P = 8"), ("        a += 1", "    a += 1"), ("    if a > 0:", "#")], ids=str
)
def test_code_and_indentation_of_another_language_change_the_hash(tmp_path, edit):
    assert MOJO.count(edit[0]) == 1
    assert hash_of_mojo(tmp_path, MOJO.replace(*edit)) != hash_of_mojo(tmp_path, MOJO)


# Python

STEM = '''"""Summary."""

import math

import numpy as np

from gravbench.model.variant import Prepared, variant
from helpers import launching, other

STEPS = 3
UNUSED = 4


def numba_kernel(cuda, real, *, P):
    """Twin."""
    turn = other.turned(real)

    @cuda.jit(fastmath=True)
    def stem(x):
        for k in range(STEPS):
            x[k] = turn(x[k]) - np.float32(P)  # a comment

    return stem


def jax_kernel(jax, real):
    return lambda x: -x


def tolerated(axes):
    return 2 * axes["p"]


@variant(parent=None, source="somewhere", axes={"p": (1, 2)}, defaults={"p": 1}, loads="n", tolerance=tolerated)
def prepare(gpu, bodies, *, p):
    """Prepare."""
    return launching.launched(gpu, gpu.compile("stem", P=p), math.pi)
'''
LAUNCHING = '''"""How it is launched."""

from gravbench.model.variant import Prepared

from helpers.other import turned


def launched(gpu, kernel, pi):
    """Launch it."""
    return Prepared(lambda: kernel(_grid(pi)), None, None)


def _grid(pi):
    return 2 * pi


def unused():
    return turned(1)
'''
OTHER = '''"""What is left."""


def turned(real):
    import numba

    return lambda value: numba.literally(real(value))
'''


@pytest.fixture
def stem(tmp_path):
    """A stem of one's own, with modules that it imports."""
    (tmp_path / "helpers").mkdir()
    (tmp_path / "helpers" / "launching.py").write_text(LAUNCHING)
    (tmp_path / "helpers" / "other.py").write_text(OTHER)
    (tmp_path / "stem.py").write_text(STEM)
    return tmp_path / "stem.py"


def code(stem, toolkit=NUMBA):
    return python_code.code(stem, toolkit, (("", stem.parent),))


def edited(path, old, new):
    text = path.read_text()
    assert text.count(old) == 1, old
    rewritten(path, text.replace(old, new))


def rewritten(path, text):
    """Write a file as if some time had passed: clocks of file systems are coarse."""
    before = path.stat().st_mtime_ns
    path.write_text(text)
    os.utime(path, ns=(before, before + 1_000_000_000))


HARMLESS = {
    "comment": ("stem.py", "  # a comment", "  # another"),
    "docstring": ("stem.py", '"""Twin."""', '"""The twin, said better."""'),
    "docstring of a shared function": ("helpers/launching.py", '"""Launch it."""', '"""Launch the kernel."""'),
    "layout": ("stem.py", "turn(x[k]) - np.float32(P)", "(\n                turn(x[k])\n   - np.float32(P,)\n  )"),
    "import under another name": ("stem.py", "from helpers import launching, other", "from helpers import other\n"
                                  "import helpers.launching as launching"),
    "declaration's words": ("stem.py", 'source="somewhere"', 'source="elsewhere"'),
    "declared loads": ("stem.py", 'loads="n"', 'loads="n / p"'),
    "declared axes": ("stem.py", '"p": (1, 2)', '"p": (1, 2, 4)'),
    "unused constant": ("stem.py", "UNUSED = 4", "UNUSED = 5"),
    "unused function": ("helpers/launching.py", "return turned(1)", "return turned(2)"),
    "another toolkit's kernel": ("stem.py", "lambda x: -x", "lambda x: x"),
}  # fmt: skip

HARMFUL = {
    "sign": ("stem.py", "turn(x[k]) - np", "turn(x[k]) + np"),
    "constant": ("stem.py", "STEPS = 3", "STEPS = 30"),
    "decorator of the kernel": ("stem.py", "fastmath=True", "fastmath=False"),
    "launch": ("stem.py", "math.pi)", "math.e)"),
    "library": ("stem.py", "import numpy as np", "import jax.numpy as np"),
    "shared launch": ("helpers/launching.py", "return 2 * pi", "return 3 * pi"),
    "shared kernel": ("helpers/other.py", "numba.literally(real(value))", "numba.literally(-real(value))"),
    "library in a function": ("helpers/other.py", "import numba", "import numpy as numba"),
    "tolerance": ("stem.py", "tolerance=tolerated", "tolerance=None"),
    "tolerance elsewhere": ("stem.py", 'return 2 * axes["p"]', 'return 3 * axes["p"]'),
    "what runs on import": ("stem.py", "UNUSED = 4", "np.seterr(all='ignore')"),
}


@pytest.mark.parametrize("edit", HARMLESS.values(), ids=HARMLESS)
def test_an_edit_of_what_does_not_run_leaves_the_hash(stem, edit):
    before = code(stem)
    edited(stem.parent / edit[0], *edit[1:])
    assert code(stem) == before


@pytest.mark.parametrize("edit", HARMFUL.values(), ids=HARMFUL)
def test_an_edit_of_what_runs_changes_the_hash(stem, edit):
    before = code(stem)
    edited(stem.parent / edit[0], *edit[1:])
    assert code(stem) != before


def test_files_and_shared_functions_may_be_renamed_and_moved(stem):
    before = code(stem)
    folder = stem.parent / "helpers"
    text = stem.read_text().replace("from helpers import launching, other", "from helpers import shared, other")
    rewritten(stem, text.replace("launching.launched", "shared.over_rows"))
    whole = LAUNCHING.replace("def launched", "def over_rows").replace("_grid", "blocks")
    (folder / "shared.py").write_text(whole)
    (folder / "launching.py").unlink()
    assert code(stem) == before
    moved = stem.with_name("renamed.py")
    stem.rename(moved)
    assert code(moved) == before


def test_the_name_of_the_harness_is_nothing_to_the_hash(stem):
    before = code(stem)
    for path in (stem, stem.parent / "helpers" / "launching.py"):
        edited(path, "from gravbench.model.variant import", "from harness.variant import")
    assert code(stem) == before


@pytest.mark.parametrize(
    ("line", "use"),
    [("from helpers.parts import *", "factor"), ("from helpers.parts import inner", "inner.factor"),
     ("import helpers.parts.inner", "helpers.parts.inner.factor"), ("import helpers.parts.inner as other", "other")],
)  # fmt: skip
def test_every_way_to_import_is_followed(stem, line, use):
    parts = stem.parent / "helpers" / "parts"
    parts.mkdir()
    (parts / "__init__.py").write_text("from . import inner\nfrom .inner import factor\nfrom .inner import *\n")
    (parts / "inner.py").write_text("from ..launching import _grid\n\nfactor = _grid(2)\n")
    stem.write_text(f"{line}\n\n\ndef numba_kernel(cuda, real):\n    return {use}\n")
    before = code(stem)
    edited(parts / "inner.py", "_grid(2)", "_grid(3)")
    between = code(stem)
    edited(stem.parent / "helpers" / "launching.py", "return 2 * pi", "return 3 * pi")
    assert len({before, between, code(stem)}) == 3
    assert str(stem.parent) not in before


def test_two_definitions_of_one_name_are_told_apart(tmp_path):
    stem = tmp_path / "stem.py"
    for name, factor in (("one", 1), ("two", 2)):
        (tmp_path / f"{name}.py").write_text(f"def made(value):\n    return {factor} * value\n")
    texts = [f"import one\nimport two\n\n\ndef cpu_kernel(numba, real):\n    return {a}.made, 2, {b}.made\n"
             for a, b in (("one", "two"), ("two", "one"))]  # fmt: skip
    found = set()
    stem.touch()
    for text in texts:
        rewritten(stem, text)
        found.add(code(stem, CPU))
    assert len(found) == 2


# What toolkits run


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """The built-in variants in a folder where they can be edited."""
    folder = tmp_path / "variants"
    shutil.copytree(BUILT_IN, folder, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(stem_code, "BUILT_IN", folder)
    monkeypatch.setattr(stem_code, "SHARED", folder / "common")
    return folder


def hashes(folder, name):
    (path,) = folder.rglob(f"{name}.py")
    return {toolkit: stem_code.code_sha256(path, toolkit, GRAVITY) for toolkit in VARIANTS[name].toolkits}


def changed(before, after):
    return {toolkit for toolkit in before if before[toolkit] != after[toolkit]}


CUDA_C = {"cupy", "pycuda"}


@pytest.mark.parametrize(
    ("name", "edit", "toolkits"),
    [
        ("tiled", ("rsqrtf(value);", "-rsqrtf(value);"), CUDA_C),
        ("tiled", ("rsqrtf(value);", "rsqrtf(value);  // a word"), set()),
        ("tiled", ("    tiled(const Body* __restrict__", "    tiled(const Body*"), CUDA_C),
        ("tiled", ("cuda.libdevice.rsqrtf if", "cuda.libdevice.frsqrt_rn if"), {"numba", "mlir"}),
        ("tiled", ("(grid, block or p, own", "(grid, p, own"), {*CUDA_C, "numba", "mlir", "wgpu"}),
        ("tiled", ('"tiled", P=p, UNR', '"tiled", P=2 * p, UNR'), {*CUDA_C, "numba", "mlir", "wgpu"}),
        ("tiled", ("return load(array, k) + (", "return load(array, k) + 1 * ("), {"mlir"}),
        ("tiled", ("cycle = min(round(1 / fraction), bodies.n)", "cycle = 1"), set()),
        ("tiled", ('"split", P=p, Q=q', '"split", P=2 * p, Q=q'), set()),
        ("split_j", ("def pull_several(", "def pull_several(x, "), {"numba"}),
        ("numba_direct", ("kernel(*columns, eps2, *acc", "kernel(*columns, -eps2, *acc"), {"cpu"}),
        ("jax_jit", ("arguments = (*threads, *columns", "arguments = (*columns, *threads"), {"jax"}),
        ("jax_jit", ("cuda.libdevice.rsqrtf if", "cuda.libdevice.frsqrt_rn if"), set()),
    ],
)  # fmt: skip
def test_a_shared_file_counts_where_it_runs(copied, name, edit, toolkits):
    sources = [path for path in copied.rglob("*") if path.suffix in (".py", ".cu", ".cuh", ".wgsl")]
    found = [path for path in sources if edit[0] in path.read_text()]
    (path,) = found
    before = hashes(copied, name)
    edited(path, *edit)
    assert changed(before, hashes(copied, name)) == toolkits


@pytest.mark.slow
def test_every_shared_header_counts_in_every_kernel_that_has_it(copied):
    for header in (copied / "common").glob("*.cuh"):
        users = [
            name for name, one in VARIANTS.items() if one.has_cuda_c and f'"{header.name}"' in one.cuda_source(GRAVITY)
        ]
        before = {name: hashes(copied, name)["cupy"] for name in users}
        rewritten(header, header.read_text() + "__device__ int more;\n")
        assert changed(before, {name: hashes(copied, name)["cupy"] for name in users}) == set(users) != set()


def test_a_sign_flipped_in_the_generator_changes_the_hash_of_all_that_compile_it(monkeypatch):
    path = VARIANTS["tiled"].path
    # Not the remembered ones: what has been edited is the harness itself.
    fresh = stem_code.code_sha256.__wrapped__
    before = {toolkit: fresh(path, toolkit, GRAVITY) for toolkit in VARIANTS["tiled"].toolkits}
    with monkeypatch.context() as patch:
        patch.setitem(interaction.OPERATORS, ast.Sub, "+")
        after = {toolkit: fresh(path, toolkit, GRAVITY) for toolkit in before}
    assert changed(before, after) == set(before)
    with monkeypatch.context() as patch:
        patch.setattr(interaction, "VECTOR_NUMBERS", 8)
        after = {toolkit: fresh(path, toolkit, GRAVITY) for toolkit in before}
    assert changed(before, after) == set(before)


def test_the_generated_python_that_is_hashed_is_all_that_is_run(monkeypatch):
    ran = []

    def noted_compile(source, *rest):
        ran.append(source)
        return builtins.compile(source, *rest)

    def noted_exec(source, namespace):
        ran.extend([source] if isinstance(source, str) else [])
        builtins.exec(source, namespace)

    monkeypatch.setattr(interaction, "compile", noted_compile, raising=False)
    monkeypatch.setattr(interaction, "exec", noted_exec, raising=False)
    found = interaction_files.find("lennard_jones")
    found.python(float, float)
    found.python_add()
    assert found.python_source().split("\n", 1)[1] == "\n".join(ran)


def test_the_flags_stand_in_the_fingerprint_and_tell_results_apart(monkeypatch):
    (case,) = load("quick", ["n=64", "p=256"], variants=["naive"], toolkits=["cupy"]).cases
    before = environment.fingerprint(case, VARIANTS["naive"], None)
    assert before.flags == list(FLAGS)
    monkeypatch.setattr(catalogue()["cupy"].__class__, "flags", property(lambda _: ("-O0",)), raising=False)
    assert environment.fingerprint(case, VARIANTS["naive"], None) != before


# Files by their content


@pytest.fixture
def namesakes(tmp_path):
    """A configuration in each of two folders, with different bodies in a file of the same name."""
    for seed in (1, 2):
        folder = tmp_path / str(seed)
        folder.mkdir()
        save(generators.plummer(16, seed, 0.1), folder / "x.npz")
        (folder / "own.yaml").write_text("bodies: x.npz\nn: 16\nvariants: numpy_direct\n")
    return [tmp_path / "1" / "own.yaml", tmp_path / "2" / "own.yaml"]


def measured(case, seconds):
    """The record of a case."""
    return Record(
        **{**case.model_dump(), "bodies": Path(case.bodies).name}, status="ok", flags=[], code_sha256="a" * 64,
        device="a processor", samples_seconds=[seconds] * 20, median_seconds=seconds, ci_low=seconds, ci_high=seconds,
        error_max=1e-6, flops_per_interaction=20, commit=None, started="2026-01-01T00:00:00+00:00", harness_version="0",
    )  # fmt: skip


def test_two_files_of_one_name_are_two_cases(namesakes):
    one, two = (load(str(config)).cases[0] for config in namesakes)
    assert one.key != two.key
    again = one.model_copy(update={"bodies": "elsewhere/x.npz"})
    assert again.key == one.key


def test_runs_of_two_files_of_one_name_are_not_compared_and_it_is_said(namesakes):
    records = [measured(load(str(config)).cases[0], seconds) for config, seconds in zip(namesakes, (1, 2), strict=True)]
    found = compare.compare_runs(*(compare.Run(name, [record]) for name, record in zip("ab", records, strict=True)))
    assert found.pairs == []
    text = StringIO()
    render_comparison(found, Console(file=text, width=120))
    assert "x.npz is not the same file in BASE and NEW" in text.getvalue()
    same = compare.compare_runs(compare.Run("a", records[:1]), compare.Run("b", records[:1]))
    assert len(same.pairs) == 1


def test_two_files_of_one_name_are_ranked_apart_and_named_apart(namesakes):
    records = [measured(load(str(config)).cases[0], 1.0) for config in namesakes]
    shared = [ranking.conditions(record) for record in records]
    assert shared[0] != shared[1]
    names = Names(records)
    assert names.title(shared[0]) != names.title(shared[1])
    assert len(best([records], {})) == 2
    assert "sha256" not in Names(records[:1]).title(shared[0])


def test_files_of_bodies_are_compared_with_each_other_when_asked(namesakes):
    records = [measured(load(str(config)).cases[0], 1.0) for config in namesakes]
    records[1] = records[1].model_copy(update={"bodies": "y.npz"})
    (found,) = compare.compare_values(compare.Run("a", records), "bodies", {})
    assert len(found.pairs) == 1


SPRING = '''"""A spring."""

REST = 0.7


def interact(sums, i, j, eps2):
    dx = j.x - i.x  # 1
    sums.ax += REST * dx  # 2
'''


def test_two_interactions_of_one_name_are_two_cases(tmp_path):
    keys = []
    for number, text in enumerate((SPRING, SPRING.replace("0.7", "0.8"), SPRING.replace("A spring", "Another text"))):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "spring.py").write_text(text)
        config = tmp_path / str(number) / "own.yaml"
        config.write_text(f"interaction: {tmp_path / str(number) / 'spring.py'}\nn: 8\nvariants: tiled\n")
        keys.append(load(str(config), toolkits=["cupy"]).cases[0].key)
    assert keys[0] != keys[1]
    assert keys[0] == keys[2], "what its docstring says is nothing to the case"


def test_what_gravbench_brings_along_has_no_content_of_its_own():
    for case in load("quick", ["n=64", "interaction=gravity,hermite"], variants=["tiled"]).cases:
        assert case.contents == {}


# Committed records


def test_every_committed_record_has_the_hash_of_what_ran():
    lines = [json.loads(line) for path in COMMITTED for line in path.read_text().splitlines()]
    assert len(lines) > 2500
    assert all(line["code_sha256"] for line in lines)
    files_of = {line["bodies"]: line.get("bodies_file_sha256") for line in lines}
    assert {name for name, content in files_of.items() if content} == {"dubinski.tab.gz"}


KNOWN_STALE = {("reports/h100/fastest-float64", "tiled")}
"""Measured again on an H200 alone. Without them, the records beside them would lack their anchor."""


def test_every_committed_record_is_of_the_sources_of_today():
    stale = {
        (path.parent.relative_to(ROOT).as_posix(), record.variant)
        for path in COMMITTED
        for record in RecordFile(path.parent).read()
        # What was skipped says nothing of a kernel.
        if record.status != "skipped"
        and environment.fingerprint(record, VARIANTS[record.variant], None).code_sha256 != record.code_sha256
    }
    assert stale == KNOWN_STALE


def test_every_committed_run_is_of_one_commit_without_changes_and_of_version_1_1_or_newer():
    assert len(COMMITTED) > 45
    for path in COMMITTED:
        records = RecordFile(path.parent).read()
        (commit,) = {record.commit for record in records}
        assert re.fullmatch(r"[0-9a-f]{40}", commit), path
        (version,) = {record.harness_version for record in records}
        assert tuple(map(int, version.split("."))) >= (1, 1, 0), path


def test_a_stale_record_is_measured_again():
    sweep = load("quick", ["n=64"], variants=["numpy_direct"])
    (task,) = plan(sweep, [PROCESSOR], None, anchors=False).tasks
    good = measured(task.case, 1.0).model_copy(update=task.fingerprint.model_dump())
    stale = good.model_copy(update={"code_sha256": None, "source_sha256": "0" * 64})
    assert stale.fingerprint["code_sha256"] == stale.source_sha256
    assert plan(sweep, [PROCESSOR], None, [good]).reused == 1
    assert plan(sweep, [PROCESSOR], None, [stale]).reused == 0


# Reading once

COUNTED = """
import collections, json, sys
from gravbench.config.load import load
from gravbench.measuring.plan import plan
from gravbench.model.device import Device
opened = collections.Counter()
def note(event, arguments):
    if event == "open" and isinstance(arguments[0], (str, bytes)):
        opened[str(arguments[0])] += 1
sys.addaudithook(note)
tasks = plan(load("ladder"), [Device("0", "a GPU", "GPU-1", "1"), Device("cpu", "a processor")], None).tasks
print(json.dumps([len(tasks), opened]))
"""


def test_planning_reads_each_file_a_few_times_whatever_the_number_of_cases():
    done = subprocess.run([sys.executable, "-c", COUNTED], capture_output=True, text=True, check=True)
    tasks, opened = json.loads(done.stdout)
    assert tasks > 500
    sources = {name: times for name, times in opened.items() if "/variants/" in name and name.endswith((".py", ".cu"))}
    assert len(sources) > 40
    # Python reads a source once to import it, and it is read once to be hashed.
    assert max(sources.values()) <= 2
    assert sum(opened.values()) < 400


def test_what_is_made_of_files_is_made_again_when_one_of_them_has_changed(tmp_path):
    made = []

    @files.remembered
    def joined(folder):
        made.append(folder)
        return "".join(files.text(path) for path in files.listing(folder, "*.txt"))

    (tmp_path / "a.txt").write_text("a")
    assert [joined(tmp_path), joined(tmp_path)] == ["a", "a"]
    assert len(made) == 1
    (tmp_path / "b.txt").write_text("b")
    assert joined(tmp_path) == "ab"
    (tmp_path / "a.txt").write_text("other")
    assert joined(tmp_path) == "otherb"
    (tmp_path / "a.txt").unlink()
    assert joined(tmp_path) == "b"
    assert len(made) == 4


def test_threads_make_one_syntax_tree_at_a_time(monkeypatch):
    """Python 3.11 raises SystemError otherwise, about once in a thousand times."""
    inside, most = [], []

    def slowly(text):
        inside.append(text)
        most.append(len(inside))
        time.sleep(0.01)
        inside.pop()

    monkeypatch.setattr(python_code, "ast", SimpleNamespace(parse=slowly))
    threads = [threading.Thread(target=python_code.tree, args=("x = 1",)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert most == [1] * 4
