"""Records as results of asv: every figure arrives, nothing that was there is lost, and asv sees what got slower."""

import json
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT, consistent
from gravbench.asv import export as history
from gravbench.asv.results import natural
from gravbench.bench import sentinels
from gravbench.cli.main import app
from gravbench.config.load import load
from gravbench.errors import InputError
from gravbench.model.interaction import GRAVITY
from gravbench.model.interaction_files import find
from gravbench.model.record import Record
from gravbench.model.runs import ENVIRONMENT, RecordFile
from gravbench.model.sources import code_sha256_of_tree
from gravbench.model.variant import discover
from gravbench.verdicts import ranking

LADDER = ROOT / "reports" / "h100" / "ladder"
HEADLINE = ROOT / "reports" / "h100" / "headline"
SPEED = "gravbench.tiled.picoseconds_per_interaction"
TIME = "gravbench.tiled.milliseconds_per_evaluation"
COLUMN = {"result": 0, "params": 1, "version": 2, "started_at": 3, "stats_ci_99_a": 5, "stats_ci_99_b": 6}


def git(folder, *words):
    command = ["git", "-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false", *words]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def asv(folder, *words):
    done = subprocess.run(
        [sys.executable, "-m", "asv", *words], cwd=folder, capture_output=True, text=True,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def commit(folder, text):
    (folder / "file").write_text(text)
    git(folder, "add", "file")
    git(folder, "commit", "-m", text)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path, monkeypatch):
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "--initial-branch=main")
    monkeypatch.chdir(folder)
    return folder


TEMPLATE = next(each for each in RecordFile(HEADLINE).read() if each.variant == "tiled" and each.n == 65536)


def record(sha, picoseconds=0.5, **changes):
    n = changes.get("n", TEMPLATE.n)
    samples = [picoseconds * 1e-12 * n * n * (1 + 1e-4 * (k % 5 - 2)) for k in range(10)]
    own = {"anchor": 0, "commit": sha, "samples_seconds": samples, "processes": [1] * 10}
    return consistent(Record(**(TEMPLATE.model_dump() | own | changes)))


def run_of(folder, *records):
    for one in records:
        RecordFile(folder).append(one)
    (folder / ENVIRONMENT).write_text((HEADLINE / ENVIRONMENT).read_text("utf-8"), "utf-8")
    return folder


TILED = Path("variants") / "all_pairs" / "tiled.cu"


def sources_of(folder):
    """Put the variants of this checkout into a repository, and return the commit."""
    for name in ("all_pairs", "common", "interactions", "parts"):
        shutil.copytree(ROOT / "variants" / name, folder / "variants" / name, ignore=shutil.ignore_patterns("__pyc*"))
    return committed(folder, "sources")


def committed(folder, text, *words):
    git(folder, "add", "--all")
    git(folder, "commit", "--allow-empty", "-m", text, *words)
    return git(folder, "rev-parse", "HEAD")


def edited(folder, text):
    """Change the code of a variant, and return the hash that a record of it has."""
    with (folder / TILED).open("a") as file:
        file.write(text)
    return code_sha256_of_tree(record(None, toolkit="cupy"), folder / "variants")


def of_changed(sha, sha256, **changes):
    return record(f"{sha}+changes", **({"toolkit": "cupy", "code_sha256": sha256} | changes))


def only(results):
    (path,) = (path for path in results.glob("*/*.json") if path.name != "machine.json")
    return json.loads(path.read_text("utf-8"))


