"""Entries on a device: by a driver of CUDA that computes on the host, and in WGSL on whichever adapter is there."""

import io
import json
import re
import subprocess
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from conftest import ROOT
from gravbench.errors import InputError
from gravbench.judging import frames, judgement, on_device, timing
from gravbench.judging.cubin import global_bytes
from gravbench.judging.entry import read
from gravbench.judging.on_device import FaultError, LaunchingProcess, OnDevice
from gravbench.model.device import Device, Target
from gravbench.sandbox.compilers import compile_cuda
from gravbench.toolkits import wgpu

CARD = Device("cuda:0", "Pretended")
# Ends with the fewest samples that have an interval, on a busy host too.
QUICK = timing.SETTINGS.model_copy(update={"budget_seconds": 10.0, "warm_up_seconds": 0.01, "half_width": 0.9})
CUDA_C = """/* gravbench entry
constants: {P: 128}
kernels: [{name: NAME, grid: "ceil_div(n, P)", block: P, arguments: [bodies, accelerations, n, eps2]}]
arrays: {bodies: bodies, accelerations: accelerations}
*/
extern "C" __global__ void NAME(const float4* bodies, float4* accelerations, int n, float eps2) {
    const int i = blockIdx.x * P + threadIdx.x;
    if (i < n) accelerations[i] = bodies[i];
}
"""
WGSL = """/* gravbench entry
constants: {P: 64}
kernels: [{name: NAME, grid: "ceil_div(n, P)", block: P, arguments: [bodies, accelerations, kept, n, eps2]}]
arrays: {bodies: bodies, accelerations: accelerations, kept: {layout: scratch, bytes: 16 * (n + 1), zeros: true}}
*/
struct Numbers { n: i32, eps2: f32 }
@group(0) @binding(0) var<storage, read_write> bodies: array<vec4f>;
@group(0) @binding(1) var<storage, read_write> accelerations: array<vec4f>;
@group(0) @binding(2) var<storage, read_write> kept: array<vec4f>;
@group(0) @binding(3) var<uniform> numbers: Numbers;

@compute @workgroup_size(P)
fn NAME(@builtin(global_invocation_id) id: vec3u) {
    let i = i32(id.x);
    if i >= numbers.n { return; }
    let own = bodies[i].xyz;
    var sum = vec3f();
    for (var j = 0; j < numbers.n; j++) {
        let other = bodies[j];
        let d = other.xyz - own;
        let inverse = inverseSqrt(dot(d, d) + numbers.eps2);
        sum += other.w * inverse * inverse * inverse * d;
    }
    var result = vec4f(sum, 0);
    WRONG
    kept[i + 1] = result;
    accelerations[i] = result;
}
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    folder = tmp_path_factory.mktemp("driver")
    source = ROOT / "tests" / "pretended_driver.c"
    judged = f"-DJUDGED_LAUNCHES={judgement.LAUNCHES}"
    command = ["gcc", "-O2", "-w", judged, "-shared", "-fPIC", "-o", folder / "libcuda.so.1", source, "-lm"]
    subprocess.run(command, check=True)
    return folder


@pytest.fixture
def card(driver, monkeypatch):
    """Return a device whose driver is the one that is pretended."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(driver))
    monkeypatch.setattr(on_device, "target_of", lambda _: Target("sm_90", 132))
    # A busy host delays the process that launches by more than it delays a GPU.
    monkeypatch.setattr(timing, "SLACK", 60.0)
    return CARD


@pytest.fixture
def adapter():
    devices, reason = wgpu.FAMILY.devices()
    if not devices:
        pytest.skip(reason)
    return devices[0]


def entry_of(tmp_path, text, name, suffix):
    path = tmp_path / f"{name}{suffix}"
    path.write_text(text.replace("NAME", name))
    return read(path)


def judged(entry, device, sizes=(1, 33, 129), settings=QUICK):
    """Return what is said of an entry: of all sizes, and of what was timed after that."""
    with OnDevice(device) as launcher:
        result = judgement.judge(entry, launcher, sizes)
        if not result.right:
            return "; ".join(
                size.fault.sentence if size.fault else size.wrong for size in result.sizes if not size.right
            )
        loaded = launcher.loaded(entry)
        timed = timing.timed(loaded, entry, 500, result.tolerance, np.random.default_rng(), settings=settings)
        return timed.wrong or timed


