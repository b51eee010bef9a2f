"""What happens to a sweep when kernels and people misbehave: nothing recorded is lost, nothing wrong is ranked."""

import json
import os
import signal
import subprocess
import sys
import time
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from conftest import GPUS
from gravbench.config.load import load
from gravbench.measuring import runner
from gravbench.measuring.plan import plan
from gravbench.measuring.progress import ConsoleWatcher
from gravbench.model.device import Device
from gravbench.model.runs import RECORDS, RecordFile, latest
from gravbench.model.variant import CPU
from gravbench.report.terminal.ladder import render
from gravbench.toolkits.devices import processor_name

FAULTY = Path(__file__).parent / "faulty"
PROCESSOR = Device(CPU, processor_name())
QUICK = "measure: {budget_seconds: 0.05, warm_up_seconds: 0.01, min_samples: 3, timeout_seconds: %g}\n"


def write_config(folder, kind, variants, timeout=20.0, n=40):
    path = folder / "faults.yaml"
    names = "".join(f"  - {name}\n" for name in variants)
    path.write_text(f"variant_folders: [{FAULTY / kind}]\nn: {n}\n{QUICK % timeout}variants:\n{names}")
    return path


def run(config, out, devices=(PROCESSOR,), resume=False):
    sweep = load(str(config))
    existing, words = runner.open_run(out, resume=resume)
    todo = plan(sweep, devices, None, existing)
    with ConsoleWatcher(Console(file=StringIO()), [1.0] * len(todo.tasks)) as watcher:
        records = runner.run(sweep, todo, out, watcher)
    return {record.variant: record for record in records}, todo, words


def report_of(out):
    text = StringIO()
    render(RecordFile(out).read(), Console(file=text, width=100), {})
    return text.getvalue()


FAULTS = {
    "wrong": ("invalid", "relative error 0.1 is above the variant's tolerance"),
    "nan": ("invalid", "NaN"),
    "unwritten": ("invalid", "NaN"),
    "raises": ("failed", "RuntimeError: the planted error"),
    "exhausts_memory": ("failed", "out of memory"),
    "hangs": ("failed", "no end after 4 s (measure.timeout_seconds) while verifying"),
    "killed": ("failed", "died while verifying: signal SIGKILL"),
    "crashes": ("failed", "died while verifying: signal SIGSEGV"),
}


def test_every_fault_is_recorded_with_its_reason_and_the_sweep_goes_on(tmp_path):
    config = write_config(tmp_path, "cpu", [*FAULTS, "slow"], timeout=4)
    records, _, _ = run(config, tmp_path / "out")
    for name, (status, reason) in FAULTS.items():
        assert records[name].status == status, name
        assert reason in records[name].reason, name
        assert records[name].interactions_per_second is None, name
    assert records["slow"].status == "ok"
    on_disk = sorted(record.variant for record in RecordFile(tmp_path / "out").read() if record.anchor <= 1)
    assert on_disk == sorted([*FAULTS, "slow"])
    ladder = report_of(tmp_path / "out").split("The anchor")[0].split("Not ranked")[0]
    assert "\nslow" in ladder
    assert not [name for name in FAULTS if f"\n{name} " in ladder], ladder


@pytest.mark.gpu
def test_every_fault_of_a_kernel_is_recorded_and_the_sweep_goes_on(tmp_path, need_toolkit):
    need_toolkit("cupy")
    expected = {
        "gpu_illegal_address": ("failed", "illegal"),
        "gpu_endless": ("failed", "no end after 20 s"),
        "gpu_nan": ("invalid", "nan"),
        "gpu_wrong": ("invalid", "tolerance"),
        "gpu_out_of_memory": ("failed", "memory"),
    }
    config = write_config(tmp_path, "gpu", [*expected, "tiled"], timeout=20, n=2000)
    sweep = load(str(config), toolkits=["cupy"])
    todo = plan(sweep, GPUS[:1], None)
    with ConsoleWatcher(Console(file=StringIO()), [1.0] * len(todo.tasks)) as watcher:
        records = {record.variant: record for record in runner.run(sweep, todo, tmp_path, watcher)}
    for name, (status, reason) in expected.items():
        assert records[name].status == status, (name, records[name].reason)
        assert reason in records[name].reason.lower(), name
    assert records["tiled"].status == "ok"


def start(config, out, *options):
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "gravbench", "run", str(config), "--out", str(out), "--device", "cpu", *options]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        # What a shell starts in the background ignores Ctrl-C, and so would what it starts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip


def wait_for_lines(path, count, timeout=60):
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if path.exists() and path.read_bytes().count(b"\n") >= count:
            return
        time.sleep(0.02)
    pytest.fail(f"{path} did not reach {count} lines")


