"""WebGPU: texts in WGSL, which need no device, and what its devices are asked and say, on whatever driver is there."""

import dataclasses
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest

from conftest import command, flat
from direct import direct_accelerations
from gravbench.config.load import load
from gravbench.errors import InputError
from gravbench.measuring import stages
from gravbench.measuring.runner import needs_host
from gravbench.model import generators, interaction_files, wgsl
from gravbench.model.device import SOFTWARE, Device
from gravbench.model.interaction import GRAVITY
from gravbench.model.interaction_files import find
from gravbench.model.runs import RecordFile
from gravbench.model.toolkits import catalogue
from gravbench.model.variant import discover
from gravbench.report.provenance import notes_of_software
from gravbench.toolkits import buffers, devices, dispatching
from gravbench.toolkits import wgpu as wgpu_toolkit
from gravbench.toolkits.dispatching import Dispatch, Queue
from gravbench.toolkits.opening import open_toolkit
from gravbench.toolkits.wgsl_texts import texts
from gravbench.verifying import comparing
from test_page import data_of
from test_provenance import measured

VARIANTS = discover()
IN_WGSL = [name for name, variant in VARIANTS.items() if "wgpu" in variant.toolkits]
LOOP = """fn f() {
    for (var b = 0; b < R; b++) {  // unrolled
        let j = own[b];
        for (var k = 0; k < 2; k++) {  // unrolled
            sums[b] += j * rows[k];
        }
    }
}
"""


@pytest.fixture
def toolkit(need_toolkit):
    """Return a function that opens the toolkit for a variant."""
    need_toolkit("wgpu")
    return lambda name, interaction=GRAVITY: open_toolkit("wgpu", VARIANTS[name], "float32", find(interaction))


# Texts


def test_a_marked_loop_is_written_out_with_constant_indices(tmp_path):
    path = tmp_path / "own.wgsl"
    path.write_text(LOOP)
    text = wgsl.kernel_text(path, find(GRAVITY), {"R": 2, "UNUSED": 7})
    body = [line.strip() for line in text[text.index("fn f()") :].splitlines()]
    of_each = [
        ["{", f"let j = own[{b}];", f"sums[{b}] += j * rows[0];", f"sums[{b}] += j * rows[1];", "}"] for b in (0, 1)
    ]
    assert body == ["fn f() {", *of_each[0], *of_each[1], "}"]
    assert text.startswith("const R: i32 = 2;\n\n// Gravity: ")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (LOOP.replace("b < R", "b < LENGTH"), "has the length LENGTH, which is no constant of the kernel"),
        (LOOP.replace("\n    }", "\n  }"), "does not end"),
    ],
)
def test_a_loop_that_cannot_be_written_out_is_one_sentence(tmp_path, text, problem):
    path = tmp_path / "own.wgsl"
    path.write_text(text)
    with pytest.raises(InputError, match=rf"own\.wgsl: the loop over b that is to be unrolled {problem}$"):
        wgsl.kernel_text(path, find(GRAVITY), {"R": 2})


@pytest.mark.parametrize("name", IN_WGSL)
def test_the_texts_of_a_variant_need_no_device(monkeypatch, name):
    monkeypatch.setitem(sys.modules, "wgpu", None)
    made = texts(VARIANTS[name], {}, find(GRAVITY))
    assert made
    for kernel in made:
        assert all(f"fn {entry}(" in kernel.text for entry in kernel.entry_points)
        assert "{  // unrolled" not in kernel.text
        assert f"const THREADS: i32 = {kernel.threads};\n" in kernel.text
        assert kernel.text.count("enable ") == kernel.text.startswith("enable subgroups;\n")
    assert made[0].kernel in (name, f"{name}_kernel")


def test_what_waits_for_all_blocks_is_an_entry_point_of_its_own():
    assert texts(VARIANTS["split_j"], {}, find(GRAVITY))[0].entry_points == ("split_j", "split_j_then")
    assert [made.kernel for made in texts(VARIANTS["symmetric"], {}, find(GRAVITY))] == ["symmetric", "symmetric_add"]


