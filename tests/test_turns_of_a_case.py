"""Which turns a case waits for, and what it launches in each: nothing is timed beside others on a device."""

import subprocess
import sys
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from conftest import ROOT
from gravbench.config.load import load
from gravbench.config.settings import Measure
from gravbench.measuring import first_use, worker
from gravbench.measuring.launches import launched_again
from gravbench.measuring.outcome import Found
from gravbench.measuring.protocol import measure
from gravbench.measuring.rehearsal import rehearse
from gravbench.measuring.step import Stepper
from gravbench.measuring.turns import Turn
from gravbench.measuring.worker import Job, work
from gravbench.model import initial_conditions, interaction_files, toolkits
from gravbench.model.record import OUTRACED
from gravbench.model.toolkits import catalogue
from gravbench.model.variant import discover
from gravbench.toolkits import images, numba, torch, triton
from gravbench.toolkits.cpu import CpuToolkit
from gravbench.toolkits.interface import Timing
from gravbench.toolkits.opening import open_toolkit

QUICK = Measure(budget_seconds=0.01, warm_up_seconds=0, min_samples=3, sample_seconds=1e-4)


@pytest.fixture
def history(monkeypatch):
    """Have the processor count as a GPU; return what a case does, to be filled by ``told``."""
    told = []
    monkeypatch.setattr(CpuToolkit, "compute_capability", "9.0")
    monkeypatch.setattr(worker, "gpu_is_usable", lambda *_: False)
    monkeypatch.setattr(worker, "rehearse", lambda *_: None)
    variant = discover(())["numpy_direct"]

    def prepare(gpu, bodies, **axes):
        prepared = variant.prepare(gpu, bodies, **axes)
        return replace(prepared, launch=lambda: told.append("launch") or prepared.launch())

    monkeypatch.setattr(worker, "discover", lambda _: {"numpy_direct": replace(variant, prepare=prepare)})

    def timing(*arguments, **options):
        told.append("times")
        return measure(*arguments, **options)

    def queue(*_):
        told.append("looks behind a held queue")

    def steady(_, launch, count, while_busy=lambda: None):
        # Samples this short scatter, and it depends on them where sampling ends.
        for _ in range(count):
            launch()
        while_busy()
        return Timing(1e-4, None)

    monkeypatch.setattr(CpuToolkit, "time", steady)
    monkeypatch.setattr(worker, "measure", timing)
    monkeypatch.setattr("gravbench.measuring.checks.queue", queue)
    return told


def doing(told, settings=QUICK, n=40, timed="force", **fields):
    """Work on a case; return its outcome, and what it did in each of its turns, launches in a row as one."""
    (case,) = load("quick", [f"n={n}"], variants=["numpy_direct"]).cases
    if timed != "force":
        case = case.model_copy(
            update={"timed": timed, **({"integrator": "leapfrog", "dt": 1e-3} if timed == "step" else {})}
        )

    def turn(asked):
        told.append(asked)
        return False

    outcome = work(Job(case, settings, **fields), (), lambda: None, lambda _: None, turn)
    assert outcome.status == "ok", outcome.reason
    return outcome, [one for place, one in enumerate(told) if told[place - 1 : place] != [one]]


VERIFIED = [Turn.VERIFY, "launch"]


def test_a_case_is_verified_beside_others_and_nothing_of_it_is_timed_before_it_is_alone(history):
    _, found = doing(history)
    assert found == [*VERIFIED, Turn.MEASURE, "looks behind a held queue", "times", "launch"]


def test_verifying_alone_ends_with_the_look_behind_a_held_queue(history):
    assert doing(history, None)[1] == [*VERIFIED, Turn.MEASURE, "looks behind a held queue"]


def test_a_case_of_many_bodies_has_the_device_for_itself_from_the_first_launch_on(history, monkeypatch):
    monkeypatch.setattr(worker, "SHARED_UP_TO", 39)
    _, found = doing(history)
    assert found == [Turn.MEASURE, "launch", "looks behind a held queue", "times", "launch"]


