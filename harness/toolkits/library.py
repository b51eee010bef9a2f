"""Timing through the driver alone, for libraries that expose the CUDA stream in which their work waits."""

from __future__ import annotations

import time
import warnings
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from gravbench.toolkits import driver
from gravbench.toolkits.interface import DeviceToolkit, GpuToolkit


class LibraryToolkit(GpuToolkit):
    """Events and the holding kernel in the library's own stream."""

    @property
    @abstractmethod
    def queue(self) -> int:
        """The driver's handle of the stream in which the library's work waits."""

    def event(self) -> Any:
        return driver.Event()

    def record(self, event: Any) -> None:
        event.record(self.queue)

    def passed(self, event: Any) -> bool:
        return bool(event.passed())

    def elapsed(self, start: Any, stop: Any) -> float:
        return float(stop.seconds_since(start))

    def hold(self, microseconds: int) -> None:
        driver.hold(microseconds, self.queue)


class FirstCall:
    """A function over whole arrays whose first call compiles it; that call counts as compile time."""

    def __init__(self, toolkit: DeviceToolkit, function: Callable[..., Any]) -> None:
        self.toolkit = toolkit
        self.function = function
        self.called = False

    def __call__(self, *arguments: Any) -> Any:
        """Call it; on a GPU this returns before what it launched has run."""
        if self.called:
            return self.function(*arguments)
        began = time.perf_counter()
        with warnings.catch_warnings():
            # A compiler's advice on performance is part of what is measured, not a mistake to warn about.
            warnings.simplefilter("ignore")
            result = self.function(*arguments)
        self.toolkit.compile_seconds += time.perf_counter() - began
        self.called = True
        return result
