"""Writes positions where accelerations belong, very fast."""

from harness.variant import variant
from variants.all_pairs import body


@variant(parent="naive", source="a fault planted by the tests")
def prepare(gpu, bodies):
    """Launch the planted kernel."""
    return body.one_thread_a_body(gpu, bodies, gpu.compile("gpu_wrong"), 128)
