"""WebGPU: kernels in WGSL on a GPU of any maker, through wgpu-native (Vulkan, Metal or DirectX 12).

Its devices are those that no other toolkit uses, so their family is here too. WebGPU tells neither a clock nor a power
(NVML does, of NVIDIA's cards), and has no float64. A driver that computes on the processor is a device as well, and is
named as one.
"""

from __future__ import annotations

import math
import os
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gravbench.errors import InputError
from gravbench.model import wgsl
from gravbench.model.device import SOFTWARE, Device
from gravbench.model.record import Resources
from gravbench.model.toolkits import Entry
from gravbench.model.variant import Kernel
from gravbench.toolkits import cuda, dispatching
from gravbench.toolkits.dispatching import Array, Exercise, Queue
from gravbench.toolkits.family import Family, Sensor
from gravbench.toolkits.interface import DeviceToolkit, Timing, ToolkitMissingError, compiling

ENTRY = Entry(
    place=13, family="wgpu", title="WebGPU", module="wgpu", distributions=("wgpu",), extras=("wgpu",),
    probe="naive", suffix=wgsl.SUFFIX, by_name=True, dtypes=("float32",), variables=("WGPU_", "VK_", "MESA_", "LP_"),
)  # fmt: skip

PROCESSOR = "CPU"
"""The type of an adapter whose driver computes on the processor."""
TIMESTAMPS, SUBGROUPS = "timestamp-query", "subgroup"
"""Features that are asked for where an adapter has them."""
SUBMITTING = 1e-4
"""Seconds, about, that submitting a batch and waiting for it takes beside the batch itself."""
MARKS = 16
"""Timestamps from which the resolution of the clock is found."""
IDLE, WAKING, LONGEST_WAKING = 0.02, 0.5, 3.0
"""Seconds after which a device may have lowered its clock, and for which it works at least and at most before it is
timed then."""
LIMITS = "max-compute", "max-storage-buffer", "max-buffer"
"""How the names of those limits begin that decide which kernels can run."""
LARGEST_ARRAY, MOST_THREADS = "max-storage-buffer-binding-size", "max-compute-invocations-per-workgroup"
MULTIPROCESSORS = 132
"""As many as an H200 has; WebGPU does not tell. What divides its work by them makes parts enough for any device."""


class WgpuFamily(Family):
    """The adapters of wgpu-native, hardware first: ``wgpu:0``, ``wgpu:1``, ..."""

    words = ("webgpu", "vulkan", "metal")
    needs = "a GPU with Vulkan, Metal or DirectX 12"
    by_name = True
    shared = True
    shown = 0
    """The number of the adapter that this process uses."""

    def devices(self) -> tuple[list[Device], str | None]:
        if ENTRY.missing:
            return [], ENTRY.missing
        try:
            known = [adapter.info for adapter in _adapters()]
        except Exception as error:  # of the library's own classes, or a library that cannot be loaded
            return [], f"no device for WebGPU: {' '.join(str(error).split())}"
        if not known:
            return [], "no device for WebGPU: no driver for Vulkan, Metal or DirectX 12 was found"
        return [
            Device(f"wgpu:{number}", _name(info), driver=info["description"] or None)
            for number, info in enumerate(known)
        ], None

    def mend(self) -> str:
        return (
            "install the driver of the GPU and, on Linux, Vulkan's loader; a driver that computes on the processor "
            "is enough to try it: apt install libvulkan1 mesa-vulkan-drivers (Debian, Ubuntu)"
        )

    def expose(self, devices: Sequence[Device]) -> None:
        """Let the toolkit open this one; the library itself shows all."""
        self.shown = next((int(device.selector.rpartition(":")[2]) for device in devices), 0)

    def sensor(self, device: Device) -> AbstractContextManager[Sensor | None]:
        """Ask NVML, if it knows one card of this name; WebGPU itself tells nothing."""
        return cuda.FAMILY.sensor(replace(device, uuid=cuda.uuid_of(device.name)))


FAMILY = WgpuFamily()


@cache
def _adapters() -> list[Any]:
    """List the adapters but those of OpenGL, which lack compute kernels; those that compute on the processor last.

    Of several interfaces that know a card (Vulkan and DirectX 12) one is left.
    """
    import wgpu
    from wgpu.backends.wgpu_native.extras import set_instance_extras

    if sys.platform == "linux":
        # Without one, the library of Wayland complains on standard error, also where nothing is drawn.
        os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())
    set_instance_extras(backends=("Primary",))
    adapters = wgpu.gpu.enumerate_adapters_sync()
    ordered = sorted(adapters, key=lambda adapter: adapter.info["adapter_type"] == PROCESSOR)
    return [adapter for adapter in ordered if adapter.info["backend_type"] == ordered[0].info["backend_type"]]


def _name(info: Any) -> str:
    return f"{info['device']}, {SOFTWARE}" if info["adapter_type"] == PROCESSOR else str(info["device"])


