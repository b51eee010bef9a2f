"""The peers where they can be tried without a GPU: their kernels on the host, and what times them."""

import ctypes
import importlib
import os
import re
import tomllib
from types import SimpleNamespace

import numpy as np
import pytest

from conftest import ROOT
from direct import direct_accelerations
from gravbench.errors import InputError
from gravbench.explain import assembling, generated
from gravbench.explain.machine_code import parse
from gravbench.explain.pipes import is_rsqrt
from gravbench.model import generators
from gravbench.model.bodies import Bodies
from gravbench.model.interaction import GRAVITY
from gravbench.model.interaction_files import find
from gravbench.model.toolkits import catalogue
from gravbench.model.variant import DIRECT_SUM, discover
from gravbench.toolkits import driver
from gravbench.toolkits.binaries import Binary
from gravbench.toolkits.driver import HOLD, DriverError
from gravbench.toolkits.images import ImageToolkit
from gravbench.toolkits.interface import LONGEST_HOLD, DeviceToolkit, FirstCall
from gravbench.toolkits.opening import open_toolkit
from gravbench.verifying import comparing as reference

# Before JAX is imported anywhere: by default it takes three quarters of a GPU that other tests use.
os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"

VARIANTS = discover()
PEERS = {name: one for name, one in VARIANTS.items() if one.path.parent.name == "peers"}
EPS = 0.05


def library(toolkit):
    """Import what a toolkit needs, or skip with the toolkit's own reason."""
    if missing := catalogue()[toolkit].missing:
        pytest.skip(missing)
    return importlib.import_module(catalogue()[toolkit].module)


class Compiling:
    """A toolkit as far as counting the time to compile needs one."""

    compile_seconds, compiled_here_seconds, is_compiling, built_ahead = 0.0, 0.0, False, None
    count = DeviceToolkit.count


# Each of these runs a peer's kernel on the host and returns the accelerations.


def by_cupy(columns, real, eps2):
    # NumPy has every operation that the kernel asks of CuPy.
    kernel = VARIANTS["cupy_broadcast"].module.cupy_kernel(np, real, ROWS=64)
    results = [np.full(columns[0].size, np.nan, real) for _ in range(3)]
    kernel(*columns, *results, np.int32(columns[0].size), eps2)
    return results


def by_torch(columns, real, eps2):
    torch = library("torch")
    toolkit = Compiling()
    kernel = FirstCall(toolkit, VARIANTS["torch_compile"].module.torch_kernel(torch, real, ROWS=64))
    own = [torch.from_numpy(column) for column in columns]
    results = [torch.full_like(own[0], torch.nan) for _ in range(3)]
    kernel(*own, *results, own[0].numel(), eps2.item())
    return [result.numpy() for result in results]


def by_jax(columns, real, eps2):
    jax = library("jax")
    jax.config.update("jax_enable_x64", real is np.float64)
    kernel = VARIANTS["jax_jit"].module.jax_kernel(jax, real, ROWS=64)
    own = [jax.device_put(column, jax.devices("cpu")[0]) for column in columns]
    found = jax.jit(kernel)(*own, *own[:3], np.int32(own[0].size), eps2)
    return [np.asarray(found[name]) for name in ("ax", "ay", "az")]


def by_warp(columns, real, eps2):
    warp = library("warp")
    kernel = VARIANTS["warp_tiles"].module.warp_kernel(warp, real, P=64)
    own = [warp.array(column, device="cpu") for column in columns]
    results = [warp.array(np.full(own[0].size, np.nan, real), device="cpu") for _ in range(3)]
    arguments = [*own, *results, np.int32(own[0].size), eps2]
    warp.launch(kernel, dim=-(-own[0].size // 64) * 64, inputs=arguments, device="cpu", block_dim=64)
    return [result.numpy() for result in results]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 64, 150])
