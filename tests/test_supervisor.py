"""What a session may use, and that nothing it started outlives it."""

# ruff: noqa: ARG001 - what pretended sessions do takes the same arguments

import contextlib
import gc
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from filelock import FileLock

from conftest import wait_until
from gravbench.config.load import load
from gravbench.config.settings import Measure
from gravbench.measuring import processes, runner, supervisor
from gravbench.measuring.outcome import Outcome
from gravbench.measuring.plan import plan
from gravbench.measuring.processes import workplace
from gravbench.measuring.reaper import MARK
from gravbench.measuring.session import READY, Message
from gravbench.measuring.stages import Job
from gravbench.measuring.supervisor import Limits, Session
from gravbench.model.device import Device
from gravbench.model.variant import CPU
from gravbench.toolkits.devices import processor_name

FAULTY = Path(__file__).parent / "faulty" / "cpu"
PROCESSOR = Device(CPU, processor_name())
AMPLE = Limits(seconds=60, memory_bytes=8e9, log_bytes=1e6)
PATIENCE = 60.0


def alive(pid):
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


class Pretended:
    """What a session does in place of cases: each is a function of this module, named in place of the variant."""

    def __init__(self, does):
        self.does = does

    def __call__(self, connection, orders):
        """Do for each job what it names, as ``session.serve`` measures a case."""
        from gravbench.measuring import session

        session.ignore_interrupts()
        session.print_to(orders.log)
        connection.send(READY)
        while True:
            job = connection.recv()
            connection.send(Message(job.number, "verifying"))
            globals()[self.does](connection, job)
            connection.send(Message(job.number, Outcome("ok")))


@pytest.fixture
def begin(tmp_path, monkeypatch):
    """Begin sessions that do what a function of this module says."""
    with workplace() as place, contextlib.ExitStack() as stack:

        def begun(does, limits=AMPLE):
            monkeypatch.setattr(supervisor, "serve", Pretended(does))
            session = Session(place, PROCESSOR, (), tmp_path / "worker.log", limits)
            stack.callback(session.end)
            return session

        yield begun


def job(number=1):
    return Job(number, None, None)


def nothing(connection, job):
    """Be through at once."""


def waits(connection, job):
    time.sleep(600)


def starts_processes(connection, job):
    """Start a child, one in its own session, one that forks, and one whose parent is gone; write down which."""
    started = [subprocess.Popen(["sleep", "600"], start_new_session=leaves).pid for leaves in (False, True)]
    if (child := os.fork()) == 0:
        time.sleep(600)
    reads, writes = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if (orphan := os.fork()) == 0:
            time.sleep(600)
        os.write(writes, str(orphan).encode())
        os._exit(0)
    pids = [os.getpid(), *started, child, int(os.read(reads, 20))]
    connection.send(Message(job.number, " ".join(map(str, pids))))
    time.sleep(600)


def dies(connection, job):
    os.write(1, b"x" * 1000 + b"\n")
    os.kill(os.getpid(), signal.SIGSEGV)


def sends_nonsense(connection, job):
    connection._send_bytes(b"nonsense")
    time.sleep(600)


def sends_of_another_job(connection, job):
    connection.send(Message(job.number - 1, Outcome("failed", "of another job")))
    connection.send("nothing of this kind")


def forks(connection, job):
    """Go on in two processes, of which one is not the session."""
    from gravbench.measuring import session

    process = os.getpid()
    os.fork()
    session._end_if_forked(process)


def prints(connection, job):
    os.write(1, b"x" * 600_000)


def prints_much(connection, job):
    for _ in range(30):
        os.write(1, b"x" * 100_000)
    time.sleep(600)


def allocates(connection, job):
    kept = [bytearray(os.urandom(1 << 20) * 64) for _ in range(20)]
    time.sleep(600 + len(kept))


def shares_memory(connection, job):
    """Use a quarter of a gigabyte together with four children."""
    kept = bytearray(os.urandom(1 << 20) * 256)
    children = []
    for _ in range(4):
        children.append(os.fork())
        if not children[-1]:
            sum(kept[:: 1 << 12])
            time.sleep(600)
    time.sleep(3.5)
    for child in children:
        os.kill(child, signal.SIGKILL)


def begun_stage(session, number=1):
    """Give a job and return the first stage that says more than that it begins."""
    session.give(job(number))
    while True:
        if session.connection.poll(PATIENCE):
            content = session.look()
            if content and content != "verifying":
                return content


def test_no_process_of_a_session_is_left_once_it_is_ended(begin, monkeypatch):
    monkeypatch.setattr(processes, "CONTEXT", processes.multiprocessing.get_context("spawn"))
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    session = begin("starts_processes")
    pids = [int(word) for word in begun_stage(session).split()]
    assert len(pids) == 5
    assert all(map(alive, pids))
    session.process.list_others()
    assert len(session.process.others) >= 3
    session.end()
    assert not [pid for pid in pids if alive(pid)]


