"""A case is described once: a field that is added to it needs no edit in what names, groups, compares or reproduces."""

import io
from typing import Annotated

import pytest
from rich.console import Console

from gravbench.asv.export import _where
from gravbench.config.settings import Settings
from gravbench.model.case import CONDITIONS, PARTS, Case, Part
from gravbench.model.record import Record
from gravbench.report import export
from gravbench.report.compared import case_json
from gravbench.report.names import Names
from gravbench.report.page import columns, html
from gravbench.report.page.reproduce import command
from gravbench.report.sections.content import Content
from gravbench.report.terminal.comparison import render_comparison
from gravbench.verdicts import ranking
from gravbench.verdicts.best import best
from gravbench.verdicts.compare import Run, compare_values, fields
from gravbench.verdicts.ladder import ladders
from printed_sections import render
from test_compare import record as timed
from test_record import CASE
from test_record import record as plain

BOUNDARY = Part("work", "{boundary} boundary", usual="open")


class Later(Record):
    """A record as it may be one day: with one more field of a case and one more result."""

    boundary: Annotated[str, BOUNDARY] = "open"
    cache_hits: float | None = None


def later(seconds, **changes):
    return Later(**(timed(seconds).model_dump() | changes))


@pytest.fixture
def two(monkeypatch):
    """Two records that differ in the field of the future alone."""
    monkeypatch.setitem(PARTS, "boundary", BOUNDARY)
    monkeypatch.setitem(CONDITIONS, "boundary", BOUNDARY)
    return [later(1.0), later(2.0, boundary="periodic")]


def test_what_a_technique_is_and_what_a_size_is():
    kinds = {kind: {name for name, part in PARTS.items() if part.kind == kind} for kind in ("technique", "size")}
    assert kinds == {"technique": {"variant", "toolkit", "axes"}, "size": {"n"}}
    assert {"bodies", "seed", "dtype", "timed", "interaction", "dt", "dim"} <= CONDITIONS.keys()


def test_what_is_usual_of_a_case_is_what_a_configuration_means():
    settings = {name: values[0] for name, values in Settings().model_dump().items() if values}
    for name, part in PARTS.items():
        if part.usual is not None:
            assert settings[name] == part.usual
    for name, field in Case.model_fields.items():
        assert field.is_required() or field.default == PARTS[name].usual


def test_a_new_condition_divides_ladders_and_is_named_where_it_is_unusual(two):
    found = ladders(two, {"tiled": None})
    assert len(found) == 2
    names = Names(two)
    assert ["periodic boundary" in names.title(shared) for shared in found] == [False, True]
    assert "open" not in "".join(map(names.title, found))
    file = io.StringIO()
    render(two, Console(file=file, width=200), {"tiled": None})
    assert "timed: force, periodic boundary" in file.getvalue()


def test_a_new_condition_is_a_task_of_its_own(two):
    assert [selection.task.get("boundary") for selection in best([two], {})] == ["open", "periodic"]


def test_values_of_a_new_field_can_be_compared(two):
    assert "boundary" in fields(two)
    (found,) = compare_values(Run("run", two), "boundary", {})
    assert (found.base, found.new) == ("boundary open", "boundary periodic")
    assert [pair.interval.ratio for pair in found.pairs] == [pytest.approx(2.0)]
    file = io.StringIO()
    render_comparison(found, Console(file=file, width=200))
    assert "1 SLOWER" in file.getvalue()


def test_a_field_that_came_later_leaves_the_keys_of_older_cases(two):
    usual, unusual = two
    assert usual.key == timed(1.0).key != unusual.key
    assert Case(**CASE).key == Case(**CASE, interaction="gravity", dt=None).key == "acacd4557a613eb3"


def test_a_new_field_is_in_labels_json_commands_and_settings_of_asv(two):
    usual, unusual = two
    assert usual.label == "tiled cupy n=1024 float32 p=256 unroll=32"
    assert unusual.label == "tiled cupy n=1024 float32 p=256 unroll=32 boundary=periodic"
    assert case_json(unusual)["boundary"] == "periodic"
    assert command(unusual).endswith("-p boundary=periodic")
    assert "boundary" not in command(usual)
    assert "periodic" in _where(unusual)[-1]
    hints = html._table([html.Run("run", two, [])], Content([two], {}), {})["hints"]
    assert "boundary" in hints
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Record, "model_fields", Later.model_fields)
        assert columns.columns(two, ["a", "a"], ["x", "y"])["boundary"] == ["open", "periodic"]


def test_a_new_result_is_in_tables_for_people_and_for_programs(two, tmp_path, monkeypatch):
    monkeypatch.setattr(Record, "model_fields", Later.model_fields)
    told = [one.model_copy(update={"cache_hits": 0.5}) for one in two]
    assert columns.columns(told, ["a", "a"], ["x", "y"])["cache_hits"] == [0.5, 0.5]
    export.write([told], tmp_path / "all.csv")
    assert "cache_hits" in (tmp_path / "all.csv").read_text().splitlines()[0]


def test_the_plane_is_no_space():
    flat, solid, silent = (plain(axes=axes) for axes in ({"dim": 2}, {"dim": 3}, {}))
    assert [one.planar for one in (flat, solid, silent)] == [True, False, False]
    assert ranking.conditions(solid) == ranking.conditions(silent) != ranking.conditions(flat)
    assert len(ladders([timed(1.0, axes={"dim": dim}) for dim in (2, 3)], {})) == 2
    names = Names([flat, solid])
    assert [names.title(ranking.conditions(one)).endswith(", dim 2") for one in (flat, solid)] == [True, False]
