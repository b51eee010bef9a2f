"""Pass bodies around the warp by shuffles instead of staging them in shared memory.

Against register_blocked: no tile and no barrier, but a body takes four shuffles, one per number, instead of one
16-byte load from shared memory. Expected: slower by 3 / r issue slots per interaction. There is no Numba kernel,
because Numba's simulator has no shuffles.
"""

from gravbench.model.variant import Operations, variant
from gravbench.variants.blocked import blocks
from gravbench.variants.common import layouts, ranges


@variant(
    parent="register_blocked",
    source="NVIDIA, CUDA C++ Programming Guide, warp shuffle functions",
    axes={
        "p": (32, 64, 128, 256, 512),
        "r": (1, 2, 4, 8, 16),
        "unroll": (1, 2, 4, 8, 16, 32),
        "warps": blocks.WARPS,
    },
    defaults={"p": 128, "r": 4, "unroll": 32, "warps": 0},
    ranges={"p": ranges.WARPS_OF_THREADS, "r": ranges.BODIES, "warps": ranges.WARPS},
    when='toolkit != "wgpu" or warps == 0',  # WGSL has no bound on registers
    loads="n / (32 * r)",
    operations=Operations(contributions=("interact(sums[b], own[b], j, eps2)",)),
)
def prepare(gpu, bodies, *, p, r, unroll, warps):
    """Blocks of p threads for p * r bodies each."""
    resident = blocks.resident(p, blocks.warps_for(gpu.real, r, warps))
    kernel = gpu.compile("shuffle", P=p, R=r, UNROLL=unroll, RESIDENT=resident)
    return layouts.one_thread_per_body(gpu, bodies, kernel, p * r, block=(p, 1))
