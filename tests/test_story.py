"""The ladder as one path: which steps are on it, what is said of them, and that no text covers another."""

import re
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
    assert [step.variant for _, step in found.others] == ["numba_parallel"]


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


def columns(table):
    """Return the columns of a table by their headers, in the order of its rows."""
    lines = [line.split("|")[1:-1] for line in table.splitlines() if line.startswith("|")]
    headers, _, *rows = ([cell.strip() for cell in line] for line in lines)
    return dict(zip(headers, zip(*rows, strict=True), strict=True))


def table(records, here=NOWHERE):
    return columns(story.markdown(told(records, here), summaries(VARIANTS), here))


def test_the_table_has_ten_rows_at_most_and_marks_other_sources():
    many = ladder(kahan=3.0, float64_sums=3.1, chamomile=2.1, shuffle=2.2, split_j=1.5, soa_direct=4.1)
    more = [record("symmetric", 0.9e-3, axes={"equal_mass": 1}), record("triton_tiles", 2e-3, toolkit="triton")]
    text = story.markdown(told([*many, *more]), summaries(VARIANTS), NOWHERE)
    rows = [line for line in text.splitlines() if line.startswith("| ") and "---" not in line][1:]
    assert 5 < len(rows) <= story_path.MOST_ROWS
    assert "| **`symmetric equal_mass=1`** |" in text
    assert "`triton_tiles` (without CUDA C)" in text
    assert "§" in story.markdown(told(many), summaries(VARIANTS), Here(VARIANTS))


def test_what_is_faster_with_larger_errors_stands_below_the_bold_row():
    others = [
        record("tensor", 0.8e-3, axes={"terms": 1}, error_max=1e-4),
        record("tensor_half", 0.7e-3, error_max=1e-3),
    ]
    others += [record("tensor", 0.9e-3, axes={"terms": 2}), record("shuffle", 3e-3, error_max=1e-4)]
    found = told([*ladder(symmetric=1.5), *others])
    assert names(found.path) == ["naive", "float4", "tiled", "register_blocked", "symmetric", "tensor"]
    assert [(step.name, step.before) for step in found.faster] == [
        ("tensor terms=1", "tensor"),
        ("tensor_half", "tensor terms=1"),
    ]
    assert found.faster[0].gain == pytest.approx(0.9 / 0.8)
    text = story.markdown(found, summaries(VARIANTS), NOWHERE)
    assert columns(text)["variant"][-3:] == ("**`tensor`**", "`tensor terms=1`", "`tensor_half`")
    assert columns(text)["max error"][-3:] == ("1.2e-06", "1.0e-04", "1.0e-03")
    assert "`tensor terms=1` and `tensor_half` are faster, with larger errors." in text
    for layout in story_figure.LAYOUTS:
        words = " ".join(text.text for text in drawn(found, layout).iter(f"{SVG}text"))
        assert "tensor is 4.44 times as fast as naive. The rows below it are faster, with larger errors." in words
        assert "tensor_half 0.700 ms × 1.14" in words


def test_an_error_that_is_printed_as_that_of_the_first_row_is_no_larger():
    alike = [record("symmetric", 1e-3, error_max=1.24e-6), record("split", 0.5e-3, error_max=1.26e-6)]
    found = told([*ladder(), *alike])
    assert names(found.path)[-1] == "symmetric"
    assert names(found.faster) == ["split"]


def test_the_bold_row_may_be_one_of_another_toolkit_and_then_stands_above_what_is_faster():
    half = [record("tensor_half", 0.5e-3, error_max=1e-3), record("shuffle", 0.9e-3, error_max=1e-3)]
    found = table([*ladder(), *half, record("triton_tiles", 0.8e-3, toolkit="triton")])
    assert found["variant"][-4:] == (
        "`symmetric`", "**`triton_tiles` (without CUDA C)**", "`shuffle`", "`tensor_half`"
    )  # fmt: skip


def test_no_more_rows_are_faster_than_the_table_has_room_for_and_the_fastest_stay():
    fast = {name: 1e-6 * (900 - 10 * place) for place, name in enumerate(sorted({*PARENTS} - {*MILLISECONDS})[:12])}
    found = told([*ladder(), *(record(name, seconds, error_max=1e-4) for name, seconds in fast.items())])
    assert len(found.drawn) == story_path.MOST_ROWS
    assert names(found.drawn)[-1] == min(fast, key=fast.get)


def times(n, factor=1.0, **others):
    return [record(name, factor * ms / 1e3, n=n) for name, ms in {**MILLISECONDS, **others}.items()]


def test_the_table_has_the_times_at_the_largest_other_n_that_most_rows_have():
    more = [record("shuffle", 3e-3, n=65536), record("symmetric", 9e-3, n=1048576)]
    found = table([*times(65536), *times(131072, 4), *times(262144, 16), *more])
    assert list(found)[2:4] == ["ms, N = 65,536", "ms, N = 262,144"]
    assert [cell.split()[0] for cell in found["ms, N = 262,144"]] == ["64.00", "80.00", "32.00", "40.00", "16.00"]
    assert found["ms, N = 65,536"][0].startswith("4.000 ± ")


def test_two_sizes_with_the_same_variants_have_two_columns_too():
    assert list(table([*times(65536), *times(262144, 16)]))[2:4] == ["ms, N = 262,144", "ms, N = 65,536"]


