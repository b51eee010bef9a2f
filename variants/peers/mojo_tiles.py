"""A Mojo kernel with compile-time constants: each thread pairs its r bodies with a tile in shared memory.

Against cute_tiles: the same algorithm, in a language with its own compiler instead of one that traces Python. Rows are
SIMD values of four numbers, and loops over constants are unrolled by ``comptime for``. The kernel declares the number
of threads per block, so that the assembler can use all registers that this leaves to each thread. The compiler
generates PTX, from which the driver generates machine code. Expected: the 13 instructions per interaction of
register_blocked.
"""

from gravbench.model.variant import variant
from gravbench.variants.common import layouts, ranges


@variant(
    parent="naive",
    source="Modular's manual of Mojo: docs.modular.com, Get started with GPU programming",
    axes={"p": (64, 128, 256, 512), "r": (1, 2, 4, 8), "unroll": (1, 2, 4, 8, 16, 32)},
    defaults={"p": 128, "r": 2, "unroll": 16},
    ranges={"r": ranges.BODIES},
    when="p % unroll == 0",
    dtypes=("float32",),
)
def prepare(gpu, bodies, *, p, r, unroll):
    """Blocks of p threads for p * r bodies each."""
    kernel = gpu.compile("mojo_tiles", P=p, R=r, UNROLL=unroll)
    return layouts.one_thread_per_body(gpu, bodies, kernel, p * r, block=p)
