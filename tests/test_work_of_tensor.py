"""What the warps of tensor do: counted from the bodies, found in the machine code, and shared among multiprocessors."""

from dataclasses import replace

import numpy as np
import pytest

from conftest import ROOT
from emulator import COMPILER, Emulator
from gravbench.explain import model, validation
from gravbench.explain.assembling import missing
from gravbench.explain.kernel_code import KernelCode
from gravbench.explain.machine_code import Code, Instruction, Loop
from gravbench.explain.multiprocessors import makespan
from gravbench.explain.peaks import Peaks
from gravbench.explain.pipes import is_rsqrt
from gravbench.explain.recorded_kernels import asked_of
from gravbench.explain.shape import Shape, shape_of
from gravbench.explain.work import work_of, work_of_text
from gravbench.model import generators
from gravbench.model.interaction_files import find
from gravbench.model.kernel_parts import Evaluation, UnmodelledError
from gravbench.model.runs import RecordFile
from gravbench.model.variant import discover
from gravbench.variants.blocked import near_pairs
from gravbench.variants.blocked.tensor_parts import meetings_of
from gravbench.variants.common.curves import hilbert_keys

TENSOR = discover()["tensor"]
GRAVITY = find("gravity")
AXES = TENSOR.complete({"r": 4})
explained = pytest.mark.skipif(missing() is not None, reason=str(missing()))


def counted_pair_by_pair(bodies, width, separation, one_term, along_curve, warps):
    """Go through the lines of tensor.cu warp by warp, with the distances of all bodies."""
    blocks = near_pairs.ordered(bodies.position.astype(np.float32), width, along_curve=along_curve)
    count, eps2 = len(blocks), bodies.eps**2
    lines = (count + 1) // 2
    parts = warps // lines
    everybody = blocks.reshape(-1, 3)
    found = np.zeros((5, warps), int)
    for warp in range(lines * parts):
        line, part = divmod(warp, parts)
        units = count - line if 2 * line == count - 1 else count + 1
        unit, end = units * part // parts, units * (part + 1) // parts
        while unit < end:
            in_first = count - line
            first = unit < in_first
            block, begin = (line, 0) if first else (count - 1 - line, in_first)
            row_end = min(end, in_first if first else units)
            found[4, warp] += 1
            own = blocks[block]
            middle = own.mean(axis=0)
            radius2 = np.square(own - middle).sum(axis=1).max()
            for j in range((block + unit - begin) * width, (block + row_end - begin) * width, 64):
                if j < (block + 1) * width:
                    found[3, warp] += 1
                    continue
                squares = np.square(everybody[j : j + 64] - middle).sum(axis=1)
                least = max(np.sqrt(squares.min()) - np.sqrt(radius2), 0) ** 2 + eps2
                if squares.min() > separation**2 * radius2 and squares.max() + eps2 < 1024 * least:
                    found[2 if one_term and squares.min() > 4 * radius2 else 1, warp] += 1
                else:
                    found[0, warp] += 1
            unit = row_end
    return found


