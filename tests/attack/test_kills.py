"""Runs that are killed at random moments and resumed: nothing is lost or doubled, and no process is left."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from gravbench.model.lock import LOCK
from gravbench.model.record import Record
from gravbench.model.runs import ENVIRONMENT, RECORDS, RecordFile

pytestmark = pytest.mark.slow

KILLS = 4
PATIENCE = 300.0
"""Seconds to wait for what another process does soon."""
SIZES = range(16, 26)
SWEEP = f"""n: {list(SIZES)}
measure: {{budget_seconds: 0.02, warm_up_seconds: 0.01, min_samples: 3, anchor_every: 4, processes: 2}}
variants: numpy_direct
"""
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


class Started:
    """A run in a session of its own, to which every process it starts belongs."""

    def __init__(self, folder, out):
        command = [sys.executable, "-m", "gravbench", "run", "sweep.yaml", "--device", "cpu", "--out", out]
        self.folder, self.out = folder, folder / out
        command += ["--resume"] * self.out.exists()
        self.starts, self.lines, self.files = starts_in(self.out), whole_lines(self.out), files_in(self.out)
        self.output = (folder / "output").open("w+")
        self.process = subprocess.Popen(
            command, cwd=folder, stdout=self.output, stderr=subprocess.STDOUT, start_new_session=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
            # What a shell starts in the background ignores Ctrl-C, and so would what it starts.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip

    def wait_for(self, condition):
        """Wait until it holds or the run has ended."""
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None and not condition():
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def go_on_for_a_while(self, chance):
        """Wait for a random time, or until so many records are there and a bit longer."""
        if chance.random() < 0.25:
            moment = time.monotonic() + chance.uniform(0, 4)
            self.wait_for(lambda: time.monotonic() >= moment)
        else:
            lines = len(self.lines) + chance.choice([0, 1, 1, 2, 3, 5])
            self.wait_for(lambda: starts_in(self.out) > self.starts and len(whole_lines(self.out)) >= lines)
            time.sleep(chance.choice([0, chance.uniform(0, 0.1), chance.uniform(0, 1)]))

    def end(self):
        """Return the exit code and what was printed; no process of the run may be left."""
        code = self.process.wait(PATIENCE)
        deadline = time.monotonic() + PATIENCE
        while left := in_session(self.process.pid):
            assert time.monotonic() < deadline, left
            time.sleep(0.02)
        self.output.seek(0)
        said = self.output.read()
        self.output.close()
        return code, said

    def kill(self, whom, number):
        """Send a signal, to the parent, to its group or to the session; tell whether there was one to send it to."""
        if self.process.poll() is not None:
            return False
        try:
            if whom == "session":
                os.kill(next(pid for pid in in_session(self.process.pid) if "spawn_main" in command_of(pid)), number)
            else:
                (os.killpg if whom == "group" else os.kill)(self.process.pid, number)
        except (StopIteration, ProcessLookupError):
            return False
        return True


def in_session(session):
    """Return the living processes of a session."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, of = path.read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(of) == session and state not in "ZX":
            found.append(int(path.parent.name))
    return found


def command_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def whole_lines(out):
    path = out / RECORDS
    return path.read_bytes().splitlines(keepends=True) if path.exists() else []


def starts_in(out):
    path = out / ENVIRONMENT
    return len(json.loads(path.read_text())) if path.exists() else 0


def files_in(out):
    return {path.name for path in out.iterdir()} if out.exists() else set()


def check(run, code, said, whom, number):
    """Hold what a run left against what was there before and what it said."""
    lines = whole_lines(run.out)
    if lines and not lines[-1].endswith(b"\n"):
        assert (whom, number) != ("session", number)
        assert number == signal.SIGKILL, "half a line"
        lines.pop()
    before = [line for line in run.lines if line.endswith(b"\n")]
    assert lines[: len(before)] == before
    records = [Record.model_validate_json(line) for line in lines]
    doubled = Counter((one.key, one.anchor) for one in records if one.status == "ok")
    assert set(doubled.values()) <= {1}
    # Who reads that a case is done can rely on it.
    told = sum(line.startswith(("+", "x")) for line in said.splitlines())
    assert told <= len(lines) - len(before) <= told + 1
    failed = [one.reason for one in records[len(before) :] if one.status != "ok"]
    if whom == "parent":
        assert failed == []
    assert all("the session died" in reason for reason in failed), failed
    assert starts_in(run.out) - run.starts in (0, 1)
    if number is None or whom == "session":
        assert (code, "Traceback" in said) == (0, False)
    else:
        ends = {0, -number if number == signal.SIGKILL else 128 + number}
        if starts_in(run.out) == run.starts or "Show them: " in said:
            ends |= {-number, 1}  # of Python, before it has come to gravbench or after it has left
        assert code in ends
        if code == 128 + number:
            assert "Traceback" not in said
            assert "gravbench: stopped" in said
            if len(lines) > len(before):
                assert f"gravbench run {run.folder / 'sweep.yaml'} --resume --out {run.out} --device cpu" in said
    # What a killed process leaves, the next one that comes so far removes.
    killed = number == signal.SIGKILL and whom != "session"
    assert files_in(run.out) - run.files <= {RECORDS, ENVIRONMENT, "worker.log", *([LOCK, "environment.tmp"] * killed)}
    if code == 0:
        assert files_in(run.out) == {RECORDS, ENVIRONMENT, "worker.log"}
    return records


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@pytest.mark.timeout(0)
def test_whatever_is_killed_whenever_nothing_is_lost_or_doubled_and_no_process_is_left(tmp_path, attacks):
    """Each run is killed and resumed until it is whole, then another begins."""
    chance = random.Random(1)
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    count = Counter()
    number_of_runs = kills = 0
    whole = True
    while kills < KILLS * attacks or not whole:
        number_of_runs += whole
        run = Started(tmp_path, f"out-{number_of_runs}")
        whom, number = None, None
        if kills < KILLS * attacks:
            whom = chance.choices(["parent", "group", "session"], [3, 2, 1])[0]
            number = chance.choice(SIGNALS if whom != "session" else [signal.SIGKILL, signal.SIGTERM])
            run.go_on_for_a_while(chance)
            if run.kill(whom, number):
                kills += 1
                count[f"{number.name} to the {whom}"] += 1
            else:
                whom = number = None
        code, said = run.end()
        try:
            records = check(run, code, said, whom, number)
        except AssertionError as error:
            error.add_note(f"kill {kills}, {number} to the {whom}, exit code {code}, in {run.out}; it said: {said}")
            raise
        whole = code == 0 and {one.n for one in records if one.status == "ok"} == set(SIZES)
        count["runs that were whole in the end"] += whole
        count["lines of records"] += len(records) if whole else 0
    assert [one.n for one in RecordFile(run.out).read() if one.status == "ok"]
    print(f"{kills} kills:", ", ".join(f"{number} {name}" for name, number in sorted(count.items())))  # noqa: T201
