"""A run on Dask's workers: each record once, whatever becomes of a worker, the client or the scheduler."""

import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import numba
import psutil
import pytest

from conftest import ROOT, wait_until
from gravbench.cli.main import app
from gravbench.config.load import load
from gravbench.errors import InputError
from gravbench.measuring import environment, runner
from gravbench.measuring.plan import plan
from gravbench.measuring.queues import Queue
from gravbench.model.device import Device
from gravbench.model.runs import RecordFile
from gravbench.model.variant import discover
from gravbench.search.strategies import of_plan, start
from test_runner import made_up

pytestmark = pytest.mark.slow

PATIENCE = 60.0
"""Seconds to wait for what another process does soon."""
VARIANT = '''"""Is numpy_direct, and waits where it is told to."""

import os
import time
from pathlib import Path

import numba
import psutil

from gravbench.model.variant import variant
from gravbench.variants.cpu import numpy_direct


def uncompiled(function=None, **options):
    """Stand in for numba.njit: to compile the sums of the reference takes longer than all else."""
    if function is None:
        return uncompiled
    function.compile = lambda types: None
    return function


numba.njit = uncompiled


@variant(parent="numpy_direct", source="planted by the tests")
def prepare(cpu, bodies):
    """Prepare what numpy_direct does; the first case says that it has begun, and waits until it may go on."""
    worker = psutil.Process(os.getppid()).ppid()  # this process is forked from one that the worker has started
    print("at", worker, "with", os.environ.get("OMP_NUM_THREADS"), flush=True)
    folder = Path(__file__).parent
    if not (folder / "begun").exists():
        (folder / "new").write_text(str(worker))
        (folder / "new").rename(folder / "begun")
        while not (folder / "go").exists():
            time.sleep(0.02)
    return numpy_direct.prepare.prepare(cpu, bodies)
'''
MEASURE = "{budget_seconds: 0.02, warm_up_seconds: 0.01, min_samples: 3, anchor_every: 100, processes: 1}"
PROCESSORS = [Device(f"host{place}:cpu:0", "a processor") for place in range(4)]


def counted(records):
    """Count cases, each with the first repetition of its anchor."""
    return Counter(record.key for record in records if record.anchor < 2)


# What is left by a device that is lost


@pytest.fixture
def sweep(tmp_path):
    """Plan cases of two variants on so many processors."""

    def make(count, devices, every=5, search="all"):
        path = tmp_path / "sweep.yaml"
        path.write_text(
            f"n: {list(range(40, 40 + count))}\nmeasure: {{anchor_every: {every}, processes: 1}}\nsearch: {search}\n"
            "variants: [numpy_direct, numba_direct]\n"
        )
        swept = load(str(path))
        return swept, plan(swept, devices, None)

    return make


@pytest.mark.parametrize("search", ["all", "race", "{strategy: all, budget_trials: 1000}"])
def test_whatever_devices_come_and_go_every_case_has_its_record_once(search, sweep, attacks):
    chance = random.Random(1)
    for trial in range(20 * attacks):
        there = PROCESSORS[: chance.randint(1, 3)]
        swept, todo = sweep(chance.randint(1, 10), there, chance.randint(2, 6), search)
        strategy = None if search == "all" else start(swept.cases, swept.search, discover(swept.variant_folders))
        kind = there[0].kind
        queue = Queue(
            todo.tasks,
            lambda task, device: task.fingerprint,  # noqa: ARG005
            {kind: strategy} if strategy else None,
        )
        for device in there:
            queue.add_device(device)
        spare, begun, records = [one for one in PROCESSORS if one not in there], {}, []
        while True:
            for device in there:
                if device not in begun and (upcoming := queue.next(device)):
                    begun[device] = upcoming[0]
            if not begun and not queue.left_behind([one.kind for one in there]):
                break
            if spare and (not there or chance.random() < 0.1):
                device = spare.pop()
                queue.add_device(device)
                there = [*there, device]
            elif there and spare and chance.random() < 0.1:
                device = chance.choice(there)
                there = [one for one in there if one != device]
                task = begun.pop(device, None)
                # Any other task goes on elsewhere by itself.
                queue.remove_device(device, task if task and task.anchor else None)
                if task and not task.anchor:
                    begun[replace(device, selector=f"elsewhere:{device.selector}")] = task
            elif begun:
                device = chance.choice(sorted(begun, key=lambda one: one.selector))
                task = begun.pop(device)
                record = made_up(task, samples_seconds=[1.0] * 5)
                records.append(record)
                queue.add_record(record, task)
        times = 2 if search == "race" else 1  # all are equally fast, so that a race repeats them
        assert counted(records).keys() == {case.key for case in swept.cases}, trial
        assert max(counted(records).values()) <= times, trial
        assert queue.left_behind([]) == [], trial


