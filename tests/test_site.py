"""A site from bundles: what it shows is what the bundles have, and what contradicts itself is not on it."""

import json
import re
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from browsing import chromium
from conftest import ROOT
from gravbench.cli.main import app
from gravbench.errors import InputError
from gravbench.model.runs import ENVIRONMENT, RECORDS, RecordFile
from gravbench.model.variant import discover
from gravbench.report.provenance import PARTIAL, PARTIAL_NOTE
from gravbench.sharing import bundle, code_checks
from gravbench.sharing.checks import Answer
from gravbench.sharing.outcome import Outcome
from gravbench.site import gathered, pages, tables
from gravbench.site.gathered import Checked, Gathered, files_of
from gravbench.verdicts.ranking import is_ranked

REPORTS = ROOT / "reports"
VARIANTS = discover()


def packed(records, name="made"):
    """Return a bundle of records as it was read and found consistent."""
    numbered = dict(enumerate(records, start=1))
    read = bundle.Bundle(f"{name}{bundle.ENDING}", {}, numbered, [], [], None)
    return Checked(read, Answer(name, name, {gathered.MACHINE_CODE: Outcome(recompiled=frozenset({1}))}))


def read(run):
    return RecordFile(REPORTS / run).read()


LADDER = [one for one in read("h100/ladder") if one.n in (16384, 65536)]
ARENA = read("h200/arena")


@pytest.fixture(scope="module")
def both():
    return Gathered([packed(LADDER, "ladder"), packed(ARENA, "arena")])


