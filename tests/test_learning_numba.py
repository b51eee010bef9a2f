"""The course in Numba CUDA: exercises are failed and passed, mistakes recognized, and no kernel leaves the sandbox."""

import json
import re
from pathlib import Path

import pytest

from conftest import ROOT, command, flat
from gravbench.emulation.simulated import lacking
from gravbench.errors import InputError
from gravbench.explain.assembling import missing
from gravbench.judging import cost, emulating
from gravbench.judging.emulating import EmulatedLauncher
from gravbench.judging.entry import PYTHON, entry_of
from gravbench.judging.judgement import judge, usual_sizes
from gravbench.learning import shown
from gravbench.learning.checking import check, rung_of
from gravbench.learning.classroom import as_json, read_class
from gravbench.learning.exercises import FIGURE, IN_NUMBA, NAMES, exercise
from gravbench.learning.similarity import similar
from gravbench.learning.thresholds import thresholds
from gravbench.sandbox.confined import Limits, measures

SUBMISSIONS = sorted((ROOT / "tests" / "learn").glob("*/*.numba"))
QUICK = ("tiles/early_return", "tiles/first_barrier_missing", "threads/no_guard", "q_threads/all_write")
"""Mistakes that end at the first number of bodies, or that are checked in any case."""

simulated = pytest.mark.skipif(not measures(), reason="this system confines no program")
compiled = pytest.mark.skipif(bool(missing() or lacking()), reason=f"{missing()}, {lacking()}")


def checked(name, text):
    return check(exercise(name), Path(f"{name}.py"), text, thresholds().of(name), EmulatedLauncher())


@simulated
@compiled
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name == "tiles" else pytest.mark.corpus) for name in IN_NUMBA]
)
def test_a_skeleton_is_not_good_enough_and_our_solution_is(name):
    of_skeleton, of_solution = (
        checked(name, text) for text in (exercise(name).skeleton(PYTHON), exercise(name).solution(PYTHON))
    )
    assert of_skeleton.verdict != "good", of_skeleton.sentence
    assert of_solution.verdict == "good", of_solution.sentence
    assert exercise(name).time_of_rung in of_solution.sentence


@simulated
@compiled
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=[] if f"{path.parent.name}/{path.stem}" in QUICK else pytest.mark.corpus)
        for path in SUBMISSIONS
    ],
    ids=lambda path: f"{path.parent.name}-{path.stem}",
)
def test_a_mistake_gets_its_diagnosis(path):
    text = path.read_text("utf-8")
    expected = re.search(r"^# expected: (.*)$", text, re.MULTILINE)[1]
    found = checked(path.parent.name, text)
    said = f"{shown.BEGINNINGS[found.verdict]} {found.sentence}"
    assert found.verdict != "good"
    assert expected in said, said


@simulated
def test_an_index_beyond_an_array_that_is_written_names_it():
    text = exercise("threads").solution(PYTHON)
    assert text.count("ay[i] = ") == 1
    sentence = checked("threads", text.replace("ay[i] = ", "ay[i + n] = ")).sentence
    assert re.search(r"thread 0 of block 0 writes ay\[1\] in line \d+; ay has 1 row: no thread may", sentence), sentence


@simulated
@pytest.mark.parametrize(
    ("made", "name"),
    [
        ("tile = cuda.shared.array((P, 4), np.float32, 16)", "tile"),
        ("(tile,) = (cuda.shared.array((P, 4), np.float32, 16),)", "shared array"),
    ],
)
def test_a_race_in_shared_memory_names_the_array_as_the_file_does(made, name):
    text = exercise("tiles").solution(PYTHON).replace("tile = cuda.shared.array((P, 4), np.float32, 16)", made)
    assert made in text
    before, barrier, after = text.partition("cuda.syncthreads()")
    assert barrier
    sentence = checked("tiles", f"{before}pass{after}").sentence
    assert re.search(rf"(reads|writes) {name}\[\d+, \d\] in line \d+, which thread", sentence), sentence


@simulated
@compiled
@pytest.mark.slow
def test_a_square_root_in_numba_that_cannot_be_counted_names_what_replaces_it():
    solution = exercise("threads").solution(PYTHON)
    text = re.sub(r"rsqrtf\((.*)\)$", r"1 / math.sqrt(\1)", solution, flags=re.MULTILINE)
    text = text.replace("import numpy", "import math\n\nimport numpy")
    graded_text = checked("threads", text)
    assert graded_text.not_counted == cost.NO_LOOP
    assert "; use rsqrtf of numba.cuda.libdevice in the place of 1 / math.sqrt" in graded_text.sentence


def test_the_first_seven_have_texts_hints_and_three_mistakes():
    assert NAMES[:7] == IN_NUMBA
    for name in IN_NUMBA:
        of_name = exercise(name)
        assert sum(path.parent.name == name for path in SUBMISSIONS) >= 3
        assert of_name.in_numba.startswith("## In Numba CUDA\n")
        assert not FIGURE.search(of_name.in_numba), "a figure was not filled in"
        assert len(of_name.hints(PYTHON)) == len(of_name.hints())
        for text in (of_name.skeleton(PYTHON), of_name.solution(PYTHON)):
            head = entry_of(Path(f"{name}.py"), text).head
            assert [kernel.name for kernel in head.kernels] == [name]
    for name in NAMES[7:]:
        assert exercise(name).in_numba == ""
        with pytest.raises(InputError, match=f"{name} is not done in such a file; accepted: {name}.cu"):
            exercise(name).skeleton(PYTHON)


