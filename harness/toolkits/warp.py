"""NVIDIA Warp: kernels written in Python for threads and the tiles that they share, compiled by NVRTC."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gravbench.model.record import Resources
from gravbench.model.toolkits import Entry
from gravbench.model.variant import Kernel
from gravbench.toolkits import driver
from gravbench.toolkits.interface import GpuToolkit, compiling

ENTRY = Entry(
    place=11, family="cuda", title="NVIDIA Warp", module="warp", distributions=("warp-lang",), extras=("warp",),
    flags=("fast_math=True",), probe="warp_tiles"
)  # fmt: skip

DEVICE = "cuda:0"


class _Kernel:
    def __init__(self, toolkit: WarpToolkit, kernel: Any) -> None:
        self.toolkit = toolkit
        self.kernel = kernel
        self.loaded: Any = None
        self.launch = driver.Launch(0, 0)

    def __call__(self, grid: int, block: int, *arguments: Any) -> None:
        if self.loaded is None:
            with compiling(self.toolkit):
                # Otherwise Warp would reuse a kernel with the same text that was compiled for an earlier case.
                self.kernel.module.unload()
                self.loaded = self.kernel.module.load(DEVICE, block)
        self.launch = driver.Launch(grid, block)
        self.toolkit.warp.launch(self.kernel, dim=grid * block, inputs=arguments, device=DEVICE, block_dim=block)


class WarpToolkit(GpuToolkit):
    """Warp on the first device."""

    name = "warp"
    refusal = "NVIDIA Warp cannot start on a GPU"

    def start(self) -> None:
        import warp

        # Compile here, instead of finding the kernel in the cache of an earlier run.
        warp.config.cache_kernels = False
        warp.init()
        warp.get_device(DEVICE)
        driver.use_device()
        self.warp = warp

    def upload(self, values: NDArray[Any]) -> Any:
        return self.warp.array(np.ascontiguousarray(values, dtype=self.real), device=DEVICE)

    def copy_in(self, array: Any, values: NDArray[Any]) -> None:
        array.assign(np.ascontiguousarray(values, dtype=self.real))

    def download(self, array: Any) -> NDArray[Any]:
        return np.asarray(array.numpy())

    def build(self, stem: str, constants: dict[str, int]) -> Kernel:
        return _Kernel(self, self.maker(stem)(self.warp, self.real, **constants))

    def synchronize(self) -> None:
        self.warp.synchronize_device(DEVICE)

    @property
    def current_stream(self) -> int:
        return int(self.warp.get_stream(DEVICE).cuda_stream)

    def resources(self, kernel: Any) -> Resources:
        hooks = kernel.loaded.get_kernel_hooks(kernel.kernel)
        launch = driver.Launch(kernel.launch.grid_blocks, kernel.launch.block, hooks.forward_smem_bytes)
        return driver.resources(int(hooks.forward), launch)

    @property
    def compiler(self) -> str:
        return f"NVRTC of Warp {self.warp.config.version}"
