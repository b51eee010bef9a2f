"""Where the time of the walk of resident_tree goes: its parts by what the record counted, and the other stages."""

import numpy as np
import pytest

from conftest import ROOT
from emulator import COMPILER, Emulator
from gravbench.explain import peaks
from gravbench.explain.assembling import assemble, missing
from gravbench.explain.kernel_code import KernelCode
from gravbench.explain.machine_code import Code
from gravbench.explain.peaks import Peaks
from gravbench.explain.pipes import is_rsqrt
from gravbench.explain.recorded_kernels import asked_of
from gravbench.explain.shape import shape_of
from gravbench.explain.validation import of_this_checkout
from gravbench.explain.waterfall import waterfall
from gravbench.explain.work import work_of
from gravbench.model import generators, initial_conditions
from gravbench.model.interaction_files import find
from gravbench.model.runs import RecordFile
from gravbench.model.variant import discover
from gravbench.toolkits.interface import FLAGS
from gravbench.variants.resident.tree_walks import walks
from gravbench.variants.resident.walk_parts import counted, loops_of, means

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))
VARIANT = discover()["resident_tree"]
GRAVITY = find("gravity")
SMALL, LARGE = 1 << 16, 1 << 20
CEILINGS = peaks.read(ROOT / "reports" / "h200" / "ceilings")


@pytest.fixture(scope="module")
def records():
    """The published records of the walk as it is in this checkout."""
    of_run = [
        record
        for record in RecordFile(ROOT / "reports" / "h200" / "arena").read(str)
        if record.variant == "resident_tree" and record.status == "ok" and record.stages_seconds
    ]
    if not (current := [record for record in of_run if of_this_checkout(record)]):
        pytest.skip("no published record is of the kernel of this checkout: the run arena is to be measured again")
    return current


@pytest.fixture(scope="module")
def emulated(libraries):
    """Return a function that walks thread by thread, and returns what the kernel counted."""

    def emulated(bodies, **axes):
        prepared = VARIANT.prepare(Emulator(VARIANT, "float32", libraries), bodies, **VARIANT.complete(axes))
        prepared.launch()
        return prepared.insight()["computed"]

    return emulated


def built(**axes):
    (one,) = [one for one in asked_of(VARIANT, axes, "float32", GRAVITY) if one.stem == "resident_tree"]
    defined = [f"-D{name}={value}" for name, value in one.constants]
    code = assemble(VARIANT.cuda_source(GRAVITY), one.stem, "sm_90", [*FLAGS, *defined]).code
    roots = [at for at, each in enumerate(code.instructions) if is_rsqrt(each.opcode)]
    return code, KernelCode(code, roots, dict(one.constants))


def passes(kernel, divided):
    """The parts of a kernel, each with its name, its instructions and how often it is run."""
    times = [part.times / divided.interactions for part in divided.parts]
    return [(part.name, kernel.pass_of(part), each) for part, each in zip(divided.parts, times, strict=True)]


@pytest.mark.parametrize(
    "axes",
    [
        {"moments": "monopole"},
        {"moments": "quadrupole"},
        {"moments": "quadrupole", "opening": "acceleration"},
        {"moments": "quadrupole", "group": 64, "warps": 4, "p": 128},
    ],
    ids=str,
)
def test_each_interaction_of_the_walk_has_a_root(axes):
    _, kernel = built(**axes)
    loops, constants = loops_of(kernel), kernel.constants
    divided = means(kernel, loops, cells=1000.0, bodies=400.0, leaf_size=16)
    found = {name: (done, times) for name, done, times in passes(kernel, divided)}
    assert list(found) == ["cells", "bodies", "steps"]
    assert (loops.cells_at_once, loops.bodies_at_once) == (2 if axes["moments"] == "quadrupole" else 4, 4)

    def roots_of(name):
        done, times = found[name]
        own = [*done.before, *[each for _ in range(done.turns) for each in done.inner], *done.after]
        return sum(is_rsqrt(each.opcode) for each in own) * times

    assert roots_of("cells") == pytest.approx(1000 / 1400)
    assert roots_of("bodies") == pytest.approx(400 / 1400)
    # 8 nodes for 7 that are not opened, 32 of them at a time, for all the bodies of a warp; every warp looks at all.
    steps = 8 / 7 * (1000 + 400 / 16) / 32 * constants["WARPS"] / (1400 * constants["R"])
    assert found["steps"][1] == pytest.approx(steps)


def test_code_without_the_two_loops_has_no_parts():
    code, kernel = built()
    without = KernelCode(Code(code.instructions), kernel.rsqrts, kernel.constants)
    assert without.loops == []
    assert loops_of(kernel) is not None
    assert loops_of(without) is None


def test_a_loop_over_many_boxes_is_a_part_of_each_step():
    _, kernel = built(group=64, boxes=8, warps=4, p=128)
    divided = means(kernel, loops_of(kernel), 1000.0, 400.0, 16)
    (step, over_boxes) = (part.turns for part in divided.parts[2:])
    assert step == 1
    assert over_boxes in (3, 4), "four turns of four boxes, of which the first may stand before the loop"