@dataclass(frozen=True, slots=True)
class Opened:
    """An adapter that this process uses, and the one queue of its device.

    ``resolution`` is that of its clock in seconds, and ``ticks`` the buffer of two timestamps; both are None where it
    takes none. ``exercise`` keeps it at the clock of its work; None for the processor.
    """

    adapter: Any
    device: Any
    queue: Queue
    ticks: Any
    resolution: float | None
    exercise: Exercise | None


@cache
def opened(number: int) -> Opened:
    """Open an adapter with all that it allows."""
    adapter = _adapters()[number]
    features = [name for name in (TIMESTAMPS, SUBGROUPS) if name in adapter.features]
    limits = {name: limit for name, limit in adapter.limits.items() if name.startswith(LIMITS)}
    device = adapter.request_device_sync(required_features=features, required_limits=limits)
    queries, ticks = _timestamps(device, 2) if TIMESTAMPS in features else (None, None)
    queue = Queue(device, queries)
    exercise = None if adapter.info["adapter_type"] == PROCESSOR else Exercise(queue)
    return Opened(adapter, device, queue, ticks, _resolution(device) if queries else None, exercise)


def _resolution(device: Any) -> float:
    """Find the resolution of the device's clock in seconds: what all of a few timestamps are multiples of."""
    queries, ticks = _timestamps(device, MARKS)
    encoder = device.create_command_encoder()
    for first in range(0, MARKS, 2):
        marks = {"query_set": queries, "beginning_of_pass_write_index": first, "end_of_pass_write_index": first + 1}
        encoder.begin_compute_pass(timestamp_writes=marks).end()
    encoder.resolve_query_set(queries, 0, MARKS, ticks, 0)
    device.queue.submit([encoder.finish()])
    stamps = np.frombuffer(device.queue.read_buffer(ticks), np.uint64)
    return period(device) * max(1, math.gcd(*(int(stamp) for stamp in stamps)))


def _timestamps(device: Any, count: int) -> tuple[Any, Any]:
    """Make room for so many timestamps, and a buffer that they are copied to."""
    ticks = device.create_buffer(size=8 * count, usage=dispatching.RESOLVED)
    return device.create_query_set(type="timestamp", count=count), ticks


def period(device: Any) -> float:
    """Return the seconds of a tick of the device's clock; wgpu-native returns ticks where WebGPU has nanoseconds."""
    from wgpu.backends.wgpu_native import lib

    return 1e-9 * float(lib.wgpuQueueGetTimestampPeriod(device.queue._internal))


def library_error() -> type[Exception]:
    """Return the class of what the library raises."""
    from wgpu import GPUError

    return GPUError  # type: ignore[no-any-return]


class WgslError(RuntimeError):
    """A text of WGSL is refused; the message says why, and quotes the line."""


def _refusal(message: str, text: str) -> str:
    """Make a sentence of what wgpu-native says of a text: its last reason, and the line of the text that it names."""
    reasons = [
        line.strip(" =") for line in message.splitlines() if line.strip() and "─" not in line and "│" not in line
    ]
    named = re.search(r"wgsl:(\d+):", message)
    problem = (
        (reasons or [message])[-1]
        if named is None
        else next(line for line in reasons if "error:" in line).partition("error: ")[2]
    )
    return problem + (f": {text.splitlines()[int(named[1]) - 1].strip()}" if named else "")


