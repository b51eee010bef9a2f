"""What is timed beside the force: a step, a call; and the force between two sets of bodies."""

import json
from io import StringIO
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from rich.console import Console
from typer.testing import CliRunner

from conftest import ROOT, saying
from direct import direct_accelerations
from emulator import COMPILER, Emulator
from gravbench.accelerations import force
from gravbench.cli.main import app
from gravbench.config.load import load
from gravbench.errors import InputError
from gravbench.measuring.environment import fingerprint
from gravbench.measuring.step import Stepper
from gravbench.measuring.timed import Call
from gravbench.model import generators
from gravbench.model.bodies import Bodies
from gravbench.model.case import Case
from gravbench.model.interaction import GRAVITY
from gravbench.model.interaction_files import find
from gravbench.model.runs import RecordFile
from gravbench.model.stem_code import BUILT_IN
from gravbench.model.variant import discover
from gravbench.toolkits import buffers, host_arrays, parts, row_sums
from gravbench.toolkits.interface import FLAGS
from gravbench.toolkits.opening import keeping_kernels, open_toolkit
from gravbench.toolkits.parts import Part
from gravbench.verifying import checks
from gravbench.verifying import comparing as reference
from gravbench.verifying.conserved import energy_drift, momentum_drift, summed_energy
from nvrtc import ARCHITECTURES, QUICK, compile_cuda
from printed_sections import render

VARIANTS = discover()
EPS = 0.05
DTYPES = ("float32", "float64")
INTEGRATORS = ("leapfrog", "damped_euler")


def prepared_of(name, toolkit, bodies, dtype="float64", **axes):
    opened = open_toolkit(toolkit, VARIANTS[name], dtype)
    return opened, VARIANTS[name].prepare(opened, bodies, **VARIANTS[name].complete(axes))


def stepper_of(bodies, dt, integrator="leapfrog", name="numba_direct", toolkit="cpu", dtype="float64", **axes):
    opened, prepared = prepared_of(name, toolkit, bodies, dtype, **axes)
    return Stepper(opened, prepared, bodies, integrator, dt)


def after(stepper, steps):
    stepper.start()
    for _ in range(steps):
        stepper.launch()
    return stepper.now()


def circular_orbit():
    """Two bodies of mass 1/2 at distance 1: the speed of each is what the softened pull asks for."""
    speed = np.sqrt(0.5 * 0.5 / (1 + EPS**2) ** 1.5)
    position = np.array([[0.5, 0, 0], [-0.5, 0, 0]])
    velocity = np.array([[0, speed, 0], [0, -speed, 0]])
    return Bodies(np.full(2, 0.5), position, velocity, EPS)


# The integrators


def test_leapfrog_is_of_second_order():
    bodies = generators.plummer(20, 4, 0.3)
    ends = [after(stepper_of(bodies, 0.1 / steps), steps).position for steps in (8, 16, 512)]
    errors = [np.abs(end - ends[-1]).max() for end in ends[:2]]
    assert 3.8 < errors[0] / errors[1] < 4.2


def test_leapfrog_is_kick_drift_kick():
    bodies = generators.plummer(20, 4, 0.3)
    dt, position, velocity = 0.01, bodies.position, bodies.velocity

    def pull(position):
        return direct_accelerations(Bodies(bodies.mass, position, velocity, 0.3), np.arange(20))

    for _ in range(3):
        velocity = velocity + pull(position) * dt / 2
        position = position + velocity * dt
        velocity = velocity + pull(position) * dt / 2
    end = after(stepper_of(bodies, dt), 3)
    assert_allclose(end.position, position, rtol=1e-12, atol=1e-14)
    assert_allclose(end.velocity, velocity, rtol=1e-12, atol=1e-14)


def test_leapfrog_goes_back_the_way_it_came():
    bodies = generators.plummer(20, 4, 0.3)
    end = after(stepper_of(bodies, 0.01), 50)
    assert np.abs(end.position - bodies.position).max() > 0.1
    again = after(stepper_of(Bodies(end.mass, end.position, -end.velocity, 0.3), 0.01), 50)
    assert_allclose(again.position, bodies.position, atol=1e-12)
    assert_allclose(-again.velocity, bodies.velocity, atol=1e-12)


