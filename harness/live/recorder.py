"""A toolkit that records what an evaluation is for WebGPU: buffers and what they hold first, kernels, dispatches.

It has no device and computes nothing. What it records, the page does in a browser.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gravbench.errors import InputError
from gravbench.model.bodies import Bodies
from gravbench.model.interaction import Interaction
from gravbench.model.variant import Kernel
from gravbench.toolkits.recording import RecordingToolkit

NOTHING, ZEROS = "nothing", "zeros"
"""What a buffer holds first that holds no numbers of the bodies: the page fills the former with NaN."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """An array of ``length`` float32. ``holds``: rows, x, y, z or mass of the bodies, ``ZEROS`` or ``NOTHING``."""

    length: int
    holds: str


@dataclass(frozen=True, slots=True)
class Dispatch:
    """``grid`` blocks of ``threads`` each.

    ``kernel`` is the place among the toolkit's, ``buffers`` the places of those that are bound, in their order, and
    ``numbers`` the types and values of the uniform behind its first number.
    """

    kernel: int
    grid: int
    threads: int
    buffers: tuple[int, ...]
    numbers: tuple[tuple[str, float], ...]


class BufferRecorder(RecordingToolkit):
    """Stands in for WebGPU in float32; ``buffers``, ``kernels`` and ``dispatches`` are what a variant made with it."""

    def __init__(self, bodies: Bodies, gravity: Interaction) -> None:
        """Nothing has been recorded yet."""
        super().__init__("float32", gravity)
        self.bodies = bodies
        self.buffers: list[Buffer] = []
        self.dispatches: list[Dispatch] = []
        self._arrays: list[NDArray[Any]] = []

    def upload(self, values: Any) -> NDArray[Any]:
        """Record a buffer that holds numbers of the bodies, or zeros.

        Raises:
            InputError: it holds others, which the page could not make.
        """
        array = np.array(values, self.real)
        if not array.any():
            return self._added(array, ZEROS)
        contents = self._contents().items()
        holds = next((name for name, known in contents if np.array_equal(array.ravel(), known.ravel())), None)
        if holds is None:
            raise InputError(f"a buffer of {array.size:,} numbers that are neither zeros nor numbers of the bodies")
        return self._added(array, holds)

    def empty(self, *shape: int) -> NDArray[Any]:
        """Record a buffer that holds nothing yet; what is returned takes no memory."""
        return self._added(np.broadcast_to(self.real(np.nan), shape), NOTHING)

    def compile(self, stem: str, /, **constants: int) -> Kernel:
        """Record a kernel; what is returned records its dispatches."""
        place = len(self.kernels)
        super().compile(stem, **constants)
        return partial(self._dispatch, place)

    def place_of(self, array: Any) -> int:
        """Return the place of the buffer that an array stands for."""
        return next(place for place, known in enumerate(self._arrays) if known is array)

    def _contents(self) -> dict[str, NDArray[Any]]:
        """Return what a buffer may hold of the bodies, by name."""
        bodies = self.bodies
        rows = self.interaction.rows(bodies.position, bodies.velocity, bodies.mass)
        columns = dict(zip(("x", "y", "z", "mass"), (*bodies.position.T, bodies.mass), strict=True))
        return {name: np.asarray(values, self.real) for name, values in {"rows": rows, **columns}.items()}

    def _added(self, array: NDArray[Any], holds: str) -> NDArray[Any]:
        self.buffers.append(Buffer(array.size, holds))
        self._arrays.append(array)
        return array

    def _dispatch(self, kernel: int, grid: int, block: int | tuple[int, int], *arguments: Any, **_: Any) -> None:
        threads = prod(block) if isinstance(block, tuple) else int(block)
        buffers = tuple(self.place_of(value) for value in arguments if isinstance(value, np.ndarray))
        numbers = tuple(
            ("i32" if isinstance(value, np.integer) else "f32", value.item())
            for value in arguments
            if not isinstance(value, np.ndarray)
        )
        self.dispatches.append(Dispatch(kernel, int(grid), threads, buffers, numbers))
