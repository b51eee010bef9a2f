"""The fast multipole method, run on the host thread by thread: its expansions, its lists and its errors."""

import re
from itertools import pairwise

import numpy as np
import pytest

from conftest import placed
from direct import direct_accelerations
from emulator import COMPILER, Noting
from gravbench.model import generators
from gravbench.model.bodies import Bodies
from gravbench.model.interaction import GRAVITY
from gravbench.model.interaction_files import find
from gravbench.model.stem_code import cuda_source
from gravbench.model.variant import DIRECT_SUM, discover
from gravbench.toolkits.interface import FLAGS
from gravbench.variants.resident import fast_multipole, pair_lists
from gravbench.verifying import comparing as reference
from gravbench.verifying.direct_sums import direct_sums
from nvrtc import compile_cuda

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no g++ on PATH")
EPS = 0.05
VARIANT = discover()["fast_multipole"]
SMALL = {"bits": 12, "leaf_size": 8, "p": 32}


@pytest.fixture(scope="module")
def run(libraries):
    """Return a function that launches and returns what was prepared and the accelerations."""

    def run(bodies, **axes):
        complete = VARIANT.complete(SMALL | axes)
        prepared = VARIANT.prepare(Noting(VARIANT, "float32", libraries), bodies, **complete)
        prepared.accelerations[:] = np.nan
        prepared.launch()
        return prepared, prepared.accelerations[:, :3].copy()

    return run


def relative_errors(bodies, found):
    exact = direct_accelerations(bodies, np.arange(bodies.n), "float32")
    return np.linalg.norm(found - exact, axis=1) / np.linalg.norm(exact, axis=1)


@pytest.mark.parametrize("n", [1, 2, 31, 127, 128, 129, 500])
def test_agrees_with_the_float64_direct_sum_where_every_cell_is_opened(run, n):
    bodies = generators.plummer(n, 3, EPS)
    _, found = run(bodies, theta=0)
    errors = reference.compare(found, direct_accelerations(bodies, np.arange(n), "float32"))
    assert reference.objection_to(errors, DIRECT_SUM["float32"]) is None


@pytest.mark.slow
def test_errors_fall_with_the_order_as_the_expansion_promises(run):
    """Two clusters that see each other as far: with each order errors fall by the ratio of size and distance."""
    generator = np.random.default_rng(5)
    clusters = [center + 0.5 * generator.uniform(-1, 1, size=(60, 3)) for center in ([0, 0, 0], [4, 0.5, 0.3])]
    bodies = placed(np.concatenate(clusters), generator.uniform(0.5, 1.5, size=120), eps=1.0)
    # All of the pull of the other cluster: that of the own one is computed body by body.
    exact = direct_accelerations(bodies, np.arange(120), "float32")
    errors = []
    for order in (3, 4, 5, 6):
        prepared, found = run(bodies, order=order, opening="geometric", theta=0.5, leaf_size=64)
        computed = prepared.insight()["computed"]
        assert computed["body_body"] == 60
        assert computed["cell_cell"] == 2 / 120
        errors.append(np.sqrt(((found - exact) ** 2).sum() / (exact**2).sum()))
    assert errors[0] < 2e-3
    assert all(0.05 < later / earlier < 0.4 for earlier, later in pairwise(errors[:3])), errors
    assert errors[3] < 0.6 * errors[2]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("axes", "median", "nearly"),
    [
        ({"order": 3, "opening": "geometric", "theta": 0.5}, 4e-3, 4e-2),
        ({"order": 4, "part": 0.001, "theta": 1.0}, 1e-3, 3e-2),
        ({"order": 5, "part": 0.001}, 1e-3, 2e-2),
        ({"order": 6, "part": 0.0003}, 3e-4, 5e-3),
    ],
    ids=str,
)
def test_quantiles_of_the_errors_are_what_criterion_and_order_promise(run, axes, median, nearly):
    bodies = generators.plummer(1000, 3, EPS)
    prepared, found = run(bodies, **axes)
    errors = relative_errors(bodies, found)
    assert median / 20 < np.median(errors) < median
    assert np.quantile(errors, 0.99) < nearly
    judged = reference.compare(found, direct_accelerations(bodies, np.arange(bodies.n), "float32"))
    assert reference.objection_to(judged, VARIANT.accepted("float32", VARIANT.complete(SMALL | axes))) is None
    computed = prepared.insight()["computed"]
    assert 0 < computed["cell_cell"] < computed["body_body"] < bodies.n


