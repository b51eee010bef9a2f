"""The force in any unit: what leaves float32 or float64 in metres, parsecs, grams or solar masses."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from gravbench import accelerations
from gravbench.accelerations import DTYPES, force
from gravbench.errors import InputError
from gravbench.model import units
from gravbench.toolkits.cpu import CpuToolkit
from test_fastest import only, saved
from test_public_names import _OnDevice

GENERATOR = np.random.default_rng(1)
X, XI = GENERATOR.normal(50, 3, (50, 3)), GENERATOR.normal(50, 3, (20, 3))
M = np.full(50, 1 / 50)
EPS2 = 0.01
ERROR = 1e-3


def direct(x, m, xi, eps2):
    """Add up the pulls in float64."""
    apart = x[None] - xi[:, None]
    return ((m / ((apart**2).sum(-1) + eps2) ** 1.5)[..., None] * apart).sum(1)


UNIT_PULLS = {False: direct(X, M, X, EPS2), True: direct(X, M, XI, EPS2)}


def relative_errors(found, expected):
    unit = np.abs(expected).max()  # squares stay within float64
    return np.linalg.norm((found - expected) / unit, axis=1) / np.linalg.norm(expected / unit, axis=1)


def in_units(length, mass, *, two_sets, place=np.asarray, **options):
    """Call the force in units of 10^length and 10^mass; return errors relative to the pulls, and the number type."""
    sets = [place(x * 10.0**length) for x in ((X, XI) if two_sets else (X,))]
    found = force(sets[0], place(M * 10.0**mass), *sets[1:], eps2=EPS2 * 10.0 ** (2 * length), **options)
    found = found if isinstance(found, np.ndarray) else found.get()
    expected = UNIT_PULLS[two_sets] * 10.0 ** (mass - 2 * length)
    return relative_errors(found.astype(float), expected).max(), found.dtype.name


def float32_holds(length, mass, two_sets):
    sizes = np.abs(UNIT_PULLS[two_sets]).max(axis=1) * 10.0 ** (mass - 2 * length)
    return sizes.min() >= np.finfo("f4").tiny and sizes.max() <= np.finfo("f4").max


ORDERS = st.integers(-20, 20)


@settings(deadline=None)  # the first calls compile
@given(length=ORDERS, mass=ORDERS, two_sets=st.booleans(), dtype=st.sampled_from([None, *DTYPES]))
@example(length=0, mass=0, two_sets=False, dtype=None)
@example(length=20, mass=-20, two_sets=False, dtype="float32")
@example(length=-20, mass=20, two_sets=True, dtype="float32")
@example(length=20, mass=20, two_sets=False, dtype=None)
@example(length=-20, mass=-20, two_sets=True, dtype="float64")
def test_every_unit_gives_the_same_accelerations(length, mass, two_sets, dtype):
    holds = float32_holds(length, mass, two_sets)
    if dtype == "float32" and not holds:
        with pytest.raises(
            InputError, match=r"the accelerations are 1e.*, beyond float32; accepted: dtype float64, or"
        ):
            in_units(length, mass, two_sets=two_sets, dtype=dtype, toolkit="cpu")
        return
    largest, found = in_units(length, mass, two_sets=two_sets, dtype=dtype, toolkit="cpu")
    assert found == (dtype or ("float32" if holds else "float64"))
    assert largest < (1e-9 if dtype == "float64" else 1e-4)


@settings(deadline=None)
@given(length=ORDERS, mass=ORDERS)
@example(length=20, mass=-20)
@example(length=-20, mass=20)
def test_a_tree_is_right_in_every_unit(tmp_path_factory, length, mass):
    path = saved(only("cpu", "barnes_hut_cpu"), tmp_path_factory.mktemp("units"))
    largest, _ = in_units(length, mass, two_sets=False, toolkit="cpu", table=path, error=0.1)
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
    length = np.ldexp(1.0, int(np.log2(max(np.sqrt(eps2), np.abs(x).max()))))
    expected = direct(x / length, m, xi / length, eps2 / length / length) / length / length
    found = force(x, m, None if xi is x else xi, eps2=eps2, dtype=dtype, toolkit="cpu")
    assert relative_errors(found, expected).max() < (1e-9 if dtype else ERROR)


@pytest.mark.parametrize(
    ("x", "m", "eps2", "dtype", "message"),
    [
        (X, M, 1e300, None, "the accelerations are 1e-450.*, beyond float64; accepted: positions, masses and eps2 in"),
        (X, M, 1e30, "float32", "the accelerations are 1e-4. to 1e-4., beyond float32; accepted: dtype float64"),
        (X, M * 1e45, 1e-4, "float32", "the accelerations are 1e4. to 1e4"),
        (X * 1e30, M, EPS2, "float32", "positions of up to 5.8e.31, a softening length of 0.1 .* fit into float32 tog"),
        (X * 1e200, M, EPS2, None, "do not fit into float64 together; accepted: values that differ less"),
        (X, np.append(M[1:], 1e-40), EPS2, "float32", "masses that differ by a factor of .*e.38 do not fit"),
    ],
)  # fmt: skip
def test_what_no_number_holds_is_refused(x, m, eps2, dtype, message):
    with pytest.raises(InputError, match=message) as raised:
        force(x, m, eps2=eps2, dtype=dtype, toolkit="cpu")
    assert "\n" not in str(raised.value)


def test_masses_that_differ_too_much_for_float32_are_computed_in_float64():
    x, m = np.array([[0.0, 0, 0], [1, 0, 0]]), np.array([1.0, 1e-40])
    found = force(x, m, eps2=EPS2, toolkit="cpu")
    assert found.dtype == np.float64
    assert_allclose(found[:, 0], np.array([1e-40, -1]) / 1.01**1.5, rtol=1e-9)


def test_negative_masses_use_no_tree(tmp_path):
    path = saved(only("cpu", "barnes_hut_cpu"), tmp_path)
    masses = np.where(np.arange(50) % 2, M, -M)
    found = force(X, masses, eps2=EPS2, table=path, error=0.1, toolkit="cpu")
    assert relative_errors(found, direct(X, masses, X, EPS2)).max() < 1e-4


@pytest.mark.parametrize("largest", [5e-324, 1e-310, 1.0, 1.5, 1.7976931348623157e308])
def test_a_unit_of_mass_is_a_power_of_two(largest):
    unit = float(units.mass_unit(largest))
    assert np.frexp(unit)[0] == 0.5
    assert 1 <= largest / unit < 2
    assert units.mass_unit(0.0) == 1


@pytest.fixture
def on_device(monkeypatch):
    """Take arrays of the host for CuPy's, at whose values nothing may look, and compute on the processor."""
    monkeypatch.setattr(accelerations, "CUPY", "cpu")
    monkeypatch.setattr(CpuToolkit, "download", lambda _, array: np.asarray(array))
    monkeypatch.setattr(CpuToolkit, "upload", lambda self, array: np.array(array, self.real, order="C").view(_OnDevice))

    def computed(*arrays, **options):
        with np.errstate(all="ignore"):
            return np.asarray(force(*(np.asarray(array).view(_OnDevice) for array in arrays), **options))

    return computed


