"""Compute r^-3 in FP16 from 1 / r, two pairs at a time, where tensor rounds it to one FP16 number.

Against tensor with terms 1: a fifth fewer instructions in the loop over distant bodies, and several times the rounding
error. In FP16, 1 / r has only 1,024 values for each factor of two, so the errors of its cube do not cancel completely
among many bodies. With fewer than 60,000 equal masses, it computes what tensor computes with terms 2.
"""

from gravbench.model.variant import Prepared, Tolerance, variant
from gravbench.variants.blocked import tensor_parts, tensor_share


@variant(
    parent="tensor",
    source="own",
    axes={"separation": (1.1, 1.2, 1.35, 1.5, 2.0)},
    defaults={"separation": 1.2},
    ranges={"separation": tensor_share.SEPARATION},
    dtypes=("float32",),
    tolerance={"float32": Tolerance(max=2e-4, rms=2e-5)},
    positive_masses=True,
    mutual="meet",
    operations=tensor_parts.OPERATIONS,
    kernel_parts=tensor_parts.PARTS,
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
