"""The command line as a reader meets it first: one screen, in every width, in a pipe, and for programs."""

import io
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator
from rich.console import Console
from typer.testing import CliRunner

from conftest import ROOT, consistent, flat
from gravbench.asv import export as history
from gravbench.cli import completion, folders, mistakes, options
from gravbench.cli.main import app
from gravbench.config.load import packaged
from gravbench.config.schema import config_schema
from gravbench.errors import InputError
from gravbench.explain import assembling
from gravbench.measuring import doctor as examining
from gravbench.model import run_names
from gravbench.model.device import Device, Finding
from gravbench.model.interaction_files import find as find_interaction
from gravbench.model.runs import RecordFile
from gravbench.model.variant import discover, parents
from gravbench.report.provenance import NOWHERE
from gravbench.report.story_path import story
from gravbench.report.terminal import inventory
from gravbench.report.terminal.comparison import VERDICT_STYLES, closing_sentence, render_comparison
from gravbench.report.terminal.differing import differences
from gravbench.verdicts.compare import Run, Verdict, compare_runs
from gravbench.verdicts.winners import winners
from gravbench.version import VERSION
from test_report import many, record

REPORTS = ROOT / "reports"
RUNS = sorted(str(path.parent.relative_to(REPORTS)) for path in REPORTS.glob("h[12]00/*/records.jsonl"))
RICH = re.compile(r"\x1b")


@pytest.fixture(autouse=True)
def _own_state(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)


def gravbench(*words, columns=80, code=0, **environment):
    done = CliRunner().invoke(app, list(words), env={"COLUMNS": str(columns), "LINES": "24", **environment})
    if code == 0:
        assert done.exit_code == 0, (done.output, done.exception)
    return done


