"""Timing for libraries whose work waits in a CUDA stream that they tell, by the driver alone."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from harness.toolkits import driver
from harness.toolkits.interface import GpuToolkit


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
