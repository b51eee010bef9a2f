"""Sum over a window of the bodies with 16 x 16 blocks, without scaling the sum, as Lee printed it.

Against lee_tiled: a step sums over a fraction of the bodies, a different one in each step, from global memory or in
tiles. With ``scaled`` 0, the sum of a step covers only its window, so a cycle of 1 / fraction steps adds up to what one
step of the other variants computes; with 1, it is scaled up to all bodies, as in approximate_global.
"""

from gravbench.model.variant import DIRECT_SUM, Operations, Range, Tolerance, variant
from gravbench.variants.common import layouts, printed, ranges


def tolerance(axes):
    """Return the tolerance of each number type: a sum that is not scaled lacks all but a fraction."""
    lacks = 0 if axes["scaled"] else 1 - axes["fraction"]
    return {dtype: Tolerance(max=lacks + own.max, rms=lacks + own.rms) for dtype, own in DIRECT_SUM.items()}


@variant(
    parent="lee_tiled",
    source="Lee 2008, phases III and IV: a fraction of the bodies per step",
    axes={
        "staged": (0, 1),
        "fraction": layouts.FRACTIONS,
        "scaled": (0, 1),
        "unroll": (1, 2, 4, 8, 16, 32),
        "arithmetic": printed.ARITHMETIC,
    },
    defaults={"staged": 0, "fraction": 0.5, "scaled": 1, "unroll": 8, "arithmetic": "rsqrt"},
    ranges={"fraction": ranges.FRACTION, "unroll": Range(1, 256, "a tile has 256 bodies")},
    when="staged == 1 or unroll == 8",
    loads="fraction * n / (1 + 255 * staged)",
    approximates="a step counts a fraction of the pairs; a cycle of 1 / fraction steps counts each once",
    tolerance=tolerance,
    operations=Operations(
        staging=("tile[threadIdx.x] = j < last ? bodies[j] : Body{};",),
        contributions=(
            "pull(sums, self, tile[k], eps2)",
            "pull(sums, self, bodies[j], eps2)",
        ),
    ),
)
def prepare(gpu, bodies, *, staged, fraction, scaled, unroll, arithmetic):
    """Blocks of 16 x 16 threads, one thread per body."""
    p = printed.COLUMNS**2
    kernel = gpu.compile(
        printed.entry("lee_window", arithmetic),
        P=p,
        STAGED=staged,
        SCALED=scaled,
        UNROLL=unroll,
        ARITHMETIC=printed.ARITHMETIC.index(arithmetic),
    )
    return printed.over_windows(gpu, bodies, kernel, printed.blocks(bodies.n, p, "16x16"), p, fraction)
