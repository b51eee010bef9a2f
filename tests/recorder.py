"""Which kernels a variant asks for, and which values of its axes can run."""

from gravbench.model import generators
from gravbench.model.interaction import GRAVITY
from gravbench.model.interaction_files import find
from gravbench.toolkits.recording import RecordingToolkit


def possible(variant, axes, toolkit):
    """Tell whether a variant can run with these axes on a toolkit, as its ``when`` says."""
    return not variant.when or eval(variant.when, {}, {"toolkit": toolkit, **axes})


def asked_for(variant, dtype, axes, interaction=None):
    """Return the kernels and constants that a variant compiles for these axes."""
    toolkit = RecordingToolkit(dtype, interaction or find(GRAVITY))
    variant.prepare(toolkit, generators.plummer(8, 3, 0.05), **axes)
    return [(kernel.stem, kernel.constants) for kernel in toolkit.kernels]