def test_a_look_in_between_does_not_disturb_the_steps():
    bodies = generators.plummer(20, 4, 0.3)
    stepper = stepper_of(bodies, 0.01)
    stepper.start()
    for _ in range(10):
        stepper.launch()
        stepper.now()
    assert_allclose(stepper.now().position, after(stepper_of(bodies, 0.01), 10).position, rtol=1e-12, atol=1e-14)


def test_a_circular_orbit_keeps_its_energy_and_its_radius():
    stepper = stepper_of(circular_orbit(), 0.01)
    assert abs(energy_drift(circular_orbit(), stepper.after(1000))) < 1e-8
    assert_allclose(np.linalg.norm(stepper.now().position, axis=1), 0.5, rtol=1e-4)


def test_the_drift_of_the_energy_is_that_of_a_program_of_its_own():
    stepper = stepper_of(circular_orbit(), 0.05, "damped_euler")
    found = stepper.after(100)
    drift = energy_drift(circular_orbit(), found)
    before, end = circular_orbit().energy(), found.energy()
    assert drift == pytest.approx((end - before) / abs(before))
    assert abs(drift) > 0.01


def test_without_energy_there_is_no_drift():
    still = Bodies(np.ones(1), np.zeros((1, 3)), np.zeros((1, 3)), EPS)
    assert energy_drift(still, stepper_of(still, 0.1).after(2)) is None
    assert momentum_drift(still, still) is None


def test_a_drift_that_leaves_float64_is_not_stated():
    mass, place = np.array([1e299, 1e299, 1.0]), np.arange(9.0).reshape(3, 3)
    fast = Bodies(mass, place, np.array([[1e50, 0, 0], [-1e50, 1e50, 0], [0, 0, 0]]), 1.0)
    other = Bodies(mass, place, -fast.velocity, 1.0)
    assert energy_drift(fast, other) is None
    assert momentum_drift(fast, other) is None


def test_the_energy_by_the_sums_of_all_rows_is_that_by_pairs():
    bodies = generators.plummer(300, 5, 0.1)
    assert summed_energy(bodies, device_sums=None) == pytest.approx(bodies.energy(), rel=1e-12)


def test_the_momentum_drifts_where_forces_are_not_mutual():
    bodies = generators.plummer(200, 5, 0.05)
    direct, tree = (
        momentum_drift(bodies, stepper_of(bodies, 0.01, name=name, dtype=dtype).after(20))
        for name, dtype in (("numba_direct", "float64"), ("barnes_hut_cpu", "float32"))
    )
    assert direct < 1e-14
    assert 1e-7 < tree < 1e-2


def test_a_pushed_body_has_the_momentum_it_was_given():
    speed = np.array([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]])
    at_first = Bodies(np.array([1.0, 3.0]), np.zeros((2, 3)), speed, EPS)
    pushed = Bodies(at_first.mass, at_first.position, speed + np.array([[0.0, 0.0, 0.0], [0.0, 4.0, 0.0]]), EPS)
    assert momentum_drift(at_first, pushed) == pytest.approx(12 / (1 + 3 * np.sqrt(17)))


def test_damped_euler_of_a_free_body_is_a_geometric_series():
    velocity = np.array([[1.0, -2.0, 0.5]])
    stepper = stepper_of(Bodies(np.ones(1), np.zeros((1, 3)), velocity, EPS), 0.1, "damped_euler")
    end, damping = after(stepper, 20), stepper.damping
    assert damping == 0.995
    assert_allclose(end.velocity, velocity * damping**20, rtol=1e-13)
    assert_allclose(end.position, velocity * 0.1 * damping * (1 - damping**20) / (1 - damping), rtol=1e-13)


# The kernel of the integrators

LAYOUTS = {"rows": (4, 4), "rows of three": (4, 3), "columns": (1, 1), "columns and rows": (1, 3)}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "toolkit", ["cpu", "numba", *(pytest.param(name, marks=pytest.mark.gpu) for name in ("cupy", "pycuda"))]
)
def test_the_integrator_agrees_with_the_formula(toolkit, layout, need_toolkit):
    need_toolkit(toolkit)
    for dtype in DTYPES:
        opened = open_toolkit(toolkit, Part("integrate"), dtype)
        # Numba compiles for one layout of arrays, and those of a single body are laid out otherwise.
        if toolkit != "numba":
            keeping_kernels(opened)
        for n in (1, 2, 31, 129):
            with saying(f"{dtype}, n = {n}"):
                check_integrator(opened, layout, n)


