"""The judge: if it is wrong, every verdict is, so it is held against two other ways to compute the same."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from direct import direct_accelerations
from gravbench.measuring import verify as reference
from gravbench.measuring.verify import Judge, compare, objection_to, verified_rows
from gravbench.model.bodies import Bodies
from gravbench.model.generators import plummer
from gravbench.model.record import Errors
from gravbench.model.variant import DIRECT_SUM, Prepared, Tolerance, discover
from gravbench.toolkits.opening import open_toolkit


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
    np.testing.assert_allclose(found, direct_accelerations(rounded, rows), rtol=1e-13)
    difference = compare(direct_accelerations(bodies, rows), found)
    assert 1e-9 < difference.error_max < 1e-4, "rounding the bodies shows, and is no error of arithmetic"
    assert not np.array_equal(found, found.astype(np.float32)), "the sum itself is not rounded"


def test_the_pulls_of_all_bodies_cancel():
    bodies = plummer(500, 5, 0.05)
    pulls = bodies.mass[:, None] * direct_accelerations(bodies, np.arange(500))
    assert np.abs(pulls.sum(axis=0)).max() < 1e-13 * np.abs(pulls).sum()


# Which bodies are compared


@pytest.mark.parametrize("n", [1, 2, 1024, 4095, 4096])
def test_up_to_4096_bodies_all_are_compared(n):
    np.testing.assert_array_equal(verified_rows(n), np.arange(n))


@pytest.mark.parametrize("n", [4097, 49_152, 1_000_000])
def test_of_more_bodies_1024_different_ones_are_the_same_each_time(n):
    rows = verified_rows(n)
    assert rows.size == reference.SAMPLED_ROWS == 1024
    assert np.unique(rows).size == 1024
    assert rows.min() >= 0
    assert rows.max() < n
    np.testing.assert_array_equal(rows, verified_rows(n))


@pytest.mark.parametrize("n", [49_152, 1_000_000])
def test_the_sampled_bodies_are_spread_over_all(n):
    # A kernel that leaves out its last block has to be found out.
    in_each_tenth, _ = np.histogram(verified_rows(n), bins=10, range=(0, n))
    assert in_each_tenth.min() > 60


# Error norms

SOME = np.array([[1.0, 2.0, 2.0], [0.0, 0.0, -5.0], [1e-8, 0.0, 0.0]])


def test_equal_accelerations_have_no_error():
    expected = Errors(error_max=0.0, error_rms=0.0, error_median=0.0, error_p99=0.0, error_rows=3)
    assert compare(SOME, SOME.copy()) == expected


def test_known_errors_give_known_norms():
    errors = compare(SOME + np.array([[0.0, 0.0, 0.3], [0.0, 0.4, -0.3], [0.0, 0.0, 0.0]]), SOME)
    assert errors.error_max == pytest.approx(0.1)
    assert errors.error_rms == pytest.approx(math.sqrt((0.1**2 + 0.1**2) / 3))
    assert errors.error_rows == 3


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
        (math.inf, math.inf, "largest relative error inf"),
        (1.0011e-3, 1e-6, "largest relative error 0.001 "),
        (0.5, 0.5, "largest relative error 0.5 is above the variant's tolerance 0.001"),
        (5e-4, 1.2e-5, "rms relative error 1.2e-05 is above the variant's tolerance 1e-05"),
        (5e-4, math.nan, "rms"),
    ],
)
def test_errors_above_the_tolerance_are_an_objection_that_says_which(largest, rms, words):
    assert words in objection_to(Errors(error_max=largest, error_rms=rms, error_rows=1), LIMITS)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_sum_in_its_own_precision_passes_and_one_that_leaves_a_body_out_does_not(dtype):
    bodies = plummer(400, 2, 0.025)
    rows = verified_rows(400)
    exact = direct_accelerations(bodies, rows, dtype)
    assert objection_to(compare(exact.astype(dtype), exact), DIRECT_SUM[dtype]) is None
    fewer = Bodies(bodies.mass.copy(), bodies.position, bodies.velocity, bodies.eps)
    fewer.mass[-1] = 0.0
    assert objection_to(compare(direct_accelerations(fewer, rows, dtype), exact), DIRECT_SUM[dtype])


# The judge over what a variant has left


def judge_of(found, bodies, tolerance=DIRECT_SUM["float64"], **options):
    """Return the judge of accelerations that are there already: (n, 3)."""
    columns = tuple(np.ascontiguousarray(column) for column in found.T)
    toolkit = open_toolkit("cpu", discover()["numpy_direct"], "float64")
    prepared = Prepared(options.pop("launch", lambda: None), None, columns, **options)
    return Judge(toolkit, prepared, bodies, tolerance, "float64"), columns


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
@pytest.mark.parametrize("column", [0, 2])
def test_a_nan_is_found_outside_of_the_sampled_bodies_too(wrong, column):
    bodies = plummer(4500, 3, 0.05)
    rows = verified_rows(4500)
    (outside,) = np.setdiff1d(np.arange(4500), rows)[[1000]]
    judge, columns = judge_of(direct_accelerations(bodies, np.arange(4500)), bodies)
    assert judge.verdict()[1] is None
    columns[column][outside] = wrong
    errors, objection = judge.verdict()
    assert errors.error_max < 1e-12
    assert objection == "1 accelerations outside of the sample are NaN or infinite"


@pytest.mark.parametrize(("limit", "kind"), [("max", "largest"), ("rms", "rms")])
def test_the_judge_holds_a_variant_to_both_of_its_tolerances(limit, kind):
    bodies = plummer(100, 3, 0.05)
    found = direct_accelerations(bodies, np.arange(100))
    found[::2] *= 1 + 1e-6
    errors = compare(found, direct_accelerations(bodies, np.arange(100)))
    own = {"max": errors.error_max, "rms": errors.error_rms}
    for factor, right in ((1.02, True), (0.98, False)):
        tolerance = Tolerance(**{name: value * (factor if name == limit else 10) for name, value in own.items()})
        judge, _ = judge_of(found, bodies, tolerance)
        assert judge.verdict()[0] == errors
        assert (judge.verdict()[1] is None) == right
        assert right or judge.verdict()[1].startswith(f"{kind} relative error")


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
    assert "largest relative error 0.033" in objection


def test_the_last_body_is_always_compared():
    """A kernel that stops short stops there."""
    for n in (4097, 10_000, 65_537):
        assert verified_rows(n)[-1] == n - 1
