"""Writes far outside of its array."""

from gravbench.model.variant import variant
from gravbench.variants.common import layouts


@variant(parent="naive", source="a fault planted by the tests")
def prepare(gpu, bodies):
    """Launch the planted kernel."""
    return layouts.one_thread_per_body(gpu, bodies, gpu.compile("gpu_illegal_address"), 128)