class OnePart(Emulator):
    """An emulated GPU that launches the kernel of a part as ``parts.launch`` does."""

    launches_blocks = False

    def compile(self, stem, /, **constants):
        """Take the arguments alone: two blocks are enough."""
        kernel = super().compile(stem, **constants)
        return lambda *arguments: kernel(2, parts.BLOCK, *arguments)

    def download(self, array):
        """Return it: all memory is one."""
        return array


@pytest.mark.skipif(COMPILER is None, reason="no g++ on PATH")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_integrator_in_cuda_c_agrees_with_the_formula(layout, libraries):
    for dtype in DTYPES:
        for n in (1, 129):
            with saying(f"{dtype}, n = {n}"):
                check_integrator(OnePart(Part("integrate"), dtype, libraries), layout, n)


def check_integrator(opened, layout, n):
    real = opened.real
    generator = np.random.default_rng(n)
    x, v, a = (generator.normal(size=(n, 4)).astype(real) for _ in range(3))

    def on_device(values, width):
        if width == 1:
            return tuple(opened.upload(column) for column in values.T)
        return opened.upload(values[:, :width])

    body_stride, pull_stride = LAYOUTS[layout]
    bodies, pulls = on_device(x, body_stride), on_device(a, pull_stride)
    velocities = tuple(opened.upload(column) for column in v.T[:3])
    assert (buffers.stride(bodies), buffers.stride(pulls)) == LAYOUTS[layout]
    kernel = opened.compile("integrate", BODY_STRIDE=body_stride, ACCELERATION_STRIDE=pull_stride)
    views = (*buffers.columns(bodies), *velocities, *buffers.columns(pulls))
    parts.launch(opened, kernel, n, *views, np.int32(n), real(0.1), real(0.9), real(0.2))
    opened.synchronize()

    expected_v = (v[:, :3].astype(float) + a[:, :3].astype(float) * 0.1) * 0.9
    expected_x = x.astype(float)
    expected_x[:, :3] += expected_v * 0.2
    if body_stride == 1:
        moved = np.column_stack([opened.download(column) for column in bodies])
    else:
        moved = opened.download(bodies)
    close = {"rtol": 0, "atol": 8 * np.finfo(real).eps}
    assert_allclose(moved, expected_x, **close)
    assert_array_equal(moved[:, 3], x[:, 3])
    assert_allclose(np.column_stack([opened.download(column) for column in velocities]), expected_v, **close)


CONSTANTS = {
    "integrate": [f"-DBODY_STRIDE={body} -DACCELERATION_STRIDE={pull}" for body, pull in LAYOUTS.values()],
    "force_between": [f"-DP={parts.BLOCK}"],
    "force_on_rows": [f"-DP={row_sums.BLOCK} -DROWS={row_sums.ROWS}"],
    "lay_out_bodies": [f"-DP={host_arrays.BLOCK} -DSINGLE={single}" for single in (0, 1)],
}
ONLY = {"force_on_rows": ["float64"], "lay_out_bodies": ["float64"]}
"""The number types of parts that do not have all."""
OF_CUPY_ALONE = {"force_on_rows", "lay_out_bodies"}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", CONSTANTS)
def test_the_parts_compile_without_a_warning(name, architecture):
    for constants in CONSTANTS[name]:
        for dtype in ONLY.get(name, DTYPES):
            own = ["-DFLOAT64=1"] if dtype == "float64" else []
            quick = [] if architecture.startswith("sm_") else QUICK
            options = [*FLAGS, *quick, *constants.split(), *own]
            image, ptx, _ = compile_cuda(Part(name).cuda_source(find(GRAVITY)), architecture, options)
            assert image.startswith(b"\x7fELF") == architecture.startswith("sm_")
            assert f".entry {name}(" in ptx
            assert (".f64" in ptx) == (dtype == "float64")


