"""The tree that is built on the GPU, run on the host thread by thread: its nodes, its moments and its walk."""

import numpy as np
import pytest

from conftest import placed
from direct import direct_accelerations
from emulator import COMPILER, Noting
from gravbench.model import generators
from gravbench.model.bodies import Bodies
from gravbench.model.interaction import GRAVITY
from gravbench.model.interaction_files import find
from gravbench.model.variant import DIRECT_SUM, discover
from gravbench.toolkits.interface import CudaToolkit, ToolkitMissingError
from gravbench.toolkits.recording import RecordingToolkit
from gravbench.variants.resident import resident_share, tree_buffers
from gravbench.verifying import comparing as reference
from gravbench.verifying.direct_sums import direct_sums

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no g++ on PATH")
EPS = 0.05
VARIANT = discover()["resident_tree"]


@pytest.fixture(scope="module")
def run(libraries):
    """Return a function that launches twice and returns what was prepared and both accelerations."""

    def run(bodies, dtype="float32", **axes):
        prepared = VARIANT.prepare(Noting(VARIANT, dtype, libraries), bodies, **VARIANT.complete(axes))
        found = []
        for _ in range(2):
            prepared.accelerations[:] = np.nan
            prepared.launch()
            found.append(prepared.accelerations[:, :3].copy())
        return prepared, *found

    return run


def errors_of(bodies, found, dtype="float32"):
    return reference.compare(found, direct_accelerations(bodies, np.arange(bodies.n), dtype))


@pytest.mark.parametrize(
    ("n", "dtype", "moments"),
    [
        *((n, "float32", "quadrupole") for n in (1, 2, 31, 127, 128, 129, 1000)),
        *((n, "float64", "monopole") for n in (1, 129, 300)),
    ],
)
def test_agrees_with_the_float64_direct_sum_where_every_cell_is_opened(run, n, dtype, moments):
    bodies = generators.plummer(n, 3, EPS)
    _, *found = run(bodies, dtype, theta=0, moments=moments)
    for one in found:
        assert reference.objection_to(errors_of(bodies, one, dtype), DIRECT_SUM[dtype]) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("axes", "rms"),
    [
        ({"opening": "geometric", "moments": "monopole"}, 4e-3),
        ({"opening": "geometric", "moments": "quadrupole"}, 1.5e-3),
        ({"opening": "barnes_1994", "moments": "monopole"}, 3e-3),
        ({"opening": "barnes_1994", "moments": "quadrupole"}, 1e-3),
        ({"part": 0.0025, "moments": "monopole"}, 1.2e-3),
        ({"part": 0.0025, "moments": "quadrupole"}, 4e-4),
        ({"part": 0.0025, "moments": "quadrupole", "group": 96}, 3e-4),
    ],
    ids=str,
)
def test_errors_are_what_the_criterion_and_the_moments_promise(run, axes, rms):
    bodies = generators.plummer(1000, 3, EPS)
    prepared, found, again = run(bodies, **axes)
    errors = errors_of(bodies, again)
    assert reference.objection_to(errors, VARIANT.accepted("float32", VARIANT.complete(axes))) is None
    assert rms / 10 < errors.error_rms < rms
    if "part" not in axes:
        assert np.array_equal(found, again)
    computed = prepared.insight()["computed"]
    assert 0 < computed["body_cell"] < computed["body_body"] < bodies.n


@pytest.mark.slow
@pytest.mark.parametrize(
    "axes",
    [
        {"warps": 2, "p": 64},
        {"warps": 4, "p": 128, "group": 64, "boxes": 16},
        {"warps": 4, "p": 128, "moments": "monopole", "opening": "barnes_1994", "boxes": 1},
    ],
    ids=str,
)
def test_warps_that_share_their_bodies_find_what_one_warp_does(run, axes):
    bodies = generators.plummer(700, 3, EPS)
    alone, _, usual = run(bodies, **axes | {"warps": 1})
    shared, _, found = run(bodies, **axes)
    assert shared.insight() == alone.insight()
    assert np.abs(found - usual).max() < 1e-5 * np.abs(usual).max()


@pytest.mark.parametrize(("warps", "p"), [(2, 64), (4, 128)])
def test_warps_that_share_their_bodies_add_every_body_once(run, warps, p):
    bodies = generators.plummer(129, 3, EPS)
    for one in run(bodies, theta=0, warps=warps, p=p)[1:]:
        assert reference.objection_to(errors_of(bodies, one), DIRECT_SUM["float32"]) is None


@pytest.mark.slow
def test_more_boxes_open_fewer_cells(run):
    bodies = generators.plummer(1000, 3, EPS)
    met = [run(bodies, group=64, boxes=boxes)[0].insight()["computed"] for boxes in (1, 4, 16)]
    work = [one["body_body"] + one["body_cell"] for one in met]
    assert work[0] > work[1] > work[2]