def ancestors(parents, node):
    while node >= 0:
        yield node
        node = parents[node]


@pytest.mark.slow
def test_every_pair_of_bodies_is_near_or_far_once(run):
    bodies = generators.collision(400, 5, EPS)
    run(bodies, order=3, part=0.01)
    _, centres, _, links, bounds, tree, _, heads, pool, *_ = Noting.arguments["fast_multipole"]
    nodes = int(tree[0])
    parents = bounds[:nodes, 3]
    own = [set() for _ in range(nodes)]
    for node in np.flatnonzero(bounds[:nodes, 1]):
        for around in ancestors(parents, node):
            own[around].update(range(bounds[node, 0], bounds[node, 0] + bounds[node, 1]))
    met = np.zeros((bodies.n, bodies.n), int)
    for column in (0, 1, 3):
        for targets, sources in pair_lists.pairs(pool, heads[:nodes, column]):
            for target, source in zip(targets, sources, strict=True):
                met[np.ix_(sorted(own[target]), sorted(own[source]))] += 1
    assert (met == 1).all()
    assert np.isclose(centres[0, 3], bodies.mass.sum())
    # The farthest body of a cell is no farther than its reach.
    rows = Noting.arguments["fast_multipole"][0]
    for node in range(nodes):
        away = np.linalg.norm(rows[sorted(own[node]), :3] - centres[node, :3], axis=1)
        assert away.max() <= links.view(np.float32)[node, 0] * (1 + 1e-5) + 1e-6


def crowd_and_few_far_out(seed):
    """Six bodies in one leaf as large as half their distance from a crowd of 600 in many small leaves."""
    generator = np.random.default_rng(seed)
    far_out = generator.uniform([30, 0, 0], [60, 30, 30], size=(6, 3))
    return placed(np.r_[far_out, 0.5 * generator.normal(size=(600, 3)), [[60, 0, 0]]])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("axes", "most"),
    [
        ({"order": 4, "part": 0.001}, 4e-3),
        ({"order": 6, "part": 0.001}, 4e-3),
        ({"order": 4, "opening": "geometric"}, 1.5e-2),
    ],
    ids=str,
)
def test_bodies_far_out_in_a_large_leaf_are_right_and_do_not_meet_all_bodies(run, axes, most):
    bodies = crowd_and_few_far_out(0)
    prepared, found = run(bodies, **axes)
    assert relative_errors(bodies, found)[:6].max() < most
    _, _, _, links, bounds, tree, _, heads, pool, *_, order = Noting.arguments["fast_multipole"][:12]
    nodes = int(tree[0])
    leaves = bounds[:nodes, 1] > 0
    homes = {int(order[bounds[leaf, 0]]): leaf for leaf in np.flatnonzero(leaves)}
    [leaf] = {home for body, home in homes.items() if body < 6}
    met = sum(links[sources[targets == leaf], 3].sum() for targets, sources in pair_lists.pairs(pool, heads[:nodes, 1]))
    assert bounds[leaf, 1] >= 6
    assert met < 0.1 * bodies.n
    assert prepared.insight()["computed"]["body_cell"] > 0


def test_the_largest_error_over_a_plummer_sphere_is_a_few_times_the_percentile(run):
    bodies = generators.plummer(1000, 2, 0.025)
    _, found = run(bodies, leaf_size=32)
    errors = relative_errors(bodies, found)
    nearly = np.quantile(errors, 0.99)
    assert nearly < 3e-3
    assert errors.max() < min(5 * nearly, 6e-3)


@pytest.mark.slow
def test_bodies_at_another_scale_meet_as_much_as_before(run):
    """Accelerations of the evaluation before would be hundreds of times too small: nothing would be far."""
    bodies = generators.plummer(1000, 2, 1e-3)
    prepared, _ = run(bodies, order=3, part=0.01, leaf_size=8)
    used, _ = used_and_room()
    before = int(used[0])
    prepared.bodies[:, :3] *= 1 / 32
    prepared.launch()
    assert used[0] < 1.1 * before
    nearer = Bodies(bodies.mass, bodies.position / 32, bodies.velocity, bodies.eps)
    assert np.quantile(relative_errors(nearer, prepared.accelerations[:, :3]), 0.99) < 0.03


