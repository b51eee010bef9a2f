"""Whatever is wrong with a variant's file is one sentence with the file, and the line where there is one."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from gravbench.errors import InputError, Stopped
from gravbench.model import importing
from gravbench.model.variant import discover

GOOD = '''"""Compute nothing."""

from gravbench.model.variant import variant


@variant(parent=None, source="a test")
def prepare(cpu, bodies):
    """Prepare nothing."""
'''


@pytest.fixture
def folder(tmp_path):
    """Make a folder of variants with the good one ``fine``."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "fine.py").write_text(GOOD)
    return folder


def refusal(folder):
    with pytest.raises(InputError) as caught:
        discover((folder,))
    return str(caught.value)


def declared(arguments):
    return GOOD.replace('parent=None, source="a test"', arguments)


WRONG = {
    "not Python": (GOOD + "def (:\n", ", line 9: invalid Python: "),
    "a null byte": (GOOD + "\0", ": "),
    "an import that fails": (GOOD + "1 / 0\n", ", line 9: cannot be imported: ZeroDivisionError: division by zero"),
    "a missing module": ("import nosuch\n" + GOOD, ", line 1: cannot be imported: No module named 'nosuch'"),
    "an end of the program": ("import sys\nsys.exit(0)\n" + GOOD, ", line 2: exits when it is imported"),
    "any other exception": (GOOD + "raise BaseException('x')\n", ", line 9: cannot be imported: BaseException: x"),
    "recursion": (GOOD + "def f():\n    f()\n\n\nf()\n", "cannot be imported: RecursionError: "),
    "a message of many lines": (GOOD + "raise ValueError('a\\n\\x1b' * 9999)\n", r"ValueError: a\n\x1b"),
    "a keyword there is not": (
        declared('parent=None, source="a test", axis={}'),
        ", line 6: a variant has no axis; did you mean axes? accepted: parent, source, axes, ",
    ),
    "no source": (declared("parent=None"), ", line 6: a variant needs source; accepted: source=..."),
    "an axis value None": (
        declared('parent=None, source="", axes={"p": (1, None)}, defaults={"p": 1}'),
        ", line 6: axis p has the value None; accepted: finite numbers, texts, True and False",
    ),
    "an axis that is a text": (
        declared('parent=None, source="", axes={"p": "ab"}, defaults={"p": "a"}'),
        ", line 6: axis p is 'ab'; accepted: a tuple",
    ),
    "an axis without a default": (
        declared('parent=None, source="", axes={"p": (1, 2)}'),
        ", line 6: axis p needs a default; accepted: one of 1, 2",
    ),
    "a default without an axis": (
        declared('parent=None, source="", axes={"p": (1,)}, defaults={"p": 1, "pp": 1}'),
        ", line 6: a default for pp, which is not an axis; did you mean p? accepted: p",
    ),
    "an axis that is also a former one": (
        declared('parent=None, source="", axes={"p": (1,)}, defaults={"p": 1}, former={"p": 2}'),
        ", line 6: p is an axis and a former one; accepted: one of them",
    ),
    "an axis that moved without having been one": (
        declared('parent=None, source="", former={"p": 2}, moved={"pp": "tiled"}'),
        ", line 6: pp has moved, but is no former axis; did you mean p? accepted: p",
    ),
    "a number type there is not": (
        declared('parent=None, source="", dtypes=("float16",)'),
        ", line 6: dtypes has 'float16'; accepted: float32, float64",
    ),
    "no docstring": (GOOD.partition("\n")[2], ", line 5: the file of a variant begins with a docstring"),
    "no variant": ('"""Say @variant( only."""\n', ": declares 0 variants; accepted: one"),
    "two variants": (GOOD + GOOD.replace("prepare", "prepare_again"), ": declares 2 variants; accepted: one"),
    "its own parent": (declared('parent="wrong", source=""'), ": parent wrong is itself derived from wrong"),
    "no such parent": (declared('parent="tilde", source=""'), ": parent tilde is not a variant; did you mean tiled?"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "words"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_file_is_one_sentence_with_the_file_and_the_line(folder, text, words):
    path = folder / "wrong.py"
    path.write_text(text)
    for _ in range(2):  # nothing of the first attempt is left behind
        said = refusal(folder)
        assert said.startswith(str(path)), said
        assert words in said
        assert said.isprintable()


@pytest.mark.parametrize("stop", [KeyboardInterrupt, Stopped])
def test_a_stop_during_an_import_ends_the_program_and_is_no_mistake_of_the_file(folder, monkeypatch, stop):
    (folder / "mine.py").write_text(GOOD)

    def ended(_):
        raise stop(signal.SIGHUP)

    monkeypatch.setattr(importing, "_at_most", ended)
    with pytest.raises(stop):
        discover((folder,))
    monkeypatch.undo()
    assert "mine" in discover((folder,))


def test_a_file_whose_import_failed_is_imported_again_when_it_is_mended(folder):
    path = folder / "wrong.py"
    path.write_text(GOOD + "1 / 0\n")
    assert "ZeroDivisionError" in refusal(folder)
    path.write_text(GOOD)
    assert {"fine", "wrong"} <= discover((folder,)).keys()


def test_a_module_beside_a_variant_that_is_not_python_is_named_itself(folder):
    (folder / "beside_the_wrong.py").write_text("def (:\n")
    (folder / "wrong.py").write_text("import beside_the_wrong\n" + GOOD)
    assert refusal(folder).startswith(f"{folder / 'beside_the_wrong.py'}, line 1: invalid Python: ")


@pytest.mark.parametrize("endless", ["while True: pass", "import time; time.sleep(99)"])
def test_an_import_that_does_not_end_is_given_up_and_other_alarms_still_ring(folder, endless, monkeypatch):
    monkeypatch.setattr(importing, "SECONDS", 0.2)
    (folder / "wrong.py").write_text(f"{endless}\n{GOOD}")
    rung = []
    handler = signal.signal(signal.SIGALRM, lambda *_: rung.append(True))
    left, interval = signal.setitimer(signal.ITIMER_REAL, 500)
    try:
        said = refusal(folder)
        assert said == (
            f"{folder / 'wrong.py'}, line 1: its import took more than 0.2 s; accepted: a module that only contains "
            "definitions"
        )
        assert 0 < signal.setitimer(signal.ITIMER_REAL, 0)[0] < 500
        signal.raise_signal(signal.SIGALRM)
        assert rung == [True]
    finally:
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, left, interval)


def test_variants_are_found_from_any_thread(folder):
    found = []
    thread = threading.Thread(target=lambda: found.append(discover((folder,))))
    thread.start()
    thread.join()
    assert "fine" in found[0]


def test_a_file_that_is_not_utf8_is_named_with_the_byte(folder):
    (folder / "wrong.py").write_bytes(GOOD.encode() + b"# \xff\n")
    assert refusal(folder) == f"{folder / 'wrong.py'}: byte {len(GOOD) + 2} is not UTF-8; accepted: Python in UTF-8"


def test_a_directory_a_pipe_and_a_dangling_link_are_one_sentence_each(folder):
    path = folder / "wrong.py"
    path.mkdir()
    assert refusal(folder) == f"{path}: a directory; accepted: a file"
    path.rmdir()
    os.mkfifo(path)
    assert refusal(folder) == f"{path}: cannot be read: not a regular file"
    path.unlink()
    path.symlink_to("nowhere")
    assert refusal(folder) == f"{path}: cannot be read: a link to nothing"


def test_the_lock_file_and_the_hidden_folders_of_an_editor_are_passed_over(folder):
    (folder / ".#fine.py").symlink_to("somebody@somewhere.1234")
    (folder / ".venv").mkdir()
    (folder / ".venv" / "broken.py").write_text("@variant(")
    assert "fine" in discover((folder,))


def test_a_folder_with_too_much_in_it_is_refused_before_all_of_it_is_read(folder, monkeypatch):
    monkeypatch.setattr(importing, "MOST_FILES", 300)
    for number in range(301):
        (folder / f"{number}.txt").touch()
    assert refusal(folder).startswith(f"{folder}: more than 300 files and folders below it; accepted: ")


def test_bytecode_of_another_text_is_not_run(tmp_path):
    """As ``cp -p``, archives and tools with a fixed date leave them: the same time and size, another text."""
    path = tmp_path / "stem.py"
    for text in ("FACTOR = 1\n", "FACTOR = 2\n"):
        path.write_text(text)
        os.utime(path, (1e9, 1e9))
        code = f"""
import sys
from pathlib import Path
from gravbench.model import importing
sys.dont_write_bytecode = False
print(importing.module(Path({str(path)!r}), "stem").FACTOR)
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert f"FACTOR = {done.stdout}" == text, done.stderr


def test_no_variant_of_ones_own_has_the_name_of_the_package(folder):
    (folder / "gravbench.py").write_text(GOOD)
    assert refusal(folder).endswith(
        "mine/gravbench.py: Python would import it for the package gravbench; accepted: another name"
    )


IMPORTING = GOOD.replace("import variant\n", "import variant\n{statement}\n")


@pytest.fixture
def folder_of(tmp_path):
    """Return a function that writes a folder with a stem of its name, which imports, and other files."""

    def write(name, statement, texts):
        folder = tmp_path / name
        for file, text in {f"{name}.py": IMPORTING.format(statement=statement), **texts}.items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text(text)
        return folder

    return write


SHARED = {
    "a module": ("from shared_by_stems import FACTOR", "shared_by_stems.py"),
    "a package": ("from shared_by_stems import FACTOR", "shared_by_stems/__init__.py"),
    "a module of a package": ("from shared_by_stems.inner import FACTOR", "shared_by_stems/inner.py"),
    "a stem": ("from shared_by_stems import FACTOR", "shared_by_stems.py"),
}


@pytest.mark.parametrize("kind", SHARED)
def test_a_stem_has_the_module_beside_it_or_a_sentence(folder_of, kind):
    statement, file = SHARED[kind]
    text = f"{GOOD}\n\nFACTOR = {{}}\n" if kind == "a stem" else "FACTOR = {}\n"
    first, second = (folder_of(f"own_{number}", statement, {file: text.format(number)}) for number in (1, 2))
    assert vars(discover((first,))["own_1"].module)["FACTOR"] == 1
    for folders in ((second,), (first, second)):  # also when Python has imported the other one before
        with pytest.raises(InputError) as caught:
            discover(folders)
        said = f"{second / 'own_2.py'}, line 4: Python imports shared_by_stems from {first / file}, not from "
        assert str(caught.value) == f"{said}{second / file}; accepted: a name that no other module has"
        assert str(second) not in sys.path


def test_what_a_module_beside_a_stem_imports_counts_too(folder_of):
    texts = {"own_parts.py": "from statistics import FACTOR\n", "statistics.py": "FACTOR = 1\n"}
    with pytest.raises(InputError, match=r"own_parts.py, line 1: Python imports statistics from .*, not from"):
        discover((folder_of("own_3", "import own_parts", texts),))


def test_a_module_beside_a_stem_may_not_have_the_name_of_one_that_python_has_built_in(folder_of):
    with pytest.raises(InputError, match="line 4: Python imports time from Python itself, not from"):
        discover((folder_of("own_4", "from time import FACTOR", {"time.py": "FACTOR = 1\n"}),))


def test_a_folder_named_as_a_library_is_in_nobodys_way(folder_of, monkeypatch):
    """Neither as a package spread over folders, as that of NVIDIA's libraries is, nor as a whole one."""
    libraries = folder_of("libraries", "", {"spread/part.py": "", "whole/__init__.py": "", "whole/other.py": ""})
    monkeypatch.syspath_prepend(libraries)
    texts = {
        "spread/kernel.cu": "",
        "whole/kernel.cu": "",
        "tests/test_it.py": "import statistics",
        "statistics.py": "",
    }
    assert "own_5" in discover((folder_of("own_5", "import spread.part\nimport whole.other", texts),))
    for statement, file in (("from whole import helper", "whole/helper.py"), ("import spread.part", "spread/part.py")):
        name = f"own_{file[:5]}"
        with pytest.raises(InputError, match=f"not from .*{file}"):
            discover((folder_of(name, statement, {file: ""}),))


def test_a_folder_that_was_refused_is_forgotten(folder_of):
    refused = folder_of(
        "own_6", "from own_factors import FACTOR", {"own_factors.py": "FACTOR = 6\n", "wrong.py": "@variant("}
    )
    with pytest.raises(InputError, match=r"wrong\.py"):
        discover((refused,))
    other = folder_of("own_7", "from own_factors import FACTOR", {"own_factors.py": "FACTOR = 7\n"})
    assert vars(discover((other,))["own_7"].module)["FACTOR"] == 7