@pytest.mark.parametrize("evaluate", [by_cupy, by_torch, by_jax, by_warp])
def test_on_the_host_it_agrees_with_the_float64_direct_sum(evaluate, n, dtype):
    bodies = generators.plummer(n, 3, EPS)
    real = np.dtype(dtype).type
    columns = [np.ascontiguousarray(column, real) for column in (*bodies.position.T, bodies.mass)]
    found = np.column_stack(evaluate(columns, real, real(EPS**2)))
    assert found.dtype == real
    errors = reference.compare(found, direct_accelerations(bodies, np.arange(n), dtype))
    assert reference.objection_to(errors, DIRECT_SUM[dtype]) is None


class FakeJzfmm:
    """The names of JZ-FMM 1.0 that are used, and a method that sums up all pairs."""

    def __init__(self):
        self.asked = []
        self.data = self.fmm = self

    PlummerKernel = OpeningByAngle = PosMass = SimpleNamespace

    def FMMConfig(self, **asked):  # noqa: N802 - its own name
        return SimpleNamespace(tree=SimpleNamespace(max_leaf_size=32, alloc_fac_nodes=1.2), **asked)

    def fast_multipole_method(self, part, cfg_fmm, G):  # noqa: N803 - its own names
        self.asked.append((len(part.pos), part.mass.shape, G))
        self.places = cfg_fmm.tree.alloc_fac_nodes, cfg_fmm.alloc_fac_ilist
        inside = Bodies(part.mass, part.pos, np.zeros_like(part.pos), cfg_fmm.kernel.softening)
        forces = direct_accelerations(inside, np.arange(inside.n), "float64")
        return SimpleNamespace(force=lambda: forces)


def test_jzfmm_is_asked_for_softened_accelerations_of_bodies_where_they_lie():
    bodies = generators.plummer(20, 3, EPS)
    library = FakeJzfmm()
    kernel = VARIANTS["jzfmm_multipoles"].module.jzfmm_kernel(library, np.float64, ORDER=5, THETA=0.4, EPS=EPS)
    rows = np.column_stack([bodies.position, bodies.mass])
    found = kernel(rows, None)
    assert library.asked == [(20, (20,), 1.0)]
    # A cell for each body, where 16 have one by default, and more interactions than theta = 0.4 needs.
    assert library.places == (16, 1024)
    expected = direct_accelerations(bodies, np.arange(20), "float64")
    np.testing.assert_allclose(found["accelerations"], expected, rtol=1e-12)


def test_jzfmm_allocates_by_itself_for_many_bodies(monkeypatch):
    library, module = FakeJzfmm(), VARIANTS["jzfmm_multipoles"].module
    monkeypatch.setattr(module, "FEW", 20)
    module.jzfmm_kernel(library, np.float64, ORDER=5, THETA=0.4, EPS=EPS)(np.ones((20, 4)), None)
    assert library.places == (1.2, pytest.approx(64 * 8))


def test_fewer_bodies_than_jzfmm_takes_are_a_sentence():
    bodies = generators.plummer(32, 3, EPS)
    with pytest.raises(InputError, match=r"^32 bodies; accepted by JZ-FMM: 33 or more$"):
        VARIANTS["jzfmm_multipoles"].prepare(None, bodies, order=5, theta=0.8)


def test_bodies_in_one_leaf_of_jzfmm_are_a_sentence():
    bodies = Bodies(np.ones(40), np.full((40, 3), 0.3), np.zeros((40, 3)), EPS)
    with pytest.raises(InputError, match=r"^all bodies at one place; accepted by JZ-FMM: bodies at two places"):
        VARIANTS["jzfmm_multipoles"].prepare(None, bodies, order=5, theta=0.8)


@pytest.mark.parametrize("theta", [0.4, 0.8])
@pytest.mark.parametrize(("real", "order"), [(np.float32, 7), (np.float64, 3)])
def test_jzfmm_itself_takes_what_it_is_asked(real, order, theta):
    """Traced by its own Python, which needs no GPU; nothing is launched."""
    jzfmm, jax = library("jzfmm"), library("jax")
    jax.config.update("jax_enable_x64", real is np.float64)
    kernel = VARIANTS["jzfmm_multipoles"].module.jzfmm_kernel(jzfmm, real, ORDER=order, THETA=theta, EPS=EPS)
    for n in (33, 2000):
        (found,) = jax.eval_shape(
            kernel, jax.ShapeDtypeStruct((n, 4), real), jax.ShapeDtypeStruct((n, 3), real)
        ).values()
        assert (found.shape, found.dtype) == ((n, 3), real)


