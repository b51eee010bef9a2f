"""The loads from global memory that a variant declares are those that its kernel does, counted.

Where a variant has a kernel for Numba, the simulator counts the numbers that threads read; the others are run on the
host with a pointer that counts. What a thread reads of its own body does not grow with n, so the difference between two
n is compared.
"""

import os

import numpy as np
import pytest

from emulator import COMPILER, Emulator
from gravbench.model import generators
from gravbench.model.bodies import Bodies
from gravbench.model.variant import discover
from gravbench.toolkits.opening import open_toolkit
from gravbench.variants.blocked import tensor_share

VARIANTS = {name: variant for name, variant in discover().items() if variant.loads}
TWINS = [name for name, variant in VARIANTS.items() if "numba" in variant.toolkits]
OTHERS = [name for name in VARIANTS if name not in TWINS]
SMALL = {
    "p": 32,
    "q": 2,
    "r": 1,
    "unroll": 8,
    "batch": 2,
    "j_bag": 64,
    "parts": 1,
    "copies": 1,
    "terms": 1,
    "reorder": 0,
}
SIZES = (64, 128)
"""Whole blocks, tiles, bags and windows."""


def small(variant, **other):
    return variant.complete({axis: value for axis, value in {**SMALL, **other}.items() if axis in variant.axes})


OTHER = {"p": 64, "r": 2, "dim": 2, "fraction": 0.25}


def choices(variant):
    """Return small axes, and the same with another value of each axis that loads may depend on."""
    return [small(variant), *(small(variant, **{axis: OTHER[axis]}) for axis in OTHER if axis in variant.axes)]


def declared(variant, axes, sizes):
    few, many = (eval(variant.loads, {}, {"n": n, **axes}) for n in sizes)
    return many - few


@pytest.fixture
def numbers_read(monkeypatch):
    """Count the numbers that kernels in the simulator read, by the array that holds them."""
    if os.environ.get("NUMBA_ENABLE_CUDASIM") != "1":
        pytest.skip("there is a GPU")
    from numba.cuda.simulator import kernel

    from simulator import OwnArray as Array

    counts = {}
    read = Array.__getitem__

    def counted(self, index):
        address = self._item._ary.ctypes.data
        counts[address] = counts.get(address, 0) + 1
        return read(self, index)

    monkeypatch.setattr(Array, "__getitem__", counted)
    monkeypatch.setattr(kernel, "FakeWithinKernelCUDAArray", Array)
    return counts


@pytest.mark.slow
@pytest.mark.parametrize("name", TWINS)
def test_a_kernel_loads_what_its_variant_declares(numbers_read, name):
    variant = VARIANTS[name]
    for axes in choices(variant):
        found = []
        for n in SIZES:
            prepared = variant.prepare(open_toolkit("numba", variant, "float32"), generators.plummer(n, 3, 0.1), **axes)
            numbers_read.clear()
            prepared.launch()
            arrays = prepared.bodies if isinstance(prepared.bodies, tuple) else (prepared.bodies,)
            # A row of x, y, z and mass is one load.
            a_load = 4 if arrays[0].ndim == 2 else 1
            found.append(sum(numbers_read.get(array._ary.ctypes.data, 0) for array in arrays) / a_load / n)
        assert found[1] - found[0] == declared(variant, axes, SIZES), axes


def far_apart(n):
    """Clusters of 64 bodies, each far from all others: what tensor cores take."""
    generator = np.random.default_rng(3)
    position = generator.normal(size=(n, 3)) + 1000 * np.repeat(generator.normal(size=(n // 64, 3)), 64, axis=0)
    return Bodies(np.ones(n), position, np.zeros((n, 3)), 0.1)


@pytest.mark.slow
@pytest.mark.skipif(COMPILER is None, reason="no g++ on PATH")
@pytest.mark.parametrize("name", OTHERS)
def test_cuda_c_without_a_twin_loads_what_its_variant_declares(libraries, name, monkeypatch):
    variant = VARIANTS[name]
    # tensor_gpus has no such axes of its own.
    monkeypatch.setattr(tensor_share, "DEFAULTS", tensor_share.DEFAULTS | SMALL | {"r": 2})
    axes, sizes = small(variant, r=2), (128, 256)
    found = []
    for n in sizes:
        emulator = Emulator(variant, "float32", libraries, tensor_cores=name.startswith("tensor"), counting=True)
        variant.prepare(emulator, far_apart(n), **axes).launch()
        found.append(emulator.loads / n)
    assert found[1] - found[0] == declared(variant, axes, sizes)