def test_every_part_is_compiled_above_and_is_no_variant():
    stems = {path.stem for path in (BUILT_IN / "parts").glob("*.cu")}
    assert stems == set(CONSTANTS)
    assert not stems & set(VARIANTS)
    for name in stems - OF_CUPY_ALONE:
        source = Part(name).path.with_suffix(".cu").read_text()
        entry = source[source.index(f"{name}(") + len(name) + 1 :]
        parameters = [word.split()[-1].lstrip("*") for word in entry[: entry.index(")")].split(",")]
        numba = pytest.importorskip("numba.cuda")
        constants = {option[2:].split("=")[0]: 1 for option in CONSTANTS[name][0].split()}
        kernel = Part(name).module.numba_kernel(numba, np.float32, find(GRAVITY), **constants)
        code = getattr(kernel, "py_func", None) or kernel.fn
        assert parameters == list(code.__code__.co_varnames[: code.__code__.co_argcount])


# Verified steps and calls

RUNS = [("numpy_direct", "cpu", {}), ("numba_parallel", "cpu", {}), ("naive", "numba", {"p": 32})]
RUNS += [("float4", "numba", {"p": 32}), ("tiled", "numba", {"p": 32, "unroll": 8})]
RUNS = [pytest.param(*run, id=f"{run[0]}-{run[1]}") for run in RUNS]
RUNS += [
    pytest.param(name, toolkit, {}, id=f"{name}-{toolkit}", marks=pytest.mark.gpu)
    for name in ("naive", "float4", "tiled")
    for toolkit in ("cupy", "pycuda", "mlir")
]


@pytest.mark.parametrize(("name", "toolkit", "axes"), RUNS)
def test_a_step_of_any_variant_is_right(name, toolkit, axes, need_toolkit):
    need_toolkit(toolkit)
    bodies = generators.plummer(40, 3, EPS)
    for integrator, dtype in product(INTEGRATORS, DTYPES):
        with saying(f"{integrator}, {dtype}"):
            stepper = stepper_of(bodies, 0.01, integrator, name, toolkit, dtype, **axes)
            stepper.prepared.launch()
            assert stepper.objection() is None
            expected = direct_accelerations(bodies, np.arange(40), dtype)
            left = buffers.sums(stepper.toolkit, stepper.prepared)
            tolerance = VARIANTS[name].accepted(dtype, VARIANTS[name].complete({}))
            assert reference.objection_to(reference.compare(left, expected), tolerance) is None


@pytest.mark.gpu
@pytest.mark.parametrize("toolkit", ["cupy", "pycuda", "numba", "mlir"])
def test_a_step_goes_on_from_what_is_left_when_the_host_has_looked_behind_a_held_queue(toolkit, need_toolkit):
    need_toolkit(toolkit)
    bodies = generators.plummer(1000, 3, EPS)
    stepper = stepper_of(bodies, 0.01, name="naive", toolkit=toolkit, dtype="float32")
    stepper.prepared.launch()  # which compiles Numba's kernel
    held, hold = [], stepper.toolkit.hold
    stepper.toolkit.hold = lambda microseconds: held.append(microseconds) or hold(microseconds)
    assert checks.queue(stepper.toolkit, stepper.prepared, bodies) is None
    assert len(held) == 1
    assert stepper.objection() is None


@pytest.mark.parametrize("name", ["numpy_direct", "numba_direct"])
@pytest.mark.parametrize("wrong", ["x", "vx", "mass"])
def test_a_step_that_is_wrong_is_noticed(name, wrong):
    stepper = stepper_of(generators.plummer(40, 3, EPS), 0.01, name=name, dtype="float32")
    moved = {"x": stepper._moved[0], "vx": stepper._moved[3], "mass": stepper.prepared.bodies[3]}
    right = stepper._integrate

    def spoilt(*arguments):
        right(*arguments)
        moved[wrong][17] += 1e-3

    stepper._integrate = spoilt
    stepper.prepared.launch()
    words = {"x": "positions", "vx": "velocities", "mass": "masses"}
    assert words[wrong] in stepper.objection()


def test_a_step_is_judged_by_two_launches_of_the_force_and_begins_with_what_the_second_left():
    stepper = stepper_of(generators.plummer(40, 3, EPS), 0.01)
    count, launch = [], stepper.prepared.launch
    launch()
    object.__setattr__(stepper.prepared, "launch", lambda: count.append(True) or launch())
    assert stepper.objection() is None
    assert len(count) == 2
    stepper.start()
    assert len(count) == 2
    stepper.launch()
    stepper.start()
    assert len(count) == 4
    assert_allclose(stepper.now().position, stepper.first.position, rtol=1e-14)


