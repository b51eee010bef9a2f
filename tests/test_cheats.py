"""Kernels that are wrong, or that do not do what is timed: each has to be found out by an ordinary run.

``docs/explanation/judging.md`` has the list; a test compares the two.
"""

import gc
import itertools
import re
import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from conftest import GPUS, ROOT
from gravbench.config.load import load
from gravbench.config.settings import Measure
from gravbench.measuring import stages
from gravbench.measuring.stages import Job, Station
from gravbench.model.generators import plummer
from gravbench.model.interaction import GRAVITY
from gravbench.model.interaction_files import find
from gravbench.model.variant import Prepared, discover
from gravbench.toolkits import buffers, driver, interface
from gravbench.toolkits.interface import Timing
from gravbench.toolkits.numba import NumbaToolkit
from gravbench.toolkits.opening import open_toolkit
from gravbench.verifying import checks, verify
from gravbench.verifying.comparing import Reference
from gravbench.verifying.direct_sums import Sums
from gravbench.verifying.verify import Judge

SETTINGS = Measure(budget_seconds=0.3, warm_up_seconds=0.01, min_samples=10, sample_seconds=0.001)
VARIANTS = discover()
pulls_of = []


def right(cpu, bodies):
    """Add up in float32, several bodies at a time."""
    import numba

    if not pulls_of:

        @numba.njit(error_model="numpy", fastmath={"reassoc", "nsz", "contract"})
        def pulls(rows, eps2, found):
            x, y, z, mass = rows[:, 0].copy(), rows[:, 1].copy(), rows[:, 2].copy(), rows[:, 3].copy()
            for i in range(len(rows)):
                ax = ay = az = np.float32(0)
                for j in range(len(rows)):
                    dx, dy, dz = x[j] - x[i], y[j] - y[i], z[j] - z[i]
                    inverse = np.float32(1) / np.sqrt(dx * dx + dy * dy + dz * dz + eps2)
                    strength = mass[j] * inverse * inverse * inverse
                    ax, ay, az = ax + strength * dx, ay + strength * dy, az + strength * dz
                found[i, 0], found[i, 1], found[i, 2] = ax, ay, az

        pulls_of.append(pulls)
    rows = cpu.upload(np.column_stack([bodies.position, bodies.mass]))
    found = cpu.empty(bodies.n, 3)
    return Prepared(lambda: pulls_of[0](rows, np.float32(bodies.eps**2), found), rows, found)


def like(array, values):
    """Return the values as an array of the same library."""
    if isinstance(array, np.ndarray):
        return values
    import cupy

    return cupy.asarray(values)


# Each cheat takes what was prepared, and returns another ``launch``.


def computes_at_its_first_launch_only(prepared, _):
    launched = []

    def launch():
        if not launched:
            prepared.launch()
        launched.append(True)

    return launch


def keeps_its_first_result(prepared, _):
    kept = []

    def launch():
        if not kept:
            prepared.launch()
            kept.append(prepared.accelerations.copy())
        prepared.accelerations[:] = kept[0]

    return launch


def keeps_results_by_the_bodies(prepared, _):
    kept = []

    def launch():
        if not (kept and (kept[0] == prepared.bodies).all()):
            prepared.launch()
            kept[:] = prepared.bodies.copy(), prepared.accelerations.copy()
        prepared.accelerations[:] = kept[1]

    return launch


def keeps_results_after_launches_for_the_same_bodies(prepared, _):
    kept, count = [], []

    def launch():
        if not (kept and (kept[0] == prepared.bodies).all()):
            count.clear()
        count.append(True)
        if len(count) > 5:
            prepared.accelerations[:] = kept[1]
        else:
            prepared.launch()
            kept[:] = prepared.bodies.copy(), prepared.accelerations.copy()

    return launch


def updates_only_what_a_moved_body_changes(prepared, _):
    """Right, but quick only where a single body has moved since the launch before."""
    kept = []

    def launch():
        moved = (kept[0] != prepared.bodies).any(axis=1).sum() if kept else len(prepared.bodies)
        if moved > 1:
            prepared.launch()
        else:  # as if it corrected the others
            if moved:
                time.sleep(1e-4)
            prepared.accelerations[:] = kept[1]
        kept[:] = prepared.bodies.copy(), prepared.accelerations.copy()

    return launch


