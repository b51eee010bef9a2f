"""The tree, its nodes and the walks over it: what holds by construction, by physics, and against direct sums."""

import os
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose

from conftest import ROOT, saying
from direct import direct_accelerations
from gravbench.model import bodies, generators
from gravbench.model.bodies import Bodies, flattened
from gravbench.model.interaction import GRAVITY
from gravbench.model.interaction_files import find
from gravbench.model.stem_code import cuda_source
from gravbench.toolkits.interface import FLAGS
from gravbench.variants.barnes_hut import accuracy, gpu_walk, morton, tree, walks
from gravbench.variants.barnes_hut.nodes import LAYOUTS, TOP_NODES, Nodes
from gravbench.verifying import comparing as reference
from nvrtc import compile_cuda

EPS = 0.05
REALS = (np.float32, np.float64)


def rows_of(bodies, real=np.float64):
    return np.ascontiguousarray(np.column_stack([bodies.position, bodies.mass]), dtype=real)


def bodies_at(position, mass=None):
    position = np.asarray(position, np.float64).reshape(-1, 3)
    mass = np.ones(len(position)) if mass is None else np.asarray(mass, np.float64)
    return Bodies(mass, position, np.zeros_like(position), EPS)


def grow(rows, *, dim=3, bits=21, leaf_size=4, workers=3):
    grown = tree.Tree(len(rows), rows.dtype.type, dim=dim, bits=bits, leaf_size=leaf_size, workers=workers)
    grown.build(rows)
    return grown


def compact(grown, theta, top_levels=0):
    written = Nodes(grown, grown.sorted_rows.dtype.type, layout="compact", theta=theta, top_levels=top_levels)
    written.write()
    return written


def accelerate(bodies, real=np.float64, *, theta=0.7, width=1, sort="morton", **options):
    rows = rows_of(bodies, real)
    grown = grow(rows, **options)
    written = compact(grown, theta)
    accelerations = np.full((bodies.n, 3), np.nan, real)
    unsorted = sort == "none"
    walk = walks.compiled(real, width)
    eps2 = real(bodies.eps**2)
    walk(rows if unsorted else grown.sorted_rows, written.rows, grown.order, unsorted, eps2, accelerations, 2)
    return accelerations


def direct(bodies, real=np.float64):
    return direct_accelerations(bodies, np.arange(bodies.n), np.dtype(real).name)


CLUSTER = generators.plummer(3000, 3, EPS)
FEW = generators.plummer(400, 3, EPS)
ODD = {
    "one body": bodies_at([0.1, 0.2, 0.3]),
    "two bodies": bodies_at([[0, 0, 0], [0, 2, 0]], [1, 3]),
    "two bodies almost at one place": bodies_at([[0.5, 0.5, 0.5], [0.5 + 1e-7, 0.5, 0.5], [-1, 0, 1]]),
    "all at one place": bodies_at(np.full((40, 3), 0.3)),
    "many at each of two places": bodies_at(np.repeat([[0.0, 0, 0], [1, 1, 1]], 30, axis=0)),
    "on a line": bodies_at(np.linspace(-1, 1, 100)[:, None] * [1, 0, 0]),
    "on a diagonal, unevenly": bodies_at(np.geomspace(1e-6, 1, 100)[:, None] * [1, 1, 1]),
    "on a regular grid": bodies_at(np.stack(np.meshgrid(*[np.arange(5.0)] * 3), axis=-1)),
    "masses over twelve orders of magnitude": bodies_at(CLUSTER.position[:200], np.geomspace(1e-12, 1, 200)),
    "some without mass": bodies_at(CLUSTER.position[:200], np.arange(200) % 3 == 0),
    "a cell of bodies without mass": bodies_at(CLUSTER.position[:200], CLUSTER.position[:200, 0] > 0),
    "all without mass": bodies_at(CLUSTER.position[:50], np.zeros(50)),
    "far from the origin": bodies_at(CLUSTER.position[:200] + 1e4),
    "a cluster": CLUSTER,
}
odd = pytest.mark.parametrize("bodies", ODD.values(), ids=ODD)


def interleaved(cells, bits):
    """Morton codes by the definition, bit by bit."""
    codes = np.zeros(len(cells), np.uint64)
    for bit in range(bits - 1, -1, -1):
        for axis in range(cells.shape[1]):
            codes = (codes << np.uint64(1)) | ((cells[:, axis] >> bit) & 1).astype(np.uint64)
    return codes


