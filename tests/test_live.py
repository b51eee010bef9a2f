"""The page that runs the ladder in a browser: what is written into it, and what it does in Chromium without a GPU."""

import json
import re
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from browsing import chromium, until
from conftest import ROOT, flat
from gravbench.cli.main import app
from gravbench.live import page as live_page
from gravbench.live import rungs as live
from gravbench.live import templates
from gravbench.live.recorder import BufferRecorder
from gravbench.model import derived, files, wgsl
from gravbench.model.method import METHOD
from gravbench.model.record import Record
from gravbench.model.runs import RecordFile
from gravbench.model.statistics import median_interval
from gravbench.model.variant import discover
from gravbench.verifying.comparing import Reference, limits_of
from gravbench.verifying.direct_sums import direct_sums

SOFTWARE = ("--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader", "--enable-unsafe-swiftshader")
N = 1024
FIRST_RESULT_SECONDS = 5.0
RUNGS = [rung.variant.name for rung in live.rungs()]


def rung(name):
    return next(rung for rung in live.rungs() if rung.variant.name == name)


# What is written into the page, without a browser.


def test_every_direct_variant_with_a_kernel_in_wgsl_is_a_rung_from_naive_on():
    stems = {path.stem for path in (ROOT / "variants").rglob("*.wgsl")} & discover().keys()
    assert RUNGS[0] == "naive"
    assert set(RUNGS) == {stem for stem in stems if not discover()[stem].approximates}
    assert len(RUNGS) >= 10


def test_a_plan_has_the_buffers_kernels_and_dispatches_of_an_evaluation():
    naive, symmetric = rung("naive").plans[N], rung("symmetric").plans[N]
    assert [buffer["holds"] for buffer in naive.buffers] == ["x", "y", "z", "mass", *["nothing"] * 3]
    (dispatch,) = naive.dispatches
    assert (dispatch["grid"], dispatch["threads"]) == (4, 256)
    assert dispatch["numbers"] == (("i32", N), ("f32", float(np.float32(0.025**2))))
    assert naive.result == {"buffers": [dispatch["buffers"][place] for place in (4, 5, 6)], "width": 1}
    assert [kernel["entries"] for kernel in symmetric.kernels] == [["symmetric"], ["symmetric_add"]]
    assert [dispatch["kernel"] for dispatch in symmetric.dispatches] == [0, 1]
    assert rung("split_j").plans[N].kernels[0]["entries"] == ["split_j", "split_j_then"]


@pytest.mark.parametrize("name", RUNGS)
def test_blocks_and_buffers_of_a_rung_fit_every_device(name):
    for n, plan in rung(name).plans.items():
        assert plan.threads <= 256
        assert max(4 * buffer["length"] for buffer in plan.buffers) <= (1 << 28 if n > 16384 else 1 << 27)
        assert max(dispatch["grid"] for dispatch in plan.dispatches) > 0


def test_a_buffer_that_the_page_cannot_fill_is_refused():
    recorder = BufferRecorder(live.sphere(N), live.gravity())
    with pytest.raises(ValueError, match="a buffer of 3 numbers that are neither zeros nor numbers of the bodies"):
        recorder.upload([1.0, 2.0, 3.0])


@pytest.mark.parametrize("edited", [False, True])
@pytest.mark.parametrize("name", RUNGS)
def test_a_template_is_a_record_of_the_case(name, edited):
    record = Record.model_validate(templates.template(rung(name), N, edited=edited))
    assert (record.variant, record.toolkit, record.n) == (f"{name}{'_edited' * edited}", "wgpu", N)
    known = discover()[name].code_sha256("wgpu", live.gravity())
    assert record.code_sha256 == (None if edited else known)
    assert record.bodies_sha256 == live.sphere(N).sha256


def test_lines_that_the_parent_lacks_are_named():
    assert live.changed_lines("a\nb\nc\n\nd", "a\nc\nx") == [1, 4]


