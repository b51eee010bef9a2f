"""Programs that lie beside a clone, whose folder Python takes for the package: they import what is installed."""

import shutil
import subprocess
import sys

import pytest

from conftest import ROOT

pytestmark = pytest.mark.slow

PROGRAM = """
import sys, tempfile
from pathlib import Path

import numpy as np

from gravbench import force, load, run
import gravbench.variants.cpu.numba_parallel
from gravbench.packaged import folder

if __name__ == "__main__":
    print(Path(gravbench.__file__).resolve().parent)
    print(folder("gravbench"), folder("gravbench.configs"), folder("gravbench.variants"))
    print(force(np.eye(3), np.ones(3), eps2=1.0, toolkit="cpu").shape)
    sweep = load("quick", ["n=64"], variants=["numpy_direct"])
    with tempfile.TemporaryDirectory() as out:
        print([(record.status, record.reason) for record in run(sweep, out + "/run", devices=["cpu"])])
    import gravbench.cli.main

    places = {}
    for name, module in sorted(sys.modules.items()):
        if getattr(module, "__file__", None) and "gravbench" in name:
            places.setdefault(Path(module.__file__).resolve(), []).append(name)
    print([names for names in places.values() if len(names) > 1])
    print([name for name in sys.modules if name.partition(".")[0] in ("harness", "variants", "configs")])
"""
NOT_INSTALLED = """
import sys
sys.meta_path = [one for one in sys.meta_path if not getattr(one, "__module__", "").startswith("__editable__")]
"""


@pytest.fixture
def beside(tmp_path):
    """A folder with a clone named gravbench."""
    (tmp_path / "gravbench").symlink_to(ROOT, target_is_directory=True)
    return tmp_path


def printed(folder, *arguments, **options):
    """Run Python in a folder and return the lines that it prints."""
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, timeout=120, check=False, **options
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("begin", ["", NOT_INSTALLED], ids=["installed", "not installed"])
def test_a_program_beside_a_clone_computes_and_measures(beside, begin):
    (beside / "program.py").write_text(begin + PROGRAM)
    package, folders, shape, records, twice, other_names = printed(beside, "program.py")
    assert package == str(ROOT / "harness")
    assert folders.split() == [str(ROOT / name) for name in ("harness", "configs", "variants")]
    assert shape == "(3, 3)"
    assert set(eval(records)) == {("ok", None)}
    # Each module is there once, and by its name.
    assert (twice, other_names) == ("[]", "[]")


def test_the_command_and_an_interactive_session_work_beside_a_clone(beside):
    assert printed(beside, "-m", "gravbench", "--version")[0].startswith("gravbench ")
    assert printed(beside, "-c", "import gravbench; print(gravbench.force.__module__)") == ["gravbench.accelerations"]


def test_entries_of_the_path_that_are_no_text_are_passed_over(beside):
    text = "import sys; sys.path += [b'bytes', None]; import gravbench; print(gravbench.__file__)"
    assert printed(beside, "-c", text) == [str(ROOT / "harness" / "__init__.py")]


def test_what_is_installed_is_not_hidden_by_a_clone(beside):
    installed = beside / "site" / "gravbench"
    shutil.copytree(ROOT / "harness", installed)
    for name in ("variants", "configs"):
        shutil.copytree(ROOT / name, installed / name)
    (beside / "program.py").write_text(f"import sys\nsys.path.append({str(installed.parent)!r})\n{PROGRAM}")
    package, folders, _, records, *repeated = printed(beside, "program.py")
    assert package == str(installed)
    assert folders.split() == [str(installed), str(installed / "configs"), str(installed / "variants")]
    assert set(eval(records)) == {("ok", None)}
    assert repeated == ["[]", "[]"]


def test_a_clone_of_another_name_is_no_package_of_its_own(tmp_path):
    (tmp_path / "clone").symlink_to(ROOT, target_is_directory=True)
    text = "import sys, clone, gravbench; print(gravbench.__file__); print(clone.__file__)"
    package, clone = printed(tmp_path, "-c", text)
    assert package == str(ROOT / "harness" / "__init__.py")
    assert clone == str(tmp_path / "clone" / "__init__.py")