ROOTS = {
    "triton_tiles": lambda p, tile, warps: p * tile // (32 * warps),
    "gluon_tiles": lambda r, tile, warps: r * tile,  # noqa: ARG005 - a thread has all columns of its bodies
    "cute_tiles": lambda p, r, unroll: r * unroll,  # noqa: ARG005 - of threads, which changes no thread's work
    "mojo_tiles": lambda p, r, unroll: r * unroll,  # noqa: ARG005
}
"""Inverse square roots of a thread in one turn of the inner loop; cuTile has the compiler choose the threads."""


def compiled(name, axes, architecture):
    library(VARIANTS[name].toolkits[0])
    made, kernel = generated.generated(VARIANTS[name], axes, architecture)
    return parse(assembling.listing(made), kernel)


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize("name", [*ROOTS, "cutile_tiles"])
def test_a_language_compiles_without_a_gpu_a_spill_or_float64(name, architecture):
    code = compiled(name, {}, architecture)
    opcodes = [one.opcode for one in code.instructions]
    roots = sum(map(is_rsqrt, opcodes))
    assert roots == (ROOTS[name](**VARIANTS[name].complete({})) if name in ROOTS else roots) > 0
    assert [one for one in opcodes if one.startswith(("DADD", "DMUL", "DFMA", "LDL", "STL"))] == []


@pytest.mark.parametrize("axes", [{"p": 64, "r": 2, "unroll": 4}, {"p": 256, "r": 8, "unroll": 1}], ids=str)
@pytest.mark.parametrize("name", ["cute_tiles", "mojo_tiles"])
def test_the_axes_of_a_language_reach_its_kernel(name, axes):
    """A thread reads its r bodies and one of each tile, 16 bytes at a time, and a turn of the loop ``unroll`` more."""
    opcodes = [one.opcode for one in compiled(name, axes, "sm_90").instructions]
    assert sum(map(is_rsqrt, opcodes)) == axes["r"] * axes["unroll"]
    assert sum(one.startswith("LDG") for one in opcodes) == axes["r"] + 1
    assert sum(one.startswith("LDS") for one in opcodes) == axes["unroll"]
    assert all(".128" in one for one in opcodes if one.startswith(("LDG", "LDS", "STG", "STS")))


@pytest.mark.parametrize(
    ("p", "tile", "resident"), [(128, 32, 2), (256, 16, 2), (512, 8, 2), (128, 16, 4), (256, 8, 4)]
)
def test_no_thread_of_cutile_repeats_what_another_does(p, tile, resident):
    """Four warps compute, whatever the tile; one that is too small for them would be computed several times."""
    code = compiled("cutile_tiles", {"p": p, "tile": tile, "resident": resident}, "sm_90")
    holding = [
        sum(is_rsqrt(one.opcode) for one in code.instructions[loop.first : loop.last + 1]) for loop in code.loops()
    ]
    assert min(filter(None, holding)) * 128 == p * tile
    assert [one.opcode for one in code.instructions if one.name in ("LDL", "STL")] == []


@pytest.mark.parametrize("name", [*ROOTS, "cutile_tiles"])
def test_an_architecture_that_a_language_lacks_is_a_sentence(name):
    library(VARIANTS[name].toolkits[0])
    with pytest.raises(InputError, match=r"^--arch sm_1: no such architecture; accepted: sm_80, .* sm_120$"):
        generated.generated(VARIANTS[name], {}, "sm_1")


