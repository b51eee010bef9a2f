"""Kernels that Numba's simulator cannot stand in for, run on the host thread by thread."""

import numpy as np
import pytest

from direct import direct_accelerations
from emulator import COMPILER, Emulator
from gravbench.model import generators
from gravbench.model.bodies import Bodies
from gravbench.model.variant import discover
from gravbench.variants.blocked import tensor_share
from gravbench.verifying import comparing as reference
from pretended import Gpu

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no g++ on PATH")
EPS = 0.05

CASES = [
    ("shuffle", "float32", {"p": 32, "r": 2, "unroll": 8}),
    ("symmetric", "float32", {"p": 32, "r": 2, "unroll": 8, "parts": 3}),
    ("symmetric", "float32", {"p": 64, "r": 1, "unroll": 8, "travel": "shuffle", "gather": 0}),
    ("symmetric", "float32", {"p": 64, "r": 2, "unroll": 4, "equal_mass": 1}),
    ("symmetric", "float32", {"p": 32, "r": 2, "unroll": 8, "deterministic": 1, "parts": 2}),
    ("symmetric", "float64", {"p": 32, "r": 1, "unroll": 8, "deterministic": 1}),
    ("symmetric", "float32", {"p": 32, "r": 1, "unroll": 8, "copies": 4}),
    # What chips without TF32 do.
    ("tensor", "float32", {"p": 64, "r": 4, "parts": 2, "copies": 4}),
    ("tensor", "float32", {"p": 32, "reorder": 0}),
]
every_case = pytest.mark.parametrize(
    ("name", "dtype", "axes"),
    CASES,
    ids=["-".join([name, dtype, *map(str, axes.values())]) for name, dtype, axes in CASES],
)


@pytest.fixture(scope="module")
def accelerate(libraries):
    def evaluate(name, dtype, bodies, axes, **options):
        variant = discover()[name]
        prepared = variant.prepare(Emulator(variant, dtype, libraries, **options), bodies, **variant.complete(axes))
        prepared.launch()
        first = prepared.accelerations[:, :3].copy()
        prepared.launch()
        return first, prepared.accelerations[:, :3].copy()

    return evaluate


def judged(name, dtype, bodies, found):
    expected = direct_accelerations(bodies, np.arange(bodies.n), dtype)
    return reference.objection_to(reference.compare(found, expected), discover()[name].accepted(dtype, {}))


SMALL = {"p": 32, "unroll": 8, "r": 2, "j_bag": 64, "gpus": 2, "theta": 0}
NOT_EMULATED = {
    "barnes_hut": "the host builds its tree; its twin is simulated",
    "barnes_hut_classic": "the host builds its tree; test_barnes_hut_classic.py emulates the walk",
}


@pytest.mark.parametrize(
    "name", [name for name, one in discover().items() if one.has_cuda_c and name not in NOT_EMULATED]
)
def test_cuda_c_agrees_with_the_float64_direct_sum(libraries, name):
    variant, bodies = discover()[name], generators.plummer(97, 3, EPS)
    asked = {axis: value for axis, value in SMALL.items() if axis in variant.axes}
    axes = variant.complete(asked)
    gpu = (Gpu if "gpus" in axes else Emulator)(variant, "float32", libraries)
    prepared = variant.prepare(gpu, bodies, **axes)
    found = []
    for _ in range(prepared.cycle):
        prepared.launch()
        gpu.synchronize()
        result = prepared.accelerations
        found.append(np.column_stack(result) if isinstance(result, tuple) else result[:, :3].copy())
    expected = direct_accelerations(bodies, np.arange(bodies.n), "float32")
    errors = reference.compare(np.mean(found, axis=0), expected)
    assert reference.objection_to(errors, variant.accepted("float32", axes)) is None


@pytest.mark.slow
@every_case
def test_agrees_with_the_float64_direct_sum(accelerate, name, dtype, axes):
    # Less than a warp, an odd end, an even and an odd number of blocks in the ring.
    for n in (1, 33, 128, 161):
        bodies = generators.plummer(n, 3, EPS)
        first, second = accelerate(name, dtype, bodies, axes)
        assert judged(name, dtype, bodies, first) is None, n
        # What a launch adds to has to be cleared by the next.
        assert judged(name, dtype, bodies, second) is None, n
        if axes.get("deterministic"):
            assert np.array_equal(first, second)


@pytest.mark.slow
@every_case
def test_masses_that_differ_and_masses_of_zero(accelerate, name, dtype, axes):
    bodies = generators.collision(100, 5, EPS)
    mass = bodies.mass.copy()
    mass[::3] = 0
    bodies = Bodies(mass, bodies.position, bodies.velocity, EPS)
    found, _ = accelerate(name, dtype, bodies, axes)
    assert judged(name, dtype, bodies, found) is None


