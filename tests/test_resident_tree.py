"""The tree that is built on the GPU, run on the host thread by thread: its nodes, its moments and its walk."""

import numpy as np
import pytest

from direct import direct_accelerations
from emulator import COMPILER, Emulator
from gravbench.measuring import comparing as reference
from gravbench.model import generators
from gravbench.model.bodies import Bodies
from gravbench.model.variant import DIRECT_SUM, discover
from gravbench.toolkits.interface import CudaToolkit, ToolkitMissingError
from gravbench.variants.resident import resident_tree, tree_buffers
from recorder import Recorder

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no g++ on PATH")
EPS = 0.05
VARIANT = discover()["resident_tree"]


class Noting(Emulator):
    """An emulated GPU that keeps the buffers of the tree."""

    def compile(self, stem, /, **constants):
        """Note the last arguments of each kernel."""
        kernel = super().compile(stem, **constants)

        def noted(grid, threads, *arguments):
            self.arguments[stem] = arguments
            kernel(grid, threads, *arguments)

        return noted

    arguments: dict = {}  # noqa: RUF012 - one for all, of the last launch


def placed(position, mass=None):
    position = np.asarray(position, float)
    mass = np.full(len(position), 1 / len(position)) if mass is None else mass
    return Bodies(mass, position, np.zeros_like(position), EPS)


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


@pytest.mark.parametrize("n", [1, 2, 31, 127, 128, 129, 1000])
@pytest.mark.parametrize(("dtype", "moments"), [("float32", "monopole"), ("float64", "quadrupole")])
def test_agrees_with_the_float64_direct_sum_where_every_cell_is_opened(run, n, dtype, moments):
    bodies = generators.plummer(n, 3, EPS)
    _, *found = run(bodies, dtype, theta=0, moments=moments)
    for one in found:
        assert reference.objection_to(errors_of(bodies, one, dtype), DIRECT_SUM[dtype]) is None


CRITERIA = [
    # theta, opening, moments, largest rms and largest 99 % quantile: a third above what was found.
    (0.7, "barnes_1994", "monopole"),
    (0.7, "barnes_1994", "quadrupole"),
    (0.7, "geometric", "monopole"),
    (0.7, "geometric", "quadrupole"),
    (0.7, "acceleration", "monopole"),
    (0.7, "acceleration", "quadrupole"),
]


@pytest.mark.parametrize(("theta", "opening", "moments"), CRITERIA)
def test_errors_are_within_the_tolerance_and_quadrupoles_reduce_them(run, theta, opening, moments):
    bodies = generators.plummer(2000, 3, EPS)
    axes = {"theta": theta, "opening": opening, "moments": moments}
    prepared, found, again = run(bodies, **axes)
    errors = errors_of(bodies, again)
    assert reference.objection_to(errors, VARIANT.accepted("float32", VARIANT.complete(axes))) is None
    assert errors.error_rms < {"monopole": 4e-3, "quadrupole": 1.5e-3}[moments]
    assert errors.error_max > 1e-4
    if opening != "acceleration":
        assert np.array_equal(found, again)
    computed = prepared.insight()["computed"]
    assert 0 < computed["body_cell"] < computed["body_body"] < bodies.n


def nodes_of(prepared):
    """Return the tree of the last launch as arrays."""
    *_, inverse_theta = arguments = Noting.arguments["resident_tree_moments"]
    assert inverse_theta > 0
    rows, bounds, tree, _, centres, _, links, pending, _ = arguments
    count = int(tree[0])
    assert not pending.any()
    assert prepared is not None
    return rows, bounds[:count], centres[:count], links[:count, 1:3] if links.itemsize == 4 else None


@pytest.mark.parametrize("curve", ["morton", "hilbert"])
@pytest.mark.parametrize(("leaf_size", "bits"), [(1, 21), (16, 21), (16, 10), (5, 3)])
def test_the_tree_holds_every_body_once_and_its_moments_are_those_of_the_bodies(run, curve, leaf_size, bits):
    bodies = generators.collision(1500, 5, EPS)
    prepared, *_ = run(bodies, curve=curve, leaf_size=leaf_size, bits=bits)
    rows, bounds, centres, links = nodes_of(prepared)
    begin, count = links.T
    leaves = count > 0
    order = np.argsort(begin[leaves], kind="stable")
    ends = begin[leaves][order] + count[leaves][order]
    assert np.array_equal(np.r_[0, ends[:-1]], begin[leaves][order])
    assert ends[-1] == bodies.n
    assert (count[leaves] <= leaf_size).all() or bits < 21
    assert (count[~leaves] < 0).all()
    assert (count[~leaves] >= -8).all()
    # Children follow one another, and every node but the root is a child once.
    children = np.concatenate([np.arange(b, b - c) for b, c in zip(begin[~leaves], count[~leaves], strict=True)])
    assert np.array_equal(np.sort(children), np.arange(1, len(begin)))
    exact = np.zeros((len(begin), 4))
    for node in range(len(begin) - 1, -1, -1):
        if leaves[node]:
            own = rows[begin[node] : begin[node] + count[node]].astype(float)
            exact[node] = *(own[:, 3] @ own[:, :3]), own[:, 3].sum()
        else:
            assert (bounds[begin[node] : begin[node] - count[node], 3] == node).all()
            exact[node] = exact[begin[node] : begin[node] - count[node]].sum(axis=0)
    assert np.allclose(centres[:, 3], exact[:, 3], rtol=1e-5)
    assert np.allclose(centres[:, :3], exact[:, :3] / exact[:, 3:], rtol=1e-5, atol=1e-5)


