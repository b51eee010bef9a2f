"""The tree as Bodin 2026 describes it: its criterion, the order that insertion makes, 85 nodes on top in the plane."""

import os

import numpy as np
import pytest

import emulator
from direct import direct_accelerations
from gravbench.model import generators
from gravbench.model.bodies import Bodies, flattened
from gravbench.model.variant import discover
from gravbench.toolkits.opening import open_toolkit
from gravbench.variants.barnes_hut import inserted, tree, walks
from gravbench.verifying import comparing as reference

VARIANT = discover()["barnes_hut_classic"]
SMALL = {"p": 32} if os.environ.get("NUMBA_ENABLE_CUDASIM") == "1" else {}


def written(bodies, *, order="inserted", layout="compact", theta=1.0, top_levels=0, dim=2, bits=21, leaf_size=1):
    rows = np.column_stack([bodies.position, bodies.mass]).astype(np.float32)
    grown = tree.Tree(bodies.n, np.float32, dim=dim, bits=bits, leaf_size=leaf_size, workers=1)
    grown.build(rows)
    own = inserted.Nodes(grown, np.float32, layout=layout, theta=theta, top_levels=top_levels, order=order)
    own.write()
    return grown, own


class Cell:
    """A cell of a quadtree that is made by inserting bodies one by one."""

    def __init__(self, low, width, made):
        self.low, self.width, self.made = low, width, made
        self.bodies, self.parts = [], {}


def insert_all(points, low, width):
    """Insert points as a textbook does, and return every cell, each with the body that made it."""
    root = Cell(low, width, 0)
    cells = [root]

    def descend(cell, point, number):
        half = cell.width / 2
        quadrant = tuple((points[point] >= cell.low + half).astype(int))
        if quadrant not in cell.parts:
            part = Cell(cell.low + half * np.array(quadrant), half, number)
            cell.parts[quadrant] = part
            cells.append(part)
        add(cell.parts[quadrant], point, number)

    def add(cell, point, number):
        cell.bodies.append(point)
        if len(cell.bodies) == 2:
            descend(cell, cell.bodies[0], number)
        if len(cell.bodies) > 1:
            descend(cell, point, number)

    for number in range(len(points)):
        add(root, number, number)
    return cells


def test_nodes_lie_in_the_order_in_which_insertion_makes_them():
    bodies = flattened(generators.plummer(200, 5, 0.05))
    grown, own = written(bodies)
    made = {}
    for cell in insert_all(bodies.position[:, :2], np.float32(grown.low[:2]), grown.width):
        # Of a chain of cells with the same bodies the tree has one, which stands where the widest would.
        made.setdefault(frozenset(cell.bodies), cell.made)
    found = np.full(own.count, -1)
    for node in range(own.count):
        first, count = grown.links[node, 1:3]
        found[own.place[node]] = made[frozenset(grown.order[first : first + count].tolist())]
    assert own.count > 250
    assert sorted(own.place[: own.count]) == list(range(own.count))
    assert (np.diff(found) >= 0).all()


def test_depth_first_is_the_order_of_the_tree_and_the_top_comes_level_by_level():
    position = np.append(np.random.default_rng(3).uniform(size=(3000, 2)), np.zeros((3000, 1)), axis=1)
    bodies = Bodies(np.ones(3000), position, np.zeros((3000, 3)), 0.05)
    _, own = written(bodies, order="depth_first")
    assert own.place[: own.count].tolist() == list(range(own.count))
    for order in inserted.ORDERS:
        grown, own = written(bodies, order=order, top_levels=4)
        assert own.top == 85 == inserted.top_nodes(4, 2)
        assert sorted(own.place[: own.count]) == list(range(own.count))
        counts = grown.links[np.argsort(own.place[: own.count]), 2][:85]
        assert [counts[first:last].sum() for first, last in ((0, 1), (1, 5), (5, 21), (21, 85))] == [3000] * 4


def test_a_cell_is_judged_by_its_width_and_distance_alone():
    bodies = flattened(generators.plummer(300, 5, 0.05))
    grown, own = written(bodies, theta=0.5, order="depth_first")
    width = grown.extents[: own.count, 0]
    assert own.rows["open2"][: own.count] == pytest.approx((2 * width) ** 2, rel=1e-6)
    _, full = written(bodies, theta=0.5, order="depth_first", layout="full")
    assert full.rows["width"][: own.count] == pytest.approx(width, rel=1e-6)
    assert not full.rows["offset"][: own.count].any()
    assert full.reach == 2


