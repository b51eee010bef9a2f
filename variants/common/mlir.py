"""Kernels of numba.cuda for numba-cuda-mlir, which compiles the same Python, but nothing written for LLVM.

What ``body`` writes for LLVM reads and writes rows of bodies 16 bytes at a time. Here a row is read number by number.
The compiler joins these reads where it knows the alignment: in shared memory, but not in the arrays of the bodies. Its
own ``cuda.vector.load``, which is told the alignment, takes every array for one in global memory (version 0.6).
A tuple of tuples that a loop changes is more than this version compiles, so some kernels have no twin.
"""

from gravbench.variants.common import body


def twin(numba_kernel):
    """Return the function that makes a kernel for numba-cuda-mlir, from the one that makes it for numba.cuda."""

    def mlir_kernel(cuda, real, interaction, **constants):
        usual = body.load_row, body.store_row
        body.load_row, body.store_row = load_row, store_row
        try:
            return numba_kernel(cuda, real, interaction, **constants)
        finally:
            body.load_row, body.store_row = usual

    return mlir_kernel


def load_row(cuda, width, count):
    """Return the device function that reads ``count`` numbers of row ``k``."""

    @cuda.jit(device=True, fastmath=True)
    def load(array, k):
        return (array[k, 0],)

    for place in range(1, count):
        load = _with_next(cuda, load, place)
    return load


def _with_next(cuda, load, place):
    @cuda.jit(device=True, fastmath=True)
    def longer(array, k):
        return load(array, k) + (array[k, place],)  # noqa: RUF005 - it compiles no unpacking

    return longer


def store_row(cuda, width):
    """Return the device function that writes a tuple to row ``k``, filled up with zeros."""

    @cuda.jit(device=True, fastmath=True)
    def store(array, k, values):
        for number in range(width):
            array[k, number] = values[number] if number < len(values) else 0

    return store