def half_of_the_rows_in_every_other_launch(prepared, _):
    """Once it has been launched for a while, and where there is anything in the rows that it leaves."""
    count = []

    def launch():
        half = len(prepared.accelerations) // 2
        rest = prepared.accelerations[half:].copy()
        prepared.launch()
        count.append(True)
        if len(count) > 9 and len(count) % 2 and not np.isnan(rest[0, 0]):
            prepared.accelerations[half:] = rest

    return launch


def writes_only_where_there_is_no_number(prepared, _):
    count = []

    def launch():
        there = prepared.accelerations.copy()
        prepared.launch()
        count.append(True)
        if len(count) > 9 and not np.isnan(there[0, 0]):
            prepared.accelerations[:] = there

    return launch


def wrong_at_each(number, factor=1.1, rows=slice(None)):
    def cheat(prepared, _):
        count = []

        def launch():
            prepared.launch()
            count.append(True)
            if len(count) % number == 0:
                prepared.accelerations[rows] *= np.float32(factor)

        return launch

    return cheat


def delivers_late(prepared, _):
    def launch():
        threading.Timer(0.005, prepared.launch).start()

    return launch


def after(change):
    """Change the accelerations of every launch."""

    def cheat(prepared, _):
        def launch():
            prepared.launch()
            change(prepared.accelerations)

        return launch

    return cheat


def before(change):
    """Change the bodies before every launch."""

    def cheat(prepared, _):
        def launch():
            change(prepared.bodies)
            prepared.launch()

        return launch

    return cheat


def scaled(found):
    found[:, :3] *= np.float32(1 + 4e-5)