def last_tree():
    """Return the tree of the last launch in float32: sorted bodies, parents, centres, quadrupoles, first and count."""
    rows, bounds, tree, _, centres, _, seconds, links, pending, *_ = Noting.arguments["resident_tree_moments"]
    assert not pending.any()
    count = int(tree[0])
    return rows, bounds[:count, 3], centres[:count], seconds[:count].view(np.float32), links[:count, 2:4]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("curve", "leaf_size", "bits"), [("hilbert", 1, 21), ("morton", 16, 21), ("hilbert", 16, 10), ("morton", 5, 3)]
)
def test_the_tree_holds_every_body_once_and_its_moments_are_those_of_the_bodies(run, curve, leaf_size, bits):
    bodies = generators.collision(1500, 5, EPS)
    run(bodies, curve=curve, leaf_size=leaf_size, bits=bits)
    rows, parents, centres, seconds, links = last_tree()
    begin, count = links.T
    leaves = count > 0
    order = np.argsort(begin[leaves], kind="stable")
    ends = (begin + count)[leaves][order]
    assert np.array_equal(np.r_[0, ends[:-1]], begin[leaves][order])
    assert ends[-1] == bodies.n
    assert count.max() <= leaf_size or bits < 21
    assert ((count[~leaves] < 0) & (count[~leaves] >= -8)).all()
    # Children follow one another, and every node but the root is a child once.
    children = [np.arange(first, first - many) for first, many in zip(begin[~leaves], count[~leaves], strict=True)]
    assert np.array_equal(np.sort(np.concatenate(children)), np.arange(1, len(begin)))
    assert all((parents[own] == node).all() for node, own in zip(np.flatnonzero(~leaves), children, strict=True))
    spans = np.stack([begin, begin + count], axis=1)
    for node in range(len(begin) - 1, -1, -1):
        if not leaves[node]:
            spans[node] = spans[begin[node]][0], spans[begin[node] - count[node] - 1][1]
        own = rows[slice(*spans[node])].astype(float)
        mass = own[:, 3].sum()
        centre = own[:, 3] @ own[:, :3] / mass
        assert np.allclose(centres[node], [*centre, mass], rtol=1e-5, atol=1e-5)
        away = own[:, :3] - centre
        exact = -3 * (own[:, 3, None] * away).T @ away / mass
        found = seconds[node]
        assert np.allclose(exact[np.triu_indices(3)], found[:6], rtol=1e-4, atol=1e-12 - 1e-4 * np.trace(exact))
        assert np.isclose(np.trace(exact) / 2, found[6], rtol=1e-4, atol=1e-12)


def test_neighbours_along_hilberts_curve_are_neighbours_in_space(run):
    bodies = placed(np.random.default_rng(5).uniform(size=(2048, 3)))
    longest = {}
    for curve in ("morton", "hilbert"):
        run(bodies, curve=curve, part=0.1)
        rows = Noting.arguments["resident_tree_moments"][0][:, :3]
        groups = rows.reshape(-1, 32, 3)
        longest[curve] = (groups.max(axis=1) - groups.min(axis=1)).max(axis=1).mean()
    assert longest["hilbert"] < 0.85 * longest["morton"]


GENERATOR = np.random.default_rng(1)
SPREAD = GENERATOR.normal(size=(250, 3))
AWKWARD = {
    "thousands in one place": placed(np.r_[np.full((1200, 3), 0.3), SPREAD]),
    "all in one place": placed(np.full((300, 3), 0.3)),
    "on a line": placed(np.c_[np.linspace(0, 1, 400), np.zeros((400, 2))]),
    "most without mass": placed(SPREAD, np.where(np.arange(250) % 3, 0.0, 1.0)),
    "all without mass but one": placed(SPREAD, np.r_[1.0, np.zeros(249)]),
    "one far away": placed(np.r_[SPREAD, [[1e6, 0, 0]]]),
    "one very far away": placed(np.r_[SPREAD, [[1e9, -1e9, 0]]]),
}


@pytest.mark.parametrize(("length", "mass"), [(1e12, 2e30), (1e15, 1e15), (1e-7, 1e-20)])
def test_the_units_of_length_and_mass_change_nothing(run, length, mass):
    near = generators.plummer(500, 3, EPS)
    far = Bodies(near.mass * mass, near.position * length, near.velocity, EPS * length)
    bound = {"leaf_size": 4, "part": 0.02}
    usual, found = run(near, **bound)[2], run(far, **bound)[2].astype(float) * length**2 / mass
    assert np.abs(found - usual).max() < 1e-4 * np.abs(usual).max()


@pytest.mark.slow
@pytest.mark.parametrize("name", AWKWARD)
@pytest.mark.parametrize(
    "axes",
    [{}, {"opening": "barnes_1994", "moments": "monopole", "bits": 10, "curve": "morton"}],
    ids=str,
)
def test_awkward_bodies_are_right(run, name, axes):
    bodies = AWKWARD[name]
    sums = direct_sums(find(GRAVITY), bodies, np.arange(bodies.n), "float32")
    accepted = VARIANT.accepted("float32", VARIANT.complete(axes))
    for one in run(bodies, **axes)[1:]:
        errors = reference.compare(one, sums.exact, magnitudes=sums.magnitudes)
        assert reference.objection_to(errors, accepted) is None


