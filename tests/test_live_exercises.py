"""The exercises of the page in Chromium without a GPU: skeletons fail, solutions pass, mistakes get their diagnosis."""

import json
import re

import numpy as np
import pytest

from browsing import chromium, until
from conftest import ROOT
from gravbench.judging import diagnosis
from gravbench.judging.entry import entry_of
from gravbench.judging.judgement import bodies_of, judge, tiles_of
from gravbench.judging.launching import POISON
from gravbench.judging.on_device import OnDevice
from gravbench.learning.exercises import NAMES, exercise, exercises
from gravbench.learning.thresholds import thresholds
from gravbench.live import exercises as live_exercises
from gravbench.live import page as live_page
from gravbench.toolkits import wgpu
from test_live import SOFTWARE, Open

SUBMISSIONS = sorted((ROOT / "tests" / "learn").glob("*/*.wgsl"))
IN_WGSL = [each.name for each in exercises() if each.in_wgsl]
QUICK = ("tiles",)
CHECK = """(async () => {
    const [name, text] = ARGUMENTS;
    const view = page.exercises.views.find(({ about }) => about.name === name);
    view.area.input.value = text;
    view.edited();
    await page.check(view);
    return { sentence: view.status.textContent, facts: view.facts.innerText, wrong: [...view.wrong] };
})()"""


def marked(name):
    return pytest.param(name, marks=[] if name in QUICK else pytest.mark.corpus)


# Without a browser.


def test_every_exercise_is_on_the_page_or_says_why_not():
    assert [each.name for each in live_exercises.shown()] == list(NAMES)
    assert [each.name for each in live_exercises.shown() if each.absent] == ["tree_walk"]
    for each in live_exercises.shown():
        assert [heading for heading, _ in each.sections] == (
            [] if each.absent else ["The idea", "Who reads what", "Your part", "Where the source says it"]
        )


@pytest.mark.parametrize("name", IN_WGSL)
def test_texts_in_wgsl_have_no_words_of_cuda(name):
    words = r"__\w+|threadIdx|blockIdx|rsqrtf|float[34]\b|#pragma|learn check"
    shown = next(each for each in live_exercises.shown() if each.name == name)
    text = "".join(text for heading, text in shown.sections if heading != "Where the source says it")
    hints = next(each for each in live_exercises.content()["all"] if each["name"] == name)["hints"]
    assert not re.search(words, text + "".join(hints))
    assert sum(path.parent.name == name for path in SUBMISSIONS) >= 2


@pytest.mark.parametrize("name", [marked(name) for name in IN_WGSL])
def test_a_solution_in_wgsl_is_right_by_the_judge_of_entries(name, adapter):
    of_name = exercise(name)
    entry = entry_of(ROOT / f"{name}.wgsl", of_name.solution_in_wgsl)
    with OnDevice(adapter) as launcher:
        judgement = judge(entry, launcher, [1, 31, 129, of_name.about.error_at or 1000])
    assert judgement.right, judgement.sizes
    if limit := thresholds().of(name).get("error"):
        assert judgement.sizes[-1].errors.error_magnitude_rms <= limit


@pytest.fixture(scope="module")
def adapter():
    devices, why_not = wgpu.FAMILY.devices()
    if not devices:
        pytest.skip(why_not)
    return devices[0]