@pytest.mark.parametrize("order", inserted.ORDERS)
@pytest.mark.parametrize("bits", [10, 21])
def test_order_and_bits_change_no_interaction(order, bits):
    bodies = flattened(generators.plummer(500, 5, 0.05))
    grown, own = written(bodies, order=order, bits=bits, top_levels=4)
    met = walks.interactions(grown.sorted_rows, own.rows, 1)
    plain, flat = written(bodies, order="depth_first", bits=bits)
    expected = walks.interactions(plain.sorted_rows, flat.rows, 1)
    assert np.array_equal(met.cells, expected.cells)
    assert np.array_equal(met.bodies, expected.bodies)


@pytest.mark.parametrize(
    "axes",
    [
        {"order": "inserted", "top_levels": 4, "dim": 2},
        {"order": "inserted", "top_levels": 2, "dim": 3, "node": "full", "sort": "none"},
        {"order": "depth_first", "top_levels": 4, "dim": 2, "node": "full", "leaf_size": 4},
    ],
    ids=str,
)
def test_every_layout_walks_to_the_same_accelerations(need_toolkit, axes):
    need_toolkit("numba")
    bodies = generators.plummer(70, 5, 0.05)
    bodies = flattened(bodies) if axes["dim"] == 2 else bodies
    bodies = Bodies(bodies.mass * np.linspace(0, 2, 70), bodies.position, bodies.velocity, 0.05)
    opened = open_toolkit("numba", VARIANT, "float32")
    prepared = VARIANT.prepare(opened, bodies, **VARIANT.complete({**SMALL, "theta": 0, **axes}))
    prepared.launch()
    expected = direct_accelerations(bodies, np.arange(70), "float32")
    errors = reference.compare(prepared.accelerations[:, :3], expected)
    assert reference.objection_to(errors, VARIANT.accepted("float32", {"theta": 0})) is None


class Host(emulator.Emulator):
    """The emulator, whose kernels take a stream."""

    def compile(self, stem, /, **constants):
        """Compile one kernel, which takes a stream."""
        kernel = super().compile(stem, **constants)
        return lambda *arguments, stream: kernel(*arguments)  # noqa: ARG005


@pytest.mark.skipif(emulator.COMPILER is None, reason="no g++ on PATH")
@pytest.mark.parametrize(
    "axes",
    [
        {"order": "inserted", "top_levels": 4, "dim": 2, "bits": 10},
        {"order": "inserted", "top_levels": 2, "dim": 3, "node": "full", "sort": "none", "leaf_size": 4},
    ],
    ids=str,
)
@pytest.mark.parametrize("theta", [0, 0.5])
def test_the_cuda_c_walks_as_the_cpu_does(libraries, axes, theta):
    bodies = generators.plummer(150, 5, 0.05)
    bodies = flattened(bodies) if axes["dim"] == 2 else bodies
    bodies = Bodies(bodies.mass * np.linspace(0, 2, 150), bodies.position, bodies.velocity, 0.05)
    prepared = VARIANT.prepare(
        Host(VARIANT, "float32", libraries), bodies, **VARIANT.complete({**axes, "theta": theta, "p": 64})
    )
    prepared.launch()
    same = {name: value for name, value in axes.items() if name in ("dim", "bits", "leaf_size")}
    grown, own = written(bodies, theta=theta, **same)
    expected = np.full((150, 3), np.nan, np.float32)
    walk = walks.compiled(np.float32, 1)
    walk(grown.sorted_rows, own.rows, grown.order, False, np.float32(bodies.eps**2), expected, 1)
    assert prepared.accelerations[:, :3] == pytest.approx(expected, rel=2e-4, abs=1e-5)


@pytest.mark.parametrize(("dim", "theta"), [(2, 0.5), (2, 1.0), (3, 0.7)])
def test_the_tolerance_holds_and_is_not_of_the_wrong_order(dim, theta):
    for make, seed in ((generators.plummer, 1), (generators.uniform, 2), (generators.collision, 3)):
        bodies = make(2000, seed, 0.025)
        bodies = flattened(bodies) if dim == 2 else bodies
        grown, own = written(bodies, theta=theta, dim=dim, bits=10)
        found = np.full((bodies.n, 3), np.nan, np.float32)
        walk = walks.compiled(np.float32, 1)
        walk(grown.sorted_rows, own.rows, grown.order, False, np.float32(bodies.eps**2), found, 1)
        errors = reference.compare(found, direct_accelerations(bodies, np.arange(bodies.n), "float32"))
        accepted = VARIANT.accepted("float32", {"theta": theta, "dim": dim})
        assert reference.objection_to(errors, accepted) is None
        assert errors.error_rms > accepted.rms / 300