def test_a_drift_is_computed_without_the_device(monkeypatch):
    stepper = stepper_of(generators.plummer(40, 3, EPS), 0.01)
    stepper.start()
    assert stepper.finish() is None
    expected = energy_drift(stepper.first, stepper.after(100))

    def refused(*_):
        raise AssertionError

    monkeypatch.setattr(stepper, "prepared", None)
    for name in ("download", "upload", "synchronize", "copy_in"):
        monkeypatch.setattr(stepper.toolkit, name, refused)
    found = stepper.stepping()
    assert found.energy_drift == expected != 0
    assert found.drift_steps == 100


def test_steps_that_end_in_nan_are_noticed():
    stepper = stepper_of(generators.plummer(40, 3, EPS), 0.01)
    stepper.start()
    stepper._moved[0][3] = np.nan
    objection = stepper.finish()
    assert "NaN" in objection
    assert stepper.stepping().energy_drift is None


@pytest.mark.parametrize(("name", "toolkit", "axes"), RUNS)
def test_a_call_returns_the_accelerations(name, toolkit, axes, need_toolkit):
    need_toolkit(toolkit)
    bodies = generators.plummer(40, 3, EPS)
    opened, prepared = prepared_of(name, toolkit, bodies, "float32", **axes)
    prepared.launch()
    expected = buffers.sums(opened, prepared).copy()
    call = Call(opened, prepared, bodies)
    assert call.objection() is None
    returned = np.column_stack(call.returned) if isinstance(call.returned, tuple) else call.returned[:, :3]
    assert_array_equal(returned, expected)
    assert call.clock.time(call.launch, 2, lambda: None).seconds > 0


def test_a_call_that_returns_something_else_is_noticed():
    opened, prepared = prepared_of("numpy_direct", "cpu", generators.plummer(40, 3, EPS))
    download = opened.download
    call = Call(opened, prepared, generators.plummer(40, 3, EPS))
    call.toolkit = SimpleNamespace(
        copy_in=opened.copy_in,
        download=lambda array: download(array).copy(),
        interaction=opened.interaction,
        real=opened.real,
    )
    assert call.objection() is None
    call.returned[7, 1] += 1e-3
    assert "not those on the device" in call.finish()


# The force between two sets of bodies


def two_sets(nj, ni, dtype=np.float64):
    generator = np.random.default_rng(nj + 1000 * ni)
    return tuple(
        array.astype(dtype)
        for array in (generator.normal(size=(nj, 3)), generator.random(nj), generator.normal(size=(ni, 3)))
    )


def directly(xj, mj, xi, eps2, dtype):
    """Bodies i without mass among the bodies j: what the reference sums for them is the force between the sets."""
    position, mass = np.vstack([xj, xi]), np.append(mj, np.zeros(len(xi)))
    together = Bodies(mass, position, np.zeros_like(position), np.sqrt(eps2))
    return direct_accelerations(together, np.arange(len(xj), len(position)), dtype)


