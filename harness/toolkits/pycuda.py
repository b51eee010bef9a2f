"""PyCUDA: CUDA C compiled by nvcc, which needs no device."""

from __future__ import annotations

import atexit
import gc
import os
import threading
import weakref
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gravbench.model.record import Resources
from gravbench.model.toolkits import Entry
from gravbench.model.variant import Kernel
from gravbench.toolkits import binaries, driver
from gravbench.toolkits.binaries import Binary
from gravbench.toolkits.interface import FLAGS, CudaToolkit, cuda_options
from gravbench.toolkits.jobs import Job

ENTRY = Entry(
    place=2, family="cuda", title="PyCUDA", module="pycuda", distributions=("pycuda",), extras=("pycuda",), flags=FLAGS,
    probe="naive", cuda_c=True, in_force=True, nvcc=True, only_context=True,
    parts=("pycuda.compiler", "pycuda.driver", "pycuda.gpuarray"),
)  # fmt: skip

ADDED_FLAGS = "NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"
"""Variables whose options nvcc adds to those that it is called with."""


def build_ahead(job: Job, architecture: str) -> bool:
    """Compile a kernel of CUDA C without a device, for sessions that find it; return whether it was compiled now."""
    source = job.source.cuda_source(job.interaction)
    return compiled(source, cuda_options(job.constants, job.dtype), architecture)[1]


def compiled(source: str, options: Sequence[str], architecture: str) -> tuple[Binary, bool]:
    """Return what nvcc makes of a text of CUDA C, and whether it was compiled now."""
    import pycuda.compiler

    def compile_text() -> tuple[bytes, str]:
        image = pycuda.compiler.compile(
            source, options=[*options], no_extern_c=True, arch=architecture, cache_dir=False
        )
        return bytes(image), ""  # it has all kernels of the text

    added = (os.environ.get(name, "") for name in ADDED_FLAGS)
    return binaries.binary([source, *options, architecture, _nvcc(), *added], compile_text)


@cache
def _nvcc() -> str:
    """Ask nvcc for its version once per process: that starts it."""
    import pycuda.compiler

    return str(pycuda.compiler.get_nvcc_version("nvcc"))


class Releases:
    """Releases what belongs to a CUDA context in the thread that opened it, which is the one that makes this.

    Python's garbage collector runs in any thread. In another than that of its context, PyCUDA can release nothing: it
    warns, and the memory stays taken.
    """

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._left: list[object] = []

    def hold(self, owner: Any, resource: object) -> None:
        """Keep a resource until its owner is gone, and this or ``release`` is called after that."""
        self.release()
        weakref.finalize(owner, self._left.append, resource).atexit = False

    def release(self) -> None:
        """Let go of what has no owner any more; do nothing in another thread."""
        if threading.get_ident() == self._thread:
            self._left.clear()

    def end(self) -> None:
        """Collect garbage and let go of it, before the context is closed; do nothing in another thread."""
        if threading.get_ident() == self._thread:
            gc.collect()
            self.release()


@cache
def _releases() -> Releases:
    """Make the one of this process, when the first toolkit has opened the device.

    PyCUDA closes the context at the end of the process; what is registered later, such as this, ends before that.
    """
    releases = Releases()
    atexit.register(releases.end)
    return releases


class _Kernel:
    """A kernel of a module, and the owner of this module."""

    def __init__(self, module: Any, image: bytes, name: str) -> None:
        _releases().hold(self, module)  # before the kernel is looked up in it, which may fail
        self.function = module.get_function(name)
        self.image = image
        self.name = name
        self.launch = driver.Launch(0, 0)

    def __call__(self, grid: int, block: int | tuple[int, int], *arguments: Any, stream: Any = None) -> None:
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
        _releases().release()

    def release(self) -> None:
        _releases().release()

    def upload(self, values: NDArray[Any]) -> Any:
        array = self.pycuda.gpuarray.to_gpu(np.ascontiguousarray(values, dtype=self.real))
        _releases().hold(array, array.gpudata)
        return array

    def copy_in(self, array: Any, values: NDArray[Any]) -> None:
        array.set(np.ascontiguousarray(values, dtype=self.real))

    def download(self, array: Any) -> NDArray[Any]:
        return np.asarray(array.get())

    def build(self, stem: str, constants: dict[str, int]) -> Kernel:
        source = self.variant.cuda_source(self.interaction)
        binary, compiled_now = compiled(source, self.options(constants), self.architecture)
        self.count_binary(binary, compiled_now=compiled_now)
        return _Kernel(self.pycuda.driver.module_from_buffer(binary.code), binary.code, stem)

    def synchronize(self) -> None:
        self.pycuda.driver.Context.synchronize()

    def host_array(self, shape: int | tuple[int, ...], dtype: Any, *, pinned: bool) -> NDArray[Any]:
        if not pinned:
            return np.empty(shape, dtype)
        array: NDArray[Any] = self.pycuda.driver.pagelocked_empty(shape, dtype)
        _releases().hold(array, array.base)
        return array

    def device_array(self, shape: int | tuple[int, ...], dtype: Any) -> Any:
        array = self.pycuda.gpuarray.empty(shape, dtype)
        _releases().hold(array, array.gpudata)
        return array

    def stream(self) -> Any:
        stream = self.pycuda.driver.Stream(driver.NON_BLOCKING)
        _releases().hold(self, stream)
        return stream

    def send(self, array: Any, values: NDArray[Any], stream: Any) -> None:
        self.pycuda.driver.memcpy_htod_async(array.gpudata, values, stream)

    def fetch(self, values: NDArray[Any], array: Any, stream: Any) -> None:
        self.pycuda.driver.memcpy_dtoh_async(values, array.gpudata, stream)

    def resources(self, kernel: Any) -> Resources:
        # PyCUDA does not expose the driver's handle; the same cubin, loaded once more, gives the same answers.
        return driver.resources(driver.load_function(kernel.image, kernel.name), kernel.launch)

    @property
    def compiler(self) -> str:
        lines = _nvcc().splitlines()
        return "nvcc: " + next((line for line in lines if "release" in line), "version unknown")
