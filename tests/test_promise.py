"""The error that force promises: how a sample of the bodies is compared, and what follows where it is larger."""

from dataclasses import replace
from threading import Thread

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.stats import binom

from direct import direct_accelerations
from emulator import COMPILER, Emulator
from gravbench import accelerations as module
from gravbench import last_force
from gravbench.accelerations import force
from gravbench.errors import InputError
from gravbench.model.bodies import Bodies
from gravbench.model.variant import discover
from gravbench.toolkits.parts import Part
from gravbench.toolkits.row_sums import RowSums
from gravbench.verdicts import promise
from gravbench.verdicts.fastest import Choice, Measured, Table
from test_fastest import DEFAULTS, EPS2, errors_of, saved, sphere
from test_force_on_device import on_device  # noqa: F401 - a fixture

N = 3000


def tree(theta, error, **other):
    axes = DEFAULTS["barnes_hut_cpu"] | {"theta": theta}
    errors = {"error_median": [error / 10], "error_p99": [error], "error_max": [error]} | other
    return Choice(variant="barnes_hut_cpu", dtype="float32", axes=axes, seconds=[theta**-3], **errors)


def direct(name="numba_parallel"):
    errors = {"error_median": [1e-7], "error_p99": [1e-6], "error_max": [1e-6]}
    return Choice(variant=name, dtype="float32", axes=DEFAULTS[name], seconds=[100.0], **errors)


def table_of(*choices):
    of = Measured(toolkit="cpu", device="made up", n=[N], choices=list(choices))
    return Table(runs=[], threshold=0.02, bodies={}, measured=[of])


@pytest.fixture(autouse=True)
def forgetting():
    """Let no test begin where another one ended."""
    module._memory.cache_clear()
    module._kept.cache_clear()


@pytest.fixture
def options(tmp_path):
    # Errors that no such tree has.
    path = saved(table_of(tree(1.0, 1e-5), tree(0.5, 9e-6), tree(0.3, 8e-6), direct()), tmp_path)
    return {"eps2": EPS2, "toolkit": "cpu", "table": path, "return_choice": True}


# The statistics


def test_fewer_of_more_bodies_are_compared():
    given = {n: promise.rows_of(n, promise.PAIRS_ON_DEVICE) for n in (1, 700, 1024, 1 << 17, 1 << 19, 1 << 20, 1 << 24)}
    assert given == {1: 1, 700: 700, 1024: 1024, 1 << 17: 1024, 1 << 19: 1024, 1 << 20: 1024, 1 << 24: 128}
    generator = np.random.default_rng(1)
    assert_array_equal(promise.drawn(700, 700, generator), np.arange(700))
    rows = [promise.drawn(10_000, 128, generator) for _ in range(400)]
    assert all(len(np.unique(drawn)) == 128 for drawn in rows)
    # Every body has the same chance.
    counts = np.histogram(np.concatenate(rows), bins=10, range=(0, 10_000))[0]
    assert np.abs(counts - 5120).max() < 5 * np.sqrt(5120)


@pytest.mark.parametrize(
    ("rows", "quantile", "most"), [(128, 0.99, 0), (1024, 0.99, 3), (500, 0.9, 34), (1024, 0.5, 474)]
)
def test_a_broken_promise_passes_once_in_a_hundred_samples(rows, quantile, most):
    def up_to(count):
        return binom.cdf(count, rows, 1 - quantile)

    assert promise.accepted(10**6, rows, quantile) == most
    assert up_to(most + 1) > promise.CHANCE
    assert up_to(most) <= promise.CHANCE or most == 0, "too few rows to tell"


