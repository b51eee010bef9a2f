"""The emulator of the other tests: threads of a block in turns, each from one barrier to the next."""

from types import SimpleNamespace

import numpy as np
import pytest

from emulator import COMPILER, Emulator

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no g++ on PATH")

KERNELS = """
extern "C" __global__ void shifted(float* values) {
    __shared__ float staged[64];
    staged[threadIdx.x] = values[64 * blockIdx.x + threadIdx.x];
    if (BARRIER) __syncthreads();
    values[64 * blockIdx.x + threadIdx.x] = staged[max(0, int(threadIdx.x) - 1)];
}

extern "C" __global__ void shuffled(float* values, int turns) {
    float value = values[blockIdx.x * blockDim.x + threadIdx.x];
    for (int turn = 0; turn < turns; ++turn) value = __shfl_sync(~0u, value, threadIdx.x + 1) + turn;
    values[blockIdx.x * blockDim.x + threadIdx.x] = value;
}

extern "C" __global__ void guarded(float* values, int waiting) {
    values[threadIdx.x] += __shfl_sync(~0u, 1.0f, 0);
    if (threadIdx.x < waiting) __syncthreads();
    values[threadIdx.x] += 1;
}
"""


@pytest.fixture
def compiled(tmp_path, libraries):
    (tmp_path / "kernels.cu").write_text(KERNELS)
    emulator = Emulator(SimpleNamespace(path=tmp_path / "kernels.py"), "float32", libraries)
    return lambda name, barrier=1: emulator.compile(name, BARRIER=barrier)


@pytest.mark.parametrize("barrier", [0, 1])
def test_a_barrier_that_a_kernel_lacks_shows_in_one_of_two_launches(compiled, barrier):
    kernel = compiled("shifted", barrier)
    before = np.arange(192).reshape(3, 64)[:, [0, *range(63)]].ravel()
    right = []
    for first in (1000, 2000):
        values = np.arange(first, first + 192, dtype=np.float32)
        kernel(3, 64, values)
        right.append(np.array_equal(values, first + before))
    assert sum(right) == 1 + barrier


@pytest.mark.parametrize("turns", [1, 2, 33])
def test_exchanges_in_a_row_give_each_lane_what_was_given_last(compiled, turns):
    values = np.arange(128, dtype=np.float32)
    compiled("shuffled")(2, 64, values, np.int32(turns))
    expected = np.arange(128).reshape(4, 32)
    for turn in range(turns):
        expected = np.roll(expected, -1, axis=1) + turn
    assert np.array_equal(values, expected.ravel())


def test_a_barrier_at_which_only_some_arrive_fails_and_the_next_launch_is_right(compiled):
    kernel = compiled("guarded")
    with pytest.raises(AssertionError, match="guarded: threads wait at a barrier at which the others do not arrive"):
        kernel(1, 64, np.zeros(64, np.float32), np.int32(40))
    for threads in (32, 64):
        values = np.zeros(64, np.float32)
        kernel(2, threads, values, np.int32(64))
        assert np.array_equal(values, np.where(np.arange(64) < threads, 4, 0))


def test_more_threads_than_a_block_has_are_refused(compiled):
    values = np.zeros(2048, np.float32)
    compiled("shuffled")(1, 1024, values, np.int32(1))
    with pytest.raises(AssertionError, match="1056 threads per block"):
        compiled("shuffled")(1, 1056, values, np.int32(1))
