"""A Gluon program that assigns pairs to threads: r bodies per thread, all columns of a tile from shared memory.

Against triton_tiles: the program chooses the layouts and what is staged in shared memory. A thread has r bodies and
all columns of a tile, so the sums of a row never leave their thread, and the threads of a warp read the same words of
shared memory. Expected: the 13 instructions per interaction of register_blocked, plus 1 / r for reading shared memory.
"""

from gravbench.model.variant import variant
from gravbench.variants.common import layouts


def triton_kernel(triton, real, *, R, TILE, WARPS):
    """A block stages a body per thread; a column beyond the last body has mass 0."""
    gluon = triton.experimental.gluon
    language = gluon.language
    rows, tile = language.constexpr(32 * WARPS * R), language.constexpr(TILE)
    staged, tiles = language.constexpr(32 * WARPS), language.constexpr(32 * WARPS // TILE)
    pairs = language.constexpr(language.BlockedLayout([R, TILE], [32, 1], [WARPS, 1], [1, 0]))
    of_row = language.constexpr(language.SliceLayout(1, pairs.value))
    of_column = language.constexpr(language.SliceLayout(0, pairs.value))
    each = language.constexpr(language.BlockedLayout([1], [32], [WARPS], [0]))
    shared = language.constexpr(language.SwizzledSharedLayout(1, 1, 1, [0]))

    @gluon.jit
    def stage(buffer, values, j, n):
        flat = buffer._reinterpret(buffer.dtype, [staged], shared)
        flat.store(language.load(values + j, mask=j < n, other=0.0))

    @gluon.jit
    def column(buffer, k):
        return language.expand_dims(buffer.index(k).load(of_column), 0)

    @gluon.jit
    def gluon_tiles(x, y, z, mass, ax, ay, az, n, eps2):
        i = language.program_id(0) * rows + language.arange(0, rows, of_row)
        xi = language.expand_dims(language.load(x + i, mask=i < n, other=0.0), 1)
        yi = language.expand_dims(language.load(y + i, mask=i < n, other=0.0), 1)
        zi = language.expand_dims(language.load(z + i, mask=i < n, other=0.0), 1)
        softening = language.load(eps2)
        real = x.dtype.element_ty
        sum_x = language.full((rows, tile), 0.0, real, pairs)
        sum_y = language.full((rows, tile), 0.0, real, pairs)
        sum_z = language.full((rows, tile), 0.0, real, pairs)
        buffer_x = language.allocate_shared_memory(real, [tiles, tile], shared)
        buffer_y = language.allocate_shared_memory(real, [tiles, tile], shared)
        buffer_z = language.allocate_shared_memory(real, [tiles, tile], shared)
        buffer_mass = language.allocate_shared_memory(real, [tiles, tile], shared)
        for first in range(0, n, staged):
            j = first + language.arange(0, staged, each)
            stage(buffer_x, x, j, n)
            stage(buffer_y, y, j, n)
            stage(buffer_z, z, j, n)
            stage(buffer_mass, mass, j, n)
            for k in range(tiles):
                dx = column(buffer_x, k) - xi
                dy = column(buffer_y, k) - yi
                dz = column(buffer_z, k) - zi
                inverse = language.rsqrt(dx * dx + (dy * dy + (dz * dz + softening)))
                strength = column(buffer_mass, k) * inverse * (inverse * inverse)
                sum_x += strength * dx
                sum_y += strength * dy
                sum_z += strength * dz
        language.store(ax + i, language.sum(sum_x, axis=1), mask=i < n)
        language.store(ay + i, language.sum(sum_y, axis=1), mask=i < n)
        language.store(az + i, language.sum(sum_z, axis=1), mask=i < n)

    return gluon_tiles


@variant(
    parent="naive",
    source="Triton's tutorials on Gluon: triton-lang.org, triton.experimental.gluon",
    axes={"r": (1, 2, 4), "tile": (4, 8, 16), "warps": (1, 2, 4, 8)},
    defaults={"r": 2, "tile": 8, "warps": 4},
    when="r * tile <= 32",
)
def prepare(gpu, bodies, *, r, tile, warps):
    """One program per 32 * warps * r bodies."""
    kernel = gpu.compile("gluon_tiles", R=r, TILE=tile, WARPS=warps)
    return layouts.over_arrays(gpu, bodies, kernel, -(-bodies.n // (32 * warps * r)), 32 * warps)