@pytest.mark.parametrize("bits", morton.BITS)
@pytest.mark.parametrize("dim", [2, 3])
def test_codes_interleave_the_bits_of_the_coordinates_and_are_sorted(dim, bits):
    rows = rows_of(CLUSTER)
    grown = grow(rows, dim=dim, bits=bits)
    low = rows[:, :3].min(axis=0)
    width = (rows[:, :3].max(axis=0) - low)[:dim].max()
    cells = np.minimum((rows[:, :dim] - low[:dim]) * ((1 << bits) / width), (1 << bits) - 1).astype(np.int64)
    codes = interleaved(cells, bits)
    assert (grown._keys == np.sort(codes)).all()
    assert (grown.order == np.argsort(codes, kind="stable")).all()
    assert (grown.sorted_rows == rows[grown.order]).all()


@settings(max_examples=50, deadline=None)
@given(
    keys=arrays(np.uint64, st.integers(1, 300), elements=st.integers(0, 2**63 - 1)),
    workers=st.integers(1, 5),
)
def test_the_sort_sorts_any_keys_and_keeps_equal_ones_in_place(keys, workers):
    keys[::3] = keys[0]
    order = np.arange(keys.size, dtype=np.int32)
    arrays_ = [keys.copy(), order, np.empty_like(keys), np.empty_like(order)]
    swapped = morton.compiled().sort(*arrays_, np.empty((workers, 1 << morton.DIGIT_BITS), np.int64), 63)
    expected = np.argsort(keys, kind="stable")
    assert (arrays_[2 if swapped else 0] == keys[expected]).all()
    assert (arrays_[3 if swapped else 1] == expected).all()


def check_structure(grown, leaf_size):
    """Follow the links as a walk that opens everything does, and look at each node once."""
    count, links = grown.count, grown.links[: grown.count]
    assert count <= 2 * grown.n - 1
    following, first, size, leaf = links.T
    assert following[0] == -1
    assert (first[0], size[0]) == (0, grown.n)
    # Opening everything visits every node once, in depth-first order, and every body in one leaf.
    node, visited, reached = 0, 0, 0
    while node != -1:
        assert node == visited
        visited += 1
        if leaf[node]:
            assert first[node] == reached
            reached += size[node]
            assert following[node] in (node + 1, -1)
            node = following[node]
        else:
            node += 1
    assert visited == count
    assert reached == grown.n
    # Accepting the children of an inner node in turn covers its bodies and leads to what is next after it.
    for node in np.flatnonzero(leaf == 0):
        child, bodies, children = node + 1, 0, 0
        while child != following[node]:
            bodies += size[child]
            children += 1
            child = following[child]
        assert bodies == size[node] > leaf_size
        assert 2 <= children <= 1 << grown.dim


@odd
def test_links_visit_every_node_once_and_every_body_is_in_one_leaf(bodies):
    for dim, leaf_size, workers in ((3, 1, 3), (3, 8, 1), (3, 8, 16), (2, 1, 16), (2, 8, 3)):
        grown = grow(rows_of(bodies), leaf_size=leaf_size, dim=dim, workers=workers)
        check_structure(grown, leaf_size)
        crowded = grown.links[: grown.count][(grown.links[: grown.count, 3] == 1)]
        for _, first, size, _ in crowded[crowded[:, 2] > leaf_size]:
            assert (grown._keys[first : first + size] == grown._keys[first]).all()


@odd
def test_moments_are_the_sums_over_a_nodes_bodies(bodies):
    grown = grow(rows_of(bodies), leaf_size=3)
    for node in range(grown.count):
        _, first, size, _ = grown.links[node]
        members = grown.sorted_rows[first : first + size]
        mass = members[:, 3].sum()
        assert_allclose(grown.moments[node, 3], mass, rtol=1e-13)
        if mass > 0:
            centre = (members[:, :3] * members[:, 3:]).sum(axis=0) / mass
            assert_allclose(grown.moments[node, :3], centre, rtol=0, atol=1e-12 * np.abs(members[:, :3]).max())
    assert np.isfinite(grown.moments[: grown.count]).all()
    assert_allclose(grown.moments[0, 3], bodies.mass.sum(), rtol=1e-13)


@odd
def test_a_cell_holds_its_bodies(bodies):
    """Within half a diagonal of the cell's centre, so that a body opens every cell it lies in."""
    for dim, grown in ((dim, grow(rows_of(bodies), leaf_size=3, dim=dim)) for dim in (2, 3)):
        check_cells(grown, dim)


