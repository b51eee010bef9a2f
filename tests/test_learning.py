"""The course: every exercise can be failed and passed, fifty mistakes are recognized, and no attempt is lost."""

import json
import re
import shutil
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError

from conftest import ROOT, command, flat
from gravbench.errors import InputError
from gravbench.explain.assembling import missing
from gravbench.judging import on_device
from gravbench.judging.emulating import EmulatedLauncher
from gravbench.judging.entry import entry_of
from gravbench.learning import progress, shown
from gravbench.learning.checking import check, rung_of
from gravbench.learning.classroom import as_json, read_class
from gravbench.learning.exercises import FIGURE, NAMES, exercise, exercises
from gravbench.learning.similarity import similar
from gravbench.learning.thresholds import thresholds
from gravbench.learning.times import AS_FAST, Times, measured
from gravbench.learning.timing_beside import BODIES, times_beside
from gravbench.model.device import Device
from gravbench.model.runs import RecordFile, latest
from gravbench.model.variant import discover
from gravbench.report.numbers import number
from gravbench.verdicts import ranking
from hosted_card import built

SUBMISSIONS = sorted((ROOT / "tests" / "learn").glob("*/*.cu"))
QUICK = ("tiles",)
"""All of it is checked in the quick part; the check of one submission takes a second or two."""
HEADINGS = [
    *("The idea", "Who reads what", "Your part"),
    *("What to expect, and why", "How long it takes", "Where the source says it"),
]

graded = pytest.mark.skipif(
    shutil.which("g++") is None or missing() is not None, reason=f"no g++ on PATH, or {missing()}"
)


def mistakes():
    """Return the submissions: of most exercises one is slow, the others are a corpus."""
    firsts = {path.parent: path for path in reversed(SUBMISSIONS)}.values()
    marks = {path: [] if path.parent.name in QUICK else pytest.mark.slow for path in firsts}
    return [
        pytest.param(path, marks=[] if path.parent.name in QUICK else marks.get(path, pytest.mark.corpus))
        for path in SUBMISSIONS
    ]


def checked(name, text, file=None):
    path = Path(file or f"{name}.cu")
    return check(exercise(name), path, text, thresholds().of(name), EmulatedLauncher())


@graded
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in NAMES]
)
def test_a_skeleton_is_not_good_enough_and_our_solution_is(name):
    of_skeleton, of_solution = checked(name, exercise(name).skeleton()), checked(name, exercise(name).solution())
    assert of_skeleton.verdict != "good", of_skeleton.sentence
    assert of_solution.verdict == "good", of_solution.sentence
    assert exercise(name).time_of_rung in of_solution.sentence


@graded
@pytest.mark.parametrize(
    "path",
    mistakes(),
    ids=lambda path: f"{path.parent.name}-{path.stem}",
)
def test_a_mistake_gets_its_diagnosis(path):
    text = path.read_text("utf-8")
    expected = re.search(r"^# expected: (.*)$", text, re.MULTILINE)[1]
    found = checked(path.parent.name, text, path)
    said = f"{shown.BEGINNINGS[found.verdict]} {found.sentence}"
    assert found.verdict != "good"
    assert expected in said, said
    times = exercise(path.parent.name).times
    assert path.stem not in (times.unnoticed if found.verdict == "right" else times.right)


HOISTED = re.sub(r"([xyz])\[j\] - [xyz]\[i\]", r"\1[j] - \1i", exercise("threads").solution()).replace(
    "float sum_x", "const float xi = x[i], yi = y[i], zi = z[i];\n    float sum_x"
)
SOFTENED_LAST = (
    exercise("tiles").solution().replace("dx * dx + (dy * dy + (dz * dz + eps2))", "dx * dx + dy * dy + dz * dz + eps2")
).replace(
    "(int first = 0; first < n; first += P) {",
    "(int t = 0; t < (n + P - 1) / P; ++t) {\n        const int first = t * P;",
)


