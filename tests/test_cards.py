"""Cards of one kind that share the cases of a run: one ladder of all, and how they differ by their anchors."""

import re

import pytest
from rich.console import Console

from conftest import consistent, flat
from gravbench.model.runs import RecordFile, latest
from gravbench.model.variant import discover
from gravbench.report.page import html
from gravbench.search.recorded import recorded
from gravbench.verdicts import ranking
from gravbench.verdicts.best import best
from gravbench.verdicts.cards import differences, together
from gravbench.verdicts.compare import Run, compare_runs, compare_values
from gravbench.verdicts.ladder import ladders
from test_compare import DEFAULTS, command
from test_report import GPU, PARENTS, record, shown

FIRST, SECOND = {"device_uuid": "GPU-1"}, {"device_uuid": "GPU-2"}


def anchors(*medians, start=1, **card):
    """Make up the repetitions of an anchor on a card, each by a process of its own."""
    return [
        record("naive", median, anchor=i, samples_seconds=[median] * 10, processes=[start + i] * 10, **card)
        for i, median in enumerate(medians, 1)
    ]


def divided():
    """Make up a run whose cases two cards share: the second is 2 % slower."""
    return [
        *anchors(1.000, 1.001, 0.999, **FIRST),
        *anchors(1.020, 1.021, 1.019, start=10, **SECOND),
        record("float4", 0.9, **FIRST),
        record("tiled", 0.5, axes={"p": 256}, **SECOND),
        record("tiled", 0.6, axes={"p": 128}, **FIRST),
        record("symmetric", 0.4, **SECOND),
    ]


def test_cards_that_share_the_cases_are_one_ladder():
    (records,) = together([divided()])
    ((shared, by_n),) = ladders(latest(records), PARENTS).items()
    assert shared.device == f"{GPU} (one of 2)"
    assert [rung.best.variant for rung in by_n[1000]] == ["naive", "float4", "tiled", "symmetric"]
    assert [rung.compared for rung in by_n[1000]] == [1, 1, 2, 1]
    # Of the anchor, on both cards, the newest stands, as of a case that was measured again.
    assert by_n[1000][0].best.median_seconds == 1.02
    text = shown(records)
    assert text.count("n = 1,000, ") == 1
    assert f"n = 1,000, {GPU} (one of 2), " in text


def test_the_report_says_how_the_cards_differ_and_whose_anchor_drifted():
    (records,) = together([divided()])
    ((device, (first, second)),) = differences(records).items()
    assert (device, first.card, second.card) == (f"{GPU} (one of 2)", (GPU, "GPU-1"), (GPU, "GPU-2"))
    assert (first.first, first.ratio, second.repetitions) == (True, 1, 3)
    assert second.ratio == pytest.approx(1.02)
    assert 1.01 < second.low < 1.02 < second.high < 1.03
    text = shown(records)
    assert re.search(r"naive cupy n=1000 \S+ p=256 +GPU-2 +3 +1,020 +\+2\.00 +\+1\.\d\d to \+2\.\d\d", text)
    for card in ("GPU-1", "GPU-2"):
        assert f"on {GPU} ({card}), measured 3 times" in flat(text)
    assert "DRIFT" not in text, "a card that is slower has not drifted"
    (records,) = together([divided()[:5] + anchors(1.1, 1.2, **SECOND)[:1] + divided()[6:]])
    drifted = ranking.drifted(records)
    assert [drift.anchor.card for drift in drifted] == [(GPU, "GPU-2")]
    (shared,) = ladders(latest(records), PARENTS)
    assert ranking.affecting(drifted, shared) == drifted


def test_where_no_anchor_is_on_several_cards_that_is_said():
    alone = [one for one in divided() if not (one.anchor and one.device_uuid == "GPU-2")]
    (records,) = together([alone])
    assert differences(records) == {f"{GPU} (one of 2)": []}
    assert f"{GPU} (one of 2): no anchor was repeated on more than one of these cards" in flat(shown(records))


def test_cards_that_measured_all_cases_each_and_single_cards_stay_as_they_are():
    each = [record(variant, **card) for variant in ("naive", "tiled", "symmetric") for card in (FIRST, SECOND)]
    runs = [each, [record("naive"), record("tiled")]]
    found = together(runs)
    assert all(
        one is other for own, others in zip(found, runs, strict=True) for one, other in zip(own, others, strict=True)
    )
    assert differences(found[0]) == {}
    assert "The cards" not in shown(each)
    assert len(ladders(latest(each), PARENTS)) == 2


def test_another_driver_or_model_is_another_kind_and_a_later_run_on_one_card_belongs_to_it():
    other = [
        one.model_copy(update={"device": "Other", "device_uuid": f"GPU-{i}"}) for i, one in enumerate(divided()[6:])
    ]
    (records,) = together([[*divided(), *other[:1]]])
    assert {one.device for one in records} == {f"{GPU} (one of 2)", "Other"}
    later = [record("numba_parallel", 0.1, **FIRST)]
    assert {one.device for own in together([divided(), later]) for one in own} == {f"{GPU} (one of 2)"}


