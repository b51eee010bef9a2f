"""A toolkit for devices that are not CUDA's, of one file from elsewhere, from the command line to the records."""

import os
import subprocess
import sys

import pytest

from conftest import ROOT, command
from gravbench.model.runs import ENVIRONMENT, RecordFile

FOLDER = ROOT / "tests" / "foreign"
SWEEP = f"""
variant_folders: [{FOLDER / "variants"}]
variants: [pretend_tiles, numpy_direct]
n: 64
timed: [force, call, step]
measure: {{budget_seconds: 0.05, warm_up_seconds: 0, processes: 1, min_samples: 3}}
"""


def gravbench(folder, *words):
    """Do what ``gravbench`` does, in a process that finds the toolkit, as all that it starts do."""
    there = os.pathsep.join([str(FOLDER), os.environ.get("PYTHONPATH", "")])
    run = [sys.executable, "-m", "gravbench", *words]
    # The folder of its variants is remembered, and for no other test.
    environment = os.environ | {"PYTHONPATH": there, "XDG_STATE_HOME": str(folder / "state")}
    return subprocess.run(run, cwd=folder, env=environment, capture_output=True, text=True, timeout=250)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Run a sweep on one of its devices and on the processor."""
    folder = tmp_path_factory.mktemp("foreign")
    (folder / "sweep.yaml").write_text(SWEEP)
    devices = "--device", "pretend:1", "--device", "cpu"
    done = gravbench(folder, "run", "sweep.yaml", *devices, "--out", "run")
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "run"


@pytest.mark.slow
def test_its_cases_are_verified_and_measured_beside_those_of_others(run):
    records = RecordFile(run).read(pytest.fail)
    own = {record.timed: record for record in records if record.toolkit == "pretend" and record.axes == {"p": 64}}
    for name in ("force", "call"):
        record = own[name]
        assert (record.status, record.reason) == ("ok", None)
        assert (record.device, record.driver, record.device_uuid) == ("Pretended 1", "1.0", None)
        assert record.error_rows == 64
        assert 0 < record.error_max < 1e-5
        assert record.compute_capability is None
        assert not record.sm_clock_mhz, "it has no sensor"
        assert len(record.samples_seconds) >= 3
    assert own["force"].launch_seconds == 1e-6, "by its own clock"
    assert own["step"].status == "skipped"
    assert own["step"].reason.startswith("integrate has no kernel for pretend")
    assert {record.status for record in records if record.toolkit == "cpu"} == {"ok"}


@pytest.mark.slow
def test_its_peak_rates_are_refused_before_anything_is_written(run):
    done = gravbench(run.parent, "peaks", "--device", "pretend:0")
    said = (
        "gravbench: pretend:0 (Pretended 0): the peak rates of a GPU are measured by CUDA C through CuPy; accepted: an "
        "NVIDIA GPU, such as --device cuda:0, or --device cpu\n"
    )
    assert (done.returncode, done.stderr) == (2, said)
    assert not (run.parent / "reports").exists()


@pytest.mark.slow
def test_the_run_and_its_report_name_its_device(run):
    assert '"selector": "pretend:1"' in (run / ENVIRONMENT).read_text()
    code, text = command("report", run)
    assert code == 0
    assert "Pretended 1 with driver 1.0" in text


@pytest.mark.slow
def test_without_a_gpu_of_the_first_family_its_devices_are_the_usual_ones(run):
    script = "from gravbench.toolkits.devices import select; print([device.selector for device in select([])[0]])"
    environment = os.environ | {"PYTHONPATH": str(FOLDER), "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([sys.executable, "-c", script], env=environment, cwd=run, capture_output=True, text=True)
    assert done.stdout.strip() == "['pretend:0', 'cpu']", done.stderr
    done = gravbench(run, "run", "quick", "--device", "pretend")
    assert done.returncode == 2
    assert "did you mean pretend:0? accepted: pretend:0 (Pretended 0), pretend:1 (Pretended 1), cpu (" in done.stderr
