"""Let only some of the bodies pull in each launch, a different part each time, summed in bags.

Against chamomile: the numbers of pulled and pulling bodies differ, as in a call of CUNBODY-1. All n bodies are pulled
(n_i), by ``fraction`` * n of them (n_j). The sum is scaled up to all bodies, so the mean over a cycle of 1 / fraction
launches is exact if the bodies do not move meanwhile.
"""

from gravbench.model.variant import Operations, variant
from gravbench.variants.common import layouts, ranges


@variant(
    parent="chamomile",
    source="Hamada & Iitaka 2007, force(xj, mj, xi, eps2, a, ni, nj) with ni other than nj",
    axes={
        "p": (64, 128, 256, 512),
        "j_bag": (64, 128, 256, 512, 1024),
        "unroll": (1, 2, 4, 8, 16, 32),
        "fraction": layouts.FRACTIONS,
    },
    defaults={"p": 256, "j_bag": 512, "unroll": 16, "fraction": 0.5},
    ranges={"p": ranges.THREADS, "j_bag": ranges.BAG, "unroll": ranges.UNROLL, "fraction": ranges.FRACTION},
    when="j_bag % unroll == 0",
    loads="fraction * n / p",
    approximates="a launch counts a fraction of the pairs; a cycle of 1 / fraction launches counts each once",
    operations=Operations(
        staging=("if (first + k < last) bag[k] = bodies[first + k];",),
        contributions=("interact(current, self, bag[k], eps2)",),
    ),
)
def prepare(gpu, bodies, *, p, j_bag, unroll, fraction):
    """One thread per body, p threads per block."""
    kernel = gpu.compile("chamomile_part", P=p, J_BAG=j_bag, UNROLL=unroll)
    return layouts.window_per_step(gpu, bodies, kernel, p, fraction)
