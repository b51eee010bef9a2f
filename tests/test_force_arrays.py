"""What the force takes for arrays and number types, and what it refuses in one sentence."""

import inspect
import re
import subprocess
import sys
from collections import deque

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_array_equal

from conftest import GPUS
from gravbench.accelerations import force
from gravbench.errors import InputError
from gravbench.model.toolkits import catalogue
from gravbench.toolkits.interface import ToolkitMissingError

GENERATOR = np.random.default_rng(1)
X, M = GENERATOR.normal(size=(6, 3)), np.arange(1.0, 7.0)
EXPECTED = force(X, M, eps2=1, toolkit="cpu")


class _Flattering(np.ndarray):
    """An array that says of itself that it is small."""

    def __abs__(self):
        return np.zeros(self.shape)


class _Overriding(np.ndarray):
    """An array that computes nothing, and becomes zeros."""

    def __array_ufunc__(self, *_, **__):
        raise RuntimeError("two\nlines")

    def max(self, *_, **__):
        raise RuntimeError("two\nlines")

    def astype(self, *_, **__):
        return np.zeros(self.shape)


class _Masked:
    """What NumPy makes a masked array of."""

    def __init__(self, values, mask):
        self.values = np.ma.masked_array(values, mask)

    def __array__(self, *_, **__):
        return self.values


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.longdouble])
@pytest.mark.parametrize("pulled", [None, np.int64, np.float64])
def test_positions_that_float64_would_round_keep_their_digits(dtype, pulled):
    if np.finfo(np.longdouble).nmant < 63:
        pytest.skip("longdouble has no more digits than float64")
    near, far = np.array([[0, 0, 0], [3, 0, 0], [0, 4, 0]]), 10**17
    others = [] if pulled is None else [near[1:].astype(dtype) * 0 + near[1:].astype(dtype)]
    given = [(part + np.array(far, dtype)).astype(dtype) for part in (near.astype(dtype), *others)]
    if pulled is not None:
        given[1] = given[1].astype(pulled)
        others = [given[1].astype(np.longdouble) - far]
    expected = force(near, np.ones(3), *others, eps2=0.01, error=1e-9)
    assert_array_equal(force(given[0], np.ones(3), *given[1:], eps2=0.01, error=1e-9), expected)
    assert expected.any()


class _Raising:
    def __array__(self, *_, **__):
        raise RuntimeError("two\nlines")


@pytest.mark.parametrize(
    ("positions", "masses"),
    [
        (X.tolist(), tuple(M)),
        ([list(row) for row in X], [int(mass) for mass in M]),
        (tuple(map(tuple, X)), range(1, 7)),
        (memoryview(X), memoryview(M)),
        (np.matrix(X), M),
        (X.astype(">f8"), M.astype(np.longdouble)),
        (X.view(_Flattering), M.astype(np.uint8)),
        (X.view(_Overriding), M.view(_Overriding)),
        (deque(X.tolist()), list(M.astype(np.float32))),
        (np.ma.masked_array(X).data, M.astype(np.float16)),
    ],
    ids=[
        "list",
        "lists",
        "tuples",
        "memoryview",
        "matrix",
        "byte order",
        "subclass",
        "overriding",
        "deque",
        "data of masked",
    ],
)
def test_what_numpy_makes_real_numbers_of_is_accepted(positions, masses):
    assert_array_equal(force(positions, masses, eps2=1, toolkit="cpu"), EXPECTED)
    assert_array_equal(force(positions, masses, X, eps2=1, toolkit="cpu"), force(X, M, X.copy(), eps2=1, toolkit="cpu"))


def test_tables_of_pandas_are_accepted():
    pandas = pytest.importorskip("pandas")
    found = force(pandas.DataFrame(X, columns=list("xyz")), pandas.Series(M), eps2=1, toolkit="cpu")
    assert_array_equal(found, EXPECTED)
    with pytest.raises(InputError, match="positions xj are of type DataFrame, objects for NumPy"):
        force(pandas.DataFrame([["a", 1, 2]]), [1], eps2=1, toolkit="cpu")


