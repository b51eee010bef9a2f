"""Several GPUs of one host: how work is dealt out, in which order it runs, and what a sweep makes of a case of them."""

import os
import re
from io import StringIO
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
from rich.console import Console

from direct import direct_accelerations
from emulator import COMPILER
from gravbench.config.load import load
from gravbench.measuring import session, stages
from gravbench.measuring.plan import plan
from gravbench.model import generators
from gravbench.model.device import Device, Reading, together
from gravbench.model.interaction import GRAVITY
from gravbench.model.interaction_files import find
from gravbench.model.toolkits import catalogue
from gravbench.model.variant import discover
from gravbench.toolkits import cuda, devices, driver
from gravbench.toolkits.cupy import CupyToolkit
from gravbench.toolkits.interface import CudaToolkit, GpuToolkit, ToolkitMissingError
from gravbench.toolkits.recording import RecordingToolkit
from gravbench.toolkits.several import HOST, PEER, links
from gravbench.variants.common import several
from gravbench.verdicts.ladder import over_gpus
from gravbench.verdicts.ranking import named, row
from gravbench.verifying import checks, comparing
from pretended import Gpu
from printed_sections import render_gpus
from test_record import record

EPS = 0.05
SIZES = (1, 2, 31, 127, 128, 129, 1000)
COUNTS = range(1, 9)
VARIANTS = {name: discover()[name] for name in ("resident_tree_gpus", "symmetric_gpus", "tensor_gpus", "tiled_gpus")}
CARDS = [Device(f"cuda:{place}", "a card", f"GPU-{place}", "600.1") for place in range(4)]
OTHER = Device("cuda:4", "another card", "GPU-4", "600.1")


@pytest.mark.parametrize("n", [*SIZES, 65_536])
def test_rows_are_dealt_out_once_and_evenly_and_the_first_has_some(n):
    for count in COUNTS:
        found = several.spans(several.edges(n, count))
        assert [row for first, last in found for row in range(first, last)] == list(range(n))
        lengths = [last - first for first, last in found]
        assert max(lengths) - min(lengths) <= 1
        assert found[0][0] == 0
        assert len(found) == min(n, count)


