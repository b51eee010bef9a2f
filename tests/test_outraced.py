"""What a race stopped is never presented as measured to more than it was: it is marked, or left out and counted."""

import re

import pytest

import test_compare
from conftest import flat
from gravbench.asv.export import _unusable
from gravbench.errors import InputError
from gravbench.model.record import OUTRACED
from gravbench.model.runs import RecordFile
from gravbench.model.variant import discover
from gravbench.report.compared import comparison_json
from gravbench.report.export import write
from gravbench.report.page import charts, columns, html, kinds
from gravbench.report.provenance import CUT_SHORT, NOWHERE
from gravbench.report.published import NOT_IN_FULL, _Search
from gravbench.report.terminal.choices import choices_json
from gravbench.report.terminal.comparison import summary
from gravbench.search.recorded import recorded
from gravbench.verdicts import fastest
from gravbench.verdicts.best import best
from gravbench.verdicts.compare import Run, Verdict
from gravbench.verdicts.question import Question
from gravbench.verdicts.reasons import Reason
from printed_sections import ladder_markdown
from test_compare import DEFAULTS, command, compared, printed
from test_report import PARENTS, indistinct, record, rungs, shown

LATE = {"stop_reason": OUTRACED, "ci_low": None, "ci_high": None}


def raced():
    """Make a race up: one case in full, and two that were stopped, one of the same variant."""
    return [
        record("tiled", 1.0, axes={"p": 256}),
        record("tiled", 1.5, axes={"p": 128}, **LATE),
        record("naive", 2.0, **LATE),
    ]


def test_the_ladder_marks_what_was_outraced_and_counts_it_among_nothing_as_fast():
    told = {one.best.variant: one for one in rungs(raced())}
    assert (told["tiled"].compared, indistinct(told["tiled"]), told["tiled"].outraced) == (2, 0, 1)
    text = shown(raced())
    (row,) = re.findall(r"^ *naive .*$", text.partition("The fastest configurations")[0], re.MULTILINE)
    assert f" {CUT_SHORT} " in row
    assert "~" not in row
    assert f"{CUT_SHORT} outraced: sampling stopped once it was clear that another case is faster" in flat(text)
    assert "outraced: how many of them a race stopped sampling" in flat(text)
    assert "3 ok, 0 invalid, 0 skipped, 0 failed; 2 of the ok cases were outraced" in flat(text)
    markdown = ladder_markdown(raced(), PARENTS, {})
    assert re.search(rf"\| naive .*`{CUT_SHORT}`", markdown)
    assert f"`{CUT_SHORT}` outraced" in markdown


def test_nothing_is_said_of_races_where_there_was_none():
    text = shown([record("tiled", 1.0), record("naive", 2.0, stop_reason="budget of 3 s spent")])
    assert CUT_SHORT not in text
    assert "outraced" not in text
    assert "budget of 3 s spent" in text


def test_figures_and_the_table_of_a_page_mark_what_was_outraced():
    bounded = record("naive", 2.0, stop_reason=OUTRACED)
    ladder = kinds.ladder("", 1000, rungs([*raced()[:2], bounded]), {})
    rows = {row["variant"]: row for row in ladder.spec["datasets"][charts.ROWS]}
    assert CUT_SHORT in rows["naive"]["label"]
    assert (rows["naive"]["open"], rows["naive"]["± %"], rows["naive"]["low"]) == (True, OUTRACED, None)
    assert CUT_SHORT not in rows["tiled"]["label"]
    assert CUT_SHORT in ladder.caption
    assert "because a race stopped them (outraced)" in ladder.caption
    table = columns.columns(raced(), ["run"] * 3, ["command"] * 3)
    assert CUT_SHORT in str(table["signs"])
    assert any(note.startswith(CUT_SHORT) for note in columns.notes(raced(), NOWHERE))
    page = html.Page([html.Run("race", raced(), [])], discover()).text()
    assert re.search(rf"5\.000e-04 {CUT_SHORT}\S* in 2,000 ms", page)


def sampled(seconds, **changes):
    return test_compare.record(seconds, **changes)


def stopped(seconds, **changes):
    return sampled([seconds] * 3, stop_reason=OUTRACED, **changes)


