"""The documentation: code shown is the code, what is made from the code is whole, the site needs no network."""

import json
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import time

import pytest

from conftest import ROOT, command
from test_report import record

HOOKS = ROOT / "docs" / "hooks"
PAGES = sorted((ROOT / "docs").rglob("*.md"))
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text("utf-8")


@pytest.fixture(autouse=True)
def _hooks(monkeypatch):
    monkeypatch.syspath_prepend(str(HOOKS))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_code_that_is_shown_is_that_of_the_file_it_names(path):
    for name, code in re.findall(r"<!-- code: (.*?) -->\n```\w+\n(.*?)\n```", path.read_text("utf-8"), re.DOTALL):
        assert code in (ROOT / name).read_text("utf-8"), f"{path.name} shows other code than {name} has"


def test_the_tutorial_has_ten_steps_with_their_kernels():
    assert re.findall(r"^## (\d+)\. ", TUTORIAL, re.MULTILINE) == [str(step) for step in range(1, 11)]
    assert len(re.findall("<!-- code: ", TUTORIAL)) >= 10


def test_every_field_of_a_record_is_described_and_no_other():
    import record_page

    from gravbench.model.record import Record

    assert set(record_page.FIELDS) == set(Record.model_fields)
    text = record_page.page()
    for name in Record.model_fields:
        assert text.count(f"\n| `{name}` |") == 1, name


def test_every_key_of_a_configuration_is_described():
    import configuration_page

    from gravbench.config.search import Search
    from gravbench.config.settings import Config, Entry, Measure

    text = configuration_page.page()
    for model in (Config, Entry, Measure, Search):
        for name in model.model_fields:
            assert f"\n| `{name}` |" in text, name


def test_every_command_and_option_is_listed():
    import command_pages
    import typer

    from gravbench.cli.options import app

    text = command_pages.page()
    known = command_pages.commands(typer.main.get_command(app))
    assert len(known) >= 13
    assert [known[0][0], known[-1][0]] == ["gravbench run", "gravbench schema"]  # as --help has them
    for name, described in known:
        section = text.partition(f"## {name}\n")[2].partition("\n## ")[0]
        for option in (option for one in described.params for option in one.opts if option.startswith("--")):
            assert option == "--help" or f"`{option}`" in section, (name, option)


def test_every_sign_of_a_report_is_explained():
    from gravbench.report import names, provenance
    from gravbench.report.sections import ladder

    listed = set(re.findall(r"^\| `(.)` \|", (ROOT / "docs" / "how-to" / "report.md").read_text("utf-8"), re.MULTILINE))
    signs = {
        provenance.THROTTLED,
        ladder.UNSETTLED,
        names.DRIFTED,
        provenance.PARTIAL,
        provenance.UNCOUNTED,
    }
    signs |= {provenance.NARROW}
    assert listed == signs | {provenance.CUT_SHORT, provenance.OTHER_METHOD} | {
        one.value for one in provenance.Origin if one
    }


def test_every_variant_is_listed():
    import variant_page

    from gravbench.model.variant import discover

    text = variant_page.page()
    assert [name for name in discover() if f"\n## {name} " not in text] == []


def test_claims_of_all_sources_are_judged():
    import source_claims

    from gravbench.config.published import find, load

    text = source_claims.table()
    for name, source in source_claims.RUNS.items():
        section = text.partition(f"### {name}\n")[2].partition("\n### ")[0]
        rows = re.findall(r"^\| \*\*(?:holds|does not hold|undecided|cannot be tested)\*\*", section, re.MULTILINE)
        assert len(rows) == len(load(find(source)).claims)
    # What cannot be tested has its reason, and not the condition of a claim whose record is missing.
    assert not re.search(r"^\| \*\*cannot be tested\*\*.*\| `[^|]*` \|$", text, re.MULTILINE)


@pytest.mark.parametrize("number", ["9.7 ms ± 7 %", "46 ms ± 1,040 % `*`"])
def test_a_number_says_which_record_it_is_from(number):
    pytest.importorskip("mkdocs")
    import site_pages

    shown = site_pages.REFERENCE.sub(site_pages.from_record, f"It takes {number} <!-- h200/x: time of tiled -->.")
    assert shown == f'It takes <span title="h200/x: time of tiled">{number}</span>.'


@pytest.mark.slow
def test_the_notebook_runs_from_top_to_bottom(tmp_path):
    cells = json.loads((ROOT / "examples" / "first_steps.ipynb").read_text("utf-8"))["cells"]
    code = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    assert all(not cell.get("outputs") for cell in cells), "outputs are not kept: they are of one machine"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_every_kernel_of_the_tutorial_is_simulated(tmp_path):
    pytest.importorskip("numba_cuda")
    names = re.findall(r"^python examples/simulate.py (\w+)", TUTORIAL, re.MULTILINE)
    assert len(names) >= 5
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "simulate.py", *names], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    errors = {line.partition(":")[0]: float(line.split()[-1]) for line in done.stdout.splitlines()}
    assert list(errors) == names
    assert max(errors.values()) < 1e-5, errors


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site."""
    pytest.importorskip("mkdocs")
    folder = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.slow
def test_the_site_loads_nothing_from_a_network(site):
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 25
    loaded = re.compile(
        r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?(?:https?:)?//|<link\b[^>]*\bhref=["']?https?://"""
    )
    for page in pages:
        found = [tag for tag in loaded.findall(page.read_text("utf-8")) if 'rel="canonical"' not in tag]
        # asv's own pages load their scripts from public servers, as the page that leads to them says.
        elsewhere = page.is_relative_to(site / "files") or page.is_relative_to(site / "history")
        assert elsewhere or found == [], page
    for style in site.rglob("*.css"):
        assert not re.search(r"""url\(["']?(?:https?:)?//|@import""", style.read_text("utf-8")), style


