"""What the workers of GPUs have in common, imported once per run by the process from which they are forked.

Nothing here may open a device: a CUDA context does not survive a fork.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module

from gravbench.measuring import worker as _worker  # noqa: F401

LIBRARIES = ("scipy.special", "numba.cuda", "cupy", "pynvml")
"""Beside what the worker's module imports; Numba's judge and CuPy's kernels are those of most cases."""

for _library in LIBRARIES:
    with suppress(Exception):  # what is not there, or does not work here, is said when a case needs it
        import_module(_library)
