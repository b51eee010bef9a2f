# A thread keeps R bodies in registers and pairs them with a tile of P bodies in shared memory; see mojo_tiles.py.
#
# bodies: rows x, y, z, mass; accelerations: rows x, y, z, 0; n rows each. A row of the tile begins with the mass, so
# that the two operands of a subtraction lie in different banks of the register file. Places of a tile beyond the last
# body have mass 0.
from max.gpu import MAX_THREADS_PER_BLOCK_METADATA, barrier, block_idx, thread_idx
from max.gpu.memory import AddressSpace
from std.collections import Array
from std.math import rsqrt
from std.memory import stack_allocation
from std.sys.defines import get_defined_int
from std.utils import StaticTuple

comptime P = get_defined_int["P"]()
comptime R = get_defined_int["R"]()
comptime UNROLL = get_defined_int["UNROLL"]()
comptime Rows = Pointer[Float32, MutAnyOrigin]
comptime Row = SIMD[DType.float32, 4]


# Threads of a block, as __launch_bounds__ in CUDA C: the assembler may use the registers that this leaves to each.
@__llvm_metadata(MAX_THREADS_PER_BLOCK_METADATA=StaticTuple[Int32, 1](Int32(P)))
def mojo_tiles(bodies: Rows, accelerations: Rows, n: Int32, eps2: Float32):
    var tile = stack_allocation[4 * P, Float32, alignment=16, address_space=AddressSpace.SHARED]()
    var thread = Int32(thread_idx.x)
    var first = Int32(block_idx.x) * Int32(P * R) + thread
    var own = Array[Row, R](fill=0)
    var sum_x = Array[Float32, R](fill=0)
    var sum_y = Array[Float32, R](fill=0)
    var sum_z = Array[Float32, R](fill=0)
    comptime for r in range(R):
        own[r] = bodies.unsafe_load[width=4, alignment=16](4 * min(first + Int32(r * P), n - 1))
    for begin in range(Int32(0), n, Int32(P)):
        var staged = Row(0)
        if begin + thread < n:
            staged = bodies.unsafe_load[width=4, alignment=16](4 * (begin + thread))
        tile.unsafe_store[alignment=16](4 * thread, staged.rotate_right[1]())
        barrier()
        for group in range(0, P, UNROLL):
            comptime for step in range(UNROLL):
                var other = tile.unsafe_load[width=4, alignment=16](4 * (group + step))
                comptime for r in range(R):
                    var dx = other[1] - own[r][0]
                    var dy = other[2] - own[r][1]
                    var dz = other[3] - own[r][2]
                    var inverse = rsqrt(dx * dx + (dy * dy + (dz * dz + eps2)))
                    var strength = other[0] * inverse * (inverse * inverse)
                    sum_x[r] += strength * dx
                    sum_y[r] += strength * dy
                    sum_z[r] += strength * dz
        barrier()
    comptime for r in range(R):
        var i = first + Int32(r * P)
        if i < n:
            accelerations.unsafe_store[alignment=16](4 * i, Row(sum_x[r], sum_y[r], sum_z[r], 0))
