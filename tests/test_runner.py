"""What happens to a sweep when kernels and people misbehave: nothing recorded is lost, nothing wrong is ranked."""

import contextlib
import fcntl
import itertools
import json
import math
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import termios
import threading
import time
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from conftest import GPUS, save, wait_until
from gravbench.config.load import load
from gravbench.config.settings import Measure
from gravbench.measuring import protocol, runner, stages, supervisor
from gravbench.measuring.anchors import MANY
from gravbench.measuring.plan import plan
from gravbench.measuring.progress import ConsoleWatcher
from gravbench.measuring.stages import Job, Station
from gravbench.measuring.tasks import estimate_seconds
from gravbench.model import generators, initial_conditions
from gravbench.model.device import Device
from gravbench.model.lock import LOCK
from gravbench.model.method import METHOD
from gravbench.model.record import Record
from gravbench.model.runs import RECORDS, RecordFile, latest
from gravbench.model.variant import CPU
from gravbench.model.work import Work
from gravbench.toolkits.devices import processor_name
from gravbench.verdicts.uncertainty import Uncertainties
from gravbench.version import VERSION
from printed_sections import render

FAULTY = Path(__file__).parent / "faulty"
PROCESSOR = Device(CPU, processor_name())
QUICK = "measure: {budget_seconds: 0.05, warm_up_seconds: 0.01, min_samples: 3, timeout_seconds: 900, processes: 1}\n"
PATIENCE = 250.0
"""Seconds to wait for what another process does soon: none of them passes but where it never comes."""


def write_config(folder, variants, n=40, of=FAULTY / "cpu"):
    path = folder / "faults.yaml"
    names = "".join(f"  - {name}\n" for name in variants)
    path.write_text(f"variant_folders: [{of}]\nn: {n}\n{QUICK}variants:\n{names}")
    return path


def run(config, out, watcher=runner.SILENT, resume=False):
    sweep = load(str(config))
    existing = runner.recorded(out, resume=resume)
    todo = plan(sweep, [PROCESSOR], None, existing)
    with runner.open_run(out, existing, [PROCESSOR], [], sweep) as (store, word):
        records = runner.run(sweep, todo, store, watcher)
    return {record.variant: record for record in records}, todo, word


def made_up(task, **changes):
    """Make the record up that a task leaves."""
    case = task.case
    bodies = initial_conditions.load(case.bodies, case.n, case.seed, case.eps, case.subset)
    fields = case.model_dump() | {"bodies": Path(case.bodies).name, "bodies_sha256": bodies.sha256}
    rest = {
        "status": "ok",
        "samples_seconds": [1.0],
        "processes": [1] * len(changes.get("samples_seconds", [1.0])),
        "median_seconds": 1.0,
        "error_max": 1e-7,
        "flops_per_interaction": 20.0,
        "commit": None,
        "started": "2026-01-01T00:00:00+00:00",
        "harness_version": "",
    }
    return Record(**(fields | task.fingerprint.model_dump() | rest | {"anchor": task.anchor} | changes))


def report_of(out):
    text = StringIO()
    render(RecordFile(out).read(), Console(file=text, width=100), {})
    return text.getvalue()


FAULTS = {
    "wrong": ("invalid", "(0.1 of the acceleration) exceeds the tolerance of"),
    "nan": ("invalid", "NaN"),
    "unwritten": ("invalid", "NaN"),
    "raises": ("failed", "RuntimeError: the planted error"),
    "raises_oddly": ("failed", "OddError: (its message cannot be shown)"),
    "raises_surrogates": ("failed", r"RuntimeError: half a pair: \ud800"),
    "tells_nonsense": ("failed", "insight() returned something that a record cannot hold: computed.half a pair"),
    "exhausts_memory": ("failed", "out of memory"),
    "late": ("invalid", "right at first, but after sample"),
    "hangs": ("failed", "no result within 900 s (measure.timeout_seconds) while verifying"),
    "killed": ("failed", "died while verifying: signal SIGKILL"),
    "crashes": ("failed", "died while verifying: signal SIGSEGV"),
}


