"""Compute each pair once and add it to both bodies with opposite signs (Newton's third law).

Against register_blocked: 17 instructions per pair instead of 26. A warp keeps 32 * r bodies in registers; the sums
of its partners travel around the warp, and one addition per partner adds them to global memory after 32 steps.
These additions occur in any order, so two launches differ in their last bits; with deterministic 1, partial sums are
stored and added in a fixed order instead. With equal_mass 1, a warp whose bodies all have the same mass multiplies by
it at the end: 15 instructions per pair. There is no Numba kernel, because Numba's simulator has no shuffles.
"""

import numpy as np

from gravbench.model.variant import Prepared, Range, variant
from gravbench.variants.blocked import blocks, operations
from gravbench.variants.common import ranges
from gravbench.variants.common.kernels import compiled

LONGEST = 256
"""Most groups of 32 bodies per part: the rounding error of a sum grows with its length, and more parts cost little."""

ADDITIONS = 512
"""Most atomic additions to one copy of a body's sums, for the same reason."""

SMALL = 8192
"""Up to so many bodies, four per thread are faster than eight, because they make more warps."""

PARTIAL_BYTES = 1 << 30
"""Most memory for the separate sums of travelling bodies; the rings are cut into slabs that fit."""


@variant(
    parent="register_blocked",
    source="Newton's third law; used on CPUs since Aarseth 1963",
    axes={
        "p": (32, 64, 128, 256),
        "r": (0, 1, 2, 4, 8, 16),
        "unroll": (1, 2, 4, 8, 16, 32),
        "travel": ("shuffle", "shared"),
        "equal_mass": (0, 1),
        "deterministic": (0, 1),
        "gather": (0, 1),
        "copies": (0, 1, 2, 4, 8, 16, 32),
        "parts": (0, 1, 2, 4, 8, 10, 16, 20, 32, 33, 41, 64, 66, 82, 128, 132, 264),
        "warps": blocks.WARPS,
    },
    defaults={
        "p": 128,
        "r": 0,
        "unroll": 8,
        "travel": "shared",
        "equal_mass": 0,
        "deterministic": 0,
        "gather": 1,
        "copies": 0,
        "parts": 0,
        "warps": 0,
    },
    # WebGPU has no additions of float32 to memory that others add to, and no subgroups of a certain size.
    defaults_on={"wgpu": {"p": 32, "deterministic": 1}},
    ranges={
        "p": Range(32, 384, "whole warps; 48 KB of shared memory in float64", step=32),
        "r": ranges.BODIES,
        "copies": ranges.COPIES,
        "parts": ranges.PARTS,
        "warps": ranges.WARPS,
    },
    when=(
        'toolkit != "wgpu" or (p == 32 and travel == "shared" and equal_mass == 0 and deterministic == 1'
        " and gather == 1 and copies == 0 and warps == 0)"
    ),
    mutual=True,
    operations=operations.SYMMETRIC,
    loads="n / (64 * (r or (8 if n > 8192 else 4)))",
)
def prepare(gpu, bodies, *, p, r, unroll, travel, equal_mass, deterministic, gather, copies, parts, warps):
    """One warp per part of each block of 32 * r bodies; 0 of r, parts or copies: chosen for n and the device."""
    n = bodies.n
    r = r or (8 if n > SMALL else 4)
    warps = blocks.warps_for(gpu.real, r, warps)
    constants = {
        "P": p,
        "R": r,
        "UNROLL": unroll,
        "RESIDENT": blocks.resident(p, warps),
        "SHARED": int(travel == "shared"),
        "EQUAL": equal_mass,
        "DETERMINISTIC": deterministic,
        "GATHER": gather,
    }
    kernel = compiled(gpu, "symmetric", **constants)
    other = compiled(gpu, "symmetric_add" if deterministic else "symmetric_clear", **constants)
    join = compiled(gpu, "symmetric_join", **constants)

    count = -(-n // (32 * r))
    ring = r * (1 + count // 2)
    slab = ring
    if deterministic:
        slab = min(ring, max(1, PARTIAL_BYTES // (count * 32 * 4 * np.dtype(gpu.real).itemsize)))
    # All warps of a CUDA block have the same bodies.
    together = max(1, p // 32)
    most = slab if deterministic else slab * (32 // unroll) // 2
    at_once = gpu.multiprocessors * warps // together
    if parts:
        parts = -(-parts // together)
    else:
        most = max(1, most // together)
        parts = blocks.parts_for(count, most, at_once)
        parts = max(parts, min(most, -(-ring // (LONGEST * together))))
    parts *= together
    grid = count * parts // together

    own = gpu.upload(gpu.interaction.rows(bodies.position, bodies.velocity, bodies.mass))
    accelerations = gpu.empty(n, 4)
    copies = 1 if deterministic else copies or blocks.power_of_two(count / 2 / ADDITIONS, 32)
    sums = gpu.empty(copies * n, 4) if copies > 1 else accelerations
    ours = gpu.empty(count * parts * 32 * r if deterministic else 1, 4)
    theirs = gpu.empty(count * slab * 32 if deterministic else 1, 4)
    number, eps2, parts, copies = np.int32(n), gpu.real(bodies.eps**2), np.int32(parts), np.int32(copies)
    slabs = [(np.int32(first), np.int32(min(first + slab, ring))) for first in range(0, ring, slab)]
    whole_grid = -(-n // p)

    def launch():
        if not deterministic:
            other(whole_grid, p, sums, number, copies)
        for first, last in slabs:
            kernel(grid, p, own, sums, number, eps2, parts, first, last, copies, ours, theirs)
            if deterministic:
                other(whole_grid, p, accelerations, number, parts, first, last, ours, theirs)
        if copies > 1:
            join(whole_grid, p, accelerations, sums, number, copies)

    return Prepared(launch, own, accelerations, kernel)