def refused(*words):
    done = gravbench(*words, code=None)
    assert isinstance(done.exception, InputError), done.output
    return str(done.exception)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Be in a folder with two runs: reports/mine, and an older one."""
    monkeypatch.chdir(tmp_path)
    for name, day, seconds in (("older", 1, 1.0), ("mine", 2, 1e-3)):
        store = RecordFile(tmp_path / "reports" / name)
        for variant, times in (("naive", 4), ("tiled", 1)):
            for n in (1024, 2048):
                samples = [seconds * times * n / 1024 * (1 + (i - 9.5) / 1e5) for i in range(20)]
                moment = f"2026-01-0{day}T00:00:00+00:00"
                own = record(variant, samples[0], n=n, samples_seconds=samples, started=moment)
                store.append(consistent(own))
        store.append(record("numpy_direct", 1.0, n=1024, toolkit="cpu", started=f"2026-01-0{day}T00:00:00+00:00"))
    return "mine"


# Reports


def test_a_report_without_a_name_is_of_the_newest_run_that_measured_anything(run, tmp_path):
    RecordFile(tmp_path / "reports" / "empty").append(
        record("naive", None, status="failed", reason="made up", started="2026-01-03T00:00:00+00:00")
    )
    os.utime(tmp_path / "reports" / "older" / "records.jsonl")  # when a file was written says nothing
    assert f"reports/{run} ─" in gravbench("report").stdout
    assert "reports/older" not in gravbench("report").stdout


def test_a_folder_of_runs_is_refused_with_the_runs_in_it(monkeypatch):
    monkeypatch.chdir(ROOT)
    said = refused("report", "h200/selftest/")
    assert said.startswith("h200/selftest/: a folder of 10 runs; accepted: one of h200/selftest/round-1, ")


@pytest.mark.parametrize("name", ["h200/ceilings", "reports/h200/ceilings", "reports/h200/ceilings/ceilings.json"])
def test_a_folder_of_ceilings_is_said_to_be_one_and_how_to_print_it(monkeypatch, name):
    monkeypatch.chdir(ROOT)
    said = refused("report", name)
    assert said.startswith(f"{name}: not a run, but the measured peak rates of a device; ")
    (command,) = re.findall("`gravbench (.*)`", said)
    assert "launch_small" in gravbench(*command.split()).stdout


def test_a_run_with_ceilings_beside_its_records_is_a_run(run, tmp_path):
    (tmp_path / "reports" / run / "ceilings.json").write_text("{}")
    assert gravbench("report", run).stdout.startswith(f"{run} ─")


def test_a_report_without_a_name_and_without_a_run_says_how_to_make_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "`gravbench run quick` makes one" in refused("report")


@pytest.mark.parametrize("columns", [80, 120, 200])
@pytest.mark.parametrize("name", RUNS)
def test_the_summary_of_every_committed_run_has_every_n_and_fits_the_width(monkeypatch, name, columns):
    monkeypatch.chdir(ROOT)
    printed = gravbench("report", name, columns=columns).stdout
    lines = printed.splitlines()
    (field, *_) = winners([RecordFile(REPORTS / name).read()], parents(discover()))
    if not field.cpu:
        rule = next(i for i, line in enumerate(lines) if set(line) == {"─"})
        rows = [line.split()[0] for line in lines[rule + 1 :][: len(field.asked())]]
        assert rows == [f"{win.n:,}" for win in field.asked()]
    of_other_code = 2 * any(line.startswith("§ ") for line in lines)
    assert len(lines) <= 25 + of_other_code + len(field.asked())
    assert "not shown" not in printed
    assert max(map(len, lines[:-1])) <= columns
    assert lines[-1] == f"Full report: gravbench report {name} --full"
    assert not RICH.search(printed)


def test_the_summary_names_the_fastest_its_lead_and_ends_with_a_sentence(run):
    said = " ".join(gravbench("report", run, columns=120).stdout.split())
    assert "1,024 tiled § cupy 1.00" in said
    assert "4.00 ± 0.01* naive" in said
    assert (
        "At n = 2,048 with 99 % of bodies within 1e-3, tiled (cupy) is 4.00 ± 0.01* times as fast as naive (cupy)."
        in said
    )
    assert "* ± may be too small: the run repeated no anchor of this kind of work" in said
    assert "The ladder" not in said


def test_the_summary_of_a_cpu_teaches_what_each_step_brings_and_offers_a_run_of_a_gpu(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = RecordFile(tmp_path / "reports" / "mine")
    times = {"numpy_direct": 6, "numba_direct": 8, "numba_parallel": 2, "barnes_hut_cpu": 1, "numba_symmetric": 3}
    for variant, seconds in times.items():
        samples = [seconds * (1 + i / 1e5) for i in range(20)]
        error = 5e-3 if variant == "barnes_hut_cpu" else 1e-6
        computed = {"body_cell": 10.0} if variant == "barnes_hut_cpu" else {}
        own = record(
            variant, samples[0], n=4096, toolkit="cpu", timed="force", samples_seconds=samples, error_max=error,
            processes=[1 + i % 4 for i in range(20)], error_p99=error, computed=computed, device_uuid=None, driver=None,
        )  # fmt: skip
        store.append(consistent(own))
    with monkeypatch.context() as plain:
        plain.setattr(run_names, "runs_of_the_clone", lambda: None)  # as in a plain installation
        printed = gravbench("report", "mine").stdout
    assert len(printed.splitlines()) <= 25
    said = flat(printed)
    assert "What each step brings at n = 4,096" in said
    assert "numba_parallel: 4.00 ± 0.01 × numba_direct. The double loop over all pairs on all cores, with SIMD" in said
    assert re.search(r"barnes_hut_cpu\S*: 2\.00 ± 0\.01 × numba_parallel, error 5\.0e-03\. Approximate", said)
    assert "± n/a" not in said
    assert "gravbench report h100/gems3" not in said
    assert "Next, the steps of GPU Gems 3 on an H100: gravbench report h100/gems3" in gravbench("report", "mine").stdout
    folder = tmp_path / "reports" / "h100" / "gems3"
    folder.mkdir(parents=True)
    (folder / "records.jsonl").write_bytes((REPORTS / "h100" / "gems3" / "records.jsonl").read_bytes())
    assert gravbench("report", "mine").stdout.splitlines()[-2:] == [
        "Next, the steps of GPU Gems 3 on an H100: gravbench report h100/gems3",
        "Full report: gravbench report mine --full",
    ]
    assert "Next, " not in gravbench("report", "h100/gems3").stdout


def test_the_summary_of_a_cpu_says_what_a_ratio_without_an_interval_lacks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for variant, seconds in {"numba_direct": 8.0, "numba_parallel": 2.0}.items():
        few = record(variant, seconds, n=4096, toolkit="cpu", samples_seconds=[seconds] * 2, ci_low=None, ci_high=None)
        RecordFile(tmp_path / "reports" / "mine").append(few)
    said = gravbench("report", "mine").stdout
    assert "numba_parallel: 4.00 ± n/a × numba_direct" in said
    assert "± n/a: there are too few samples for an interval" in said


def test_the_summary_ends_with_an_n_at_which_something_is_beaten_and_says_whose_error_it_is(monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT)
    said = " ".join(gravbench("report", "h100/gems3").stdout.split())
    assert "Fastest at each n, 99 % of bodies within 1e-3: NVIDIA H100 80GB HBM3" in said
    assert "At n = 16,384 with 99 % of bodies within 1e-3, split (pycuda) is " in said
    for one in RecordFile(Path("reports/h100/gems3")).read():  # as older records are
        RecordFile(tmp_path / "older").append(one.model_copy(update={"error_p99": None}))
    older = gravbench("report", str(tmp_path / "older"), columns=120).stdout
    assert " records without the error of 99 % of bodies: a larger quantile counts" in older


def test_the_summary_does_not_depend_on_the_height_of_a_terminal(monkeypatch):
    monkeypatch.chdir(ROOT)
    assert len({gravbench("report", "h100/gems3", LINES=str(lines)).stdout for lines in (5, 24, 200)}) == 1


@pytest.mark.parametrize("limits", [[], ["--error", "1e-6"], ["--error", "1e-6", "--quantile", "1"]], ids=str)
def test_report_and_best_name_the_same_fastest_for_the_same_question(monkeypatch, limits):
    monkeypatch.chdir(ROOT)
    reported = json.loads(gravbench("report", "h100/ladder", "--json", *limits).stdout)["winners"]
    chosen = json.loads(gravbench("best", "h100/ladder", "--json", *limits).stdout)
    error, quantile = chosen["error"], chosen["quantile"]
    assert (error, quantile) == (float(limits[1]) if limits else 1e-3, 1 if limits[2:] else 0.99)
    for field, selection in zip(reported, chosen["selections"], strict=True):
        wins = {win["n"]: win for win in field["wins"] if (win["error"], win["quantile"]) == (error, quantile)}
        assert wins.keys() == {choice["n"] for choice in selection["choices"]}
        for choice in selection["choices"]:
            won, fastest = wins[choice["n"]]["fastest"], choice["fastest"]
            assert {name: won[name] for name in ("variant", "toolkit", "axes")} == {
                name: fastest[name] for name in ("variant", "toolkit", "axes")
            }


def test_an_error_that_nothing_would_use_is_refused(run):
    for words in (["--full"], ["--n", "1024"], ["--markdown"], ["--figures", "folder"]):
        assert "--error and --quantile choose the fastest of the summary" in refused(
            "report", run, "--error", "1e-6", *words
        )
    assert "--quantile 0.95: records do not have it" in refused("report", run, "--quantile", "0.95")
    assert (
        "Nothing has all bodies within 1e-9."
        in gravbench("report", run, "--error", "1e-9", "--quantile", "1", columns=120).stdout
    )


def test_every_view_of_a_run_states_the_same_speed_up_over_the_first_step(monkeypatch):
    monkeypatch.chdir(ROOT)
    made = json.loads(gravbench("report", "h100/ladder", "--json").stdout)
    (win,) = [win for win in made["winners"][0]["wins"] if (win["n"], win["error"]) == (65536, 1e-3)]
    name = win["fastest"]["variant"], win["fastest"]["toolkit"]
    (rung,) = [
        rung for one in made["ladders"] if one["n"] == 65536 for rung in one["rungs"]
        if (rung["variant"], rung["toolkit"]) == name
    ]  # fmt: skip
    assert rung["over_first"] == pytest.approx(win["first"]["ratio"])
    told = story(RecordFile(REPORTS / "h100" / "ladder").read(), parents(discover()), NOWHERE)
    assert told.first_label == "speed-up over naive"
    assert told.title.startswith("NVIDIA H100 80GB HBM3")
    assert told.drawn[-1].record.variant == name[0]
    for step in told.drawn:
        assert step.over_first == pytest.approx(told.path[0].milliseconds / step.milliseconds)
    assert told.drawn[-1].over_first == pytest.approx(win["first"]["ratio"]) or told.n != 65536
    summary, full = gravbench("report", "h100/ladder", columns=200).stdout, gravbench("report", "h100/ladder", "--full")
    assert re.search(rf"65,536 +{name[0]} .* {win['first']['ratio']:.2f} ± ", summary)
    assert "speed-up" in summary
    assert "over naive" in full.stdout


def test_full_prints_the_tables_and_a_selection_those_of_what_is_selected(run):
    whole = gravbench("report", run, "--full").stdout
    assert "The ladder ─" in whole
    assert whole.count("n = 1,024") == whole.count("n = 2,048") + 1  # of the processor, too
    one = gravbench("report", run, "--n", "2k", code=None)
    assert "--n 2000" in str(one.exception)
    assert "accepted: 1024, 2048" in str(one.exception)
    chosen = gravbench("report", run, "--n", "2^11", "--variant", "tiled", "--device", "gpu", columns=120).stdout
    assert "n = 2,048" in chosen
    assert "n = 1,024" not in chosen
    assert "numpy_direct" not in chosen
    (row,) = [line for line in chosen.splitlines() if line.startswith("tiled ")]
    assert re.search(r"\s4\.00\s", row)  # over its root, which has no row
    assert not [line for line in chosen.splitlines() if line.startswith("naive ")]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--variant", "tild"], "--variant tild: no record matches; did you mean tiled?"),
        (["--device", "H100"], "--device H100: no record matches; accepted: cpu, gpu, or a part of "),
        (["--n", "x"], "--n x: x is not a number of bodies"),
        (["--n", "1.5"], "is not a number of bodies"),
        (["--n", "1,,2"], "--n 1,,2: "),
        (["--json", "--markdown"], "accepted: --markdown alone"),
        (["--json", "--html", "a.html"], "accepted: --markdown alone"),
    ],
)
def test_what_cannot_be_selected_is_one_sentence(run, words, said):
    assert said in refused("report", run, *words)


def test_the_report_for_programs_says_what_the_report_says(run):
    made = json.loads(gravbench("report", run, "--json").stdout)
    assert made["cases"] == {"ok": 5, "outraced": 0}
    wins = made["winners"][0]["wins"]
    assert {(win["n"], win["fastest"]["variant"], win["next"]["variant"]) for win in wins} == {
        (1024, "tiled", "naive"),
        (2048, "tiled", "naive"),
    }
    assert wins[0]["next"]["low"] < 4 < wins[0]["next"]["high"] + 1e-3
    rungs = {(one["n"], rung["variant"]): rung for one in made["ladders"] for rung in one["rungs"]}
    assert rungs[2048, "tiled"]["over_first"] == pytest.approx(4)
    assert rungs[2048, "tiled"]["seconds"] == pytest.approx(2e-3)
    only = json.loads(gravbench("report", run, "--json", "--variant", "tiled", "--n", "1024").stdout)
    assert [rung["variant"] for one in only["ladders"] for rung in one["rungs"]] == ["tiled"]


@pytest.mark.parametrize("name", RUNS)
def test_every_committed_run_has_a_report_for_programs(monkeypatch, name):
    monkeypatch.chdir(ROOT)
    made = json.loads(gravbench("report", name, "--json").stdout)
    assert made["ladders"] or made["not_ok"]
    assert {one["verdict"] for one in made["claims"]} <= {"holds", "does not hold", "undecided", "cannot be tested"}


# For programs


def test_the_list_for_programs_has_every_variant_or_the_one_that_is_named():
    made = json.loads(gravbench("list", "--json").stdout)
    assert [one["name"] for one in made["variants"]] == list(discover())
    tiled = json.loads(gravbench("list", "tiled", "--json").stdout)
    (one,) = tiled["variants"]
    assert (one["parent"], one["axes"]["p"]["default"], tiled["interactions"]) == ("float4", 256, [])
    assert [Path(file).name for file in one["files"]] == ["tiled.cu", "tiled.wgsl", "tiled.py"]
    (own,) = json.loads(gravbench("list", "hermite", "--json").stdout)["interactions"]
    assert own["flops"] == 43
    assert "did you mean tiled?" in refused("list", "tild")


def test_the_doctor_for_programs_has_devices_toolkits_and_software(monkeypatch):
    found = [Device("cpu", "Imaginary CPU")], "no NVIDIA GPU: made up", [Finding("cpu", "1", usable=True, reason="ran")]
    monkeypatch.setattr(examining, "examine_all", lambda begin: begin("cpu") or found)
    made = json.loads(gravbench("doctor", "--json").stdout)
    assert made["devices"] == [{"selector": "cpu", "name": "Imaginary CPU", "uuid": None, "driver": None}]
    assert made["toolkits"] == [{"toolkit": "cpu", "version": "1", "usable": True, "reason": "ran"}]
    assert made["software"]["harness_version"] == VERSION


def test_the_version_is_told():
    assert gravbench("--version").stdout.startswith(f"gravbench {VERSION} (")


def test_the_schema_takes_every_packaged_configuration_and_refuses_mistakes():
    made = json.loads(gravbench("schema").stdout)
    assert made == config_schema()
    Draft202012Validator.check_schema(made)
    check = Draft202012Validator(made)
    assert len(packaged()) > 10
    for path in packaged().values():
        assert list(check.iter_errors(yaml.safe_load(path.read_text("utf-8")))) == [], path
    good = {
        "variants": ["all", {"variant": "tiled", "p": [64, 128]}],
        "n": "10k",
        "search": "race",
        "measure": {"half_width": 0.01},
    }
    assert list(check.iter_errors(good)) == []
    for wrong in (
        {"variants": None}, {"m": 3}, {"n": "10x"}, {"n": 0}, {"n": []}, {"dtype": "float16"}, {"search": "rase"},
        {"measure": {"half_width": 2}}, {"measure": {"budget": 1}}, {"eps": "a"}, {"variants": [{"p": 64}]},
    ):  # fmt: skip
        assert list(check.iter_errors(good | wrong)), wrong


# Completion


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["source", "til"], {"tiled", "tiled_gpus"}),
        (["list", "numba_s"], {"numba_symmetric"}),
        (["run", "qui"], {"quick"}),
        (["check", "bodin2026_"], {"bodin2026_accuracy", "bodin2026_direct"}),
        (["report", "h100/lee"], {"h100/lee2008", "h100/lee2008_last"}),
        (["compare", "h100/gem"], {"h100/gems3"}),
        (["report", "h100/gems3", "--published", "lee"], {"lee2008"}),
        (["run", "quick", "--toolkit", "py"], {"pycuda"}),
        (["run", "quick", "--device", "c"], {"cpu", "cuda:0", "cuda:1"}),
        (["sel"], {"selftest"}),
    ],
)
def test_the_shell_completes_names(monkeypatch, words, wanted):
    monkeypatch.chdir(ROOT)
    asked = {"_GRAVBENCH_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(["gravbench", *words]),
             "COMP_CWORD": str(len(words))}  # fmt: skip
    done = CliRunner().invoke(app, [], env=asked, prog_name="gravbench")
    assert set(done.stdout.split()) == wanted, done.output


def test_what_is_completed_is_what_there_is(monkeypatch):
    monkeypatch.chdir(ROOT)
    assert completion.variants("") == sorted(discover())
    assert set(RUNS) <= set(completion.runs(""))


# Comparisons


def sides(change, **new):
    both = []
    for factor, own in ((1.0, {}), (change, new)):
        both.append(
            [
                record("tiled", factor * n, n=n, samples_seconds=[factor * n * (1 + i / 1e5) for i in range(20)], **own)
                for n in (1000, 2000)
            ]
        )
    return compare_runs(Run("before", both[0]), Run("after", both[1]))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (0.5, "after is 2.00 ± 0.01* times as fast as before. Case by case it is 2.00 times as fast."),
        (2.0, "before is 2.00 ± 0.01* times as fast as after. Case by case it is 2.00 times as fast."),
        (1.0, "after is 1.00 ± 0.01* times as fast as before. Case by case it is 1.00 times as fast."),
    ],
)
def test_a_comparison_begins_with_who_is_how_many_times_as_fast(change, said):
    sentence = closing_sentence(sides(change))
    # No process or anchor bounds how far processes differ; both cases differ alike.
    assert sentence.startswith("In the geometric mean of 2 cases, it is UNCLEAR which of ")
    assert sentence.endswith(said)
    assert closing_sentence(compare_runs(Run("a", []), Run("b", []))) == ""


def test_best_explains_the_signs_of_its_table(monkeypatch):
    monkeypatch.chdir(ROOT)
    explained = {(): "* differs from the row above.", ("--full",): "* the choice differs from that at the previous n."}
    for words, sentence in explained.items():
        said = " ".join(gravbench("best", "h100/ladder", *words, columns=120).stdout.split())
        assert re.search(r"\d \*§? symmetric", said)
        assert sentence in said


def test_best_compare_and_explain_know_the_variants_in_folders_of_ones_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    gravbench("new", "mine")
    own = discover((tmp_path / "mine",))["mine"]
    for name in ("one", "two"):
        samples = [1e-3 * (1 + i / 1e5) for i in range(20)]
        made = record("mine", samples[0], axes={"p": 256}, timed="force", samples_seconds=samples, commit=name)
        code = own.code_sha256("cupy", find_interaction("gravity"))
        RecordFile(tmp_path / "reports" / name).append(consistent(made.model_copy(update={"code_sha256": code})))
    stranger = "¶"
    assert stranger in gravbench("best", "one", XDG_STATE_HOME=str(tmp_path / "nothing")).stdout
    said = gravbench("best", "one").stdout
    assert stranger not in said
    assert "differs from the row above" not in said  # there is one row
    assert stranger not in gravbench("compare", "one", "two").stdout
    if not assembling.missing():
        assert "mine.cu:" in gravbench("explain", "ledger", "mine").stdout


def test_replay_knows_the_variants_in_folders_of_ones_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    gravbench("new", "mine")
    text = (tmp_path / "mine" / "mine.py").read_text("utf-8")
    told = 'approximates="nothing, for this test",\n    any_interaction'
    (tmp_path / "mine" / "mine.py").write_text(text.replace("any_interaction", told), "utf-8")
    for name in ("mine", "tiled"):
        for p in range(32, 352, 32):
            made = record(name, 1e-3 * p, axes={"p": p}, samples_seconds=[1e-3 * p] * 20)
            RecordFile(tmp_path / "reports" / "one").append(consistent(made))
    contests = json.loads(gravbench("replay", "one", "--strategy", "all", "--repeat", "1", "--json").stdout)["contests"]
    assert len(contests) == 2  # an approximation competes with its like


def test_best_leaves_out_what_needs_equal_masses_where_they_differ(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert "symmetric equal_mass=1" in gravbench("best", "h100/ladder", columns=120).stdout
    made = json.loads(gravbench("best", "h100/ladder", "--unequal-masses", "--json").stdout)
    choices = [choice for selection in made["selections"] for choice in selection["choices"]]
    assert "symmetric" in {choice["use"]["variant"] for choice in choices}
    assert not [choice for choice in choices if choice["use"]["axes"].get("equal_mass") == 1]
    assert "cannot be combined with --unequal-masses" in refused(
        "best", "h100/ladder", "--unequal-masses", "--save", "table.yaml"
    )
    RecordFile(tmp_path / "run").append(record("symmetric", 1e-3, axes={"equal_mass": 1}))
    assert "every record has equal_mass=1" in refused("best", str(tmp_path / "run"), "--unequal-masses")


def test_every_command_stands_in_a_named_part_of_the_help():
    said = gravbench("--help", columns=100).stdout
    assert "─ Commands ─" not in said
    assert re.findall(r"│ ([a-z]+)  ", said) == list(options.ORDER)


def test_list_shows_a_description_without_markup_and_a_command_that_measures_the_variant(tmp_path, monkeypatch):
    said = gravbench("list", "barnes_hut", columns=100).stdout
    assert "``" not in said
    assert "The axes, from the first step of the path to the last: sort, bodies in" in flat(said)
    assert "gravbench run quick --variant barnes_hut" in said
    monkeypatch.chdir(tmp_path)
    gravbench("new", "mine", "--cpu")
    own = discover((tmp_path / "mine",))["mine"]
    assert inventory._sweep_of(own) == str(tmp_path / "mine" / "mine.yaml")
    (tmp_path / "mine" / "mine.yaml").unlink()
    assert inventory._sweep_of(own) == f"on a sweep with variant_folders: [{tmp_path / 'mine'}]"


def test_a_comparison_of_two_packaged_runs_is_short_and_begins_with_the_verdict(monkeypatch):
    monkeypatch.chdir(ROOT)
    lines = gravbench("compare", "h100/fastest", "h100/ladder", columns=200).stdout.splitlines()
    assert len(lines) < 45
    first = " ".join(lines[1:3])
    assert re.match(r"In the geometric mean of 65 cases, .* is \d\.\d\d ± 0\.\d\d\*? times as fast as h100", first)
    assert re.search(r"Case by case it is \d\.\d\d to \d\.\d\d times as +fast\.", first)
    assert not any("unroll=1 " in line for line in lines)  # a default


def test_runs_without_a_common_case_are_told_in_a_few_lines_and_all_lists_the_cases(monkeypatch):
    monkeypatch.chdir(ROOT)
    words = ("compare", "h100/ladder", "h100/chamomile")
    lines = gravbench(*words, columns=120).stdout.splitlines()
    assert lines[0] == "No case is ok in both h100/ladder and h100/chamomile, so nothing was compared."
    assert len(lines) < 18
    assert "No case has the same timed: force in BASE, call in NEW." in lines
    assert re.fullmatch(r"\d+ cases of \d+ variants only in BASE \(h100/ladder\)", lines[1])
    assert "--all lists these 793 cases" in lines
    whole = gravbench(*words, "--all", columns=120).stdout
    assert "  naive: cupy, pycuda, numba; 9 values of n" in whole


def test_bodies_of_two_files_with_one_name_are_told_once():
    ours, theirs = (
        Run(word, [record("tiled", 1.0, bodies="bodies.tab", bodies_file_sha256=word * 64)]) for word in "ab"
    )
    file = Console(width=200, record=True, file=io.StringIO())
    render_comparison(compare_runs(ours, theirs), file)
    said = file.export_text()
    assert "bodies.tab is not the same file in BASE and NEW" in said
    assert "No case has the same" not in said


def test_a_driver_that_differs_is_named_with_both_its_versions():
    file = Console(width=200, record=True, file=io.StringIO())
    render_comparison(sides(1.0, driver="590.12", toolkit_version="14.1"), file)
    said = file.export_text()
    assert "driver 999.01 -> 590.12" in said
    assert "toolkit version" in said
    assert "-> 14.1" in said


def test_what_differs_is_told_by_short_values_of_both_sides_and_commits_by_seven_digits():
    compiler, flags = "NVRTC 14.1", ["-std=c++17", "-fmad=false"]
    commit = "0123456789abcdef0123456789abcdef01234567+changes"
    both = sides(1.0, compiler=compiler, flags=flags, commit=commit, device_uuid="GPU-2", toolkit_version="v" * 101)
    assert differences(both).splitlines() == [
        "compiler unknown -> NVRTC 14.1",
        "flags -ftz=true -> -std=c++17 -fmad=false",
        "commit c0ffee -> 0123456+changes",
        "toolkit version, device uuid",
    ]


def test_more_values_than_a_line_holds_are_not_listed():
    both = sides(1.0)
    pairs = [
        replace(both.pairs[0], new=both.pairs[0].new.model_copy(update={"driver": f"590.{number}"}))
        for number in range(4)
    ]
    assert differences(replace(both, pairs=pairs)) == "driver"
    assert differences(replace(both, pairs=pairs[:1])) == "driver 999.01 -> 590.0"
    assert differences(both) == ""


def test_verdicts_are_words_in_colours_where_there_are_colours(monkeypatch):
    assert VERDICT_STYLES.keys() == set(Verdict)
    monkeypatch.setenv("TERM", "xterm-256color")
    printed = {}
    for colours in ("256", None):
        file = Console(width=200, force_terminal=True, color_system=colours, file=io.StringIO())
        with file.capture() as captured:
            render_comparison(sides(2.0), file, everything=True)
        printed[colours] = captured.get()
    assert re.search(r"\x1b\[3[13]m(SLOWER|UNCLEAR)", printed["256"])
    assert not re.search(r"\x1b\[3\dm", printed[None])
    words = re.sub(r"\x1b\[[0-9;]*m", "", printed["256"])
    assert words == re.sub(r"\x1b\[[0-9;]*m", "", printed[None])


@pytest.mark.parametrize("name", ["h100/ladder", "h100/bodin2026_direct", "h100/chamomile"])
def test_the_best_of_a_run_is_one_screen_and_full_names_what_is_unclear(monkeypatch, name):
    monkeypatch.chdir(ROOT)
    short, full = (gravbench("best", name, *words).stdout for words in ((), ("--full",)))
    # One line more says that all rows are by an older method.
    by_older_method = "measured every row" in short
    of_tables = short.count("gravbench.force uses")
    # Two lines more each say which rows are of other code.
    of_other_code = 2 * short.count("measured with different source code")
    drifts = 2 * short.count("DRIFT")
    assert (
        short.count("\n") <= max(56, 16 * short.count("\nUse ")) + by_older_method + of_tables + of_other_code + drifts
    )
    assert short.count("\nUse ") == full.count("\nUse ") >= 1
    assert "but cannot be distinguished from it" in flat(full)
    assert "UNCLEAR N: N others are " in short
    assert "but cannot be distinguished from it" not in flat(short)
    assert all(len(line) <= 80 for line in short.splitlines())


def test_the_best_end_with_what_to_use_from_which_n_and_name_axes_that_are_not_defaults(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    defaults = discover()["tiled"].defaults
    for n, own in ((1024, {}), (2048, {}), (4096, {"p": 64}), (8192, {"p": 64})):
        variant = "naive" if n < 4096 else "tiled"
        axes = {"p": 256} if variant == "naive" else {**defaults, **own}
        RecordFile(Path("run")).append(record(variant, 1e-3 * n, n=n, axes=axes))
    said = gravbench("best", "run", columns=120).stdout
    assert "Use naive (cupy) from n = 1,024 to 2,048, tiled (cupy) from n = 4,096 to 8,192." in flat(said)
    (row,) = [line for line in said.splitlines() if line.strip().startswith("4,096")]
    assert " p=64 " in row
    assert "unroll" not in row
    (row,) = [line for line in said.splitlines() if line.strip().startswith("1,024")]
    assert "p=256" not in row
    chosen = json.loads(gravbench("best", "run", "--json").stdout)["selections"][0]["choices"][2]["use"]
    assert chosen["axes"] == {**defaults, "p": 64}  # programs get all of them


# Terminals and pipes


def on_a_terminal(words, tmp_path, **environment):
    """Run a command with a terminal as its input and output; return what it showed."""
    script = (
        "import pty, sys, os\n"
        "chunks = []\n"
        "def read(fd):\n    data = os.read(fd, 65536)\n    chunks.append(data)\n    return data\n"
        "code = pty.spawn(sys.argv[1:], read)\n"
        "sys.exit(os.waitstatus_to_exitcode(code))\n"
    )
    own = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "30", **environment}
    own.pop("NO_COLOR", None) if "NO_COLOR" not in environment else None
    done = subprocess.run(
        [sys.executable, "-c", script, sys.executable, "-m", "gravbench", *words],
        cwd=tmp_path, env=own, capture_output=True, stdin=subprocess.DEVNULL, timeout=120,
    )  # fmt: skip
    return done.stdout.decode(errors="replace")


def test_a_long_text_meets_a_pager_on_a_terminal_and_never_in_a_pipe(run, tmp_path):
    pager = tmp_path / "pager"
    pager.write_text("#!/bin/sh\necho PAGED; cat\n")
    pager.chmod(0o755)
    shown = on_a_terminal(["report", run, "--full"], tmp_path, PAGER=str(pager))
    assert "PAGED" in shown
    assert "The ladder" in shown
    assert "PAGED" not in on_a_terminal(["report", run], tmp_path, PAGER=str(pager))  # a summary needs none
    assert "PAGED" not in on_a_terminal(["report", run, "--full"], tmp_path, PAGER="cat")
    piped = gravbench("report", run, "--full", PAGER=str(pager)).stdout
    assert "PAGED" not in piped
    assert not RICH.search(piped)


def test_a_terminal_has_links_and_colours_and_a_pipe_neither(run, tmp_path):
    link = "\x1b]8;"
    assert link in on_a_terminal(["list"], tmp_path)
    assert link not in gravbench("list").stdout
    plain = on_a_terminal(["list"], tmp_path, NO_COLOR="1")
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", plain)
    assert run in on_a_terminal(["report", run], tmp_path)


def test_what_takes_long_tells_how_far_it_is_on_a_terminal_alone(run, capsys, monkeypatch):
    gravbench("report", run, "--figures", "figures")
    assert "drawing figures" not in capsys.readouterr().err
    said = []

    class Status:
        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

        def update(self, words):
            said.append(words)

    class Terminal:
        is_terminal = True

        def status(self, title):
            said.append(title)
            return Status()

    with monkeypatch.context() as patch:
        real = options.console
        patch.setattr(options, "console", lambda *, stderr=False: Terminal() if stderr else real())
        gravbench("report", run, "--figures", "again")
    assert said[0] == "reading records"
    files = len(list(Path("again").iterdir()))
    assert f"drawing figures: {files} of {files} files" in said


# Sources


def test_the_source_of_a_cpu_variant_is_its_python_and_of_others_both_can_be_asked_for():
    for name in ("numba_parallel", "barnes_hut_cpu", "gluon_tiles"):
        assert gravbench("source", name).stdout == discover()[name].path.read_text("utf-8")
    assert "__global__" in gravbench("source", "tiled").stdout
    assert gravbench("source", "tiled", "--python").stdout == discover()["tiled"].path.read_text("utf-8")
    mojo = discover()["mojo_tiles"].path
    assert gravbench("source", "mojo_tiles").stdout == mojo.with_suffix(".mojo").read_text("utf-8")
    assert gravbench("source", "mojo_tiles", "--python").stdout == mojo.read_text("utf-8")
    assert "did you mean tiled?" in refused("source", "tild")


def test_machine_code_is_printed_for_the_architecture_and_interaction_that_are_asked_for():
    if reason := assembling.missing():
        pytest.skip(reason)
    printed = gravbench("source", "tiled", "--machine-code").stdout
    assert ".text.tiled" in printed
    assert "sm_90" in printed
    assert printed.count("MUFU.RSQ") >= 32
    assert "sm_80" in gravbench("source", "tiled", "--machine-code", "--arch", "sm_80").stdout
    hermite = gravbench("source", "tiled", "--machine-code", "--interaction", "hermite").stdout
    assert hermite.count("FFMA") > printed.count("FFMA")
    assert "--arch only works with --machine-code" in refused("source", "tiled", "--arch", "sm_80")
    assert "--machine-code and --python cannot be combined" in refused("source", "tiled", "--machine-code", "--python")
    assert "no such architecture" in refused("source", "tiled", "--machine-code", "--arch", "hopper")
    assert "warp_tiles has no machine code without a GPU" in refused("source", "warp_tiles", "--machine-code")


# One's own


def test_many_records_are_summarized_in_seconds(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = tmp_path / "many"
    store.mkdir()
    (store / "records.jsonl").write_text("".join(one.model_dump_json() + "\n" for one in many()[:2000]), "utf-8")
    assert len(gravbench("report", "many").stdout.splitlines()) <= 30


@pytest.fixture
def mine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    gravbench("new", "fast", "--cpu", "--folder", "kernels")
    return tmp_path / "kernels"


def test_a_new_variant_for_the_processor_is_right_as_it_is_written(mine):
    assert sorted(path.name for path in mine.iterdir()) == ["fast.py", "fast.yaml"]
    done = gravbench("check", f"{mine}/fast.yaml", "--device", "cpu", "--variant", "fast", "-p", "n=100")
    assert "1 passed, 0 failed, 0 skipped" in done.stdout


def test_a_new_variant_is_right_in_the_simulator_and_compiles_for_every_architecture(tmp_path, monkeypatch):
    import numpy as np

    from direct import direct_accelerations
    from gravbench.model import generators
    from gravbench.model.interaction import GRAVITY
    from gravbench.model.interaction_files import find
    from gravbench.model.variant import DIRECT_SUM
    from gravbench.toolkits.devices import gpus
    from gravbench.toolkits.interface import FLAGS
    from gravbench.toolkits.opening import open_toolkit
    from gravbench.verifying import comparing

    monkeypatch.chdir(tmp_path)
    said = gravbench("new", "quicker", "--parent", "tiled").stdout
    assert [line for line in said.splitlines() if line.startswith("wrote")] == [
        "wrote quicker/quicker.py", "wrote quicker/quicker.cu", "wrote quicker/quicker.yaml",
    ]  # fmt: skip
    variant = discover((tmp_path / "quicker",))["quicker"]
    assert (variant.parent, variant.toolkits) == ("tiled", ("cupy", "pycuda", "numba"))
    assert "NAME" not in variant.explanation + variant.path.with_suffix(".cu").read_text("utf-8")
    if not gpus()[0]:
        bodies = generators.plummer(70, 3, 0.05)
        toolkit = open_toolkit("numba", variant, "float32")
        prepared = variant.prepare(toolkit, bodies, p=32)
        prepared.launch()
        found = toolkit.download(prepared.accelerations)[:, :3]
        errors = comparing.compare(found, direct_accelerations(bodies, np.arange(70), "float32"))
        assert comparing.objection_to(errors, DIRECT_SUM["float32"]) is None
    pytest.importorskip("cuda.bindings")
    from nvrtc import ARCHITECTURES, compile_cuda

    for architecture in ARCHITECTURES:
        _, ptx, _ = compile_cuda(variant.cuda_source(find(GRAVITY)), architecture, [*FLAGS, "-DP=128"])
        assert ".entry quicker(" in ptx


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["Fast"], "Fast: not a valid name; accepted: up to 60 lower-case letters"),
        (["class"], "no keyword of Python or C++"),
        (
            ["double"],
            "double: not a valid name; accepted: up to 60 lower-case letters, digits and _, no keyword of Python",
        ),
        (["gravbench"], "gravbench: not a valid name"),
        (["../x"], "not a valid name"),
        (["tiled"], "this variant exists already"),
        (["mine", "--parent", "tild"], "--parent tild: no such variant; did you mean tiled?"),
        (["fast", "--folder", "kernels"], "kernels/fast.py: exists already"),
    ],
)
def test_a_new_variant_never_takes_a_name_or_a_file_that_there_is(mine, words, said):
    before = {path: path.read_bytes() for path in mine.iterdir()}
    assert said in refused("new", *words)
    assert {path: path.read_bytes() for path in mine.iterdir()} == before
    assert not Path("mine").exists()


def test_folders_of_ones_own_are_known_to_list_and_source_where_they_were_used(mine, tmp_path, monkeypatch):
    assert "fast  " in gravbench("list").stdout
    assert gravbench("source", "fast").stdout == (mine / "fast.py").read_text("utf-8")
    assert "fast" in completion.variants("fa")
    assert (
        "gravbench run " + str(Path("kernels", "fast.yaml").resolve()) in gravbench("list", "fast", columns=200).stdout
    )
    monkeypatch.chdir(tmp_path.parent)
    assert folders.remembered() == (mine,)  # it lies below
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert folders.remembered() == ()
    assert "did you mean" in refused("source", "fast")


def test_a_report_knows_the_variants_of_ones_own(mine, monkeypatch):
    gravbench("run", f"{mine}/fast.yaml", "--device", "cpu", "--variant", "fast", "-p", "n=64", "-p",
              "measure.budget_seconds=0.05", "-p", "measure.processes=1", "--out", "out")  # fmt: skip
    assert "to no variant of this checkout" not in gravbench("report", "out", "--full").stdout
    monkeypatch.setattr(folders, "remembered", lambda: ())
    assert "to no variant of this checkout" in " ".join(gravbench("report", "out", "--full").stdout.split())


def test_a_folder_with_a_mistake_is_left_out_and_named(mine):
    (mine / "fast.py").write_text("import nosuch  # @variant(\n")
    done = gravbench("list")
    assert "one of your own variants was left out: " in done.stderr
    assert "fast.py, line 1: cannot be imported" in " ".join(done.stderr.split())
    assert "tiled" in done.stdout
    folders._file().write_text("nonsense")
    assert folders.remembered() == ()


MISTAKES = {
    "a name in prepare": ('compile("fast")', "compile(fastt)", 38, "NameError: name 'fastt' is not defined"),
    "a name in the kernel": ("dx = x[j] - xi", "dx = xx[j] - xi", 20, "TypingError: "),
    "nothing returned": ("return layouts", "layouts", 36, "AttributeError: "),
    "one argument more": ("prepare(cpu, bodies)", "prepare(cpu, bodies, p)", 36, "TypeError: "),
}


@pytest.mark.parametrize(("old", "new", "line", "said"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_in_ones_own_variant_is_one_sentence_with_file_and_line(mine, old, new, line, said):
    path = mine / "fast.py"
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new))
    done = gravbench("check", f"{mine}/fast.yaml", "--device", "cpu", "--variant", "fast", "-p", "n=64", code=None)
    assert done.exit_code == 1
    (sentence,) = [one for one in done.stdout.splitlines() if one.startswith(f"{path}, line ")]
    assert sentence.startswith(f"{path}, line {line}: {said}")


def test_what_a_compiler_of_cuda_says_is_told_with_the_file_and_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    gravbench("new", "mine")
    variants = discover((tmp_path / "mine",))
    reason = 'CompileException: mine.cu(12): error: identifier "tle" is undefined; 1 error detected'
    failed = record("mine", None, status="failed", reason=reason)
    assert mistakes.mistakes([failed, failed], variants, tmp_path) == [
        f'{tmp_path}/mine/mine.cu, line 12: identifier "tle" is undefined'
    ]
    assert mistakes.mistakes([record("tiled", None, status="failed", reason=reason)], variants, tmp_path) == []


def test_a_parent_that_is_none_is_told_with_the_line(mine):
    path = mine / "fast.py"
    path.write_text(path.read_text("utf-8").replace('parent="numba_direct"', 'parent="numba_dirct"'))
    assert f"{path}, line 35: parent numba_dirct is not a variant; did you mean numba_direct?" in refused(
        "check", f"{mine}/fast.yaml"
    )


# History


def test_results_of_one_host_stay_together_so_that_asv_asks_for_no_machine(tmp_path):
    described = {"processor": "Imaginary CPU, 16 cores", "operating_system": "Linux-6.1.0-x86_64-with-glibc2.36"}
    known = {"machine": "host", "cpu": "Imaginary CPU", "num_cpu": "16", "os": "Linux 6.1.0", "version": 1}
    (tmp_path / "host").mkdir()
    (tmp_path / "host" / "machine.json").write_text(json.dumps(known))
    records = [record("tiled", 1.0)]
    assert history._own_machine(records, described, tmp_path) == "host"
    for other in ({"processor": "Imaginary CPU, 8 cores"}, {"processor": "Other CPU, 16 cores"},
                  {"operating_system": "Linux-6.2.0-x86_64"}, {"processor": ""}):  # fmt: skip
        assert history._own_machine(records, described | other, tmp_path) is None
    assert history.machines(tmp_path) == ["host"]


@pytest.mark.parametrize("several", [False, True])
def test_the_export_of_a_history_prints_the_comparison_that_asv_accepts(tmp_path, monkeypatch, several):
    def git(*words):
        own = ["git", "-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false", *words]
        return subprocess.run(own, cwd=tmp_path, check=True, capture_output=True, text=True).stdout.strip()

    monkeypatch.chdir(tmp_path)
    git("init", "--initial-branch=main")
    for text in "ab":
        git("commit", "--allow-empty", "-m", text)
        RecordFile(Path("run")).append(record("tiled", 1e-3, commit=git("rev-parse", "HEAD"), n=1000 + ord(text)))
    if several:
        Path(".asv/results/host").mkdir(parents=True)
        Path(".asv/results/host/machine.json").write_text('{"machine": "host", "version": 1}')
    said = gravbench("history", "export", "run").stdout.splitlines()[-1]
    command = said.removeprefix("Compare two commits: ").split()
    assert ("--machine" in command) == several
    config = {"version": 1, "project": "a", "repo": ".", "results_dir": ".asv/results", "branches": ["main"]}
    Path("asv.conf.json").write_text(json.dumps(config))
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "gravbench.tiled" in done.stdout


def test_a_part_without_a_winner_says_so_and_not_that_nothing_is_ok(monkeypatch):
    monkeypatch.chdir(ROOT)
    text = flat(gravbench("report", "h100/ladder", "--n", "65536", "--variant", "tiled").output)
    assert "None of the cases shown is the fastest of its run." in text
    assert "No case is ok" not in text


def test_the_reasons_of_what_is_unclear_add_up_to_the_cases_that_are(monkeypatch):
    monkeypatch.chdir(ROOT)
    text = flat(gravbench("compare", "h100/fastest", "h100/ladder").output)
    (unclear,) = set(re.findall(r"(\d+) UNCLEAR, \d+ SAME; in clock", text))
    assert sum(map(int, re.findall(r"UNCLEAR, (\d+) cases?", text))) == int(unclear)
