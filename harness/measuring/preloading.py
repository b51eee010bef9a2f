"""What the process that workers are forked from imports last: CuPy, which most cases need.

SciPy is imported by a worker while the driver starts, and Numba by the variants that use it.
"""

import importlib
from contextlib import suppress


def _each(name: str) -> None:
    with suppress(Exception):  # a library that is not there, or is broken, is missed by the case that needs it
        importlib.import_module(name)


_each("cupy")
_each("pynvml")
