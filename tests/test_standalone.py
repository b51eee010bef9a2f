"""The one file of a variant that plain nvcc compiles has its headers and its constants in it."""

import shutil
import subprocess
from itertools import pairwise

import pytest

from conftest import command
from gravbench.explain.standalone import built_of, standalone
from gravbench.model.interaction import GRAVITY
from gravbench.model.interaction_files import find
from gravbench.model.variant import discover
from gravbench.toolkits import nvrtc as library
from gravbench.toolkits.interface import FLAGS

GRAVITATION = find(GRAVITY)
VARIANTS = {name: variant for name, variant in discover().items() if variant.has_cuda_c}
UNUSED = "--diag-suppress=177"  # constants of another kernel of the same text
NVCC = shutil.which("nvcc")


@pytest.mark.skipif(not library.is_usable(), reason="no NVRTC")
@pytest.mark.parametrize("name", VARIANTS)
def test_each_kernel_of_the_file_is_what_the_variant_compiles(name):
    from nvrtc import QUICK, compile_cuda

    variant = VARIANTS[name]
    text, kernels = standalone(variant, GRAVITATION), built_of(variant, GRAVITATION)
    options = [*FLAGS, *QUICK, UNUSED]
    for number, kernel in enumerate(kernels):
        _, alone, _ = compile_cuda(text, "compute_90", [*options, *[f"-DSELECT={number}"][:number]])
        constants = [f"-D{constant}={value}" for constant, value in kernel.constants.items()]
        _, joined, _ = compile_cuda(variant.cuda_source(GRAVITATION), "compute_90", [*options, *constants])
        assert f".entry {kernel.name}(" in alone
        assert alone == joined


@pytest.mark.slow
@pytest.mark.skipif(NVCC is None, reason="no nvcc on PATH")
@pytest.mark.parametrize("name", ["tiled", "tensor_gpus"])
def test_plain_nvcc_compiles_each_command_that_the_file_names(tmp_path, name):
    path = tmp_path / f"{name}.cu"
    assert command("source", name, "--standalone", "--out", path)[0] == 0
    commands = [line for line in path.read_text("utf-8").splitlines() if line.startswith("//     nvcc")]
    assert len(commands) == len(built_of(VARIANTS[name], GRAVITATION))
    for number, line in enumerate(commands[:2]):
        words = line.removeprefix("//").partition("#")[0].split()
        subprocess.run([*words, "-o", f"{number}.o"], cwd=tmp_path, check=True, capture_output=True)
        assert (tmp_path / f"{number}.o").stat().st_size > 0


def test_the_file_includes_nothing_and_names_the_part_that_each_line_is_from():
    lines = standalone(VARIANTS["tensor_gpus"], GRAVITATION).splitlines()
    assert not [line for line in lines if line.startswith(("#line", "#include"))]
    assert {"// ---- body.cuh ----", "// ---- tree_box.cuh ----", "// ---- tensor.cu, continued ----"} <= set(lines)
    named = [line for line in standalone(VARIANTS["fast_multipole"], GRAVITATION).splitlines() if "// ----" in line]
    assert not [line for line, other in pairwise(named) if line.split()[2] == other.split()[2]], "one is named again"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["numpy_direct", "--standalone"], "numpy_direct has no CUDA C; accepted: a variant with a .cu file"),
        (["tiled", "--out", "x.cu"], "--out only works with --standalone"),
        (["tiled", "--standalone", "--python"], "--python and --standalone cannot be combined; accepted: one of them"),
        (["tiled", "--standalone", "--out", "missing/x.cu"], "missing/x.cu: cannot be written: No such file"),
    ],
)
def test_what_makes_no_such_file_is_refused_in_a_sentence(tmp_path, monkeypatch, words, sentence):
    monkeypatch.chdir(tmp_path)
    code, output = command("source", *words)
    assert code == 2
    assert sentence in output