class Impatient(runner.Watcher):
    """Lets the whole time for a case pass, on the runner's clock, as soon as one that hangs is verified."""

    def __init__(self, monkeypatch):
        self.passed = 0.0
        self.hanging = False
        clock = SimpleNamespace(monotonic=lambda: time.monotonic() + self.passed, time=time.time)
        monkeypatch.setattr(supervisor, "time", clock)

    def begins(self, label, device):  # noqa: ARG002
        self.hanging = label.startswith("hangs ")

    def phase(self, label, device, name):  # noqa: ARG002
        if self.hanging and name == "verifying":
            self.passed += 900

    def ends(self, record, progress):  # noqa: ARG002
        self.passed = 0.0


@pytest.mark.timeout(900)
def test_every_fault_is_recorded_with_its_reason_and_the_sweep_goes_on(tmp_path, monkeypatch):
    sweep = load(str(write_config(tmp_path, [*FAULTS, "gated", "turns"])))
    todo = plan(sweep, [PROCESSOR], None, anchors=False)
    # Those that end the worker go first: the others then share one, which judges and measures by what it has compiled.
    # No worker starts after the one that hangs, for which the clock is put forward.
    todo.tasks.sort(key=lambda task: {"killed": 0, "crashes": 0, "hangs": 2}.get(task.case.variant, 1))
    found = runner.run(sweep, todo, tmp_path / "out", Impatient(monkeypatch))
    records = {record.variant: record for record in found}
    for name, (status, reason) in FAULTS.items():
        assert records[name].status == status, (name, records[name].reason)
        assert reason in records[name].reason, name
        assert records[name].interactions_per_second is None, name
    right, turns = records["gated"], records["turns"]
    assert right.status == turns.status == "ok"
    assert right.interactions_per_second == pytest.approx(40 * 40 / right.median_seconds)
    # What takes two turns computes half of the pairs in each.
    assert turns.interactions_per_second == pytest.approx(40 * 40 / 2 / turns.median_seconds)
    assert turns.gflops == pytest.approx(20e-9 * turns.interactions_per_second)
    on_disk = RecordFile(tmp_path / "out").read()
    assert [record.model_dump_json() for record in on_disk] == [record.model_dump_json() for record in found]
    assert sorted(records) == sorted([*FAULTS, "gated", "turns"])
    ladder = report_of(tmp_path / "out").split("Not ranked")[0]
    assert "\ngated" in ladder
    assert not [name for name in FAULTS if f"\n{name} " in ladder], ladder


@pytest.mark.gpu
def test_a_run_repeats_anchors_on_the_gpu_and_on_both_in_processes_of_their_own(tmp_path, need_toolkit):
    need_toolkit("cupy")
    path = tmp_path / "mixed.yaml"
    path.write_text(
        "measure: {warm_up_seconds: 0.01, budget_seconds: 0.05, sample_seconds: 0.001}\n"
        "n: [256, 512, 1024, 2048, 4096, 8192]\n"
        "variants:\n"
        "  - {variant: tiled, toolkit: cupy}\n"
        "  - {variant: barnes_hut, toolkit: cupy, theta: 0.7}\n"
    )
    sweep = load(str(path))
    records = runner.run(sweep, plan(sweep, GPUS[:1], None), tmp_path / "out", runner.SILENT)
    assert {(record.status, record.reason) for record in records} == {("ok", None)}
    assert {record.work for record in records if record.variant == "barnes_hut"} == {Work.BOTH}
    assert all(record.on_host for record in records if record.variant == "barnes_hut")
    assert {record.work for record in records if record.variant == "tiled"} == {Work.GPU}
    for kind in (Work.GPU, Work.BOTH):
        repeated = [record for record in records if record.anchor and record.work is kind]
        assert len(repeated) >= 5
        assert len({record.key for record in repeated}) == 1
        assert len({record.processes[0] for record in repeated}) == len(repeated)
    known = Uncertainties([records])
    assert all(known.includes_processes(record) for record in records)


@pytest.mark.gpu
def test_every_fault_of_a_kernel_is_recorded_and_the_sweep_goes_on(tmp_path, need_toolkit):
    need_toolkit("cupy")
    expected = {
        "gpu_illegal_address": ("failed", "illegal"),
        "gpu_endless": ("failed", "no result within 20 s"),
        "gpu_nan": ("invalid", "nan"),
        "gpu_wrong": ("invalid", "exceeds the tolerance of"),
        "gpu_out_of_memory": ("failed", "memory"),
    }
    config = write_config(tmp_path, [*expected, "tiled"], n=2000, of=FAULTY / "gpu")
    sweep = load(str(config), ["measure.timeout_seconds=20"], toolkits=["cupy"])
    todo = plan(sweep, GPUS[:1], None)
    with ConsoleWatcher(Console(file=StringIO())) as watcher:
        records = {record.variant: record for record in runner.run(sweep, todo, tmp_path, watcher)}
    for name, (status, reason) in expected.items():
        assert records[name].status == status, (name, records[name].reason)
        assert reason in records[name].reason.lower(), name
    assert records["tiled"].status == "ok"


