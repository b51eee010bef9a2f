"""Questions that only the CUDA driver can answer, asked in the same way for every toolkit.

The occupancy calculators of toolkits are tables that become outdated; the driver knows the kernel and the device.
Needs a current CUDA context, so it is called in a worker only.
"""

from __future__ import annotations

import ctypes
import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from gravbench.model.device import CardKind
from gravbench.model.record import Resources

# Values of CUfunction_attribute, CUdevice_attribute and CUlimit in cuda.h, which never change.
SHARED_BYTES, LOCAL_BYTES, REGISTERS, DYNAMIC_SHARED_BYTES = 1, 3, 4, 8
WARP_SIZE = 10
CLOCK_KILOHERTZ = 13
MULTIPROCESSORS = 16
MAX_THREADS_PER_MULTIPROCESSOR = 39
CAPABILITY_MAJOR, CAPABILITY_MINOR = 75, 76
MAX_SHARED_PER_MULTIPROCESSOR = 81
MAX_BLOCKS_PER_MULTIPROCESSOR = 106
FLOAT32_TO_FLOAT64 = 87
RESERVED_SHARED_PER_BLOCK = 111
PRINTED_BYTES, HEAP_BYTES = 1, 2
NOT_READY = 600
ALIGNED = 256
"""Bytes from which each array in the device's memory begins at a multiple."""
NON_BLOCKING = 1
"""A flag of streams that do not wait for the default one."""

HOLD = b"""
.version 6.3
.target sm_75
.address_size 64
.visible .entry hold(.param .u32 microseconds) {
    .reg .u32 %left;
    .reg .pred %again;
    ld.param.u32 %left, [microseconds];
next:
    nanosleep.u32 1000;
    sub.u32 %left, %left, 1;
    setp.gt.s32 %again, %left, 0;
    @%again bra next;
    ret;
}
"""
"""A kernel of one thread that keeps the device waiting while the host queues a batch behind it.

As PTX, which the driver itself compiles, because not every library takes CUDA C.
"""

COMPARE = b"""
.version 6.3
.target sm_75
.address_size 64
.visible .entry compare(
    .param .u64 results, .param .u64 right, .param .u64 marks, .param .u32 distance,
    .param .u32 words, .param .u32 width, .param .u32 used
) {
    .reg .u64 %result, %right, %mark, %offset;
    .reg .u32 %word, %threads, %block, %limit, %column, %place, %left, %expected;
    .reg .pred %done;
    mov.u32 %word, %tid.x;
    mov.u32 %threads, %ntid.x;
    mov.u32 %block, %ctaid.x;
    mad.lo.u32 %word, %block, %threads, %word;
    ld.param.u32 %limit, [words];
    setp.ge.u32 %done, %word, %limit;
    @%done ret;
    ld.param.u32 %limit, [width];
    rem.u32 %column, %word, %limit;
    ld.param.u32 %limit, [used];
    setp.ge.u32 %done, %column, %limit;
    @%done ret;
    mul.wide.u32 %offset, %word, 4;
    ld.param.u64 %right, [right];
    add.u64 %right, %right, %offset;
    ld.global.u32 %expected, [%right];
    ld.param.u64 %result, [results];
    add.u64 %result, %result, %offset;
    mov.u32 %place, %ctaid.y;
    ld.param.u32 %limit, [distance];
    mul.wide.u32 %offset, %place, %limit;
    add.u64 %result, %result, %offset;
    ld.global.u32 %left, [%result];
    setp.eq.u32 %done, %left, %expected;
    @%done ret;
    mul.wide.u32 %offset, %place, 4;
    ld.param.u64 %mark, [marks];
    add.u64 %mark, %mark, %offset;
    st.global.u32 [%mark], 1;
    ret;
}
"""
"""A kernel that sets a mark to 1 for each of several results that is not to the last bit what is right.

Its blocks along y have a result and a mark each, their threads along x a word of 32 bits each. The results lie
``distance`` bytes apart; of each row of ``width`` words it looks at the first ``used``.
"""
COMPARING_BLOCK = 256


Answer = TypeVar("Answer", ctypes.c_int, ctypes.c_float, ctypes.c_void_p, ctypes.c_uint64)


