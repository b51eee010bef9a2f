"""Kernels are built ahead, in processes without a device, and sessions find them; what cannot be is not built."""

import os
import subprocess
import sys
import time
from contextlib import ExitStack
from multiprocessing.connection import wait
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace

import numpy as np
import psutil
import pytest

from gravbench.config.load import load
from gravbench.measuring import builds
from gravbench.measuring.builds import BuildPool, Built, build
from gravbench.measuring.processes import workplace
from gravbench.measuring.tasks import Task
from gravbench.model.device import Device, Target
from gravbench.model.interaction import GRAVITY
from gravbench.model.interaction_files import find
from gravbench.model.variant import discover
from gravbench.toolkits import compile_cache, nvrtc
from gravbench.toolkits.cupy import CupyToolkit
from gravbench.toolkits.jobs import Job
from gravbench.toolkits.recording import RecordingToolkit

pytestmark = pytest.mark.usefixtures("binaries_folder")
H200 = Target("sm_90", 132)
CASES = {case.variant: case for case in load("quick").cases if case.toolkit == "cupy" and case.n == 1024}
CUDA_C = sorted(name for name in CASES if discover()[name].has_cuda_c)
NAIVE = CASES["naive"]


def refuse(*_):
    raise AssertionError("it is there already")


@pytest.mark.slow
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
            "compiled_here_seconds": 0.0, "built_ahead": None, "_counted": set(), "_first": toolkit,
            "cupy": SimpleNamespace(cuda=SimpleNamespace(function=SimpleNamespace(Module=FakeModule))),
        }  # fmt: skip
        return toolkit

    monkeypatch.setattr(CupyToolkit, "architecture", "sm_90")
    first, second = opened(), opened()
    assert (first.built_ahead, first.compile_seconds) == (None, 0.0)
    first.compile("naive")
    assert not first.built_ahead
    assert first.compiled_here_seconds == first.compile_seconds
    assert build(NAIVE, H200, ()) == Built(0, 1)
    monkeypatch.setattr(nvrtc, "program", refuse)
    second.compile("naive")
    assert second.built_ahead
    assert second.compile_seconds == first.compile_seconds > 0
    assert second.compiled_here_seconds == 0
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
        session.__dict__ |= {"cuda": cuda, "simulated": False, "compile_seconds": 0.0, "compiled_here_seconds": 0.0}
        session.built_ahead = None
        toolkit.NumbaToolkit.architecture = "sm_90"
        made = discover()["naive"].module.numba_kernel(cuda, np.float32, find("gravity"))
        arrays = [np.zeros(5, np.float32) for _ in range(7)]
        specialized = session.specialized(made, (*arrays, np.int32(5), np.float32(0.1)))
        (kernel,) = specialized.overloads.values()
        image = kernel._codelibrary.get_cubin(cc=(9, 0, "a"))
        print(session.built_ahead, session.compile_seconds > 0.1, kernel.entry_name.encode() in bytes(image.code))
        print(specialized.specialized, specialized._can_compile)
        print(build(case, Target("sm_90", 132), ()))
    """
)


def run_numba(script, *arguments, **environment):
    env = os.environ | {"NUMBA_ENABLE_CUDASIM": "0", "CUDA_VISIBLE_DEVICES": ""} | environment
    done = subprocess.run([sys.executable, script, *arguments], env=env, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
def test_a_kernel_of_numba_cuda_is_built_without_a_device_and_loaded_by_its_dispatcher(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(NUMBA)
    assert run_numba(script, "build") == ["Built(compiled=1, present=0, reason=None)"]
    present = "Built(compiled=0, present=1, reason=None)"
    assert run_numba(script, "load") == ["True True True", "True False", present]
    # Another setting of the compiler is another kernel.
    assert run_numba(script, "build", NUMBA_OPT="1") == ["Built(compiled=1, present=0, reason=None)"]


@pytest.mark.slow
def test_every_kernel_of_numba_cuda_can_be_built_ahead(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(NUMBA)
    assert run_numba(script, "all", NUMBA_CACHE_DIR="") == [], "with the trees of the host from the cache of all tests"


PROCESSOR = dedent(
    """
    import sys
    from gravbench.config.load import load
    from gravbench.measuring.builds import Target, build
    from gravbench.model import initial_conditions
    from gravbench.model.variant import discover
    from gravbench.toolkits.cpu import counting_numba
    from gravbench.toolkits.opening import open_toolkit

    for case in load("quick", ["n=300"], variants=["numba_parallel", "barnes_hut_cpu"], toolkits=["cpu"]).cases:
        if sys.argv[1] == "build":
            print(build(case, Target("cpu", 0), ()).reason)
        else:
            variant = discover()[case.variant]
            toolkit = open_toolkit("cpu", variant, case.dtype)
            with counting_numba(toolkit):
                variant.prepare(toolkit, initial_conditions.of_case(case), **case.axes).launch()
            print(toolkit.compile_seconds > 0)
    """
)


@pytest.mark.slow
def test_what_the_processor_is_to_do_is_compiled_ahead_and_loaded_with_any_number_of_threads(tmp_path):
    script, place = tmp_path / "script.py", {"NUMBA_CACHE_DIR": str(tmp_path)}
    script.write_text(PROCESSOR)
    assert run_numba(script, "build", NUMBA_NUM_THREADS="1", **place) == ["None", "None"]
    assert run_numba(script, "call", NUMBA_NUM_THREADS="2", **place) == ["False", "False"]


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


CARD = Device("cuda:0", "a card", "GPU-0", "600.1")
MINE = NAIVE.model_copy(update={"variant": "mine", "axes": {}})


def task_of(case):
    return Task(case, None, CARD)


def listed(cases):
    first, *others = map(task_of, cases)
    return first, others


@pytest.fixture
def pool_of(tmp_path):
    """Make pools of one builder, and have them build cases."""
    with workplace() as place, ExitStack() as stack:

        def made(limit_seconds=60.0):
            pool = BuildPool((tmp_path,), tmp_path / "log", {CARD: H200}, limit_seconds)
            pool._most = 1
            stack.callback(pool.close)

            def built(*cases):
                pool.want(*listed(cases), place)
                deadline = time.monotonic() + 60
                while not all(pool.is_done(task_of(case)) for case in cases):
                    assert time.monotonic() < deadline
                    wait(pool.waits_for, 0.02)
                    pool.step(place)
                return [pool.built[case.identity, H200] for case in cases]

            return pool, built, place

        yield made


@pytest.mark.skipif(not nvrtc.is_usable(), reason="no NVRTC")
def test_a_pool_builds_and_goes_on_after_a_crash(tmp_path, pool_of):
    variant_file(tmp_path, "os._exit(3)")
    _, built, _ = pool_of()
    assert built(MINE, NAIVE) == [Built(reason="the process that compiled it has ended"), Built(1, 0)]
    assert built(MINE) == [Built(reason="the process that compiled it has ended")], "what was built is not built again"


def test_a_builder_that_had_nothing_to_do_for_longer_than_its_limit_goes_on(pool_of):
    pool, built, place = pool_of(limit_seconds=60)
    built(NAIVE)
    (builder,) = pool._builders
    builder.deadline = 0.0
    pool.step(place)
    assert not builder.is_lost
    built(CASES["tiled"])
    assert pool._builders == [builder]


@pytest.mark.slow
def test_a_build_without_an_end_is_ended(tmp_path, pool_of):
    variant_file(tmp_path, "time.sleep(100)")
    _, built, _ = pool_of(limit_seconds=3)
    assert built(MINE) == [Built(reason="it took longer than 3 s to compile")]


def test_a_pool_looks_only_so_far_ahead_and_leaves_devices_without_a_target_to_their_sessions(pool_of):
    pool, _, place = pool_of()
    pool.suspend()
    pool.want(*listed(NAIVE.model_copy(update={"n": 100 + number}) for number in range(100)), place)
    assert len(pool._wanted) == builds.AHEAD
    assert not pool._builders
    other = Task(NAIVE, None, Device("cpu", "a processor"))
    assert pool.is_done(other)
    pool.want(other, [], place)
    assert len(pool._wanted) == builds.AHEAD
    # Of a search, the next case may be any: it is built before all others, however many these are.
    for number in (500, 102):
        soon = NAIVE.model_copy(update={"n": number})
        pool.want(task_of(soon), [], place)
        assert next(iter(pool._wanted.values())) == (soon, H200)
    assert len(pool._wanted) == builds.AHEAD + 1


def stands_still(process):
    # One that is just starting another waits for that in "disk sleep", and is stopped as soon as it could go on.
    tree = [process, *process.children(recursive=True)]
    return {each.status() for each in tree} <= {psutil.STATUS_STOPPED, psutil.STATUS_DISK_SLEEP}


@pytest.mark.slow
def test_a_suspended_pool_stands_still_with_all_that_it_started_and_its_time_does_not_count(tmp_path, pool_of):
    variant_file(tmp_path, "import subprocess; subprocess.run(['sleep', '100'])")
    pool, _, place = pool_of()
    pool.want(task_of(MINE), [], place)
    (builder,) = pool._builders
    process = builder.process.root
    deadline = time.monotonic() + 60
    while not process.children() and time.monotonic() < deadline:
        time.sleep(0.01)
    until = builder.deadline
    pool.suspend()
    while not stands_still(process) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert stands_still(process)
    pool.want(task_of(NAIVE), [], place)
    pool.step(place)
    assert len(pool._builders) == 1
    assert pool.waits_for == [], "or the engine would not sleep while a case is measured"
    pool.resume()
    assert not stands_still(process)
    assert builder.deadline > until
    pool.suspend()
    everything = [process, *process.children(recursive=True)]
    pool.close()
    assert not any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in everything)


def test_a_builder_sees_no_device_is_polite_and_writes_into_the_log(tmp_path, pool_of):
    written = tmp_path / "written"
    sees = "repr(os.environ['CUDA_VISIBLE_DEVICES'])"
    variant_file(tmp_path, f"open({str(written)!r}, 'w').write({sees}); print('printed', flush=True)")
    pool, built, _ = pool_of()
    built(MINE)
    (builder,) = pool._builders
    if sys.platform != "win32":
        assert builder.process.root.nice() >= 10
    assert written.read_text() == "''"
    assert "printed" in (tmp_path / "log").read_text()


@pytest.mark.skipif(not nvrtc.is_usable(), reason="no NVRTC")
def test_what_numba_compiles_for_the_host_meanwhile_is_kept(monkeypatch):
    asked = []
    monkeypatch.setitem(sys.modules, "numba", SimpleNamespace())
    monkeypatch.setattr(compile_cache, "keep", lambda: asked.append(True))
    monkeypatch.setattr(RecordingToolkit, "compile", lambda *_, **__: pytest.fail("too late") if not asked else None)
    build(NAIVE, H200, ())
    assert asked == [True]


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