@pytest.mark.slow
@pytest.mark.parametrize(
    "axes",
    [
        {"opening": "geometric", "theta": 0.6},
        {"opening": "barnes_1994", "theta": 0.8, "curve": "morton", "bits": 10, "boxes": 16},
        {"opening": "acceleration", "part": 0.005, "group": 64, "boxes": 2, "leaf_size": 8},
        {"opening": "acceleration", "part": 0.01, "warps": 4, "p": 128},
    ],
    ids=str,
)
@pytest.mark.skipif(COMPILER is None, reason="no g++ on PATH")
def test_walks_that_are_followed_meet_what_the_kernel_counts(emulated, axes):
    bodies = generators.plummer(700, 3, 0.05)
    told = emulated(bodies, **axes)
    followed = walks(bodies, VARIANT.complete(axes), 2)
    group = VARIANT.complete(axes)["group"]
    of_group = np.minimum(group, 700 - group * np.arange(len(followed.cells)))
    assert (followed.bodies * of_group).sum() / 700 == pytest.approx(told["body_body"], rel=0.003)
    assert (followed.cells * of_group).sum() / 700 == pytest.approx(told["body_cell"], rel=0.003)


def test_where_every_cell_is_opened_every_walk_meets_all_bodies():
    axes = VARIANT.complete({"opening": "geometric", "theta": 0})
    followed = walks(generators.plummer(1000, 3, 0.05), axes, 2)
    assert (followed.bodies == 1000).all()
    assert not followed.cells.any()
    assert not followed.cell_turns.any()
    assert (followed.body_turns >= 250).all()
    assert (followed.body_turns <= 8 * followed.batches).all()
    assert (followed.steps >= 1000 / 16 / 32).all()


def test_several_warps_divide_cells_and_batches_and_repeat_the_steps():
    bodies = generators.plummer(3000, 3, 0.05)
    one, four = (walks(bodies, VARIANT.complete({"group": 64, "warps": warps, "p": 32 * warps}), 2) for warps in (1, 4))
    assert (one.cells == four.cells).all()
    assert (four.steps.reshape(-1, 4) == one.steps[:, None]).all()
    assert (four.batches.reshape(-1, 4).sum(axis=1) == one.batches).all()
    assert (four.body_turns.reshape(-1, 4).sum(axis=1) == one.body_turns).all()
    shared = four.cell_turns.reshape(-1, 4)
    assert (shared.sum(axis=1) >= one.cell_turns).all()
    assert (2 * shared.sum(axis=1) >= one.cells).all()
    assert (shared.max(axis=1) < one.cell_turns).all()


@pytest.mark.slow
def test_what_the_walks_of_a_record_meet_is_what_it_counted(records):
    small = [one for one in records if one.n == SMALL]
    assert len(small) > 50
    for record in small[::5]:
        axes = VARIANT.complete(record.axes)
        followed = walks(initial_conditions.of_case(record), axes, 2)
        assert followed.cells.mean() == pytest.approx(record.computed["body_cell"], rel=0.002), record.label
        assert followed.bodies.mean() == pytest.approx(record.computed["body_body"], rel=0.003), record.label


def test_what_each_warp_runs_adds_up_to_the_parts():
    _, kernel = built(moments="quadrupole")
    followed = walks(generators.plummer(3000, 3, 0.05), VARIANT.complete({"moments": "quadrupole"}), 2)
    divided = counted(kernel, loops_of(kernel), followed)
    found = passes(kernel, divided)
    assert [name for name, *_ in found] == ["cells", "cells", *["bodies"] * 3, "steps", "before and after"]
    roots_of = sum(
        (each * divided.interactions).sum()
        * sum(is_rsqrt(one.opcode) for one in [*done.before, *done.inner, *done.after])
        for name, done, each in found
        if name in ("cells", "bodies")
    )
    # Rows without mass fill the last turns up.
    assert 1.0 <= roots_of / (followed.cells + followed.bodies).sum() < 1.25


@pytest.mark.slow
def test_little_is_unexplained_with_many_groups_and_at_most_a_third_with_few(records):
    """With 65,536 bodies, the longest walks end almost alone, several times as long as the mean."""
    large = [one for one in records if one.n == LARGE]
    for record in [*(one for one in records if one.n == SMALL), *large[:: len(large) // 2]]:
        found = waterfall(record, "sm_90", CEILINGS)
        measured = record.median_seconds * 1e12 / record.evaluated
        assert sum(part.picoseconds for part in found) == pytest.approx(measured, rel=1e-9)
        by_name = {part.name: part for part in found}
        assert list(by_name)[-2:] == ["other stages", "unexplained"]
        most = 0.1 if record.n == LARGE else 1 / 3
        assert abs(by_name["unexplained"].picoseconds) < most * measured, record.label
        beyond = record.median_seconds - record.stages_seconds["traverse"]
        assert by_name["other stages"].picoseconds == pytest.approx(1e12 * beyond / record.evaluated)
        axes = VARIANT.complete(record.axes)
        if record.n == SMALL and axes["opening"] == "acceleration":
            assert 1 / 6 < by_name["tail of the grid"].picoseconds / measured < 0.3, "as the document says"
        assert "sort" in by_name["other stages"].reason


def test_without_times_of_stages_all_launches_are_of_the_kernel(records):
    staged = next(one for one in records if one.n == SMALL)
    record = staged.model_copy(update={"stages_seconds": {}})
    work = work_of(record, "sm_90", shape_of(record))
    assert work.stage == ""
    assert work.launches == work_of(staged, "sm_90", shape_of(staged)).launches > 5
    assert "other stages" not in {part.name for part in waterfall(record, "sm_90", Peaks())}