def meetings(n, r, first, last):
    """Count for each ordered pair of bodies how often kernel ``symmetric`` adds the second's pull on the first.

    A block meets groups first .. last - 1 of its ring; its own groups it computes in one direction.
    """
    blocks = -(-n // (32 * r))
    met = np.zeros((n, n), int)
    body = np.arange(n)
    for block in range(blocks):
        length = r * (1 + (blocks - 1) // 2 + (blocks % 2 == 0 and block < blocks / 2))
        for ahead in range(first, min(length, last)):
            group = (block * r + ahead) % (blocks * r)
            own, partners = body[body // (32 * r) == block], body[body // 32 == group]
            met[np.ix_(own, partners)] += 1
            if ahead >= r:
                met[np.ix_(partners, own)] += 1
    return met


@pytest.mark.parametrize("r", [1, 4])
@pytest.mark.parametrize("n", SIZES)
def test_every_pair_is_met_once_by_one_gpu(n, r):
    for count in COUNTS if n < 1000 else (3, 8):
        found = several.spans(several.ring_edges(-(-n // (32 * r)), r, count))
        assert found[0][0] == 0
        assert (sum(meetings(n, r, *span) for span in found) == 1).all()


@pytest.mark.parametrize("r", [1, 4, 8])
@pytest.mark.parametrize("blocks", [1, 2, 3, 64, 255, 256, 4096])
def test_the_pairs_of_gpus_differ_by_less_than_two_groups_of_each_block(blocks, r):
    half = blocks // 2 if blocks % 2 == 0 else 0
    shorter = r * (1 + (blocks - 1) // 2)

    def groups(first, last):
        longer = min(shorter + r, last) - min(shorter + r, first)
        return (blocks - half) * (min(shorter, last) - min(shorter, first)) + half * longer

    for count in COUNTS:
        found = [groups(*span) for span in pairwise(several.ring_edges(blocks, r, count))]
        assert sum(found) == blocks * shorter + half * r
        assert max(found) - min(found) < 2 * blocks


def orders():
    """Ways to choose whose turn it is: the first GPU always, never while another can go on, and at random."""
    generator = np.random.default_rng(5)
    return [min, max, lambda able: able[generator.integers(len(able))]]


RUNS = [
    ("symmetric_gpus", "float32", 2, {"p": 64, "r": 1}),
    ("symmetric_gpus", "float32", 3, {"p": 32, "r": 2, "copies": 2, "parts": 2}),
    ("symmetric_gpus", "float64", 8, {"p": 32, "r": 1, "equal_mass": 1}),
    ("resident_tree_gpus", "float32", 2, {}),
    ("tensor_gpus", "float32", 2, {}),
    ("tensor_gpus", "float32", 3, {"terms": 1}),
    ("tiled_gpus", "float32", 2, {"p": 32, "unroll": 8}),
    ("tiled_gpus", "float64", 8, {"p": 16, "unroll": 8}),
]


@pytest.mark.slow
@pytest.mark.skipif(COMPILER is None, reason="no g++ on PATH")
@pytest.mark.parametrize("linked", [True, False], ids=["linked", "apart"])
@pytest.mark.parametrize(("name", "dtype", "count", "axes"), RUNS, ids=[f"{run[0]}-{run[2]}" for run in RUNS])
def test_evaluations_in_a_row_are_right_in_whatever_order_the_streams_run(libraries, name, dtype, count, axes, linked):
    variant = VARIANTS[name]
    sizes = (1, 33, 161) if linked else (129,)
    # To build a tree thread by thread takes a second.
    slow = name == "resident_tree_gpus"
    for n in (65,) if slow else sizes:
        first, then = (generators.collision(max(n, 2), seed, EPS) for seed in (3, 4))
        first, then = (one if n > 1 else generators.plummer(1, 3, EPS) for one in (first, then))
        for order in orders()[2 * slow :]:
            gpu = Gpu(variant, dtype, libraries, linked=linked)
            prepared = variant.prepare(gpu, first, **variant.complete({"gpus": count, **axes}))
            rows = gpu.interaction.rows(then.position, then.velocity, then.mass)
            found = []

            def noted(found=found, prepared=prepared):
                found.append(prepared.accelerations[:, :3].copy())

            prepared.launch()
            gpu.host.queue(noted)
            gpu.host.queue(lambda prepared=prepared, rows=rows: np.copyto(prepared.bodies, rows))
            prepared.launch()
            gpu.host.queue(noted)
            prepared.launch()
            gpu.host.queue(noted)
            gpu.host.run(order)
            for bodies, accelerations in zip((first, then, then), found, strict=True):
                expected = direct_accelerations(bodies, np.arange(bodies.n), dtype)
                errors = comparing.compare(accelerations, expected)
                assert comparing.objection_to(errors, variant.accepted(dtype, variant.complete(axes))) is None, (
                    n,
                    count,
                )


@pytest.mark.skipif(COMPILER is None, reason="no g++ on PATH")
def test_shares_of_a_walk_meet_together_what_one_gpu_meets(libraries):
    """An evaluation counts what it computes, however many share it: no rate of an approximation is of n * n."""
    bodies, found = generators.collision(65, 3, EPS), []
    for count in (1, 2):
        variant = VARIANTS["resident_tree_gpus"]
        gpu = Gpu(variant, "float32", libraries)
        prepared = variant.prepare(gpu, bodies, **variant.complete({"gpus": count, "opening": "barnes_1994"}))
        gpu.host.run(min)
        prepared.launch()
        gpu.host.run(min)
        found.append(prepared.insight()["computed"])
    assert found[0] == found[1]
    assert 0 < found[0]["body_body"] < 65


# What a toolkit opens


class FakeRuntime:
    """CUDA's runtime on four cards, of which the last is another; ``refused`` pairs do not reach each other."""

    class CUDARuntimeError(RuntimeError):
        """Has the number of an error."""

        def __init__(self, status):
            super().__init__(status)
            self.status = status

    def __init__(self, refused=()):
        self.at = 0
        self.refused = refused
        self.enabled = set()

    def getDeviceCount(self):  # noqa: N802
        return 4

    def getDeviceProperties(self, number):  # noqa: N802
        return {"name": b"another" if number == 3 else b"a card"}

    def deviceCanAccessPeer(self, one, other):  # noqa: N802
        return int({one, other} not in self.refused)

    def deviceEnablePeerAccess(self, other):  # noqa: N802
        if (self.at, other) in self.enabled:
            raise self.CUDARuntimeError(704)
        self.enabled.add((self.at, other))


def fake_cupy(monkeypatch, **options):
    """Stand in for CuPy as far as a toolkit opens GPUs with it."""
    runtime = FakeRuntime(**options)

    class OneDevice:
        def __init__(self, number=None):
            self.id = runtime.at if number is None else number
            self.pci_bus_id = f"0000:0{self.id}:00.0"
            self.before = []

        def synchronize(self):
            pass

        def __enter__(self):
            self.before.append(runtime.at)
            runtime.at = self.id

        def __exit__(self, *_):
            runtime.at = self.before.pop()

    class Stream:
        def __init__(self, *, non_blocking):
            assert non_blocking
            self.device = runtime.at

        def __enter__(self):
            assert runtime.at == self.device, "the stream of another device than the current one"

        def __exit__(self, *_):
            pass

    cupy = SimpleNamespace(cuda=SimpleNamespace(runtime=runtime, Device=OneDevice, Stream=Stream))
    monkeypatch.setitem(__import__("sys").modules, "cupy", cupy)
    monkeypatch.setattr(cuda, "link", lambda _: "NVLink")
    monkeypatch.delenv("CUPY_CACHE_IN_MEMORY", raising=False)
    monkeypatch.setenv("CUPY_CACHE_IN_MEMORY", "1")
    return runtime


def test_cupy_opens_each_gpu_once_with_a_stream_of_its_own_and_says_how_they_are_linked(monkeypatch):
    runtime = fake_cupy(monkeypatch)
    toolkit = CupyToolkit(VARIANTS["tiled_gpus"], "float32", Gpu)
    assert [toolkit.devices(1), toolkit.gpus, toolkit.linked_by] == [[toolkit], 1, None]
    found = toolkit.devices(3)
    assert found[0] is toolkit
    assert [toolkit.gpus, toolkit.linked_by] == [3, f"{PEER}, NVLink"]
    assert runtime.enabled == {(0, 1), (1, 0), (0, 2), (2, 0)}
    seen = []
    for one in found:
        with one.current():
            seen.append(runtime.at)
    assert seen == [0, 1, 2]
    assert runtime.at == 0
    assert toolkit.devices(2) == found[:2]
    # Another toolkit of the process finds peer access enabled already.
    again = CupyToolkit(VARIANTS["tiled_gpus"], "float32", Gpu)
    assert again.devices(2)[1].reaches(again)
    with pytest.raises(ToolkitMissingError, match=r"^gpus=4: this host has 3 usable GPUs of this kind$"):
        toolkit.devices(4)


@pytest.mark.parametrize(("status", "raised"), [(2, MemoryError), (700, FakeRuntime.CUDARuntimeError)])
def test_cupy_says_that_the_memory_of_a_device_is_too_small(monkeypatch, status, raised):
    def refuse(size):
        assert size == 4000
        raise FakeRuntime.CUDARuntimeError(status)

    fake_cupy(monkeypatch)
    toolkit = CupyToolkit(VARIANTS["tiled_gpus"], "float32", Gpu)
    monkeypatch.setattr(toolkit.cupy.cuda, "Memory", refuse, raising=False)
    with pytest.raises(raised):
        toolkit.device_array(1000, np.int32)


def test_gpus_without_peer_access_go_through_the_host_and_it_is_said(monkeypatch):
    fake_cupy(monkeypatch, refused=({0, 2},))
    toolkit = CupyToolkit(VARIANTS["tiled_gpus"], "float32", Gpu)
    _, near, far = toolkit.devices(3)
    assert toolkit.linked_by == f"{PEER}; {HOST}: 0 with 2"
    assert [near.reaches(toolkit), far.reaches(toolkit)] == [True, False]
    assert links({1: False, 2: False}, "") == HOST
    assert links({1: True}, "") == PEER


def test_a_toolkit_that_works_on_one_gpu_says_so():
    pycuda = SimpleNamespace(name="pycuda")
    assert CudaToolkit.devices(pycuda, 1) == [pycuda]
    with pytest.raises(ToolkitMissingError, match=r"^gpus=2: pycuda works on one GPU; accepted: cupy$"):
        CudaToolkit.devices(pycuda, 2)


class OfOneGpu(RecordingToolkit):
    """Lets a variant ask for what every toolkit with CUDA C has, and not for what those of several GPUs have beside."""

    def __getattribute__(self, name):
        if not name.startswith("_") and name not in ("kernels", "launched", "real", "interaction", "multiprocessors"):
            assert hasattr(CudaToolkit, name), name
        return super().__getattribute__(name)

    def devices(self, count):
        return CudaToolkit.devices(self, count)

    def current(self):
        return CudaToolkit.current(self)


@pytest.mark.parametrize("axes", [{}, {"copies": 4}], ids=str)
@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_on_one_gpu_no_toolkit_lacks_anything(variant, axes):
    own = variant.complete({axis: value for axis, value in axes.items() if axis in variant.axes})
    toolkit = OfOneGpu("float32", find(GRAVITY))
    variant.prepare(toolkit, generators.plummer(100, 3, EPS), **own).launch()
    assert toolkit.launched


# What a sweep makes of it


@pytest.fixture
def sweep(tmp_path, monkeypatch):
    """Load a sweep of tiled_gpus over these numbers of GPUs; CuPy counts as installed."""

    def make(gpus, n=(64,)):
        monkeypatch.setattr(type(catalogue()["cupy"]), "missing", None)
        path = tmp_path / "sweep.yaml"
        path.write_text(f"measure: {{processes: 1}}\nn: {[*n]}\nvariants:\n  - {{variant: tiled_gpus, toolkit: cupy, "
                        f"gpus: {[*gpus]}}}\n")  # fmt: skip
        return load(str(path))

    return make


def test_what_asks_for_more_gpus_of_a_kind_than_there_are_is_skipped(sweep, monkeypatch):
    monkeypatch.setattr(devices, "gpus", lambda: ([*CARDS[:2], OTHER], None))
    tasks = plan(sweep([1, 2, 4, 8]), CARDS[:1], None, anchors=False).tasks
    assert {task.case.gpus: task.skip for task in tasks} == {
        1: None,
        2: None,
        4: "gpus=4: this host has 2 usable GPUs of this kind",
        8: "gpus=8: this host has 2 usable GPUs of this kind",
    }
    (alone,) = plan(sweep([2]), [OTHER], None).tasks
    assert alone.skip == "gpus=2: this host has 1 usable GPU of this kind"
    # A worker of a cluster has the one that it was started with.
    (far,) = plan(sweep([2]), [Device("host:cuda:0", *("a card", "GPU-0", "600.1"))], None).tasks
    assert far.skip == alone.skip


def test_the_anchor_is_a_case_of_one_gpu(sweep, monkeypatch):
    monkeypatch.setattr(devices, "gpus", lambda: (CARDS, None))
    tasks = plan(sweep([1, 2, 4], [64, 65]), CARDS[:1], None).tasks
    assert {task.case.gpus for task in tasks if task.anchor} == {1}


def test_a_session_of_the_processor_sees_no_gpu(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    session._show_devices(session.Orders(Device("cpu", "a processor"), (), Path(), Path()))
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ""


@pytest.mark.parametrize(("asks", "visible"), [(False, "GPU-1"), (True, "GPU-1,GPU-0,GPU-2,GPU-3")])
def test_a_session_sees_its_own_gpu_first_and_others_of_its_kind_only_where_asked(monkeypatch, asks, visible):
    monkeypatch.setattr(devices, "gpus", lambda: ([*CARDS, OTHER], None))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3,4")
    orders = session.Orders(CARDS[1], (), Path(), Path(), several=asks)
    assert ",".join(device.uuid for device in session._show_devices(orders)) == visible
    assert os.environ["CUDA_VISIBLE_DEVICES"] == visible


@pytest.mark.parametrize("gpus", [1, 2])
def test_the_record_of_a_case_of_several_gpus_says_how_they_are_linked(sweep, monkeypatch, gpus):
    class Opened(RecordingToolkit):
        generation, compiler, compiled_here_seconds, linked_by, gpus = "9.0", "", 0.0, None, 1
        device_sums, resolution = None, None
        adapter: ClassVar = {}

        def devices(self, count):
            self.gpus, self.linked_by = count, HOST if count > 1 else None
            return super().devices(count)

        def release(self):
            """It has no memory."""

    class EnoughError(Exception):
        pass

    def enough(*_):
        raise EnoughError

    monkeypatch.setattr(stages, "open_toolkit", lambda *_: Opened("float32", find(GRAVITY)))
    monkeypatch.setattr(stages, "usable", enough)
    outcome = stages.run(stages.Job(1, sweep([gpus]).cases[0], None), stages.Station(), lambda _: None)
    assert "EnoughError" in outcome.reason
    assert outcome.results.preparation.gpus_linked_by == (HOST if gpus > 1 else None)


def test_what_gpus_say_that_share_an_evaluation_is_added_up():
    one = Reading(1980, 600.0, 60, (), 10.0)
    other = Reading(1755, 690.0, 71, ("power cap",), 20.0)
    assert together([one, other]) == Reading(1755, 1290.0, 71, ("power cap",), 30.0)
    assert together([one, Reading(None, None, None, None)]) == Reading(1980, None, 60, ())
    assert devices.reader([])() is None
    assert devices.reader([lambda _: one])() is one
    assert devices.reader([lambda _: one, lambda _: other])().joules == 30.0


def test_the_energy_of_gpus_is_read_of_all_or_none_and_only_so_often(monkeypatch):
    now = [7.0]
    monkeypatch.setattr(devices.time, "monotonic", lambda: now[0])

    def sensor(with_energy):
        return Reading(1980, 600.0, 60, (), 10.0 if with_energy else None)

    read, told = devices.reader([sensor, sensor]), []
    for _ in range(12):
        told.append(read().joules)
        now[0] += devices.ENERGY_EVERY / 4
    assert told == [20.0, None, None, None] * 3


def test_several_gpus_may_compute_more_than_one_can(monkeypatch):
    monkeypatch.setattr(driver, "device_attribute", lambda _: 100)
    monkeypatch.setattr(driver, "clock_hertz", lambda: 1e9)
    kind = type("Own", (GpuToolkit,), {"__init__": lambda _: None})
    kind.__abstractmethods__ = frozenset()
    toolkit = kind()
    assert "more than 100 multiprocessors can" in checks.speed(toolkit, 1e13, 1.0)
    toolkit.gpus = 2
    assert checks.speed(toolkit, 1e13, 1.0) is None


# What a report shows


def shared(gpus, seconds, n=65_536, p=256, **changes):
    axes = {"gpus": gpus, "p": p, "unroll": 32}
    linked = f"{PEER}, NVLink" if gpus > 1 else None
    own = {"variant": "tiled_gpus", "toolkit": "cupy", "n": n, "axes": axes, "median_seconds": seconds}
    return record(**(own | {"gpus_linked_by": linked} | changes))


def test_the_report_shows_speed_and_efficiency_against_one_gpu():
    records = [shared(1, 2e-3), shared(1, 3e-3, p=64), shared(2, 1.25e-3), shared(4, 0.625e-3), shared(4, 1.0, n=1024)]
    console = Console(file=StringIO(), width=80)
    render_gpus(records, console)
    text = console.file.getvalue()
    lines = [line.split() for line in text.splitlines() if re.match(r" *[0-9]", line)]
    assert [[*line[:3], *line[4:6]] for line in lines] == [
        ["1,024", "4", "1e+03", "peer", "access,"],  # nothing to compare it with
        ["65,536", "1", "2", "1.00", "100.0"],
        ["65,536", "2", "1.25", "1.60", "80.0"],
        ["65,536", "4", "0.625", "3.20", "80.0"],
    ]
    assert "tiled_gpus, cupy" in text
    assert text.count("NVLink") == 3


def test_what_was_never_on_several_gpus_has_no_such_table():
    console = Console(file=StringIO(), width=80)
    render_gpus([shared(1, 1e-3), record()], console)
    assert console.file.getvalue() == ""
    assert over_gpus([record()]) == {}


def test_each_number_of_gpus_is_a_row_of_the_ladder():
    assert [row(shared(gpus, 1.0)) for gpus in (1, 4)] == ["tiled_gpus", "tiled_gpus gpus=4"]
    assert named(shared(4, 1.0)) == "tiled_gpus gpus=4"
