"""CuPy: CUDA C compiled by NVRTC, for which no device is needed, and launched by CuPy."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from threading import get_ident
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gravbench.model.record import Resources
from gravbench.model.toolkits import Entry, versions
from gravbench.model.variant import Kernel
from gravbench.toolkits import binaries, cuda, devices, driver, nvrtc
from gravbench.toolkits.binaries import Binary
from gravbench.toolkits.interface import FLAGS, FirstCall, ToolkitMissingError, cuda_options
from gravbench.toolkits.jobs import Job
from gravbench.toolkits.several import Mark, SeveralToolkit, links

ENTRY = Entry(
    place=1, family="cuda", title="CuPy", module="cupy", distributions=("cupy-cuda13x", "cupy-cuda12x", "cupy"),
    extras=("cuda13", "cuda12"),
    companions=("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12"), flags=FLAGS, probe="naive", cuda_c=True,
    # What CuPy compiles by itself, for whole arrays, it compiles in every process.
    in_force=True, environment=(("CUPY_CACHE_IN_MEMORY", "1"),), variables=("CUPY_",), only_context=True
)  # fmt: skip

PER_THREAD = 2
"""cudaStreamPerThread of the CUDA runtime."""
ALREADY_ENABLED = 704
"""cudaErrorPeerAccessAlreadyEnabled."""
NO_MEMORY = 2
"""cudaErrorMemoryAllocation."""


AS_CUPY_COMPILES = ("--device-as-default-execution-space",)
"""What CuPy adds to the options of a kernel, beside its headers, ``-ftz=true`` and the architecture."""


def build_ahead(job: Job, architecture: str) -> bool:
    """Compile a kernel of CUDA C without a device, for sessions that find it; return whether it was compiled now.

    Raises:
        NotImplementedError: it is no CUDA C.
    """
    if hasattr(job.source.module, "cupy_kernel"):
        raise NotImplementedError("CuPy compiles operations on whole arrays in the session")
    source = job.source.cuda_source(job.interaction)
    return compiled(source, cuda_options(job.constants, job.dtype), architecture)[1]


def compiled(source: str, options: Sequence[str], architecture: str) -> tuple[Binary, bool]:
    """Return the machine code of a text of CUDA C, as CuPy would compile it, and whether it was compiled now.

    Raises:
        CompileError: NVRTC refuses the text.
    """
    flags = [*options, f"-arch={architecture}", *AS_CUPY_COMPILES]

    def compile_text() -> tuple[bytes, str]:
        with nvrtc.program(source, flags) as (program, _):
            return nvrtc.cubin(program), ""  # it has all kernels of the text

    compiler = *nvrtc.include_options(), nvrtc.version(), *versions(nvrtc.DISTRIBUTIONS)
    return binaries.binary([source, *flags, *compiler], compile_text)


def _check_nvrtc() -> None:
    if not nvrtc.is_usable():
        extras = " or ".join(f"pip install 'gravbench[{extra}]'" for extra in ENTRY.extras)
        raise ToolkitMissingError(f"CuPy's kernels need NVRTC and its bindings for Python; install them with: {extras}")


class _Kernel:
    def __init__(self, function: Any) -> None:
        self.function = function
        self.launch = driver.Launch(0, 0)

    def __call__(self, grid: int, block: int | tuple[int, int], *arguments: Any, stream: Any = None) -> None:
        self.launch = driver.Launch(grid, block)
        if stream is None:
            self.function((grid,), self.launch.extents, arguments)
        else:
            with stream:
                self.function((grid,), self.launch.extents, arguments)


class _Mark:
    def __init__(self, cuda: Any) -> None:
        self.current_stream = cuda.get_current_stream
        self.event = cuda.Event(disable_timing=True)

    def record(self) -> None:
        self.event.record(self.current_stream())

    def wait(self) -> None:
        self.current_stream().wait_event(self.event)


class CupyToolkit(SeveralToolkit):
    """CuPy on the current device."""

    name = "cupy"
    refusal = "CuPy cannot start"
    queues_copies = True

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
        _check_nvrtc()
        source = self.variant.cuda_source(self.interaction)
        binary, compiled_now = compiled(source, self.options(constants), self.architecture)
        self._first.count_binary(binary, compiled_now=compiled_now)
        return _Kernel(self.load(binary.code, stem))

    def load(self, code: bytes, kernel: str) -> Any:
        """Load a kernel into the current context; what is returned is launched as CuPy launches a function."""
        module = self.cupy.cuda.function.Module()
        module.load(code)
        return module.get_function(kernel)

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
        runtime, first = self.cupy.cuda.runtime, self._device.id
        kind = [runtime.getDeviceProperties(number)["name"] for number in range(runtime.getDeviceCount())]
        others = [number for number, name in enumerate(kind) if name == kind[first] and number != first]
        if count > len(others) + 1:
            raise ToolkitMissingError(devices.too_few(count, len(others) + 1))
        for number in others[len(self._others) : count - 1]:
            with self.cupy.cuda.Device(number):
                other = type(self)(self.variant, self.dtype, self.interaction)
                other._own_stream, other._first = other.stream(), self
            self._others.append(other)
        chosen = self._others[: count - 1]
        direct = {number: self.reaches(other) and other.reaches(self) for number, other in enumerate(chosen, start=1)}
        places = [toolkit._device.pci_bus_id for toolkit in (self, *chosen)]
        self.linked_by = links(direct, cuda.link(places))
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
        cuda = self.cupy.cuda
        try:
            memory = cuda.Memory(max(size, 1))
        except cuda.runtime.CUDARuntimeError as error:
            if error.status == NO_MEMORY:
                raise MemoryError(f"the device has no {size:,} bytes left") from error
            raise
        return self.cupy.ndarray(shape, dtype, memptr=cuda.MemoryPointer(memory, 0))

    def stream(self) -> Any:
        return self.cupy.cuda.Stream(non_blocking=True)

    def wait(self, stream: Any) -> None:
        (self.cupy.cuda.get_current_stream() if stream is None else stream).synchronize()

    def send(self, array: Any, values: NDArray[Any], stream: Any) -> None:
        array.data.copy_from_host_async(values.ctypes.data, values.nbytes, stream)

    def fetch(self, values: NDArray[Any], array: Any, stream: Any) -> None:
        runtime, number = self.cupy.cuda.runtime, self.current_stream if stream is None else stream.ptr
        # CuPy's own method refuses to be captured into a graph.
        runtime.memcpyAsync(values.ctypes.data, array.data.ptr, values.nbytes, runtime.memcpyDeviceToHost, number)

    def follow(self, stream: Any) -> None:
        stream.wait_event(self.cupy.cuda.get_current_stream().record())

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
            try:
                launch()
            finally:
                graph = stream.end_capture()
            kept = pool, graph
        return lambda: kept[1].launch(cuda.get_current_stream())

    def resources(self, kernel: Any) -> Resources:
        if isinstance(kernel, FirstCall):
            return Resources()
        return driver.resources(int(kernel.function.ptr), kernel.launch)

    @property
    def compiler(self) -> str:
        _check_nvrtc()
        return nvrtc.version()
