"""A CuTe DSL kernel with explicit tensor layouts: each thread pairs its r bodies with a tile in shared memory.

Against cutile_tiles: as in CUDA C, the program decides which thread holds which bodies, what is staged, and how wide
the loads are. A tensor is a pointer with a layout, so copying a row becomes one 16-byte load, and a column of a
thread's own bodies is a vector, with which one line computes r interactions. Loops over constants are unrolled while
the program is traced. Expected: the 13 instructions per interaction of register_blocked, plus 1 / r for reading shared
memory.
"""

from gravbench.model.variant import variant
from gravbench.variants.common import layouts, ranges


def cute_kernel(cutlass, real, *, P, R, UNROLL):
    """Rows of bodies are x, y, z, mass, and those of accelerations x, y, z, 0."""
    cute = cutlass.cute

    @cute.kernel
    def cute_tiles(bodies: cute.Pointer, accelerations: cute.Pointer, n: cutlass.Int32, eps2: cutlass.Float32):
        rows = cute.make_tensor(bodies, cute.make_layout((n, 4), stride=(4, 1)))
        results = cute.make_tensor(accelerations, cute.make_layout((n, 4), stride=(4, 1)))
        shared = cute.arch.alloc_smem(cutlass.Float32, 4 * P, 16)
        tile = cute.make_tensor(shared, cute.make_layout((P, 4), stride=(4, 1)))
        own = cute.make_rmem_tensor(cute.make_layout((R, 4), stride=(4, 1)), cutlass.Float32)
        sums = cute.make_rmem_tensor(cute.make_layout((R, 4), stride=(4, 1)), cutlass.Float32)
        sums.fill(0.0)
        thread = cute.arch.thread_idx()[0]
        first = cute.arch.block_idx()[0] * (P * R) + thread
        for r in cutlass.range_constexpr(R):
            cute.autovec_copy(rows[cutlass.min(first + r * P, n - 1), None], own[r, None])
        for begin in range(0, n, P):
            if begin + thread < n:
                cute.autovec_copy(rows[begin + thread, None], tile[thread, None])
            else:
                tile[thread, None].fill(0.0)
            cute.arch.sync_threads()
            for k in cutlass.range(P, unroll=UNROLL):
                other = tile[k, None].load()
                # Own minus other: of the other order the assembler makes one chain, with the roots one after another.
                dx = own[None, 0].load() - other[0]
                dy = own[None, 1].load() - other[1]
                dz = own[None, 2].load() - other[2]
                inverse = cute.math.rsqrt(dx * dx + (dy * dy + (dz * dz + eps2)), fastmath=True)
                strength = other[3] * inverse * (inverse * inverse)
                sums[None, 0] = sums[None, 0].load() - strength * dx
                sums[None, 1] = sums[None, 1].load() - strength * dy
                sums[None, 2] = sums[None, 2].load() - strength * dz
            cute.arch.sync_threads()
        for r in cutlass.range_constexpr(R):
            if first + r * P < n:
                cute.autovec_copy(sums[r, None], results[first + r * P, None])

    return cute_tiles


@variant(
    parent="naive",
    source="NVIDIA's documentation of CuTe DSL: docs.nvidia.com/cutlass",
    axes={"p": (64, 128, 256, 512), "r": (1, 2, 4, 8), "unroll": (1, 2, 4, 8, 16, 32)},
    defaults={"p": 128, "r": 1, "unroll": 16},
    ranges={"r": ranges.BODIES},
    when="p % unroll == 0",
    dtypes=("float32",),
)
def prepare(gpu, bodies, *, p, r, unroll):
    """Blocks of p threads for p * r bodies each."""
    kernel = gpu.compile("cute_tiles", P=p, R=r, UNROLL=unroll)
    return layouts.one_thread_per_body(gpu, bodies, kernel, p * r, block=p)