@simulated
@compiled
@pytest.mark.slow
@pytest.mark.parametrize("name", IN_NUMBA)
def test_the_cost_of_our_solution_is_that_of_its_page_and_near_the_rung(name):
    slots = rung_of(name, PYTHON).cost.slots
    assert slots == pytest.approx(exercise(name).about.slots_numba, abs=0.01)
    assert slots <= 1.2 * rung_of(name).cost.slots


def test_sizes_show_the_end_of_a_tile_and_of_a_block():
    for name in IN_NUMBA:
        entry = entry_of(Path(f"{name}.py"), exercise(name).solution(PYTHON))
        sizes, threads = usual_sizes(entry), entry.threads(257)
        assert {1, 33, threads} <= set(sizes)
        assert any(n > threads and n % threads for n in sizes)


LIMITS = Limits(seconds=6, memory_bytes=4 << 30, processes=1, file_bytes=1 << 20, threads=300)
ZEROS = (
    "accelerations[cuda.grid(1), 0] = accelerations[cuda.grid(1), 1] = accelerations[cuda.grid(1), 2] = np.float32(0)"
)
LASTING = ("never ends", "starts threads without end")
"""Hostile kernels that run until their limits."""
HOSTILE = {
    "reads a file": ("open('/etc/passwd').read()", "FileNotFoundError"),
    "reads the judge": ("import gravbench.judging.judgement", "ModuleNotFoundError"),
    "writes a file": ("open('/tmp/x', 'w')", "Error"),
    "opens a socket": ("import socket; socket.socket()", "PermissionError"),
    "forks": ("import os\n    while True:\n        os.fork()", "PermissionError"),
    "starts a program": ("import os; os.execv('/bin/true', ['true'])", "denied"),
    "starts threads without end": (
        "import threading, time\n    while True:\n        threading.Thread(target=time.sleep, args=(9,)).start()",
        "RuntimeError",
    ),
    "never ends": ("while True:\n        pass", "did not end within"),
    "prints without end": ("while True:\n        print('x' * 4096)", "without a result|OSError"),
    "takes all memory": ("bytearray(1 << 33)", "MemoryError"),
    "ends with 0": ("import os; os._exit(0)", "ended without a result"),
    "exits": ("raise SystemExit(0)", "SystemExit"),
    "says nothing and ends": ("import sys, os; sys.__stdout__.write('{}\\n'); os._exit(0)", "without a result"),
    "says that all is well": (
        "import os; os.write(1, b'{}\\n' + bytes(33 * 16 * 4)); os._exit(0)",
        "changes the bodies",
    ),
    "says something that is no fact": (
        'import os; os.write(1, b\'{"fault": {"kind": [], "sentence": {}, "line": true}}\\n\'); os._exit(0)',
        "{}",
    ),
    "replaces numpy": (f"np.square = np.allclose = np.isfinite = lambda *_: True\n    {ZEROS}", "wrong"),
    "replaces what runs it": (
        f"import sys\n    sys.modules['__main__'].run_block = lambda *_: None\n    {ZEROS}",
        "wrong",
    ),
    "moves the bodies away": (f"bodies[0, 3] = np.float32(0)\n    {ZEROS}", "changes the bodies"),
}


def hostile(statements):
    return f'''"""gravbench entry
kernels:
  - {{name: pull, grid: 'ceil_div(n, 33)', block: 33, arguments: [bodies, accelerations, n, eps2]}}
arrays: {{bodies: bodies, accelerations: accelerations}}
"""
import numpy as np
from numba import cuda


@cuda.jit(fastmath=True)
def pull(bodies, accelerations, n, eps2):
    {statements}
'''