def test_every_figure_of_a_record_arrives(repository, tmp_path):
    sha = commit(repository, "one")
    own = record(sha)
    done = history.export([run_of(tmp_path / "run", own)], tmp_path / "results")
    assert done.records == 1
    assert not done.left_out
    assert done.files[0].name.startswith(sha[:8] + "-")
    assert done.files[0].parent.name == "NVIDIA-H100-80GB-HBM3"
    content = only(tmp_path / "results")
    assert content["version"] == 2
    assert content["commit_hash"] == sha
    assert content["date"] == int(git(repository, "show", "-s", "--format=%ct", sha)) * 1000
    params = content["params"]
    assert (params["gpu"], params["driver"], params["toolkit"]) == (own.device, own.driver, own.toolkit)
    assert (params["machine"], params["num_cpu"], params["python"]) == ("NVIDIA-H100-80GB-HBM3", "16", "3.12")
    row = content["results"][SPEED]
    assert row[COLUMN["result"]] == [pytest.approx(0.5)]
    assert row[COLUMN["params"]] == [
        [str(own.n)], [repr(own.configuration)], ["'float32'"], ["'plummer even seed=1 eps=0.025 force gravity'"]
    ]  # fmt: skip
    # Of ten samples the extremes bound the median at 99 %.
    assert row[COLUMN["stats_ci_99_a"]] == [pytest.approx(0.5 * (1 - 2e-4))]
    assert row[COLUMN["stats_ci_99_b"]] == [pytest.approx(0.5 * (1 + 2e-4))]
    for figure, value in {"force_error": own.error_max, "registers": 40, "spilled_bytes": 0}.items():
        assert content["results"][f"gravbench.tiled.{figure}"][0] == [value]
    listed = json.loads((tmp_path / "results" / "benchmarks.json").read_text("utf-8"))
    assert listed[SPEED]["unit"] == "ps"
    assert listed[SPEED]["params"] == row[COLUMN["params"]]
    machine = json.loads((tmp_path / "results" / "NVIDIA-H100-80GB-HBM3" / "machine.json").read_text("utf-8"))
    assert (machine["machine"], machine["version"]) == ("NVIDIA-H100-80GB-HBM3", 1)


def test_a_processor_has_no_gpu_and_few_samples_no_interval(repository, tmp_path):
    processor = {"toolkit": "cpu", "device": "A processor", "device_uuid": None, "driver": None}
    own = record(
        commit(repository, "one"), **processor, registers=None, local_bytes=None,
        samples_seconds=[1.0] * 7, processes=[1] * 7,
    )  # fmt: skip
    history.export([run_of(tmp_path / "run", own)], tmp_path / "results", "mine")
    content = only(tmp_path / "results")
    assert content["params"]["gpu"] == content["params"]["driver"] == "none"
    assert content["params"]["machine"] == "mine"
    assert set(content["results"]) == {SPEED, TIME, "gravbench.tiled.force_error"}
    assert content["results"][SPEED][COLUMN["stats_ci_99_a"]] is None


def test_a_tree_is_credited_with_what_it_computes_as_in_the_tables_and_its_time_is_tracked(repository, tmp_path):
    own = record(commit(repository, "one"), computed={"body_cell": 10.0})
    history.export([run_of(tmp_path / "run", own)], tmp_path / "results")
    found = only(tmp_path / "results")["results"]
    assert found[SPEED][0] == [pytest.approx(1e12 / ranking.speed(own))]
    assert found[TIME][0] == [pytest.approx(1e3 * own.median_seconds)]
    (low,), (high,) = (found[TIME][COLUMN[f"stats_ci_99_{end}"]] for end in "ab")
    assert low <= 1e3 * own.median_seconds <= high


def test_a_turn_of_an_approximation_is_timed_over_the_pairs_that_it_covers(repository, tmp_path):
    own = record(commit(repository, "one"), cycle=4)
    history.export([run_of(tmp_path / "run", own)], tmp_path / "results")
    assert only(tmp_path / "results")["results"][SPEED][0] == [pytest.approx(4 * 0.5)]


def test_exporting_again_adds_and_replaces_and_loses_nothing(repository, tmp_path):
    sha = commit(repository, "one")
    results = tmp_path / "results"
    history.export([run_of(tmp_path / "first", record(sha, n=1024), record(sha, n=65536))], results)
    (path,) = results.glob(f"*/{sha[:8]}-*.json")
    content = json.loads(path.read_text("utf-8"))
    content["results"]["other.track_it"] = [[1.5, float("nan")], [["'a'", "'b'"]], "x"]
    path.write_text(json.dumps(content), "utf-8")
    listed = json.loads((results / "benchmarks.json").read_text("utf-8"))
    listed["other.track_it"] = {"name": "other.track_it"}
    (results / "benchmarks.json").write_text(json.dumps(listed), "utf-8")
    (results / "NVIDIA-H100-80GB-HBM3" / "machine.json").write_text(
        '{"machine": "NVIDIA-H100-80GB-HBM3", "ram": "1 TB", "version": 1}'
    )

    later = "2027-01-01T00:00:00+00:00"
    second = run_of(tmp_path / "second", record(sha, 0.7, n=65536, started=later), record(sha, 0.8, n=524288))
    history.export([second], results)
    content = json.loads(path.read_text("utf-8"))
    row = content["results"][SPEED]
    assert row[COLUMN["params"]][0] == ["1024", "65536", "524288"]
    assert row[COLUMN["result"]] == [pytest.approx(0.5), pytest.approx(0.7), pytest.approx(0.8)]
    assert row[COLUMN["stats_ci_99_a"]][0] == pytest.approx(0.5 * (1 - 2e-4))
    assert content["results"]["other.track_it"][1:] == [[["'a'", "'b'"]], "x"]
    assert content["params"]["ram"] == "1 TB"
    listed = json.loads((results / "benchmarks.json").read_text("utf-8"))
    assert listed["other.track_it"] == {"name": "other.track_it"}
    assert listed[SPEED]["params"][0] == ["1024", "65536", "524288"]

    before = path.read_bytes()
    history.export([second], results)
    assert path.read_bytes() == before
    assert not list(results.rglob("*.tmp"))


