"""A run on Dask's workers: each record once whatever becomes of a worker, and refusals in one sentence."""

import os
import random
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from queue import SimpleQueue

import numba
import pytest

from conftest import ROOT
from gravbench.cli.main import app
from gravbench.config.load import load
from gravbench.errors import InputError
from gravbench.measuring import dask_cluster, dask_post, runner
from gravbench.measuring.dask_cluster import connected
from gravbench.measuring.dask_members import members
from gravbench.measuring.lanes import LostError, StrandedError
from gravbench.measuring.outcome import Found, Outcome
from gravbench.measuring.plan import plan
from gravbench.measuring.queues import MOST_LOSSES, Queues
from gravbench.measuring.turns import Turn
from gravbench.model.device import Device
from gravbench.model.record import Errors, Measurement, Preparation
from gravbench.model.runs import RecordFile
from gravbench.model.variant import discover
from gravbench.search.strategies import start

KILLS = 1
"""Each takes some 8 s of a processor: two Dask workers import all, and each starts a process that does."""
PATIENCE = 120.0
"""Seconds to wait for what another process does soon."""
VARIANT = '''"""Is numpy_direct, judged by sums that are interpreted: to compile them takes longer than all else."""

import numba

from gravbench.model.variant import variant
from gravbench.variants.cpu import numpy_direct


def uncompiled(function=None, **options):
    """Stand in for numba.njit."""
    if function is None:
        return uncompiled
    function.compile = lambda types: None
    return function


numba.njit = uncompiled


@variant(parent="numpy_direct", source="planted by the tests")
def prepare(cpu, bodies):
    """Prepare what numpy_direct does."""
    print("prepared", flush=True)
    return numpy_direct.prepare.prepare(cpu, bodies)
'''
NAMES = ("gravbench", "python", "numpy")
SAME = dict.fromkeys(NAMES, "1.0")
CARD = {"selector": "cuda:0", "name": "a card", "uuid": "GPU-0", "driver": "600.1"}
MEASURE = "measure: {budget_seconds: 0.02, warm_up_seconds: 0.01, min_samples: 3, anchor_every: 100, processes: 1}\n"


def introduced(host, same=SAME, **device):
    return {"host": host, "device": CARD | device, "same": same}


def counted(found):
    """Count cases, whether or not one of them was an anchor when it was planned."""
    return Counter(one.key for one in found)


# What the workers say of themselves


def test_each_worker_is_a_device_named_by_its_host():
    said = {
        "tcp://b:1": introduced("b"),
        "tcp://a:2": introduced("a", uuid="GPU-2"),
        "tcp://a:1": introduced("a", uuid="GPU-1"),
        "tcp://c:1": introduced("c", selector="cpu", name="a processor", uuid=None, driver=None),
        "tcp://c:2": introduced("c", selector="cpu", name="a processor", uuid=None, driver=None),
        "tcp://d:1": introduced("cpu", uuid="GPU-3"),
    }
    found = {one.address: one for one in members(said, SAME)}
    assert {address: one.device.selector for address, one in found.items()} == {
        "tcp://a:1": "a:cuda:0",
        "tcp://a:2": "a:cuda:1",
        "tcp://b:1": "b:cuda:0",
        "tcp://c:1": "c:cpu:0",
        "tcp://c:2": "c:cpu:1",
        "tcp://d:1": "cpu:cuda:0",
    }
    assert [one.device.is_gpu for one in found.values()] == [True, True, True, False, False, True]
    assert len({one.device.kind for one in found.values()}) == 2


def test_two_workers_on_one_gpu_are_refused():
    with pytest.raises(InputError, match="tcp://a:1 and tcp://a:2 would measure on the same GPU, GPU-0; start one"):
        members({"tcp://a:1": introduced("a"), "tcp://a:2": introduced("a")}, SAME)


def test_a_worker_with_other_versions_is_refused():
    other = SAME | {"numpy": "2.0", "cupy": "14"}
    said = "tcp://a:1 on a has numpy 2.0 where 1.0 is here, cupy 14 where none is here; accepted: the same versions"
    with pytest.raises(InputError, match=said):
        members({"tcp://a:1": introduced("a", other)}, SAME)


