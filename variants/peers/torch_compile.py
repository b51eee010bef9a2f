"""All pairs as PyTorch array operations, which torch.compile fuses into one kernel.

Against naive: the same operations as cupy_broadcast, fused by TorchInductor, so no array of rows x n numbers exists and
the numbers of an interaction stay in registers. Expected: about the speed of naive, because its loops have no tiles and
a heuristic chooses the block size. Working on a block of rows keeps n x rows within 32-bit indices, and limits the
memory if an operation is not fused. There is no matrix product, so nothing is rounded to TF32.
"""

from gravbench.model.variant import variant
from gravbench.variants.common import layouts, ranges


def torch_kernel(torch, real, *, ROWS):
    """Compile the accelerations of a block of rows, and call that for each block."""
    # PyTorch keeps at most eight compiled forms per function; other values of n may have used them up.
    torch.compiler.reset()

    @torch.compile(fullgraph=True, dynamic=False)
    def pull(xi, yi, zi, ax, ay, az, x, y, z, mass, eps2):
        dx = x - xi[:, None]
        dy = y - yi[:, None]
        dz = z - zi[:, None]
        inverse = torch.rsqrt(dx * dx + (dy * dy + (dz * dz + eps2)))
        strength = mass * inverse * (inverse * inverse)
        ax.copy_((strength * dx).sum(1))
        ay.copy_((strength * dy).sum(1))
        az.copy_((strength * dz).sum(1))

    def torch_compile(x, y, z, mass, ax, ay, az, n, eps2):
        for first in range(0, n, ROWS):
            own = [column[first : first + ROWS] for column in (x, y, z, ax, ay, az)]
            pull(*own, x, y, z, mass, eps2)

    return torch_compile


@variant(
    parent="naive",
    source="PyTorch's documentation: docs.pytorch.org, torch.compile",
    axes={"rows": (256, 1024, 4096, 16384, 65536)},
    defaults={"rows": 4096},
    ranges={"rows": ranges.COUNT},
)
def prepare(gpu, bodies, *, rows):
    """Use separate arrays of x, y, z and mass."""
    kernel = gpu.compile("torch_compile", ROWS=rows)
    return layouts.over_arrays(gpu, bodies, kernel, kernels=-(-bodies.n // rows))