class DriverError(RuntimeError):
    """The CUDA driver refused a call."""


@dataclass(frozen=True, slots=True)
class Launch:
    """A grid of blocks of threads; a block is a number of threads or its extents (x, y).

    ``dynamic_shared_bytes`` are those that a block is given at the launch, beside those the kernel declares.
    """

    grid_blocks: int
    block: int | tuple[int, int]
    dynamic_shared_bytes: int = 0

    @property
    def extents(self) -> tuple[int, int]:
        """Threads of a block along x and y."""
        return _extents(self.block)


def _extents(given: int | tuple[int, int]) -> tuple[int, int]:
    return given if isinstance(given, tuple) else (given, 1)


@lru_cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


def _call(name: str, *arguments: object) -> None:
    _check(name, getattr(_library(), name)(*arguments))


def _ask(answer: Answer, name: str, *arguments: object) -> Answer:
    """Call a function of the driver that writes its answer where its first argument points."""
    _call(name, ctypes.byref(answer), *arguments)
    return answer


def _check(name: str, code: int) -> None:
    if code:
        text = ctypes.c_char_p()
        _library().cuGetErrorString(code, ctypes.byref(text))
        raise DriverError(f"{name}: {text.value.decode() if text.value else code}")


def current_device() -> int:
    """Return the number of the device of the current context."""
    return _ask(ctypes.c_int(), "cuCtxGetDevice").value


def device_attribute(attribute: int) -> int:
    """Ask for an attribute of the device of the current context."""
    return _ask(ctypes.c_int(), "cuDeviceGetAttribute", attribute, ctypes.c_int(current_device())).value


def compute_capability() -> str:
    """Return for example ``9.0``."""
    return f"{device_attribute(CAPABILITY_MAJOR)}.{device_attribute(CAPABILITY_MINOR)}"


@lru_cache
def card_kind(device: int) -> CardKind:
    """Say what a device is, the current one; asked once."""
    name = ctypes.create_string_buffer(256)
    _call("cuDeviceGetName", name, len(name), ctypes.c_int(device))
    return CardKind(name.value.decode(), compute_capability(), device_attribute(MULTIPROCESSORS))


def clock_hertz() -> float:
    """Return the highest clock of the multiprocessors, in cycles per second."""
    return 1e3 * device_attribute(CLOCK_KILOHERTZ)


def initialize() -> None:
    """Initialize the driver for this process, which opens no device; later calls return at once."""
    _call("cuInit", 0)


def use_device() -> None:
    """Make the primary context of the first device current, the one that every library uses, if none is current."""
    initialize()
    if not _ask(ctypes.c_void_p(), "cuCtxGetCurrent").value:
        device = _ask(ctypes.c_int(), "cuDeviceGet", 0)
        _call("cuCtxSetCurrent", _ask(ctypes.c_void_p(), "cuDevicePrimaryCtxRetain", device))


class Event:
    """A point in a stream, whose time the device records when it gets there. A stream is given by its driver handle."""

    def __init__(self) -> None:
        self._handle = ctypes.c_void_p()
        _ask(self._handle, "cuEventCreate", 0)

    def __del__(self) -> None:
        if self._handle:
            _library().cuEventDestroy_v2(self._handle)

    def record(self, stream: int) -> None:
        """Put it behind everything in the stream."""
        _call("cuEventRecord", self._handle, ctypes.c_void_p(stream))

    def passed(self) -> bool:
        """Tell whether the device has got there."""
        if (code := _library().cuEventQuery(self._handle)) == NOT_READY:
            return False
        _check("cuEventQuery", code)
        return True

    def seconds_since(self, start: Event) -> float:
        """Wait until the device has got here; seconds from ``start``."""
        _call("cuEventSynchronize", self._handle)
        return _ask(ctypes.c_float(), "cuEventElapsedTime", start._handle, self._handle).value * 1e-3


def new_stream() -> int:
    """Make a stream that does not wait for the default one, and return its handle."""
    stream = _ask(ctypes.c_void_p(), "cuStreamCreate", NON_BLOCKING).value
    assert stream is not None
    return stream