def test_what_a_worker_would_run_has_to_be_what_was_planned(sweep, tmp_path):
    swept, todo, _ = sweep(1)
    asked = [(todo.tasks[0].case, todo.tasks[0].fingerprint)]
    assert dask_post.objection(asked, swept.variant_folders) is None
    assert "it has to exist there under the same path" in dask_post.objection(asked, (tmp_path / "none",))
    edited = todo.tasks[0].fingerprint.model_copy(update={"code_sha256": "0" * 64})
    assert "another numpy_direct with cpu: its code_sha256 differ" in dask_post.objection(
        [(todo.tasks[0].case, edited)], ()
    )
    bodies = tmp_path / "own.npz"
    bodies.write_bytes(b"")
    case = todo.tasks[0].case.model_copy(update={"bodies": str(bodies), "bodies_file_sha256": "0" * 64})
    assert "different content in " in dask_post.objection([(case, todo.tasks[0].fingerprint)], ())
    missing = case.model_copy(update={"bodies": str(tmp_path / "no.npz")})
    assert "cannot be read" in dask_post.objection([(missing, todo.tasks[0].fingerprint)], ())


def test_only_the_module_of_the_client_imports_distributed():
    users = {
        path.name
        for path in (ROOT / "harness").rglob("*.py")
        if re.search("import (distributed|dask)\\b", path.read_text())
    }
    assert users == {"dask_cluster.py"}


# Lost workers, made up


class MadeUp:
    """Workers that are done at once, or lost."""

    losable = True
    measured = Measurement(samples_seconds=[1.0] * 20, processes=[1] * 20, median_seconds=1.0, ci_low=1.0, ci_high=1.0)

    def __init__(self, lose):
        self.lose, self.lock, self.lost = lose, threading.Lock(), set()

    def host(self, device):
        return device.selector.partition(":")[0]

    def start(self, device, *_, **__):
        site = self

        class Process:
            def ask(self, job, _, turn):
                turn(Turn.VERIFY)
                turn(Turn.MEASURE)
                time.sleep(0.001)
                with site.lock:
                    assert device not in site.lost
                    if site.lose(device, job.case, site):
                        site.lost.add(device)
                        raise LostError("of chance")
                prepared, errors = Preparation(bodies_sha256="0" * 64), Errors(error_max=1e-7)
                return Outcome("ok", None, Found(preparation=prepared, errors=errors, measurement=site.measured))

            def end(self):
                pass

            stop = end

        return Process()


@pytest.fixture
def sweep(tmp_path):
    """Plan cases of one variant on so many processors of two hosts."""

    def make(count, devices=1, every=5, search="all", variants="numpy_direct"):
        path = tmp_path / "sweep.yaml"
        sizes = list(range(40, 40 + count))
        measure = f"{{anchor_every: {every}, processes: 1}}"
        path.write_text(f"n: {sizes}\nmeasure: {measure}\nsearch: {search}\nvariants: {variants}\n")
        swept = load(str(path))
        found = [Device(f"host{place % 2}:cpu:{place // 2}", "a processor") for place in range(devices)]
        return swept, plan(swept, found, None), found

    return make


def test_at_random_losses_every_case_has_its_record_once(sweep, tmp_path, attacks):
    chance = random.Random(1)
    for trial in range(5 * attacks):
        swept, todo, devices = sweep(chance.randint(1, 25), chance.randint(2, 4), chance.randint(2, 6))
        rate = chance.choice([0.02, 0.1, 0.3])
        own = random.Random(trial)

        def lose(device, case, site, own=own, rate=rate, devices=devices):  # noqa: ARG001
            return len(site.lost) + 1 < len(devices) and own.random() < rate

        records = runner.run(swept, todo, tmp_path / str(trial), runner.SILENT, MadeUp(lose))
        found = counted(record for record in records if record.anchor < 2)
        assert found == dict.fromkeys((case.key for case in swept.cases), 1), trial
        assert {record.status for record in records} <= {"ok", "failed"}


def test_a_case_whose_worker_is_lost_goes_to_another_at_most_twice(sweep, tmp_path):
    swept, todo, _ = sweep(6, 4)
    fatal = todo.tasks[1].case
    lose = lambda device, case, site: case == fatal  # noqa: ARG005, E731
    site = MadeUp(lose)
    records = runner.run(swept, todo, tmp_path / "out", runner.SILENT, site)
    (failed,) = [record for record in records if record.status == "failed"]
    assert failed.key == fatal.key
    assert failed.reason == "its worker was lost 3 times; the last time: of chance"
    assert len(site.lost) == 1 + MOST_LOSSES
    assert counted(record for record in records if record.anchor < 2) == counted(swept.cases)


