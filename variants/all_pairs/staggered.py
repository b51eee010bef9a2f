"""Begin each block at another tile, so that the blocks do not all read the same tile at once.

Against tiled: a block begins with the tile of its own bodies and goes on with the first after the last. Only the order
of the work differs, which shows whether it matters.
"""

from gravbench.model.variant import Operations, variant
from gravbench.variants.common import layouts, ranges


@variant(
    parent="tiled",
    source="Lee 2008, phase IV: blocks that begin at different tiles",
    axes={"p": (16, 32, 64, 128, 256, 512, 1024), "unroll": (1, 2, 4, 8, 16, 32, 64, 128)},
    defaults={"p": 256, "unroll": 32},
    ranges={"p": ranges.THREADS, "unroll": ranges.UNROLL},
    when="p % unroll == 0",
    loads="n / p",
    any_interaction=True,
    operations=Operations(
        staging=("if (j < n) tile[threadIdx.x] = bodies[j];",),
        contributions=("interact(sums, self, tile[k], eps2)",),
    ),
)
def prepare(gpu, bodies, *, p, unroll):
    """One thread per body, p threads per block."""
    return layouts.one_thread_per_body(gpu, bodies, gpu.compile("staggered", P=p, UNROLL=unroll), p)
