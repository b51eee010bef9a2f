"""The judge: if it is wrong, every verdict is, so it is held against two other ways to compute the same."""

import itertools
import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import saying
from direct import direct_accelerations
from gravbench.model import interaction_files
from gravbench.model.bodies import Bodies
from gravbench.model.generators import plummer
from gravbench.model.interaction import GRAVITY
from gravbench.model.interaction_files import find
from gravbench.model.record import QUANTILES, Errors
from gravbench.model.variant import DIRECT_SUM, Prepared, Tolerance, discover
from gravbench.toolkits.opening import open_toolkit
from gravbench.verifying import comparing, perturbed
from gravbench.verifying import verify as reference
from gravbench.verifying.comparing import compare, lengths, limits_of, objection_to
from gravbench.verifying.direct_sums import _on_cpu, direct_sums
from gravbench.verifying.perturbed import other_bodies
from gravbench.verifying.verify import Judge, verified_rows


def two(separation, masses, eps):
    """Two bodies on a line that is no axis."""
    direction = np.array([2.0, -3.0, 6.0]) / 7.0
    position = np.array([[0.5, 0.25, -1.0], np.array([0.5, 0.25, -1.0]) + separation * direction])
    return Bodies(np.array(masses), position, np.zeros((2, 3)), eps), direction


def longdouble(bodies, dtype="float64"):
    """The same sum written differently: NumPy, longdouble, all pairs at once, no self-interaction."""
    position = bodies.position.astype(dtype).astype(np.longdouble)
    mass = bodies.mass.astype(dtype).astype(np.longdouble)
    eps2 = np.longdouble(np.dtype(dtype).type(bodies.eps**2))
    apart = position[None, :, :] - position[:, None, :]
    cubed = ((apart**2).sum(axis=2) + eps2) ** np.longdouble(1.5)
    weight = mass[None, :] / cubed
    np.fill_diagonal(weight, 0)
    return (weight[:, :, None] * apart).sum(axis=1)


@pytest.mark.parametrize("separation", [1e-3, 1.0, 40.0])
@pytest.mark.parametrize("eps", [1e-9, 0.025, 3.0])
@pytest.mark.parametrize("masses", [(1.0, 1.0), (2.0, 0.5), (1.0, 0.0)])
def test_two_bodies_pull_each_other_as_the_formula_says(separation, eps, masses):
    bodies, direction = two(separation, masses, eps)
    found = direct_accelerations(bodies, np.arange(2))
    strength = separation / (separation**2 + eps**2) ** 1.5
    expected = np.array([masses[1] * strength * direction, -masses[0] * strength * direction])
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14 * strength)


