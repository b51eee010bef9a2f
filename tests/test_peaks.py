"""What a device does at most: that the kernels do what they claim, are verified before they are timed, and are kept."""

import json
import re
import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from conftest import GPUS, NO_GPU, ROOT
from gravbench.cli.main import app
from gravbench.errors import InputError
from gravbench.explain import host_peaks, measured, measured_peaks, peaks
from gravbench.explain.assembling import compiled, disassembler, missing
from gravbench.explain.machine_code import parse
from gravbench.explain.microbenchmarks import BENCHMARKS, STEP_NEAR, sum_of_rows
from gravbench.explain.peaks import PUBLISHED, Peak, Peaks
from gravbench.model.device import Device, Reading
from gravbench.toolkits.interface import FLAGS, CudaToolkit, Timing
from hosted import HostMemory

needs_assembler = pytest.mark.skipif(missing() is not None, reason=str(missing()))
SOURCE = (ROOT / "harness" / "explain" / "peaks.cu").read_text("utf-8")
ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120")
MEGAHERTZ = 1500


@pytest.fixture(scope="module")
def machine_code(tmp_path_factory):
    """The machine code of all kernels for sm_90, as nvdisasm prints it once."""
    if why := missing():
        pytest.skip(why)
    path = tmp_path_factory.mktemp("ceilings") / "kernels.cubin"
    path.write_bytes(compiled(SOURCE, "sm_90", FLAGS).image)
    command = [disassembler(), "-c", "-g", "-hex", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("bench", BENCHMARKS, ids=lambda one: one.name)
def test_the_loop_of_a_ceiling_has_the_instructions_it_claims_and_next_to_no_others(machine_code, bench):
    code = parse(machine_code, bench.stem)
    loop = max(code.loops(), key=lambda one: one.first)
    body = code.instructions[loop.first : loop.last + 1]
    counted = Counter()
    for wanted in bench.opcodes:
        counted[wanted] = sum(one.opcode == wanted or one.opcode.startswith(wanted) for one in body)
    assert counted == bench.opcodes
    # What loads bring has to be used, or the compiler would drop them.
    if not bench.name.startswith(("lds", "ldg", "l2", "memory")):
        # Instructions that never run stand where a result takes more clocks than one can be told to wait.
        others = [one.opcode for one in body if one.predicate != "@!UPT"]
        assert len(others) - counted.total() <= 5, others


@pytest.mark.slow
@needs_assembler
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_ceilings_compile_for_every_architecture(architecture):
    made = compiled(SOURCE, architecture, FLAGS)
    assert len(made.image) > 10_000
    assert "spill stores" not in made.log or "0 bytes spill stores" in made.log


class FakeGpu(HostMemory, CudaToolkit):
    """A GPU that computes what the benchmarks say, at a clock of its own; ``wrong`` is the kernel that does not."""

    name = "fake"
    compute_capability = "9.0"
    compiler = "none"
    multiprocessors = 2

    def __init__(self, wrong="", broken="", capability="9.0"):
        self.wrong, self.broken, self.compute_capability = wrong, broken, capability
        self.seconds = 0.0
        self.launched = []

    def start(self):
        raise NotImplementedError

    def upload(self, values):
        return np.array(values)

    def copy_in(self, array, values):
        array[...] = values

    def download(self, array):
        return array.copy()

    def build(self, stem, constants):  # noqa: ARG002
        if stem == self.broken:
            raise RuntimeError("the driver refused")
        bench = next((one for one in BENCHMARKS if one.stem == stem), None)

        def launch(grid, block, *arguments):
            self.launched.append((stem, grid, block))
            self.seconds = 1e-6
            if stem == "relay":
                arguments[0][:] = arguments[1] + 1
            if bench is None:
                return
            out, marks, turns = arguments[0], arguments[1], int(arguments[-1])
            left = bench.leaves(turns)
            threads = grid * block
            if stem == "red_one":
                out[0] += 4 * turns * threads
            elif stem in ("read_rows", "write_rows"):
                out[:] = 0
                out[0] = (bench.of_rows or sum_of_rows)(int(arguments[-2]), turns)
            elif stem == "red_distinct":
                out += left
            else:
                out[:] = np.resize(np.asarray(left), threads).astype(out.dtype)
            if stem == self.wrong:
                out[threads // 2] += 1
            self.seconds = 1e-4 * turns
            marks[:] = 0, 0, round(self.seconds * MEGAHERTZ * 1e6), round(self.seconds * 1e9)

        return launch

    def compile(self, stem, /, **constants):
        return self.build(stem, constants)

    def device_array(self, shape, dtype):
        return np.zeros(shape, dtype)

    def time(self, launch, count, while_busy=lambda: None):
        for _ in range(count):
            launch()
        while_busy()
        return Timing(self.seconds, 0.0)


@pytest.fixture
def quick(monkeypatch):
    """Spend no time on warming up, and little memory."""
    monkeypatch.setattr(measured_peaks, "WARM_UP_SECONDS", 0.0)
    small = [one if not one.rows else type(one)(**{f: getattr(one, f) for f in one.__slots__} | {"rows": 1 << 14})
             for one in BENCHMARKS]  # fmt: skip
    monkeypatch.setattr(measured_peaks, "BENCHMARKS", small)


READING = Reading(sm_clock_mhz=1490, power_watts=None, temperature_celsius=None, throttle_reasons=None)


def measure(gpu, names=None):
    todo = measured_peaks.benchmarks(gpu, lambda: READING)
    return measured_peaks.measure_all(todo, lambda _: None, names and frozenset(names))


@pytest.mark.usefixtures("quick")
def test_a_gpu_that_computes_right_has_every_ceiling():
    found, failed = measure(FakeGpu())
    assert failed == {}
    assert [one.name for one in found] == list(measured.OF_A_GPU)
    assert all(len(one.samples) >= 10 for one in found)
    by_name = {one.name: one for one in found}
    fma = by_name["fma_1"]
    # 32 operations in 1e-4 s * 1,500 MHz = 150,000 clocks, of 4 blocks of 256 threads per multiprocessor.
    assert fma.median == pytest.approx(32 * 1024 / (100 * MEGAHERTZ), rel=1e-3)
    assert fma.low <= fma.median <= fma.high
    assert (fma.clock_mhz, fma.nvml_clock_mhz) == (pytest.approx(MEGAHERTZ, rel=1e-3), 1490)
    assert by_name["latency_fma"].median == pytest.approx(100 * MEGAHERTZ / 33, rel=1e-3)
    assert by_name["launch_stream"].median == 1e-6


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("name", [one.stem for one in BENCHMARKS if one.stem != "read_rows"] + ["read_rows"])
def test_a_kernel_that_computes_something_else_is_not_measured(name):
    names = [one.name for one in BENCHMARKS if one.stem == name]
    found, failed = measure(FakeGpu(wrong=name), names)
    assert found == []
    assert all("instead of" in failed[one] for one in names)


@pytest.mark.usefixtures("quick")
def test_a_ceiling_that_fails_does_not_end_the_others():
    found, failed = measure(FakeGpu(broken="mufu"), ["fma_1", "mufu", "alu"])
    assert [one.name for one in found] == ["fma_1", "alu"]
    assert failed == {"mufu": "RuntimeError: the driver refused"}


@pytest.mark.usefixtures("quick")
def test_what_a_device_lacks_is_said():
    found, failed = measure(FakeGpu(capability="7.5"), ["mma_8", "mma_16"])
    assert [one.name for one in found] == ["mma_8"]
    assert "compute capability 8.0" in failed["mma_16"]


def test_the_rows_of_the_near_ring_fit_into_the_first_cache_of_every_card():
    near = next(one for one in BENCHMARKS if one.name == "latency_l1")
    assert 8 * near.ring * STEP_NEAR <= 16 << 10


def one_ceiling(name, *samples):
    return Peak(name=name, what="it", unit="clocks", samples=samples or [1.0, 2.0, 3.0])


def test_ceilings_are_read_as_they_were_written(tmp_path):
    made = Peaks(device="a card", ceilings=[one_ceiling("mufu", *[16.0] * 10)], failed={"alu": "why"})
    path = made.write(tmp_path)
    assert peaks.read(tmp_path) == made
    content = json.loads(path.read_text())
    assert content["ceilings"][0]["median"] == 16.0
    assert [one.name for one in tmp_path.iterdir()] == ["ceilings.json"]


def test_what_was_not_measured_is_the_published_figure_and_says_so():
    made = Peaks(device="a card", ceilings=[one_ceiling("mufu", 15.9)])
    assert made.value("mufu") == 15.9
    assert made.value("alu") == PUBLISHED["alu"][0]
    assert made.source("mufu") == "measured on a card"
    assert "published" in made.source("mufu", "alu")
    assert peaks.read(Path("/nonexistent")).ceilings == []


@pytest.mark.parametrize("content", ["[]", "{", '{"ceilings": [{"name": "mufu"}]}', '{"ceilings": 3}'])
def test_a_file_that_is_none_of_ceilings_gets_one_sentence(tmp_path, content):
    (tmp_path / "ceilings.json").write_text(content)
    with pytest.raises(InputError, match="accepted: what `gravbench peaks` writes") as caught:
        peaks.read(tmp_path)
    assert "\n" not in str(caught.value)


def test_ceilings_measured_again_replace_their_own_alone():
    before = Peaks(ceilings=[one_ceiling("mufu", 1.0), one_ceiling("alu", 2.0)], failed={"fp64": "why"})
    now = Peaks(ceilings=[one_ceiling("mufu", 3.0), one_ceiling("fp64", 4.0)]).joined(before)
    assert {one.name: one.median for one in now.ceilings} == {"mufu": 3.0, "alu": 2.0, "fp64": 4.0}
    assert now.value("alu") == 2.0
    assert now.failed == {}


def test_the_clock_under_a_load_is_a_share_of_the_reported_one():
    def measured(**clocks):
        one = Peak(name="mma_mufu", what="roots", unit="lanes", samples=[1.0], **clocks)
        return Peaks(ceilings=[one]).share_of_clock("mma_mufu")

    assert measured(clock_mhz=1800.0, nvml_clock_mhz=2000) == pytest.approx(0.9)
    assert measured(clock_mhz=1800.0) == measured(nvml_clock_mhz=2000) == 1.0
    assert Peaks().share_of_clock("mma_mufu") == 1.0


@pytest.mark.slow
def test_the_processor_has_ceilings_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(host_peaks, "WARM_UP_SECONDS", 0.0)
    monkeypatch.setattr(host_peaks, "TURNS", 64)
    monkeypatch.setattr(host_peaks, "BYTES_READ", 1 << 16)
    done = CliRunner().invoke(app, ["peaks", "--device", "cpu", "--out", str(tmp_path)], catch_exceptions=False)
    assert done.exit_code == 0
    found = peaks.read(tmp_path)
    assert [one.name for one in found.ceilings] == list(host_peaks.NAMES)
    assert all(one.median > 1e6 for one in found.ceilings)
    assert "multiply-adds in float32" in " ".join(done.output.split())
    assert found.environment["processor"] in done.output


def test_ceilings_measured_before_are_printed_without_a_device(tmp_path):
    made = Peaks(device="a card", ceilings=[one_ceiling("mufu", 15.9)], failed={"alu": "made up"})
    made.write(tmp_path)
    words = ["peaks", "--from", str(tmp_path)]
    printed = CliRunner().invoke(app, words, catch_exceptions=False).output
    assert "Peak rates of a card" in printed
    assert re.search(r"^mufu +15\.9 ", printed, re.MULTILINE)
    assert "alu: made up" in printed
    done = CliRunner().invoke(app, [*words, "--json"], catch_exceptions=False)
    assert Peaks.model_validate_json(done.stdout) == made


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "no ceilings.json in it; `gravbench peaks --out FOLDER` writes one"),
        (("--only", "fma", "--device", "cpu"), "measures nothing; it cannot be combined with --device, --only"),
    ],
)
def test_ceilings_that_cannot_be_printed_are_one_sentence(tmp_path, words, said):
    with pytest.raises(InputError, match=said):
        CliRunner().invoke(app, ["peaks", "--from", str(tmp_path), *words], catch_exceptions=False)