@pytest.mark.slow
@every_case
def test_forces_sum_to_zero_and_coincident_bodies_stay_where_they_are(accelerate, name, dtype, axes):
    bodies = generators.collision(96, 5, EPS)
    forces = bodies.mass[:, None] * accelerate(name, dtype, bodies, axes)[0]
    assert np.abs(forces.sum(axis=0)).max() < 4 * np.finfo(dtype).eps * np.abs(forces).sum()
    one_place = Bodies(np.ones(5), np.full((5, 3), 0.3), np.zeros((5, 3)), EPS)
    assert not accelerate(name, dtype, one_place, axes)[0].any()


def heavy_and_light(n):
    """Two galaxies of bodies whose masses differ by six orders of magnitude, some of them without any."""
    bodies = generators.collision(n, 5, EPS)
    mass = bodies.mass * np.logspace(-6, 0, n)
    mass[::7] = 0
    return Bodies(mass, bodies.position, bodies.velocity, EPS)


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 64, 1000, 2560])
def test_tensor_orders_every_body_once_and_the_most_compact_block_first(libraries, n):
    variant = discover()["tensor"]
    emulator = Emulator(variant, "float32", libraries)
    bodies = generators.collision(n, 5, EPS)
    axes = {"p": 64, "r": 2, "reorder": 1}
    gathered = []
    launch = emulator.compile

    def compile_(stem, **constants):
        kernel = launch(stem, **constants)

        def kept(grid, threads, *arguments):
            kernel(grid, threads, *arguments)
            if stem == "tensor_gather":
                gathered.append(arguments[3][:n].copy())

        return kept

    emulator.compile = compile_
    variant.prepare(emulator, bodies, **variant.complete(axes)).launch()
    (placed,) = gathered
    own = np.column_stack([bodies.position, bodies.mass]).astype(np.float32)
    assert sorted(map(tuple, placed)) == sorted(map(tuple, own))
    whole = placed[: n // 64 * 64, :3].reshape(-1, 64, 3)
    radius = np.linalg.norm(whole - whole.mean(axis=1, keepdims=True), axis=2).max(axis=1)
    assert np.all(np.diff(radius) >= -1e-5 * radius[1:])
    # Blocks of an order that is none are as wide as the whole.
    assert n < 1000 or np.median(radius) < 0.5 * np.linalg.norm(bodies.position - bodies.position.mean(0), axis=1).max()


@pytest.mark.slow
@pytest.mark.parametrize("reorder", [0, 1, 2])
def test_tensor_stays_as_accurate_when_bodies_have_moved_since_they_were_ordered(libraries, reorder):
    variant = discover()["tensor"]
    bodies = generators.collision(300, 5, EPS)
    emulator = Emulator(variant, "float32", libraries, tensor_cores=True)
    prepared = variant.prepare(emulator, bodies, **variant.complete({"p": 32, "r": 2, "reorder": reorder}))
    for turn in range(3):
        position = np.roll(bodies.position, 70 * turn, axis=0) * (1 + turn)
        moved = Bodies(bodies.mass, position, bodies.velocity, EPS)
        prepared.bodies[:, :3] = position
        prepared.launch()
        expected = direct_accelerations(moved, np.arange(bodies.n), "float32")
        assert reference.compare(prepared.accelerations[:, :3], expected).error_rms < 1e-6


@pytest.fixture
def few_are_many(monkeypatch):
    """Let tensor take one FP16 number however few the bodies are."""
    monkeypatch.setattr(tensor_share, "MANY", dict.fromkeys(tensor_share.MANY, 0))


@pytest.mark.slow
@pytest.mark.parametrize(("r", "warps"), [(2, 0), (4, 0), (4, 20)])
@pytest.mark.parametrize(
    "bodies", [generators.collision(300, 5, EPS), heavy_and_light(300)], ids=["collision", "heavy and light"]
)
def test_tensor_cores_are_as_exact_as_what_they_multiply(accelerate, few_are_many, bodies, r, warps):  # noqa: ARG001
    """One FP16 has 11 bits, two 22; both are far from exact where no block goes through tensor cores."""
    expected = direct_accelerations(bodies, np.arange(bodies.n), "float32")
    rms = {}
    for terms in (1, 2):
        axes = {"p": 32, "r": r, "terms": terms, "separation": 1.25, "copies": 2, "warps": warps}
        found, _ = accelerate("tensor", "float32", bodies, axes, tensor_cores=True)
        rms[terms] = reference.compare(found, expected).error_rms
    assert rms[2] < 1e-6
    assert 1.5 * rms[2] < rms[1] < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize(
    "bodies", [generators.collision(300, 5, EPS), heavy_and_light(300)], ids=["collision", "heavy and light"]
)
def test_a_cube_in_fp16_has_several_times_the_errors_of_one_that_is_rounded_to_it(
    accelerate,
    few_are_many,  # noqa: ARG001
    bodies,
):
    """Three times the rounding of 1 / r, and those of two products."""
    expected = direct_accelerations(bodies, np.arange(bodies.n), "float32")
    rms = {}
    for name, axes in (("tensor", {"terms": 1}), ("tensor_half", {})):
        found, _ = accelerate(name, "float32", bodies, axes | {"separation": 1.25}, tensor_cores=True)
        rms[name] = reference.compare(found, expected).error_rms
    assert 2 * rms["tensor"] < rms["tensor_half"] < 5 * rms["tensor"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "bodies", [generators.collision(1000, 5, EPS), heavy_and_light(1000)], ids=["collision", "heavy and light"]
)
@pytest.mark.parametrize("fma_roots", [0, 8])
def test_tensor_with_one_fp16_is_accepted_with_few_bodies_and_with_a_few_heavy_ones(accelerate, bodies, fma_roots):
    axes = {"p": 32, "r": 2, "terms": 1, "fma_roots": fma_roots}
    found, _ = accelerate("tensor", "float32", bodies, axes, tensor_cores=True)
    assert judged("tensor", "float32", bodies, found) is None
    expected = direct_accelerations(bodies, np.arange(bodies.n), "float32")
    assert reference.compare(found, expected).error_rms < 1e-6


@pytest.mark.slow
def test_tensor_with_one_fp16_takes_two_for_bodies_that_become_heavy_after_its_preparation(libraries, monkeypatch):
    variant = discover()["tensor"]
    monkeypatch.setitem(tensor_share.MANY, "float32", 100)
    bodies = generators.plummer(600, 5, EPS)
    axes = variant.complete({"p": 32, "r": 2, "terms": 1})
    prepared = variant.prepare(Emulator(variant, "float32", libraries, tensor_cores=True), bodies, **axes)
    rms = []
    for heavy in (bodies.mass, np.where(np.arange(600) % 150, 1e-6, 0.25)):
        prepared.bodies[:, 3] = heavy
        prepared.launch()
        changed = Bodies(heavy, bodies.position, bodies.velocity, bodies.eps)
        expected = direct_accelerations(changed, np.arange(600), "float32")
        rms.append(reference.compare(prepared.accelerations[:, :3], expected).error_rms)
    assert rms[0] > 1e-6
    assert rms[1] < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize(("apart", "terms"), [(1.7, 2), (1.9, 2), (2.4, 1), (5.0, 1)])
def test_nearer_than_twice_the_radius_of_a_block_tensor_takes_two_fp16(accelerate, few_are_many, apart, terms):  # noqa: ARG001
    generator = np.random.default_rng(3)
    ball = generator.normal(size=(64, 3))
    ball /= np.linalg.norm(ball, axis=1)[:, None]
    other = generator.normal(size=(64, 3))
    other *= 1.2 / np.linalg.norm(other, axis=1)[:, None]
    other[0] = -1.2, 0, 0
    position = np.r_[ball - ball.mean(0), other + np.array([1.2 + apart, 0, 0])]
    # What is judged is what the other block does, whose masses are greater.
    bodies = Bodies(np.r_[np.full(64, 1e-9), np.ones(64)], position, np.zeros((128, 3)), 1e-3)
    found, _ = accelerate("tensor", "float32", bodies, {"p": 32, "r": 2, "terms": 1, "reorder": 0}, tensor_cores=True)
    expected = direct_accelerations(bodies, np.arange(64), "float32")
    error = reference.compare(found[:64], expected).error_max
    assert error < 2e-6 if terms == 2 else error > 5e-6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("apart", "wide", "mass", "eps"),
    [
        (1e6, 0.0, 1.0, 0.1),
        # Up to and past the length whose cube a float cannot hold.
        (1e11, 1e9, 1.0, 1e9),
        (3e12, 3e10, 1.0, 3e10),
        (1e15, 1e-3, 1.0, 0.1),
        (1e-11, 1e-12, 1e-20, 1e-9),
    ],
    ids=["two points", "far", "at the end of a float", "very far", "very small"],
)
def test_powers_of_two_bring_any_lengths_and_masses_into_range(accelerate, apart, wide, mass, eps):
    position = wide * np.random.default_rng(3).normal(size=(256, 3))
    position[128:, 0] += apart
    bodies = Bodies(np.full(256, mass), position, np.zeros((256, 3)), eps)
    axes = {"p": 32, "r": 2, "separation": 1.25, "copies": 2}
    found, _ = accelerate("tensor", "float32", bodies, axes, tensor_cores=True)
    expected = direct_accelerations(bodies, np.arange(bodies.n), "float32")
    assert reference.compare(found, expected).error_max < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("ratio", [1.5, 5, 10, 20, 40])
def test_one_heavy_body_pulls_all_at_whatever_distance(accelerate, ratio):
    """Blocks that reach far: the least of their r^-3 still has to have bits in FP16 if a heavy body gives it weight."""
    generator = np.random.default_rng(3)
    near = 0.03 * generator.uniform(-1, 1, size=(64, 3)) / np.sqrt(3)
    far = np.stack([np.geomspace(0.3, 0.3 * ratio, 64), *(0.01 * generator.normal(size=(2, 64)))], axis=1)
    bodies = Bodies(np.r_[1.0, np.full(127, 1e-9)], np.r_[near, far], np.zeros((128, 3)), 1e-3)
    found, _ = accelerate("tensor", "float32", bodies, {"p": 32, "r": 2}, tensor_cores=True)
    expected = direct_accelerations(bodies, np.arange(bodies.n), "float32")
    assert reference.compare(found, expected).error_max < 5e-6
