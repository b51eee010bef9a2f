"""Build the tree on the host and walk it on the GPU, with each optimization of the hybrid step as an axis.

Against barnes_hut_cpu: the walk, nearly all of the work, has a hundred thousand threads. Each launch uploads the
bodies from the host and downloads the accelerations. The axes, from the first step of the path to the last: ``sort``,
bodies in input order or in Morton order; ``walk``, each thread by itself or a warp together; ``node``, full or
compact; ``top_levels`` of the tree in shared memory; ``memory``, pageable or pinned; ``streams``, with two the bodies
are uploaded while the tree is built; ``buffers``, device memory allocated in every step or kept.
"""

import numpy as np

from gravbench.model.variant import Prepared, variant
from gravbench.variants.barnes_hut import accuracy, gpu_walk, nodes, tree, walks
from gravbench.variants.common import ranges

BITS = 21
"""Bits of a Morton code per coordinate: ten, as in the source, merge distinct bodies at large n."""


def numba_kernel(cuda, real, interaction, *, P, COMPACT, WARP, TOP, SORTED, DIM):
    """Twin of barnes_hut.cu."""
    return gpu_walk.walk_kernel(cuda, real, P=P, COMPACT=COMPACT, WARP=WARP, TOP=TOP, SORTED=SORTED, DIM=DIM)


class Buffers:
    """Device memory of one evaluation."""

    def __init__(self, gpu, n, words):
        """Allocate for n bodies, and nodes of ``words`` words in all."""
        self.bodies = gpu.device_array((n, 4), gpu.real)
        self.order = gpu.device_array(n, np.int32)
        self.nodes = gpu.device_array(words, np.int32)
        self.accelerations = gpu.device_array((n, 4), gpu.real)


@variant(
    parent="barnes_hut_cpu",
    source="Bodin 2026, the hybrid; the walk of a warp: Burtscher & Pingali 2011",
    on_host=True,
    axes={
        "theta": accuracy.THETAS,
        "sort": gpu_walk.SORTS,
        "walk": gpu_walk.WALKS,
        "node": gpu_walk.NODES,
        "top_levels": (0, 1, 2, 3),
        "p": (64, 128, 256, 512),
        "memory": ("pageable", "pinned"),
        "streams": (1, 2),
        "buffers": ("per_step", "persistent"),
        "leaf_size": (1, 2, 4, 8, 16, 32),
        "dim": (2, 3),
    },
    defaults={
        "theta": 0.7,
        "sort": "morton",
        "walk": "warp",
        "node": "compact",
        "top_levels": 0,
        "p": 128,
        "memory": "pinned",
        "streams": 2,
        "buffers": "persistent",
        "leaf_size": 16,
        "dim": 3,
    },
    ranges={"theta": accuracy.THETA, "p": ranges.WARPS_OF_THREADS, "leaf_size": ranges.COUNT},
    when='(walk == "thread" or sort == "morton") and (theta <= 1.2 or dim == 2)',
    approximates="a cell farther away than its width / theta + offset acts as its centre of mass",
    positive_masses=True,
    tolerance=accuracy.of_axes,
)
def prepare(gpu, bodies, *, theta, sort, walk, node, top_levels, p, memory, streams, buffers, leaf_size, dim):
    """One thread per body, p threads per block; the tree is built on as many cores as make it faster."""
    import numba

    def allocate(shape, dtype):
        return gpu.host_array(shape, dtype, pinned=memory == "pinned")

    n = bodies.n
    workers = tree.workers(n, numba.config.NUMBA_NUM_THREADS)
    grown = tree.Tree(n, gpu.real, dim=dim, bits=BITS, leaf_size=leaf_size, workers=workers, allocate=allocate)
    written = nodes.Nodes(grown, gpu.real, layout=node, theta=theta, top_levels=top_levels, allocate=allocate)
    rows, accelerations = allocate((n, 4), gpu.real), allocate((n, 4), gpu.real)
    rows[:] = np.column_stack([bodies.position, bodies.mass])
    accelerations[:] = np.nan
    constants = gpu_walk.constants(p=p, node=node, walk=walk, sort=sort, top_levels=top_levels, dim=dim)
    kernel = gpu.compile("barnes_hut", **constants)
    walked = grown.sorted_rows if sort == "morton" else rows
    eps2, reach = gpu.real(bodies.eps**2), gpu.real(written.reach)
    grid = -(-n // p)
    of_tree = gpu.stream()
    of_bodies = gpu.stream() if streams == 2 else of_tree
    kept = Buffers(gpu, n, written.words.size) if buffers == "persistent" else None

    def evaluate(lap):
        device = kept

        def send_bodies():
            gpu.send(device.bodies, walked, of_bodies)
            gpu.send(device.order, grown.order, of_bodies)
            lap("upload")

        if device is None and streams == 2:
            # The number of nodes is not known yet: allocate for the largest possible.
            device = Buffers(gpu, n, written.words.size)
            lap("allocate")
        with tree.threads(workers):
            grown.build(rows, lap, send_bodies if streams == 2 else tree.nothing)
            written.write()
            lap("compact")
        words = written.words[: written.count * written.words_a_node]
        if device is None:
            device = Buffers(gpu, n, words.size)
            lap("allocate")
        if streams == 1:
            send_bodies()
        gpu.send(device.nodes, words, of_tree)
        if streams == 2:
            gpu.wait(of_bodies)
        lap("upload")
        sizes = np.int32(n), np.int32(written.top)
        kernel(
            grid, p, device.bodies, device.nodes, device.order, device.accelerations, *sizes, eps2, reach,
            stream=of_tree,
        )  # fmt: skip
        lap("traverse")
        gpu.fetch(accelerations, device.accelerations, of_tree)
        gpu.wait(of_tree)
        lap("download")
        device = None
        lap("free")

    def insight():
        compact = written
        if node != "compact":
            compact = nodes.Nodes(grown, gpu.real, layout="compact", theta=theta, top_levels=0)
            compact.write()
        sent = 4 * written.count * written.words_a_node + walked.nbytes + grown.order.nbytes
        return {
            "computed": walks.interactions_a_body(walked, compact.rows, gpu_walk.WARP if walk == "warp" else 1),
            "walk_overlap": walks.overlap(walked, compact.rows, gpu_walk.WARP),
            "stages_bytes": {"upload": sent, "download": accelerations.nbytes},
        }

    return Prepared(
        lambda: evaluate(tree.no_lap), rows, accelerations, kernel, on_host=True, stages=evaluate, insight=insight
    )
