"""Compute distances and sums on tensor cores, for bodies that are far enough apart.

Against symmetric: five of its 17 instructions per pair remain, because squared distances are a matrix product of
positions, and accelerations are one of r^-3 and positions. Positions are relative to the centre of 32 * r neighbouring
bodies, and float32 numbers are split into two FP16 numbers. Bodies that are too close are computed in float32. With
terms 1, r^-3 is one FP16 number for distant bodies, which are so many that rounding errors cancel; with terms 2, it is
always the sum of two. Of every eight inverse square roots, fma_roots are computed on the FMA pipe, in 11 instructions
instead of one. The axis cube has one value: in tensor, r^-3 is computed in float32, and in tensor_half in FP16.

The bodies of a block are consecutive on a Hilbert curve. Every ``reorder`` launches they are sorted into that order on
the GPU by CuPy; PyCUDA has no sort, and its cases are skipped with that reason. With ``reorder`` 0, the host orders the
bodies by a k-d tree during preparation, which is not timed. If bodies have moved since then, results stay accurate,
because each launch checks whether blocks are far apart. Additions in global memory occur in any order, so two launches
differ in their last bits. There is no Numba kernel, because Numba has no warp-level matrix product.
"""

from gravbench.model.variant import Prepared, Range, variant
from gravbench.variants.blocked import tensor_parts, tensor_share
from gravbench.variants.common import ranges


@variant(
    parent="symmetric",
    source="own; no earlier use for gravity is known; squared distances as matrix products are common elsewhere",
    axes={
        "p": (32, 64),
        "r": (0, 2, 4),
        "terms": (1, 2),
        "cube": ("float32",),
        "fma_roots": (0, 1),
        "unroll": (1, 2, 4),
        "together": (1, 2),
        "separation": (1.1, 1.2, 1.35, 1.5, 2.0, 3.0),
        "parts": (0, 1, 2, 4, 8, 16, 32, 64, 128),
        "copies": (0, 1, 2, 4, 8, 16, 32),
        "warps": (0, 8, 12, 16, 20, 24),
        "reorder": (0, 1, 4, 16),
    },
    defaults=tensor_share.DEFAULTS,
    ranges={
        "p": Range(32, 128, "whole warps; 48 KB of shared memory", step=32),
        "r": Range(2, 20, "64 bodies meet at a time; 48 KB of shared memory", step=2),
        "fma_roots": Range(0, 8, "of eight square roots"),
        "unroll": Range(1, 4, "the loop has four iterations"),
        "together": Range(1, 2, "more would not fit into the registers"),
        "separation": tensor_share.SEPARATION,
        "parts": ranges.PARTS,
        "copies": ranges.COPIES,
        "warps": ranges.WARPS,
        "reorder": Range(1, 1_000_000, "launches from one ordering to the next"),
    },
    when="p // 32 * (2048 * (r or 4) + 4192) <= 49152",
    dtypes=("float32",),
    of_positions=lambda axes: axes.get("reorder") != 1,
    loads="n / (64 * (r or (4 if n > 50000 else 2)))",
    positive_masses=True,
    mutual="meet",
    operations=tensor_parts.OPERATIONS,
    kernel_parts=tensor_parts.PARTS,
)
def prepare(gpu, bodies, **axes):
    """One warp per part of each line of pairs of blocks; 0 of r, parts, copies or warps: chosen for n and device."""
    own = gpu.upload(gpu.interaction.rows(bodies.position, bodies.velocity, bodies.mass))
    accelerations = gpu.empty(bodies.n, 4)
    whole = tensor_share.Share(gpu, bodies, own, accelerations, **axes)
    return Prepared(
        lambda: whole.evaluate(tensor_share.no_lap),
        own,
        accelerations,
        whole.kernel,
        stages=whole.evaluate,
        kernels=whole.order.kernels,
    )
