"""Several seeds of a case: one row with the median over the seeds and the slowest beside it, and one verdict."""

import io
import json
import math
import time

import pytest
from rich.console import Console

from conftest import flat
from gravbench.model.record import OUTRACED, Record
from gravbench.report.markdown import markdown
from gravbench.report.page.html import Page, Run
from gravbench.report.provenance import Here
from gravbench.report.reported import report_json
from gravbench.report.sections.arena import arena
from gravbench.report.sections.content import Content
from gravbench.report.sections.every import sections
from gravbench.report.sections.fastest import fastest
from gravbench.report.sections.ladder import configurations, ladder
from gravbench.report.terminal.choices import choices_json, render_choices
from gravbench.verdicts import cards, ranking
from gravbench.verdicts.best import best
from gravbench.verdicts.question import contests
from gravbench.verdicts.seeds import OverSeeds, measured, over_seeds, slowest_seconds
from gravbench.verdicts.uncertainty import Uncertainties
from gravbench.verdicts.winners import winners
from test_report import record
from test_winners import PARENTS, timed

TIMES = {1: 3e-3, 2: 1e-3, 3: 2e-3, 4: 9e-3, 5: 1.5e-3}
"""Of a tree, by its seed: the median is that of seed 3, and seed 4 is the slowest."""


def tree(seed, seconds, **fields):
    return timed("barnes_hut", seconds, **{"seed": seed, "error_p99": 1e-4 * seed, "axes": {"theta": 0.5}, **fields})


def trees(times=TIMES, **fields):
    return [tree(seed, seconds, **fields) for seed, seconds in times.items()]


def direct(seconds=2.5e-3, seeds=tuple(TIMES), **fields):
    """Of a direct sum, whose time does not depend on the seed."""
    return [timed("naive", seconds, seed=seed, **fields) for seed in seeds]


def content(records, **named):
    return Content([records], PARENTS, Here(), **named)


def rows(part):
    return [{column.name: column.cell(row) for column in part.table.useful} for row in part.table.rows]


def test_one_record_stands_for_the_seeds_in_the_place_of_the_first():
    found = over_seeds([*direct(), *trees()])
    assert [(record.variant, record.seeds) for record in found] == [("naive", "1 to 5"), ("barnes_hut", "1 to 5")]
    stands = found[1]
    assert (stands.seed, ranking.seconds(stands), slowest_seconds(stands)) == (3, 2e-3, 9e-3)
    assert stands.slowest.seed == 4
    assert measured(stands).seed == 3
    # Errors are the largest of any seed, samples those of the one in the middle.
    assert stands.error_p99 == 5e-4
    assert stands.samples_seconds == measured(stands).samples_seconds
    assert stands.identity == measured(stands).identity
    assert "seed" not in stands.conditions
    assert stands.conditions["seeds"] == "1 to 5"


def test_of_an_even_number_of_seeds_the_slower_in_the_middle_stands_for_all():
    (found,) = over_seeds(trees({1: 4e-3, 2: 1e-3, 3: 2e-3, 4: 3e-3}))
    assert ranking.seconds(found) == 3e-3


@pytest.mark.parametrize(("seeds", "named"), [((1, 2), "1, 2"), ((7, 5, 6), "5 to 7"), ((1, 2, 9), "1, 2, 9")])
def test_seeds_are_named_exactly(seeds, named):
    (found,) = over_seeds([tree(seed, 1e-3) for seed in seeds])
    assert found.seeds == named


def test_a_single_seed_stays_what_it_is():
    alone = [tree(1, 1e-3), *direct(seeds=(1,))]
    assert over_seeds(alone) == alone
    other_axes = [tree(1, 1e-3), tree(2, 1e-3, axes={"theta": 0.6})]
    assert over_seeds(other_axes) == other_axes
    assert slowest_seconds(alone[0]) is None


