"""Numba's simulator with one thread of a block running at a time, in the order of their numbers, barrier to barrier.

As it comes, all threads of a block run at once. Every call of a device function takes a lock that all of them want, and
each hand-over waits for Python's own: by chance, seconds become minutes. In turns nobody waits, and a barrier that a
kernel lacks shows every time.
"""

import sys
import threading
from contextlib import nullcontext

import numpy as np
from numba.cuda.simulator import kernel, kernelapi


def taken():
    """Return a lock that is waited for until somebody gives it; one that counts takes Python ten times as long."""
    lock = threading.Lock()
    lock.acquire()
    return lock


class Thread(kernel.BlockThread):
    """Runs in its turns only, each from one barrier to the next."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.turn = taken()
        self.over = False

    def run(self):
        self.turn.acquire()
        super().run()
        self.over = True
        self._manager.returned.release()

    def syncthreads(self):
        if not self.abort:
            self._manager.returned.release()
            self.turn.acquire()
        if self.abort:
            raise RuntimeError("another thread of the block failed")


class Block(kernel.BlockManager):
    """Gives its threads their turns."""

    def run(self, grid_point, *arguments):
        self.returned = taken()
        points = np.ndindex(*self._block_dim)
        threads = [Thread(lambda: self._f(*arguments), self, grid_point, point, self._debug) for point in points]
        for thread in threads:
            thread.start()
        live, failed = threads, None
        while live:
            for thread in live:
                thread.abort = failed is not None
                thread.turn.release()
                self.returned.acquire()
                failed = failed or thread.exception
            live = [thread for thread in live if not thread.over]
        for thread in threads:
            thread.join()
        if failed:
            raise failed[0].with_traceback(failed[1])


def plain(array):
    """Give a kernel the array of NumPy itself, whose elements are read in a fifth of the time, unless it has fields."""
    return array._ary if array._ary.dtype.fields is None else OwnArray(array)


def shared_array(shared, shape, dtype, alignment=None):  # noqa: ARG001 - an address is none
    """Return the array that a line of a kernel shares; as it comes, the text of every caller's line is looked up."""
    caller = sys._getframe(1)
    place = caller.f_code.co_filename, caller.f_lineno
    if place not in shared._allocations:
        shared._allocations[place] = np.empty(shape, dtype)
    return shared._allocations[place]


def made(kind, function, device=False, *_, **__):
    """Make a kernel; a function of the device is called as it is."""
    return function if device else object.__new__(kind)


OwnArray = kernel.FakeWithinKernelCUDAArray


def take_turns():
    kernel.BlockManager = Block
    kernel.FakeWithinKernelCUDAArray = plain
    kernel.FakeCUDAKernel.__new__ = made
    kernelapi.FakeCUDAShared.array = shared_array
    # The lock is there for kernels that use a global name "cuda". Those here are given theirs.
    kernel.swapped_cuda_module = lambda function, cuda: nullcontext()  # noqa: ARG005
