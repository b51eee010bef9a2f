"""Writes NaN."""

from gravbench.model.variant import variant
from gravbench.variants.common import body


@variant(parent="naive", source="a fault planted by the tests")
def prepare(gpu, bodies):
    """Launch the planted kernel."""
    return body.one_thread_a_body(gpu, bodies, gpu.compile("gpu_nan"), 128)