def test_of_one_case_the_newer_record_stands_in_whatever_order_they_come(repository, tmp_path):
    sha = commit(repository, "one")
    old, new = record(sha, 0.9, started="2026-01-01T00:00:00+00:00"), record(sha, 0.4)
    again = record(sha, 0.1, anchor=2, started="2027-01-01T00:00:00+00:00")
    history.export([run_of(tmp_path / "run", new, old, again)], tmp_path / "results")
    assert only(tmp_path / "results")["results"][SPEED][0] == [pytest.approx(0.4)]


def test_the_list_that_asv_run_overwrites_can_be_renewed(repository, tmp_path):
    results = tmp_path / "results"
    history.export([run_of(tmp_path / "run", record(commit(repository, "one")))], results)
    listed = (results / "benchmarks.json").read_bytes()
    (results / "benchmarks.json").write_text('{"version": 2}')
    assert history.export([], results).records == 0
    assert (results / "benchmarks.json").read_bytes() == listed


def test_what_cannot_be_placed_is_left_out_and_said(repository, tmp_path):
    sha = commit(repository, "one")
    bad = [record(None), record(sha + "+changes"), record("f" * 40), record(sha, status="failed")]
    with pytest.raises(InputError, match=r"nothing to export: 1 without a commit.*1 of changed sources.*1 of commit f"):
        history.export([run_of(tmp_path / "bad", *bad)], tmp_path / "results")
    assert not (tmp_path / "results").exists()
    invalid = record(sha, n=4096, status="invalid", error_max=0.5)
    done = history.export([run_of(tmp_path / "run", *bad, record(sha), invalid)], tmp_path / "results")
    assert done.records == 2
    assert sorted(done.left_out.values()) == [1, 1, 1, 1]
    found = only(tmp_path / "results")["results"]
    assert found[SPEED][COLUMN["params"]][0] == ["65536"]
    assert found["gravbench.tiled.force_error"][0] == [0.5, TEMPLATE.error_max]


def test_a_record_of_changed_sources_belongs_to_the_commit_that_has_its_code(repository, tmp_path):
    base = sources_of(repository)
    unchanged = edited(repository, "// a comment is no code\n")
    assert unchanged == discover()["tiled"].code_sha256("cupy", find(GRAVITY))
    changed = edited(repository, "__device__ int one_more;\n")
    assert changed != unchanged
    (repository / "other").write_text("nothing that runs")
    git(repository, "add", "other")
    git(repository, "commit", "-m", "another file")
    later = committed(repository, "what was changed")
    edited(repository, "__device__ int and_more;\n")
    dirty = git(repository, "status", "--porcelain")
    records = [of_changed(base, sha, n=n) for n, sha in ((1024, unchanged), (2048, changed))]
    done = history.export([run_of(tmp_path / "run", *records)], tmp_path / "results")
    assert done.records == 2
    assert done.placed == {base: 1, later: 1}
    assert history.placements(done.placed).startswith(f"1 of changed sources under {base[:8]}, whose code is theirs; ")
    by_commit = {
        content["commit_hash"]: content["results"][SPEED][COLUMN["params"]][0]
        for content in (json.loads(path.read_text("utf-8")) for path in done.files)
    }
    assert by_commit == {base: ["1024"], later: ["2048"]}
    assert git(repository, "status", "--porcelain") == dirty


