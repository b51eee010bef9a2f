"""The arena: time against the 99th percentile of the error, in a terminal, as Markdown, and in figures."""

import re

import pytest
from typer.testing import CliRunner

from conftest import ROOT, consistent, flat
from gravbench.cli.main import app
from gravbench.config.load import load
from gravbench.model.runs import RecordFile, latest
from gravbench.model.variant import discover
from gravbench.report.page import charts, figures, html
from gravbench.report.page.labels import places
from gravbench.report.provenance import Here, Origin
from gravbench.report.sections.content import Content
from gravbench.verdicts.arena import arenas, front
from printed_sections import arena_markdown, render_arena
from test_page import check_vega_lite
from test_record import record
from test_stages import shown, tree


def direct(variant="symmetric", seconds=5e-3, error=4e-7, **changes):
    return record(variant=variant, n=1000, axes={"p": 128}, median_seconds=seconds, error_p99=error, **changes)


def measured():
    """Two kinds of trees at several accuracies, and direct sums of which one is behind another."""
    return [
        *(tree(1000, theta, seconds=1e-3 / theta, error_p99=1e-2 * theta**2) for theta in (0.3, 0.5, 1.0)),
        tree(1000, 0.7, seconds=3e-3, error_p99=6e-3),
        direct(),
        direct("naive", 9e-3, 5e-7),
        direct("kahan", 2e-2, 6e-8),
    ]


def numbers(points):
    return [(point.method, point.accuracy, point.front) for point in points]


def test_a_method_stands_along_its_accuracies_and_the_front_has_what_none_beats_in_both():
    (arena,) = arenas(measured())
    assert numbers(arena.points) == [
        ("barnes_hut", "theta 0.3", True),
        ("barnes_hut", "theta 0.5", True),
        ("barnes_hut", "theta 0.7", False),  # 1.0 takes less, but 0.5 is as fast and more accurate
        ("barnes_hut", "theta 1.0", True),
        ("symmetric", "", True),
        ("kahan", "", True),
    ]
    assert (arena.n, arena.left_out, arena.dominated) == (1000, 0, 1)


def test_at_each_accuracy_the_fastest_configuration_counts():
    slower = tree(1000, 0.3, seconds=1.0, error_p99=1e-5)
    (arena,) = arenas([slower, *measured()])
    assert slower not in [point.record for point in arena.points]


def test_of_two_axes_of_accuracy_a_curve_is_the_methods_own_front_in_order_of_error():
    own = [
        record(
            variant="jzfmm_multipoles", n=1000, axes={"order": order, "theta": theta}, median_seconds=seconds,
            error_p99=error,
        )
        for order, theta, seconds, error in ((2, 0.8, 1e-3, 1e-2), (2, 0.5, 4e-3, 2e-3), (5, 0.8, 2e-3, 1e-3))
    ]  # fmt: skip
    (arena,) = arenas(own)
    assert [point.accuracy for point in arena.points] == ["theta 0.8 order 5", "theta 0.8 order 2"]
    assert arena.behind == 1
    assert "left out: 1 accuracy that is no better in time or error than another of the method." in flat(
        shown(render_arena, own)
    )


def test_records_from_before_an_axis_of_accuracy_are_points_too():
    own = [tree(1000, seconds=1e-3, error_p99=1e-2), *measured()[:2]]
    later = tree(1000, seconds=2e-3, error_p99=1e-3, axes={"theta": 0.7, "order": 4})
    (arena,) = arenas([*own, later])
    assert "theta 0.7 order 4" in [point.accuracy for point in arena.points]


def test_another_opening_is_another_curve():
    own = [
        tree(1000, seconds=seconds, error_p99=error, axes={"theta": 0.7, "part": part, "opening": "acceleration"})
        for part, seconds, error in ((0.001, 2e-3, 1e-3), (0.01, 1e-3, 8e-3))
    ]
    own += [
        tree(1000, seconds=seconds, error_p99=error, axes={"theta": theta, "part": 0.001, "opening": "geometric"})
        for theta, seconds, error in ((0.3, 4e-3, 1e-3), (0.7, 3e-3, 5e-3))
    ]
    (arena,) = arenas(own)
    assert [(point.method, point.accuracy) for point in arena.points] == [
        ("barnes_hut acceleration", "part 0.001"),
        ("barnes_hut acceleration", "part 0.01"),
        ("barnes_hut geometric", "theta 0.3"),
        ("barnes_hut geometric", "theta 0.7"),
    ]


def test_one_accuracy_or_direct_sums_alone_are_no_arena():
    assert arenas([tree(1000), direct()]) == []
    assert arenas([direct(), direct("kahan", 2e-2, 6e-8)]) == []
    assert shown(render_arena, [tree(1000), direct()]) == ""
    assert arena_markdown([tree(1000), direct()]) == ""


def test_records_without_the_percentile_are_left_out_and_counted():
    old = [tree(1000, 1.2, error_p99=None), direct("tiled", 1e-6, None), direct("split", 1e-6, None)]
    (arena,) = arenas([*measured(), *old])
    assert arena.left_out == 3
    assert {point.method for point in arena.points} == {"barnes_hut", "symmetric", "kahan"}
    said = "left out: 3 records without a 99th percentile of the error."
    assert said in shown(render_arena, [*measured(), *old])
    assert said in arena_markdown([*measured(), *old])


def test_what_counts_a_part_of_the_pairs_is_no_direct_sum():
    window = direct("lee_window", 1e-6, 1e-9, computed={"body_body": 10.0})
    (arena,) = arenas([*measured(), window])
    assert "lee_window" not in {point.method for point in arena.points}


