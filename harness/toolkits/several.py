"""What a toolkit has beyond ``CudaToolkit`` that works on several GPUs of one host, in one process.

Each GPU has a toolkit of its own, which ``devices`` of the first returns. What is allocated, compiled and launched
within ``current()`` of one belongs to it. Streams are ordered by marks, for which no host waits.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Protocol

from gravbench.toolkits.interface import CudaToolkit

PEER, HOST = "peer access", "through the host"


class Mark(Protocol):
    """A point in a stream of one device, for which the streams of others can wait."""

    def record(self) -> None:
        """Put it behind everything in the current stream, which is one of its device."""

    def wait(self) -> None:
        """Have what is queued in the current stream from now on wait until it has been passed."""


class SeveralToolkit(CudaToolkit):
    """A toolkit that can open the other GPUs of its kind."""

    @abstractmethod
    def mark(self) -> Mark:
        """Make a mark for streams of the current device."""

    @abstractmethod
    def reaches(self, other: Any) -> bool:
        """Tell whether kernels on this GPU may read and write what is on another one."""

    @abstractmethod
    def copy(self, to: Any, values: Any) -> None:
        """Queue, in the current stream, a copy of a device array into one of as many bytes, on whichever GPUs they are.

        Both are contiguous. Where the two GPUs do not reach each other, it goes through the host.
        """


def links(reached: dict[int, bool], by: str) -> str:
    """Say how the first GPU is linked with the others: ``reached`` has their numbers, ``by`` names the direct link."""
    far = [str(number) for number, direct in reached.items() if not direct]
    if not far:
        return f"{PEER}, {by}" if by else PEER
    if len(far) == len(reached):
        return HOST
    return f"{PEER}; {HOST}: 0 with {', '.join(far)}"