def test_the_command_line_prints_the_wgsl_that_is_compiled():
    code, printed = command("source", "tiled", "--toolkit", "wgpu", "--interaction", "hermite")
    assert code == 0
    assert printed == texts(VARIANTS["tiled"], {}, find("hermite"))[0].text
    assert command("source", "tiled", "--toolkit", "cupy") == command("source", "tiled")
    refused = "--toolkit and --python cannot be combined; accepted: one of them"
    assert command("source", "tiled", "--toolkit", "wgpu", "--python") == (2, refused)
    with pytest.raises(InputError, match=r"^cute_tiles has no kernel in WGSL: there is no cute_tiles\.wgsl$"):
        texts(VARIANTS["cute_tiles"], {}, find(GRAVITY))


WORDS = '''"""Sums that are called as words of WGSL."""


def interact(sums, i, j, eps2):
    """Add what j does to i."""
    let = (j.x - i.x) * 2
    sums.fn += let
    sums.target += j.mass if let < 1 else 0.25
'''


def test_a_sum_may_be_called_as_a_word_of_wgsl(need_toolkit):
    need_toolkit("wgpu")
    interaction = interaction_files.parse(WORDS, "words.py", "words.py")
    opened = open_toolkit("wgpu", VARIANTS["tiled"], "float32", interaction)
    prepared = VARIANTS["tiled"].prepare(opened, generators.plummer(40, 3, 0.05), **VARIANTS["tiled"].complete({}))
    prepared.launch()
    assert np.isfinite(opened.download(prepared.accelerations)).all()


# Devices


def adapter(name, kind, description="1.0"):
    return SimpleNamespace(info={"device": name, "adapter_type": kind, "description": description})


def test_devices_are_named_with_hardware_first_and_software_as_such(monkeypatch):
    monkeypatch.setattr(type(wgpu_toolkit.ENTRY), "missing", None)
    monkeypatch.setattr(
        wgpu_toolkit,
        "_adapters",
        lambda: [adapter("NVIDIA H200", "DiscreteGPU", "580"), adapter("llvmpipe", "CPU", "")],
    )
    found, reason = wgpu_toolkit.FAMILY.devices()
    assert found == [Device("wgpu:0", "NVIDIA H200", driver="580"), Device("wgpu:1", f"llvmpipe, {SOFTWARE}")]
    assert reason is None
    assert devices.select(["wgpu:1"])[0] == found[1:]
    # They are used where they are named, or a toolkit of theirs is.
    assert [device.selector for device in devices.select([], ["wgpu"])[0]] == ["wgpu:0", "cpu"]
    assert [device.selector for device in devices.select([], ["wgpu", "cpu"])[0]] == ["wgpu:0", "cpu"]
    for toolkits in ([], ["wgpu", "cupy"], ["cpu"]):
        assert all(device.family != "wgpu" for device in devices.select([], toolkits)[0])


def test_where_nothing_can_compute_a_sentence_says_what_is_missing(monkeypatch):
    monkeypatch.setattr(type(wgpu_toolkit.ENTRY), "missing", None)
    monkeypatch.setattr(wgpu_toolkit, "_adapters", list)
    said = "no device for WebGPU: no driver for Vulkan, Metal or DirectX 12 was found"
    assert wgpu_toolkit.FAMILY.devices() == ([], said)
    monkeypatch.setattr(type(wgpu_toolkit.ENTRY), "missing", "WebGPU is not installed; install it with: ...")
    assert wgpu_toolkit.FAMILY.devices() == ([], "WebGPU is not installed; install it with: ...")


def test_a_sweep_takes_it_only_where_it_is_named_and_in_float32():
    assert "wgpu" not in load("quick").toolkits
    cases = load("quick", ["dtype=float32,float64"], toolkits=["wgpu"]).cases
    assert {case.variant for case in cases} == set(IN_WGSL)
    assert {case.dtype for case in cases} == {"float32"}
    assert catalogue()["wgpu"].dtypes == ("float32",)


def test_a_variant_has_other_defaults_where_the_usual_ones_cannot_run():
    (case, *_) = load("quick", variants=["symmetric"], toolkits=["wgpu"]).cases
    assert (case.axes["p"], case.axes["deterministic"]) == (32, 1)
    (case, *_) = load("quick", variants=["symmetric"], toolkits=["cupy"]).cases
    assert (case.axes["p"], case.axes["deterministic"]) == (128, 0)
    with pytest.raises(InputError, match="symmetric needs"):
        load("quick", ["p=64"], ["symmetric"], ["wgpu"])


