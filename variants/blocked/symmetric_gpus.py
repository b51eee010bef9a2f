"""Divide the pairs of symmetric among the GPUs of a host, each of which has sums for all bodies.

Against symmetric: on each GPU, every block of bodies meets a share of the ring of blocks, so that all GPUs have equal
work. The first GPU then reads the sums of all GPUs and adds them up. In every evaluation, its bodies are copied to the
others. Events synchronize the streams, and the host does not wait. GPUs without peer access to each other communicate
through the host, and the record says so. With gpus 1 it computes what symmetric computes. Only CuPy supports several
GPUs.
"""

import numpy as np

from gravbench.model.variant import Prepared, Range, variant
from gravbench.variants.blocked import blocks, operations
from gravbench.variants.common import collected, ranges, several
from gravbench.variants.common.kernels import compiled

LONGEST = 256
"""Most groups of 32 bodies per part: the rounding error of a sum grows with its length, and more parts cost little."""

ADDITIONS = 512
"""Most atomic additions of one GPU to one copy of a body's sums, for the same reason."""

SMALL = 8192
"""Up to so many bodies, four per thread are faster than eight, because they make more warps."""


@variant(
    parent="symmetric",
    source="Plimpton 1995, atom decomposition with Newton's third law",
    axes={
        "gpus": several.VALUES,
        "p": (32, 64, 128, 256),
        "r": (0, 1, 2, 4, 8, 16),
        "unroll": (1, 2, 4, 8, 16, 32),
        "equal_mass": (0, 1),
        "copies": (0, 1, 2, 4, 8, 16, 32),
        "parts": (0, 1, 2, 4, 8, 16, 32, 64, 128),
    },
    defaults={"gpus": 1, "p": 128, "r": 0, "unroll": 8, "equal_mass": 0, "copies": 0, "parts": 0},
    ranges={
        "gpus": several.GPUS,
        "p": Range(32, 384, "whole warps; 48 KB of shared memory in float64", step=32),
        "r": ranges.BODIES,
        "copies": ranges.COPIES,
        "parts": ranges.PARTS,
    },
    loads="n / (64 * (r or (8 if n > 8192 else 4)))",
    mutual=True,
    operations=operations.SYMMETRIC,
)
def prepare(gpu, bodies, *, gpus, p, r, unroll, equal_mass, copies, parts):
    """On each GPU as symmetric does; 0 of r, parts or copies: chosen for n, the device and the number of GPUs."""
    n = bodies.n
    r = r or (8 if n > SMALL else 4)
    warps = blocks.warps_for(gpu.real, r, 0)
    count = -(-n // (32 * r))
    members = gpu.devices(gpus)
    spans = several.spans(several.ring_edges(count, r, gpus))
    members = members[: len(spans)]
    constants = {
        "P": p,
        "R": r,
        "UNROLL": unroll,
        "RESIDENT": blocks.resident(p, warps),
        "SHARED": 1,
        "EQUAL": equal_mass,
        "DETERMINISTIC": 0,
        "GATHER": 1,
    }

    together = max(1, p // 32)
    ring = max(last - first for first, last in spans)
    if parts:
        parts = -(-parts // together)
    else:
        most = max(1, ring * (32 // unroll) // 2 // together)
        parts = blocks.parts_for(count, most, gpu.multiprocessors * warps // together)
        parts = max(parts, min(most, -(-ring // (LONGEST * together))))
    parts *= together
    grid, whole_grid = count * parts // together, -(-n // p)

    own = gpu.upload(gpu.interaction.rows(bodies.position, bodies.velocity, bodies.mass))
    accelerations = gpu.empty(n, 4)
    copies = copies or blocks.power_of_two(count / 2 / len(spans) / ADDITIONS, 32)
    alone = copies == len(spans) == 1
    number, eps2, parts, copies = np.int32(n), gpu.real(bodies.eps**2), np.int32(parts), np.int32(copies)
    kernels = []

    def share_of(member, span):
        with member.current():
            first, last = map(np.int32, span)
            begin = compiled(member, "begin_share", P=p)
            kernel = compiled(member, "symmetric", **constants)
            kernels.append(kernel)
            there, update = several.seen(member, gpu, own)
            here = own if member is gpu else member.empty(n, 4)
            sums = accelerations if alone else member.empty(int(copies) * n, 4)

        def share():
            update()
            begin(whole_grid, p, here, there, sums, number, copies)
            # What it would take in DETERMINISTIC 1 is not read.
            kernel(grid, p, here, sums, number, eps2, parts, first, last, copies, sums, sums)

        return share, sums

    shares = [share_of(member, span) for member, span in zip(members, spans, strict=True)]
    if alone:
        return Prepared(shares[0][0], own, accelerations, kernels[0], kernels=2)
    sums = [sums for _, sums in shares]
    finish = collected.adding(gpu, members, sums, accelerations, copies=copies, SHARES=len(spans))
    launch = several.launched(members, [share for share, _ in shares], finish)
    return Prepared(launch, own, accelerations, kernels[0], kernels=2 + 2 * len(members))
