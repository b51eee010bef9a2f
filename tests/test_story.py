"""The ladder as one line: which steps are on it, what is said of them, and that no label covers another."""

import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import pytest
from PIL import ImageFont

from conftest import ROOT
from gravbench.errors import InputError
from gravbench.model import run_names
from gravbench.model.runs import RecordFile
from gravbench.model.variant import discover, parents, summaries
from gravbench.report import labels, story, story_figure, story_path
from gravbench.report.labels import Box
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
    story_figure.draw(found, summaries(VARIANTS), "light")


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
    assert "× 2.00" in story_figure.draw(found, {}, "dark")


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
    assert "of any body" not in (ROOT / "README.md").read_text("utf-8")


CROWDED = {"kahan": 2.02, "chamomile": 2.01, "float64_sums": 2.0, "split": 2.03}
NEAR_THE_LINE = {"chamomile": 2.40, "split": 2.24, "kahan": 3.72, "split_j": 1.97, "shuffle": 2.73, "soa_direct": 4.1}


@pytest.mark.parametrize("of_gpu", [True, False])
def test_the_table_says_how_far_the_devices_of_its_rows_drifted(of_gpu):
    on_cpu = {"toolkit": "cpu", "device": "a processor", "device_uuid": None, "axes": {}}
    times = [record("numba_parallel", ms / 1e3, anchor=place, **on_cpu) for place, ms in enumerate((9, 10, 11, 12), 1)]
    times += [record("tiled", ms / 1e3, anchor=place) for place, ms in enumerate((2, 2.1, 2.2), 1)] if of_gpu else []
    table = story.markdown(told([*ladder(), *times]), summaries(VARIANTS), NOWHERE)
    (note,) = [line for line in table.splitlines() if "DRIFT" in line]
    assert note.endswith("; on a processor, 28.57 %" if of_gpu else "; on a processor")
    assert table.splitlines()[0].endswith("^")


@pytest.mark.parametrize("theme", story_figure.THEMES)
@pytest.mark.parametrize("others", [{}, CROWDED, NEAR_THE_LINE], ids=["few", "crowded", "near the line"])
def test_the_picture_names_every_step(theme, others):
    found = told(ladder(**others))
    drawn = ElementTree.fromstring(story_figure.draw(found, summaries(VARIANTS), theme))
    texts = [(float(one.get("x")), float(one.get("y")), one.text) for one in drawn.iter(f"{SVG}text")]
    words = " ".join(text for _, _, text in texts)
    for step in found.path:
        assert f"{step.milliseconds:.2f} ms" in words
        assert step.name in words
    assert words.count("largest error 1.2e-06") == len(found.path)
    assert sum(text.split()[0] in names(found.beside) for _, _, text in texts) == len(found.beside)
    width, height = float(drawn.get("width")), float(drawn.get("height"))
    assert all(0 <= x <= width and 0 <= y <= height for x, y, _ in texts)


def extent(text):
    """What a text covers, by the widths of a font."""
    size, x, y = (float(text.get(name)) for name in ("font-size", "x", "y"))
    width = ImageFont.load_default(size).getlength(text.text)
    left = x - width * {"start": 0, "middle": 0.5, "end": 1}[text.get("text-anchor")]
    return Box(left, y - 0.72 * size, left + width, y)


@pytest.mark.parametrize("others", [{}, CROWDED, NEAR_THE_LINE, "h200/ladder"], ids=str)
def test_no_label_lies_on_a_line_a_dot_or_another_label(others, monkeypatch):
    monkeypatch.chdir(ROOT)
    records = RecordFile(run_names.find(others)).read() if isinstance(others, str) else ladder(**others)
    drawn = list(ElementTree.fromstring(story_figure.draw(told(records), {}, "light")))
    lines = []
    for one in drawn:
        if one.tag == f"{SVG}path" and "L" in one.get("d"):
            numbers = [float(number) for number in re.findall(r"[-\d.]+", one.get("d"))]
            lines.append((float(one.get("stroke-width")), (tuple(numbers[:2]), tuple(numbers[2:]))))
    dots = [
        Box(*(float(one.get(f"c{axis}")) + sign * float(one.get("r")) for sign in (-1, 1) for axis in "xy"))
        for one in drawn
        if one.tag == f"{SVG}circle"
    ]
    texts = [(one, before.tag == f"{SVG}rect") for before, one in pairwise(drawn) if one.tag == f"{SVG}text"]
    assert len(lines) >= 5
    assert len(texts) > 10
    for place, (text, covers_its_line) in enumerate(texts):
        box = extent(text)
        # The gain of a step may interrupt the line of the path, and no other.
        under = [line for width, line in lines if box.meets(line) and not (covers_its_line and width == 3)]
        assert under == [], text.text
        assert [dot for dot in dots if box.overlaps(dot)] == [], text.text
        assert [other.text for other, _ in texts[place + 1 :] if box.overlaps(extent(other))] == [], text.text


def test_a_box_is_met_by_what_passes_through_it():
    box = Box(0, 0, 10, 4)
    for met in (((-5, 2), (15, 2)), ((5, -5), (5, 9)), ((1, 1), (2, 2)), ((-1, -1), (20, 8))):
        assert box.meets(met)
        assert box.meets(met[::-1])
    for missed in (((-5, 5), (15, 5)), ((-5, 2), (-1, 2)), ((8, -5), (30, 9)), ((0, 4), (10, 4))):
        assert not box.meets(missed)
    assert labels.crosses(((0, 0), (4, 4)), ((0, 4), (4, 0)))
    assert not labels.crosses(((0, 0), (4, 4)), ((0, 4), (1, 3)))
