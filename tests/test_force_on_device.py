"""The force of CuPy arrays: what is computed without looking at their values, and what is checked at the first call."""

from dataclasses import replace
from time import perf_counter

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from gravbench import accelerations
from gravbench.accelerations import force
from gravbench.model import crowds, units
from gravbench.model.interaction import GRAVITY
from gravbench.model.interaction_files import find
from gravbench.model.variant import discover
from gravbench.toolkits.cpu import CpuToolkit
from gravbench.verdicts.arguments import DTYPES
from gravbench.verdicts.promise import PAIRS_ON_DEVICE
from test_fastest import errors_of, only, saved, sphere
from test_force_units import (
    ERROR,
    EXAMPLES,
    SYSTEMS,
    XI,
    M,
    X,
    direct,
    exact,
    float32_holds,
    relative_errors,
    solar_system,
)
from test_public_names import _OnDevice

EPS2 = 0.01
SECONDS = 10
"""In which a call has to end on a GPU."""


@pytest.fixture
def on_device(monkeypatch):
    """Take arrays of the host for CuPy's, at whose values nothing may look, and compute on the processor."""
    monkeypatch.setattr(accelerations, "CUPY", "cpu")
    monkeypatch.setattr(accelerations, "_sent", lambda *_: None)
    monkeypatch.setattr(accelerations, "_pairs", lambda *_, **__: PAIRS_ON_DEVICE)
    monkeypatch.setattr(CpuToolkit, "download", lambda _, array: np.asarray(array))
    monkeypatch.setattr(CpuToolkit, "upload", lambda self, array: np.array(array, self.real, order="C").view(_OnDevice))
    accelerations._seen.cache_clear()
    accelerations._kept.cache_clear()

    def computed(*arrays, **options):
        with np.errstate(all="ignore"):
            result = force(*(np.asarray(array).view(_OnDevice) for array in arrays), **options)
        return (np.asarray(result[0]), result[1]) if options.get("return_choice") else np.asarray(result)

    yield computed
    accelerations._seen.cache_clear()
    accelerations._kept.cache_clear()


@pytest.fixture
def downloads(on_device, monkeypatch):  # noqa: ARG001 - which it changes
    """The arrays that were downloaded, which waits for the device."""
    arrays = []
    monkeypatch.setattr(CpuToolkit, "download", lambda _, array: arrays.append(array) or np.asarray(array))
    return arrays


@pytest.fixture
def tree(tmp_path):
    """Options with which a tree of the processor is chosen, and a direct sum if no tree suits."""
    return {
        "eps2": EPS2,
        "table": saved(only("cpu", "barnes_hut_cpu"), tmp_path),
        "error": 0.1,
        "checked": False,
        "return_choice": True,
    }


# Units


@pytest.mark.parametrize("two_sets", [False, True])
@pytest.mark.parametrize("dtype", [None, *DTYPES])
@pytest.mark.parametrize("offset", [0, 1e9])
def test_arrays_on_a_device_are_scaled_without_looking_at_them(two_sets, dtype, offset, on_device):
    for length in range(-20, 21, 10):
        for mass in range(-20, 21, 10):
            x, *xi = [(positions + offset) * 10.0**length for positions in ((X, XI) if two_sets else (X,))]
            m, eps2 = M * 10.0**mass, EPS2 * 10.0 ** (2 * length)
            result = on_device(x, m, *xi, eps2=eps2, dtype=dtype)
            if dtype != "float64" and not float32_holds(length, mass, two_sets):
                assert np.isnan(result).any()
                continue
            errors = relative_errors(result, exact(x, m, xi[0] if xi else x, eps2, np.exp2(length * 3)))
            assert errors.max() < (1e-9 if dtype == "float64" else 1e-4)