def run_twice(swept, todo, devices, out):
    """Return the seven records of a run that lost all workers then, and those of the run that went on."""
    left = [7]

    def lose(device, case, site):  # noqa: ARG001
        left[0] -= 1
        return left[0] < 0

    with pytest.raises(StrandedError, match=r"\d cases are left, because every worker that could measure them is lost"):
        runner.run(swept, todo, out, runner.SILENT, MadeUp(lose))
    existing = RecordFile(out).read()
    assert len(existing) == 7
    again = plan(swept, devices, None, existing)
    return existing, runner.run(swept, again, out, runner.SILENT, MadeUp(lambda *_: False))


def test_where_no_worker_is_left_the_run_says_so_and_a_second_one_goes_on(sweep, tmp_path):
    swept, todo, devices = sweep(12, 2, every=100)
    existing, records = run_twice(swept, todo, devices, tmp_path / "out")
    assert counted(one for one in [*existing, *records] if one.anchor < 2) == counted(swept.cases)


def test_one_that_has_nothing_left_waits_for_what_a_lost_one_leaves(sweep):
    _, todo, (first, second) = sweep(4, 2, every=100)
    queues = Queues(todo.tasks, lambda task, device: task.fingerprint, losable=True)  # noqa: ARG005
    while len(queues._left[second.selector]) > 0:
        held, _ = queues.next(second)
    taken = []
    thread = threading.Thread(target=lambda: taken.extend(iter(lambda: queues.next(first), None)), daemon=True)
    thread.start()
    thread.join(0.2)
    assert thread.is_alive()
    again, _ = queues.put_back(held)
    thread.join(20)
    assert not thread.is_alive()
    assert again
    assert {task.device for task, _ in taken} == {first}
    assert queues.stranded == []


# Searches over workers that may be lost, made up


@pytest.mark.parametrize("search", ["race", "{strategy: all, budget_trials: 1000}"])
def test_at_random_losses_a_search_has_a_record_of_every_case_once_and_repeats_only_finalists(
    search, sweep, tmp_path, attacks
):
    chance = random.Random(2)
    for trial in range(6 * attacks):
        count, devices, every = chance.randint(1, 12), chance.randint(2, 4), chance.randint(2, 6)
        swept, todo, devices = sweep(count, devices, every, search, "[numpy_direct, numba_direct]")
        rate = chance.choice([0, 0.02, 0.1, 0.3])
        own = random.Random(trial)

        def lose(device, case, site, own=own, rate=rate, devices=devices):  # noqa: ARG001
            return len(site.lost) + 1 < len(devices) and own.random() < rate

        records = runner.run(swept, todo, tmp_path / str(trial), runner.SILENT, MadeUp(lose))
        found = counted(record for record in records if record.anchor < 2)
        cases = {case.key for case in swept.cases}
        assert found.keys() == cases, trial
        assert {record.status for record in records} <= {"ok", "failed"}
        # All are equally fast, so that a race repeats those of a contest of which none has failed.
        times = 2 if search == "race" else 1
        assert set(found.values()) == {times} or "failed" in {record.status for record in records}, trial
        assert max(found.values()) <= times, trial


def test_a_search_gives_the_case_of_a_lost_worker_to_another_before_it_asks_for_more(sweep):
    swept, todo, (first, second) = sweep(6, 2, every=100, search="race")
    strategy = start(swept.cases, swept.search, discover(swept.variant_folders))
    queues = Queues(
        todo.tasks,
        lambda task, device: task.fingerprint,  # noqa: ARG005
        {first.kind: strategy},
        losable=True,
    )
    anchor, _ = queues.next(second)
    assert anchor.anchor == 1
    own, _ = queues.next(first)
    assert own.anchor == 1
    lost, _ = queues.next(second)
    again, dropped = queues.put_back(lost, 0.5)
    assert again
    assert dropped == 1, "the last repetition of its anchor"
    taken, behind = queues.next(first)
    assert (taken.case, taken.device, taken.anchor, behind) == (lost.case, first, 0, 0.5)