def children_of(pid):
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True).stdout.split()
    return [int(word) for word in found]


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_kill_9_in_mid_sweep_loses_at_most_the_case_under_way(tmp_path):
    config = write_config(tmp_path, "cpu", ["slow"], n="[40, 41, 42, 43, 44, 45]")
    out = tmp_path / "out"
    process = start(config, out)
    wait_for_lines(out / RECORDS, 2)
    workers = children_of(process.pid)
    assert workers
    process.kill()
    process.communicate()
    before = RecordFile(out).read()
    assert len(before) >= 2
    deadline = time.monotonic() + 10
    while any(alive(pid) for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(alive(pid) for pid in workers), "the worker outlived the run"
    # What such a kill leaves at worst: a line cut off anywhere.
    with (out / RECORDS).open("ab") as file:
        file.write(before[0].model_dump_json().encode()[:137])

    refused = subprocess.run(
        [sys.executable, "-m", "gravbench", "run", str(config), "--out", str(out)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert refused.returncode == 2
    assert "--resume" in refused.stderr

    resumed = start(config, out, "--resume")
    text, _ = resumed.communicate(timeout=120)
    assert resumed.returncode == 0, text
    assert "half-written (137 bytes)" in text
    after = RecordFile(out).read()
    assert after[: len(before)] == before
    assert sorted(record.n for record in latest(after)) == [40, 41, 42, 43, 44, 45]
    measured_again = [record.n for record in after[len(before) :] if record.anchor == 0]
    assert not set(measured_again) & {record.n for record in before}
    assert len(json.loads((out / "environment.json").read_text())) == 2


def test_ctrl_c_ends_cleanly_and_says_how_to_resume(tmp_path):
    config = write_config(tmp_path, "cpu", ["slow"], n="[40, 41, 42, 43, 44, 45]")
    out = tmp_path / "out"
    process = start(config, out)
    wait_for_lines(out / RECORDS, 1)
    process.send_signal(signal.SIGINT)
    text, _ = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "--resume" in text
    assert "Traceback" not in text
    assert all(record.status == "ok" for record in RecordFile(out).read())


def test_resume_measures_what_is_missing_or_was_made_from_other_source(tmp_path):
    config = write_config(tmp_path, "cpu", ["wrong", "raises"], n="[40, 41]")
    out = tmp_path / "out"
    run(config, out)
    _, todo, _ = run(config, out, resume=True)
    # What was measured or found wrong stays; what failed is tried again.
    assert {task.case.variant for task in todo.tasks} == {"raises"}
    assert todo.reused == 2
    store = RecordFile(out)
    changed = [
        record.model_copy(update={"code_sha256": "0" * 64}) if record.variant == "wrong" else record
        for record in store.read()
    ]
    store.path.write_text("".join(record.model_dump_json() + "\n" for record in changed))
    existing, _ = runner.open_run(out, resume=True)
    todo = plan(load(str(config)), [PROCESSOR], None, existing)
    assert {task.case.variant for task in todo.tasks} == {"wrong", "raises"}


@pytest.mark.parametrize("field", ["driver", "device", "device_uuid", "toolkit_version", "flags"])
def test_a_result_from_another_environment_is_not_reused(tmp_path, field):
    config = write_config(tmp_path, "cpu", ["wrong"])
    run(config, tmp_path / "out")
    (record,) = RecordFile(tmp_path / "out").read()
    sweep = load(str(config))
    assert plan(sweep, [PROCESSOR], None, [record]).reused == 1
    other = record.model_copy(update={field: ["-O0"] if field == "flags" else "another"})
    assert plan(sweep, [PROCESSOR], None, [other]).reused == 0


def test_the_order_is_shuffled_by_the_seed_and_the_anchor_comes_back():
    sweep = load("quick", ["n=64..1024*2", "measure.anchor_every=4"], variants=["numpy_direct", "numba_direct"])
    tasks = plan(sweep, [PROCESSOR], None).tasks
    anchors = [position for position, task in enumerate(tasks) if task.anchor]
    assert [tasks[position].anchor for position in anchors] == [1, 2, 3, 4]
    assert anchors == [0, 5, 10, len(tasks) - 1]
    assert len({tasks[position].case.key for position in anchors}) == 1
    others = [task.case for task in tasks if not task.anchor]
    assert others != [case for case in sweep.cases if case in others]
    assert tasks == plan(sweep, [PROCESSOR], None).tasks
    reseeded = load("quick", ["n=64..1024*2", "measure.order_seed=2"], variants=["numpy_direct", "numba_direct"])
    assert [task.case for task in plan(reseeded, [PROCESSOR], None).tasks if not task.anchor] != others


def test_without_a_gpu_each_gpu_case_says_why_it_is_skipped():
    sweep = load("quick")
    todo = plan(sweep, [PROCESSOR], "no NVIDIA GPU: a reason")
    skipped = {(task.case.variant, task.case.toolkit) for task in todo.tasks if task.skip == "no NVIDIA GPU: a reason"}
    assert skipped == {(case.variant, case.toolkit) for case in sweep.cases if case.toolkit != CPU}
    chosen = plan(sweep, [PROCESSOR], "not chosen", chosen=True)
    assert all(task.case.toolkit == CPU for task in chosen.tasks)


def test_more_bodies_than_a_file_has_is_a_skip_with_its_reason(tmp_path):
    from gravbench.model import initial_conditions as bodies

    bodies.save(bodies.plummer(100, 1, 0.1), tmp_path / "hundred.npz")
    config = tmp_path / "file.yaml"
    config.write_text(f"bodies: hundred.npz\nn: [50, 200]\n{QUICK % 20}variants: numba_direct\n")
    sweep = load(str(config))
    watcher = ConsoleWatcher(Console(file=StringIO()), [])
    records = runner.run(sweep, plan(sweep, [PROCESSOR], None, anchors=False), tmp_path / "out", watcher)
    assert {(record.n, record.status) for record in records} == {(50, "ok"), (200, "skipped")}
    (reason,) = [record.reason for record in records if record.reason]
    assert "100" in reason
    assert {record.bodies for record in records} == {"hundred.npz"}


EDITS = '''"""Edits a file while it is prepared, and is right."""

from pathlib import Path

from gravbench.model.variant import Prepared, variant
from gravbench.variants.cpu import numpy_direct

OLD, NEW, FILE = {edit!r}


@variant(parent="numpy_direct", source="a fault planted by the tests")
def prepare(cpu, bodies):
    """Edit, and prepare what numpy_direct does."""
    file = Path(FILE)
    file.write_bytes(file.read_bytes().replace(OLD.encode(), NEW.encode(), 1) if OLD else NEW.encode())
    return numpy_direct.prepare.prepare(cpu, bodies)
'''


@pytest.mark.parametrize(
    ("old", "new", "name", "reason"),
    [
        ("numpy_direct.prepare.prepare(cpu, ", "numpy_direct.prepare.prepare(cpu, *(), ", "edits.py", "its source was"),
        ("Edits a file", "Changes a file", "edits.py", None),
        ("", "[]", "own.npz", "its bodies were"),
        ("", "[]", "other.npz", None),
    ],
    ids=["source", "docstring", "bodies", "another file"],
)
def test_what_is_edited_during_the_run_is_not_taken_for_what_ran(tmp_path, old, new, name, reason):
    from gravbench.model import initial_conditions as bodies

    folder = tmp_path / "mine"
    folder.mkdir()
    (tmp_path / "other.npz").touch()
    file = (folder if name == "edits.py" else tmp_path) / name
    (folder / "edits.py").write_text(EDITS.format(edit=(old, new, str(file))))
    bodies.save(bodies.plummer(50, 1, 0.1), tmp_path / "own.npz")
    config = tmp_path / "file.yaml"
    config.write_text(f"variant_folders: [mine]\nbodies: own.npz\nn: 50\n{QUICK % 60}variants: edits\n")
    records, _, _ = run(config, tmp_path / "out")
    if reason is None:
        assert (records["edits"].status, records["edits"].reason) == ("ok", None)
    else:
        assert records["edits"].status == "failed"
        assert f"{reason} edited during the run" in records["edits"].reason


def test_an_edited_file_of_bodies_is_measured_again(tmp_path):
    from gravbench.model import initial_conditions as bodies

    file = tmp_path / "own.npz"
    config = tmp_path / "file.yaml"
    config.write_text(f"bodies: own.npz\nn: 50\n{QUICK % 20}variants: numpy_direct\n")
    bodies.save(bodies.plummer(50, 1, 0.1), file)
    run(config, tmp_path / "out")
    existing = RecordFile(tmp_path / "out").read()
    assert plan(load(str(config)), [PROCESSOR], None, existing).reused == 1
    bodies.save(bodies.plummer(50, 2, 0.1), file)
    assert plan(load(str(config)), [PROCESSOR], None, existing).reused == 0


def test_an_anchor_that_fails_is_not_tried_again(tmp_path):
    config = write_config(tmp_path, "cpu", ["raises"], n="[40, 41, 42]")
    _, todo, _ = run(config, tmp_path / "out")
    assert sum(task.anchor > 1 for task in todo.tasks) == 1
    assert [record.anchor for record in RecordFile(tmp_path / "out").read()] == [1, 0, 0]
