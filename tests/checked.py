"""A toolkit for tests whose kernels run in the emulated program, confined and checked, and not in this process."""

import re

import numpy as np

from gravbench.emulation.emulated import Launch, emulate
from gravbench.model.interaction import GRAVITY
from gravbench.model.interaction_files import find
from gravbench.model.stem_code import cuda_source
from gravbench.sandbox.confined import Limits
from hosted import HostMemory

LIMITS = Limits(seconds=60, memory_bytes=4 << 30, processes=1, file_bytes=1 << 30)


class Checked(HostMemory):
    """What a variant asks of a toolkit; the first fault of a kernel is an AssertionError."""

    multiprocessors = 4

    def __init__(self, variant, dtype):
        self.path = variant.path.with_suffix(".cu")
        self.real = np.dtype(dtype).type
        self.interaction = find(GRAVITY)
        self.seconds = 0.0

    def upload(self, values):
        """Return a copy."""
        return np.array(values, self.real, order="C")

    def empty(self, *shape):
        """Return an array of NaN."""
        return np.full(shape, np.nan, self.real)

    def source(self):
        """Return the CUDA C of all kernels, without the assembly that only keeps a value in a register."""
        return re.sub(r"asm volatile\(.*", "", cuda_source(self.path, self.interaction))

    def compile(self, stem, /, **constants):
        """Return what launches a kernel."""
        defines = {name: str(value) for name, value in constants.items()}
        defines |= {"FLOAT64": "1"} if self.real is np.float64 else {}

        def kernel(grid, threads, *arguments, stream=None):  # noqa: ARG001 - everything is done at once
            arrays = {f"argument {k}": value for k, value in enumerate(arguments) if isinstance(value, np.ndarray)}
            given = tuple(
                f"argument {k}" if isinstance(value, np.ndarray) else value.item() for k, value in enumerate(arguments)
            )
            launch = Launch(stem, _pair(grid), _pair(threads), 0, given)
            done = emulate(self.source(), defines, arrays, list(arrays), [launch], limits=LIMITS, poison_outputs=False)
            assert done.fault is None, done.fault
            self.seconds += done.seconds
            for name, array in arrays.items():
                array[...] = done.arrays[name]

        return kernel


def _pair(size):
    return tuple(map(int, size)) if isinstance(size, tuple) else (int(size), 1)