def test_a_budget_of_trials_is_kept_by_all_workers_and_what_it_leaves_is_not_stranded(sweep, tmp_path):
    swept, todo, _ = sweep(20, 3, every=100, search="{strategy: all, budget_trials: 8}")
    lose = lambda device, case, site: not site.lost  # noqa: ARG005, E731
    site = MadeUp(lose)
    records = runner.run(swept, todo, tmp_path / "out", runner.SILENT, site)
    assert len(site.lost) == 1
    # The case of each anchor is measured whether or not it was chosen.
    assert 8 <= len({record.key for record in records}) <= 8 + 3
    assert set(counted(record for record in records if record.anchor < 2).values()) == {1}


def test_a_search_that_has_lost_all_workers_says_so_and_a_second_one_goes_on(sweep, tmp_path):
    swept, todo, devices = sweep(12, 2, every=100, search="race")
    existing, records = run_twice(swept, todo, devices, tmp_path / "out")
    assert {one.key for one in [*existing, *records]} == {case.key for case in swept.cases}
    # A repetition of what was measured before is the anchor of the second run.
    assert not {one.key for one in existing} & {one.key for one in records if not one.anchor}


# Clusters


def refusal(*words):
    with pytest.raises(InputError) as error:
        app(["run", "quick", *words], standalone_mode=False)
    return str(error.value)


def test_the_missing_library_is_said_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert "install it with pip install 'gravbench[dask]'" in refusal("--dask", "local")


def test_options_that_belong_to_this_machine_are_refused():
    assert refusal("--dask", "local", "--device", "cpu") == "--dask cannot be combined with --device"
    assert refusal("--dask", "local", "--counters") == "--dask cannot be combined with --counters"


def test_a_scheduler_that_is_not_there_is_one_sentence_after_a_while(monkeypatch, tmp_path):
    pytest.importorskip("distributed")
    monkeypatch.setattr(dask_cluster, "CONNECT_SECONDS", 0.5)
    began = time.monotonic()
    said = refusal("--dask", "tcp://127.0.0.1:9")
    assert said.startswith("--dask tcp://127.0.0.1:9: no Dask scheduler answers at tcp://127.0.0.1:9 within 0.5 s: ")
    assert time.monotonic() - began < 20
    assert "no such file; accepted: tcp://HOST:PORT, a scheduler file, or local" in refusal("--dask", "scheduler.json")
    for content in ("", "{}", "[1]", "\xff"):
        (tmp_path / "file").write_text(content, "latin-1")
        assert "is not a Dask scheduler file: " in refusal("--dask", str(tmp_path / "file"))
    (tmp_path / "file").write_text('{"address": "odd://1"}')
    assert "no Dask scheduler answers at odd://1" in refusal("--dask", str(tmp_path / "file"))