def test_a_call_has_the_device_and_the_host_for_itself_from_the_first_launch_on(history):
    _, found = doing(history, timed="call")
    assert [one for one in found if isinstance(one, Turn)] == [Turn.ALONE]
    assert found[0] == Turn.ALONE


def test_the_force_of_a_step_is_verified_beside_others_and_its_drift_is_computed_when_others_have_the_device(
    history, monkeypatch
):
    stepping = Stepper.stepping
    monkeypatch.setattr(Stepper, "stepping", lambda own: history.append("drift") or stepping(own))
    outcome, found = doing(history, timed="step")
    launches = [one for one in found if one not in ("launch", "times")]
    assert launches == [Turn.VERIFY, Turn.MEASURE, "looks behind a held queue", Turn.NOTHING, "drift"]
    assert outcome.found.stepping.drift_steps == 100


def test_the_first_look_of_a_race_is_taken_alone(history):
    outcome, found = doing(history, behind=1e-12)
    assert outcome.found.measurement.stop_reason == OUTRACED
    assert found == [*VERIFIED, Turn.MEASURE, "times", "launch"]


def test_a_case_that_goes_on_after_the_first_look_keeps_the_device(history):
    outcome, found = doing(history, behind=1e3)
    assert outcome.found.measurement.stop_reason != OUTRACED
    assert [one for one in found if isinstance(one, Turn)] == [Turn.VERIFY, Turn.MEASURE]


def test_another_process_of_a_case_measures_alone_too(history):
    _, found = doing(history, again=True)
    assert found == [*VERIFIED, Turn.MEASURE, "times", "launch"]


def test_the_repetition_of_an_anchor_is_judged_once_before_its_samples(history):
    outcome, found = doing(history, repeated=True)
    assert found == [*VERIFIED, Turn.MEASURE, "times", "launch"]
    assert outcome.found.errors.error_rows == 40
    # What is measured beside the time of a force, such as stages or drift, is measured each time.
    assert "looks behind a held queue" in doing(history, timed="step", repeated=True)[1]


def test_others_go_on_while_numba_compiles_for_the_host_and_only_then(monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))  # it is not compiled yet
    (case,) = load("quick", ["n=40"], variants=["numba_direct"]).cases
    for expected in ([Turn.NOTHING, Turn.ALONE], [Turn.ALONE]):
        told = []
        outcome = work(Job(case, None), (), lambda: None, lambda _: None, lambda asked, told=told: told.append(asked))
        assert outcome.status == "ok", outcome.reason
        assert told == expected


HOST_CODE = """
import sys

from gravbench.config.load import load
from gravbench.measuring import worker
from gravbench.toolkits import kept

variant, toolkit, *chosen = sys.argv[1:]
kept.keep()
loads = kept._Kept.load_overload
told = []
kept._Kept.load_overload = lambda own, *arguments: told.append("loads") or loads(own, *arguments)
(case,) = load("quick", ["n=200", *chosen], variants=[variant], toolkits=[toolkit]).cases
outcome = worker.work(worker.Job(case, None), (), lambda: None, lambda _: None, lambda asked: told.append(asked.name))
print(outcome.status, outcome.reason, told.count("loads") > 5, "loads" in told[told.index("ALONE"):])
"""


