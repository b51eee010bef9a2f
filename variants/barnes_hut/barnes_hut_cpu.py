"""Approximate distant cells of an octree by their centres of mass, on the CPU: n log n interactions, not n * n.

Against numba_parallel: a body interacts with about a thousand cells instead of all bodies; theta sets how far away a
cell has to be. Every launch rebuilds the tree, as every step of a simulation does. Bodies in Morton order walk in
groups of ``width``, each body in one lane of a vector register. Without that order (``sort`` none, width 1), this is
the walk of Bodin 2026: only the index of the tree is sorted, and the bodies stay where they are.
"""

import numpy as np

from gravbench.model.variant import Prepared, Range, variant
from gravbench.variants.barnes_hut import accuracy, morton, nodes, tree, walks
from gravbench.variants.common import ranges


def cpu_kernel(numba, real, *, WIDTH):
    """Compile the walk; the functions that build the tree are compiled at the first launch."""
    return walks.compiled(real, WIDTH)


@variant(
    parent="numba_parallel",
    source="Barnes & Hut 1986, opening criterion of Barnes 1994; Bodin 2026, the tree code on the CPU",
    axes={
        "theta": accuracy.THETAS,
        "sort": ("none", "morton"),
        "width": (1, 8, 16, 32),
        "leaf_size": (1, 2, 4, 8, 16, 32),
        "bits": morton.BITS,
        "dim": (2, 3),
        "cores": ("one", "all"),
    },
    defaults={"theta": 0.7, "sort": "morton", "width": 32, "leaf_size": 16, "bits": 21, "dim": 3, "cores": "all"},
    ranges={
        "theta": accuracy.THETA,
        "width": Range(1, 64, "a worker takes 64 bodies at a time", divides=64),
        "leaf_size": ranges.COUNT,
        "bits": morton.RANGE,
    },
    when='(width == 1 or sort == "morton") and (theta <= 1.2 or dim == 2)',
    approximates="a cell farther away than its width / theta + offset acts as its centre of mass",
    positive_masses=True,
    tolerance=accuracy.of_axes,
)
def prepare(cpu, bodies, *, theta, sort, width, leaf_size, bits, dim, cores):
    """Build and walk with as many workers as there are threads with enough bodies each."""
    import numba

    threads = numba.config.NUMBA_NUM_THREADS if cores == "all" else 1
    workers = tree.workers(bodies.n, threads)
    walkers = min(threads, -(-bodies.n // walks.BLOCK))
    walk = cpu.compile("barnes_hut_cpu", WIDTH=width)
    rows = cpu.upload(np.column_stack([bodies.position, bodies.mass]))
    accelerations = cpu.empty(bodies.n, 3)
    eps2 = cpu.real(bodies.eps**2)
    grown = tree.Tree(bodies.n, cpu.real, dim=dim, bits=bits, leaf_size=leaf_size, workers=workers)
    compact = nodes.Nodes(grown, cpu.real, layout="compact", theta=theta, top_levels=0)
    in_input_order = sort == "none"
    walked = rows if in_input_order else grown.sorted_rows

    def evaluate(lap):
        with tree.threads(workers):
            grown.build(rows, lap)
            compact.write()
            lap("compact")
        with tree.threads(walkers):
            walk(walked, compact.rows, grown.order, in_input_order, eps2, accelerations, walkers)
            lap("traverse")

    return Prepared(
        lambda: evaluate(tree.no_lap),
        rows,
        accelerations,
        stages=evaluate,
        insight=lambda: {"computed": walks.interactions_a_body(walked, compact.rows, width)},
    )