@pytest.mark.slow
@graded
@pytest.mark.parametrize(("name", "text"), [("threads", HOISTED), ("tiles", SOFTENED_LAST)])
def test_a_plain_form_that_the_compiler_makes_more_of_is_good(name, text):
    assert text != exercise(name).solution()
    graded_text = checked(name, text)
    assert graded_text.verdict == "good", graded_text.sentence
    assert graded_text.counts.cost.slots > thresholds().usual["slots"] * rung_of(name).cost.slots, "no case of it"


@pytest.mark.slow
@graded
@pytest.mark.parametrize(
    "root",
    [
        "const float inverse = 1 / sqrtf(dx * dx + (dy * dy + (dz * dz + eps2)));",
        "const float r = sqrtf(dx * dx + (dy * dy + (dz * dz + eps2)));\n        const float inverse = 1 / r;",
    ],
)
def test_a_square_root_and_a_division_are_named_with_what_replaces_them(root):
    reciprocal = "const float inverse = rsqrtf(dx * dx + (dy * dy + (dz * dz + eps2)));"
    text = exercise("threads").solution().replace(reciprocal, root)
    sentence = checked("threads", text).sentence
    assert re.search(r"line 17 takes [\d.]+ of them: `const float \w+ = .*sqrtf\(.*`; rsqrtf\(x\) takes one", sentence)


@pytest.mark.slow
@graded
@pytest.mark.parametrize("name", ["threads/sums_in_memory", "unrolling/by_two"])
def test_the_largest_difference_by_pipe_is_the_largest(name):
    exercise_name, _, file = name.partition("/")
    text = (ROOT / "tests" / "learn" / exercise_name / f"{file}.cu").read_text("utf-8")
    checked_text = check(
        exercise(exercise_name), Path(f"{exercise_name}.cu"), text, {"slots": 1.001}, EmulatedLauncher()
    )
    mine, theirs = checked_text.counts.cost.pipes, checked_text.of_rung.cost.pipes
    pipe = re.search(r"the largest difference by pipe is on the (.*) pipe,", checked_text.sentence)[1]
    assert mine[pipe] - theirs.get(pipe, 0) == max(mine[name] - theirs.get(name, 0) for name in mine)


@graded
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("sum_x += strength", "sumx += strength", "mine.cu, line 19: 'sumx' was not declared in this scope"),
        ("int n, float eps2", "int n, flot eps2", "mine.cu, line 11: 'flot' has not been declared"),
        ("    az[i] = sum_z;\n}", "    az[i] = sum_z;\n", "mine.cu: a { has no }"),
        ("strength * dz;\n    }", "strength * dz;\n", "mine.cu: a { has no }"),
    ],
)
def test_what_does_not_compile_names_the_file_of_the_student(old, new, said):
    text = exercise("threads").solution()
    assert text.count(old) == 1
    assert checked("threads", text.replace(old, new), "mine.cu").sentence.startswith(said)


@pytest.mark.slow
@graded
def test_a_tile_of_each_thread_alone_is_recognized():
    text = exercise("tiles").solution().replace("__shared__ float4 tile", "float4 tile")
    sentence = checked("tiles", text).sentence
    assert re.match(
        r"with [\d,]+ bodies, tile in line 21 is declared without __shared__: each thread has one", sentence
    )


def test_every_exercise_has_five_mistakes_and_texts_that_fit_a_terminal():
    for each in exercises():
        assert sum(path.parent.name == each.name for path in SUBMISSIONS) == 5
        assert re.findall(r"^## (.*)$", each.page, re.MULTILINE) == HEADINGS
        assert each.page.startswith(f"# {each.about.title}\n")
        assert not FIGURE.search(each.page), "a figure was not filled in"
        # A terminal of 80 columns takes away the indent, and gives two for a margin.
        assert [line for line in each.page.splitlines() if line.startswith("    ") and len(line) > 82] == []
        assert each.about.rung in discover()
    assert [each.next_name for each in exercises()] == [*NAMES[1:], None]


