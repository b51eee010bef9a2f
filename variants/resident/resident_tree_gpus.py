"""Walk the tree on the GPUs of a host: each builds the whole tree and walks it for its share of the bodies.

Against resident_tree: the walk, which takes most of the time, is divided; the build is not. Groups of neighbours are
assigned to the GPUs in turn. In every evaluation, the bodies of the first GPU and the magnitudes of the previous
accelerations are copied to the others; the first GPU then collects all results. Events synchronize the streams, and the
host does not wait. GPUs without peer access to each other communicate through the host, and the record says so. With
gpus 1 it computes what resident_tree computes. Only CuPy supports several GPUs.
"""

import numpy as np

from gravbench.model.variant import Prepared, variant
from gravbench.variants.common import collected, several
from gravbench.variants.common.collected import P
from gravbench.variants.common.kernels import compiled
from gravbench.variants.resident import accuracy, counted, resident_share, tree_buffers, walk_parts


@variant(
    parent="resident_tree",
    source="Salmon 1991, a tree whose walks are divided among processors; here each GPU has the whole tree",
    axes={
        "gpus": several.VALUES,
        "theta": accuracy.THETAS,
        "opening": accuracy.OPENINGS,
        "part": accuracy.PARTS,
        "moments": accuracy.MOMENTS,
    },
    defaults={"gpus": 1} | {name: resident_share.DEFAULTS[name] for name in ("theta", "opening", "part", "moments")},
    ranges={"gpus": several.GPUS, "theta": accuracy.THETA, "part": accuracy.PART},
    approximates="a cell far away for its width, or for its part of the acceleration, acts as its moments",
    positive_masses=True,
    divides_crowds=True,
    tolerance=accuracy.of_axes,
    kernel_parts=walk_parts.PARTS,
)
def prepare(gpu, bodies, *, gpus, **chosen):
    """On each GPU as resident_tree does, with its defaults, but not as a graph."""
    n = bodies.n
    members = gpu.devices(gpus)
    own = gpu.upload(np.column_stack([bodies.position, bodies.mass]))
    accelerations = gpu.empty(n, 4)
    judged = chosen["opening"] == "acceleration"
    last = gpu.empty(n)  # lengths, which no GPU reads while they are written
    axes = resident_share.DEFAULTS | chosen
    number, once, grid = np.int32(n), np.int32(1), -(-n // P)
    parts = []

    def share_of(member, share):
        with member.current():
            there, update = several.seen(member, gpu, own)
            here = own if member is gpu else member.empty(n, 4)
            sums = accelerations if gpus == 1 else member.empty(n, 4)
            begin = compiled(member, "begin_share", P=P)
            part = resident_share.Share(member, bodies, here, sums, share=share, shares=gpus, **axes)
            parts.append(part)

        def queue():
            if gpus > 1:
                update()
                begin(grid, P, here, there, sums, number, once)
                if judged:
                    member.copy(part.last, last)
            part.evaluate(tree_buffers.no_lap)

        return queue, sums, part.kernels + (gpus > 1)

    shares = [share_of(member, share) for share, member in enumerate(members)]
    count = sum(one for _, _, one in shares)
    if gpus > 1:
        add = collected.adding(gpu, members, [sums for _, sums, _ in shares], accelerations, SHARES=gpus)
        lengths = compiled(gpu, "last_lengths", P=P)

    def finish():
        if gpus == 1:
            return
        add()
        if judged:
            lengths(grid, P, accelerations, last, number)

    launch = several.launched(members, [queue for queue, _, _ in shares], finish)
    if judged:
        # What is timed and judged has the accelerations of an evaluation before it, as all steps but the first.
        launch()
    return Prepared(
        launch,
        own,
        accelerations,
        parts[0].walk,
        insight=lambda: counted.insight(members, parts, n),
        kernels=count + (1 + judged) * (gpus > 1),
    )