def one_row(found):
    found[len(found) // 3] = found[len(found) // 3 + 1]


def a_block_of_rows(found):
    middle = len(found) // 2
    found[middle : middle + 256, :3] *= np.float32(1.1)


def last_row_where_n_is_odd(found):
    if len(found) % 2:
        found[-1, :3] *= np.float32(1.1)


def rows_of_a_sample_only(found):
    wrong = np.ones(len(found), bool)
    wrong[np.random.default_rng(len(found)).choice(len(found), 1024, replace=False)] = False
    found[like(found, np.flatnonzero(wrong)), :3] *= np.float32(1.1)


def masses_as_the_first(bodies):
    bodies[:, 3] = bodies[0, 3]


def masses_in_half_precision(bodies):
    bodies[:, 3] = bodies[:, 3].astype(np.float16)


def without_the_last_body(bodies):
    bodies[-1, 3] = 0


def reads_the_reference(prepared, _):
    def launch():
        n = len(prepared.bodies)
        gc.unfreeze()  # of the cases before
        known = [one for one in gc.get_objects() if type(one) is Sums and one.exact.shape == (n, 3)]
        if known:
            prepared.accelerations[:, :3] = like(prepared.accelerations, known[0].exact)
        else:
            prepared.launch()

    return launch


def in_another_stream(prepared, toolkit):
    stream = toolkit.stream()

    def launch():
        with stream:
            prepared.launch()

    return launch


def with_events_that_lie(prepared, toolkit):
    # Of a few bodies by more than what other users of the device can make up for.
    factor = 1e6 if len(prepared.bodies) < 5000 else 1e3

    class Lying(toolkit.event):
        def seconds_since(self, start):
            return super().seconds_since(start) / factor

    toolkit.event = Lying
    return prepared.launch


CHEATS = {
    "computes only at its first launch": computes_at_its_first_launch_only,
    "always returns its first result": keeps_its_first_result,
    "caches results by the values of the bodies": keeps_results_by_the_bodies,
    "every second launch wrong": wrong_at_each(2),
    "every third launch wrong": wrong_at_each(3),
    "every hundredth launch wrong": wrong_at_each(100),
    "keeps results after 5 launches for the same bodies": keeps_results_after_launches_for_the_same_bodies,
    "updates only what a body that moved changes": updates_only_what_a_moved_body_changes,
    "half of the rows in every other launch": half_of_the_rows_in_every_other_launch,
    "writes only where there is no number yet": writes_only_where_there_is_no_number,
    "results 5 ms late": delivers_late,
    "all results off by 4e-5": after(scaled),
    "one row wrong": after(one_row),
    "a block of 256 rows wrong": after(a_block_of_rows),
    "the last row wrong where n is odd": after(last_row_where_n_is_odd),
    "only 1,024 rows right": after(rows_of_a_sample_only),
    "uses the first mass for all bodies": before(masses_as_the_first),
    "masses in half precision": before(masses_in_half_precision),
    "leaves out the last body": before(without_the_last_body),
    "copies the reference": reads_the_reference,
}
ON_A_GPU = {name: cheat for name, cheat in CHEATS.items() if name != "results 5 ms late"} | {
    "runs in another stream": in_another_stream,
    "falsifies events": with_events_that_lie,
}
HARMLESS = {
    ("the last row wrong where n is odd", 1000),
    ("only 1,024 rows right", 1000),
    ("copies the reference", 5003),  # there is none of all bodies
    ("keeps results after 5 launches for the same bodies", 5003),  # of which there are not so many
    ("every hundredth launch wrong", 5003),  # likewise
    ("half of the rows in every other launch", 5003),  # likewise
    ("writes only where there is no number yet", 5003),  # likewise
    ("every hundredth launch wrong", 1_000_003),  # likewise
    ("half of the rows in every other launch", 1_000_003),  # likewise
    ("writes only where there is no number yet", 1_000_003),  # likewise
}
SLOWER = {
    (name, 1000)
    for name in (
        "caches results by the values of the bodies",
        "keeps results after 5 launches for the same bodies",
        "updates only what a body that moved changes",
    )
}
"""On a GPU, where to compare 1,000 bodies takes longer than to compute."""


def outcome_of(cheat, monkeypatch, n, toolkit="cpu", eps=1.0, settings=SETTINGS, **asked):
    """Run one case with a spoilt kernel, as the worker of a run does."""
    name = "numpy_direct" if toolkit == "cpu" else "tiled"
    prepare = right if toolkit == "cpu" else VARIANTS[name].prepare

    def spoilt(opened, bodies, **axes):
        prepared = prepare(opened, replace(bodies, eps=bodies.eps * eps), **axes)
        return replace(prepared, launch=cheat(prepared, opened)) if cheat else prepared

    variants = {name: replace(VARIANTS[name], prepare=spoilt)}
    monkeypatch.setattr(stages, "discover", lambda _: variants)
    case = load("quick", [f"n={n}"], variants=[name], toolkits=[toolkit]).cases[0]
    # Of a million bodies each sample is a single launch, also where events lie.
    slow = {"min_samples": 3, "sample_seconds": 1e-6}
    if n >= 1_000_000:
        settings = settings.model_copy(update=slow)
    return stages.run(Job(0, case, settings, **asked), Station(), lambda _: None)


def sizes(*names):
    return [(name, n) for n in (1000, 5003) for name in names if (name, n) not in HARMLESS]


@pytest.mark.parametrize(("name", "n"), sizes(*CHEATS))
def test_a_run_on_a_cpu_finds_it_out(name, n, monkeypatch):
    monkeypatch.setattr(verify, "MANY_SECONDS_OF_FEW", 10.0)  # however slow the machine is
    outcome = outcome_of(CHEATS[name], monkeypatch, n)
    assert outcome.status == "invalid", outcome


@pytest.mark.parametrize("n", [1000, 5003])
def test_a_run_on_a_cpu_finds_a_softening_that_is_off_and_no_fault_in_what_is_right(n, monkeypatch):
    assert outcome_of(None, monkeypatch, n, eps=1.0001).status == "invalid"
    fine = outcome_of(None, monkeypatch, n)
    assert (fine.status, fine.reason) == ("ok", None)


@pytest.mark.gpu
@pytest.mark.parametrize("n", [1000, 1_000_003])
@pytest.mark.parametrize("name", ON_A_GPU)
def test_a_run_on_a_gpu_finds_it_out(name, n, monkeypatch, need_toolkit):
    need_toolkit("cupy")
    if (name, n) in HARMLESS | SLOWER:
        pytest.skip("neither wrong nor faster at this n")
    monkeypatch.setattr(verify, "MANY_SECONDS_OF_FEW", 10.0)  # however many use the device
    outcome = outcome_of(ON_A_GPU[name], monkeypatch, n, "cupy")
    assert outcome.status == "invalid", outcome


@pytest.mark.gpu
@pytest.mark.parametrize("n", [1000, 1_000_003])
def test_a_run_on_a_gpu_finds_a_softening_that_is_off_and_no_fault_in_what_is_right(n, monkeypatch, need_toolkit):
    need_toolkit("cupy")
    assert outcome_of(None, monkeypatch, n, "cupy", eps=1.0001).status == "invalid"
    fine = outcome_of(None, monkeypatch, n, "cupy")
    assert (fine.status, fine.reason) == ("ok", None)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("cheat", "status"),
    [
        (wrong_at_each(50), "invalid"),
        (wrong_at_each(100, rows=slice(700, 701)), "invalid"),
        (wrong_at_each(3, 1 + 1e-7), "ok"),
        (None, "ok"),
    ],
    ids=["every 50th launch wrong", "one row wrong in every 100th launch", "rounded otherwise", "right"],
)
@pytest.mark.parametrize("n", [4096, 16_384])
def test_a_gpu_that_compares_launches_after_timing_finds_a_rare_fault(n, cheat, status, monkeypatch, need_toolkit):
    need_toolkit("cupy")
    for limit in ("MANY_SECONDS", "MANY_SECONDS_OF_FEW"):
        monkeypatch.setattr(verify, limit, 10.0)  # however many use the device
    outcome = outcome_of(cheat, monkeypatch, n, "cupy")
    assert outcome.status == status, outcome.reason


