"""Imports run downward only (DESIGN.md, "Rooms"): read off the sources, held here."""

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from conftest import ROOT

# From the bottom up. Rooms of one storey may use each other, but not in a circle.
STOREYS = (
    ("harness.errors", "harness.version"),
    ("harness.interaction",),
    ("harness.variant", "harness.record", "harness.bodies", "harness.bodies_readers"),
    ("harness.toolkits", "harness.config", "harness.reference", "harness.devices", "harness.runs", "harness.compare"),
    ("harness.parts", "harness.buffers", "harness.best", "harness.fastest", "harness.selftest"),
    ("harness.measure", "harness.environment", "harness.judge"),
    ("harness.stepping", "harness.calling", "harness.timed", "harness.force"),
    ("harness.plan", "harness.worker", "harness.once"),
    ("harness.counters", "harness.export"),
    ("harness.runner",),
    ("harness.doctor", "harness.progress", "harness.report"),
    ("harness.asv_results", "harness.history", "harness.bench"),
    ("harness.cli",),
    ("harness.__main__",),
)
# What was published is read from files, as records are.
REPORT_MAY_READ = {
    "harness.record", "harness.variant", "harness.devices", "harness.interaction", "harness.errors",
    "harness.config.published", "harness.compare", "harness.best", "harness.selftest",
}  # fmt: skip
LIBRARIES = ("cupy", "pycuda", "numba.cuda", "numba_cuda", "torch", "triton", "jax", "warp")


def sources(package):
    """Every module of a package by its dotted name; a package by the name of its folder."""
    found = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


HARNESS = sources("harness")
VARIANTS = sources("variants")
OWN = HARNESS | VARIANTS


def imports(path):
    """Every module a file imports, at its top or within a function; ``from package import module`` means the module."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import"
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            modules = whole & OWN.keys()
            found |= modules
            if modules != whole:
                found.add(node.module)
    return found


def of_package(names, package):
    return {name for name in names if name == package or name.startswith(f"{package}.")}


def storey(module):
    parts = module.split(".")
    for depth in range(len(parts), 1, -1):
        for height, rooms in enumerate(STOREYS):
            if ".".join(parts[:depth]) in rooms:
                return height
    pytest.fail(f"{module} has no place in the house: give it one in STOREYS")


GRAPH = {module: of_package(imports(path), "harness") for module, path in HARNESS.items()}
ROOMS = sorted(module for module in HARNESS if module != "harness")


def test_the_reading_of_imports_sees_all_kinds(tmp_path):
    path = tmp_path / "example.py"
    path.write_text(
        "import harness.devices as devices\nfrom harness import environment, runner\n"
        "from harness.record import Case\n\n\ndef later():\n    from harness.toolkits import driver, nothing\n"
    )
    assert imports(path) == {
        "harness.devices", "harness.environment", "harness.runner", "harness.record",
        "harness.toolkits.driver", "harness.toolkits",
    }  # fmt: skip


def test_there_is_something_to_look_at():
    assert {"harness.cli", "harness.toolkits.interface", "harness.config.load", "harness.report.terminal"} <= set(ROOMS)
    assert sum(map(len, GRAPH.values())) > 50
    assert {room for rooms in STOREYS for room in rooms} <= HARNESS.keys(), "STOREYS names a room that is gone"


@pytest.mark.parametrize("module", ROOMS)
def test_a_module_imports_nothing_above_it(module):
    above = {name for name in GRAPH[module] if storey(name) > storey(module)}
    assert not above, f"{module} is below {above}"


def test_no_imports_run_in_a_circle():
    # Raises CycleError, which names the circle.
    assert set(TopologicalSorter(GRAPH).static_order()) >= set(ROOMS)


@pytest.mark.parametrize("module", sorted(of_package(HARNESS, "harness.report") - {"harness.report"}))
def test_a_report_is_made_from_records_alone(module):
    others = GRAPH[module] - of_package(GRAPH[module], "harness.report")
    assert others <= REPORT_MAY_READ


@pytest.mark.parametrize("module", sorted(set(VARIANTS) - {"variants"}))
def test_a_variant_imports_of_the_harness_only_what_a_variant_is(module):
    found = imports(VARIANTS[module])
    # The file of an interaction is read, not run; what it imports tells Python what inverse_sqrt is.
    allowed = "harness.interaction" if module.startswith("variants.interactions.") else "harness.variant"
    assert of_package(found, "harness") <= {allowed}
    family = ".".join(module.split(".")[:2])
    # A family without a header of its own has that of all_pairs, and its twin for Numba.
    assert of_package(found, "variants") <= of_package(VARIANTS, family) | {"variants", "variants.all_pairs.body"}


@pytest.mark.parametrize("module", ROOMS)
def test_the_harness_imports_no_variant(module):
    assert not of_package(imports(HARNESS[module]), "variants")


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_toolkits_library_is_imported_by_its_own_file_alone(library):
    users = {module for module, path in HARNESS.items() if of_package(imports(path), library)}
    assert users <= {f"harness.toolkits.{library.partition('.')[0].partition('_')[0]}"}


def test_init_files_are_empty():
    files = [path for package in ("harness", "variants", "configs") for path in (ROOT / package).rglob("__init__.py")]
    assert len(files) >= 6
    assert [str(path) for path in files if path.read_bytes()] == []


def test_every_folder_of_sources_is_a_package():
    folders = {path.parent for path in [*HARNESS.values(), *VARIANTS.values()]}
    assert [str(folder) for folder in folders if not (folder / "__init__.py").exists()] == []


def test_every_package_is_in_the_distribution():
    import tomllib

    listed = tomllib.loads(Path(ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]["packages"]
    folders = {path.parent.relative_to(ROOT) for path in OWN.values()}
    assert {".".join(folder.parts) for folder in folders} <= set(listed)


def test_importing_the_whole_harness_imports_no_toolkits_library(tmp_path):
    script = (
        "import importlib, sys\n"
        f"for name in {ROOMS!r}:\n"
        "    importlib.import_module(name)\n"
        f"found = [name for name in {LIBRARIES!r} if name in sys.modules]\n"
        "sys.exit(f'imported {found}' if found else 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
