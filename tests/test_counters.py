"""The second pass under Nsight Compute: a made-up ncu stands in for the real one, which tests marked gpu run."""

import json
import os
import stat
import sys
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from gravbench.cli.main import app
from gravbench.explain import counters
from gravbench.explain.counters import add_missing, by_case, count, rows
from gravbench.model.case import Case
from gravbench.model.runs import RecordFile, latest
from gravbench.model.variant import discover
from gravbench.toolkits import driver
from gravbench.toolkits.opening import open_toolkit
from test_record import record

HEADER = ["ID", "Kernel Name", counters.TIME, counters.OCCUPANCY, counters.INSTRUCTIONS, *list(counters.FLOPS)[:3]]


def line(*values):
    return ",".join(f'"{value}"' for value in values)


def listed(*kernels):
    units = line("", "", "ns", "%", "inst", "inst", "inst", "inst")
    return "\n".join(["==PROF== Connected", line(*HEADER), units, *(line(0, *kernel) for kernel in kernels)]) + "\n"


TWO_CASES = listed(
    ("hold", 900, 1, 1, 0, 0, 0),
    ("tiled", "2,000", "50.5", "1,000", 60, 30, 30),
    ("second pass", 100, 10, 10, 1, 1, 1),
    ("hold(int)", 900, 1, 1, 0, 0, 0),
    ("cudapy::naive", 3000, 40, 500, "1,600", 0, 0),
)


@pytest.fixture
def fake_ncu(tmp_path, monkeypatch):
    """Return a function that puts an ncu on PATH which writes a text to its log and prints another."""

    def make(text, printed="", code=0):
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        script = folder / "ncu"
        script.write_text(
            f"#!{sys.executable}\nimport json, sys\n"
            f"words = sys.argv\nopen(words[words.index('--log-file') + 1], 'w').write({text!r})\n"
            f"json.load(open(words[-1]))\nprint({printed!r})\nsys.exit({code})\n"
        )
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    return make


def case(n=1000):
    return Case(
        variant="tiled", toolkit="cupy", axes={"p": 256}, n=n, dtype="float32", bodies="plummer", subset="even", seed=1,
        eps=0.025, timed="force",
    )  # fmt: skip


def test_kernels_belong_to_the_case_whose_holding_kernel_came_before():
    first, second = by_case(rows(TWO_CASES))
    # Of several kernels the longest counts; an FMA is two operations.
    assert first == {"achieved_occupancy": 0.505, "instructions": 1000.0, "executed_flop": 180.0}
    assert second == {"achieved_occupancy": 0.4, "instructions": 500.0, "executed_flop": 3200.0}


# As numba-cuda 0.30 names functions that are made in others.
NUMBA_HOLD = (
    "_ZN7harness8toolkits5numba12NumbaToolkit4hold12_3clocals_3e4holdB2v1B92cw51cXTLSUwv1sDUaKthqaNgoKmjgOR3W3CwAkMX"
    "LaJtQYkOIgxJU0gCqOkEJoHkbttqdVhoqlspQGNFHSgJ5BnXagIAEi"
)
NUMBA_TILED = (
    "_ZN12numba_kernel12_3clocals_3e5tiledB2v1B92cw51cXTLSUwv1sDUaKthqaNgoKmjgOR3W3CwAkMXLaJtQYkOIgxE5ArrayIfE"
)


def test_numbas_names_and_names_with_hold_in_them():
    kernels = [NUMBA_HOLD, NUMBA_TILED, "harness::toolkits::numba::NumbaToolkit::hold", "threshold", "hold", "tiled"]
    listing = listed(*((name, 900, 1, number, 0, 0, 0) for number, name in enumerate(kernels)))
    assert [one["instructions"] for one in by_case(rows(listing))] == [1, 3, 5]


def test_a_hold_of_numba_is_one_launch(need_toolkit, monkeypatch):
    """For a case begins at each."""
    need_toolkit("numba")
    toolkit = open_toolkit("numba", discover()["tiled"], "float32")
    called = []
    monkeypatch.setattr(driver, "load_function", lambda *_: 0xF0)
    monkeypatch.setattr(driver, "_call", lambda name, *_: called.append(name))
    toolkit.hold(1)
    toolkit.hold(1)
    assert called == ["cuLaunchKernel", "cuLaunchKernel"]


