"""What is fastest at each n and error, by how much, and how that is said."""

import json

import pytest

from conftest import ROOT
from gravbench.model.runs import RecordFile
from gravbench.model.variant import discover, parents
from gravbench.report import winning
from gravbench.report.page.answer import answers
from gravbench.report.provenance import Here
from gravbench.report.sections.content import Content
from gravbench.verdicts import ranking
from gravbench.verdicts.cards import together
from gravbench.verdicts.question import QUANTILE, Question, error_of
from gravbench.verdicts.ratios import Interval
from gravbench.verdicts.winners import LIMITS, winners
from test_report import record

PARENTS = {"naive": None, "tiled": "naive", "barnes_hut": None}


def timed(variant, seconds, **fields):
    """A record of twenty samples around a median, which bound it closely."""
    own = {
        "timed": "force",
        "error_max": 1e-5,
        "n": 1024,
        "samples_seconds": [seconds * (1 + i / 1e5) for i in range(20)],
    }
    return record(variant, seconds, **{**own, **fields})


def wins_of(records):
    (field,) = winners([records], PARENTS)
    return field


def test_the_fastest_within_an_error_wins_and_its_lead_is_over_the_next_variant():
    field = wins_of(
        [
            timed("naive", 4e-3),
            timed("tiled", 2e-3, axes={"p": 64}),
            timed("tiled", 1e-3, axes={"p": 256}),
            timed("barnes_hut", 0.5e-3, error_p99=5e-3, axes={"theta": 0.7}),
        ]
    )
    found = {win.question.error: win for win in field.at(1024)}
    assert {limit: win.record.variant for limit, win in found.items()} == {1e-2: "barnes_hut", 1e-4: "tiled"}
    tiled = found[1e-4]
    assert tiled.next.record.variant == tiled.first.record.variant == "naive"
    assert tiled.next.interval.ratio == pytest.approx(4, rel=1e-3)
    assert not tiled.tied
    assert [win.question.error for win in field.wins] == [1e-2, 1e-3, 1e-4]  # nothing is within 1e-6
    tree = found[1e-2]
    assert (tree.next.record.variant, tree.first) == ("tiled", None)


def test_the_error_is_that_of_99_of_100_bodies_or_the_largest_where_it_is_not_known():
    assert error_of(timed("naive", 1.0, error_p99=1e-7), QUANTILE) == 1e-7
    assert error_of(timed("naive", 1.0), QUANTILE) == 1e-5
    assert winners([[timed("naive", 1.0, error_max=float("inf"))]], PARENTS) == []


def test_what_cannot_be_told_from_the_next_is_unclear_and_says_so():
    close = [timed("naive", 1.00e-3), timed("tiled", 1.0001e-3)]
    close = [one.model_copy(update={"samples_seconds": [1e-3 * (0.9 + i / 100) for i in range(20)]}) for one in close]
    win = wins_of(close).wins[0]
    assert win.tied
    assert winning.lead_words(win).endswith(" UNCLEAR")
    assert "UNCLEAR: the interval includes 1" in winning.sentence(win)


def test_a_lead_that_nothing_bounds_is_unclear_for_want_of_samples():
    few = [timed(name, own, samples_seconds=[own] * 2) for name, own in (("naive", 4e-3), ("tiled", 1e-3))]
    win = wins_of([one.model_copy(update={"ci_low": None, "ci_high": None}) for one in few]).wins[0]
    assert win.tied
    assert winning.sentence(win).endswith("UNCLEAR: there are too few samples for an interval.")


@pytest.mark.parametrize(
    ("question", "said"),
    [
        (Question(), "99 % of bodies within 1e-3"),
        (Question(2.5e-6, 0.5), "50 % of bodies within 2.5e-6"),
        (Question(1.0, 1.0), "all bodies within 1e0"),
        (Question(0.0), "99 % of bodies within 0"),
    ],
)
def test_which_error_of_the_bodies_a_limit_is_for_is_said(question, said):
    assert winning.within_words(question) == said
    old, new = timed("naive", 4e-3), timed("tiled", 1e-3, error_p99=1e-6)
    assert winning.quantile_notes([new], 0.99) == []
    assert winning.quantile_notes([old, new], 0.99) == [
        "1 record without the error of 99 % of bodies: a larger quantile counts"
    ]
    (answer,) = answers(Content([[old, new]], PARENTS, Here()), {})
    assert answer.bodies == "99 % of bodies"


