"""What holds of every variant, by physics and by property. A new variant is tested without a new test."""

import ast
import importlib
import inspect
import os
import re
from functools import cache, lru_cache
from itertools import product
from types import SimpleNamespace

import numba
import numpy as np
import pytest
from cuda.bindings import nvjitlink
from numpy.testing import assert_allclose

from conftest import saying
from direct import direct_accelerations
from gravbench.config.load import load, packaged
from gravbench.errors import InputError
from gravbench.measuring.outcome import uncounted
from gravbench.model import generators
from gravbench.model.bodies import Bodies, flattened
from gravbench.model.interaction import GRAVITY
from gravbench.model.interaction_files import find
from gravbench.model.toolkits import PACKAGE, catalogue
from gravbench.model.variant import DIRECT_SUM, discover
from gravbench.toolkits.devices import gpus
from gravbench.toolkits.driver import HOLD
from gravbench.toolkits.interface import FLAGS, DeviceToolkit, ToolkitMissingError
from gravbench.toolkits.opening import keeping_kernels, open_toolkit
from gravbench.variants.cpu import numba_direct, numba_parallel
from gravbench.verifying import comparing as reference
from gravbench.verifying.verify import Judge
from nvrtc import ARCHITECTURES, QUICK, compile_cuda, ptx_of_all
from recorder import asked_for, possible

VARIANTS = discover()
EPS = 0.05

WITHOUT_CUDA = "numba", "wgpu", "cpu"

# numba.cuda is here twice: in the simulator on every machine, for real on a GPU.
every_run = pytest.mark.parametrize(
    ("name", "toolkit"),
    [
        pytest.param(name, toolkit, id=f"{name}-{toolkit}", marks=[pytest.mark.gpu] * (toolkit not in WITHOUT_CUDA))
        for name, variant in VARIANTS.items()
        for toolkit in variant.toolkits
    ],
)


@pytest.fixture
def opened_for(need_toolkit):
    """Return a function that opens a toolkit for a variant: one that compiles each kernel once in a test."""

    @lru_cache
    def opened_for(name, toolkit, dtype):
        need_toolkit(toolkit)
        opened = open_toolkit(toolkit, VARIANTS[name], dtype)
        if toolkit == "cpu":  # once in all tests: compiling for the processor takes seconds
            opened.compile = lambda stem, **constants: compiled_for_cpu(name, dtype, stem, tuple(constants.items()))
        # CUDA C and WGSL know no layout of arrays; what Numba and XLA compile is for one.
        # A kernel of numba-cuda-mlir takes seconds to compile, and all bodies of a test have the same layout.
        return keeping_kernels(opened) if catalogue()[toolkit].cuda_c or toolkit in ("wgpu", "mlir") else opened

    return opened_for


@lru_cache
def compiled_for_cpu(name, dtype, stem, constants):
    return open_toolkit("cpu", VARIANTS[name], dtype).compile(stem, **dict(constants))


@pytest.fixture
def accelerate(opened_for):
    """Return a function that evaluates a variant, over one whole cycle if it has one; shape (n, 3)."""

    def evaluate(name, toolkit, dtype, bodies, **axes):
        variant = VARIANTS[name]
        opened = opened_for(name, toolkit, dtype)
        # A tree is exact, and to be held to the same, where it opens every cell.
        axes = {**(SIMULATED if simulator(toolkit) else {}), **NEVER_EXACT.get(name, {"theta": 0}), **axes}
        axes = {axis: value for axis, value in axes.items() if axis in variant.axes}
        prepared = prepared_by(variant, opened, bodies, variant.adapted(variant.complete(axes), toolkit, axes))
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


NEVER_EXACT = {"jzfmm_multipoles": {"theta": 0.2, "order": 7}}
"""Libraries that cannot be told to open every cell, where they are most accurate."""


def errors_of_finest(name, dtype):
    """Return what the errors may be where they are smallest: those of rounding, unless cells are never all opened."""
    variant = VARIANTS[name]
    finest = NEVER_EXACT.get(name)
    return variant.accepted(dtype, variant.complete(finest)) if finest else DIRECT_SUM[dtype]


def fewest(name):
    """Return the number of bodies that a variant needs."""
    return getattr(VARIANTS[name].module, "FEWEST", 1)