@pytest.mark.parametrize(
    "toolkit", ["cpu", "numba", *(pytest.param(name, marks=pytest.mark.gpu) for name in ("cupy", "pycuda"))]
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_force_between_two_sets(toolkit, dtype, need_toolkit):
    need_toolkit(toolkit)
    for nj, ni in ((1, 1), (1, 3), (129, 2), (31, 130), (128, 128)):
        with saying(f"{nj} on {ni}"):
            xj, mj, xi = two_sets(nj, ni)
            result = force(xj, mj, xi, eps2=0.01, toolkit=toolkit, dtype=dtype)
            assert isinstance(result, np.ndarray)
            assert (result.shape, result.dtype) == ((ni, 3), np.dtype(dtype))
            assert_allclose(
                result,
                directly(xj, mj, xi, 0.01, dtype),
                rtol=1e-4 if dtype == "float32" else 1e-10,
                atol=10 * np.finfo(dtype).eps * nj,
            )


def test_the_force_takes_any_real_numbers_and_any_layout():
    xj, mj, xi = two_sets(5, 4, np.float32)
    expected = force(xj, mj, xi, eps2=0.01)
    assert_array_equal(
        force(np.asfortranarray(xj), mj.astype(float), np.repeat(xi, 2, axis=0)[::2], eps2=np.float32(0.01)), expected
    )
    whole = force(np.eye(3, dtype=int), np.ones(3, dtype=int), np.zeros((1, 3)), eps2=1)
    assert_allclose(whole, np.full((1, 3), 2**-1.5), rtol=4e-7)


def test_a_body_in_both_sets_does_not_pull_itself():
    assert_array_equal(force(np.ones((1, 3)), np.ones(1), np.ones((1, 3)), eps2=1e-18), np.zeros((1, 3)))


@pytest.mark.gpu
def test_arrays_of_cupy_stay_on_the_device(need_toolkit):
    need_toolkit("cupy")
    import cupy

    own = two_sets(100, 70)
    result = force(*map(cupy.asarray, own), eps2=0.01)
    assert isinstance(result, cupy.ndarray)
    assert_array_equal(result.get(), force(*own, eps2=0.01, toolkit="cupy"))
    with pytest.raises(InputError, match="accepted: all CuPy arrays"):
        force(cupy.asarray(own[0]), *own[1:], eps2=0.01)


XJ, MJ, XI = two_sets(3, 2)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((XJ[:, :2], MJ, XI), {"eps2": 1}, r"positions xj have shape \(3, 2\); accepted: \(n, 3\)"),
        ((XJ, MJ[:, None], XI), {"eps2": 1}, r"masses mj have shape \(3, 1\); accepted: \(n,\)"),
        ((XJ, MJ, XI[0]), {"eps2": 1}, r"positions xi have shape \(3,\)"),
        ((XJ, MJ, np.float64(1)), {"eps2": 1}, r"positions xi have shape \(\)"),
        ((XJ, MJ, np.array(1.0)), {"eps2": 1}, r"positions xi have shape \(\)"),
        ((XJ, MJ, XI[:0]), {"eps2": 1}, r"positions xi have shape \(0, 3\); .* n of 1 or more"),
        ((XJ, MJ[:2], XI), {"eps2": 1}, "mj has 2 masses for 3 positions xj"),
        ((XJ + 0j, MJ, XI), {"eps2": 1}, "positions xj have dtype complex128; accepted: real numbers"),
        ((XJ, MJ > 0, XI), {"eps2": 1}, "masses mj have dtype .*bool"),
        ((XJ, MJ, XI.astype(str)), {"eps2": 1}, "positions xi have dtype .*<U"),
        ((XJ * np.nan, MJ, XI), {"eps2": 1}, "positions xj have values that are not finite"),
        ((XJ, MJ + np.inf, XI), {"eps2": 1}, "masses mj have values that are not finite"),
        ((XJ, MJ, XI * np.inf), {"eps2": 1}, "positions xi have values that are not finite"),
        ((XJ, MJ, XI), {"eps2": 0}, "eps2 is 0.0; accepted: a finite number above 0"),
        ((XJ, MJ, XI), {"eps2": -1.0}, "eps2 is -1.0"),
        ((XJ, MJ, XI), {"eps2": np.nan}, "eps2 is nan"),
        ((XJ, MJ, XI), {"eps2": "1"}, "eps2 is '1'; accepted: a number"),
        ((XJ, MJ, XI), {"dtype": "float46"}, "did you mean float64"),
        ((XJ, MJ, XI), {"toolkit": "cpuy"}, "toolkit is 'cpuy'; did you mean"),
    ],
)
def test_what_the_force_does_not_accept(arguments, options, message):
    with pytest.raises(InputError, match=message):
        force(*arguments, **({"eps2": 1} | options))


def test_the_example_in_the_readme_runs():
    text = (ROOT / "README.md").read_text("utf-8")
    (example,) = [block for block in text.split("```python\n")[1:] if "import force" in block]
    exec(example.split("```")[0], {"__name__": "__main__"})


# Cases, records, reports


def test_a_step_alone_has_an_integrator(tmp_path):
    path = tmp_path / "x.yaml"
    swept = "timed: [force, step, call]\nintegrator: [leapfrog, damped_euler]\ndt: [0.001, 0.1]\n"
    path.write_text(f"n: 64\n{swept}variants: numpy_direct\n")
    found = [(case.timed, case.integrator, case.dt) for case in load(str(path)).cases]
    steps = {("step", integrator, dt) for integrator in INTEGRATORS for dt in (0.001, 0.1)}
    assert len(found) == 6
    assert set(found) == {("force", None, None), ("call", None, None), *steps}
    path.write_text(f"n: 64\n{swept}variants: {{variant: numpy_direct, when: timed != 'force' and dt < 0.01}}\n")
    assert sorted(case.timed for case in load(str(path)).cases) == ["call", "step", "step"]


