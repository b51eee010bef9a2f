"""What a toolkit does beside compiling, where the memory of its device is the host's and nothing is done later."""

from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np


class HostMemory:
    """Stands in for the memory and the streams of a device: everything has ended when it returns."""

    def device_array(self, shape, dtype):
        """Return an array that is not filled."""
        return np.empty(shape, dtype)

    def host_array(self, shape, dtype, *, pinned):  # noqa: ARG002
        """Return an array that is not filled."""
        return np.empty(shape, dtype)

    def stream(self):
        """Return nothing, which is enough for what has no order."""

    def wait(self, stream):
        """Nothing to wait for."""

    def follow(self, stream):
        """Nothing to wait for."""

    def synchronize(self):
        """Nothing to wait for."""

    def send(self, array, values, stream):  # noqa: ARG002
        """Copy to the beginning of an array."""
        array[: len(values)] = values

    def fetch(self, values, array, stream):  # noqa: ARG002
        """Copy back."""
        values[...] = array[: len(values)]

    def copy(self, to, values):
        """Copy."""
        to[...] = values

    def argsort(self, keys):
        """Sort as a library on the device would."""
        return np.argsort(keys, kind="stable")

    def captured(self, launch):
        """Launch once, and then each time anew."""
        launch()
        return launch

    def devices(self, count):
        """Return itself so many times: several GPUs that do everything at once; ``pretended`` has such that do not."""
        return [self] * count

    def current(self):
        """Nothing to choose."""
        return nullcontext()

    def mark(self):
        """Return what marks nothing."""
        return SimpleNamespace(record=lambda: None, wait=lambda: None)

    def reaches(self, other):  # noqa: ARG002
        """Tell that all of the host's memory is one."""
        return True
