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
from typer.testing import CliRunner

from gravbench.cli.main import app
from gravbench.cli.measuring import _resuming
from gravbench.config.load import load
from gravbench.errors import InputError
from gravbench.measuring.shards import take
from gravbench.model.runs import ENVIRONMENT, RECORDS, RecordFile
from gravbench.model.shard import Shard
from test_merging import TINY, measured

PATIENCE = 300.0
SWEEP = """n: [16]
measure: {budget_seconds: 5, warm_up_seconds: 0.01, min_samples: 3, anchor_every: 4, processes: 1}
variants: [{variant: numpy_direct}, {variant: numba_direct}]
"""
OPTIONS = ["-p", "n=16..27+1", "-p", "measure.budget_seconds=0.02", "--variant", "numpy_direct", "--toolkit", "cpu",
           "--device", "cpu", "--shard", "1/2"]  # fmt: skip
CONFIG, OUT = "my sweep's.yaml", 'the "first" run; of $HOME'


def command(*words):
    done = CliRunner().invoke(app, list(map(str, words)))
    assert isinstance(done.exception, SystemExit | InputError | None), done.exception
    return (2, str(done.exception)) if isinstance(done.exception, InputError) else (done.exit_code, done.output)


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
    assert shlex.split(pasted)[:6] == ["gravbench", "run", CONFIG, "--resume", "--out", OUT]
    again = subprocess.run(pasted, shell=True, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert again.returncode == 0, again.stdout + again.stderr
    assert path.read_bytes().startswith(before)
    sweep = take(load(CONFIG, OPTIONS[1:4:2], variants=["numpy_direct"], toolkits=["cpu"]), Shard(1, 2))
    records = RecordFile(path.parent).read(pytest.fail)
    assert {record.key for record in records} == {case.key for case in sweep.cases}
    assert {record.status for record in records} == {"ok"}
    assert set(Counter((record.key, record.anchor) for record in records).values()) == {1}
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted([CONFIG, OUT])


def test_the_command_has_every_option_and_a_shell_takes_it_apart_as_it_was():
    given = {"-p": ["n=1 2", "x=a'b"], "--variant": ["tiled", "naive"], "--toolkit": None, "--bodies": "my $file.tab",
             "--subset": None, "--shard": "3/16", "--search": "race", "--dask": None}  # fmt: skip
    text = _resuming("a b.yaml", given, Path("o u t"), counters=True)
    assert shlex.split(text) == [
        *("gravbench", "run", "a b.yaml", "--resume", "--out", "o u t", "--counters", "-p", "n=1 2", "-p", "x=a'b"),
        *(
            "--variant",
            "tiled",
            "--variant",
            "naive",
            "--bodies",
            "my $file.tab",
            "--shard",
            "3/16",
            "--search",
            "race",
        ),
    ]
    assert shlex.split(_resuming("-x.yaml", {}, Path("out"), counters=False))[-2:] == ["--", "-x.yaml"]


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
