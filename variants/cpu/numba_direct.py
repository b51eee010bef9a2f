"""The double loop over all pairs, compiled, on one core: the portable C version of GPU Gems 3.

Against numpy_direct: no intermediate arrays, and one pass over all bodies for each body. The order of the additions is
kept, so the compiler cannot use SIMD.
"""

from gravbench.model.variant import variant
from gravbench.variants.common import layouts


def cpu_kernel(numba, real):
    """Compile the loop as it stands."""

    @numba.njit
    def numba_direct(x, y, z, mass, eps2, ax, ay, az):
        for i in range(x.size):
            aix = aiy = aiz = real(0)
            for j in range(x.size):
                dx = x[j] - x[i]
                dy = y[j] - y[i]
                dz = z[j] - z[i]
                inverse = real(1) / (dx * dx + dy * dy + dz * dz + eps2) ** real(0.5)
                strength = mass[j] * inverse * inverse * inverse
                aix += strength * dx
                aiy += strength * dy
                aiz += strength * dz
            ax[i] = aix
            ay[i] = aiy
            az[i] = aiz

    return numba_direct


@variant(parent="numpy_direct", source="GPU Gems 3, section 31.5, portable C on a Core 2 Duo")
def prepare(cpu, bodies):
    """Use separate arrays of x, y, z and mass."""
    return layouts.on_the_host(cpu, bodies, cpu.compile("numba_direct"))