def check_cells(grown, dim):
    for node in range(grown.count):
        _, first, size, _ = grown.links[node]
        width, offset = grown.extents[node]
        apart = np.linalg.norm((grown.sorted_rows[first : first + size, :3] - grown.moments[node, :3])[:, :dim], axis=1)
        assert apart.max() <= (width * np.sqrt(dim) / 2 + offset) * (1 + 1e-12) + 1e-12 * grown.width
        assert np.ptp(grown.sorted_rows[first : first + size, :dim], axis=0).max() <= width * (1 + 1e-9)


def test_a_cube_has_512_leaves_and_27_of_them_pull_each_body():
    """The setting of configs/gems3.yaml for section 31.6 of GPU Gems 3: a cell and all cells around it, or more."""
    rows = rows_of(generators.cube(2**18, 1, 0.025), np.float32)
    grown = grow(rows, leaf_size=640)
    leaves = grown.links[: grown.count][grown.links[: grown.count, 3] == 1]
    assert len(leaves) == 512
    assert leaves[:, 2].sum() == 2**18
    met = walks.interactions_a_body(grown.sorted_rows, compact(grown, 0.5).rows, gpu_walk.WARP)
    assert met["body_body"] > 27 * 512


def test_a_tree_does_not_depend_on_the_number_of_workers():
    rows = rows_of(generators.plummer(5000, 8, EPS))
    one, several = grow(rows, workers=1), grow(rows, workers=7)
    assert one.count == several.count
    for name in ("moments", "extents", "links"):
        assert_allclose(getattr(one, name)[: one.count], getattr(several, name)[: one.count], rtol=1e-12, atol=1e-15)


def test_a_tree_can_be_built_again_for_bodies_that_have_moved():
    rows = rows_of(CLUSTER)
    grown = grow(rows)
    moved = rows_of(generators.collision(CLUSTER.n, 1, EPS))
    grown.build(moved)
    fresh = grow(moved)
    assert grown.count == fresh.count
    assert (grown.links[: grown.count] == fresh.links[: grown.count]).all()
    assert (grown.moments[: grown.count] == fresh.moments[: grown.count]).all()


def test_ten_bits_merge_bodies_that_twenty_one_tell_apart():
    close = np.full((2, 3), 0.5)
    close[1] += 1e-4
    bodies = bodies_at(np.vstack([close, [[0, 0, 0], [1, 1, 1]]]))
    assert grow(rows_of(bodies), bits=10, leaf_size=1).count < grow(rows_of(bodies), bits=21, leaf_size=1).count


@pytest.mark.parametrize("real", REALS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("dim", "top_levels"), [(3, 0), (3, 1), (2, 2), (3, 3)])
def test_nodes_say_what_the_tree_says_with_the_upper_levels_first(real, layout, top_levels, dim):
    grown = grow(rows_of(FEW, real), dim=dim)
    written = Nodes(grown, real, layout=layout, theta=0.5, top_levels=top_levels)
    written.write()
    nodes = written.rows[: written.count]
    assert written.top <= TOP_NODES[top_levels]
    assert nodes[0]["next"] == -1

    def child(node):
        if layout == "full":
            return node["children"]
        return node["begin"] if node["count"] == 0 else -1

    # In step with a walk over the tree in depth-first order.
    at, depth_of = 0, {0: 0}
    for number in range(grown.count):
        node = nodes[at]
        _, first, size, leaf = grown.links[number]
        assert_allclose([node[name] for name in ("x", "y", "z", "mass")], grown.moments[number], rtol=1e-7)
        assert (child(node) == -1) == bool(leaf)
        if leaf:
            assert (node["first" if layout == "full" else "begin"], node["count"]) == (first, size)
        width, offset = grown.extents[number]
        if layout == "full":
            assert_allclose([node["width"], node["offset"]], [width, offset], rtol=1e-7)
        else:
            assert_allclose(node["open2"], (width / 0.5 + offset) ** 2, rtol=1e-6)
        depth = depth_of[at]
        assert (at < written.top) == (depth < top_levels)
        if leaf:
            at = node["next"]
        else:
            below = child(node)
            while below != node["next"]:
                depth_of[below] = depth + 1
                below = nodes[below]["next"]
            at = child(node)
    assert at == -1