# Launches


def test_long_launches_are_divided_over_blocks(toolkit, monkeypatch):
    """A dispatch of the divided launch lasts about as long as is allowed, and all blocks run once."""
    monkeypatch.setattr(dispatching, "LONGEST", 1e-3)
    variant, n = VARIANTS["tiled"], 3000
    opened, bodies = toolkit("tiled"), generators.plummer(n, 3, 0.05)
    prepared = variant.prepare(opened, bodies, **variant.complete({"p": 32}))
    expected = direct_accelerations(bodies, np.arange(n), "float32")
    for _ in range(2):
        buffers.spoil(opened, prepared, bodies)
        prepared.launch()
        errors = comparing.compare(buffers.sums(opened, prepared), expected)
        assert comparing.objection_to(errors, variant.accepted("float32", {})) is None
    prepared.launch()
    waiting = opened._queue._waiting
    assert len(waiting) > 1
    assert sum(dispatch.blocks for dispatch in waiting) == -(-n // 32)
    assert len(opened._queue.recorded()) > 1


class FilledByBlocks(Queue):
    """A queue of a device that runs 512 blocks side by side, each of which takes 0.08 s."""

    def __init__(self):
        super().__init__(SimpleNamespace(create_buffer=lambda **_: None))
        self.now = 0.0

    def wait(self):
        """Run what waits; the very first launch takes 2 s more."""
        for dispatch in self._waiting:
            self.now += 0.08 * -(-dispatch.blocks // 512) + (2 if self.now == 0 else 0)
        self._waiting = []


def test_a_part_that_does_not_fill_the_device_says_little_about_the_time_of_a_block(monkeypatch):
    queue = FilledByBlocks()
    monkeypatch.setattr(dispatching, "perf_counter", lambda: queue.now)
    tried, each = dispatching._tried(queue, lambda first, blocks: Dispatch(first, None, blocks, 0.0), 1024)
    assert tried == 1024
    assert each == pytest.approx(0.08 / 512)
    queue.now = 0.0
    tried, each = dispatching._tried(queue, lambda first, blocks: Dispatch(first, None, blocks, 0.0), 65_536)
    assert tried < 8192
    assert each == pytest.approx(0.08 / 512)


def test_what_waits_is_divided_by_its_time_and_stays_in_order():
    made = [
        Dispatch(name, None, 1, seconds)
        for name, seconds in (("a", 0.2), ("b", 0.04), ("c", 0.2), ("d", 9.0), ("e", 0.1))
    ]
    groups = dispatching._grouped(made)
    assert [[dispatch.pipeline for dispatch in group] for group in groups] == [["a", "b"], ["c"], ["d"], ["e"]]
    assert dispatching._grouped([]) == [[]]


def test_both_clocks_agree_about_a_batch(toolkit):
    opened, variant = toolkit("tiled"), VARIANTS["tiled"]
    prepared = variant.prepare(opened, generators.plummer(2000, 3, 0.05), **variant.complete({}))
    prepared.launch()
    if not opened.has_own_clock:
        pytest.skip("this device takes no timestamps")
    assert 0 < opened.resolution < 1e-3
    host, own = opened.time_by_both(prepared.launch, 5)
    assert 0.3 * host < own < 1.05 * host
    timing = opened.time(prepared.launch, 5)
    assert timing.launch_seconds > 0
    assert not timing.launch_bound


def test_without_timestamps_the_host_times_and_a_sample_lasts_longer(toolkit, monkeypatch):
    without = dataclasses.replace(wgpu_toolkit.opened(0), resolution=None, ticks=None)
    monkeypatch.setattr(wgpu_toolkit, "opened", lambda _: without)
    opened, variant = toolkit("tiled"), VARIANTS["tiled"]
    assert not opened.has_own_clock
    prepared = variant.prepare(opened, generators.plummer(500, 3, 0.05), **variant.complete({}))
    prepared.launch()
    assert opened.time(prepared.launch, 3).seconds > 0
    assert stages.TICKS * opened.resolution >= 0.1
    with pytest.raises(NotImplementedError, match="wgpu has the host's clock alone"):
        opened.time_by_both(prepared.launch, 1)


def test_a_device_that_was_idle_works_before_it_is_timed(toolkit, monkeypatch):
    monkeypatch.setattr(dispatching, "EXERCISE_BLOCKS", 8)
    monkeypatch.setattr(wgpu_toolkit, "WAKING", 0.1)
    monkeypatch.setattr(wgpu_toolkit, "IDLE", 60)  # however long another process keeps this one from working
    opened, variant = toolkit("tiled"), VARIANTS["tiled"]
    if not opened.has_own_clock:
        pytest.skip("this device takes no timestamps")
    prepared = variant.prepare(opened, generators.plummer(1000, 3, 0.05), **variant.complete({}))
    prepared.launch()
    alone = min(opened.time(prepared.launch, 5).seconds for _ in range(3))
    opened._exercise = dispatching.Exercise(Queue(opened._device))
    done = []
    monkeypatch.setattr(
        opened._exercise, "go_on", lambda *seconds, go_on=opened._exercise.go_on: done.append(go_on(*seconds))
    )
    opened._worked_at = -np.inf
    busy = min(opened.time(prepared.launch, 5).seconds for _ in range(3))
    assert len(done) == 1, "only the first time"
    assert busy < 2 * alone, "what keeps it at work is not timed"
    opened.time_by_both(prepared.launch, 1)
    assert opened._exercise._turn_seconds > 0


def test_a_device_works_longer_while_it_is_slower_than_it_has_been(toolkit, monkeypatch):
    monkeypatch.setattr(dispatching, "EXERCISE_BLOCKS", 8)
    exercise = dispatching.Exercise(Queue(toolkit("naive")._device))

    def lasts():
        began = time.perf_counter()
        exercise.go_on(0.0, 0.4)
        return time.perf_counter() - began

    assert lasts() < 0.4, "there is nothing to compare with yet"
    exercise._quickest = 0.0
    assert lasts() >= 0.4


def test_a_block_or_an_array_that_is_too_large_is_a_sentence(toolkit, monkeypatch):
    opened = toolkit("tiled")
    limits = {**opened._device.limits, wgpu_toolkit.MOST_THREADS: 64, wgpu_toolkit.LARGEST_ARRAY: 1000}
    monkeypatch.setattr(opened, "_device", SimpleNamespace(limits=limits, features=()))
    with pytest.raises(
        wgpu_toolkit.ToolkitMissingError, match=r"^a block of 128 threads; this device takes at most 64$"
    ):
        opened._pipelines("tiled", "", 128)
    with pytest.raises(wgpu_toolkit.ToolkitMissingError, match=r"^this device has no subgroups$"):
        opened._pipelines("shuffle", wgsl.SUBGROUPS, 32)
    with pytest.raises(
        wgpu_toolkit.ToolkitMissingError, match=r"^an array of 4,096 bytes; this device takes at most 1,000$"
    ):
        opened.upload(np.zeros((256, 4)))


@pytest.mark.parametrize("plainly", [False, True])
def test_kahan_compensates_whatever_the_compiler_may_assume(toolkit, tmp_path, plainly):
    """Written as in CUDA C, Mesa's compiler removes the compensation; a number that it does not know keeps it."""
    opened, bodies = toolkit("kahan"), generators.plummer(1000, 3, 0.05)
    if plainly and SOFTWARE not in devices.family("wgpu").devices()[0][0].name:
        pytest.skip("other compilers may keep it")
    path = tmp_path / "kahan.py"
    text = VARIANTS["kahan"].path.with_suffix(wgsl.SUFFIX).read_text("utf-8")
    if plainly:
        text = text.replace("fma(sums, vec3f(one), added)", "sums + added")
        text = text.replace("fma(larger, vec3f(one), -sums)", "(larger - sums)")
        assert "fma(" not in text
    path.with_suffix(wgsl.SUFFIX).write_text(text, "utf-8")
    opened.variant = SimpleNamespace(module=SimpleNamespace(__file__=str(path)))
    prepared = VARIANTS["kahan"].prepare(opened, bodies, **VARIANTS["kahan"].complete({}))
    prepared.launch()
    expected = direct_accelerations(bodies, np.arange(1000), "float32")
    errors = comparing.compare(buffers.sums(opened, prepared), expected)
    assert (errors.error_rms > 2e-7) == plainly


def test_an_empty_queue_can_be_waited_for(toolkit):
    Queue(toolkit("naive")._device).wait()


# Runs


@pytest.mark.parametrize(
    ("selector", "variant", "alone"),
    [
        ("wgpu:0", "tiled", True),
        ("cuda:0", "tiled", False),
        ("cuda:0", "barnes_hut", True),
        ("cpu", "numba_direct", True),
    ],
)
def test_nothing_computes_beside_an_adapter_that_may_be_the_same_card(selector, variant, alone):
    toolkit = "cpu" if selector == "cpu" else "cupy"
    case = SimpleNamespace(variant=variant, toolkit=toolkit, timed="force")
    task = SimpleNamespace(case=case, device=Device(selector, "NVIDIA H200"))
    assert needs_host(task, VARIANTS[variant]) == alone


@pytest.mark.slow
def test_a_run_is_verified_and_its_records_name_the_adapter(need_toolkit, tmp_path):
    need_toolkit("wgpu")
    out = tmp_path / "run"
    code, said = command(
        "run", "quick", "--toolkit", "wgpu", "--variant", "naive", "--variant", "symmetric", "-p", "n=257",
        "-p", "timed=force,call,step", "-p", "measure.budget_seconds=0.1", "--out", out,
    )  # fmt: skip
    assert code == 0, said
    records = list(RecordFile(out).read(pytest.fail))
    assert {record.status for record in records} == {"ok"}
    assert {record.timed for record in records if record.energy_drift is not None} == {"step"}
    record = records[0]
    assert record.adapter["backend"] in ("Vulkan", "Metal", "D3D12")
    assert int(record.adapter["max-compute-invocations-per-workgroup"]) >= 256
    assert record.clock_resolution_seconds > 0
    assert (record.adapter["type"] == "CPU") == record.device.endswith(SOFTWARE)
    code, report = command("report", out)
    assert code == 0
    assert record.device.split(",")[0] in report
    page, table = tmp_path / "page.html", tmp_path / "table.csv"
    assert command("report", out, "--html", page)[0] == 0
    assert "max-compute-invocations-per-workgroup" in str(data_of(page.read_text("utf-8"))["records"])
    assert command("export", out, "--to", table)[0] == 0
    assert record.adapter["backend"] in table.read_text("utf-8")
    code, report = command("report", out, "--full")
    assert ("its times say nothing about a GPU" in flat(report)) == record.device.endswith(SOFTWARE)


def test_other_number_types_and_what_has_no_kernel_are_said(need_toolkit, tmp_path):
    need_toolkit("wgpu")
    code, said = command("run", "quick", "--toolkit", "wgpu", "-p", "dtype=float64", "--out", tmp_path / "run")
    assert code == 2
    assert "computes in float32" in said


def test_a_comparison_with_a_software_adapter_says_so():
    hardware = measured("tiled", device="NVIDIA H200")
    software = measured("tiled", device=f"llvmpipe, {SOFTWARE}")
    (note,) = notes_of_software([(hardware, software), (software, software)])
    assert note == "1 case compares a software adapter, whose driver computes on the processor, with another device"
    assert notes_of_software([(hardware, hardware), (software, software)]) == []


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        (
            "interact(sums, own",
            "interakt(sums, own",
            r"^no definition in scope for identifier: `interakt`: sums = interakt\(",
        ),
        ("const UNROLL: i32 = 4", "const UNROLL: i32 = 5", r"^`const_assert` failure: const_assert P % UNROLL == 0;$"),
        ("fn tiled(", "fn tilted(", "^Unable to find entry point 'tiled'$"),
    ],
)
def test_a_text_that_is_refused_is_one_sentence_with_its_line(toolkit, right, wrong, said):
    (made,) = texts(VARIANTS["tiled"], {"p": 64, "unroll": 4}, find(GRAVITY))
    assert right in made.text
    with pytest.raises(wgpu_toolkit.WgslError, match=said):
        toolkit("tiled")._pipelines("tiled", made.text.replace(right, wrong), 64)