@pytest.fixture(scope="module")
def text():
    return live_page.page()


def test_the_page_is_one_file_that_loads_nothing(text):
    assert not re.search(r"""(src|href)=(?!"#)|@import|url\(|fetch\(|XMLHttpRequest|importScripts""", text)
    assert "default-src 'none'" in text.replace("&#39;", "'")
    addresses = set(re.findall(r"https?://[^\s\"'<]+", text))
    assert addresses <= {"http://www.w3.org/2000/svg"}, "an address that is no name of a namespace"
    assert len(text) < 4_000_000


def test_every_script_of_the_package_is_on_the_page():
    there = {path.name for path in live_page.HERE.glob("*.js")}
    assert there == {*live_page.IN_WORKER, *live_page.IN_PAGE}
    for path in live_page.HERE.glob("*.js"):
        lines = path.read_text("utf-8").splitlines()
        assert len(lines) <= 300, path.name
        assert max(map(len, lines)) <= 120, path.name


def test_the_command_writes_the_page(tmp_path, text):
    done = CliRunner().invoke(app, ["live", "--out", str(tmp_path / "new" / "ladder.html")])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "new" / "ladder.html").read_text("utf-8") == text
    with pytest.raises(ValueError, match="cannot be written"):
        CliRunner().invoke(app, ["live", "--out", str(tmp_path)], catch_exceptions=False)


# What the page does, in one session of a browser.