@pytest.mark.parametrize(("asteroids", "eps"), SYSTEMS)
def test_a_solar_system_in_si_units_is_computed_on_a_device(asteroids, eps, on_device):
    x, m = solar_system(asteroids)
    assert relative_errors(on_device(x, m, eps2=eps**2), direct(x, m, x, eps**2)).max() < ERROR


NONE = [(0, np.nan), (0, np.inf), (0, 1e300), (1, np.nan), (1, np.inf)]


def with_value(array, value):
    arrays = [X.copy(), M.copy()]
    arrays[array][3] = value
    return arrays


@pytest.mark.parametrize(("array", "value"), NONE)
def test_what_cannot_be_held_on_a_device_is_nan(array, value, on_device):
    assert np.isnan(on_device(*with_value(array, value), eps2=EPS2)).all()
    assert np.isnan(on_device(*with_value(array, value), XI, eps2=EPS2)).all()
    assert_array_equal(on_device(X, 0 * M, eps2=EPS2), np.zeros((50, 3)))
    assert_array_equal(on_device(X[:1], M[:1], eps2=EPS2), np.zeros((1, 3)))


def test_only_those_bodies_are_nan_of_which_pulls_are_lost(on_device):
    # Beside a mass of 1e40, all others are zero in float32: only that mass itself is pulled by nothing but them.
    masses = with_value(1, 1e40)[1]
    result = on_device(X, masses, eps2=EPS2, dtype="float32")
    others = np.arange(50) != 3
    assert np.isnan(result[3]).all()
    assert_array_equal(np.isnan(on_device(X, masses * 1e-30, eps2=EPS2)).any(axis=1), ~others)
    result = on_device(X, masses * 1e-30, eps2=EPS2)
    assert relative_errors(result[others], direct(X, masses * 1e-30, X, EPS2)[others]).max() < ERROR


def test_a_body_is_nan_whose_small_components_a_device_would_make_zero(on_device):
    """Kernels there have no numbers between zero and the smallest normal one."""
    least = float(np.finfo("f4").tiny) / units.accuracy("float32", ERROR)
    length = 1e10
    mass = least * length**2 / np.median(np.abs(direct(X, M, X, EPS2)).max(axis=1))
    expected = direct(X * length, M * mass, X * length, EPS2 * length**2)
    result = on_device(X * length, M * mass, eps2=EPS2 * length**2)
    is_held = np.abs(expected).max(axis=1) >= least
    assert 0 < is_held.sum() < len(X)
    assert_array_equal(np.isnan(result).any(axis=1), ~is_held)
    assert relative_errors(result[is_held], expected[is_held]).max() < ERROR


# What is no number


@pytest.mark.parametrize(("array", "value"), [*NONE, (1, -1.0)])
def test_a_tree_never_has_bodies_that_are_no_numbers(array, value, on_device, tree, monkeypatch):
    seen = []
    launched = accelerations._launched_there
    monkeypatch.setattr(
        accelerations, "_launched_there", lambda *given, **how: seen.append(given[2].arrays) or launched(*given, **how)
    )
    assert on_device(X, M, **tree)[1].variant == "barnes_hut_cpu"
    for arrays in (with_value(array, value), [X * np.nan, M * np.nan]):
        result, used = on_device(*arrays, **tree)
        assert used.variant == "barnes_hut_cpu"
        assert np.isnan(result).all()
        positions, masses = map(np.asarray, (seen[-1]["xj"], seen[-1]["mj"]))
        assert len(np.unique(positions, axis=0)) == 50
        assert np.abs(positions).max() <= 1
        assert_array_equal(masses, np.ones(50))
    result, _ = on_device(X, M, **tree)
    assert relative_errors(result, direct(X, M, X, EPS2)).max() < 0.05


