"""An evaluation as one CUDA graph: it computes what its kernels compute, for whatever bodies are there by then."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gravbench.model import generators
from gravbench.model.variant import discover
from gravbench.toolkits import buffers
from gravbench.toolkits.interface import CudaToolkit, ToolkitMissingError
from gravbench.toolkits.opening import open_toolkit

EPS = 0.05
WITH = [variant for variant in discover().values() if "graph" in variant.axes]


@pytest.mark.gpu
@pytest.mark.parametrize("n", [1, 129, 20_000])
@pytest.mark.parametrize("variant", WITH, ids=lambda variant: variant.name)
def test_a_graph_computes_the_bodies_that_are_there_when_it_is_launched(variant, n, need_toolkit):
    need_toolkit("cupy")
    toolkit = open_toolkit("cupy", variant, "float32")
    first, then = (generators.plummer(n, seed, EPS) for seed in (3, 4))
    found = []
    for graph in (0, 1):
        prepared = variant.prepare(toolkit, first, **variant.complete({"graph": graph}))
        prepared.launch()
        buffers.write_bodies(toolkit, prepared, buffers.host_bodies(toolkit, prepared, then))
        for _ in range(3):
            prepared.launch()
        toolkit.synchronize()
        found.append(buffers.sums(toolkit, prepared))
    size = np.linalg.norm(found[0], axis=1).mean()
    assert_allclose(found[1], found[0], atol=1e-4 * size)


def test_a_toolkit_without_graphs_says_so():
    with pytest.raises(ToolkitMissingError, match=r"^pycuda has no CUDA graphs; accepted: cupy$"):
        CudaToolkit.captured(SimpleNamespace(name="pycuda"), lambda: None)
