"""Walk a tree with the original opening criterion, width / distance below theta, one thread per body.

Against barnes_hut: what Bodin 2026 describes. A cell is judged only by its width and the distance of its centre of
mass. Morton codes may have 10 bits. ``order`` stores the nodes in the order in which inserting body after body would
create them. Up to four levels of the tree, 85 nodes in two dimensions, are kept in shared memory. Memory is pinned,
buffers are kept, and the bodies are uploaded on a separate stream while the tree is built.
"""

import numpy as np

from gravbench.model.variant import Prepared, Range, variant
from gravbench.variants.barnes_hut import accuracy, gpu_walk, inserted, morton, tree, walks
from gravbench.variants.common import ranges


def numba_kernel(cuda, real, interaction, *, P, COMPACT, TOP, SORTED, DIM):
    """Twin of barnes_hut_classic.cu."""
    return gpu_walk.walk_kernel(cuda, real, P=P, COMPACT=COMPACT, WARP=0, TOP=TOP, SORTED=SORTED, DIM=DIM)


@variant(
    parent="barnes_hut",
    source="Bodin 2026, the hybrid as described: s / d < theta, insertion, two dimensions; Barnes & Hut 1986",
    on_host=True,
    axes={
        "theta": accuracy.THETAS,
        "sort": gpu_walk.SORTS,
        "node": gpu_walk.NODES,
        "order": inserted.ORDERS,
        "top_levels": (0, 1, 2, 3, 4),
        "p": (64, 128, 256, 512),
        "leaf_size": (1, 2, 4, 8, 16, 32),
        "bits": morton.BITS,
        "dim": (2, 3),
    },
    defaults={
        "theta": 0.7,
        "sort": "morton",
        "node": "compact",
        "order": "depth_first",
        "top_levels": 0,
        "p": 128,
        "leaf_size": 1,
        "bits": 10,
        "dim": 3,
    },
    ranges={
        "theta": accuracy.THETA_OF_WIDTH,
        "top_levels": Range(0, 5, "48 KB of shared memory"),
        "p": ranges.THREADS,
        "leaf_size": ranges.COUNT,
        "bits": morton.RANGE,
    },
    when="top_levels <= 4 or dim == 2",
    approximates="a cell farther away than its width / theta acts as its centre of mass",
    positive_masses=True,
    tolerance=inserted.tolerance,
)
def prepare(gpu, bodies, *, theta, sort, node, order, top_levels, p, leaf_size, bits, dim):
    """One thread per body, p threads per block; the tree is built on as many cores as make it faster."""
    import numba

    def allocate(shape, dtype):
        return gpu.host_array(shape, dtype, pinned=True)

    n = bodies.n
    workers = tree.workers(n, numba.config.NUMBA_NUM_THREADS)
    grown = tree.Tree(n, gpu.real, dim=dim, bits=bits, leaf_size=leaf_size, workers=workers, allocate=allocate)
    written = inserted.Nodes(
        grown, gpu.real, layout=node, theta=theta, top_levels=top_levels, order=order, allocate=allocate
    )
    rows, accelerations = allocate((n, 4), gpu.real), allocate((n, 4), gpu.real)
    rows[:] = np.column_stack([bodies.position, bodies.mass])
    accelerations[:] = np.nan
    kernel = gpu.compile(
        "barnes_hut_classic",
        P=p,
        COMPACT=int(node == "compact"),
        TOP=inserted.top_nodes(top_levels, dim),
        SORTED=int(sort == "morton"),
        DIM=dim,
    )
    walked = grown.sorted_rows if sort == "morton" else rows
    eps2, reach = gpu.real(bodies.eps**2), gpu.real(written.reach)
    grid = -(-n // p)
    of_tree, of_bodies = gpu.stream(), gpu.stream()
    on_device = gpu.device_array((n, 4), gpu.real)
    order_on_device = gpu.device_array(n, np.int32)
    nodes_on_device = gpu.device_array(written.words.size, np.int32)
    found = gpu.device_array((n, 4), gpu.real)

    def evaluate(lap):
        def send_bodies():
            gpu.send(on_device, walked, of_bodies)
            gpu.send(order_on_device, grown.order, of_bodies)

        with tree.threads(workers):
            grown.build(rows, lap, send_bodies)
            written.write()
            lap("compact")
        gpu.send(nodes_on_device, written.words[: written.count * written.words_a_node], of_tree)
        gpu.wait(of_bodies)
        lap("upload")
        sizes = np.int32(n), np.int32(written.top)
        kernel(grid, p, on_device, nodes_on_device, order_on_device, found, *sizes, eps2, reach, stream=of_tree)
        lap("traverse")
        gpu.fetch(accelerations, found, of_tree)
        gpu.wait(of_tree)
        lap("download")

    def insight():
        compact = inserted.Nodes(grown, gpu.real, layout="compact", theta=theta, top_levels=0, order="depth_first")
        compact.write()
        sent = 4 * written.count * written.words_a_node + walked.nbytes + grown.order.nbytes
        return {
            "computed": walks.interactions_a_body(walked, compact.rows, 1),
            "walk_overlap": walks.overlap(walked, compact.rows, gpu_walk.WARP),
            "stages_bytes": {"upload": sent, "download": accelerations.nbytes},
        }

    return Prepared(
        lambda: evaluate(tree.no_lap), rows, accelerations, kernel, on_host=True, stages=evaluate, insight=insight
    )