def test_the_line_of_a_million_bodies_has_no_crowd():
    n = 1 << 20
    scaled = units.scaled({"xj": np.zeros((n, 3)), "mj": np.ones(n)}, 1.0, on_device=True)
    line = scaled.or_line(np.bool_(False))
    assert crowds.Kind(line.arrays["mj"], line.arrays["xj"].astype(np.float32)).suits("barnes_hut", {"bits": 10})
    at_one_place = crowds.Kind(line.arrays["mj"], np.zeros((n, 3)))
    assert not at_one_place.suits("barnes_hut", {"bits": 10})
    assert all(at_one_place.suits(name, {"bits": 10}) for name in ("resident_tree", "fast_multipole"))


# What is checked before the first tree


def crowded(n):
    position, mass = sphere(n)
    position[7] = 1e8
    return position, mass


NO_TREES = {
    "negative masses": lambda: (X, np.where(np.arange(50) % 2, M, -M)),
    "one place": lambda: (np.ones((50, 3)), M),
    "a body far away": lambda: crowded(50),
    "no numbers": lambda: (X * np.nan, M),
}


@pytest.mark.parametrize("name", NO_TREES)
def test_bodies_that_no_tree_suits_get_a_direct_sum(name, on_device, downloads, tree, monkeypatch):
    monkeypatch.setattr(crowds, "CROWD", 20)
    x, m = NO_TREES[name]()
    for _ in range(2):
        result, used = on_device(x, m, **tree)
        assert (used.variant, used.dtype) == ("force_between", "float32")
        if name == "no numbers":
            assert np.isnan(result).all()
        elif name == "one place":
            assert not result.any()
        else:
            assert relative_errors(result, direct(x, m, x, EPS2)).max() < ERROR
    # Other bodies are used at once, and for good.
    assert on_device(X, M, **tree)[1].variant == "barnes_hut_cpu"
    downloads.clear()
    assert on_device(X, M, **tree)[1].variant == "barnes_hut_cpu"
    assert not downloads
    assert on_device(x, m, **tree)[1].variant == "barnes_hut_cpu"
    assert np.isnan(on_device(x, m, **tree)[0]).all() == (name in ("negative masses", "no numbers"))
    # For another n or softening, they are checked again.
    for n, eps2 in ((49, EPS2), (50, 2 * EPS2)):
        assert on_device(x[:n], m[:n], **tree | {"eps2": eps2})[1].variant == "force_between"
    assert downloads


@pytest.mark.parametrize("options", [{"checked": False}, {"dtype": "float64"}])
@pytest.mark.parametrize("pulled", [(), (XI,)])
def test_a_direct_sum_in_float64_or_not_to_be_checked_waits_for_nothing(pulled, options, on_device, downloads):
    negative = np.where(np.arange(50) % 2, M, -M)
    options = options | {"eps2": EPS2, "return_choice": True}
    on_device(X, M, *pulled, **options)
    downloads.clear()
    result, used = on_device(X, negative, *pulled, **options)
    assert relative_errors(result, direct(X, negative, *(pulled or (X,)), EPS2)).max() < ERROR
    assert not downloads
    assert (used.sampled_rows, list(used.milliseconds)) == (0, ["choosing", "queueing"])


def test_a_direct_sum_that_needs_positive_masses_is_checked(on_device, downloads, tmp_path, monkeypatch):
    known = dict(discover())
    known["numba_parallel"] = replace(known["numba_parallel"], positive_masses=True)
    for module in (accelerations, crowds):
        monkeypatch.setattr(module, "discover", lambda: known)
    options = {"eps2": EPS2, "table": saved(only("cpu", "numba_parallel"), tmp_path), "return_choice": True}
    negative = np.where(np.arange(50) % 2, M, -M)
    result, used = on_device(X, negative, **options)
    assert used.variant == "force_between"
    assert relative_errors(result, direct(X, negative, X, EPS2)).max() < ERROR
    with np.errstate(all="ignore"):
        assert force(X, negative, **options, toolkit="cpu")[1].variant == "force_between"
    # Thousands of bodies at one place do not matter to it.
    monkeypatch.setattr(crowds, "CROWD", 20)
    assert on_device(np.ones((50, 3)), M, **options)[1].variant == "numba_parallel"
    downloads.clear()
    assert np.isnan(on_device(X, negative, **options, checked=False)[0]).all()
    assert not downloads


