"""What holds of every variant, by physics and by property. A new variant is tested without a new test."""

import inspect
import os
import re
import subprocess
import sys
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gravbench.config.load import load, packaged
from gravbench.measuring import verify as reference
from gravbench.measuring.verify import Judge
from gravbench.model import generators
from gravbench.model.bodies import Bodies, flattened
from gravbench.model.interaction import GRAVITY
from gravbench.model.interaction_files import find
from gravbench.model.variant import BUILT_IN, DIRECT_SUM, discover
from gravbench.toolkits.interface import FLAGS, HOLD_SOURCE
from gravbench.toolkits.opening import open_toolkit
from nvrtc import compile_cuda
from recorder import asked_for, possible

VARIANTS = discover()
EPS = 0.05

# numba.cuda is here twice: in the simulator on every machine, for real on a GPU.
RUNS = [
    pytest.param(
        name,
        toolkit,
        dtype,
        id=f"{name}-{toolkit}-{dtype}",
        marks=[] if toolkit in ("numba", "cpu") else [pytest.mark.gpu],
    )
    for name, variant in VARIANTS.items()
    for toolkit, dtype in product(variant.toolkits, variant.dtypes)
]
every_run = pytest.mark.parametrize(("name", "toolkit", "dtype"), RUNS)


@pytest.fixture
def accelerate(need_toolkit):
    """Return a function that evaluates a variant, over one whole cycle if it has one; shape (n, 3)."""

    def evaluate(name, toolkit, dtype, bodies, **axes):
        need_toolkit(toolkit)
        variant = VARIANTS[name]
        opened = open_toolkit(toolkit, variant, dtype)
        # A tree is exact, and to be held to the same, where it opens every cell.
        axes = {**(SIMULATED if simulator(toolkit) else {}), "theta": 0, **axes}
        axes = {axis: value for axis, value in axes.items() if axis in variant.axes}
        prepared = variant.prepare(opened, bodies, **variant.complete(axes))
        results = []
        for _ in range(prepared.cycle):
            prepared.launch()
            opened.synchronize()
            result = prepared.accelerations
            if prepared.on_host:
                results.append(result[:, :3].copy())
            elif isinstance(result, tuple):
                results.append(np.column_stack([opened.download(column) for column in result]))
            else:
                results.append(opened.download(result)[:, :3].copy())
        return np.mean(results, axis=0)

    return evaluate


# The simulator starts a Python thread for each of the block's.
SIMULATED = {"p": 32, "q": 2, "unroll": 8, "j_bag": 64}


def simulator(toolkit):
    return toolkit == "numba" and os.environ.get("NUMBA_ENABLE_CUDASIM") == "1"


def bodies_of(n, seed=3):
    return generators.plummer(n, seed, EPS)


@every_run
@pytest.mark.parametrize("n", [1, 2, 31, 127, 128, 129, 1000])
def test_agrees_with_the_float64_direct_sum(accelerate, name, toolkit, dtype, n):
    if simulator(toolkit) and n == 1000:
        n = 193  # the simulator is a thousand times slower; more than one block and an odd end is what counts
    bodies = bodies_of(n)
    rows = reference.verified_rows(n)
    errors = reference.compare(
        accelerate(name, toolkit, dtype, bodies), reference.direct_accelerations(bodies, rows, dtype)
    )
    assert reference.objection_to(errors, DIRECT_SUM[dtype]) is None


@every_run
def test_two_bodies_pull_as_the_closed_form_says(accelerate, name, toolkit, dtype):
    # a_0 = m_1 d / (d^2 + eps^2)^(3/2) along the line between them, and m_0 a_0 = -m_1 a_1.
    bodies = Bodies(np.array([1.0, 3.0]), np.array([[0.0, 0, 0], [0, 2.0, 0]]), np.zeros((2, 3)), EPS)
    pull = 2.0 / (4.0 + EPS**2) ** 1.5
    accelerations = accelerate(name, toolkit, dtype, bodies)
    # Four roundings of float32 in a row.
    assert_allclose(accelerations, [[0, 3 * pull, 0], [0, -pull, 0]], rtol=2.5e-7, atol=0)


@every_run
def test_forces_sum_to_zero(accelerate, name, toolkit, dtype):
    # Newton's third law: the sum of m a is zero but for rounding, a random walk over 128 * 128 pulls.
    bodies = generators.collision(128, 5, EPS)
    forces = bodies.mass[:, None] * accelerate(name, toolkit, dtype, bodies)
    rounding = np.finfo(dtype).eps * np.abs(forces).sum()
    assert np.abs(forces.sum(axis=0)).max() < 4 * rounding


