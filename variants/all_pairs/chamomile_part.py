"""Sum bags of another number of bodies than are pulled: a part of all per launch, another part in each.

Against chamomile: n_i bodies are pulled by n_j, as CUNBODY-1's call takes them. Of n bodies all are pulled (n_i), by
``fraction`` * n of them (n_j); what pulls is uploaded 1 / fraction times as heavy, so that the mean over a cycle of
1 / fraction launches is exact for bodies that do not move meanwhile.
"""

import itertools

import numpy as np

from gravbench.model.variant import Prepared, variant
from gravbench.variants.common import layouts, printed


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
    loads="fraction * n / p",
    approximates="a launch counts a fraction of the pairs; a cycle of 1 / fraction launches counts each once",
)
def prepare(gpu, bodies, *, p, j_bag, unroll, fraction):
    """One thread per body, p threads per block."""
    kernel = gpu.compile("chamomile_part", P=p, J_BAG=j_bag, UNROLL=unroll)
    cycle = min(round(1 / fraction), bodies.n)
    own, accelerations = printed.rows(gpu, bodies, heavier=cycle)
    grid = printed.blocks(bodies.n, p, "1d")
    n, eps2 = np.int32(bodies.n), gpu.real(bodies.eps**2)
    edges = [np.int32(bodies.n * step // cycle) for step in range(cycle + 1)]
    windows = itertools.cycle(list(itertools.pairwise(edges)))
    return Prepared(
        lambda: kernel(grid, p, own, accelerations, n, eps2, *next(windows)), own, accelerations, kernel, cycle
    )
