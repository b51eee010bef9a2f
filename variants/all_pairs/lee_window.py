"""Sum over a window of the bodies, unscaled, as Lee printed it; from global memory or in tiles.

Against lee_tiled: a step sums over a fraction of the bodies, another one in each step. Unlike approximate_global and
approximate_tiled, the kernel does not scale the sum up to all bodies: their masses are uploaded 1 / fraction times as
heavy, so that the mean over a cycle of 1 / fraction steps is exact for bodies that do not move meanwhile. That is what
Lee's own factor on the masses is for.
"""

import itertools

import numpy as np

from gravbench.model.variant import Prepared, variant
from gravbench.variants.common import layouts, printed


@variant(
    parent="lee_tiled",
    source="Lee 2008, phases III and IV: a fraction of the bodies per step",
    axes={
        "staged": (0, 1),
        "fraction": layouts.FRACTIONS,
        "unroll": (1, 2, 4, 8, 16, 32),
        "arithmetic": printed.ARITHMETIC,
    },
    defaults={"staged": 0, "fraction": 0.5, "unroll": 8, "arithmetic": "rsqrt"},
    when="staged == 1 or unroll == 8",
    loads="fraction * n / (1 + 255 * staged)",
    approximates="a step counts a fraction of the pairs; a cycle of 1 / fraction steps counts each once",
)
def prepare(gpu, bodies, *, staged, fraction, unroll, arithmetic):
    """Blocks of 16 x 16 threads, one thread per body."""
    p = printed.COLUMNS**2
    kernel = gpu.compile(
        printed.entry("lee_window", arithmetic),
        P=p,
        STAGED=staged,
        UNROLL=unroll,
        ARITHMETIC=printed.ARITHMETIC.index(arithmetic),
    )
    cycle = min(round(1 / fraction), bodies.n)
    own, accelerations = printed.rows(gpu, bodies, heavier=cycle)
    grid = printed.blocks(bodies.n, p, "16x16")
    n, eps2 = np.int32(bodies.n), gpu.real(bodies.eps**2)
    edges = [np.int32(bodies.n * step // cycle) for step in range(cycle + 1)]
    windows = itertools.cycle(list(itertools.pairwise(edges)))
    return Prepared(
        lambda: kernel(grid, p, own, accelerations, n, eps2, *next(windows)), own, accelerations, kernel, cycle
    )
