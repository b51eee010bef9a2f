"""CuTe DSL: kernels written in Python over CuTe's layouts, compiled by CUTLASS, over arrays of CuPy."""

# Without annotations from __future__: CuTe DSL reads those of what it compiles, and a text says nothing to it.
import inspect
import tempfile
from typing import Any

import numpy as np

from gravbench.model.toolkits import Entry, versions
from gravbench.toolkits.binaries import Binary
from gravbench.toolkits.compile_cache import content
from gravbench.toolkits.images import ImageToolkit, compiled
from gravbench.toolkits.jobs import Image, Job

DISTRIBUTION = "nvidia-cutlass-dsl"

ENTRY = Entry(
    place=8, family="cuda", title="CuTe DSL", module="cutlass", distributions=(DISTRIBUTION,), extras=("cute",),
    companions=("cupy-cuda13x",), probe="cute_tiles"
)  # fmt: skip

ALIGNED = 16
"""Bytes to which arrays of a launch are aligned; CuPy aligns them to more."""


def image(job: Job, architecture: str) -> Image:
    """Compile a kernel for an architecture such as ``sm_90``, without a GPU."""
    import cutlass
    from cutlass import cute

    kernel = job.source.module.cute_kernel(cutlass, job.real, **job.constants)

    # A kernel is compiled with a launch of it. CuPy launches it, so the grid of this one does not count.
    @cute.jit  # type: ignore[untyped-decorator]
    def launch(kernel: cutlass.Constexpr, threads: cutlass.Constexpr, arguments: tuple[Any, ...]) -> None:
        kernel(*arguments).launch(grid=(1, 1, 1), block=(threads, 1, 1))

    arguments = tuple(_argument(cutlass, argument) for argument in job.arguments)
    with tempfile.TemporaryDirectory() as folder:
        options = f"--gpu-arch {architecture} --keep-cubin --dump-dir={folder}"
        compiled = cute.compile(launch, kernel, job.threads, arguments, options=options)
    (name,) = compiled.kernel_info
    return Image(compiled.artifacts.CUBIN, name)


def _argument(cutlass: Any, value: Any) -> Any:
    """Return what stands for an argument while its kernel is compiled; an array is passed as a pointer."""
    kind = {"float32": cutlass.Float32, "int32": cutlass.Int32}[np.dtype(value.dtype).name]
    if isinstance(value, np.generic):
        return kind(value.item())
    return cutlass.cute.runtime.make_ptr(kind, 0, cutlass.cute.AddressSpace.gmem, assumed_align=ALIGNED)


def _compiled(job: Job, architecture: str) -> tuple[Binary, bool]:
    kernel = job.source.module.cute_kernel
    # CuTe DSL reads the text of what it compiles from the file, which may have changed since that was imported.
    described = [*content(kernel), inspect.getsource(kernel)]
    return compiled(image, described, versions((DISTRIBUTION,)), job, architecture)


def build_ahead(job: Job, architecture: str) -> bool:
    """Compile a kernel without a device, for sessions that find it; return whether it was compiled now."""
    return _compiled(job, architecture)[1]


class CuteToolkit(ImageToolkit):
    """CuTe DSL on CuPy's current device and stream."""

    name = "cute"
    refusal = "CuTe DSL cannot start"

    def start(self) -> None:
        super().start()
        import cutlass.cute  # noqa: F401 - what cannot be imported is a reason to skip

    def compiled(self, job: Job) -> tuple[Binary, bool]:
        return _compiled(job, self.architecture)

    @property
    def compiler(self) -> str:
        return versions((DISTRIBUTION,))[0].replace(DISTRIBUTION, "CuTe DSL")
