"""What the process that workers are forked from imports last: CuPy and its compiler, which most cases need.

SciPy is imported while a worker opens its device, and Numba by the variants that use it. numba.cuda, which takes
longest, compiles what kernels are judged by, and is imported here where nothing is kept yet of that.
"""

import importlib
from contextlib import suppress

from gravbench.measuring import gpu_sums
from gravbench.toolkits import cupy

for _name in ("cupy", "pynvml", *(() if gpu_sums.one_is_kept() else ("numba.cuda",))):
    with suppress(Exception):  # a library that is not there, or is broken, is missed by the case that needs it
        importlib.import_module(_name)
cupy.load_compiler()