@pytest.mark.parametrize(
    "change",
    [{"n": 2048}, {"eps": 0.5}, {"bodies": "clumps"}, {"code_sha256": "9" * 64}, {"device": "other"}, {"driver": "1"}],
    ids=str,
)
def test_what_differs_in_more_than_the_seed_stays_apart(change):
    found = over_seeds([*trees(), *[tree(seed, 1e-3, **change) for seed in (6, 7)]])
    assert [record.seeds for record in found] == ["1 to 5", "6, 7"]


def test_what_was_not_measured_is_left_as_it_is():
    lost = record("barnes_hut", None, status="failed", reason="fault", seed=6, axes={"theta": 0.5})
    found = over_seeds([*trees(), lost])
    assert found[0].seeds == "1 to 5"
    assert found[1:] == [lost]


def test_a_seed_that_was_outraced_makes_all_of_them_outraced():
    records = trees()
    records[1] = tree(2, 1e-3, stop_reason=OUTRACED)
    (found,) = over_seeds(records)
    assert found.outraced


def test_the_fastest_is_so_by_its_median_over_the_seeds_not_by_its_best_seed():
    """The tree is the fastest at three of five seeds, and its median is below the direct sum's."""
    (field,) = winners([[*trees(), *direct()]], PARENTS)
    win = field.asked()[0]
    assert (win.record.variant, win.next.record.variant) == ("barnes_hut", "naive")
    assert win.next.interval.ratio == pytest.approx(2.5 / 2, rel=1e-3)
    (slower,) = winners([[*trees({1: 3e-3, 2: 1e-3, 3: 4e-3}), *direct(seeds=(1, 2, 3))]], PARENTS)
    assert slower.asked()[0].record.variant == "naive"
    # Within 4e-4 for 99 % of the bodies at every seed: at seed 5 the tree has 5e-4.
    assert {win.question.error: win.record.variant for win in field.wins}[1e-4] == "naive"


def test_a_case_without_all_seeds_is_not_compared_with_one_that_has_them():
    records = [*trees(), *direct(1e-6, seeds=(1, 2))]
    assert sorted(contest.task["seeds"] for contest in contests([records])) == ["1 to 5", "1, 2"]
    assert all(win.next is None for field in winners([records], PARENTS) for win in field.wins)
    assert len(content(records).ladders) == 2
    # One seed beside several: the sizes at which all of them took too long.
    mixed = content([*trees(), *direct(), *direct(n=4096, seeds=(1,))])
    assert [len(by_n) for by_n in mixed.ladders.values()] == [1, 1]


def test_the_tables_have_one_row_a_case_with_the_slowest_seed_beside_the_median():
    shown = content([*trees(), *trees({seed: 2 * at for seed, at in TIMES.items()}, axes={"theta": 0.4}), *direct()])
    (part,) = ladder(shown).parts
    assert part.title.endswith("median of seeds 1 to 5")
    by_variant = {row["variant"]: row for row in rows(part)}
    assert by_variant.keys() == {"naive", "barnes_hut theta=0.5"}
    tree_row = by_variant["barnes_hut theta=0.5"]
    assert (tree_row["ms"], tree_row["slowest seed, ms"]) == ("2.000", "9.000")
    assert by_variant["naive"]["slowest seed, ms"] == "2.500"
    (part,) = configurations(shown).parts
    assert [(row["compared"], row["slowest seed, ms"]) for row in rows(part)] == [("2", "9.000")]
    (part,) = fastest(shown).parts
    assert [(row["fastest"], row["ms"], row["slowest seed, ms"]) for row in rows(part)] == [
        ("barnes_hut theta=0.5", "2.00", "9.00")
    ]
    (part,) = arena(shown).parts
    assert [(row["accuracy"], row["ms"], row["slowest seed, ms"]) for row in rows(part)] == [
        ("theta 0.4", "4", "18.00"), ("theta 0.5", "2", "9.000"),
    ]  # fmt: skip


