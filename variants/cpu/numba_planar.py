"""The double loop over all pairs on one core, in two or three dimensions.

Against numba_direct: in the plane (dim 2) it neither loads nor subtracts z, and adds nothing along z, as soa_direct
does on a GPU. The bodies are then projected onto z = 0, for the float64 reference too.
"""

from gravbench.model.variant import variant
from gravbench.variants.common import layouts


def cpu_kernel(numba, real, *, DIM):
    """Compile the loop as it stands, in the plane without z."""

    @numba.njit
    def numba_planar(x, y, z, mass, eps2, ax, ay, az):
        for i in range(x.size):
            aix = aiy = aiz = real(0)
            for j in range(x.size):
                dx = x[j] - x[i]
                dy = y[j] - y[i]
                r2 = dx * dx + dy * dy + eps2
                if DIM == 3:
                    dz = z[j] - z[i]
                    r2 += dz * dz
                inverse = real(1) / r2 ** real(0.5)
                strength = mass[j] * inverse * inverse * inverse
                aix += strength * dx
                aiy += strength * dy
                if DIM == 3:
                    aiz += strength * dz
            ax[i] = aix
            ay[i] = aiy
            az[i] = aiz

    return numba_planar


@variant(
    parent="numba_direct",
    source="Bodin 2026, the N^2 loop on the CPU, in two dimensions",
    axes={"dim": (2, 3)},
    defaults={"dim": 3},
)
def prepare(cpu, bodies, *, dim):
    """Use separate arrays of x, y, z and mass."""
    return layouts.on_the_host(cpu, bodies, cpu.compile("numba_planar", DIM=dim))