@pytest.mark.parametrize("dtype", [np.float32, np.dtype("float32"), np.dtype(">f4"), "float32", np.float64, float])
def test_a_number_type_may_be_of_numpy(dtype):
    name = np.dtype(dtype).name
    assert_array_equal(force(X, M, eps2=1, dtype=dtype, toolkit="cpu"), force(X, M, eps2=1, dtype=name, toolkit="cpu"))
    assert force(X, M, eps2=1, dtype=dtype, toolkit="cpu").dtype == name


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.ma.masked_array(X, X > 1), "positions xj are or contain a masked array; accepted: an array without a mask"),
        ([np.ma.masked_array(row, [0, 0, 1]) for row in X], "positions xj are or contain a masked array"),
        (tuple(list(np.ma.masked_array(row, row > 0)) for row in X), "positions xj are or contain a masked array"),
        (_Masked(X, X > 1), "positions xj are or contain a masked array"),
        ([_Masked(row, row > 1) for row in X], "positions xj are or contain a masked array"),
        (deque(np.ma.masked_array(X)), "positions xj are or contain a masked array"),
        ([[1, 2, 3], [4, 5]], r"positions xj are \[\[1, 2, 3\], \[4, 5\]\]; accepted: an array of real numbers"),
        ([], r"positions xj have shape \(0,\)"),
        ([[]], r"positions xj have shape \(1, 0\)"),
        ("positions", r"positions xj have dtype <U9"),
        ([["a", "b", "c"]] * 6, r"positions xj have dtype <U1"),
        (X.astype(object), "positions xj are of type ndarray, objects for NumPy; accepted: real numbers"),
        ([[None] * 3] * 6, "positions xj are of type list, objects for NumPy"),
        ([[10**400] * 3] * 6, "positions xj are of type list, objects for NumPy"),
        (X.astype(complex), "positions xj have dtype complex128"),
        (X > 0, "positions xj have dtype bool"),
        (X.astype("M8[s]"), "positions xj have dtype datetime64"),
        (np.zeros(6, [("x", float)] * 1), "positions xj have dtype"),
        (scipy.sparse.csr_matrix(X), "positions xj are of type csr_matrix, objects for NumPy"),
        ((row for row in X), "positions xj are of type generator, objects for NumPy"),
        ({}, "positions xj are of type dict, objects for NumPy"),
        (None, "positions xj are of type NoneType, objects for NumPy"),
        (5, r"positions xj have shape \(\)"),
        (_Raising(), "positions xj are <test_force_.*>; accepted: an array of real numbers"),
        (np.where(X > 0.5, np.nan, X).view(_Flattering), "positions xj have values that are not finite"),
        ((X * 1e308).astype(np.longdouble) * 1e100, "positions xj have values that are not finite"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_what_is_no_array_of_positions_is_refused(values, message):
    with pytest.raises(InputError, match=message) as raised:
        force(values, M, eps2=1, toolkit="cpu")
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 300


def test_masses_are_named_as_masses():
    masked = np.ma.masked_array(np.where(M > 5, 1e20, M), M > 5)
    for masses, message in (
        (masked, "masses mj are or contain a masked array"),
        ([1, 2, 3, 4, 5, np.ma.masked], "masses mj are or contain a masked array"),
        (tuple(masked), "masses mj are or contain a masked array"),
        (_Masked(M, M > 5), "masses mj are or contain a masked array"),
        (np.where(M > 5, np.nan, M).view(_Flattering), "masses mj have values that are not finite"),
        (M.astype(complex), "masses mj have dtype complex128"),
        (X, r"masses mj have shape \(6, 3\); accepted: \(n,\)"),
    ):
        with pytest.raises(InputError, match=message):
            force(X, masses, eps2=1, toolkit="cpu")
        with pytest.raises(InputError, match=message):
            force(X, masses, X[:2], eps2=1, toolkit="cpu")
    with pytest.raises(InputError, match="positions xi are or contain a masked array"):
        force(X, M, np.ma.masked_array(X), eps2=1, toolkit="cpu")


def test_the_smallest_integer_has_a_size():
    least = np.iinfo(np.int64).min
    numbers = np.full((2, 3), [[least, 0, 0], [least // 2, 0, 0]])
    exact = force(numbers.astype(float), [1, 1], eps2=1e30, toolkit="cpu")
    assert_array_equal(force(numbers, [1, 1], eps2=1e30, toolkit="cpu"), exact)
    with pytest.raises(InputError, match=r"positions that differ by 4.6e\+18"):
        force(numbers, [1, 1], eps2=1e-30, dtype="float32", toolkit="cpu")


def test_the_softening_is_required_by_name():
    assert inspect.signature(force).parameters["eps2"].default is inspect.Parameter.empty
    with pytest.raises(TypeError, match="eps2"):
        force(X, M)
    with pytest.raises(TypeError, match="positional"):
        force(X, M, X, 0.01)


@pytest.mark.skipif(catalogue()["cupy"].missing is None, reason="CuPy is installed")
def test_a_toolkit_that_is_not_installed_says_how_to_install_it():
    for arguments in ((X, M), (X, M, X[:2])):
        with pytest.raises(ToolkitMissingError, match=re.escape("pip install 'gravbench[cuda13]'")):
            force(*arguments, eps2=1, toolkit="cupy")


HIDING_NUMBA_CUDA = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "numba_cuda":
            raise ModuleNotFoundError(name)
# What numba-cuda puts there replaces numba.cuda.
sys.meta_path[:] = [Hidden(), *(one for one in sys.meta_path if "umba" not in f"{type(one).__module__} {one!r}")]
"""
CALL = """
import gravbench
try:
    gravbench.force([[1, 2, 3]], [1], eps2=1, toolkit="numba")
except RuntimeError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.skipif(bool(GPUS), reason="there is a driver")
@pytest.mark.parametrize(
    ("before", "reason"),
    [(HIDING_NUMBA_CUDA, "pip install"), ("", "")],
    ids=["without numba-cuda", "with what is there"],
)
def test_numba_without_a_driver_is_a_missing_toolkit(before, reason):
    done = subprocess.run(
        [sys.executable, "-c", before + CALL], env={"PATH": "/usr/bin"}, capture_output=True, text=True, check=True
    )
    (line,) = done.stdout.splitlines()
    assert line.startswith("ToolkitMissingError ")
    assert reason in line
