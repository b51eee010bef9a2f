"""Programs that fork: what uses Numba's threads, CUDA or workers there works, or is answered in a sentence."""

import os
import subprocess
import sys

import pytest

HEAD = """
import multiprocessing, os, sys, tempfile, threading, traceback
import numpy as np
import gravbench
from gravbench import force
from gravbench.measuring.processes import workplace

generator = np.random.default_rng(1)
positions, masses = generator.normal(size=(3000, 3)), np.ones(3000)
context = multiprocessing.get_context("fork")

def pull(toolkit):
    try:
        return force(positions, masses, eps2=0.01, toolkit=toolkit).shape
    except Exception as error:
        return f"{type(error).__name__}: {error}"

def measure(_):
    sweep = gravbench.load("quick", ["n=64"], variants=["numba_parallel"])
    try:
        with tempfile.TemporaryDirectory() as folder:
            records = gravbench.run(sweep, f"{folder}/run", devices=["cpu"])
        return [(record.status, record.reason) for record in records]
    except Exception as error:
        return f"{type(error).__name__}: {error}"

def in_fork(function, *arguments):
    with context.Pool(2) as pool:
        return pool.map_async(function, arguments).get(60)

def in_process(function):
    def work():
        print("child", function(None), flush=True)

    child = context.Process(target=work)
    child.start()
    child.join(60)
    assert child.exitcode == 0
"""
SHAPE = "(3000, 3)"
THREADS = "ForkedError: this process was forked from one that had started Numba's threads"
CUDA = "ForkedError: this process was forked from one that had initialized CUDA"


def printed(folder, text, layer="omp"):
    """Run a program in a process of its own and return what it prints."""
    program = folder / "program.py"
    program.write_text(HEAD + text)
    environment = os.environ | {"NUMBA_THREADING_LAYER": layer}
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, timeout=120, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_child_forked_after_a_force_on_the_cpu_is_answered_at_once(tmp_path):
    found = printed(
        tmp_path,
        """
print("parent", pull("cpu"))
print(*in_fork(pull, "cpu", "cpu"), sep="\\n")
print("parent", pull("cpu"))
""",
    ).splitlines()
    assert [found[0], found[-1]] == [f"parent {SHAPE}"] * 2
    assert len(found) == 4
    for line in found[1:3]:
        assert line.startswith(THREADS)
        assert all(word in line for word in ("spawn or forkserver", "after the fork", "tbb"))


def test_a_child_forked_before_the_first_force_computes_it(tmp_path):
    found = printed(tmp_path, 'print(*in_fork(pull, "cpu", "cpu"), pull("cpu"), sep="\\n")')
    assert found.splitlines() == [SHAPE] * 3


def test_threads_that_a_program_started_itself_count_and_pass_to_the_children_of_children(tmp_path):
    text = """
import numba

@numba.njit(parallel=True)
def total(values):
    found = 0.0
    for i in numba.prange(values.size):
        found += values[i]
    return found

def child(_):
    return in_fork_of_child()

def in_fork_of_child():
    reads, writes = os.pipe()
    if not os.fork():
        os.write(writes, str(pull("cpu")).encode())
        os._exit(0)
    return os.read(reads, 1000).decode()

total(masses)
print(*in_fork(child, 1))
"""
    assert printed(tmp_path, text).startswith(THREADS)


def test_a_layer_that_survives_a_fork_is_used_after_it(tmp_path):
    text = 'print(pull("cpu"), *in_fork(pull, "cpu", "cpu"), sep="\\n")'
    assert printed(tmp_path, text, layer="workqueue").splitlines() == [SHAPE] * 3


def test_a_fork_waits_for_the_force_of_another_thread(tmp_path):
    text = """
begun, stop = threading.Event(), threading.Event()

def work():
    while not stop.is_set():
        begun.set()
        pull("cpu")

thread = threading.Thread(target=work)
thread.start()
begun.wait()
for _ in range(5):
    in_process(lambda _: pull("cpu"))
stop.set()
thread.join()
"""
    assert printed(tmp_path, text, layer="workqueue").splitlines() == [f"child {SHAPE}"] * 5


def test_a_forked_child_runs_a_sweep_after_its_parent_did(tmp_path):
    text = """
pull("cpu")
print("parent", measure(None), flush=True)
in_process(measure)
print("parent", measure(None))
"""
    found = printed(tmp_path, text).splitlines()
    assert [line.split()[0] for line in found] == ["parent", "child", "parent"]
    assert all("'ok'" in line and "'failed'" not in line for line in found)


def test_a_worker_of_a_pool_may_not_run_a_sweep(tmp_path):
    text = 'if __name__ == "__main__": print(*in_fork(measure, 1))'
    found = printed(tmp_path, text)
    assert found.startswith("InputError: a run starts processes, which multiprocessing does not let a daemonic process")


def test_what_the_main_module_of_a_program_has_in_use_is_of_no_account_to_a_sweep(tmp_path):
    assert "'ok'" in printed(tmp_path, 'pull("cpu")\nprint(measure(None))')


@pytest.mark.gpu
def test_a_program_that_uses_the_gpu_measures_on_it(tmp_path, need_toolkit):
    need_toolkit("cupy")
    text = """
pull("cupy")
sweep = gravbench.load("quick", ["n=64"], variants=["naive", "numba_parallel"], toolkits=["cupy", "cpu"])
for record in gravbench.run(sweep, tempfile.mkdtemp() + "/run"):
    print(record.toolkit, record.status, record.reason)
"""
    assert {*printed(tmp_path, text).splitlines()} == {"cupy ok None", "cpu ok None"}


@pytest.mark.gpu
def test_a_child_forked_after_the_gpu_was_used_is_answered_and_has_the_cpu(tmp_path, need_toolkit):
    need_toolkit("cupy")
    text = """
if __name__ == "__main__":
    print(*in_fork(pull, "cupy"))
    print(pull("cupy"))
    print(*in_fork(pull, "cupy", "numba", None, "cpu"), sep="\\n")
    in_process(measure)
    print(pull("cpu"), *in_fork(pull, "cpu"))
"""
    before, parent, cupy, numba, default, cpu, swept, after = printed(tmp_path, text).splitlines()
    assert [before, parent, cpu] == [SHAPE] * 3
    assert all(line.startswith(CUDA) for line in (cupy, numba, default))
    assert "'ok'" in swept
    assert after.startswith(f"{SHAPE} {THREADS}")