def test_neighbours_along_hilberts_curve_are_neighbours_in_space(run):
    bodies = placed(np.random.default_rng(5).uniform(size=(4096, 3)))
    longest = {}
    for curve in ("morton", "hilbert"):
        run(bodies, curve=curve)
        rows = Noting.arguments["resident_tree_moments"][0][:, :3]
        groups = rows.reshape(-1, 32, 3)
        longest[curve] = np.quantile((groups.max(axis=1) - groups.min(axis=1)).max(axis=1), 0.95)
    assert longest["hilbert"] < 0.75 * longest["morton"]


GENERATOR = np.random.default_rng(1)
SPREAD = GENERATOR.normal(size=(500, 3))
AWKWARD = {
    "thousands in one place": placed(np.r_[np.full((2000, 3), 0.3), SPREAD]),
    "all in one place": placed(np.full((300, 3), 0.3)),
    "on a line": placed(np.c_[np.linspace(0, 1, 700), np.zeros((700, 2))]),
    "most without mass": placed(SPREAD, np.where(np.arange(500) % 3, 0.0, 1.0)),
    "all without mass but one": placed(SPREAD, np.r_[1.0, np.zeros(499)]),
    "one far away": placed(np.r_[SPREAD, [[1e6, 0, 0]]]),
    "one very far away": placed(np.r_[SPREAD, [[1e9, -1e9, 0]]]),
}


@pytest.mark.parametrize("name", AWKWARD)
@pytest.mark.parametrize(
    "axes",
    [{}, {"opening": "acceleration", "moments": "quadrupole", "group": 64}, {"bits": 10, "curve": "morton"}],
    ids=str,
)
def test_awkward_bodies_are_right(run, name, axes):
    bodies = AWKWARD[name]
    from gravbench.measuring.direct_sums import direct_sums
    from gravbench.model.interaction import GRAVITY
    from gravbench.model.interaction_files import find

    sums = direct_sums(find(GRAVITY), bodies, np.arange(bodies.n), "float32")
    accepted = VARIANT.accepted("float32", VARIANT.complete(axes))
    for one in run(bodies, **axes)[1:]:
        errors = reference.compare(one, sums.exact, magnitudes=sums.magnitudes)
        assert reference.objection_to(errors, accepted) is None


def test_a_tree_without_room_for_all_nodes_has_larger_leaves_and_is_right(run, monkeypatch):
    bodies = generators.plummer(1000, 3, EPS)
    exact = errors_of(bodies, run(bodies, leaf_size=4)[1])
    whole = int(Noting.arguments["resident_tree_moments"][2][0])
    for room in (1, 9, whole // 2, whole):
        monkeypatch.setattr(tree_buffers, "room_for_nodes", lambda *_, room=room: room)
        _, found, again = run(bodies, leaf_size=4)
        assert int(Noting.arguments["resident_tree_moments"][2][0]) <= room
        assert np.array_equal(found, again)
        assert errors_of(bodies, found).error_rms <= 1.5 * exact.error_rms


def test_accelerations_of_other_bodies_do_not_make_results_worse(libraries):
    """The last accelerations are a hint: a warp that finds them too large walks again."""
    bodies = generators.plummer(1000, 3, EPS)
    axes = VARIANT.complete({"opening": "acceleration"})
    prepared = VARIANT.prepare(Noting(VARIANT, "float32", libraries), bodies, **axes)
    last = Noting.arguments["resident_tree"][5]
    for stale in (1e30, 1e3, 1e-30, np.nan, 0.0):
        last[:] = stale
        prepared.launch()
        assert errors_of(bodies, prepared.accelerations[:, :3]).error_rms < 3e-3


def test_a_toolkit_without_a_sort_says_so_before_it_compiles():
    class Unsorted(Recorder):
        argsort = CudaToolkit.argsort
        name = "pycuda"

    gpu = Unsorted("float32")
    with pytest.raises(ToolkitMissingError, match=r"^pycuda has no sort on the device; accepted: cupy$"):
        VARIANT.prepare(gpu, generators.plummer(8, 3, EPS), **VARIANT.complete({}))
    assert gpu.asked == []


def test_stages_are_told_in_their_order(run):
    prepared, *_ = run(generators.plummer(100, 3, EPS))
    told = []
    prepared.stages(told.append)
    assert told == ["keys", "sort", "build", "moments", "traverse"]
    assert prepared.kernels > len(resident_tree.KERNELS)
