"""Launches on a device of WebGPU: in the process that launches an entry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import Any

import numpy as np

from gravbench.judging.calls import Call, RefusedError
from gravbench.toolkits import wgpu
from gravbench.toolkits.dispatching import STORAGE, UNIFORM

BOUNDARY = 16
"""Of the bytes of a uniform buffer."""


class WgpuDevice:
    """An adapter by its number. WGSL checks each access, so guards hold what they held."""

    def __init__(self, number: int) -> None:
        """Open it."""
        self._opened = wgpu.opened(number)
        self._device = self._opened.device
        self._pipelines: dict[str, Any] = {}
        self._buffers: dict[str, Any] = {}
        self._guard = 0

    def load(self, code: bytes, kernels: Sequence[str], precision: str) -> dict[str, Any]:  # noqa: ARG002 - float32
        """Compile a text of WGSL; each kernel is an entry point."""
        with _refusals():
            module = self._device.create_shader_module(code=code.decode())
            self._pipelines = {
                kernel: self._device.create_compute_pipeline(
                    layout="auto", compute={"module": module, "entry_point": kernel}
                )
                for kernel in kernels
            }
        return {"own_clock": self._opened.resolution is not None, "resolution": self._opened.resolution}

    def allocate(self, sizes: Mapping[str, int], guard: int) -> None:
        """Replace all arrays."""
        with _refusals():
            self._buffers = {
                name: self._device.create_buffer(size=size + 2 * guard, usage=STORAGE) for name, size in sizes.items()
            }
        self._guard = guard

    def write(self, name: str, content: memoryview) -> None:
        """Copy to the device."""
        self._device.queue.write_buffer(self._buffers[name], 0, content)

    def read(self, name: str) -> bytes:
        """Copy from the device."""
        return bytes(self._device.queue.read_buffer(self._buffers[name]))

    def run(self, calls: Sequence[Call]) -> None:
        """Launch, and wait for the device."""
        with _refusals():
            self._device.queue.submit([self._recorded(calls, timed=False)])
            self._opened.queue.wait()

    def time(self, calls: Sequence[Call], hold_microseconds: int) -> dict[str, float | bool]:  # noqa: ARG002
        """Time between two timestamps of the device, or by the host's clock where it has none."""
        timed = self._opened.resolution is not None
        with _refusals():
            began = perf_counter()
            commands = [self._recorded(calls, timed=timed)]
            if timed:
                commands.append(self._opened.queue.timestamps_to(self._opened.ticks))
            submitted = perf_counter()
            self._device.queue.submit(commands)
            self._opened.queue.wait()
            seconds = perf_counter() - submitted
            if timed:
                first, last = np.frombuffer(self._device.queue.read_buffer(self._opened.ticks), np.uint64)
                seconds = wgpu.period(self._device) * float(last - first)
        return {"seconds": seconds, "launch_seconds": submitted - began, "held": True}

    def _recorded(self, calls: Sequence[Call], *, timed: bool) -> Any:
        encoder = self._device.create_command_encoder()
        marks = {"beginning_of_pass_write_index": 0, "end_of_pass_write_index": 1}
        options = {"timestamp_writes": {"query_set": self._opened.queue.queries, **marks}} if timed else {}
        commands = encoder.begin_compute_pass(**options)
        for call in calls:
            pipeline = self._pipelines[call.kernel]
            commands.set_pipeline(pipeline)
            commands.set_bind_group(0, self._bound(pipeline, call))
            commands.dispatch_workgroups(*call.grid)
        commands.end()
        return encoder.finish()

    def _bound(self, pipeline: Any, call: Call) -> Any:
        """Bind arrays in the order of the arguments, and behind them all numbers together, of 4 bytes each."""
        arrays = [self._buffers[argument] for argument in call.arguments if isinstance(argument, str)]
        numbers = [argument for argument in call.arguments if not isinstance(argument, str)]
        values = b"".join(
            (np.float32(number) if isinstance(number, float) else np.int32(number)).tobytes() for number in numbers
        )
        resources = [
            {"buffer": buffer, "offset": self._guard, "size": buffer.size - 2 * self._guard} for buffer in arrays
        ]
        if values:
            values += bytes(-len(values) % BOUNDARY)
            resources.append({"buffer": self._device.create_buffer_with_data(data=values, usage=UNIFORM)})
        entries = [{"binding": place, "resource": resource} for place, resource in enumerate(resources)]
        return self._device.create_bind_group(layout=pipeline.get_bind_group_layout(0), entries=entries)


@contextmanager
def _refusals() -> Iterator[None]:
    """Make a sentence of an error of the library."""
    try:
        yield
    except wgpu.library_error() as error:
        raise RefusedError(" ".join(str(error).split())) from error