@simulated
@pytest.mark.skipif(len(measures()) < 3, reason=f"this system confines by {measures()} alone")
@pytest.mark.parametrize(
    ("statements", "said"),
    [pytest.param(*HOSTILE[name], marks=pytest.mark.slow if name in LASTING else (), id=name) for name in HOSTILE],
)
def test_a_hostile_kernel_neither_harms_nor_passes(monkeypatch, statements, said):
    monkeypatch.setattr(emulating, "SIMULATING", LIMITS)
    entry = entry_of(Path("tiles.py"), hostile(statements))
    (size,) = judge(entry, EmulatedLauncher(), [33]).sizes
    assert not size.right
    sentence = size.fault.sentence if size.fault else f"wrong: {size.cause}"
    assert re.search(said, sentence), sentence


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("open('/etc/passwd')", r"line 15: open\('/etc/passwd'\); accepted: outside of functions"),
        ("import os", "line 15: import os; accepted: imports of math, numba"),
        ("from numpy import load as load_row", "accepted: imports of"),
        ("x = np.load('a')", "accepted: outside of functions"),
        ("x = (1).__class__", "accepted: outside of functions"),
        ("np.float32 = 3", "accepted: outside of functions"),
        ("x = 9 ** 9 ** 9 ** 9", "accepted: outside of functions"),
        ("def f(x=open('a')): pass", "accepted: functions with @cuda.jit and plain names"),
        ("@cuda.jit\ndef f(x: open('a')): pass", "accepted: functions with @cuda.jit and plain names"),
        ("@open('a')\ndef f(x): pass", r"@open\('a'\); accepted: @cuda.jit"),
        ("@cuda.jit(link=[open('a')])\ndef f(x): pass", "accepted: @cuda.jit, with constants"),
        ("class A: pass", "accepted: outside of functions"),
        ("x = = 1", "tiles.py, line 15: no Python: invalid syntax"),
    ],
)
def test_nothing_but_declarations_stands_outside_of_kernels(statement, said):
    with pytest.raises(InputError, match=said):
        entry_of(Path("tiles.py"), hostile("pass") + "\n\n" + statement + "\n")


def test_python_is_not_judged_and_the_sentence_says_what_takes_it(tmp_path):
    file = tmp_path / "tiles.py"
    file.write_text(exercise("tiles").solution(PYTHON), "utf-8")
    code, said = command("judge", file, "--emulate")
    assert code == 2
    assert said.endswith(f"Python is neither judged nor ranked; accepted: gravbench learn check {file}")


@pytest.mark.slow
@simulated
def test_without_a_compiler_a_right_kernel_is_right_and_not_counted(tmp_path, monkeypatch):
    def machine_code(*_):
        raise InputError("compiling kernels needs numba-cuda; install it")

    monkeypatch.setattr(cost, "machine_code", machine_code)
    (tmp_path / "wide_load.py").write_text(exercise("wide_load").skeleton(PYTHON), "utf-8")
    code, said = command("learn", "check", tmp_path / "wide_load.py", "--progress", tmp_path / "progress.json")
    assert code == 1
    assert "Right, but its cost could not be counted here." in flat(said)
    assert "pip install 'gravbench[numba-cuda]'" in flat(said)
    assert (
        "Next: gravbench learn start threads --toolkit numba"
        in command("learn", "--progress", tmp_path / "progress.json")[1]
    )


def test_a_student_begins_in_numba_and_gets_hints_and_the_solution_in_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    chosen = ["--toolkit", "numba"]
    code, said = command("learn", "start", "tiles", *chosen)
    assert code == 0
    assert "Next: edit tiles.py, then: gravbench learn check tiles.py" in said
    assert Path("tiles.py").read_text("utf-8") == exercise("tiles").skeleton(PYTHON)
    assert "In Numba CUDA" in command("learn", "show", "tiles", *chosen)[1]
    assert "In Numba CUDA" not in command("learn", "show", "tiles")[1]
    said = flat(command("learn", "hint", "tiles", *chosen, "--progress", "p.json")[1])
    assert "cuda.shared.array" in said
    assert "one more hint: gravbench learn hint tiles --toolkit numba" in said
    refused = command("learn", "show", "tiles", "--solution", *chosen, "--progress", "p.json")
    assert refused[1].endswith("our solution is shown behind gravbench learn check tiles.py")
    assert command("learn", "start", "tree_walk", *chosen) == (
        2, "tree_walk.py: tree_walk is not done in such a file; accepted: tree_walk.cu"
    )  # fmt: skip


@simulated
@compiled
def test_a_class_may_have_both_languages(tmp_path):
    race = (ROOT / "tests" / "learn" / "tiles" / "first_barrier_missing.numba").read_text("utf-8")
    for student in ("ann", "bob"):
        (tmp_path / student).mkdir()
        (tmp_path / student / "tiles.py").write_text(race, "utf-8")
        (tmp_path / student / "tiles.cu").write_text("no entry", "utf-8")
    result = json.loads(json.dumps(as_json(read_class(tmp_path, thresholds(), EmulatedLauncher(), lambda _: None))))
    assert [(row["student"], row["ending"], row["verdict"]) for row in result["submissions"]] == [
        ("ann", ".cu", "unreadable"), ("ann", ".py", "wrong"), ("bob", ".cu", "unreadable"), ("bob", ".py", "wrong")
    ]  # fmt: skip
    assert [(pair["first"], pair["second"]) for pair in result["similar"]] == [("ann/tiles.py", "bob/tiles.py")]


def test_python_with_other_names_and_comments_is_nearly_the_same():
    solution, skeleton = exercise("q_threads").solution(PYTHON), exercise("q_threads").skeleton(PYTHON)
    renamed = re.sub(r"\bpart\b", "mine", solution).replace("# Q threads share", "# something else:")
    assert renamed != solution
    assert similar({"ann": solution, "bob": renamed}, [skeleton])[0].similarity == 1.0
    assert similar({"ann": solution, "eve": exercise("r_bodies").solution(PYTHON)}, [skeleton]) == []