def test_a_name_that_is_no_ceiling_leaves_no_folder_behind(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="--only mufu: no peak rate of cpu; accepted: fma"):
        CliRunner().invoke(app, ["peaks", "--device", "cpu", "--only", "mufu"], catch_exceptions=False)
    assert list(tmp_path.iterdir()) == []


def test_ceilings_of_another_device_are_not_mixed(tmp_path):
    Peaks(device="a card", ceilings=[one_ceiling("fma")]).write(tmp_path)
    with pytest.raises(InputError, match="its peak rates were measured on a card"):
        CliRunner().invoke(
            app, ["peaks", "--device", "cpu", "--only", "fma", "--out", str(tmp_path)], catch_exceptions=False
        )


@pytest.mark.gpu
def test_the_ceilings_of_this_gpu_are_what_its_kind_can_do():
    assert GPUS, NO_GPU
    names = frozenset({"fma_1", "mufu", "lds_32", "latency_fma", "launch_stream"})
    device: Device = GPUS[0]
    found = measured.measure(device, ["peaks"], lambda _: None, names)
    assert found.failed == {}
    by_name = found.by_name
    assert 30 < by_name["fma_1"].median <= 130
    assert 10 < by_name["mufu"].median <= 17
    assert by_name["lds_32"].median <= 33
    assert 3 < by_name["latency_fma"].median < 7
    assert 1e-7 < by_name["launch_stream"].median < 2e-5
    assert all(0.9 < one.clock_mhz / found.highest_clock_mhz < 1.1 for one in found.ceilings if one.clock_mhz)
