"""What the process that workers are forked from imports last: CuPy and its compiler, which most cases need.

SciPy is imported by a worker while the driver starts, and Numba by the variants that use it. numba.cuda, which takes
longest, compiles what kernels are judged by, and is imported here where nothing is kept yet of that.
"""

import importlib
from contextlib import suppress

from gravbench.measuring import gpu_sums
from gravbench.toolkits import cupy


def _each(name: str) -> None:
    with suppress(Exception):  # a library that is not there, or is broken, is missed by the case that needs it
        importlib.import_module(name)


_each("cupy")
_each("pynvml")
with suppress(Exception):  # no folder for what is kept
    if not gpu_sums.one_is_kept():
        _each("numba.cuda")
cupy.load_compiler()