@pytest.mark.slow
def test_the_site_is_searched_from_a_disk_without_an_error_or_a_request(site):
    assert (site / "search" / "search_index.js").stat().st_size > 100_000
    chromium, driver = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("no chromium and chromedriver on this machine")
    from selenium import webdriver
    from selenium.webdriver.common.by import By

    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=390,800"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        browser.get((site / "index.html").as_uri())
        browser.find_element(By.CSS_SELECTOR, "label.md-header__button[for=__search]").click()
        browser.find_element(By.CSS_SELECTOR, "input.md-search__input").send_keys("softening")
        end = time.monotonic() + 60
        while not browser.find_elements(By.CSS_SELECTOR, ".md-search-result__item"):
            assert time.monotonic() < end
            time.sleep(0.1)
        for page in ("index", "tutorial", "ladder", "reference/records"):
            browser.get((site / f"{page}.html").as_uri())
            wide, room = browser.execute_script("return [document.documentElement.scrollWidth, window.innerWidth]")
            assert wide <= room, page
        assert browser.get_log("browser") == []
        sent = [json.loads(entry["message"])["message"]["params"] for entry in browser.get_log("performance")]
        assert [one["request"]["url"] for one in sent if one.get("request", {}).get("url", "").startswith("http")] == []
    finally:
        browser.quit()


def test_refreshing_keeps_what_a_document_is_made_of(monkeypatch):
    import refresh

    monkeypatch.setattr(refresh, "printed", lambda command: f"[{command}]")
    told = "a\n<!-- ladder: gravbench x -->\n\nold\n\n<!-- end of ladder -->\n"
    told += "<!-- noise: y -->\n1\n<!-- end of noise -->\n"
    told += "<!-- printed: gravbench z -->\n```text\nold\n```\n<!-- end of printed -->\nb\n"
    text = refresh.BLOCK.sub(refresh.block, told)
    assert text == told.replace("old", "[gravbench x]", 1).replace("old", "[gravbench z]", 1)


STEP = "python docs/hooks/step_table.py "
SEEDS = "python docs/hooks/seeds_table.py "
STORY = "python -m gravbench.report.story "


def test_each_step_on_a_gpu_shows_what_it_took_and_costs():
    for step in range(4, 10):
        (text,) = re.findall(
            rf"^## {step}\. `(.*?)`.*?<!-- step: {re.escape(STEP)}(.*?) -->", TUTORIAL, re.DOTALL | re.MULTILINE
        )
        assert text[0] == text[1].split()[-1]


BLOCKS = [
    (path, block)
    for path in [ROOT / "README.md", *PAGES]
    for block in runpy.run_path(str(HOOKS / "refresh.py"))["BLOCK"].finditer(path.read_text("utf-8"))
]


@pytest.mark.parametrize(("path", "block"), BLOCKS, ids=[block[3][:60] for _, block in BLOCKS])
def test_a_block_of_a_document_is_what_its_command_prints(path, block, monkeypatch, capsys):
    import refresh
    import seeds_table
    import step_table

    from gravbench.explain.assembling import missing
    from gravbench.report import story
    from gravbench.toolkits import nvrtc

    line = block[3]
    if block[2] == "languages" or "validate" in line:
        pytest.skip("it needs all languages, or minutes: test_languages.py and test_validation.py check its numbers")
    if "explain" in line or line.startswith(STEP):
        made_by = re.search(r"NVRTC \d+\.\d+", path.read_text("utf-8"))[0]
        if missing() or nvrtc.version() != made_by:
            pytest.skip(f"{path.name} was made by {made_by}")

    def printed(_):
        if line.startswith(STEP):
            text = step_table.main(shlex.split(line.removeprefix(STEP)))
        elif line.startswith(SEEDS):
            text = seeds_table.main(shlex.split(line.removeprefix(SEEDS)))
        elif line.startswith(STORY):
            assert story.main(shlex.split(line.removeprefix(STORY))) == 0
            text = capsys.readouterr().out
        else:
            code, text = command(*shlex.split(line)[1:])
            assert code == 0, text
        return "\n".join(row.rstrip() for row in text.strip("\n").splitlines())

    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(refresh, "printed", printed)
    assert refresh.block(block) == block[0], "python docs/hooks/refresh.py writes it again"


def test_a_table_over_seeds_has_as_many_as_were_measured_and_refuses_other_cases():
    import seeds_table

    def measured(seed, seconds, **changes):
        return record("tiled", seconds, seed=seed, error_p99=seed / 100, **changes)

    three = [measured(1, 1e-3), measured(2, 3e-3), measured(3, 2e-3)]
    text = seeds_table.table([*three, measured(1, 5e-3, n=7), record("tiled", None, seed=4, status="failed")])
    assert f"| `tiled` | {three[0].n:,} | 3 | 2.00 | 3.00 | 3.0e-02 |" in text
    assert "| `tiled` | 7 | 1 | 5.00 | 5.00 | 1.0e-02 |" in text
    with pytest.raises(SystemExit, match="was measured in 2 ways; 1 is needed"):
        seeds_table.table([*three, measured(1, 1e-3, code_sha256="1" * 64)])


def test_there_are_blocks_of_every_kind():
    assert {block[2] for _, block in BLOCKS} == {"ladder", "printed", "languages", "step", "seeds"}
