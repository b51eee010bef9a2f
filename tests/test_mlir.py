"""numba-cuda-mlir: twins of Numba's kernels, run by numba.cuda, and compiled where the package is installed."""

import os
import sys

import numpy as np
import pytest

from conftest import saying
from direct import direct_accelerations
from gravbench.config.load import load
from gravbench.errors import InputError
from gravbench.explain import assembling
from gravbench.explain import generated as generated_module
from gravbench.explain.generated import generated
from gravbench.explain.machine_code import parse
from gravbench.model import generators
from gravbench.model.interaction import GRAVITY
from gravbench.model.interaction_files import find
from gravbench.model.toolkits import catalogue
from gravbench.model.variant import DIRECT_SUM, discover
from gravbench.toolkits import buffers
from gravbench.toolkits.jobs import Image, Job
from gravbench.toolkits.mlir import image
from gravbench.toolkits.numba import NumbaToolkit
from gravbench.toolkits.parts import Part
from gravbench.variants.common import body, mlir
from gravbench.verifying import comparing

VARIANTS = discover()
TWINS = [name for name, one in VARIANTS.items() if "mlir" in one.toolkits]
WITHOUT = {"kahan", "register_blocked", "split_j", "barnes_hut", "barnes_hut_classic", "chamomile_call"}
"""Kernels that carry a tuple of tuples through a loop, trees, parts of which are written for LLVM, and host calls."""
WITHOUT_TILES = {"naive", "float4", "soa_direct", "approximate_global"}
STORES_IN_VAIN = {"tiled", "chamomile"}
"""Kernels in which it makes stores that nothing reads, once per tile, from the bytecode of Python 3.12."""
SMALL = {"p": 32, "q": 2, "unroll": 8, "j_bag": 64} if os.environ.get("NUMBA_ENABLE_CUDASIM") == "1" else {}


class Twin(NumbaToolkit):
    """numba.cuda for the kernels that are made for numba-cuda-mlir."""

    def maker(self, _):
        return self.variant.module.mlir_kernel


def test_every_kernel_of_numba_has_a_twin_but_those_that_the_compiler_does_not_take():
    assert {name for name, one in VARIANTS.items() if "numba" in one.toolkits} == {*TWINS, *WITHOUT}


@pytest.mark.parametrize("name", TWINS)
def test_a_twin_agrees_with_the_float64_direct_sum(name, need_toolkit):
    need_toolkit("numba")
    variant = VARIANTS[name]
    for dtype, n in ((variant.dtypes[0], 1), (variant.dtypes[0], 33), (variant.dtypes[-1], 65)):
        with saying(f"{dtype}, n = {n}"):
            bodies = generators.plummer(n, 3, 0.05)
            toolkit = Twin(variant, dtype, find(GRAVITY))
            axes = {axis: value for axis, value in SMALL.items() if axis in variant.axes}
            prepared = variant.prepare(toolkit, bodies, **variant.complete(axes))
            sums = 0
            for _ in range(prepared.cycle):
                prepared.launch()
                toolkit.synchronize()
                sums = sums + buffers.sums(toolkit, prepared) / prepared.cycle
            errors = comparing.compare(sums, direct_accelerations(bodies, np.arange(n), dtype))
            assert comparing.objection_to(errors, DIRECT_SUM[dtype]) is None


def test_a_row_is_filled_up_with_zeros(need_toolkit):
    need_toolkit("numba")
    toolkit = Twin(VARIANTS["tiled"], "float32", find(GRAVITY))
    store = mlir.store_row(toolkit.cuda, 4)

    @toolkit.cuda.jit
    def kernel(array):
        store(array, toolkit.cuda.grid(1), (array[0, 3], array[0, 3], array[0, 3]))

    rows = toolkit.upload(np.full((1, 4), 7))
    kernel[1, 1](rows)
    assert toolkit.download(rows).tolist() == [[7, 7, 7, 0]]


@pytest.mark.parametrize("tiles", [False, True])
@pytest.mark.parametrize("fails", [False, True])
def test_a_twin_reads_rows_as_its_compiler_can_and_leaves_numbas_kernels_as_they_were(fails, tiles):
    usual, seen = (body.load_row, body.store_row), []

    def numba_kernel(*_, **constants):
        seen.append((body.load_row, body.store_row, constants))
        if fails:
            raise ValueError

    if fails:
        with pytest.raises(ValueError, match=r"^$"):
            mlir.twin(numba_kernel, tiles=tiles)(None, None, None, P=32)
    else:
        mlir.twin(numba_kernel, tiles=tiles)(None, None, None, P=32)
    assert seen == [(mlir.load_row if tiles else mlir.load_global_row, mlir.store_row, {"P": 32})]
    assert (body.load_row, body.store_row) == usual


