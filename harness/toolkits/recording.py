"""A toolkit that compiles and computes nothing: it records which kernels a variant asks for, and how it launches them.

It needs no device and no library. What it records is what a compiler is given that builds a kernel ahead.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gravbench.model.interaction import Interaction
from gravbench.model.variant import Dtype, Kernel, Source
from gravbench.toolkits.jobs import Job


@dataclass(frozen=True, slots=True)
class RecordedKernel:
    """A kernel that a variant asks for: the function's name and the constants that it is compiled with.

    ``threads`` are those of a block, None where it was not launched. ``launch`` has the arguments of its first launch,
    the grid and the block among them; it is empty before that.
    """

    stem: str
    constants: tuple[tuple[str, int], ...]
    threads: int | None = None
    launch: tuple[Any, ...] = field(default=(), compare=False, repr=False)

    def job(self, source: Source, real: type[np.floating[Any]], interaction: Interaction) -> Job:
        """Return what a compiler is given for this kernel of ``source``."""
        # What is written for tiles has a grid and no threads.
        grid_and_block = [argument for argument in self.launch if not isinstance(argument, np.ndarray | np.generic)]
        arguments = self.launch[len(grid_and_block) :]
        block = grid_and_block[1] if len(grid_and_block) > 1 else 0
        threads = prod(extents(block))
        return Job(source, self.stem, dict(self.constants), real, interaction, threads, arguments)


def extents(given: Any) -> tuple[int, ...]:
    """Return the extents of a grid or a block of a launch, which may be given as one number."""
    return tuple(map(int, given)) if isinstance(given, tuple) else (int(given),)


class RecordingToolkit:
    """Stands in for a toolkit on a device of ``multiprocessors``.

    ``kernels`` are those that were asked for, and ``launched`` the stem and the arguments of every launch.
    """

    def __init__(self, dtype: Dtype, interaction: Interaction, multiprocessors: int = 132) -> None:
        """Nothing has been recorded yet."""
        self.real: type[np.floating[Any]] = np.float32 if dtype == "float32" else np.float64
        self.interaction = interaction
        self.multiprocessors = multiprocessors
        self.kernels: list[RecordedKernel] = []
        self.launched: list[tuple[str, tuple[Any, ...]]] = []

    def upload(self, values: Any) -> NDArray[Any]:
        """Return them on the host, as contiguous ``real``."""
        return np.ascontiguousarray(values, self.real)

    def empty(self, *shape: int) -> NDArray[Any]:
        """Make an array filled with NaN."""
        return np.full(shape, np.nan, self.real)

    def host_array(self, shape: int | tuple[int, ...], dtype: Any, *, pinned: bool) -> NDArray[Any]:  # noqa: ARG002
        """Make an array that is not filled."""
        return np.empty(shape, dtype)

    def device_array(self, shape: int | tuple[int, ...], dtype: Any) -> NDArray[Any]:
        """Make an array that is not filled."""
        return np.empty(shape, dtype)

    def stream(self) -> None:
        """There are no queues."""

    def synchronize(self) -> None:
        """There is nothing to wait for."""

    def wait(self, stream: None = None) -> None:
        """There is nothing to wait for."""

    def send(self, array: Any, values: NDArray[Any], stream: None) -> None:
        """Copy nothing: what computes is not there."""

    def fetch(self, values: NDArray[Any], array: Any, stream: None) -> None:  # noqa: ARG002
        """Fill with zeros."""
        values[...] = 0

    def copy(self, to: Any, values: Any) -> None:
        """Copy nothing: there is one device."""

    def argsort(self, keys: NDArray[Any]) -> NDArray[np.int64]:
        """Return places that are all the first."""
        return np.zeros(len(keys), np.int64)

    def captured(self, launch: Callable[[], None]) -> Callable[[], None]:
        """Launch once, and then each time anew."""
        launch()
        return launch

    def devices(self, count: int) -> list[RecordingToolkit]:
        """Let this one stand for all GPUs."""
        return [self] * count

    def current(self) -> AbstractContextManager[None]:
        """Change nothing: there is one."""
        return nullcontext()

    def mark(self) -> RecordingToolkit:
        """Stand for a mark in a stream, too."""
        return self

    def record(self) -> None:
        """There are no queues."""

    def reaches(self, other: Any) -> bool:  # noqa: ARG002
        """There is one, which reaches itself."""
        return True

    def compile(self, stem: str, /, **constants: int) -> Kernel:
        """Record the kernel; what is returned records its launches."""
        place = len(self.kernels)
        self.kernels.append(RecordedKernel(stem, tuple(constants.items())))

        def launch(*arguments: Any, **_: Any) -> None:
            self.launched.append((stem, arguments))
            if not self.kernels[place].launch:
                self.kernels[place] = replace(self.kernels[place], launch=arguments)

        return launch
