"""Records beside the checkout at hand: whose source changed, whose variant is gone, what is prepared untimed."""

import io
from typing import Any

import pytest
from rich.console import Console

from conftest import flat
from gravbench.measuring import environment
from gravbench.model import sources
from gravbench.model.case import Value
from gravbench.model.record import Record
from gravbench.model.variant import Variant, discover
from gravbench.report.compared import comparison_json
from gravbench.report.provenance import NOWHERE, Here, Origin
from gravbench.report.terminal.choices import choices_json, render_choices
from gravbench.report.terminal.comparison import comparison_markdown, render_comparison
from gravbench.verdicts import compare
from gravbench.verdicts.best import best
from printed_sections import ladder_markdown
from test_report import PARENTS, record, shown_here

VARIANTS = discover()


def measured(variant: str, **changes: Any) -> Record:
    """Make a record of today's source, as the runner fingerprints it."""
    fields: dict[str, Value] = {"timed": "force", "interaction": "gravity"}
    made = record(variant, 1.0, **(fields | changes))
    today = environment.fingerprint(made, VARIANTS[variant], None)
    return made.model_copy(update={"code_sha256": today.code_sha256, "method": today.method} | changes)


@pytest.mark.parametrize("timed", ["force", "step", "call"])
@pytest.mark.parametrize("toolkit", ["cupy", "numba"])
def test_a_record_of_todays_source_has_no_sign_and_any_other_has(timed: str, toolkit: str) -> None:
    here = Here(VARIANTS)
    own = measured("tiled", timed=timed, toolkit=toolkit)
    assert here.origin(own) is Origin.SAME
    assert here.notes([own]) == []
    assert here.origin(own.model_copy(update={"code_sha256": "0" * 64})) is Origin.OTHER
    assert here.origin(own.model_copy(update={"code_sha256": None})) is Origin.OTHER


def test_a_step_with_another_integrator_is_of_another_source() -> None:
    force = measured("tiled")
    step = measured("tiled", timed="step", code_sha256=force.code_sha256)
    assert Here(VARIANTS).origin(step) is Origin.OTHER


@pytest.mark.parametrize("change", [{"variant": "gone"}, {"toolkit": "cpu"}, {"interaction": "nowhere/spring.py"}])
def test_what_is_not_declared_here_is_said_to_be_gone(change: dict[str, str]) -> None:
    gone = measured("tiled").model_copy(update=change)
    here = Here(VARIANTS)
    assert here.origin(gone) is Origin.GONE
    (note,) = here.notes([gone, measured("tiled")])
    assert note.startswith("¶ 1 row belongs to no variant of this checkout")
    assert NOWHERE.notes([gone]) == []


def test_each_source_is_hashed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    whole = sources.code_sha256

    def counted(case: Record, variant: Variant) -> str:
        asked.append(case.timed)
        return whole(case, variant)

    records = [measured("tiled", n=n, timed=timed) for n in (100, 200, 300) for timed in ("force", "step", "call")]
    monkeypatch.setattr(sources, "code_sha256", counted)
    here = Here(VARIANTS)
    assert {here.sign(one) for one in records} == {""}
    assert sorted(asked) == ["force", "step"]


def test_the_ladder_marks_the_rows_of_another_source_in_a_terminal_and_in_markdown() -> None:
    records = [measured("naive"), measured("tiled", code_sha256="0" * 64), measured("float4").model_copy(
        update={"variant": "gone"}
    )]  # fmt: skip
    here = Here(VARIANTS)
    for text in (shown_here(records, here), ladder_markdown(records, PARENTS, {}, here)):
        lines = {line.strip("| ").split()[0]: line for line in text.splitlines() if line.strip("| ")}
        assert "§" in lines["tiled"]
        assert "¶" in lines["gone"]
        assert not {"§", "¶"} & set(lines["naive"])
        assert "1 row was measured with different source code from this checkout" in flat(text)
        assert "to measure again: gravbench run SWEEP --resume --out FOLDER" in flat(text)
        assert "1 row belongs to no variant of this checkout" in flat(text)


def test_what_is_prepared_and_not_timed_stands_in_a_column_of_its_own() -> None:
    ordered = measured("tensor", axes=VARIANTS["tensor"].complete({"reorder": 0}), untimed_seconds={"order": 0.8412})
    old = measured("tensor", toolkit="pycuda", axes=VARIANTS["tensor"].complete({"reorder": 0}))
    here = Here(VARIANTS)
    for text in (shown_here([ordered, old], here, 80), ladder_markdown([ordered, old], PARENTS, {}, here)):
        assert "untimed" in text
        assert "order 0.841" in flat(text)
        assert "not recorded" in flat(text)
    assert "untimed" not in shown_here([measured("naive")], here)


