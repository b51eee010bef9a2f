"""Results that a GPU compares where launches leave them: the judge downloads only those that differ.

The device is pretended: its memory is the host's, and it runs the PTX of the product.
"""

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from cuda.bindings import nvjitlink

from gravbench.model.generators import plummer
from gravbench.model.interaction import GRAVITY
from gravbench.model.interaction_files import find
from gravbench.model.variant import Prepared, discover
from gravbench.toolkits import buffers, cuda_results, driver
from gravbench.toolkits.cpu import CpuToolkit
from gravbench.toolkits.cuda_results import CudaResults, results_there
from gravbench.toolkits.interface import CudaToolkit
from gravbench.toolkits.opening import open_toolkit
from gravbench.verifying import verify
from gravbench.verifying.verify import AFTER_TIMING, MANY, Judge, WrongError
from nvrtc import ARCHITECTURES
from ptx_card import PtxCard

VARIANT, TILED = discover()["numpy_direct"], discover()["tiled"]
STREAM = 77
N = 70


class OnCard(np.ndarray):
    """An array in the memory of the pretended device."""

    @property
    def __cuda_array_interface__(self):
        return self.__array_interface__


class PtxToolkit(CpuToolkit):
    """A toolkit whose device is the pretended one; it counts what is downloaded."""

    compute_capability = "9.0"
    current_stream = STREAM
    results_there = CudaToolkit.results_there
    downloads = 0

    def upload(self, values):
        return super().upload(values).view(OnCard)

    def download(self, array):
        self.downloads += 1
        self.synchronize()
        return np.array(super().download(array))

    def copy_in(self, array, values):
        self.synchronize()
        super().copy_in(array, values)

    def synchronize(self):
        driver.synchronize()


@pytest.fixture
def card(monkeypatch):
    fake = PtxCard()
    monkeypatch.setattr(driver, "_library", lambda: fake)
    # However slow the machine is.
    monkeypatch.setattr(verify, "MANY_SECONDS_OF_FEW", 100.0)
    monkeypatch.setattr(verify, "GROUP_SECONDS", 100.0)
    driver.load_function.cache_clear()
    yield fake
    driver.load_function.cache_clear()
    assert not fake.memory, "all of it is given back"


def right_sums(rows, eps2, real):
    difference = rows[None, :, :3] - rows[:, None, :3]
    strength = rows[:, 3] * ((difference**2).sum(axis=2) + eps2) ** real(-1.5)
    return np.einsum("ij,ijk->ik", strength, difference)


def judge_of(change=None, dtype="float32", layout="rows of 3", bodies=None, host=lambda: None, *, late=False):
    """Return a judge of a variant that has been found right; ``change`` is what its launches after that do besides.

    ``host`` is what they do on the host, and ``late`` launches are in another stream.
    """
    bodies = bodies or plummer(N, 1, 0.05)
    toolkit = PtxToolkit(VARIANT, dtype, find(GRAVITY))
    rows = toolkit.upload(np.column_stack([bodies.position, bodies.mass]))
    result = toolkit.empty(bodies.n, 4 if layout == "rows of 4" else 3)
    columns = tuple(toolkit.empty(bodies.n) for _ in range(3))
    arrays = columns if layout == "columns" else result
    count = []

    def compute():
        before = result.copy()
        result[:, :3] = right_sums(np.asarray(rows), toolkit.real(bodies.eps**2), toolkit.real)
        count.append(True)
        if change and len(count) > 1:
            change(result, before, len(count))
        if layout == "columns":
            for axis, column in enumerate(columns):
                column[:] = result[:, axis]

    def launch():
        driver._library().queue("variant", None if late else STREAM, compute, late=late)
        host()

    judge = Judge(toolkit, Prepared(launch, rows, arrays), bodies, VARIANT.tolerance[dtype], dtype)
    judge.launch()
    assert judge.verdict()[1] is None
    judge.hand_over()
    judge.launched_times = count
    return judge


