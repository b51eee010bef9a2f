"""The force in any unit: what leaves float32 or float64 in metres, parsecs, grams or solar masses."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from gravbench.accelerations import force
from gravbench.errors import InputError
from gravbench.model import units
from gravbench.verdicts.arguments import DTYPES
from test_fastest import only, saved

GENERATOR = np.random.default_rng(1)
X, XI = GENERATOR.normal(50, 3, (50, 3)), GENERATOR.normal(50, 3, (20, 3))
M = np.full(50, 1 / 50)
EPS2 = 0.01
ERROR = 1e-3


def direct(x, m, xi, eps2):
    """Add up the pulls in float64."""
    apart = x[None] - xi[:, None]
    return ((m / ((apart**2).sum(-1) + eps2) ** 1.5)[..., None] * apart).sum(1)


def exact(x, m, xi, eps2, unit):
    """Add up the pulls in float64, with lengths in a unit: a power of two, so that it rounds nothing."""
    return direct(x / unit, m, xi / unit, eps2 / unit / unit) / unit / unit


UNIT_PULLS = {False: direct(X, M, X, EPS2), True: direct(X, M, XI, EPS2)}


def relative_errors(found, expected):
    unit = np.abs(expected).max()  # squares stay within float64
    return np.linalg.norm((found - expected) / unit, axis=1) / np.linalg.norm(expected / unit, axis=1)


def in_units(length, mass, *, two_sets, place=np.asarray, offset=0.0, **options):
    """Call the force in units of 10^length and 10^mass; return errors relative to the pulls, and the number type."""
    x, xi = ((positions + offset) * 10.0**length for positions in (X, XI))
    m, eps2 = M * 10.0**mass, EPS2 * 10.0 ** (2 * length)
    result = force(place(x), place(m), *([place(xi)] if two_sets else []), eps2=eps2, **options)
    result = result if isinstance(result, np.ndarray) else result.get()
    expected = exact(x, m, xi if two_sets else x, eps2, np.exp2(np.floor(np.log2(10.0**length))))
    return relative_errors(result.astype(float), expected).max(), result.dtype.name


SMALLEST = float(np.finfo("f4").tiny)


def float32_holds(length, mass, two_sets, least=SMALLEST):
    sizes = np.abs(UNIT_PULLS[two_sets]).max(axis=1) * 10.0 ** (mass - 2 * length)
    return sizes.min() >= least and sizes.max() <= np.finfo("f4").max


ORDERS = st.integers(-20, 20)
MASS_ORDERS = st.integers(-60, 60)
OFFSETS = st.sampled_from([0.0, *(sign * 10.0**order for order in range(2, 10) for sign in (1, -1))])
"""Up to 1e8 times the extent of the bodies, whose coordinates differ by some 10."""


@settings(deadline=None)  # the first calls compile
@given(length=ORDERS, mass=MASS_ORDERS, offset=OFFSETS, two_sets=st.booleans(), dtype=st.sampled_from([None, *DTYPES]))
@example(length=0, mass=0, offset=0.0, two_sets=False, dtype=None)
@example(length=20, mass=-20, offset=0.0, two_sets=False, dtype="float32")
@example(length=-20, mass=20, offset=0.0, two_sets=True, dtype="float32")
@example(length=20, mass=20, offset=0.0, two_sets=False, dtype=None)
@example(length=-20, mass=-20, offset=0.0, two_sets=True, dtype="float64")
@example(length=10, mass=60, offset=0.0, two_sets=False, dtype=None)
@example(length=0, mass=0, offset=1e9, two_sets=False, dtype="float32")
@example(length=3, mass=0, offset=-1e9, two_sets=True, dtype="float32")
def test_every_unit_and_any_origin_give_the_same_accelerations(length, mass, offset, two_sets, dtype):
    holds = float32_holds(length, mass, two_sets)
    options = {"two_sets": two_sets, "offset": offset, "dtype": dtype, "toolkit": "cpu"}
    if dtype == "float32" and not holds:
        with pytest.raises(
            InputError, match=r"the accelerations are 1e.*, beyond float32; accepted: dtype float64, or"
        ):
            in_units(length, mass, **options)
        return
    largest, number_type = in_units(length, mass, **options)
    assert number_type == (dtype or ("float32" if holds else "float64"))
    assert largest < (1e-9 if dtype == "float64" else 1e-4)


@settings(deadline=None)
@given(length=ORDERS, mass=MASS_ORDERS, offset=OFFSETS)
@example(length=20, mass=-20, offset=0.0)
@example(length=-20, mass=20, offset=1e9)
def test_a_tree_is_right_in_every_unit(tmp_path_factory, length, mass, offset):
    path = saved(only("cpu", "barnes_hut_cpu"), tmp_path_factory.mktemp("units"))
    largest, _ = in_units(length, mass, offset=offset, two_sets=False, toolkit="cpu", table=path, error=0.1)
    assert largest < 0.05


def test_powers_of_two_give_the_same_bits():
    plain = force(X, M, eps2=EPS2, toolkit="cpu")
    for power in (-12, -3, 1, 4, 30):
        scaled = force(np.ldexp(X, power), M, eps2=np.ldexp(EPS2, 2 * power), toolkit="cpu")
        assert_array_equal(scaled, np.ldexp(plain, -2 * power))
        assert_array_equal(force(X, np.ldexp(M, power), eps2=EPS2, toolkit="cpu"), np.ldexp(plain, power))


EXAMPLES = {
    "x * 1e14": (X * 1e14, M, X * 1e14, 1e26),
    "x * 1e15": (X * 1e15, M, X * 1e15, 1e26),
    "two sets at x * 1e15": (X * 1e15, M, XI * 1e15, 1e26),
    "eps2 of 1e30": (X, M, X, 1e30),
    "m * 1e38": (X, M * 1e38, X, EPS2),
    "m * 1e-40": (X, M * 1e-40, X, EPS2),
    "m * 1e-42": (X, M * 1e-42, X, EPS2),
    "m * 1e-300": (X, M * 1e-300, X, EPS2),
    "the smallest eps2": (X * 1e-162, M * 1e-100, XI * 1e-162, 5e-324),
    "eps far smaller than positions": (X * 1e15, M, X * 1e15, 1.0),
    "SI": (X * 1.5e11, M * 2e30, X * 1.5e11, 1e18),
}


@pytest.mark.parametrize(("x", "m", "xi", "eps2"), EXAMPLES.values(), ids=EXAMPLES)
@pytest.mark.parametrize("dtype", [None, "float64"])
def test_examples_of_units(x, m, xi, eps2, dtype):
    check_example(x, m, xi, eps2, dtype)


def check_example(x, m, xi, eps2, dtype):
    unit = np.ldexp(1.0, int(np.log2(max(np.sqrt(eps2), np.abs(x).max()))))
    result = force(x, m, None if xi is x else xi, eps2=eps2, dtype=dtype, toolkit="cpu")
    assert relative_errors(result, exact(x, m, xi, eps2, unit)).max() < (1e-9 if dtype == "float64" else ERROR)
    return result


def test_float32_holds_positions_that_are_far_apart_for_their_softening():
    assert check_example(*EXAMPLES["eps far smaller than positions"], "float32").dtype == np.float32


@pytest.mark.parametrize(
    ("x", "m", "eps2", "dtype", "message"),
    [
        (X, M, 1e300, None, "the accelerations are 1e-450.*, beyond float64; accepted: positions, masses and eps2 in"),
        (X, M, 1e30, "float32", "the accelerations are 1e-4. to 1e-4., beyond float32; accepted: dtype float64"),
        (X, M * 1e45, 1e-4, "float32", "the accelerations are 1e4. to 1e4"),
        (X * 1e30, M, EPS2, "float32", "positions that differ by 9.2e.30, a softening length of 0.1 .* float32 tog"),
        (X * 1e200, M, EPS2, None, "do not fit into float64 together; accepted: values that differ less"),
        (1.7e308 * np.eye(2, 3) - 0.8e308, M[:2], EPS2, None, "do not fit into float64 together"),
        (1.7e308 * np.array([[1, 0, 0], [-1, 0, 0]]), M[:2], EPS2, None, "positions differ by more than float64 holds"),
        (X[:2], np.array([1, 1e-40]), EPS2, "float32", "differ by a factor of 1e.40 do not fit into float32"),
        (X[:2], np.array([1, 1e-310]), EPS2, None, "differ by a factor of inf do not fit into float64"),
    ],
)  # fmt: skip
def test_what_no_number_holds_is_refused(x, m, eps2, dtype, message):
    with pytest.raises(InputError, match=message) as raised:
        force(x, m, eps2=eps2, dtype=dtype, toolkit="cpu")
    assert "\n" not in str(raised.value)


def test_bodies_that_float32_does_not_hold_are_computed_again_in_float64(tmp_path):
    x, m = np.array([[0.0, 0, 0], [1, 0, 0]]), np.array([1.0, 1e-40])
    for two_sets in (False, True):
        result, used = force(x, m, *([x.copy()] if two_sets else []), eps2=EPS2, toolkit="cpu", return_choice=True)
        assert (result.dtype, used.dtype, used.result_dtype, used.in_float64) == ("f8", "float32", "float64", 1)
        assert ", 1 bodies again in float64, given as float64: " in str(used)
        assert_allclose(result[:, 0], np.array([1e-40, -1]) / 1.01**1.5, rtol=1e-6)
        assert result[0, 0] == pytest.approx(1e-40 / 1.01**1.5, rel=1e-12)
    # A tree of many bodies of which some hardly pull anything: only the one that they alone pull is computed again.
    m = np.where(np.arange(50) % 2, 1e-45, 1.0) * (np.arange(50) < 49)
    m[0] = 1e20
    path = saved(only("cpu", "barnes_hut_cpu"), tmp_path)
    result, used = force(X, m, eps2=EPS2, toolkit="cpu", table=path, error=0.1, return_choice=True)
    assert (used.variant, used.dtype, used.in_float64) == ("barnes_hut_cpu", "float32", 0)
    assert relative_errors(result, direct(X, m, X, EPS2)).max() < 0.05
    with np.errstate(all="raise"):
        assert force(X[:1], M[:1], eps2=EPS2, toolkit="cpu").tolist() == [[0, 0, 0]]


FAINT = {
    # The first body is pulled by the second alone, whose mass has few digits in float32.
    "mass": ([[0, 0, 0], [1e-9, 0, 0], [1, 0, 0]], [1, 3e-45, 0], 1e-9),
    # Here mass / r^3 has few digits.
    "mass / r^3": ([[0, 0, 0], [1e9, 0, 0]], [1, 5e-17], 1.86e-9),
}


@pytest.mark.parametrize("name", FAINT)
def test_a_pull_that_loses_digits_by_underflow_is_computed_again(name):
    x, m, eps = FAINT[name]
    expected = direct(np.array(x), np.array(m), np.array(x), eps**2)
    for two_sets in (False, True):
        result, used = force(x, m, *([x] if two_sets else []), eps2=eps**2, toolkit="cpu", return_choice=True)
        assert used.in_float64 >= 1
        assert relative_errors(result[:2], expected[:2]).max() < 1e-6
        assert result[0, 0] == pytest.approx(expected[0, 0], rel=1e-9)


def test_a_large_error_allows_no_more_underflow():
    x, m = [[0, 0, 0], [1e9, 0, 0]], [1, 1e-9]
    again = [
        force(x, m, eps2=1.86e-9**2, error=error, toolkit="cpu", return_choice=True)[1].in_float64
        for error in (1e-3, 1.0)
    ]
    assert again == [1, 1]


def solar_system(asteroids):
    """The Sun and eight planets in metres and kilograms, and asteroids of 10^12 kg."""
    distances = np.array([0, 0.39, 0.72, 1, 1.52, 5.2, 9.5, 19.2, 30]) * 1.496e11
    angles = np.random.default_rng(1).uniform(0, 6, 9)
    planets = np.stack([distances * np.cos(angles), distances * np.sin(angles), np.zeros(9)], axis=1)
    masses = np.array([1.99e30, 3.3e23, 4.87e24, 5.97e24, 6.4e23, 1.9e27, 5.7e26, 8.7e25, 1e26])
    small = np.random.default_rng(2).normal(size=(asteroids, 3)) * 2.5 * 1.496e11
    return np.concatenate([planets, small]), np.append(masses, np.full(asteroids, 1e12))


SYSTEMS = [(asteroids, eps) for asteroids in (0, 100) for eps in (1e7, 1e6, 1e3, 1.0)]


@pytest.mark.parametrize(("asteroids", "eps"), SYSTEMS)
def test_a_solar_system_in_si_units_fits_into_float32(asteroids, eps):
    x, m = solar_system(asteroids)
    result = force(x, m, eps2=eps**2, dtype="float32", toolkit="cpu")
    assert relative_errors(result, direct(x, m, x, eps**2)).max() < ERROR


@pytest.mark.parametrize("place", [0, -1])
def test_a_body_far_away_takes_no_digits_from_bodies_near_the_origin(place):
    x = X[:20] * 1e-7 - 50e-7
    x[place] = 1
    for origin in ([0, 0, 0], [1e-7, 1e-7, 1e-7]):
        result = force(x + origin, M[:20], eps2=1e-16, toolkit="cpu", dtype="float32")
        assert relative_errors(result, direct(x + origin, M[:20], x + origin, 1e-16)).max() < 1e-4


@pytest.mark.parametrize("on_device", [False, True])
def test_no_axis_loses_digits_because_another_is_far_from_the_origin(on_device):
    x = np.array([[10, 0.5, 0], [10.5, 1e-12, 0], [10.5, -1e-12, 0]])
    moved = x - units.scaled({"xj": x, "mj": np.ones(3)}, 1e-24, on_device=on_device).origin
    assert_array_equal(moved[:, 0], [0, 0.5, 0.5])
    assert_array_equal(moved[:, 1:], x[:, 1:])


def test_digits_that_an_array_of_float32_lacks_are_not_restored():
    x = (X + 1e4).astype(np.float32)
    result = force(x, M, eps2=EPS2, toolkit="cpu")
    assert relative_errors(result, direct(x.astype(float), M, x.astype(float), EPS2)).max() < 1e-4
    assert relative_errors(result, UNIT_PULLS[False]).max() > 1e-4


def test_negative_masses_use_no_tree(tmp_path):
    path = saved(only("cpu", "barnes_hut_cpu"), tmp_path)
    masses = np.where(np.arange(50) % 2, M, -M)
    result = force(X, masses, eps2=EPS2, table=path, error=0.1, toolkit="cpu")
    assert relative_errors(result, direct(X, masses, X, EPS2)).max() < 1e-4


@pytest.mark.parametrize("largest", [5e-324, 1e-310, 1.0, 1.5, 1.7976931348623157e308])
def test_a_unit_of_mass_is_a_power_of_two(largest):
    unit = float(units.mass_unit(largest))
    assert np.frexp(unit)[0] == 0.5
    assert 1 <= largest / unit < 2
    assert units.mass_unit(0.0) == 1


@pytest.mark.gpu
@pytest.mark.parametrize("there", [True, False], ids=["on the device", "on the host"])
@pytest.mark.parametrize("two_sets", [False, True])
@pytest.mark.parametrize("dtype", [None, *DTYPES])
def test_every_unit_gives_the_same_accelerations_on_a_gpu(there, two_sets, dtype, need_toolkit):
    need_toolkit("cupy")
    import cupy

    place = cupy.asarray if there else np.asarray
    # A device makes zero of components below the smallest normal number.
    least = float(np.finfo("f4").tiny) / (units.accuracy("float32", 1e-3) if there else 1)
    for length in range(-20, 21, 5):
        for mass in range(-20, 21, 5):
            what = {"two_sets": two_sets, "dtype": dtype, "toolkit": "cupy", "place": place}
            if dtype != "float64" and not float32_holds(length, mass, two_sets, least):
                if there:
                    assert np.isnan(in_units(length, mass, **what)[0])
                elif dtype:
                    with pytest.raises(InputError, match="beyond float32"):
                        in_units(length, mass, **what)
                else:
                    assert in_units(length, mass, **what)[1] == "float64"
                continue
            assert in_units(length, mass, **what)[0] < (1e-9 if dtype == "float64" else 1e-4), (length, mass)
