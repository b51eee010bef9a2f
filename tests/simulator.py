"""Numba's simulator with one thread of a block running at a time, in the order of their numbers, barrier to barrier.

As it comes, all threads of a block run at once. Every call of a device function takes a lock that all of them want, and
each hand-over waits for Python's own: by chance, seconds become minutes. In turns nobody waits, and a barrier that a
kernel lacks shows every time.
"""

import threading
from contextlib import nullcontext

import numpy as np
from numba.cuda.simulator import kernel


class Thread(kernel.BlockThread):
    """Runs in its turns only, each from one barrier to the next."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.turn = threading.Semaphore(0)
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
        self.returned = threading.Semaphore(0)
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


def take_turns():
    kernel.BlockManager = Block
    # The lock is there for kernels that use a global name "cuda". Those here are given theirs.
    kernel.swapped_cuda_module = lambda function, cuda: nullcontext()  # noqa: ARG005
