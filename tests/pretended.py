"""Several pretended GPUs of one host: kernels run in the emulator, later, in whatever order the streams allow."""

from collections import deque
from contextlib import contextmanager

import numpy as np

from emulator import Emulator


class Host:
    """The streams of all GPUs; what is queued runs in ``run``, and nothing before that."""

    def __init__(self, count):
        self.queues = [deque() for _ in range(count)]
        self.at = 0
        self.owners = {}
        self.passed = {}

    def queue(self, does, ready=lambda: True):
        """Put something at the end of the current stream; it begins once it is ``ready``."""
        self.queues[self.at].append((ready, does))

    def run(self, choose):
        """Work through all streams; ``choose`` returns whose turn it is, of those that can go on."""
        while any(self.queues):
            able = [number for number, queue in enumerate(self.queues) if queue and queue[0][0]()]
            assert able, "every stream waits for another"
            self.queues[choose(able)].popleft()[1]()

    def own(self, array, number):
        """Note whose memory an array is."""
        self.owners[array.ctypes.data] = number
        return array


class Mark:
    """As in CUDA, to wait for a mark is to wait for how often it has been recorded by then, and for nothing before."""

    def __init__(self, host):
        self.host = host
        self.owner = host.at
        self.recorded = self.passed = 0

    def record(self):
        assert self.host.at == self.owner, "an event of one GPU in the stream of another"
        self.recorded += 1
        self.host.queue(self._pass)

    def _pass(self):
        self.passed += 1

    def wait(self):
        wanted = self.recorded
        self.host.queue(lambda: None, lambda: self.passed >= wanted)


class Gpu(Emulator):
    """One of them. Where GPUs are ``linked``, kernels may use the memory of others."""

    def __init__(self, variant, dtype, folder, host=None, number=0, *, linked=True):
        super().__init__(variant, dtype, folder)
        self.host = host or Host(8)
        self.number = number
        self.linked = linked
        self.made_of = variant, dtype, folder
        self.members = [self]

    def devices(self, count):
        for number in range(len(self.members), count):
            self.members.append(Gpu(*self.made_of, self.host, number, linked=self.linked))
        return self.members[:count]

    @contextmanager
    def current(self):
        before, self.host.at = self.host.at, self.number
        yield
        self.host.at = before

    def mark(self):
        return Mark(self.host)

    def synchronize(self):
        self.host.run(min)

    def reaches(self, other):  # noqa: ARG002
        return self.linked

    def upload(self, values):
        return self.host.own(super().upload(values), self._here())

    def empty(self, *shape):
        return self.host.own(super().empty(*shape), self._here())

    def device_array(self, shape, dtype):
        wrong = np.nan if np.issubdtype(dtype, np.floating) else 0
        return self.host.own(np.full(shape, wrong, dtype), self._here())

    def argsort(self, keys):
        places = self.device_array(len(keys), np.int64)
        self.host.queue(lambda: np.copyto(places, np.argsort(keys, kind="stable")))
        return places

    def copy(self, to, values):
        assert to.nbytes == values.nbytes
        self.host.queue(lambda: np.copyto(to, values))

    def compile(self, stem, /, **constants):
        kernel, compiled_at = super().compile(stem, **constants), self._here()

        def launch(grid, block, *arguments):
            assert self.host.at == compiled_at, f"{stem} was compiled for another GPU"
            for array in arguments:
                if isinstance(array, np.ndarray) and not self.linked:
                    assert self.host.owners[array.ctypes.data] == self.number, f"{stem} uses memory of another GPU"
            self.host.queue(lambda: kernel(grid, block, *arguments))

        return launch

    def _here(self):
        assert self.host.at == self.number, "it is not the current GPU"
        return self.number