def wrong_at(number, rows=slice(None), factor=1.1):
    def change(result, before, count):  # noqa: ARG001
        if count % number == 0:
            result[rows] *= result.dtype.type(factor)

    return change


def keeps_half_of_what_is_there(result, before, count):
    if count % 2:
        half = len(result) // 2
        result[half:] = before[half:]


def keeps_numbers(result, before, count):
    if count > 30 and not np.isnan(before[0, 0]):
        result[:] = before


def leaves_a_row_unwritten(result, before, count):
    if count == 60:
        result[7] = before[7]


def touches_what_is_no_result(result, before, count):  # noqa: ARG001
    result[:, 3:] = count


WRONG = {
    "every 50th launch": wrong_at(50),
    "every 100th launch": wrong_at(100),
    "one number of one launch": wrong_at(100, (N - 1, 2)),
    "half of the rows": keeps_half_of_what_is_there,
    "numbers are left": keeps_numbers,
    "a row is left": leaves_a_row_unwritten,
}
LAYOUTS = ["rows of 3", "rows of 4"]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", WRONG)
def test_a_launch_that_is_wrong_is_found(name, dtype, layout, card):
    judge = judge_of(WRONG[name], dtype, layout)
    with pytest.raises(WrongError, match=AFTER_TIMING):
        judge.check_many()
    assert ("launch", STREAM) in card.calls