def test_a_header_is_that_of_the_commit(repository, tmp_path):
    base = sources_of(repository)
    header = repository / "variants" / "common" / "body.cuh"
    header.write_text(header.read_text("utf-8") + "__device__ int in_a_header;\n", "utf-8")
    sha256 = edited(repository, "")
    later = committed(repository, "a header")
    done = history.export([run_of(tmp_path / "run", of_changed(base, sha256))], tmp_path / "results")
    assert done.placed == {later: 1}


def test_of_a_merged_branch_the_merge_has_the_code_because_asv_shows_first_parents(repository, tmp_path):
    base = sources_of(repository)
    git(repository, "checkout", "-b", "side")
    sha256 = edited(repository, "__device__ int one_more;\n")
    committed(repository, "on a branch")
    git(repository, "checkout", "main")
    git(repository, "merge", "--no-ff", "-m", "merge", "side")
    done = history.export([run_of(tmp_path / "run", of_changed(base, sha256))], tmp_path / "results")
    assert done.placed == {git(repository, "rev-parse", "HEAD"): 1}


def test_code_that_no_commit_from_there_on_has_is_left_out(repository, tmp_path):
    first = sources_of(repository)
    old = edited(repository, "")
    current = edited(repository, "__device__ int one_more;\n")
    second = committed(repository, "second")
    bad = [
        of_changed(first, "0" * 64),
        of_changed(first, None, n=1024),
        of_changed(first, current, n=2048, interaction_sha256="0" * 64, interaction="own.py"),
        of_changed(first, current, n=4096, variant="gone"),
        of_changed(second, old, n=8192),
    ]
    with pytest.raises(InputError, match=rf"4 of changed sources \({first[:8]}\+changes\), whose code neither.*; 1 of"):
        history.export([run_of(tmp_path / "run", *bad)], tmp_path / "results")
    (repository / TILED).write_bytes(b"\xff")
    broken = committed(repository, "no text")
    with pytest.raises(InputError, match="1 of changed sources"):
        history.export([run_of(tmp_path / "x", of_changed(broken, old))], tmp_path / "results")


def test_a_history_without_head_is_said(repository, tmp_path):
    first = sources_of(repository)
    git(repository, "checkout", "--orphan", "empty")
    run = run_of(tmp_path / "run", of_changed(first, "0" * 64))
    with pytest.raises(InputError, match=r"git rev-list failed: fatal: .*; accepted: a whole clone"):
        history.export([run], tmp_path / "results")


def test_the_ladder_belongs_to_the_commit_that_it_was_measured_at(tmp_path, monkeypatch):
    if subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True).returncode:
        pytest.skip("this checkout is no git clone")
    monkeypatch.chdir(ROOT)
    commit = RecordFile(LADDER).read()[0].commit
    if subprocess.run(["git", "cat-file", "-e", commit], cwd=ROOT, capture_output=True).returncode:
        pytest.skip("this clone lacks the history of the ladder")
    done = history.export([LADDER], tmp_path / "results")
    assert not done.placed  # nothing was changed when it was measured
    results = [path for path in (tmp_path / "results").glob("*/*.json") if path.name != "machine.json"]
    assert {json.loads(path.read_text("utf-8"))["commit_hash"] for path in results} == {commit}
    assert done.records == sum(one.status == "ok" and one.anchor <= 1 for one in RecordFile(LADDER).read())
    assert set(done.left_out) == {"skipped"}


def test_results_of_another_version_of_the_export_give_way(repository, tmp_path):
    sha = commit(repository, "one")
    results = tmp_path / "results"
    run = run_of(tmp_path / "run", record(sha))
    history.export([run], results)
    (path,) = results.glob(f"*/{sha[:8]}-*.json")
    content = json.loads(path.read_text("utf-8"))
    content["results"][SPEED] = [[9.0], [["'one parameter'"]], "0"]
    content["results"]["gravbench.gone.some_figure"] = [[9.0], [["'one parameter'"]], "0"]
    path.write_text(json.dumps(content), "utf-8")
    history.export([], results)
    assert SPEED not in json.loads((results / "benchmarks.json").read_text("utf-8"))
    history.export([run], results)
    assert only(results)["results"][SPEED][0] == [pytest.approx(0.5)]
    assert SPEED in json.loads((results / "benchmarks.json").read_text("utf-8"))