def test_a_sweep_takes_it_only_where_it_is_named(tmp_path):
    def toolkits(text, **chosen):
        path = tmp_path / "own.yaml"
        path.write_text(f"description: own\nn: 64\nvariants:\n  - {text}\n", "utf-8")
        return [case.toolkit for case in load(str(path), **chosen).cases]

    assert toolkits("tiled") == ["cupy", "pycuda", "numba"]
    assert toolkits("{variant: tiled, toolkit: [mlir, numba]}") == ["numba", "mlir"]
    assert toolkits("{variant: tiled, toolkit: [cupy, cupy]}") == ["cupy"]
    assert toolkits("tiled", toolkits=["mlir"]) == ["mlir"]
    with pytest.raises(InputError, match=r"toolkit mlir has no kahan; accepted: cupy, pycuda, numba, wgpu$"):
        toolkits("{variant: kahan, toolkit: mlir}")


def test_a_variant_that_has_no_other_toolkit_is_measured_unnamed(tmp_path):
    text = (
        (VARIANTS["tiled"].path).read_text("utf-8").replace("numba_kernel(", "_own(").replace("(numba_kernel", "(_own")
    )
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "only_mlir.py").write_text(text, "utf-8")
    path = tmp_path / "own.yaml"
    path.write_text("description: own\nvariant_folders: [own]\nn: 64\nvariants: only_mlir\n", "utf-8")
    assert {case.toolkit for case in load(str(path)).cases} == {"mlir"}


def test_machine_code_is_that_of_the_toolkit_that_is_asked_for(monkeypatch):
    seen = []
    made = Image(b"", "kernel")
    monkeypatch.setattr(generated_module, "compilers", lambda: {"mlir": lambda *_: seen.append("mlir") or made})
    monkeypatch.setattr(catalogue()["mlir"].__class__, "missing", None)
    monkeypatch.setattr(generated_module, "linked", lambda code, _: code)
    monkeypatch.setattr(generated_module, "listing", lambda _: "listed")
    assert generated_module.machine_code(VARIANTS["tiled"], find(GRAVITY), "sm_90", "mlir") == "listed"
    assert seen == ["mlir"]
    with pytest.raises(InputError, match=r"^tiled has no machine code by numba without a GPU; accepted: variants in"):
        generated_module.machine_code(VARIANTS["tiled"], find(GRAVITY), "sm_90", "numba")
    with pytest.raises(InputError, match=r"^--toolkit mojo: tiled has no kernel for it; accepted: cupy, pycuda, numba"):
        generated_module.machine_code(VARIANTS["tiled"], find(GRAVITY), "sm_90", "mojo")


def innermost(loops):
    """Return the instructions of each loop that contains no other."""
    return [
        slice(loop.first, loop.last + 1)
        for loop in loops
        if not any(other != loop and loop.first <= other.first <= other.last <= loop.last for other in loops)
    ]


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_120"])
@pytest.mark.parametrize("name", TWINS)
def test_a_twin_compiles_without_a_gpu_or_a_spill_and_reads_a_tile_16_bytes_at_a_time(name, architecture):
    if missing := catalogue()["mlir"].missing:
        pytest.skip(missing)
    made, kernel = generated(VARIANTS[name], {}, architecture, "mlir")
    code = parse(assembling.listing(made), kernel)
    opcodes = [one.opcode for one in code.instructions]
    assert any(one.startswith("MUFU.RSQ") for one in opcodes)
    assert [one for one in opcodes if one.startswith("LDL")] == []
    stored = [place for place, one in enumerate(opcodes) if one.startswith("STL")]
    if name in STORES_IN_VAIN and sys.version_info >= (3, 12):
        assert not any(place in range(loop.start, loop.stop) for place in stored for loop in innermost(code.loops()))
    else:
        assert stored == []
    shared = [one for one in opcodes if one.startswith(("LDS", "STS"))]
    assert (name in WITHOUT_TILES) == (not shared)
    # What split adds up is in rows of three numbers.
    assert name == "split" or all(".128" in one for one in shared)
    rows = [one for one in opcodes if one.startswith("LDG")]
    assert all(".128" in one for one in rows) == (name in ("float4", "approximate_global"))


def test_an_interaction_of_one_sum_is_refused():
    job = Job(VARIANTS["tiled"], "tiled", {"P": 32, "UNROLL": 8}, np.float32, find("sph_density"), 32, ())
    with pytest.raises(InputError, match=r"^sph_density has one sum; accepted by numba-cuda-mlir 0\.6: interactions"):
        image(job, "sm_90")


@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_its_integrator_and_float64_compile(real):
    if missing := catalogue()["mlir"].missing:
        pytest.skip(missing)
    rows, column = np.zeros((64, 4), real), np.zeros(64, real)
    moved = (*rows.T[:3], *[column] * 3, *rows.T[:3], np.int32(64), real(0.1), real(1), real(0.1))
    constants = {"BODY_STRIDE": 4, "ACCELERATION_STRIDE": 4}
    job = Job(Part("integrate"), "integrate", constants, real, find(GRAVITY), 128, moved)
    assert image(job, "sm_90").code.startswith(b"\x7fELF")
    constants = {"P": 64, "UNROLL": 8}
    launched = (rows, rows, np.int32(64), real(0.1))
    job = Job(VARIANTS["tiled"], "tiled", constants, real, find(GRAVITY), 64, launched)
    assert image(job, "sm_90").code.startswith(b"\x7fELF")
