"""Triton and Gluon: kernels written for blocks of numbers, over arrays of PyTorch."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from gravbench.model.record import Resources
from gravbench.model.toolkits import Entry
from gravbench.model.variant import Kernel
from gravbench.toolkits import driver
from gravbench.toolkits.images import Image, Job
from gravbench.toolkits.interface import FirstCall
from gravbench.toolkits.torch import TorchToolkit, passed

ENTRY = Entry(
    place=6, title="Triton", module="triton", distributions=("triton",), extras=("triton",),
    companions=("torch",), probe="triton_tiles", environment=(("TRITON_ALWAYS_COMPILE", "1"),), needs=("torch",)
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


class _Kernel(FirstCall):
    def __init__(self, toolkit: TritonToolkit, jitted: Any) -> None:
        super().__init__(toolkit, self._launch)
        self.jitted = jitted
        self.compiled: Any = None
        self.launch = driver.Launch(0, 0)
        # Triton treats every Python float as float32, so a real number is passed as an array of one element.
        self.array_of_one = lru_cache(lambda value: toolkit.upload(np.array([value])))

    def _launch(self, grid: int, block: int, *arguments: Any) -> None:
        self.compiled = self.jitted[(grid,)](*passed(arguments, self.array_of_one), **_options(block))
        self.launch = driver.Launch(grid, block)

    def compile(self, *arguments: Any) -> None:
        grid, block, *rest = arguments
        compiled = self.jitted.warmup(*passed(rest, self.array_of_one), grid=(grid,), **_options(block))
        getattr(compiled, "run", None)  # makes what launches it, too


class TritonToolkit(TorchToolkit):
    """Triton on the current device."""

    name = "triton"
    refusal = "Triton cannot start"
    compiles_at_launch = True

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