def test_wrong_inputs_get_a_sentence(repository, tmp_path, monkeypatch):
    run = run_of(tmp_path / "run", record(commit(repository, "one")))
    with pytest.raises(InputError, match="no such folder of results"):
        history.export([], tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"--machine \.\./x"):
        history.export([run], tmp_path / "results", "../x")
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "benchmarks.json").write_text('{"version": 1}')
    with pytest.raises(InputError, match=r"benchmarks\.json: version 1 .* accepted: 2"):
        history.export([run], tmp_path / "results")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(InputError, match="there is no git history here"):
        history.export([run], tmp_path / "results")


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A site of eight commits, of which the fifth made tiled slower and naive faster."""
    folder = tmp_path_factory.mktemp("published")
    git(folder, "init", "--initial-branch=main")
    shas = [commit(folder, f"commit {number}") for number in range(8)]
    records = []
    for number, sha in enumerate(shas):
        noise = 1 + 0.002 * (number % 3)
        records.append(record(sha, noise * (0.5 if number < 4 else 0.8)))
        records.append(record(sha, noise * (0.8 if number < 4 else 0.5), variant="naive"))
    run_of(folder / "run", *records)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        history.export([Path("run")])
    conf = {"version": 1, "project": "gravbench", "repo": ".", "branches": ["HEAD"], "benchmark_dir": "."}
    conf |= {"results_dir": ".asv/results", "html_dir": ".asv/html"}
    (folder / "asv.conf.json").write_text(json.dumps(conf))
    asv(folder, "publish")
    return folder, shas


def test_a_planted_slow_down_is_a_regression_and_a_speed_up_is_not(published):
    folder, _ = published
    found = json.loads((folder / ".asv" / "html" / "regressions.json").read_text("utf-8"))["regressions"]
    by_name = {name.partition("(")[0]: rest for name, *rest in found}
    assert by_name.keys() == {SPEED, TIME}
    *_, last, best, jumps = by_name[SPEED]
    assert (last, best) == (pytest.approx(0.8, rel=0.01), pytest.approx(0.5, rel=0.01))
    # From nothing to 4: the planted commit alone is to blame.
    assert [jump[:2] for jump in jumps] == [[None, 4]]


def test_what_is_exported_is_in_the_graphs(published):
    folder, _ = published
    paths = [
        path for path in (folder / ".asv" / "html" / "graphs").rglob(f"{SPEED}.json") if "summary" not in path.parts
    ]
    assert [json.loads(path.read_text("utf-8"))[5] for path in paths] == [[5, [pytest.approx(0.8 * 1.004)]]]


def test_asv_compares_two_commits(published):
    folder, shas = published
    table = asv(folder, "compare", shas[3], shas[4], "--machine", "NVIDIA-H100-80GB-HBM3")
    lines = {name: line for line in table.splitlines() for name in ("tiled.pico", "naive.pico") if name in line}
    assert lines["tiled.pico"].startswith("| +")
    assert lines["naive.pico"].startswith("| -")


def test_the_command_says_what_it_did(repository):
    sha = commit(repository, "one")
    run_of(repository / "reports" / "mine", record(sha), record(None))
    done = subprocess.run(
        [sys.executable, "-m", "gravbench", "history", "export", "mine"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "1 records exported to .asv/results" in done.stdout
    assert "left out: 1 without a commit" in done.stdout
    assert (repository / ".asv" / "results" / "benchmarks.json").exists()


def test_the_command_says_what_it_cannot_write(repository):
    run = run_of(repository / "run", record(commit(repository, "one")))
    with pytest.raises(InputError, match=r"^file: cannot be written: "):
        app(["history", "export", str(run), "--to", "file"], standalone_mode=False)


def test_the_sentinels_are_few_and_each_a_case_of_their_sweep():
    cases = load(str(sentinels.SWEEP)).cases
    assert [f"{case.variant} {case.toolkit} n={case.n}" for case in cases] == list(sentinels.names())
    assert 10 <= len(cases) <= 20


def test_asv_finds_four_benchmarks_and_nothing_that_was_imported(tmp_path):
    from importlib.util import find_spec

    script = Path(find_spec("asv").origin).with_name("benchmark.py")
    out = tmp_path / "found.json"
    done = subprocess.run(
        [sys.executable, script, "discover", ROOT / "harness" / "bench", out], cwd=tmp_path, capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(out.read_text("utf-8"))
    assert {one["name"]: one["unit"] for one in found} == {
        "sentinels.Speed.track_picoseconds_per_interaction": "ps",
        "sentinels.Accuracy.track_force_error": "relative error",
        "sentinels.Registers.track_registers": "registers",
        "sentinels.Spills.track_spilled_bytes": "bytes",
    }
    # One key: measured once for all four.
    assert len({one["setup_cache_key"] for one in found}) == 1


def test_sentinels_are_measured_or_skipped_with_a_reason(tmp_path, monkeypatch):
    sweep = tmp_path / "sentinels.yaml"
    sweep.write_text(
        "measure: {processes: 1, budget_seconds: 0.05, warm_up_seconds: 0.01, min_samples: 3}\nvariants:\n"
        "  - {variant: numpy_direct, toolkit: cpu, n: [40, 50]}\n"
        "  - {variant: naive, toolkit: cupy, n: 64}\n"
        "  - {variant: not_there_yet, toolkit: cupy, n: 64}\n"
    )
    monkeypatch.setattr(sentinels, "SWEEP", sweep)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    results = sentinels.measured()
    speed, accuracy, registers = sentinels.Speed(), sentinels.Accuracy(), sentinels.Registers()
    for name in ("numpy_direct cpu n=40", "numpy_direct cpu n=50"):
        speed.setup(results, name)
        assert speed.track_picoseconds_per_interaction(results, name) > 0
        accuracy.setup(results, name)
        assert accuracy.track_force_error(results, name) < 1e-4
        with pytest.raises(NotImplementedError):
            registers.setup(results, name)
    for name, reason in {"naive cupy n=64": "GPU", "not_there_yet cupy n=64": "not_there_yet"}.items():
        with pytest.raises(NotImplementedError, match=reason):
            speed.setup(results, name)


def test_an_invalid_sentinel_has_its_error_and_no_speed():
    results = {"x": {"status": "invalid", "reason": "too wrong", "picoseconds": None, "error": 0.5, "registers": 9}}
    sentinels.Accuracy().setup(results, "x")
    assert sentinels.Accuracy().track_force_error(results, "x") == 0.5
    for other in (sentinels.Speed(), sentinels.Registers()):
        with pytest.raises(RuntimeError, match="invalid: too wrong"):
            other.setup(results, "x")


def test_asv_is_told_to_start_processes_anew():
    text = (ROOT / "asv.conf.json").read_text("utf-8")
    conf = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))
    assert conf["launch_method"] == "spawn"
    assert (ROOT / conf["benchmark_dir"] / "sentinels.py").exists()
    assert Path(conf["results_dir"]) == history.RESULTS


def test_of_several_runs_only_what_two_commits_have_is_exported(repository, tmp_path):
    first, second = commit(repository, "one"), commit(repository, "two")
    runs = [
        run_of(tmp_path / "before", record(first), record(first, n=1024), record(first, n=2048, toolkit="cupy")),
        run_of(tmp_path / "after", record(second), record(second, n=4096), record(second, n=2048, toolkit="pycuda")),
    ]
    done = history.export(runs, tmp_path / "results", repeated=True)
    assert done.records == 2
    assert done.left_out == {"measured at one commit only": 4}
    params = {path.name[:8]: json.loads(path.read_text("utf-8"))["results"][SPEED][1][0] for path in done.files}
    assert params == {first[:8]: [str(TEMPLATE.n)], second[:8]: [str(TEMPLATE.n)]}
    with pytest.raises(InputError, match="nothing to export: 3 measured at one commit only"):
        history.export(runs[:1], tmp_path / "other", repeated=True)
    assert not (tmp_path / "other").exists()


@pytest.fixture
def site(monkeypatch):
    """What the documentation's build knows of the history, in a clone that has it."""
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "hooks"))
    import history_site

    if why := history_site.obstacle():
        pytest.skip(why)
    return history_site


