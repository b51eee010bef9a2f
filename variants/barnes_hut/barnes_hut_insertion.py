"""Build the tree by inserting body after body, with one body per leaf, and walk it body by body, on the CPU.

Against barnes_hut_cpu: the textbook's tree code, from which Bodin 2026 has its times of a CPU. Cells are opened where
their width over the distance of their centre of mass is not below theta, and each walk keeps a stack of cells.
``sort`` is the order in which bodies are inserted and walk: that of the input, or of Morton codes, which are sorted by
radix or by one of NumPy's comparison sorts. One core inserts; ``cores`` is how many sort by radix and walk.
"""

import numpy as np

from gravbench.model.variant import Prepared, variant
from gravbench.variants.barnes_hut import accuracy, inserted, insertion, morton, tree


def cpu_kernel(numba, real, *, DIM):
    """Compile the walk; the functions that build the tree are compiled at the first launch."""
    return insertion.compiled(real, DIM).walk


@variant(
    parent="barnes_hut_cpu",
    source="Bodin 2026, the tree code on the CPU as described, and its sorts; Barnes & Hut 1986",
    axes={
        "theta": accuracy.THETAS,
        "sort": insertion.SORTS,
        "bits": morton.BITS,
        "dim": (2, 3),
        "cores": ("one", "all"),
    },
    defaults={"theta": 0.7, "sort": "none", "bits": 10, "dim": 3, "cores": "all"},
    ranges={"theta": accuracy.THETA_OF_WIDTH, "bits": morton.RANGE},
    when='bits == 10 or sort != "none"',
    approximates="a cell farther away than its width / theta acts as its centre of mass",
    positive_masses=True,
    tolerance=inserted.tolerance,
)
def prepare(cpu, bodies, *, theta, sort, bits, dim, cores):
    """Sort with as many workers as have enough bodies each, insert with one, and walk with all."""
    import numba

    threads = numba.config.NUMBA_NUM_THREADS if cores == "all" else 1
    workers = tree.workers(bodies.n, threads)
    walkers = min(threads, -(-bodies.n // insertion.BLOCK))
    walk = cpu.compile("barnes_hut_insertion", DIM=dim)
    rows = cpu.upload(np.column_stack([bodies.position, bodies.mass]))
    accelerations = cpu.empty(bodies.n, 3)
    eps2 = cpu.real(bodies.eps**2)
    grown = insertion.Inserted(bodies.n, cpu.real, dim=dim, bits=bits, theta=theta, sort=sort, workers=workers)
    met = np.zeros((walkers, 2), np.int64)

    def evaluate(lap):
        with tree.threads(workers):
            grown.build(rows, lap)
        with tree.threads(walkers):
            walk(grown.walked, grown.order, grown.parts, grown.following, grown.cells, eps2, accelerations, met)
            lap("traverse")

    def insight():
        cells, single = met.sum(axis=0) / bodies.n
        return {"computed": {"body_body": float(single), "body_cell": float(cells)}}

    return Prepared(lambda: evaluate(tree.no_lap), rows, accelerations, stages=evaluate, insight=insight)