def test_a_session_that_dies_says_how_and_what_it_printed_is_in_the_log(begin, tmp_path):
    session = begin("dies")
    outcome = session.ask(job())
    assert (outcome.status, outcome.broken) == ("failed", True)
    assert outcome.reason == "the session died while verifying: signal SIGSEGV"
    session.end()
    assert (tmp_path / "worker.log").read_text() == "x" * 1000 + "\n"


def test_a_session_that_is_killed_may_have_run_out_of_memory(begin):
    session = begin("waits")
    session.give(job())
    os.kill(session.process.root.pid, signal.SIGKILL)
    while not isinstance(outcome := session.look(), Outcome):
        pass
    assert outcome.reason.endswith(": signal SIGKILL, which the system sends when memory runs out")


def test_what_is_no_message_fails_the_case(begin):
    outcome = begin("sends_nonsense").ask(job())
    assert (outcome.status, outcome.broken) == ("failed", True)
    assert outcome.reason.startswith("the session sent what cannot be read while verifying: ")


def test_a_message_of_another_job_is_of_no_account(begin):
    session = begin("sends_of_another_job")
    assert [session.ask(job(number)).status for number in (1, 2, 3)] == ["ok"] * 3


def test_what_is_forked_off_a_session_ends_and_sends_nothing(begin):
    session = begin("forks")
    for number in range(1, 5):
        assert session.ask(job(number)).status == "ok"
    wait_until(lambda: not [child for child in session.process.root.children() if alive(child.pid)])
    assert not session.connection.poll(0.1)


def test_a_session_that_takes_too_long_fails_its_case(begin):
    outcome = begin("waits", Limits(0.5, 8e9, 1e6)).ask(job())
    # Where much else runs, it takes as long to start.
    said = r"no result within 0\.5 s \(measure\.timeout_seconds\) while (starting|verifying)"
    assert re.fullmatch(said, outcome.reason)
    assert outcome.broken


def test_output_beyond_the_limit_is_cut_off_and_fails_the_case(begin, tmp_path):
    session = begin("prints_much")
    outcome = session.ask(job())
    said = "the session was stopped while verifying: it wrote more than 1 MB of output (measure.log_megabytes)"
    assert (outcome.reason, outcome.broken) == (said, True)
    session.end()
    written = (tmp_path / "worker.log").read_text()
    assert written.rstrip("\n").endswith("x\n[more than 1 MB (measure.log_megabytes): the rest is cut off]")
    assert written.count("x") == 1_000_000


def test_the_limit_of_output_is_that_of_each_case(begin, tmp_path):
    session = begin("prints")
    assert [session.ask(job(number)).status for number in range(1, 6)] == ["ok"] * 5
    assert (tmp_path / "worker.log").stat().st_size == 3_000_000


@pytest.mark.slow
def test_memory_beyond_the_limit_fails_the_case(begin):
    outcome = begin("allocates", Limits(60, 0.75e9, 1e6)).ask(job())
    said = "the session was stopped while verifying: it used more than 0.75 GB of memory (measure.memory_gigabytes)"
    assert (outcome.reason, outcome.broken) == (said, True)


@pytest.mark.slow
def test_memory_that_processes_share_counts_once(begin):
    assert begin("shares_memory", Limits(60, 0.75e9, 1e6)).ask(job()).status == "ok"


def test_without_a_limit_of_its_own_a_session_may_use_nine_tenths_of_the_memory_here():
    physical = psutil.virtual_memory().total
    assert 0 < Limits.of(Measure()).memory_bytes <= 0.9001 * physical
    assert Limits.of(Measure(memory_gigabytes=2)).memory_bytes == 2e9


@pytest.mark.skipif(sys.platform != "linux", reason="counts open files as psutil does on Linux")
def test_a_session_that_has_ended_leaves_no_file_open(tmp_path, monkeypatch):
    monkeypatch.setattr(supervisor, "serve", Pretended("nothing"))
    counts = []
    with workplace() as place:
        for _ in range(3):
            session = Session(place, PROCESSOR, (), tmp_path / "worker.log", AMPLE)
            assert session.ask(job()).status == "ok"
            session.end()
            del session
            gc.collect()
            counts.append(psutil.Process().num_fds())
    assert counts == counts[:1] * 3


def test_ctrl_c_does_not_reach_a_session(begin):
    session = begin("nothing")
    assert session.ask(job()).status == "ok"
    os.kill(session.process.root.pid, signal.SIGINT)
    assert session.ask(job(2)).status == "ok"


def test_a_session_that_is_suspended_computes_nothing_until_it_is_resumed(begin):
    session = begin("waits")
    session.give(job())
    wait_until(lambda: session.look() == "verifying")
    session.suspend()
    wait_until(lambda: session.process.root.status() == psutil.STATUS_STOPPED)
    session.resume()
    wait_until(lambda: session.process.root.status() != psutil.STATUS_STOPPED)