def test_one_body_alone_is_not_accelerated():
    alone = Bodies(np.ones(1), np.array([[3.0, 4.0, 5.0]]), np.zeros((1, 3)), 0.1)
    np.testing.assert_array_equal(direct_accelerations(alone, np.arange(1)), np.zeros((1, 3)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("eps", [1e-6, 0.025])
def test_it_agrees_with_another_sum_in_higher_precision(dtype, eps):
    bodies = plummer(300, 7, eps)
    rows = np.array([0, 299, 17, 17, 150])
    expected = longdouble(bodies, dtype)[rows].astype(np.float64)
    found = direct_accelerations(bodies, rows, dtype)
    assert found.dtype == np.float64
    distance = np.linalg.norm(found - expected, axis=1) / np.linalg.norm(expected, axis=1)
    assert distance.max() < 1e-13


def test_float32_means_the_bodies_as_a_float32_kernel_receives_them_summed_in_float64():
    bodies = plummer(200, 3, 0.1)
    rounded = Bodies(
        bodies.mass.astype(np.float32).astype(np.float64),
        bodies.position.astype(np.float32).astype(np.float64),
        bodies.velocity,
        math.sqrt(np.float32(bodies.eps**2)),
    )
    rows = np.arange(200)
    found = direct_accelerations(bodies, rows, "float32")
    np.testing.assert_allclose(found, direct_accelerations(rounded, rows), rtol=1e-13, atol=1e-15)
    difference = compare(direct_accelerations(bodies, rows), found)
    assert 1e-9 < difference.error_max < 1e-4, "rounding the bodies shows, and is no error of arithmetic"
    assert not np.array_equal(found, found.astype(np.float32)), "the sum itself is not rounded"


def test_the_pulls_of_all_bodies_cancel():
    bodies = plummer(500, 5, 0.05)
    pulls = bodies.mass[:, None] * direct_accelerations(bodies, np.arange(500))
    assert np.abs(pulls.sum(axis=0)).max() < 1e-13 * np.abs(pulls).sum()


# Which bodies are compared


ANY = np.random.default_rng(1)


@pytest.mark.parametrize("n", [1, 2, 1024, 4095, 4096])
def test_up_to_4096_bodies_all_are_compared(n):
    np.testing.assert_array_equal(verified_rows(n, ANY), np.arange(n))


@pytest.mark.parametrize("n", [4097, 49_152, 1_000_003])
def test_of_more_bodies_each_1024th_part_has_one_and_others_at_each_look(n):
    edges = np.linspace(0, n, reference.SAMPLED_ROWS + 1).astype(int)
    looks = [verified_rows(n, ANY) for _ in range(3)]
    for rows in looks:
        assert np.histogram(rows, bins=edges)[0].min() >= 1
        assert (rows[0], rows[-1]) == (0, n - 1)
        assert 1024 <= len(rows) <= 1026
        assert (np.diff(rows) > 0).all()
    assert all(len(np.intersect1d(*pair)) < 700 for pair in itertools.combinations(looks, 2))


def test_all_are_compared_where_that_is_asked_for():
    np.testing.assert_array_equal(verified_rows(10_000, ANY, most=10_000), np.arange(10_000))


# Error norms

SOME = np.array([[1.0, 2.0, 2.0], [0.0, 0.0, -5.0], [1e-8, 0.0, 0.0]])


def test_equal_accelerations_have_no_error():
    expected = Errors(error_max=0.0, error_rms=0.0, error_median=0.0, error_p90=0.0, error_p99=0.0, error_rows=3)
    assert compare(SOME, SOME.copy()) == expected


def test_known_errors_give_known_norms():
    errors = compare(SOME + np.array([[0.0, 0.0, 0.3], [0.0, 0.4, -0.3], [0.0, 0.0, 0.0]]), SOME)
    assert errors.error_max == pytest.approx(0.1)
    assert errors.error_rms == pytest.approx(math.sqrt((0.1**2 + 0.1**2) / 3))
    assert errors.error_rows == 3


def test_a_quantile_is_the_error_that_so_many_bodies_do_not_exceed():
    exact = np.tile([0.0, 3.0, 4.0], (1001, 1))
    relative = np.random.default_rng(1).permutation(np.linspace(0, 1, 1001))
    errors = compare(exact * (1 + relative[:, None]), exact)
    found = [getattr(errors, name) for name in QUANTILES.values()]
    assert found == pytest.approx(list(QUANTILES))


def test_the_error_is_relative_to_each_body_however_small_its_acceleration():
    spoilt = SOME.copy()
    spoilt[2, 0] *= 2
    assert compare(spoilt, SOME).error_max == pytest.approx(1.0)


def test_an_acceleration_that_points_elsewhere_is_an_error_though_as_large():
    turned = SOME.copy()
    turned[1] = [5.0, 0.0, 0.0]
    assert compare(turned, SOME).error_max == pytest.approx(math.sqrt(2))


def test_where_nothing_pulls_zero_is_right_and_anything_else_infinitely_wrong():
    nothing = np.zeros((1, 3))
    assert compare(nothing, nothing).error_max == 0.0
    errors = compare(np.array([[0.0, 1e-30, 0.0]]), nothing)
    assert errors.error_max == math.inf
    assert errors.error_rms == math.inf


@pytest.mark.parametrize("reference_size", [0.0, 1.0])
@pytest.mark.parametrize("place", [(0, 0), (2, 1)])
def test_a_single_nan_makes_both_errors_nan(place, reference_size):
    spoilt = SOME.copy()
    spoilt[place] = math.nan
    errors = compare(spoilt, SOME * reference_size)
    assert math.isnan(errors.error_max)
    assert math.isnan(errors.error_rms)


@pytest.mark.parametrize("infinite", [math.inf, -math.inf])
def test_an_infinite_acceleration_is_infinitely_wrong(infinite):
    spoilt = SOME.copy()
    spoilt[1, 2] = infinite
    assert compare(spoilt, SOME).error_max == math.inf


def test_accelerations_in_float32_are_compared_in_float64():
    single = np.array([[1.0 + 2**-23, 0.0, 0.0]], dtype=np.float32)
    assert compare(single, np.array([[1.0, 0.0, 0.0]])).error_max == 2**-23


accelerations = st.lists(st.tuples(*[st.floats(0.1, 10.0)] * 3), min_size=1, max_size=20).map(np.array)


@settings(max_examples=100, deadline=None)
@given(accelerations, st.floats(1e-6, 10.0), st.booleans(), st.data())
def test_one_acceleration_scaled_by_1_plus_x_is_an_error_of_x(exact, x, smaller, data):
    row = data.draw(st.integers(0, len(exact) - 1))
    spoilt = exact.copy()
    spoilt[row] *= 1 - x if smaller else 1 + x
    errors = compare(spoilt, exact)
    assert errors.error_max == pytest.approx(x, rel=1e-8)
    assert errors.error_rms == pytest.approx(x / math.sqrt(len(exact)), rel=1e-8)


# The verdict

LIMITS = Tolerance(max=1e-3, rms=1e-5)


@pytest.mark.parametrize(("largest", "rms"), [(0.0, 0.0), (1e-3, 1e-5), (1e-3, 0.0), (9e-4, 9e-6)])
def test_errors_up_to_the_tolerance_are_right(largest, rms):
    assert objection_to(Errors(error_max=largest, error_rms=rms, error_rows=1), LIMITS) is None


@pytest.mark.parametrize(
    ("largest", "rms", "words"),
    [
        (math.nan, math.nan, "NaN"),
        (math.inf, math.inf, "largest error inf"),
        (1.0011e-3, 1e-6, "largest error 0.001 relative exceeds"),
        (0.5, 0.5, "largest error 0.5 relative exceeds the tolerance of 0.001"),
        (5e-4, 1.2e-5, "rms error 1.2e-05 relative exceeds the tolerance of 1e-05"),
        (5e-4, math.nan, "rms"),
    ],
)
def test_errors_above_the_tolerance_are_an_objection_that_says_which(largest, rms, words):
    assert words in objection_to(Errors(error_max=largest, error_rms=rms, error_rows=1), LIMITS)


# The judge over what a variant has left


def judge_of(found, bodies, tolerance=DIRECT_SUM["float64"], dtype="float64", **options):
    """Return the judge of accelerations that are there already: (n, 3)."""
    columns = tuple(np.ascontiguousarray(column) for column in found.T)
    toolkit = open_toolkit("cpu", discover()["numpy_direct"], dtype)
    prepared = Prepared(options.pop("launch", lambda: None), None, columns, **options)
    return Judge(toolkit, prepared, bodies, tolerance, dtype), columns


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
@pytest.mark.parametrize("column", [0, 2])
def test_a_nan_is_found_outside_of_the_sampled_bodies_too(wrong, column):
    bodies = plummer(4500, 3, 0.05)
    outside = 1234
    found = direct_accelerations(bodies, np.arange(4500))
    assert judge_of(found, bodies)[0].verdict()[1] is None
    judge, columns = judge_of(found, bodies)  # one that does not know what was right
    columns[column][outside] = wrong
    judge._rows = lambda: np.setdiff1d(np.arange(0, 4500, 7), outside)
    errors, objection = judge.verdict()
    assert errors.error_max < 1e-12
    assert objection == "1 accelerations outside of the sample are NaN or infinite"


@pytest.mark.parametrize(("limit", "kind"), [("max", "largest"), ("rms", "rms")])
def test_the_judge_holds_a_variant_to_both_of_its_tolerances(limit, kind):
    bodies = plummer(100, 3, 0.05)
    sums = direct_sums(find(GRAVITY), bodies, np.arange(100), "float64")
    found = sums.exact.copy()
    found[::2] *= 1 + 1e-6
    errors = compare(found, sums.exact, magnitudes=sums.magnitudes)
    own = {"max": errors.error_magnitude_max, "rms": errors.error_magnitude_rms}
    for factor, right in ((1.02, True), (0.98, False)):
        tolerance = Tolerance(**{name: value * (factor if name == limit else 10) for name, value in own.items()})
        judge, _ = judge_of(found, bodies, tolerance)
        assert judge.verdict()[0] == errors
        assert (judge.verdict()[1] is None) == right
        assert right or judge.verdict()[1].startswith(f"{kind} error")


def test_an_approximation_is_judged_by_the_mean_of_one_whole_cycle():
    """Three turns whose errors cancel: a turn alone is wrong, and so is the mean of fewer or of more."""
    bodies = plummer(50, 3, 0.05)
    exact = direct_accelerations(bodies, np.arange(50))
    turns = [0.7, 1.1, 1.2]
    launched = []

    def launch():
        launched.append(turns[len(launched) % 3])
        for place, column in enumerate(columns):
            column[:] = exact[:, place] * launched[-1]

    judge, columns = judge_of(exact * 1.1, bodies, launch=launch, cycle=3)
    errors, objection = judge.verdict()
    assert objection is None
    assert launched == turns
    assert errors.error_max == pytest.approx(0.1)
    assert (errors.cycle, errors.error_cycle_max, errors.error_cycle_rms) == (
        3, pytest.approx(0, abs=1e-14), pytest.approx(0, abs=1e-14),
    )  # fmt: skip
    turns[0] = 0.8
    errors, objection = judge.verdict()
    assert errors.error_cycle_max == pytest.approx(0.1 / 3)
    assert re.search(r"largest error 0\.0\d+ of the sum of the contributions' magnitudes \(0\.033 of", objection)


def cancelling(n, seed):
    """Bodies in pairs on both sides of the first, far away: the pulls on it cancel, and only rounding is left."""
    half = 1e3 + np.random.default_rng(seed).normal(size=(n, 3))
    position = np.vstack([np.full((1, 3), 1e-3), half, -half])
    return Bodies(np.full(2 * n + 1, 1 / n), position, np.zeros_like(position), 0.025)


def test_errors_that_come_from_cancellation_are_not_wrong():
    bodies = cancelling(500, 4)
    sums = direct_sums(find(GRAVITY), bodies, np.arange(bodies.n), "float32")
    # The same sum in another order, in float32.
    order = np.random.default_rng(1).permutation(bodies.n)
    other = Bodies(bodies.mass[order], bodies.position[order], bodies.velocity[order], bodies.eps)
    found = direct_sums(find(GRAVITY), other, np.argsort(order), "float32").plain
    errors = compare(found, sums.exact, magnitudes=sums.magnitudes)
    assert errors.error_max > 2 * DIRECT_SUM["float32"].max
    limits = limits_of(DIRECT_SUM["float32"], sums, comparing.ACCELERATION, "float32")
    assert objection_to(errors, limits) is None
    found[0] += 1e-4 * sums.magnitudes[0]
    assert "largest error 0.0001 of the sum of the contributions' magnitudes" in objection_to(
        compare(found, sums.exact, magnitudes=sums.magnitudes), limits
    )


def stepwise(bodies):
    """Add up in float32 as a kernel with four partial sums does; shape (n, 3)."""
    position, mass = bodies.position.astype(np.float32), bodies.mass.astype(np.float32)
    total = np.zeros((bodies.n, 4, 3), np.float32)
    for j in range(bodies.n):
        apart = position[j] - position
        r2 = (apart * apart).sum(axis=1) + np.float32(bodies.eps**2)
        total[:, j % 4] += (mass[j] / (r2 * np.sqrt(r2)))[:, None] * apart
    return total.sum(axis=1)


FAULTS_OF_SUMS = {
    "scaled by 4e-5": lambda bodies: (bodies, 1 + 4e-5),
    "eps off by 0.01 %": lambda bodies: (Bodies(*shared(bodies), bodies.eps * 1.0001), 1),
    "masses in half precision": lambda bodies: (
        Bodies(bodies.mass.astype(np.float16), *shared(bodies)[1:], bodies.eps), 1,
    ),
    "all masses as the first": lambda bodies: (
        Bodies(np.full(bodies.n, bodies.mass[0]), *shared(bodies)[1:], bodies.eps), 1,
    ),
    "the last body left out": lambda bodies: (
        Bodies(np.append(bodies.mass[:-1], 0), *shared(bodies)[1:], bodies.eps), 1,
    ),
}  # fmt: skip


def shared(bodies):
    return bodies.mass, bodies.position, bodies.velocity


@pytest.mark.parametrize("fault", FAULTS_OF_SUMS)
def test_on_other_bodies_a_small_fault_shows_and_a_right_kernel_passes(fault):
    for seed in range(3):
        other = other_bodies(plummer(1000, seed, 0.025), np.random.default_rng(seed), near=True)
        judge, columns = judge_of(stepwise(other), other, DIRECT_SUM["float32"], dtype="float32")
        assert judge.verdict()[1] is None
        spoilt, factor = FAULTS_OF_SUMS[fault](other)
        for column, values in zip(columns, stepwise(spoilt).T, strict=True):
            column[:] = values * np.float32(factor)
        assert judge.verdict()[1]


def test_forces_that_do_not_cancel_are_found_outside_of_the_sampled_bodies():
    """One body of 5,000 that is not compared, and whose acceleration is that of another."""
    bodies = plummer(5000, 3, 0.05)
    found = direct_accelerations(bodies, np.arange(5000))
    for knows_what_is_right in (False, True):
        judge, columns = judge_of(found, bodies)
        sampled = judge._rows()
        judge._rows = lambda sampled=sampled: np.setdiff1d(sampled, [77])
        assert judge.verdict()[1] is None
        if not knows_what_is_right:
            judge, columns = judge_of(found, bodies)
            judge._rows = lambda sampled=sampled: np.setdiff1d(sampled, [77])
        for column in columns:
            column[77] = column[4078]
        # What has changed is compared too.
        words = "exceeds the tolerance" if knows_what_is_right else "where they have to cancel"
        assert words in judge.verdict()[1]


def test_the_accepted_error_of_a_thousand_bodies_is_what_the_documentation_says():
    sums = direct_sums(find(GRAVITY), plummer(1000, 1, 0.025), np.arange(1000), "float32")
    limits = limits_of(DIRECT_SUM["float32"], sums, comparing.ACCELERATION, "float32")
    assert limits.rms == pytest.approx(1.5e-6, rel=0.15)


def test_all_accelerations_together_are_judged_more_closely_than_each():
    bodies = plummer(2000, 3, 0.05)
    sums = direct_sums(find(GRAVITY), bodies, np.arange(2000), "float32")
    limits = limits_of(DIRECT_SUM["float32"], sums, comparing.ACCELERATION, "float32")
    assert limits.scale < limits.rms / 2
    judged_by = comparing.Reference(sums.exact, sums.magnitudes, comparing.ACCELERATION)
    long, plain, none = (
        judged_by.errors(computed, quantiles=False)[1]
        for computed in (sums.exact * (1 + 1e-6), sums.plain, sums.exact * math.nan)
    )
    assert long == pytest.approx(1e-6)
    assert plain < limits.scale
    assert math.isnan(none)


def test_the_judge_refuses_what_is_too_long_together_though_no_body_is():
    bodies = plummer(2000, 3, 0.05)
    sums = direct_sums(find(GRAVITY), bodies, np.arange(2000), "float32")
    limits = limits_of(DIRECT_SUM["float32"], sums, comparing.ACCELERATION, "float32")
    judge, columns = judge_of(sums.exact, bodies, DIRECT_SUM["float32"], dtype="float32")
    assert judge.verdict()[1] is None
    for column, exact in zip(columns, sums.exact.T, strict=True):
        column[:] = exact * (1 + 1.5 * limits.scale)
    errors, objection = judge.verdict()
    assert objection_to(errors, limits) is None
    assert objection.startswith("all accelerations together are wrong by")


def test_other_bodies_are_near_each_other_and_the_first_and_the_last_are_heavy():
    bodies = plummer(1000, 3, 0.025)
    other = other_bodies(bodies, np.random.default_rng(1), near=True)
    assert np.sqrt(np.mean(other.position**2)) == pytest.approx(bodies.eps)
    assert other.mass.sum() == pytest.approx(bodies.mass.sum())
    assert min(other.mass[[0, -1]]) > 10 * np.median(other.mass)
    as_far = other_bodies(bodies, np.random.default_rng(1), near=False)
    assert np.ptp(as_far.position, axis=0)[2] == pytest.approx(np.ptp(bodies.position, axis=0)[2])


def test_gravity_is_judged_on_near_bodies_and_other_interactions_on_their_own_lengths(monkeypatch):
    asked = []
    monkeypatch.setattr(perturbed, "other_bodies", lambda bodies, _, near: asked.append(near) or bodies)
    bodies = plummer(50, 3, 0.05)
    for interaction in ("gravity", "hermite"):
        toolkit = open_toolkit("numba", discover()["tiled"], "float32", find(interaction))
        prepared = discover()["tiled"].prepare(toolkit, bodies, **discover()["tiled"].complete({"p": 64, "unroll": 8}))
        assert Judge(toolkit, prepared, bodies, DIRECT_SUM["float32"], "float32").elsewhere() is None
    assert asked == [True, False]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_plain_sum_is_that_of_a_loop_in_the_number_type(dtype):
    bodies, real = plummer(60, 3, 0.05), np.dtype(dtype).type
    position, mass = bodies.position.astype(real), bodies.mass.astype(real)
    expected = np.zeros((60, 3), real)
    for j in range(60):
        apart = position[j] - position
        inverse = real(1) / np.sqrt((apart * apart).sum(axis=1) + real(bodies.eps**2))
        expected += (mass[j] * inverse * inverse * inverse)[:, None] * apart
    sums = direct_sums(find(GRAVITY), bodies, np.arange(60), dtype)
    assert sums.plain.dtype == real
    np.testing.assert_allclose(sums.plain, expected, rtol=0, atol=40 * np.finfo(dtype).eps)
    np.testing.assert_allclose(sums.exact, longdouble(bodies, dtype).astype(float), rtol=1e-11, atol=1e-13)
    assert (np.abs(sums.exact) <= sums.magnitudes * (1 + 1e-12)).all()


@pytest.mark.slow
def test_what_numba_keeps_on_the_disk_is_of_the_same_interaction_and_whole(tmp_path, monkeypatch):
    """Two interactions that differ by a constant have the same bytecode, and a disk can lose what was written."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    gravity = (interaction_files.FOLDER / "gravity.py").read_text()
    bodies = plummer(20, 1, 0.1)

    def sums(factor):
        path = tmp_path / f"times_{factor}.py"
        path.write_text(gravity.replace("strength = ", f"strength = {factor}.0 * "))
        _on_cpu.cache_clear()  # as another process
        return direct_sums(find(str(path)), bodies, np.arange(20), "float64").exact

    for _ in range(2):
        expected = sums(3)
        np.testing.assert_allclose(expected, 1.5 * sums(2), rtol=1e-14)
    kept = [path for path in tmp_path.rglob("*sum_rows*") if path.is_file()]
    for suffix in (".nbc", ".nbi"):
        for path in (path for path in kept if path.suffix == suffix):
            path.write_bytes(path.read_bytes()[:50])
        with saying(f"{suffix} cut off"):
            np.testing.assert_array_equal(sums(3), expected)


def test_an_interaction_that_divides_by_zero_gives_what_floating_point_gives(tmp_path):
    """As it does on a GPU, instead of an exception that ends the case."""
    path = tmp_path / "steep.py"
    path.write_text('"""Steep."""\n\n\ndef interact(sums, i, j, eps2):\n    sums.a += j.mass / (j.x - i.x)\n')
    sums = direct_sums(find(str(path)), plummer(5, 1, 0.1), np.arange(5), "float64")
    assert not np.isfinite(sums.exact).any()
    assert not np.isfinite(sums.plain).any()


def test_lengths_whose_squares_no_number_holds_are_right():
    vectors = np.array([[3e200, 4e200, 0], [3e-200, 0, -4e-200], [3, 4, 0], [0, 0, 0], [np.nan, 1, 1]])
    np.testing.assert_allclose(lengths(vectors), [5e200, 5e-200, 5, 0, np.nan], rtol=1e-15)