class Workers:
    """A Dask worker behind a nanny, and another one without, which may be killed; neither sees a GPU."""

    def __init__(self, cluster, folder):
        self.address, self.scheduler, self.folder = cluster.scheduler_address, cluster.scheduler, folder
        self.other = None

    def both(self):
        """Start what was killed anew, and return when both are there."""
        if self.other is None or self.other.poll() is not None:
            command = [
                sys.executable,
                "-m",
                "distributed.cli.dask_worker",
                self.address,
                "--no-nanny",
                "--nthreads",
                "1",
            ]
            self.other = subprocess.Popen(
                [*command, "--no-dashboard", "--memory-limit", "0", "--local-directory", self.folder],
                env=os.environ | {"CUDA_VISIBLE_DEVICES": ""}, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        deadline = time.monotonic() + PATIENCE
        while len(self.scheduler.workers) != 2:
            assert time.monotonic() < deadline
            assert self.other.poll() is None
            time.sleep(0.05)

    def kill(self):
        """Kill the one without a nanny, and return when the scheduler has noticed."""
        self.other.kill()
        self.other.wait()
        while len(self.scheduler.workers) == 2:
            time.sleep(0.01)

    def left(self):
        """Return the processes that write to the log of a post, after waiting for them to end."""
        deadline = time.monotonic() + PATIENCE
        while found := [one for one in Path("/proc").glob("[0-9]*") if writes_below(self.folder, one)]:
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
        return found


def writes_below(folder, process):
    try:
        return (process / "fd" / "1").readlink().is_relative_to(folder)
    except OSError:
        return False


@pytest.fixture(scope="module")
def workers(tmp_path_factory):
    distributed = pytest.importorskip("distributed")
    dask = pytest.importorskip("dask")
    folder = tmp_path_factory.mktemp("workers")
    slow = {f"distributed.comm.timeouts.{what}": PATIENCE for what in ("connect", "tcp")}
    with dask.config.set(slow), distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, dashboard_address=None, silence_logs=50, memory_limit=0,
        env={"CUDA_VISIBLE_DEVICES": ""}, local_directory=folder,
    ) as cluster:  # fmt: skip
        found = Workers(cluster, folder)
        found.both()
        yield found
        found.other.terminate()
        found.other.wait(PATIENCE)


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Write a configuration with a variant of its own, which this process reads too."""
    monkeypatch.setattr(numba, "njit", numba.njit)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "uncompiled.py").write_text(VARIANT)
    path = tmp_path / "sweep.yaml"
    path.write_text(f"variant_folders: [mine]\nn: {list(range(16, 26))}\n{MEASURE}variants: uncompiled\n")
    return path


def test_a_worker_that_has_other_sources_or_no_workers_at_all_are_refused(workers, monkeypatch):
    workers.both()
    monkeypatch.setattr(dask_cluster, "same_needed", lambda: dask_post.same_needed() | {"gravbench": "0.0"})
    assert " where 0.0 is here; accepted: the same versions" in refusal("--dask", workers.address)
    monkeypatch.setattr(dask_cluster.Cluster, "_there", lambda _: [])
    assert refusal("--dask", workers.address).endswith(" has no workers; start one per GPU")


def test_whenever_a_worker_is_killed_no_record_is_lost_or_doubled_and_no_process_is_left(
    workers, files, tmp_path, attacks
):
    chance = random.Random(1)
    swept = load(str(files))
    lost = 0
    for trial in range(KILLS * attacks):
        workers.both()
        told = []
        with connected(workers.address, told.append) as cluster:
            devices = cluster.devices
            assert cluster.no_gpu
            assert len({device.kind for device in devices}) == 1
            todo = plan(swept, devices, cluster.no_gpu, anchors=trial % 5 == 4)
            cluster.prepare(swept, todo)
            moment = chance.choice([0, 1, 2, 5, 8])

            class Killing(runner.Watcher):
                ended = 0

                def ends(self, record, progress):  # noqa: ARG002
                    self.ended += 1
                    if self.ended == moment:  # noqa: B023
                        timer.start()  # noqa: B023

            timer = threading.Timer(chance.uniform(0, 0.3 if moment else 3), workers.kill)
            if not moment:
                timer.start()
            out = tmp_path / str(trial)
            records = runner.run(swept, todo, out, Killing(), cluster)
        timer.join()
        kept = RecordFile(out).read()
        assert [one.key for one in kept] == [one.key for one in records]
        assert counted(one for one in kept if one.anchor < 2) == counted(swept.cases), (trial, moment, told)
        assert {one.status for one in kept} == {"ok"}, [one.reason for one in kept]
        assert "prepared" in (out / "worker.log").read_text()
        lost += bool(told)
    assert lost or KILLS * attacks < 5
    assert not workers.left()


def test_a_stop_ends_the_cases_of_all_workers(workers, files, tmp_path):
    swept = load(str(files))
    with connected(workers.address, print) as cluster:
        todo = plan(swept, cluster.devices, None, anchors=False)
        cluster.prepare(swept, todo)

        class Stopping(runner.Watcher):
            def phase(self, _, __, name):
                if name == "loading":
                    raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            runner.run(swept, todo, tmp_path / "out", Stopping(), cluster)
    assert not workers.left()


def test_whoever_ends_a_process_lets_no_other_go_on():
    class Process:
        def join(self, _):
            pass

    class Ended:
        process = Process()

        def end(self):
            pass

    post = object.__new__(dask_post.Post)
    gates = {ticket: (number, SimpleQueue()) for ticket, number in ((7, 1), (8, 2))}
    post._workers, post._gates = {1: Ended(), 2: Ended()}, gates
    post.stop(1)
    assert [gate.qsize() for _, gate in gates.values()] == [1, 0]
    post.go_on(8, True)
    assert gates[8][1].get(timeout=5) is True