def end_stream(stream: int) -> None:
    """Destroy a stream; what is in it still runs."""
    _library().cuStreamDestroy_v2(ctypes.c_void_p(stream))


def hold(microseconds: int, stream: int) -> None:
    """Keep a stream waiting."""
    launch(load_function(HOLD, "hold"), 1, 1, [ctypes.c_uint32(microseconds)], stream=stream)


def compare(
    results: int, right: int, marks: int, distance: int, words: int, width: int, used: int, count: int, stream: int
) -> None:
    """Queue a comparison of ``count`` results of so many words each on the device; see ``COMPARE``."""
    numbers = distance, words, width, used
    parameters = [*map(ctypes.c_uint64, (results, right, marks)), *map(ctypes.c_uint32, numbers)]
    grid = -(-words // COMPARING_BLOCK), count
    launch(load_function(COMPARE, "compare"), grid, COMPARING_BLOCK, parameters, stream=stream)


@lru_cache
def load_function(image: bytes, name: str) -> int:
    """Load a cubin or PTX into the current context, once, and return the handle of one of its kernels."""
    module = _ask(ctypes.c_void_p(), "cuModuleLoadData", image)
    function = _ask(ctypes.c_void_p(), "cuModuleGetFunction", module, name.encode()).value
    assert function is not None
    return function


def allocate(size: int) -> int:
    """Allocate bytes on the device; return their address."""
    return _ask(ctypes.c_uint64(), "cuMemAlloc_v2", ctypes.c_size_t(size)).value


def free(address: int) -> None:
    """Free what was allocated."""
    _call("cuMemFree_v2", ctypes.c_uint64(address))


@contextmanager
def allocated(size: int) -> Iterator[int]:
    """Allocate bytes on the device for the block; yields their address."""
    address = allocate(size)
    try:
        yield address
    finally:
        free(address)


def starts_of(arrays: Sequence[NDArray[Any]]) -> list[int]:
    """Return at which bytes arrays begin that lie behind one another in one piece of memory, and at last its size."""
    return [0, *itertools.accumulate(-(-array.nbytes // ALIGNED) * ALIGNED for array in arrays)]


@contextmanager
def kept(arrays: Sequence[NDArray[Any]]) -> Iterator[list[int]]:
    """Copy contiguous arrays to the device, in one piece, for the block; yields their addresses."""
    starts = starts_of(arrays)
    host = np.empty(starts[-1], np.uint8)
    for array, start in zip(arrays, starts, strict=False):
        host[start : start + array.nbytes] = array.reshape(-1).view(np.uint8)
    with allocated(host.nbytes) as memory:
        copy_in(memory, host)
        synchronize()  # other streams do not wait for the copy
        yield [memory + start for start in starts[:-1]]


def copy_in(address: int, values: NDArray[Any]) -> None:
    """Copy a contiguous array to the device."""
    _call(
        "cuMemcpyHtoD_v2", ctypes.c_uint64(address), ctypes.c_void_p(values.ctypes.data), ctypes.c_size_t(values.nbytes)
    )


def copy_out(values: NDArray[Any], address: int) -> None:
    """Fill a contiguous array from the device, when everything in the default stream has ended."""
    _call(
        "cuMemcpyDtoH_v2", ctypes.c_void_p(values.ctypes.data), ctypes.c_uint64(address), ctypes.c_size_t(values.nbytes)
    )


def copy_within(to: int, values: int, size: int, stream: int) -> None:
    """Queue a copy of bytes from one place of the device's memory to another."""
    ends = ctypes.c_uint64(to), ctypes.c_uint64(values)
    _call("cuMemcpyDtoDAsync_v2", *ends, ctypes.c_size_t(size), ctypes.c_void_p(stream))


def launch(
    function: int,
    grid: int | tuple[int, int],
    block: int | tuple[int, int],
    parameters: Sequence[Any],
    dynamic_shared_bytes: int = 0,
    stream: int = 0,
) -> None:
    """Launch a kernel, by default into the default stream; ``parameters`` are objects of ``ctypes``."""
    addresses = (ctypes.c_void_p * len(parameters))(*map(ctypes.addressof, parameters))
    shape = *_extents(grid), 1, *_extents(block), 1
    kernel = ctypes.c_void_p(function)
    _call("cuLaunchKernel", kernel, *shape, dynamic_shared_bytes, ctypes.c_void_p(stream), addresses, None)


def synchronize() -> None:
    """Wait until everything in the current context has ended."""
    _call("cuCtxSynchronize")


def limit_device_code(heap_bytes: int, printed_bytes: int) -> None:
    """Limit what kernels of the current context may allocate, and what they may print, as far as the driver takes it.

    Before the first launch.
    """
    for limit, size in ((PRINTED_BYTES, printed_bytes), (HEAP_BYTES, heap_bytes)):
        with suppress(DriverError):  # of a size that is too small for it, it keeps its own
            _call("cuCtxSetLimit", limit, ctypes.c_size_t(size))


def allow_dynamic_shared(function: int, bytes_of_block: int) -> None:
    """Let launches of a kernel give blocks so many bytes of dynamic shared memory, which may be more than 48 KiB."""
    _call("cuFuncSetAttribute", ctypes.c_void_p(function), DYNAMIC_SHARED_BYTES, bytes_of_block)


def parameter_bytes(function: int) -> list[int] | None:
    """Return the size of each parameter of a kernel; None where the driver does not tell, before CUDA 12.4."""
    ask = getattr(_library(), "cuFuncGetParamInfo", None)
    if ask is None:
        return None
    sizes: list[int] = []
    offset, size = ctypes.c_size_t(), ctypes.c_size_t()
    while not ask(ctypes.c_void_p(function), ctypes.c_size_t(len(sizes)), ctypes.byref(offset), ctypes.byref(size)):
        sizes.append(size.value)
    return sizes


def function_of_kernel(kernel: int) -> int:
    """Return the function in the current context of a kernel that was loaded without one (a ``CUkernel``)."""
    function = _ask(ctypes.c_void_p(), "cuKernelGetFunction", ctypes.c_void_p(kernel)).value
    assert function is not None
    return function


def _function_attribute(function: int, attribute: int) -> int:
    return _ask(ctypes.c_int(), "cuFuncGetAttribute", attribute, ctypes.c_void_p(function)).value


def resources(function: int, launch: Launch) -> Resources:
    """Ask what a kernel uses and how many of its blocks a multiprocessor holds at once.

    The limiter is found by elimination: the limits of threads, blocks and shared memory are single attributes of
    the device; where the driver's answer is below all three, registers are what is left. A grid too small
    to fill the device once is named as well.

    Raises:
        DriverError: the driver refused.
    """
    threads = math.prod(launch.extents)
    block = ctypes.c_void_p(function), threads, ctypes.c_size_t(launch.dynamic_shared_bytes)
    resident = _ask(ctypes.c_int(), "cuOccupancyMaxActiveBlocksPerMultiprocessor", *block).value
    shared = _function_attribute(function, SHARED_BYTES) + launch.dynamic_shared_bytes
    warp = device_attribute(WARP_SIZE)
    warps, most_warps = -(-threads // warp), device_attribute(MAX_THREADS_PER_MULTIPROCESSOR) // warp
    limits = {
        "threads": most_warps // warps,
        "blocks": device_attribute(MAX_BLOCKS_PER_MULTIPROCESSOR),
        "shared memory": device_attribute(MAX_SHARED_PER_MULTIPROCESSOR)
        // max(1, shared + device_attribute(RESERVED_SHARED_PER_BLOCK)),
    }
    limiters = [name for name, limit in limits.items() if limit <= resident] or ["registers"]
    capacity = resident * device_attribute(MULTIPROCESSORS)
    waves = launch.grid_blocks / capacity if capacity else math.inf
    if waves < 1:
        limiters.append("grid")
    return Resources(
        registers=_function_attribute(function, REGISTERS),
        shared_bytes=shared,
        local_bytes=_function_attribute(function, LOCAL_BYTES),
        threads_per_block=threads,
        grid_blocks=launch.grid_blocks,
        blocks_per_multiprocessor=resident,
        occupancy=resident * warps / most_warps,
        occupancy_limiter=", ".join(limiters),
        waves=waves,
    )