def test_what_a_compiler_refuses_is_a_sentence_that_names_it(monkeypatch):
    def refusing(job, architecture):
        raise SyntaxError(f"line 3 of {job.stem}, for {architecture}")

    monkeypatch.setattr(catalogue()["cute"].__class__, "missing", None)
    monkeypatch.setattr(generated, "compilers", lambda: {"cute": refusing})
    with pytest.raises(InputError, match=r"^CuTe DSL does not compile cute_tiles for sm_90: line 3 of cute_tiles, for"):
        generated.generated(VARIANTS["cute_tiles"], {}, "sm_90")


def test_a_variant_that_no_compiler_takes_without_a_gpu_says_so():
    with pytest.raises(
        InputError,
        match=r"^jax_jit has no machine code without a GPU; accepted: .*CUDA C, numba-cuda, numba-cuda-mlir, Triton",
    ):
        generated.generated(VARIANTS["jax_jit"], {}, "sm_90")


def test_ptx_becomes_machine_code_for_the_target_that_it_names():
    text = b".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry idle()\n{\n\tret;\n}\n"
    made = assembling.Compiled("sm_90", assembling.linked(text, "sm_90"), "")
    assert "sm_90a" in assembling.listing(made)
    assert "EXIT" in [one.opcode for one in parse(assembling.listing(made), "idle").instructions]
    assert assembling.linked(made.image, "sm_80") == made.image
    with pytest.raises(InputError, match="nvJitLink rejects the PTX for sm_90"):
        assembling.linked(text.replace(b"ret", b"rot"), "sm_90")


class FakeCupy:
    """The names of CuPy with which a compiled kernel is loaded and launched."""

    def __init__(self):
        self.cuda = self.function = self
        self.calls = []
        self.ptr = 0xF0

    def Module(self):  # noqa: N802 - its own name
        return self

    def load(self, code):
        self.calls.append(("load", code))

    def get_function(self, name):
        self.calls.append(("kernel", name))
        return lambda *arguments: self.calls.append(("launch", *arguments))


def test_a_kernel_is_compiled_at_its_first_launch_for_that_launch():
    class Own(ImageToolkit):
        def start(self):
            self.cupy, self.jobs = FakeCupy(), []

        def compiled(self, job):
            self.jobs.append(job)
            return Binary(b"code", f"{job.stem}_0", 0.5), False

    toolkit = Own(VARIANTS["cute_tiles"], "float32", find(GRAVITY))
    kernel = toolkit.compile("cute_tiles", P=64, R=2)
    assert toolkit.jobs == []
    assert toolkit.compile_seconds == 0
    kernel(3, 64, np.float32(1))
    kernel(5, 64, np.float32(2))
    ((job),) = toolkit.jobs
    assert (job.stem, job.constants, job.threads) == ("cute_tiles", {"P": 64, "R": 2}, 64)
    assert job.real is np.float32
    assert job.arguments == (np.float32(1),)
    assert toolkit.cupy.calls == [
        ("load", b"code"),
        ("kernel", "cute_tiles_0"),
        ("launch", (3,), (64, 1), (np.float32(1),)),
        ("launch", (5,), (64, 1), (np.float32(2),)),
    ]
    assert (toolkit.compile_seconds, toolkit.built_ahead) == (0.5, True)
    assert kernel.launch.grid_blocks == 5


def test_each_peer_has_one_toolkit_and_a_parent_that_is_written_in_cuda():
    assert {one.toolkits for one in PEERS.values()} == {
        ("cupy",),
        ("torch",),
        ("triton",),
        ("cutile",),
        ("cute",),
        ("mojo",),
        ("jax",),
        ("warp",),
        ("jzfmm",),
    }
    assert {one.parent for one in PEERS.values()} == {"naive"}


def test_every_toolkit_is_in_the_catalogue_is_probed_and_can_be_installed():
    of_cuda = ["cupy", "pycuda", "numba", "mlir", "torch", "triton", "cutile", "cute", "mojo", "jax", "warp", "jzfmm"]
    assert list(catalogue()) == [*of_cuda, "wgpu", "cpu"]
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    for toolkit, entry in catalogue().items():
        assert toolkit in VARIANTS[entry.probe].toolkits
        assert set(entry.extras) <= set(extras)