def test_node_sizes_are_the_published_ones():
    sizes = {(layout, real().itemsize): nodes_size(layout, real) for layout in LAYOUTS for real in REALS}
    assert sizes == {("full", 4): 40, ("full", 8): 64, ("compact", 4): 32, ("compact", 8): 48}


def nodes_size(layout, real):
    grown = grow(rows_of(ODD["two bodies"], real))
    written = Nodes(grown, real, layout=layout, theta=1, top_levels=0)
    assert written.words.nbytes == written.rows.nbytes
    return 4 * written.words_a_node


@odd
@pytest.mark.parametrize("real", REALS)
def test_theta_zero_is_the_direct_sum(bodies, real):
    expected = direct(bodies, real)
    # Rounding of each pull, which may be much larger than what is left when they cancel.
    pulls = bodies.mass.sum() / bodies.eps**2
    for width, sort in ((1, "none"), (1, "morton"), (16, "morton")):
        with saying(f"width {width}, sort {sort}"):
            accelerations = accelerate(bodies, real, theta=0, width=width, sort=sort)
            assert_allclose(accelerations, expected, rtol=0, atol=20 * np.finfo(real).eps * pulls)


def test_theta_zero_accepts_no_cell():
    grown = grow(rows_of(CLUSTER))
    counted = walks.interactions(grown.sorted_rows, compact(grown, 0).rows, 1)
    assert (counted.cells == 0).all()
    assert (counted.bodies == CLUSTER.n).all()


@odd
@pytest.mark.parametrize("real", REALS)
def test_accelerations_are_finite_and_within_the_tolerance(bodies, real):
    expected = direct(bodies, real)
    typical = np.sqrt(np.mean(np.linalg.norm(expected, axis=1) ** 2))
    for theta in accuracy.THETAS:
        with saying(f"theta {theta}"):
            accelerations = accelerate(bodies, real, theta=theta)
            assert np.isfinite(accelerations).all()
            apart = np.linalg.norm(accelerations - expected, axis=1)
            assert np.sqrt(np.mean(apart**2)) <= accuracy.RMS[3] * theta**2 * typical + 1e-4 * bodies.mass.sum()


@pytest.mark.parametrize(
    ("theta", "rms"), [(0.3, 8e-4), (0.5, 3.2e-3), (0.7, 7e-3), (1.0, 1.7e-2)], ids=lambda value: str(value)
)
@pytest.mark.parametrize("leaf_size", [1, 16])
def test_errors_of_a_plummer_sphere_are_those_measured(theta, rms, leaf_size):
    errors = reference.compare(accelerate(CLUSTER, theta=theta, leaf_size=leaf_size), direct(CLUSTER))
    assert rms / 3 < errors.error_rms < 1.4 * rms


def test_bodies_that_walk_together_are_more_accurate_and_meet_more():
    alone, together = (accelerate(CLUSTER, np.float32, width=width, leaf_size=16) for width in (1, 32))
    expected = direct(CLUSTER, np.float32)
    assert reference.compare(together, expected).error_rms < reference.compare(alone, expected).error_rms
    grown = grow(rows_of(CLUSTER, np.float32), leaf_size=16)
    nodes = compact(grown, 0.7).rows
    one, group = (walks.interactions(grown.sorted_rows, nodes, width) for width in (1, 32))
    assert group.cells.mean() + group.bodies.mean() > one.cells.mean() + one.bodies.mean()


def test_the_order_of_walking_changes_nothing():
    assert (accelerate(CLUSTER, sort="none") == accelerate(CLUSTER, sort="morton")).all()


def test_twice_the_theta_is_far_fewer_interactions():
    grown = grow(rows_of(CLUSTER))
    counts = [walks.interactions(grown.sorted_rows, compact(grown, theta).rows, 1) for theta in (0.35, 0.7)]
    assert counts[1].visits.mean() < 0.5 * counts[0].visits.mean()


def test_in_the_plane_nothing_is_pulled_out_of_it():
    flat = bodies.flattened(CLUSTER)
    accelerations = accelerate(flat, theta=0.5, dim=2)
    assert (accelerations[:, 2] == 0).all()
    assert reference.compare(accelerations, direct(flat)).error_rms < accuracy.RMS[2] * 0.5**2


def test_a_body_never_accepts_a_cell_it_lies_in():
    """Two bodies in opposite corners of the cube pull each other at any theta, and not themselves."""
    pair = ODD["two bodies"]
    for theta in (1.0, 1.5, 10.0):
        assert_allclose(accelerate(pair, theta=theta, leaf_size=1), direct(pair), rtol=1e-12)


