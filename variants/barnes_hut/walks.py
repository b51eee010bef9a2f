"""Walks of a tree of compact nodes on the CPU: accelerations, and how many interactions they take.

``WIDTH`` bodies walk together, each in one lane of a vector register. They open a node if one of them has to, so that
all of them do the same. The more bodies walk together, the more nodes are opened, which takes more interactions and
reduces the error. Width 1 is the walk of Bodin 2026, of each body by itself.
"""

import functools
from types import SimpleNamespace

import numpy as np

BLOCK = 64
"""Consecutive bodies per block of work. Workers take blocks in turn, because those in the dense centre of a cluster
take longer than those at its edge."""


COUNTED = 100_000
"""Most bodies that are all counted; of more, about as many are sampled."""


@functools.cache
def compiled(real, width):
    """Compile the walk for groups of ``width`` consecutive rows.

    With ``through_order`` the rows are in input order: body k of the tree is row ``order[k]``, and the acceleration
    of a row goes to the same row. Without, they are in Morton order, and the acceleration goes to row ``order[k]``.
    Either way accelerations come out in input order.
    """
    import numba

    one = real(1)
    half = real(0.5)
    nothing = real(0)
    fast = {"reassoc", "nsz", "arcp", "contract", "afn"}

    @numba.njit(error_model="numpy", fastmath=fast)
    def of_group(lanes, nodes, sources, order, through_order, eps2):
        """Walk once; ``lanes`` has ``width`` numbers each of x, y, z and of the acceleration along x, y, z."""
        node = 0
        while node >= 0:
            row = nodes[node]
            x, y, z = row.x, row.y, row.z
            open2 = row.open2
            too_near = 0
            for lane in range(width):
                dx = x - lanes[lane]
                dy = y - lanes[lane + width]
                dz = z - lanes[lane + 2 * width]
                too_near += dx * dx + dy * dy + dz * dz <= open2
            if too_near == 0:
                mass = row.mass
                for lane in range(width):
                    dx = x - lanes[lane]
                    dy = y - lanes[lane + width]
                    dz = z - lanes[lane + 2 * width]
                    inverse = one / (dx * dx + dy * dy + dz * dz + eps2) ** half
                    strength = mass * inverse * inverse * inverse
                    lanes[lane + 3 * width] += strength * dx
                    lanes[lane + 4 * width] += strength * dy
                    lanes[lane + 5 * width] += strength * dz
                node = row.next
            elif row.count == 0:
                node = row.begin
            else:
                for body in range(row.begin, row.begin + row.count):
                    source = order[body] if through_order else body
                    x, y, z, mass = sources[source, 0], sources[source, 1], sources[source, 2], sources[source, 3]
                    for lane in range(width):
                        dx = x - lanes[lane]
                        dy = y - lanes[lane + width]
                        dz = z - lanes[lane + 2 * width]
                        inverse = one / (dx * dx + dy * dy + dz * dz + eps2) ** half
                        strength = mass * inverse * inverse * inverse
                        lanes[lane + 3 * width] += strength * dx
                        lanes[lane + 4 * width] += strength * dy
                        lanes[lane + 5 * width] += strength * dz
                node = row.next

    @numba.njit(parallel=True, error_model="numpy")
    def walk(rows, nodes, order, through_order, eps2, accelerations, workers):
        """Walk all groups; the workers take blocks in turn."""
        n = rows.shape[0]
        blocks = (n + BLOCK - 1) // BLOCK
        for worker in numba.prange(workers):
            lanes = np.empty(6 * width, real)
            for block in range(worker, blocks, workers):
                for group in range(block * BLOCK, min(n, (block + 1) * BLOCK), width):
                    for lane in range(width):
                        body = min(group + lane, n - 1)
                        for axis in range(3):
                            lanes[lane + axis * width] = rows[body, axis]
                            lanes[lane + (3 + axis) * width] = nothing
                    of_group(lanes, nodes, rows, order, through_order, eps2)
                    for lane in range(min(width, n - group)):
                        body = group + lane if through_order else order[group + lane]
                        for axis in range(3):
                            accelerations[body, axis] = lanes[lane + (3 + axis) * width]

    return walk


@functools.cache
def counting():
    """Compile ``count``, the walk that counts instead of adding up forces."""
    import numba

    @numba.njit(parallel=True, error_model="numpy")
    def count(rows, nodes, width, counts):
        """Write per body, one row of ``counts`` each: nodes visited, nodes accepted, bodies of leaves."""
        n = rows.shape[0]
        for group in numba.prange((n + width - 1) // width):
            first, last = group * width, min(n, (group + 1) * width)
            visited = accepted = bodies = 0
            node = 0
            while node >= 0:
                row = nodes[node]
                visited += 1
                too_near = False
                for body in range(first, last):
                    dx = row.x - rows[body, 0]
                    dy = row.y - rows[body, 1]
                    dz = row.z - rows[body, 2]
                    too_near = too_near or dx * dx + dy * dy + dz * dz <= row.open2
                if not too_near:
                    accepted += 1
                    node = row.next
                elif row.count == 0:
                    node = row.begin
                else:
                    bodies += row.count
                    node = row.next
            for body in range(first, last):
                counts[body, 0], counts[body, 1], counts[body, 2] = visited, accepted, bodies

    return count


def interactions(rows, nodes, width):
    """Count what each body meets in a walk of ``width`` bodies together.

    Nodes visited, interactions with the centre of mass of a node, interactions with single bodies; each of shape (n,).
    """
    counts = np.empty((rows.shape[0], 3), np.int32)
    counting()(rows, nodes, width, counts)
    return SimpleNamespace(visits=counts[:, 0], cells=counts[:, 1], bodies=counts[:, 2])


def sample(rows, width):
    """Return about ``COUNTED`` of the bodies, in whole groups of ``width`` neighbours spread over all; all of fewer."""
    groups = rows.shape[0] // width
    stride = rows.shape[0] // COUNTED
    if stride < 2 or groups == 0:
        return rows
    return np.ascontiguousarray(rows[: groups * width].reshape(groups, -1)[::stride]).reshape(-1, rows.shape[1])


def interactions_a_body(rows, nodes, width):
    """Return the mean number of interactions per body, by kind."""
    met = interactions(sample(rows, width), nodes, width)
    return {"body_body": float(met.bodies.mean()), "body_cell": float(met.cells.mean())}


def overlap(rows, nodes, warp):
    """Return the overlap of the walks of a warp's bodies: visits needed by single bodies over visits of the whole warp.

    At 1 all bodies of a warp visit the same nodes. Below, a warp that walks together spends the rest of its visits on
    nodes that a body does not need. None with fewer bodies than a warp has threads.
    """
    whole = sample(rows, warp)[: rows.shape[0] // warp * warp]
    if not len(whole):
        return None
    alone = interactions(whole, nodes, 1).visits.sum(dtype=np.int64)
    together = interactions(whole, nodes, warp).visits.sum(dtype=np.int64)
    return float(alone / together)
