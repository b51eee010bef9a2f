"""PyCUDA: CUDA C compiled by nvcc."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gravbench.model.record import Resources
from gravbench.model.toolkits import Entry
from gravbench.model.variant import Kernel
from gravbench.toolkits import driver
from gravbench.toolkits.interface import FLAGS, CudaToolkit, compiling

ENTRY = Entry(
    place=2, title="PyCUDA", module="pycuda", distributions=("pycuda",), extras=("pycuda",), flags=FLAGS,
    probe="naive", cuda_c=True, in_force=True, nvcc=True, only_context=True
)  # fmt: skip


class _Kernel:
    def __init__(self, toolkit: PycudaToolkit, function: Any, image: bytes, name: str) -> None:
        self.toolkit = toolkit
        self.function = function
        self.image = image
        self.name = name
        self.launch = driver.Launch(0, 0)

    def __call__(self, grid: int, block: int | tuple[int, int], *arguments: Any, stream: Any = None) -> None:
        if not self.launch.grid_blocks:
            self.toolkit.on_launch()
        self.launch = driver.Launch(grid, block)
        self.function(*arguments, grid=(grid, 1, 1), block=(*self.launch.extents, 1), stream=stream)


class PycudaToolkit(CudaToolkit):
    """PyCUDA in the device's primary context, which the other toolkits use too."""

    name = "pycuda"
    refusal = "PyCUDA cannot start"

    def start(self) -> None:
        # Makes the primary context of the device current, once per process.
        import pycuda.autoprimaryctx
        import pycuda.compiler
        import pycuda.driver
        import pycuda.gpuarray

        self.pycuda = pycuda

    def upload(self, values: NDArray[Any]) -> Any:
        return self.pycuda.gpuarray.to_gpu(np.ascontiguousarray(values, dtype=self.real))

    def copy_in(self, array: Any, values: NDArray[Any]) -> None:
        array.set(np.ascontiguousarray(values, dtype=self.real))

    def download(self, array: Any) -> NDArray[Any]:
        return np.asarray(array.get())

    def build(self, stem: str, constants: dict[str, int]) -> Kernel:
        with compiling(self):
            source = self.variant.cuda_source(self.interaction)
            options = self.options(constants)
            image = self.pycuda.compiler.compile(source, options=options, no_extern_c=True, cache_dir=False)
            function = self.pycuda.driver.module_from_buffer(image).get_function(stem)
        return _Kernel(self, function, image, stem)

    def synchronize(self) -> None:
        self.pycuda.driver.Context.synchronize()

    def host_array(self, shape: int | tuple[int, ...], dtype: Any, *, pinned: bool) -> NDArray[Any]:
        return np.asarray(self.pycuda.driver.pagelocked_empty(shape, dtype)) if pinned else np.empty(shape, dtype)

    def device_array(self, shape: int | tuple[int, ...], dtype: Any) -> Any:
        return self.pycuda.gpuarray.empty(shape, dtype)

    def stream(self) -> Any:
        return self.pycuda.driver.Stream(driver.NON_BLOCKING)

    def send(self, array: Any, values: NDArray[Any], stream: Any) -> None:
        self.pycuda.driver.memcpy_htod_async(array.gpudata, values, stream)

    def fetch(self, values: NDArray[Any], array: Any, stream: Any) -> None:
        self.pycuda.driver.memcpy_dtoh_async(values, array.gpudata, stream)

    def resources(self, kernel: Any) -> Resources:
        # PyCUDA does not expose the driver's handle; the same cubin, loaded once more, gives the same answers.
        return driver.resources(driver.load_function(kernel.image, kernel.name), kernel.launch)

    @property
    def compiler(self) -> str:
        lines = str(self.pycuda.compiler.get_nvcc_version("nvcc")).splitlines()
        return "nvcc: " + next((line for line in lines if "release" in line), "version unknown")
