"""Read bodies from one interleaved array, as single numbers or as float4, with divisions.

Against naive: phase II as Lee 2008 printed it, with blocks of 256 threads in a line. ``width`` 1 reads the four numbers
of a body one by one from an array of rows, 4 reads them together. ``block_shape`` 16x16 came in phase III: a block of
16 x 16 threads covers 16 short rows of bodies that are far apart.
``arithmetic`` takes a square root and divides, where naive takes one inverse square root.
"""

from gravbench.model.variant import Operations, variant
from gravbench.variants.common import printed, ranges


@variant(
    parent="naive",
    source="Lee 2008, phase II: float and float4; phase III: blocks of 16 x 16",
    axes={
        "p": (64, 128, 256, 512),
        "width": (1, 4),
        "block_shape": printed.SHAPES,
        "arithmetic": printed.ARITHMETIC,
    },
    defaults={"p": 256, "width": 1, "block_shape": "1d", "arithmetic": "rsqrt"},
    ranges={"p": ranges.THREADS},
    when='block_shape == "1d" or p == 256',
    loads="4 / width * n",
    operations=Operations(contributions=("pull(sums, self, bodies[j], eps2)",)),
)
def prepare(gpu, bodies, *, p, width, block_shape, arithmetic):
    """One thread per body, p threads per block."""
    kernel = gpu.compile(
        printed.entry("lee_global", arithmetic),
        P=p,
        WIDTH=width,
        SQUARE=int(block_shape == "16x16"),
        ARITHMETIC=printed.ARITHMETIC.index(arithmetic),
    )
    return printed.over_rows(gpu, bodies, kernel, printed.blocks(bodies.n, p, block_shape), p)