@pytest.fixture(scope="module")
def written(both, tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    return folder, pages.write(replace(both, refused=[("bad.zip", ["a <b>reason</b>"])]), VARIANTS, folder)


def texts_of(section):
    return [
        {column.name: column.cell(row) for column in part.table.useful}
        for part in section.parts
        for row in part.table.rows
    ]


def test_every_link_leads_to_a_page_and_every_card_and_variant_has_one(written):
    folder, files = written
    assert files[0] == folder / "index.html"
    for file in files:
        text = file.read_text("utf-8")
        for target in re.findall(r'href="([^"]*)"', text):
            assert (file.parent / target).resolve() in files, target
        assert "://" not in re.sub(r"<main>.*</main>", "", text, flags=re.DOTALL)
    measured = {one.variant for one in [*LADDER, *ARENA] if is_ranked(one)}
    assert len(list((folder / "variants").iterdir())) == len(measured)
    cards = {one.device for one in [*LADDER, *ARENA] if is_ranked(one)}
    assert len(list((folder / "cards").iterdir())) == len(cards)


def test_refused_bundles_are_listed_with_the_reason_as_text(written):
    assert "a &lt;b&gt;reason&lt;/b&gt;" in written[1][0].read_text("utf-8")


def test_rows_are_the_fastest_configurations_with_what_the_records_give(both):
    rows = texts_of(tables.Tables(both, VARIANTS).side_by_side(lambda row: row.record.n == 65536))
    tiled = [row for row in rows if (row["variant"], row["toolkit"], row["bundle"]) == ("tiled", "cupy", "ladder")]
    alike = [one for one in LADDER if (one.variant, one.toolkit, one.n) == ("tiled", "cupy", 65536) and is_ranked(one)]
    best = min(alike, key=lambda one: one.median_seconds)
    (row,) = tiled
    assert row["configuration"] == best.configuration
    assert float(row["ms"]) == pytest.approx(1e3 * best.median_seconds, rel=1e-2)
    clock = sorted(best.sm_clock_mhz)[len(best.sm_clock_mhz) // 2] * 1e6
    assert float(row["interactions per clock"]) == pytest.approx(best.interactions_per_second / clock / 132, rel=1e-2)
    assert row["1e9 interactions/J"].startswith(tables.ABOUT) == (best.joules is None)


def test_a_rate_that_counts_fewer_interactions_has_a_sign(both):
    section = tables.Tables(both, VARIANTS).side_by_side()
    signs = {row["variant"]: row[""] for row in texts_of(section)}
    assert (signs["tiled"], signs["resident_tree"]) == ("", PARTIAL)
    assert PARTIAL_NOTE in section.parts[0].notes


def test_the_steps_are_those_of_the_toolkit_in_which_the_variant_is_fastest(both):
    (first, *_) = tables.Tables(both, VARIANTS).steps().parts
    assert first.title.endswith("n = 65,536")
    rows = {row["variant"]: row for row in texts_of(replace(tables.Tables(both, VARIANTS).steps(), parts=[first]))}

    def fastest(variant, toolkit):
        return min(
            one.median_seconds
            for one in LADDER
            if (one.variant, one.toolkit, one.n) == (variant, toolkit, 65536) and is_ranked(one)
        )

    toolkit = min(("cupy", "pycuda", "numba"), key=lambda name: fastest("tiled", name))
    assert float(rows["tiled"]["NVIDIA H100 80GB HBM3 (compute capability 9.0)"]) == pytest.approx(
        fastest("float4", toolkit) / fastest("tiled", toolkit), rel=5e-3
    )
    assert rows["tiled"]["over"] == "float4"


def test_the_crossover_is_where_the_records_have_it(both):
    section = tables.Tables(both, VARIANTS).crossover()
    part = next(part for part in section.parts if part.title.startswith("NVIDIA H100 80GB HBM3"))
    for line in part.table.rows:
        there = [
            one
            for one in [*LADDER, *ARENA]
            if is_ranked(one) and one.n == line.n and one.device == "NVIDIA H100 80GB HBM3" and one.error_p99
            and one.error_p99 <= line.error and one.timed == "force" and one.dtype == "float32"
        ]  # fmt: skip
        trees = [one.median_seconds for one in there if "theta" in one.axes and "order" not in one.axes]
        if tables.TREE in line.best:
            assert line.best[tables.TREE].median_seconds == min(trees)
        assert line.best[line.fastest].median_seconds == min(one.median_seconds for one in line.best.values())
    assert any(line.fastest == tables.TREE for line in part.table.rows)
    assert any(line.fastest == tables.DIRECT for line in part.table.rows)


def scaled(record, factor):
    """Return the same case, measured again with other times."""
    changes = {"samples_seconds": [factor * one for one in record.samples_seconds]}
    changes |= {name: factor * getattr(record, name) for name in ("median_seconds", "ci_low", "ci_high")}
    return record.model_copy(update=changes)


@pytest.mark.parametrize(
    ("factor", "level"),
    [
        (1.00001, "recompiled, reproduced by 1"),
        (1.5, "recompiled, not reproduced: 1.50 of the time in second"),
        (1, "recompiled"),
    ],
)
def test_a_case_is_reproduced_by_another_bundle_whose_interval_overlaps(factor, level):
    alike = [
        one for one in LADDER if (one.variant, one.toolkit, one.n) == ("naive", "cupy", 65536) and one.anchor == 0
    ][:1]
    first, second = packed(alike, "first"), packed([scaled(one, factor) for one in alike], "second")
    rows = tables.Tables(Gathered([first, second]), VARIANTS).rows
    assert rows[0].level == level
    other = [one.model_copy(update={"device": "NVIDIA H100"}) for one in second.records]
    assert tables.Tables(Gathered([first, packed(other, "second")]), VARIANTS).rows[0].level == "recompiled"


def test_words_of_strangers_are_text(tmp_path):
    name = '<script>alert("1")</script>'
    strange = [one.model_copy(update={"device": name}) for one in LADDER if one.variant in ("naive", "tiled")]
    for file in pages.write(Gathered([packed(strange, name)]), VARIANTS, tmp_path):
        text = file.read_text("utf-8")
        assert text.count("<script>") == 1
        assert 'alert("1")' not in text


def test_pages_of_an_earlier_site_are_removed_and_nothing_else(tmp_path):
    every = Gathered([packed(LADDER)])
    earlier = pages.write(every, VARIANTS, tmp_path)
    (tmp_path / "variants" / "mine.html").write_text("my own page")
    later = pages.write(Gathered([packed([one for one in LADDER if one.variant == "naive"])]), VARIANTS, tmp_path)
    assert set(later) < set(earlier)
    assert set(tmp_path.rglob("*.html")) == {*later, tmp_path / "variants" / "mine.html"}


def test_records_are_recompiled_whose_kernels_compile_here_to_what_the_bundle_states(tmp_path):
    pytest.importorskip("cuda.bindings.nvrtc")
    run, file = tmp_path / "run", tmp_path / f"ladder{bundle.ENDING}"
    for one in read("h100/ladder"):
        if (one.variant, one.n) == ("naive", 262144):
            RecordFile(run).append(one)
    (run / ENVIRONMENT).write_text((REPORTS / "h100" / "ladder" / ENVIRONMENT).read_text("utf-8"), "utf-8")
    done = CliRunner().invoke(app, ["share", str(run), "--out", str(file)])
    assert done.exit_code == 0, done.output
    (checked,) = gathered.gather([file, file]).bundles
    levels = {(one.toolkit, one.status): checked.level(one) for one in checked.records}
    assert levels == {(toolkit, "ok"): "recompiled" for toolkit in ("cupy", "pycuda")} | {("numba", "ok"): "recomputed"}


def test_a_record_is_not_recompiled_whose_kernels_were_not_chosen(tmp_path, monkeypatch):
    pytest.importorskip("cuda.bindings.nvrtc")
    run = tmp_path / "run"
    for one in read("h100/fastest-large"):
        if (one.variant, one.toolkit) in (("naive", "cupy"), ("chamomile", "cupy")):
            RecordFile(run).append(one)
    (run / ENVIRONMENT).write_text((REPORTS / "h100" / "fastest-large" / ENVIRONMENT).read_text("utf-8"), "utf-8")
    checked = _with_one_kernel(run, tmp_path / f"some{bundle.ENDING}", monkeypatch)
    assert len(checked.bundle.facts.kernels) == 2
    assert sorted(map(checked.level, checked.records)) == ["recompiled", "recomputed"]


def _with_one_kernel(run, file, monkeypatch):
    assert CliRunner().invoke(app, ["share", str(run), "--out", str(file)]).exit_code == 0
    monkeypatch.setattr(code_checks, "MOST_KERNELS", 1)
    read_back = bundle.read(file)
    return Checked(read_back, Answer(file.name, "root", {gathered.MACHINE_CODE: code_checks.machine_code(read_back)}))


def test_only_the_lines_whose_kernels_were_compiled_again_are_recompiled():
    checked = packed(LADDER[:3])
    assert [checked.level(one) for one in checked.records] == ["recompiled", "recomputed", "recomputed"]


def test_names_of_strangers_make_files_of_letters_and_stay_apart():
    files = pages._files("cards", ["../../etc", "A B", "A-B", "<script>", "...", "tiled", "split_j"])
    assert len(set(files.values())) == len(files)
    assert all(re.fullmatch(r"cards/[A-Za-z0-9-]+\.html", file) for file in files.values())
    assert files["tiled"] == "cards/tiled.html"


def test_a_folder_stands_for_its_bundles(tmp_path):
    for name in ("b", "a"):
        (tmp_path / f"{name}{bundle.ENDING}").touch()
    (tmp_path / "other.zip").touch()
    assert [file.name for file in files_of([tmp_path, tmp_path / "other.zip"])] == [
        f"a{bundle.ENDING}", f"b{bundle.ENDING}", "other.zip",
    ]  # fmt: skip
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="empty: no bundle in this folder; accepted: files whose names end in"):
        files_of([tmp_path / "empty"])


def test_without_a_consistent_bundle_there_is_no_site(tmp_path):
    (tmp_path / "no.zip").write_bytes(b"no archive")
    with pytest.raises(InputError, match=r"no consistent bundle for the site: no\.zip: is no readable ZIP archive"):
        gathered.gather([tmp_path / "no.zip"])


@pytest.mark.slow
def test_the_site_of_bundles_in_a_browser(tmp_path):
    """The bundles of runs on two cards and on a processor, and one that was tampered with."""
    for run in (
        REPORTS / "h100" / "fastest-float64",
        REPORTS / "h200" / "fastest_cpu",
        REPORTS / "h200" / "gpus",
    ):
        done = CliRunner().invoke(app, ["share", str(run), "--out", str(tmp_path / f"{run.name}{bundle.ENDING}")])
        assert done.exit_code == 0, done.output
    files = bundle.unpacked(tmp_path / f"fastest-float64{bundle.ENDING}")
    lines = files[RECORDS].splitlines()
    changed = json.loads(lines[0])
    changed["median_seconds"] /= 2
    files[RECORDS] = b"\n".join([json.dumps(changed).encode(), *lines[1:]]) + b"\n"
    bundle.write(tmp_path / f"bad{bundle.ENDING}", files)
    done = CliRunner().invoke(app, ["site", str(tmp_path), "--out", str(tmp_path / "site")])
    assert done.exit_code == 0, done.output
    assert "refused bad" in done.output
    assert "3 bundles" in done.output
    with chromium() as driver:
        for width in (390, 1280):
            metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
            driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
            for page in sorted((tmp_path / "site").rglob("*.html")):
                driver.get(page.as_uri())
                assert driver.execute_script("return document.documentElement.scrollWidth") <= width, page
        driver.get((tmp_path / "site" / "cards.html").as_uri())
        text = driver.find_element("css selector", "main").text
        assert "NVIDIA H100" in text
        assert "NVIDIA H200" in text
        assert _filtered(driver, "barnes_hut")
        levels = """
            const place = [...document.querySelectorAll("th")].findIndex(head => head.textContent === "checked");
            return [...document.querySelectorAll("tr[data-bundle=gpus]")].map(
                row => row.children[place].textContent)
        """
        assert "recompiled" in driver.execute_script(levels)
        driver.get((tmp_path / "site" / "index.html").as_uri())
        assert "bad" in driver.find_element("css selector", "main").text
        assert not driver.get_log("browser")


def _filtered(driver, word):
    """Search for a word, choose an n, and return the rows that are left."""
    rows = (
        "return [...document.querySelectorAll('.filtered tbody tr')].filter(row => !row.hidden)"
        ".map(row => row.textContent)"
    )
    every = driver.execute_script(rows)
    driver.find_element("name", "words").send_keys(word)
    left = driver.execute_script(rows)
    assert left == [row for row in every if word in row]
    assert 0 < len(left) < len(every)
    driver.find_element("css selector", "select[name=n] option:last-child").click()
    at_n = driver.execute_script(rows)
    assert 0 < len(at_n) < len(left)
    said = driver.find_element("css selector", "form.tools output").text
    assert said == f"{len(at_n)} of {len(every)} rows"
    return at_n