@every_run
def test_coincident_bodies_stay_finite_and_pull_each_other_nowhere(accelerate, name, toolkit, dtype):
    bodies = Bodies(np.ones(5), np.full((5, 3), 0.3), np.zeros((5, 3)), EPS)
    assert_allclose(accelerate(name, toolkit, dtype, bodies), 0, atol=0)


@every_run
def test_a_body_without_mass_is_pulled_and_pulls_nobody(accelerate, name, toolkit, dtype):
    bodies = bodies_of(40)
    ghost = Bodies(
        np.append(bodies.mass, 0.0),
        np.vstack([bodies.position, [0.1, 0.2, 0.3]]),
        np.vstack([bodies.velocity, [0, 0, 0]]),
        EPS,
    )
    with_ghost = accelerate(name, toolkit, dtype, ghost)
    assert_allclose(with_ghost[:40], accelerate(name, toolkit, dtype, bodies), rtol=1e-5)
    assert np.linalg.norm(with_ghost[40]) > 0


@every_run
def test_every_axis_value_gives_the_same_accelerations(accelerate, name, toolkit, dtype):
    """Walk along each axis with the others at their defaults."""
    variant = VARIANTS[name]
    if not variant.axes:
        pytest.skip("has no axes")
    n = 24 if simulator(toolkit) and {"theta", "warps"} & variant.axes.keys() else 70
    bodies = {3: bodies_of(n), 2: flattened(bodies_of(n))}
    expected = {dim: reference.direct_accelerations(bodies[dim], np.arange(n), dtype) for dim in bodies}
    base = {axis: value for axis, value in SIMULATED.items() if axis in variant.axes} if simulator(toolkit) else {}
    for axis, values in variant.axes.items():
        if simulator(toolkit) and axis == "warps":  # how many registers there are: nothing to the simulator
            continue
        # On a GPU all of them; in the simulator the ends and the middle of a long axis.
        few = simulator(toolkit) and len(values) > 4
        for value in [values[0], values[len(values) // 2], values[-1]] if few else values:
            axes = variant.complete({**base, axis: value})
            if axes.get("block_shape") == "16x16":
                axes["p"] = 256
            if not possible(variant, axes, toolkit) or (simulator(toolkit) and axes["p"] * axes.get("q", 1) > 256):
                continue
            dim = axes.get("dim", 3)
            errors = reference.compare(accelerate(name, toolkit, dtype, bodies[dim], **axes), expected[dim])
            assert reference.objection_to(errors, variant.accepted(dtype, axes)) is None, axes


@every_run
def test_an_approximation_says_what_it_approximates(need_toolkit, name, toolkit, dtype):
    """What it computes differs from the exact sum, and a cycle of it does not; only a variant that says so differs."""
    need_toolkit(toolkit)
    variant = VARIANTS[name]
    opened = open_toolkit(toolkit, variant, dtype)
    bodies = bodies_of(70)
    axes = {axis: value for axis, value in SIMULATED.items() if axis in variant.axes} if simulator(toolkit) else {}
    axes_of = variant.complete(axes)
    prepared = variant.prepare(opened, bodies, **axes_of)
    assert (prepared.cycle > 1 or prepared.on_host or "theta" in axes_of) == (variant.approximates is not None)
    prepared.launch()
    opened.synchronize()
    holder = open_toolkit("cpu", variant, dtype) if prepared.on_host else opened
    judge = Judge(holder, prepared, bodies, variant.accepted(dtype, axes_of), dtype)
    errors, objection = judge.verdict()
    assert objection is None
    if variant.approximates:
        assert errors.error_max > 1e-4
    if prepared.cycle > 1:
        assert errors.error_cycle_max < 1e-4


CUDA_C = [name for name, variant in VARIANTS.items() if variant.has_cuda_c]
ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120")


def compiled(variant, architecture, dtype, constants, interaction=find(GRAVITY)):  # noqa: B008 - never changed
    defines = [f"-D{key}={value}" for key, value in constants]
    if dtype == "float64":
        defines.append("-DFLOAT64=1")
    return compile_cuda(variant.cuda_source(interaction), architecture, [*FLAGS, *defines])


def wanted(name):
    """Return the axes and number types of a variant that a packaged configuration, or its own default, asks for."""
    variant = VARIANTS[name]
    own = {(dtype, tuple(variant.complete({}).items())) for dtype in variant.dtypes}
    for sweep in SWEEPS:
        own |= {(case.dtype, tuple(case.axes.items())) for case in sweep.cases if case.variant == name}
    return sorted(own, key=str)


SWEEPS = [load(name) for name in packaged()]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", CUDA_C)
def test_what_a_configuration_asks_for_compiles_without_a_warning(name, architecture):
    variant = VARIANTS[name]
    builds = {(dtype, build) for dtype, axes in wanted(name) for build in asked_for(variant, dtype, dict(axes))}
    assert builds
    for dtype, (stem, constants) in builds:
        image, ptx, _ = compiled(variant, architecture, dtype, constants)
        assert image.startswith(b"\x7fELF")
        assert f".entry {stem}(" in ptx
        if dtype == "float32":
            assert (".f64" in ptx) == variant.mixed, constants
            # What only clears or adds up has a name of its own.
            assert ("rsqrt.approx.ftz.f32" in ptx) == (stem in (name, f"{name}_kernel")), constants


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", CUDA_C)
def test_no_register_spills_at_the_default_axes(name, architecture):
    variant = VARIANTS[name]
    for dtype in variant.dtypes:
        for _, constants in asked_for(variant, dtype, variant.complete({})):
            _, _, remarks = compiled(variant, architecture, dtype, constants)
            spills = re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", remarks)
            assert spills == [("0", "0")], remarks


@pytest.mark.parametrize("name", CUDA_C)
def test_every_axis_value_compiles(name):
    variant = VARIANTS[name]
    builds = set()
    for axis, values in variant.axes.items():
        for value in values:
            axes = variant.complete({axis: value})
            if possible(variant, axes, "cupy"):
                builds |= set(asked_for(variant, "float32", axes))
    for _, constants in builds:
        _, ptx, _ = compiled(variant, "sm_90", "float32", constants)
        assert (".f64" in ptx) == variant.mixed, constants


def test_a_float64_constant_would_be_seen():
    """The check above can fail: this is the mistake it is for."""
    variant = SimpleNamespace(
        cuda_source=lambda interaction: VARIANTS["naive"].cuda_source(interaction).replace("dx * dx", "0.1 * dx * dx"),
    )
    _, ptx, _ = compiled(variant, "sm_90", "float32", ())
    assert ".f64" in ptx


def test_the_tile_is_read_with_one_vector_load_an_interaction():
    (_, constants), *_ = asked_for(VARIANTS["tiled"], "float32", VARIANTS["tiled"].complete({}))
    _, ptx, _ = compiled(VARIANTS["tiled"], "sm_90", "float32", constants)
    # One more for the loop over a tile that is not full.
    assert ptx.count("ld.shared.v4.f32") == 32 + 1
    assert ptx.count("rsqrt.approx.ftz.f32") == 32 + 1
    assert "ld.shared.f32" not in ptx


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_holding_kernel_compiles(architecture):
    assert compile_cuda(HOLD_SOURCE, architecture, list(FLAGS))[0].startswith(b"\x7fELF")


def test_the_parallel_loop_on_the_cpu_is_vectorized():
    """The machine code multiplies packed numbers; the serial loop, whose order of sums is kept, does not."""
    script = """
import numba, numpy, re, sys
from gravbench.variants.cpu import numba_direct, numba_parallel
for module in (numba_direct, numba_parallel):
    kernel = module.cpu_kernel(numba, numpy.float32)
    columns = [numpy.ones(8, numpy.float32) for _ in range(7)]
    kernel(*columns[:4], numpy.float32(1), *columns[4:])
    code = "".join(kernel.inspect_asm().values())
    print(len(re.findall(r"v?mulps\\b|\\bfmla\\s+v", code)))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=BUILT_IN.parent
    )
    serial, parallel = map(int, done.stdout.split())
    assert serial == 0
    assert parallel > 0


def test_every_variant_has_a_head_comment_a_source_and_a_known_parent():
    for variant in VARIANTS.values():
        assert variant.summary.endswith("."), variant.name
        assert len(variant.explanation) > len(variant.summary) or variant.parent is None, variant.name
        assert variant.source
        assert variant.parent is None or variant.parent in VARIANTS
        if variant.has_cuda_c:
            assert variant.path.with_suffix(".cu").read_text().startswith("// "), variant.name


def test_the_numba_twin_has_the_same_launch_geometry_and_signature():
    """Both come from one ``prepare``; what can differ is the number of parameters."""
    for variant in VARIANTS.values():
        if "numba" not in variant.toolkits or not variant.has_cuda_c:
            continue
        (stem, constants), *_ = asked_for(variant, "float32", variant.complete({}))
        source = variant.path.with_suffix(".cu").read_text()
        parameters = re.search(rf"\b{stem}\((.*?)\)", source, re.DOTALL).group(1).split(",")
        numba = pytest.importorskip("numba.cuda")
        kernel = variant.module.numba_kernel(numba, np.float32, find(GRAVITY), **dict(constants))
        own = inspect.signature(kernel.py_func).parameters
        assert [word.split()[-1].lstrip("*") for word in parameters] == list(own), variant.name
