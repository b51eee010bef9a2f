"""All pairs on a pretended device, p rows at a time."""

from gravbench.model.variant import variant
from gravbench.variants.common import layouts


def pretend_kernel(numpy, real, *, rows):  # noqa: ARG001
    """Evaluate so many rows after one another."""

    def pretend_tiles(x, y, z, mass, ax, ay, az, n, eps2):
        for first in range(0, n, rows):
            part = slice(first, first + rows)
            dx, dy, dz = (axis - axis[part, None] for axis in (x, y, z))
            r2 = dx * dx + dy * dy + dz * dz + eps2
            strength = mass / r2 / numpy.sqrt(r2)
            for result, distance in ((ax, dx), (ay, dy), (az, dz)):
                result[part] = numpy.einsum("ij,ij->i", strength, distance)

    return pretend_tiles


@variant(parent="naive", source="tests/test_foreign_toolkit.py", axes={"p": (32, 64)}, defaults={"p": 64})
def prepare(gpu, bodies, *, p):
    """Launch once."""
    return layouts.over_arrays(gpu, bodies, gpu.compile("pretend_tiles", rows=p))