@pytest.mark.parametrize("name", NAMES)
def test_times_on_pages_are_those_of_the_records(name):
    records = latest(RecordFile(ROOT / "reports" / "h100" / "ladder").read())
    about = exercise(name).about
    assert next(iter(about.milliseconds)).split()[0] == about.rung
    for key, milliseconds in about.milliseconds.items():
        variant, n, *settings = key.split()
        usual = discover()[variant].usual()
        axes = usual | {axis: int(value) for axis, value in (one.split("=") for one in settings)}
        found = [
            record
            for record in records
            if (record.variant, record.n, record.toolkit, record.timed) == (variant, int(n), "cupy", "force")
            and (record.bodies, record.dtype) == ("plummer", "float32")
            and usual | record.axes == axes
        ]
        assert [number(1e3 * ranking.seconds(record)) for record in found] == [number(milliseconds)], key


@pytest.mark.parametrize("name", NAMES)
def test_a_page_says_what_its_kernels_took_on_a_gpu(name):
    known, times = measured(), exercise(name).times
    assert list(known.exercises) == list(NAMES)
    assert known.n == BODIES
    section = " ".join(exercise(name).sections["How long it takes"].split())
    for figure in (known.device, known.driver, f"{known.n:,} bodies", f"Up to {AS_FAST} times", number(times.rung)):
        assert figure in section
    for milliseconds in filter(None, (times.solution, times.skeleton)):
        assert f"{number(milliseconds)} ms ({number(milliseconds / times.rung)} times as long)" in section
    assert section.count(" ms") == sum(map(bool, (times.rung, times.solution, times.skeleton)))
    disagree = (times.solution or 0) > AS_FAST * times.rung or any(
        ratio <= AS_FAST for kernel, ratio in times.ratios.items() if kernel == "skeleton" or kernel in times.right
    )
    assert ("Count and time agree" in section) != disagree
    submissions = {path.stem for path in SUBMISSIONS if path.parent.name == name}
    assert {*times.right, *times.unnoticed} <= submissions
    assert not {*times.right} & {*times.unnoticed}


def test_teachers_see_the_times_of_all_exercises(monkeypatch):
    pytest.importorskip("mkdocs")
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "hooks"))
    import course_pages
    import site_pages

    assert site_pages.TIMES in (ROOT / "docs" / "course" / "teaching.md").read_text("utf-8")
    _, _, *rows = course_pages.table_of_times().splitlines()
    assert [row.split(" | ")[0] for row in rows] == [f"| {name}" for name in NAMES]
    for name, row in zip(NAMES, rows, strict=True):
        for kernel, ratio in exercise(name).times.ratios.items():
            assert f"{'' if kernel in ('solution', 'skeleton') else f'`{kernel}` '}{number(ratio)}" in row


@pytest.mark.parametrize("values", [{"rung": 0}, {"rung": 1, "solutions": 1}, {"rung": 1, "right": {"x": "fast"}}, {}])
def test_times_that_are_none_are_refused(values):
    with pytest.raises(ValidationError):
        Times.model_validate(values)


@pytest.fixture
def card(tmp_path, monkeypatch):
    """Return a device that is the processor."""
    monkeypatch.setattr(on_device, "WORKER", (sys.executable, str(ROOT / "tests" / "hosted_card.py")))
    monkeypatch.setattr(on_device, "binary_of", lambda entry, _: built(entry, tmp_path))
    return Device("cuda:0", "Pretended")


