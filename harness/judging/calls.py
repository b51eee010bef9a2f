"""What the judge and the process that launches have in common: a launch, and what a device does with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol


class Call(NamedTuple):
    """One launch for n bodies; ``arguments`` are names of arrays, ``eps2``, and numbers."""

    kernel: str
    grid: tuple[int, int]
    block: tuple[int, int]
    shared: int
    arguments: tuple[str | int | float, ...]


class FaultError(Exception):
    """A launch ended with a fault; nothing more can be launched by this process."""


class RefusedError(Exception):
    """The binary, a kernel or a launch is not accepted; the message says why."""


class Device(Protocol):
    """What launches: an array is a number of bytes between two guards of ``guard`` bytes each."""

    def load(self, code: bytes, kernels: Sequence[str], precision: str) -> dict[str, Any]:
        """Load a binary, or compile a text; return what the device says of itself and of each kernel."""

    def allocate(self, sizes: Mapping[str, int], guard: int) -> None:
        """Replace all arrays."""

    def write(self, name: str, content: memoryview) -> None:
        """Fill an array and its guards."""

    def read(self, name: str) -> bytes:
        """Return an array and its guards."""

    def run(self, calls: Sequence[Call]) -> None:
        """Launch in their order, and wait until all have ended."""

    def time(self, calls: Sequence[Call], hold_microseconds: int) -> dict[str, float | bool]:
        """Launch in their order, and time all of them together; see ``gravbench.judging.timing``."""
