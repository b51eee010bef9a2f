"""Kernels of numba.cuda for numba-cuda-mlir, which compiles the same Python, but nothing written for LLVM.

``body.load_row`` and ``body.store_row`` are written for LLVM and access rows 16 bytes at a time. Those here take their
place. In shared memory, a row is read and written number by number, and the compiler joins the accesses, because it
knows the alignment. It does not know the alignment of an argument, so kernels without a tile use ``cuda.vector.load``,
which is told. Kernels with a tile cannot, because for version 0.6 every array is then in global memory.

Version 0.6 cannot compile a tuple of tuples that changes in a loop, so some kernels have no twin.
"""

from gravbench.variants.common import body


def twin(numba_kernel, *, tiles=True):
    """Return the function that makes a kernel for numba-cuda-mlir, from the one that makes it for numba.cuda.

    Without ``tiles``, every array of the kernel is in global memory. While a kernel is made, the functions of ``body``
    are replaced, so no other may be made in another thread.
    """

    def mlir_kernel(cuda, real, interaction, **constants):
        usual = body.load_row, body.store_row
        body.load_row, body.store_row = load_row if tiles else load_global_row, store_row
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
        return load(array, k) + (array[k, place],)  # noqa: RUF005 - it cannot compile unpacking

    return longer


def load_global_row(cuda, width, count):
    """Return the device function that reads row ``k`` of four numbers in global memory with 16-byte loads."""
    if body.simulated(cuda):
        return load_row(cuda, width, count)

    @cuda.jit(device=True, fastmath=True)
    def load(array, k):
        row = cuda.vector.load(array, (k, 0), 4, 16)
        return row.x, row.y, row.z, row.w

    return load


def store_row(cuda, width):
    """Return the device function that writes a tuple to row ``k``, filled up with zeros."""

    @cuda.jit(device=True, fastmath=True)
    def store(array, k, values):
        for number in range(width):
            array[k, number] = values[number] if number < len(values) else 0

    return store