@pytest.mark.parametrize(
    ("n", "width", "separation", "many", "along_curve", "parts"),
    [
        (2048, 64, 1.2, None, True, 3),
        (2000, 64, 1.5, None, False, 5),  # an odd number of blocks, the last of them not full
        (20_480, 64, 1.2, 20_000, True, 4),
        (4096, 128, 1.1, 20_000, True, 1),  # so few masses that one FP16 number is never enough
        (130, 128, 1.2, None, True, 1),
    ],
)
def test_meetings_are_counted_as_the_kernel_decides_them(n, width, separation, many, along_curve, parts):
    bodies = generators.plummer(n, 5, 0.025)
    blocks = -(-n // width)
    warps = -(-blocks // 2) * parts
    found = near_pairs.meetings(
        bodies, width=width, separation=separation, many=many, along_curve=along_curve, warps=warps
    )
    one_term = many is not None and n >= many
    expected = counted_pair_by_pair(bodies, width, separation, one_term, along_curve, warps)
    # On the edge of a rule float32 may round to either side.
    for own, other in zip((found.near, found.two_terms, found.one_term), expected, strict=False):
        assert np.abs(own - other).sum() <= 1e-3 * expected.sum()
    assert (found.within == expected[3]).all()
    assert (found.rows == expected[4]).all()
    assert found.interactions == (blocks * width) ** 2
    assert (found.one_term.sum() > 0) == one_term


def test_neighbours_along_the_curve_are_neighbours_in_space():
    cells = np.stack(np.meshgrid(*[np.arange(8)] * 3, indexing="ij"), axis=-1).reshape(-1, 3) + 0.5
    corners = np.array([[0, 0, 0], [8, 8, 8]], float)
    keys = hilbert_keys(np.concatenate([cells, corners]), 3)[:-2]
    assert sorted(keys) == list(range(512))
    steps = np.abs(np.diff(cells[np.argsort(keys)], axis=0)).sum(axis=1)
    assert (steps == 1).all()


@pytest.mark.skipif(COMPILER is None, reason="no g++ on PATH")
@pytest.mark.parametrize("reorder", [0, 1])
def test_bodies_are_in_the_order_in_which_the_kernel_has_them(libraries, reorder):
    placed = []

    class Noting(Emulator):
        def compile(self, stem, /, **constants):
            kernel = super().compile(stem, **constants)

            def noted(grid, threads, *arguments):
                if stem == "tensor":
                    placed.append(arguments[0][:, :3].copy())
                else:
                    kernel(grid, threads, *arguments)

            return noted

    bodies = generators.collision(1000, 5, 0.025)
    TENSOR.prepare(
        Noting(TENSOR, "float32", libraries), bodies, **TENSOR.complete({"r": 2, "reorder": reorder})
    ).launch()
    own = near_pairs.ordered(bodies.position.astype(np.float32), 64, along_curve=bool(reorder))
    assert (own.reshape(-1, 3) == placed[-1]).mean() > 0.99  # keys that rounding puts into the next cell


def jump(target, predicate=""):
    return Instruction("BRA", f"`({target})", predicate, target=target)


PLAIN = Instruction("FADD", "R0, R1, R2")


def test_a_way_through_a_place_leaves_the_other_branches_out():
    # 0: begin; 1: to B if P0; 2-3: A; 4: to the end; 5-6: B with a loop; 7: end; 8: back.
    own = [PLAIN, jump("B", "@P0"), PLAIN, PLAIN, jump("E"), PLAIN, jump("B", "@P1"), PLAIN, jump("S", "@P2")]
    code = KernelCode(Code(own, {"S": 0, "B": 5, "E": 7}))
    loop = Loop(0, 8)
    assert code.way_through(loop, 2) == [0, 1, 2, 3, 4, 7, 8]
    assert code.way_through(loop, 5) == [0, 1, 5, 6, 7, 8]
    assert code.way_through(loop, 7) == list(range(9))


def test_an_exit_has_no_way_behind_it():
    own = [PLAIN, jump("B", "@P0"), Instruction("EXIT", ""), PLAIN, jump("S", "@P1")]
    code = KernelCode(Code(own, {"S": 0, "B": 3}))
    assert code.way_through(Loop(0, 4), 2) == [0, 1, 2]
    assert code.way_through(Loop(0, 4), 3) == [0, 1, 3, 4]


SLOWNESS = [0.0, 1.0, 1.0, 1.5, 2.0]
"""Two warps do not hinder each other, and more share what there is."""


@pytest.mark.parametrize(
    ("work", "warps", "resident", "multiprocessors", "expected"),
    [
        ([3.0], 1, 1, 1, 3),
        ([3.0, 3.0], 1, 2, 1, 3),
        ([3.0, 3.0], 1, 1, 2, 3),
        ([3.0, 3.0], 1, 1, 1, 6),
        ([3.0] * 4, 2, 2, 1, 6),
        # A block makes room only when its longer warp has ended.
        ([1.0, 4.0, 2.0, 2.0], 2, 1, 1, 6),
        # Four at half the speed until the first two end, at 2; the others do not hinder each other any more.
        ([1.0, 1.0, 3.0, 3.0], 1, 4, 1, 4),
        # The third takes the place of the first.
        ([1.0, 4.0, 2.0], 1, 1, 2, 4),
    ],
)
def test_the_last_warp_ends_when_all_have_done_their_work(work, warps, resident, multiprocessors, expected):
    assert makespan(np.array(work), warps, resident, multiprocessors, SLOWNESS) == pytest.approx(expected)


@pytest.mark.slow
@explained
@pytest.mark.parametrize("axes", [{}, {"terms": 1}, {"terms": 1, "unroll": 4}, {"unroll": 4, "together": 1}, {"r": 2}])
def test_the_parts_of_tensor_have_a_root_for_each_pair(axes):
    own = TENSOR.complete(AXES | axes)
    one = next(one for one in asked_of(TENSOR, own, "float32", GRAVITY) if one.stem == "tensor")
    bodies = generators.plummer(32768, 1, 0.025)
    warps = -(-bodies.n // (32 * dict(one.constants)["R"])) // 2 * 16
    met = meetings_of(bodies, dict(one.constants), own, warps)
    evaluation = Evaluation(own, bodies.n, warps, lambda: bodies)
    work = work_of_text(TENSOR, TENSOR.cuda_source(GRAVITY), one, "sm_90", "float32", 13, evaluation)
    names = {part.name for part in work.parts}
    assert {"near", "rows"} < names
    assert ({"one FP16", "two FP16"} <= names) == (own["terms"] == 1)
    meetings = 64 * met.width / met.interactions
    far = 2 * meetings * (met.one_term + met.two_terms).sum()
    assert 0.8 < far < 1
    roots = sum(times for one, times in work.weighted if is_rsqrt(one.opcode))
    # One for the two interactions of a pair on tensor cores, and one for each in float32; distances of blocks are few.
    assert roots == pytest.approx(far / 2 + 1 - far, rel=0.05)
    products = sum(times for one, times in work.weighted if one.name == "HMMA")
    # Of 16 bodies with 16: two products for the distances, and one or two for the sums of either.
    one_term = 2 * meetings * met.one_term.sum()
    assert products == pytest.approx((one_term * 4 + (far - one_term) * 6) / (2 * 8), rel=0.02)


@pytest.mark.parametrize(("name", "axes", "single"), [("tensor", {"terms": 1}, True), ("tensor_half", {}, False)])
def test_a_cube_in_fp16_is_for_more_masses_than_one_that_is_rounded_to_it(name, axes, single):
    variant, bodies = discover()[name], generators.plummer(24_576, 5, 0.025)
    own = variant.complete(axes)
    one = next(one for one in asked_of(variant, own, "float32", GRAVITY, bodies.n) if one.stem == "tensor")
    assert (meetings_of(bodies, dict(one.constants), own, 1024).one_term.sum() > 0) == single


@explained
def test_every_warp_has_its_own_work():
    """A grid of warps with equal work takes as long as all of it evenly shared, and one with a long warp longer."""
    own = TENSOR.complete(AXES)
    one = next(one for one in asked_of(TENSOR, own, "float32", GRAVITY) if one.stem == "tensor")
    bodies = generators.plummer(16384, 1, 0.025)
    shape = Shape(blocks=1056, warps=2, resident=8, multiprocessors=132)
    evaluation = Evaluation(own, bodies.n, 2112, lambda: bodies)
    work = work_of_text(TENSOR, TENSOR.cuda_source(GRAVITY), one, "sm_90", "float32", 1, evaluation)
    ceilings = Peaks()
    problem, costs = model.Problem(bodies.n, float(bodies.n**2)), model.costs_of(ceilings)

    def seconds(each):
        return model.predict_launch(replace(work, each=each), shape, problem, 1980.0, ceilings, costs).kernel

    even = np.full_like(work.each, 100)
    uneven = even.copy()
    uneven[:, 7] = 400
    assert seconds(even) < seconds(uneven) < 4 * seconds(even)
    assert 1.2 * seconds(even) < seconds(uneven)


@pytest.mark.slow
@explained
def test_instructions_are_those_that_nsight_compute_counted():
    seen = set()
    for record in RecordFile(ROOT / "reports" / "h100" / "counters").read(str):
        if not record.counters or not validation.modelled(record):
            continue
        if not validation.of_this_checkout(record):
            continue
        work = work_of(record, model.architecture_of(record), shape_of(record))
        counted = work.length * record.evaluated / 32 / record.counters["instructions"]
        # A root and a division have branches for rare numbers, which the work counts and no body takes.
        expected = 1.17 if record.axes.get("arithmetic") == "sqrt_div" else 1
        assert counted == pytest.approx(expected, rel=0.04), record.label
        seen.add(record.variant)
    assert {"naive", "float4"} <= seen


def test_nsight_compute_counted_fewer_clocks_a_second_with_matrix_products():
    """Clocks of a scheduler are its instructions over the issue slots in use, whatever clock the driver reports.

    Of the stages of tensor, Nsight Compute counts that of the pairs. The host times it, with its launch.
    """
    megahertz = {"tensor": [], "symmetric": []}
    for record in RecordFile(ROOT / "reports" / "h100" / "counters").read(str):
        if record.counters and record.variant in megahertz and record.sm_clock_mhz:
            assert set(record.sm_clock_mhz) == {1980}
            clocks = record.counters["instructions"] / (4 * 132 * record.counters["issue_slots"])
            seconds = record.stages_seconds.get("pairs", record.median_seconds)
            megahertz[record.variant].append(clocks / seconds / 1e6)
    assert max(megahertz["tensor"]) < 0.84 * min(megahertz["symmetric"])
    assert min(megahertz["tensor"]) > 0.80 * max(megahertz["symmetric"])


def test_a_record_whose_bodies_are_not_here_has_no_model():
    records = RecordFile(ROOT / "reports" / "h100" / "fastest-large").read(str)
    record = next(one for one in records if one.variant == "tensor" and one.status == "ok")
    gone = record.model_copy(update={"bodies": "gone.csv", "bodies_file_sha256": "0" * 64})
    with pytest.raises(UnmodelledError, match="bodies"):
        work_of(gone, "sm_90", shape_of(gone))