SIZES = [40, 41, 42, 43, 44, 45]


@pytest.fixture
def stopped(tmp_path):
    """A run of the variant ``gated`` in mid sweep: its process, its folder, its configuration and the gate.

    It has written a few records, and waits at the gate in the middle of a case for as long as the gate is there.
    """
    config = write_config(tmp_path, ["gated"], n=str(SIZES))
    done, waiting = 3, plan(load(str(config)), [PROCESSOR], None).tasks[3]
    gate, out = tmp_path / "gate", tmp_path / "out"
    gate.write_text(str(waiting.case.n))
    process = start(config, out, gate)
    wait_until(lambda: lines_in(out / RECORDS) == done or process.poll() is not None)
    assert process.poll() is None, process.communicate()[0]
    yield SimpleNamespace(process=process, out=out, config=config, gate=gate, done=done)
    process.kill()
    process.wait()
    process.stdout.close()


def start(config, out, gate, *options):
    environment = os.environ | {"PYTHONUNBUFFERED": "1", "GRAVBENCH_TEST_GATE": str(gate)}
    command = [sys.executable, "-m", "gravbench", "run", str(config), "--out", str(out), "--device", "cpu", *options]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        # What a shell starts in the background ignores Ctrl-C, and so would what it starts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip


def lines_in(path):
    return path.read_bytes().count(b"\n") if path.exists() else 0


def children_of(pid):
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True).stdout.split()
    return [int(word) for word in found]


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@pytest.mark.timeout(900)
def test_kill_9_in_mid_sweep_loses_at_most_the_case_under_way(stopped):
    out = stopped.out
    workers = children_of(stopped.process.pid)
    assert workers
    stopped.process.kill()
    stopped.process.communicate()
    before = RecordFile(out).read()
    assert len(before) == stopped.done
    # The worker does not outlive the run, even in the middle of a launch.
    wait_until(lambda: not any(alive(pid) for pid in workers))
    # What such a kill leaves at worst: a line cut off anywhere.
    with (out / RECORDS).open("ab") as file:
        file.write(before[0].model_dump_json().encode()[:137])
    stopped.gate.unlink()
    resumed = start(stopped.config, out, stopped.gate, "--resume")
    text, _ = resumed.communicate(timeout=PATIENCE)
    assert resumed.returncode == 0, text
    assert "half-written (137 bytes)" in text
    after = RecordFile(out).read()
    assert after[: len(before)] == before
    assert sorted(record.n for record in latest(after)) == SIZES
    measured_again = [record.n for record in after[len(before) :] if record.anchor == 0]
    assert not set(measured_again) & {record.n for record in before}
    assert len(json.loads((out / "environment.json").read_text())) == 2


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_and_more_of_them_end_a_run_cleanly_and_it_says_how_to_resume(stopped, number):
    children = children_of(stopped.process.pid)
    # Some come while it cleans up.
    for pause in (0, 0, 0.01, 0.1):
        time.sleep(pause)
        stopped.process.send_signal(number)
    text, _ = stopped.process.communicate(timeout=PATIENCE)
    assert stopped.process.returncode == 128 + number
    assert text.endswith(
        f"gravbench: stopped; the records so far are in {stopped.out}. "
        f"To continue: gravbench run {stopped.config} --resume --out {stopped.out} --device cpu\n"
    )
    assert "Traceback" not in text
    wait_until(lambda: not any(alive(pid) for pid in children))
    assert [record.status for record in RecordFile(stopped.out).read()] == ["ok"] * stopped.done
    assert not (stopped.out / LOCK).exists()


