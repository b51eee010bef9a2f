"""A toolkit that compiles nothing: it keeps what a variant asks for and what it launches."""

from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np

from gravbench.model import generators
from gravbench.model.interaction import GRAVITY
from gravbench.model.interaction_files import find


def possible(variant, axes, toolkit):
    """Tell whether a variant can run with these axes on a toolkit, as its ``when`` says."""
    return not variant.when or eval(variant.when, {}, {"toolkit": toolkit, **axes})


class Recorder:
    """Stands in for a toolkit: ``asked`` are the kernels to compile and their constants, ``launched`` the arguments."""

    def __init__(self, dtype, interaction=None):
        self.real = np.dtype(dtype).type
        self.interaction = interaction or find(GRAVITY)
        self.asked = []
        self.launched = []
        self.multiprocessors = 132

    def upload(self, values):
        return np.asarray(values, self.real)

    def empty(self, *shape):
        return np.full(shape, np.nan, self.real)

    def host_array(self, shape, dtype, *, pinned):  # noqa: ARG002
        return np.empty(shape, dtype)

    def device_array(self, shape, dtype):
        return np.empty(shape, dtype)

    def stream(self):
        return None

    def send(self, array, values, stream):
        pass

    def fetch(self, values, array, stream):  # noqa: ARG002
        values[...] = 0

    def synchronize(self):
        pass

    def wait(self, stream):
        pass

    def argsort(self, keys):
        return np.zeros(len(keys), np.int64)

    def captured(self, launch):
        launch()
        return launch

    def devices(self, count):
        return [self] * count

    def current(self):
        return nullcontext()

    def mark(self):
        return SimpleNamespace(record=lambda: None, wait=lambda: None)

    def reaches(self, other):  # noqa: ARG002
        return True

    def copy(self, to, values):
        pass

    def compile(self, stem, /, **constants):
        self.asked.append((stem, constants))
        return lambda *arguments: self.launched.append((stem, arguments))


def asked_for(variant, dtype, axes, interaction=None):
    """Return the kernels and constants that a variant compiles for these axes."""
    recorder = Recorder(dtype, interaction)
    variant.prepare(recorder, generators.plummer(8, 3, 0.05), **axes)
    return [(stem, tuple(constants.items())) for stem, constants in recorder.asked]
