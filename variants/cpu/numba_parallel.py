"""The double loop over all pairs on all cores, with SIMD.

Against numba_direct: the outer loop is divided among the cores, and the additions over j may be reordered, so the
compiler can process a vector register of bodies at a time.
"""

from gravbench.model.variant import variant
from gravbench.variants.common import layouts


def cpu_kernel(numba, real):
    """Compile the loop for all cores, with sums in any order.

    Infinities and NaN keep their IEEE 754 meaning (neither ``ninf`` nor ``nnan``): a wrong result must stay visible.
    """

    @numba.njit(parallel=True, error_model="numpy", fastmath={"reassoc", "nsz", "arcp", "contract", "afn"})
    def numba_parallel(x, y, z, mass, eps2, ax, ay, az):
        for i in numba.prange(x.size):
            xi, yi, zi = x[i], y[i], z[i]
            aix = aiy = aiz = real(0)
            for j in range(x.size):
                dx = x[j] - xi
                dy = y[j] - yi
                dz = z[j] - zi
                inverse = real(1) / (dx * dx + dy * dy + dz * dz + eps2) ** real(0.5)
                strength = mass[j] * inverse * inverse * inverse
                aix += strength * dx
                aiy += strength * dy
                aiz += strength * dz
            ax[i] = aix
            ay[i] = aiy
            az[i] = aiz

    return numba_parallel


@variant(parent="numba_direct", source="Elsen et al. 2006, tuned SSE, as quoted by GPU Gems 3, section 31.5")
def prepare(cpu, bodies):
    """Use separate arrays of x, y, z and mass."""
    return layouts.on_the_host(cpu, bodies, cpu.compile("numba_parallel"))
