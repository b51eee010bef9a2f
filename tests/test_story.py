"""The ladder as one path: which steps are on it, what is said of them, and that no text covers another."""

import xml.etree.ElementTree as ElementTree
from itertools import combinations

import pytest
from PIL import ImageFont

from conftest import ROOT
from gravbench.errors import InputError
from gravbench.model import run_names
from gravbench.model.runs import RecordFile
from gravbench.model.variant import discover, parents, summaries
from gravbench.report import story, story_figure, story_path
from gravbench.report.provenance import NOWHERE, Here
from test_report import record

SVG = "{http://www.w3.org/2000/svg}"
VARIANTS = discover()
PARENTS = parents(VARIANTS)
MILLISECONDS = {"naive": 4.0, "float4": 5.0, "tiled": 2.0, "split": 1.9, "register_blocked": 2.5, "symmetric": 1.0}


def ladder(**others):
    """Make up one record per variant."""
    return [record(name, ms / 1e3) for name, ms in {**MILLISECONDS, **others}.items()]


def told(records, here=NOWHERE):
    return story_path.story(records, PARENTS, here)


def names(steps):
    return [step.name for step in steps]


def test_the_path_leads_over_the_parents_to_the_fastest():
    found = told(ladder())
    assert names(found.path) == ["naive", "float4", "tiled", "register_blocked", "symmetric"]
    assert names(found.beside) == ["split"]
    assert [step.gain for step in found.path] == [None, 0.8, 2.5, 0.8, 2.5]


def test_what_presupposes_more_is_one_step_further():
    found = told([*ladder(), record("symmetric", 0.5e-3, axes={"equal_mass": 1})])
    assert names(found.path)[-2:] == ["symmetric", "symmetric equal_mass=1"]
    assert found.path[-1].gain == 2.0


def test_a_step_behind_a_variant_of_several_names_follows_the_fastest_of_them():
    tensors = [record("tensor", ms / 1e3, axes={"terms": terms}) for terms, ms in ((1, 0.8), (2, 0.9))]
    found = told([*ladder(), *tensors, record("tensor_half", 0.4e-3, axes={})])
    assert names(found.path)[-3:] == ["symmetric", "tensor terms=1", "tensor_half"]
    assert found.path[-1].gain == 2.0


def test_parents_that_were_not_measured_are_passed_over():
    found = told([one for one in ladder() if one.variant in ("naive", "symmetric", "split")])
    assert names(found.path) == ["naive", "symmetric"]
    assert found.path[-1].gain == 4.0
    assert [(step.name, step.before) for step in found.beside] == [("split", "naive")]


def test_approximations_large_errors_and_what_is_prepared_untimed_are_no_steps():
    fast = {"computed": {"body_cell": 10.0}}
    untimed = record("tensor", 0.5e-3, axes={"terms": 2, "reorder": 0}, untimed_seconds={"order": 0.8})
    found = told([*ladder(), record("barnes_hut", 0.1e-3, **fast), record("shuffle", 0.2e-3, error_max=0.1), untimed])
    assert names(found.path)[-1] == "symmetric"
    assert names(found.beside) == ["split"]


def test_what_is_much_slower_than_the_first_is_off_the_scale_and_so_is_nothing_behind_it():
    found = told(ladder(lee_global=9.0, lee_tiled=3.0))
    assert names(found.off_scale) == ["lee_global"]
    assert ("lee_tiled", "naive") in [(step.name, step.before) for step in found.beside]
    assert "lee_global" not in story_figure.draw(found, summaries(VARIANTS), "light", "wide")


def test_the_path_is_in_the_toolkit_with_most_variants_and_of_a_gpu():
    others = [record("naive", 1e-6, toolkit="pycuda"), record("numba_parallel", 1e-6, toolkit="cpu", axes={})]
    found = told([*others, *ladder()])
    assert names(found.path)[-1] == "symmetric"
    assert found.title.endswith("N = 1,000, cupy")
    assert [rung.best.variant for _, rung in found.others] == ["numba_parallel"]


def test_a_cpu_alone_has_a_path_too():
    records = [
        record(name, ms, toolkit="cpu", axes={}) for name, ms in {"numba_direct": 0.2, "numba_parallel": 0.1}.items()
    ]
    found = told(records)
    assert names(found.path) == ["numba_direct", "numba_parallel"]
    assert "× 2.00" in story_figure.draw(found, {}, "dark", "narrow")


def test_without_a_direct_sum_there_is_one_sentence(tmp_path, capsys):
    with pytest.raises(InputError, match="no direct sum is ok"):
        told([record("naive", status="failed", reason="x")])
    assert story.main([str(tmp_path / "nowhere")]) == 2
    said = capsys.readouterr().err
    assert said.startswith("python -m gravbench.report.story: ")
    assert said.count("\n") == 1


def test_the_table_has_ten_rows_at_most_and_marks_other_sources():
    many = ladder(kahan=3.0, float64_sums=3.1, chamomile=2.1, shuffle=2.2, split_j=1.5, soa_direct=4.1)
    more = [record("symmetric", 0.9e-3, axes={"equal_mass": 1}), record("triton_tiles", 2e-3, toolkit="triton")]
    text = story.markdown(told([*many, *more]), summaries(VARIANTS), NOWHERE)
    rows = [line for line in text.splitlines() if line.startswith("| ") and "---" not in line][1:]
    assert 5 < len(rows) <= story.MOST_ROWS
    assert "| **`symmetric equal_mass=1`** |" in text
    assert "`triton_tiles` (without CUDA C)" in text
    assert "§" in story.markdown(told(many), summaries(VARIANTS), Here(VARIANTS))