@pytest.mark.parametrize("chosen", [("barnes_hut_cpu", "cpu"), ("barnes_hut", "numba", "p=32")])
def test_code_for_the_host_is_loaded_before_a_case_has_it_for_itself(chosen):
    done = subprocess.run([sys.executable, "-c", HOST_CODE, *chosen], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "ok None True False\n", done.stdout + done.stderr


def test_a_rehearsal_ends_at_the_first_kernel_and_leaves_what_goes_wrong_to_the_case():
    variant = discover(())["barnes_hut"]
    (case,) = load("quick", ["n=200", "p=32"], variants=["barnes_hut"], toolkits=["numba"]).cases
    opened = open_toolkit("numba", variant, "float32", interaction_files.find("gravity"))
    bodies = initial_conditions.of_case(case)
    launched, compiled = [], []

    def prepare(gpu, bodies, **axes):
        prepared = variant.prepare(gpu, bodies, **axes)
        return replace(prepared, launch=lambda: launched.append(bodies.n) or prepared.launch())

    def raises(*_, **__):
        raise ValueError("too few bodies")

    prepared = prepare(opened, bodies, **case.axes)
    assert prepared.kernel.compiled is None
    told = opened.on_launch, opened.on_compiling
    rehearse(opened, replace(variant, prepare=prepare), bodies, case.axes, lambda: compiled.append("compiles"))
    rehearse(opened, replace(variant, prepare=raises), bodies, case.axes, lambda: None)
    assert launched == [64]
    assert compiled == ["compiles"]
    assert prepared.kernel.compiled, "the kernel that all bodies have, for which nothing waits any more"
    assert not prepared.kernel.launch.grid_blocks
    assert (opened.on_launch, opened.on_compiling, opened.keeps_kernels) == (*told, False)


def test_a_rehearsal_launches_no_kernel_that_is_there():
    variant = discover(())["barnes_hut"]
    (case,) = load("quick", ["n=200", "p=32"], variants=["barnes_hut"], toolkits=["numba"]).cases
    opened = open_toolkit("numba", variant, "float32", interaction_files.find("gravity"))
    bodies = initial_conditions.of_case(case)
    prepared = variant.prepare(opened, bodies, **case.axes)
    passed = []

    class Kernel:
        """As CuPy's: compiled when it is made, and it asks before its first launch."""

        def __call__(self, *_, **__):
            opened.on_launch()
            passed.append("launched")

    opened._kernels = dict.fromkeys(opened._kernels, Kernel())
    rehearse(opened, variant, bodies, case.axes, lambda: None)
    assert prepared
    assert not passed


@pytest.mark.parametrize("timed", ["force", "step"])
def test_numba_compiles_before_a_case_waits_for_its_turn(monkeypatch, timed):
    told, launch = [], numba._Kernel.__call__

    def called(kernel, *arguments, **options):
        told.append("compiles" if kernel.toolkit.only_compiles else "launches")
        launch(kernel, *arguments, **options)

    monkeypatch.setattr(numba._Kernel, "__call__", called)
    (case,) = load("quick", ["n=40"], variants=["naive"], toolkits=["numba"]).cases
    if timed == "step":
        case = case.model_copy(update={"timed": timed, "integrator": "leapfrog", "dt": 1e-3})
    outcome = work(Job(case, None), (), lambda: None, lambda _: None, lambda asked: told.append(asked) or False)
    assert outcome.status == "ok", outcome.reason
    kernels = 1 if timed == "force" else 2  # the integrator too
    own = [one for one in told if one not in (Turn.OPEN, Turn.NOTHING)]
    assert own[: kernels + 2] == [*["compiles"] * kernels, Turn.ALONE, "launches"]
    assert told.count("compiles") == kernels


def test_what_a_launch_does_behind_its_first_kernel_waits_for_a_turn(monkeypatch):
    told, variant = [], discover(())["naive"]

    def prepare(gpu, bodies, **axes):
        prepared = variant.prepare(gpu, bodies, **axes)

        def launch():
            prepared.launch()
            told.append("behind")

        return replace(prepared, launch=launch)

    monkeypatch.setattr(worker, "discover", lambda _: {"naive": replace(variant, prepare=prepare)})
    (case,) = load("quick", ["n=40"], variants=["naive"], toolkits=["numba"]).cases
    outcome = work(Job(case, None), (), lambda: None, lambda _: None, lambda asked: told.append(asked) or False)
    assert outcome.status == "ok", outcome.reason
    assert [one for one in told if one not in (Turn.OPEN, Turn.NOTHING)][:2] == [Turn.ALONE, "behind"]


def test_a_kernel_of_another_language_is_compiled_first_and_counts_as_launched_only_then():
    told = []

    class Toolkit(images.ImageToolkit):
        variant, real, is_compiling, compile_seconds, on_compiling = None, np.float32, False, 0.0, lambda *_: None

        def __init__(self):
            pass

        def image(self, job):
            told.append(("compiles", job.threads))

        def load(self, _):
            return lambda *launch: told.append(("launches", *launch[:2]))

        compiler = ""

    kernel = images._Kernel(Toolkit(), "stem", {})
    kernel.toolkit.compile_first(lambda: kernel(4, 128))
    assert told == [("compiles", 128)]
    assert not kernel.launch.grid_blocks
    kernel(4, 128)
    assert told[1:] == [("launches", (4,), (128, 1))]
    assert kernel.launch.grid_blocks == 4


def opened_without_a_device(kind, own=None):
    """Make a toolkit of a library that is made up, whose kernels are made by ``own``."""

    class Opened(kind):
        def __init__(self):
            self.compile_seconds, self.is_compiling, self.dtype = 0.0, False, "float32"
            self.on_compiling = lambda _: None
            self.on_launch = lambda: None

        def maker(self, _):
            return lambda *_, **__: own

        def upload(self, values):
            return list(values)

    return Opened()


def test_triton_compiles_for_the_arguments_of_a_launch_without_a_launch():
    told = []

    class Jitted:
        def warmup(self, *arguments, grid, **options):
            told.append(("compiles", arguments, grid, options["num_warps"]))

        def __getitem__(self, grid):
            return lambda *arguments, **options: told.append(("launches", arguments, grid, options["num_warps"]))

    toolkit = opened_without_a_device(triton.TritonToolkit)
    kernel = triton._Kernel(toolkit, Jitted())
    toolkit.compile_first(lambda: kernel(7, 64, "x", np.int32(3), np.float32(0.5)))
    what = (("x", 3, [0.5]), (7,), 2)
    assert told == [("compiles", *what)]
    kernel(7, 64, "x", np.int32(3), np.float32(0.5))
    assert told[1:] == [("launches", *what)]


@pytest.mark.parametrize("options", [{}, {"mode": "max-autotune"}, {"options": {"epilogue_fusion": True}}])
@pytest.mark.parametrize("decorates", [False, True])
def test_torch_compiles_before_a_turn_and_launches_nothing_then(monkeypatch, options, decorates):
    told = []

    def compile_(function=None, *, backend="inductor", mode=None, options=None):
        if function is None:  # as a decorator
            return lambda function: library.compile(function, backend=backend, mode=mode, options=options)
        made = []

        def call(*arguments):
            if not made and backend == "inductor":
                told.append("compiles by itself")
                made.append(function)
            elif not made:
                made.append(backend(function, arguments))
            return made[0](*arguments)

        return call

    def lookup_backend(name):
        assert name == "inductor"
        return lambda graph, _: told.append("compiles") or graph

    library = SimpleNamespace(compile=compile_)
    monkeypatch.setitem(sys.modules, "torch._dynamo", SimpleNamespace(lookup_backend=lookup_backend))
    toolkit = opened_without_a_device(torch.TorchToolkit)
    toolkit.torch = library

    def maker(library, *_, **__):
        def launches():
            told.append("launches")

        return library.compile(**options)(launches) if decorates else library.compile(launches, **options)

    monkeypatch.setattr(toolkit, "maker", lambda _: maker)
    kernel = toolkit.build("stem", {})
    assert library.compile is compile_, "for others it is PyTorch's own"
    toolkit.compile_first(kernel)
    assert told == ([] if options else ["compiles"]), "options of one's own are PyTorch's"
    kernel()
    kernel()
    assert told[-2:] == ["launches", "launches"]
    assert told.count("compiles") == (not options), "once"
    options = {"mode": "default"}
    toolkit.build("another", {})
    options = {}
    kernel = toolkit.build("stem", {})
    told.clear()
    toolkit.compile_first(kernel)
    assert not told, "another of its kernels may launch while it is compiled"


def test_a_library_is_imported_after_those_that_it_needs(monkeypatch):
    imported, entries = [], catalogue()
    monkeypatch.setattr(toolkits, "os", SimpleNamespace(environ={}))
    monkeypatch.setattr(toolkits, "importlib", SimpleNamespace(import_module=imported.append))
    for name, libraries in (("triton", ["torch", "triton"]), ("torch", ["torch"])):
        imported.clear()
        entries[name].load()
        assert imported == libraries, "PyTorch takes seconds, in which a process would hold the device"


def test_compiling_first_changes_nothing_of_the_errors_of_windows(monkeypatch):
    where = {"variants": ["approximate_global"], "toolkits": ["numba"]}
    (case,) = load("quick", ["n=60", "fraction=0.2"], **where).cases
    found = []
    for compiles in (lambda *_: None, numba.NumbaToolkit.compile_first):
        monkeypatch.setattr(numba.NumbaToolkit, "compile_first", compiles)
        found.append(work(Job(case, None), (), lambda: None, lambda _: None).found.errors)
    assert found[0] == found[1]


def test_what_launches_while_it_is_prepared_has_the_device_for_itself(history, monkeypatch):
    ((_, variant),) = worker.discover(()).items()

    def prepare(gpu, bodies, **axes):
        gpu.on_launch()
        return variant.prepare(gpu, bodies, **axes)

    monkeypatch.setattr(worker, "discover", lambda _: {"numpy_direct": replace(variant, prepare=prepare)})
    _, found = doing(history)
    assert [one for one in found if isinstance(one, Turn)] == [Turn.MEASURE]


@pytest.mark.parametrize(("beside", "launches"), [(1, 0), (3, 5)])
def test_launches_that_others_slow_down_are_judged_as_often(beside, launches):
    class Judge:
        quickest = 0.15
        times = 0

        def elsewhere(self):
            return None

        def launched(self):
            self.times += 1
            return None, None

    judge = Judge()
    assert launched_again(judge, Found(), beside=beside) is None
    assert judge.times == launches


def test_a_process_imports_the_library_before_its_turn_and_its_wait_is_no_part_of_its_start(monkeypatch):
    told = []

    def turn(asked):
        told.append(str(asked))
        time.sleep(0.2)
        return False

    def opened(*_):
        told.append("opens")
        return SimpleNamespace(compute_capability=None)

    start = first_use.Start()
    monkeypatch.setattr(first_use, "START", start)
    monkeypatch.setattr(first_use, "OPENED", set())
    monkeypatch.setattr(first_use, "open_toolkit", opened)
    monkeypatch.setattr(first_use, "initialize", lambda: told.append("initializes"))
    contexts = {"cupy": True, "pycuda": True, "torch": False}
    library = {
        name: SimpleNamespace(load=lambda: told.append("imports"), only_context=only) for name, only in contexts.items()
    }
    monkeypatch.setattr(first_use, "catalogue", lambda: library)
    (case,) = load("quick", ["n=40"], variants=["tiled"], toolkits=["cupy"]).cases
    for _ in range(2):
        first_use.toolkit(case, None, turn, told.append)
    waited = ["imports", "initializes", "open", "loading", "opens", "nothing"]
    assert told == [*waited, "opens"], "once per process"
    assert start.seconds() >= 0.2, "the turn it gives back took as long, and counts"
    assert start.seconds() < 0.4
    for name, expected in (("pycuda", ["imports", "opens"]), ("torch", waited)):
        told.clear()
        first_use.toolkit(case.model_copy(update={"toolkit": name}), None, turn, told.append)
        assert told == expected, "only what opens more than the context waits"
