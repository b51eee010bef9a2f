"""Launches by the CUDA driver, without any library: in the process that launches an entry."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import Any

import numpy as np

from gravbench.judging.calls import Call, FaultError, RefusedError
from gravbench.toolkits import driver

PRINTED_BYTES = 4096
"""Of what device code prints, which goes nowhere."""


class CudaDevice:
    """The first GPU that this process sees."""

    def __init__(self) -> None:
        """Make its context; device code can allocate nothing."""
        driver.use_device()
        driver.limit_device_code(0, PRINTED_BYTES)
        self._functions: dict[str, int] = {}
        self._memory: dict[str, tuple[int, int]] = {}  # address of the first guard, and bytes with both guards
        self._guard = 0
        self._real: type[ctypes.c_float | ctypes.c_double] = ctypes.c_float

    def load(self, code: bytes, kernels: Sequence[str], precision: str) -> dict[str, Any]:
        """Load a cubin; return the multiprocessors, their clock, and the bytes of each parameter of each kernel."""
        self._real = ctypes.c_float if precision == "float32" else ctypes.c_double
        try:
            self._functions = {kernel: driver.load_function(code, kernel) for kernel in kernels}
        except driver.DriverError as error:
            raise RefusedError(f"the driver refuses the binary: {error}") from error
        return {
            "multiprocessors": driver.device_attribute(driver.MULTIPROCESSORS),
            "hertz": driver.clock_hertz(),
            "parameters": {name: driver.parameter_bytes(function) for name, function in self._functions.items()},
        }

    def allocate(self, sizes: Mapping[str, int], guard: int) -> None:
        """Free all arrays, and allocate these."""
        for address, _ in self._memory.values():
            driver.free(address)
        self._memory, self._guard = {}, guard
        for name, size in sizes.items():
            whole = size + 2 * guard
            try:
                self._memory[name] = driver.allocate(whole), whole
            except driver.DriverError as error:
                raise RefusedError(f"{whole:,} bytes for {name}: {error}") from error

    def write(self, name: str, content: memoryview) -> None:
        """Copy to the device."""
        driver.copy_in(self._memory[name][0], np.frombuffer(content, np.uint8))

    def read(self, name: str) -> bytes:
        """Copy from the device."""
        address, size = self._memory[name]
        content = np.empty(size, np.uint8)
        with _faults():
            driver.copy_out(content, address)
        return content.tobytes()

    def run(self, calls: Sequence[Call]) -> None:
        """Launch, and wait for the device."""
        launches = [self._prepared(call) for call in calls]
        with _faults():
            for launch in launches:
                driver.launch(*launch)
            driver.synchronize()

    def time(self, calls: Sequence[Call], hold_microseconds: int) -> dict[str, float | bool]:
        """Time between two events behind a kernel that holds the queue, so that the device does not wait for the host.

        ``held`` tells whether it still held the queue when all was launched.
        """
        launches = [self._prepared(call) for call in calls]
        start, stop = driver.Event(), driver.Event()
        with _faults():
            driver.synchronize()
            driver.hold(hold_microseconds, 0)
            start.record(0)
            began = perf_counter()
            for launch in launches:
                driver.launch(*launch)
            stop.record(0)
            launching = perf_counter() - began
            held = not start.passed()
            seconds = stop.seconds_since(start)
        return {"seconds": seconds, "launch_seconds": launching, "held": held}

    def _prepared(self, call: Call) -> tuple[int, tuple[int, int], tuple[int, int], list[Any], int]:
        function = self._functions[call.kernel]
        if call.shared:
            try:
                driver.allow_dynamic_shared(function, call.shared)
            except driver.DriverError as error:
                raise RefusedError(
                    f"{call.kernel} with {call.shared} bytes of dynamic shared memory: {error}"
                ) from error
        return function, call.grid, call.block, list(map(self._parameter, call.arguments)), call.shared

    def _parameter(self, argument: str | float) -> Any:
        if isinstance(argument, str):
            return ctypes.c_uint64(self._memory[argument][0] + self._guard)
        return self._real(argument) if isinstance(argument, float) else ctypes.c_int(argument)


@contextmanager
def _faults() -> Iterator[None]:
    """Make a fault of an error of the driver."""
    try:
        yield
    except driver.DriverError as error:
        raise FaultError(str(error)) from error
