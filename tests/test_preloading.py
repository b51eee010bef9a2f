"""The process that workers are forked from imports what they need, leaves no thread, and leaves Numba to others."""

import json
import os
import subprocess
import sys

import pytest

from gravbench.cli.start import measures_on_gpus
from gravbench.model.toolkits import Entry

SCRIPT = """
import json, sys, threading
from gravbench.measuring import forking

for name in forking.PRELOADED[1:]:
    __import__(name)
print(json.dumps({
    "imported": [name for name in ("pynvml", "scipy.special", "numba", "numba.cuda") if name in sys.modules],
    "threads": threading.active_count(),
}))
"""


@pytest.mark.parametrize("kept", [False, True])
def test_it_imports_numba_cuda_only_where_nothing_is_kept_of_what_that_compiles(tmp_path, kept):
    (tmp_path / "gravbench").mkdir()
    if kept:
        (tmp_path / "gravbench" / "kernel.cubin").touch()
    env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["imported"] == ["pynvml", *([] if kept else ["numba", "numba.cuda"])]
    assert found["threads"] == 1


COUNTING = """
import importlib.util
import sys
from types import SimpleNamespace

from gravbench.toolkits.cpu import counting_numba

toolkit = SimpleNamespace(compile_seconds=0.0, is_compiling=False, on_compiling=lambda _: None)
before = list(sys.meta_path)
with counting_numba(toolkit):
    assert "numba" not in sys.modules
assert sys.meta_path == before and "numba" not in sys.modules
with counting_numba(toolkit):
    importlib.util.find_spec("numba")  # somebody looks whether it is there
    import numba

    assert toolkit.compile_seconds == 0, "the import is none of it"
    numba.njit(lambda x: x + 1)(1)
assert numba.__spec__.name == "numba" and toolkit.compile_seconds > 0
assert sys.meta_path == before
counted = toolkit.compile_seconds
numba.njit(lambda x: x + 2)(1)
assert toolkit.compile_seconds == counted, "nobody counts any more"
with counting_numba(toolkit):
    numba.njit(lambda x: x + 3)(1)
assert toolkit.compile_seconds > counted
"""


def test_what_numba_compiles_is_counted_also_where_it_is_imported_later():
    done = subprocess.run([sys.executable, "-c", COUNTING], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("run", True),
        ("run ladder --device cuda:0", True),
        ("run ladder --device cpu", False),
        ("run ladder --device=cpu", False),
        ("run ladder --dry-run", False),
        ("run ladder --dask=file.json", False),
        ("run -h", False),
        ("report", False),
        ("", False),
    ],
)
def test_workers_of_gpus_are_prepared_before_the_command_is_imported(words, expected):
    assert measures_on_gpus(words.split()) is expected


def test_the_start_of_the_command_line_imports_little():
    script = (
        "import sys, gravbench.cli.start; print(*(name for name in ('numpy', 'typer', 'rich') if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


def test_a_library_finds_its_environment_when_it_is_imported(tmp_path, monkeypatch):
    (tmp_path / "asks_for_it.py").write_text("import os\n\nfound = os.environ['ASKED_FOR']\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("ASKED_FOR", "another value")
    fields = {"place": 1, "title": "", "distributions": (), "extras": (), "probe": ""}
    Entry(module="asks_for_it", environment=(("ASKED_FOR", "this"),), **fields).load()
    assert sys.modules.pop("asks_for_it").found == "this"
