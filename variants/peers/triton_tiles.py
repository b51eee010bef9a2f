"""A program of Triton's adds up p x tile pairs at a time, and its rows at the end.

Against naive: the text says what a block does and not what a thread does. Triton hands the p x tile sums out to the
threads, so each has several bodies in registers and reads of a tile only its own columns: fewer loads an
interaction, as in register_blocked, and without shared memory. Expected: near register_blocked, at 14 instructions an
interaction for its 13. The sums of a row meet once, behind the loop.
"""

from gravbench.model.variant import variant
from gravbench.variants.common import layouts


def triton_kernel(triton, real, *, P, TILE):
    """Masks are for the last bodies: a column behind them has no mass."""
    language = triton.language
    rows, tile = language.constexpr(P), language.constexpr(TILE)

    @triton.jit
    def triton_tiles(x, y, z, mass, ax, ay, az, n, eps2):
        i = language.program_id(0) * rows + language.arange(0, rows)
        xi = language.load(x + i, mask=i < n, other=0)[:, None]
        yi = language.load(y + i, mask=i < n, other=0)[:, None]
        zi = language.load(z + i, mask=i < n, other=0)[:, None]
        softening = language.load(eps2)
        sum_x = language.zeros((rows, tile), x.dtype.element_ty)
        sum_y = language.zeros((rows, tile), x.dtype.element_ty)
        sum_z = language.zeros((rows, tile), x.dtype.element_ty)
        for first in range(0, n, tile):
            j = first + language.arange(0, tile)
            dx = language.load(x + j, mask=j < n, other=0)[None, :] - xi
            dy = language.load(y + j, mask=j < n, other=0)[None, :] - yi
            dz = language.load(z + j, mask=j < n, other=0)[None, :] - zi
            inverse = language.rsqrt(dx * dx + (dy * dy + (dz * dz + softening)))
            strength = language.load(mass + j, mask=j < n, other=0)[None, :] * inverse * (inverse * inverse)
            sum_x += strength * dx
            sum_y += strength * dy
            sum_z += strength * dz
        language.store(ax + i, language.sum(sum_x, axis=1), mask=i < n)
        language.store(ay + i, language.sum(sum_y, axis=1), mask=i < n)
        language.store(az + i, language.sum(sum_z, axis=1), mask=i < n)

    return triton_tiles


@variant(
    parent="naive",
    source="Triton's documentation: triton-lang.org, the tutorials and triton.language",
    axes={"p": (16, 32, 64, 128, 256), "tile": (16, 32, 64, 128), "warps": (1, 2, 4, 8)},
    defaults={"p": 64, "tile": 32, "warps": 4},
    when="p * tile <= 8192",
)
def prepare(gpu, bodies, *, p, tile, warps):
    """A program for p bodies, run by so many warps."""
    kernel = gpu.compile("triton_tiles", P=p, TILE=tile)
    return layouts.over_arrays(gpu, bodies, kernel, -(-bodies.n // p), 32 * warps)
