"""Sum bags of another number of bodies than are pulled: a part of all per launch, another part in each.

Against chamomile: n_i bodies are pulled by n_j, as CUNBODY-1's call takes them. Of n bodies all are pulled (n_i), by
``fraction`` * n of them (n_j); the sum is scaled up to all, so that the mean over a cycle of 1 / fraction launches is
exact for bodies that do not move meanwhile.
"""

from gravbench.model.variant import variant
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
)
def prepare(gpu, bodies, *, p, j_bag, unroll, fraction):
    """One thread per body, p threads per block."""
    kernel = gpu.compile("chamomile_part", P=p, J_BAG=j_bag, UNROLL=unroll)
    return layouts.window_per_step(gpu, bodies, kernel, p, fraction)
