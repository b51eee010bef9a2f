"""Programs that fork: what uses Numba's threads, CUDA or workers there works, or is answered in a sentence."""

import os
import re
import subprocess
import sys

import pytest

HEAD = """
import multiprocessing, os, sys, tempfile, threading, time, traceback
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


@pytest.mark.slow
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
        assert all(word in line for word in ("spawn or forkserver", "after the fork"))


POOL = """
try:
    print(*in_fork(total, 0, 1))
except Exception as error:
    print(error)
"""
FIRST = """
def total(seed):
    x = np.random.default_rng(seed).normal(size=(3000, 3))
    return float(np.abs(force(x, masses, eps2=0.01, toolkit="cpu")).sum())

"""


@pytest.mark.slow
def test_the_environment_variable_that_the_sentence_advises_helps(tmp_path):
    sentence = printed(tmp_path, f"{FIRST}total(0)\n{POOL}")
    (advised,) = re.findall(r"variable NUMBA_THREADING_LAYER=(\w+)", sentence)
    parent, *children = (
        float(word) for word in printed(tmp_path, f"{FIRST}print(total(0))\n{POOL}", layer=advised).split()
    )
    assert children[0] == pytest.approx(parent, rel=1e-6)
    assert children[1] != children[0]
    before = [float(word) for word in printed(tmp_path, f"{FIRST}{POOL}").split()]
    assert children == pytest.approx(before, rel=1e-6)


@pytest.mark.slow
def test_a_child_forked_before_the_first_force_computes_it(tmp_path):
    found = printed(tmp_path, 'print(*in_fork(pull, "cpu", "cpu"), pull("cpu"), sep="\\n")')
    assert found.splitlines() == [SHAPE] * 3


@pytest.mark.slow
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


def test_blocks_of_rows_have_threads_after_a_fork_too(tmp_path):
    text = """
from gravbench.model import blocks

blocks.cores = lambda: 2

def rows(_):
    return sum(blocks.in_blocks(100_000, lambda part: part.stop - part.start))

print(rows(0), *in_fork(rows, 0, 1))
"""
    assert printed(tmp_path, text) == "100000 100000 100000\n"


@pytest.mark.slow
def test_a_layer_that_survives_a_fork_is_used_after_it(tmp_path):
    text = 'print(pull("cpu"), *in_fork(pull, "cpu", "cpu"), sep="\\n")'
    assert printed(tmp_path, text, layer="workqueue").splitlines() == [SHAPE] * 3


@pytest.mark.slow
def test_a_fork_waits_for_the_first_force_of_another_thread(tmp_path):
    # What that thread imports when the process is forked, a child could never import.
    (tmp_path / "slow.py").write_text("import __main__, time\n__main__.begun.set()\ntime.sleep(1)\n")
    text = """
from gravbench.verdicts import fastest

def read(path, read=fastest.read):
    import slow
    return read(path)

fastest.read = read
begun = threading.Event()
threading.Thread(target=pull, args=["cpu"], daemon=True).start()
begun.wait()
in_process(lambda _: pull("cpu"))
"""
    assert printed(tmp_path, text, layer="workqueue") == f"child {SHAPE}\n"


@pytest.mark.slow
def test_a_fork_is_next_while_another_thread_computes_again_and_again(tmp_path):
    text = """
from gravbench.model.fork_lock import ForkLock

lock, calls, stop = ForkLock(), [], threading.Event()

def work():
    while not stop.is_set():
        with lock:
            time.sleep(0.02)
            calls.append(1)

threads = [threading.Thread(target=function, daemon=True) for function in (work, lambda: [pull("cpu"), pull("cpu")])]
for thread in threads:
    thread.start()
while not calls:
    stop.wait(0.01)
for _ in range(10):
    before = len(calls)
    child = os.fork()
    if not child:
        os._exit(pull("cpu") != (3000, 3))
    print(len(calls) - before, os.waitpid(child, 0)[1])
stop.set()
for thread in threads:
    thread.join()
"""
    for line in printed(tmp_path, text, layer="workqueue").splitlines():
        meanwhile, exit_code = map(int, line.split())
        # The call that is under way, and one that begins while the fork asks for its turn.
        assert meanwhile <= 2
        assert exit_code == 0


def test_a_fork_of_the_thread_that_computes_does_not_wait_for_itself(tmp_path):
    text = """
from gravbench.model.fork_lock import ForkLock

lock = ForkLock()
with lock, lock:
    child = os.fork()
    with lock:
        os.write(1, b"parent\\n" if child else b"child\\n")
if not child:
    os._exit(0)
os.waitpid(child, 0)
with lock:
    in_process(lambda _: lock.__enter__())
other = threading.Thread(target=lock.__enter__, daemon=True)
other.start()
other.join(30)
assert not other.is_alive()
"""
    assert sorted(printed(tmp_path, text).splitlines()) == ["child", "child None", "parent"]


@pytest.mark.parametrize("call", ['pull("cpu")', 'len(gravbench.load("quick").cases) > 0 and (3000, 3)'])
def test_threads_that_make_the_first_call_together_all_get_it(tmp_path, call):
    text = f"""
shapes, barrier = [], threading.Barrier(4)

def work():
    barrier.wait()
    try:
        shapes.append({call})
    except Exception as error:
        shapes.append(error)

threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(*shapes, sep="\\n")
"""
    assert printed(tmp_path, text).splitlines() == [SHAPE] * 4


@pytest.mark.slow
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


@pytest.mark.slow
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
