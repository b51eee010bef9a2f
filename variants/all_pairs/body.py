"""What every all-pairs kernel for numba.cuda shares: the twin of body.cuh.

``cuda`` is the ``numba.cuda`` module, real or simulated; ``real`` is ``numpy.float32`` or ``numpy.float64``.
"""

import itertools
import math

import numpy as np

from harness.variant import Prepared

FRACTIONS = (1, 0.5, 0.25, 0.125, 0.0625)
"""Parts of the bodies that an approximation may count a step (Lee 2008)."""


def one_thread_a_body(gpu, bodies, kernel, p, block=None):
    """Launch ``kernel(bodies, accelerations, n, eps2)`` over rows of ``PosMass``: ceil(n / p) blocks.

    ``block`` is the extents (x, y) of a block, p threads along x by default.
    """
    own = gpu.upload(rows(bodies))
    accelerations = gpu.empty(bodies.n, 4)
    grid = -(-bodies.n // p)
    n, eps2 = np.int32(bodies.n), gpu.real(bodies.eps**2)
    return Prepared(lambda: kernel(grid, block or p, own, accelerations, n, eps2), own, accelerations, kernel)


def over_columns(gpu, bodies, kernel, p, dim=3):
    """Launch ``kernel(x, y, z, mass, ax, ay, az, n, eps2)`` over arrays of n numbers: ceil(n / p) blocks.

    In the plane (``dim`` 2) the kernel leaves az alone, and nothing accelerates along z.
    """
    columns = tuple(gpu.upload(column) for column in (*bodies.position.T, bodies.mass))
    along_z = gpu.empty(bodies.n) if dim == 3 else gpu.upload(np.zeros(bodies.n))
    accelerations = (gpu.empty(bodies.n), gpu.empty(bodies.n), along_z)
    grid = -(-bodies.n // p)
    n, eps2 = np.int32(bodies.n), gpu.real(bodies.eps**2)
    return Prepared(lambda: kernel(grid, p, *columns, *accelerations, n, eps2), columns, accelerations, kernel)


def a_window_a_step(gpu, bodies, kernel, p, fraction):
    """Launch ``kernel(bodies, accelerations, n, eps2, first, last, scale)`` over one window after another.

    The windows of a cycle, 1 / fraction of them and at most n, hold every body once.
    """
    own = gpu.upload(rows(bodies))
    accelerations = gpu.empty(bodies.n, 4)
    grid = -(-bodies.n // p)
    n, eps2 = np.int32(bodies.n), gpu.real(bodies.eps**2)
    cycle = min(round(1 / fraction), bodies.n)
    edges = [np.int32(bodies.n * step // cycle) for step in range(cycle + 1)]
    windows = itertools.cycle(list(itertools.pairwise(edges)))
    scale = gpu.real(cycle)

    def launch():
        first, last = next(windows)
        kernel(grid, p, own, accelerations, n, eps2, first, last, scale)

    return Prepared(launch, own, accelerations, kernel, cycle)


def rows(bodies):
    """Return an (n, 4) array of x, y, z, mass: ``PosMass`` of body.cuh."""
    return np.column_stack([bodies.position, bodies.mass])


def simulated(cuda):
    """Tell whether ``cuda`` is Numba's simulator, which runs Python and has neither libdevice nor LLVM."""
    return not hasattr(cuda, "libdevice")


def alignment(cuda):
    """Bytes to which a shared array of bodies is aligned; without it a body takes four loads instead of one."""
    return None if simulated(cuda) else 16


def inverse_sqrt(cuda, real):
    """Return the device function 1 / sqrt(value): one instruction in float32, as ``rsqrtf`` in CUDA C."""
    if simulated(cuda):
        return lambda value: real(1) / real(math.sqrt(value))
    return cuda.libdevice.rsqrtf if real is np.float32 else cuda.libdevice.rsqrt


def interaction(cuda, real):
    """Return the device function that adds the pull of one body to ``ax, ay, az``; ``interact`` of body.cuh."""
    rsqrt = inverse_sqrt(cuda, real)

    @cuda.jit(device=True, fastmath=True)
    def interact(ax, ay, az, xi, yi, zi, xj, yj, zj, mass, eps2):
        dx = xj - xi
        dy = yj - yi
        dz = zj - zi
        r2 = dx * dx + (dy * dy + (dz * dz + eps2))
        inverse = rsqrt(r2)
        strength = mass * inverse * (inverse * inverse)
        return ax + strength * dx, ay + strength * dy, az + strength * dz

    return interact


def step_over_tile(cuda, real):
    """Return the device function that lets body ``k`` of a tile in shared memory pull; ``repeated`` unrolls it."""
    interact = interaction(cuda, real)

    @cuda.jit(device=True, fastmath=True)
    def step(tile, k, xi, yi, zi, eps2, ax, ay, az):
        return interact(ax, ay, az, xi, yi, zi, tile[k, 0], tile[k, 1], tile[k, 2], tile[k, 3], eps2)

    return step


def load_body(cuda):
    """Return the device function that reads row ``j`` of an (n, 4) array with one 16-byte load (two in float64).

    Numba knows no alignment for an array that it is given, so by itself it would load four numbers one by one.
    Arrays that a toolkit uploads begin on at least 256 bytes.
    """
    if simulated(cuda):
        return lambda bodies, j: (bodies[j, 0], bodies[j, 1], bodies[j, 2], bodies[j, 3])

    from llvmlite import ir
    from numba.cuda import types
    from numba.cuda.extending import intrinsic

    @intrinsic
    def load(typing_context, bodies, j):
        signature = types.UniTuple(bodies.dtype, 4)(bodies, j)

        def generate(context, builder, signature, arguments):
            array_type, index_type = signature.args
            array = context.make_array(array_type)(context, builder, arguments[0])
            row = context.cast(builder, arguments[1], index_type, types.int64)
            number = context.get_data_type(array_type.dtype)
            address = builder.gep(array.data, [builder.mul(row, ir.Constant(row.type, 4))])
            vector = builder.load(builder.bitcast(address, ir.VectorType(number, 4).as_pointer()), align=16)
            numbers = [builder.extract_element(vector, ir.Constant(ir.IntType(32), k)) for k in range(4)]
            return context.make_tuple(builder, signature.return_type, numbers)

        return signature, generate

    return load


def repeated(cuda, step, times):
    """Return a device function that does ``step(tile, k, ...)`` for k, k + 1, ... k + times - 1 in straight line.

    Numba leaves unrolling to LLVM, which stops early. Pasting a step behind itself, twice as long each time, unrolls
    by exactly ``times``, a power of two.

    Indices are unsigned, because Numba lets a signed index count from the end of an array and tests for that at
    every access: four more instructions an interaction. A ``range`` whose length is not constant costs as much
    again, so loops over n are written with ``while``.
    """
    width = 1
    while width < times:
        step = _twice(cuda, step, np.uint32(width))
        width *= 2
    return step


def _twice(cuda, step, width):
    @cuda.jit(device=True, fastmath=True)
    def both(tile, k, xi, yi, zi, eps2, ax, ay, az):
        ax, ay, az = step(tile, k, xi, yi, zi, eps2, ax, ay, az)
        return step(tile, k + width, xi, yi, zi, eps2, ax, ay, az)

    return both