# In one session of a browser.


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    path = tmp_path_factory.mktemp("exercises") / "ladder.html"
    path.write_text(live_page.page(), "utf-8")
    with chromium(*SOFTWARE) as driver:
        page = Open(driver, f"{path.as_uri()}#exercises/tiles")
        driver.set_script_timeout(240)
        page("Object.assign(BESIDE, { warm_up_seconds: 0.02, budget_seconds: 0.05 }); SEARCH.seconds = 120")
        yield page
        problems = [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
        assert problems == []


def checked(opened, name, text):
    answer = opened.answer(CHECK.replace("ARGUMENTS", json.dumps([name, text])))
    assert isinstance(answer, dict), answer
    return answer


@pytest.mark.slow
@pytest.mark.parametrize("name", [marked(name) for name in IN_WGSL])
def test_a_skeleton_fails_and_our_solution_passes(opened, name):
    of_name = exercise(name)
    of_skeleton = checked(opened, name, of_name.skeleton_in_wgsl)
    assert of_skeleton["sentence"].startswith(("Wrong because ", "Right, but "))
    of_solution = checked(opened, name, of_name.solution_in_wgsl)
    assert of_solution["sentence"].startswith(
        f"Right, and it does what {of_name.about.rung} does; not graded by time"
    ), of_solution
    assert "software adapter" in of_solution["sentence"]
    assert re.search(rf"ms.*; {of_name.about.rung}: [\d.]+ ms.*\. Medians for 1,024 bodies", of_solution["facts"])


def mistakes():
    firsts = list({path.parent: path for path in reversed(SUBMISSIONS)}.values())
    for path in SUBMISSIONS:
        is_quick = path.parent.name in (*QUICK, "threads") and path.stem != "second_barrier_missing"
        marks = [] if is_quick else [pytest.mark.slow if path in firsts[:2] else pytest.mark.corpus]
        yield pytest.param(path, marks=marks, id=f"{path.parent.name}-{path.stem}")


@pytest.mark.slow
@pytest.mark.parametrize("path", list(mistakes()))
def test_a_mistake_gets_its_diagnosis_and_the_page_lives(opened, path):
    text = path.read_text("utf-8")
    answer = checked(opened, path.parent.name, text)
    assert answer["sentence"].startswith(("Wrong because ", "Right, but "))
    # One of several, where what lies beyond the end of an array decides.
    expected = re.findall(r"^# expected: (.*)$", text, re.MULTILINE)
    assert any(one in answer["sentence"] for one in expected), answer["sentence"]
    if line := re.search(r"^Wrong because line (\d+)", answer["sentence"]):
        assert int(line[1]) - 1 in answer["wrong"]
    assert opened.idle()
    assert opened.answer("page.gpu.finished('what is asked').then(() => 'alive')") == "alive"


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("/* gravbench entry", "/* an entry", "line 1: the text begins with no head"),
        ("'ceil_div(n, P)'", "ceil_div(n, P)", "quotes within braces"),
        ("'ceil_div(n, P)'", "'ceil_div(n, Q)'", "line 3: ceil_div(n, Q) is no whole number of n, P"),
        ("{P: 256}", "{P: many}", "the constant P is many; accepted: a whole number"),
        ("accelerations: accelerations", "accelerations: bodies", "no array is accelerations, or ax, ay and az"),
        ("arguments: [bodies, ", "arguments: [", "it does not use the arrays and numbers that it is given"),
        ("fn tiles(", "fn tile_s(", "the kernel tiles cannot be made"),
    ],
)
def test_a_mistake_in_the_head_is_one_sentence(opened, old, new, sentence):
    text = exercise("tiles").solution_in_wgsl
    assert old in text
    answer = checked(opened, "tiles", text.replace(old, new, 1))
    assert answer["sentence"].startswith("Wrong because ")
    assert sentence in answer["sentence"]


def test_heads_are_read_as_python_reads_them(opened):
    for each in (exercise(name) for name in IN_WGSL):
        for text in (each.skeleton_in_wgsl, each.solution_in_wgsl):
            entry = entry_of(ROOT / f"{each.name}.wgsl", text)
            for n in (1, 129, 1000):
                plan = opened("return planOf(headOf(arguments[0]), arguments[0], arguments[1])", text, n)
                calls = entry.calls(n)
                assert [each["grid"] for each in plan["dispatches"]] == [call.grid[0] for call in calls]
                assert [each["threads"] for each in plan["dispatches"]] == [np.prod(call.block) for call in calls]
                assert opened("return tilesOf(headOf(arguments[0]), arguments[1])", text, plan) == tiles_of(entry, n)
                scratch = list(entry.scratch_bytes(n).values())
                assert [4 * buffer["length"] for buffer in plan["buffers"]][2 if len(scratch) else 9 :] == scratch


def explained_by_the_page(opened, n, sets, computed, tiles):
    """Return what the worker says of a wrong result of the second launch."""
    rows = [np.column_stack([each.position, each.mass]).astype(np.float32).ravel().tolist() for each in sets]
    eps2 = [float(np.float32(each.eps**2)) for each in sets]
    given = json.dumps([n, [{"rows": row, "eps2": square} for row, square in zip(rows, eps2, strict=True)], tiles])
    bits = json.dumps(np.ascontiguousarray(computed, np.float32).view(np.uint32).ravel().tolist())
    answer = opened.answer(f"""(async () => {{
        const [n, sets, tiles] = {given};
        const judge = new Judge(n, sets.map((set) => ({{ ...set, rows: Float32Array.from(set.rows) }})));
        const sums = new Float32Array(Uint32Array.from({bits}).buffer);
        const answer = await judge.verdict(1, sums, {{ former: 0, tiles }});
        judge.close();
        return answer;
    }})()""")
    return answer["cause"] or "no known mistake explains it"


def wrong_results(result):
    """Give wrong results: what each hypothesis leads to, and some that can be seen."""
    for hypothesis in diagnosis.HYPOTHESES:
        if hypothesis is not diagnosis.short_numbers:
            for _, alternative in hypothesis(result):
                yield alternative.sums
    yield -0.37 * result.exact
    yield result.exact * [1, 1, -1]
    yield np.where(np.arange(len(result.exact))[:, None] < 40, 3 * result.exact, result.exact)
    yield np.where(np.arange(len(result.exact))[:, None] < 40, np.nan, result.exact)
    unwritten = result.exact.astype(np.float32)
    unwritten.view(np.uint32)[50:] = POISON["float32"][1]
    yield unwritten