def test_a_clock_that_a_variant_replaces_is_not_the_one_that_times(monkeypatch):
    honest = time.perf_counter

    def cheat(prepared, _):
        monkeypatch.setattr(time, "perf_counter", lambda: honest() / 1000)
        return prepared.launch

    outcome = outcome_of(cheat, monkeypatch, 1000)
    assert outcome.status == "ok", outcome.reason
    assert outcome.results.measurement.median_seconds > 1e-4


@pytest.mark.parametrize("wrong", [False, True])
def test_a_kernel_that_is_named_and_never_launched_makes_a_case_invalid(wrong, monkeypatch):
    """As of a variant that copies what another left: there is nothing that the driver could be asked about it."""

    class Named:
        launch = driver.Launch(0, 0)

    def spoilt(opened, bodies):
        prepared = right(opened, bodies)
        launch = after(one_row)(prepared, opened) if wrong else prepared.launch
        return replace(prepared, launch=launch, kernel=Named())

    variants = {"numpy_direct": replace(VARIANTS["numpy_direct"], prepare=spoilt)}
    monkeypatch.setattr(stages, "discover", lambda _: variants)
    case = load("quick", ["n=1000"], variants=["numpy_direct"], toolkits=["cpu"]).cases[0]
    outcome = stages.run(Job(0, case, SETTINGS), Station(), lambda _: None)
    assert outcome.status == "invalid", outcome
    assert ("was never launched" in outcome.reason) != wrong


def becomes_wrong_after(number, on_other_bodies=False):
    """Wrong from some launch on; or then only wrong where the bodies are not those of the first launch."""

    def cheat(prepared, _):
        count, first = [], prepared.bodies.copy()

        def launch():
            prepared.launch()
            count.append(True)
            if len(count) > number and not (on_other_bodies and (first == prepared.bodies).all()):
                prepared.accelerations[:, :3] *= np.float32(1.1)

        return launch

    return cheat