@pytest.mark.slow
@graded
def test_on_a_gpu_a_submission_is_timed_beside_its_rung(card):
    right = checked("threads", exercise("threads").solution())
    beside = times_beside(right, card, 300)
    assert beside.ratio > 0
    assert re.fullmatch(
        r"[\d.]+ ms for 300 bodies on Pretended, where naive takes [\d.]+ ms: (as fast|.* times as long)",
        beside.sentence,
    )
    as_fast = replace(beside, submission=beside.rung)
    sections = {section.name: section for section in shown.result(right, {}, as_fast)}
    assert sections["time"].parts[0].lines[0].endswith("as fast")
    assert not sections["verdict"].notes
    slower = replace(
        beside,
        rung=replace(
            beside.rung,
            n=300,
            measurement=beside.rung.measurement.model_copy(update={"median_seconds": beside.submission.seconds / 3}),
        ),
    )
    sections = {section.name: section for section in shown.result(right, {}, slower)}
    assert sections["time"].parts[0].lines[0].endswith("3.000 times as long")
    see = 'see "How long it takes" in gravbench learn show threads'
    assert sections["verdict"].notes == [f"Counted as good as naive, timed 3.000 times as long: {see}"]
    costly = replace(right, verdict="right")
    assert next(shown.result(costly, {}, as_fast)).notes == [f"Counted as less good than naive, timed as fast: {see}"]
    for unknown in (costly, replace(right, counts=None)):
        assert not next(shown.result(unknown, {}, slower)).notes


@graded
@pytest.mark.slow
def test_what_is_wrong_only_while_it_is_timed_is_wrong(card):
    right = checked("threads", exercise("threads").solution())
    begin = "static int threads_so_far; const bool is_late = threads_so_far++ > 9000;\n    const int i ="
    text = right.entry.text.replace("const int i =", begin).replace("az[i] = sum_z;", "az[i] = is_late ? 0 : sum_z;")
    assert "is_late ? 0" in text
    beside = times_beside(replace(right, entry=entry_of(right.entry.path, text)), card, 300)
    assert beside.ratio is None
    assert "wrong while it was" in beside.wrong
    assert beside.sentence.startswith("not timed on Pretended")


@graded
@pytest.mark.slow
def test_slots_on_pages_are_those_of_the_machine_code():
    for each in exercises():
        for variant, slots in each.about.slots.items():
            other = next(one.name for one in exercises() if one.about.rung == variant)
            assert number(rung_of(other).cost.slots, zeros=False) == number(slots, zeros=False), (each.name, variant)


def test_a_head_that_asks_for_other_rules_is_refused():
    solution = exercise("tiles").solution()
    for old, new, said in (
        ("arrays:", "error: 0.1\narrays:", "error is 0.1; accepted: no such key"),
        ("arrays:", "precision: float64\narrays:", "precision is float64; accepted: float32"),
        ("arrays:", "mutual: true\narrays:", "mutual is true; accepted: false"),
    ):
        with pytest.raises(InputError, match=re.escape(said)):
            checked("tiles", solution.replace(old, new, 1))