@pytest.mark.parametrize(
    ("variant", "changes", "phrases"),
    [
        ("tiled", {}, ""),
        ("symmetric", {"axes": {"equal_mass": 0}}, ""),
        ("symmetric", {"axes": {"equal_mass": 1}}, "equal masses"),
        ("tensor_half", {"axes": {"separation": 1.5}}, "masses ≥ 0; FP16 only beyond 1.5 block radii"),
        ("naive", {"untimed_seconds": {"order": 0.5}}, "an order made beforehand"),
        ("barnes_hut", {"computed": {"body_cell": 9.0}}, "masses ≥ 0; approximation"),
        ("jzfmm_multipoles", {"uncounted": True}, "approximation"),
        ("gone", {"axes": {"equal_mass": 1}}, "equal masses"),
    ],
)
def test_what_a_row_presupposes(variant: str, changes: dict[str, object], phrases: str) -> None:
    assert Here(VARIANTS).presupposed(record(variant, **changes)) == phrases


def test_changed_axes_are_those_that_are_not_at_the_defaults_of_the_toolkit() -> None:
    here = Here(VARIANTS)
    for variant in VARIANTS.values():
        for toolkit in variant.toolkits:
            usual = variant.adapted(variant.defaults, toolkit, ())
            assert not here.changed(record(variant.name, toolkit=toolkit, axes=usual))
            for axis, values in variant.axes.items():
                other = next((value for value in values if value != usual[axis]), None)
                if other is not None:
                    changed = here.changed(record(variant.name, toolkit=toolkit, axes={**usual, axis: other}))
                    assert changed == f"{axis}={other}"
            for axis, kept in variant.former.items():
                assert not here.changed(record(variant.name, toolkit=toolkit, axes={**usual, axis: kept}))
                assert here.changed(record(variant.name, toolkit=toolkit, axes={**usual, axis: "x"})) == f"{axis}=x"


def test_the_field_survives_a_line_of_json_and_old_records_have_none() -> None:
    own = measured("tensor", untimed_seconds={"order": 0.5})
    assert Record.model_validate_json(own.model_dump_json()).untimed_seconds == {"order": 0.5}
    assert Record.model_validate(measured("tensor").model_dump(exclude={"untimed_seconds"})).untimed_seconds == {}


def two_sides() -> tuple[list[Record], list[Record]]:
    """A case before and after its source changed, and one that is as it is here on both sides."""
    new = [measured("tiled"), measured("naive")]
    return [new[0].model_copy(update={"code_sha256": "0" * 64}), new[1]], new


def test_a_comparison_marks_the_side_that_is_of_another_source_and_shows_times() -> None:
    base, new = two_sides()
    found = compare.compare_runs(compare.Run("old", base), compare.Run("new", new), 0.02)
    here = Here(VARIANTS)
    file = io.StringIO()
    render_comparison(found, Console(width=120, file=file), everything=True, here=here)
    for text in (file.getvalue(), comparison_markdown(found, everything=True, here=here)):
        lines = {word: line for line in text.splitlines() for word in ("tiled", "naive") if word in line.split()}
        assert "§ BASE" in lines["tiled"]
        assert "§" not in lines["naive"]
        assert lines["tiled"].count("1,000") == 2
        assert "1 case was measured with different source code from this checkout" in flat(text)
    pairs = {pair["variant"]: pair for pair in comparison_json(found, here)["pairs"]}
    assert (pairs["tiled"]["base_source"], pairs["tiled"]["new_source"]) == ("another", "as here")


def test_a_choice_of_another_source_is_marked_and_names_what_it_presupposes_and_prepares() -> None:
    records = [
        measured("symmetric", axes=VARIANTS["symmetric"].complete({"equal_mass": 1}), code_sha256="0" * 64),
        measured("tensor", n=2000, axes=VARIANTS["tensor"].complete({"reorder": 0}), untimed_seconds={"order": 0.8412}),
    ]
    found = best([records], {name: one.defaults for name, one in VARIANTS.items()})
    here = Here(VARIANTS)
    file = io.StringIO()
    render_choices(found, Console(width=80, file=file), 0.02, here=here)
    text = file.getvalue()
    assert "§" in next(line for line in text.splitlines() if line.split()[:1] == ["1,000"])
    assert "order 0.841" in next(line for line in text.splitlines() if line.split()[:1] == ["2,000"])
    assert "equal_mass=1" in text
    assert "1 row was measured with different source code from this checkout" in flat(text)
    (selection,) = choices_json(found, 0.02, here)["selections"]
    assert [choice["use"]["source"] for choice in selection["choices"]] == ["another", "as here"]
    assert [choice["use"]["untimed_seconds"] for choice in selection["choices"]] == [{}, {"order": 0.8412}]