def test_what_is_right_is_timed(tmp_path, card):
    timed = judged(entry_of(tmp_path, CUDA_C, "right", ".cu"), card)
    assert timed.n == 500
    measurement = timed.measurement
    assert measurement.ci_low <= measurement.median_seconds <= measurement.ci_high
    # 250,000 interactions of some nanoseconds each.
    assert 1e-4 < timed.seconds < 0.1


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("keeps_result", "right before it was timed, but wrong while it was"),
        ("half_rows_later", "right before it was timed, but wrong while it was"),
        ("writes_behind", "the entry writes behind the array accelerations"),
        ("writes_before", "the entry writes before the array accelerations"),
        ("changes_bodies", "the entry changes the bodies in bodies"),
        ("faulty", "a launch ended with a fault: .*an illegal memory access was encountered"),
        ("dies", "the process that launches ended"),
    ],
)
def test_what_is_wrong_on_a_device_is_refused(tmp_path, card, name, sentence):
    said = judged(entry_of(tmp_path, CUDA_C, name, ".cu"), card)
    assert isinstance(said, str)
    assert re.search(sentence, said), said


def test_a_falsified_clock_is_noticed(tmp_path, card, monkeypatch):
    # A batch that takes long enough for two clocks to be told apart.
    monkeypatch.setattr(timing, "SLACK", 1e-4)
    said = judged(entry_of(tmp_path, CUDA_C, "falsifies_clock", ".cu"), card)
    assert isinstance(said, str)
    assert re.search("s by the host's clock, and .* s by the device's", said), said


@pytest.mark.parametrize(
    ("by_device", "by_host", "refused"),
    [(0.02, 0.02, False), (0.02, 0.039, False), (0.02, 0.05, True), (0.02, 0.025, False), (0.05, 0.02, True)],
)
def test_clocks_that_contradict_each_other_are_noticed(tmp_path, monkeypatch, by_device, by_host, refused):
    moment = 0.0

    def launch(*_):
        nonlocal moment
        moment += by_host
        return {"seconds": by_device, "launch_seconds": 0.0, "held": True}

    monkeypatch.setattr(timing, "perf_counter", lambda: moment)
    entry = entry_of(tmp_path, CUDA_C, "right", ".cu")
    loaded = SimpleNamespace(place=lambda _: None, time=launch)
    batches = timing.Batches(loaded, entry, 33, None, np.random.default_rng())
    for _ in range(timing.LIES - 1):
        batches.time(None, 1, lambda: None)
    with pytest.raises(FaultError, match="by the host's clock") if refused else nullcontext():
        batches.time(None, 1, lambda: None)


def test_a_kernel_that_does_not_end_is_ended(tmp_path, card, monkeypatch):
    entry = entry_of(tmp_path, CUDA_C, "endless", ".cu")
    with OnDevice(card) as launcher:
        loaded = launcher.loaded(entry)
        monkeypatch.setattr(on_device, "LAUNCHING_SECONDS", 0.5)
        answer = launcher.run(entry, judgement.bodies_of(33, 1))
        assert answer.fault.kind == "time"
        process = loaded._process._process
    assert process.returncode is not None


def test_an_entry_that_keeps_much_on_the_device_is_refused(tmp_path, card):
    text = CUDA_C.replace("*/", "*/\n__device__ float kept[1 << 20];").replace("= bodies[i];", "= {kept[i], 0, 0, 0};")
    entry = entry_of(tmp_path, text, "right", ".cu")
    with OnDevice(card) as launcher, pytest.raises(InputError, match=r"__device__ variables have 4,194,304 bytes"):
        launcher.loaded(entry)


def test_a_binary_says_what_its_variables_need():
    text = 'extern "C" __device__ float kept[100]; extern "C" __global__ void k() { kept[0] = 1; }'
    image, _ = compile_cuda(text, "sm_90")
    assert global_bytes(image) == 400
    for wrong in (b"", b"\x7fELF\x02 cut off", image[:300]):
        with pytest.raises(ValueError, match="ELF"):
            global_bytes(wrong)