def test_tensor_cores_and_trees_are_declared_to_need_positive_masses():
    # Their FP16 numbers are scaled by the largest mass.
    gravity = find(GRAVITY)
    of_largest = {
        name
        for name, variant in discover().items()
        if variant.has_cuda_c and "heaviest = max" in variant.cuda_source(gravity)
    }
    assert of_largest == {"tensor", "tensor_half", "tensor_gpus"}
    assert not any(crowds.is_for_any(discover()[name]) for name in of_largest)
    trees = ("barnes_hut", "barnes_hut_classic", "barnes_hut_cpu", "resident_tree", "fast_multipole")
    assert all(discover()[name].positive_masses for name in trees)
    assert crowds.is_for_any(discover()["symmetric"])


@pytest.mark.parametrize("rows", [slice(1, None, 2), slice(0, None, 2), slice(1, None, 3), slice(4, None, 5)])
def test_a_crowd_is_seen_wherever_it_is_among_the_bodies(rows):
    position, mass = sphere(50_000)
    assert crowds.Kind(mass, position).suits("barnes_hut_cpu", {"bits": 21})
    position[rows] = position[0]
    for lasting in (False, True):
        kind = crowds.Kind(mass, position, lasting=lasting)
        assert not kind.suits("barnes_hut_cpu", {"bits": 21})
        assert kind.suits("numba_parallel", {})
        assert kind.equal_masses != lasting


@pytest.mark.parametrize("n", [crowds.SAMPLE + 1, 1 << 23, 1 << 25, 2**31 - 1])
def test_no_body_is_looked_at_twice(n):
    # One that is would be taken for two in one cell: of so many bodies, two of a sample are a crowd.
    rows = crowds._sampled(n)
    assert len(set(rows.tolist())) == crowds.SAMPLE
    assert 0 <= rows[0] < rows[-1] < n


# On a GPU


@pytest.mark.gpu
@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_of_units_on_a_device(name, need_toolkit):
    need_toolkit("cupy")
    import cupy

    x, m, xi, eps2 = EXAMPLES[name]
    length = np.ldexp(1.0, int(np.log2(max(np.sqrt(eps2), np.abs(x).max()))))
    expected = exact(x, m, xi, eps2, length)
    there = [cupy.asarray(array) for array in ((x, m) if xi is x else (x, m, xi))]
    result = force(*there, eps2=eps2).get()
    sizes = np.abs(expected).max(axis=1)
    if sizes.min() < np.finfo("f4").tiny or sizes.max() > np.finfo("f4").max:
        assert np.isnan(result).any()
    elif not np.isnan(result).any():
        assert relative_errors(result, expected).max() < ERROR
    else:  # the host does not know how far apart positions are for their softening
        assert np.abs(x).max() / np.sqrt(eps2) > 1e14


@pytest.mark.gpu
def test_numbers_on_a_device_that_are_none_give_nan(need_toolkit):
    need_toolkit("cupy")
    import cupy

    for array, value in NONE:
        result = force(*map(cupy.asarray, with_value(array, value)), eps2=EPS2)
        assert np.isnan(result.get()).all(), (array, value)
    zeros = force(cupy.asarray(X), cupy.zeros(50), eps2=EPS2)
    assert_array_equal(zeros.get(), np.zeros((50, 3)))


@pytest.mark.gpu
@pytest.mark.parametrize(("asteroids", "eps"), SYSTEMS)
def test_a_solar_system_in_si_units_is_computed_on_a_gpu(asteroids, eps, need_toolkit):
    need_toolkit("cupy")
    import cupy

    x, m = solar_system(asteroids)
    result = force(cupy.asarray(x), cupy.asarray(m), eps2=eps**2).get()
    assert relative_errors(result, direct(x, m, x, eps**2)).max() < ERROR