def test_an_anchor_that_a_card_leaves_is_measured_by_another_one_once(sweep):
    _, todo = sweep(4, PROCESSORS[:2])
    anchors = [task for task in todo.tasks if task.anchor == 1]
    queue = Queue(todo.tasks, lambda task, device: task.fingerprint)  # noqa: ARG005
    begun, _ = queue.next(PROCESSORS[0])
    assert begun == anchors[0]
    repetitions = sum(task.device == PROCESSORS[0] and task.anchor > 1 for task in todo.tasks)
    queue.remove_device(PROCESSORS[0], begun)
    assert queue.dropped == repetitions
    taken, _ = queue.next(PROCESSORS[1])
    assert (taken.case, taken.device, taken.anchor, taken.fresh) == (begun.case, PROCESSORS[1], 0, False)


# What is refused


def refusal(*words):
    with pytest.raises(InputError) as error:
        app(["run", "quick", *words], standalone_mode=False)
    return str(error.value)


def test_the_missing_library_is_said_with_its_extra(monkeypatch):
    monkeypatch.delitem(sys.modules, "gravbench.measuring.dask_sessions", raising=False)
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert "install it with pip install 'gravbench[dask]'" in refusal("--dask", "local")


def test_options_that_belong_to_this_machine_are_refused():
    assert refusal("--dask", "local", "--device", "cpu") == "--dask cannot be combined with --device"
    assert refusal("--dask", "local", "--counters") == "--dask cannot be combined with --counters"


@pytest.fixture
def dask_sessions():
    pytest.importorskip("distributed")
    from gravbench.measuring import dask_sessions

    return dask_sessions


def test_a_scheduler_that_is_not_there_is_one_sentence_after_a_while(dask_sessions, monkeypatch, tmp_path):
    monkeypatch.setattr(dask_sessions, "CONNECT_SECONDS", 0.5)
    began = time.monotonic()
    for where in ("tcp://127.0.0.1:9", "odd://1"):
        assert refusal("--dask", where).startswith(f"--dask {where}: no Dask scheduler answers within 0.5 s: ")
    assert "no such file; accepted: tcp://HOST:PORT, a scheduler file, or local" in refusal("--dask", "scheduler.json")
    for content in ("", "{}", "[1]", "\xff", '{"address": "odd://1"}'):
        (tmp_path / "file").write_text(content, "latin-1")
        assert "no Dask scheduler answers" in refusal("--dask", str(tmp_path / "file"))
    assert time.monotonic() - began < 20


@pytest.fixture
def threads(dask_sessions):  # noqa: ARG001
    """Two Dask workers in threads of this process, which a test may make say what it likes."""
    import distributed

    with distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=False,
        dashboard_address="127.0.0.1:0",
        silence_logs=50,
        memory_limit=0,
    ) as cluster:
        yield cluster