class WgpuToolkit(DeviceToolkit):
    """The adapter that this process was given."""

    name = "wgpu"
    refusal = "WebGPU cannot start"
    launches_blocks = True

    def start(self) -> None:
        ENTRY.load()
        shown = opened(FAMILY.shown)
        self._adapter, self._device, self._queue = shown.adapter, shown.device, shown.queue
        self._ticks, self._exercise = shown.ticks, shown.exercise
        self.has_own_clock = shown.resolution is not None
        self._worked_at, self._recording = -math.inf, 0.0
        self.resolution = SUBMITTING if shown.resolution is None else shown.resolution

    @property
    def multiprocessors(self) -> int:
        return MULTIPROCESSORS

    @property
    def adapter(self) -> dict[str, str]:
        info = self._adapter.info
        facts = {"vendor": info["vendor"], "backend": info["backend_type"], "type": info["adapter_type"]}
        facts["features"] = ", ".join(name for name in (TIMESTAMPS, SUBGROUPS) if name in self._device.features)
        return facts | {name: str(limit) for name, limit in self._device.limits.items() if name.startswith(LIMITS)}

    def upload(self, values: NDArray[Any]) -> Array:
        contiguous = np.ascontiguousarray(values, self.real)
        most = self._device.limits[LARGEST_ARRAY]
        if contiguous.nbytes > most:
            raise ToolkitMissingError(f"an array of {contiguous.nbytes:,} bytes; this device takes at most {most:,}")
        buffer = self._device.create_buffer_with_data(data=contiguous, usage=dispatching.STORAGE)
        return Array(buffer, contiguous.shape)

    def copy_in(self, array: Array, values: NDArray[Any]) -> None:
        self._queue.submit()
        self._device.queue.write_buffer(array.buffer, 0, np.ascontiguousarray(values, self.real))

    def download(self, array: Array) -> NDArray[Any]:
        self._queue.submit()
        data = self._device.queue.read_buffer(array.buffer)
        return np.frombuffer(data, self.real).reshape(array.shape).copy()

    def build(self, stem: str, constants: dict[str, int]) -> Kernel:
        path = Path(str(self.variant.module.__file__)).with_suffix(wgsl.SUFFIX)
        if not path.exists():
            raise InputError(f"{stem} has no kernel for {self.name}: there is no {path.name}")

        def compiled(threads: int) -> list[Any]:
            text = wgsl.kernel_text(path, self.interaction, {**constants, wgsl.THREADS: threads})
            return self._pipelines(stem, text, threads)

        return dispatching.Kernel(self._queue, compiled)

    def _pipelines(self, kernel: str, text: str, threads: int) -> list[Any]:
        """Compile what a launch of a kernel runs, for blocks of so many threads.

        Raises:
            ToolkitMissingError: the device lacks what it needs.
            WgslError: the text is refused.
        """
        most = self._device.limits[MOST_THREADS]
        if threads > most:
            raise ToolkitMissingError(f"a block of {threads:,} threads; this device takes at most {most:,}")
        if wgsl.SUBGROUPS in text and SUBGROUPS not in self._device.features:
            raise ToolkitMissingError("this device has no subgroups")
        from wgpu import GPUError

        with compiling(self):
            try:
                # Naga knows the functions of subgroups, and not the line that asks for them.
                module = self._device.create_shader_module(code=text.replace(wgsl.SUBGROUPS, ""))
                stages = [{"module": module, "entry_point": name} for name in wgsl.entry_points(text, kernel)]
                return [self._device.create_compute_pipeline(layout="auto", compute=stage) for stage in stages]
            except GPUError as error:
                raise WgslError(_refusal(str(error), text)) from None

    def synchronize(self) -> None:
        self._queue.wait()

    def time(self, launch: Callable[[], None], count: int, while_busy: Callable[[], None] = lambda: None) -> Timing:
        """Time a batch that is submitted as a whole, so that the device never waits for the host.

        The device is at work when the batch comes, so that its clock is that of its work.
        """
        began = perf_counter()
        self._wake()
        waking = perf_counter() - began
        by_host, by_device, launching = self._timed(launch, count, while_busy, busy_before=self.has_own_clock)
        return Timing(by_host if by_device is None else by_device, launching, waking_seconds=waking)

    def _wake(self) -> None:
        """Have a device work that has been idle for a while."""
        self._queue.wait()
        if self._exercise and perf_counter() - self._worked_at > IDLE:
            self._exercise.go_on(WAKING, LONGEST_WAKING)

    def time_by_both(self, launch: Callable[[], None], count: int) -> tuple[float, float]:
        self._wake()
        by_host, by_device, _ = self._timed(launch, count, lambda: None, busy_before=False)
        return super().time_by_both(launch, count) if by_device is None else (by_host, by_device)

    def _timed(
        self, launch: Callable[[], None], count: int, while_busy: Callable[[], None], *, busy_before: bool
    ) -> tuple[float, float | None, float]:
        """Time a batch; return seconds per launch by the host's clock, by the device's, and of launching alone.

        With ``busy_before``, the device works while the batch is recorded, which only its own clock does not count.
        """
        if self._exercise and busy_before:
            self._exercise.begin(self._recording)
        began = perf_counter()
        for _ in range(count):
            launch()
        commands = self._queue.recorded(timed=self.has_own_clock)
        if self.has_own_clock:
            commands.append(self._queue.timestamps_to(self._ticks))
        submitted = perf_counter()
        self._device.queue.submit(commands)
        while_busy()
        self._queue.wait()
        self._worked_at, self._recording = perf_counter(), submitted - began
        by_host, by_device = (self._worked_at - submitted) / count, None
        if self.has_own_clock:
            first, last = np.frombuffer(self._device.queue.read_buffer(self._ticks), np.uint64)
            by_device = period(self._device) * float(last - first) / count
        return by_host, by_device, (submitted - began) / count

    def resources(self, kernel: Any) -> Resources:
        columns, rows = kernel.launch.extents
        return Resources(threads_per_block=columns * rows, grid_blocks=kernel.launch.grid_blocks)

    @property
    def compiler(self) -> str:
        return f"wgpu-native {_library_version()}"


def _library_version() -> str:
    from wgpu.backends.wgpu_native import __version__

    return str(__version__)