def test_a_case_that_was_not_reached_has_no_counters(fake_ncu):
    fake_ncu(TWO_CASES, "==ERROR== The application returned an error code (1).", 1)
    found, reason = count([case(1), case(2), case(3)], "GPU-1", ())
    assert len(found) == 2
    assert reason == "ncu: The application returned an error code (1)."


def test_a_driver_that_does_not_let_it_count_is_quoted(fake_ncu):
    said = "ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters"
    fake_ncu(f"==PROF== Connected\n==ERROR== {said}\n")
    assert count([case()], "GPU-1", ()) == ([], f"ncu: {said}")


def test_without_ncu_the_reason_says_what_brings_it(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert count([case()], "GPU-1", ()) == ([], "ncu is not on PATH; it comes with the CUDA toolkit")


def sweep_of(records):
    cases = [Case(**one.model_dump(include=set(Case.model_fields))) for one in records]
    return SimpleNamespace(cases=cases, variant_folders=())


def test_records_get_their_counters_and_keep_everything_else(fake_ncu, tmp_path):
    fake_ncu(TWO_CASES)
    store = RecordFile(tmp_path / "run")
    before = [record(n=n, anchor=n == 1000, device_uuid="GPU-1") for n in (1000, 2000)]
    for one in before:
        store.append(one)
    said = []
    assert add_missing(sweep_of(before), tmp_path / "run", said.append) == (2, 2)
    assert said == ["counting under ncu: cupy, cases 1 to 2 of 2"]
    after = {one.n: one for one in latest(store.read())}
    assert after[1000].counters["instructions"] == 1000
    assert after[2000].counters["executed_flop"] == 3200
    for one in before:
        changed = {"counters": {}, "anchor": 0}
        assert after[one.n].model_copy(update=changed) == one.model_copy(update=changed)


def test_a_record_without_counters_says_why(fake_ncu, tmp_path):
    fake_ncu("==ERROR== no\n")
    store = RecordFile(tmp_path / "run")
    one = record(device_uuid="GPU-1")
    store.append(one)
    assert add_missing(sweep_of([one]), tmp_path / "run", lambda _: None) == (0, 1)
    assert store.read()[-1].counters_unavailable == "ncu: no"


def test_the_command_counts_what_it_has_measured(tmp_path):
    """On the CPU there is nothing to count, and it says so."""
    config = tmp_path / "one.yaml"
    config.write_text(
        "n: 9\nmeasure: {processes: 1, budget_seconds: 0.1, warm_up_seconds: 0}\nvariants: numpy_direct\n"
    )
    done = CliRunner().invoke(
        app, ["run", str(config), "--counters", "--device", "cpu", "--out", str(tmp_path / "out")]
    )
    assert done.exit_code == 0, done.output
    assert "no result of a single GPU lacks counters" in done.output


@pytest.mark.gpu
def test_ncu_counts_here(tmp_path, need_toolkit):
    need_toolkit("cupy")
    config = tmp_path / "one.yaml"
    config.write_text(
        "n: 4096\nmeasure: {budget_seconds: 0.2}\nvariants: {variant: [naive, tiled], toolkit: [cupy, numba]}"
    )
    out = tmp_path / "out"
    done = CliRunner().invoke(app, ["run", str(config), "--counters", "--device", "cuda:0", "--out", str(out)])
    assert done.exit_code == 0, done.output
    for one in latest(RecordFile(out).read()):
        if not one.counters:
            assert one.counters_unavailable
            continue
        # 4,096 squared interactions of 3 additions, 3 + 1 products and 6 FMA, or one fewer of either.
        assert 15 <= one.counters["executed_flop"] / one.interactions <= 25, json.dumps(one.counters)
        assert 0 < one.counters["achieved_occupancy"] <= 1
        assert 0 < one.counters["multiprocessors_active"] <= 1
        assert one.counters["global_loads"] >= one.n / 32
        assert 31 <= one.counters["threads_an_instruction"] <= 32