def test_for_all_bodies_those_of_the_least_accelerations_are_compared():
    computed = np.random.default_rng(3).normal(size=(5000, 3))
    computed[[7, 500, 999]] *= 1e-4
    assert set(promise.least(computed, 3)) == {7, 500, 999}
    generator = np.random.default_rng(4)
    for quantile, kinds in ((0.99, 1), (1, 2)):
        rows = compared(computed, quantile, generator)
        assert len(rows) == promise.MOST_ROWS
        least = set(promise.least(computed, promise.MOST_ROWS // 2))
        assert (least <= set(rows)) == (kinds == 2)
        # The others are out of all parts of the bodies.
        assert len(np.unique(rows // 500)) == 10
    assert_array_equal(compared(computed[:700], 1, generator), np.arange(700))


def compared(computed, quantile, generator):
    pairs = promise.PAIRS_ON_DEVICE
    return promise.with_least(promise.at_random(len(computed), pairs, quantile, generator), computed, pairs)


def test_of_all_bodies_the_fraction_itself_counts_and_for_all_a_single_one_refutes():
    assert [promise.accepted(n, n, 0.9) for n in (9, 10, 1000)] == [0, 1, 100]
    assert promise.accepted(1000, 1000, 0.99) == 10
    assert promise.accepted(10**6, 1024, 1) == 0
    exact = np.ones((100, 3))
    found = exact.copy()
    found[7] *= 1.1
    for quantile, refutes in ((1, True), (0.99, False), (0.5, False)):
        assert promise.judged(found, exact, 100, 0.05, quantile).refutes == refutes
    found[8] = np.nan
    sample = promise.judged(found, exact, 100, 0.05, 0.99)
    assert (sample.exceeding, sample.refutes) == (2, True)
    assert promise.judged(found, exact, 100, 0.05, 1).error == np.inf
    assert promise.judged(exact * 0, exact * 0, 100, 0.05, 1).error == 0


# What follows


def test_choices_that_do_not_keep_their_promise_are_left_for_good(options):
    position, mass = sphere(N)
    result, used = force(position, mass, **options, error=1e-5)
    assert used.variant == "numba_parallel"
    assert errors_of(result, position, mass, "float32").error_max < 1e-5
    assert [name.split("theta=")[1][:3] for name in used.refuted] == ["1.0", "0.5", "0.3"]
    assert (used.sampled_rows, used.sampled_error) == (0, None)
    assert "more error than accepted: barnes_hut_cpu cpu float32 theta=1.0" in str(used)
    # The next call begins with what held; another question, size or softening does not.
    assert force(position, mass, **options, error=1e-5)[1].refuted == ()
    for changes in ({"error": 2e-5}, {"error": 1e-5, "quantile": 0.99}, {"error": 1e-5, "eps2": 4 * EPS2}):
        assert len(force(position, mass, **options | changes)[1].refuted) == 3
    assert len(force(position[1:], mass[1:], **options, error=1e-5)[1].refuted) == 3


def test_the_first_choice_that_is_right_is_kept(options):
    position, mass = sphere(N)
    loose, middle, tight = (
        errors_of(force(position, mass, **options | {"table": path, "checked": False})[0], position, mass, "float32")
        for path in (
            saved(table_of(tree(theta, 1e-5)), options["table"].parent, f"{theta}.yaml") for theta in (1.0, 0.5, 0.3)
        )
    )
    assert loose.error_p99 > 1.5 * middle.error_p99 > 3 * tight.error_p99
    wanted = middle.error_p99 * 3
    for _ in range(2):
        result, used = force(position, mass, **options, error=wanted, quantile=0.99)
        assert used.axes["theta"] == 0.5
        assert used.sampled_rows == promise.rows_of(N, promise.PAIRS_ON_HOST)
        assert used.sampled_error == pytest.approx(middle.error_p99, rel=0.3)
        assert errors_of(result, position, mass, "float32").error_p99 == pytest.approx(middle.error_p99, rel=1e-3)
    assert len(force(position, mass, **options, error=wanted, quantile=0.5)[1].refuted) == 0


def test_without_a_check_the_table_is_trusted(options):
    position, mass = sphere(N)
    _, used = force(position, mass, **options, error=1e-5, checked=False)
    assert (used.axes["theta"], used.sampled_rows, used.refuted) == (1.0, 0, ())
    assert "check" not in used.milliseconds
    with pytest.raises(InputError, match="checked is 1; accepted: True, False"):
        force(position, mass, **options, checked=1)


def test_where_nothing_is_accurate_enough_the_error_says_so(options):
    path = saved(table_of(tree(1.0, 1e-5)), options["table"].parent, "other.yaml")
    position, mass = sphere(N)
    said = (
        r"error is 1e-05: a sample of the 3,000 bodies shows larger errors, and the table has no more accurate variant"
    )
    for _ in range(2):
        with pytest.raises(InputError, match=said):
            force(position, mass, **options | {"table": path}, error=1e-5, dtype="float32")
    assert force(position, mass, **options | {"table": path}, error=1e-5)[1].dtype == "float64"


def test_a_direct_sum_is_not_checked_and_one_of_half_the_digits_is():
    assert not module._is_checked(asking(checked=True), direct())
    half = Choice(variant="tensor_half", dtype="float32", axes=DEFAULTS["tensor_half"], error_max=[1e-4], seconds=[1.0])
    assert module._is_checked(asking(checked=True), half)
    assert not module._is_checked(asking(checked=False), half)


def asking(*, checked):
    return module.Wanted(None, None, "cpu", ("float32",), 1e-3, 1, EPS2, checked=checked)


def test_bodies_that_are_computed_again_in_float64_are_not_compared(options):
    position, mass = sphere(200)
    mass = np.where(np.arange(200) == 3, 1e32, mass)
    path = saved(table_of(tree(0.3, 1e-5), direct()), options["table"].parent, "faint.yaml")
    result, used = force(position, mass, **options | {"table": path}, error=0.02)
    assert used.in_float64 == 1
    assert used.sampled_rows == (199 if used.variant == "barnes_hut_cpu" else 0)
    assert used.refuted == ()
    assert np.isfinite(result).all()


def test_arrays_on_a_device_are_checked_too(on_device, options):  # noqa: F811
    given = {name: value for name, value in options.items() if name != "toolkit"}
    position, mass = sphere(N)
    # What is not finite is NaN, and says nothing of a choice.
    for bad in (position * np.nan, np.where(np.arange(N)[:, None] == 5, np.nan, position)):
        result, used = on_device(bad, mass, **given, error=1e-5)
        assert np.isnan(result).all()
        assert used.refuted == ()
    result, used = on_device(position, mass, **given, error=1e-5)
    assert used.variant == "numba_parallel"
    assert len(used.refuted) == 3
    assert errors_of(result, position, mass, "float32").error_max < 1e-5
    result, used = on_device(position, mass, **given, error=0.5)
    assert used.sampled_rows == promise.rows_of(N, promise.PAIRS_ON_HOST)
    assert list(used.milliseconds)[-2:] == ["evaluation", "check"]
    result, used = on_device(position, mass, **given, error=0.5, checked=False)
    assert list(used.milliseconds) == ["choosing", "queueing"]


def test_a_variant_is_prepared_with_no_bodies_but_those_given(on_device, options, monkeypatch):  # noqa: F811
    own, prepared = discover()["barnes_hut_cpu"], []

    def prepare(toolkit, bodies, **axes):
        prepared.append(bodies)
        return own.prepare(toolkit, bodies, **axes)

    known = discover() | {"barnes_hut_cpu": replace(own, prepare=prepare)}
    monkeypatch.setattr(module, "discover", lambda: known)
    given = {name: value for name, value in options.items() if name != "toolkit"} | {"error": 0.5}
    position, mass = sphere(300)
    assert np.isnan(on_device(position * np.nan, mass, **given)[0]).all()
    assert not prepared
    on_device(position, mass, **given)
    assert np.isnan(on_device(position * np.nan, mass, **given)[0]).all()
    (bodies,) = prepared
    unit = position[0, 0] / bodies.position[0, 0]
    assert_array_equal(bodies.position * unit, position)


def test_the_last_call_of_a_thread_says_what_it_used():
    force(*sphere(5), eps2=EPS2, toolkit="cpu")
    said = []

    def ask():
        try:
            last_force()
        except InputError as error:
            said.append(str(error))

    thread = Thread(target=ask)
    thread.start()
    thread.join()
    assert said == ["last_force: this thread has not called force yet; accepted: a call of force before it"]
    assert str(last_force()).startswith("numba_parallel cpu float32: ")


# The sums on a GPU


@pytest.mark.skipif(COMPILER is None, reason="no g++ on PATH")
@pytest.mark.parametrize("layout", ["rows", "columns"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("n", "count"), [(1, 1), (37, 5), (5000, 128), (9000, 3)])
def test_sums_of_rows_on_a_gpu_are_those_in_float64(libraries, layout, dtype, n, count):
    position, mass = sphere(n)
    arrays = [np.ascontiguousarray(np.column_stack([position, mass]), dtype)]
    pulls = np.random.default_rng(1).normal(size=(n, 4)).astype(dtype)
    prepared = module.Prepared(lambda: None, arrays[0], pulls)
    if layout == "columns":
        columns = tuple(map(np.ascontiguousarray, arrays[0].T))
        prepared = module.Prepared(lambda: None, columns, tuple(map(np.ascontiguousarray, pulls.T[:3])))
    sums = RowSums(Emulator(Part("force_on_rows"), "float64", libraries), prepared, np.dtype(dtype), n, count)
    eps2 = float(np.dtype(dtype).type(EPS2))
    given = Bodies(arrays[0][:, 3], arrays[0][:, :3], np.zeros((n, 3)), eps2**0.5)
    for rows in (promise.drawn(n, count, np.random.default_rng(2)), np.array([n - 1])):
        sums.queue(rows, eps2)
        found, exact = sums.wait()
        assert_array_equal(found, pulls[rows, :3])
        expected = direct_accelerations(given, rows, "float64")
        assert np.abs(exact - expected).max() <= 1e-12 * max(np.abs(expected).max(), 1e-300)