@pytest.mark.slow
def test_a_list_of_near_leaves_that_the_warps_of_a_block_share_is_complete(run):
    bodies = generators.plummer(260, 3, EPS)
    _, found = run(bodies, order=3, opening="geometric", theta=0, leaf_size=1, p=64)
    tree, heads, pool = (Noting.arguments["fast_multipole"][k] for k in (5, 7, 8))
    near = heads[: int(tree[0]), 1]
    assert (pool[near[near >= 0] + 1] >= 0).any()
    assert relative_errors(bodies, found).max() < 1e-4


GENERATOR = np.random.default_rng(1)
SPREAD = GENERATOR.normal(size=(150, 3))
AWKWARD = {
    "hundreds in one place": placed(np.r_[np.full((300, 3), 0.3), SPREAD]),
    "all in one place": placed(np.full((100, 3), 0.3)),
    "on a line": placed(np.c_[np.linspace(0, 1, 200), np.zeros((200, 2))]),
    "most without mass": placed(SPREAD, np.where(np.arange(150) % 3, 0.0, 1.0)),
    "all without mass but one": placed(SPREAD, np.r_[1.0, np.zeros(149)]),
    "one far away": placed(np.r_[SPREAD, [[1e6, 0, 0]]]),
    "one very far away": placed(np.r_[SPREAD, [[1e9, -1e9, 0]]]),
    "large numbers": placed(1e12 * SPREAD, np.full(150, 1e26), eps=1e10),
    "small numbers": placed(1e-7 * SPREAD, np.full(150, 1e-25), eps=1e-9),
}


AXES_FOR_AWKWARD = {"order": 6}, {"order": 3, "opening": "geometric", "theta": 0.6, "bits": 21, "curve": "morton"}


def assert_accepted(bodies, found, axes):
    sums = direct_sums(find(GRAVITY), bodies, np.arange(bodies.n), "float32")
    errors = reference.compare(found, sums.exact, magnitudes=sums.magnitudes)
    accepted = VARIANT.accepted("float32", VARIANT.complete(SMALL | axes))
    assert reference.objection_to(errors, accepted) is None, axes


@pytest.mark.slow
@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_bodies_are_right(run, name):
    for axes in AXES_FOR_AWKWARD:
        assert_accepted(AWKWARD[name], run(AWKWARD[name], **axes)[1], axes)


@pytest.mark.slow
@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_bodies_that_walk_the_tree_are_right(run, monkeypatch, name):
    for axes in AXES_FOR_AWKWARD:
        assert_accepted(AWKWARD[name], without_lists(run, monkeypatch, AWKWARD[name], axes)[1], axes)


WITHIN_EPS = placed(np.random.default_rng(2).normal(size=(600, 3)) * EPS / 50, eps=EPS)


def leave_little_room(monkeypatch):
    """Let lists have no more room than what they are found to need."""
    monkeypatch.setattr(pair_lists, "LEAST", 100)
    monkeypatch.setattr(pair_lists, "PER_BODY", 1)


def used_and_room():
    """Return what the lists of both passes need, and how much room there is."""
    return Noting.arguments["fast_multipole"][9][:2], Noting.arguments["fast_multipole"][15]


@pytest.mark.slow
def test_lists_without_room_get_room(run, monkeypatch):
    bodies = generators.plummer(300, 3, EPS)
    axes = {"order": 3, "opening": "geometric", "theta": 0.7}
    _, usual = run(bodies, **axes)
    leave_little_room(monkeypatch)
    _, found = run(bodies, **axes)
    assert np.array_equal(found, usual)
    assert Noting.arguments["fast_multipole"][15] > 400


def leave_no_room(monkeypatch):
    """Let lists have no room at all."""
    monkeypatch.setattr(pair_lists.PairLists, "fit", lambda lists, _: setattr(lists, "capacity", np.int32(1)))


def without_lists(run, monkeypatch, bodies, axes):
    """Return what was prepared without any room for lists, and the accelerations."""
    leave_no_room(monkeypatch)
    return run(bodies, **axes)


