"""Every value that a declaration says its variant takes: it compiles, and gives the same accelerations."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from conftest import saying
from direct import direct_accelerations
from emulator import COMPILER, Emulator
from gravbench.errors import InputError
from gravbench.model import generators
from gravbench.model.bodies import flattened
from gravbench.model.interaction import GRAVITY
from gravbench.model.interaction_files import find
from gravbench.model.ranges import Range
from gravbench.model.variant import discover, variant
from gravbench.toolkits.interface import FLAGS
from gravbench.toolkits.opening import open_toolkit
from gravbench.verifying import comparing as reference
from nvrtc import QUICK, compile_cuda
from recorder import asked_for, possible

VARIANTS = discover()
CUDA_C = [name for name, one in VARIANTS.items() if one.has_cuda_c and one.ranges]
EPS = 0.05


def unusual(numbers):
    """Return the ends of a range, and what nobody lists in between."""
    found = [numbers.find(value) for value in (numbers.least, numbers.most, 1.37, 0.35, 1 / 3, 3, 96)]
    return list(dict.fromkeys(value for value in found if value is not None))


def complete(one, axis, value, toolkit):
    """Fill the defaults in, and change other axes until the combination is possible."""
    helps = {"unroll": (1, value), "batch": (1,), "q": (1,), "dim": (2,), "staged": (1,)}
    helps |= {"p": (32, value, 1), "j_bag": (value,), "r": (2,)}
    choices = {other: (one.defaults[other], *helps.get(other, ())) for other in one.axes} | {axis: (value,)}
    if axis == "r":  # the more bodies, the fewer of their interactions in a row, or it takes the compiler minutes
        choices["unroll"] = (1,)
    for chosen in product(*choices.values()):
        axes = dict(zip(choices, chosen, strict=True))
        if possible(one, axes, toolkit):
            return axes
    raise AssertionError(f"{one.name} takes {axis} = {value} on {toolkit} with nothing else")


def compiled(one, dtype, axes, architecture, options=("--minimal",)):
    for _, constants in asked_for(one, dtype, axes):
        defines = [f"-D{key}={value}" for key, value in constants]
        own = [*FLAGS, *options, *(["-DFLOAT64=1"] if dtype == "float64" else []), *defines]
        compile_cuda(one.cuda_source(find(GRAVITY)), architecture, own)


@pytest.mark.slow
@pytest.mark.parametrize("name", CUDA_C)
def test_every_end_of_a_range_compiles_without_a_warning(name):
    """Assembled in the type that takes most shared memory, for too much of it is seen there only.

    Neither warnings nor shared memory depend on what the compiler optimizes. The most that a range unrolls may be too
    much for the compiler: it is optimized in full.
    """
    one = VARIANTS[name]
    done = set()
    for axis, numbers in one.ranges.items():
        for value in unusual(numbers):
            axes = complete(one, axis, value, "cupy")
            builds = tuple(asked_for(one, one.dtypes[-1], axes))
            if builds not in done:
                done.add(builds)
                with saying(str(axes)):
                    compiled(one, one.dtypes[-1], axes, "sm_90" if value == numbers.most else "compute_90", QUICK)
                    if value == numbers.most:
                        compiled(one, one.dtypes[-1], axes, "compute_90")


def test_too_much_shared_memory_would_be_seen():
    source = """