def test_a_run_of_one_size_and_a_size_that_few_rows_have_give_one_column():
    for records in (times(65536), [*times(65536), *times(262144, 16)[:2]]):
        assert [header for header in table(records) if header.startswith("ms")] == ["ms, N = 65,536"]


def test_each_time_has_its_interval():
    tuned = [record("tiled", 1.5e-3, n=65536, axes={"p": 512}), record("tiled", 24e-3, n=262144, axes={"p": 512})]
    found = table([*times(65536, shuffle=3.0), *times(262144, 16), *tuned], Here(VARIANTS))
    cells = [cell for header, column in found.items() if header.startswith("ms") for cell in column if cell]
    assert len(cells) == 11
    assert all(re.match(r"[\d.]+ ± [\d.]+ %", cell) for cell in cells), cells
    unbounded = [record("naive", 4e-3, ci_high=None), record("tiled", 2e-3)]
    assert table(unbounded)["ms, N = 1,000"][0].startswith("4.000 ± n/a")


def test_a_tuned_row_names_its_axes_and_has_the_time_at_the_defaults_beside_it():
    usual = VARIANTS["tiled"].defaults
    tuned = [record("tiled", ms / 1e3, n=65536, axes={**usual, "p": p}) for p, ms in ((usual["p"], 2.0), (512, 1.5))]
    records = [*(one for one in times(65536, shuffle=3.0) if one.variant != "tiled"), *tuned]
    found = table(
        [*records, record("tiled", 24e-3, n=262144, axes=usual), *times(262144, 16, tiled=90)], Here(VARIANTS)
    )
    row = found["variant"].index("`tiled p=512`")
    assert found["ms at defaults"][row].startswith("2.000 ± ")
    assert found["ms, N = 262,144"][row].endswith(", at defaults")
    assert [bool(cell) for cell in found["ms at defaults"]] == [place == row for place in range(len(found["variant"]))]


def test_a_row_says_what_it_presupposes():
    tensor = record("tensor", 0.8e-3, axes={"terms": 1, "separation": 1.2, "reorder": 1}, error_max=1e-4)
    records = [*ladder(), record("symmetric", 0.9e-3, axes={"equal_mass": 1}), tensor]
    text = story.markdown(told(records, Here(VARIANTS)), summaries(VARIANTS), Here(VARIANTS))
    assert columns(text)["presupposes"] == (
        *[""] * 5, "equal masses", "masses ≥ 0; FP16 only beyond 1.2 block radii"
    )  # fmt: skip
    assert "rounding, in float32, and also to FP16 in `tensor terms=1`; approximations are not in this table" in text
    assert "presupposes" not in table(ladder())


def test_every_row_of_a_gpu_has_the_theoretical_occupancy():
    found = table([*ladder(), record("numba_parallel", 0.1, toolkit="cpu", axes={})])
    assert found["theoretical occupancy, %"] == (*["75.0"] * 5, "")


def test_the_table_says_of_which_bodies_errors_are_the_largest():
    whole = [record(name, ms / 1e3, n=1000, error_rows=1000) for name, ms in MILLISECONDS.items()]
    sentence = "Errors are relative to direct sums in float64, the largest of all bodies"
    assert f"{sentence}. " in story.markdown(told(whole), summaries(VARIANTS), NOWHERE)
    part = [*whole[:-1], record("symmetric", 1e-3, n=1000, error_rows=100)]
    assert f"{sentence}; for `symmetric`, of a sample of 100. " in story.markdown(
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
    """What a text covers, by the widths of a font, and of DejaVu Sans Bold where it is bold."""
    size, x, y = (float(text.get(name)) for name in ("font-size", "x", "y"))
    width = ImageFont.load_default(size).getlength(text.text) * (1.24 if text.get("font-weight") == "600" else 1)
    left = x - width * {"start": 0, "middle": 0.5, "end": 1}[text.get("text-anchor")]
    return left, y - 0.72 * size, left + width, y


def overlap(one, other):
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


@pytest.mark.parametrize("layout", story_figure.LAYOUTS)
@pytest.mark.parametrize("others", [CROWDED, {"kahan": 0.123}, "h100/ladder"], ids=str)
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
        picture = drawn(told(measured("h100/ladder")), layout)
        shown = min(1, room / float(picture.get("width")))
        assert min(float(text.get("font-size")) for text in picture.iter(f"{SVG}text")) * shown >= 12


def test_an_error_is_the_largest_over_the_seeds_of_two_runs():
    records = ladder()
    others = [
        one.model_copy(update={"seed": seed, "error_max": error})
        for seed, error in ((2, 3e-6), (3, 1e-7))
        for one in records
        if one.variant != "tiled"
    ]
    wrong = records[0].model_copy(update={"seed": 4, "error_max": 1.0, "status": "invalid", "reason": "wrong"})
    seeds = story.Seeds.of("further", [*records, *others, wrong])
    first, *_ = (seeds.largest(one) for one in records if one.variant == "naive")
    tiled = next(one for one in records if one.variant == "tiled")
    assert first.error_max == 3e-6
    assert seeds.largest(tiled) == tiled
    text = story.markdown(told([seeds.largest(one) for one in records]), summaries(VARIANTS), NOWHERE, seeds)
    assert "Errors are the largest over seeds 1, 2, 3 (`further`); those of `tiled` are of seed 1 alone." in text
    assert text.count("| 3.0e-06 |") == text.count("\n| ") - 3