@pytest.mark.slow
@pytest.mark.parametrize(
    "axes",
    [
        {"order": 3, "opening": "geometric"},
        pytest.param({"order": 4, "part": 0.001}, marks=pytest.mark.slow),
        pytest.param({"order": 5, "p": 64}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_bodies_walk_the_tree_where_lists_have_no_room(run, monkeypatch, axes):
    bodies = generators.plummer(1500, 3, EPS)
    _, usual = run(bodies, **axes)
    prepared, found = without_lists(run, monkeypatch, bodies, axes)
    errors, usual_errors = relative_errors(bodies, found), relative_errors(bodies, usual)
    assert 0 < np.quantile(errors, 0.99) < 1.2 * np.quantile(usual_errors, 0.99)
    computed = prepared.insight()["computed"]
    assert 0 < computed["body_cell"] < computed["body_body"] < 0.8 * bodies.n
    assert computed["cell_cell"] == 0


@pytest.mark.parametrize("n", [1, 2, 31, 127, 128, 129, 500])
def test_a_walk_that_opens_every_cell_meets_every_body_once(run, monkeypatch, n):
    bodies = generators.plummer(n, 3, EPS)
    prepared, found = without_lists(run, monkeypatch, bodies, {"theta": 0})
    errors = reference.compare(found, direct_accelerations(bodies, np.arange(n), "float32"))
    assert reference.objection_to(errors, DIRECT_SUM["float32"]) is None
    assert prepared.insight()["computed"] == {"body_body": float(n), "body_cell": 0.0, "cell_cell": 0.0}


def test_accelerations_of_other_bodies_do_not_make_results_worse(run):
    """The last accelerations are a hint: where they were too large, or unknown, pairs are found a second time."""
    bodies = generators.plummer(500, 3, EPS)
    prepared, found = run(bodies, order=3, part=0.001, theta=1.0)
    usual = np.quantile(relative_errors(bodies, found), 0.99)
    last = Noting.arguments["fast_multipole"][12]
    for stale in (1e30, 30.0, np.nan, 0.0, 1e-30):
        last[:] = stale
        prepared.launch()
        assert np.quantile(relative_errors(bodies, prepared.accelerations[:, :3]), 0.99) < 1.5 * usual, stale


@pytest.mark.slow
def test_lists_by_accelerations_of_other_bodies_do_not_outgrow_their_room(run, monkeypatch):
    """They would be many times as long, and bodies that walk the tree without lists take longer."""
    leave_little_room(monkeypatch)
    bodies = generators.plummer(900, 3, EPS)
    prepared, found = run(bodies, order=3, part=0.001, theta=1.0)
    (used, capacity), last = used_and_room(), Noting.arguments["fast_multipole"][12]
    assert 3 * used.max() <= capacity < 3.3 * used.max()
    usual = np.quantile(relative_errors(bodies, found), 0.99)
    last[:] = np.random.default_rng(1).permutation(last) / 1e3
    prepared.launch()
    assert capacity < 2.2 * used[0] <= 2.2 * capacity
    assert 2.9 * used[1] <= capacity
    again = np.quantile(relative_errors(bodies, prepared.accelerations[:, :3]), 0.99)
    assert 0.7 * usual < again < 1.5 * usual


def test_bodies_that_move_a_little_need_no_second_pass(run, monkeypatch):
    """Their lists are a little longer than those that the room was made for."""
    leave_little_room(monkeypatch)
    bodies = generators.plummer(500, 3, EPS)
    prepared, _ = run(bodies, order=3, part=0.001)
    used, _ = used_and_room()
    before = int(used[0])
    longer = 0
    for _ in range(4):
        prepared.bodies[:, :3] *= np.random.default_rng(4).uniform(0.99, 1.01, (bodies.n, 3))
        prepared.launch()
        longer += used[0] > before
        assert used[1] == 0
    assert longer


@pytest.mark.parametrize("graph", [0, 1])
def test_bodies_with_longer_lists_than_those_it_was_prepared_with_get_room(run, monkeypatch, graph):
    leave_little_room(monkeypatch)
    far = generators.plummer(600, 3, EPS)
    prepared, _ = run(WITHIN_EPS, order=3, part=0.001, graph=graph)
    prepared.bodies[:] = np.column_stack([far.position, far.mass])
    computed = []
    for _ in range(2):
        prepared.accelerations[:] = np.nan
        prepared.launch()
        used, capacity = used_and_room()
        computed.append(bool(used.max() <= capacity))
        assert np.quantile(relative_errors(far, prepared.accelerations[:, :3]), 0.99) < 0.01
    assert computed == [False, True]


@pytest.mark.slow
def test_bodies_that_take_turns_get_room_for_the_longer_lists(run, monkeypatch):
    """Room grows with what was cut off, though the evaluations in between need less than there is."""
    leave_little_room(monkeypatch)
    prepared, _ = run(WITHIN_EPS, order=3, part=0.001)
    fits = []
    for bodies in (generators.plummer(600, 3, EPS), WITHIN_EPS) * 5:
        prepared.bodies[:] = np.column_stack([bodies.position, bodies.mass])
        prepared.launch()
        used, capacity = used_and_room()
        fits.append(bool(used.max() <= capacity))
    assert not fits[0]
    assert fits[-2:] == [True, True]


def test_a_second_pass_counts_no_more_in_the_next_evaluation(run):
    prepared, _ = run(generators.plummer(300, 3, EPS), order=3)
    usual = prepared.insight()["computed"]
    Noting.arguments["fast_multipole"][9][1] = 1 << 40
    assert prepared.insight()["computed"] == usual


class Short(Noting):
    """An emulated GPU with too little memory for integers of more than ``most`` bytes."""

    most = 0
    refused = 0

    def device_array(self, shape, dtype):
        """Refuse what is larger."""
        if dtype == np.int32 and 4 * np.prod(shape) > self.most:
            self.refused += 1
            raise MemoryError
        return super().device_array(shape, dtype)


@pytest.mark.slow
@pytest.mark.parametrize(("part", "fits"), [pytest.param(1.5, True, marks=pytest.mark.slow), (0.5, False)])
def test_lists_have_as_much_room_as_the_device_has_memory(run, libraries, monkeypatch, part, fits):
    bodies = generators.plummer(1000, 3, EPS)
    axes = {"order": 3, "part": 0.001, "theta": 1.0}
    _, usual = run(bodies, **axes)
    needed = int(used_and_room()[0].max())
    leave_little_room(monkeypatch)
    monkeypatch.setattr(Short, "most", 4 * part * needed)
    toolkit = Short(VARIANT, "float32", libraries)
    prepared = VARIANT.prepare(toolkit, bodies, **VARIANT.complete(SMALL | axes))
    refused = toolkit.refused
    assert refused > 0
    for _ in range(2):
        prepared.accelerations[:] = np.nan
        prepared.launch()
        used, capacity = used_and_room()
        assert (used[0] <= capacity) == fits
        errors = relative_errors(bodies, prepared.accelerations[:, :3])
        assert np.quantile(errors, 0.99) < 1.5 * np.quantile(relative_errors(bodies, usual), 0.99)
    assert toolkit.refused == refused


def compiled(stem, architecture, **constants):
    needed = fast_multipole.KERNELS[stem].split()
    values = {f"KERNEL_{stem}": 1} | {name: constants[name] for name in needed}
    defines = "".join(f"#define {name} {value}\n" for name, value in values.items())
    return compile_cuda(defines + cuda_source(VARIANT.path.with_suffix(".cu"), find(GRAVITY)), architecture, FLAGS)


@pytest.mark.slow
@pytest.mark.parametrize("order", [4, 5])
def test_multipoles_are_read_by_rows_of_four(order):
    _, ptx, _ = compiled("fast_multipole_far", "compute_90", ORDER=order, P=128)
    assert len(re.findall(r"ld\.global\.nc\.f32", ptx)) < fast_multipole.multipole_rows(order) * 2


def test_coefficients_of_the_highest_order_stay_in_registers_on_the_way_down():
    _, _, remarks = compiled("fast_multipole_down", "sm_90", ORDER=6, BITS=16, RANKS=5, P=128)
    assert "0 bytes spill stores, 0 bytes spill loads" in remarks
    # That is the way from the root to a leaf.
    assert int(re.search(r"(\d+) bytes stack frame", remarks)[1]) <= 4 * (16 + 5 + 2)


def test_stages_are_told_in_their_order(run):
    prepared, _ = run(generators.plummer(100, 3, EPS), order=3)
    told = []
    prepared.stages(told.append)
    assert told == ["keys", "sort", "build", "multipoles", "pairs", "far", "down", "near", "again"]
    assert prepared.kernels > len(fast_multipole.KERNELS)