def test_the_page_shows_each_sentinel_at_each_commit_or_why_there_is_none(site, tmp_path, monkeypatch):
    monkeypatch.setattr(site, "RESULTS", tmp_path)
    assert site.sentinels() == "No GPU has measured the sentinels yet."
    cases = ["'a cpu n=2'", "'b cupy n=4'"]
    measured = {"44bb25f3" + "0" * 32: [1.25, math.nan], "78bc4b5f" + "0" * 32: [2000.0, 0.33333]}
    for day, (sha, times) in enumerate(measured.items()):
        heading = {"commit_hash": sha, "date": (9 - day) * 86_400_000, "params": {"gpu": "X", "os": "", "cpu": "Y"}}
        results = {"result_columns": ["result", "params"], "results": {site.SENTINELS: [times, [cases]]}, "version": 2}
        (tmp_path / "Y").mkdir(exist_ok=True)
        (tmp_path / "Y" / f"{sha[:8]}-existing.json").write_text(json.dumps(heading | results))
    assert site.sentinels().splitlines() == [
        "gpu: X; cpu: Y.",
        "",
        f"- `78bc4b5f`, 1970-01-09: {site.STATES['78bc4b5f']}",
        f"- `44bb25f3`, 1970-01-10: {site.STATES['44bb25f3']}",
        "",
        "| Picoseconds per interaction | `78bc4b5f` | `44bb25f3` |",
        "| --- | --: | --: |",
        "| a cpu n=2 | 2,000 | 1.250 |",
        "| b cupy n=4 | 0.3333 |  |",
    ]