@pytest.mark.slow
@graded
def test_a_student_gets_a_skeleton_an_answer_hints_and_then_the_solution(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kept = ["--progress", "mine.json"]
    assert command("learn", "start", "wide_load")[0] == 0
    assert command("learn", "start", "wide_load") == (
        2, "wide_load.cu: exists already; accepted: another folder, or a file that you moved away"
    )  # fmt: skip
    refused = command("learn", "show", "wide_load", "--solution", *kept)
    assert refused[0] == 2
    assert "wide_load has no attempt yet" in refused[1]
    code, said = command("learn", "check", "wide_load.cu", *kept)
    assert code == 1
    assert "Right, but 4 loads from global memory per interaction (load-store pipe) where float4 has 1" in flat(said)
    assert max(map(len, said.splitlines()[:-1])) <= 80
    assert len(said.splitlines()) <= 24, "more than one screen"
    assert said.splitlines()[-1].startswith("Next: change it, and again: gravbench learn check wide_load.cu")
    assert "Next: gravbench learn check wide_load.cu" in command("learn", "show", "wide_load", *kept)[1]
    Path("wide_load.cu").rename("moved.cu")
    assert "Next: gravbench learn check wide_load.cu" in command("learn", "show", "wide_load", *kept)[1]
    assert "Next: gravbench learn start tiles" in command("learn", "show", "tiles", *kept)[1]
    first, second = (flat(command("learn", "hint", "wide_load", *kept)[1]) for _ in range(2))
    assert first.startswith("1. ")
    assert "2. " not in first
    assert "2. " in second
    assert command("learn", "show", "wide_load", "--solution", *kept) == (0, exercise("wide_load").solution())
    Path("wide_load.cu").write_text(exercise("wide_load").solution(), "utf-8")
    code, said = command("learn", "check", "wide_load.cu", "--json", *kept)
    result = json.loads(said)
    assert (code, result["verdict"], result["attempts"], result["hints"]) == (0, "good", 2, 2)
    assert {count["what"]: count["within"] for count in result["counts"]}["issue slots per interaction"] is True
    listed = json.loads(command("learn", "--json", *kept)[1])
    assert [(row["exercise"], row["result"]) for row in listed][:3] == [
        ("threads", None), ("wide_load", "good"), ("tiles", None)
    ]  # fmt: skip
    assert "Next: gravbench learn start threads" in command("learn", *kept)[1]


@graded
def test_stricter_thresholds_of_a_teacher_replace_those_that_they_name(tmp_path):
    file = tmp_path / "strict.yaml"
    file.write_text("exercises:\n  tiles: {slots: 1.02}\n", "utf-8")
    assert thresholds(file).of("tiles") == thresholds().of("tiles") | {"slots": 1.02}
    assert thresholds(file).of("unrolling") == thresholds().of("unrolling")
    (tmp_path / "tiles.cu").write_text(exercise("tiles").solution(), "utf-8")
    words = ["learn", "check", tmp_path / "tiles.cu", "--progress", tmp_path / "progress.json", "--thresholds", file]
    code, said = command(*words)
    assert code == 1
    assert "issue slots per interaction where tiled takes 14.09" in flat(said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("usual: {slots: 0}", "slots is 0; accepted: a number above 0, up to 1000"),
        ("usual: {slot: 1}", '"slot" is not counted; did you mean slots?'),
        ("usuals: {slots: 1}", 'unknown key "usuals"; did you mean usual?'),
        ("exercises: {tile: {slots: 1}}", "tile is no exercise; did you mean tiles?"),
        ("usual: 3", "usual is 3; accepted: keys and values"),
    ],
)
def test_a_mistake_in_thresholds_is_one_sentence_with_the_line(tmp_path, text, said):
    file = tmp_path / "thresholds.yaml"
    file.write_text(text, "utf-8")
    with pytest.raises(InputError, match=re.escape(said)) as raised:
        thresholds(file)
    assert str(raised.value).startswith(f"{file}, line 1: ")


