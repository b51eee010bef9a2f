"""The Numba twin of barnes_hut.cu, and the constants that both are compiled with.

``cuda`` is the ``numba.cuda`` module, real or simulated; ``real`` is ``numpy.float32`` or ``numpy.float64``.
"""

import numpy as np

from gravbench.variants.barnes_hut import nodes
from gravbench.variants.common import body

NODES = nodes.LAYOUTS
SORTS = ("none", "morton")
WALKS = ("thread", "warp")
ALL_THREADS = 0xFFFFFFFF
WARP = 32


def constants(*, p, node, walk, sort, top_levels, dim):
    """Return the constants of the kernel for these axes."""
    return {
        "P": p,
        "COMPACT": int(node == "compact"),
        "WARP": int(walk == "warp"),
        "TOP": nodes.TOP_NODES[top_levels],
        "SORTED": int(sort == "morton"),
        "DIM": dim,
    }


def several(cuda, kind, count, alignment):
    """Return the device function that reads ``count`` values of ``kind`` from element ``at`` of the flattened array.

    A node has real numbers and integers, which one Numba array cannot hold. Numba also assumes no alignment of an array
    argument, and would load value by value. Arrays that a toolkit uploads are aligned to at least 256 bytes.
    """
    if body.simulated(cuda):
        size = np.dtype(kind).itemsize * count

        def element_of(array, at):
            return array[at] if len(array.shape) == 1 else array[at // array.shape[1], at % array.shape[1]]

        def read(array, at):
            length = size // element_of(array, at).itemsize
            return tuple(np.array([element_of(array, at + k) for k in range(length)]).view(kind))

        return read

    from llvmlite import ir
    from numba.cuda import types
    from numba.cuda.extending import intrinsic
    from numba.cuda.np.numpy_support import from_dtype

    element = from_dtype(np.dtype(kind))

    @intrinsic
    def load(typing_context, array, at):
        signature = types.UniTuple(element, count)(array, at)

        def generate(context, builder, signature, arguments):
            array_type, at_type = signature.args
            source = context.make_array(array_type)(context, builder, arguments[0])
            offset = context.cast(builder, arguments[1], at_type, types.int64)
            vector_type = ir.VectorType(context.get_data_type(element), count)
            address = builder.bitcast(builder.gep(source.data, [offset]), vector_type.as_pointer())
            vector = builder.load(address, align=alignment)
            values = [builder.extract_element(vector, ir.Constant(ir.IntType(32), k)) for k in range(count)]
            return context.make_tuple(builder, signature.return_type, values)

        return signature, generate

    return load


def reader(cuda, real, compact):
    """Return the device function that reads node ``number``: x, y, z, mass, two extents, child, next, body, count.

    A compact node's extents are its squared opening distance and nothing. ``child`` is -1 in a leaf.
    """
    layout = nodes.node_type("compact" if compact else "full", real)
    words = layout.itemsize // 4
    alignment = 16 if layout.itemsize % 16 == 0 else 8
    moments = several(cuda, real, 4, alignment)
    links = several(cuda, np.int32, 4, alignment)
    pair = several(cuda, real, 2, alignment)
    own = layout.fields["mass"][1] // 4 + real().itemsize // 4
    as_float = (lambda word: word.view(np.float32)) if body.simulated(cuda) else cuda.libdevice.int_as_float

    @cuda.jit(device=True)
    def read_compact(array, number):
        x, y, z, mass = moments(array, number * words)
        open2, begin, following, count = links(array, number * words + own)
        child = begin if count == 0 else -1
        return x, y, z, mass, as_float(open2), real(0), child, following, begin, count

    @cuda.jit(device=True)
    def read_full(array, number):
        x, y, z, mass = moments(array, number * words)
        width, offset = pair(array, number * words + own)
        child, following, first, count = links(array, number * words + own + 2 * (own // 4))
        return x, y, z, mass, width, offset, child, following, first, count

    return read_compact if compact else read_full


def walk_kernel(cuda, real, *, P, COMPACT, WARP, TOP, SORTED, DIM):
    """Twin of barnes_hut.cu; ``nodes`` are the words of the nodes as int32."""
    read = reader(cuda, real, COMPACT)
    words = nodes.node_type("compact" if COMPACT else "full", real).itemsize // 4
    row = several(cuda, real, 4, 16)
    rsqrt = body.inverse_sqrt(cuda, real)
    # The simulator has no warps: there the whole block votes, as if it were one warp.
    simulator = body.simulated(cuda)
    upper_words = TOP * words
    alignment = None if simulator else 16

    @cuda.jit(device=True)
    def any_of_warp(own):
        if simulator:
            return cuda.syncthreads_or(own)
        return cuda.any_sync(ALL_THREADS, own)

    @cuda.jit(fastmath=True)
    def barnes_hut(bodies, nodes, order, accelerations, n, top, eps2, reach):
        if TOP:
            upper = cuda.shared.array(upper_words, np.int32, alignment)
            for k in range(cuda.threadIdx.x, top * words, P):
                upper[k] = nodes[k]
            cuda.syncthreads()
        i = cuda.blockIdx.x * P + cuda.threadIdx.x
        # A warp votes with all its threads: those beyond the last body repeat it and write nothing.
        xi, yi, zi, _ = row(bodies, min(i, n - 1) * 4)
        ax = ay = az = real(0)
        at = 0
        while at >= 0:
            if TOP and at < top:
                x, y, z, mass, width, offset, child, following, first, count = read(upper, at)
            else:
                x, y, z, mass, width, offset, child, following, first, count = read(nodes, at)
            dx = x - xi
            dy = y - yi
            dz = z - zi if DIM == 3 else real(0)
            r2 = dx * dx + (dy * dy + dz * dz)
            if COMPACT:
                too_near = not np.float32(r2) > width
            else:
                nearest = width * reach + offset
                too_near = not r2 > nearest * nearest
            if WARP:
                too_near = any_of_warp(too_near)
            if not too_near:
                inverse = rsqrt(r2 + eps2)
                strength = mass * inverse * (inverse * inverse)
                ax += strength * dx
                ay += strength * dy
                az += strength * dz
                at = following
            elif child >= 0:
                at = child
            else:
                for k in range(first, first + count):
                    x, y, z, mass = row(bodies, (k if SORTED else order[k]) * 4)
                    dx = x - xi
                    dy = y - yi
                    dz = z - zi if DIM == 3 else real(0)
                    inverse = rsqrt(dx * dx + (dy * dy + (dz * dz + eps2)))
                    strength = mass * inverse * (inverse * inverse)
                    ax += strength * dx
                    ay += strength * dy
                    az += strength * dz
                at = following
        if i < n:
            own = order[i] if SORTED else i
            accelerations[own, 0] = ax
            accelerations[own, 1] = ay
            accelerations[own, 2] = az
            accelerations[own, 3] = real(0)

    return barnes_hut
