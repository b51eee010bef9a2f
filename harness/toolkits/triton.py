"""Triton and Gluon: kernels written for blocks of numbers, over arrays of PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from gravbench.model.record import Resources
from gravbench.model.toolkits import Entry
from gravbench.model.variant import Kernel
from gravbench.toolkits import binaries, driver
from gravbench.toolkits.binaries import Binary
from gravbench.toolkits.jobs import Image, Job
from gravbench.toolkits.torch import TorchToolkit, passed

ENTRY = Entry(
    place=6, family="cuda", title="Triton", module="triton", distributions=("triton",), extras=("triton",),
    companions=("torch",), probe="triton_tiles", needs=("torch",), variables=("TRITON_",),
    parts=("triton.language", "triton.experimental.gluon.language"),
)  # fmt: skip

WARP_SIZE = 32


def _library() -> Any:
    """Import Triton and Gluon, with the name that 3.6 to 3.8 have for what is public from 3.9 on."""
    import triton
    import triton.experimental.gluon.language
    import triton.language

    shared = triton.experimental.gluon.language.shared_memory_descriptor
    if not hasattr(shared, "_reinterpret"):
        shared._reinterpret = shared.reinterpret
    return triton


def _options(threads: int) -> dict[str, Any]:
    """Return what a kernel is compiled with; a product and a sum make one instruction only where that is asked for."""
    return {"num_warps": threads // WARP_SIZE, "enable_fp_fusion": True}


def image(job: Job, architecture: str) -> Image:
    """Compile a kernel for an architecture such as ``sm_90``, without a GPU."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.experimental.gluon._runtime import GluonASTSource

    triton = _library()
    kernel = job.source.module.triton_kernel(triton, job.real, **job.constants)
    kinds = {"float32": "*fp32", "float64": "*fp64", "int32": "i32"}
    signature = {
        name: kinds[np.dtype(value.dtype).name] for name, value in zip(kernel.arg_names, job.arguments, strict=True)
    }
    source = (GluonASTSource if kernel.is_gluon() else ASTSource)(kernel, signature, {})
    target = GPUTarget("cuda", int(architecture.removeprefix("sm_")), WARP_SIZE)
    compiled = triton.compile(source, target, _options(job.threads))
    return Image(compiled.asm["cubin"], compiled.metadata.name)


class _Kernel:
    def __init__(self, toolkit: TritonToolkit, jitted: Any) -> None:
        self.toolkit = toolkit
        self.jitted = jitted
        self.compiled: Any = None
        self.launch = driver.Launch(0, 0)
        # Triton treats every Python float as float32, so a real number is passed as an array of one element.
        self.array_of_one = lru_cache(lambda value: toolkit.upload(np.array([value])))

    def __call__(self, grid: int, block: int, *arguments: Any) -> None:
        if self.compiled is None:
            seconds, compiled_now = _cached(lambda: self._launch(grid, block, *arguments))
            self.toolkit.count(seconds, compiled_now=compiled_now)
        else:
            self._launch(grid, block, *arguments)

    def _launch(self, grid: int, block: int, *arguments: Any) -> None:
        self.compiled = self.jitted[(grid,)](*passed(arguments, self.array_of_one), **_options(block))
        self.launch = driver.Launch(grid, block)


def _cached(compile_or_load: Callable[[], object]) -> tuple[float, bool]:
    """Have Triton look into its own cache first; return what compiling takes in seconds, and whether it did that now.

    The seconds are kept with other binaries, under the hash by which Triton finds a kernel.
    """
    import triton

    kernels: dict[str, bool] = {}

    def note(*, metadata: Mapping[str, Any], cache_hit: bool, **_: Any) -> None:
        kernels[str(metadata["hash"])] = cache_hit

    began = binaries.working_seconds()
    with triton.knobs.compilation.scope():
        triton.knobs.compilation.always_compile = False
        triton.knobs.compilation.listener = note
        compile_or_load()
    seconds = binaries.working_seconds() - began
    key = ["triton", *kernels]
    if kernels and all(kernels.values()):
        stored = binaries.stored(key)
        return (stored.seconds if stored else seconds), False
    binaries.store(key, Binary(b"", "", seconds))
    return seconds, True


class _Standing:
    """Stands for an array in the device's memory while a kernel is compiled for it, as Triton looks at one."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype

    def data_ptr(self) -> int:
        return 0  # a multiple of all that Triton asks for, as an array of PyTorch is


def build_ahead(job: Job, architecture: str) -> bool:
    """Compile a kernel without a device, for sessions that find it; return whether it was compiled now.

    It is in Triton's own cache then. This process can use no device with Triton from now on.
    """
    from triton.backends.compiler import GPUTarget

    triton = _library()
    target = GPUTarget("cuda", int(architecture.removeprefix("sm_")), WARP_SIZE)
    # What Triton asks a driver for while it compiles.
    triton.runtime.driver.set_active(
        SimpleNamespace(get_current_target=lambda: target, get_current_device=lambda: 0, get_current_stream=lambda _: 0)
    )
    jitted = job.source.module.triton_kernel(triton, job.real, **job.constants)
    arguments = [_Standing(each.dtype) if isinstance(each, np.ndarray) else each for each in job.arguments]
    given = passed(arguments, lambda _: _Standing(np.dtype(job.real)))
    return _cached(lambda: jitted.warmup(*given, grid=(1,), **_options(job.threads)))[1]


class TritonToolkit(TorchToolkit):
    """Triton on the current device."""

    name = "triton"
    refusal = "Triton cannot start"

    def start(self) -> None:
        super().start()
        self.triton = _library()

    def build(self, stem: str, constants: dict[str, int]) -> Kernel:
        return _Kernel(self, self.maker(stem)(self.triton, self.real, **constants))

    def resources(self, kernel: Any) -> Resources:
        launch = driver.Launch(kernel.launch.grid_blocks, kernel.launch.block, kernel.compiled.metadata.shared)
        return driver.resources(int(kernel.compiled.function), launch)

    @property
    def compiler(self) -> str:
        return f"Triton {self.triton.__version__}"
