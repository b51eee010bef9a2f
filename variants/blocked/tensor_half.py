"""Compute r^-3 in FP16 from 1 / r, two pairs at a time, where tensor takes one FP16 number.

Against tensor with terms 1: a fifth fewer instructions, and several times the rounding error. That of a cube does not
cancel among many bodies, because 1 / r has only about a thousand values for each factor of two: all accelerations
together are wrong by some 5e-6. With fewer than 60,000 equal masses it does what tensor does with two FP16 numbers.
"""

from gravbench.model.variant import Prepared, Tolerance, variant
from gravbench.variants.blocked import tensor_share


@variant(
    parent="tensor",
    source="own",
    axes={"separation": (1.1, 1.2, 1.35, 1.5, 2.0)},
    defaults={"separation": 1.2},
    ranges={"separation": tensor_share.SEPARATION},
    dtypes=("float32",),
    tolerance={"float32": Tolerance(max=2e-4, rms=2e-5)},
    mutual="meet",
    loads="n / (64 * (4 if n > 50000 else 2))",
)
def prepare(gpu, bodies, *, separation):
    """As tensor does, with its defaults."""
    own = gpu.upload(gpu.interaction.rows(bodies.position, bodies.velocity, bodies.mass))
    accelerations = gpu.empty(bodies.n, 4)
    axes = tensor_share.DEFAULTS | {"terms": 1, "cube": "float16", "separation": separation}
    whole = tensor_share.Share(gpu, bodies, own, accelerations, **axes)
    return Prepared(
        lambda: whole.evaluate(tensor_share.no_lap),
        own,
        accelerations,
        whole.kernel,
        stages=whole.evaluate,
        kernels=whole.order.kernels,
    )