@pytest.mark.gpu
def test_digits_of_positions_far_from_the_origin_are_kept_on_a_gpu(need_toolkit):
    need_toolkit("cupy")
    import cupy

    for offset in (1e4, 1e6, 1e9):
        x, xi = X + offset, XI + offset
        for pulled in ((), (xi,)):
            result = force(cupy.asarray(x), cupy.asarray(M), *map(cupy.asarray, pulled), eps2=EPS2, dtype="float32")
            assert relative_errors(result.get(), direct(x, M, *(pulled or (x,)), EPS2)).max() < 1e-4


LARGE = 65_536
WANTED = {"eps2": 0.025**2, "error": 4e-4, "quantile": 0.99, "return_choice": True}
"""Options with which the packaged table has a tree for so many bodies."""


def compiled(**options):
    """Compile a tree, a direct sum and what scales arrays on the device; then forget the bodies of all calls."""
    import cupy

    x, m = sphere(LARGE)
    for arrays in ((x, m), (np.ones_like(x), m), (cupy.asarray(x[:100]), cupy.asarray(m[:100]))):
        force(*arrays, **options, toolkit="cupy")
    cupy.cuda.Device().synchronize()
    accelerations._seen.cache_clear()
    accelerations._kept.cache_clear()
    return x, m


def timed(*arrays, **options):
    """Compute on a GPU, wait for it, and return the accelerations on the host and the variant."""
    import cupy

    began = perf_counter()
    result, used = force(*map(cupy.asarray, arrays), **options)
    result = result.get()
    assert perf_counter() - began < SECONDS
    return result, used.variant


@pytest.mark.gpu
@pytest.mark.parametrize("variant", ["fast_multipole", "resident_tree"])
def test_bodies_that_are_no_numbers_occupy_no_gpu(variant, need_toolkit, tmp_path):
    need_toolkit("cupy")
    options = WANTED | {"table": saved(only("cupy", variant), tmp_path), "error": 0.01, "quantile": 1}
    options["checked"] = False
    x, m = compiled(**options)
    far = np.where(np.arange(LARGE)[:, None] == 5, 1e300, x)
    # Before the first tree for this n, and after it.
    assert np.isnan(timed(x * np.nan, m, **options)[0]).all()
    right, used = timed(x, m, **options)
    assert used == variant
    for arrays in ((x * np.nan, m), (x, m * np.nan), (far, m), (x * 1e30, m), (x, -m)):
        result, used = timed(*arrays, **options)
        assert used == variant
        assert np.isnan(result).all()
    again, _ = timed(x, m, **options)
    assert np.quantile(np.linalg.norm(again - right, axis=1) / np.linalg.norm(right, axis=1), 0.99) < 0.01


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["one place", "a body far away", "negative masses"])
def test_a_gpu_computes_what_is_hard_for_trees(name, need_toolkit):
    need_toolkit("cupy")
    x, m = compiled(**WANTED)
    assert discover()[timed(x[:-1], m[:-1], **WANTED)[1]].approximates
    if name == "one place":
        x = np.ones_like(x)
    elif name == "a body far away":
        x[5] = 1e6
    else:
        m = np.where(np.arange(LARGE) % 2, m, -m / 2)
    for _ in range(2):
        result, used = timed(x, m, **WANTED)
        if name == "one place":
            assert np.abs(result).max() <= 1e-6 * m.sum() / WANTED["eps2"]
            continue
        assert bool(discover()[used].approximates) == (name != "negative masses")
        rows = np.arange(0, LARGE, 1000)
        errors = relative_errors(result[rows], direct(x, m, x[rows], WANTED["eps2"]))
        assert np.quantile(errors, 0.9) < ERROR


