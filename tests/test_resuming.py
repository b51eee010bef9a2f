"""A run that was interrupted is continued by the command that it prints, and by no other sweep."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from conftest import command
from gravbench.cli import resuming
from gravbench.config.load import load
from gravbench.measuring.plan import plan
from gravbench.measuring.shards import take
from gravbench.model.runs import ENVIRONMENT, RECORDS, RecordFile
from gravbench.model.shard import Shard
from test_merging import TINY, measured
from test_runner import PROCESSOR

PATIENCE = 300.0
SWEEP = """n: [16]
measure: {budget_seconds: 5, warm_up_seconds: 0.01, min_samples: 3, anchor_every: 4, processes: 1}
variants: [{variant: numpy_direct}, {variant: numba_direct}]
"""
OPTIONS = ["-p", "n=16..27+1", "-p", "measure.budget_seconds=0.02", "--variant", "numpy_direct", "--toolkit", "cpu",
           "--device", "cpu", "--shard", "1/2"]  # fmt: skip
CONFIG, OUT = "my sweep's.yaml", 'the "first" run; of $HOME'


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="sends signals to a session")
@pytest.mark.timeout(900)
def test_the_command_that_an_interrupted_run_prints_completes_it_when_a_shell_runs_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / CONFIG).write_text(SWEEP)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")
    run = subprocess.Popen(
        ["gravbench", "run", CONFIG, *OPTIONS, "--out", OUT], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    path = tmp_path / OUT / RECORDS
    deadline = time.monotonic() + PATIENCE
    while run.poll() is None and not (path.exists() and path.read_bytes().count(b"\n")):
        assert time.monotonic() < deadline
        time.sleep(0.005)
    run.send_signal(signal.SIGINT)
    text, _ = run.communicate(timeout=PATIENCE)
    assert run.returncode == 128 + signal.SIGINT, text
    before = path.read_bytes()
    pasted = text.rpartition("To continue: ")[2]
    here = ["gravbench", "run", str(tmp_path / CONFIG), "--resume", "--out", str(tmp_path / OUT)]
    assert shlex.split(pasted)[:6] == here
    (tmp_path / "elsewhere").mkdir()
    again = subprocess.run(
        pasted, shell=True, capture_output=True, text=True, timeout=PATIENCE, check=False, cwd=tmp_path / "elsewhere"
    )
    assert again.returncode == 0, again.stdout + again.stderr
    (tmp_path / "elsewhere").rmdir()
    assert path.read_bytes().startswith(before)
    sweep = take(load(CONFIG, OPTIONS[1:4:2], variants=["numpy_direct"], toolkits=["cpu"]), Shard(1, 2))
    records = RecordFile(path.parent).read(pytest.fail)
    assert {record.key for record in records} == {case.key for case in sweep.cases}
    assert {record.status for record in records} == {"ok"}
    assert set(Counter((record.key, record.anchor) for record in records).values()) == {1}
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted([CONFIG, OUT])


def test_the_command_has_every_option_and_a_shell_takes_it_apart_as_it_was(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = {"-p": ["n=1 2", "x=a'b"], "--variant": ["tiled", "naive"], "--toolkit": None, "--bodies": "my $file.tab",
             "--subset": None, "--shard": "3/16", "--search": "race", "--dask": None}  # fmt: skip
    text = resuming.command("a b.yaml", given, Path("o u t"), counters=True)
    assert shlex.split(text) == [
        *("gravbench", "run", str(tmp_path / "a b.yaml"), "--resume", "--out", str(tmp_path / "o u t"), "--counters"),
        *("-p", "n=1 2", "-p", "x=a'b", "--variant", "tiled", "--variant", "naive", "--bodies", "my $file.tab"),
        *("--shard", "3/16", "--search", "race"),
    ]
    assert shlex.split(resuming.command("-x.yaml", {}, Path("out"), counters=False))[2] == str(tmp_path / "-x.yaml")
    assert shlex.split(resuming.command("quick", {}, Path("out"), counters=False))[2] == "quick"


def test_files_have_their_whole_paths_and_names_stay_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("some.tab", "mine.py", "scheduler.json", "plummer", "gravity", "local"):
        (tmp_path / name).write_text("")
    given = {"--bodies": "some.tab", "--dask": "scheduler.json",
             "-p": ["bodies=plummer,some.tab", " interaction = gravity , mine.py", "p=some.tab"]}  # fmt: skip
    assert shlex.split(resuming.command("quick", given, Path("out"), counters=False))[6:] == [
        *("--bodies", str(tmp_path / "some.tab"), "--dask", str(tmp_path / "scheduler.json")),
        *("-p", f"bodies=plummer,{tmp_path / 'some.tab'}", "-p", f" interaction =gravity,{tmp_path / 'mine.py'}"),
        *("-p", "p=some.tab"),
    ]
    assert shlex.split(resuming.command("quick", {"--dask": "local"}, Path("out"), counters=False))[6:] == [
        "--dask",
        "local",
    ]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A run of a sweep of eight cases."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.yaml").write_text(TINY)
    return measured(load("tiny.yaml"), tmp_path / "out", count=3)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["-p", "n=16,17"],
            "the run has 8 cases and this sweep 4 cases, 4 of which are the same; it was",
        ),
        (["--variant", "numpy_direct"], "the run has 8 cases and this sweep 4 cases, 4 of which are the same"),
        (["-p", "n=16..30+1"], "the run has 8 cases and this sweep 30 cases, 8 of which are the same"),
        (["-p", "measure.budget_seconds=7"], "sweep: measure.budget_seconds is 0.02 in the run and 7.0 in this sweep"),
        (["-p", "flops_per_interaction=38"], "flops_per_interaction is None in the run and 38.0 in this sweep"),
    ],
)
def test_a_sweep_that_differs_is_refused_with_the_difference_and_the_folder_stays_as_it_is(options, said, folder):
    before = {path: path.read_bytes() for path in folder.iterdir()}
    for dry in (["--dry-run"], []):
        code, sentence = command("run", "tiny.yaml", "--device", "cpu", *options, "--resume", "--out", folder, *dry)
        assert code == 2
        assert said in sentence
        assert f"{ENVIRONMENT}: the run there is of another sweep" in sentence
        assert "it was started by `gravbench run`" in sentence
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--search", "race"],
        ["-p", "search.budget_trials=20", "--search", "race"],
        ["-p", "measure.log_megabytes=3"],
    ],
)
def test_how_to_search_and_the_limits_of_a_host_may_change(options, folder):
    code, sentence = command("run", "tiny.yaml", "--device", "cpu", *options, "--resume", "--out", folder, "--dry-run")
    assert code == 0, sentence


def test_of_an_older_run_the_records_tell_the_sweep(folder):
    path = folder / ENVIRONMENT
    entries = [{name: entry[name] for name in ("command", "harness_version")} for entry in json.loads(path.read_text())]
    path.write_text(json.dumps(entries))
    assert command("run", "tiny.yaml", "--device", "cpu", "--resume", "--out", folder, "--dry-run")[0] == 0
    code, sentence = command("run", "tiny.yaml", "--device", "cpu", "-p", "n=99", "--resume", "--out", folder)
    assert code == 2
    assert "of its records are of no case of this sweep" in sentence


def test_a_folder_that_does_not_exist_is_not_resumed(folder):
    options = ["--device", "cpu", "--resume", "--out", "elsewhere"]
    for dry in (["--dry-run"], []):
        code, sentence = command("run", "tiny.yaml", *options, *dry)
        said = "--out elsewhere: no such folder; accepted with --resume: the folder of a run that was begun"
        assert (code, sentence) == (2, said)
    assert sorted(path.name for path in folder.parent.iterdir()) == ["out", "tiny.yaml"]


def test_without_its_environment_the_records_tell_the_sweep(folder):
    (folder / ENVIRONMENT).unlink()
    options = ["--device", "cpu", "--resume", "--out", folder]
    assert command("run", "tiny.yaml", *options, "--dry-run")[0] == 0
    count = len((folder / RECORDS).read_bytes().splitlines())
    for dry in (["--dry-run"], []):
        code, sentence = command("run", "tiny.yaml", "-p", "n=99", *options, *dry)
        assert code == 2
        said = f"{folder / RECORDS}: the run there is of another sweep: {count} of its records are of no case of this"
        assert sentence.startswith(said)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["-p", "n=99"],
            "another sweep: 3 of its records are of no case of this sweep; measure.budget_seconds is 5.0 ",
        ),
        (["-p", "n=16..19+1,64"], "another sweep: measure.budget_seconds is 5.0 in the run and 0.02 in this sweep; it"),
        (
            ["-p", "n=16..19+1,64", "-p", "measure.budget_seconds=5"],
            "another sweep: it has results of 3 of the 10 cases of this sweep; it was",
        ),
    ],
)
def test_of_a_run_whose_list_of_cases_is_missing_the_records_tell_the_difference(options, said, folder):
    """As version 1.0.0 left it."""
    path = folder / ENVIRONMENT
    entries = [{name: value for name, value in one.items() if name != "sweep"} for one in json.loads(path.read_text())]
    path.write_text(json.dumps(entries))
    lines = [json.loads(line) for line in (folder / RECORDS).read_text().splitlines()]
    protocol = {"budget_seconds": 5.0, "min_samples": 3.0, "processes": 1.0}
    (folder / RECORDS).write_text("".join(json.dumps(line | {"protocol": protocol}) + "\n" for line in lines))
    assert command("run", "tiny.yaml", "--device", "cpu", "--resume", "--out", folder, "--dry-run")[0] == 0
    code, sentence = command("run", "tiny.yaml", "--device", "cpu", *options, "--resume", "--out", folder, "--dry-run")
    assert code == 2
    assert said in sentence


def test_a_line_that_is_skipped_is_said_once(folder, capsys):
    with (folder / RECORDS).open("a") as file:
        file.write("{}\n")
    code, text = command("run", "tiny.yaml", "--device", "cpu", "--resume", "--out", folder, "-p", "n=16..19+1")
    assert code == 0, text
    assert " ".join((text + capsys.readouterr().err).split()).count("skipped 1 line that is not a record") == 1


def test_an_anchor_without_its_first_measurement_is_measured_again(folder):
    """As after the removal of a line that states what was not measured."""
    path = folder / RECORDS
    lines = path.read_text().splitlines()
    repeated = json.loads(lines[0])
    assert repeated["anchor"] == 1
    path.write_text("\n".join([*lines[1:], json.dumps(repeated | {"anchor": 2})]) + "\n")
    todo = plan(load("tiny.yaml"), [PROCESSOR], None, RecordFile(folder).read())
    own = [task for task in todo.tasks if task.case.key == RecordFile(folder).read()[-1].key]
    assert any(task.anchor <= 1 for task in own)
    assert todo.reused == len(lines) - 1


def test_an_anchor_that_is_taken_over_and_repeated_is_planned_once(folder):
    done, sweep = RecordFile(folder).read(), load("tiny.yaml")
    todo = plan(sweep, [PROCESSOR], None, done)
    assert {record.key for record in done} & {task.case.key for task in todo.tasks}
    assert todo.planned == len({case.key for case in sweep.cases})


@pytest.mark.parametrize(
    "false",
    [{"error_max": 0.01, "error_magnitude_max": 0.01}, {"bodies_sha256": "0" * 64}, {"ci_low": 1e-9}],
    ids=str,
)
def test_what_merge_refuses_is_mended_as_it_says(false, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.yaml").write_text(SWEEP)
    options = ["tiny.yaml", "--device", "cpu", "--variant", "numpy_direct", "-p", "n=16..18+1", "--out", "run"]
    options += ["-p", "measure.budget_seconds=0.02"]
    assert command("run", *options)[0] == 0
    path = tmp_path / "run" / RECORDS
    lines = path.read_text().splitlines()
    path.write_text("\n".join([json.dumps(json.loads(lines[0]) | false), *lines[1:]]) + "\n")
    code, sentence = command("merge", "run", "--out", "merged")
    assert code == 2
    assert sentence.startswith(f"run/{RECORDS}, line 1: ")
    assert sentence.endswith("; remove the line, and continue the run with --resume")
    path.write_text("\n".join(lines[1:]) + "\n")
    assert command("run", *options, "--resume")[0] == 0
    code, text = command("merge", "run", "--out", "merged")
    assert (code, "of 3 cases are in merged" in text) == (0, True), text