def test_a_toolkit_that_a_stem_has_no_kernel_for_says_so():
    toolkit = open_toolkit("cpu", VARIANTS["jax_jit"], "float32")
    with pytest.raises(InputError, match=r"jax_jit has no kernel for cpu: there is no cpu_kernel in jax_jit\.py"):
        toolkit.compile("jax_jit")


def test_the_first_call_compiles_and_no_other():
    toolkit = Compiling()
    calls = []
    kernel = FirstCall(toolkit, lambda *arguments: calls.append(arguments))
    kernel(1)
    first = toolkit.compile_seconds
    kernel(2)
    assert calls == [(1,), (2,)]
    assert toolkit.compile_seconds == first > 0
    assert toolkit.built_ahead is False


# Events and the holding kernel, by a made-up driver


class FakeDriver:
    """A driver whose device notes that every event is 1.5 ms after the one before."""

    def __init__(self):
        self.current = None
        self.calls = []
        self.events = []
        self.ready = True

    def cuInit(self, flags):  # noqa: N802
        assert flags == 0
        return 0

    def cuCtxGetCurrent(self, context):  # noqa: N802
        context._obj.value = self.current
        return 0

    def cuDeviceGet(self, device, ordinal):  # noqa: N802
        device._obj.value = 7 + ordinal
        return 0

    def cuDevicePrimaryCtxRetain(self, context, device):  # noqa: N802
        assert device.value == 7
        context._obj.value = 0xC0
        return 0

    def cuCtxSetCurrent(self, context):  # noqa: N802
        self.current = context.value
        return 0

    def cuEventCreate(self, event, flags):  # noqa: N802
        assert flags == 0, "an event without time, or one that waits by sleeping"
        event._obj.value = 0xE0 + len(self.events)
        self.events.append(None)
        return 0

    def cuEventDestroy_v2(self, event):  # noqa: N802
        self.calls.append(("destroy", event.value))
        return 0

    def cuEventRecord(self, event, stream):  # noqa: N802
        self.calls.append(("record", event.value, stream.value))
        return 0

    def cuEventQuery(self, event):  # noqa: N802, ARG002
        return self.ready

    def cuEventSynchronize(self, event):  # noqa: N802
        self.calls.append(("wait", event.value))
        return 0

    def cuEventElapsedTime(self, milliseconds, start, stop):  # noqa: N802
        milliseconds._obj.value = 1.5 * (stop.value - start.value)
        return 0

    def cuModuleLoadData(self, module, image):  # noqa: N802
        assert image == HOLD
        module._obj.value = 0xAA
        return 0

    def cuModuleGetFunction(self, function, module, name):  # noqa: N802
        assert (module.value, name) == (0xAA, b"hold")
        function._obj.value = 0xF0
        return 0

    def cuLaunchKernel(self, function, *rest):  # noqa: N802
        *extents, shared, stream, arguments, extra = rest
        assert (extents, shared, extra) == ([1] * 6, 0, None)
        value = ctypes.cast(arguments[0], ctypes.POINTER(ctypes.c_uint))[0]
        self.calls.append(("launch", function.value, stream.value, value))
        return 0

    def cuGetErrorString(self, code, text):  # noqa: N802
        text._obj.value = f"error {code}".encode()
        return 0


@pytest.fixture
def fake(monkeypatch):
    own = FakeDriver()
    monkeypatch.setattr(driver, "_library", lambda: own)
    driver.load_function.cache_clear()
    yield own
    driver.load_function.cache_clear()


def test_an_event_is_recorded_in_the_stream_and_tells_seconds(fake):
    start, stop = driver.Event(), driver.Event()
    start.record(0x5)
    stop.record(0x5)
    assert stop.seconds_since(start) == pytest.approx(1.5e-3)
    assert fake.calls == [("record", 0xE0, 0x5), ("record", 0xE1, 0x5), ("wait", 0xE1)]
    del start
    assert fake.calls[-1] == ("destroy", 0xE0)