def test_two_workers_on_one_gpu_are_refused(threads, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    card = Device("cuda:0", "a card", f"GPU-{os.getpid()}", "600.1")
    monkeypatch.setattr("gravbench.measuring.dask_worker.gpus", lambda: ([card], None))
    text = refusal("--dask", threads.scheduler_address)
    assert f"would measure on the same GPU as another one, {card.uuid}; start one worker per GPU" in text
    assert text.startswith("the Dask worker inproc://")
    assert text.count("\n") == 0, "one of them may have it"


def test_a_worker_with_other_versions_or_files_is_refused(threads, dask_sessions, monkeypatch):
    here = {"gravbench": "1.0", "numpy": "1.0"}
    answers = iter([here, here, {"gravbench": "1.0", "numpy": "2.0", "cupy": "14"}])
    monkeypatch.setattr(dask_sessions.environment, "needed", lambda _: next(answers))
    text = refusal("--dask", threads.scheduler_address)
    assert "numpy 2.0 where 1.0 is here, cupy 14 where none is here; accepted: the same versions and files" in text
    assert text.count("\n") == 0


def test_a_cluster_without_workers_is_refused(dask_sessions):  # noqa: ARG001
    import distributed

    with distributed.LocalCluster(
        n_workers=0, processes=False, dashboard_address="127.0.0.1:0", silence_logs=50
    ) as cluster:
        assert refusal("--dask", cluster.scheduler_address).endswith(" has no workers; start one per GPU")


def test_what_has_to_be_the_same_are_versions_and_the_contents_of_sources_and_files(tmp_path):
    (tmp_path / "own.py").write_text("1")
    (tmp_path / "records.jsonl").write_text("1")
    before = environment.needed([tmp_path, tmp_path / "own.py", tmp_path / "none"])
    assert before.keys() >= {"gravbench", "python", "numpy", str(tmp_path)}
    assert before[str(tmp_path / "none")] == "that cannot be read"
    (tmp_path / "records.jsonl").write_text("2")
    assert environment.needed([tmp_path]).items() <= before.items()
    (tmp_path / "own.py").write_text("2")
    assert environment.needed([tmp_path])[str(tmp_path)] != before[str(tmp_path)]


# Clusters of processes


class Cluster:
    """A scheduler and its workers, each a process."""

    def __init__(self, folder):
        self.folder, self.workers = folder, []
        file = folder / "scheduler.json"
        self.scheduler = self._started("scheduler", "--scheduler-file", file, "--port", "0", "--host", "127.0.0.1")
        wait_until(file.exists)
        self.where = str(file)

    def _started(self, which, *words):
        return subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.dask_{which}", "--no-dashboard", *map(str, words)],
            env=os.environ | {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "tests")},
            cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def begin(self):
        """Start a worker."""
        limits = "--nthreads", "1", "--memory-limit", "0", "--no-nanny", "--local-directory", self.folder
        words = "--scheduler-file", self.where, "--preload", "forked_sessions"
        self.workers.append(self._started("worker", *words, *limits))

    def staff(self):
        """Have two workers that live."""
        self.workers = [worker for worker in self.workers if worker.poll() is None]
        while len(self.workers) < 2:
            self.begin()

    def kill(self):
        """Kill all workers but the first."""
        for worker in self.workers[1:]:
            worker.kill()
            worker.wait()
        del self.workers[1:]

    def sessions(self):
        """Return the sessions that have not ended; each worker has a process from which they are forked."""
        living = [psutil.Process(worker.pid) for worker in self.workers if worker.poll() is None]
        servers = [child for worker in living for child in worker.children() if "forkserver" in command_of(child)]
        return [session for server in servers for session in server.children(recursive=True)]

    def close(self):
        """End everything."""
        for process in [*self.workers, self.scheduler]:
            process.kill()
            process.wait()


def command_of(process):
    try:
        return " ".join(process.cmdline())
    except psutil.Error:  # it has just ended
        return ""


