"""What a worker may use, and that nothing it started outlives it."""

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gravbench.config.load import load
from gravbench.config.settings import Measure
from gravbench.measuring import guard, runner
from gravbench.measuring.guard import Limits, guarded
from gravbench.measuring.plan import plan
from gravbench.model.device import Device
from gravbench.model.variant import CPU
from gravbench.toolkits.devices import processor_name
from workers import Forking

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the guard looks at /proc")

FAULTY = Path(__file__).parent / "faulty" / "cpu"
AMPLE = Limits(memory_gigabytes=8, log_megabytes=1)
PATIENCE = 60.0
kept = []


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def worker(connection, words, log, limits, does):
    """Be guarded, do what ``does`` names, and wait."""
    guarded(connection, words, log, limits)
    found = globals()[does]()
    connection.send([os.getpid(), *(found or [])])
    time.sleep(600)


def start(folder, does, limits=AMPLE, context=None):
    context = context or Forking("preloaded")
    ours, theirs = context.Pipe()
    words, says = context.Pipe(duplex=False)
    arguments = (theirs, says, folder / "worker.log", limits, does)
    process = context.Process(target=worker, args=arguments, daemon=True)
    process.start()
    theirs.close()
    says.close()
    return process, ours, words


def nothing():
    """Wait at once."""


def processes():
    """Start a child, one in its own session, one that forks, and one whose parent is gone."""
    started = [subprocess.Popen(["sleep", "600"], start_new_session=own).pid for own in (False, True)]
    if (child := os.fork()) == 0:
        time.sleep(600)
    reads, writes = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if (orphan := os.fork()) == 0:
            time.sleep(600)
        os.write(writes, str(orphan).encode())
        os._exit(0)
    return [*started, child, int(os.read(reads, 20))]


def prints_and_dies():
    os.write(1, b"x" * 1000 + b"\n")
    os.kill(os.getpid(), 40)  # a signal without a name


def prints_much():
    for _ in range(100):
        os.write(1, b"x" * 100_000)


def prints_several_cases():
    for _ in range(5):
        guard.begin_case()
        os.write(1, b"x" * 600_000)
        time.sleep(0.5)


def allocates():
    kept = [bytearray(os.urandom(1 << 20) * 64) for _ in range(20)]
    time.sleep(600)
    return kept


def locks():
    """Make locks between processes, as Numba does before its first parallel loop where processes are forked."""
    import numba

    kept.append(multiprocessing.RLock())
    kept.append(numba.get_num_threads())


def shares_memory():
    """Use a quarter of a gigabyte together with four children."""
    kept = bytearray(os.urandom(1 << 20) * 256)
    for _ in range(4):
        if os.fork() == 0:
            sum(kept[:: 1 << 12])
            time.sleep(600)
    time.sleep(1.5)
    return [len(kept)]


def test_no_process_of_a_worker_is_left_once_it_is_stopped(tmp_path):
    process, ours, _ = start(tmp_path, "processes")
    pids = ours.recv()
    assert len(pids) == 5
    assert all(map(alive, pids))
    process.terminate()
    process.join(PATIENCE)
    assert not [pid for pid in pids if alive(pid)]


def test_no_process_of_a_worker_is_left_once_it_has_died(tmp_path):
    process, ours, words = start(tmp_path, "processes")
    pids = ours.recv()
    os.kill(pids[0], signal.SIGKILL)
    assert words.poll(PATIENCE)
    assert words.recv() == ("died", "signal SIGKILL, which the system sends when memory runs out")
    process.join(PATIENCE)
    assert not [pid for pid in pids if alive(pid)]


PARENT = """
import multiprocessing, sys, time
from pathlib import Path
sys.path.insert(0, {folder!r})
import test_guard
if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    process, ours, words = test_guard.start(Path({out!r}), "processes", context=context)
    print(*ours.recv(), process.pid, flush=True)
    time.sleep(600)
"""


def test_no_process_of_a_worker_is_left_once_the_run_is_killed(tmp_path):
    program = tmp_path / "parent.py"
    program.write_text(PARENT.format(folder=str(Path(__file__).parent), out=str(tmp_path)))
    with subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE, text=True) as parent:
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert len(pids) == 6
        parent.kill()
    wait_until(lambda: not any(map(alive, pids)))


LOCKING = """
import multiprocessing, sys
from pathlib import Path
sys.path.insert(0, {folder!r})
import test_guard
if __name__ == "__main__":
    context = multiprocessing.get_context({method!r})
    process, ours, words = test_guard.start(Path({out!r}), "locks", context=context)
    ours.recv()
    process.terminate()
    process.join()
"""


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_locks_of_a_worker_that_is_stopped_do_not_leak(tmp_path, method):
    program = tmp_path / "locking.py"
    program.write_text(LOCKING.format(folder=str(Path(__file__).parent), out=str(tmp_path), method=method))
    # Python's tracker of resources reports what is left once the program has ended.
    ran = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_ctrl_c_does_not_reach_a_worker(tmp_path):
    process, ours, _ = start(tmp_path, "nothing")
    (pid,) = ours.recv()
    for one in (pid, process.pid):
        os.kill(one, signal.SIGINT)
    assert os.getpgid(pid) not in (os.getpgid(0), os.getpgid(process.pid))
    time.sleep(0.5)
    assert alive(pid)
    assert alive(process.pid)
    process.terminate()
    process.join(PATIENCE)