def prepared_by(variant, opened, bodies, axes):
    """Prepare a variant, unless the toolkit's library lacks something that the variant asks for, such as a sort."""
    try:
        return variant.prepare(opened, bodies, **axes)
    except ToolkitMissingError as missing:
        pytest.skip(str(missing))


# The simulator starts a Python thread for each of the block's.
SIMULATED = {"p": 32, "q": 2, "unroll": 8, "j_bag": 64}


def simulator(toolkit):
    return toolkit == "numba" and os.environ.get("NUMBA_ENABLE_CUDASIM") == "1"


def dtypes_of(name, toolkit):
    return [dtype for dtype in VARIANTS[name].dtypes if dtype in catalogue()[toolkit].dtypes]


def bodies_of(n, seed=3):
    return generators.plummer(n, seed, EPS)


@every_run
def test_agrees_with_the_float64_direct_sum(accelerate, name, toolkit):
    # Blocks of the simulator are smaller: what counts is more than one of them, and an odd end.
    sizes = (1, 31, 32, 33, 64, 65) if simulator(toolkit) else (1, 2, 31, 127, 128, 129, 1000)
    first, *others = dtypes_of(name, toolkit)
    # The number type changes no loop: of a second one the largest size says enough, but on a GPU.
    few = sizes[-1:] if simulator(toolkit) or toolkit == "cpu" else sizes
    for dtype, n in [*product([first], sizes), *product(others, few)]:
        if n < fewest(name):
            continue  # refused, as the next test says
        with saying(f"{dtype}, n = {n}"):
            bodies = bodies_of(n)
            rows = np.arange(n)
            errors = reference.compare(
                accelerate(name, toolkit, dtype, bodies), direct_accelerations(bodies, rows, dtype)
            )
            assert reference.objection_to(errors, errors_of_finest(name, dtype)) is None


@every_run
def test_two_bodies_pull_as_the_closed_form_says(accelerate, name, toolkit):
    # a_0 = m_1 d / (d^2 + eps^2)^(3/2) along the line between them, and m_0 a_0 = -m_1 a_1.
    bodies = Bodies(np.array([1.0, 3.0]), np.array([[0.0, 0, 0], [0, 2.0, 0]]), np.zeros((2, 3)), EPS)
    pull = 2.0 / (4.0 + EPS**2) ** 1.5
    for dtype in dtypes_of(name, toolkit):
        with saying(dtype):
            if (least := fewest(name)) > bodies.n:
                with pytest.raises(InputError, match=rf"^2 bodies; accepted by .*: {least} or more$"):
                    accelerate(name, toolkit, dtype, bodies)
                continue
            accelerations = accelerate(name, toolkit, dtype, bodies)
            # Four roundings of float32 in a row.
            assert_allclose(accelerations, [[0, 3 * pull, 0], [0, -pull, 0]], rtol=2.5e-7, atol=0)


@every_run
def test_forces_sum_to_zero(accelerate, name, toolkit):
    # Newton's third law: the sum of m a is zero but for rounding, a random walk over n * n pulls.
    bodies = generators.collision(65 if simulator(toolkit) else 128, 5, EPS)
    for dtype in dtypes_of(name, toolkit):
        with saying(dtype):
            forces = bodies.mass[:, None] * accelerate(name, toolkit, dtype, bodies)
            rounding = 4 * np.finfo(dtype).eps
            # Expansions keep Newton's third law but for their errors.
            left = errors_of_finest(name, dtype).rms if name in NEVER_EXACT else 0
            assert np.abs(forces.sum(axis=0)).max() < max(rounding, left) * np.abs(forces).sum()


@every_run
def test_coincident_bodies_stay_finite_and_pull_each_other_nowhere(accelerate, name, toolkit):
    n = max(5, fewest(name))
    bodies = Bodies(np.ones(n), np.full((n, 3), 0.3), np.zeros((n, 3)), EPS)
    for dtype in dtypes_of(name, toolkit):
        with saying(dtype):
            if name in NEVER_EXACT:
                with pytest.raises(InputError, match=r"^all bodies at one place; accepted by .*: bodies at two places"):
                    accelerate(name, toolkit, dtype, bodies)
                continue
            assert_allclose(accelerate(name, toolkit, dtype, bodies), 0, atol=0)