def test_every_section_and_the_page_say_what_the_median_is():
    shown = content([*trees(), *direct()])
    text = flat(markdown(sections(shown)))
    assert "median of seeds 1 to 5" in text
    assert "errors are the largest of any seed" in text
    text = Page([Run("seeds", [*trees(), *direct()], [])], {}).text()
    assert "median of seeds 1 to 5" in text
    assert "(slowest seed 9.000 ms)" in text
    assert "errors are the largest of any seed" in text


def test_without_several_seeds_nothing_is_said_of_them():
    text = markdown(sections(content([tree(1, 1e-3), *direct(seeds=(1,))])))
    assert "seed" not in text
    assert "slowest_seed_seconds" not in json.dumps(report_json(content([tree(1, 1e-3)]), "run"))


def test_json_counts_every_case_and_has_the_slowest_seed():
    told = report_json(content([*trees(), *direct()]), "run")
    assert told["cases"]["ok"] == 10
    (ladder_told,) = told["ladders"]
    assert ladder_told["seeds"] == "1 to 5"
    assert [(rung["variant"], rung["slowest_seed_seconds"]) for rung in ladder_told["rungs"]] == [
        ("naive", 2.5e-3), ("barnes_hut", 9e-3),
    ]  # fmt: skip
    (field,) = told["winners"]
    assert field["wins"][0]["fastest"]["slowest_seed_seconds"] == 9e-3
    json.dumps(told, allow_nan=False)


def test_what_to_use_is_chosen_by_the_median_over_the_seeds():
    (selection,) = best([[*trees(), *direct()]], {"naive": {}, "barnes_hut": {"theta": 0.5}})
    assert selection.task["seeds"] == "1 to 5"
    assert [choice.chosen.variant for choice in selection.choices] == ["barnes_hut"]


def test_the_uncertainty_is_that_of_the_run_of_the_seed_in_the_middle():
    anchors = [timed("naive", 1e-3 * (1 + 0.01 * i), anchor=i + 1, processes=[i] * 20) for i in range(6)]
    run, other = [*anchors, *trees()], [tree(1, 1e-3, n=64)]
    known = Uncertainties([run, other])
    (stands,) = over_seeds(trees_in := run[6:])
    assert known.half_width(stands) == known.half_width(trees_in[2])
    assert known.half_width(stands) > 0.01


def test_cards_that_share_the_seeds_are_one_device():
    records = [tree(seed, seconds, device="H200", device_uuid=f"GPU-{seed % 2}") for seed, seconds in TIMES.items()] + [
        timed("naive", 1e-3, seed=seed, device="H200", device_uuid=f"GPU-{seed % 2}") for seed in TIMES
    ]
    (together,) = cards.together([records])
    found = over_seeds(together)
    assert [record.seeds for record in found] == ["1 to 5", "1 to 5"]
    assert {record.device for record in found} == {"H200 (one of 2)"}
    assert cards.card_of(found[0]) == ("H200", "GPU-1")


def test_ten_thousand_records_of_twenty_seeds_are_put_together_at_once():
    records = [
        tree(seed, 1e-3 * seed, axes={"theta": 0.5 + place / 1e4}) for place in range(500) for seed in range(1, 21)
    ]
    start = time.perf_counter()
    found = over_seeds(records)
    assert time.perf_counter() - start < 3
    assert len(found) == 500
    assert all(isinstance(record, OverSeeds) and isinstance(record, Record) for record in found)
    assert math.isclose(ranking.seconds(found[0]), 11e-3)


def test_the_table_of_what_to_use_has_the_slowest_seed_and_says_so():
    selections = best([[*trees(), *direct()]], {"naive": {}, "barnes_hut": {"theta": 0.5}})
    file = io.StringIO()
    render_choices(selections, Console(width=120, file=file), 0.01)
    text = flat(file.getvalue())
    assert "slowest" in text
    assert "9.000" in text
    assert "errors are the largest of any seed" in text
    (told,) = choices_json(selections, 0.01)["selections"]
    assert told["seeds"] == "1 to 5"
    assert told["choices"][0]["use"]["slowest_seed_seconds"] == 9e-3
