"""Asks the device for more memory than it has."""

from gravbench.model.variant import variant
from gravbench.variants.common import layouts


@variant(parent="naive", source="a fault planted by the tests")
def prepare(gpu, bodies):
    """Ask CuPy for 64 TB, without any of it on the host."""
    kernel = gpu.compile("gpu_out_of_memory")
    gpu.cupy.cuda.alloc(1 << 46)
    return layouts.one_thread_per_body(gpu, bodies, kernel, 128)