@pytest.mark.parametrize("on_other_bodies", [False, True])
@pytest.mark.parametrize("number", [8, 12])
def test_what_is_wrong_only_after_some_launches_is_found_out(number, on_other_bodies, monkeypatch):
    # However slow the machine is, it is launched more often than that.
    settings = SETTINGS.model_copy(update={"budget_seconds": 30.0, "half_width": 0.5})
    outcome = outcome_of(becomes_wrong_after(number, on_other_bodies), monkeypatch, 1000, settings=settings)
    assert outcome.status == "invalid", outcome


def quick_at_massless(cpu, bodies):
    """Add up as ``right`` does, but leave out what has no mass, so that a launch takes little time."""
    import numba

    @numba.njit
    def pulls(rows, eps2, found):
        massive = np.flatnonzero(rows[:, 3] > np.float32(1e-8))  # a few roundings are none
        for i in range(len(rows)):
            ax = ay = az = np.float32(0)
            for j in massive:
                dx, dy, dz = rows[j, 0] - rows[i, 0], rows[j, 1] - rows[i, 1], rows[j, 2] - rows[i, 2]
                inverse = np.float32(1) / np.sqrt(dx * dx + dy * dy + dz * dz + eps2)
                strength = rows[j, 3] * inverse * inverse * inverse
                ax, ay, az = ax + strength * dx, ay + strength * dy, az + strength * dz
            found[i, 0], found[i, 1], found[i, 2] = ax, ay, az

    rows = cpu.upload(np.column_stack([bodies.position, bodies.mass]))
    found = cpu.empty(bodies.n, 3)
    return Prepared(lambda: pulls(rows, np.float32(bodies.eps**2), found), rows, found)


@pytest.mark.slow
@pytest.mark.parametrize(
    "cheat",
    [
        None,
        wrong_at_each(100, 1.01),
        wrong_at_each(100, 1.01, slice(700, 702)),
        wrong_at_each(3, 1 + 1e-7),  # right, though not equal to the last bit
    ],
    ids=["right", "all wrong by 1 %", "two rows wrong by 1 %", "rounded otherwise"],
)
def test_what_is_wrong_in_every_hundredth_launch_is_found_out_also_of_many_bodies(cheat, monkeypatch, request):
    """Whatever the samples leave is looked at, and 120 of them are taken."""
    bodies = plummer(16_384, 1, 0.05)
    mass = np.where(np.arange(bodies.n) % 64, 0.0, bodies.mass)
    monkeypatch.setattr(stages.initial_conditions, "of_case", lambda _: replace(bodies, mass=mass))
    monkeypatch.setitem(globals(), "right", quick_at_massless)
    settings = SETTINGS.model_copy(update={"budget_seconds": 30.0, "min_samples": 120, "half_width": 0.9})
    outcome = outcome_of(cheat, monkeypatch, bodies.n, settings=settings)
    is_wrong = "wrong" in request.node.callspec.id
    assert outcome.status == ("invalid" if is_wrong else "ok"), outcome.reason
    assert not is_wrong or "right at first, but after sample" in outcome.reason


@pytest.mark.parametrize(
    ("number", "said"), [(None, None), (0, "largest error"), (1, "after the last launch"), (5, "after the last launch")]
)
def test_a_later_process_of_a_case_judges_a_launch_before_its_samples_and_one_after_them(number, said, monkeypatch):
    judged = []
    verdict = Judge.verdict
    monkeypatch.setattr(Judge, "verdict", lambda *_, **how: judged.append(True) or verdict(*_, **how))
    cheat = None if number is None else becomes_wrong_after(number)
    outcome = outcome_of(cheat, monkeypatch, 1000, again=True)
    assert (outcome.status, len(judged)) == ("invalid" if said else "ok", 1 if number == 0 else 2)
    assert said is None or said in outcome.reason