@contextmanager
def started(folder):
    cluster = Cluster(folder)
    try:
        yield cluster
    finally:
        cluster.close()


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    pytest.importorskip("distributed")
    with started(tmp_path_factory.mktemp("dask")) as cluster:
        yield cluster


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Write a configuration with a variant of its own, which this process reads too."""
    monkeypatch.setattr(numba, "njit", numba.njit)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "waiting.py").write_text(VARIANT)
    (tmp_path / "mine" / "go").touch()
    path = tmp_path / "sweep.yaml"
    path.write_text(f"variant_folders: [mine]\nn: {list(range(16, 24))}\nmeasure: {MEASURE}\nvariants: waiting\n")
    return path


def measured(path, where, out, watcher=runner.SILENT, overrides=(), while_there=lambda _: None, **options):
    """Run a sweep on so many workers, and return what was said, too."""
    from gravbench.measuring.dask_sessions import connected

    sentences = []
    swept = load(str(path), list(overrides))
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            with connected(where, swept, sentences.append) as cluster:
                if len(cluster.devices) < options.get("count", 2) and time.monotonic() < deadline:
                    time.sleep(0.1)
                    continue
                known, anchors = runner.recorded(out, resume=True), options.get("anchors", False)
                todo = plan(swept, cluster.devices, cluster.no_gpu, known, anchors=anchors)
                while_there(cluster)
                site = partial(cluster.events, todo.processes + 1)
                return swept, runner.run(swept, todo, out, watcher, site, of_plan(swept, todo)), sentences
        except InputError as error:
            if "has no workers" not in str(error) or time.monotonic() > deadline:
                raise


def parents(out):
    """Return the processes whose sessions have measured, by what the variant printed."""
    lines = [line.split() for line in (out / "worker.log").read_text().splitlines() if line.startswith("at ")]
    assert {words[3] for words in lines} == {"3"}, "not Dask's value, but the client's"
    return {int(words[1]) for words in lines}


def waiting(files):
    """Have the first case wait until ``go``."""
    (files.parent / "mine" / "go").unlink()
    return files.parent / "mine"


def test_two_workers_measure_all_cases_once_and_repeat_anchors_by_fresh_sessions(two, files, tmp_path):
    two.staff()
    out = tmp_path / "out"
    swept, records, _ = measured(files, two.where, out, overrides=["measure.anchor_every=3"], anchors=True)
    assert [record.key for record in RecordFile(out).read()] == [record.key for record in records]
    assert counted(records) == dict.fromkeys((case.key for case in swept.cases), 1)
    assert {record.status for record in records} == {"ok"}, [record.reason for record in records]
    assert parents(out) == {worker.pid for worker in two.workers}
    repeated = [record for record in records if record.anchor]
    assert {record.anchor for record in repeated} >= {1, 2}
    for key in {record.key for record in repeated}:
        processes = [set(record.processes) for record in repeated if record.key == key]
        assert len(set.union(*processes)) == len(processes)
    assert not two.sessions()


def test_a_search_over_two_workers_measures_every_case(two, files, tmp_path):
    two.staff()
    swept, records, _ = measured(files, two.where, tmp_path / "out", overrides=["search.strategy=race"])
    assert counted(records).keys() == {case.key for case in swept.cases}
    assert parents(tmp_path / "out") == {worker.pid for worker in two.workers}


def test_the_case_of_a_worker_that_is_killed_is_measured_by_the_other(two, files, tmp_path):
    two.staff()
    folder, killed = waiting(files), []

    def kill():
        wait_until((folder / "begun").exists)
        killed.append(int((folder / "begun").read_text()))
        os.kill(killed[0], signal.SIGKILL)
        (folder / "go").touch()

    thread = threading.Thread(target=kill)
    thread.start()
    swept, records, sentences = measured(files, two.where, tmp_path / "out")
    thread.join()
    assert counted(records) == dict.fromkeys((case.key for case in swept.cases), 1)
    assert {record.status for record in records} == {"ok"}, [record.reason for record in records]
    assert [text.endswith("it is no longer connected to the scheduler") for text in sentences] == [True]
    assert parents(tmp_path / "out") == {worker.pid for worker in two.workers} - {killed[0]}


def test_a_worker_that_joins_during_a_run_is_used(two, files, tmp_path):
    two.staff()
    two.kill()
    folder = waiting(files)

    def join(cluster):
        def begin():
            wait_until((folder / "begun").exists)
            two.begin()
            wait_until(lambda: len(cluster.devices) == 2)
            (folder / "go").touch()

        threading.Thread(target=begin, daemon=True).start()

    swept, records, _ = measured(files, two.where, tmp_path / "out", while_there=join, count=1)
    assert counted(records) == dict.fromkeys((case.key for case in swept.cases), 1)
    assert parents(tmp_path / "out") == {worker.pid for worker in two.workers}


def test_a_case_whose_only_worker_is_killed_waits_for_the_next_one(two, files, tmp_path):
    two.staff()
    two.kill()
    folder, former = waiting(files), two.workers[0]

    def replace_worker():
        wait_until((folder / "begun").exists)
        former.kill()
        two.begin()
        (folder / "go").touch()

    thread = threading.Thread(target=replace_worker)
    thread.start()
    swept, records, sentences = measured(files, two.where, tmp_path / "out", count=1)
    thread.join()
    assert counted(records) == dict.fromkeys((case.key for case in swept.cases), 1)
    assert len(sentences) == 1
    assert parents(tmp_path / "out") == {two.workers[1].pid}


def test_where_no_worker_is_left_the_run_says_so_and_another_one_goes_on(
    two, files, tmp_path, dask_sessions, monkeypatch
):
    monkeypatch.setattr(dask_sessions, "STRANDED_SECONDS", 1.0)
    two.staff()

    class Killing(runner.Watcher):
        def ends(self, record, progress):  # noqa: ARG002
            for worker in two.workers:
                worker.kill()

    with pytest.raises(runner.StrandedError, match=r"\d cases are left, because every worker .* is lost"):
        measured(files, two.where, tmp_path / "out", Killing())
    two.staff()
    swept, _, _ = measured(files, two.where, tmp_path / "out")
    assert counted(RecordFile(tmp_path / "out").read()) == dict.fromkeys((case.key for case in swept.cases), 1)


def test_a_stop_ends_the_sessions_of_all_workers(two, files, tmp_path):
    two.staff()
    folder = waiting(files)

    class Stopping(runner.Watcher):
        def phase(self, *_):
            wait_until((folder / "begun").exists)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measured(files, two.where, tmp_path / "out", Stopping())
    assert not two.sessions()


def test_a_run_whose_client_was_killed_goes_on_at_once(two, files, tmp_path):
    two.staff()
    folder, out = waiting(files), tmp_path / "out"
    command = [sys.executable, "-m", "gravbench", "run", files, "--dask", two.where, "--out", out]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=tmp_path) as client:
        wait_until((folder / "begun").exists)
        client.kill()
    wait_until(lambda: not two.sessions(), 5)
    began, moments = time.monotonic(), []

    class Noting(runner.Watcher):
        def ends(self, record, progress):  # noqa: ARG002
            moments.append(time.monotonic() - began)

    swept, _, _ = measured(files, two.where, out, Noting())
    assert counted(RecordFile(out).read()) == dict.fromkeys((case.key for case in swept.cases), 1)
    assert moments[0] < 15


def test_a_run_whose_scheduler_is_killed_ends_with_a_sentence_and_goes_on_elsewhere(two, files, tmp_path):
    two.staff()
    out = tmp_path / "out"
    with started(tmp_path) as cluster:
        cluster.begin()
        moments = []

        class Killing(runner.Watcher):
            def ends(self, record, progress):  # noqa: ARG002
                cluster.scheduler.kill()
                moments.append(time.monotonic())

        with pytest.raises(runner.StrandedError, match="the Dask scheduler is gone"):
            measured(files, cluster.where, out, Killing(), count=1)
        assert time.monotonic() - moments[0] < 10
        wait_until(lambda: not cluster.sessions(), 20)
    assert RecordFile(out).read()
    swept, _, _ = measured(files, two.where, out)
    assert counted(RecordFile(out).read()) == dict.fromkeys((case.key for case in swept.cases), 1)