def test_a_device_that_does_not_run_an_entry_is_named(tmp_path):
    entry = entry_of(tmp_path, CUDA_C, "right", ".cu")
    with pytest.raises(InputError, match=r"wgpu:0 does not run it; accepted: --device cuda:0, ..., or --emulate"):
        on_device.binary_of(entry, Device("wgpu:0", "an adapter"))


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ("", None),
        pytest.param("bodies[0].w = 2;", "the entry changes the bodies in bodies", marks=pytest.mark.slow),
        pytest.param("if i == numbers.n - 1 { result = vec4f(); }", "compared", marks=pytest.mark.slow),
        # WGSL writes nothing beyond an array.
        pytest.param("accelerations[i + 1 + numbers.n] = result;", None, marks=pytest.mark.slow),
    ],
)
def test_an_entry_in_wgsl(tmp_path, adapter, wrong, sentence):
    said = judged(entry_of(tmp_path, WGSL.replace("WRONG", wrong), "sums", ".wgsl"), adapter)
    assert (said.wrong == "") if sentence is None else isinstance(said, str), said


@pytest.mark.parametrize("sample_seconds", [1e-9, QUICK.sample_seconds])
def test_what_a_launch_leaves_to_the_next_is_found_where_a_sample_is_one_launch_too(tmp_path, adapter, sample_seconds):
    settings = QUICK.model_copy(update={"sample_seconds": sample_seconds})
    left = "if numbers.n > 200 && kept[i + 1].w == 1 { result = kept[i + 1]; } result.w = 1;"
    said = judged(entry_of(tmp_path, WGSL.replace("WRONG", left), "leaves", ".wgsl"), adapter, settings=settings)
    assert isinstance(said, str), said
    assert "right before it was timed, but wrong while it was" in said


def test_a_text_that_is_no_wgsl_is_refused_by_its_line(tmp_path, adapter):
    entry = entry_of(tmp_path, WGSL.replace("WRONG", "let none = unknown;"), "sums", ".wgsl")
    with OnDevice(adapter) as launcher, pytest.raises(InputError, match="unknown"):
        launcher.loaded(entry)


# What the process that launches says is not trusted.

SPEAKS = "import sys, struct, time; out = sys.stdout.buffer; "


@pytest.mark.parametrize(
    ("program", "sentence"),
    [
        ("out.write(struct.pack('<IQ', 5, 0) + b'[1,2]')", "no JSON object"),
        ("out.write(struct.pack('<IQ', 3, 0) + b'{..')", "no JSON object"),
        ("out.write(struct.pack('<IQ', 1 << 31, 0))", "a frame of 2,147,483,648 and 0 bytes"),
        ("out.write(struct.pack('<IQ', 2, 1 << 40) + b'{}')", "a frame of 2 and 1,099,511,627,776 bytes"),
        ("out.write(struct.pack('<IQ', 2, 0) + b'{}')", "answered with 0 bytes, not 8"),
        ("out.write(b'ab')", "the process that launches ended"),
        ("time.sleep(9)", "did not end in time"),
    ],
)
def test_an_answer_that_is_none_ends_the_judgement(program, sentence, monkeypatch):
    monkeypatch.setattr(on_device, "WORKER", (sys.executable, "-c", SPEAKS + program))
    process = LaunchingProcess(CARD)
    try:
        with pytest.raises(FaultError, match=sentence):
            process.ask({"do": "read", "names": []}, expected=8, seconds=2)
    finally:
        process.end()


@pytest.mark.parametrize("wrong", ["NaN", "-1", "Infinity", '"1"', "null", "[]"])
def test_times_that_are_none_are_refused(wrong):
    answer = json.loads(f'{{"seconds": {wrong}, "launch_seconds": 1, "held": true}}')
    with pytest.raises(FaultError, match="without times"):
        timing.numbers_of(answer)


def test_a_frame_comes_as_it_was_sent():
    content = b"".join(map(bytes, frames.pack({"do": "read", "n": 3}, [b"ab", memoryview(b"cd")])))
    assert frames.unpack(io.BytesIO(content).read, most_facts=99, most_content=9) == ({"do": "read", "n": 3}, b"abcd")