class Open:
    """The page in a browser."""

    def __init__(self, driver, address):
        self.driver = driver
        driver.set_script_timeout(60)
        driver.get(address)
        until(self.idle, 20)

    def __call__(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def answer(self, script, *arguments):
        """Return what a promise is resolved with."""
        waiting = "const done = arguments[arguments.length - 1];"
        return self.driver.execute_async_script(
            f"{waiting} ({script}).then(done, (error) => done(String(error)))", *arguments
        )

    def idle(self):
        return self("return !document.getElementById('run').disabled")

    def hurry(self):
        """Measure kernels for as long as it takes to see that they are right."""
        short = "warm_up_seconds: 0.02, budget_seconds: 0.1"
        self(
            f"for (const rung of CONTENT.rungs) for (const records of [rung.records, rung.edited]) "
            f"Object.assign(records[{N}].protocol, {{ {short} }})"
        )

    def records(self):
        return [json.loads(line) for line in self("return page.ladder.all.map(jsonLine)")]

    def run_edited(self, name, *changes):
        """Change a kernel, run it, and undo the changes; return what is said then and its record."""
        script = """
            const [name, changes] = arguments;
            const editor = page.editors.find((editor) => editor.rung.name === name);
            const { input } = editor.areas[0];
            for (const [from, to] of changes) {
                if (!input.value.includes(from)) throw new Error(`no ${from} in ${name}`);
                input.value = input.value.replace(from, () => to);
            }
            input.dispatchEvent(new Event("input"));
            editor.runs.click();"""
        self(script, name, changes)
        until(self.idle, 60)
        found = self("return page.editors.find((editor) => editor.rung.name === arguments[0]).status.textContent", name)
        wrong = self("return [...page.editors.find((editor) => editor.rung.name === arguments[0]).wrong]", name)
        record = next((record for record in self.records() if record["variant"] == f"{name}_edited"), None)
        self("page.editors.find((editor) => editor.rung.name === arguments[0]).undoes.click()", name)
        return found, record, wrong


@pytest.fixture(scope="module")
def opened(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("live") / "ladder.html"
    path.write_text(text, "utf-8")
    with chromium(*SOFTWARE) as driver:
        page = Open(driver, path.as_uri())
        page.hurry()
        yield page
        problems = [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
        assert problems == []


@pytest.fixture(scope="module")
def measured(opened):
    """Two rungs that the page measured, seconds until the first was verified, the rows and the bars."""
    opened.driver.refresh()
    until(opened.idle, 20)
    opened.hurry()
    opened("for (const box of document.querySelectorAll('#rungs input')) box.checked = false")
    for name in ("naive", "float4"):
        opened("document.getElementById(`choose-${arguments[0]}`).checked = true", name)
    seconds = opened.answer("""(async () => {
        const began = performance.now();
        document.getElementById("run").click();
        while (!document.getElementById("rows").textContent.includes("verified")) {
            await new Promise((resolve) => setTimeout(resolve, 20));
        }
        return (performance.now() - began) / 1000;
    })()""")
    until(opened.idle, 60)
    rows = opened("return [...document.querySelectorAll('#rows tr')].map((row) => row.innerText)")
    bars = opened("return [...document.querySelectorAll('#picture g')].map((bar) => bar.textContent)")
    return opened.records(), seconds, rows, bars


def test_the_first_verified_result_is_there_within_seconds(measured):
    records, seconds, *_ = measured
    assert [record["variant"] for record in records] == ["naive", "float4"]
    assert [record["status"] for record in records] == ["ok", "ok"]
    # It was measured in a hurry; what a person waits for is measured for as long as this.
    assert seconds + templates.MEASURE.warm_up_seconds + templates.MEASURE.budget_seconds <= FIRST_RESULT_SECONDS


def test_the_table_and_the_picture_show_what_was_measured(opened, measured):
    *_, rows, bars = measured
    assert [row.split()[0] for row in rows] == ["naive", "float4"]
    assert all("verified" in row for row in rows)
    assert len(bars) == 2
    assert all(re.search(r"e9/s, [\d.]+ ms$", bar) for bar in bars)
    assert "software adapter" in opened("return document.getElementById('device').textContent")


def downloaded(opened, records, folder) -> Path:
    """Write what the two buttons save into a folder."""
    folder.mkdir()
    (folder / "records.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in records), "utf-8")
    environment = opened("return environmentOf(arguments[0])", records[0])
    (folder / "environment.json").write_text(environment, "utf-8")
    return folder


def printed(*words):
    done = CliRunner().invoke(app, list(map(str, words)))
    assert done.exit_code == 0, done.output
    return flat(done.output)


def test_records_of_the_page_are_read_by_report_compare_and_merge(opened, measured, tmp_path):
    records, *_ = measured
    folder = downloaded(opened, records, tmp_path / "browser")
    read = RecordFile(folder).read_lines(lambda sentence: pytest.fail(sentence), refuse=True)
    (first, _) = read.values()
    assert first.device.endswith("software adapter")
    assert first.driver.startswith("Chromium ")
    assert first.adapter["browser"] == first.driver
    assert first.clock_resolution_seconds > 0
    assert first.method == METHOD
    assert "google swiftshader, software adapter" in printed("report", folder)
    assert "float4" in printed("report", folder, "--full")
    printed("report", folder, "--html", tmp_path / "page.html")
    later = [{**record, "started": "2026-01-01T00:00:00.000Z"} for record in records]
    other = downloaded(opened, later, tmp_path / "other")
    assert "2 cases" in printed("compare", folder, other)
    assert "4 records" in printed("merge", folder, other, "--partial", "--out", tmp_path / "merged")


def test_a_kernel_that_was_edited_has_a_record_of_its_own(opened, measured, tmp_path):
    said, record, _ = opened.run_edited("tiled", ("const UNROLL: i32 = 32;", "const UNROLL: i32 = 16;"))
    assert said.startswith("verified: ")
    assert record["variant"] == "tiled_edited"
    assert record["code_sha256"] not in (None, discover()["tiled"].code_sha256("wgpu", live.gravity()))
    records, *_ = measured
    folder = downloaded(opened, [*records, record], tmp_path / "edited")
    text = printed("report", folder, "--full")
    assert "tiled_edited" in text
    assert "belongs to no variant of this checkout" in text
    assert "3 records" in printed("merge", folder, "--partial", "--out", tmp_path / "merged")


LOOP = "for (var j = 0; j < numbers.n; j++) {"
SUM = "        sums = interact(sums, own, Body(x[j], y[j], z[j], mass[j]), numbers.eps2);\n"
ENDLESS = "stopped: a loop ran more than"
WRITE = "        accelerations[i] = row_of(sums);\n"
WRONG = {
    "for without end": ("naive", ENDLESS, (LOOP, "for (var j = 0; j < numbers.n; j += 0) {")),
    "while without end": ("naive", ENDLESS, (LOOP, "var j = 0; while j < numbers.n {")),
    "loop without end": ("naive", ENDLESS, (LOOP, "var j = 0; loop { if j < 0 { break; }")),
    "loop with continuing": (
        "naive",
        ENDLESS,
        (LOOP, "var j = 0; loop { continuing { break if j < 0; } } loop { if j == 0 { break; }"),
    ),
    "loop in a function that is called in a loop": (
        "naive",
        ENDLESS,
        ("    var sums = before;", "    var sums = before; var k = 1; while k > 0 { k += 0; }"),
    ),
    "loop in a loop": ("naive", ENDLESS, (LOOP, "for (var j = 0; j < numbers.n; j += 0) { while j >= 0 { }")),
    "comments around a loop": ("naive", ENDLESS, (LOOP, "for /* ( { /* } */ */ (var j = 0; j < // ) {\n 9; ) {")),
    "loop of some threads": ("naive", ENDLESS, (LOOP, f"while i == numbers.n - 1 {{ }} {LOOP}")),
    "loop with barriers": ("tiled", ENDLESS, ("first < n; first += P)", "first < n; first += 0)")),
    "first barrier left out": ("tiled", "wrong: ", ("        workgroupBarrier();\n        if n", "        if n")),
    "last barrier left out": ("tiled", "wrong: ", ("        workgroupBarrier();\n    }", "    }")),
    "wrong sign": ("naive", "wrong: largest error", ("let dx = j.x - i.x;", "let dx = i.x - j.x;")),
    "out of bounds": ("naive", "wrong: largest error", ("Body(x[j], y[j]", "Body(x[j + 1], y[j]")),
    "no write": ("tiled", "it does not use the arrays", (WRITE, "")),
    "no write, but a use": ("tiled", "NaN, or were not written", (WRITE, "        _ = &accelerations;\n")),
    "half of the rows": ("naive", "NaN, or were not written", ("if i >= numbers.n {", "if i >= numbers.n / 2 {")),
    "the last row": ("naive", "NaN, or were not written", ("if i >= numbers.n {", "if i >= numbers.n - 1 {")),
    "results of an earlier launch": (
        "naive",
        "right at first, but not between two samples",
        ("    var sums = Sums();", "    if ax[i] == ax[i] { return; }\n    var sums = Sums();"),
    ),
    "wrong softening": ("naive", "wrong: ", ("mass[j]), numbers.eps2)", "mass[j]), 1.01 * numbers.eps2)")),
    "softening left out": ("naive", "NaN", ("mass[j]), numbers.eps2)", "mass[j]), 0.0 * numbers.eps2)")),
    "last tile left out": ("tiled", "wrong: ", ("first < n; first += P)", "first < n - P; first += P)")),
    "first body left out": ("naive", "wrong: ", (LOOP, "for (var j = 1; j < numbers.n; j++) {")),
    "equal masses": ("naive", "right for the first bodies", ("z[j], mass[j])", "z[j], mass[0])")),
    "slightly too strong": ("naive", "wrong: ", ("let strength = ", "let strength = 1.00001f * ")),
    "rows exchanged": ("tiled", "wrong: ", (WRITE, "        accelerations[i ^ 1] = row_of(sums);\n")),
    "bodies changed": (
        "float4",
        "wrong: it changed the bodies",
        ("var<storage, read> bodies", "var<storage, read_write> bodies"),
        ("    accelerations[i]", "    if i == 7 { bodies[i].w *= 1.0000001f; }\n    accelerations[i]"),
    ),
    "not a number": ("naive", "NaN", ("ax[i] = sums.ax;", "ax[i] = sqrt(-1.0 - abs(sums.ax));")),
    "syntax": ("naive", "line 31: ", ("var sums = Sums();", "var sums = Sums()")),
    "type": ("naive", "line 30: ", ("var sums = Sums();", "var sums: i32 = Sums();")),
    "entry point missing": ("naive", "the kernel naive cannot be made", ("fn naive(", "fn naiv(")),
    "block too large": ("naive", "cannot be made", ("const THREADS: i32 = 256;", "const THREADS: i32 = 2048;")),
    "tile too large": (
        "tiled",
        "cannot be made",
        ("array<BodyRow, UNROLL>, P / UNROLL>", "array<BodyRow, UNROLL>, P>"),
    ),
    "another binding": ("float4", "it does not use the arrays", ("@binding(1)", "@binding(7)")),
    "unrolled too far": ("tiled", "written out, have more than", ("UNROLL: i32 = 32", "UNROLL: i32 = 1000000000")),
    "unrolled by a variable": (
        "tiled",
        "which is no constant of the kernel",
        ("step < UNROLL; step++", "step < n; step++"),
    ),
    "pairs without a partner": ("symmetric", "wrong: ", ("of_j -= cube", "of_j -= 0.5f * cube")),
}


@pytest.mark.parametrize(
    "what", [pytest.param(what, marks=[pytest.mark.slow] if place > 1 else []) for place, what in enumerate(WRONG)]
)
def test_a_wrong_edit_is_refused_with_a_sentence(opened, what):
    name, sentence, *changes = WRONG[what]
    said, record, wrong = opened.run_edited(name, *changes)
    assert sentence in said
    assert record["status"] in ("invalid", "failed")
    assert record["reason"] == said
    derived.check(Record.of_line(json.dumps(record).encode()), intervals=True)
    if found := re.match(r"line (\d+): ", said):
        assert int(found[1]) - 1 in wrong


def test_the_page_is_alive_after_wrong_edits(opened):
    said, _, _ = opened.run_edited("naive", ("// One thread", "// Still one thread"))
    assert said.startswith("verified: ")


def test_a_device_that_is_lost_is_replaced(opened):
    opened("page.gpu.device.destroy()")
    said, _, _ = opened.run_edited("naive", ("// One thread", "// Only one thread"))
    assert "the device was lost" in said
    said, _, _ = opened.run_edited("naive", ("// One thread", "// Again one thread"))
    assert said.startswith("verified: ")


@pytest.mark.parametrize("settles", [False, True])
@pytest.mark.parametrize(
    "asked",
    [
        "GPUShaderModule.getCompilationInfo",
        "GPUDevice.popErrorScope",
        "GPUDevice.createComputePipelineAsync",
        "GPUQueue.onSubmittedWorkDone",
        "GPUBuffer.mapAsync",
    ],
)
def test_a_device_that_is_lost_while_it_is_asked_is_not_waited_for(opened, asked, settles):
    script = """
        const [type, name, settles] = arguments;
        const { prototype } = window[type];
        const usual = prototype[name];
        prototype[name] = function (...given) {
            prototype[name] = usual;
            const answer = settles ? usual.apply(this, given) : new Promise(() => {});
            page.gpu.device.destroy();
            return answer;
        };"""
    opened(script, *asked.split("."), settles)
    began = time.monotonic()
    sentence, record, _ = opened.run_edited("naive", ("// One thread", "// A lonely thread"))
    assert "the device was lost" in sentence
    assert record["reason"] == sentence
    assert time.monotonic() - began < 10
    assert opened("return page.gpu.lost") is None


def test_a_clock_that_stands_still_is_left_for_that_of_the_host(opened):
    opened("page.clock.read = async () => Array(MARKS).fill(0n)")
    said, record, _ = opened.run_edited("naive", ("// One thread", "// A timed thread"))
    assert said.startswith("verified: ")
    assert record["adapter"]["clock"] == "performance.now"
    assert record["clock_resolution_seconds"] >= 1e-4
    assert record["median_seconds"] * record["batch"] > 0.5 * 200 * record["clock_resolution_seconds"]
    opened.answer("page.replace()")
    assert opened("return page.clock.name") == "timestamp-query"


@pytest.mark.parametrize("seconds", [1e-5, 1e-4, 1e-3, 9e-3, 0.1])
def test_no_batch_is_long_before_a_clock_that_stands_still_is_left(opened, seconds):
    script = """(async () => {
        const clock = new Clock(page.gpu);
        Object.assign(clock, { contradictions: 0, resolution: 1e-7 });
        const batches = [];
        clock.seconds = async (launches) => {
            batches.push(launches.length);
            clock.compare(0, SECONDS * launches.length, 1);
            return clock.isOfDevice ? clock.resolution : SECONDS * launches.length;
        };
        const evaluation = { gpu: { isSoftware: true }, dispatchesOn: () => [null] };
        const settings = { warm_up_seconds: 0, budget_seconds: 0, sample_seconds: 0 };
        await new Sampler(evaluation, clock, settings, () => {}).warmedUp();
        return [batches, clock.isOfDevice, clock.leastSeconds];
    })()"""
    batches, is_of_device, least = opened.answer(script.replace("SECONDS", str(seconds)))
    assert not is_of_device
    assert least <= batches[-1] * seconds
    assert max(batches) * seconds <= max(4 * least, seconds)


def test_samples_are_long_beside_a_clock_that_is_rounded(opened):
    """As browsers round it, unless a flag such as that of these tests forbids it."""
    rounded = """(async () => {
        const clock = new Clock(page.gpu);
        clock.read = async () => (await Clock.prototype.read.call(clock)).map((mark) => (mark / 100000n) * 100000n);
        await clock.prepare();
        return [clock.resolution, clock.leastSeconds];
    })()"""
    assert opened.answer(rounded) == pytest.approx([1e-4, 0.02])


def test_a_device_is_kept_at_work_before_it_is_timed(opened):
    """As hardware is, whose clock falls while it waits."""
    opened("Object.defineProperty(page.gpu, 'isSoftware', { value: false, configurable: true })")
    script = "const timed = page.clock.seconds; page.leads = [];"
    script += (
        "page.clock.seconds = function (all, lead) { page.leads.push(lead.length); return timed.call(this, all, lead) }"
    )
    opened(script)
    said, record, _ = opened.run_edited("naive", ("// One thread", "// A waking thread"))
    assert said.startswith("verified: ")
    assert "software" not in record["device"]
    assert max(opened("return page.leads")) >= record["batch"]
    opened.answer("page.replace()")


@pytest.mark.usefixtures("measured")
def test_two_buttons_save_the_records_and_the_environment(opened, tmp_path):
    opened.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    for button, name in (("records", "records.jsonl"), ("environment", "environment.json")):
        opened("document.getElementById(arguments[0]).click()", button)
        until((tmp_path / name).exists, 10)
    saved = until(lambda: (tmp_path / "records.jsonl").read_text("utf-8").splitlines(), 10)
    assert list(map(json.loads, saved)) == opened.records()
    (start,) = json.loads((tmp_path / "environment.json").read_text("utf-8"))
    assert [device["name"] for device in start["devices"]] == ["google swiftshader, software adapter"]


def test_stop_ends_a_run(opened):
    opened("document.getElementById('run').click()")
    opened("document.getElementById('stop').click()")
    until(opened.idle, 20)
    assert opened("return document.getElementById('progress-words').textContent") == "stopped"


def test_loops_are_written_out_as_toolkits_do(opened):
    for name in RUNGS:
        written = rung(name).plans[N].texts[0]
        made = opened("return unrolled(arguments[0]).map((line) => line.text).join('\\n')", written)
        path = rung(name).variant.path.with_suffix(".wgsl")
        constants = {
            match[1]: int(match[2]) for match in re.finditer(r"^const (\w+): i32 = (\d+);", written, re.MULTILINE)
        }
        whole = wgsl.kernel_text(path, live.gravity(), constants)
        body = whole.partition(live.gravity().wgsl_source())[2]
        assert body.strip() in made
        assert files.text(path).count("// unrolled") == 0 or len(made) > len(written)


@pytest.mark.parametrize("name", RUNGS)
def test_the_guarded_form_of_a_right_kernel_runs_to_its_end(opened, name):
    script = """(async () => {
        const editor = page.editors.find((editor) => editor.rung.name === arguments[0]);
        const judge = new Judge(page.n);
        const { gpu, clock, browser } = page;
        const { rung, n, texts } = editor;
        const measuring = new Measuring({ gpu, clock, browser, judge, rung, n, texts, isEdited: true, tell: () => {} });
        await measuring.tryGuarded(texts.map(unrolled));
        judge.close();
        return "ended";
    })()"""
    assert opened.answer(script.replace("arguments[0]", json.dumps(name))) == "ended"


def test_the_interval_of_a_median_is_that_of_python(opened):
    generator = np.random.default_rng(5)
    walk = np.cumsum(generator.normal(size=40)) * 1e-3 + 1
    for samples in (generator.random(10) + 1, generator.random(5) + 1, generator.random(301) + 1, walk, walk[:12]):
        found = opened("return medianInterval(arguments[0])", samples.tolist())
        expected = median_interval(samples.tolist())
        assert found["median"] == pytest.approx(expected.median, rel=1e-12)
        for name in ("low", "high"):
            value = getattr(expected, name)
            assert (found[name] is None and not np.isfinite(value)) or found[name] == pytest.approx(value, rel=1e-9)


def test_the_judge_finds_the_errors_that_the_judge_of_a_run_finds(opened):
    bodies, gravity = live.sphere(N), live.gravity()
    sums = direct_sums(gravity, bodies, np.arange(N), "float32")
    found = (sums.exact * (1 + 1e-6 * np.sin(np.arange(N))[:, None])).astype(np.float32)
    expected, _ = Reference(sums.exact, sums.magnitudes, gravity.vectors()).errors(found)
    script = f"""(async () => {{
        const judge = new Judge({N});
        const answer = await judge.verdict(0, Float32Array.from({json.dumps(found.ravel().tolist())}));
        judge.close();
        return answer;
    }})()"""
    answer = opened.answer(script)
    for name, value in answer["errors"].items():
        assert value == pytest.approx(getattr(expected, name), rel=1e-9), name
    limits = limits_of(discover()["naive"].accepted("float32", {}), sums, gravity.vectors(), "float32")
    assert (answer["objection"] is None) == (expected.error_magnitude_max <= limits.max)


def test_a_browser_without_webgpu_gets_one_sentence(opened, text, tmp_path):
    path = tmp_path / "without.html"
    path.write_text(text, "utf-8")
    driver = opened.driver
    window = driver.current_window_handle
    driver.switch_to.new_window("tab")
    hidden = "Object.defineProperty(navigator, 'gpu', { value: undefined })"
    driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": hidden})
    try:
        driver.get(path.as_uri())
        said = until(
            lambda: opened("return /browser has|Device/.exec(document.getElementById('device').textContent)?.input")
        )
        assert said.startswith("This browser has no WebGPU here: ")
        assert "Firefox" in said
    finally:
        driver.close()
        driver.switch_to.window(window)