def test_what_is_equal_to_the_last_bit_is_judged_once_and_what_is_not_is_judged_again(monkeypatch):
    asked = []
    errors = Reference.errors
    monkeypatch.setattr(Reference, "errors", lambda *own, **options: asked.append(1) or errors(*own, **options))
    bodies = plummer(300, 1, 0.05)
    opened = open_toolkit("cpu", VARIANTS["numpy_direct"], "float32")
    prepared = right(opened, bodies)
    judge = Judge(opened, prepared, bodies, VARIANTS["numpy_direct"].tolerance["float32"], "float32")
    judge.launch()
    first = judge.verdict()
    assert first[1] is None
    once = len(asked)
    for _ in range(3):
        assert judge.launched() == first
    assert len(asked) == once
    prepared.accelerations[7, 0] *= np.float32(1.2)
    _, objection = judge.verdict()
    assert objection
    assert len(asked) > once
    assert judge.launched() == first
    prepared.accelerations[7, 0] = np.nan
    assert judge.verdict()[1] == "some accelerations are NaN"


@pytest.mark.parametrize(("quick", "launches"), [(10.0, 8), (0.0, 3)])
def test_before_timing_eight_launches_are_judged_and_three_of_those_that_take_long(quick, launches, monkeypatch):
    count = []

    def cheat(prepared, _):
        return lambda: count.append(True) or prepared.launch()

    monkeypatch.setattr(verify, "QUICK", quick)
    assert outcome_of(cheat, monkeypatch, 300, settings=None).status == "ok"
    assert len(count) == launches


def test_a_launch_for_other_bodies_that_takes_no_longer_shows_that_nothing_is_kept(monkeypatch):
    """And one that is slower once by chance is timed again, beside launches for the same bodies."""
    opened = open_toolkit("cpu", VARIANTS["numpy_direct"], "float32")
    prepared = right(opened, plummer(300, 1, 0.05))
    own = buffers.host_bodies(opened, prepared, plummer(300, 1, 0.05))
    timed = []

    def time_of(times):
        def time(*_):
            timed.append(next(times))
            return Timing(timed[-1], None)

        monkeypatch.setattr(opened, "time", time)
        timed.clear()

    time_of(iter([1.9e-3]))
    assert checks.memory(opened, prepared, own, 1e-3, 1e-3) is None
    assert len(timed) == 1
    time_of(itertools.chain([0.9], itertools.repeat(1e-3)))
    assert checks.memory(opened, prepared, own, 1e-3, 1e-3) is None
    assert len(timed) == 4
    time_of(itertools.cycle([1e-4, 1e-4, 1e-3]))
    assert "10 times as long" in checks.memory(opened, prepared, own, 1e-4)
    np.testing.assert_array_equal(prepared.bodies, own[0])


class Held(NumbaToolkit):
    """A device in whose queue everything waits while it is held: until so many looks have been taken."""

    compute_capability = "9.0"
    looks = 4

    def start(self):
        super().start()
        self.queued, self.left, self.holds = [], 0, []

    def hold(self, microseconds):
        self.holds.append(microseconds)
        self.left = self.looks * (microseconds > 10_000 or self.quick_host)

    def event(self):
        def run(_):
            self.left = 0
            while self.queued:
                self.queued.pop(0)()

        return SimpleNamespace(record=lambda _: None, passed=lambda: self.left <= 0, seconds_since=run)

    def fetch(self, values, array, _):
        if self.left <= 0:
            self.event().seconds_since(None)
        values[:] = array.copy_to_host()
        self.left -= 1
        if self.left == 2:
            self.elsewhere()


@pytest.mark.skipif(bool(GPUS), reason="there is a GPU, on which the cheats run")
@pytest.mark.parametrize("quick_host", [True, False])
@pytest.mark.parametrize("cheats", ["at once", "after a while", "late", None])
def test_behind_a_held_queue_nothing_is_computed_before_it_goes_on(cheats, quick_host):
    bodies = plummer(40, 1, 0.05)
    opened = Held(VARIANTS["numpy_direct"], "float32", find(GRAVITY))
    opened.quick_host, opened.elsewhere = quick_host, lambda: None
    result = opened.empty(40, 3)
    own = np.ones((40, 3), np.float32)

    def launch():
        opened.elsewhere = lambda: None
        if cheats == "at once":
            result.copy_to_device(own)
        elif cheats == "after a while":
            opened.elsewhere = lambda: result.copy_to_device(own)
        elif cheats is None:
            opened.queued.append(lambda: result.copy_to_device(own))

    objection = checks.queue(opened, Prepared(launch, None, result), bodies)
    late = cheats == "late" or (cheats == "after a while" and not quick_host)
    assert (objection or "").startswith("its results arrive" if late else "it computes" if cheats else "")
    assert (objection is None) == (cheats is None)
    assert opened.holds == list(checks.HELD_MICROSECONDS)[: 1 if quick_host or late else 2]


