"""What the process that workers are forked from imports last: the libraries that most cases need, and their compiler.

NVRTC is loaded by a thread, which has ended before anything is forked.
"""

import importlib
import threading
from contextlib import suppress

from gravbench.measuring import gpu_sums
from gravbench.toolkits import cupy

MODULES = ("scipy.special", "numba.core.event", "pynvml", *(() if gpu_sums.one_is_kept() else ("numba.cuda",)))


def _each(name: str) -> None:
    with suppress(Exception):  # a library that is not there, or is broken, is missed by the case that needs it
        importlib.import_module(name)


_each("cupy")
_compiler = threading.Thread(target=cupy.load_compiler)
_compiler.start()
for _name in MODULES:
    _each(_name)
_compiler.join()