@pytest.mark.parametrize("layout", [*LAYOUTS, "columns"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_is_right_is_downloaded_only_to_be_handed_over(dtype, layout, card):
    judge = judge_of(touches_what_is_no_result, dtype, layout)
    judge.launch()
    assert judge.verdict()[1] is None
    judge.hand_over()
    before, handed = judge.toolkit.downloads, []
    judge.hand_over = lambda **how: handed.append(how) or Judge.hand_over(judge, **how)
    judge.check_many()
    assert len(judge.launched_times) == MANY + 2
    per_result = 3 if layout == "columns" else 1
    # What the other bodies' accelerations are made of, the first launch, and what is handed over.
    assert judge.toolkit.downloads - before == per_result * (2 + len(handed))
    names = Counter(name for name, _ in card.calls)
    put_back = names["copy"] - 2 * per_result * (MANY - 1)
    assert put_back in range(0, per_result * len(handed) + 1, per_result), "at most what is handed over"
    assert names["launch"] == per_result * 4
    assert {stream for _, stream in card.calls} == {STREAM}
    assert len(judge.launches) == 2
    assert judge.launches[0] == judge.launches[1], "what is left after the last launch is right"
    assert np.isfinite(buffers.sums(judge.toolkit, judge.prepared)).all()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_is_right_but_not_to_the_last_bit_is_downloaded_and_judged(layout, card):  # noqa: ARG001
    judge = judge_of(wrong_at(2, factor=1 + 1e-7), layout=layout)
    verdicts = []
    judge.verdict = lambda **how: verdicts.append(how) or Judge.verdict(judge, **how)
    judge.check_many()
    assert len(judge.launched_times) == MANY + 1
    assert MANY // 2 <= len(verdicts) <= MANY // 2 + 1


def test_in_a_plane_there_is_nothing_to_compute_along_z(card):
    flat = plummer(N, 1, 0.05)
    flat.position[:, 2] = 0

    def leaves_z(result, before, count):  # noqa: ARG001
        result[:, 2] = before[:, 2]

    judge = judge_of(leaves_z, bodies=flat)
    judge.check_many()
    assert len(judge.launched_times) == MANY + 1
    assert len(judge.launches) == 1
    assert Counter(card.calls)["launch", STREAM] == 4, "nothing differs"


@pytest.mark.parametrize("turn", [0, 1, 57, MANY - 1])
def test_the_launch_that_is_drawn_is_handed_over_as_it_was_left(turn, card):  # noqa: ARG001
    """That launch alone is right with another last bit."""

    def change(result, before, count):  # noqa: ARG001
        if count == turn + 2:
            result[5, 0] = np.nextafter(result[5, 0], np.float32(1))

    judge = judge_of(change)
    first = np.frombuffer(judge.launches[0].sums, np.float32).reshape(N, 3)
    judge.generator = SimpleNamespace(integers=lambda most: int(most != turn + 2))
    judge.check_many()
    (handed,) = judge.launches
    assert np.argwhere(np.frombuffer(handed.sums, np.float32).reshape(N, 3) != first).tolist() == [[5, 0]]


@pytest.mark.parametrize("spoilt", ["strides", "typestr", "shape", None])
def test_arrays_that_are_laid_out_otherwise_are_compared_by_the_host(spoilt, card):
    array = np.zeros((5, 3), np.float32).view(OnCard)
    fillings = [[np.ones((5, 3), np.float32)]] * 2
    arrays = {
        "strides": np.zeros((5, 4), np.float32)[:, :3].view(OnCard),
        "typestr": array.astype(np.float64),
        "shape": array[:4],
        None: np.zeros((5, 3), np.float32),  # not on the device at all
    }
    with results_there([arrays[spoilt]], fillings[0][0], fillings, 0) as there:
        assert there is None
    with results_there([array], fillings[0][0], fillings, 0) as there:
        there.fill(1)
        there.keep(0)
        assert there.differing(1) == []
        array[4, 2] = np.nan
        there.keep(1)
        assert there.differing(1) == []
        assert there.differing(2) == [1]
        there.fill(0)
        there.put_back(1)
        assert np.argwhere(np.isnan(array)).tolist() == [[4, 2]]
        there.put_back(0)
        assert (array == 1).all()
        there.keep(1)
        assert there.differing(2) == []
    assert ("launch", None) in card.calls


@pytest.mark.parametrize("n", [1, 85, 86, 256, 300])
def test_every_word_of_a_result_is_compared_and_none_beyond(n, card):  # noqa: ARG001
    whole = np.ones((n + 50, 3), np.float32).view(OnCard)
    array, right = whole[:n], np.ones((n, 3), np.float32)
    with results_there([array], right, [[right]], 0) as there:
        whole[n:] = 2
        words = list(np.ndindex(array.shape))[:: 1 if n < 256 else 3 * n - 1]
        for first in range(0, len(words), there.most - 1):
            some = words[first : first + there.most - 1]
            there.keep(0)
            for place, word in enumerate(some, 1):
                driver.synchronize()
                array[word] = -1
                there.keep(place)
                driver.synchronize()
                array[word] = 1
            assert there.differing(len(some) + 1) == list(range(1, len(some) + 1))
        assert (whole[n:] == 2).all()


def checked_groups(judge, monkeypatch):
    """Judge launches after timing, none of which is handed over; return how many the device compared at a time."""
    groups = []
    differing = CudaResults.differing
    monkeypatch.setattr(CudaResults, "differing", lambda there, count: groups.append(count) or differing(there, count))
    judge.generator = SimpleNamespace(integers=lambda _: 1)
    judge.check_many()
    return groups


def test_the_host_waits_for_groups_of_launches(card, monkeypatch):
    judge = judge_of()
    judge.quickest = 1e-6
    before = card.waits
    groups = checked_groups(judge, monkeypatch)
    assert groups == [1, 8, 64, MANY - 1 - 73]
    # To read the other bodies' accelerations, thrice around the first launch and to read it, and to copy what is right.
    assert card.waits - before == len(groups) + 6


@pytest.mark.parametrize(("quickest", "largest"), [(0.0101, 1), (0.005, 2), (0.001, 10)])
def test_a_group_takes_no_longer_than_its_launches_may(quickest, largest, card, monkeypatch):  # noqa: ARG001
    monkeypatch.setattr(verify, "GROUP_SECONDS", 0.01)
    judge = judge_of()
    monkeypatch.setattr(Judge, "quickest", property(lambda _: quickest, lambda *_: None), raising=False)
    groups = checked_groups(judge, monkeypatch)
    assert max(groups) == largest
    assert sum(groups) == MANY - 1


def test_after_launches_that_differ_groups_begin_small_again(card, monkeypatch):  # noqa: ARG001
    judge = judge_of(wrong_at(20, factor=1 + 1e-7))
    judge.quickest = 1e-6
    assert checked_groups(judge, monkeypatch) == [1, 8, 64, 1, 8, 1, 8, 18]


def test_a_group_keeps_no_more_than_there_is_memory_for(card, monkeypatch):  # noqa: ARG001
    judge = judge_of()
    judge.quickest = 1e-6
    monkeypatch.setattr(cuda_results, "MOST_KEPT_BYTES", 3 * 1024)  # a launch leaves 840 bytes
    assert set(checked_groups(judge, monkeypatch)) == {1, 3}


@pytest.mark.parametrize("waits", [False, True])
def test_launches_in_another_stream_are_found_and_those_that_the_host_waits_for_are_right(waits, card):
    judge = judge_of(host=driver.synchronize if waits else lambda: None, late=True)
    if waits:
        judge.check_many()
        assert len(judge.launched_times) == MANY + 1
    else:
        with pytest.raises(WrongError, match=AFTER_TIMING):
            judge.check_many()
    assert ("variant", None) in card.calls


def test_a_fault_in_the_middle_of_a_group_is_what_the_driver_says(card):
    def fails(result, before, count):  # noqa: ARG001
        if count == 50:
            raise ZeroDivisionError

    judge = judge_of(fails)
    judge.quickest = 1e-6
    with pytest.raises(driver.DriverError, match="cuCtxSynchronize: error 700"):
        judge.check_many()
    assert ("launch", STREAM) in card.calls


def test_where_few_launches_follow_nothing_is_copied_to_the_device(card):
    judge = judge_of()
    judge.quickest = 1e3
    judge.launch = lambda _=None: judge.prepared.launch()
    judge.check_many()
    assert {name for name, _ in card.calls} == {"variant"}


def test_several_gpus_are_compared_by_the_host(card):
    judge = judge_of()
    judge.toolkit.gpus = 2
    judge.check_many()
    assert {name for name, _ in card.calls} == {"variant"}


@pytest.mark.parametrize("architecture", [name for name in ARCHITECTURES if name.startswith("sm_")])
def test_the_kernel_that_compares_compiles(architecture):
    assembler = nvjitlink.create(1, [f"-arch={architecture}"])
    nvjitlink.add_data(assembler, nvjitlink.InputType.PTX, driver.COMPARE, len(driver.COMPARE), "compare")
    nvjitlink.complete(assembler)
    nvjitlink.destroy(assembler)


@pytest.mark.gpu
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("toolkit", ["cupy", "numba", "pycuda"])
def test_a_gpu_finds_the_only_number_that_differs_and_fills_results(toolkit, dtype, layout, need_toolkit):
    need_toolkit(toolkit)
    opened = open_toolkit(toolkit, discover()["tiled"], dtype, find(GRAVITY))
    right = np.arange(3000.0).reshape(1000, 3).astype(dtype)
    whole = np.zeros((1000, 4 if layout == "rows of 4" else 3), dtype)
    whole[:, :3] = right
    array = opened.upload(whole)
    others, nothing = np.roll(whole, 1, axis=0), np.full_like(whole, np.nan)
    with opened.results_there([array], right, [[others], [nothing]]) as there:
        assert there is not None
        there.keep(0)
        there.fill(0)
        np.testing.assert_array_equal(opened.download(array), others)
        there.keep(1)
        there.fill(1)
        assert np.isnan(opened.download(array)).all()
        there.keep(2)
        for place, word in enumerate([(0, 0), (999, 2), (500, 1)], 3):
            changed = whole.copy()
            changed[word] = np.nextafter(changed[word], changed.dtype.type(1e9))
            opened.copy_in(array, changed)
            there.keep(place)
        opened.copy_in(array, whole)
        there.keep(6)
        assert there.differing(7) == [1, 2, 3, 4, 5]
        assert there.differing(3) == [1, 2], "marks are cleared"
        assert there.differing(1) == []
        there.put_back(5)
        np.testing.assert_array_equal(opened.download(array), changed)
        there.put_back(0)
        there.keep(there.most - 1)
        assert there.differing(there.most) != []
        assert there.most - 1 not in there.differing(there.most)
    if layout == "rows of 4":
        whole[:, 3] = 5
        opened.copy_in(array, whole)
        with opened.results_there([array], right, [[others], [nothing]]) as there:
            there.keep(0)
            assert there.differing(1) == []


def judge_on_gpu(toolkit, n, changed=lambda launch, *_: launch):
    """Return a judge of ``tiled`` that has been found right; ``changed`` makes another launch of that of the kernel."""
    opened = open_toolkit(toolkit, TILED, "float32", find(GRAVITY))
    bodies = plummer(n, 1, 0.05)
    prepared = TILED.prepare(opened, bodies, **TILED.complete({}))
    prepared = replace(prepared, launch=changed(prepared.launch, opened, prepared.accelerations))
    judge = Judge(opened, prepared, bodies, TILED.tolerance["float32"], "float32")
    judge.launch()
    assert judge.verdict()[1] is None
    judge.hand_over()
    return judge


def wrong_once(number):
    """Have the last row of one launch, which is none of the first two, hold what the one before it holds."""

    def changed(launch, opened, accelerations):
        count = []

        def spoilt():
            launch()
            count.append(True)
            if len(count) == number:
                rows = opened.download(accelerations)
                rows[-1] = rows[-2]
                opened.copy_in(accelerations, rows)

        return spoilt

    return changed


def waits_itself(launch, opened, _):
    return lambda: (launch(), opened.synchronize())


def behind_another_stream(launch, opened, _):
    stream = opened.stream()

    def elsewhere():
        driver.hold(2000, int(stream.ptr))
        with stream:
            launch()

    return elsewhere


@pytest.fixture
def waited(monkeypatch):
    """Give launches after timing all the time they need; returns what notes each wait for the device by its results."""
    waits = []
    # Not those of toolkits, which wait by the same function.
    counting = SimpleNamespace(**vars(driver))
    counting.synchronize = lambda: waits.append(True) or driver.synchronize()
    monkeypatch.setattr(cuda_results, "driver", counting)
    for limit in ("MANY_SECONDS", "MANY_SECONDS_OF_FEW", "GROUP_SECONDS"):
        monkeypatch.setattr(verify, limit, 10.0)
    return waits


@pytest.mark.gpu
@pytest.mark.parametrize("n", [1000, 4096, 16_384])
@pytest.mark.parametrize("toolkit", ["cupy", "numba", "pycuda"])
def test_on_a_gpu_the_host_waits_for_groups_of_launches(toolkit, n, waited, need_toolkit):
    need_toolkit(toolkit)
    for changed in (lambda launch, *_: launch, waits_itself):
        judge = judge_on_gpu(toolkit, n, changed)
        waited.clear()
        judge.check_many()
        assert len(judge.launches) == 1
        assert 4 < len(waited) < 20


@pytest.mark.gpu
@pytest.mark.parametrize("number", [3, 4, 12, 60, MANY + 1])
@pytest.mark.parametrize("toolkit", ["cupy", "numba", "pycuda"])
def test_on_a_gpu_the_only_launch_of_a_group_that_is_wrong_is_found(toolkit, number, waited, need_toolkit):
    need_toolkit(toolkit)
    judge = judge_on_gpu(toolkit, 1000, wrong_once(number))
    with pytest.raises(WrongError, match=AFTER_TIMING):
        judge.check_many()
    assert waited


@pytest.mark.gpu
def test_on_a_gpu_launches_in_another_stream_are_found(waited, need_toolkit):
    need_toolkit("cupy")
    judge = judge_on_gpu("cupy", 1000, behind_another_stream)
    with pytest.raises(WrongError, match=AFTER_TIMING):
        judge.check_many()
    assert waited