@pytest.mark.slow
def test_the_page_and_the_judge_name_the_same_mistakes(opened):
    """Each known mistake, computed by Python, gets the same sentence from the page."""
    n, tiles = 100, [64, 32]
    sets = bodies_of(n, 7, 2)
    rows = diagnosis.rows_of(sets[1], np.dtype(np.float32))
    eps2 = float(np.float32(sets[1].eps ** 2))
    sums, magnitudes = diagnosis.contributions(rows, rows, eps2)
    start = diagnosis.Result(
        sets[1], 1.5 * sums.astype(np.float32), sums, magnitudes, np.ones(n, np.bool_), sets[0], tiles
    )
    seen = set()
    for computed in wrong_results(start):
        single = np.asarray(computed, np.float32)
        with np.errstate(invalid="ignore"):
            wrong = ~(np.linalg.norm(single - sums, axis=1) <= 1e-5 * np.linalg.norm(magnitudes, axis=1))
        if not wrong.any():
            continue
        result = diagnosis.Result(sets[1], single, sums, magnitudes, wrong, sets[0], tiles)
        expected = diagnosis.cause_of(result)
        assert explained_by_the_page(opened, n, sets, single, tiles) == expected
        seen.add(expected)
    assert len(seen) > 30


def test_on_a_gpu_the_time_beside_the_rung_decides(opened):
    def beside(mine, rungs):
        records = [
            {"median_seconds": median, "ci_low": median * (1 - half), "ci_high": median * (1 + half)}
            for median, half in (mine, rungs)
        ]
        return opened("return besideRung(...arguments, 'tiled', { isSoftware: false })", *records)

    assert beside((1.02, 0.02), (1.0, 0.01)) == {"verdict": "good", "sentence": "as good as tiled, within its interval"}
    assert beside((1.08, 0.01), (1.0, 0.01)) == {"verdict": "good", "sentence": "as good as tiled, 1.08 times its time"}
    assert beside((1.5, 0.01), (1.0, 0.01)) == {"verdict": "right", "sentence": "1.50 times slower than tiled"}
    assert beside((1.5, 0.9), (1.0, 0.9))["verdict"] == "right", "what scatters is within nothing"


@pytest.mark.slow
def test_hints_open_one_after_another_and_the_solution_after_an_attempt(opened):
    opened("localStorage.clear()")
    opened.driver.refresh()
    until(opened.idle, 20)
    opened("Object.assign(BESIDE, { warm_up_seconds: 0.02, budget_seconds: 0.05 }); SEARCH.seconds = 120")
    part = "document.getElementById('exercise-tiles')"
    assert opened(f"return {part}.querySelector('.solve').disabled")
    assert opened(f"return {part}.querySelector('.next').textContent") == "Next: write your part and press Check."
    for count in (1, 2):
        opened(f"{part}.querySelector('.hint').click()")
        assert opened(f"return {part}.querySelectorAll('.hints li').length") == count
    opened("page.exercises.views.find(({ about }) => about.name === 'tiles').area.input.value += '// mine'")
    opened("page.exercises.views.find(({ about }) => about.name === 'tiles').edited()")
    opened(f"{part}.querySelector('.check').click()")
    until(opened.idle, 120)
    opened(f"{part}.querySelector('.solve').click()")
    assert opened(f"return {part}.querySelector('.solution').textContent") == exercise("tiles").solution_in_wgsl
    opened.driver.refresh()
    until(opened.idle, 20)
    assert opened(f"return {part}.querySelectorAll('.hints li').length") == 2
    assert opened(f"return {part}.querySelector('textarea').value").endswith("// mine")
    reached = opened("return document.querySelector('#list').innerText")
    assert "Tiles in shared memory (right, but costs more; checks: 1)" in reached
    assert "A walk of a tree by warps: not here." in reached
    opened("Object.assign(BESIDE, { warm_up_seconds: 0.02, budget_seconds: 0.05 }); SEARCH.seconds = 120")


def test_a_check_can_be_stopped_and_is_no_attempt_then(opened):
    opened("window.begun = page.check(page.exercises.views[1]); page.stop();")
    until(opened.idle, 60)
    assert opened("return page.exercises.views[1].status.textContent") == "stopped"
    assert opened("return page.exercises.progress.of('wide_load').attempts") == 0


def test_without_storage_the_page_works_and_says_so(opened, tmp_path):
    path = tmp_path / "without.html"
    path.write_text(live_page.page(), "utf-8")
    driver = opened.driver
    window = driver.current_window_handle
    driver.switch_to.new_window("tab")
    hidden = "Object.defineProperty(window, 'localStorage', { get() { throw new Error('denied'); } })"
    driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": hidden})
    try:
        driver.get(f"{path.as_uri()}#exercises/threads")
        until(opened.idle, 20)
        assert "keeps nothing" in opened("return document.getElementById('kept').textContent")
        opened("document.querySelector('#exercise-threads .hint').click()")
        assert opened("return document.querySelectorAll('#exercise-threads .hints li').length") == 1
    finally:
        driver.close()
        driver.switch_to.window(window)