def test_a_tree_without_room_for_all_nodes_has_larger_leaves_and_is_right(run, monkeypatch):
    bodies = generators.plummer(1000, 3, EPS)
    axes = {"leaf_size": 4, "opening": "barnes_1994"}
    usual = errors_of(bodies, run(bodies, **axes)[1])
    whole = int(Noting.arguments["resident_tree_moments"][2][0])
    for room in (1, 9, whole // 2):
        monkeypatch.setattr(tree_buffers, "room_for_nodes", lambda *_, room=room: room)
        _, found, again = run(bodies, **axes)
        assert int(Noting.arguments["resident_tree_moments"][2][0]) <= room
        assert np.array_equal(found, again)
        assert errors_of(bodies, found).error_rms <= 1.5 * usual.error_rms


def test_accelerations_of_other_bodies_do_not_make_results_worse(libraries):
    """The last accelerations are a hint: a warp that finds them too large walks again.

    Where there are none, the opening angle decides.
    """
    bodies = generators.plummer(1000, 3, EPS)
    axes = VARIANT.complete({"part": 0.0025, "moments": "monopole"})
    prepared = VARIANT.prepare(Noting(VARIANT, "float32", libraries), bodies, **axes)
    last = Noting.arguments["resident_tree"][6]
    prepared.launch()
    usual = errors_of(bodies, prepared.accelerations[:, :3]).error_rms
    for stale in (1e30, 1e3, 1e-30, np.nan, 0.0):
        last[:] = stale
        prepared.launch()
        assert errors_of(bodies, prepared.accelerations[:, :3]).error_rms < (2 if stale > 0 else 5) * usual, stale


def test_the_last_accelerations_are_brought_to_the_scale_of_the_bodies(run):
    bodies = generators.plummer(1000, 2, 1e-3)
    prepared, *_ = run(bodies)
    cube = Noting.arguments["resident_tree"][-4]
    assert cube[4] == 1
    prepared.bodies[:, :3] *= 1 / 32
    prepared.launch()
    assert cube[4] == pytest.approx(32**2)
    nearer = placed(bodies.position / 32, bodies.mass, bodies.eps)
    assert errors_of(nearer, prepared.accelerations[:, :3]).error_rms < 2e-3


def test_a_body_whose_contributions_cancel_is_judged_by_a_part_of_their_magnitudes(run):
    """At the centre of a sphere of radius 1 and mass 1 they add up to 1, and 1 / 32 of that counts."""
    half = np.random.default_rng(5).normal(size=(500, 3))
    half /= np.linalg.norm(half, axis=1)[:, None]
    bodies = placed(np.concatenate([[[0, 0, 0]], half, -half]), np.full(1001, 1e-3), EPS)
    _, _, found = run(bodies, leaf_size=1)
    last = Noting.arguments["resident_tree"][6]
    assert np.linalg.norm(found[0]) < 0.003
    assert 0.5 / 32 < last[0] < 2 / 32, "seen from a body of its group"
    assert last[1] == pytest.approx(np.linalg.norm(found[1]), rel=1e-5)


@pytest.mark.slow
def test_a_long_walk_compares_cells_with_bodies_and_meets_less(run):
    bodies = generators.plummer(2000, 3, EPS)
    prepared, *_ = run(bodies)
    usual = prepared.insight()["computed"]
    met, walks = Noting.arguments["resident_tree"][13], Noting.arguments["resident_tree_moments"][10]
    met[0] = walks  # as if a walk had met one node on the average
    prepared.launch()
    assert errors_of(bodies, prepared.accelerations[:, :3]).error_rms < 3e-3
    met[0] = walks
    shorter = prepared.insight()["computed"]
    assert sum(shorter.values()) < 0.95 * sum(usual.values())


@pytest.mark.parametrize("name", ["fast_multipole", "resident_tree"])
def test_a_toolkit_without_a_sort_says_so_before_it_compiles(name):
    class Unsorted(RecordingToolkit):
        argsort = CudaToolkit.argsort
        name = "pycuda"

    gpu, variant = Unsorted("float32", find(GRAVITY)), discover()[name]
    with pytest.raises(ToolkitMissingError, match=r"^pycuda has no sort on the device; accepted: cupy$"):
        variant.prepare(gpu, generators.plummer(8, 3, EPS), **variant.complete({}))
    assert gpu.kernels == []


def test_stages_are_told_in_their_order(run):
    prepared, *_ = run(generators.plummer(100, 3, EPS))
    told = []
    prepared.stages(told.append)
    assert told == ["keys", "sort", "build", "moments", "traverse"]
    assert prepared.kernels > len(resident_share.KERNELS)