def test_what_a_worker_printed_before_it_died_is_in_the_log(tmp_path):
    process, _, words = start(tmp_path, "prints_and_dies")
    assert words.poll(PATIENCE)
    assert words.recv() == ("died", "signal 40")
    process.join(PATIENCE)
    assert (tmp_path / "worker.log").read_text() == "x" * 1000 + "\n"


def test_output_beyond_the_limit_is_cut_off_and_ends_the_worker(tmp_path):
    process, _, words = start(tmp_path, "prints_much")
    assert words.poll(PATIENCE)
    assert words.recv() == ("was stopped", "it wrote more than 1 MB of output (measure.log_megabytes)")
    process.join(PATIENCE)
    written = (tmp_path / "worker.log").read_text()
    assert written.rstrip("\n").endswith("x\n[more than 1 MB (measure.log_megabytes): the rest is cut off]")
    assert written.count("x") == 1_000_000


def test_the_limit_of_output_is_that_of_each_case(tmp_path):
    process, ours, words = start(tmp_path, "prints_several_cases")
    assert ours.poll(PATIENCE)
    assert not words.poll(0)
    process.terminate()
    process.join(PATIENCE)
    assert (tmp_path / "worker.log").stat().st_size == 3_000_000


def test_memory_beyond_the_limit_ends_the_worker(tmp_path):
    _, _, words = start(tmp_path, "allocates", Limits(memory_gigabytes=0.75, log_megabytes=1))
    assert words.poll(PATIENCE)
    assert words.recv() == ("was stopped", "it used more than 0.75 GB of memory (measure.memory_gigabytes)")


def test_memory_that_processes_share_counts_once(tmp_path):
    process, ours, _ = start(tmp_path, "shares_memory", Limits(memory_gigabytes=0.75, log_megabytes=1))
    assert ours.poll(PATIENCE)
    assert ours.recv()[1] == 256 << 20
    process.terminate()
    process.join(PATIENCE)


def test_without_a_limit_of_its_own_a_worker_may_use_nine_tenths_of_the_memory_here(tmp_path, monkeypatch):
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
    assert 0 < Limits.of(Measure()).memory_gigabytes <= 0.9001 * physical
    container = tmp_path / "memory.max"
    monkeypatch.setattr(guard, "CONTAINERS", (tmp_path / "none", container))
    for text, limit in (("max\n", 0.9 * physical), ("100000000\n", 0.09)):
        container.write_text(text)
        assert Limits.of(Measure()).memory_gigabytes == pytest.approx(limit)
    assert Limits.of(Measure(memory_gigabytes=2)).memory_gigabytes == 2


@pytest.mark.timeout(900)
def test_what_uses_too_much_or_leaves_processes_fails_with_a_sentence_and_the_sweep_goes_on(tmp_path, monkeypatch):
    monkeypatch.setenv("GRAVBENCH_TEST_PROCESSES", str(tmp_path / "processes"))
    config = tmp_path / "faults.yaml"
    config.write_text(
        f"variant_folders: [{FAULTY}]\nn: 40\n"
        "measure: {processes: 1, budget_seconds: 0.05, warm_up_seconds: 0, memory_gigabytes: 1.5, log_megabytes: 0.5}\n"
        "variants: [prints, uses_memory, leaves_processes, gated]\n"
    )
    todo = plan(load(str(config)), [Device(CPU, processor_name())], None, anchors=False)
    out = tmp_path / "out"
    records = {one.variant: one for one in runner.run(load(str(config)), todo, out, runner.SILENT)}
    assert records["gated"].status == "ok"
    expected = {
        "prints": "was stopped while verifying: it wrote more than 0.5 MB of output (measure.log_megabytes)",
        "uses_memory": "was stopped while verifying: it used more than 1.5 GB of memory (measure.memory_gigabytes)",
        "leaves_processes": "died while verifying: signal SIGSEGV",
    }
    for name, reason in expected.items():
        assert (records[name].status, records[name].reason) == ("failed", f"the worker {reason}")
    assert (out / runner.WORKER_LOG).stat().st_size < 600_000
    left = [int(word) for word in (tmp_path / "processes").read_text().split()]
    assert len(left) == 3
    with contextlib.suppress(AssertionError):
        wait_until(lambda: not any(map(alive, left)))
    assert not [pid for pid in left if alive(pid)]
