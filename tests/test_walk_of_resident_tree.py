"""Where the time of the walk of resident_tree goes: its parts by what the record counted, and the other stages."""

import pytest

from conftest import ROOT
from gravbench.explain.asking import asked_of
from gravbench.explain.assembling import assemble, missing
from gravbench.explain.ceilings import Ceilings
from gravbench.explain.machine_code import Loop
from gravbench.explain.parts_of_walk import Walked, parts
from gravbench.explain.pipes import is_root
from gravbench.explain.shape import shape_of
from gravbench.explain.waterfall import waterfall
from gravbench.explain.work import work_of
from gravbench.model.interaction_files import find
from gravbench.model.runs import RecordFile
from gravbench.model.variant import discover
from gravbench.toolkits.interface import FLAGS

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))
VARIANT = discover()["resident_tree"]
GRAVITY = find("gravity")
LARGE = 1 << 20


@pytest.fixture(scope="module")
def records():
    found = RecordFile(ROOT / "reports" / "h200" / "arena").read(str)
    return [one for one in found if one.variant == "resident_tree" and one.status == "ok" and one.stages_seconds]


def built(**axes):
    (one,) = [one for one in asked_of(VARIANT, axes, "float32", GRAVITY) if one.stem == "resident_tree"]
    defined = [f"-D{name}={value}" for name, value in one.constants]
    code = assemble(VARIANT.cuda_source(GRAVITY), one.stem, "sm_90", [*FLAGS, *defined]).code
    return code, [at for at, each in enumerate(code.instructions) if is_root(each.opcode)], dict(one.constants)


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
    code, roots, constants = built(**axes)
    walked = Walked(cells=1000.0, bodies=400.0, leaf_size=16)
    found = {name: (done, times) for name, done, times in parts(code, code.loops(), roots, constants, walked)}
    assert list(found) == ["cells", "bodies", "steps"]

    def roots_of(name):
        done, times = found[name]
        own = [*done.before, *[each for _ in range(done.turns) for each in done.inner], *done.after]
        return sum(is_root(each.opcode) for each in own) * times

    assert roots_of("cells") == pytest.approx(1000 / 1400)
    assert roots_of("bodies") == pytest.approx(400 / 1400)
    # 8 nodes for 7 that are not opened, 32 of them at a time, for all the bodies of a warp; every warp looks at all.
    steps = 8 / 7 * (1000 + 400 / 16) / 32 * constants["WARPS"] / (1400 * constants["R"])
    assert found["steps"][1] == pytest.approx(steps)


def test_code_without_the_two_loops_has_no_parts():
    code, roots, constants = built()
    assert parts(code, [Loop(0, len(code.instructions) - 1)], roots, constants, Walked(1.0, 1.0, 16)) is None


def test_the_parts_add_up_and_little_is_unexplained_where_there_are_many_groups(records):
    large = [one for one in records if one.n == LARGE]
    assert len(large) >= 5
    for record in large:
        found = waterfall(record, "sm_90", Ceilings())
        measured = record.median_seconds * 1e12 / record.evaluated
        assert sum(part.picoseconds for part in found) == pytest.approx(measured, rel=1e-9)
        by_name = {part.name: part for part in found}
        assert list(by_name)[-2:] == ["other stages", "unexplained"]
        assert abs(by_name["unexplained"].picoseconds) < 0.1 * measured, record.label
        beyond = record.median_seconds - record.stages_seconds["traverse"]
        assert by_name["other stages"].picoseconds == pytest.approx(1e12 * beyond / record.evaluated)
        assert "sort" in by_name["other stages"].reason


def test_without_times_of_stages_all_launches_are_of_the_kernel(records):
    record = records[0].model_copy(update={"stages_seconds": {}})
    work = work_of(record, "sm_90", shape_of(record))
    assert work.stage == ""
    assert work.launches > 5
    assert "other stages" not in {part.name for part in waterfall(record, "sm_90", Ceilings())}
    assert work_of(records[0], "sm_90", shape_of(records[0])).launches == 1
