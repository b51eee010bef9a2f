"""Kernels are built ahead, in processes without a device, and sessions find them; what cannot be is not built."""

import os
import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace

import numpy as np
import psutil
import pytest

from gravbench.config.load import load
from gravbench.measuring import builds, orphans
from gravbench.measuring.builds import BuildPool, Built, Target, build
from gravbench.model.interaction import GRAVITY
from gravbench.model.interaction_files import find
from gravbench.model.variant import discover
from gravbench.toolkits import nvrtc
from gravbench.toolkits.cupy import CupyToolkit
from gravbench.toolkits.jobs import Job

H200 = Target("sm_90", 132)
CASES = {case.variant: case for case in load("quick").cases if case.toolkit == "cupy" and case.n == 1024}
CUDA_C = sorted(name for name in CASES if discover()[name].has_cuda_c)
NAIVE = CASES["naive"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Keep binaries in a folder of their own, which processes inherit."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    return tmp_path / "gravbench"


def refuse(*_):
    raise AssertionError("it is there already")


@pytest.mark.skipif(not nvrtc.is_usable(), reason="no NVRTC")
def test_every_variant_of_cuda_c_is_built_once(monkeypatch):
    results = {name: build(CASES[name], H200, ()) for name in CUDA_C}
    assert {name: built.reason for name, built in results.items() if built.reason} == {}
    assert all(built.compiled for built in results.values())
    monkeypatch.setattr(nvrtc, "program", refuse)
    for name, first in results.items():
        assert build(CASES[name], H200, ()) == Built(0, first.compiled + first.present)


class FakeModule:
    """A module of CuPy."""

    def load(self, code):
        self.code = code

    def get_function(self, name):
        assert name.encode() in self.code
        return SimpleNamespace(ptr=0)


@pytest.mark.skipif(not nvrtc.is_usable(), reason="no NVRTC")
def test_a_session_loads_what_was_built_ahead_and_counts_the_time_that_took(monkeypatch):
    def opened():
        toolkit = object.__new__(CupyToolkit)
        toolkit.__dict__ |= {
            "variant": discover()["naive"], "dtype": "float32", "interaction": find(GRAVITY), "compile_seconds": 0.0,
            "built_ahead": None, "_counted": set(), "_first": toolkit,
            "cupy": SimpleNamespace(cuda=SimpleNamespace(function=SimpleNamespace(Module=FakeModule))),
        }  # fmt: skip
        return toolkit

    monkeypatch.setattr(CupyToolkit, "architecture", "sm_90")
    first, second = opened(), opened()
    assert (first.built_ahead, first.compile_seconds) == (None, 0.0)
    first.compile("naive")
    assert not first.built_ahead
    assert build(NAIVE, H200, ()) == Built(0, 1)
    monkeypatch.setattr(nvrtc, "program", refuse)
    second.compile("naive")
    assert second.built_ahead
    assert second.compile_seconds == first.compile_seconds > 0
    second.compile("naive")
    assert second.compile_seconds == first.compile_seconds, "one binary, compiled once"
    first.compile("naive")
    assert not first.built_ahead, "all kernels, or not"


NUMBA = dedent(
    """
    import sys
    import numpy as np
    from types import SimpleNamespace
    from numba import cuda
    from gravbench.config.load import load
    from gravbench.measuring.builds import Target, build
    from gravbench.model.interaction_files import find
    from gravbench.model.variant import discover
    from gravbench.toolkits import numba as toolkit

    if sys.argv[1] == "all":
        # Compiling them all takes long, and goes as for the first.
        toolkit._Overloads.stored = lambda overloads, types: overloads.can_be_kept
        for case in load("quick").cases:
            if case.toolkit == "numba" and case.n == 1024:
                built = build(case, Target("sm_90", 132), ())
                assert built.reason is None and built.present, (case.variant, built)
        sys.exit()
    case = next(one for one in load("quick").cases if (one.variant, one.toolkit) == ("naive", "numba"))
    if sys.argv[1] == "build":
        print(build(case, Target("sm_90", 132), ()))
    else:
        # Everything up to what needs a device: the dispatcher loads the kernel and has its machine code.
        from numba.cuda import dispatcher
        def refuse(*_, **__):
            raise AssertionError("it is there already")
        dispatcher._Kernel.__init__ = refuse
        session = object.__new__(toolkit.NumbaToolkit)
        session.__dict__ |= {"cuda": cuda, "simulated": False, "compile_seconds": 0.0, "built_ahead": None}
        toolkit.NumbaToolkit.architecture = "sm_90"
        made = discover()["naive"].module.numba_kernel(cuda, np.float32, find("gravity"))
        arrays = [np.zeros(5, np.float32) for _ in range(7)]
        specialized = session.specialized(made, (*arrays, np.int32(5), np.float32(0.1)))
        (kernel,) = specialized.overloads.values()
        image = kernel._codelibrary.get_cubin(cc=(9, 0, "a"))
        print(session.built_ahead, session.compile_seconds > 0.1, kernel.entry_name.encode() in bytes(image.code))
        print(specialized.specialized, specialized._can_compile)
    """
)


def run_numba(script, *arguments, **environment):
    env = os.environ | {"NUMBA_ENABLE_CUDASIM": "0", "CUDA_VISIBLE_DEVICES": ""} | environment
    done = subprocess.run([sys.executable, script, *arguments], env=env, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    return done.stdout.splitlines()


def test_a_kernel_of_numba_cuda_is_built_without_a_device_and_loaded_by_its_dispatcher(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(NUMBA)
    assert run_numba(script, "build") == ["Built(compiled=1, present=0, reason=None)"]
    assert run_numba(script, "build") == ["Built(compiled=0, present=1, reason=None)"]
    assert run_numba(script, "load") == ["True True True", "True False"]
    # Another setting of the compiler is another kernel.
    assert run_numba(script, "build", NUMBA_OPT="1") == ["Built(compiled=1, present=0, reason=None)"]


def test_every_kernel_of_numba_cuda_can_be_built_ahead(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(NUMBA)
    assert run_numba(script, "all", NUMBA_CACHE_DIR="") == [], "with the trees of the host from the cache of all tests"


def test_the_simulator_builds_nothing_and_others_compile_in_the_session():
    case = NAIVE.model_copy(update={"toolkit": "numba"})
    if os.environ.get("NUMBA_ENABLE_CUDASIM") == "1":
        assert "simulator" in str(build(case, H200, ()).reason)
    other = build(NAIVE.model_copy(update={"variant": "jax_jit", "toolkit": "jax", "axes": {}}), H200, ())
    assert other == Built(reason="NotImplementedError: JAX compiles in the session")


@pytest.mark.parametrize("source", ["raise ValueError('no')", "raise SystemExit(3)"])
def test_a_case_that_cannot_be_prepared_is_not_built(tmp_path, source):
    variant_file(tmp_path, source)
    built = build(NAIVE.model_copy(update={"variant": "mine", "axes": {}}), H200, (tmp_path,))
    assert (built.compiled, built.reason.partition(":")[0]) == (0, source.split()[1].partition("(")[0])


def variant_file(folder, source):
    """Write a variant that does something when it is prepared, with a kernel of CUDA C."""
    head = "import os, time\nfrom gravbench.model.variant import variant\n\n"
    declared = '@variant(parent=None, source="mine")\ndef prepare(gpu, bodies):\n'
    (folder / "mine.py").write_text(f'"""Mine."""\n\n{head}{declared}    """Mine."""\n    {source}\n')
    (folder / "mine.cu").write_text('extern "C" __global__ void mine() {}\n')


@pytest.mark.skipif(not nvrtc.is_usable(), reason="no NVRTC")
def test_a_pool_builds_and_goes_on_after_a_crash_and_a_build_without_an_end(tmp_path):
    folders = []
    for name, source in {"crash": "os._exit(3)", "hang": "time.sleep(100)"}.items():
        folders.append(tmp_path / name)
        folders[-1].mkdir()
        variant_file(folders[-1], source)
    mine = NAIVE.model_copy(update={"variant": "mine", "axes": {}})
    with BuildPool(1, (folders[0],), limit_seconds=60) as pool:
        crashes, builds_ = pool.submit(mine, H200), pool.submit(NAIVE, H200)
        assert crashes.result() == Built(reason="the process that compiled it has ended")
        assert builds_.result() == Built(1, 0)
    with BuildPool(1, (folders[1],), tmp_path / "log", limit_seconds=3) as pool:
        hangs = pool.submit(mine, H200)
        assert hangs.result() == Built(reason="it took longer than 3 s to compile")


def test_a_killed_builder_costs_its_own_build(tmp_path):
    variant_file(tmp_path, "time.sleep(100)")
    with BuildPool(1, (tmp_path,)) as pool:
        hangs = pool.submit(NAIVE.model_copy(update={"variant": "mine", "axes": {}}), H200)
        process = started(pool)
        process.kill()
        assert hangs.result().reason == "the process that compiled it has ended"
        assert pool.submit(NAIVE, H200).result().reason is None
        assert process.pid != started(pool).pid


def started(pool):
    """Wait for the process of a pool with one."""
    while not pool._builders:
        time.sleep(0.01)
    (builder,) = pool._builders
    return builder.process


def stands_still(process):
    # One that is just starting another waits for that in "disk sleep", and is stopped as soon as it could go on.
    return {each.status() for each in orphans.tree(process)} <= {psutil.STATUS_STOPPED, psutil.STATUS_DISK_SLEEP}


def test_a_suspended_pool_stands_still_with_all_that_it_started_and_starts_nothing(tmp_path):
    variant_file(tmp_path, "import subprocess; subprocess.run(['sleep', '100'])")
    with BuildPool(2, (tmp_path,), limit_seconds=60) as pool:
        hangs = pool.submit(NAIVE.model_copy(update={"variant": "mine", "axes": {}}), H200)
        process = started(pool)
        while len(orphans.tree(process)) < 2:
            time.sleep(0.01)
        for _ in range(2):
            pool.suspend()
            deadline = time.monotonic() + 5
            while not stands_still(process) and time.monotonic() < deadline:
                time.sleep(0.01)
            assert stands_still(process)
            waits = pool.submit(NAIVE, H200)
            time.sleep(0.2)
            assert len(pool._builders) == 1 or not waits.done()
            pool.suspend()
            pool.resume()
            assert not stands_still(process)
            assert waits.result().reason is None
        pool.suspend()
        everything = orphans.tree(process)
    assert hangs.result().reason
    assert not any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in everything)


def test_the_time_of_a_suspended_pool_does_not_count(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(builds.time, "monotonic", lambda: now[0])
    with BuildPool(1, ()) as pool:
        for turn in range(3):
            assert pool._running_seconds() == 100.0 + turn
            pool.suspend()
            now[0] += 50
            assert pool._running_seconds() == 100.0 + turn
            pool.resume()
            now[0] += 1


def test_processes_end_when_the_parent_is_killed_even_suspended_ones(tmp_path):
    variant_file(tmp_path, "time.sleep(100)")
    script = tmp_path / "script.py"
    script.write_text(
        dedent(
            f"""
            import sys, time
            from pathlib import Path
            from gravbench.measuring.builds import BuildPool, Target
            from gravbench.model.case import Case

            if __name__ == "__main__":
                pool = BuildPool(1, (Path({str(tmp_path)!r}),))
                case = Case.model_validate_json(Path({str(tmp_path / "case.json")!r}).read_text())
                pool.submit(case, Target("sm_90", 132))
                while not pool._builders:
                    time.sleep(0.01)
                pool.suspend()
                print(*[one.process.pid for one in pool._builders], pool._orphans.pid, flush=True)
                time.sleep(100)
            """
        )
    )
    case = NAIVE.model_copy(update={"variant": "mine", "axes": {}})
    (tmp_path / "case.json").write_text(case.model_dump_json())
    parent = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
    processes = [psutil.Process(int(pid)) for pid in parent.stdout.readline().split()]
    assert len(processes) == 2
    parent.kill()
    parent.wait()
    parent.stdout.close()
    _, alive = psutil.wait_procs(processes, timeout=10)
    assert not [each for each in alive if each.status() != psutil.STATUS_ZOMBIE]


def test_a_builder_sees_no_device_is_polite_and_writes_into_the_log(tmp_path):
    told = tmp_path / "told"
    sees = "repr(os.environ['CUDA_VISIBLE_DEVICES'])"
    variant_file(tmp_path, f"open({str(told)!r}, 'w').write({sees}); print('printed', flush=True)")
    with BuildPool(1, (tmp_path,), tmp_path / "log") as pool:
        pool.submit(NAIVE.model_copy(update={"variant": "mine", "axes": {}}), H200).result()
        if sys.platform != "win32":
            assert started(pool).nice() >= 10
    assert told.read_text() == "''"
    assert "printed" in (tmp_path / "log").read_text()


@pytest.mark.skipif(not nvrtc.is_usable(), reason="no NVRTC")
def test_a_step_has_its_integrator_built_too():
    update = {"timed": "step", "integrator": "leapfrog", "dt": 0.001}
    assert build(NAIVE, H200, ()) == Built(1, 0)
    assert build(NAIVE.model_copy(update=update), H200, ()) == Built(1, 1)


def test_a_recorded_kernel_is_what_a_compiler_is_given():
    from gravbench.toolkits.recording import RecordingToolkit

    toolkit = RecordingToolkit("float32", find(GRAVITY))
    kernel = toolkit.compile("stem", P=64)
    array = np.zeros((4, 4), np.float32)
    for n in (4, 5):
        kernel(2, (8, 4), array, np.int32(n), stream=None)
    job = toolkit.kernels[0].job(discover()["naive"], toolkit.real, toolkit.interaction)
    assert isinstance(job, Job)
    assert (job.stem, job.constants, job.threads, job.dtype) == ("stem", {"P": 64}, 32, "float32")
    assert job.arguments == (array, np.int32(4)), "those of the first launch"
    assert Path(str(job.source.module.__file__)).stem == "naive"