@pytest.mark.parametrize("real", REALS)
@pytest.mark.parametrize("node", LAYOUTS)
@pytest.mark.parametrize("walk", gpu_walk.WALKS)
@pytest.mark.parametrize(("sort", "top_levels", "dim"), [("morton", 0, 3), ("morton", 2, 3), ("none", 3, 2)])
def test_the_numba_kernel_agrees_with_the_walk_on_the_cpu(real, node, walk, sort, top_levels, dim):
    if os.environ.get("NUMBA_ENABLE_CUDASIM") != "1":
        pytest.skip("on a GPU the variant's own tests say this")
    from numba import cuda

    from gravbench.toolkits.numba import _Simulator

    n, p = 40, 32
    bodies = generators.plummer(n, 5, EPS)
    bodies = flattened(bodies) if dim == 2 else bodies
    rows = rows_of(bodies, real)
    grown = grow(rows, dim=dim)
    written = Nodes(grown, real, layout=node, theta=0.7, top_levels=top_levels)
    written.write()
    constants = gpu_walk.constants(p=p, node=node, walk=walk, sort=sort, top_levels=top_levels, dim=dim)
    kernel = gpu_walk.walk_kernel(_Simulator(cuda), real, **constants)
    walked = rows if sort == "none" else grown.sorted_rows
    accelerations = np.full((n, 4), np.nan, real)
    kernel[-(-n // p), p](
        walked, written.words, grown.order, accelerations,
        n, written.top, real(EPS**2), real(written.reach),
    )  # fmt: skip
    if walk == "thread":
        expected = accelerate(bodies, real, sort=sort, dim=dim)
        assert_allclose(accelerations[:, :3], expected, rtol=2e-4 if real is np.float32 else 1e-9, atol=1e-6)
    errors = reference.compare(accelerations[:, :3], direct(bodies, real))
    assert errors.error_rms < accuracy.RMS[dim] * 0.7**2


@pytest.mark.parametrize("node", LAYOUTS)
@pytest.mark.parametrize("name", ["all at one place", "many at each of two places", "all without mass", "one body"])
def test_the_numba_kernel_sums_directly_at_theta_zero(node, name):
    if os.environ.get("NUMBA_ENABLE_CUDASIM") != "1":
        pytest.skip("on a GPU the variant's own tests say this")
    from numba import cuda

    from gravbench.toolkits.numba import _Simulator

    bodies = ODD[name]
    grown = grow(rows_of(bodies, np.float32))
    written = Nodes(grown, np.float32, layout=node, theta=0, top_levels=0)
    written.write()
    constants = gpu_walk.constants(p=32, node=node, walk="thread", sort="morton", top_levels=0, dim=3)
    kernel = gpu_walk.walk_kernel(_Simulator(cuda), np.float32, **constants)
    accelerations = np.full((bodies.n, 4), np.nan, np.float32)
    kernel[-(-bodies.n // 32), 32](
        grown.sorted_rows, written.words, grown.order, accelerations,
        bodies.n, written.top, np.float32(EPS**2), np.float32(written.reach),
    )  # fmt: skip
    assert_allclose(accelerations[:, :3], direct(bodies, np.float32), rtol=1e-5, atol=1e-5)


SOURCE = cuda_source(ROOT / "variants" / "barnes_hut" / "barnes_hut.cu", find(GRAVITY))
BUILDS = [
    SimpleNamespace(node=node, walk=walk, sort=sort, top_levels=top_levels, dim=dim)
    for node in LAYOUTS
    for walk in gpu_walk.WALKS
    for sort, top_levels, dim in (("morton", 0, 3), ("morton", 3, 3), ("none", 0, 2))
]


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["sm_75", "sm_90"])  # as every variant does, its default on all
@pytest.mark.parametrize("real", REALS)
def test_every_build_of_the_cuda_kernel_compiles_without_spills(architecture, real):
    double = real is np.float64
    for build in BUILDS:
        constants = gpu_walk.constants(p=128, **vars(build))
        defines = [f"-D{name}={value}" for name, value in constants.items()] + ["-DFLOAT64=1"] * double
        image, ptx, remarks = compile_cuda(SOURCE, architecture, [*FLAGS, *defines])
        assert image.startswith(b"\x7fELF")
        assert double or ".f64" not in ptx
        assert "0 bytes spill stores, 0 bytes spill loads" in remarks