class Terminal:
    """A terminal of its own for a process; what is written to it is read all the time."""

    def __init__(self):
        self.ours, self.theirs = pty.openpty()
        self.written = b""
        self.reader = threading.Thread(target=self.read)

    def read(self):
        with contextlib.suppress(OSError):  # the other side was closed
            while piece := os.read(self.ours, 10_000):
                self.written += piece

    def become(self):
        """Make it the terminal of the process that calls this, from which the process hears when it is closed."""
        os.setsid()
        fcntl.ioctl(self.theirs, termios.TIOCSCTTY, 0)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_terminated_run_leaves_the_terminal_with_its_cursor(tmp_path):
    config = write_config(tmp_path, ["gated"])
    (tmp_path / "gate").write_text("40")
    terminal = Terminal()
    process = subprocess.Popen(
        [sys.executable, "-m", "gravbench", "run", str(config), "--out", str(tmp_path / "out"), "--device", "cpu"],
        stdin=terminal.theirs, stdout=terminal.theirs, stderr=terminal.theirs, preexec_fn=terminal.become,
        env=os.environ | {"GRAVBENCH_TEST_GATE": str(tmp_path / "gate"), "TERM": "xterm"},
    )  # fmt: skip
    os.close(terminal.theirs)
    terminal.reader.start()
    wait_until(lambda: b"verifying" in terminal.written or process.poll() is not None)
    assert terminal.written.count(b"\x1b[?25l") == 1, terminal.written
    process.send_signal(signal.SIGHUP)
    assert process.wait(PATIENCE) == 129
    terminal.reader.join()
    os.close(terminal.ours)
    hidden, shown = terminal.written.split(b"\x1b[?25h")
    assert b"\x1b[?25l" in hidden
    assert b"\rgravbench: stopped; " in re.sub(rb"\x1b\[[0-9;]*[A-Za-z]", b"", shown)


def test_what_goes_wrong_only_after_the_first_launch_is_invalid_with_its_error():
    case = load("quick", ["n=40"], variants=["numpy_direct"]).cases[0].model_copy(update={"variant": "late"})
    quick = Measure(budget_seconds=0.01, warm_up_seconds=0, min_samples=3)
    verified, measured = (stages.run(Job(0, case, settings), Station((FAULTY / "cpu",)), lambda _: None)
                          for settings in (None, quick))  # fmt: skip
    assert verified.status == "ok"
    assert measured.status == "invalid"
    # How many launches the samples hold depends on how fast the machine is just then.
    assert re.match(r"right at first, but after sample [137]: ", measured.reason)
    assert measured.results.errors.error_max == pytest.approx(0.1, rel=1e-4)


@pytest.mark.parametrize("samples", range(3, 10))
def test_a_case_is_right_however_many_samples_it_has(samples, monkeypatch):
    """What is spoilt to be judged is written again, also where sampling ends just then."""
    monkeypatch.setattr(protocol, "median_interval", lambda found: Enough(found, samples))
    case = load("quick", ["n=40"], variants=["numpy_direct"]).cases[0]
    quick = Measure(budget_seconds=60, warm_up_seconds=0, min_samples=3, sample_seconds=1e-4)
    outcome = stages.run(Job(0, case, quick), Station(), lambda _: None)
    assert (outcome.status, outcome.reason) == ("ok", None)
    assert len(outcome.results.measurement.samples_seconds) == samples


class Enough:
    """An interval that is narrow once there are so many samples."""

    def __init__(self, found, samples):
        self.median = self.low = self.high = found[0]
        self.half_width = 0.0 if len(found) == samples else 1.0


class Editor(runner.Watcher):
    """Changes the code of a variant when its case begins."""

    def __init__(self, path, variant):
        self.path, self.variant = path, variant

    def begins(self, label, device):  # noqa: ARG002
        if label.startswith(f"{self.variant} "):
            self.path.write_text(self.path.read_text().replace("0.02", "0.01"))