def test_the_first_step_is_that_of_the_toolkit_and_number_type_or_of_the_first_toolkit():
    records = [
        timed("naive", 4e-3, toolkit="pycuda"), timed("naive", 5e-3), timed("naive", 9e-3, dtype="float64"),
        timed("tiled", 1e-3),
    ]  # fmt: skip
    assert wins_of(records).headline().first.record is records[1]  # pycuda's is faster
    assert wins_of([*records[:3], timed("tiled", 1e-3, toolkit="numba")]).headline().first.record is records[1]
    assert wins_of([*records[::2], timed("tiled", 1e-3)]).headline().first.record is records[0]


def test_an_error_that_is_asked_for_is_answered_or_the_next_coarser_one():
    records = [timed("naive", 4e-3, error_max=1e-8), timed("tiled", 1e-3)]
    asked = {}
    for error in (1e-3, 5e-6, 1e-12):
        (field,) = winners([records], PARENTS, Question(error))
        asked[error] = [(win.record.variant, win.question.error) for win in field.asked()]
    assert asked == {1e-3: [("tiled", 1e-3)], 5e-6: [("naive", 5e-6)], 1e-12: [("naive", 1e-6)]}


def test_each_step_of_the_ladder_gains_over_the_step_it_is_derived_from_at_the_largest_n():
    tree = timed("barnes_hut", 1e-4, n=2048, error_p99=0.5)  # within no limit
    records = [timed("naive", 4e-3, n=2048), timed("tiled", 1e-3, n=2048), timed("tiled", 9e-3), tree]
    (field,) = winners([records], {**PARENTS, "barnes_hut": "tiled"})
    found = [(gain.record.variant, gain.before.record.variant, gain.before.interval.ratio) for gain in field.gains]
    assert [(own, before, pytest.approx(ratio, rel=1e-3)) for own, before, ratio in found] == [
        ("tiled", "naive", 4),
        ("barnes_hut", "tiled", 10),
    ]


def run_of(scatter, **others):
    """A run whose anchor, naive, was repeated five times, and what else it measured, by variant."""
    anchors = [
        timed("naive", 4e-3 * (1 + scatter * (number - 3)), n=512, anchor=number, processes=[number] * 20)
        for number in range(1, 6)
    ]
    return [*anchors, *(timed(name, seconds) for name, seconds in others.items())]


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([run_of(1e-4, naive=4e-3, tiled=1e-3)], "quiet"),
        ([run_of(1e-4, naive=4e-3, tiled=1e-3), run_of(0.05)], "quiet"),
        ([run_of(1e-4, naive=4e-3), run_of(0.05, tiled=1e-3)], "noisy"),
        ([run_of(0.05, naive=4e-3), run_of(1e-4, tiled=1e-3)], "noisy"),
        ([[timed("naive", 4e-3)], run_of(1e-4, tiled=1e-3), run_of(0.05)], "noisy"),
        ([[timed("naive", 4e-3), timed("tiled", 1e-3)]], "quiet"),
    ],
    ids=["one run", "beside a noisy one", "over to a noisy one", "over from one", "from one without", "without"],
)
def test_a_lead_is_as_uncertain_as_the_anchors_of_its_own_runs_are(runs, expected):
    (field,) = winners(runs, PARENTS)
    (gain,) = field.gains
    for one in (field.at(1024)[0].next, field.at(1024)[0].first, gain.before):
        assert one.interval.ratio == pytest.approx(4, rel=1e-3)
        assert (one.interval.half_width > 0.05) == (expected == "noisy")


def test_what_a_race_stopped_or_is_not_ok_never_wins():
    records = [
        timed("tiled", 1e-3, stop_reason="outraced"),
        timed("naive", 4e-3),
        record("tiled", None, status="failed", reason="made up", timed="force", n=1024),
    ]
    assert {win.record.variant for win in wins_of(records).wins} == {"naive"}
    assert winners([[records[-1]]], PARENTS) == []
    assert winners([], PARENTS) == []


