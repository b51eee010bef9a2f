"""What a process that was forked cannot use any more: the threads of GNU OpenMP, on which Numba runs, and CUDA.

After a fork, GNU OpenMP waits for threads that the new process does not have, or Numba ends the process. CUDA refuses
every call. Both are stated in a sentence instead.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
from dataclasses import dataclass

from gravbench.errors import ForkedError

NUMBA = "numba"
UNSAFE_LAYER, UNSAFE_LIBRARY = "omp", "GNU"
"""The threading layer of Numba, and the vendor of its library, that do not survive a fork. tbb and workqueue do."""
NOT_INITIALIZED = 3
"""The driver's answer before ``cuInit``."""


@dataclass(slots=True)
class Inherited:
    """What a process that this one was forked from had in use, and a fork does not bring along."""

    threads: bool = False
    cuda: bool = False


INHERITED = Inherited()


def _uses_unsafe_threads() -> bool:
    """Tell whether Numba's threads were started, by whichever function, and would not survive a fork."""
    numba = sys.modules.get(NUMBA)
    try:
        if numba is None or numba.threading_layer() != UNSAFE_LAYER:
            return False
        library = importlib.import_module("numba.np.ufunc.omppool")
    except (AttributeError, ImportError, ValueError):  # half imported, without threads, or not started
        return False
    return bool(library.openmp_vendor == UNSAFE_LIBRARY)


def _uses_cuda() -> bool:
    """Tell whether any library has initialized CUDA in this process."""
    try:
        driver = ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOLOAD)
    except OSError:  # not loaded
        return False
    return bool(driver.cuDeviceGetCount(ctypes.byref(ctypes.c_int())) != NOT_INITIALIZED)


def _note() -> None:
    """Note before a fork what it will not bring along; in a process that was forked itself, nothing comes back."""
    _USED.threads = INHERITED.threads or _uses_unsafe_threads()
    _USED.cuda = INHERITED.cuda or _uses_cuda()


def _inherit() -> None:
    INHERITED.threads, INHERITED.cuda = _USED.threads, _USED.cuda


_USED = Inherited()
os.register_at_fork(before=_note, after_in_child=_inherit)


def check_threads() -> None:
    """Check that Numba's threads can be used in this process.

    Raises:
        ForkedError: it was forked from one that had started them.
    """
    if INHERITED.threads:
        raise ForkedError(
            "this process was forked from one that had started Numba's threads, which do not survive a fork with GNU "
            "OpenMP; accepted: the start methods spawn or forkserver, a first call after the fork, or the environment "
            "variable NUMBA_THREADING_LAYER=workqueue, Numba's own threads"
        )


def check_cuda() -> None:
    """Check that CUDA can be used in this process.

    Raises:
        ForkedError: it was forked from one that had initialized CUDA.
    """
    if INHERITED.cuda:
        raise ForkedError(
            "this process was forked from one that had initialized CUDA, which does not survive a fork; accepted: the "
            "start methods spawn or forkserver, a first use of the GPU after the fork, or the toolkit cpu"
        )
