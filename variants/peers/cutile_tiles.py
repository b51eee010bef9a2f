"""A cuTile program that sums p x tile pairs at a time; the compiler assigns them to threads.

Against triton_tiles: arrays are read as tiles by their number, without addresses or masks, and the compiler may load
them through the tensor memory accelerator. For that it adds warps that only copy, so at most four warps of a block
compute; several blocks per multiprocessor hide their latency. Expected: nearly the speed of triton_tiles, because both
distribute the same sums over the threads of a block. The sums of a row are added up once, after the loop.
"""

from gravbench.model.variant import variant
from gravbench.variants.common import layouts


def cutile_kernel(tile, real, *, P, TILE, RESIDENT):
    """What is read beyond the last body is zero, so also its mass."""
    zero = tile.PaddingMode.ZERO

    @tile.kernel(occupancy=RESIDENT)
    def cutile_tiles(x, y, z, mass, ax, ay, az, n, eps2):
        i = tile.bid(0)
        xi = tile.reshape(tile.load(x, index=(i,), shape=(P,), padding_mode=zero), (P, 1))
        yi = tile.reshape(tile.load(y, index=(i,), shape=(P,), padding_mode=zero), (P, 1))
        zi = tile.reshape(tile.load(z, index=(i,), shape=(P,), padding_mode=zero), (P, 1))
        softening = tile.reshape(tile.load(eps2, index=(0,), shape=(1,)), (1, 1))
        sum_x = tile.zeros((P, TILE), x.dtype)
        sum_y = tile.zeros((P, TILE), x.dtype)
        sum_z = tile.zeros((P, TILE), x.dtype)
        for k in range(tile.cdiv(n, TILE)):
            dx = tile.reshape(tile.load(x, index=(k,), shape=(TILE,), padding_mode=zero), (1, TILE)) - xi
            dy = tile.reshape(tile.load(y, index=(k,), shape=(TILE,), padding_mode=zero), (1, TILE)) - yi
            dz = tile.reshape(tile.load(z, index=(k,), shape=(TILE,), padding_mode=zero), (1, TILE)) - zi
            own = tile.reshape(tile.load(mass, index=(k,), shape=(TILE,), padding_mode=zero), (1, TILE))
            inverse = tile.rsqrt(dx * dx + (dy * dy + (dz * dz + softening)), flush_to_zero=True)
            strength = own * inverse * (inverse * inverse)
            sum_x += strength * dx
            sum_y += strength * dy
            sum_z += strength * dz
        tile.store(ax, index=(i,), tile=tile.sum(sum_x, axis=1))
        tile.store(ay, index=(i,), tile=tile.sum(sum_y, axis=1))
        tile.store(az, index=(i,), tile=tile.sum(sum_z, axis=1))

    return cutile_tiles


@variant(
    parent="naive",
    source="NVIDIA's documentation of cuTile Python: docs.nvidia.com/cuda/cutile-python",
    # With fewer rows than the 128 threads that compute, several of them do the same.
    axes={"p": (64, 128, 256, 512), "tile": (4, 8, 16, 32), "resident": (1, 2, 4)},
    defaults={"p": 256, "tile": 16, "resident": 2},
    dtypes=("float32",),
)
def prepare(gpu, bodies, *, p, tile, resident):
    """One block per p bodies; the compiler chooses its threads, so that a multiprocessor holds ``resident`` blocks."""
    kernel = gpu.compile("cutile_tiles", P=p, TILE=tile, RESIDENT=resident)
    return layouts.over_arrays(gpu, bodies, kernel, -(-bodies.n // p))