def test_what_a_race_stopped_is_the_runner_up_without_an_interval():
    records = [
        timed("tiled", 1e-3),
        timed("naive", 4e-3),
        timed("barnes_hut", 2e-3, stop_reason="outraced", samples_seconds=[2e-3] * 3),
    ]
    win = wins_of(records).wins[-1]
    assert (win.record.variant, win.next.record.variant, win.tied) == ("tiled", "barnes_hut", False)
    assert winning.lead_words(win) == "2.00 ± n/a"


@pytest.mark.parametrize(
    ("interval", "sure", "said"),
    [
        (Interval(1.654, 1.645, 1.663), True, "1.65 ± 0.01"),
        (Interval(1.07, 1.03, 1.08), True, "1.07 ± 0.04"),
        (Interval(123.4, 121.0, 125.8), True, "123 ± 2"),
        (Interval(28.0, 1.1, 88.0), True, "28.0 (1.10 to 88.0)"),
        (Interval(2.0, 0.0, float("inf")), True, "2.00 ± n/a"),
        (Interval(2.0, 1.9, 2.1), False, "2.00 ± n/a"),
    ],
)
def test_a_ratio_is_said_with_half_its_interval_as_far_as_there_is_one(interval, sure, said):
    assert winning.times(interval, sure=sure) == said


def test_the_sentence_names_the_next_and_the_first_step_once_each():
    field = wins_of([timed("naive", 4e-3), timed("tiled", 1e-3)])
    said = winning.sentence(field.wins[-1])
    assert (
        said
        == "At n = 1,024 with 99 % of bodies within 1e-4, tiled (cupy) is 4.00 ± 0.01* times as fast as naive (cupy)."
    )
    alone = wins_of([timed("naive", 4e-3)])
    assert winning.sentence(alone.wins[-1]) == (
        "At n = 1,024, naive (cupy) takes 4.00 ms; no other variant has 99 % of bodies within 1e-4."
    )


@pytest.mark.parametrize("name", ["h100/ladder", "h200/arena", "h100/fastest-float64"])
def test_of_committed_runs_nothing_within_the_error_is_faster_than_a_winner(name):
    (records,) = together([RecordFile(ROOT / "reports" / name).read()])
    for field in winners([records], parents(discover())):
        for win in field.wins:
            rivals = [
                one
                for one in records
                if ranking.is_ranked(one) and not one.outraced and one.n == win.n and one.device == field.device
                and error_of(one, QUANTILE) <= win.question.error and one.conditions["bodies"] == field.task["bodies"]
            ]  # fmt: skip
            assert min(map(ranking.seconds, rivals)) <= ranking.seconds(win.record)
    json.dumps(winning.winners_json(winners([records], parents(discover()))), allow_nan=False)


def test_a_page_begins_with_the_largest_n_at_which_somebody_is_beaten():
    records = [timed("naive", 4e-3, n=2048), timed("tiled", 1e-3, n=2048), timed("tiled", 1e-2, n=65536)]
    (answer,) = answers(Content([records], PARENTS, Here()), {"tiled": "#123456"})
    assert answer.sentence.startswith("At n = 2,048 ")
    assert [n for n, _ in answer.rows] == ["2,048", "65,536"]


def test_the_table_of_a_page_has_powers_of_two_and_joins_cells_that_say_the_same():
    records = [
        timed(name, own, n=n) for n in (1000, 1024, 2048, 4096) for name, own in (("naive", 4e-3), ("tiled", 1e-3))
    ]
    records += [timed("barnes_hut", 1e-4, n=4096, error_p99=5e-3)]
    (answer,) = answers(Content([records], PARENTS, Here()), {"tiled": "#123456"})
    assert [n for n, _ in answer.rows] == ["1,024", "2,048", "4,096"]
    assert answer.limits == ["1e-2", "1e-4"]  # 1e-3 says what 1e-4 says
    assert [(cell.win.record.variant, cell.span, cell.limit, cell.colour) for cell in answer.rows[0][1]] == [
        ("tiled", 2, "1e-4", "#123456")
    ]
    assert [
        (win.record.variant, winning.ratio_words(win.next), win.next.record.variant)
        for win in (cell.win for cell in answer.rows[2][1])
    ] == [
        ("barnes_hut", "10.00 ± 0.01*", "tiled"),
        ("tiled", "4.00 ± 0.01*", "naive"),
    ]
    assert list(LIMITS) == sorted(LIMITS, reverse=True)