def test_a_case_whose_source_is_edited_during_the_run_is_failed_and_others_are_kept(tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    for name in ("gated", "faulty_direct"):
        shutil.copy(FAULTY / "cpu" / f"{name}.py", own)
    (own / "gated.py").rename(own / "edited.py")
    config = write_config(tmp_path, ["edited", "numpy_direct"], of=own)
    records, _, _ = run(config, tmp_path / "out", Editor(own / "edited.py", "edited"))
    assert records["numpy_direct"].status == "ok"
    assert records["edited"].status == "failed"
    assert "edited during the run" in records["edited"].reason
    assert records["edited"].interactions_per_second is None


def test_resume_measures_what_is_missing_or_was_made_from_other_source(tmp_path):
    config = write_config(tmp_path, ["wrong", "raises"], n="[40, 41]")
    out = tmp_path / "out"
    run(config, out)
    _, todo, _ = run(config, out, resume=True)
    # What was measured or found wrong stays; what failed is tried again.
    assert {task.case.variant for task in todo.tasks} == {"raises"}
    assert todo.reused == 2
    assert {(one.harness_version, one.method) for one in RecordFile(out).read()} == {(VERSION, METHOD)}
    changed = [
        record.model_copy(update={"code_sha256": "0" * 64}) if record.variant == "wrong" else record
        for record in RecordFile(out).read()
    ]
    todo = plan(load(str(config)), [PROCESSOR], None, changed)
    assert {task.case.variant for task in todo.tasks} == {"wrong", "raises"}


@pytest.mark.parametrize(
    "change",
    [{"driver": "another"}, {"device": "another"}, {"device_uuid": "another"}, {"toolkit_version": "another"},
     {"flags": ["-O0"]}, {"code_sha256": "0" * 64}, {"method": None},
     {"method": METHOD + 1}, {"status": "failed"}, {"status": "skipped"}, {"seed": 7}],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_a_result_from_another_environment_or_none_at_all_is_not_reused(change):
    sweep = load("quick", ["n=40"], variants=["numpy_direct"])
    (task,) = plan(sweep, [PROCESSOR], None).tasks
    for status in ("ok", "invalid"):
        assert plan(sweep, [PROCESSOR], None, [made_up(task, status=status)]).reused == 1
    assert plan(sweep, [PROCESSOR], None, [made_up(task, **change)]).reused == 0


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


def anchors_of(sweep, *existing):
    """Return where the anchor stands among the tasks on the processor, and its numbers."""
    tasks = [task for task in plan(sweep, [PROCESSOR], None, *existing).tasks if task.device]
    # What is repeated at the ends of a long run stands beside it.
    tasks = [task for task in tasks if task.fresh or not task.anchor]
    return [(position, task.anchor) for position, task in enumerate(tasks) if task.anchor], tasks


@pytest.mark.parametrize("every", [1, 2, 3, 4, 10, 1000])
@pytest.mark.parametrize("sizes", ["64..1024*2", "64..2048*2", "64..4096*2", "1..100+1"])
def test_the_anchor_of_more_than_ten_cases_is_repeated_at_least_five_times(sizes, every):
    variants = ["numpy_direct", "numba_direct"]
    sweep = load("quick", [f"n={sizes}", f"measure.anchor_every={every}"], variants=variants)
    found, tasks = anchors_of(sweep)
    assert [number for _, number in found] == list(range(1, len(found) + 1))
    assert (found[0][0], found[-1][0]) == (0, len(tasks) - 1)
    assert len({task.case.key for task in tasks if task.anchor}) == 1
    ends = 2 if len(sweep.cases) > MANY else 0
    assert len({task.case.key for task in tasks}) + ends == len(sweep.cases) == len(tasks) - len(found) + 1 + ends
    between = [second - first - 1 for (first, _), (second, _) in itertools.pairwise(found)]
    assert max(between) <= every
    if len(sweep.cases) > 10:
        assert len(found) >= 5
    else:
        assert len(found) == math.ceil((len(sweep.cases) - 1) / every) + 1
    if len(found) == 5:
        assert max(between) <= math.ceil((len(sweep.cases) - 1) / 4)


def test_a_run_of_many_cases_repeats_its_anchor_about_twenty_times_unless_told_how_often():
    variants = ["numpy_direct", "numba_direct"]
    for every, repetitions in (("null", 21), ("10", 61)):
        found, _ = anchors_of(load("quick", ["n=1..300+1", f"measure.anchor_every={every}"], variants=variants))
        assert len(found) == repetitions


def test_a_long_run_repeats_the_smallest_and_the_largest_n_as_often_as_its_anchor():
    sweep = load("quick", ["n=1..100+1"], variants=["numpy_direct", "numba_direct"])
    tasks = plan(sweep, [PROCESSOR], None).tasks
    typical = next(task.case for task in tasks if task.fresh)
    ends = [task for task in tasks if task.anchor and not task.fresh]
    assert [task.case.n for task in ends] == [1, 100] * (len(ends) // 2)
    assert [task.anchor for task in ends] == [1 + i // 2 for i in range(len(ends))]
    assert {task.case.variant for task in ends} == {typical.variant}
    assert len(ends) / 2 == sum(task.fresh for task in tasks) >= 5
    # Each case is there once but for what is repeated.
    once = [task.case.key for task in tasks if task.anchor <= 1]
    assert len(once) == len(set(once)) == len(sweep.cases)
    long = load("quick", ["n=1..99+1,30000"], variants=["numpy_direct", "numba_direct"])
    repeated = [task.case.n for task in plan(long, [PROCESSOR], None).tasks if task.anchor and not task.fresh]
    assert repeated == [1, 99] * (len(repeated) // 2), "three evaluations at 30,000 would bound no drift"
    existing = [made_up(task) for task in tasks if task.anchor]
    again = plan(sweep, [PROCESSOR], None, existing).tasks
    assert min(task.anchor for task in again if task.case.n == 100 and task.anchor) == max(
        task.anchor for task in ends if task.case.n == 100
    ) + 1  # fmt: skip


def test_on_a_processor_the_last_variant_of_the_ladder_is_an_anchor_beside_a_simple_one():
    """It uses all cores: on a busy machine its processes differ by far more than those of a serial kernel."""
    variants = ["numpy_direct", "numba_direct", "numba_parallel"]
    tasks = plan(load("quick", ["n=64..512*2"], variants=variants), [PROCESSOR], None).tasks
    anchors = [(task.case.variant, task.anchor) for task in tasks if task.anchor]
    assert anchors == [(name, time) for time in range(1, 6) for name in ("numba_direct", "numba_parallel")]
    assert len({task.case.n for task in tasks if task.anchor}) == 1
    few = plan(load("quick", ["n=64,128"], variants=variants), [PROCESSOR], None).tasks
    assert {task.case.variant for task in few if task.anchor} == {"numba_direct"}


@pytest.mark.slow
def test_each_repetition_of_an_anchor_has_processes_of_its_own_and_a_resumed_run_counts_on(tmp_path):
    config = write_config(tmp_path, ["numpy_direct"], n="[40, 41]")
    config.write_text(config.read_text().replace("processes: 1", "processes: 2").replace("0.05", "3.0"))
    run(config, tmp_path / "out")
    first, other, last = RecordFile(tmp_path / "out").read()
    assert (first.anchor, other.anchor, last.anchor) == (1, 0, 2)
    assert [list(dict.fromkeys(one.processes)) for one in (first, other, last)] == [[1, 2], [1, 2], [3, 4]]
    assert all(len(one.groups) == 2 and sum(map(len, one.groups)) == len(one.samples_seconds) for one in (first, last))
    (tmp_path / "out" / RECORDS).write_text("".join(one.model_dump_json() + "\n" for one in (first, last)))
    run(config, tmp_path / "out", resume=True)
    assert [one.processes[0] for one in RecordFile(tmp_path / "out").read()[2:]] == [5]


def test_the_anchor_is_repeated_where_most_cases_are_skipped_and_the_estimate_has_it():
    """Of a packaged run without a GPU a few cases are left, which two repetitions would tell nothing of."""
    sweep = load("quick", ["n=64"])
    assert len(sweep.cases) > 10
    todo = plan(sweep, [PROCESSOR], "no GPU")
    measured = [task for task in todo.tasks if task.device]
    assert sum(task.anchor > 0 for task in measured) == 5
    anchor = next(task for task in measured if task.anchor)
    alone = plan(sweep, [PROCESSOR], "no GPU", anchors=False)
    assert sum(todo.estimates) == pytest.approx(sum(alone.estimates) + 4 * estimate_seconds(anchor.case, sweep.measure))
    assert len(todo.estimates) == len(todo.tasks) == len(alone.tasks) + 4


def test_what_is_resumed_brings_the_repetitions_of_its_anchor_to_five():
    sweep = load("quick", ["n=64..4096*2"], variants=["numpy_direct", "numba_direct"])
    _, tasks = anchors_of(sweep)
    for done, added in ((1, [2, 3, 4, 5]), (4, [5, 6]), (9, [10, 11])):
        waiting = [task for task in tasks if not task.anchor][:3]
        existing = [made_up(task) for task in tasks if task not in waiting and task.anchor <= done]
        existing += [made_up(tasks[0], anchor=done)]
        assert [number for _, number in anchors_of(sweep, existing)[0]] == added


def test_a_resumed_run_counts_the_repetitions_of_its_anchor_on():
    sweep = load("quick", ["n=64,128,256"], variants=["numpy_direct"])
    tasks = plan(sweep, [PROCESSOR], None).tasks
    assert [task.anchor for task in tasks] == [1, 0, 0, 2]
    existing = [made_up(task) for task in tasks if task.anchor] + [made_up(tasks[0], anchor=5)]
    assert [task.anchor for task in plan(sweep, [PROCESSOR], None, existing).tasks] == [6, 0, 0, 7]


def test_without_a_gpu_each_gpu_case_says_why_it_is_skipped():
    sweep = load("quick")
    todo = plan(sweep, [PROCESSOR], "no NVIDIA GPU: a reason")
    skipped = {(task.case.variant, task.case.toolkit) for task in todo.tasks if task.skip == "no NVIDIA GPU: a reason"}
    assert skipped == {(case.variant, case.toolkit) for case in sweep.cases if case.toolkit != CPU}
    chosen = plan(sweep, [PROCESSOR], "not chosen", chosen=True)
    assert all(task.case.toolkit == CPU for task in chosen.tasks)


def test_more_bodies_than_a_file_has_is_a_skip_with_its_reason(tmp_path):
    save(generators.plummer(100, 1, 0.1), tmp_path / "hundred.npz")
    config = tmp_path / "file.yaml"
    config.write_text(f"bodies: hundred.npz\nn: [50, 200]\n{QUICK}variants: numpy_direct\n")
    sweep = load(str(config))
    records = runner.run(sweep, plan(sweep, [PROCESSOR], None, anchors=False), tmp_path / "out", runner.SILENT)
    assert {(record.n, record.status) for record in records} == {(50, "ok"), (200, "skipped")}
    (reason,) = [record.reason for record in records if record.reason]
    assert "100" in reason
    assert {record.bodies for record in records} == {"hundred.npz"}
    (first,) = [record for record in records if record.n == 50]
    assert first.bodies_sha256 == initial_conditions.load(str(tmp_path / "hundred.npz"), 50, 0, first.eps).sha256


EDITS = '''"""Edits a file while it is prepared, and is right."""

from pathlib import Path

from gravbench.model.variant import Prepared, variant
from gravbench.variants.cpu import numpy_direct

OLD, NEW, FILE = {edit!r}
edited = False


@variant(parent="numpy_direct", source="a fault planted by the tests")
def prepare(cpu, bodies):
    """Edit the first time, and prepare what numpy_direct does."""
    global edited
    file = Path(FILE)
    if not edited:
        file.write_bytes(file.read_bytes().replace(OLD.encode(), NEW.encode(), 1) if OLD else NEW.encode())
    edited = True
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
    folder = tmp_path / "mine"
    folder.mkdir()
    (tmp_path / "other.npz").touch()
    file = (folder if name == "edits.py" else tmp_path) / name
    (folder / "edits.py").write_text(EDITS.format(edit=(old, new, str(file))))
    save(generators.plummer(50, 1, 0.1), tmp_path / "own.npz")
    config = tmp_path / "file.yaml"
    config.write_text(f"variant_folders: [mine]\nbodies: own.npz\nn: 50\n{QUICK}variants: edits\n")
    records, _, _ = run(config, tmp_path / "out")
    if reason is None:
        assert (records["edits"].status, records["edits"].reason) == ("ok", None)
    else:
        assert records["edits"].status == "failed"
        assert f"{reason} edited during the run" in records["edits"].reason


def test_an_edited_file_of_bodies_is_measured_again(tmp_path):
    file = tmp_path / "own.npz"
    config = tmp_path / "file.yaml"
    config.write_text("bodies: own.npz\nn: 50\nvariants: numpy_direct\n")
    save(generators.plummer(50, 1, 0.1), file)
    (task,) = plan(load(str(config)), [PROCESSOR], None).tasks
    existing = [made_up(task)]
    assert plan(load(str(config)), [PROCESSOR], None, existing).reused == 1
    save(generators.plummer(50, 2, 0.1), file)
    assert plan(load(str(config)), [PROCESSOR], None, existing).reused == 0


def test_an_anchor_that_fails_is_not_tried_again(tmp_path):
    config = write_config(tmp_path, ["raises"], n="[40, 41, 42]")
    _, todo, _ = run(config, tmp_path / "out")
    assert sum(task.anchor > 1 for task in todo.tasks) == 1
    assert [record.anchor for record in RecordFile(tmp_path / "out").read()] == [1, 0, 0]
