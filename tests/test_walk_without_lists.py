"""The fast multipole method on a GPU where its lists have no room: bodies walk the tree instead."""

import numpy as np
import pytest

from direct import direct_accelerations
from gravbench.model import generators
from gravbench.model.variant import discover
from gravbench.toolkits import buffers
from gravbench.toolkits.opening import open_toolkit
from test_fast_multipole import leave_no_room

VARIANT = discover()["fast_multipole"]
N = 65_536


def percentile(toolkit, bodies, axes):
    """Return the 99th percentile of the relative errors of a sample, and the interactions per body."""
    prepared = VARIANT.prepare(toolkit, bodies, **VARIANT.complete(axes))
    prepared.accelerations[:] = np.nan
    prepared.launch()
    toolkit.synchronize()
    rows = np.random.default_rng(1).choice(N, 1024, replace=False)
    exact = direct_accelerations(bodies, rows, "float32")
    found = buffers.sums(toolkit, prepared)[rows]
    errors = np.linalg.norm(found - exact, axis=1) / np.linalg.norm(exact, axis=1)
    return np.quantile(errors, 0.99), prepared.insight()["computed"]


@pytest.mark.gpu
@pytest.mark.parametrize("graph", [0, 1])
@pytest.mark.parametrize("order", [4, 6])
def test_bodies_walk_the_tree_as_accurately_as_lists(order, graph, need_toolkit, monkeypatch):
    need_toolkit("cupy")
    toolkit = open_toolkit("cupy", VARIANT, "float32")
    bodies = generators.plummer(N, 3, 0.025)
    axes = {"order": order, "graph": graph}
    usual, by_lists = percentile(toolkit, bodies, axes)
    leave_no_room(monkeypatch)
    found, computed = percentile(toolkit, bodies, axes)
    assert by_lists["cell_cell"] > 0 == computed["cell_cell"]
    assert computed["body_cell"] > 0
    assert computed["body_body"] < 0.2 * N
    assert 0 < found < 1.2 * usual
