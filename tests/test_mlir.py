"""numba-cuda-mlir: twins of Numba's kernels, run by numba.cuda, and compiled where the package is installed."""

import os

import numpy as np
import pytest

from conftest import saying
from direct import direct_accelerations
from gravbench.config.load import load
from gravbench.errors import InputError
from gravbench.explain import assembling
from gravbench.explain.generated import generated
from gravbench.explain.machine_code import parse
from gravbench.measuring import comparing
from gravbench.model import generators
from gravbench.model.interaction import GRAVITY
from gravbench.model.interaction_files import find
from gravbench.model.toolkits import catalogue
from gravbench.model.variant import DIRECT_SUM, discover
from gravbench.toolkits import buffers
from gravbench.toolkits.numba import NumbaToolkit
from gravbench.variants.common import body, mlir

VARIANTS = discover()
TWINS = [name for name, one in VARIANTS.items() if "mlir" in one.toolkits]
WITHOUT = {"kahan", "register_blocked", "split_j", "barnes_hut", "barnes_hut_classic"}
"""Kernels that carry a tuple of tuples through a loop, and trees that are written for LLVM in part."""
WITHOUT_TILES = {"naive", "float4", "soa_direct", "approximate_global"}
SMALL = {"p": 32, "q": 2, "unroll": 8, "j_bag": 64} if os.environ.get("NUMBA_ENABLE_CUDASIM") == "1" else {}


class Twin(NumbaToolkit):
    """numba.cuda for the kernels that are made for numba-cuda-mlir."""

    def maker(self, _):
        return self.variant.module.mlir_kernel


def test_every_kernel_of_numba_has_a_twin_but_those_that_the_compiler_does_not_take():
    assert {name for name, one in VARIANTS.items() if "numba" in one.toolkits} == {*TWINS, *WITHOUT}


@pytest.mark.parametrize("name", TWINS)
def test_a_twin_agrees_with_the_float64_direct_sum(name):
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


@pytest.mark.parametrize("fails", [False, True])
def test_a_twin_reads_rows_as_its_compiler_can_and_leaves_numbas_kernels_as_they_were(fails):
    usual, seen = (body.load_row, body.store_row), []

    def numba_kernel(*_, **constants):
        seen.append((body.load_row, body.store_row, constants))
        if fails:
            raise ValueError

    if fails:
        with pytest.raises(ValueError, match=r"^$"):
            mlir.twin(numba_kernel)(None, None, None, P=32)
    else:
        mlir.twin(numba_kernel)(None, None, None, P=32)
    assert seen == [(mlir.load_row, mlir.store_row, {"P": 32})]
    assert (body.load_row, body.store_row) == usual


def test_a_sweep_takes_it_only_where_it_is_named(tmp_path):
    def toolkits(text, **chosen):
        path = tmp_path / "own.yaml"
        path.write_text(f"description: own\nn: 64\nvariants:\n  - {text}\n", "utf-8")
        return sorted({case.toolkit for case in load(str(path), **chosen).cases})

    assert toolkits("tiled") == ["cupy", "numba", "pycuda"]
    assert toolkits("{variant: tiled, toolkit: [mlir, numba]}") == ["mlir", "numba"]
    assert toolkits("tiled", toolkits=["mlir"]) == ["mlir"]
    with pytest.raises(InputError, match=r"toolkit mlir has no kahan; accepted: cupy, pycuda, numba$"):
        toolkits("{variant: kahan, toolkit: mlir}")


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_120"])
@pytest.mark.parametrize("name", TWINS)
def test_a_twin_compiles_without_a_gpu_or_a_spill_and_reads_a_tile_16_bytes_at_a_time(name, architecture):
    if missing := catalogue()["mlir"].missing:
        pytest.skip(missing)
    made, kernel = generated(VARIANTS[name], {}, architecture, "mlir")
    opcodes = [one.opcode for one in parse(assembling.listing(made), kernel).instructions]
    assert any(one.startswith("MUFU.RSQ") for one in opcodes)
    assert [one for one in opcodes if one.startswith(("LDL", "STL"))] == []
    shared = [one for one in opcodes if one.startswith("LDS")]
    assert (name in WITHOUT_TILES) == (not shared)
    assert sum(".128" in one for one in shared) >= len(shared) / 2
