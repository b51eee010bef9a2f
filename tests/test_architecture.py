"""Imports run downward only, as docs/explanation/architecture.md draws the layers: read off the sources, held here."""

import ast
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from functools import cache
from graphlib import TopologicalSorter

import pytest

from conftest import ROOT
from gravbench.model.variant import discover

FOLDERS = {"gravbench": "harness", "gravbench.variants": "variants", "gravbench.configs": "configs"}
DOCUMENT = ROOT / "docs" / "explanation" / "architecture.md"
PLAN = re.search(r"```layers\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL)[1]
LAYERS = [[f"gravbench.{name.strip()}" for name in line.split(",")] for line in reversed(PLAN.strip().splitlines())]
CORE = ("model", "config", "toolkits", "measuring", "verifying", "verdicts", "report")
SATELLITES = (
    *("learning", "judging", "explain", "search", "movie", "live", "sharing", "site", "asv"),
    *("accelerations", "emulation", "sandbox"),
)
LIBRARIES = (
    "cupy",
    "pycuda",
    "numba.cuda",
    "numba_cuda",
    "torch",
    "triton",
    "cuda.tile",
    "cutlass",
    "mojo",
    "jax",
    "jzfmm",
    "warp",
    "wgpu",
)


def sources():
    """Every module by its dotted name; a package by the name of its folder."""
    found = {}
    for package, folder in FOLDERS.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            found[".".join([package, *(parts[:-1] if parts[-1] == "__init__" else parts)])] = path
    return found


SOURCES = sources()


@cache
def imports(path):
    """Every module a file imports, at its top or within a function; ``from package import module`` means the module."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import"
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            modules = whole & SOURCES.keys()
            found |= modules
            if modules != whole:
                found.add(node.module)
    return found


def below(names, package):
    return {name for name in names if name == package or name.startswith(f"{package}.")}


def package_of(module):
    """A package of gravbench, or a module that stands beside the packages."""
    return ".".join(module.split(".")[:2])


@cache
def graph():
    """The modules of gravbench that each module imports."""
    return {module: below(imports(path), "gravbench") for module, path in SOURCES.items()}


@cache
def arrows():
    """The pairs of packages of which the first imports the second."""
    pairs = {(package_of(module), package_of(other)) for module, found in graph().items() for other in found}
    return {(one, other) for one, other in pairs if one != other}


HEIGHT = {name: (layer, -place) for layer, names in enumerate(LAYERS) for place, name in enumerate(names)}
# The public names reach what they stand for; the data of configs is read, not imported.
OUTSIDE = {"gravbench", "gravbench.configs"}


def test_the_reading_of_imports_sees_all_kinds(tmp_path):
    path = tmp_path / "example.py"
    path.write_text(
        "import gravbench.model.case as cases\nfrom gravbench.measuring import plan, runner\n"
        "from gravbench.model.record import Record\n\n\n"
        "def later():\n    from gravbench.toolkits import driver, nothing\n"
    )
    assert imports(path) == {
        "gravbench.model.case", "gravbench.measuring.plan", "gravbench.measuring.runner", "gravbench.model.record",
        "gravbench.toolkits.driver", "gravbench.toolkits",
    }  # fmt: skip


def test_every_package_has_a_place_on_one_layer():
    packages = {package_of(module) for module in SOURCES} - OUTSIDE
    assert packages == HEIGHT.keys()
    assert len(HEIGHT) == sum(map(len, LAYERS))


def test_imports_run_downward_or_to_the_right():
    wrong = [
        f"{one} imports {other}"
        for one, other in sorted(arrows())
        if one not in OUTSIDE
        if HEIGHT[other] >= HEIGHT[one]
    ]
    assert wrong == []


@pytest.mark.parametrize("package", CORE)
def test_the_core_imports_no_satellite(package):
    imported = {other for one, other in arrows() if one == f"gravbench.{package}"}
    assert len(arrows()) >= 30, "the reading of imports has lost most of them"
    assert not imported & {f"gravbench.{satellite}" for satellite in SATELLITES}


@pytest.mark.parametrize("package", [name for name in CORE if name != "toolkits"])
def test_the_core_asks_no_driver_but_a_device(package):
    """Of CUDA know its toolkits and its family alone; see "A device is an interface" in the document."""
    asked = {f"gravbench.toolkits.{name}" for name in ("cuda", "cuda_sums", "driver", "nvrtc", "several")}
    assert asked <= SOURCES.keys()
    modules = sorted(below(SOURCES, f"gravbench.{package}"))
    assert [name for name in modules if graph()[name] & asked] == []
    words = re.compile(r"pynvml|CUDA_VISIBLE_DEVICES|CudaToolkit|GpuToolkit|DriverToolkit")
    assert [name for name in modules if words.search(SOURCES[name].read_text("utf-8"))] == []


def test_no_imports_run_in_a_circle():
    # Raises CycleError, which names the circle.
    assert set(TopologicalSorter(graph()).static_order()) >= SOURCES.keys()


@pytest.mark.parametrize("package", ["gravbench.report", "gravbench.verdicts"])
def test_reports_and_verdicts_need_records_alone(package):
    packages = {package_of(other) for module in below(SOURCES, package) for other in graph()[module]}
    readable = {"gravbench.model", "gravbench.config", "gravbench.verdicts", "gravbench.errors", "gravbench.packaged"}
    assert packages <= {package, *readable}


@pytest.mark.parametrize("module", sorted(below(SOURCES, "gravbench.variants") - {"gravbench.variants"}))
def test_a_variant_imports_of_the_harness_only_what_a_variant_is(module):
    family = ".".join(module.split(".")[:3])
    # The file of an interaction is read, not run; what it imports tells Python what inverse_sqrt is.
    noun = "gravbench.model.interaction" if family == "gravbench.variants.interactions" else "gravbench.model.variant"
    allowed = {noun, *below(SOURCES, family), *below(SOURCES, "gravbench.variants.common")}
    assert graph()[module] <= allowed


def test_nothing_imports_a_variant_by_name():
    outside = SOURCES.keys() - below(SOURCES, "gravbench.variants")
    assert [module for module in outside if below(graph()[module], "gravbench.variants")] == []


# What words that are also names of variants mean otherwise: a pipe, a kind of instruction, and a method of texts.
OTHER_MEANINGS = {
    "tensor": (r'^TENSOR = "tensor"$', "tensor cores"),
    "shuffle": (r'"shuffle"', "32 shuffle", r"void shuffle\("),
    "split": (r"\.split\(",),
}


@pytest.mark.parametrize("name", discover())
def test_what_explains_a_kernel_names_no_variant(name):
    others = "|".join(OTHER_MEANINGS.get(name, ()))
    for path in sorted((ROOT / "harness" / "explain").glob("*.*")):
        text = path.read_text("utf-8")
        rest = re.sub(others, "", text, flags=re.MULTILINE) if others else text
        lines = [line.strip() for line in rest.splitlines() if re.search(rf"\b{name}\b", line)]
        assert not lines, f"{path.name} names the variant {name}: {lines[0]}"


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_toolkits_library_is_imported_by_its_own_file_alone(library):
    harness = SOURCES.keys() - below(SOURCES, "gravbench.variants")
    users = {module for module in harness if below(imports(SOURCES[module]), library)}
    own = {"cuda.tile": "cutile", "cutlass": "cute"}.get(library, library.partition(".")[0].partition("_")[0])
    # The judge has a kernel of its own, and a confined process compiles and runs those of the course.
    others = ("toolkits.cuda_sums", "toolkits.numba_ahead", "emulation.numba_kernels")
    allowed = {f"gravbench.{name}" for name in others} if library == "numba.cuda" else set()
    assert users - allowed <= {f"gravbench.toolkits.{own}"}


def test_two_modules_import_dask_and_only_the_command_that_needs_it_imports_these():
    users = {module for module in SOURCES if below(imports(SOURCES[module]), "distributed")}
    assert users == {"gravbench.measuring.dask_sessions", "gravbench.measuring.dask_worker"}
    assert {module for module in SOURCES if users & graph()[module]} - users == {"gravbench.cli.measuring"}


def test_init_files_are_empty_but_for_the_public_names():
    files = [path for folder in FOLDERS.values() for path in (ROOT / folder).rglob("__init__.py")]
    assert len(files) >= 20
    assert [str(path.relative_to(ROOT)) for path in files if path.read_bytes()] == ["harness/__init__.py"]


def test_every_folder_of_sources_is_a_package_of_the_distribution():
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]["packages"]
    packages = {name if path.name == "__init__.py" else name.rpartition(".")[0] for name, path in SOURCES.items()}
    assert packages == set(listed)
    assert packages <= SOURCES.keys(), "a folder without __init__.py"


def test_the_distribution_has_one_top_level_name():
    names = importlib.metadata.distribution("gravbench").read_text("top_level.txt")
    assert names.split() == ["gravbench"]


def test_importing_the_whole_harness_imports_no_toolkits_library(tmp_path):
    # Two are for those who have installed Dask.
    others = {"gravbench.__main__", "gravbench.measuring.dask_sessions", "gravbench.measuring.dask_worker"}
    names = sorted(SOURCES.keys() - below(SOURCES, "gravbench.variants") - others)
    script = (
        "import importlib, sys\n"
        f"for name in {names!r}:\n"
        "    importlib.import_module(name)\n"
        f"found = [name for name in {LIBRARIES!r} if name in sys.modules]\n"
        "sys.exit(f'imported {found}' if found else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