def test_an_event_has_passed_or_not_or_the_device_has_failed(fake):
    event = driver.Event()
    for code, answer in ((0, True), (driver.NOT_READY, False)):
        fake.ready = code
        assert event.passed() is answer
    fake.ready = 700
    with pytest.raises(DriverError, match="cuEventQuery: error 700"):
        event.passed()


def test_the_holding_kernel_is_one_thread_in_the_stream_that_is_asked_for(fake):
    driver.hold(200, 0x5)
    driver.hold(LONGEST_HOLD, 0x6)
    assert fake.calls == [("launch", 0xF0, 0x5, 200), ("launch", 0xF0, 0x6, LONGEST_HOLD)]


def test_the_primary_context_is_made_current_where_there_is_none(fake):
    driver.use_device()
    assert fake.current == 0xC0
    fake.current = 0xD0
    driver.use_device()
    assert fake.current == 0xD0


def test_the_holding_kernel_sleeps_a_microsecond_at_a_time():
    """A loop of so many nanosleep of a microsecond, for the oldest device that is supported."""
    text = HOLD.decode()
    assert re.search(r"^\.target sm_75$", text, re.MULTILINE)
    assert re.search(r"nanosleep\.u32 1000;", text)


# On a GPU

EVERY_CLOCK = [
    *((name, toolkit) for name, one in PEERS.items() for toolkit in one.toolkits),
    *(("tiled", toolkit) for toolkit in ("cupy", "pycuda", "numba")),
]


@pytest.fixture
def opened(need_toolkit):
    def opening(name, toolkit):
        need_toolkit(toolkit)
        return open_toolkit(toolkit, VARIANTS[name], "float32")

    return opening


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "toolkit"), [one for one in EVERY_CLOCK if one[1] not in ("jax", "jzfmm")])
def test_the_holding_kernel_and_the_events_are_in_one_stream(opened, name, toolkit):
    toolkit = opened(name, toolkit)
    toolkit.hold(1)
    toolkit.synchronize()
    start, stop = toolkit.event(), toolkit.event()
    start.record(toolkit.current_stream)
    toolkit.hold(5000)
    stop.record(toolkit.current_stream)
    assert not stop.passed()
    # nanosleep sleeps up to twice as long as it is asked to.
    assert 2e-3 < stop.seconds_since(start) < 20e-3
    assert stop.passed()


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "toolkit"), EVERY_CLOCK)
def test_what_is_timed_is_what_the_host_waits_for(opened, name, toolkit):
    """A batch between events, or by the host's clock, takes what the host sees from its first launch to its end.

    About: at 65,536 bodies launching is little of it, but others may use the device at the same time.
    """
    import time

    toolkit = opened(name, toolkit)
    variant = VARIANTS[name]
    prepared = variant.prepare(toolkit, generators.plummer(65536, 3, EPS), **variant.complete({}))
    prepared.launch()
    toolkit.synchronize()
    assert toolkit.compile_seconds > 0
    began = time.perf_counter()
    for _ in range(10):
        prepared.launch()
    toolkit.synchronize()
    seen = (time.perf_counter() - began) / 10
    timed = toolkit.time(prepared.launch, 10)
    assert 0.2 * seen < timed.seconds < 5 * seen


@pytest.mark.gpu
def test_no_array_of_all_pairs_exists_where_the_compiler_fuses(opened):
    toolkit = opened("torch_compile", "torch")
    variant = VARIANTS["torch_compile"]
    bodies = generators.plummer(16384, 3, EPS)
    prepared = variant.prepare(toolkit, bodies, **variant.complete({"rows": 4096}))
    prepared.launch()
    toolkit.synchronize()
    toolkit.torch.cuda.reset_peak_memory_stats()
    before = toolkit.torch.cuda.memory_allocated()
    prepared.launch()
    toolkit.synchronize()
    assert toolkit.torch.cuda.max_memory_allocated() - before < 4096 * 16384
