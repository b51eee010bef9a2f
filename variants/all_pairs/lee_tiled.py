"""Stage tiles with 16 x 16 blocks and divisions, as in Lee's last kernel.

Against lee_global: a block loads 256 bodies once for all its threads. tiled has the same tiles, but the bodies of a
block are contiguous and an interaction takes one inverse square root; here both are as Lee 2008 printed them.
"""

from gravbench.model.variant import Operations, variant
from gravbench.variants.common import printed, ranges


@variant(
    parent="lee_global",
    source="Lee 2008, phase IV: shared memory, blocks of 16 x 16, unrolling by 8",
    axes={
        "p": (64, 128, 256, 512),
        "unroll": (1, 2, 4, 8, 16, 32),
        "block_shape": printed.SHAPES,
        "arithmetic": printed.ARITHMETIC,
    },
    defaults={"p": 256, "unroll": 8, "block_shape": "1d", "arithmetic": "rsqrt"},
    ranges={"p": ranges.THREADS, "unroll": ranges.UNROLL},
    when='p % unroll == 0 and (block_shape == "1d" or p == 256)',
    loads="n / p",
    operations=Operations(
        staging=("tile[threadIdx.x] = j < n ? bodies[j] : Body{};",), contributions=("pull(sums, self, tile[k], eps2)",)
    ),
)
def prepare(gpu, bodies, *, p, unroll, block_shape, arithmetic):
    """One thread per body, p threads per block and bodies per tile."""
    kernel = gpu.compile(
        printed.entry("lee_tiled", arithmetic),
        P=p,
        UNROLL=unroll,
        SQUARE=int(block_shape == "16x16"),
        ARITHMETIC=printed.ARITHMETIC.index(arithmetic),
    )
    return printed.over_rows(gpu, bodies, kernel, printed.blocks(bodies.n, p, block_shape), p)
