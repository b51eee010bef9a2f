"""CuPy: CUDA C compiled by NVRTC."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import get_ident
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gravbench.model.record import Resources
from gravbench.model.toolkits import Entry
from gravbench.model.variant import Kernel
from gravbench.toolkits import devices, driver
from gravbench.toolkits.interface import FLAGS, FirstCall, ToolkitMissingError, compiling
from gravbench.toolkits.several import Mark, SeveralToolkit, links

ENTRY = Entry(
    place=1, title="CuPy", module="cupy", distributions=("cupy-cuda13x", "cupy-cuda12x", "cupy"),
    extras=("cuda13", "cuda12"),
    companions=("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12"), flags=FLAGS, probe="naive", cuda_c=True,
    # Every compilation is a real one; see build.
    in_force=True, environment=(("CUPY_CACHE_IN_MEMORY", "1"),), only_context=True
)  # fmt: skip

PER_THREAD = 2
"""cudaStreamPerThread of the CUDA runtime."""
ALREADY_ENABLED = 704
"""cudaErrorPeerAccessAlreadyEnabled."""


class _Kernel:
    def __init__(self, toolkit: CupyToolkit, raw: Any) -> None:
        self.toolkit = toolkit
        self.raw = raw
        self.launch = driver.Launch(0, 0)

    def __call__(self, grid: int, block: int | tuple[int, int], *arguments: Any, stream: Any = None) -> None:
        if not self.launch.grid_blocks:
            self.toolkit.on_launch()
        self.launch = driver.Launch(grid, block)
        if stream is None:
            self.raw((grid,), self.launch.extents, arguments)
        else:
            with stream:
                self.raw((grid,), self.launch.extents, arguments)


class _Mark:
    def __init__(self, cuda: Any) -> None:
        self.current_stream = cuda.get_current_stream
        self.event = cuda.Event(disable_timing=True)

    def record(self) -> None:
        self.event.record(self.current_stream())

    def wait(self) -> None:
        self.current_stream().wait_event(self.event)


def load_compiler() -> None:
    """Load NVRTC, and compile nothing: that would initialize CUDA, which does not survive a fork."""
    with suppress(Exception):  # of a library that is not there, or of another version: a case will say so
        from cupy.cuda import nvrtc

        nvrtc.destroyProgram(nvrtc.createProgram('extern "C" __global__ void empty() {}', "empty.cu", (), ()))


class CupyToolkit(SeveralToolkit):
    """CuPy on the current device."""

    name = "cupy"
    refusal = "CuPy cannot start"

    def start(self) -> None:
        ENTRY.load()
        import cupy

        # Makes the device's primary context current: the driver is asked questions before any array exists.
        cupy.cuda.Device().synchronize()
        self.cupy = cupy
        self._device = cupy.cuda.Device()
        self._own_stream: Any = None  # where this is not the first of several
        self._first = self
        self._others: list[CupyToolkit] = []
        self._reached: dict[int, bool] = {}

    @property
    def current_stream(self) -> int:
        return int(self.cupy.cuda.get_current_stream().ptr)

    @property
    def queue(self) -> Hashable:
        stream = self.current_stream
        # The per-thread default stream has the same handle in every thread, but each thread has its own.
        return self.cupy.cuda.Device().id, stream, get_ident() if stream == PER_THREAD else None

    def upload(self, values: Any) -> Any:
        """Copy to the device; CuPy arrays stay on it, as they are if they are contiguous ``real`` already."""
        if isinstance(values, self.cupy.ndarray):
            return self.cupy.ascontiguousarray(values, dtype=self.real)
        return self.cupy.asarray(np.ascontiguousarray(values, dtype=self.real))

    def copy_in(self, array: Any, values: NDArray[Any]) -> None:
        array.set(np.ascontiguousarray(values, dtype=self.real))

    def download(self, array: Any) -> NDArray[Any]:
        return np.asarray(self.cupy.asnumpy(array))

    def build(self, stem: str, constants: dict[str, int]) -> Kernel:
        if hasattr(self.variant.module, "cupy_kernel"):
            return FirstCall(self, self.maker(stem)(self.cupy, self.real, **constants))
        with compiling(self._first):
            # A unique text, or the compile time would be that of a lookup in CuPy's cache.
            source = f"{self.variant.cuda_source(self.interaction)}\n// {time.time_ns()}\n"
            raw = self.cupy.RawKernel(source, stem, options=tuple(self.options(constants)))
            raw.compile()
        return _Kernel(self, raw)

    def synchronize(self) -> None:
        self.cupy.cuda.runtime.deviceSynchronize()
        for other in self._others[: self.gpus - 1]:
            other._device.synchronize()

    def release(self) -> None:
        for toolkit in (self, *self._others):
            with toolkit._device:
                self.cupy.get_default_memory_pool().free_all_blocks()

    def devices(self, count: int) -> Sequence[CupyToolkit]:
        self.gpus, self.linked_by = count, None
        if count == 1:
            return [self]
        runtime, own = self.cupy.cuda.runtime, self._device.id
        kind = [runtime.getDeviceProperties(number)["name"] for number in range(runtime.getDeviceCount())]
        others = [number for number, name in enumerate(kind) if name == kind[own] and number != own]
        if count > len(others) + 1:
            raise ToolkitMissingError(devices.too_few(count, len(others) + 1))
        for number in others[len(self._others) : count - 1]:
            with self.cupy.cuda.Device(number):
                other = type(self)(self.variant, self.dtype, self.interaction)
                other._own_stream, other._first = other.stream(), self
            other.keeps_kernels = self.keeps_kernels
            self._others.append(other)
        chosen = self._others[: count - 1]
        direct = {number: self.reaches(other) and other.reaches(self) for number, other in enumerate(chosen, start=1)}
        places = [one._device.pci_bus_id for one in (self, *chosen)]
        self.linked_by = links(direct, devices.link(places))
        return [self, *chosen]

    @contextmanager
    def current(self) -> Iterator[None]:
        if self._own_stream is None:
            yield
        else:
            with self._device, self._own_stream:
                yield

    def mark(self) -> Mark:
        return _Mark(self.cupy.cuda)

    def reaches(self, other: CupyToolkit) -> bool:
        runtime, number = self.cupy.cuda.runtime, other._device.id
        if number not in self._reached:
            self._reached[number] = bool(runtime.deviceCanAccessPeer(self._device.id, number))
            try:
                if self._reached[number]:
                    with self._device:
                        runtime.deviceEnablePeerAccess(number)
            except runtime.CUDARuntimeError as error:
                self._reached[number] = error.status == ALREADY_ENABLED
        return self._reached[number]

    def copy(self, to: Any, values: Any) -> None:
        ends = to.data.ptr, to.device.id, values.data.ptr, values.device.id
        self.cupy.cuda.runtime.memcpyPeerAsync(*ends, values.nbytes, self.current_stream)

    def host_array(self, shape: int | tuple[int, ...], dtype: Any, *, pinned: bool) -> NDArray[Any]:
        if not pinned:
            return np.empty(shape, dtype)
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        memory = self.cupy.cuda.alloc_pinned_memory(max(size, 1))
        array: NDArray[Any] = np.frombuffer(memory, np.uint8, size).view(dtype).reshape(shape)
        return array

    def device_array(self, shape: int | tuple[int, ...], dtype: Any) -> Any:
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        memory = self.cupy.cuda.MemoryPointer(self.cupy.cuda.Memory(max(size, 1)), 0)
        return self.cupy.ndarray(shape, dtype, memptr=memory)

    def stream(self) -> Any:
        return self.cupy.cuda.Stream(non_blocking=True)

    def send(self, array: Any, values: NDArray[Any], stream: Any) -> None:
        array.data.copy_from_host_async(values.ctypes.data, values.nbytes, stream)

    def fetch(self, values: NDArray[Any], array: Any, stream: Any) -> None:
        array.data.copy_to_host_async(values.ctypes.data, values.nbytes, stream)

    def argsort(self, keys: Any) -> Any:
        return self.cupy.argsort(keys)

    def captured(self, launch: Callable[[], None]) -> Callable[[], None]:
        cuda = self.cupy.cuda
        # What is allocated during the capture is used by every replay: from a pool that nobody else takes memory from.
        pool, stream = cuda.MemoryPool(), self.stream()
        self.synchronize()
        with cuda.using_allocator(pool.malloc), stream:
            launch()
            stream.synchronize()
            stream.begin_capture()
            launch()
            kept = pool, stream.end_capture()
        return lambda: kept[1].launch(cuda.get_current_stream())

    def resources(self, kernel: Any) -> Resources:
        if isinstance(kernel, FirstCall):
            return Resources()
        return driver.resources(int(kernel.raw.kernel.ptr), kernel.launch)

    @property
    def compiler(self) -> str:
        return "NVRTC {}.{}".format(*self.cupy.cuda.nvrtc.getVersion())