def test_a_session_that_imports_is_suspended_and_one_that_is_ready_is_not(begin):
    starting, ready = begin("nothing"), begin("nothing")
    starting.suspend()
    assert not starting.connection.poll(0.5)
    wait_until(ready.connection.poll)
    ready.suspend()
    assert ready.process.root.status() != psutil.STATUS_STOPPED
    assert ready.is_ready
    starting.resume()
    assert starting.connection.poll(PATIENCE)


@pytest.mark.slow
def test_a_session_imports_nothing_of_the_program_that_starts_it(tmp_path):
    text = """
import gravbench, sys
print("imported")
sweep = gravbench.load("quick", ["n=64", "measure.budget_seconds=0.01"], variants=["numpy_direct"])
print([record.status for record in gravbench.run(sweep, sys.argv[1], devices=["cpu"])])
"""
    program = tmp_path / "program.py"
    program.write_text(text)
    command = [sys.executable, str(program), str(tmp_path / "out")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (ran.stdout.splitlines(), ran.stderr) == (["imported", "['ok']"], "")


ENDED = """
import os, signal, subprocess, sys
from gravbench.measuring.processes import _marked, workplace
with workplace() as place:
    with _marked(place.mark + "1."):
        # One that has left its parent behind, and has a session of its own.
        subprocess.Popen(["sh", "-c", "setsid sleep 600 & echo $!"], stdout=1).wait()
    print(place.folder, flush=True)
    if sys.argv[1] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("ended", ["ended", "killed"])
def test_nothing_that_a_run_started_is_left_once_it_has_ended_or_was_killed(ended, tmp_path, monkeypatch):
    # Any run that begins removes the folders of those that were killed: the tests beside this one look elsewhere.
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    command = [sys.executable, "-c", ENDED, ended]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ran.returncode == (-signal.SIGKILL if ended == "killed" else 0), ran.stderr
    started, folder = ran.stdout.split()
    wait_until(lambda: not alive(int(started)))
    assert Path(folder).exists() == (ended == "killed")
    with workplace() as place:
        assert place.folder.exists()
        assert not Path(folder).exists()
    assert MARK not in os.environ


def test_the_folder_of_a_run_that_goes_on_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr(processes.tempfile, "gettempdir", lambda: str(tmp_path))
    mine = tmp_path / "gravbench-run-mine"
    mine.mkdir()
    with workplace() as first, workplace() as second:
        assert first.folder.exists()
        assert second.folder.exists()
        assert first.mark != second.mark
    assert mine.exists()


class SlowLock(FileLock):
    """Lets others run between making its file and locking it."""

    def _acquire(self):
        Path(self.lock_file).touch()
        time.sleep(random.uniform(0, 0.02))
        super()._acquire()


def test_runs_that_start_at_the_same_time_leave_each_other_their_folders(tmp_path, monkeypatch):
    monkeypatch.setattr(processes.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(processes, "FileLock", SlowLock)
    monkeypatch.setattr(processes, "reaping", lambda _: contextlib.nullcontext())

    def start_and_end(_):
        for _ in range(10):
            with workplace() as place:
                assert place.folder.exists()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(start_and_end, range(4)))
    assert not list(tmp_path.glob("gravbench-run-*"))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_what_uses_too_much_or_leaves_processes_fails_with_a_sentence_and_the_sweep_goes_on(tmp_path, monkeypatch):
    monkeypatch.setenv("GRAVBENCH_TEST_PROCESSES", str(tmp_path / "processes"))
    monkeypatch.setattr(processes, "CONTEXT", processes.multiprocessing.get_context("spawn"))
    config = tmp_path / "faults.yaml"
    config.write_text(
        f"variant_folders: [{FAULTY}]\nn: 40\n"
        "measure: {processes: 1, budget_seconds: 0.05, warm_up_seconds: 0, memory_gigabytes: 1.5, log_megabytes: 0.5}\n"
        "variants: [prints, uses_memory, leaves_processes, gated]\n"
    )
    todo = plan(load(str(config)), [PROCESSOR], None, anchors=False)
    out = tmp_path / "out"
    records = {record.variant: record for record in runner.run(load(str(config)), todo, out, runner.SILENT)}
    assert records["gated"].status == "ok"
    expected = {
        "prints": "was stopped while verifying: it wrote more than 0.5 MB of output (measure.log_megabytes)",
        "uses_memory": "was stopped while verifying: it used more than 1.5 GB of memory (measure.memory_gigabytes)",
        "leaves_processes": "died while verifying: signal SIGSEGV",
    }
    for name, reason in expected.items():
        assert (records[name].status, records[name].reason) == ("failed", f"the session {reason}")
    assert (out / runner.WORKER_LOG).stat().st_size < 600_000
    left = [int(word) for word in (tmp_path / "processes").read_text().split()]
    assert len(left) == 3
    assert not [pid for pid in left if alive(pid)]