def test_the_best_is_never_what_was_outraced_nor_is_that_unclear():
    records = [
        sampled(1.0),
        stopped(1.01, axes={"p": 512, "unroll": 32}),
        stopped(0.9, variant="naive", axes={"p": 256}),
        stopped(1.5, variant="split", axes={"p": 64, "q": 8}),
    ]
    found = best([records], DEFAULTS)
    (choice,) = found[0].choices
    assert (choice.chosen.variant, len(choice.as_good), len(choice.unclear)) == ("tiled", 1, 0)
    assert (choice.compared, choice.outraced, choice.less) == (1, 3, 1)
    said = flat(printed(found))
    assert "left out because they were outraced: 3 at n = 1,024" in said
    assert "In these samples 1 of them took less time than the fastest of the others" in said
    assert choices_json(found, 0.02)["selections"][0]["choices"][0]["outraced"] == 3


def test_where_all_that_is_right_enough_was_outraced_the_best_says_so():
    exact = stopped(3.0, variant="naive", axes={"p": 256}, error_max=1e-9)
    records = [sampled(1.0), sampled(1.0, n=64, error_max=1e-9), exact]
    (found,) = best([records], DEFAULTS, Question(error=1e-8))
    assert ([choice.n for choice in found.choices], found.unmeasured) == ([64], {1024: 1})
    assert "n = 1,024: every configuration that is accurate enough was outraced (1)" in flat(printed([found]))
    with pytest.raises(InputError, match="every record that is accurate enough was outraced"):
        best([[sampled(1.0), exact]], DEFAULTS, Question(error=1e-8))


def test_a_comparison_with_what_was_outraced_is_unclear_and_counts_in_no_mean():
    late = test_compare.record([1.5] * 30, stop_reason=OUTRACED)
    for base, new in ((sampled(1.0), late), (late, sampled(1.0)), (late, late)):
        found = compared([base, sampled(1.0, n=64)], [new, sampled(1.0, n=64)])
        pairs = {pair.base.n: pair for pair in found.pairs}
        assert (pairs[1024].verdict, pairs[1024].in_cycles) == (Verdict.UNCLEAR, Verdict.UNCLEAR)
        assert pairs[1024].reasons[0] is Reason.OUTRACED
        assert found.mean.ratio == pytest.approx(1.0)
        assert "1 outraced on one or both sides; geometric mean of NEW/BASE of the others 1.000 (" in summary(found)
    alone = compared([late], [late])
    assert alone.mean is None
    assert "geometric mean of NEW/BASE: none" in summary(alone)
    assert comparison_json(alone)["pairs"][0]["base_outraced"]


def test_a_table_for_force_has_nothing_that_was_outraced_and_says_so(tmp_path):
    variants = discover()
    store = RecordFile(tmp_path / "race")
    own = [sampled(1.0, axes=dict(variants["tiled"].defaults)), stopped(0.5, variant="naive", axes={"p": 256})]
    for one in own:
        store.append(one)
    table = fastest.make([Run("race", own)], variants)
    assert [choice.variant for choice in table.measured[0].choices] == ["tiled"]
    code, text = command("best", str(tmp_path / "race"), "--save", str(tmp_path / "table.yaml"))
    assert code == 0
    assert "1 record left out as outraced" in flat(text)


def test_no_figure_or_claim_of_a_source_is_answered_by_what_was_outraced():
    search = _Search([{"variant": "tiled"}, {"variant": "naive"}], raced())
    assert search.answer(0, "seconds", 20).value == 1.0
    assert search.answer(1, "seconds", 20).why == NOT_IN_FULL
    assert search.answer(1, "relative error", 20).value == 1.2e-6


def test_exports_tell_what_was_outraced_and_asv_gets_none(tmp_path):
    write([raced()], tmp_path / "race.csv")
    head, *rows = (tmp_path / "race.csv").read_text().splitlines()
    assert "stop_reason" in head.split(",")
    assert [OUTRACED in row for row in rows] == [False, True, True]
    assert [_unusable(one, {"c0ffee": 1})[:8] for one in raced()] == ["", OUTRACED, OUTRACED]


def test_a_race_cannot_be_replayed_as_if_it_had_been_measured_in_full():
    own = [record("tiled", 1.0 + i, axes={"p": 32 * (i + 1)}, samples_seconds=[1.0 + i] * 9) for i in range(12)]
    assert recorded(own, discover())[0]
    late = [one.model_copy(update={"stop_reason": OUTRACED}) for one in own[1:]]
    with pytest.raises(InputError, match=r"11 records were outraced.*accepted: records of a sweep .* measured in full"):
        recorded([own[0], *late], discover())