@pytest.mark.skipif(bool(GPUS), reason="there is a GPU, on which the cheats run")
def test_a_host_that_never_looks_in_time_leaves_what_was_computed_last():
    bodies = plummer(40, 1, 0.05)
    opened = Held(VARIANTS["numpy_direct"], "float32", find(GRAVITY))
    opened.quick_host, opened.looks, opened.elsewhere = False, 0, lambda: None
    result = opened.empty(40, 3)

    def launch():
        opened.queued.append(lambda: result.copy_to_device(np.ones((40, 3), np.float32)))

    assert checks.queue(opened, Prepared(launch, None, result), bodies) is None
    assert len(opened.holds) == 2
    assert (result.copy_to_host() == 1).all()


@pytest.mark.skipif(bool(GPUS), reason="there is a GPU, on which the cheats run")
def test_by_the_wall_nothing_is_timed_that_was_quick_enough_before(monkeypatch):
    count = []
    device = Held(VARIANTS["numpy_direct"], "float32", find(GRAVITY))
    lying = SimpleNamespace(record=lambda _: None, seconds_since=lambda _: 1e-6 * len(count))
    monkeypatch.setattr(device, "event", lambda: lying)
    monkeypatch.setattr(interface, "perf_counter", lambda: 0.002 * len(count))

    def launch():
        count.append(True)

    assert checks.wall(device, launch, 0.002, 0.0, 0.0022) is None
    assert not count
    assert checks.wall(device, launch, 0.002, 0.0) is None
    assert len(count) == 1
    count.clear()
    assert "by the host's clock" in checks.wall(device, launch, 2e-6, 0.0, 0.002)
    assert len(count) == 106, "as many as there is time for, not as the lie says"


def test_more_interactions_than_the_cores_can_start_are_refused():
    """A direct sum of a million bodies in a millisecond; one that takes a minute is nothing unusual."""
    cpu = open_toolkit("cpu", VARIANTS["numpy_direct"], "float32")
    assert "more than" in checks.speed(cpu, 1e12, 1e-3)
    assert checks.speed(cpu, 1e12, 60.0) is None


def test_a_call_that_a_gpu_computes_for_the_host_may_be_faster_than_the_host_could_be(monkeypatch):
    """Its arrays are the host's; what computes it is the device of its toolkit."""
    asked = []
    monkeypatch.setattr(checks, "speed", lambda toolkit, *_: asked.append(toolkit.name))

    def prepare(_, bodies):
        return replace(right(open_toolkit("cpu", VARIANTS["numpy_direct"], "float32"), bodies), on_host=True)

    computes = replace(VARIANTS["numpy_direct"], prepare=prepare, toolkits=("numba",))
    monkeypatch.setattr(stages, "discover", lambda _: {"numpy_direct": computes})
    case = load("quick", ["n=300"], variants=["numpy_direct"], toolkits=["cpu"]).cases[0]
    outcome = stages.run(Job(0, case.model_copy(update={"toolkit": "numba"}), SETTINGS), Station(), lambda _: None)
    assert (outcome.status, asked) == ("ok", ["numba"]), outcome.reason


def test_the_documentation_lists_every_fault():
    text = (ROOT / "docs" / "explanation" / "judging.md").read_text("utf-8")
    listed = re.findall(r"^\| ([^|]+?) \| (?:run|no) \|", text, re.MULTILINE)
    known = {*CHEATS, *ON_A_GPU, "eps off by 0.01 %", "replaces the clock", "replaces the judge in its own process"}
    assert known <= set(listed)