@pytest.mark.parametrize(
    ("said", "message"),
    [("timed: steps", "did you mean step"), ("integrator: leapfog", "did you mean leapfrog"), ("dt: 0", "more than 0")],
)
def test_a_misspelt_setting_is_answered(tmp_path, said, message):
    path = tmp_path / "x.yaml"
    path.write_text(f"n: 64\n{said}\nvariants: numpy_direct\n")
    with pytest.raises(InputError, match=message):
        load(str(path))


def test_committed_records_are_read_and_belong_to_the_same_cases():
    records = RecordFile(ROOT / "reports" / "h100" / "ladder").read()
    first = next(record for record in records if record.status == "ok" and record.toolkit == "cupy")
    assert (first.timed, first.integrator, first.dt, first.steps_per_second) == ("force", None, None, None)
    # Their cases have the keys they had before there were steps, or --resume would measure them again.
    own = {record.key for record in records if record.variant == "numpy_direct"}
    assert own
    assert own == {case.key for case in load("ladder", variants=["numpy_direct"]).cases}


def test_a_step_depends_on_the_source_of_the_integrator():
    case = Case(
        variant="naive", toolkit="cupy", axes={"p": 256}, n=64, dtype="float32", bodies="plummer", subset="even",
        seed=1, eps=0.1, timed="force",
    )  # fmt: skip
    step = case.model_copy(update={"timed": "step", "integrator": "leapfrog", "dt": 0.1})
    call = case.model_copy(update={"timed": "call"})
    own = VARIANTS["naive"].code_sha256("cupy", find(GRAVITY))
    prints = [fingerprint(one, VARIANTS["naive"], None).code_sha256 for one in (case, call, step)]
    assert prints[:2] == [own, own]
    assert prints[2] != own
    assert "timed=step leapfrog dt=0.1" in step.label
    assert case.label == "naive cupy n=64 float32 p=256"


def test_a_run_of_all_three_from_end_to_end(tmp_path):
    path = tmp_path / "three.yaml"
    path.write_text(
        "n: 64\ntimed: [force, step, call]\nintegrator: [leapfrog, damped_euler]\n"
        "measure: {processes: 1, budget_seconds: 0.05, warm_up_seconds: 0.01, min_samples: 3}\n"
        "variants: [numpy_direct, numba_direct]\n"
    )
    command = ["run", str(path), "--out", str(tmp_path / "out"), "--device", "cpu"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    records = RecordFile(tmp_path / "out").read()
    assert {record.status for record in records} == {"ok"}, [record.reason for record in records]
    by_timed = {name: [one for one in records if one.timed == name] for name in ("force", "step", "call")}
    assert all(by_timed.values())
    assert {one.integrator for one in by_timed["step"]} == set(INTEGRATORS)
    for one in by_timed["step"]:
        assert one.steps_per_second == pytest.approx(1 / one.median_seconds)
        assert one.interactions_per_second == pytest.approx(64 * 64 / one.median_seconds)
        assert (one.drift_steps, one.dt) == (100, 0.001)
        assert one.damping == (None if one.integrator == "leapfrog" else 0.995)
        drift = abs(one.energy_drift)
        assert drift < 1e-5 if one.integrator == "leapfrog" else drift > 0.1
        assert one.momentum_drift < 1e-6
    for one in by_timed["force"] + by_timed["call"]:
        assert (one.steps_per_second, one.energy_drift, one.drift_steps, one.integrator, one.dt) == (None,) * 5
    line = json.loads((tmp_path / "out" / "records.jsonl").read_text().splitlines()[0])
    assert {"steps_per_second", "energy_drift", "drift_steps", "integrator", "dt"} <= line.keys()
    text = StringIO()
    render(records, Console(file=text, width=120), {})
    for words in (
        "timed: force",
        "timed: step, leapfrog dt = 0.001",
        "timed: step, damped_euler",
        "timed: call",
        "steps/s",
    ):
        assert words in text.getvalue()
    assert CliRunner().invoke(app, [*command, "--resume"]).exit_code == 0
    assert len([one for one in RecordFile(tmp_path / "out").read() if not one.anchor]) == len(
        [r for r in records if not r.anchor]
    )