def test_the_table_says_of_which_bodies_errors_are_the_largest():
    whole = [record(name, ms / 1e3, n=1000, error_rows=1000) for name, ms in MILLISECONDS.items()]
    sentence = "Errors are relative to direct sums in float64, the largest of all bodies"
    assert f"{sentence}.\n" in story.markdown(told(whole), summaries(VARIANTS), NOWHERE)
    part = [*whole[:-1], record("symmetric", 1e-3, n=1000, error_rows=100)]
    assert f"{sentence}; for `symmetric`, of a sample of 100.\n" in story.markdown(
        told(part), summaries(VARIANTS), NOWHERE
    )


CROWDED = {"kahan": 2.02, "chamomile": 2.01, "float64_sums": 2.0, "split": 2.03}


@pytest.mark.parametrize("of_gpu", [True, False])
def test_the_table_says_how_far_the_devices_of_its_rows_drifted(of_gpu):
    on_cpu = {"toolkit": "cpu", "device": "a processor", "device_uuid": None, "axes": {}}
    times = [record("numba_parallel", ms / 1e3, anchor=place, **on_cpu) for place, ms in enumerate((9, 10, 11, 12), 1)]
    times += [record("tiled", ms / 1e3, anchor=place) for place, ms in enumerate((2, 2.1, 2.2), 1)] if of_gpu else []
    table = story.markdown(told([*ladder(), *times]), summaries(VARIANTS), NOWHERE)
    (note,) = [line for line in table.splitlines() if "DRIFT" in line]
    assert note.endswith("; on a processor, 28.57 %" if of_gpu else "; on a processor")
    assert table.splitlines()[0].endswith("^")


def drawn(found, layout, theme="light"):
    return ElementTree.fromstring(story_figure.draw(found, summaries(VARIANTS), theme, layout))


def measured(others):
    return RecordFile(run_names.find(others)).read() if isinstance(others, str) else ladder(**others)


@pytest.mark.parametrize("layout", story_figure.LAYOUTS)
@pytest.mark.parametrize("theme", story_figure.THEMES)
def test_the_picture_names_every_step(theme, layout):
    found = told(ladder(**CROWDED))
    texts = [one.text for one in drawn(found, layout, theme).iter(f"{SVG}text")]
    for step in found.path:
        assert f"{step.milliseconds:.2f} ms" in texts
        assert step.name in texts
        assert not step.gain or f"× {step.gain:.3g}" in {text.rstrip("0") for text in texts} | set(texts)
    assert texts.count("error 1.2e-06") == len(found.path)
    assert all((step.name in " ".join(texts)) == (layout == "wide") for step in found.beside)


def test_a_bar_is_as_long_as_its_time():
    found = told(ladder())
    for layout in story_figure.LAYOUTS:
        lengths = [float(bar.get("width")) for bar in drawn(found, layout).iter(f"{SVG}rect")]
        assert [length / lengths[0] for length in lengths] == pytest.approx(
            [step.milliseconds / found.path[0].milliseconds for step in found.path], rel=1e-2
        )


def extent(text):
    """What a text covers, by the widths of a font."""
    size, x, y = (float(text.get(name)) for name in ("font-size", "x", "y"))
    width = ImageFont.load_default(size).getlength(text.text)
    left = x - width * {"start": 0, "middle": 0.5, "end": 1}[text.get("text-anchor")]
    return left, y - 0.72 * size, left + width, y


def overlap(one, other):
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


@pytest.mark.parametrize("layout", story_figure.LAYOUTS)
@pytest.mark.parametrize("others", [CROWDED, {"kahan": 0.123}, "h200/ladder"], ids=str)
def test_no_text_covers_another_or_a_bar_or_leaves_the_page(others, layout, monkeypatch):
    monkeypatch.chdir(ROOT)
    records = measured(others)
    if not isinstance(others, str):
        records.append(record("symmetric", 0.1e-3, axes={"equal_mass": 1}))
    picture = drawn(told(records), layout)
    boxes = [extent(text) for text in picture.iter(f"{SVG}text")]
    for bar in picture.iter(f"{SVG}rect"):
        x, y, width, height = (float(bar.get(name)) for name in ("x", "y", "width", "height"))
        boxes.append((x, y, x + width, y + height))
    assert len(boxes) > 15
    assert [pair for pair in combinations(boxes, 2) if overlap(*pair)] == []
    page = float(picture.get("width")), float(picture.get("height"))
    assert all(left >= 0 and top >= 0 and right <= page[0] and bottom <= page[1] for left, top, right, bottom in boxes)


def test_text_is_large_enough_where_each_picture_is_shown(monkeypatch):
    monkeypatch.chdir(ROOT)
    # GitHub and the site have about 690 pixels beside their columns; a phone of 380 has 340.
    for layout, room in (("wide", 690), ("narrow", 340)):
        picture = drawn(told(measured("h200/ladder")), layout)
        shown = min(1, room / float(picture.get("width")))
        assert min(float(text.get("font-size")) for text in picture.iter(f"{SVG}text")) * shown >= 12