@pytest.mark.parametrize("two_sets", [False, True])
@pytest.mark.parametrize("dtype", [None, *DTYPES])
def test_arrays_on_a_device_are_scaled_without_looking_at_them(two_sets, dtype, on_device):
    for length in range(-20, 21, 10):
        for mass in range(-20, 21, 10):
            sets = [x * 10.0**length for x in ((X, XI) if two_sets else (X,))]
            found = on_device(sets[0], M * 10.0**mass, *sets[1:], eps2=EPS2 * 10.0 ** (2 * length), dtype=dtype)
            if dtype != "float64" and not float32_holds(length, mass, two_sets):
                assert np.isnan(found).any()
                continue
            errors = relative_errors(found, UNIT_PULLS[two_sets] * 10.0 ** (mass - 2 * length))
            assert errors.max() < (1e-9 if dtype == "float64" else 1e-4)


NONE = [(0, np.nan), (0, np.inf), (0, 1e300), (1, np.nan), (1, np.inf), (1, 1e300)]


@pytest.mark.parametrize(("array", "value"), NONE)
def test_what_cannot_be_held_on_a_device_is_nan(array, value, on_device):
    arrays = [X.copy(), M.copy()]
    arrays[array][3] = value
    assert np.isnan(on_device(*arrays, eps2=EPS2)).all()
    assert np.isnan(on_device(*arrays, XI, eps2=EPS2)).all()
    assert_array_equal(on_device(X, 0 * M, eps2=EPS2), np.zeros((50, 3)))


@pytest.mark.gpu
@pytest.mark.parametrize("there", [True, False], ids=["on the device", "on the host"])
@pytest.mark.parametrize("two_sets", [False, True])
@pytest.mark.parametrize("dtype", [None, *DTYPES])
def test_every_unit_gives_the_same_accelerations_on_a_gpu(there, two_sets, dtype, need_toolkit):
    need_toolkit("cupy")
    import cupy

    place = cupy.asarray if there else np.asarray
    for length in range(-20, 21, 5):
        for mass in range(-20, 21, 5):
            what = {"two_sets": two_sets, "dtype": dtype, "toolkit": "cupy", "place": place}
            if dtype != "float64" and not float32_holds(length, mass, two_sets):
                if there:
                    assert np.isnan(in_units(length, mass, **what)[0])
                elif dtype:
                    with pytest.raises(InputError, match="beyond float32"):
                        in_units(length, mass, **what)
                else:
                    assert in_units(length, mass, **what)[1] == "float64"
                continue
            assert in_units(length, mass, **what)[0] < (1e-9 if dtype == "float64" else 1e-4), (length, mass)


@pytest.mark.gpu
@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_of_units_on_a_device(name, need_toolkit):
    need_toolkit("cupy")
    import cupy

    x, m, xi, eps2 = EXAMPLES[name]
    length = np.ldexp(1.0, int(np.log2(max(np.sqrt(eps2), np.abs(x).max()))))
    expected = direct(x / length, m, xi / length, eps2 / length / length) / length / length
    there = [cupy.asarray(array) for array in ((x, m) if xi is x else (x, m, xi))]
    found = force(*there, eps2=eps2).get()
    sizes = np.abs(expected).max(axis=1)
    if sizes.min() < np.finfo("f4").tiny or sizes.max() > np.finfo("f4").max:
        assert np.isnan(found).any()
    elif not np.isnan(found).any():
        assert relative_errors(found, expected).max() < ERROR
    else:  # the host does not know how far apart positions are for their softening
        assert np.abs(x).max() / np.sqrt(eps2) > 1e10


@pytest.mark.gpu
def test_numbers_on_a_device_that_are_none_give_nan(need_toolkit):
    need_toolkit("cupy")
    import cupy

    for array, value in NONE:
        arrays = [X.copy(), M.copy()]
        arrays[array][3] = value
        assert np.isnan(force(*map(cupy.asarray, arrays), eps2=EPS2).get()).all(), (array, value)
    zeros = force(cupy.asarray(X), cupy.zeros(50), eps2=EPS2)
    assert_array_equal(zeros.get(), np.zeros((50, 3)))
