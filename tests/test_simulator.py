"""The simulator of the other tests: threads in turns, from barrier to barrier."""

import os
import threading

import numpy as np
import pytest
from numba import cuda
from numpy.testing import assert_array_equal

from gravbench.toolkits.numba import _Simulator

if os.environ.get("NUMBA_ENABLE_CUDASIM") != "1":
    pytest.skip("there is a GPU", allow_module_level=True)
own = _Simulator(cuda)


@own.jit(device=True)
def reversed_of(thread):
    return 63 - thread


@pytest.mark.parametrize("barrier", [True, False])
def test_a_barrier_that_a_kernel_lacks_shows_every_time(barrier):
    @own.jit
    def turn_round(values):
        staged = own.shared.array(64, np.float64)
        thread = own.threadIdx.x
        staged[thread] = values[64 * own.blockIdx.x + thread]
        if barrier:
            own.syncthreads()
        values[64 * own.blockIdx.x + thread] = staged[reversed_of(thread)]

    values = np.arange(1.0, 129.0)
    turn_round[2, 64](values)
    expected = np.concatenate([np.arange(64.0, 0.0, -1.0), np.arange(128.0, 64.0, -1.0)])
    assert np.array_equal(values, expected) == barrier


def test_votes_and_threads_that_end_early():
    @own.jit
    def vote(values):
        thread = own.threadIdx.x
        if thread >= 20:
            return
        for _ in range(3):
            values[thread] += own.syncthreads_count(thread < 5)

    values = np.zeros(32)
    vote[1, 32](values)
    assert_array_equal(values, np.repeat([15.0, 0.0], [20, 12]))


def test_the_first_mistake_of_a_thread_is_reported_and_no_thread_is_left():
    @own.jit
    def wrong(values):
        values[own.threadIdx.x] = 1
        own.syncthreads()
        if own.threadIdx.x == 3:
            raise ValueError("three")
        own.syncthreads()

    before = threading.active_count()
    with pytest.raises(ValueError, match=r"tid=\[3, 0, 0\].*three"):
        wrong[1, 8](np.zeros(8))
    assert threading.active_count() == before
