"""What every Numba kernel shares: the twin of body.cuh.

``cuda`` is the ``numba.cuda`` module, real or simulated; ``real`` is ``numpy.float32`` or ``numpy.float64``;
``interaction`` is what the kernel computes. In a kernel a body and its sums are tuples of numbers.
"""

import math

import numpy as np


def simulated(cuda):
    """Tell whether ``cuda`` is Numba's simulator, which runs Python and has neither libdevice nor LLVM."""
    return not hasattr(cuda, "libdevice")


def alignment(cuda):
    """Return the alignment in bytes of a shared array of bodies; without it a body takes four loads instead of one."""
    return None if simulated(cuda) else 16


def inverse_sqrt(cuda, real):
    """Return the device function 1 / sqrt(value): one instruction in float32, as ``rsqrtf`` in CUDA C."""
    if simulated(cuda):
        return lambda value: real(1) / real(math.sqrt(value))
    return cuda.libdevice.rsqrtf if real is np.float32 else cuda.libdevice.rsqrt


def no_sums(real, interaction):
    """Return the sums of a body before the first interaction."""
    return (real(0),) * len(interaction.sums)


def interact(cuda, real, interaction):
    """Return the device function that adds the effect of body j on body i to ``sums``, and returns them."""
    return cuda.jit(device=True, fastmath=True)(interaction.python(real, inverse_sqrt(cuda, real)))


def add(cuda, interaction):
    """Return the device function that adds two tuples of sums."""
    return cuda.jit(device=True, fastmath=True)(interaction.python_add())


def step_over_tile(cuda, real, interaction):
    """Return the device function for the interaction with body ``k`` of a tile; ``repeated`` unrolls it."""
    act = interact(cuda, real, interaction)
    load = load_row(cuda, interaction.body_width, len(interaction.body))

    @cuda.jit(device=True, fastmath=True)
    def step(tile, k, own, eps2, sums):
        return act(sums, own, load(tile, k), eps2)

    return step


def load_row(cuda, width, count):
    """Return the device function that reads ``count`` numbers of row ``k`` with 16-byte loads, from rows of ``width``.

    Numba assumes no alignment of an array argument, so by default it loads number by number. Arrays that a toolkit
    uploads are aligned to at least 256 bytes, and ``width`` is a multiple of four.
    """
    if simulated(cuda):
        return lambda array, k: tuple(array[k, number] for number in range(count))

    from llvmlite import ir
    from numba.cuda import types
    from numba.cuda.extending import intrinsic

    @intrinsic
    def load(typing_context, array, k):
        signature = types.UniTuple(array.dtype, count)(array, k)

        def generate(context, builder, signature, arguments):
            numbers = []
            for address in _vectors(context, builder, signature, arguments, width):
                vector = builder.load(address, align=16)
                numbers += [builder.extract_element(vector, ir.Constant(ir.IntType(32), lane)) for lane in range(4)]
            return context.make_tuple(builder, signature.return_type, numbers[:count])

        return signature, generate

    return load


def store_row(cuda, width):
    """Return the device function that writes a tuple to row ``k`` with 16-byte stores, filled up with zeros."""
    if simulated(cuda):

        def store_numbers(array, k, values):
            for number in range(width):
                array[k, number] = values[number] if number < len(values) else 0

        return store_numbers

    from llvmlite import ir
    from numba.cuda import cgutils, types
    from numba.cuda.extending import intrinsic

    @intrinsic
    def store(typing_context, array, k, values):
        signature = types.void(array, k, values)

        def generate(context, builder, signature, arguments):
            numbers = cgutils.unpack_tuple(builder, arguments[2])
            kind = context.get_data_type(signature.args[0].dtype)
            numbers += [ir.Constant(kind, 0.0)] * (width - len(numbers))
            for group, address in enumerate(_vectors(context, builder, signature, arguments, width)):
                vector = ir.Constant(ir.VectorType(kind, 4), ir.Undefined)
                for lane in range(4):
                    place = ir.Constant(ir.IntType(32), lane)
                    vector = builder.insert_element(vector, numbers[4 * group + lane], place)
                builder.store(vector, address, align=16)
            return context.get_dummy_value()

        return signature, generate

    return store


def _vectors(context, builder, signature, arguments, width):
    """Generate the addresses of a row, one per four numbers; the first arguments are an array and a row."""
    from llvmlite import ir
    from numba.cuda import types

    array_type, index_type = signature.args[:2]
    array = context.make_array(array_type)(context, builder, arguments[0])
    row = context.cast(builder, arguments[1], index_type, types.int64)
    vector = ir.VectorType(context.get_data_type(array_type.dtype), 4).as_pointer()
    for first in range(0, width, 4):
        number = builder.add(builder.mul(row, ir.Constant(row.type, width)), ir.Constant(row.type, first))
        yield builder.bitcast(builder.gep(array.data, [number]), vector)


def repeated(cuda, step, times):
    """Return a device function that calls ``step(tile, k, ...)`` for k, k + 1, ... k + times - 1 without a loop.

    Numba leaves unrolling to LLVM, which stops early. Calling a function twice in a new one, and that twice again,
    unrolls by exactly ``times``, a power of two.

    Indices are unsigned, because a signed index may count from the end of an array, and Numba tests for that at every
    access: four more instructions per interaction. A ``range`` whose length is not constant costs as much again, so
    loops over n are written with ``while``.
    """
    width = 1
    while width < times:
        step = _twice(cuda, step, np.uint32(width))
        width *= 2
    return step


def _twice(cuda, step, width):
    @cuda.jit(device=True, fastmath=True)
    def both(tile, k, own, eps2, sums):
        return step(tile, k + width, own, eps2, step(tile, k, own, eps2, sums))

    return both


def over_tiles(cuda, real, several, begin, sums_of, *, threads, steps, each):
    """Return the kernel that stages tiles of ``threads`` bodies and lets them act on the body of each thread.

    ``several(tile, k, own, eps2, state)`` does ``each`` of the ``steps`` of a tile and returns the next state, which is
    ``begin`` at first; ``sums_of(state)`` is the acceleration. Places of a tile beyond the last body have mass 0.
    """
    load, store, room = load_row(cuda, 4, 4), store_row(cuda, 4), alignment(cuda)
    nobody = (real(0),) * 4

    @cuda.jit(fastmath=True)
    def kernel(bodies, accelerations, n, eps2):
        tile = cuda.shared.array((threads, 4), real, room)
        thread = cuda.threadIdx.x
        i = cuda.blockIdx.x * threads + thread
        own = load(bodies, min(i, n - 1))
        state = begin
        for first in range(0, n, threads):
            j = first + thread
            store(tile, thread, load(bodies, j) if j < n else nobody)
            cuda.syncthreads()
            for k in range(np.uint32(0), np.uint32(steps), np.uint32(each)):
                state = several(tile, k, own, eps2, state)
            cuda.syncthreads()
        if i < n:
            store(accelerations, i, sums_of(state))

    return kernel
