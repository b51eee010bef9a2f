"""The acceleration of one body by all others, mapped over the bodies by JAX and compiled by XLA.

Against naive: the formula is written once, for one body; ``jax.lax.map`` applies it to a block of bodies at a time, and
XLA fuses it into the sums. Expected: slower than naive, because XLA compiles each of the three sums as a separate
reduction, which may recompute the distances. There is no matrix product, so nothing is rounded to TF32.
"""

from gravbench.model.variant import variant
from gravbench.variants.common import layouts, ranges


def jax_kernel(jax, real, *, ROWS):
    """Return the new accelerations by name."""

    def jax_jit(x, y, z, mass, ax, ay, az, n, eps2):
        def pull(own):
            dx, dy, dz = x - own[0], y - own[1], z - own[2]
            inverse = jax.lax.rsqrt(dx * dx + (dy * dy + (dz * dz + eps2)))
            strength = mass * inverse * (inverse * inverse)
            return {"ax": (strength * dx).sum(), "ay": (strength * dy).sum(), "az": (strength * dz).sum()}

        return jax.lax.map(pull, (x, y, z), batch_size=ROWS)

    return jax_jit


@variant(
    parent="naive",
    source="JAX's documentation: docs.jax.dev, jax.jit and jax.lax.map",
    axes={"rows": (256, 1024, 4096, 16384, 65536)},
    defaults={"rows": 4096},
    ranges={"rows": ranges.COUNT},
)
def prepare(gpu, bodies, *, rows):
    """Use separate arrays of x, y, z and mass."""
    return layouts.over_arrays(gpu, bodies, gpu.compile("jax_jit", ROWS=rows))