def test_equal_records_are_one_point_of_the_front():
    assert len(front([direct(), direct("naive")])) == 1


def test_points_of_another_source_are_marked_and_counted():
    here = Here(discover())
    said = f"`{Origin.OTHER}` {len(arenas(measured())[0].points)} points were measured with different source"
    markdown = arena_markdown(measured(), here)
    assert said in markdown
    assert f"| barnes_hut {Origin.OTHER} | theta 0.3 |" in markdown
    assert Origin.OTHER not in arena_markdown(measured())


@pytest.mark.parametrize("width", [80, 200])
def test_the_table_says_which_are_on_the_front(width):
    text = shown(render_arena, measured(), width)
    assert re.search(r"^barnes_hut +theta 0\.5 +2 +2\.5e-03 +\* +cupy", text, re.MULTILINE)
    assert re.search(r"^barnes_hut +theta 0\.7 +3 +6\.0e-03 +cupy", text, re.MULTILINE)
    assert re.search(r"^kahan +direct sum +20 +6\.0e-08 +\* +cupy", text, re.MULTILINE)
    assert "Smaller is better for both." in flat(text)
    assert "left out: 1 direct sum no better in time or error" in text


def test_markdown_has_the_arena_below_the_ladder(tmp_path):
    timed = [{"samples_seconds": [one.median_seconds], "error_median": None} for one in measured()]
    made = [one.model_copy(update=own) for one, own in zip(measured(), timed, strict=True)]
    lines = [consistent(one).model_dump_json() for one in made]
    (tmp_path / "records.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    done = CliRunner().invoke(app, ["report", str(tmp_path), "--markdown"])
    assert done.exit_code == 0, done.output
    assert "| method | accuracy | ms | error | front | toolkit |" in done.output
    assert "| barnes_hut § | theta 0.5 | 2 | 2.5e-03 | * |" in done.output
    assert done.output.index("what changed") < done.output.index("## The arena")


def test_the_figure_has_both_axes_in_words_and_is_readable_without_colour():
    ((figure, part),) = figures.of_arenas(Content([measured()], {}))
    rows = figure.spec["datasets"]["rows"]
    assert [row["place"] for row in rows] == list(range(len(part.table.rows)))
    assert sorted(filter(None, (row["name before"] + row["name after"] + row["name below"] for row in rows))) == sorted(
        {point.method for point in part.table.rows}
    )
    assert "θ 0.5" in {row["accuracy"] for row in rows}
    check_vega_lite(charts.dressed(figure.spec))
    text = str(figure.spec)
    assert "['99th percentile of the relative error', '(smaller is better)']" in text
    assert "ms of one evaluation (smaller is better)" in text
    assert {"shape", "strokeDash"} <= set(re.findall(r"'(shape|strokeDash)':", text))
    assert "Smaller is better for both" in figure.caption


def test_values_that_would_overlap_are_left_out_and_names_are_not():
    close = [tree(1000, theta, seconds=1e-3 / theta, error_p99=1e-2 * theta) for theta in (0.3, 0.301, 0.302, 1.0)]
    ((figure, _),) = figures.of_arenas(Content([[*close, direct()]], {}))
    rows = {row["accuracy"]: row for row in figure.spec["datasets"]["rows"]}
    assert [row["setting"] for row in rows.values()].count("") == 3  # two of the trees, and the direct sum
    assert rows["θ 1.0"]["setting"] == "θ 1.0"
    assert {row["name before"] + row["name after"] for row in rows.values()} == {"", "barnes_hut", "symmetric"}


def test_the_page_has_the_figure_and_its_table():
    run = html.Run("made-up", measured(), [])
    page = html.Page([run], {}).text()
    assert '<h2 id="arena">The arena: time against error</h2>' in page
    assert '<td class="text">theta 0.5</td>' in page
    assert any(figure.name.startswith("arena-") for figure in html.Page([run], {}).figures())


def test_the_packaged_arena_has_trees_at_several_accuracies_beside_direct_sums():
    cases = load("arena").cases
    assert {case.bodies for case in cases} == {"plummer", "collision"}
    assert {case.n for case in cases} == {65536, 2**20}
    assert len({case.axes["theta"] for case in cases if case.variant == "barnes_hut"}) == 4
    assert {case.variant for case in load("arena", [f"n={2**24}"]).cases} == {
        "resident_tree",
        "fast_multipole",
        "jzfmm_multipoles",
    }
    assert {case.bodies for case in cases if case.axes.get("equal_mass") == 1} == {"plummer"}


def test_a_name_stands_where_it_covers_no_other_name_in_the_committed_arenas():
    """Two names on each other cannot be read in a file, where nothing hides one of them."""
    records = [one for name in ("h200/arena", "h100/arena_steps") for one in RecordFile(ROOT / "reports" / name).read()]
    overprinted = []
    for figure, _ in figures.of_arenas(Content([latest(records)], {})):
        rows = figure.spec["datasets"]["rows"]
        points = places(rows, "error", "ms", charts.WIDTH, charts.ARENA_HEIGHT)
        boxes = []
        for (x, y), row in zip(points, rows, strict=True):
            for field in ("name before", "name after", "name below"):
                width = 6.3 * len(row[field])
                left, top = (x + 8 if field == "name after" else x - 8 - width), (y + 1 if "below" in field else y - 14)
                boxes += [(row[field], left, left + width, top, top + 13)] if row[field] else []
        for place, (name, a, b, c, d) in enumerate(boxes):
            overprinted += [
                (figure.about, name, other)
                for other, e, f, g, h in boxes[place + 1 :]
                if a < f and e < b and c < h and g < d
            ]
    assert overprinted == []