def test_the_best_of_shared_cases_is_of_all_cards():
    (found,) = best([divided()], dict(DEFAULTS) | {"symmetric": {"p": 256}})
    assert (found.device, [(one.n, one.chosen.variant) for one in found.choices]) == (
        f"{GPU} (one of 2)",
        [(1000, "symmetric")],
    )


def test_values_are_compared_across_cards_as_far_as_their_anchors_differ():
    own = [
        *anchors(1.0, 1.0, 1.0, **FIRST),
        *anchors(1.1, 1.1, 1.1, start=10, **SECOND),
        *(
            record("tiled", i, n=n, samples_seconds=[i] * 10, processes=[30] * 10, **FIRST)
            for n, i in ((64, 1.0), (32, 1.0))
        ),
        record("tiled", 1.0, n=16, samples_seconds=[1.0] * 10, processes=[30] * 10, **SECOND),
        record("tiled", 1.05, n=64, toolkit="pycuda", samples_seconds=[1.05] * 10, processes=[40] * 10, **SECOND),
        record("tiled", 3.0, n=32, toolkit="pycuda", samples_seconds=[3.0] * 10, processes=[40] * 10, **SECOND),
    ]
    (found,) = compare_values(Run("one", own), "toolkit", DEFAULTS)
    assert {pair.base.n: pair.verdict for pair in found.pairs} == {64: "UNCLEAR", 32: "SLOWER"}


def test_a_card_that_says_no_uuid_is_the_one_of_its_name():
    """As through WebGPU: there the same kernel is compared with the one in CUDA C."""
    tiled = record("tiled", 0.5, **FIRST)
    there = tiled.model_copy(update={"toolkit": "wgpu", "device_uuid": None})
    (found,) = compare_values(Run("one", [record("naive", 1.0, **FIRST), tiled, there]), "toolkit", DEFAULTS)
    assert [(pair.base.variant, pair.new.toolkit) for pair in found.pairs] == [("tiled", "wgpu")]


def test_two_runs_of_cards_that_share_cases_are_compared_whatever_cards_they_have():
    other = [one.model_copy(update={"device_uuid": f"{one.device_uuid}-there"}) for one in divided()]
    alone = [
        one.model_copy(update={"device_uuid": "GPU-7"})
        for one in divided()
        if one.device_uuid == "GPU-1" or not one.anchor
    ]
    for new in (divided(), other, alone):
        found = compare_runs(Run("one", divided()), Run("two", new))
        assert len(found.pairs) == 5
        assert not found.only_base
        assert not found.only_new


def test_a_case_that_another_card_measured_the_second_time_is_told_apart_no_more_than_the_cards_are():
    def run(here, there, seconds):
        own = [
            *anchors(*[1.0] * 5, **FIRST),
            *anchors(*[1.1] * 5, start=10, **SECOND),
            *(record("float4", 1.0, n=n, samples_seconds=[1.0] * 10, processes=[20] * 10, **FIRST) for n in (8, 16)),
            record("tiled", seconds, n=64, samples_seconds=[seconds] * 10, processes=[30] * 10, **here),
            record("tiled", 2.0, n=32, samples_seconds=[2.0] * 10, processes=[31] * 10, **there),
        ]
        return Run("one", own)

    found = compare_runs(run(FIRST, SECOND, 1.0), run(SECOND, FIRST, 1.1))
    assert {pair.base.n: pair.verdict for pair in found.pairs}[64] == "UNCLEAR"
    found = compare_runs(run(FIRST, SECOND, 1.0), run(SECOND, FIRST, 3.0))
    assert {pair.base.n: pair.verdict for pair in found.pairs}[64] == "SLOWER"


def test_a_page_and_a_search_take_the_cards_together():
    page = html.Page([html.Run("divided", divided(), [])], discover()).text()
    assert f"n = 1,000, {GPU} (one of 2)" in page or f"{GPU} (one of 2), plummer" in page
    assert f"<summary>Numbers: {GPU} (one of 2)</summary>" in page
    assert "GPU-1, GPU-2" not in page
    many = [
        record("tiled", 1.0 + i, axes={"p": 32 * (i + 1)}, samples_seconds=[1.0 + i] * 9, **(FIRST, SECOND)[i % 2])
        for i in range(12)
    ]
    ((board,), _) = recorded(many, discover())
    assert len(board.records) == 12


def test_the_command_reports_one_ladder(tmp_path):
    store = RecordFile(tmp_path / "divided")
    for one in divided():
        store.append(consistent(one))
    code, text = command("report", str(tmp_path / "divided"), "--full")
    assert code == 0
    assert text.count(f"n = 1,000, {GPU} (one") == 1
    assert "The cards" in text
    assert max(map(len, text.splitlines())) <= Console().width