@pytest.mark.gpu
@pytest.mark.parametrize("n", [5000, 65_536, 300_000])
def test_a_gpu_compares_a_sample_with_right_sums(n, need_toolkit):
    need_toolkit("cupy")
    import cupy

    position, mass = sphere(n)
    options = {"eps2": EPS2, "error": 0.02, "quantile": 0.99, "return_choice": True, "toolkit": "cupy"}
    for arrays in ((position, mass), (cupy.asarray(position), cupy.asarray(mass))):
        result, used = force(*arrays, **options)
        assert used.error is not None
        rows = np.arange(0, n, max(1, n // 2000))
        result = result if isinstance(result, np.ndarray) else result.get()
        own = errors_of(result, position, mass, "float64", EPS2, rows)
        assert 0.5 < used.sampled_error / own.error_p99 < 2
        assert own.error_p99 <= 0.02


@pytest.mark.gpu
@pytest.mark.parametrize("quantile", [0.5, 0.99, 1])
def test_a_gpu_keeps_its_promise_for_other_bodies_than_the_table_has(quantile, need_toolkit):
    need_toolkit("cupy")
    n = 65_536
    generator = np.random.default_rng(2)
    position, mass = sphere(n)
    disk = sphere(n, 3)[0] * [1, 1, 0.01]
    sets = {"cube": generator.uniform(-1, 1, (n, 3)), "disk": disk, "two": position + np.where(position > 0, 30, -30)}
    for name, bodies in sets.items():
        result, used = force(bodies, mass, eps2=EPS2, error=2e-3, quantile=quantile, toolkit="cupy", return_choice=True)
        errors = errors_of(result, bodies, mass, "float32", EPS2, np.arange(0, n, 16))
        worst = {0.5: errors.error_median, 0.99: errors.error_p99}.get(quantile)
        # Of quantile 1 a sample only says that few bodies are beyond the error.
        assert (errors.error_p99 if worst is None else worst) <= 2e-3 * 1.1, (name, str(used))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize(("n", "options"), [(1000, {}), (50_000, {}), (LARGE, WANTED)])
def test_numpy_arrays_give_what_cupy_arrays_give(n, options, dtype, need_toolkit):
    need_toolkit("cupy")
    import cupy

    options = {"eps2": EPS2, "toolkit": "cupy", "return_choice": True} | options
    position, mass = sphere(n)
    position = (position * 1000).astype(dtype)
    mass = np.ones(n, dtype) if dtype is np.int64 else mass.astype(dtype)
    results = []
    for _ in range(3):
        result, used = force(position, mass, **options)
        assert isinstance(result, np.ndarray)
        results.append((result, result.copy(), used))
        position = position[::-1]
    for result, copy, _ in results:
        assert_array_equal(result, copy)
    there, _ = force(cupy.asarray(position[::-1]), cupy.asarray(mass), **options)
    # They need not be the same choice: on a device, masses count as unequal.
    assert np.median(relative_errors(there.get(), results[0][0])) < 1e-3
    last = results[2][2]
    assert set(last.milliseconds) >= {"choosing", "copying the bodies", "evaluation", "copying back"}
    # A sample of the same bodies can refute what another one did not.
    assert "preparing" not in last.milliseconds or last.refuted


@pytest.mark.gpu
def test_a_second_call_with_numpy_arrays_allocates_no_page_locked_memory(need_toolkit, monkeypatch):
    need_toolkit("cupy")
    import cupy

    options = WANTED | {"toolkit": "cupy"}
    position, mass = sphere(LARGE)
    force(position, mass, **options)

    def forbidden(_):
        raise AssertionError("allocated page-locked memory")

    monkeypatch.setattr(cupy.cuda, "alloc_pinned_memory", forbidden)
    result, used = force(2 * position, mass, **options | {"eps2": WANTED["eps2"]})
    rows = np.arange(0, LARGE, 100)
    errors = relative_errors(result[rows], direct(2 * position, mass, 2 * position[rows], WANTED["eps2"]))
    assert np.quantile(errors, 0.99) < 1e-3, str(used)
