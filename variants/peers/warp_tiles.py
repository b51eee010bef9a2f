"""Stage a tile of p bodies in shared memory with the tiles of NVIDIA Warp, in Python.

Against naive: the same technique as tiled, written as one kernel; Warp inserts the barriers. Expected: somewhat slower
than tiled. Each number of a body is in a separate tile, which costs little, because several bodies of a tile are then
read at once. But Warp has no inverse square root, and 1 / sqrt takes two instructions of the slowest unit, even with
``fast_math``, which corresponds to the flags of the CUDA C.
"""

from gravbench.model.variant import variant
from gravbench.variants.common import layouts


def warp_kernel(warp, real, *, P):
    """All threads of a block have to load tiles: those beyond the last body repeat it."""
    number = warp.dtype_from_numpy(real)
    column = warp.array(dtype=number)

    @warp.kernel(enable_backward=False, module="unique", module_options={"fast_math": True})
    def warp_tiles(
        x: column, y: column, z: column, mass: column, ax: column, ay: column, az: column, n: int, eps2: number
    ):
        i = warp.tid()
        own = warp.min(i, n - 1)
        xi = x[own]
        yi = y[own]
        zi = z[own]
        sum_x = number(0.0)
        sum_y = number(0.0)
        sum_z = number(0.0)
        for first in range(0, n, P):
            # Beyond the last body a tile is filled with zeros, and a mass of 0 adds nothing.
            xs = warp.tile_load(x, shape=P, offset=first, storage="shared")
            ys = warp.tile_load(y, shape=P, offset=first, storage="shared")
            zs = warp.tile_load(z, shape=P, offset=first, storage="shared")
            masses = warp.tile_load(mass, shape=P, offset=first, storage="shared")
            for k in range(P):
                dx = xs[k] - xi
                dy = ys[k] - yi
                dz = zs[k] - zi
                inverse = number(1.0) / warp.sqrt(dx * dx + (dy * dy + (dz * dz + eps2)))
                strength = masses[k] * inverse * (inverse * inverse)
                sum_x += strength * dx
                sum_y += strength * dy
                sum_z += strength * dz
        if i < n:
            ax[i] = sum_x
            ay[i] = sum_y
            az[i] = sum_z

    return warp_tiles


@variant(
    parent="naive",
    source="Warp's documentation: nvidia.github.io/warp, Tiles",
    axes={"p": (32, 64, 128, 256, 512)},
    defaults={"p": 256},
)
def prepare(gpu, bodies, *, p):
    """One thread per body, p threads per block and p bodies per tile."""
    return layouts.over_arrays(gpu, bodies, gpu.compile("warp_tiles", P=p), -(-bodies.n // p), p)