def test_the_commits_to_measure_are_commits_of_the_line_that_asv_draws(site):
    line = subprocess.run(
        ["git", "rev-list", "--first-parent", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    for commit in site.STATES:
        assert f"\n{commit}" in line


def contents(folder):
    return {str(path.relative_to(folder)): json.loads(path.read_text("utf-8")) for path in folder.rglob("*.json")}


@pytest.mark.slow
def test_the_committed_results_are_what_the_records_give(site, tmp_path, monkeypatch):
    tracked = subprocess.run(
        ["git", "ls-files", "-z", site.RESULTS.relative_to(ROOT)], cwd=ROOT, capture_output=True, check=True
    ).stdout
    folder = f"--prefix={tmp_path / 'committed'}/"
    subprocess.run(["git", "checkout-index", "-z", "--stdin", folder], cwd=ROOT, input=tracked, check=True)
    monkeypatch.chdir(ROOT)
    _, *words = site.export_command(tmp_path / "made").split()
    app(words, standalone_mode=False)
    made, committed = contents(tmp_path / "made"), contents(tmp_path / "committed" / ".asv" / "results")
    own = {name for name in committed if "-gravbench-" in name}
    assert own == {name for name in made if "-gravbench-" in name}, "python docs/hooks/refresh.py exports them again"
    assert {name: committed[name] for name in own} == {name: made[name] for name in own}
    listed = {name: value for name, value in committed["benchmarks.json"].items() if name.startswith(history.PREFIX)}
    assert made["benchmarks.json"] == listed | {"version": 2}
    assert sum(len(json.dumps(content)) for content in committed.values()) < 3_000_000


@pytest.mark.slow
def test_asv_publishes_the_committed_history(site, tmp_path):
    assert site.publish(tmp_path) == ""
    found = json.loads((tmp_path / site.FOLDER / "index.json").read_text("utf-8"))
    names = {sha for sha in found["revision_to_hash"].values() for commit in site.commits() if sha == commit}
    assert names == set(site.commits())
    graphs = [
        json.loads(path.read_text("utf-8"))
        for path in (tmp_path / site.FOLDER / "graphs").rglob(f"{SPEED}.json")
        if "summary" not in path.parts
    ]
    assert max(len(graph) for graph in graphs) >= 2
    assert f"It shows {len(site.commits())} commits." in site.sentence("../")


def test_a_build_without_asv_or_the_whole_history_says_so(site, tmp_path, monkeypatch):
    monkeypatch.setattr(site, "_git", lambda *words: (words[2] == site.commits()[0], ""))
    assert site.publish(tmp_path).startswith(
        f"this copy of the repository lacks 1 of its {len(site.commits())} commits"
    )
    assert "is not part of this build" in site.sentence("../")
    monkeypatch.setattr(site.importlib.util, "find_spec", lambda _: None)
    assert site.publish(tmp_path).startswith("asv is not installed")
    assert list(tmp_path.iterdir()) == []


def test_texts_are_sorted_by_their_numbers_and_none_are_alike():
    texts = ["part=0.001 p=32", "part=0.01 p=4", "part=0.010 p=4", "part=0.01 p=32", "part=2 p=4", "part=10", "part=x"]
    for order in (texts, texts[::-1]):
        assert sorted(order, key=natural) == texts