@every_run
def test_a_body_without_mass_is_pulled_and_pulls_nobody(accelerate, name, toolkit):
    bodies = bodies_of(40)
    ghost = Bodies(
        np.append(bodies.mass, 0.0),
        np.vstack([bodies.position, [0.1, 0.2, 0.3]]),
        np.vstack([bodies.velocity, [0, 0, 0]]),
        EPS,
    )
    for dtype in dtypes_of(name, toolkit):
        with saying(dtype):
            with_ghost = accelerate(name, toolkit, dtype, ghost)
            near = 10 * errors_of_finest(name, dtype).rms if name in NEVER_EXACT else 1e-5
            assert_allclose(with_ghost[:40], accelerate(name, toolkit, dtype, bodies), rtol=near)
            assert np.linalg.norm(with_ghost[40]) > 0


def walked(variant, toolkit):
    """Walk along each axis with the others at their defaults: all values on a GPU, fewer in the simulator."""
    simulated = simulator(toolkit)
    base = {axis: value for axis, value in SIMULATED.items() if axis in variant.axes} if simulated else {}
    for axis, values in variant.axes.items():
        if simulated and axis == "warps":  # how many registers there are: nothing to the simulator
            continue
        if axis == "gpus":  # as many as there are; test_gpus.py pretends others
            values = [value for value in values if value <= max(1, len(gpus()[0]))]
        # The ends and the middle of a long axis.
        few = simulated and len(values) > 4
        for value in [values[0], values[len(values) // 2], values[-1]] if few else values:
            axes = variant.adapted(variant.complete({**base, axis: value}), toolkit, {*base, axis})
            if axes.get("block_shape") == "16x16":
                axes["p"] = 256
            if possible(variant, axes, toolkit) and not (simulated and axes["p"] * axes.get("q", 1) > 256):
                yield axes


@pytest.mark.slow
@every_run
def test_every_axis_value_gives_the_same_accelerations(accelerate, name, toolkit):
    variant = VARIANTS[name]
    if not variant.axes:
        pytest.skip("has no axes")
    n = 24 if simulator(toolkit) and {"theta", "warps"} & variant.axes.keys() else 70
    bodies = {3: bodies_of(n), 2: flattened(bodies_of(n))}
    # An axis does not change the number type: one is enough without a GPU, and where each kernel takes 5 s to compile.
    dtypes = dtypes_of(name, toolkit)
    for dtype in dtypes[:1] if simulator(toolkit) or toolkit in ("cpu", "mlir") else dtypes:
        expected = {dim: direct_accelerations(bodies[dim], np.arange(n), dtype) for dim in bodies}
        for axes in walked(variant, toolkit):
            if toolkit == "numba" and not simulator(toolkit) and dtype == "float64" and axes["p"] == 1024:
                continue  # more registers than a thread may have in such a block: a run records it as failed
            with saying(f"{dtype}, {axes}"):
                dim = axes.get("dim", 3)
                errors = reference.compare(accelerate(name, toolkit, dtype, bodies[dim], **axes), expected[dim])
                assert reference.objection_to(errors, variant.accepted(dtype, axes)) is None


@every_run
def test_an_approximation_says_what_it_approximates(opened_for, name, toolkit):
    """What it computes differs from the exact sum, and a cycle of it does not; only a variant that says so differs."""
    variant = VARIANTS[name]
    axes = {axis: value for axis, value in SIMULATED.items() if axis in variant.axes} if simulator(toolkit) else {}
    axes = variant.adapted(variant.complete(axes), toolkit, axes)
    # Where leaves hold several bodies, only a few cells of 70 stand for more than one.
    bodies = bodies_of(70 if simulator(toolkit) else 1000)
    for dtype in dtypes_of(name, toolkit):
        with saying(dtype):
            opened = opened_for(name, toolkit, dtype)
            prepared = prepared_by(variant, opened, bodies, axes)
            assert (prepared.cycle > 1 or "theta" in axes) == (variant.approximates is not None)
            prepared.launch()
            opened.synchronize()
            holder = open_toolkit("cpu", variant, dtype) if prepared.on_host else opened
            judge = Judge(holder, prepared, bodies, variant.accepted(dtype, axes), dtype)
            errors, objection = judge.verdict()
            assert objection is None
            if variant.approximates:
                assert errors.error_max > 1e-4
                # JZ-FMM does not tell how many interactions it computes: its records have no rate.
                assert prepared.cycle > 1 or prepared.insight is not None or toolkit == "jzfmm"
                assert uncounted(variant, prepared, dtype, axes) == (prepared.cycle == 1)
            else:
                assert not uncounted(variant, prepared, dtype, axes)
            if prepared.cycle > 1:
                assert errors.error_cycle_max < 1e-4


def test_numpy_does_not_overflow_where_the_pull_itself_does_not(accelerate):
    near = bodies_of(100)
    length = 1e13
    far = Bodies(near.mass * length**2, near.position * length, near.velocity, EPS * length)
    found = accelerate("numpy_direct", "cpu", "float32", far)
    errors = reference.compare(found, direct_accelerations(far, np.arange(100), "float32"))
    assert errors.error_max < 1e-5


CUDA_C = [name for name, variant in VARIANTS.items() if variant.has_cuda_c]
SLOW_TO_COMPILE = dict.fromkeys(
    ("fast_multipole", "resident_tree", "resident_tree_gpus", "tensor_gpus"), pytest.mark.slow
)


def compiled(variant, architecture, dtype, constants, interaction=find(GRAVITY), options=()):  # noqa: B008 - never changed
    defines = [f"-D{key}={value}" for key, value in constants]
    if dtype == "float64":
        defines.append("-DFLOAT64=1")
    return compile_cuda(variant.cuda_source(interaction), architecture, [*FLAGS, *options, *defines])


SPILLED = dict.fromkeys(("tensor", "tensor_gpus", "tensor_half"), 64)
"""Bytes of registers that these may spill: on an H200, 20 warps are faster than 16 that spill none."""


def wanted(name):
    """Return the axes and number types of a variant that packaged configurations ask for."""
    cases = {str((case.dtype, case.axes)): case for case in packaged_cases() if case.variant == name}
    return [(case.dtype, case.axes) for case in cases.values()]


@cache
def packaged_cases():
    return [case for name in packaged() for case in load(name).cases]


def builds_of(variant, asked):
    """Return what is compiled, each once, for number types and axes."""
    return {(dtype, *build) for dtype, axes in asked for build in asked_for(variant, dtype, axes)}


def by_default(variant):
    return builds_of(variant, ((dtype, variant.complete({})) for dtype in variant.dtypes))


def check_ptx(variant, ptx, dtype, stem):
    assert f".entry {stem}(" in ptx
    if dtype == "float32":
        assert (".f64" in ptx) == variant.mixed
        # What only clears or adds up has a name of its own.
        # Several GPUs may share the work of another variant's kernel, and one may be compiled in another way.
        alone = variant.name.removesuffix("_gpus").removesuffix("_half")
        pulls = stem in (variant.name, alone, *(f"{variant.name}_{part}" for part in ("kernel", "far", "walk")))
        assert ("rsqrt.approx.ftz.f32" in ptx) == pulls


@pytest.mark.parametrize("name", [pytest.param(name, marks=SLOW_TO_COMPILE.get(name, ())) for name in CUDA_C])
def test_the_default_axes_compile_everywhere_without_a_warning_and_without_a_spill(name):
    variant = VARIANTS[name]
    for architecture, (dtype, stem, constants) in product(ARCHITECTURES, by_default(variant)):
        with saying(f"{architecture}, {dtype}, {stem}, {constants}"):
            assembled = architecture.startswith("sm_")
            image, ptx, remarks = compiled(variant, architecture, dtype, constants, options=() if assembled else QUICK)
            check_ptx(variant, ptx, dtype, stem)
            if assembled:
                assert image.startswith(b"\x7fELF")
                spills = re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", remarks)
                assert all(max(int(one) for one in own) <= SPILLED.get(variant.name, 0) for own in spills), spills


@pytest.mark.slow
@pytest.mark.parametrize("name", CUDA_C)
def test_what_a_configuration_asks_for_and_every_axis_value_compile_without_a_warning(name):
    variant = VARIANTS[name]
    asked = wanted(name)
    for axis, values in variant.axes.items():
        possible_axes = (variant.complete({axis: value}) for value in values)
        asked += [("float32", axes) for axes in possible_axes if possible(variant, axes, "cupy")]
    builds = builds_of(variant, asked)
    assert builds
    builds = sorted(builds - by_default(variant), key=str)
    doubled = {"float64": [("FLOAT64", 1)], "float32": []}
    every = [(stem, [*constants, *doubled[dtype]]) for dtype, stem, constants in builds]
    found = ptx_of_all(variant.cuda_source(find(GRAVITY)), every, "compute_90", [*FLAGS, *QUICK])
    for (dtype, stem, constants), ptx in zip(builds, found, strict=True):
        with saying(f"{dtype}, {stem}, {constants}"):
            check_ptx(variant, ptx, dtype, stem)


def test_a_float64_constant_would_be_seen():
    """The check above can fail: this is the mistake it is for."""
    variant = SimpleNamespace(
        cuda_source=lambda interaction: VARIANTS["naive"].cuda_source(interaction).replace("dx * dx", "0.1 * dx * dx"),
    )
    _, ptx, _ = compiled(variant, "sm_90", "float32", ())
    assert ".f64" in ptx


def test_what_is_wrong_with_one_build_of_many_is_seen_and_named():
    """The same two mistakes where builds are compiled in one program: the last has neither of those before it."""
    source = """
extern "C" __global__ void kernel(float* x) {
#ifdef SQUARE
    x[0] = 0.1 * x[0];
#endif
#if P == 64
    int nobody_uses_this;
#endif
    x[1] = P;
}"""
    builds = [("kernel", [("P", p), *square]) for p, square in ((1, []), (2, [("SQUARE", 1)]), (3, []))]
    found = ptx_of_all(source, builds, "compute_90", [*FLAGS, *QUICK])
    assert [".f64" in ptx for ptx in found] == [False, True, False]
    assert all(".entry kernel(" in ptx for ptx in found)
    with pytest.raises(AssertionError, match="nobody_uses_this") as refused:
        ptx_of_all(source, [*builds, ("kernel", [("P", 64)])], "compute_90", [*FLAGS, *QUICK])
    assert refused.value.__notes__ == ["('kernel', [('P', 64)])"]


def test_the_tile_is_read_with_one_vector_load_an_interaction():
    (_, constants), *_ = asked_for(VARIANTS["tiled"], "float32", VARIANTS["tiled"].complete({}))
    _, ptx, _ = compiled(VARIANTS["tiled"], "sm_90", "float32", constants)
    # One more for the loop over a tile that is not full.
    assert ptx.count("ld.shared.v4.f32") == 32 + 1
    assert ptx.count("rsqrt.approx.ftz.f32") == 32 + 1
    assert "ld.shared.f32" not in ptx


@pytest.mark.parametrize("architecture", [name for name in ARCHITECTURES if name.startswith("sm_")])
def test_the_holding_kernel_compiles(architecture):
    assembler = nvjitlink.create(1, [f"-arch={architecture}"])
    nvjitlink.add_data(assembler, nvjitlink.InputType.PTX, HOLD, len(HOLD), "hold")
    nvjitlink.complete(assembler)
    image = bytearray(nvjitlink.get_linked_cubin_size(assembler))
    nvjitlink.get_linked_cubin(assembler, image)
    nvjitlink.destroy(assembler)
    assert image.startswith(b"\x7fELF")


@pytest.mark.parametrize("toolkit", catalogue())
def test_a_toolkits_class_has_its_name_and_lacks_no_method(toolkit):
    kind = getattr(importlib.import_module(f"{PACKAGE}.{toolkit}"), f"{toolkit.capitalize()}Toolkit")
    assert issubclass(kind, DeviceToolkit)
    assert kind.name == toolkit
    assert not inspect.isabstract(kind)


def test_the_parallel_loop_on_the_cpu_is_vectorized(monkeypatch, tmp_path):
    """The machine code multiplies packed numbers; the serial loop, whose order of sums is kept, does not."""
    # Of what is loaded from the disk Numba shows no machine code.
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    found = []
    for module in (numba_direct, numba_parallel):
        kernel = module.cpu_kernel(numba, np.float32)
        columns = [np.ones(8, np.float32) for _ in range(7)]
        kernel(*columns[:4], np.float32(1), *columns[4:])
        found.append(len(re.findall(r"v?mulps\b|\bfmla\s+v", "".join(kernel.inspect_asm().values()))))
    serial, parallel = found
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


@pytest.mark.parametrize("name", list(VARIANTS))
def test_what_stays_on_the_host_is_declared(name):
    """A run has an anchor of such work: it has to know before anything is prepared."""
    found = VARIANTS[name]
    prepared = [
        keyword.value.value
        for node in ast.walk(ast.parse(found.path.read_text("utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Prepared"
        for keyword in node.keywords
        if keyword.arg == "on_host"
    ]
    assert found.on_host == any(prepared)