def test_no_attempt_is_lost_among_several_at_the_same_time(tmp_path):
    path = tmp_path / "a" / "progress.json"

    def add():
        with progress.changing(path) as known:
            known.of("tiles").attempts.append(progress.attempt("text", "wrong", "why"))

    threads = [threading.Thread(target=add) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(progress.read(path).exercises["tiles"].attempts) == 8
    assert progress.read(path).of("tiles").best == "wrong"


def test_a_file_that_is_no_progress_is_refused_and_kept(tmp_path):
    path = tmp_path / "progress.json"
    path.write_text('{"exercises": 3}', "utf-8")
    code, said = command("learn", "hint", "tiles", "--progress", path)
    assert code == 2
    assert "accepted: what `gravbench learn` writes" in said
    assert path.read_text("utf-8") == '{"exercises": 3}'


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("start", "tile"), "there is no exercise 'tile'; did you mean tiles?"),
        (("check", "tile.cu"), "tile.cu: tile is no exercise; did you mean tiles?"),
        (("check", "tiles.cu"), "tiles.cu"),
        (("check", "x.cu", "--exercise", "nix"), "there is no exercise 'nix'"),
        (("class", "nowhere"), "there is no submission; accepted: FOLDER/STUDENT/EXERCISE.cu"),
    ],
)
def test_a_mistake_on_the_command_line_is_one_sentence(tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    code, sentence = command("learn", *words)
    assert code == 2
    assert said in sentence
    assert "\n" not in sentence


def test_texts_with_other_names_comments_and_constants_are_nearly_the_same():
    solution, skeleton = exercise("r_bodies").solution(), exercise("r_bodies").skeleton()
    renamed = solution.replace("self", "mine").replace("R: 4", "R: 8").replace("// and i + P", "// something else")
    other = (ROOT / "tests" / "learn" / "r_bodies" / "indices_not_constant.cu").read_text("utf-8")
    assert renamed != solution
    pairs = similar({"ann": solution, "bob": renamed, "eve": exercise("q_threads").solution()}, [skeleton])
    assert [(pair.first, pair.second, pair.similarity) for pair in pairs] == [("ann", "bob", 1.0)]
    assert similar({"ann": skeleton, "bob": skeleton}, [skeleton]) == [], "what all were given is nobody's"
    assert similar({"ann": solution, "bob": other}, [skeleton])[0].similarity < 1


@pytest.mark.slow
@graded
def test_a_class_is_one_table_and_a_page(tmp_path):
    submissions = {
        "ann/tiles.cu": exercise("tiles").solution(),
        "bob/tiles.cu": exercise("tiles").solution().replace("first", "begin"),
        "eve/tiles.cu": (ROOT / "tests" / "learn" / "tiles" / "early_return.cu").read_text("utf-8"),
        "eve/notes.cu": "// not a submission",
        "joe/tiles.cu": "not an entry",
    }
    for name, text in submissions.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    with progress.changing(tmp_path / "ann" / "progress.json") as known:
        known.of("tiles").attempts.append(progress.attempt("text", "wrong", "why"))
    told = []
    result = as_json(read_class(tmp_path, thresholds(), EmulatedLauncher(), told.append))
    assert len(told) == 4
    assert [(row["student"], row["verdict"], row["attempts"]) for row in result["submissions"]] == [
        ("ann", "good", 1), ("bob", "good", None), ("eve", "wrong", None), ("joe", "unreadable", None)
    ]  # fmt: skip
    assert [(pair["first"], pair["second"]) for pair in result["similar"]] == [("ann/tiles.cu", "bob/tiles.cu")]
    assert result["ignored"] == [str(tmp_path / "eve" / "notes.cu")]
    code, said = command("learn", "class", tmp_path, "--html", tmp_path / "class.html")
    page = (tmp_path / "class.html").read_text("utf-8")
    assert code == 0
    *table, wrote = said.splitlines()
    assert max(map(len, table)) <= 80
    assert wrote == f"wrote {tmp_path / 'class.html'}"
    for text in ("ann", "tiles.cu", "done", "__syncthreads", "Nearly the same", "notes.cu is no submission"):
        assert text in page
    assert "<script" not in page


@graded
def test_what_no_gpu_could_run_is_wrong_though_the_emulator_runs_it():
    text = exercise("tiles").solution().replace("float4 tile[P]", "float4 tile[64 * P]")
    graded_text = checked("tiles", text)
    assert graded_text.verdict == "wrong"
    assert "262,152 bytes of shared memory; accepted: up to 49,152" in graded_text.sentence


def test_what_cannot_be_counted_is_said_with_what_to_install(tmp_path, monkeypatch):
    if shutil.which("g++") is None:
        pytest.skip("no g++ on PATH")
    from gravbench.judging import cost

    monkeypatch.setattr(cost, "missing", lambda: "nvdisasm is not installed")
    (tmp_path / "tiles.cu").write_text(exercise("tiles").solution(), "utf-8")
    code, said = command("learn", "check", tmp_path / "tiles.cu", "--progress", tmp_path / "progress.json")
    assert code == 1
    assert "not counted: nvdisasm is not installed" in flat(said)
    assert "pip install 'gravbench[explain]'" in flat(said)


def test_skeletons_and_solutions_are_entries():
    for each in exercises():
        assert each.skeleton().startswith("/* gravbench entry\n")
        assert each.solution().startswith("/* gravbench entry\n")