extern "C" __global__ void kernel(double* x) {
    __shared__ double tile[P];
    tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = tile[P - 1 - threadIdx.x];
}"""
    compile_cuda(source, "sm_90", [*FLAGS, *QUICK, "-DP=6144"])
    with pytest.raises(AssertionError, match="uses too much shared data"):
        compile_cuda(source, "sm_90", [*FLAGS, *QUICK, "-DP=6145"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "axes"),
    [
        ("tiled", {"p": 96, "unroll": 3}),
        ("tiled", {"p": 33, "unroll": 11}),
        ("float64_sums", {"p": 96, "unroll": 12, "batch": 3}),
        ("chamomile", {"p": 100, "j_bag": 1500, "unroll": 125}),
        ("split", {"p": 48, "q": 21, "unroll": 3}),
        ("register_blocked", {"p": 96, "r": 3, "unroll": 3}),
        ("split_j", {"p": 96, "r": 3, "unroll": 3}),
        ("shuffle", {"p": 96, "r": 3}),
        ("symmetric", {"p": 96, "r": 3}),
        ("tensor", {"p": 96, "r": 4, "unroll": 3, "separation": 1.37}),
        ("barnes_hut_classic", {"p": 1000, "top_levels": 5, "dim": 2, "node": "full"}),
        ("barnes_hut_classic", {"p": 1000, "top_levels": 4, "dim": 3, "node": "full"}),
        ("lee_window", {"staged": 1, "unroll": 7}),
    ],
)
def test_unusual_values_together_are_assembled(name, axes):
    one = VARIANTS[name]
    axes = one.complete({axis: one.find_value(axis, value) for axis, value in axes.items()})
    assert possible(one, axes, "cupy")
    compiled(one, one.dtypes[-1], axes, "sm_90")


def judged(one, toolkit, dtype, bodies, axes):
    """Run a whole cycle and return what speaks against its mean."""
    prepared = one.prepare(toolkit, bodies, **axes)
    results = []
    for _ in range(prepared.cycle):
        prepared.launch()
        found = prepared.accelerations
        results.append(np.column_stack(found) if isinstance(found, tuple) else np.array(found)[:, :3])
    bodies = flattened(bodies) if axes.get("dim") == 2 else bodies
    exact = direct_accelerations(bodies, np.arange(bodies.n), dtype)
    return reference.objection_to(reference.compare(np.mean(results, axis=0), exact), one.accepted(dtype, axes))


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("naive", {"p": 33}),
        ("float4", {"p": 1}),
        ("soa_direct", {"p": 7}),
        ("tiled", {"p": 48, "unroll": 16}),
        ("kahan", {"p": 12, "unroll": 4}),
        ("float64_sums", {"p": 24, "unroll": 8, "batch": 2}),
        ("split", {"p": 12, "q": 3, "unroll": 4}),
        ("chamomile", {"p": 33, "j_bag": 48, "unroll": 16}),
        ("approximate_global", {"p": 33, "fraction": 1 / 3}),
        ("approximate_tiled", {"p": 12, "unroll": 4, "fraction": 1 / 3}),
        ("register_blocked", {"p": 12, "r": 32, "unroll": 4}),
        ("split_j", {"p": 12, "r": 2, "unroll": 4, "parts": 5}),
        ("barnes_hut", {"theta": 0.35, "leaf_size": 100, "p": 32}),
        ("barnes_hut_classic", {"theta": 1.7, "bits": 3, "leaf_size": 3, "p": 33, "top_levels": 5, "dim": 2}),
    ],
)
def test_unusual_values_agree_with_float64_on_numba(need_toolkit, name, asked):
    need_toolkit("numba")
    one = VARIANTS[name]
    axes = one.complete({axis: one.find_value(axis, value) for axis, value in asked.items()})
    assert possible(one, axes, "numba")
    bodies = generators.plummer(24 if "theta" in axes else 70, 3, EPS)
    if axes.get("dim") == 2:
        bodies = flattened(bodies)
    assert judged(one, open_toolkit("numba", one, "float32"), "float32", bodies, axes) is None


@pytest.mark.parametrize(
    ("asked", "dtype"),
    [
        ({"theta": 0.05}, "float32"),
        ({"theta": 0.35, "bits": 1}, "float64"),
        ({"theta": 1.2, "leaf_size": 5000, "width": 64}, "float32"),
        ({"theta": 1.4, "dim": 2, "bits": 5, "leaf_size": 3, "width": 2}, "float32"),
    ],
    ids=str,
)
def test_unusual_values_agree_with_float64_on_the_cpu(asked, dtype):
    one = VARIANTS["barnes_hut_cpu"]
    axes = one.complete(asked)
    bodies = generators.plummer(1000, 3, EPS)
    bodies = flattened(bodies) if axes["dim"] == 2 else bodies
    assert judged(one, open_toolkit("cpu", one, dtype), dtype, bodies, axes) is None


@pytest.mark.slow
@pytest.mark.skipif(COMPILER is None, reason="no g++ on PATH")
@pytest.mark.parametrize(
    ("name", "dtype", "asked"),
    [
        ("tiled", "float32", {"p": 33, "unroll": 3}),
        ("chamomile", "float32", {"p": 33, "j_bag": 50, "unroll": 5}),
        ("register_blocked", "float64", {"p": 33, "r": 3, "unroll": 3}),
        ("split_j", "float32", {"p": 33, "r": 3, "unroll": 3, "parts": 5}),
        ("shuffle", "float32", {"p": 96, "r": 3}),
        ("symmetric", "float32", {"p": 96, "r": 3, "parts": 5, "copies": 3}),
        ("symmetric", "float64", {"p": 96, "r": 5, "deterministic": 1, "parts": 7}),
        ("tensor", "float32", {"p": 96, "r": 4, "parts": 5, "copies": 3, "unroll": 3, "separation": 1.37}),
        ("tensor", "float32", {"p": 32, "r": 6, "separation": 10.0}),
    ],
)
@pytest.mark.parametrize("n", [1, 161, 400])
def test_unusual_values_of_cuda_c_agree_with_float64(libraries, name, dtype, asked, n):
    one = VARIANTS[name]
    axes = one.complete({axis: one.find_value(axis, value) for axis, value in asked.items()})
    assert possible(one, axes, "cupy")
    for tensor_cores in (False, True) if name == "tensor" else (False,):
        emulated = Emulator(one, dtype, libraries, tensor_cores=tensor_cores)
        assert judged(one, emulated, dtype, generators.plummer(n, 3, EPS), axes) is None, tensor_cores


def test_every_number_that_is_listed_is_in_the_range_or_stands_for_a_choice_of_the_program():
    for name, one in VARIANTS.items():
        for axis, numbers in one.ranges.items():
            assert {value for value in one.axes[axis] if numbers.find(value) is None} <= {0}, (name, axis)


def test_an_axis_of_numbers_without_a_range_lists_all_that_it_takes():
    without = {
        (one.name, axis)
        for one in VARIANTS.values()
        for axis, values in one.axes.items()
        if axis not in one.ranges and not isinstance(values[0], str) and set(values) != {0, 1}
    }
    flags = {(name, axis) for name, axis in without if axis in ("dim", "terms")}
    assert without - flags == {
        ("lee_global", "width"),  # loads of one number or of four
        ("shuffle", "unroll"),  # all that divide 32
        ("symmetric", "unroll"),
        ("symmetric_gpus", "unroll"),
        ("barnes_hut", "streams"),
        ("barnes_hut", "top_levels"),  # as many as nodes.py has numbers of
        *product(["triton_tiles"], ["p", "tile", "warps"]),  # powers of two
        *product(["gluon_tiles"], ["r", "tile", "warps"]),
        *product(["cutile_tiles"], ["p", "tile", "resident"]),
        *product(["cute_tiles", "mojo_tiles"], ["p", "unroll"]),
        *product(["resident_tree"], ["warps", "boxes"]),
        ("warp_tiles", "p"),  # nobody has said which tiles Warp takes
    }


@pytest.mark.parametrize(
    ("numbers", "right", "wrong"),
    [
        (Range(1, 8, "why"), [(1, 1), (8, 8)], [0, 9, 1.0, True, "1", None, 10**400]),
        (Range(32, 96, "why", step=32), [(32, 32), (96, 96)], [48, 0, 128]),
        (Range(0.5, 2.0, "why"), [(1, 1.0), (0.7, 0.7), (2, 2.0)], [0.4, True, "1", float("nan"), float("inf")]),
        (Range(1.25, 3.0, "why", step=0.01), [(1.37, 1.37), (2.99, 2.99)], [1.371, 1.2]),
        (Range(1, 64, "why", divides=64), [(1, 1), (64, 64)], [3, 0, 128]),
        (Range(1 / 1024, 1.0, "why", divides=1), [(1, 1.0), (0.3333333333, 1 / 3)], [0.333, 0.7, 0, 1e-9]),
    ],
    ids=str,
)
def test_a_range_has_its_numbers_and_no_others(numbers, right, wrong):
    for value, own in right:
        assert numbers.find(value) == own
        assert type(numbers.find(value)) is type(own)
    assert [numbers.find(value) for value in wrong] == [None] * len(wrong)


def test_every_fraction_that_is_taken_is_computed():
    numbers = VARIANTS["approximate_tiled"].ranges["fraction"]
    for k in range(1, 1025):
        assert round(1 / numbers.find(float(Fraction(1, k)))) == k


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"ranges": {"q": Range(1, 2, "why")}}, "a range for q, which is not an axis; accepted: p"),
        ({"ranges": {"p": (1, 2)}}, r"the range of axis p is \(1, 2\); accepted: Range\("),
    ],
)
def test_a_declaration_of_a_wrong_range_is_refused(said, reason):
    with pytest.raises(InputError, match=reason):
        variant(parent=None, source="a test", axes={"p": (1,)}, defaults={"p": 1}, **said)


@pytest.mark.parametrize(
    "said", [(2, 1, "why"), (1, 2, ""), (0.0, float("inf"), "why"), (0, 1, "why", None, 1), (1, 2, "why", 0)]
)
def test_a_range_that_holds_nothing_is_refused(said):
    with pytest.raises(InputError, match="a range from"):
        Range(*said)
